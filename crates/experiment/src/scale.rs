//! Clocks and page sizes of a machine, from its record; and all measurements at one working set.

use fathom_analysis::claims::decode;
use fathom_analysis::interval::{median, robust_sigma};
use fathom_analysis::metrics::survey;
use fathom_probe::machine::{COLOUR_SPAN, ClockTrust, Pages};
use fathom_probe::pattern::{self, PatternKind, Trial, Variant};
use fathom_units::facts::{self, PageFrames};

use crate::record::{Record, TrialRun};

mod curve_pages;
mod cycle_calibration;
pub(crate) mod line_pairs;
mod long_lines;
mod short_lines;
mod singles;

pub(crate) use curve_pages::SlowerHuge;
pub(crate) use long_lines::MIN_SLOWER;
pub(crate) use short_lines::{DENSE_TRIALS, MAX_DISTURBED_BYTES, Short, dense_range};
pub(crate) use singles::Single;

/// Bytes between the cells of a chain whose experiment does not measure the line size. With smaller lines some sets
/// stay unused, evenly, or see [`short_lines`]. With larger lines the order of the chain keeps the cells of a line half a lap apart.
pub(crate) const STRIDE: u64 = 64;

/// Bytes between lines in the TLB pairs. No line is longer, so both halves of a pair touch the same number of lines.
pub(crate) const PAIR_STRIDE: u64 = 128;

/// Pages in a window that fits in any first-level TLB, even one of eight entries with random replacement. All lines
/// of a window are visited before the next window begins.
pub(crate) const WINDOW_PAGES: u64 = 4;

/// Huge pages that every TLB for them holds: the smallest one known has 4 entries.
pub(crate) const FEW_HUGE_PAGES: u64 = 4;

/// Cycles per load below which the whole path runs on the core's clock. First- and second-level caches take 3 to 25
/// cycles. L3, mesh and memory have their own clocks and take 35 and more.
pub(crate) const MAX_CORE_CLOCKED_CYCLES: f64 = 30.0;

/// All measurements at one working set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct At {
    /// Working set in bytes.
    pub(crate) bytes: u64,
    /// Time per load in ns, one list per trial.
    pub(crate) groups: Vec<Vec<f64>>,
    /// The same, corrected for changes of the core's clock: if a load runs on the core's clock, its cycles times the
    /// typical cycle; else its time.
    pub(crate) steady: Vec<Vec<f64>>,
    /// Time per load in core cycles, by the cycle calibration of the trial's own round.
    pub(crate) cycles: Vec<f64>,
    /// Relative standard error of each trial's median that the clock's resolution alone causes.
    resolution: Vec<f64>,
    /// Times under noise in bursts, one per trial; empty on a model.
    singles: Vec<Single>,
    /// The trials.
    pub(crate) trials: Vec<u64>,
}

impl At {
    pub(crate) fn values(&self) -> Vec<f64> {
        self.groups.concat()
    }

    /// Time per load at the core's typical clock, ns. Other users of a machine only add time to a load: on hardware the
    /// undisturbed trials count (see [`singles`]), if the whole path runs on the core's clock. Otherwise it is the median
    /// over trials, of three or more over their faster half.
    pub(crate) fn time(&self) -> f64 {
        if let Some(singles) = self.core_clocked() {
            return singles::time(singles);
        }
        let mut trials: Vec<(f64, &Vec<f64>)> =
            self.steady.iter().filter_map(|g| Some((median(g)?, g))).collect();
        trials.sort_by(|a, b| a.0.total_cmp(&b.0));
        if trials.len() >= 3 {
            trials.truncate(trials.len().div_ceil(2));
        }
        let values: Vec<f64> = trials.iter().flat_map(|t| t.1.iter().copied()).collect();
        median(&values).unwrap_or(0.0)
    }

    /// Relative standard error of the median: 1.25 sigma / sqrt(n) for a normal distribution. It uses the medians of
    /// four or more trials, because samples of one trial share a placement.
    pub(crate) fn sigma(&self) -> f64 {
        let mut groups: Vec<&Vec<f64>> = self.steady.iter().collect();
        if let Some(singles) = self.core_clocked() {
            let is_undisturbed = singles::undisturbed(singles);
            let trials = groups.into_iter().zip(singles);
            groups = trials.filter(|(_, single)| is_undisturbed(single)).map(|(group, _)| group).collect();
            if groups.is_empty() {
                return singles::UPPER_BOUND_SIGMA;
            }
        }
        let medians: Vec<f64> = groups.iter().filter_map(|g| median(g)).collect();
        let all = || groups.iter().flat_map(|g| g.iter().copied()).collect();
        let spread = if medians.len() >= 4 { medians } else { all() };
        let centre = median(&spread).unwrap_or(0.0);
        if centre <= 0.0 {
            return 0.0;
        }
        let seen = 1.25 * robust_sigma(&spread) / (spread.len() as f64).sqrt() / centre;
        // Few samples of a coarse clock may agree by chance.
        let square: f64 = self.resolution.iter().map(|g| g * g).sum();
        seen.max(square.sqrt() / self.resolution.len().max(1) as f64)
    }

    /// Returns the standard error of the time, ns.
    pub(crate) fn error(&self) -> f64 {
        self.sigma() * self.time()
    }

    /// Returns the trials' times if noise in bursts can be told from the machine: on hardware, if the whole path runs
    /// on the core's clock.
    pub(crate) fn core_clocked(&self) -> Option<&[Single]> {
        let fast = median(&self.cycles).is_some_and(|cycles| cycles < MAX_CORE_CLOCKED_CYCLES);
        (fast && !self.singles.is_empty()).then_some(&self.singles)
    }

    /// Returns the trials' times on hardware; empty on a model.
    pub(crate) fn singles(&self) -> &[Single] {
        &self.singles
    }
}

/// Smallest rise that counts on hardware, as a share of its step: 4 %. Measured on a Sapphire Rapids guest with an L1
/// of 12 ways: from 40 to 46 of its 48 KiB up to 2 % of the loads miss, differently in each run.
const HARDWARE_SHARE: f64 = 0.04;

/// Clocks and page sizes of a machine, as far as the record has them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Length of a tick, ns.
    pub(crate) tick_ns: f64,
    /// Resolution of the clock, ticks.
    pub(crate) resolution: f64,
    /// Ticks per core cycle, one value per undisturbed sample of the cycle calibration, with its round and trial.
    pub(crate) cycle_ticks: Vec<(u64, u64, f64)>,
    /// Median of the above over all rounds.
    typical: Option<f64>,
    /// Median of each trial of the cycle calibration, ascending by trial. Cached, because every conversion needs them.
    cycle_calibrations: Vec<(u64, f64)>,
    /// Share of a step that a rise must reach to count: see [`fathom_analysis::tiers::Options::share`].
    pub(crate) share: f64,
    /// Whether others use the machine: a guest, or a described machine with neighbours.
    pub(crate) others: bool,
    /// Whether this is a guest, whose page walks are nested in those of its host.
    pub(crate) nested: bool,
    /// Base page, bytes.
    pub(crate) base: u64,
    /// Huge page, bytes, if huge pages exist, were not refused, and do not translate slower than base pages.
    pub(crate) huge: Option<u64>,
    /// Loads in huge pages and in base pages, ns, if huge pages exist but translate slower.
    pub(crate) slower_huge: Option<SlowerHuge>,
    /// Bytes between the cells of the latency curve: [`STRIDE`], or twice that if lines are longer than 128 bytes.
    pub(crate) stride: u64,
    /// Whether lines are longer than 128 bytes, but the curve was not measured with twice the spacing.
    pub(crate) untested_long_lines: bool,
    /// Whether this is a survey.
    pub(crate) is_survey: bool,
    /// Levels for which the spacing is too large.
    pub(crate) short_lines: Vec<Short>,
    /// Whether the packed halves of TLB pairs, which have the curve's walk with twice its spacing, are points of the curve.
    pub(crate) packed_are_points: bool,
    /// Window of the latency curve, bytes.
    pub(crate) window: u64,
    /// Whether base pages of chosen colours are available.
    pub(crate) coloured: bool,
    /// Whether the latency curve is in them unless it is in huge pages.
    pub(crate) coloured_curve: bool,
    /// Whether the TLB pairs are in them.
    pub(crate) coloured_pairs: bool,
    /// Whether the machine tells that the frames of base pages follow one another.
    pub(crate) base_in_order: bool,
}

/// Largest page size of any architecture: 512 GiB.
const MAX_PAGE_BYTES: u64 = 1 << 39;

/// Returns a page size from a fact, if it is valid.
fn page(record: &Record, fact: &str) -> Option<u64> {
    record.int(fact).filter(|p| p.is_power_of_two() && *p <= MAX_PAGE_BYTES)
}

/// Bytes that fit in one huge page: if such a mapping is refused, huge pages are not available.
const SINGLE_HUGE_PAGE_BYTES: u64 = 1 << 20;

/// Returns reason and remedy of the first refusal of a single huge page: huge pages are not available. A refusal of
/// many does not show that.
pub(crate) fn no_huge_pages(record: &Record) -> Option<&(String, String)> {
    let huge = page(record, facts::PAGE_HUGE).unwrap_or(2 << 20);
    let single =
        |trial: &Trial| trial.memory.page == Pages::Huge && trial.extent(huge) <= SINGLE_HUGE_PAGE_BYTES;
    record.trials.iter().filter(|run| single(&run.trial)).find_map(|run| run.refusal.as_ref())
}

/// Returns whether a request for as few coloured pages as their unit has was refused. A refusal of many does not show
/// that none are available.
fn no_coloured_pages(record: &Record) -> bool {
    let few = |trial: &Trial| trial.memory.page == Pages::Coloured && trial.extent(1) <= COLOUR_SPAN;
    record.trials.iter().any(|run| few(&run.trial) && run.refusal.is_some())
}

/// Returns the name of the fact with the largest mapping in pages of this kind, bytes.
pub(crate) fn mappable(pages: Pages) -> &'static str {
    match pages {
        Pages::Base => facts::MEMORY_MAPPABLE_BASE_BYTES,
        Pages::Coloured => facts::MEMORY_MAPPABLE_COLOURED_BYTES,
        Pages::Huge => facts::MEMORY_MAPPABLE_HUGE_BYTES,
    }
}

/// Size of the largest mapping in coloured pages, at least, in which hardware's latency curve is measured, bytes, and as a multiple of the largest
/// claimed cache: beyond twice that begins memory's plateau.
const MIN_COLOURED: u64 = 64 << 20;
const MIN_COLOURED_CACHES: u64 = 4;

/// Returns whether there are enough coloured pages for a latency curve.
fn has_enough_coloured(record: &Record) -> bool {
    let needed = || MIN_COLOURED.max(largest_claim(record).unwrap_or(0).saturating_mul(MIN_COLOURED_CACHES));
    let bytes = record.int(facts::MEMORY_MAPPABLE_COLOURED_BYTES);
    record.is_modelled() || bytes.is_some_and(|bytes| bytes >= needed())
}

/// Returns the size of the largest data cache that any source claims, bytes.
pub(crate) fn largest_claim(record: &Record) -> Option<u64> {
    let claims = decode(&record.facts).claims;
    claims.iter().filter(|claim| claim.holds.data()).filter_map(|claim| claim.size).max()
}

impl Scale {
    pub(crate) fn of(record: &Record) -> Scale {
        let hz = record.int(facts::CLOCK_HZ).filter(|&hz| hz > 0).unwrap_or(1_000_000_000);
        let refused = no_huge_pages(record).is_some();
        let coloured = record.text(facts::PAGE_COLOURED).is_some() && !no_coloured_pages(record);
        let resolution = record
            .of(PatternKind::Clock)
            .flat_map(|r| r.samples.iter().map(|s| s.ticks))
            .filter(|&t| t > 0)
            .min()
            .unwrap_or(1);
        let cycle_ticks = cycle_calibration::samples(record, resolution as f64);
        let mut scale = Scale {
            tick_ns: 1e9 / hz as f64,
            resolution: resolution as f64,
            typical: median(&cycle_ticks.iter().map(|c| c.2).collect::<Vec<_>>()),
            cycle_calibrations: cycle_calibration::by_trial(&cycle_ticks),
            cycle_ticks,
            share: if record.is_exact() { 0.0 } else { HARDWARE_SHARE },
            nested: record.trust == Some(ClockTrust::Virtual),
            others: match record.trust {
                Some(ClockTrust::Modelled) => !record.is_exact(),
                trust => trust == Some(ClockTrust::Virtual),
            },
            base: page(record, facts::PAGE_BASE).filter(|p| *p >= STRIDE).unwrap_or(4096),
            huge: page(record, facts::PAGE_HUGE).filter(|p| *p > STRIDE && !refused),
            coloured,
            coloured_curve: coloured && has_enough_coloured(record),
            coloured_pairs: coloured && record.is_modelled(),
            base_in_order: record.text(facts::PAGE_FRAMES) == Some(PageFrames::Contiguous.token()),
            slower_huge: None,
            stride: STRIDE,
            is_survey: record.run.as_ref().is_some_and(|run| run.experiment == survey::NAME),
            untested_long_lines: false,
            short_lines: Vec::new(),
            packed_are_points: false,
            window: 0,
        };
        // Only a survey measures enough pairs to tell the cost of translation from that of the spacing.
        if scale.is_survey {
            let by_pairs = line_pairs::found(record);
            if by_pairs == Some(true) && spaced_widely_from(record).is_some() {
                scale.stride = 2 * STRIDE;
            }
            curve_pages::choose(record, &mut scale);
            let long = by_pairs.unwrap_or_else(|| long_lines::found(record, &scale));
            if long && spaced_widely_from(record).is_some() {
                scale.stride = 2 * STRIDE;
            }
            scale.untested_long_lines = long && scale.stride == STRIDE;
            scale.packed_are_points = !long && !long_lines::packed_are_faster(record, &scale);
            if record.is_modelled() {
                scale.short_lines = short_lines::found(record, &scale);
            }
        } else {
            curve_pages::choose(record, &mut scale);
            scale.packed_are_points = true;
        }
        scale
    }

    /// Sets twice the spacing, for a curve that begins again because lines are long.
    pub(crate) fn space_widely(&mut self) {
        (self.stride, self.untested_long_lines) = (2 * STRIDE, false);
    }

    /// Returns the bytes between lines in the TLB pairs.
    pub(crate) fn pair_stride(&self) -> u64 {
        PAIR_STRIDE / STRIDE * self.stride
    }

    /// Returns whether this is a described machine with neighbours.
    pub(crate) fn has_described_neighbours(&self) -> bool {
        self.others && !self.nested
    }

    /// Returns the ticks per cycle over all rounds.
    pub(crate) fn cycle(&self) -> Option<f64> {
        self.typical
    }

    /// Returns the cycle calibrations before and after trial `id`.
    fn calibrations_at(&self, id: u64) -> [Option<(u64, f64)>; 2] {
        let at = self.cycle_calibrations.partition_point(|c| c.0 <= id);
        let before = at.checked_sub(1).map(|i| self.cycle_calibrations[i]);
        [before, self.cycle_calibrations.get(at).copied()]
    }

    /// Returns the ticks per cycle while trial `id` ran, interpolated between the cycle calibrations before and after
    /// it. Without any calibration: the value over all rounds.
    pub(crate) fn cycle_at(&self, id: u64) -> Option<f64> {
        match self.calibrations_at(id) {
            [Some((a, ta)), Some((b, tb))] => Some(ta + (tb - ta) * (id - a) as f64 / (b - a) as f64),
            [Some((_, t)), None] | [None, Some((_, t))] => Some(t),
            [None, None] => self.cycle(),
        }
    }

    /// Returns the factor by which a trial's time at the typical clock is longer if its clock was the faster one of the calibrations before
    /// and after it: where they differ, nothing shows when the clock changed. Only of described machines: on a Sapphire Rapids guest calibrations
    /// differ in 5 of 11 places, and too few trials were left to show the upper end of a capacity.
    fn clock_doubt(&self, run: &TrialRun) -> f64 {
        if !self.has_described_neighbours() {
            return 1.0;
        }
        let id = run.trial.id;
        let (Some(then), [Some((_, before)), Some((_, after))]) =
            (self.cycle_at(id), self.calibrations_at(id))
        else {
            return 1.0;
        };
        if self.ticks(run).iter().all(|t| t / then < MAX_CORE_CLOCKED_CYCLES) {
            then / before.min(after)
        } else {
            1.0
        }
    }

    /// Returns a trial's times per load in ticks.
    fn ticks(&self, run: &TrialRun) -> Vec<f64> {
        run.ticks_per_op().collect()
    }

    /// Returns a trial's times per load in ns, corrected for changes of the core's clock: see [`At::steady`].
    pub(crate) fn steady(&self, run: &TrialRun) -> Vec<f64> {
        let ticks: Vec<f64> = self.ticks(run);
        match (self.cycle_at(run.trial.id), self.cycle()) {
            (Some(then), Some(typical)) if ticks.iter().all(|t| t / then < MAX_CORE_CLOCKED_CYCLES) => {
                ticks.iter().map(|t| t / then * typical * self.tick_ns).collect()
            }
            _ => ticks.iter().map(|t| t * self.tick_ns).collect(),
        }
    }

    /// Adds a trial's measurements to its working set.
    pub(crate) fn add(&self, at: &mut Vec<At>, run: &TrialRun) {
        let bytes = run.trial.memory.bytes;
        let cycle = self.cycle_at(run.trial.id);
        let ticks = self.ticks(run);
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
        let steady = self.steady(run);
        // `share` is 0 on a model without neighbours.
        if self.share > 0.0 {
            entry.singles.push(Single::of(run, &steady, self.clock_doubt(run)));
        }
        entry.steady.push(steady);
        // The clock's resolution in the time of a sample, which is the difference of two intervals. Their ends fall
        // anywhere between two steps, and timers have jitter in addition.
        let timed = median(&ticks).unwrap_or(0.0) * run.trial.loads as f64;
        if timed > 0.0 {
            entry.resolution.push(self.resolution / timed / (ticks.len() as f64).sqrt());
        }
        entry.trials.push(run.trial.id);
    }

    /// Returns all measurements of one pattern, ascending in bytes.
    pub(crate) fn gather(
        &self,
        record: &Record,
        pattern: PatternKind,
        select: impl Fn(&Trial) -> bool,
    ) -> Vec<At> {
        let mut at = Vec::new();
        for run in record.of(pattern).filter(|r| select(&r.trial)) {
            self.add(&mut at, run);
        }
        at.sort_by_key(|a| a.bytes);
        at
    }
}

/// Returns the round in which the scan was begun with twice the spacing, if it was: its pairs of pages come first.
fn spaced_widely_from(record: &Record) -> Option<u64> {
    let is_wide =
        |run: &&TrialRun| run.trial.memory.stride == 2 * PAIR_STRIDE && has_one_line_per_page(&run.trial);
    record.of(PatternKind::Pages).find(is_wide).map(|run| run.trial.round)
}

/// Returns whether this trial has one line in each page.
pub(crate) fn has_one_line_per_page(trial: &Trial) -> bool {
    pattern::Pages::of(&trial.pattern).is_some_and(|pages| pages.per_page == 1)
}

/// Returns whether the clock may be used for latencies.
pub(crate) fn clock_is_usable(record: &Record) -> bool {
    matches!(record.trust, Some(ClockTrust::Real | ClockTrust::Virtual | ClockTrust::Modelled))
}
