//! A machine's clocks and pages as the record tells them, and what was measured at one point.

use fathom_analysis::interval::{median, robust_sigma};
use fathom_probe::machine::{COLOUR_SPAN, ClockTrust, Pages};
use fathom_probe::pattern::{PatternKind, Trial};
use fathom_units::facts;

use crate::record::{Record, TrialRun};

/// Bytes between the cells of a chain whose experiment does not measure the line size. With smaller lines some sets
/// stay unused, evenly; with larger lines the order of the chain keeps the cells of a line half a lap apart.
pub(crate) const STRIDE: u64 = 64;

/// Pages in a window that any first-level TLB holds, also one of eight entries with random replacement: all
/// their lines are visited before the next window begins.
pub(crate) const WINDOW_PAGES: u64 = 4;

/// Fewer cycles than this a load, and the whole way is clocked with the core: first- and second-level
/// caches take 3 to 25 cycles, what is behind them (L3, mesh, memory) has clocks of its own and takes 35 and
/// more.
pub(crate) const CORE_CLOCKED: f64 = 30.0;

/// Everything measured at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct At {
    /// Working set in bytes.
    pub(crate) bytes: u64,
    /// Time a load in ns, one list a trial.
    pub(crate) groups: Vec<Vec<f64>>,
    /// The same as if the core's clock had not changed: where a load is clocked with the core, its cycles
    /// by the typical cycle; else its time.
    pub(crate) steady: Vec<Vec<f64>>,
    /// Time a load in core cycles, by the cycle calibration of each trial's own round.
    pub(crate) cycles: Vec<f64>,
    /// Standard error that the clock's steps alone give each trial's median, relative.
    grain: Vec<f64>,
    /// The trials.
    pub(crate) trials: Vec<u64>,
}

impl At {
    pub(crate) fn values(&self) -> Vec<f64> {
        self.groups.concat()
    }

    /// Median time at the core's typical clock, ns: over the quieter half of the trials, where there are
    /// three or more. What neighbours do to a cache they share only ever adds to a load.
    pub(crate) fn time(&self) -> f64 {
        let mut trials: Vec<(f64, &Vec<f64>)> =
            self.steady.iter().filter_map(|g| Some((median(g)?, g))).collect();
        trials.sort_by(|a, b| a.0.total_cmp(&b.0));
        if trials.len() >= 3 {
            trials.truncate(trials.len().div_ceil(2));
        }
        let values: Vec<f64> = trials.iter().flat_map(|t| t.1.iter().copied()).collect();
        median(&values).unwrap_or(0.0)
    }

    /// Relative standard error of the median: 1.25 sigma / sqrt(n) for a normal distribution, from the
    /// trials' medians where there are enough of them, because samples of one trial share a placement.
    pub(crate) fn sigma(&self) -> f64 {
        let medians: Vec<f64> = self.steady.iter().filter_map(|g| median(g)).collect();
        let spread = if medians.len() >= 4 { medians } else { self.steady.concat() };
        let centre = median(&spread).unwrap_or(0.0);
        if centre <= 0.0 {
            return 0.0;
        }
        let seen = 1.25 * robust_sigma(&spread) / (spread.len() as f64).sqrt() / centre;
        // Few samples of a coarse clock may agree by chance.
        let square: f64 = self.grain.iter().map(|g| g * g).sum();
        seen.max(square.sqrt() / self.grain.len().max(1) as f64)
    }
}

/// On hardware a rise counts from 4 % of its step on. Measured on a Sapphire Rapids guest with an L1 of 12
/// ways: from 40 to 46 of its 48 KiB up to 2 % of the loads miss, differently in each run.
const HARDWARE_SHARE: f64 = 0.04;

/// The median of each trial of the cycle calibration, ascending by trial.
fn cycle_calibrations(cycle_ticks: &[(u64, u64, f64)]) -> Vec<(u64, f64)> {
    let mut sorted: Vec<(u64, f64)> = cycle_ticks.iter().map(|c| (c.1, c.2)).collect();
    sorted.sort_by_key(|c| c.0);
    let of = |one: &[(u64, f64)]| Some((one[0].0, median(&one.iter().map(|c| c.1).collect::<Vec<_>>())?));
    sorted.chunk_by(|a, b| a.0 == b.0).filter_map(of).collect()
}

/// A machine's clocks and pages, as far as the record tells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Length of a tick, ns.
    pub(crate) tick_ns: f64,
    /// Steps in which the clock moves, ticks.
    pub(crate) resolution: f64,
    /// Ticks a core cycle, one value a sample of the cycle calibration, with its round and trial.
    pub(crate) cycle_ticks: Vec<(u64, u64, f64)>,
    /// Its median over all rounds, and that of each trial of the cycle calibration, ascending: every step asks for them.
    typical: Option<f64>,
    cycle_calibrations: Vec<(u64, f64)>,
    /// Share of a step that a rise must reach to count: see [`Options::share`].
    pub(crate) share: f64,
    /// Base page, bytes.
    pub(crate) base: u64,
    /// Huge page, bytes, where there is one that was not refused.
    pub(crate) huge: Option<u64>,
    /// Does somebody give base pages of chosen colours?
    pub(crate) coloured: bool,
}

/// No page is longer: the largest that any architecture translates at once is 512 GiB.
const LARGEST_PAGE: u64 = 1 << 39;

/// A size of pages, if it is one.
fn page(record: &Record, fact: &str) -> Option<u64> {
    record.int(fact).filter(|p| p.is_power_of_two() && *p <= LARGEST_PAGE)
}

/// A mapping this small in huge pages takes one of them: where that is refused there are none.
const ONE_HUGE_PAGE: u64 = 1 << 20;

/// Why there are no huge pages, and what would help: (reason, remedy) of the first refusal of a single one. That many
/// are refused says nothing of that.
pub(crate) fn no_huge_pages(record: &Record) -> Option<&(String, String)> {
    let huge = page(record, facts::PAGE_HUGE).unwrap_or(2 << 20);
    let single = |trial: &Trial| trial.memory.page == Pages::Huge && trial.extent(huge) <= ONE_HUGE_PAGE;
    record.trials.iter().filter(|run| single(&run.trial)).find_map(|run| run.refusal.as_ref())
}

/// Were as few coloured pages refused as their unit has? That many are refused says nothing of that.
fn no_coloured_pages(record: &Record) -> bool {
    let few = |trial: &Trial| trial.memory.page == Pages::Coloured && trial.extent(1) <= COLOUR_SPAN;
    record.trials.iter().any(|run| few(&run.trial) && run.refusal.is_some())
}

impl Scale {
    pub(crate) fn of(record: &Record) -> Scale {
        let hz = record.int(facts::CLOCK_HZ).filter(|&hz| hz > 0).unwrap_or(1_000_000_000);
        let refused = no_huge_pages(record).is_some();
        let resolution = record
            .of(PatternKind::Clock)
            .flat_map(|r| r.samples.iter().map(|s| s.ticks))
            .filter(|&t| t > 0)
            .min()
            .unwrap_or(1);
        let cycle_ticks: Vec<(u64, u64, f64)> = record
            .of(PatternKind::Alu)
            .flat_map(|r| r.ticks_per_op().map(|t| (r.trial.round, r.trial.id, t)))
            .filter(|(_, _, t)| *t > 0.0)
            .collect();
        Scale {
            tick_ns: 1e9 / hz as f64,
            resolution: resolution as f64,
            typical: median(&cycle_ticks.iter().map(|c| c.2).collect::<Vec<_>>()),
            cycle_calibrations: cycle_calibrations(&cycle_ticks),
            cycle_ticks,
            share: if record.trust == Some(ClockTrust::Modelled) { 0.0 } else { HARDWARE_SHARE },
            base: page(record, facts::PAGE_BASE).filter(|p| *p >= STRIDE).unwrap_or(4096),
            huge: page(record, facts::PAGE_HUGE).filter(|p| *p > STRIDE && !refused),
            coloured: record.text(facts::PAGE_COLOURED).is_some() && !no_coloured_pages(record),
        }
    }

    /// Ticks a cycle over all rounds.
    pub(crate) fn cycle(&self) -> Option<f64> {
        self.typical
    }

    /// Ticks a cycle while trial `id` ran: between the cycle calibrations before and after it, by its distance from
    /// them; over all where there are none.
    pub(crate) fn cycle_at(&self, id: u64) -> Option<f64> {
        let at = self.cycle_calibrations.partition_point(|y| y.0 <= id);
        let (before, after) =
            (at.checked_sub(1).map(|i| self.cycle_calibrations[i]), self.cycle_calibrations.get(at).copied());
        match (before, after) {
            (Some((a, ta)), Some((b, tb))) => Some(ta + (tb - ta) * (id - a) as f64 / (b - a) as f64),
            (Some((_, t)), None) | (None, Some((_, t))) => Some(t),
            (None, None) => self.cycle(),
        }
    }

    /// A trial's times a load in ns, as if the core's clock had not changed: see [`At::steady`].
    pub(crate) fn steady(&self, run: &TrialRun) -> Vec<f64> {
        let ticks: Vec<f64> = run.ticks_per_op().collect();
        match (self.cycle_at(run.trial.id), self.cycle()) {
            (Some(then), Some(typical)) if ticks.iter().all(|t| t / then < CORE_CLOCKED) => {
                ticks.iter().map(|t| t / then * typical * self.tick_ns).collect()
            }
            _ => ticks.iter().map(|t| t * self.tick_ns).collect(),
        }
    }

    /// Adds what a trial measured to its point.
    pub(crate) fn add(&self, at: &mut Vec<At>, run: &TrialRun) {
        let bytes = run.trial.memory.bytes;
        let cycle = self.cycle_at(run.trial.id);
        let ticks: Vec<f64> = run.ticks_per_op().collect();
        let entry = match at.iter_mut().find(|a| a.bytes == bytes) {
            Some(entry) => entry,
            None => {
                at.push(At { bytes, ..At::default() });
                let last = at.len() - 1;
                &mut at[last]
            }
        };
        entry.cycles.extend(cycle.iter().flat_map(|c| ticks.iter().map(move |t| t / c)));
        entry.groups.push(ticks.iter().map(|t| t * self.tick_ns).collect());
        entry.steady.push(self.steady(run));
        // One step of the clock in what a sample times, the difference of two intervals: their ends fall
        // anywhere between its steps, and timers have jitter besides.
        let timed = median(&ticks).unwrap_or(0.0) * run.trial.loads as f64;
        if timed > 0.0 {
            entry.grain.push(self.resolution / timed / (ticks.len() as f64).sqrt());
        }
        entry.trials.push(run.trial.id);
    }

    /// Everything that was measured with one pattern, ascending in bytes.
    pub(crate) fn gather(
        &self,
        record: &Record,
        pattern: PatternKind,
        wanted: impl Fn(&Trial) -> bool,
    ) -> Vec<At> {
        let mut at = Vec::new();
        for run in record.of(pattern).filter(|r| wanted(&r.trial)) {
            self.add(&mut at, run);
        }
        at.sort_by_key(|a| a.bytes);
        at
    }
}

/// May latencies be shown at all?
pub(crate) fn clock_is_usable(record: &Record) -> bool {
    matches!(record.trust, Some(ClockTrust::Real | ClockTrust::Virtual | ClockTrust::Modelled))
}
