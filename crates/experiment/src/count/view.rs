//! The report of `fathom count`: times, what the kernel accounts, events of the processor by question.

use fathom_analysis::findings::{Axis, Finding, Metric, Report, WarningKind};
use fathom_analysis::metrics::count as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};
use fathom_report::rows::show_rest;

use super::OF_THE_KERNEL;

mod over_time;
mod regions;
mod simulated;

/// Questions, with the events that answer them.
const QUESTIONS: [(&str, &[&str]); 6] = [
    (simulated::WORK, &["instructions", "cycles"]),
    (simulated::CACHES, &["L1-dcache-loads", "L1-dcache-load-misses", "LLC-loads", "LLC-load-misses"]),
    (simulated::TRANSLATION, &["dTLB-load-misses", "iTLB-load-misses"]),
    (
        simulated::INSTRUCTIONS,
        &["L1-icache-load-misses", "branches", "branch-misses", "stalled-cycles-frontend"],
    ),
    (simulated::WAITS, &["stalled-cycles-backend"]),
    ("What the kernel does for it", &OF_THE_KERNEL),
];

/// Renders the whole report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    table(
        page,
        &mut index,
        "Time of a run",
        &[
            ("from start to end", &metrics::WALL),
            ("CPU time", &metrics::CPU),
            ("in user space", &metrics::USER),
            ("in the kernel", &metrics::SYSTEM),
        ],
    );
    if report.find(&metrics::USER).is_some() {
        let text = "Many kernels divide CPU time into both by ticks of their timer: then the parts of a short run are coarse, and only their \
                sum is exact.";
        page.text(TextRole::Dim, text, "", "  ");
    }
    table(
        page,
        &mut index,
        "What the kernel accounts for a run",
        &[
            ("minor page faults", &metrics::MINOR_FAULTS),
            ("major page faults (needed I/O)", &metrics::MAJOR_FAULTS),
            ("voluntary context switches (waits)", &metrics::VOLUNTARY),
            ("involuntary context switches", &metrics::INVOLUNTARY),
        ],
    );
    table(page, &mut index, "Rate", &[("instructions per cycle", &metrics::PER_CYCLE)]);
    over_time::section(page, report, &mut index);
    regions::section(page, report, &mut index);
    events(page, report, &mut index);
    simulated::section(page, report, &mut index);
    explained(page, report, &mut index);
    table(
        page,
        &mut index,
        "Cost of counting",
        &[("CPU time, counted over uncounted, less 1", &metrics::COUNTING_COST)],
    );
    show_rest(page, index, &[]);
}

fn table(page: &mut Page, index: &mut FindingIndex, heading: &str, all: &[(&'static str, &'static Metric)]) {
    let row = |(name, metric): &(&str, &'static Metric)| {
        let finding = index.one(*metric)?;
        let [value, interval] = number::cells(Some(finding));
        let runs = if finding.low.is_some() { finding.count.to_string() } else { String::new() };
        Some(vec![(*name).to_owned(), value, interval, finding.unit.to_owned(), runs])
    };
    let rows: Vec<Vec<String>> = all.iter().filter_map(row).collect();
    if !rows.is_empty() {
        page.heading(heading);
        page.table(&[left("what"), measured("value"), INTERVAL, left("unit"), right("runs")], &rows, &[]);
    }
}

fn explained(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let parts: [(&str, &'static Metric); 6] = [
        ("farther caches", &metrics::EXPLAINED_CACHES),
        ("caches or memory", &metrics::EXPLAINED_EITHER),
        ("memory", &metrics::EXPLAINED_MEMORY),
        ("translation", &metrics::EXPLAINED_TRANSLATION),
        ("all misses", &metrics::EXPLAINED),
        ("the rest: instructions, hits", &metrics::UNEXPLAINED),
    ];
    let simulated = index.one(&metrics::WAITS);
    let counted = |event: &str| report.find(metrics::COUNT.at([event.into()]));
    let cycles = counted("cycles").or_else(|| cycles_of_table(report));
    let all = cycles.and_then(Finding::finite).filter(|cycles| *cycles > 0.0);
    let row = |name: &str, f: Option<&Finding>| {
        let share = all.zip(f?.finite()).map(|(all, part)| format!("{:.1} %", 100.0 * part / all));
        let [value, interval] = number::cells(f);
        Some(vec![name.to_owned(), value, interval, share.unwrap_or_default()])
    };
    let mut rows: Vec<Vec<String>> =
        parts.iter().filter_map(|(name, metric)| row(name, index.one(*metric))).collect();
    if rows.is_empty() && simulated.is_none() {
        return;
    }
    let others = [
        ("beside: stalls of the core", counted("stalled-cycles-backend")),
        ("beside: waits in the simulation", simulated),
        ("beside: all cycles", cycles),
    ];
    rows.extend(others.into_iter().filter_map(|(name, f)| row(name, f)));
    let times = if simulated.is_some() { "the description" } else { "this machine" };
    page.heading(&format!("Cycles that load misses would take, by access times of {times}"));
    // Of the description, the ends are those of its latencies.
    let ends = if simulated.is_some() { right("range") } else { INTERVAL };
    let columns = [left("served by"), measured("cycles"), ends, right("share of all")];
    page.table(&columns, &rows, &[]);
    let text = match simulated {
        Some(_) => {
            "What the counted misses would take one at a time, by the latencies of the description: times that nobody measured here. \
             An event that counts stores or instructions too has them in it."
        }
        None => {
            "What the counted misses of loads would take one at a time, with nobody else at the memory. A core that overlaps \
             misses waits less; a busy memory takes longer; stores, misses of instructions and other nodes' memory are not in it."
        }
    };
    page.text(TextRole::Dim, text, "", "  ");
}

/// Returns the cycles that a simulation counted as an event.
fn cycles_of_table(report: &Report) -> Option<&Finding> {
    let is = |f: &&Finding| {
        f.is(&metrics::ENTRY_COUNT)
            && f.detail.word(metrics::EVENT_OF) == Some(fathom_events::Quantity::Cycles.token())
    };
    report.findings.iter().find(is)
}

fn events(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let columns = [&metrics::COUNT, &metrics::PER_THOUSAND, &metrics::SHARE];
    let rows = index.rows(columns, &[Axis::Event]);
    if rows.is_empty() {
        return;
    }
    let row_of = |name: &&str| {
        let row = rows.iter().find(|row| row.word(Axis::Event) == **name)?;
        let [count, per_thousand, share] = row.of;
        let [value, interval] = number::cells(count);
        let [ratio, share] = [per_thousand, share].map(|f| number::cells(f)[0].clone());
        let runs = count.map(|f| f.count.to_string()).unwrap_or_default();
        Some(vec![(**name).to_owned(), value, interval, ratio, share, runs])
    };
    for (question, names) in QUESTIONS {
        let lines: Vec<Vec<String>> = names.iter().filter_map(row_of).collect();
        if lines.is_empty() {
            continue;
        }
        page.heading(question);
        let columns = [
            left("event").key(),
            measured("count"),
            INTERVAL,
            right("per 1000 instructions"),
            right("share of the loads"),
            right("runs"),
        ];
        page.table(&columns, &lines, &[]);
    }
    let with_kernel = report.warnings.iter().any(|warning| warning.kind == WarningKind::KernelCounted);
    let space = if with_kernel { "In user space and in the kernel" } else { "In user space only" };
    let text = format!(
        "{space}, of the program and of what it starts. The names are those of perf-list(1); the processor determines what exactly \
         each event counts (fathom events)."
    );
    page.text(TextRole::Dim, &text, "", "  ");
}

#[cfg(test)]
mod tests {
    use fathom_analysis::findings::tokens;

    use super::*;

    #[test]
    fn every_event_answers_one_question() {
        for event in tokens::EVENT.values {
            let answers = QUESTIONS.iter().flat_map(|(_, events)| *events).filter(|name| *name == event);
            assert_eq!(answers.count(), 1, "{event}");
        }
    }
}
