//! Reads a record of the survey into findings.

use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Basis, Finding, Item, Key, Refused, Report, Warning, WarningKind};
use fathom_analysis::interval::{grouped_interval, median_interval};
use fathom_analysis::metrics::claims::CLAIMED;
use fathom_analysis::metrics::{common, latency, survey};
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::OrderKind;
use fathom_units::size;

use super::options::Options;
use super::{NAME, claims, events};
use crate::claims::rows;
use crate::disturbance;
use crate::geometry;
use crate::latency_curve::{Curves, coarse_top, repeats, splinter_rows, tier_rows, unexceeded_claim};
use crate::overlap;
use crate::reading::{clocks, disturbance_rows, measured, new_report, number, refuse_all};
use crate::record::Record;
use crate::scale::{At, Scale, clock_is_usable, no_huge_pages};
use crate::second_thread;
use crate::set_fill;
use crate::window;

/// Reads a record. The report depends on the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    if clock_is_usable(record) {
        measurements(record, &mut report);
    } else {
        refuse_all(record, "tiers, TLBs and every latency", &mut report);
    }
    report
}

fn measurements(record: &Record, report: &mut Report) {
    let scale = Scale::of(record);
    let mut all = Curves::of(record, &scale);
    let is_divided = second_thread::extend(record, &scale, &mut all);
    let Curves { latency_curve, pairs, reading: curves, .. } = &all;
    let decoded = decode(&record.facts);
    let disturbance = disturbance::judge(record, scale.cycle_ticks.as_slice(), &repeats(latency_curve));
    disturbance_rows(&disturbance, report);
    clocks(record, &scale, report);
    if let Some(curves) = curves {
        tier_rows(&all, &scale, report);
        events::rows(record, curves, report);
        long_lines(&scale, report);
        first_loads(record, &scale, report);
        open_ends(&all, curves, &scale, record, report);
        if let Some(claimed) = unexceeded_claim(record, latency_curve) {
            unexceeded(claimed, latency_curve, report);
        }
        subtracted(&all, report);
    } else {
        report.refusals.push(Refused {
            what: "tiers".into(),
            reason: format!("only {} points of the latency curve were measured", latency_curve.len()),
            remedy: "give it a larger --budget".into(),
        });
    }
    splinter_rows(all.splinters.as_ref(), &scale, report);
    let levels = geometry::read(record, &scale, &all, Options::of(record).replacement, report);
    if is_divided {
        second_thread::rows(report);
    }
    overlap::rows(record, &scale, &all, report);
    window::rows(record, &scale, &all, report);
    set_fill::rows(record, &scale, &all, report);
    orders(record, &scale, &all, report);
    report.findings.extend(rows(&decoded));
    report.findings.extend(geometry::rows::verdicts(&decoded, &levels, scale.base));
    if let Some(curves) = curves {
        let scattered = !record.is_modelled() && (!scale.are_in_order() || all.splintered());
        let run = claims::Run { trust: record.trust, disturbed: disturbance.disturbed, scattered };
        report.findings.extend(claims::verdicts(&decoded, curves, run));
    }
    for sentence in fathom_analysis::claims::disagreements(&decoded.claims).iter().chain(&decoded.complaints)
    {
        report.warnings.push(Warning {
            kind: WarningKind::ClaimsConflict,
            text: sentence.clone(),
            remedy: String::new(),
        });
    }
    for at in latency_curve {
        steps(at, report);
    }
    for pair in pairs {
        let mut row = number(survey::TRANSLATION_ADDED.at([pair.pages.into()]), pair.extra, "ns");
        row.basis = Basis::Derived;
        row.count = pair.spread.values().len() as u64;
        row.trials = pair.spread.trials.iter().chain(&pair.packed.trials).copied().collect();
        report.findings.push(row);
    }
}

/// Marks the last tier of a curve that ends before working sets which the largest claimed cache cannot hold.
fn unexceeded(claimed: u64, latency_curve: &[At], report: &mut Report) {
    let Some(last) = latency_curve.last() else { return };
    let (claim, to) = (size(claimed as f64), size(last.bytes as f64));
    let text = format!("a cache of {claim} is claimed, and working sets up to {to} were measured");
    for row in last_latencies(report) {
        row.detail.set(CLAIMED, Item::Number(claimed as f64));
        row.notes.push(format!("{text}: loads may be hits in that cache, and memory slower"));
    }
    let text = format!("{text}: the latency of memory is not in this report");
    let remedy = "give it a larger --budget or more free memory";
    report.warnings.push(Warning::new(WarningKind::PartialRange, text, remedy));
}

/// Marks the last tier of a curve whose largest working sets were not walked before they were timed.
fn first_loads(record: &Record, scale: &Scale, report: &mut Report) {
    let Some(least) = scale.first_loads(record) else { return };
    for row in last_latencies(report) {
        row.notes.push(format!(
            "from {} on, more than twice the largest claimed cache, no lap was walked before: all loads are first loads of their lines",
            size(least as f64)
        ));
    }
}

/// Returns the latencies of the last tier, in ns and in cycles.
fn last_latencies(report: &mut Report) -> impl Iterator<Item = &mut Finding> {
    let tier =
        |row: &Finding| [&survey::TIER_LATENCY, &survey::TIER_LATENCY_CYCLES].contains(&row.key.metric);
    let last = report.findings.iter().rfind(|row| tier(row)).map(|row| row.key.at.clone());
    report.findings.iter_mut().filter(move |row| tier(row) && Some(&row.key.at) == last.as_ref())
}

/// Warns of lines that are longer than the curve's spacing allows.
fn long_lines(scale: &Scale, report: &mut Report) {
    if !scale.untested_long_lines {
        return;
    }
    let text = "working sets take longer with twice the spacing, so lines are longer than 128 bytes, and the budget ended before the curve was measured so: farther tiers may be slower and smaller than said";
    report.warnings.push(Warning::new(WarningKind::BudgetExhausted, text, "give it a larger --budget"));
}

fn open_ends(all: &Curves, curves: &Reading, scale: &Scale, record: &Record, report: &mut Report) {
    let mut warn = |kind, text: String, remedy: &str| report.warnings.push(Warning::new(kind, text, remedy));
    let chosen = match scale.coloured_curve {
        true => " of chosen frames (pages in other frames may begin to miss before a level is full)",
        false => "",
    };
    let curve = || {
        format!(
            "the latency curve was measured in {} pages{chosen}, in windows of {}: its points include one translation per {} loads, which is subtracted from its tiers",
            size(scale.base as f64),
            size(scale.window as f64),
            scale.base / scale.stride / 2
        )
    };
    if let Some(slower) = scale.slower_huge {
        let text = format!(
            "a load that hits in the nearest cache takes {:.2} ns in huge pages and {:.2} ns in base pages; {}",
            slower.huge,
            slower.base,
            curve()
        );
        warn(WarningKind::SlowHugePages, text, "");
    } else if scale.huge.is_none() {
        let refused = no_huge_pages(record);
        warn(WarningKind::NoHugePages, curve(), refused.map_or("", |(_, remedy)| remedy.as_str()));
    }
    if let Some(first) = all.latency_curve.first().filter(|at| at.bytes > MAX_FIRST_BYTES) {
        warn(
            WarningKind::PartialRange,
            format!(
                "the smallest working set measured is {}: nearer tiers, if there are any, are not in this report",
                size(first.bytes as f64)
            ),
            "give it a larger --budget; on a coarse clock each sample takes long",
        );
    }
    let top = coarse_top(record, scale);
    if let Some(last) = all.latency_curve.last().filter(|at| 2 * at.bytes < top) {
        warn(
            WarningKind::PartialRange,
            format!(
                "the largest working set measured is {}, of {} that the plan needs: farther tiers, if there are any, are not in this report",
                size(last.bytes as f64),
                size(top as f64)
            ),
            "give it a larger --budget; on a coarse clock each sample takes long",
        );
    }
    if !curves.flat_end {
        let last = curves.tiers.last().map_or(0.0, |t| t.latency.value);
        warn(
            WarningKind::NoFinalPlateau,
            format!(
                "latency still rises at the largest working set; the last tier's {last:.1} ns is a lower bound"
            ),
            "give it a larger --budget or more free memory",
        );
    }
    wide_intervals(curves, report);
}

/// Warns of capacities whose intervals are wider than promised.
fn wide_intervals(curves: &Reading, report: &mut Report) {
    let wide: Vec<String> = curves
        .tiers
        .iter()
        .enumerate()
        .filter_map(|(i, t)| Some((i, t.capacity?)))
        .filter(|(_, c)| !c.wide_rise && c.onset.high / c.onset.low > 1.06)
        .map(|(i, c)| format!("tier {} ({} to {})", i + 1, size(c.onset.low), size(c.onset.high)))
        .collect();
    if !wide.is_empty() {
        report.warnings.push(Warning::new(
            WarningKind::BudgetExhausted,
            format!("intervals wider than 6 % because of the budget or noise: {}", wide.join(", ")),
            "give it a larger --budget on a quieter machine",
        ));
    }
}

/// Adds the translation that was subtracted from the tiers.
fn subtracted(all: &Curves, report: &mut Report) {
    let Some(&(bytes, ns)) = all.translation.last() else { return };
    let mut row = number(&common::BIAS_WALK, ns, "ns");
    row.basis = Basis::Derived;
    row.count = all.pairs.last().map_or(0, |p| p.spread.values().len() as u64);
    row.notes.push(format!(
        "translation in a load of the latency curve's points from {} on; subtracted from the tiers, not from the points",
        size(bytes)
    ));
    report.findings.push(row);
}

/// Largest first working set of a latency curve whose nearest tier is certain, bytes: the smallest L1 data cache of
/// the machines described here has 4 KiB.
const MAX_FIRST_BYTES: u64 = 4 << 10;

fn orders(record: &Record, scale: &Scale, curves: &Curves, report: &mut Report) {
    let page = scale.pages();
    let mut random = None;
    // Pairs of loads test the lines, over another working set.
    for order in OrderKind::of_single_lines() {
        let at = scale.chases(record, order, page);
        let Some(at) = at.last() else { continue };
        let Some(mut i) = grouped_interval(&at.groups) else { continue };
        let key = survey::PREFETCH_ORDER_TIME.at([order.token().into()]);
        if scale.others {
            // What is prefetched takes what bandwidth others leave, which changes within a session as between sessions: on a Zen 5 guest the
            // medians of ten sessions were 2.0 to 9.4 ns in the order of addresses.
            let of_all = |end: fn(f64, f64) -> f64, from: f64| at.values().iter().copied().fold(from, end);
            (i.low, i.high) = (of_all(f64::min, i.low), of_all(f64::max, i.high));
        }
        let mut row = measured(key, i, "ns", at.values().len(), &at.trials);
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
        if curves.splintered() {
            report.refusals.push(Refused {
                what: Key::from(&survey::WALK_SHARE).name(),
                reason: "huge pages are translated in pieces of base pages, so a time without translation is missing".into(),
                remedy: "in a guest, let the host back its memory with huge pages".into(),
            });
            return;
        }
        let share = 1.0 - huge.time() / base.time();
        if !(0.0..=1.0).contains(&share) {
            report.refusals.push(no_share(&huge, base));
            return;
        }
        let mut row = number(&survey::WALK_SHARE, share, "");
        row.basis = Basis::Derived;
        row.count = base.values().len() as u64;
        row.trials = base.trials.iter().chain(&huge.trials).copied().collect();
        row.notes.push(format!(
            "random over {}: {:.1} ns per load in base pages, {:.1} ns in huge pages",
            size(huge.bytes as f64),
            base.time(),
            huge.time()
        ));
        report.findings.push(row);
    }
}

/// Refuses the share of translation if base and huge pages contradict each other.
fn no_share(huge: &At, base: &At) -> Refused {
    Refused {
        what: Key::from(&survey::WALK_SHARE).name(),
        reason: format!(
            "random loads over {} took {:.1} ns in base pages and {:.1} ns in huge pages: translation in huge \
             pages is never slower, so other work or other memory caused the difference",
            size(huge.bytes as f64),
            base.time(),
            huge.time()
        ),
        remedy: "run it again on a quieter machine, or give it a larger --budget".into(),
    }
}

fn steps(at: &At, report: &mut Report) {
    let values = at.values();
    if let Some(i) = median_interval(&values) {
        let key = latency::LATENCY_TIME.at([at.bytes.into()]);
        report.findings.push(measured(key, i, "ns", values.len(), &at.trials));
    }
    if let Some(i) = median_interval(&at.cycles) {
        let key = latency::LATENCY_CYCLES.at([at.bytes.into()]);
        report.findings.push(measured(key, i, "cycles", at.cycles.len(), &at.trials));
    }
}

#[cfg(test)]
mod tests {
    use fathom_probe::pattern::{Memory, Trial};
    use fathom_probe::rows::{Done, Sample};

    use super::*;
    use crate::record::TrialRun;

    /// Returns a chase in random order over 64 MiB whose loads take `ns`, on a clock of 1 GHz.
    fn chase(id: u64, page: Pages, ns: u64) -> TrialRun {
        let trial = Trial {
            id,
            memory: Memory { page, ..Memory::of(64 << 20, crate::scale::STRIDE) },
            loads: 1000,
            ..Trial::default()
        };
        let sample = Sample { ticks: 500, ticks2: 500 + 1000 * ns, ..Sample::default() };
        TrialRun {
            trial,
            samples: vec![sample; 5],
            done: Some(Done { trial: id, page_bytes: 4096, ..Done::default() }),
            ..TrialRun::default()
        }
    }

    fn read_with(base_ns: u64, huge_ns: u64) -> Report {
        let mut record = Record::default();
        record.trials.extend([chase(1, Pages::Base, base_ns), chase(2, Pages::Huge, huge_ns)]);
        let mut scale = Scale::of(&record);
        scale.huge = Some(2 << 20);
        let mut report = Report::default();
        orders(&record, &scale, &Curves::of(&record, &scale), &mut report);
        report
    }

    #[test]
    fn translation_share_needs_agreement_of_both_page_sizes() {
        let share = |report: &Report| report.findings.iter().any(|f| f.is(&survey::WALK_SHARE));
        let refused =
            |report: &Report| report.refusals.iter().find(|r| r.what == survey::WALK_SHARE.pattern).cloned();
        let reported = read_with(120, 90);
        assert!(share(&reported) && refused(&reported).is_none(), "{reported:?}");
        let against = read_with(100, 106);
        assert!(!share(&against), "{:?}", against.findings);
        let why = refused(&against).expect("a refusal").reason;
        assert!(why.contains("100.0 ns in base pages and 106.0 ns in huge pages"), "{why}");
        // A time of zero has no share.
        assert!(!share(&read_with(0, 10)));
    }
}
