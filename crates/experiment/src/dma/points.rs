//! Measurements of one strategy, direction and size in a record.

use fathom_analysis::findings::{self, Metric};
use fathom_analysis::interval::{Interval, grouped_interval};
use fathom_analysis::metrics::dma as metrics;
use fathom_probe::machine::dma::{Channel, Engine, TransferTimes, Transfers};
use fathom_probe::pattern::{PatternKind, Transfer, Trial};

use super::Route;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// The pilot round only tests what is granted; its times are of cold caches.
pub(super) const PILOT_ROUND: u64 = 1;

/// One strategy in one direction at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) route: Route,
    pub(super) bytes: u64,
}

impl Key {
    /// Returns the key of a finding.
    pub(super) fn of(self, metric: &'static Metric) -> findings::Key {
        let (strategy, direction) = self.route;
        metric.at([strategy.token().into(), direction.token().into(), self.bytes.into()])
    }
}

/// Returns the route of a trial.
pub(super) fn route(trial: &Trial) -> Route {
    let Transfers { strategy, direction, .. } = trial.or_default::<Transfer>().transfers;
    (strategy, direction)
}

/// A part of a transfer's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All work of the CPU.
    Cpu,
    /// Writing or reading the packet.
    Use,
    Copy,
    Map,
    Unmap,
    /// The engine, including its start and interrupt.
    Engine,
    /// The CPU's part of that.
    Setup,
}

impl Part {
    /// Returns the metric of its findings.
    pub(super) fn metric(self) -> &'static Metric {
        match self {
            Part::Cpu => &metrics::DMA_CPU,
            Part::Use => &metrics::DMA_USE,
            Part::Copy => &metrics::DMA_COPY,
            Part::Map => &metrics::DMA_MAP,
            Part::Unmap => &metrics::DMA_UNMAP,
            Part::Engine => &metrics::DMA_TRANSFER_TIME,
            Part::Setup => &metrics::DMA_SETUP,
        }
    }

    fn ticks(self, row: &TransferTimes) -> f64 {
        // The sum must not overflow for a hostile record.
        let sum = |parts: &[u64]| parts.iter().map(|&part| part as f64).sum();
        match self {
            Part::Cpu => sum(&[row.used, row.copy, row.map, row.unmap, row.setup]),
            Part::Use => row.used as f64,
            Part::Copy => row.copy as f64,
            Part::Map => row.map as f64,
            Part::Unmap => row.unmap as f64,
            Part::Engine => row.engine as f64,
            Part::Setup => row.setup as f64,
        }
    }
}

/// All measurements of a point, one list of transfers per trial.
pub(super) struct Point {
    pub(super) key: Key,
    pub(super) channel: Channel,
    runs: Vec<(f64, Vec<TransferTimes>)>,
    pub(super) ids: Vec<u64>,
}

/// Returns the finished trials of transfers after the pilot round, in their order.
fn timed(record: &Record, pollution_set: bool) -> impl Iterator<Item = &TrialRun> {
    record.of(PatternKind::Transfer).filter(move |r| {
        r.trial.round > PILOT_ROUND
            && r.trial.is::<Transfer>(|t| (t.transfers.pollution_set > 0) == pollution_set)
    })
}

/// Returns every point of a record, unordered.
pub(super) fn all(record: &Record) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let scale = Scale::of(record);
    for run in timed(record, false) {
        // Without a known clock rate there is no time.
        let Some(channel) = run.transfers.channel else { continue };
        let Some(tick_ns) = tick_ns(&channel, run.trial.id, &scale) else { continue };
        let key = Key { route: route(&run.trial), bytes: run.trial.memory.bytes };
        let at = points.iter().position(|point| point.key == key);
        let at = at.unwrap_or_else(|| {
            points.push(Point { key, channel, runs: Vec::new(), ids: Vec::new() });
            points.len() - 1
        });
        points[at].runs.push((tick_ns, run.transfers.rows.clone()));
        points[at].ids.push(run.trial.id);
    }
    points
}

/// Returns the ns per tick of a channel's clock. Core cycles are converted with the cycle calibration around the trial.
fn tick_ns(channel: &Channel, trial: u64, scale: &Scale) -> Option<f64> {
    match channel.hz {
        0 if channel.cycles => Some(scale.cycle_at(trial)? * scale.tick_ns),
        0 => None,
        hz => Some(1e9 / hz as f64),
    }
}

impl Point {
    pub(super) fn count(&self) -> usize {
        self.runs.iter().map(|(_, rows)| rows.len()).sum()
    }

    /// Returns a number per transfer, which gets the ns per tick: median and interval over trials.
    pub(super) fn of(&self, number: impl Fn(&TransferTimes, f64) -> f64) -> Option<Interval> {
        let of_run = |(tick_ns, rows): &(f64, Vec<TransferTimes>)| {
            rows.iter().map(|row| number(row, *tick_ns)).collect::<Vec<f64>>()
        };
        grouped_interval(&self.runs.iter().map(of_run).collect::<Vec<_>>())
    }

    /// Returns a part's time, ns.
    pub(super) fn part(&self, part: Part) -> Option<Interval> {
        self.of(|row, tick_ns| part.ticks(row) * tick_ns)
    }

    /// Returns the medians of the trials' CPU times, for the judgement of disturbance.
    pub(super) fn repeats(&self) -> Vec<f64> {
        let of_run = |(tick_ns, rows): &(f64, Vec<TransferTimes>)| {
            fathom_analysis::interval::median(
                &rows.iter().map(|row| Part::Cpu.ticks(row) * tick_ns).collect::<Vec<_>>(),
            )
        };
        self.runs.iter().filter_map(of_run).collect()
    }

    /// Returns the bytes per second of consecutive transfers; `None` for an engine without a meaningful time.
    pub(super) fn throughput(&self) -> Option<Interval> {
        let bytes = self.key.bytes as f64;
        let parts = [Part::Use, Part::Copy, Part::Map, Part::Engine, Part::Unmap];
        let rate = |row: &TransferTimes, tick_ns: f64| {
            let ns: f64 = parts.iter().map(|part| part.ticks(row)).sum::<f64>() * tick_ns;
            if ns > 0.0 { bytes / ns * 1e9 } else { 0.0 }
        };
        if self.is_timed_engine() { self.of(rate) } else { None }
    }

    /// Returns whether the engine's time is that of a real or described device.
    pub(super) fn is_timed_engine(&self) -> bool {
        matches!(self.channel.engine, Engine::Described | Engine::Dmaengine)
    }
}

/// Cache pollution: the slowdown of a walk over another working set by a transfer.
pub(super) struct Loss {
    pub(super) key: Key,
    pub(super) pollution_set: u64,
    /// ns per walk: before the transfer, and the slowdown after it.
    pub(super) before: Interval,
    pub(super) lost: Interval,
    pub(super) count: usize,
    pub(super) ids: Vec<u64>,
}

/// Returns whether an engine moves data on this route, or the CPU copies it. If not, nothing can evict a line.
pub(super) fn moves(record: &Record, (strategy, direction): Route) -> bool {
    let by_engine = |r: &TrialRun| r.transfers.channel.is_some_and(|c| c.engine != Engine::Nothing);
    let mut runs = record.of(PatternKind::Transfer).filter(|r| route(&r.trial) == (strategy, direction));
    strategy.copies() || runs.any(by_engine)
}

/// Returns every slowdown in a record.
pub(super) fn losses(record: &Record, scale: &Scale) -> Vec<Loss> {
    let mut keys: Vec<Key> = Vec::new();
    for run in timed(record, true) {
        let key = Key { route: route(&run.trial), bytes: run.trial.memory.bytes };
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.into_iter().filter_map(|key| loss(record, key, scale)).collect()
}

fn loss(record: &Record, key: Key, scale: &Scale) -> Option<Loss> {
    let of = |r: &&TrialRun| route(&r.trial) == key.route && r.trial.memory.bytes == key.bytes;
    let runs: Vec<&TrialRun> = timed(record, true).filter(of).collect();
    let each = |number: &dyn Fn(&TransferTimes) -> f64| {
        let of_run = |r: &&TrialRun| r.transfers.rows.iter().map(number).collect::<Vec<f64>>();
        grouped_interval(&runs.iter().map(of_run).collect::<Vec<_>>())
    };
    Some(Loss {
        key,
        pollution_set: runs.first()?.trial.get::<Transfer>()?.transfers.pollution_set,
        before: each(&|row| row.before as f64 * scale.tick_ns)?,
        lost: each(&|row| (row.after as f64 - row.before as f64) * scale.tick_ns)?,
        count: runs.iter().map(|r| r.transfers.rows.len()).sum(),
        ids: runs.iter().map(|r| r.trial.id).collect(),
    })
}
