//! The replacement of a level: sequences over one of its sets, and which lines they find gone.
//!
//! What is asked and what the answers say is worked out in [`fathom_analysis::replacement`]; here its programs
//! become trials of the pattern `probe`, and times of single loads become hits and misses.

use fathom_analysis::interval::median;
use fathom_analysis::replacement::{Observation, Policy, Program, Verdict, WARM_UP, Wash, judge, programs};
use fathom_analysis::sets::Geometry;
use fathom_probe::sequence::Sequence;
use fathom_probe::wire::{PatternKind, Trial};

use super::{Step, pages};
use crate::clock::step_ticks;
use crate::common::scale::Scale;
use crate::record::{Record, TrialRun};

/// Times each ask is answered in a trial, at least; with few asks more.
const LAPS: u64 = 40;
/// Samples of a trial, at least.
const SAMPLES: u64 = 100;
/// Trials of each program on hardware, each in another set: what shares a set with the stack or with a line of the
/// kernel's is one of them.
const TIMES: u64 = 3;
/// Blocks lie at least so far apart, bytes: no prefetcher that fetches a neighbour reaches the next.
const LEAST_PERIOD: u64 = 512;
/// A hit and a miss must be so many steps of the clock apart.
const STEPS_APART: f64 = 3.0;
/// Places of the first block, and their distance: see [`super::scan`].
const PLACES: u64 = 16;
const ALIGNED: u64 = 256;

/// One level that is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) step: &'a Step,
    pub(crate) geometry: Geometry,
    /// Its line, bytes.
    pub(crate) line: u64,
    /// The nearer level, with its policies; none is any.
    pub(crate) nearer: Option<(Geometry, &'a [Policy])>,
    /// The capacity of the next level, bytes, where there is one.
    pub(crate) next: Option<f64>,
}

impl Asked<'_> {
    fn period(&self) -> u64 {
        self.geometry.way_bytes * LEAST_PERIOD.div_ceil(self.geometry.way_bytes).next_power_of_two()
    }

    /// From wash block to wash block, bytes; a word where nothing is washed.
    fn wash(&self) -> u64 {
        self.nearer.map_or(64, |(nearer, _)| nearer.way_bytes)
    }

    fn programs(&self) -> Vec<Program> {
        let wash = self.nearer.map(|(nearer, policies)| Wash {
            ways: nearer.ways as usize,
            random: policies.is_empty() || policies.iter().any(|p| p.draws()),
        });
        programs(self.geometry.ways as usize, (self.line / 8) as usize, wash)
    }

    /// Why it cannot be asked.
    pub(crate) fn obstacle(&self, record: &Record, scale: &Scale) -> Option<String> {
        let miss = self.step.next - self.step.here;
        let step = step_ticks(record) as f64 * scale.tick_ns;
        if miss < STEPS_APART * step {
            return Some(format!(
                "the clock's steps of {step:.1} ns do not tell a hit from a miss, {miss:.1} ns apart, by single loads"
            ));
        }
        if let Some((nearer, _)) = self.nearer {
            let multiples = self.period() / nearer.way_bytes;
            if multiples < 2 || !self.period().is_multiple_of(nearer.way_bytes) {
                return Some("whatever leaves the nearer level conflicts in this one too".into());
            }
            let (own, both) = (self.geometry.bytes() as f64, (self.geometry.bytes() + nearer.bytes()) as f64);
            let seen = self.step.capacity.value;
            if (seen - both).abs() < (seen - own).abs() {
                return Some("it holds what the nearer level evicts: an exclusive level is not asked".into());
            }
        }
        let blocks = self.programs().iter().map(|p| p.blocks().0).max().unwrap_or(0) as f64;
        // An inclusive next level would take lines away.
        if self.next.is_some_and(|next| blocks * self.geometry.way_bytes as f64 > 0.9 * next) {
            return Some("the blocks that it takes do not fit the next level".into());
        }
        None
    }

    fn is_of(&self, trial: &Trial, sequence: &Sequence) -> bool {
        trial.pattern == PatternKind::Probe
            && (trial.period, trial.step) == (self.period(), self.wash())
            && trial.sequence == *sequence
    }
}

/// A program as the probe runs it. Both sides write one notation; a test holds them together.
fn sequence(program: &Program) -> Option<Sequence> {
    Sequence::parse(&program.to_string()).ok()
}

/// The trials that are wanted next.
pub(crate) fn wanted(record: &Record, scale: &Scale, asked: &Asked<'_>, modelled: bool) -> Vec<Trial> {
    if asked.obstacle(record, scale).is_some() {
        return Vec::new();
    }
    let mut wanted = Vec::new();
    for program in asked.programs() {
        let Some(sequence) = sequence(&program) else { continue };
        let had = record.trials.iter().filter(|r| asked.is_of(&r.trial, &sequence)).count() as u64;
        let (asks, accesses) = (program.asks() as u64, program.accesses.len() as u64);
        for nth in had..if modelled { 1 } else { TIMES } {
            wanted.push(Trial {
                pattern: PatternKind::Probe,
                bytes: accesses * asked.wash(),
                step: asked.wash(),
                period: asked.period(),
                offset: (fathom_probe::chain::mix(nth) % PLACES) * ALIGNED,
                sequence: sequence.clone(),
                page: pages(scale).0,
                loads: 1,
                samples: (asks * LAPS).clamp(SAMPLES, 1000),
                warm: WARM_UP as u64 * accesses,
                ..Trial::default()
            });
        }
    }
    wanted
}

/// What the answers say, and how often each asked access missed. `None` where too little was asked.
pub(crate) fn read(record: &Record, scale: &Scale, asked: &Asked<'_>) -> Option<(Verdict, Vec<Observation>)> {
    if asked.obstacle(record, scale).is_some() {
        return None;
    }
    let programs = asked.programs();
    let runs = |program: &Program| -> Vec<&TrialRun> {
        let Some(sequence) = sequence(program) else { return Vec::new() };
        record.of(PatternKind::Probe).filter(|r| asked.is_of(&r.trial, &sequence)).collect()
    };
    // Of the calibration the first program hits, and four times as many lines as ways miss.
    let all_miss = programs.iter().find(|p| p.blocks().0 >= 4 * asked.geometry.ways as usize)?;
    let typical = |program: &Program| {
        let ticks: Vec<f64> = runs(program).iter().flat_map(|r| r.samples.iter().map(ticks)).collect();
        median(&ticks)
    };
    let (hit, miss) = (typical(programs.first()?)?, typical(all_miss)?);
    let apart = (miss - hit) * scale.tick_ns;
    if apart < 0.5 * (asked.step.next - asked.step.here) {
        return None;
    }
    let threshold =
        f64::midpoint(hit, miss.min(hit + 2.0 * (asked.step.next - asked.step.here) / scale.tick_ns));
    let mut observations = Vec::new();
    for program in &programs {
        let asks = program.asks();
        let (mut missed, mut of) = (vec![0; asks], vec![0; asks]);
        for run in runs(program) {
            for (i, sample) in run.samples.iter().enumerate() {
                of[i % asks] += 1;
                missed[i % asks] += u32::from(ticks(sample) > threshold);
            }
        }
        if of.iter().all(|&n| n > 0) {
            observations.push(Observation { program: program.clone(), missed, of });
        }
    }
    let nearer: Vec<(Policy, usize)> = asked.nearer.map_or_else(Vec::new, |(nearer, policies)| {
        let any = if policies.is_empty() { Policy::ALL } else { policies };
        any.iter().map(|&policy| (policy, nearer.ways as usize)).collect()
    });
    let verdict = judge(asked.geometry.ways as usize, &nearer, &observations, &[]);
    Some((verdict, observations))
}

/// A timed load less an empty reading of the clock, ticks.
fn ticks(sample: &fathom_probe::wire::Sample) -> f64 {
    sample.ticks as f64 - sample.ticks2 as f64
}
