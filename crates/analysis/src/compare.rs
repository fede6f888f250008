//! Two reports side by side: what differs, by how much, and how surely.
//!
//! The difference of two estimates gets its interval from theirs (Zou and Donner's method of variance estimates
//! recovery, Statistics in Medicine 27, 2008): what each lacks on the side that matters, added in quadrature.
//! So no shape is assumed of either, and lopsided intervals stay lopsided. Many rows make chance differences;
//! Holm's correction over all rows keeps the chance of even one at 5 %.

use statrs::distribution::{ContinuousCDF as _, Normal};

use crate::facts;
use crate::findings::{Finding, Key, Report, Value};
use crate::interval::Interval;

/// What a comparison says of one finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The difference is none that the uncertainties leave: 5 % over all rows together.
    Differs,
    /// No difference is shown; the interval says how large a one could hide.
    Same,
    /// One of the two has no interval, or too few samples for one: no test.
    Untested,
}

impl Verdict {
    /// The stable word for it.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Verdict::Differs => "yes",
            Verdict::Same => "no",
            Verdict::Untested => "untested",
        }
    }
}

/// One finding that both reports have as a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The finding's key.
    pub key: Key,
    /// Its unit.
    pub unit: &'static str,
    /// Its value in the first and in the second report, with its interval there.
    pub values: [Interval; 2],
    /// Second less first, relative to the first (0.01 is 1 %), with its 95 % interval. From nothing every change is
    /// infinite.
    pub change: Interval,
    /// Chance of such a difference between equals, corrected for the number of rows; `None` untested.
    pub p: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
}

/// What two reports say of each other.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Comparison {
    /// What was asked differently, a sentence each: read these first.
    pub plans: Vec<String>,
    /// Findings that both have as numbers, in the first report's order.
    pub rows: Vec<Row>,
    /// Findings that are words and differ: key, first, second.
    pub words: Vec<(Key, String, String)>,
    /// Keys that only the first, and only the second has.
    pub only: [Vec<Key>; 2],
}

/// Compares the findings of which `wanted` takes the key.
#[must_use]
pub fn compare(a: &Report, b: &Report, wanted: impl Fn(&Key) -> bool) -> Comparison {
    let mut c = Comparison { plans: plans(a, b), ..Comparison::default() };
    for first in a.findings.iter().filter(|f| wanted(&f.key)) {
        let Some(second) = b.findings.iter().find(|f| f.key == first.key) else {
            c.only[0].push(first.key.clone());
            continue;
        };
        match (&first.value, &second.value) {
            (Value::Number(x), Value::Number(y)) if x.is_finite() && y.is_finite() => {
                c.rows.push(row(first, second, *x, *y));
            }
            (x, y) if x != y => c.words.push((first.key.clone(), word(x), word(y))),
            _ => {}
        }
    }
    let missing = |f: &&Finding| wanted(&f.key) && a.findings.iter().all(|g| g.key != f.key);
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

/// What was asked or could be believed differently.
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
        let mut tokens: Vec<&str> = r.warnings.iter().map(|w| w.token).collect();
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
    let enough = first.count.min(second.count) >= FEWEST;
    let d = y - x;
    let (change, p) = match (ours, theirs) {
        (Some(a), Some(b)) if enough => {
            let below = (b.value - b.low).hypot(a.high - a.value);
            let above = (b.high - b.value).hypot(a.value - a.low);
            let change = Interval { value: share(d), low: share(d - below), high: share(d + above) };
            (change, Some(chance(d, if d > 0.0 { below } else { above })))
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

/// Below six samples no two order statistics hold the median with 95 %: such an interval is a range and no test.
const FEWEST: u64 = 6;

/// Two-sided chance of a difference of `d` where 95 % of those between equals stay within `reach`.
fn chance(d: f64, reach: f64) -> f64 {
    if d == 0.0 {
        return 1.0;
    }
    // Without any spread (a model), every difference is one.
    if reach <= 0.0 {
        return 0.0;
    }
    match Normal::new(0.0, 1.0) {
        Ok(normal) => 2.0 * normal.cdf(-(d.abs() / reach) * 1.96),
        Err(_) => 1.0,
    }
}

/// Holm's step-down correction; rows whose corrected chance is below 5 % differ.
fn holm(rows: &mut [Row]) {
    let mut order: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].p.is_some()).collect();
    order.sort_by(|&i, &j| rows[i].p.unwrap_or(1.0).total_cmp(&rows[j].p.unwrap_or(1.0)));
    let tests = order.len();
    let mut least = 0.0f64;
    for (rank, &i) in order.iter().enumerate() {
        least = least.max(rows[i].p.unwrap_or(1.0) * (tests - rank) as f64).min(1.0);
        rows[i].p = Some(least);
        if least < 0.05 {
            rows[i].verdict = Verdict::Differs;
        }
    }
}

impl Comparison {
    /// The rows that surely differ by more than `share` of the first value: differing, and the whole interval
    /// of the change beyond it.
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
        // 10 less the root of two halves of 1, of 100.
        assert!((far.change.low - 0.0859).abs() < 1e-3 && (far.change.high - 0.1141).abs() < 1e-3, "{far:?}");
        let near = one(finding("walk.latency", 100.0, 3.0), finding("walk.latency", 102.0, 3.0));
        assert_eq!(near.verdict, Verdict::Same);
        assert!(near.change.low < 0.0 && near.change.high > 0.0);
        // Modelled: no spread at all.
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
        let said = |text: &str| Finding { value: Value::Text(text.into()), ..bare.clone() };
        let c = compare(
            &report(vec![said("hit")]),
            &report(vec![said("miss"), finding("walk.share", 1.0, 0.0)]),
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
    fn equals_seldom_differ_however_many_they_are() {
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

    proptest! {
        #[test]
        fn an_interval_holds_its_value_and_order_only_turns_it(
            a in 1.0f64..1e6, b in 1.0f64..1e6, ha in 0.0f64..1e3, hb in 0.0f64..1e3
        ) {
            let there = one(finding("walk.latency", a, ha), finding("walk.latency", b, hb));
            let back = one(finding("walk.latency", b, hb), finding("walk.latency", a, ha));
            prop_assert!(there.change.low <= there.change.value && there.change.value <= there.change.high);
            prop_assert_eq!(there.verdict, back.verdict);
        }
    }
}
