//! The replacement of a level: sequences over one of its sets, and which lines they find gone.
//!
//! What is asked and what the answers say is worked out in [`fathom_analysis::replacement`]; here its programs
//! become trials of the pattern `probe`, and times of single loads become hits and misses. Where the clock's steps
//! are too long for single loads, the programs run without asks, many laps a sample, and what is judged is the time
//! of a lap.

use fathom_analysis::interval::{median, robust_sigma};
use fathom_analysis::replacement::{
    Evictors, LapObservation, Observation, Policy, Program, Total, Verdict, WARM_UP, judge, programs,
    programs_per_lap,
};
use fathom_analysis::sets::Geometry;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{EvictionSet, Memory, PatternKind, Trial};
use fathom_probe::sequence::Sequence;

use super::scan::place;
use super::{Step, pages};
use crate::clock::step_ticks;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// Times each ask is answered in a trial, at least; with few asks more.
const LAPS: u64 = 40;
/// Samples of a trial, at least.
const SAMPLES: u64 = 100;
/// Trials of each program on hardware, each in another set: what shares a set with the stack or with a line of the
/// kernel's is one of them.
const TIMES: u64 = 3;
/// Blocks lie at least so far apart, bytes: no prefetcher that fetches a neighbour reaches the next.
const MIN_PERIOD: u64 = 512;
/// A hit and a miss must be so many steps of the clock apart.
const STEPS_APART: f64 = 3.0;
/// Of laps as a whole, the share of one miss that a step of the clock may be of the mean lap of a sample.
const STEP_OF_A_MISS: f64 = 0.05;
/// Loads of such a sample, at least: it has one load more than whole laps, because a run of whole laps would end where
/// it began and prove nothing, and of so many that load is a twentieth of a percent.
const MIN_LOADS: u64 = 1 << 11;
/// And at most: a millisecond of hits.
const MAX_LOADS: u64 = 1 << 19;
/// Samples of such a trial on hardware, and on a model, where nothing disturbs them but the clock's steps.
const SAMPLES_IN_WHOLE: u64 = 5;
const SAMPLES_MODELLED: u64 = 3;
/// Standard deviation of the difference of two intervals in steps of the clock, of which each is the difference of two
/// readings that are off by anything within a step: sqrt(4 / 12).
const MIN_SEPARATION: f64 = 0.58;
/// What the latency curve's step is off by from what a miss costs here, where the next level is a cache, relative: the two
/// times differ in their paths through banks and in how much of the latency curve's plateaus is level.
const COST_ERROR: f64 = 0.05;
/// Pages of base size that any first level of a TLB holds: those of the smallest micro-TLBs (ARM1176, Cortex-A7 and
/// A53) have ten entries.
const FEW_PAGES: u64 = 10;
/// One level that is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) stride: &'a Step,
    pub(crate) geometry: Geometry,
    /// Its line, bytes.
    pub(crate) line: u64,
    /// The nearer level, with its policies; none is any.
    pub(crate) nearer: Option<(Geometry, &'a [Policy])>,
    /// The capacity of the next level, bytes, where there is one.
    pub(crate) next: Option<f64>,
}

impl Request<'_> {
    fn period(&self) -> u64 {
        self.geometry.way_bytes * MIN_PERIOD.div_ceil(self.geometry.way_bytes).next_power_of_two()
    }

    /// From wash block to wash block, bytes; a word where nothing is washed.
    fn evictors(&self) -> u64 {
        self.nearer.map_or(64, |(nearer, _)| nearer.way_bytes)
    }

    fn washing(&self) -> Option<Evictors> {
        self.nearer.map(|(nearer, policies)| Evictors {
            ways: nearer.ways as usize,
            random: policies.is_empty() || policies.iter().any(|p| p.is_random()),
        })
    }

    fn programs(&self, whole: bool) -> Vec<Program> {
        let (ways, visits) = (self.geometry.ways as usize, (self.line / 8) as usize);
        if whole {
            programs_per_lap(ways, visits, self.washing())
        } else {
            programs(ways, visits, self.washing())
        }
    }

    /// What a miss costs more than a hit, ns.
    fn miss(&self) -> f64 {
        self.stride.next - self.stride.here
    }

    /// Is a clock of such a step, ns, too coarse for single loads, so that laps are timed as a whole?
    fn in_whole(&self, step: f64) -> bool {
        self.miss() < STEPS_APART * step
    }

    /// Loads of a sample of a lap of so many accesses; `None` where no sample that may be had is long enough.
    fn loads(&self, step: f64, accesses: u64) -> Option<u64> {
        let laps = (step / (STEP_OF_A_MISS * self.miss())).ceil();
        let most = (MAX_LOADS / accesses.max(1)) as f64;
        let laps = if laps <= most { laps as u64 } else { return None };
        Some(laps.max(MIN_LOADS.div_ceil(accesses.max(1))) * accesses + 1)
    }

    /// Why laps as a whole cannot be read.
    fn why_not_testable_per_lap(&self, step: f64) -> Option<String> {
        let miss = self.miss();
        let longest = self.programs(true).iter().map(|p| p.accesses.len() as u64).max().unwrap_or(0);
        if self.loads(step, longest).is_none() {
            return Some(format!(
                "the clock's steps of {step:.1} ns do not tell hits from misses, {miss:.1} ns apart, even by whole laps"
            ));
        }
        // The wash's misses are told from those of the level under test by their number, so all must hit in it.
        let (nearer, evictors) = (self.nearer?.0, self.washing()?.blocks() as u64);
        let sets = (self.period() / nearer.way_bytes).saturating_sub(1).max(1);
        if evictors.div_ceil(sets) > self.geometry.ways {
            return Some("what washes the nearer level does not fit this one".into());
        }
        None
    }

    /// Why it cannot be asked.
    pub(crate) fn why_not_testable(&self, record: &Record, scale: &Scale) -> Option<String> {
        let step = step_ns(record, scale);
        let whole = self.in_whole(step);
        if let Some((nearer, _)) = self.nearer {
            let multiples = self.period() / nearer.way_bytes;
            if multiples < 2 || !self.period().is_multiple_of(nearer.way_bytes) {
                return Some("whatever leaves the nearer level conflicts in this one too".into());
            }
            let (own, both) = (self.geometry.bytes() as f64, (self.geometry.bytes() + nearer.bytes()) as f64);
            let seen = self.stride.capacity.value;
            if (seen - both).abs() < (seen - own).abs() {
                return Some("it holds what the nearer level evicts: an exclusive level is not asked".into());
            }
        }
        if whole && let Some(why_not_testable) = self.why_not_testable_per_lap(step) {
            return Some(why_not_testable);
        }
        let blocks = self.programs(whole).iter().map(|p| p.blocks().0).max().unwrap_or(0) as f64;
        // An inclusive next level would take lines away.
        if self.next.is_some_and(|next| blocks * self.geometry.way_bytes as f64 > 0.9 * next) {
            return Some("the blocks that it takes do not fit the next level".into());
        }
        None
    }

    fn is_of(&self, trial: &Trial, sequence: &Sequence) -> bool {
        trial.memory.stride == self.evictors()
            && trial.is::<EvictionSet>(|set| set.period == self.period() && set.sequence == *sequence)
    }
}

/// A program as the probe runs it. Both sides write one notation; a test holds them together.
fn sequence(program: &Program) -> Option<Sequence> {
    Sequence::parse(&program.to_string()).ok()
}

/// A step of the clock, ns.
fn step_ns(record: &Record, scale: &Scale) -> f64 {
    step_ticks(record) as f64 * scale.tick_ns
}

/// The trials that are wanted next.
pub(crate) fn wanted(record: &Record, scale: &Scale, requested: &Request<'_>, modelled: bool) -> Vec<Trial> {
    if requested.why_not_testable(record, scale).is_some() {
        return Vec::new();
    }
    let step = step_ns(record, scale);
    let whole = requested.in_whole(step);
    let mut wanted = Vec::new();
    for program in requested.programs(whole) {
        let Some(sequence) = sequence(&program) else { continue };
        let had = record.trials.iter().filter(|r| requested.is_of(&r.trial, &sequence)).count() as u64;
        let (queries, accesses) = (program.queries() as u64, program.accesses.len() as u64);
        let (loads, samples) = if whole {
            let Some(loads) = requested.loads(step, accesses) else { continue };
            (loads, if modelled { SAMPLES_MODELLED } else { SAMPLES_IN_WHOLE })
        } else {
            (1, (queries * LAPS).clamp(SAMPLES, 1000))
        };
        for nth in had..if modelled { 1 } else { TIMES } {
            wanted.push(Trial {
                memory: Memory {
                    page: pages(scale).0,
                    ..Memory::of(accesses * requested.evictors(), requested.evictors())
                },
                loads,
                samples,
                warm: WARM_UP as u64 * accesses,
                ..Trial::of(EvictionSet {
                    sequence: sequence.clone(),
                    period: requested.period(),
                    offset: place(nth),
                })
            });
        }
    }
    wanted
}

/// What policies this level was taken for when the next one's trials were planned, as far as these show it: whether its
/// wash is that of a level that may draw lots. `None` where there are no such trials. So what this level's answers say
/// need not be worked out in every round of the next one's.
pub(crate) fn presumed(record: &Record, requested: &Request<'_>) -> Option<&'static [Policy]> {
    let evicts = |run: &&TrialRun| {
        run.trial.memory.stride == requested.geometry.way_bytes
            && run.trial.is::<EvictionSet>(|set| set.sequence.accesses().iter().any(|a| a.block.evicts))
    };
    let set = record.of(PatternKind::EvictionSet).find(evicts)?.trial.get::<EvictionSet>()?;
    let accesses = set.sequence.accesses().iter();
    let evictors = accesses.skip_while(|a| !a.block.evicts).take_while(|a| a.block.evicts).count();
    let steady = Evictors { ways: requested.geometry.ways as usize, random: false };
    Some(if evictors > steady.blocks() { Policy::ALL } else { &[Policy::Lru] })
}

/// What the answers say, and how often each asked access missed; of laps as a whole no access was. `None` where too
/// little was asked.
pub(crate) fn read(
    record: &Record,
    scale: &Scale,
    requested: &Request<'_>,
) -> Option<(Verdict, Vec<Observation>)> {
    if requested.why_not_testable(record, scale).is_some() {
        return None;
    }
    let (ways, nearer) = (requested.geometry.ways as usize, requested.hypotheses());
    let observations = observations(record, scale, requested);
    if observations.is_empty() {
        let totals = totals(record, scale, requested);
        let verdict = (!totals.is_empty()).then(|| judge(ways, &nearer, &[], &totals))?;
        return Some((requested.doubted(scale, verdict), Vec::new()));
    }
    Some((judge(ways, &nearer, &observations, &[]), observations))
}

impl Request<'_> {
    /// The nearer level as it may be.
    fn hypotheses(&self) -> Vec<(Policy, usize)> {
        self.nearer.map_or_else(Vec::new, |(nearer, policies)| {
            let any = if policies.is_empty() { Policy::ALL } else { policies };
            any.iter().map(|&policy| (policy, nearer.ways as usize)).collect()
        })
    }

    /// That no policy explains the times of laps says nothing of the policy where something else may take time: of
    /// memory, rows of banks, and of many base pages, their translation.
    fn doubted(&self, scale: &Scale, verdict: Verdict) -> Verdict {
        let other = match (self.next, pages(scale).0) {
            (None, _) => "memory's loads do not take one time each",
            (_, Pages::Base | Pages::Coloured) if 4 * self.geometry.ways > FEW_PAGES => {
                "translation of base pages takes time too"
            }
            _ => return verdict,
        };
        if !verdict.consistent.is_empty() {
            return verdict;
        }
        let reason = format!("no policy explains the times of laps, and {other}");
        Verdict { decided: false, reason, ..verdict }
    }

    fn runs<'r>(&self, record: &'r Record, program: &Program) -> Vec<&'r TrialRun> {
        let Some(sequence) = sequence(program) else { return Vec::new() };
        record.of(PatternKind::EvictionSet).filter(|r| self.is_of(&r.trial, &sequence)).collect()
    }
}

/// The answers of single loads; none where there were too few to tell hits from misses.
fn observations(record: &Record, scale: &Scale, requested: &Request<'_>) -> Vec<Observation> {
    let programs = requested.programs(false);
    let Some(threshold) = threshold(record, scale, requested, &programs) else { return Vec::new() };
    let mut observations = Vec::new();
    for program in &programs {
        let queries = program.queries();
        let (mut missed, mut of) = (vec![0; queries], vec![0; queries]);
        for run in requested.runs(record, program) {
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

/// What a single load takes that is neither a hit nor a miss, ticks.
fn threshold(record: &Record, scale: &Scale, requested: &Request<'_>, programs: &[Program]) -> Option<f64> {
    // Of the calibration the first program hits, and four times as many lines as ways miss that go round, each once:
    // with two ways the first one too has so many.
    let many = 4 * requested.geometry.ways as usize;
    let all_miss = programs.iter().find(|p| p.visits() == 1 && p.blocks().0 >= many)?;
    let typical = |program: &Program| {
        let runs = requested.runs(record, program);
        median(&runs.iter().flat_map(|r| r.single_ticks()).collect::<Vec<f64>>())
    };
    let (hit, miss) = (typical(programs.first()?)?, typical(all_miss)?);
    let apart = (miss - hit) * scale.tick_ns;
    let most = miss.min(hit + 2.0 * requested.miss() / scale.tick_ns);
    (apart >= 0.5 * requested.miss()).then_some(f64::midpoint(hit, most))
}

/// The times of laps, ns.
fn totals(record: &Record, scale: &Scale, requested: &Request<'_>) -> Vec<Total> {
    let mut totals = Vec::new();
    for program in requested.programs(true) {
        let (mut laps, mut grains) = (Vec::new(), Vec::new());
        for run in requested.runs(record, &program) {
            let accesses = program.accesses.len() as f64;
            let times: Vec<f64> = scale.steady(run).iter().map(|load| load * accesses).collect();
            let Some(lap) = median(&times) else { continue };
            let grain = MIN_SEPARATION * step_ns(record, scale) * accesses / run.trial.loads as f64;
            // 1.25: what a median loses to a mean where errors are normal.
            grains.push(1.25 * grain.max(robust_sigma(&times)) / (times.len() as f64).sqrt());
            laps.push(lap);
        }
        let (Some(lap), Some(grain)) = (median(&laps), median(&grains)) else { continue };
        let error = 1.25 * robust_sigma(&laps) / (laps.len() as f64).sqrt();
        totals.push(Total { program, seen: LapObservation::Time(lap), error: error.max(grain) });
    }
    if !totals.is_empty() && requested.next.is_some() {
        let (seen, error) = (LapObservation::Cost(requested.miss()), COST_ERROR * requested.miss());
        totals.push(Total { program: Program::default(), seen, error });
    }
    totals
}
