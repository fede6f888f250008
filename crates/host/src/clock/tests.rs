use super::*;

#[test]
fn calibration_gives_a_plausible_rate() {
    let (source, why) = Source::choose(&Root::system());
    assert!(!why.is_empty() && !source.name().is_empty());
    let rate = rate(source);
    // No machine that runs Linux ticks slower than 32 kHz or faster than 100 GHz.
    assert!((30_000..100_000_000_000).contains(&rate.hz), "{rate:?}");
}

#[test]
fn fallback_clock_counts_nanoseconds() {
    assert_eq!(rate(Source::MonotonicRaw), Rate { hz: 1_000_000_000, ppm: 0 });
    let first = Source::MonotonicRaw.now();
    let later = Source::MonotonicRaw.now();
    assert!(later >= first);
    assert_eq!(Source::MonotonicRaw.name(), "monotonic-raw");
}

#[test]
fn stopped_counter_is_detected() {
    assert!(!is_counting(|| 7));
    assert!(is_counting(raw_ns));
}

#[test]
fn clock_readings_are_monotonic() {
    for source in [Source::choose(&Root::system()).0, Source::MonotonicRaw] {
        let readings = [(); 100].map(|()| source.now());
        assert!(readings.is_sorted(), "{}", source.name());
    }
}
