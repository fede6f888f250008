//! Findings of the slices of time of a counted program.

use fathom_analysis::findings::{Finding, Item, Key, Report, Warning, WarningKind};
use fathom_analysis::interval::quantile;
use fathom_analysis::metrics::count as metrics;

use super::super::TASK_CLOCK;
use super::{AS_ROOT, COVERED, CYCLES, END_OTHERS, INSTRUCTIONS, MAY_NOT, START_US};
use crate::record::{MAX_SLICES, ProgramRuns, ProgramSlice};

/// Slices of a set in a report, at most: a figure of some hundred pixels shows no more. In longer series they are joined.
const SHOWN: usize = 200;

/// Share of the time that slices must have.
const MOST: f64 = 0.9;

/// Some slices that follow one another, of one set.
struct Joined<'a> {
    names: &'a [String],
    end_us: u64,
    wall_us: u64,
    counts: Vec<u64>,
}

impl<'a> Joined<'a> {
    fn of(names: &'a [String], slices: &[&ProgramSlice]) -> Joined<'a> {
        let sum = |at: usize| slices.iter().fold(0u64, |sum, slice| sum.saturating_add(slice.counts[at]));
        Joined {
            names,
            end_us: slices.last().map_or(0, |last| last.begin_us + last.wall_us),
            wall_us: slices.iter().map(|slice| slice.wall_us).sum(),
            counts: (0..names.len()).map(sum).collect(),
        }
    }

    fn count(&self, event: &str) -> Option<f64> {
        Some(self.counts[self.names.iter().position(|name| name == event)?] as f64)
    }

    /// Events a second.
    fn rate(&self, event: &str) -> Option<f64> {
        Some(self.count(event)? * 1e6 / self.wall_us as f64)
    }

    fn cpus(&self) -> Option<f64> {
        Some(self.rate(TASK_CLOCK)? / 1e9)
    }

    fn ratio(&self, event: &str, of: &str) -> Option<f64> {
        Some(self.count(event)? / self.count(of).filter(|of| *of > 0.0)?)
    }
}

/// Adds the slices, and what they are together.
pub(super) fn add(program: &ProgramRuns, report: &mut Report) {
    if program.slices.is_empty() || !is_covered(program) {
        return;
    }
    let all_us: u64 = program.slices.iter().map(|slice| slice.wall_us).sum();
    let mut time = Finding::number(&metrics::COUNTED_TIME, all_us as f64 / 1e3);
    time.detail.set(metrics::SLICES, Item::Number(program.slices.len() as f64));
    report.findings.push(time);
    let sets: Vec<Vec<&ProgramSlice>> = (0..program.sets.len())
        .map(|set| program.slices.iter().filter(|slice| slice.set == set && !slice.shared).collect())
        .collect();
    together(program, &sets, report);
    for (names, slices) in program.sets.iter().zip(&sets) {
        for some in slices.chunks(slices.len().div_ceil(SHOWN).max(1)) {
            one(&Joined::of(names, some), report);
        }
    }
}

/// CPU time of all slices, us.
fn cpu_us(program: &ProgramRuns) -> f64 {
    let of = |slice: &ProgramSlice| Joined::of(&program.sets[slice.set], &[slice]).count(TASK_CLOCK);
    program.slices.iter().filter_map(of).sum::<f64>() / 1e3
}

/// Returns whether the slices have the CPU time of their run: the kernel does not let each program be counted.
fn is_covered(program: &ProgramRuns) -> bool {
    program.runs.first().is_none_or(|run| cpu_us(program) >= COVERED * super::cpu_us(run) - START_US)
}

/// Adds the rates over all slices that counted an event, with their range.
fn together(program: &ProgramRuns, sets: &[Vec<&ProgramSlice>], report: &mut Report) {
    let each: Vec<Joined> = program
        .sets
        .iter()
        .zip(sets)
        .flat_map(|(names, slices)| slices.iter().map(|slice| Joined::of(names, &[*slice])))
        .collect();
    type Of<'a> = &'a dyn Fn(&Joined) -> Option<f64>;
    let mut add = |key: Key, of: Of| {
        let values: Vec<(f64, f64)> =
            each.iter().filter_map(|slice| Some((of(slice)?, slice.wall_us as f64))).collect();
        let wall: f64 = values.iter().map(|(_, wall)| wall).sum();
        if wall > 0.0 {
            let mean = values.iter().map(|(value, part)| value * part).sum::<f64>() / wall;
            let mut finding = Finding::number(key, mean);
            finding.count = values.len() as u64;
            let mut sorted: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
            sorted.sort_by(f64::total_cmp);
            for (field, share) in [(metrics::P10, 0.1), (metrics::P90, 0.9)] {
                if let Some(value) = quantile(&sorted, share) {
                    finding.detail.set(field, Item::Number(value));
                }
            }
            report.findings.push(finding);
        }
    };
    add((&metrics::CPUS).into(), &|slice| slice.cpus());
    for event in program.events.iter().map(|event| event.name.as_str()).filter(|name| *name != TASK_CLOCK) {
        add(metrics::RATE.at([event.into()]), &|slice| slice.rate(event));
    }
    if program.runs.is_empty() {
        ratios(program, &each, report);
    }
}

/// Adds the ratios of a process, which has no runs: over all slices that counted both events.
fn ratios(program: &ProgramRuns, each: &[Joined], report: &mut Report) {
    let ratio = |event: &str, of: &str| {
        let both = each.iter().filter_map(|slice| Some((slice.count(event)?, slice.count(of)?)));
        let (events, all) = both.fold((0.0, 0.0), |(a, b), (event, of)| (a + event, b + of));
        (all > 0.0).then_some(events / all)
    };
    if let Some(per_cycle) = ratio(INSTRUCTIONS, CYCLES) {
        report.findings.push(Finding::number(&metrics::PER_CYCLE, per_cycle));
    }
    let names = program.events.iter().map(|event| event.name.as_str());
    for event in names.filter(|name| ![INSTRUCTIONS, TASK_CLOCK].contains(name)) {
        if let Some(ratio) = ratio(event, INSTRUCTIONS) {
            let key = metrics::PER_THOUSAND.at([event.into()]);
            report.findings.push(Finding::number(key, 1000.0 * ratio));
        }
    }
}

/// Adds the findings of a slice.
fn one(slice: &Joined, report: &mut Report) {
    let end = slice.end_us.div_ceil(1000).max(1);
    let mut add = |key: Key, value: Option<f64>| {
        report.findings.extend(value.map(|value| Finding::number(key, value)));
    };
    add(metrics::SLICE_CPUS.at([end.into()]), slice.cpus());
    add(metrics::SLICE_PER_CYCLE.at([end.into()]), slice.ratio(INSTRUCTIONS, CYCLES));
    for event in slice.names.iter().filter(|name| *name != TASK_CLOCK) {
        add(metrics::SLICE_RATE.at([end.into(), event.as_str().into()]), slice.rate(event));
    }
}

/// Adds what limits the slices.
pub(super) fn doubts(program: &ProgramRuns) -> Vec<Warning> {
    let all = program.slices.len();
    let shared = program.slices.iter().filter(|slice| slice.shared).count();
    let mut warnings = Vec::new();
    if shared > 0 {
        let text = format!(
            "in {shared} of {all} slices others used the processor's counters: these slices are left out"
        );
        warnings.push(Warning::new(WarningKind::CountersShared, text, END_OTHERS));
    }
    if all > 0 && !is_covered(program) {
        let text = format!("slices have less than the CPU time of the run: {MAY_NOT}; they are left out");
        warnings.push(Warning::new(WarningKind::Uncounted, text, AS_ROOT));
    }
    let counted: f64 = program.slices.iter().map(|slice| slice.wall_us as f64).sum();
    let end = program.slices.last().map_or(0.0, |last| (last.begin_us + last.wall_us) as f64);
    if counted < MOST * end {
        let text = format!(
            "slices have {:.0} % of the time: to begin one takes long, with so many threads or so short ones",
            100.0 * counted / end
        );
        warnings.push(Warning::new(WarningKind::SlicesCut, text, "count longer slices: --every"));
    }
    if all >= MAX_SLICES {
        let text = format!("after {MAX_SLICES} slices no more were kept: the rest of the time is in none");
        warnings.push(Warning::new(WarningKind::SlicesCut, text, "count longer slices: --every"));
    }
    warnings
}
