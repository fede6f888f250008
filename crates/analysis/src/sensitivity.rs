//! Sensitivity: on which value of a machine's description a finding depends most.
//!
//! The same session is repeated with one value of the description at each end of its plausible range. The findings of
//! these reports are compared with those of the report of the description as it is.

use crate::findings::{Compared, Dependence, Finding, Kind, Outcome, Report, Value, Varied};

/// A finding that changes with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Place of the value in the list of those that were varied.
    pub varied: usize,
    /// Name of the finding.
    pub finding: String,
    /// What it becomes.
    pub outcome: Outcome,
}

/// Results of repeating a session with varied values.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sensitivity {
    /// Whether it was computed ahead of the session, for the same description.
    pub ahead: bool,
    /// The values that were varied, in the order of the description.
    pub varied: Vec<Varied>,
    /// The findings that change, by value.
    pub effects: Vec<Effect>,
}

impl Sensitivity {
    /// Keeps for each finding only the effect of the value that moves it most.
    pub fn keep_strongest(&mut self) {
        let mut kept: Vec<Effect> = Vec::new();
        for effect in std::mem::take(&mut self.effects) {
            match kept.iter_mut().find(|other| other.finding == effect.finding) {
                Some(other) if weight(&effect.outcome) > weight(&other.outcome) => *other = effect,
                Some(_) => {}
                None => kept.push(effect),
            }
        }
        kept.sort_by_key(|effect| effect.varied);
        self.effects = kept;
    }
}

/// Returns what the findings of a report become over the range of a value. `ends` are the reports at those of its ends
/// that were run. Findings that do not change are left out, and so are points of curves, clocks and claims.
#[must_use]
pub fn effects(varied: usize, here: &Report, ends: &[Report]) -> Vec<Effect> {
    let of_experiment = |f: &&Finding| match f.key.metric.compared {
        Compared::Always => true,
        Compared::In(experiment) => experiment == here.experiment,
        Compared::OnRequest => false,
    };
    let effect = |f: &Finding| {
        let outcome = outcome(f, ends.iter())?;
        Some(Effect { varied, finding: f.name(), outcome })
    };
    here.findings.iter().filter(of_experiment).filter_map(effect).collect()
}

/// Returns what a finding becomes in other reports; `None` if it is the same in all of them.
fn outcome<'a>(here: &Finding, others: impl Iterator<Item = &'a Report>) -> Option<Outcome> {
    let mut outcome = Outcome { range: here.finite().map(|v| (v, v)), ..Outcome::default() };
    let mut changed = false;
    for other in others {
        match other.find(here.key.clone()).map(|f| &f.value) {
            Some(Value::Number(v)) if v.is_finite() => {
                let (low, high) = outcome.range?;
                outcome.range = Some((low.min(*v), high.max(*v)));
                changed |= here.finite() != Some(*v);
            }
            Some(Value::Text(word)) if matches!(here.key.metric.kind, Kind::Token(_) | Kind::Tokens(_)) => {
                let own = here.word()?;
                if word != own && !outcome.words.contains(word) {
                    if outcome.words.is_empty() {
                        outcome.words.push(own.to_owned());
                    }
                    outcome.words.push(word.clone());
                    changed = true;
                }
            }
            Some(Value::Text(_)) => {}
            _ => (outcome.missing, changed) = (true, true),
        }
    }
    changed.then_some(outcome)
}

/// Sets in each finding of a report the value on which it depends most, and in the report the values that were varied.
pub fn attach(report: &mut Report, sensitivity: &Sensitivity) {
    for finding in &mut report.findings {
        finding.depends_on = strongest(finding, sensitivity);
    }
    report.sensitivity = Some((sensitivity.ahead, sensitivity.varied.clone()));
}

/// Returns the value on which a finding depends most; `None` if no range of a value moves it by more than the width of
/// its own interval.
fn strongest(finding: &Finding, sensitivity: &Sensitivity) -> Option<Dependence> {
    let name = finding.name();
    let own = finding.low.zip(finding.high).map_or(0.0, |(low, high)| high - low);
    let mut best: Option<(f64, &Effect)> = None;
    for effect in sensitivity.effects.iter().filter(|effect| effect.finding == name) {
        let moved = weight(&effect.outcome);
        if moved > own && best.is_none_or(|(most, _)| moved > most) {
            best = Some((moved, effect));
        }
    }
    let (_, effect) = best?;
    let varied = sensitivity.varied.get(effect.varied)?.clone();
    Some(Dependence { varied, outcome: effect.outcome.clone() })
}

/// Returns how much a finding is moved, in its unit. A finding that is lost, or that becomes another word, is moved more
/// than any number.
fn weight(outcome: &Outcome) -> f64 {
    if outcome.missing || !outcome.words.is_empty() {
        return f64::INFINITY;
    }
    outcome.range.map_or(0.0, |(low, high)| high - low)
}

#[cfg(test)]
mod tests {
    use fathom_units::facts::ValueClass;

    use super::*;
    use crate::metrics::{common, dma};

    fn report(saved: Option<f64>, disturbed: &str) -> Report {
        let saved = saved.map(|ns| Finding::number(&dma::DMA_STUDY_SAVED, ns));
        let word = Finding::text(&common::DISTURBED, disturbed);
        Report {
            experiment: "dma".into(),
            findings: saved.into_iter().chain([word]).collect(),
            ..Report::default()
        }
    }

    fn varied(value: &str) -> Varied {
        Varied { value: value.into(), class: ValueClass::Assumed, ends: [Some("1".into()), Some("2".into())] }
    }

    #[test]
    fn the_widest_range_of_a_finding_names_the_value() {
        let mut here = report(Some(-1400.0), "no");
        (here.findings[0].low, here.findings[0].high) = (Some(-1450.0), Some(-1350.0));
        let [more, less, same] = [4600.0, -3000.0, -1399.0].map(|ns| report(Some(ns), "no"));
        let mut effects_of = effects(0, &here, &[same]);
        effects_of.extend(effects(1, &here, &[less.clone(), more]));
        effects_of.extend(effects(2, &here, &[less, here.clone()]));
        assert_eq!(effects_of.len(), 3);
        let all =
            Sensitivity { ahead: false, varied: ["a", "b", "c"].map(varied).into(), effects: effects_of };
        let mut few = all.clone();
        few.keep_strongest();
        assert_eq!(few.effects, [all.effects[1].clone()]);
        attach(&mut here, &few);
        let few = here.findings[0].depends_on.clone();
        attach(&mut here, &all);
        assert_eq!(few, here.findings[0].depends_on);
        let most = here.findings[0].depends_on.clone().expect("it depends on b");
        assert_eq!((most.varied.value.as_str(), most.outcome.range), ("b", Some((-3000.0, 4600.0))));
        assert_eq!(here.findings[1].depends_on, None, "its word is the same everywhere");
        // A range within the finding's own interval is no dependence.
        let small = Sensitivity { effects: vec![all.effects[0].clone()], ..all };
        attach(&mut here, &small);
        assert_eq!(here.findings[0].depends_on, None);
    }

    #[test]
    fn a_lost_finding_and_another_word_count_more_than_any_number() {
        let mut here = report(Some(1.0), "no");
        let mut all = effects(0, &here, &[report(Some(1e9), "no")]);
        all.extend(effects(1, &here, &[report(None, "yes")]));
        attach(&mut here, &Sensitivity { ahead: true, varied: ["a", "b"].map(varied).into(), effects: all });
        let [saved, word] = [0, 1].map(|at| here.findings[at].depends_on.clone().expect("both depend"));
        assert!(saved.varied.value == "b" && saved.outcome.missing);
        assert_eq!(word.outcome.words, ["no", "yes"]);
    }
}
