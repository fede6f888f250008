//! The ladder of prefetch: dependent loads over one far working set in orders from the most to the least
//! foreseeable. What a constant stride gains over a random order inside pages is fetched ahead.

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

/// Rounds in which it is measured: each has placements and orders of its own.
pub(super) const ROUNDS: u64 = 3;
/// n: a prime, so that no run is of whole laps.
const LOADS: u64 = 8209;
/// Samples a trial.
const SAMPLES: u64 = 3;
/// The longest stride, lines.
const MAX_STRIDE_LINES: i8 = 8;
/// An order is clearly faster than another when it is by this and the intervals do not meet: as between tiers,
/// because open rows and translation make up to 1.2 without any prefetch.
const CLEARLY: f64 = 1.25;

fn wanted(record: &Record) -> bool {
    super::options::Options::of(record).prefetch
}

/// The longest line that anybody claims, bytes: shorter ones are steps of their own, longer ones would look like
/// a prefetch of the next.
fn line(record: &Record) -> u64 {
    let claims = decode(&record.facts).claims;
    let lines = claims.iter().filter(|c| c.holds.data()).filter_map(|c| c.line);
    lines
        .filter(|l| l.is_power_of_two() && (8..=4096).contains(l))
        .max()
        .unwrap_or(ASSUMED_LINE)
        .max(ASSUMED_LINE)
}

/// Is a trial one of the ladder's? The coarse scan's windows are of more pages.
fn is_ladder_step(trial: &Trial, scale: &Scale) -> bool {
    trial.kind() == PatternKind::Chase && trial.pattern.walk() != Walk::windows(WINDOW_PAGES * scale.base)
}

/// One trial of each order over `bytes`, where the ladder was asked for: in huge pages, unless they were refused.
pub(super) fn trials(record: &Record, bytes: u64) -> Vec<Trial> {
    if !wanted(record) {
        return Vec::new();
    }
    let scale = Scale::of(record);
    let refused = record.trials.iter().any(|r| r.refusal.is_some() && r.trial.memory.page == Pages::Huge);
    let page = if scale.huge.is_some() && !refused { Pages::Huge } else { Pages::Base };
    let step = line(record);
    let cells = bytes / step;
    // Half a lap warms: beyond every level what comes later in a lap is not what was warmed.
    let (warm, mut loads) = (cells / 2, LOADS.min(cells / 6));
    while loads > 1 && (2 * loads).is_multiple_of(cells) {
        loads -= 1;
    }
    if loads == 0 {
        return Vec::new();
    }
    let one = |&order: &OrderKind| Trial {
        memory: Memory { page, ..Memory::of(bytes, step) },
        loads,
        samples: SAMPLES,
        warm,
        ..Trial::of(Chase { walk: Walk { order, window: scale.base.max(step) } })
    };
    OrderKind::ALL.iter().map(one).collect()
}

/// One order's time.
struct LadderStep {
    order: OrderKind,
    time: Interval,
    count: usize,
    ids: Vec<u64>,
}

/// The rows of the ladder, and what follows from them.
pub(super) fn rows(record: &Record, scale: &Scale, report: &mut Report) {
    if !wanted(record) {
        return;
    }
    let mut ladder_steps = Vec::new();
    for &order in OrderKind::ALL {
        let of = |r: &&TrialRun| r.trial.pattern.walk().order == order && is_ladder_step(&r.trial, scale);
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
        ladder_steps.push(LadderStep { order, time, count, ids });
    }
    let of = |order: OrderKind| ladder_steps.iter().find(|r| r.order == order);
    if let (Some(random), Some(ordered)) = (of(OrderKind::Random), of(OrderKind::Sequential)) {
        gain(random, ordered, of(OrderKind::Window), report);
    }
    if let Some(page) = of(OrderKind::Window) {
        reach("forward", 1, &ladder_steps, page, report);
        reach("backward", -1, &ladder_steps, page, report);
    }
    if let (Some(anew), Some(random)) = (of(OrderKind::Repermuted), of(OrderKind::Random))
        && let Some(ratio) = anew.time.ratio_to(random.time)
    {
        let trials = [anew.ids.clone(), random.ids.clone()].concat();
        let mut row = measured(&metrics::PREFETCH_REPEAT_GAIN, ratio, "", anew.count + random.count, &trials);
        row.basis = Basis::Derived;
        row.notes.push(match clearly(random, anew) {
            true => "an order that comes again is faster than one that does not: it is remembered".into(),
            false => {
                "an order that comes again is no faster than one that does not: nothing remembers it".into()
            }
        });
        report.findings.push(row);
    }
}

fn clearly(faster: &LadderStep, slower: &LadderStep) -> bool {
    faster.time.value * CLEARLY <= slower.time.value && faster.time.high < slower.time.low
}

/// Random over ordered, and how much of it needs no foresight.
fn gain(random: &LadderStep, ordered: &LadderStep, page: Option<&LadderStep>, report: &mut Report) {
    let Some(ratio) = random.time.ratio_to(ordered.time) else { return };
    let trials = [random.ids.clone(), ordered.ids.clone()].concat();
    let mut row = measured(&metrics::PREFETCH_GAIN, ratio, "", random.count + ordered.count, &trials);
    row.basis = Basis::Derived;
    if let Some(of) = page.and_then(|page| random.time.ratio_to(page.time)) {
        row.notes.push(format!(
            "of it, {:.2}x is a page at a time, foreseen or not: translation, open rows, what comes along with a \
             line",
            of.value
        ));
    }
    report.findings.push(row);
}

/// How many lines a stride may jump, one way, and still be clearly faster than a random order inside pages, which
/// meets the same translation and rows.
fn reach(way: &str, sign: i8, ladder_steps: &[LadderStep], page: &LadderStep, report: &mut Report) {
    let at = |lines: i8| ladder_steps.iter().find(|r| r.order.stride() == Some(sign * lines));
    let known = (1..=MAX_STRIDE_LINES).take_while(|n| at(*n).is_some()).count() as i8;
    if known == 0 {
        return;
    }
    let fast = |n: &i8| at(*n).is_some_and(|ladder_step| clearly(ladder_step, page));
    let far = (1..=known).take_while(fast).count() as i8;
    let used: Vec<&LadderStep> = (1..=known).filter_map(at).chain([page]).collect();
    let end = Interval { value: f64::from(far), low: f64::from(far), high: f64::from(far + 1) };
    let count = used.iter().map(|r| r.count).sum();
    let trials: Vec<u64> = used.iter().flat_map(|r| r.ids.iter().copied()).collect();
    let mut row = measured(metrics::PREFETCH_MAX_STRIDE_LINES.at([way.into()]), end, "", count, &trials);
    row.basis = Basis::Bounds;
    row.notes.push(match far {
        0 => "no stride is clearly faster than a random order inside pages: nothing is fetched ahead".into(),
        far if far == known => {
            row.high = None;
            format!("all of 1 to {known} lines are clearly faster than a random order inside pages")
        }
        far => format!("up to {far} lines are clearly faster than a random order inside pages"),
    });
    let again: Vec<String> = (far + 1..=known).filter(fast).map(|n| n.to_string()).collect();
    if !again.is_empty() {
        row.notes.push(format!("so are {} again", again.join(", ")));
    }
    report.findings.push(row);
}
