//! The survey's reading: from a record to findings.

use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Finding, Refused, Report, Value, Warning};
use fathom_analysis::interval::{Interval, median, median_interval};
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::{Pages, Worth};
use fathom_probe::wire::{OrderKind, PatternKind};

use super::curves::{At, Pair, Scale, believable, is_tlb, read_pairs, read_staircase, tlb_steps};
use super::{NAME, claims};
use crate::disturbance::{self, Disturbance};
use crate::record::Record;

/// Every warning that a survey can give: token and what it says.
pub const WARNINGS: &[(&str, &str)] = &[
    ("disturbed", "other work disturbed the measurement"),
    ("no-huge-pages", "the staircase was measured in base pages: translation is part of it"),
    ("last-tier-open", "the curve had not ended on a plateau at the largest working set"),
    ("short-budget", "the budget ended before every capacity was as narrow as promised"),
    ("interrupted", "the session ended before its plan did"),
    ("unproven", "samples did not prove their work and were left out"),
    ("damaged-record", "lines of the record could not be read"),
    ("clock", "the probe's clock is not worth these findings"),
    ("claims", "a source's claims contradict each other or themselves"),
];

/// A number without interval.
pub(super) fn number(name: impl Into<String>, value: f64, unit: &'static str) -> Finding {
    Finding {
        name: name.into(),
        value: Value::Number(value),
        unit,
        low: None,
        high: None,
        count: 0,
        trials: Vec::new(),
        notes: Vec::new(),
    }
}

/// A word.
pub(super) fn text(name: impl Into<String>, value: &str) -> Finding {
    Finding { value: Value::Text(value.to_owned()), ..number(name, 0.0, "") }
}

fn measured(
    name: impl Into<String>,
    i: Interval,
    unit: &'static str,
    count: usize,
    trials: &[u64],
) -> Finding {
    let mut finding = number(name, i.value, unit);
    (finding.low, finding.high) = (Some(i.low), Some(i.high));
    finding.count = count as u64;
    finding.trials = trials.to_vec();
    finding
}

/// Bytes as people say them: `48 KiB`, `2 MiB`, `1.5 MiB`.
pub(super) fn size(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b >= 1024.0 * 1024.0 * 1024.0 => (b / 1024.0 / 1024.0 / 1024.0, "GiB"),
        b if b >= 1024.0 * 1024.0 => (b / 1024.0 / 1024.0, "MiB"),
        b if b >= 1024.0 => (b / 1024.0, "KiB"),
        b => (b, "bytes"),
    };
    let digits = if value >= 100.0 || (value - value.round()).abs() < 0.005 { 0 } else { 1 };
    format!("{value:.digits$} {unit}")
}

/// Reads a record. Everything that is shown follows from the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let run = record.run.clone().unwrap_or_default();
    let mut report = Report {
        experiment: NAME.to_owned(),
        subject: run.subject,
        worth: record.worth.map_or("emulated", Worth::token).to_owned(),
        facts: shown_facts(record),
        seed: run.seed,
        elapsed_s: record.end.as_ref().map_or(0.0, |e| e.elapsed_ms as f64 / 1000.0),
        ..Report::default()
    };
    session(record, &mut report);
    if believable(record) {
        measurements(record, &mut report);
    } else {
        refuse_all(record, &mut report);
    }
    report
}

/// Facts worth a line in the report's head.
fn shown_facts(record: &Record) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for name in ["machine.name", "env.cpu.model", "env.board", "env.kernel", "clock.name", "worth.evidence"] {
        if let Some(value) = record.text(name) {
            facts.push((name.to_owned(), value.to_owned()));
        }
    }
    for name in ["page.base", "page.huge", "cpu.pinned"] {
        if let Some(value) = record.int(name) {
            facts.push((name.to_owned(), value.to_string()));
        }
    }
    facts
}

/// What the session itself went through.
fn session(record: &Record, report: &mut Report) {
    let mut warn = |token: &'static str, text: String, remedy: &str| {
        report.warnings.push(Warning { token, text, remedy: remedy.to_owned() });
    };
    if record.end.as_ref().is_none_or(|e| e.status != "complete") {
        let status = record.end.as_ref().map_or("cut off", |e| e.status.as_str());
        warn("interrupted", format!("the session was {status} before its plan ended"), "run it again");
    }
    let cheated: usize = record.trials.iter().map(|r| r.cheated).sum();
    if cheated > 0 {
        warn(
            "unproven",
            format!("{cheated} samples did not end where their loads lead; they are left out"),
            "this is a fault of the probe or the machine: please report it with the record",
        );
    }
    if !record.problems.is_empty() {
        warn(
            "damaged-record",
            format!(
                "{} lines of the record could not be read; the first: {}",
                record.problems.len(),
                record.problems[0]
            ),
            "the findings rest on the other lines",
        );
    }
    for fault in &record.faults {
        report.refusals.push(Refused { what: "a line".into(), reason: fault.clone(), remedy: String::new() });
    }
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for run in &record.trials {
        if let Some((reason, remedy)) = &run.refusal
            && !seen.contains(&(reason, remedy))
        {
            seen.push((reason, remedy));
            report.refusals.push(Refused {
                what: format!(
                    "trial {}: {} of {}",
                    run.trial.id,
                    run.trial.pattern.token(),
                    size(run.trial.bytes as f64)
                ),
                reason: reason.clone(),
                remedy: remedy.clone(),
            });
        }
    }
}

fn refuse_all(record: &Record, report: &mut Report) {
    let evidence = record.text("worth.evidence").unwrap_or("the subject says so");
    report.refusals.push(Refused {
        what: "tiers, TLBs and every latency".into(),
        reason: format!(
            "the probe runs on an emulator ({evidence}): its times are those of the emulator on its own host, \
             not of the machine it shows"
        ),
        remedy: "run it on the machine itself, or describe the machine and use --on".into(),
    });
    report.findings.extend(claims::rows(&decode(&record.facts)));
}

fn measurements(record: &Record, report: &mut Report) {
    let scale = Scale::of(record);
    let staircase = scale.staircase(record);
    let pairs = scale.pairs(record);
    let translation = scale.translation(&pairs);
    let stairs = read_staircase(&staircase, &translation, scale.share);
    let decoded = decode(&record.facts);
    let disturbance = disturbance::judge(record, scale.cycle_ticks.as_slice(), &repeats(&staircase));
    disturbed_row(&disturbance, report);
    clocks(record, &scale, report);
    if let Some(stairs) = &stairs {
        tiers(stairs, &scale, &staircase, report);
        open_ends(stairs, &scale, record, report);
        if let Some(&(bytes, ns)) = translation.last() {
            let mut row = number("bias.walk", ns, "ns");
            row.count = pairs.last().map_or(0, |p| p.spread.values().len() as u64);
            row.notes.push(format!(
                "translation in a load of the staircase's steps from {} on; subtracted from the tiers, not from the steps",
                size(bytes)
            ));
            report.findings.push(row);
        }
    } else {
        report.refusals.push(Refused {
            what: "tiers".into(),
            reason: format!("only {} points of the staircase were measured", staircase.len()),
            remedy: "give it a larger --budget".into(),
        });
    }
    tlbs(&pairs, &scale, stairs.as_ref(), report);
    orders(record, &scale, report);
    report.findings.extend(claims::rows(&decoded));
    if let Some(stairs) = &stairs {
        report.findings.extend(claims::verdicts(&decoded, stairs, record.worth, disturbance.disturbed));
    }
    for sentence in fathom_analysis::claims::disagreements(&decoded.claims).iter().chain(&decoded.complaints)
    {
        report.warnings.push(Warning { token: "claims", text: sentence.clone(), remedy: String::new() });
    }
    for at in &staircase {
        steps(at, report);
    }
    for pair in &pairs {
        let mut row = number(format!("pages.{}.extra", pair.pages), pair.extra, "ns");
        row.count = pair.spread.values().len() as u64;
        row.trials = pair.spread.trials.iter().chain(&pair.packed.trials).copied().collect();
        report.findings.push(row);
    }
}

/// Medians of the trials of each point that was measured more than once.
fn repeats(staircase: &[At]) -> Vec<Vec<f64>> {
    staircase
        .iter()
        .map(|a| a.steady.iter().filter_map(|g| median(g)).collect::<Vec<f64>>())
        .filter(|m| m.len() > 1)
        .collect()
}

fn disturbed_row(disturbance: &Disturbance, report: &mut Report) {
    let mut row = text("disturbed", if disturbance.disturbed { "yes" } else { "no" });
    row.count = disturbance.trials;
    row.notes.clone_from(&disturbance.causes);
    report.findings.push(row);
    if disturbance.disturbed {
        report.warnings.push(Warning {
            token: "disturbed",
            text: format!("the measurement was disturbed: {}", disturbance.causes.join("; ")),
            remedy: disturbance.remedy.clone(),
        });
    }
}

fn clocks(record: &Record, scale: &Scale, report: &mut Report) {
    let back_to_back: Vec<f64> = record
        .of(PatternKind::Clock)
        .flat_map(|r| r.samples.iter().map(|s| s.ticks2 as f64 / r.trial.loads as f64).collect::<Vec<_>>())
        .collect();
    if let Some(i) = median_interval(&back_to_back) {
        let mut row = measured("bias.timer", i, "ticks", back_to_back.len(), &[]);
        row.notes.push("in every timed interval; cancels between n and 2n loads".into());
        report.findings.push(row);
    }
    let mut tick = number("clock.tick_hz", 1e9 / scale.tick_ns, "Hz");
    tick.count = 1;
    tick.notes.push("as the probe states or calibrates it; its doubt is the fact clock.hz.ppm".into());
    report.findings.push(tick);
    let hz: Vec<f64> = scale.cycle_ticks.iter().map(|c| 1e9 / (c.2 * scale.tick_ns)).collect();
    if let Some(i) = median_interval(&hz) {
        let mut trials: Vec<u64> = scale.cycle_ticks.iter().map(|c| c.1).collect();
        trials.dedup();
        let mut row = measured("clock.core_hz", i, "Hz", hz.len(), &trials);
        row.notes.push(
            "calibrated by a chain of dependent single-cycle operations at both ends of every round".into(),
        );
        report.findings.push(row);
    }
}

fn tiers(stairs: &Reading, scale: &Scale, staircase: &[At], report: &mut Report) {
    let cycle_ns = scale.cycle().map(|c| c * scale.tick_ns);
    let mut from = 0.0;
    for (i, tier) in stairs.tiers.iter().enumerate() {
        let n = i + 1;
        let to = tier.capacity.map_or(f64::INFINITY, |c| c.below);
        let on: Vec<&At> =
            staircase.iter().filter(|a| a.bytes as f64 > from && a.bytes as f64 <= to).collect();
        let count = on.iter().map(|a| a.values().len()).sum();
        let trials: Vec<u64> = on.iter().flat_map(|a| a.trials.clone()).collect();
        let mut row = measured(format!("tier.{n}.latency"), tier.latency, "ns", count, &trials);
        if tier.points < 2 {
            row.notes.push("no plateau of its own: from the fit of the whole curve".into());
        }
        if i + 1 == stairs.tiers.len() {
            row.notes.extend(stairs.notes.iter().cloned());
        }
        report.findings.push(row);
        if let Some(cycle) = cycle_ns {
            let name = format!("tier.{n}.latency_cycles");
            report.findings.push(measured(name, tier.latency.scaled(1.0 / cycle), "cycles", count, &trials));
        }
        if let Some(c) = tier.capacity {
            report.findings.push(measured(format!("tier.{n}.capacity"), c.onset, "bytes", count, &trials));
            from = c.onset.value;
        }
    }
}

fn open_ends(stairs: &Reading, scale: &Scale, record: &Record, report: &mut Report) {
    let mut warn = |token: &'static str, text: String, remedy: &str| {
        report.warnings.push(Warning { token, text, remedy: remedy.to_owned() });
    };
    if scale.huge.is_none() {
        let refused = record.trials.iter().find_map(|r| {
            r.refusal.as_ref().filter(|_| r.trial.page == Pages::Huge && r.trial.bytes <= 1 << 20)
        });
        warn(
            "no-huge-pages",
            format!(
                "the staircase was measured in {} pages, a window of {} pages at a time: one translation for every {} loads is part of its steps, and subtracted from its tiers",
                size(scale.base as f64),
                super::WINDOW_PAGES,
                scale.base / super::STEP / 2
            ),
            refused.map_or("", |(_, remedy)| remedy.as_str()),
        );
    }
    if !stairs.flat_end {
        let last = stairs.tiers.last().map_or(0.0, |t| t.latency.value);
        warn(
            "last-tier-open",
            format!(
                "latency was still rising at the largest working set; the last tier's {last:.1} ns is a lower bound"
            ),
            "give it a larger --budget or more free memory",
        );
    }
    let wide: Vec<String> = stairs
        .tiers
        .iter()
        .enumerate()
        .filter_map(|(i, t)| Some((i, t.capacity?)))
        .filter(|(_, c)| c.onset.high / c.onset.low > 1.06)
        .map(|(i, c)| format!("tier {} ({} to {})", i + 1, size(c.onset.low), size(c.onset.high)))
        .collect();
    if !wide.is_empty() {
        warn(
            "short-budget",
            format!("the budget or the noise left these capacities wider than 6 %: {}", wide.join(", ")),
            "give it a larger --budget on a quieter machine",
        );
    }
}

fn tlbs(pairs: &[Pair], scale: &Scale, stairs: Option<&Reading>, report: &mut Report) {
    let Some(reading) = read_pairs(pairs, scale.share) else { return };
    let first = reading.tiers[0].latency.value;
    let count: usize = pairs.iter().map(|p| p.spread.values().len()).sum();
    let trials: Vec<u64> =
        pairs.iter().flat_map(|p| p.spread.trials.iter().chain(&p.packed.trials).copied()).collect();
    let note = format!("base pages of {}", size(scale.base as f64));
    let above = |i: Interval| Interval { value: i.value - first, low: i.low - first, high: i.high - first };
    let steps = tlb_steps(&reading);
    for (i, (capacity, beyond)) in steps.iter().enumerate() {
        let n = i + 1;
        // Entries are whole: the interval's ends round outwards.
        let o = capacity.onset;
        let entries = Interval { value: o.value.floor(), low: o.low.floor(), high: o.high.ceil() };
        let mut row = measured(format!("tlb.{n}.entries"), entries, "", count, &trials);
        row.notes.push(note.clone());
        row.notes.extend(stairs.and_then(|s| leaves_a_tier(o.value, s)));
        report.findings.push(row);
        let mut row = measured(format!("tlb.{n}.penalty"), above(*beyond), "ns", count, &trials);
        row.notes.push("over a load that the first TLB answers".into());
        report.findings.push(row);
    }
    if let Some((_, last)) = steps.last() {
        let mut row = measured("walk.latency", above(*last), "ns", count, &trials);
        row.notes.push("what the last TLB's miss costs".into());
        if let Some(grows) = reading.tiers.iter().filter_map(|t| t.capacity).find(|c| !is_tlb(c)) {
            row.notes.push(format!(
                "grows beyond {:.0} pages, as their page tables leave the caches",
                grows.onset.value
            ));
        }
        report.findings.push(row);
    }
}

/// A sentence where translation begins to cost more at so many pages that their lines and page tables
/// just fill a tier, or the tables alone do: then it may be the tables that leave a cache, and no TLB. A
/// page's line takes a line of 64 bytes, or the room of two where lines are spaced for 128; its descriptor
/// takes eight bytes.
fn leaves_a_tier(pages: f64, stairs: &Reading) -> Option<String> {
    let tier_for = |fits: &dyn Fn(f64) -> bool| {
        stairs
            .tiers
            .iter()
            .filter_map(|t| t.capacity)
            .map(|c| c.onset.value)
            .find(|bytes| fits(pages / bytes))
    };
    let (lines, spaced) = ((super::STEP + DESCRIPTOR) as f64, (super::PAIR_STEP + DESCRIPTOR) as f64);
    let alone = DESCRIPTOR as f64;
    let (what, tier) = tier_for(&|n| n * spaced >= 0.4 && n * lines <= 1.2)
        .map(|tier| ("lines and their page tables", tier))
        .or_else(|| {
            tier_for(&|n| (0.7..=1.7).contains(&(n * alone))).map(|tier| ("pages' descriptors", tier))
        })?;
    Some(format!(
        "{pages:.0} {what} just fill the {} tier: this may be page tables leaving it, not a TLB",
        size(tier)
    ))
}

/// Bytes of a page's descriptor in the tables of every 64-bit architecture.
const DESCRIPTOR: u64 = 8;

fn orders(record: &Record, scale: &Scale, report: &mut Report) {
    let page = scale.pages();
    let mut random = None;
    for &order in OrderKind::ALL {
        let at = scale.chases(record, order, page);
        let Some(at) = at.last() else { continue };
        let Some(i) = median_interval(&at.values()) else { continue };
        let name = format!("prefetch.{}.time", order.token());
        let mut row = measured(name, i, "ns", at.values().len(), &at.trials);
        row.notes.push(format!("{} in {} pages", size(at.bytes as f64), page.token()));
        report.findings.push(row);
        if order == OrderKind::Random {
            random = Some(at.clone());
        }
    }
    if page == Pages::Huge
        && let Some(huge) = random
        && let Some(base) =
            scale.chases(record, OrderKind::Random, Pages::Base).iter().find(|a| a.bytes == huge.bytes)
    {
        let share = 1.0 - huge.time() / base.time();
        let mut row = number("walk.share", share, "");
        row.count = base.values().len() as u64;
        row.trials = base.trials.iter().chain(&huge.trials).copied().collect();
        row.notes.push(format!(
            "random over {}: {:.1} ns a load in base pages, {:.1} ns in huge pages",
            size(huge.bytes as f64),
            base.time(),
            huge.time()
        ));
        report.findings.push(row);
    }
}

fn steps(at: &At, report: &mut Report) {
    let values = at.values();
    if let Some(i) = median_interval(&values) {
        let name = format!("latency.{}.time", at.bytes);
        report.findings.push(measured(name, i, "ns", values.len(), &at.trials));
    }
    if let Some(i) = median_interval(&at.cycles) {
        let name = format!("latency.{}.cycles", at.bytes);
        report.findings.push(measured(name, i, "cycles", at.cycles.len(), &at.trials));
    }
}
