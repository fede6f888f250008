//! Findings of a program that was counted in a simulation: the events of the described processor's table.

use fathom_analysis::explained::{AccessTimes, Misses};
use fathom_analysis::findings::{Basis, Finding, Item, Refused, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::count as metrics;
use fathom_events::{Event, Quantity, Term};
use fathom_probe::machine::ClockTrust;

use crate::count::{EVENT_TABLE, explanation};
use crate::record::{Simulated, SimulatedEvent, SimulatedEvents};
use crate::simulate::{UNITS_PER_CYCLE, doubts};

/// An event of the record, and what its table says about it.
struct Counted<'a> {
    number: u64,
    event: &'a SimulatedEvent,
    known: Option<&'static Event>,
}

impl Counted<'_> {
    fn of(&self) -> Option<Quantity> {
        self.known.and_then(|known| known.of)
    }

    /// Returns in which ways its count is not that of the processor.
    fn differs(&self) -> Option<String> {
        let terms = self.known.and_then(|known| known.simulated.ok()).unwrap_or_default();
        let mut all: Vec<&str> = terms.iter().copied().filter_map(Term::differs).collect();
        all.dedup();
        (!all.is_empty()).then(|| all.join(" "))
    }
}

/// Adds the findings of a simulated program.
pub(super) fn read(simulated: &Simulated, report: &mut Report) {
    report.trust = ClockTrust::Modelled.token().to_owned();
    let Some(events) = &simulated.events else {
        report.refusals.push(Refused {
            what: "the events".to_owned(),
            reason: "the record has no line `simulated part=events`".to_owned(),
            remedy: "count them again".to_owned(),
        });
        return;
    };
    report.facts.push((EVENT_TABLE.to_owned(), events.table.clone()));
    let table = fathom_events::table(&events.table);
    let of_code = |code: u64| table?.events.iter().find(|known| u64::from(known.code) == code);
    let counted = |(event, number)| Counted { number, event, known: of_code(event.code) };
    let all: Vec<Counted> = events.all.iter().zip(1..).map(counted).collect();
    all.iter().for_each(|of| report.findings.extend(findings(of, simulated.instructions)));
    report.findings.iter_mut().for_each(|finding| finding.basis = Basis::Exact);
    explained(events, &all, report);
    refused(&all, report);
    doubts(simulated, report);
}

fn findings(of: &Counted, instructions: u64) -> Vec<Finding> {
    let Ok(count) = of.event.count else { return Vec::new() };
    let mut finding = Finding::number(metrics::ENTRY_COUNT.at([of.number.into()]), count as f64);
    finding.detail.set(metrics::EVENT_NAME, Item::Token(of.event.name.clone()));
    finding.detail.set(metrics::EVENT_CODE, Item::Token(format!("{:#04x}", of.event.code)));
    let caveat = of.known.and_then(|known| known.caveat).map(str::to_owned);
    let quantity = of.of().map(|quantity| quantity.token().to_owned());
    for (field, text) in
        [(metrics::EVENT_OF, quantity), (metrics::CAVEAT, caveat), (metrics::DIFFERS, of.differs())]
    {
        if let Some(text) = text {
            finding.detail.set(field, Item::Token(text));
        }
    }
    let mut all = vec![finding];
    if instructions > 0 && of.of() != Some(Quantity::Instructions) {
        let per_thousand = 1000.0 * count as f64 / instructions as f64;
        let mut ratio = Finding::number(metrics::ENTRY_PER_THOUSAND.at([of.number.into()]), per_thousand);
        ratio.detail.set(metrics::EVENT_NAME, Item::Token(of.event.name.clone()));
        all.push(ratio);
    }
    all
}

/// Adds what the events explain by the description's access times, and what the simulation itself accounts for.
fn explained(events: &SimulatedEvents, all: &[Counted], report: &mut Report) {
    let mut waits = Finding::number(&metrics::WAITS, events.waits as f64 / UNITS_PER_CYCLE);
    waits.basis = Basis::Exact;
    report.findings.push(waits);
    let count = |quantity: Quantity| {
        let found = all.iter().find(|of| of.of() == Some(quantity) && of.event.count.is_ok())?;
        found.event.count.clone().ok().map(|count| count as f64)
    };
    let sum = |parts: [Quantity; 2]| Some(count(parts[0])? + count(parts[1])?);
    let nearest =
        count(Quantity::RefillL1D).or_else(|| sum([Quantity::RefillL1DLoad, Quantity::RefillL1DStore]));
    let last = match events.tiers.len() {
        3 => count(Quantity::RefillL2).or_else(|| count(Quantity::RefillLast)),
        4 => count(Quantity::RefillL3).or_else(|| count(Quantity::RefillLast)),
        _ => None,
    };
    let walks = count(Quantity::Walks)
        .or_else(|| sum([Quantity::WalksData, Quantity::WalksInstruction]))
        .or_else(|| count(Quantity::WalksData));
    let misses = walks.is_none().then(|| count(Quantity::RefillTlbData)).flatten();
    let exactly = |value: f64| Interval { value, low: value, high: value };
    let translation = events.translation.map(|[walk, miss]| if walks.is_some() { walk } else { miss });
    let times = AccessTimes {
        tiers: events.tiers.iter().map(explanation::in_cycles).collect(),
        translation: translation.as_ref().map(explanation::in_cycles),
    };
    let Some(nearest) = nearest.filter(|_| times.tiers.len() >= 2).map(exactly) else { return };
    let translations = walks.or(misses).map(exactly);
    let Some(mut explained) = times.explain(&Misses { nearest, last: last.map(exactly), translations })
    else {
        return;
    };
    // Of TLB misses that are no walks, a farther TLB's latency is known: that of the nearest one which has one.
    let refills = count(Quantity::RefillTlbData)
        .or_else(|| sum([Quantity::RefillTlbDataLoad, Quantity::RefillTlbDataStore]));
    if let (Some(walks), Some(refills), Some([_, miss])) = (walks, refills, events.translation) {
        explained.add_translation(exactly((refills - walks).max(0.0) * miss[1] as f64 / 1000.0));
    }
    let mut parts = explanation::findings(&explained, count(Quantity::Cycles).map(exactly), 1);
    for finding in &mut parts {
        finding.basis = Basis::Derived;
        if finding.low == finding.high {
            (finding.low, finding.high) = (None, None);
        }
    }
    report.findings.extend(parts);
}

/// Adds the events that the simulation does not count: those with the same reason together.
fn refused(all: &[Counted], report: &mut Report) {
    let mut left: Vec<(&str, &str)> = all
        .iter()
        .filter_map(|of| Some((&*of.event.name, of.event.count.as_ref().err()?.as_str())))
        .collect();
    while let Some(&(_, why)) = left.first() {
        let (same, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, other)| *other == why);
        let names: Vec<&str> = same.iter().map(|(name, _)| *name).collect();
        report.refusals.push(Refused {
            what: names.join(", "),
            reason: format!("not counted in a simulation: {why}"),
            remedy: "count them on the processor, by their numbers (fathom events): perf stat -e rNN"
                .to_owned(),
        });
        left = others;
    }
}

#[cfg(test)]
mod tests;
