//! Study S1: rounds of reads 4 KiB apart, cyclically, up to four times the ways of the nearest level.

use fathom_analysis::findings::{Axis, Basis, Finding, Key, Report};
use fathom_analysis::interval::{Interval, grouped_interval, median};
use fathom_analysis::metrics::conflict;
use fathom_analysis::replacement::{Policy, misses_per_round};
use fathom_analysis::sets::Geometry;
use fathom_probe::machine::{Operation, Pages};
use fathom_probe::pattern::{Groups, Memory, PatternKind, Single, Stride, Trial};
use fathom_units::divisor::gcd;
use fathom_units::facts::Study;

use crate::clock::resolution_ticks;
use crate::latency_curve::Step;
use crate::reading::{measured, number};
use crate::record::{Record, TrialRun};
use crate::scale::Scale;

/// The study's stride: a page of its machine, and the way of its first level.
pub(super) const STRIDE: u64 = 4096;
/// Maximum reads per round if the ways are unknown; the study stops at nine.
const MAX_UNKNOWN_READS: u64 = 32;
const MAX_ROUNDS: u64 = 128;
/// Rounds per run: enough for the clock, and for random replacement to come within 2 % of its mean.
const ROUNDS_PER_RUN: u64 = 512;
/// Samples of single loads that classify hits and misses if no counter is available.
const SINGLE_LOADS: u64 = 200;

/// Reads per round that the study compares: as many as ways, and one more.
const COMPARED_READS: [u64; 2] = [8, 9];

/// Returns the study, for a finding that is compared with it.
pub(super) fn compared(key: &Key) -> Option<Study> {
    let metric = [&conflict::CONFLICT_TIME_PER_ROUND, &conflict::CONFLICT_MISSES_PER_ROUND]
        .iter()
        .any(|metric| *key.metric == **metric);
    let reads = key.number(Axis::Lines).is_some_and(|reads| COMPARED_READS.contains(&reads));
    (metric && reads).then_some(Study::S1)
}

/// Returns the reads per round: every number up to twice the ways, every fourth up to four times.
fn reads(nearest: Option<Geometry>) -> impl Iterator<Item = u64> {
    let ways = nearest.map_or(MAX_UNKNOWN_READS / 4, |g| g.ways).clamp(2, MAX_ROUNDS / 4);
    (1..=2 * ways).chain((2 * ways + 1..=4 * ways).filter(|n| n.is_multiple_of(4)))
}

fn is_of(trial: &Trial, pattern: PatternKind, page: Pages, n: u64) -> bool {
    let reads = trial.kind() == pattern && trial.memory.page == page && trial.memory.cells() == n;
    reads
        && match pattern {
            PatternKind::Stride => {
                trial.memory.stride == STRIDE
                    && trial.is::<Stride>(|stride| *stride == Stride::of(Operation::Read))
            }
            _ => {
                let groups = trial.pattern.groups();
                (groups.period, groups.group, trial.memory.stride) == (STRIDE, 1, 64)
            }
        }
}

/// Returns the pages to read: huge ones, in which 4 KiB are contiguous in physical memory too, and base pages.
fn pages(scale: &Scale) -> &'static [Pages] {
    if scale.huge.is_some() { &[Pages::Huge, Pages::Base] } else { &[Pages::Base] }
}

/// Returns the next trials.
pub(super) fn next_trials(
    record: &Record,
    scale: &Scale,
    nearest: Option<Geometry>,
    exact: bool,
) -> Vec<Trial> {
    let times = if exact { 1 } else { 2 };
    let mut trials = Vec::new();
    for &page in pages(scale) {
        for n in reads(nearest) {
            let one = |pattern, trial: Trial, times: usize, trials: &mut Vec<Trial>| {
                let had = record.trials.iter().filter(|r| is_of(&r.trial, pattern, page, n)).count();
                trials.extend((had..times).map(|_| trial.clone()));
            };
            let sweep = Trial {
                memory: Memory { page, ..Memory::of(n * STRIDE, STRIDE) },
                loads: n * ROUNDS_PER_RUN,
                samples: 3,
                warm: 16 * n,
                counted: 1,
                ..Trial::of(Stride::of(Operation::Read))
            };
            one(PatternKind::Stride, sweep, times, &mut trials);
            let single = Trial {
                memory: Memory { page, ..Memory::of(n * 64, 64) },
                // Coprime to all numbers of lines and ways up to 64, so that every line is timed in every state.
                loads: 66 * n + 66,
                samples: SINGLE_LOADS,
                warm: 64 * n,
                ..Trial::of(Single::of(Groups::apart(STRIDE)))
            };
            if has_no_counts(record) && page == pages(scale)[0] {
                one(PatternKind::Single, spaced(single, n, nearest), times, &mut trials);
            }
        }
    }
    trials
}

/// Returns whether sweeps were measured without a count of misses.
fn has_no_counts(record: &Record) -> bool {
    let mut sweeps = record.of(PatternKind::Stride).filter(|r| r.trial.counted > 0).peekable();
    sweeps.peek().is_some() && sweeps.all(|r| r.samples.iter().all(|s| s.misses.is_none()))
}

/// Returns the trial with a spacing, timed load included, that is coprime to the lines and to the ways. Otherwise only
/// some lines would be timed, or only some states of a policy that counts misses.
fn spaced(trial: Trial, n: u64, nearest: Option<Geometry>) -> Trial {
    let ways = nearest.map_or(1, |g| g.ways);
    let prime = |loads: &u64| {
        gcd(loads + 1, n) == 1 && gcd(loads + 1, ways) == 1 && (n < 3 || !loads.is_multiple_of(n))
    };
    let loads = (50 * n.max(ways)..).find(prime).unwrap_or(trial.loads);
    Trial { loads, ..trial }
}

/// Adds the findings of the study.
pub(super) fn rows(
    record: &Record,
    scale: &Scale,
    steps: &[Step],
    nearest: Option<Geometry>,
    report: &mut Report,
) {
    for &page in pages(scale) {
        let (time, missed) = if page == Pages::Base && scale.huge.is_some() {
            (&conflict::CONFLICT_BASE_TIME_PER_ROUND, &conflict::CONFLICT_BASE_MISSES_PER_ROUND)
        } else {
            (&conflict::CONFLICT_TIME_PER_ROUND, &conflict::CONFLICT_MISSES_PER_ROUND)
        };
        for n in reads(nearest) {
            let runs: Vec<&TrialRun> = record
                .of(PatternKind::Stride)
                .filter(|r| is_of(&r.trial, PatternKind::Stride, page, n))
                .collect();
            let ids: Vec<u64> = runs.iter().map(|r| r.trial.id).collect();
            let groups: Vec<Vec<f64>> = runs.iter().map(|r| scale.steady(r)).collect();
            let Some(read) = grouped_interval(&groups) else { continue };
            let count = groups.iter().map(Vec::len).sum();
            let rounds = read.scaled(n as f64);
            report.findings.push(measured(time.at([n.into()]), rounds, "ns", count, &ids));
            let misses = counted(&runs, n).map(|i| (i, "counted", count, ids));
            let from_times =
                || if page == pages(scale)[0] { classified(record, steps, scale, page, n) } else { None };
            if let Some((misses, how, count, ids)) = misses.or_else(from_times) {
                let mut row = measured(missed.at([n.into()]), misses, "", count, &ids);
                row.notes.push(how.into());
                report.findings.push(row);
            }
        }
    }
    expected(nearest, report);
}

/// Returns the misses per round that the machine counted, over every sample.
fn counted(runs: &[&TrialRun], n: u64) -> Option<Interval> {
    let misses_per_round_of = |r: &&TrialRun| -> Option<Vec<f64>> {
        let rounds = 3.0 * r.trial.loads as f64 / n as f64;
        r.samples.iter().map(|s| s.misses.map(|(a, b)| (a + b) as f64 / rounds)).collect()
    };
    let groups: Vec<Vec<f64>> = runs.iter().map(misses_per_round_of).collect::<Option<_>>()?;
    grouped_interval(&groups)
}

/// Returns the misses per round from the times of single loads (those closer to the next tier than to the nearest), the
/// method, the number of loads, and the trials.
fn classified(
    record: &Record,
    steps: &[Step],
    scale: &Scale,
    page: Pages,
    n: u64,
) -> Option<(Interval, &'static str, usize, Vec<u64>)> {
    let step = steps.first()?;
    let runs = |n: u64| {
        record.of(PatternKind::Single).filter(move |r| is_of(&r.trial, PatternKind::Single, page, n))
    };
    // A single line hits.
    let hit = median(&runs(1).flat_map(TrialRun::single_ticks).collect::<Vec<f64>>())?;
    let miss = (step.next - step.here) / scale.tick_ns;
    if miss < 2.0 * resolution_ticks(record) as f64 {
        return None;
    }
    let shares: Vec<f64> = runs(n)
        .map(|r| {
            let ticks: Vec<f64> = r.single_ticks().collect();
            let slow = ticks.iter().filter(|t| **t > hit + miss / 2.0).count();
            n as f64 * slow as f64 / ticks.len().max(1) as f64
        })
        .collect();
    let value = median(&shares)?;
    // Two standard errors of a share of this many samples.
    let share = (value / n as f64).clamp(0.0, 1.0);
    let count = runs(n).map(|r| r.samples.len()).sum::<usize>();
    let samples = count.max(1) as f64;
    let half_width = n as f64 * 2.0 * ((share * (1.0 - share)).max(1.0 / samples) / samples).sqrt();
    let ids = runs(n).map(|r| r.trial.id).collect();
    let interval =
        Interval { value, low: (value - half_width).max(0.0), high: (value + half_width).min(n as f64) };
    Some((interval, "from the times of single loads", count, ids))
}

/// Adds the misses of textbook policies with one line more than ways, if all reads of the study map to one set.
fn expected(nearest: Option<Geometry>, report: &mut Report) {
    let one_set = |g: &Geometry| STRIDE.is_multiple_of(g.way_bytes);
    let Some(geometry) = nearest.filter(|g| g.ways > 1 && one_set(g)) else { return };
    let ways = geometry.ways as usize;
    for policy in Policy::ALL {
        let key = conflict::CONFLICT_EXPECTED.at([(ways + 1).into(), policy.token().into()]);
        let row = number(key, misses_per_round(*policy, ways, ways + 1), "");
        report.findings.push(Finding { basis: Basis::Derived, ..row });
    }
}
