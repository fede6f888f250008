//! Effects of the pure factors, and the part of the study's memory workers' effect that they explain.

use fathom_analysis::findings::tokens;
use fathom_analysis::findings::{Basis, Finding, Item, Key, Report};
use fathom_analysis::interval::{Interval, median, robust_sigma};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_analysis::metrics::wakeup::condition;
use fathom_analysis::wakeup::factorial::{self, Attribution, Design, Dose, Effects, Measured};
use fathom_analysis::wakeup::summary::needed;
use fathom_probe::load::Stress;
use fathom_probe::pattern::{PatternKind, Wake};

use super::conditions::{self, Case, FACTORS};
use super::options::Options;
use super::series::Series;
use super::spot::{Unit, refuse, word};
use super::trials::{self, PILOT_ROUND, traced};
use crate::reading::measured;
use crate::record::{Record, TrialRun};

/// Percentiles for comparing series, the farthest first; a series needs enough activations for its percentile.
const PERCENTILES: [(f64, &str); 4] = [(0.999, "p99.9"), (0.99, "p99"), (0.9, "p90"), (0.5, "p50")];

/// A percentile that all compared series have enough activations for.
#[derive(Clone, Copy)]
struct At {
    share: f64,
    word: &'static str,
}

impl At {
    /// Returns the farthest percentile that the shortest of these series allows.
    fn of<'a>(runs: impl Iterator<Item = &'a TrialRun>) -> Option<At> {
        let fewest = runs.map(|run| run.wakeups.woken.len() as u64).min()?;
        let (share, word) = PERCENTILES.into_iter().find(|(share, _)| fewest >= needed(*share))?;
        Some(At { share, word })
    }

    /// Marks a finding as one of this percentile.
    fn marked(self, mut row: Finding, basis: Basis) -> Finding {
        row.basis = basis;
        row.detail.set(metrics::QUANTILE, Item::Token(word(self.word)));
        row
    }

    /// Returns it for one series, us.
    fn value(self, run: &TrialRun) -> f64 {
        let mut late: Vec<u64> = run.wakeups.woken.iter().map(|w| w.user_ns).collect();
        late.sort_unstable();
        let at = ((late.len() as f64 * self.share) as usize).min(late.len().saturating_sub(1));
        late.get(at).map_or(0.0, |ns| *ns as f64 / 1000.0)
    }
}

/// Adds the findings `effect.FACTOR`, `interaction.A.B` and `explained.FACTOR`.
pub(super) fn rows(record: &Record, unit: Unit, report: &mut Report) {
    let sweep = Options::of(record).sweep;
    if sweep || !conditions::design_scheduled(record) {
        return;
    }
    let factors = trials::factors(record);
    refuse_left_out(record, &factors, report);
    let Some(design) = Design::new(factors.len()) else { return };
    let runs = cases(record, &design, &factors);
    let Some(at) = At::of(runs.iter().map(|(_, run)| *run)) else {
        let why = "the cases of the design have too few activations".to_owned();
        return refuse(report, "the factors' effects", why, "give it a larger --budget: 60s or more");
    };
    let block = |run: &TrialRun| run.trial.round as usize;
    let all: Vec<Measured> = runs
        .iter()
        .map(|(case, run)| Measured { block: block(run), case: *case, us: at.value(run) })
        .collect();
    let effects = match factorial::effects(&design, &all) {
        Ok(effects) => effects,
        Err(factorial::Refusal::TooFew { blocks }) => {
            let why = format!("only {blocks} rounds have every case of the design; at least 2 needed");
            return refuse(report, "the factors' effects", why, "give it a larger --budget: 60s or more");
        }
    };
    let trials: Vec<u64> = runs.iter().map(|(_, run)| run.trial.id).collect();
    effect_rows(&effects, &factors, at, &trials, unit, report);
    explained_rows(record, &effects, &factors, unit, report);
}

/// Refuses the effects of the factors that the machine does not run.
fn refuse_left_out(record: &Record, factors: &[Stress], report: &mut Report) {
    for factor in FACTORS.into_iter().filter(|factor| !factors.contains(factor)) {
        let case = conditions::named(factor.token()).map(|condition| Case::of(condition, record));
        if let Some((reason, remedy)) = case.and_then(|case| trials::refusal(record, &case)) {
            refuse(report, &format!("the effect of {}", factor.token()), reason.clone(), remedy);
        }
    }
}

/// Returns the series of the design, each with its case.
fn cases<'a>(record: &'a Record, design: &Design, factors: &[Stress]) -> Vec<(usize, &'a TrialRun)> {
    let places = traced(record);
    let of = |run: &'a TrialRun| {
        let wakes = run.trial.or_default::<Wake>().wakes;
        let task =
            run.trial.memory.bytes == conditions::NO_WORK && !wakes.timerlat && !run.trial.beside.confined;
        let plain = task && run.trial.beside.streams.is_empty();
        let counts = run.done.is_some() && run.trial.round > PILOT_ROUND && plain && wakes.traced == places;
        let on = conditions::factors_of(factors, &run.trial.beside.load).filter(|_| counts)?;
        Some(((0..design.cases()).find(|&case| design.levels(case) == on)?, run))
    };
    record.of(PatternKind::Wake).filter_map(of).collect()
}

fn effect_rows(
    effects: &Effects,
    factors: &[Stress],
    at: At,
    trials: &[u64],
    unit: Unit,
    report: &mut Report,
) {
    let how = format!(
        "effect on {} in the task, {} replicates of the factorial design; simultaneous 95 % intervals",
        at.word, effects.blocks
    );
    let mut row = |key: Key, us: Interval, note: String| {
        let interval = us.scaled(unit.of_us);
        let mut row = at.marked(measured(key, interval, unit.name, trials.len(), trials), Basis::Fitted);
        row.notes.push(note);
        report.findings.push(row);
    };
    row((&metrics::EFFECT_BASELINE).into(), effects.baseline, format!("{} with every factor off", at.word));
    for (factor, us) in factors.iter().zip(&effects.factors) {
        row(metrics::EFFECT.at([factor.token().into()]), *us, how.clone());
    }
    for group in &effects.groups {
        // A design of resolution V has one pair per group.
        let [(a, b)] = group.pairs[..] else { continue };
        let key = metrics::INTERACTION.at([factors[a].token().into(), factors[b].token().into()]);
        row(key, group.us, "interaction: effect of both beyond the sum of their effects".into());
    }
}

/// Adds the part of the memory workers' effect that each factor explains, in proportion to its dose in their load.
fn explained_rows(record: &Record, effects: &Effects, factors: &[Stress], unit: Unit, report: &mut Report) {
    let series = |word: &str| {
        conditions::named(word)
            .map(|condition| Series::of(record, &Case::of(condition, record), traced(record)))
    };
    let (Some(before), Some(after)) = (series(condition::STRESS_MIX), series(condition::STRESS_MIX_VM))
    else {
        return;
    };
    let Some(at) = At::of(before.runs.iter().chain(&after.runs).copied()) else { return };
    let Some(delta) = increase(&before, &after, at) else { return };
    // The workers' own activity is the difference between the two loads.
    let (without, with) = (before.rates(), after.rates());
    let load: Vec<f64> = with.iter().zip(&without).map(|(a, b)| (a - b).max(0.0)).collect();
    let doses: Vec<Option<Dose>> = factors
        .iter()
        .map(|factor| {
            let what = dose_of(*factor);
            let alone = series(factor.token())?.rates()[what];
            Some(Dose { load: load[what], alone })
        })
        .collect();
    let Attribution { factors: parts, unexplained } = factorial::attribute(delta, &effects.factors, &doses);
    let row = |key: Key, us: Interval, note: String| {
        let row = measured(key, us.scaled(unit.of_us), unit.name, after.runs.len(), &after.trials());
        Finding { notes: vec![note], ..at.marked(row, Basis::Derived) }
    };
    let added = format!("effect of the memory workers on {}", at.word);
    report.findings.push(row((&metrics::EXPLAINED_INCREASE).into(), delta, added));
    for (factor, explained) in factors.iter().zip(&parts) {
        let Some(us) = explained.us else { continue };
        let bound = if explained.at_least { "; a lower bound: their dose exceeds the factor's" } else { "" };
        let rate = tokens::RATE.values[dose_of(*factor)];
        let key = metrics::EXPLAINED.at([factor.token().into()]);
        let mut row = row(key, us, format!("by dose of {rate}{bound}"));
        row.detail.set(metrics::BY, Item::Token(rate.to_owned()));
        row.detail.set(metrics::AT_LEAST, Item::Flag(explained.at_least));
        report.findings.push(row);
    }
    report.findings.push(row(
        (&metrics::EXPLAINED_RESIDUAL).into(),
        unexplained,
        "not explained by any factor".into(),
    ));
}

/// Returns the index of the counted rate that measures a factor's dose.
fn dose_of(factor: Stress) -> usize {
    match factor {
        // A pass unmaps once, for the memory workers too.
        Stress::Unmap => 0,
        Stress::Fault => 2,
        Stress::Copy => 3,
        _ => 1,
    }
}

/// Returns the difference of two series: of the medians over all runs, with the error from their spread. The error of a
/// median is 1.2533 times that of a mean (normal distribution); 2.2 is Student's t for three rounds.
fn increase(before: &Series, after: &Series, at: At) -> Option<Interval> {
    let middle = |series: &Series| {
        let values: Vec<f64> = series.runs.iter().map(|run| at.value(run)).collect();
        let error = 1.2533 * robust_sigma(&values) / (values.len() as f64).sqrt();
        Some((median(&values)?, error))
    };
    let (before, after) = (middle(before)?, middle(after)?);
    let (value, half_width) = (after.0 - before.0, 2.2 * before.1.hypot(after.1));
    Some(Interval { value, low: value - half_width, high: value + half_width })
}
