//! Headline of `fathom count`: the time, and what the counters say about it.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::count as metrics;
use fathom_events::Quantity;
use fathom_report::{Headline, number};

use super::OF_THE_KERNEL;
use crate::headline::{figure, headline as of_report, none, sentence};

/// Width of a range, relative to its middle, from which on it is told instead.
const WIDE: f64 = 0.1;

pub(crate) fn headline(report: &Report) -> Headline {
    if report.find(&metrics::WAITS).is_some() {
        return simulated(report);
    }
    let find = |metric| report.find(metric).filter(|finding| finding.finite().is_some());
    let event = |name: &str| report.findings.iter().find(|f| f.key == metrics::COUNT.at([name.into()]));
    let mut quoted: Vec<&Finding> = Vec::new();
    let mut parts: Vec<String> = Vec::new();
    if let (Some(wall), Some(cpu)) = (find(&metrics::WALL), find(&metrics::CPU)) {
        parts.push(format!("a run takes {}, {} of it on a CPU", figure(wall), figure(cpu)));
        quoted.extend([wall, cpu]);
    }
    if let Some(cpus) = find(&metrics::CPUS) {
        let end = |field| cpus.detail.number(field).unwrap_or(0.0);
        parts.push(format!(
            "{:.2} CPUs on average, {:.2} to {:.2} in most slices",
            cpus.finite().unwrap_or(0.0),
            end(metrics::P10),
            end(metrics::P90)
        ));
        quoted.push(cpus);
    }
    if let Some(instructions) = event("instructions") {
        let per_cycle = find(&metrics::PER_CYCLE);
        let rate = per_cycle.map(|f| format!(", {} a cycle", figure(f))).unwrap_or_default();
        parts.push(format!("{:.0} instructions{rate}", instructions.finite().unwrap_or(0.0)));
        quoted.push(instructions);
        quoted.extend(per_cycle);
    }
    let rate = report.findings.iter().find(|f| f.key == metrics::RATE.at(["instructions".into()]));
    if let Some(rate) = rate.filter(|_| event("instructions").is_none()) {
        parts.push(format!("{} instructions a second", number::value(rate).value));
        quoted.push(rate);
    }
    if parts.is_empty() {
        return none(report);
    }
    let of_the_processor =
        |f: &Finding| f.key.word(Axis::Event).is_some_and(|event| !OF_THE_KERNEL.contains(&event.as_str()));
    let uncounted = !report.findings.iter().any(of_the_processor);
    let action = if uncounted {
        "No event of the processor was counted (below): `fathom count --simulated --on MACHINE -- PROGRAM` counts them on described machines"
    } else {
        ""
    };
    of_report(report, &parts.join("; "), &quoted, action)
}

/// Returns the headline of a program that was counted in a simulation.
fn simulated(report: &Report) -> Headline {
    let of = |quantity: Quantity| {
        let is = |f: &&Finding| f.detail.word(metrics::EVENT_OF) == Some(quantity.token());
        report.of(&metrics::ENTRY_COUNT).find(is)
    };
    let Some(cycles) = of(Quantity::Cycles) else { return none(report) };
    let all = cycles.finite().unwrap_or(0.0).max(1.0);
    let instructions = of(Quantity::Instructions);
    let work = instructions.and_then(Finding::finite);
    let work = work.map_or("the program takes".to_owned(), |count| format!("{count:.0} instructions take"));
    let mut answer = format!("{work} {all:.0} cycles of the description");
    if let Some(explained) = report.find(&metrics::EXPLAINED) {
        answer += &format!("; the counted misses explain {} of them", share(explained, all));
    }
    if let Some(translation) = report.find(&metrics::EXPLAINED_TRANSLATION) {
        answer += &format!(", translation {}", share(translation, all));
    }
    Headline {
        answer: sentence(&answer),
        confidence: "Counted exactly in a simulation of the description; not measured on hardware."
            .to_owned(),
        action: String::new(),
        quoted: instructions.into_iter().chain([cycles]).map(|f| f.key.clone()).collect(),
    }
}

/// Returns a part of all cycles: its range if the counted events leave open what served them.
fn share(part: &Finding, all: f64) -> String {
    let value = part.finite().unwrap_or(0.0);
    let ends = [part.low.unwrap_or(value), part.high.unwrap_or(value)];
    let [value, low, high] = [value, ends[0], ends[1]].map(|cycles| 100.0 * cycles / all);
    if high - low > WIDE * value { format!("{low:.0} to {high:.0} %") } else { format!("{value:.0} %") }
}
