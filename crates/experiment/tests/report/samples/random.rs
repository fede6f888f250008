//! Random reports.

use crate::full::full;
use fathom_analysis::findings::tokens::{self, Tokens};
use fathom_analysis::findings::{
    Axis, Coordinate, Finding, Histogram, Key, Kind, Metric, Refused, Report, Value, Warning, WarningKind,
};
use fathom_analysis::findings::{Dependence, Outcome, Varied};
use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_report::kind;
use fathom_units::facts::{Study, ValueClass};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Returns the number of random cases, with a fixed seed, so that every run has the same cases: 256 in the full tier,
/// 64 in the default tier.
pub fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(2),
        failure_persistence: None,
        cases: if full() { 256 } else { 64 },
        ..ProptestConfig::default()
    }
}

/// Returns arbitrary text: words, one very long word, control characters, wide and combining characters.
pub fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,200}",
        "[a-z0-9./-]{0,300}",
        "(漢字かな|e\u{301}|🧠\u{fe0f}|\u{1b}\\[31m|\u{202e}|\u{200d}|\n|\t|µs|ascii | |\u{7f}){0,60}",
        any::<String>(),
    ]
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-3.0f64..12.0).prop_map(|e| 10f64.powf(e)),
        2 => (0u64..1 << 40).prop_map(|n| n as f64),
        2 => any::<f64>().prop_filter("finite", |v| v.is_finite()),
        1 => prop_oneof![Just(0.0), Just(-0.0), Just(f64::MAX), Just(f64::MIN_POSITIVE)],
    ]
}

/// Returns a key of any metric, with a unit, and a word if its values are words.
fn any_key() -> impl Strategy<Value = (Key, &'static str, Option<String>)> {
    let all: Vec<&'static Metric> =
        kind::metrics(&REPORT_KINDS).into_iter().filter(|metric| metric.kind != Kind::Histogram).collect();
    any_of(all)
}

/// Returns a key of one of these metrics, with a unit, and a word if its values are words.
fn any_of(all: Vec<&'static Metric>) -> impl Strategy<Value = (Key, &'static str, Option<String>)> {
    (prop::sample::select(all), any::<prop::sample::Index>(), 1u64..40, any::<u64>()).prop_map(
        |(metric, pick, n, large)| {
            let word = |words: &'static Tokens| words.write(pick.index(words.values.len()), 3600);
            let at = metric.axes().map(|axis| {
                let coordinate = match axis.tokens() {
                    Some(words) => {
                        let place = pick.index(words.values.len());
                        let numbered = tokens::numbered(words.values[place]).is_some();
                        Coordinate::Word(place, if numbered { 3600 } else { 0 })
                    }
                    None if matches!(axis, Axis::Size | Axis::Stride | Axis::Distance) => {
                        Coordinate::Number((large >> (large % 64)).max(1))
                    }
                    None => Coordinate::Number(n),
                };
                (axis, coordinate)
            });
            let key = Key { metric, at: at.collect() };
            let value = match metric.kind {
                Kind::Number | Kind::Histogram => None,
                Kind::Token(words) | Kind::Tokens(words) => Some(word(words)),
                Kind::Text => Some("vm.free.4096".to_owned()),
            };
            (key, metric.units[pick.index(metric.units.len())], value)
        },
    )
}

fn any_finding() -> impl Strategy<Value = Finding> {
    (
        any_key(),
        any_number(),
        prop::option::of(any_number()),
        prop::option::of(any_number()),
        any::<u64>(),
        prop::collection::vec(any::<u64>(), 0..4),
        0..3u64,
        prop::collection::vec(any_text(), 0..3),
    )
        .prop_map(|((key, unit, value), number, low, high, count, trials, disturbed_trials, notes)| Finding {
            value: value.map_or(Value::Number(number), Value::Text),
            low,
            high,
            count,
            trials,
            disturbed_trials,
            notes,
            ..Finding::number(key, number).in_unit(unit)
        })
        .prop_flat_map(|f| {
            let fitted = prop::option::of(prop::sample::select(Study::ALL));
            (Just(f), fitted, prop::option::of(any_dependence()))
        })
        .prop_map(|(f, fitted, depends_on)| Finding { fitted, depends_on, ..f })
}

fn any_varied() -> impl Strategy<Value = Varied> {
    let end = || prop::option::of(any_text());
    (any_text(), prop::sample::select(ValueClass::ALL), end(), end())
        .prop_map(|(value, class, low, high)| Varied { value, class, ends: [low, high] })
}

fn any_dependence() -> impl Strategy<Value = Dependence> {
    let range = prop::option::of((-1e12..1e12, -1e12..1e12));
    (any_varied(), range, prop::collection::vec(any_text(), 0..3), any::<bool>()).prop_map(
        |(varied, range, words, missing)| Dependence { varied, outcome: Outcome { range, words, missing } },
    )
}

fn any_histogram() -> impl Strategy<Value = Histogram> {
    let all =
        kind::metrics(&REPORT_KINDS).into_iter().filter(|metric| metric.kind == Kind::Histogram).collect();
    let counts = prop::collection::vec((any_number(), any::<u64>()), 0..4);
    (any_of(all), any::<u64>(), any::<u64>(), counts).prop_map(
        |((key, unit, _), bytes, loads_per_sample, counts)| Histogram {
            key,
            bytes,
            unit,
            loads_per_sample,
            counts,
        },
    )
}

fn any_refusal() -> impl Strategy<Value = Refused> {
    (any_text(), any_text(), any_text()).prop_map(|(what, reason, remedy)| Refused { what, reason, remedy })
}

fn any_warning() -> impl Strategy<Value = Warning> {
    (0..WarningKind::ALL.len(), any_text(), any_text()).prop_map(|(at, text, remedy)| Warning {
        kind: WarningKind::ALL[at],
        text,
        remedy,
    })
}

/// Returns a random report that follows the schema.
pub fn any_report() -> impl Strategy<Value = Report> {
    (
        (any_text(), any_text(), 0usize..4, prop::collection::btree_map(any_text(), any_text(), 0..4)),
        (any::<u64>(), any_number()),
        prop::collection::vec(any_finding(), 0..60),
        prop::collection::vec(any_histogram(), 0..3),
        prop::collection::vec(any_refusal(), 0..3),
        (
            prop::collection::vec(any_warning(), 0..3),
            prop::option::of((any::<bool>(), prop::collection::vec(any_varied(), 0..3))),
        ),
    )
        .prop_map(
            |(
                (experiment, subject, trust, facts),
                (seed, elapsed_s),
                findings,
                histograms,
                refusals,
                (warnings, sensitivity),
            )| {
                Report {
                    experiment,
                    subject,
                    trust: tokens::TRUST.values[trust].to_string(),
                    facts: facts.into_iter().collect(),
                    seed,
                    elapsed_s,
                    findings,
                    histograms,
                    refusals,
                    warnings,
                    sensitivity,
                }
            },
        )
}
