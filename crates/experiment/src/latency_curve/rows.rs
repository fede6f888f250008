//! Findings of a latency curve: its tiers.

use fathom_analysis::findings::{Basis, Finding, Report};
use fathom_analysis::interval::{Interval, median};
use fathom_analysis::metrics::survey;
use fathom_analysis::tiers::Capacity;
use fathom_units::size;

use super::curves::Curves;
use super::in_cycles;
use super::translation::translation_at;
use crate::reading::measured;
use crate::scale::{At, FEW_HUGE_PAGES, Scale};

/// Returns the medians of the trials at each point that was measured more than once.
pub(crate) fn repeats(latency_curve: &[At]) -> Vec<Vec<f64>> {
    latency_curve
        .iter()
        .map(|a| a.steady.iter().filter_map(|g| median(g)).collect::<Vec<f64>>())
        .filter(|m| m.len() > 1)
        .collect()
}

/// Relative error of the translation that is subtracted from a tier. The pairs give the cost of one miss; with random replacement and few
/// ways pages of a window evict one another, so there are more misses than pages: on described machines a tenth (four ways), 15 % (random
/// frames), and a quarter (eight entries).
const SUBTRACTION_ERROR: f64 = 0.25;
/// Share of a latency beyond which the error of the subtracted translation is told.
const MAX_SUBTRACTION_ERROR: f64 = 0.01;

/// Returns the largest translation that was subtracted from one of these points, ns.
fn subtracted(all: &Curves, on: &[&At]) -> f64 {
    on.iter().map(|at| translation_at(&all.translation, at.bytes as f64)).fold(0.0, f64::max)
}

/// Returns the translation that these points may have beside what was subtracted, ns: that of a window with more pages than the nearest
/// TLB holds, where huge pages are translated in pieces, and that of base pages whose TLBs are not told.
fn not_subtracted(all: &Curves, scale: &Scale, on: &[&At]) -> f64 {
    let Some(last) = on.last() else { return 0.0 };
    let pages = last.bytes as f64 / scale.base as f64;
    if let Some((nearest, beyond)) = all.tlb_steps().first().filter(|_| all.splintered()) {
        let first = all.translated.as_ref().map_or(0.0, |reading| reading.tiers[0].latency.value);
        let window = (scale.window / scale.base) as f64;
        let exceeds = nearest.onset.low < window.min(pages);
        return if exceeds { (beyond.latency.value - first).max(0.0) } else { 0.0 };
    }
    let dearest = |pages: f64| {
        let held = all.pairs.iter().filter(|pair| pair.pages as f64 <= pages);
        held.map(|pair| pair.extra).fold(0.0, f64::max)
    };
    if let Some(huge) = scale.huge.filter(|_| all.splinters.is_some() && all.translation.is_empty()) {
        // The lines of a window are visited in two halves as well. A walk for a huge page reads one table less.
        let is_held = last.bytes <= FEW_HUGE_PAGES * huge;
        let walk = dearest(f64::INFINITY);
        return if is_held { 0.0 } else { walk / (scale.window / scale.stride / 2).max(1) as f64 };
    }
    if !all.translation.is_empty() {
        return 0.0;
    }
    // A page's lines are visited in two halves, each with a separate translation.
    let lines = (scale.base / scale.stride / 2).max(1) as f64;
    dearest(pages) / lines
}

/// Adds the findings of the tiers.
pub(crate) fn tier_rows(all: &Curves, scale: &Scale, report: &mut Report) {
    let Some(curves) = &all.reading else { return };
    let cycle_ns = scale.cycle().map(|c| c * scale.tick_ns);
    // Bytes that the second TLB holds: the test of splintered pages has fewer.
    let farther = all.tlb_steps().get(1).map_or(f64::INFINITY, |step| step.0.onset.low * scale.base as f64);
    let mut from = 0.0;
    for (i, tier) in curves.tiers.iter().enumerate() {
        let n = i + 1;
        let to = tier.capacity.map_or(f64::INFINITY, |c| c.below);
        let on: Vec<&At> =
            all.latency_curve.iter().filter(|a| a.bytes as f64 > from && a.bytes as f64 <= to).collect();
        let count = on.iter().map(|a| a.values().len()).sum();
        let trials: Vec<u64> = on.iter().flat_map(|a| a.trials.clone()).collect();
        let mut row = measured(survey::TIER_LATENCY.at([n.into()]), tier.latency, "ns", count, &trials);
        row.basis = Basis::Fitted;
        if tier.points < 2 {
            row.notes.push("no separate plateau: from the fit of the whole curve".into());
        }
        let subtracted = subtracted(all, &on);
        if !scale.is_hardware() {
            let error = SUBTRACTION_ERROR * subtracted;
            // Where huge pages are translated in pieces by the nearest TLB, the farther ones may hold them whole.
            let more = if all.splintered() && to > farther { subtracted } else { error };
            let less = error + not_subtracted(all, scale, &on);
            (row.low, row.high) = (row.low.map(|low| low - less), row.high.map(|high| high + more));
            if error > MAX_SUBTRACTION_ERROR * tier.latency.value {
                row.notes.push(format!("up to {subtracted:.3} ns of translation were subtracted"));
            }
        }
        let is_last = i + 1 == curves.tiers.len();
        if is_last && !curves.flat_end {
            (row.basis, row.high) = (Basis::Bounds, None);
            row.notes.push("a lower bound: latency still rises at the largest working set".into());
        }
        let in_cycles = cycle_ns.map(|cycle| in_cycles::row(&row, n, cycle, scale));
        add_clock_error(&mut row, tier.latency.value, scale);
        if let (true, Some(last)) = (is_last, all.latency_curve.last()) {
            row.notes.push(format!("nothing beyond {} was measured", size(last.bytes as f64)));
            row.notes.extend(curves.notes.iter().cloned());
            if tier.latency.value < MIN_MEMORY_NS {
                row.notes.push(format!(
                    "faster than a read of DRAM ({MIN_MEMORY_NS:.0} ns): memory on the chip, or a cache whose end was not reached"
                ));
            }
        }
        report.findings.push(row);
        report.findings.extend(in_cycles);
        if let Some(c) = tier.capacity {
            capacity_row(n, &c, scale, (count, &trials), report);
            from = c.onset.value;
        }
    }
}

/// Adds the finding of a tier's capacity.
fn capacity_row(
    n: usize,
    capacity: &Capacity,
    scale: &Scale,
    (count, trials): (usize, &[u64]),
    report: &mut Report,
) {
    let mut row = measured(survey::TIER_CAPACITY.at([n.into()]), capacity.onset, "bytes", count, trials);
    row.notes.extend(wide_rise(capacity, size));
    if !capacity.explained && !scale.is_hardware() {
        row.notes.push("the rise beyond it does not fit one capacity".into());
    }
    if let Some(short) = scale.unmeasured_short_lines(capacity.onset.value) {
        row.low = row.low.map(|low| low / 2.0);
        row.notes.push(format!(
            "it may hold half: {} do not fit with half the spacing, so lines are shorter than {} bytes",
            size(short.bytes as f64),
            scale.stride
        ));
    }
    if scale.is_untested_for_short_lines(capacity.onset.value) {
        row.low = row.low.map(|low| low / 2.0);
        row.notes.push(format!(
            "it may hold half: whether its lines are shorter than {} bytes was not tested",
            scale.stride
        ));
    }
    report.findings.push(Finding { basis: Basis::Fitted, ..row });
}

/// Time in which no DRAM serves a read of a closed row, ns: tRCD and CL alone take 26 to 30 ns in all speed bins of DDR2 to
/// DDR5 (JEDEC JESD79-2 to JESD79-5), before any controller or bus.
pub(crate) const MIN_MEMORY_NS: f64 = 26.0;

/// Returns a note on a capacity that is somewhere on a wide rise.
pub(super) fn wide_rise(capacity: &Capacity, size: impl Fn(f64) -> String) -> Option<String> {
    let Interval { value, high, .. } = capacity.onset;
    capacity.wide_rise.then(|| {
        format!(
            "loads slow down beyond {} and most miss beyond {}: pages at random frames, a shared or hashed index, or other users",
            size(value),
            size(high)
        )
    })
}

/// Relative standard deviation of the core's clock, between sessions in a guest: its host raises and lowers it. Ten idle sessions of 10 s
/// on an EPYC (Zen 5) guest: 4.01 to 4.18 GHz, 1.3 %, while each one's own interval was within 0.2 %.
const GUEST_CLOCK_SIGMA: f64 = 0.013;

/// Widens the interval of a time in ns of something that takes a number of the core's cycles, where the host of a guest controls its
/// clock. `load` is the time of the whole load, ns.
pub(super) fn add_clock_error(row: &mut Finding, load: f64, scale: &Scale) {
    let (Some(value), Some(low), Some(high)) = (row.finite(), row.low, row.high) else { return };
    if !scale.nested || load > scale.max_core_clocked() {
        return;
    }
    let more = 1.96 * GUEST_CLOCK_SIGMA * value;
    (row.low, row.high) = (Some(value - (value - low).hypot(more)), Some(value + (high - value).hypot(more)));
}
