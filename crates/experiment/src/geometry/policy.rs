//! Replacement policy of a level: access sequences over one of its sets, and which lines they find evicted.
//!
//! [`fathom_analysis::replacement`] chooses the sequences (programs) and judges the results. This module turns programs
//! into trials of the eviction-set pattern, and times of single loads into hits and misses. If the clock is too coarse
//! for single loads, the programs run without timed loads, many laps per sample, and the time of a lap is judged.

use fathom_analysis::interval::{median, robust_sigma};
use fathom_analysis::replacement::{
    Evictors, LapObservation, Observation, Policy, Program, Total, Verdict, WARM_UP, judge, programs,
    programs_per_lap,
};
use fathom_analysis::sets::Geometry;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{EvictionSet, Memory, PatternKind, Trial};
use fathom_probe::sequence::Sequence;

use super::arrangement::place;
use super::{Step, pages};
use crate::clock::resolution_ticks;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// Repetitions of each timed access per trial, at least; more if the program has few of them.
const MIN_LAPS: u64 = 40;
/// Samples per trial, at least.
const MIN_SAMPLES: u64 = 100;
/// Trials per program on hardware, each in another set: one of the sets may be shared with the stack or with kernel
/// data.
const TRIALS_PER_PROGRAM: u64 = 3;
/// Minimum distance of blocks, bytes: adjacent-line prefetch does not reach the next block.
const MIN_BLOCK_DISTANCE: u64 = 512;
/// Minimum difference of hit and miss, in resolutions of the clock.
const MIN_RESOLUTIONS_APART: f64 = 3.0;
/// For whole laps: maximum error per lap due to the clock's resolution, as a share of one miss.
const MAX_RESOLUTION_SHARE: f64 = 0.05;
/// Loads per such sample, at least. It has one load more than whole laps, because whole laps would end where they began
/// and prove nothing. With this many, the extra load is a twentieth of a percent.
const MIN_LOADS: u64 = 1 << 11;
/// Loads per such sample, at most: a millisecond of hits.
const MAX_LOADS: u64 = 1 << 19;
/// Samples of such a trial on hardware, and on a model, where only the clock's resolution disturbs them.
const SAMPLES_PER_LAP_TRIAL: u64 = 5;
const SAMPLES_MODELLED: u64 = 3;
/// Standard deviation of the difference of two intervals, in resolutions of the clock. Each interval is the difference
/// of two readings with a uniform error within the resolution: sqrt(4 / 12).
const CLOCK_SIGMA_RESOLUTIONS: f64 = 0.58;
/// Relative difference between the latency curve's step and the cost of a miss here, if the next level is a cache: the
/// times differ in their paths through banks, and the curve's plateaus are not fully level.
const COST_ERROR: f64 = 0.05;
/// Base pages that any first-level TLB holds: the smallest micro-TLBs (ARM1176, Cortex-A7 and A53) have ten entries.
const MIN_TLB_PAGES: u64 = 10;
/// The replacement test of one level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplacementTest<'a> {
    pub(crate) step: &'a Step,
    pub(crate) geometry: Geometry,
    /// Its line, bytes.
    pub(crate) line: u64,
    /// The nearer level with its possible policies; an empty list means any.
    pub(crate) nearer: Option<(Geometry, &'a [Policy])>,
    /// The capacity of the next level, bytes, if there is one.
    pub(crate) next: Option<f64>,
}

impl ReplacementTest<'_> {
    fn period(&self) -> u64 {
        self.geometry.way_bytes * MIN_BLOCK_DISTANCE.div_ceil(self.geometry.way_bytes).next_power_of_two()
    }

    /// Returns the distance between evicting blocks, bytes; one line of 64 bytes if nothing is evicted from a nearer
    /// level.
    fn evictor_stride(&self) -> u64 {
        self.nearer.map_or(64, |(nearer, _)| nearer.way_bytes)
    }

    fn evictions(&self) -> Option<Evictors> {
        self.nearer.map(|(nearer, policies)| Evictors {
            ways: nearer.ways as usize,
            random: policies.is_empty() || policies.iter().any(|p| p.is_random()),
        })
    }

    fn programs(&self, whole: bool) -> Vec<Program> {
        let (ways, visits) = (self.geometry.ways as usize, (self.line / 8) as usize);
        if whole {
            programs_per_lap(ways, visits, self.evictions())
        } else {
            programs(ways, visits, self.evictions())
        }
    }

    /// Returns the cost of a miss over a hit, ns.
    fn miss_cost(&self) -> f64 {
        self.step.next - self.step.here
    }

    /// Returns whether a clock with this resolution, ns, is too coarse for single loads, so that whole laps are timed.
    fn times_whole_laps(&self, resolution: f64) -> bool {
        self.miss_cost() < MIN_RESOLUTIONS_APART * resolution
    }

    /// Returns the loads per sample for a lap of this many accesses; `None` if the longest possible sample is too
    /// short.
    fn loads(&self, resolution: f64, accesses: u64) -> Option<u64> {
        let laps = (resolution / (MAX_RESOLUTION_SHARE * self.miss_cost())).ceil();
        let max_laps = (MAX_LOADS / accesses.max(1)) as f64;
        let laps = if laps <= max_laps { laps as u64 } else { return None };
        Some(laps.max(MIN_LOADS.div_ceil(accesses.max(1))) * accesses + 1)
    }

    /// Returns why whole laps cannot be judged.
    fn why_not_testable_per_lap(&self, resolution: f64) -> Option<String> {
        let miss = self.miss_cost();
        let longest = self.programs(true).iter().map(|p| p.accesses.len() as u64).max().unwrap_or(0);
        if self.loads(resolution, longest).is_none() {
            return Some(format!(
                "the clock's resolution of {resolution:.1} ns is too coarse for the difference of {miss:.1} ns between hit and miss, even over whole laps"
            ));
        }
        // Misses of the evicting accesses must be separable by number from those of the tested level, so all must hit
        // in it.
        let (nearer, evictors) = (self.nearer?.0, self.evictions()?.blocks() as u64);
        let sets = (self.period() / nearer.way_bytes).saturating_sub(1).max(1);
        if evictors.div_ceil(sets) > self.geometry.ways {
            return Some("the lines that evict the nearer cache do not fit in this one".into());
        }
        None
    }

    /// Returns why the level cannot be tested.
    pub(crate) fn why_not_testable(&self, record: &Record, scale: &Scale) -> Option<String> {
        let resolution = resolution_ns(record, scale);
        let whole = self.times_whole_laps(resolution);
        if let Some((nearer, _)) = self.nearer {
            let multiples = self.period() / nearer.way_bytes;
            if multiples < 2 || !self.period().is_multiple_of(nearer.way_bytes) {
                return Some("every eviction set of the nearer cache also conflicts in this one".into());
            }
            let (alone, with_nearer) =
                (self.geometry.bytes() as f64, (self.geometry.bytes() + nearer.bytes()) as f64);
            let seen = self.step.capacity.value;
            if (seen - with_nearer).abs() < (seen - alone).abs() {
                return Some(
                    "it is exclusive (holds lines that the nearer cache evicts), which is not tested".into(),
                );
            }
        }
        if whole && let Some(reason) = self.why_not_testable_per_lap(resolution) {
            return Some(reason);
        }
        let blocks = self.programs(whole).iter().map(|p| p.blocks().0).max().unwrap_or(0) as f64;
        // An inclusive next level would evict lines from this one.
        if self.next.is_some_and(|next| blocks * self.geometry.way_bytes as f64 > 0.9 * next) {
            return Some("the blocks of the test do not fit in the next level".into());
        }
        None
    }

    fn is_of(&self, trial: &Trial, sequence: &Sequence) -> bool {
        trial.memory.stride == self.evictor_stride()
            && trial.is::<EvictionSet>(|set| set.period == self.period() && set.sequence == *sequence)
    }
}

/// Returns a program in the probe's form. Both sides write the same notation, which a test checks.
fn sequence(program: &Program) -> Option<Sequence> {
    Sequence::parse(&program.to_string()).ok()
}

/// Returns the clock's resolution, ns.
fn resolution_ns(record: &Record, scale: &Scale) -> f64 {
    resolution_ticks(record) as f64 * scale.tick_ns
}

/// Returns the next trials.
pub(crate) fn next_trials(
    record: &Record,
    scale: &Scale,
    test: &ReplacementTest<'_>,
    exact: bool,
) -> Vec<Trial> {
    if test.why_not_testable(record, scale).is_some() {
        return Vec::new();
    }
    let resolution = resolution_ns(record, scale);
    let whole = test.times_whole_laps(resolution);
    let mut trials = Vec::new();
    for program in test.programs(whole) {
        let Some(sequence) = sequence(&program) else { continue };
        let had = record.trials.iter().filter(|r| test.is_of(&r.trial, &sequence)).count() as u64;
        let (queries, accesses) = (program.queries() as u64, program.accesses.len() as u64);
        let (loads, samples) = if whole {
            let Some(loads) = test.loads(resolution, accesses) else { continue };
            (loads, if exact { SAMPLES_MODELLED } else { SAMPLES_PER_LAP_TRIAL })
        } else {
            (1, (queries * MIN_LAPS).clamp(MIN_SAMPLES, 1000))
        };
        for nth in had..if exact { 1 } else { TRIALS_PER_PROGRAM } {
            trials.push(Trial {
                memory: Memory {
                    page: pages(scale).0,
                    ..Memory::of(accesses * test.evictor_stride(), test.evictor_stride())
                },
                loads,
                samples,
                warm: WARM_UP as u64 * accesses,
                ..Trial::of(EvictionSet {
                    sequence: sequence.clone(),
                    period: test.period(),
                    offset: place(nth),
                })
            });
        }
    }
    trials
}

/// Returns the policies that were assumed for this level when the next level's trials were planned, as far as the
/// trials show: whether the eviction assumed random replacement. `None` without such trials. It saves judging this
/// level again in every round of the next one.
pub(crate) fn presumed(record: &Record, test: &ReplacementTest<'_>) -> Option<&'static [Policy]> {
    let evicts = |run: &&TrialRun| {
        run.trial.memory.stride == test.geometry.way_bytes
            && run.trial.is::<EvictionSet>(|set| set.sequence.accesses().iter().any(|a| a.block.evicts))
    };
    let set = record.of(PatternKind::EvictionSet).find(evicts)?.trial.get::<EvictionSet>()?;
    let accesses = set.sequence.accesses().iter();
    let evictors = accesses.skip_while(|a| !a.block.evicts).take_while(|a| a.block.evicts).count();
    let steady = Evictors { ways: test.geometry.ways as usize, random: false };
    Some(if evictors > steady.blocks() { Policy::ALL } else { &[Policy::Lru] })
}

/// Returns the verdict and the share of misses of each timed access; whole laps have no timed access. `None` without
/// enough trials.
pub(crate) fn read(
    record: &Record,
    scale: &Scale,
    test: &ReplacementTest<'_>,
) -> Option<(Verdict, Vec<Observation>)> {
    if test.why_not_testable(record, scale).is_some() {
        return None;
    }
    let (ways, nearer) = (test.geometry.ways as usize, test.hypotheses());
    let observations = observations(record, scale, test);
    if observations.is_empty() {
        let totals = totals(record, scale, test);
        let verdict = (!totals.is_empty()).then(|| judge(ways, &nearer, &[], &totals))?;
        return Some((test.with_doubt(scale, verdict), Vec::new()));
    }
    Some((judge(ways, &nearer, &observations, &[]), observations))
}

impl ReplacementTest<'_> {
    /// Returns the possible policies of the nearer level.
    fn hypotheses(&self) -> Vec<(Policy, usize)> {
        self.nearer.map_or_else(Vec::new, |(nearer, policies)| {
            let any = if policies.is_empty() { Policy::ALL } else { policies };
            any.iter().map(|&policy| (policy, nearer.ways as usize)).collect()
        })
    }

    /// Marks a verdict as undecided if no policy explains the times of laps and something else may take time: DRAM rows
    /// of memory, or translation of many base pages.
    fn with_doubt(&self, scale: &Scale, verdict: Verdict) -> Verdict {
        let other = match (self.next, pages(scale).0) {
            (None, _) => "loads from memory vary in time",
            (_, Pages::Base | Pages::Coloured) if 4 * self.geometry.ways > MIN_TLB_PAGES => {
                "translation of base pages takes time too"
            }
            _ => return verdict,
        };
        if !verdict.consistent.is_empty() {
            return verdict;
        }
        let reason = format!("no policy explains the times of laps, but {other}");
        Verdict { decided: false, reason, ..verdict }
    }

    fn runs<'r>(&self, record: &'r Record, program: &Program) -> Vec<&'r TrialRun> {
        let Some(sequence) = sequence(program) else { return Vec::new() };
        record.of(PatternKind::EvictionSet).filter(|r| self.is_of(&r.trial, &sequence)).collect()
    }
}

/// Returns the observations of single loads; empty if too few to separate hits from misses.
fn observations(record: &Record, scale: &Scale, test: &ReplacementTest<'_>) -> Vec<Observation> {
    let programs = test.programs(false);
    let Some(threshold) = threshold(record, scale, test, &programs) else { return Vec::new() };
    let mut observations = Vec::new();
    for program in &programs {
        let queries = program.queries();
        let (mut missed, mut of) = (vec![0; queries], vec![0; queries]);
        for run in test.runs(record, program) {
            for (i, ticks) in run.single_ticks().enumerate() {
                of[i % queries] += 1;
                missed[i % queries] += u32::from(ticks > threshold);
            }
        }
        if of.iter().all(|&n| n > 0) {
            observations.push(Observation { program: program.clone(), missed, of });
        }
    }
    observations
}

/// Returns the time of a single load halfway between hit and miss, ticks.
fn threshold(
    record: &Record,
    scale: &Scale,
    test: &ReplacementTest<'_>,
    programs: &[Program],
) -> Option<f64> {
    // Of the calibration programs the first one hits. A cycle over four times as many lines as ways, each once, misses;
    // with two ways the first program has that many lines too.
    let many = 4 * test.geometry.ways as usize;
    let all_miss = programs.iter().find(|p| p.visits() == 1 && p.blocks().0 >= many)?;
    let typical = |program: &Program| {
        let runs = test.runs(record, program);
        median(&runs.iter().flat_map(|r| r.single_ticks()).collect::<Vec<f64>>())
    };
    let (hit, miss) = (typical(programs.first()?)?, typical(all_miss)?);
    let apart = (miss - hit) * scale.tick_ns;
    let max_miss = miss.min(hit + 2.0 * test.miss_cost() / scale.tick_ns);
    (apart >= 0.5 * test.miss_cost()).then_some(f64::midpoint(hit, max_miss))
}

/// Returns the times of laps, ns.
fn totals(record: &Record, scale: &Scale, test: &ReplacementTest<'_>) -> Vec<Total> {
    let mut totals = Vec::new();
    for program in test.programs(true) {
        let (mut laps, mut errors) = (Vec::new(), Vec::new());
        for run in test.runs(record, &program) {
            let accesses = program.accesses.len() as f64;
            let times: Vec<f64> = scale.steady(run).iter().map(|load| load * accesses).collect();
            let Some(lap) = median(&times) else { continue };
            let clock_error =
                CLOCK_SIGMA_RESOLUTIONS * resolution_ns(record, scale) * accesses / run.trial.loads as f64;
            // 1.25: ratio of the standard errors of median and mean for normal errors.
            errors.push(1.25 * clock_error.max(robust_sigma(&times)) / (times.len() as f64).sqrt());
            laps.push(lap);
        }
        let (Some(lap), Some(sample_error)) = (median(&laps), median(&errors)) else { continue };
        let error = 1.25 * robust_sigma(&laps) / (laps.len() as f64).sqrt();
        totals.push(Total { program, seen: LapObservation::Time(lap), error: error.max(sample_error) });
    }
    if !totals.is_empty() && test.next.is_some() {
        let (seen, error) = (LapObservation::Cost(test.miss_cost()), COST_ERROR * test.miss_cost());
        totals.push(Total { program: Program::default(), seen, error });
    }
    totals
}
