use proptest::prelude::*;

use super::REGISTRY;
use crate::findings::{Axis, Coordinate, Key, Kind, Metric, UNITS, tokens};

/// Returns a random key: any word or number of each axis.
fn any_key() -> impl Strategy<Value = Key> {
    let all: Vec<&'static Metric> = REGISTRY.metrics().collect();
    (prop::sample::select(all), prop::collection::vec((any::<prop::sample::Index>(), 1..=u64::MAX), 4))
        .prop_map(|(metric, draws)| {
            let at = metric.axes().zip(draws).map(|(axis, (index, number))| {
                let coordinate = match axis.tokens() {
                    None => Coordinate::Number(number),
                    Some(words) => {
                        let place = index.index(words.values.len());
                        let numbered = tokens::numbered(words.values[place]).is_some();
                        Coordinate::Word(place, if numbered { number } else { 0 })
                    }
                };
                (axis, coordinate)
            });
            Key { metric, at: at.collect() }
        })
}

proptest! {
    #[test]
    fn names_of_random_keys_read_back(key in any_key()) {
        prop_assert_eq!(REGISTRY.key(&key.name()), Some(key));
    }
}

#[test]
fn unknown_metric_names_are_refused() {
    for wrong in [
        "",
        "tier",
        "tier.0.latency",
        "tier.01.latency",
        "tier.x.latency",
        "latency.-1.time",
        "tier.N.latency",
        "tier.1.latency.more",
        "prefetch.backward.time",
        "claim.rumour.level.1.data.size",
        "latency.18446744073709551616.time",
        "sweep.vm.hold.4096.1048576.p50",
        "sweep.vm.hold0.4096.1048576.p50",
    ] {
        assert_eq!(REGISTRY.key(wrong), None, "{wrong}");
    }
}

#[test]
fn a_word_may_end_with_a_number() {
    let key = REGISTRY.key("sweep.vm.hold2.4096.1048576.p50");
    let key = key.expect("a key");
    assert_eq!(key.word(Axis::Mode).as_deref(), Some("hold2"));
    assert_eq!(key.number(Axis::Stride), Some(4096));
}

#[test]
fn metric_declarations_are_complete_and_unique() {
    let mut seen = std::collections::BTreeSet::new();
    for metric in REGISTRY.metrics() {
        assert!(seen.insert(metric.pattern), "{} is declared twice", metric.pattern);
        assert!(
            !metric
                .pattern
                .split('.')
                .any(|part| part.starts_with('{') && Axis::of(&part[1..part.len() - 1]).is_none()),
            "{}: no such axis",
            metric.pattern
        );
        let mut axes: Vec<Axis> = metric.axes().collect();
        axes.sort();
        axes.dedup();
        assert_eq!(axes.len(), metric.axes().count(), "{}: an axis twice", metric.pattern);
        assert!(
            !metric.units.is_empty() && metric.units.iter().all(|unit| UNITS.contains(unit)),
            "{}",
            metric.pattern
        );
        assert!(metric.bounds.low < metric.bounds.high && !metric.about.is_empty(), "{}", metric.pattern);
        let fields: std::collections::BTreeSet<&str> = metric.detail.iter().map(|field| field.name).collect();
        assert_eq!(fields.len(), metric.detail.len(), "{}: a field twice", metric.pattern);
    }
    for unit in UNITS {
        assert!(REGISTRY.metrics().any(|metric| metric.units.contains(unit)), "nothing is in {unit:?}");
    }
    for axis in Axis::ALL {
        assert!(
            REGISTRY.metrics().any(|metric| metric.axes().any(|used| used == *axis)),
            "nothing lies along {axis:?}"
        );
    }
}

#[test]
fn tokens_of_claims_equal_those_of_the_decoder() {
    let sources: Vec<&str> = crate::claims::Source::ALL.iter().map(|s| s.token()).collect();
    assert_eq!(tokens::SOURCE.values, sources);
    let sides: Vec<&str> = crate::claims::Holds::ALL.iter().map(|h| h.token()).collect();
    assert_eq!(tokens::SIDE.values, sides);
    assert!(
        REGISTRY
            .metrics()
            .all(|m| !matches!(m.kind, Kind::Token(w) | Kind::Tokens(w) if w.values.is_empty()))
    );
}
