//! The survey's reading: from a record to findings.

use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Refused, Report, Warning};
use fathom_analysis::hierarchy::MAYBE_TABLES;
use fathom_analysis::interval::{Interval, median, median_interval};
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::Pages;
use fathom_probe::wire::OrderKind;

use super::curves::{Stairs, is_tlb, tlb_steps};
use super::{NAME, claims};
use crate::common::claims::rows;
use crate::common::scale::{At, Scale, believable, no_huge_pages};
use crate::disturbance;
use crate::geometry;
use crate::reading::{begun, clocks, disturbed_row, measured, number, refuse_all, size};
use crate::record::Record;

/// Reads a record. Everything that is shown follows from the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = begun(record, NAME);
    if believable(record) {
        measurements(record, &mut report);
    } else {
        refuse_all(record, "tiers, TLBs and every latency", &mut report);
    }
    report
}

fn measurements(record: &Record, report: &mut Report) {
    let scale = Scale::of(record);
    let all = Stairs::of(record, &scale);
    let Stairs { staircase, pairs, translation, reading: stairs, .. } = &all;
    let decoded = decode(&record.facts);
    let disturbance = disturbance::judge(record, scale.cycle_ticks.as_slice(), &repeats(staircase));
    disturbed_row(&disturbance, report);
    clocks(record, &scale, report);
    if let Some(stairs) = stairs {
        tiers(&all, &scale, report);
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
    let levels = geometry::read(record, &scale, &all, super::deep(record), report);
    orders(record, &scale, report);
    report.findings.extend(rows(&decoded));
    report.findings.extend(geometry::rows::verdicts(&decoded, &levels, scale.base));
    if let Some(stairs) = stairs {
        report.findings.extend(claims::verdicts(&decoded, stairs, record.worth, disturbance.disturbed));
    }
    for sentence in fathom_analysis::claims::disagreements(&decoded.claims).iter().chain(&decoded.complaints)
    {
        report.warnings.push(Warning { token: "claims", text: sentence.clone(), remedy: String::new() });
    }
    for at in staircase {
        steps(at, report);
    }
    for pair in pairs {
        let mut row = number(format!("pages.{}.extra", pair.pages), pair.extra, "ns");
        row.count = pair.spread.values().len() as u64;
        row.trials = pair.spread.trials.iter().chain(&pair.packed.trials).copied().collect();
        report.findings.push(row);
    }
}

/// Medians of the trials of each point that was measured more than once.
pub(crate) fn repeats(staircase: &[At]) -> Vec<Vec<f64>> {
    staircase
        .iter()
        .map(|a| a.steady.iter().filter_map(|g| median(g)).collect::<Vec<f64>>())
        .filter(|m| m.len() > 1)
        .collect()
}

/// The rows of the tiers.
pub(crate) fn tiers(all: &Stairs, scale: &Scale, report: &mut Report) {
    let Some(stairs) = &all.reading else { return };
    let cycle_ns = scale.cycle().map(|c| c * scale.tick_ns);
    let mut from = 0.0;
    for (i, tier) in stairs.tiers.iter().enumerate() {
        let n = i + 1;
        let to = tier.capacity.map_or(f64::INFINITY, |c| c.below);
        let on: Vec<&At> =
            all.staircase.iter().filter(|a| a.bytes as f64 > from && a.bytes as f64 <= to).collect();
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
        let refused = no_huge_pages(record);
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

/// The rows of the TLBs' reach.
pub(crate) fn tlbs(all: &Stairs, scale: &Scale, report: &mut Report) {
    let Stairs { pairs, reading: stairs, translated: Some(reading), .. } = all else { return };
    let first = reading.tiers[0].latency.value;
    let count: usize = pairs.iter().map(|p| p.spread.values().len()).sum();
    let trials: Vec<u64> =
        pairs.iter().flat_map(|p| p.spread.trials.iter().chain(&p.packed.trials).copied()).collect();
    let note = format!("base pages of {}", size(scale.base as f64));
    let above = |i: Interval| Interval { value: i.value - first, low: i.low - first, high: i.high - first };
    let steps = tlb_steps(reading);
    for (i, (capacity, beyond)) in steps.iter().enumerate() {
        let n = i + 1;
        // Entries are whole: the interval's ends round outwards.
        let o = capacity.onset;
        let entries = Interval { value: o.value.floor(), low: o.low.floor(), high: o.high.ceil() };
        let mut row = measured(format!("tlb.{n}.entries"), entries, "", count, &trials);
        row.notes.push(note.clone());
        row.notes.extend(stairs.as_ref().and_then(|s| leaves_a_tier(o.value, s)));
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
pub(crate) fn leaves_a_tier(pages: f64, stairs: &Reading) -> Option<String> {
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
    Some(format!("{pages:.0} {what} just fill the {} tier: {MAYBE_TABLES}", size(tier)))
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
