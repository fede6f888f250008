//! TLBs for huge pages: one line in each of n huge pages against as many lines packed.
//!
//! Like the pairs of the survey, with huge pages for base pages. Huge pages need much memory, so the curve ends early.
//! If it shows no rise, the number of pages is reported.

use fathom_analysis::findings::{Basis, Refused, Report};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::survey;
use fathom_analysis::tiers::Reading;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{self, Chase, Memory, OrderKind, Pattern, Trial, Walk};
use fathom_units::facts;
use fathom_units::size;

use super::arrangement;
use crate::budget::Budget;
use crate::latency_curve::two_lines;
use crate::latency_curve::{
    Curves, MAX_PAIR, PLATEAU_SPAN, Pair, leaves_a_tier, lines_per_page, maybe_tables, penalty, read_pairs,
    steps, tlb_steps,
};
use crate::reading::{measured, number};
use crate::record::Record;
use crate::scale::{Scale, has_one_line_per_page};

/// Memory of the curve per millisecond of budget, bytes: 256 MiB for the default ten seconds. First touch of a huge
/// page takes 0.2 ns per byte, and a curve's largest points touch four times the pages of its last one.
const BYTES_PER_MS: u64 = (256 << 20) / 10_000;
/// Minimum length of the curve if memory allows: the smallest TLB known has 8 entries.
const MIN_PAGES: u64 = 16;
/// Share of the last cache that the lines may occupy: beyond it their own misses, in open or closed DRAM rows, cannot
/// be separated from translation.
const CACHE_SHARE: f64 = 0.4;
/// The same if no cache was found, bytes: every first-level cache of interest holds more.
const UNKNOWN_CACHE_BYTES: f64 = 8192.0;
/// Relative width to which brackets are narrowed, as for base pages.
const RESOLUTION: f64 = 0.012;
/// Points per bracket and round.
const POINTS_PER_BRACKET: usize = 3;
/// Error per load due to the clock, in core cycles.
const CLOCK_ERROR: f64 = 0.02;

/// Returns the maximum number of huge pages of the curve.
fn max_pages(record: &Record, scale: &Scale, huge: u64, curves: &Curves, budget: &Budget) -> u64 {
    let mappable = record.int(facts::MEMORY_MAPPABLE_HUGE_BYTES);
    let mappable = mappable.or_else(|| record.int(facts::MEMORY_CEILING_BYTES).map(|bytes| bytes / 2));
    // A refused size is a limit too.
    let refused = record.trials.iter().filter(|run| run.refusal.is_some() && is_spread(scale, &run.trial));
    let refused = refused.map(|run| run.trial.memory.cells().saturating_sub(1)).min();
    let request = budget.ms().saturating_mul(BYTES_PER_MS) / huge;
    // A model's memory is free.
    let request = if budget.modelled { MAX_PAIR } else { request.clamp(MIN_PAGES, MAX_PAIR) };
    let cached = curves.steps().last().map_or(UNKNOWN_CACHE_BYTES, |last| CACHE_SHARE * last.capacity.value);
    let cached = cached / scale.pair_stride() as f64;
    request.min(mappable.unwrap_or(0) / huge).min(refused.unwrap_or(u64::MAX)).min(cached as u64)
}

fn is_spread(scale: &Scale, trial: &Trial) -> bool {
    has_one_line_per_page(trial)
        && trial.memory.page == Pages::Huge
        && trial.memory.stride == scale.pair_stride()
}

/// Returns the next trials.
pub(crate) fn next_trials(record: &Record, scale: &Scale, curves: &Curves, budget: &Budget) -> Vec<Trial> {
    let Some(huge) = scale.huge else { return Vec::new() };
    if curves.splintered() {
        return Vec::new();
    }
    let exact = budget.exact;
    let max = max_pages(record, scale, huge, curves, budget);
    // Two points per octave.
    let mut points: Vec<u64> =
        (2..).map(|i| (f64::from(i) / 2.0).exp2() as u64).take_while(|&n| n <= max).collect();
    if max >= 4 {
        points.push(max);
    }
    let reading = read_pairs(&scale.pairs_in(record, Pages::Huge), scale.share);
    let narrower = reading.map_or_else(Vec::new, |reading| {
        let mut narrower = reading.refinement_points(RESOLUTION, POINTS_PER_BRACKET);
        narrower.extend(reading.plateau_points(PLATEAU_SPAN));
        narrower
    });
    points.extend(narrower.into_iter().map(|n| n.round() as u64).filter(|&n| n <= max));
    points.sort_unstable();
    points.dedup();
    let times = if exact { 1 } else { 3 };
    let mut trials = Vec::new();
    for n in points {
        let count = |of: &dyn Fn(&Trial) -> bool| record.trials.iter().filter(|r| of(&r.trial)).count();
        let (spread, packed) = pair(scale, n, exact);
        let had = count(&|t| is_spread(scale, t) && t.memory.cells() == n);
        trials.extend((had..times).map(|_| spread.clone()));
        let had = count(&|t| is_packed(scale, t, n));
        trials.extend((had..times).map(|_| packed.clone()));
        if exact {
            let lines = two_lines::both(scale, n, Pages::Huge);
            let missing = lines.into_iter().filter(|(pattern, memory)| {
                count(&|t| {
                    t.pattern == *pattern && (t.memory.bytes, t.memory.page) == (memory.bytes, memory.page)
                }) == 0
            });
            trials.extend(missing.map(|(pattern, memory)| of(scale, pattern, memory, exact)));
        }
    }
    trials
}

/// Returns whether the trial is the packed half of a pair.
fn is_packed(scale: &Scale, trial: &Trial, n: u64) -> bool {
    scale.is_packed(trial) && trial.memory.bytes == n * scale.pair_stride()
}

/// Returns both halves of a pair.
fn pair(scale: &Scale, n: u64, exact: bool) -> (Trial, Trial) {
    let walk = Walk { order: OrderKind::Random, window: scale.base };
    let memory = Memory { page: Pages::Huge, ..Memory::of(n * scale.pair_stride(), scale.pair_stride()) };
    let packed = of(scale, Chase::over(scale.packed_walk()).into(), memory, exact);
    (Trial { pattern: pattern::Pages::over(walk).into(), ..packed.clone() }, packed)
}

/// Returns a trial of a pattern in this memory.
fn of(scale: &Scale, pattern: Pattern, memory: Memory, exact: bool) -> Trial {
    let (cycle, cells) = (scale.cycle().map_or(1.0, |ticks| ticks * scale.tick_ns), memory.cells());
    Trial {
        memory,
        loads: arrangement::loads(scale, CLOCK_ERROR * cycle, cells, arrangement::MIN_LOADS),
        samples: if exact { 2 } else { 5 },
        // Random replacement takes laps to settle.
        warm: (32 * cells).min(1 << 14).max(cells),
        ..Trial::of(pattern)
    }
}

/// Adds the findings of huge pages.
pub(crate) fn rows(record: &Record, scale: &Scale, curves: &Curves, report: &mut Report) {
    let Some(huge) = scale.huge else { return };
    if curves.splintered() {
        report.refusals.push(Refused {
            what: "TLBs for huge pages".into(),
            reason: "huge pages are translated in pieces of base pages".into(),
            remedy: "in a guest, let the host back its memory with huge pages".into(),
        });
        return;
    }
    let pairs = scale.pairs_in(record, Pages::Huge);
    let kind = format!("huge pages of {}", size(huge as f64));
    let Some(mut reading) = curves.huge_tiers(&pairs, scale) else {
        report.refusals.push(Refused {
            what: "TLBs for huge pages".into(),
            reason: match pairs.len() {
                0 => format!("no pairs of {kind} were measured"),
                n => format!("the curve of {kind} has only {n} points"),
            },
            remedy: "give it a larger --budget or more free memory".into(),
        });
        return;
    };
    scale.revise_pairs(&pairs, Some(&mut reading));
    let first = reading.tiers[0].latency;
    let count: usize = pairs.iter().map(|p| p.spread.values().len()).sum();
    let trials: Vec<u64> =
        pairs.iter().flat_map(|p| p.spread.trials.iter().chain(&p.packed.trials).copied()).collect();
    let found = tlb_steps(&reading);
    for (index, (capacity, beyond)) in found.iter().enumerate() {
        let (n, o) = (index + 1, capacity.onset);
        let entries = Interval { value: o.value.floor(), low: o.low.floor(), high: o.high.ceil() };
        let mut row = measured(survey::TLB_HUGE_ENTRIES.at([n.into()]), entries, "", count, &trials);
        row.basis = Basis::Fitted;
        row.notes.push(kind.clone());
        let lines = lines_per_page(&pairs, &entries);
        if let Some(note) = curves.reading.as_ref().and_then(|s| leaves_a_tier((&entries, lines), s, scale)) {
            maybe_tables(&mut row, note);
        }
        report.findings.push(row);
        let key = survey::TLB_HUGE_PENALTY.at([n.into()]);
        if let Some(mut row) = penalty(key, (first, beyond), (count, &trials), scale, report) {
            row.notes.push(format!("{kind}; in addition to a load that hits in the first TLB"));
            report.findings.push(row);
        }
    }
    let Some(last) = pairs.last().filter(|_| found.is_empty()) else { return };
    if let Some(pages) = first_rise(&pairs, &reading, scale) {
        report.refusals.push(too_slow(pages, &kind));
        return;
    }
    let mut row = number(&survey::TLB_HUGE_PAGES, last.pages as f64, "");
    (row.count, row.trials) = (count as u64, trials);
    row.notes.push(format!("no rise up to {} {kind}: every TLB reaches farther", last.pages));
    report.findings.push(row);
}

/// Returns the number of huge pages from which on loads take longer: by the pairs as they were read, or by one line in each page, as two
/// lines of a page that are in different pieces of it miss in both orders.
fn first_rise(pairs: &[Pair], reading: &Reading, scale: &Scale) -> Option<f64> {
    let single: Vec<Pair> = pairs.iter().map(Pair::with_one_line).collect();
    let single = read_pairs(&single, scale.share);
    let rise = steps(reading).chain(single.iter().flat_map(steps)).next();
    rise.map(|(rise, _)| rise.onset.value)
}

/// Refuses TLBs for huge pages where loads take longer from `pages` on, but in a rise that is not that of one TLB.
fn too_slow(pages: f64, kind: &str) -> Refused {
    Refused {
        what: "TLBs for huge pages".into(),
        reason: format!(
            "loads take longer from {pages:.0} {kind} on, but the rise is slower than that of one TLB: pages that are translated in pieces, \
             page tables that leave a cache, or lines that conflict in one may cause it"
        ),
        remedy: String::new(),
    }
}
