//! Prefetch: dependent loads over one large working set in several orders, from the easiest to the hardest to prefetch.
//! The gain of a constant stride over a random order inside pages is due to prefetch.

use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Basis, Report};
use fathom_analysis::interval::{Interval, grouped_interval};
use fathom_analysis::metrics::survey as metrics;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{Chase, Memory, OrderKind, PatternKind, Trial, Walk};
use fathom_units::size;

use super::ASSUMED_LINE;
use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;
use crate::scale::WINDOW_PAGES;

/// Rounds in which it is measured, each with other placements and orders.
pub(super) const ROUNDS: u64 = 3;
/// n: a prime, so that no run is of whole laps.
const LOADS: u64 = 8209;
/// Samples per trial.
const SAMPLES: u64 = 3;
/// The longest stride, lines.
const MAX_STRIDE_LINES: i8 = 8;
/// Ratio from which an order is clearly faster than another, if the intervals do not overlap either. As between tiers,
/// because open DRAM rows and translation make up to 1.2 without any prefetch.
const MIN_RATIO: f64 = 1.25;

fn is_requested(record: &Record) -> bool {
    super::options::Options::of(record).prefetch
}

/// Returns the longest claimed line, bytes. Shorter lines appear as additional strides; a longer line would look like a
/// prefetch of the next one.
fn line(record: &Record) -> u64 {
    let claims = decode(&record.facts).claims;
    let lines = claims.iter().filter(|c| c.holds.data()).filter_map(|c| c.line);
    lines
        .filter(|l| l.is_power_of_two() && (8..=4096).contains(l))
        .max()
        .unwrap_or(ASSUMED_LINE)
        .max(ASSUMED_LINE)
}

/// Returns whether a trial belongs to these orders. The windows of the coarse scan are of more pages.
fn is_of_orders(trial: &Trial, scale: &Scale) -> bool {
    trial.kind() == PatternKind::Chase && trial.pattern.walk() != Walk::windows(WINDOW_PAGES * scale.base)
}

/// Returns one trial per order over `bytes`, if requested: in huge pages, unless they were refused.
pub(super) fn trials(record: &Record, bytes: u64) -> Vec<Trial> {
    if !is_requested(record) {
        return Vec::new();
    }
    let scale = Scale::of(record);
    let refused = record.trials.iter().any(|r| r.refusal.is_some() && r.trial.memory.page == Pages::Huge);
    let page = if scale.huge.is_some() && !refused { Pages::Huge } else { Pages::Base };
    let stride = line(record);
    let cells = bytes / stride;
    // Half a lap warms up: in a working set beyond every level, later cells of a lap are not cached anyway.
    let (warm, mut loads) = (cells / 2, LOADS.min(cells / 6));
    while loads > 1 && (2 * loads).is_multiple_of(cells) {
        loads -= 1;
    }
    if loads == 0 {
        return Vec::new();
    }
    let one = |order: OrderKind| Trial {
        memory: Memory { page, ..Memory::of(bytes, stride) },
        loads,
        samples: SAMPLES,
        warm,
        ..Trial::of(Chase::over(Walk { order, window: scale.base.max(stride) }))
    };
    // Pairs are for translation: half of their loads hit in lines of two cells, whatever is prefetched.
    OrderKind::of_single_lines().map(one).collect()
}

/// The time of one order.
struct OrderTime {
    order: OrderKind,
    time: Interval,
    count: usize,
    ids: Vec<u64>,
}

/// Adds the findings of the orders, and the conclusions from them.
pub(super) fn rows(record: &Record, scale: &Scale, report: &mut Report) {
    if !is_requested(record) {
        return;
    }
    let mut order_times = Vec::new();
    for order in OrderKind::of_single_lines() {
        let of = |r: &&TrialRun| r.trial.pattern.walk().order == order && is_of_orders(&r.trial, scale);
        let runs: Vec<&TrialRun> = record.of(PatternKind::Chase).filter(of).collect();
        let times: Vec<Vec<f64>> =
            runs.iter().map(|r| r.ticks_per_op().map(|t| t * scale.tick_ns).collect()).collect();
        let Some(time) = grouped_interval(&times) else { continue };
        let (count, ids) = (times.concat().len(), runs.iter().map(|r| r.trial.id).collect::<Vec<_>>());
        let trial = &runs[0].trial;
        let mut row =
            measured(metrics::PREFETCH_ORDER_TIME.at([order.token().into()]), time, "ns", count, &ids);
        let (bytes, page) = (size(trial.memory.bytes as f64), trial.memory.page.token());
        row.notes.push(format!("{bytes} in {page} pages, lines of {} bytes", trial.memory.stride));
        report.findings.push(row);
        order_times.push(OrderTime { order, time, count, ids });
    }
    let of = |order: OrderKind| order_times.iter().find(|r| r.order == order);
    if let (Some(random), Some(ordered)) = (of(OrderKind::Random), of(OrderKind::Sequential)) {
        gain(random, ordered, of(OrderKind::Window), report);
    }
    if let Some(page) = of(OrderKind::Window) {
        reach("forward", 1, &order_times, page, report);
        reach("backward", -1, &order_times, page, report);
    }
    if let (Some(new_order), Some(random)) = (of(OrderKind::Repermuted), of(OrderKind::Random))
        && let Some(ratio) = new_order.time.ratio_to(random.time)
    {
        let trials = [new_order.ids.clone(), random.ids.clone()].concat();
        let mut row =
            measured(&metrics::PREFETCH_REPEAT_GAIN, ratio, "", new_order.count + random.count, &trials);
        row.basis = Basis::Derived;
        row.notes.push(match is_clearly_faster(random, new_order) {
            true => "a repeated order is faster than a new one each lap: a temporal prefetcher exists".into(),
            false => "a repeated order is not faster than a new one each lap: no temporal prefetcher".into(),
        });
        report.findings.push(row);
    }
}

fn is_clearly_faster(faster: &OrderTime, slower: &OrderTime) -> bool {
    faster.time.value * MIN_RATIO <= slower.time.value && faster.time.high < slower.time.low
}

/// Adds the ratio of random to ascending order, and the part of it that does not need prefetch.
fn gain(random: &OrderTime, ordered: &OrderTime, page: Option<&OrderTime>, report: &mut Report) {
    let Some(ratio) = random.time.ratio_to(ordered.time) else { return };
    let trials = [random.ids.clone(), ordered.ids.clone()].concat();
    let mut row = measured(&metrics::PREFETCH_GAIN, ratio, "", random.count + ordered.count, &trials);
    row.basis = Basis::Derived;
    if let Some(of) = page.and_then(|page| random.time.ratio_to(page.time)) {
        row.notes.push(format!(
            "{:.2}x of it is due to staying in a page, without prefetch: translation, open DRAM rows, adjacent \
             lines",
            of.value
        ));
    }
    report.findings.push(row);
}

/// Adds the largest stride in lines, in one direction, that is clearly faster than a random order inside pages. That
/// order has the same translation and DRAM row costs.
fn reach(direction: &str, sign: i8, times: &[OrderTime], page: &OrderTime, report: &mut Report) {
    let at = |lines: i8| times.iter().find(|r| r.order.stride() == Some(sign * lines));
    let known = (1..=MAX_STRIDE_LINES).take_while(|n| at(*n).is_some()).count() as i8;
    if known == 0 {
        return;
    }
    let fast = |n: &i8| at(*n).is_some_and(|ladder_step| is_clearly_faster(ladder_step, page));
    let far = (1..=known).take_while(fast).count() as i8;
    let used: Vec<&OrderTime> = (1..=known).filter_map(at).chain([page]).collect();
    let end = Interval { value: f64::from(far), low: f64::from(far), high: f64::from(far + 1) };
    let count = used.iter().map(|r| r.count).sum();
    let trials: Vec<u64> = used.iter().flat_map(|r| r.ids.iter().copied()).collect();
    let mut row =
        measured(metrics::PREFETCH_MAX_STRIDE_LINES.at([direction.into()]), end, "", count, &trials);
    row.basis = Basis::Bounds;
    row.notes.push(match far {
        0 => "no stride is clearly faster than a random order inside pages: no prefetch".into(),
        far if far == known => {
            row.high = None;
            format!("all strides of 1 to {known} lines are clearly faster than a random order inside pages")
        }
        far => format!("strides up to {far} lines are clearly faster than a random order inside pages"),
    });
    let again: Vec<String> = (far + 1..=known).filter(fast).map(|n| n.to_string()).collect();
    if !again.is_empty() {
        row.notes.push(format!("strides of {} lines are faster too", again.join(", ")));
    }
    report.findings.push(row);
}
