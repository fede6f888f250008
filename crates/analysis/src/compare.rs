//! Comparison of two reports: differences, their size and their significance.
//!
//! The interval of a difference is computed from the intervals of the two estimates (method of variance estimates
//! recovery by Zou and Donner, Statistics in Medicine 27, 2008): the two distances on the relevant side are added in
//! quadrature. No distribution is assumed, and asymmetric intervals stay asymmetric. Holm's correction over all rows
//! keeps the family-wise error rate at 5 %.

mod matching;

use statrs::distribution::{ContinuousCDF as _, Normal};

use crate::facts;
use crate::findings::{Finding, Key, Report, Value};
use crate::interval::Interval;
use crate::metrics::common::DisturbanceState;

/// Result of the test of one finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The difference is significant at 5 % over all rows together.
    Differs,
    /// No significant difference; the interval bounds the size of an undetected one.
    Same,
    /// Not tested: one of the two has no interval, or too few samples for one.
    Untested,
    /// Not judged: one of the two is doubtful because its trials, or its whole session, were disturbed.
    Disturbed,
    /// Not judged: the reports have different numbers of tiers or of TLBs, or other regions, so this number may name different
    /// ones.
    Unmatched,
}

impl Verdict {
    /// Returns the stable token.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Verdict::Differs => "yes",
            Verdict::Same => "no",
            Verdict::Untested => "untested",
            Verdict::Disturbed => "disturbed",
            Verdict::Unmatched => "unmatched",
        }
    }
}

/// A finding that both reports have as a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Key of the finding.
    pub key: Key,
    /// Unit.
    pub unit: &'static str,
    /// Value in the first and in the second report, each with its interval.
    pub values: [Interval; 2],
    /// Second minus first, relative to the first (0.01 is 1 %), with its 95 % interval. Infinite if the first is 0 and
    /// the second is not.
    pub change: Interval,
    /// p-value of the difference, corrected for the number of rows; `None` if untested or not judged.
    pub p: Option<f64>,
    /// Result of the test.
    pub verdict: Verdict,
}

/// Comparison of two reports.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Comparison {
    /// Differences in options, subject and settings, one sentence each. Read these first.
    pub plans: Vec<String>,
    /// Findings that both reports have as numbers, in the first report's order.
    pub rows: Vec<Row>,
    /// Findings that are not numbers and differ: key, first, second.
    pub words: Vec<(Key, String, String)>,
    /// Keys that only the first report has, and keys that only the second has.
    pub only: [Vec<Key>; 2],
    /// Whether the first and the second session are unusable because of disturbance. Then no row is judged.
    pub unusable: [bool; 2],
}

/// Compares the findings whose key `selected` accepts.
#[must_use]
pub fn compare(a: &Report, b: &Report, selected: impl Fn(&Key) -> bool) -> Comparison {
    let unusable = [a, b].map(|report| DisturbanceState::of(report) == Some(DisturbanceState::Unusable));
    let mut c = Comparison { plans: plans(a, b), unusable, ..Comparison::default() };
    let matched = matching::Matched::of(a, b);
    for first in a.findings.iter().filter(|f| selected(&f.key)) {
        let Some(second) = b.findings.iter().find(|f| f.key == first.key) else {
            c.only[0].push(first.key.clone());
            continue;
        };
        match (&first.value, &second.value) {
            (Value::Number(x), Value::Number(y)) if x.is_finite() && y.is_finite() => {
                let doubtful = first.is_doubtful() || second.is_doubtful() || unusable.contains(&true);
                let row = row(first, second, *x, *y);
                c.rows.push(match (doubtful, matched.is_same(&row.key)) {
                    (true, _) => not_judged(row, Verdict::Disturbed),
                    (false, false) => not_judged(row, Verdict::Unmatched),
                    (false, true) => row,
                });
            }
            (x, y) if x != y => c.words.push((first.key.clone(), word(x), word(y))),
            _ => {}
        }
    }
    let missing = |f: &&Finding| selected(&f.key) && a.findings.iter().all(|g| g.key != f.key);
    c.only[1] = b.findings.iter().filter(missing).map(|f| f.key.clone()).collect();
    holm(&mut c.rows);
    c
}

fn word(value: &Value) -> String {
    match value {
        Value::Number(v) => v.to_string(),
        Value::Text(text) => text.clone(),
    }
}

/// Returns the differences in experiment, subject, trust, settings and warnings.
fn plans(a: &Report, b: &Report) -> Vec<String> {
    let mut plans = Vec::new();
    let mut differ = |what: &str, x: &str, y: &str| {
        if x != y {
            plans.push(format!("{what}: {x} against {y}"));
        }
    };
    differ("experiment", &a.experiment, &b.experiment);
    differ("subject", &a.subject, &b.subject);
    differ("trust in the clock", &a.trust, &b.trust);
    let names = a.facts.iter().chain(&b.facts).map(|f| &f.0).filter(|name| facts::is_setting(name));
    let mut seen: Vec<&String> = Vec::new();
    for name in names {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let of =
            |r: &Report| r.facts.iter().find(|f| f.0 == *name).map_or("(none)".to_owned(), |f| f.1.clone());
        differ(name, &of(a), &of(b));
    }
    let tokens = |r: &Report| {
        let mut tokens: Vec<&str> = r.warnings.iter().map(|w| w.kind.token()).collect();
        tokens.dedup();
        if tokens.is_empty() { "none".to_owned() } else { tokens.join(", ") }
    };
    differ("warnings", &tokens(a), &tokens(b));
    plans
}

fn row(first: &Finding, second: &Finding, x: f64, y: f64) -> Row {
    let interval = |f: &Finding, value: f64| match (f.low, f.high) {
        (Some(low), Some(high)) if low.is_finite() && high.is_finite() => {
            Some(Interval { value, low: low.min(value), high: high.max(value) })
        }
        _ => None,
    };
    let bare = |value: f64| Interval { value, low: value, high: value };
    let share = |d: f64| if d == 0.0 { 0.0 } else { d / x.abs() };
    let (ours, theirs) = (interval(first, x), interval(second, y));
    let enough = first.count.min(second.count) >= MIN_SAMPLES_TO_TEST;
    let d = y - x;
    let (change, p) = match (ours, theirs) {
        (Some(a), Some(b)) if enough => {
            let below = (b.value - b.low).hypot(a.high - a.value);
            let above = (b.high - b.value).hypot(a.value - a.low);
            let change = Interval { value: share(d), low: share(d - below), high: share(d + above) };
            (change, Some(p_value(d, if d > 0.0 { below } else { above })))
        }
        _ => (bare(share(d)), None),
    };
    let verdict = if p.is_none() { Verdict::Untested } else { Verdict::Same };
    Row {
        key: first.key.clone(),
        unit: first.unit,
        values: [ours.unwrap_or(bare(x)), theirs.unwrap_or(bare(y))],
        change,
        p,
        verdict,
    }
}

/// Returns a row without a judgement, for this reason. It does not count as a test.
fn not_judged(row: Row, verdict: Verdict) -> Row {
    Row { p: None, verdict, ..row }
}

/// With fewer than six samples, no two order statistics bound the median at 95 %, so the interval is only a range and
/// no test is possible.
const MIN_SAMPLES_TO_TEST: u64 = 6;

/// Returns the two-sided p-value of a difference of `d`, where `reach` is the half-width of the 95 % interval of no
/// difference.
fn p_value(d: f64, reach: f64) -> f64 {
    if d == 0.0 {
        return 1.0;
    }
    // Without spread (a model), any difference is significant.
    if reach <= 0.0 {
        return 0.0;
    }
    match Normal::new(0.0, 1.0) {
        Ok(normal) => 2.0 * normal.cdf(-(d.abs() / reach) * 1.96),
        Err(_) => 1.0,
    }
}

/// Applies Holm's step-down correction; rows with a corrected p-value below 5 % differ.
fn holm(rows: &mut [Row]) {
    let mut order: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].p.is_some()).collect();
    order.sort_by(|&i, &j| rows[i].p.unwrap_or(1.0).total_cmp(&rows[j].p.unwrap_or(1.0)));
    let tests = order.len();
    let mut corrected = 0.0f64;
    for (rank, &i) in order.iter().enumerate() {
        corrected = corrected.max(rows[i].p.unwrap_or(1.0) * (tests - rank) as f64).min(1.0);
        rows[i].p = Some(corrected);
        if corrected < 0.05 {
            rows[i].verdict = Verdict::Differs;
        }
    }
}

impl Comparison {
    /// Returns the rows that differ significantly by more than `share` of the first value: the whole interval of the
    /// change lies beyond it.
    pub fn beyond(&self, share: f64) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |r| {
            r.verdict == Verdict::Differs && (r.change.low > share || r.change.high < -share)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::REGISTRY;
    use crate::metrics::common::DISTURBANCE_STATE;
    use proptest::prelude::*;

    fn finding(name: &str, value: f64, half: f64) -> Finding {
        Finding {
            low: Some(value - half),
            high: Some(value + half),
            count: 10,
            ..Finding::number(REGISTRY.key(name).expect("a name of the schema"), value).in_unit("ns")
        }
    }

    fn report(findings: Vec<Finding>) -> Report {
        Report { experiment: "survey".into(), subject: "host".into(), findings, ..Report::default() }
    }

    fn one(a: Finding, b: Finding) -> Row {
        compare(&report(vec![a]), &report(vec![b]), |_| true).rows.remove(0)
    }

    #[test]
    fn difference_is_separated_from_no_difference() {
        let far = one(finding("walk.latency", 100.0, 1.0), finding("walk.latency", 110.0, 1.0));
        assert_eq!(far.verdict, Verdict::Differs);
        // 10, less the root of the sum of squares of two half-widths of 1, relative to 100.
        assert!((far.change.low - 0.0859).abs() < 1e-3 && (far.change.high - 0.1141).abs() < 1e-3, "{far:?}");
        let near = one(finding("walk.latency", 100.0, 3.0), finding("walk.latency", 102.0, 3.0));
        assert_eq!(near.verdict, Verdict::Same);
        assert!(near.change.low < 0.0 && near.change.high > 0.0);
        // Modelled values have no spread.
        assert_eq!(
            one(finding("walk.latency", 3.0, 0.0), finding("walk.latency", 3.0, 0.0)).verdict,
            Verdict::Same
        );
        assert_eq!(
            one(finding("walk.latency", 3.0, 0.0), finding("walk.latency", 3.1, 0.0)).verdict,
            Verdict::Differs
        );
    }

    #[test]
    fn values_without_interval_are_compared_as_words() {
        let bare = Finding { low: None, high: None, ..finding("walk.latency", 1.0, 0.0) };
        assert_eq!(one(bare.clone(), finding("walk.latency", 9.0, 0.1)).verdict, Verdict::Untested);
        let word = |text: &str| Finding { value: Value::Text(text.into()), ..bare.clone() };
        let c = compare(
            &report(vec![word("hit")]),
            &report(vec![word("miss"), finding("walk.share", 1.0, 0.0)]),
            |_| true,
        );
        assert_eq!(c.words, [(REGISTRY.key("walk.latency").expect("a key"), "hit".into(), "miss".into())]);
        assert_eq!(c.only, [vec![], vec![REGISTRY.key("walk.share").expect("a key")]]);
    }

    #[test]
    fn different_plans_are_listed() {
        let a = report(Vec::new());
        let mut b = a.clone();
        assert_eq!(compare(&a, &b, |_| true).plans, Vec::<String>::new());
        b.subject = "zen3".into();
        b.facts.push(("page.base".into(), "16384".into()));
        let plans = compare(&a, &b, |_| true).plans;
        assert_eq!(plans, ["subject: host against zen3", "page.base: (none) against 16384"]);
        b.facts.push(("env.freq.governor".into(), "powersave".into()));
        b.facts.push(("env.loadavg".into(), "0.10".into()));
        let plans = compare(&a, &b, |_| true).plans;
        assert_eq!(plans[2..], ["env.freq.governor: (none) against powersave"], "load always differs");
    }

    #[test]
    fn equal_distributions_rarely_differ_in_many_rows() {
        // 300 comparisons of 40 rows each, both sides drawn from one normal distribution.
        let mut state = 1u64;
        let mut unit = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut wrong = 0;
        for _ in 0..300 {
            let mut side = || -> Report {
                let mut normal = || (0..12).map(|_| unit()).sum::<f64>() - 6.0;
                report(
                    (0..40)
                        .map(|i| finding(&format!("tier.{}.latency", i + 1), 100.0 + normal(), 1.96))
                        .collect(),
                )
            };
            let c = compare(&side(), &side(), |_| true);
            wrong += usize::from(c.rows.iter().any(|r| r.verdict == Verdict::Differs));
        }
        // 5 % of 300 are 15; three standard deviations more are 26.
        assert!(wrong <= 26, "{wrong} of 300");
    }

    /// A finding whose trials were disturbed, and a session that is unusable, are shown and not judged.
    #[test]
    fn doubtful_findings_are_not_judged() {
        let pair = || [finding("walk.latency", 100.0, 1.0), finding("tlb.1.penalty", 5.0, 0.1)];
        let [mut a, b] = pair();
        a.disturbed_trials = 3;
        let slower = pair().map(|f| {
            let value = f.finite().unwrap_or(0.0) * 2.0;
            Finding { value: Value::Number(value), low: Some(value), high: Some(value), ..f }
        });
        let first = report(vec![a, b]);
        let mut second = report(slower.to_vec());
        let c = compare(&first, &second, |_| true);
        assert_eq!(c.rows[0].verdict, Verdict::Disturbed);
        assert_eq!((c.rows[0].p, c.rows[1].verdict), (None, Verdict::Differs));
        assert_eq!(c.beyond(0.05).map(|row| row.key.name()).collect::<Vec<_>>(), ["tlb.1.penalty"]);
        second.findings.push(Finding::text(&DISTURBANCE_STATE, DisturbanceState::Unusable.token()));
        let c = compare(&first, &second, |key| key.metric != &DISTURBANCE_STATE);
        assert_eq!(c.unusable, [false, true]);
        assert!(c.rows.iter().all(|row| row.verdict == Verdict::Disturbed) && c.beyond(0.0).next().is_none());
    }

    /// With one more tier in one report, the numbers beyond it name other tiers.
    #[test]
    fn tiers_beyond_an_additional_one_are_not_judged() {
        let tiers = |all: &[(f64, f64)]| {
            let latency =
                |(i, t): (usize, &(f64, f64))| finding(&format!("tier.{}.latency", i + 1), t.0, 0.01);
            let capacity =
                |(i, t): (usize, &(f64, f64))| finding(&format!("tier.{}.capacity", i + 1), t.1, 1.0);
            let ends = all[..all.len() - 1].iter().enumerate().map(capacity);
            report(all.iter().enumerate().map(latency).chain(ends).collect())
        };
        let verdicts = |a: &Report, b: &Report| {
            let rows = compare(a, b, |_| true).rows;
            rows.iter().map(|row| (row.key.name(), row.verdict)).collect::<Vec<_>>()
        };
        let three = tiers(&[(1.0, 32e3), (5.0, 1e6), (90.0, 0.0)]);
        let four = tiers(&[(1.0, 32e3), (5.0, 1.2e6), (20.0, 8e6), (90.0, 0.0)]);
        let found = verdicts(&three, &four);
        let of = |name: &str| found.iter().find(|row| row.0 == name).map(|row| row.1);
        assert_eq!(of("tier.2.latency"), Some(Verdict::Same));
        assert_eq!(of("tier.2.capacity"), Some(Verdict::Differs));
        assert_eq!(of("tier.3.latency"), Some(Verdict::Unmatched));
        // The same number of tiers: a capacity may be several times as large.
        let larger = tiers(&[(1.0, 32e3), (5.0, 4e6), (90.0, 0.0)]);
        assert!(verdicts(&three, &larger).iter().all(|row| row.1 != Verdict::Unmatched));
    }

    proptest! {
        #[test]
        fn change_is_inside_its_interval_and_the_verdict_symmetric(
            a in 1.0f64..1e6, b in 1.0f64..1e6, ha in 0.0f64..1e3, hb in 0.0f64..1e3
        ) {
            let forward = one(finding("walk.latency", a, ha), finding("walk.latency", b, hb));
            let backward = one(finding("walk.latency", b, hb), finding("walk.latency", a, ha));
            prop_assert!(forward.change.low <= forward.change.value && forward.change.value <= forward.change.high);
            prop_assert_eq!(forward.verdict, backward.verdict);
        }
    }
}
