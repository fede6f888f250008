//! Curves of a record so far: the latency curve and the TLB pairs. Used by plans and readings.

mod tlbs;

use fathom_analysis::interval::{Interval, median};
use fathom_analysis::tiers::ramps::{self, MinRatios};
use fathom_analysis::tiers::{self, Options, Point, Reading, Tier};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{OrderKind, PatternKind, Trial, Walk};

use super::bursts::{self, Kind};
use super::conflicts::{self, Translated};
use super::descriptors::{Cause, Steps};
use super::hashed;
use super::passes;
use super::spacings;
use super::splinters::{self, Splinters};
use super::tables::extend_by_tables;
use super::translation::{self, Pair, Translation, hit_time, pair_points, translation_at, translation_error};
use super::two_lines::{self, OpenRows};
use super::walks::grows_from;
use crate::record::Record;
use crate::scale::MAX_CORE_CLOCKED_CYCLES;
use crate::scale::{At, Scale, has_one_line_per_page};

impl Scale {
    /// Returns the kind of pages that the latency curve is measured in.
    pub(crate) fn pages(&self) -> Pages {
        match (self.huge, self.coloured_curve) {
            (Some(_), _) => Pages::Huge,
            (None, true) => Pages::Coloured,
            (None, false) => Pages::Base,
        }
    }

    /// Returns the kind of base pages of the TLB pairs.
    pub(crate) fn base_pages(&self) -> Pages {
        if self.coloured_pairs { Pages::Coloured } else { Pages::Base }
    }

    /// Returns whether the pages of the latency curve have frames that follow one another, modulo the length of most caches' ways.
    pub(crate) fn are_in_order(&self) -> bool {
        // The frames of a guest are those of its host's memory.
        self.huge.is_some() || self.coloured_curve && !self.nested || self.base_in_order
    }

    /// Returns whether this trial is a point of the latency curve.
    pub(crate) fn is_point(&self, trial: &Trial) -> bool {
        let stride = self.stride_at(trial.memory.bytes);
        trial.kind() == PatternKind::Chase
            && (trial.memory.stride == stride
                // The test for short lines has half the spacing.
                || self.packed_are_points
                    && stride == self.stride
                    && trial.memory.stride == self.pair_stride())
            && trial.pattern.walk() == Walk::windows(self.window)
            && trial.memory.page == self.pages()
            && trial.beside.streams.is_empty()
    }

    /// Returns the latency curve, ascending in bytes.
    pub(crate) fn latency_curve(&self, record: &Record) -> Vec<At> {
        self.gather(record, PatternKind::Chase, |t| self.is_point(t))
    }

    /// Returns the working set of a described machine from which on all loads are first loads of their lines, because no lap was walked before;
    /// `None` if there is none.
    pub(crate) fn first_loads(&self, record: &Record) -> Option<u64> {
        let is_first = |trial: &&Trial| self.is_point(trial) && trial.warm < trial.memory.cells();
        let modelled = record.is_modelled();
        let trials = record.trials.iter().filter(|_| modelled).map(|run| &run.trial);
        trials.filter(is_first).map(|trial| trial.memory.bytes).min()
    }

    /// Returns the latency curve without packed halves of TLB pairs: their loads have twice the translation if huge pages are in pieces.
    fn latency_curve_in_pieces(&self, record: &Record) -> Vec<At> {
        let has_spacing = |t: &Trial| t.memory.stride == self.stride_at(t.memory.bytes);
        self.gather(record, PatternKind::Chase, |t| self.is_point(t) && has_spacing(t))
    }

    /// Returns the chases in one order and page size that are not points of the latency curve.
    pub(crate) fn chases(&self, record: &Record, order: OrderKind, page: Pages) -> Vec<At> {
        self.gather(record, PatternKind::Chase, |t| {
            t.pattern.walk().order == order
                && t.memory.page == page
                && t.memory.stride == self.stride
                && !self.is_point(t)
        })
    }

    /// Returns the walk of the packed half of a TLB pair. Its window costs one translation per page if huge pages are
    /// not whole, and is too large for a prefetcher to follow. In base pages one page follows the other.
    pub(crate) fn packed_walk(&self) -> Walk {
        Walk::windows(if self.huge.is_some() { self.window } else { self.base })
    }

    /// Returns whether a trial is the packed half of a TLB pair: lines [`Scale::pair_stride`] bytes apart, with negligible
    /// translation.
    pub(crate) fn is_packed(&self, trial: &Trial) -> bool {
        let order = trial.pattern.walk().order;
        trial.kind() == PatternKind::Chase
            && trial.memory.stride == self.pair_stride()
            && trial.memory.page == self.pages()
            && (order == OrderKind::Window || self.huge.is_some() && order == OrderKind::Random)
    }

    /// Returns the packed halves of the TLB pairs.
    pub(crate) fn packed(&self, record: &Record) -> Vec<At> {
        self.gather(record, PatternKind::Chase, |t| self.is_packed(t))
    }

    /// Returns the spread halves of the TLB pairs in base pages: one line per page.
    pub(crate) fn spread(&self, record: &Record) -> Vec<At> {
        self.spread_in(record, self.base_pages())
    }

    fn spread_in(&self, record: &Record, page: Pages) -> Vec<At> {
        self.gather(record, PatternKind::Pages, |t| {
            has_one_line_per_page(t) && t.memory.stride == self.pair_stride() && t.memory.page == page
        })
    }

    /// Returns the TLB pairs in one kind of pages, ascending.
    pub(crate) fn pairs_in(&self, record: &Record, page: Pages) -> Vec<Pair> {
        let packed = self.packed(record);
        let pairs = self.spread_in(record, page).into_iter().filter_map(|s| {
            let p = packed.iter().find(|p| p.bytes == s.bytes)?.clone();
            let extra = s.time() - p.time();
            Some(Pair { pages: s.bytes / self.pair_stride(), spread: s, packed: p, two_lines: None, extra })
        });
        let mut pairs: Vec<Pair> = pairs.collect();
        for (pages, times) in two_lines::read(record, self, page) {
            if let Some(pair) = pairs.iter_mut().find(|pair| pair.pages == pages) {
                pair.extra = times.translation();
                pair.two_lines = Some(times);
            }
        }
        pairs
    }

    /// Returns the TLB pairs, ascending.
    pub(crate) fn pairs(&self, record: &Record) -> Vec<Pair> {
        let mut pairs = self.pairs_in(record, self.base_pages());
        if self.huge.is_none() {
            self.add_packed_translation(&mut pairs, 1.0);
        }
        pairs
    }

    /// Returns the pairs by two lines in each page where all of what open rows of memory add is known, else by one line, and by passes where these are more
    /// precise; and what open rows add if it was not subtracted. `are_whole` tells whether huge pages are known to be translated as a whole.
    fn pairs_by_more_lines(
        &self,
        mut pairs: Vec<Pair>,
        record: &Record,
        curve: &[At],
        are_whole: bool,
    ) -> (Vec<Pair>, Option<OpenRows>) {
        let tested = two_lines::open_rows(record, self, curve.last().map_or(0.0, At::time));
        let applied = tested.filter(|_| are_whole);
        let passes = passes::read(record, self);
        let of_passes = passes::rows(&pairs, &passes, curve, applied);
        let rows = applied.or_else(|| Some(of_passes.as_ref()?.on_many()));
        for pair in pairs.iter_mut().filter(|pair| pair.is_in_memory(curve)) {
            *pair = pair.without_open_rows(rows);
        }
        for lines in pairs.iter_mut().filter_map(|pair| pair.two_lines.as_mut()) {
            lines.add_end_of_cache(curve);
        }
        if let Some(rows) = &of_passes {
            passes::replace(&mut pairs, &passes, rows, curve);
        }
        (pairs, tested.filter(|_| rows.is_none()))
    }

    /// Adds the translation of the packed halves in base pages, or this share of it. Their pages follow one another,
    /// each visited twice per lap: one translation per half page of lines. Its cost is known from the pairs on as few
    /// pages.
    fn add_packed_translation(&self, pairs: &mut [Pair], share: f64) {
        let lines = (self.base / self.pair_stride()).max(2);
        for i in 0..pairs.len() {
            if pairs[i].two_lines.is_some() {
                continue;
            }
            let pages = pairs[i].pages.div_ceil(lines);
            let known = pairs[..i].iter().rfind(|p| p.pages <= pages).map_or(0.0, |p| p.extra.max(0.0));
            pairs[i].extra += share * known / (lines / 2) as f64;
        }
    }
}

/// The latency curve and the TLB pairs of a record.
pub(crate) struct Curves {
    /// The points of the latency curve as measured.
    pub(crate) latency_curve: Vec<At>,
    /// The TLB pairs.
    pub(crate) pairs: Vec<Pair>,
    /// Translation inside the points.
    pub(crate) translation: Translation,
    /// Its tiers; `None` with too few points.
    pub(crate) reading: Option<Reading>,
    /// The tiers of the TLB pairs; `None` with too few pairs.
    pub(crate) translated: Option<Reading>,
    /// Pages beyond which conflicts of the pairs' lines may explain a step of translation; infinite if nowhere.
    pub(crate) sure_pages: f64,
    /// Pages of the pairs that were left out because their lines conflict.
    left_out: Vec<u64>,
    /// What open rows of memory add to the pairs whose lines come from memory, if that was not subtracted.
    pub(super) rows_of_memory: Option<OpenRows>,
    /// Whether it is of a described machine without neighbours.
    exact: bool,
    /// Working sets to repeat on hardware, bytes: noise may have moved an end of a tier there.
    pub(crate) doubtful: Vec<u64>,
    /// Numbers of pages to repeat on hardware.
    pub(crate) doubtful_pages: Vec<u64>,
    /// The cause of each step of the TLB pairs.
    pub(super) causes: Vec<Cause>,
    /// Pages from which on walks take longer by one line in each page, and whether page tables were shown to be the cause.
    grows: Option<(f64, bool)>,
    /// Whether huge pages are splintered; `None` if it was not tested.
    pub(crate) splinters: Option<Splinters>,
}

impl Curves {
    /// Reads the curves of a record.
    pub(crate) fn of(record: &Record, scale: &Scale) -> Curves {
        let pairs = scale.pairs(record);
        let splinters = splinters::read(record, scale, &pairs);
        let in_huge = splinters.as_ref().map_or(0.0, Splinters::significant);
        let latency_curve =
            if in_huge > 0.0 { scale.latency_curve_in_pieces(record) } else { scale.latency_curve(record) };
        // Huge pages in pieces are translated in the test for open rows, too.
        let are_whole = splinters.is_some() && in_huge == 0.0;
        let (mut pairs, rows_of_memory) = scale.pairs_by_more_lines(pairs, record, &latency_curve, are_whole);
        if in_huge > 0.0 {
            scale.add_packed_translation(&mut pairs, in_huge);
        }
        let Translated { reading: mut translated, sure_to, left_out } =
            conflicts::read(&pairs, &latency_curve, scale.share);
        let doubtful_pages = scale.revise_pairs(&pairs, translated.as_mut());
        let causes = translated.as_mut().map_or_else(Vec::new, |found| {
            let steps = Steps::of(&latency_curve, &pairs, found);
            let mut causes = steps.causes(record, scale);
            steps.join(found, &mut causes);
            causes
        });
        let grows = grows_from(&pairs, &latency_curve, record, scale);
        let share = if scale.huge.is_none() { 1.0 } else { in_huge };
        let most = match translated.as_ref().filter(|_| scale.huge.is_some() && share > 0.0) {
            Some(found) => {
                let added = share / scale.lines_per_visit(scale.base);
                translation::most_in_pieces(&latency_curve, (&pairs, found), scale.base as f64, added)
            }
            None => f64::INFINITY,
        };
        let translation = scale.translation(&pairs, translated.as_ref(), (share, most));
        let translation = spacings::with_measured(translation, record, scale, &latency_curve);
        let first_loads = scale.first_loads(record).map_or(f64::INFINITY, |bytes| bytes as f64);
        let options = Options { share: scale.share, first_loads, ..Options::default() };
        let mut reading = read_latency_curve(&latency_curve, &translation, &options);
        let possible = splinters.as_ref().is_some_and(Splinters::are_possible);
        let doubtful = scale.revise_curve(&latency_curve, &translation, possible, reading.as_mut());
        let exact = !scale.is_hardware();
        Curves {
            exact,
            doubtful,
            doubtful_pages,
            latency_curve,
            pairs,
            translation,
            reading,
            translated,
            sure_pages: sure_to,
            left_out,
            rows_of_memory,
            causes,
            grows,
            splinters,
        }
    }

    /// Returns whether huge pages are translated in pieces of base pages.
    pub(crate) fn splintered(&self) -> bool {
        self.splinters.as_ref().is_some_and(|found| found.significant() > 0.0)
    }

    /// Returns the steps between the tiers of the latency curve. Of an exact machine the capacities have the brackets by measured points: what else
    /// their rises leave open is no help to find sets and ways.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let tiers = self.reading.as_ref().map_or(&[][..], |reading| &reading.tiers);
        let step = |pair: &[Tier]| {
            let found = pair[0].capacity?;
            let mut capacity = found.onset;
            if self.exact {
                (capacity.low, capacity.high) = (capacity.low.max(found.below / MAX_HIDDEN), found.above);
            }
            let (here, next) = (pair[0].latency.value, pair[1].latency.value);
            Some(Step { capacity, here, next, in_pieces: self.splintered() })
        };
        tiers.windows(2).filter_map(step).collect()
    }
}

impl Scale {
    /// Returns the longest time of a load that runs on the core's clock, ns.
    pub(crate) fn max_core_clocked(&self) -> f64 {
        self.cycle().map_or(0.0, |cycle| MAX_CORE_CLOCKED_CYCLES * cycle * self.tick_ns)
    }

    /// Revises the capacities of a latency curve: on hardware by what single trials prove, and where a rise is wider than
    /// one cache causes. Returns the working sets to repeat.
    fn revise_curve(
        &self,
        curve: &[At],
        translation: &Translation,
        splintered: bool,
        reading: Option<&mut Reading>,
    ) -> Vec<u64> {
        let Some(reading) = reading else { return Vec::new() };
        if !self.is_hardware() {
            if !self.are_in_order() {
                let points = curve_points(curve, translation);
                ramps::widen(reading, &points, MIN_APART, |_| true);
                start_where_it_fits(reading, curve, translation);
            }
            hashed::extend(reading, curve, translation);
            extend_by_tables(reading, &curve_points(curve, translation), translation, self.base as f64);
            return Vec::new();
        }
        let trials = bursts::curve_trials(curve, translation);
        let mut doubtful = self.by_single_trials(reading, &trials, Kind::Bytes);
        // What memory takes in a guest changes for longer than a session lasts.
        if self.has_described_neighbours() {
            doubtful.extend(bursts::merge_last(reading, &trials, self));
        }
        // The first level is indexed within a page, or its ways are colours of few pages.
        let scattered = !self.are_in_order() || splintered;
        ramps::widen(reading, &curve_points(curve, translation), MIN_APART, |i| scattered && i > 0);
        self.add_session_error(reading);
        doubtful
    }

    /// The same for the TLB pairs, in base or in huge pages. Returns the numbers of pages to repeat.
    pub(crate) fn revise_pairs(&self, pairs: &[Pair], reading: Option<&mut Reading>) -> Vec<u64> {
        let Some(reading) = reading.filter(|_| self.is_hardware()) else { return Vec::new() };
        let hit_time = hit_time(pairs).unwrap_or(0.0);
        let doubtful = self.by_single_trials(reading, &bursts::pair_trials(pairs, hit_time), Kind::Pages);
        ramps::widen(reading, &pair_points(pairs, hit_time), MIN_APART, |_| false);
        self.add_session_error(reading);
        doubtful
    }

    /// Adds the error between sessions to the tiers of a machine with other users that do not run on the core's clock.
    fn add_session_error(&self, reading: &mut Reading) {
        let max_ns = self.max_core_clocked();
        for tier in reading.tiers.iter_mut().filter(|t| self.others && t.latency.value > max_ns) {
            tier.latency = tier.latency.with_sessions(GUEST_SESSION_SIGMA);
            if let Some(capacity) = &mut tier.capacity {
                let factor = (1.96 * GUEST_CAPACITY_SIGMA).exp();
                let Interval { value, low, high } = capacity.onset;
                capacity.onset = Interval { value, low: low / factor, high: high * factor };
            }
        }
    }

    /// Replaces the capacities by those that single trials prove. Returns the working sets to repeat.
    fn by_single_trials(&self, reading: &mut Reading, trials: &[bursts::Trial], kind: Kind) -> Vec<u64> {
        let brackets = bursts::apply(reading, trials, self, kind);
        bursts::undisturbed(reading, trials, self.max_core_clocked());
        bursts::doubtful(&brackets, trials).into_iter().map(|x| x as u64).collect()
    }

    /// Returns whether this is hardware, or a described machine with neighbours.
    pub(crate) fn is_hardware(&self) -> bool {
        self.share > 0.0
    }
}

/// Lowers the capacities on wide rises to the largest working set that fits in some frames: no fit of the rise proves more.
fn start_where_it_fits(reading: &mut Reading, curve: &[At], translation: &Translation) {
    for tier in &mut reading.tiers {
        let Some(capacity) = tier.capacity.as_mut().filter(|capacity| capacity.wide_rise) else { continue };
        let fits = |at: &&At| {
            let (bytes, limit) = (at.bytes as f64, MAX_FIT * tier.latency.value);
            let times = at.groups.iter().filter_map(|times| median(times));
            let least = times.fold(f64::INFINITY, f64::min) - translation_at(translation, bytes);
            bytes <= capacity.onset.high && least <= limit
        };
        if let Some(last) = curve.iter().rfind(fits) {
            capacity.onset.low = capacity.onset.low.min(last.bytes as f64);
        }
    }
}

/// Largest relative time of a working set that fits: what a fit leaves unexplained.
const MAX_FIT: f64 = 1.02;

/// Ratios below which two tiers, or two TLBs, on hardware are one. Successive caches of known machines differ by a factor of 2
/// and more, their TLBs by 16 and more. On a guest whose host splinters pages, a TLB of 2048 entries and a cache of 2 MiB
/// begin to miss at 1200 to 1500 pages and at 1.2 to 1.6 MiB, with bends up to 2 MiB.
const MIN_APART: MinRatios = MinRatios { latency: 1.25, capacity: 1.9 };

/// Relative standard deviation, between sessions in a guest, of a latency beyond the core's own caches: its host, which other guests
/// use, has frames, load and clocks that stay for minutes. Ten idle sessions of 10 s on a Sapphire Rapids guest: 2.8 % (memory),
/// 5.0 % (loads with a page walk). Fourteen on an EPYC (Genoa) guest: 1.8 % (memory).
const GUEST_SESSION_SIGMA: f64 = 0.05;

/// Standard deviation of the logarithm of the capacity of a shared level, of which the other guests leave a part: 0.05 in the ten
/// sessions, 0.17 in the twelve of the others that saw its end, 0.33 in eight on an EPYC (Zen 5) guest: 2.3 to 5.7 MiB of 32.
const GUEST_CAPACITY_SIGMA: f64 = 0.33;

/// The end of a tier, and the time of a load before and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Largest working set that fits, bytes.
    pub(crate) capacity: Interval,
    /// Time per load in the tier, ns.
    pub(crate) here: f64,
    /// Time per load in the next tier, ns.
    pub(crate) next: f64,
    /// Whether huge pages are translated in pieces of base pages.
    pub(crate) in_pieces: bool,
}

/// Largest ratio of a measured working set that seems to fit to the capacity's lower end: twice the overflow that a rise may
/// hide.
const MAX_HIDDEN: f64 = 1.041;

/// Maximum number of pages of a TLB pair: four times the largest second-level TLB known (2048 entries).
pub(crate) const MAX_PAIR: u64 = 8192;

/// Reads the tiers of the latency curve, less its translation.
fn read_latency_curve(latency_curve: &[At], translation: &Translation, options: &Options) -> Option<Reading> {
    tiers::read(&curve_points(latency_curve, translation), options)
}

/// Returns the points of the latency curve, less their translation.
fn curve_points(latency_curve: &[At], translation: &Translation) -> Vec<Point> {
    let point = |a: &At| {
        let x = a.bytes as f64;
        let y = a.time() - translation_at(translation, x);
        let shared = translation_error(translation, x) / y.abs();
        Point { x, y, sigma: a.sigma().hypot(shared), shared }
    };
    latency_curve.iter().map(point).collect()
}
