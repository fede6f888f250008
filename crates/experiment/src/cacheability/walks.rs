//! Page walks, where they are asked for: what one costs when its descriptors may come from a cache, and when they are
//! fetched from memory (TCR_EL1.IRGN0 and ORGN0).
//!
//! One line a page on more pages than any TLB of a small core holds, less the same number of lines packed into few
//! pages: the caches hold the same lines, and what is left is the walk.

use fathom_analysis::findings::{Basis, Finding, Item, Report};
use fathom_analysis::interval::{Interval, grouped_interval};
use fathom_analysis::metrics::cacheability as metrics;
use fathom_probe::machine::{Attribute, Controls};
use fathom_probe::pattern::{Chase, Memory, OrderKind, Pages, PatternKind, Trial, Walk};

use crate::reading::measured;
use crate::record::{Record, TrialRun};
use crate::scale::STRIDE;
use crate::scale::Scale;

/// Lines, each on a page of its own or packed: twice the entries of the largest second-level TLB of the machines that
/// walk by other attributes here (1024: Cortex-A72), and their descriptors are 16 KiB, which a second level holds.
const LINES: u64 = 2048;
/// Bytes of the windows in which packed lines are walked: a TLB of ten entries holds them, so no walk but one in sixty
/// loads.
const WINDOW: u64 = 16 << 10;
/// n: a prime.
const LOADS: u64 = 8209;
/// The tables' attributes.
const TABLES: [Attribute; 2] = [Attribute::WriteBack, Attribute::NormalNc];

fn wanted(record: &Record) -> bool {
    super::options::Options::of(record).walks
}

/// The trials of a round, where they are asked for.
pub(super) fn trials(record: &Record) -> Vec<Trial> {
    if !wanted(record) {
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
        let apart = Trial { pattern: Pages { walk }.into(), ..packed.clone() };
        [packed, apart]
    };
    TABLES.into_iter().flat_map(of).collect()
}

/// The tables whose walks were asked for and not measured, as a word for what is missing.
pub(super) fn missing(record: &Record) -> Option<String> {
    let refused = |r: &TrialRun| r.trial.memory.bytes == LINES * STRIDE && r.refusal.is_some();
    let done = |tables: &Attribute| {
        [PatternKind::Pages, PatternKind::Chase].into_iter().all(|pattern| {
            record
                .of(pattern)
                .any(|r| r.trial.controls.tables == *tables && r.trial.memory.bytes == LINES * STRIDE)
        })
    };
    let lost = wanted(record) && !TABLES.iter().all(done) && !record.trials.iter().any(refused);
    lost.then(|| "walks".to_owned())
}

/// What a walk costs with each attribute of the tables, and their ratio.
pub(super) fn rows(record: &Record, scale: &Scale, report: &mut Report) {
    if !wanted(record) {
        return;
    }
    let of = |tables: Attribute| {
        let apart = times(record, tables, PatternKind::Pages, scale)?;
        let packed = times(record, tables, PatternKind::Chase, scale)?;
        let (down, up) = (apart.time.value - apart.time.low, apart.time.high - apart.time.value);
        let value = apart.time.value - packed.time.value;
        let time = Interval {
            value,
            low: value - down.hypot(packed.time.high - packed.time.value),
            high: value + up.hypot(packed.time.value - packed.time.low),
        };
        Some(Times { time, ids: [apart.ids, packed.ids].concat(), count: apart.count + packed.count })
    };
    let all = TABLES.map(of);
    for (tables, found) in TABLES.into_iter().zip(&all) {
        let Some(walk) = found else { continue };
        let at = [tables.token().into()];
        let mut row = measured(metrics::WALK_TIME.at(at), walk.time, "ns", walk.count, &walk.ids);
        row.basis = Basis::Derived;
        row.detail.set(metrics::WALK_PAGES, Item::Number(LINES as f64));
        row.notes.push(format!("a load of one line a page, {LINES} pages, less one of as many packed lines"));
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
