//! Findings of a simulated program.

use fathom_analysis::findings::{Basis, Finding, Item, Metric, Refused, Report, Warning, WarningKind};
use fathom_analysis::metrics::{common, simulate as metrics};
use fathom_probe::machine::ClockTrust;

use super::NAME;
use crate::reading::{new_report, number};
use crate::record::{Hot, Record, Simulated, SimulatedLevel};

mod calls;
mod guest;
mod overlap;
mod regions;
mod sharing;
mod source;
mod why;

/// Units of a record's times per cycle.
pub(crate) const UNITS_PER_CYCLE: f64 = 4096.0;

/// Reads the report of a record.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    let Some(simulated) = &record.simulated else {
        report.refusals.push(Refused {
            what: "the program".to_owned(),
            reason: "the record has no lines `simulated`".to_owned(),
            remedy: "run the simulation again".to_owned(),
        });
        return report;
    };
    report.trust = ClockTrust::Modelled.token().to_owned();
    totals(simulated, &mut report);
    report.findings.extend(overlap::bound(simulated));
    levels(simulated, &mut report);
    report.findings.extend(sharing::all(simulated));
    translation(simulated, &mut report);
    for (metric, list) in [
        (&metrics::FUNCTION_CYCLES, &simulated.functions),
        (&metrics::LINE_CYCLES, &simulated.lines),
        (&metrics::INSTRUCTION_CYCLES, &simulated.hot_instructions),
    ] {
        let rows = list.iter().zip(1u64..).map(|(hot, rank)| of_hot(metric, hot, rank, simulated));
        report.findings.extend(rows);
    }
    report.findings.extend(source::source(simulated));
    report.findings.extend(regions::regions(simulated));
    report.findings.extend(calls::calls(simulated));
    why::why(simulated, &mut report);
    report.findings.iter_mut().for_each(|finding| finding.basis = Basis::Exact);
    guest::notes(simulated, &mut report);
    doubts(simulated, &mut report);
    report
}

fn cycles(units: u64) -> f64 {
    units as f64 / UNITS_PER_CYCLE
}

/// Returns the time of the program, in units.
fn all_units(simulated: &Simulated) -> u64 {
    let levels = simulated.levels.iter().map(|level| level.units);
    simulated.units.into_iter().chain(levels).fold(0, u64::saturating_add)
}

/// Returns counts by the names of levels.
fn by_level(simulated: &Simulated, counts: &[u64]) -> Item {
    let names = simulated.levels.iter().map(|level| level.name.clone());
    Item::Numbers(names.zip(counts.iter().map(|&count| count as f64)).collect())
}

fn totals(simulated: &Simulated, report: &mut Report) {
    let [loads, stores, fetches] = simulated.accesses;
    let [operations, memory, translation, fetch] = simulated.units;
    let levels: u64 = simulated.levels.iter().map(|level| level.units).sum();
    let all = [operations, memory, translation, fetch, levels].into_iter().map(cycles).sum();
    let mut add = |metric: &'static Metric, value: f64| report.findings.push(Finding::number(metric, value));
    add(&metrics::CYCLES, all);
    add(&metrics::LOADS, loads as f64);
    add(&metrics::STORES, stores as f64);
    if let Some(guest) = &simulated.guest {
        add(&metrics::DEVICE_LOADS, guest.devices[0] as f64);
        add(&metrics::DEVICE_STORES, guest.devices[1] as f64);
    }
    add(&metrics::MEMORY_ACCESSES, simulated.memory as f64);
    add(&metrics::MEMORY_WRITES, simulated.memory_writes as f64);
    add(&metrics::MEMORY_CYCLES, cycles(memory));
    if knows_instructions(simulated) {
        add(&metrics::INSTRUCTIONS, simulated.instructions as f64);
        add(&metrics::FETCHES, fetches as f64);
        add(&metrics::OPERATION_CYCLES, cycles(operations));
        add(&metrics::FETCH_CYCLES, cycles(fetch));
    }
}

/// Returns whether the executed instructions are known: always of a program, and of a trace that has them.
fn knows_instructions(simulated: &Simulated) -> bool {
    simulated.trace.is_empty() || simulated.instructions > 0
}

fn levels(simulated: &Simulated, report: &mut Report) {
    for (level, number_of) in simulated.levels.iter().zip(1u64..) {
        let named = |metric: &'static Metric, value: f64| {
            let mut finding = Finding::number(metric.at([number_of.into()]), value);
            finding.detail.set(metrics::NAME, Item::Token(level.name.clone()));
            finding
        };
        let mut accesses = named(&metrics::LEVEL_ACCESSES, level.accesses as f64);
        accesses.detail.set(metrics::HOLDS, Item::Token(level.holds.clone()));
        report.findings.push(accesses);
        report.findings.push(named(&metrics::LEVEL_MISSES, level.misses as f64));
        if level.accesses > 0 {
            report.findings.push(named(&metrics::LEVEL_SHARE, share(level)));
        }
        report.findings.push(named(&metrics::LEVEL_WRITEBACKS, level.writebacks as f64));
        report.findings.push(named(&metrics::LEVEL_CYCLES, cycles(level.units)));
        let reasons =
            level.reasons.iter().flat_map(|reasons| metrics::LEVEL_REASONS.into_iter().zip(*reasons));
        report.findings.extend(reasons.map(|(metric, count)| named(metric, count as f64)));
        report.findings.extend(sharing::of_level(level).map(|(metric, count)| named(metric, count)));
    }
}

fn share(level: &SimulatedLevel) -> f64 {
    level.misses as f64 / level.accesses as f64
}

fn translation(simulated: &Simulated, report: &mut Report) {
    for (tlb, number_of) in simulated.tlbs.iter().zip(1u64..) {
        for (metric, value) in [(&metrics::TLB_ACCESSES, tlb.accesses), (&metrics::TLB_MISSES, tlb.misses)] {
            let mut finding = Finding::number(metric.at([number_of.into()]), value as f64);
            finding.detail.set(metrics::NAME, Item::Token(tlb.name.clone()));
            report.findings.push(finding);
        }
        let reasons = tlb.reasons.iter().flat_map(|reasons| metrics::TLB_REASONS.into_iter().zip(*reasons));
        report.findings.extend(reasons.map(|(metric, count)| {
            let mut finding = Finding::number(metric.at([number_of.into()]), count as f64);
            finding.detail.set(metrics::NAME, Item::Token(tlb.name.clone()));
            finding
        }));
    }
    if !simulated.tlbs.is_empty() {
        report.findings.push(Finding::number(&metrics::WALK_COUNT, simulated.walks as f64));
        report.findings.push(number(&metrics::TRANSLATION_CYCLES, cycles(simulated.units[2]), "cycles"));
    }
}

fn of_hot(metric: &'static Metric, hot: &Hot, rank: u64, simulated: &Simulated) -> Finding {
    let mut finding = Finding::number(metric.at([rank.into()]), cycles(hot.units));
    let detail = &mut finding.detail;
    if !hot.source.is_empty() {
        detail.set(metrics::SOURCE, Item::Token(hot.source.clone()));
    }
    detail.set(metrics::FUNCTION, Item::Token(hot.function.clone()));
    if !hot.file.is_empty() {
        detail.set(metrics::FILE, Item::Token(hot.file.clone()));
    }
    if let Some(of) = hot.instruction {
        detail.set(common::ADDRESS, Item::Token(format!("{:#x}", of.address)));
        detail.set(common::INSTRUCTION_OFFSET, Item::Number(of.offset as f64));
    }
    detail.set(metrics::EXECUTED, Item::Number(hot.executed as f64));
    detail.set(metrics::ACCESSES, Item::Number(hot.accesses as f64));
    detail.set(metrics::MISSES, by_level(simulated, &hot.misses));
    detail.set(metrics::WALKS, Item::Number(hot.walks as f64));
    overlap::set_overlapped(detail, hot.overlapped);
    if let Some(reasons) = &hot.reasons {
        detail.set(metrics::REASONS, why::named(reasons));
    }
    finding
}

/// Adds what limits the results.
pub(crate) fn doubts(simulated: &Simulated, report: &mut Report) {
    if !simulated.refused.is_empty() {
        report.refusals.push(Refused {
            what: "the rest of the program".to_owned(),
            reason: simulated.refused.clone(),
            remedy: "the counts are those until then".to_owned(),
        });
    }
    if !simulated.replaced && !simulated.ended.is_empty() {
        let text = format!("the program did not end with status 0: {}", simulated.ended);
        let remedy = "if that is unexpected, run it without fathom to see why";
        report.warnings.push(Warning::new(WarningKind::ProgramFailed, text, remedy));
    }
    let mut warn = |text: String, remedy: &str| {
        report.warnings.push(Warning::new(WarningKind::Unseen, text, remedy));
    };
    if simulated.replaced {
        let mut text =
            "the counts end with the program: it became another program (exec), which is not simulated"
                .to_owned();
        if !simulated.ended.is_empty() {
            text += &format!(" and ended with {}", simulated.ended);
        }
        warn(text, "simulate the program that does the work: name it, and not its starter");
    }
    if !knows_instructions(simulated) {
        let text = "the trace does not have all instructions: neither their time nor their fetches are in the result";
        warn(text.to_owned(), "compare such results with one another only");
    }
    if !simulated.unfollowed.is_empty() {
        let text =
            format!("blocks of the heap are not told apart, or not all of them: {}", simulated.unfollowed);
        warn(text, "Debian's qemu-user 7.2 tells what is needed; other data is not affected");
    }
    if simulated.unseen > 0 {
        let text = format!(
            "{} executions of DC ZVA are not simulated: QEMU does not tell the line that each of them clears",
            simulated.unseen
        );
        warn(text, "count these lines by hand, or build the program without it");
    }
    for (text, remedy) in regions::unmatched(simulated).into_iter().chain(calls::merged(simulated)) {
        warn(text, remedy);
    }
    if let Some((text, remedy)) = guest::unplaced(simulated) {
        warn(text, remedy);
    }
    if simulated.threads > 1 && simulated.guest.is_none() {
        let text = format!(
            "{} threads: the order of their accesses is that of this run, so another one counts otherwise, and instructions may \
             be missing",
            simulated.threads
        );
        warn(text, "limit the program to one thread for exact counts");
    }
}
