//! Page walks, if requested: the cost of a walk with page tables in cacheable and in non-cacheable memory
//! (TCR_EL1.IRGN0 and ORGN0).
//!
//! One line per page on more pages than any TLB of a small core holds, less the same number of lines packed into few
//! pages. The caches hold the same lines, so the difference is the walk.

use fathom_analysis::findings::{Basis, Finding, Item, Report};
use fathom_analysis::interval::{Interval, grouped_interval};
use fathom_analysis::metrics::cacheability as metrics;
use fathom_probe::machine::{Attribute, Controls};
use fathom_probe::pattern::{Chase, Memory, OrderKind, Pages, PatternKind, Trial, Walk};

use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::STRIDE;
use crate::scale::Scale;

/// Number of lines, each on a separate page or packed: twice the entries of the largest second-level TLB of the
/// machines with this option (1024: Cortex-A72). Their descriptors are 16 KiB, which a second level holds.
const LINES: u64 = 2048;
/// Bytes of the windows in which packed lines are visited. A TLB of ten entries holds them, so only one in sixty loads
/// walks.
const WINDOW: u64 = 16 << 10;
/// n: a prime.
const LOADS: u64 = 8209;
/// The attributes of the page tables.
const TABLES: [Attribute; 2] = [Attribute::WriteBack, Attribute::NormalNc];

fn is_requested(record: &Record) -> bool {
    super::options::Options::of(record).walks
}

/// Returns the trials of a round, if requested.
pub(super) fn trials(record: &Record) -> Vec<Trial> {
    if !is_requested(record) {
        return Vec::new();
    }
    let of = |tables| {
        let controls = Controls { tables, ..Controls::default() };
        let packed = Trial {
            controls,
            memory: Memory::of(LINES * STRIDE, STRIDE),
            loads: LOADS,
            samples: 3,
            warm: 2 * LINES,
            ..Trial::of(Chase::over(Walk::windows(WINDOW)))
        };
        let walk = Walk { order: OrderKind::Random, window: WINDOW };
        let spread = Trial { pattern: Pages::over(walk).into(), ..packed.clone() };
        [packed, spread]
    };
    TABLES.into_iter().flat_map(of).collect()
}

/// Returns the name of the missing measurement, if walks were requested and not measured.
pub(super) fn missing(record: &Record) -> Option<String> {
    let refused = |r: &TrialRun| r.trial.memory.bytes == LINES * STRIDE && r.refusal.is_some();
    let done = |tables: &Attribute| {
        [PatternKind::Pages, PatternKind::Chase].into_iter().all(|pattern| {
            record
                .of(pattern)
                .any(|r| r.trial.controls.tables == *tables && r.trial.memory.bytes == LINES * STRIDE)
        })
    };
    let is_missing = is_requested(record) && !TABLES.iter().all(done) && !record.trials.iter().any(refused);
    is_missing.then(|| "walks".to_owned())
}

/// Adds the cost of a walk for each attribute of the tables, and their ratio.
pub(super) fn rows(record: &Record, scale: &Scale, report: &mut Report) {
    if !is_requested(record) {
        return;
    }
    let of = |tables: Attribute| {
        let spread = times(record, tables, PatternKind::Pages, scale)?;
        let packed = times(record, tables, PatternKind::Chase, scale)?;
        let (down, up) = (spread.time.value - spread.time.low, spread.time.high - spread.time.value);
        let value = spread.time.value - packed.time.value;
        let time = Interval {
            value,
            low: value - down.hypot(packed.time.high - packed.time.value),
            high: value + up.hypot(packed.time.value - packed.time.low),
        };
        Some(Times { time, ids: [spread.ids, packed.ids].concat(), count: spread.count + packed.count })
    };
    let all = TABLES.map(of);
    for (tables, found) in TABLES.into_iter().zip(&all) {
        let Some(walk) = found else { continue };
        let at = [tables.token().into()];
        let mut row = measured(metrics::WALK_LATENCY.at(at), walk.time, "ns", walk.count, &walk.ids);
        row.basis = Basis::Derived;
        row.detail.set(metrics::WALK_PAGES, Item::Number(LINES as f64));
        row.notes.push(format!(
            "a load with one line per page, {LINES} pages, less a load from as many packed lines"
        ));
        report.findings.push(row);
        if let Some(cycle) = scale.cycle() {
            let cycles = walk.time.scaled(1.0 / (cycle * scale.tick_ns));
            let row = measured(metrics::WALK_CYCLES.at(at), cycles, "cycles", walk.count, &walk.ids);
            report.findings.push(Finding { basis: Basis::Derived, ..row });
        }
    }
    if let [Some(cached), Some(not)] = &all
        && let Some(ratio) = not.time.ratio_to(cached.time)
    {
        let ids = [cached.ids.as_slice(), &not.ids].concat();
        let row = measured(&metrics::WALK_RATIO, ratio, "", cached.count + not.count, &ids);
        report.findings.push(Finding { basis: Basis::Derived, ..row });
    }
}

struct Times {
    time: Interval,
    ids: Vec<u64>,
    count: usize,
}

fn times(record: &Record, tables: Attribute, pattern: PatternKind, scale: &Scale) -> Option<Times> {
    let of = |r: &&TrialRun| r.trial.controls.tables == tables && r.trial.memory.bytes == LINES * STRIDE;
    let runs: Vec<&TrialRun> = record.of(pattern).filter(of).collect();
    let ns = |r: &&TrialRun| r.ticks_per_op().map(|t| t * scale.tick_ns).collect::<Vec<f64>>();
    let groups: Vec<Vec<f64>> = runs.iter().map(ns).collect();
    Some(Times {
        time: grouped_interval(&groups)?,
        ids: runs.iter().map(|r| r.trial.id).collect(),
        count: groups.iter().map(Vec::len).sum(),
    })
}
