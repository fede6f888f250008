use super::*;

fn bracket(before_ns: u64, ticks: u64, after_ns: u64) -> Bracket {
    Bracket { before_ns, ticks, after_ns }
}

#[test]
fn a_rate_is_ticks_by_time_with_its_doubt() {
    // 25 ms at 2 GHz, each end known to 50 ns: 100 ns of doubt in twice 25 ms.
    let rate = Bracket::rate(&bracket(0, 0, 50), &bracket(25_000_000, 50_000_000, 25_000_050));
    assert_eq!(rate.hz, 2_000_000_000);
    assert_eq!(rate.ppm, 3, "2 of the brackets, 1 of the ticks");
    // The truth lies inside: the extremes of both brackets.
    let (slow, fast) = (50_000_000.0 / 25_000_050e-9, 50_000_000.0 / 24_999_950e-9);
    assert!((slow - 2e9_f64).abs() / 2e9 * 1e6 <= rate.ppm as f64);
    assert!((fast - 2e9_f64).abs() / 2e9 * 1e6 <= rate.ppm as f64);
}

#[test]
fn coarse_and_broken_clocks_have_large_doubt_and_no_panic() {
    // 32 kHz over 25 ms: 819 ticks, each worth 1200 parts a million.
    let rate = Bracket::rate(&bracket(0, 0, 100), &bracket(25_000_000, 819, 25_000_100));
    assert!((32_000..33_500).contains(&rate.hz) && rate.ppm > 2000, "{rate:?}");
    let stopped = Bracket::rate(&bracket(0, 5, 1), &bracket(1_000_000, 5, 1_000_001));
    assert_eq!(stopped.hz, 0);
    let backwards = Bracket::rate(&bracket(10, 5, 11), &bracket(0, 4, 1));
    assert!(backwards.ppm > 0);
}

#[test]
fn calibration_ends_and_knows_what_it_knows() {
    let (source, why) = Source::choose(&Root::system());
    assert!(!why.is_empty() && !source.name().is_empty());
    let rate = rate(source);
    // No machine that runs Linux ticks slower than 32 kHz or faster than 100 GHz.
    assert!((30_000..100_000_000_000).contains(&rate.hz), "{rate:?}");
}

#[test]
fn the_fallback_clock_is_nanoseconds() {
    assert_eq!(rate(Source::MonotonicRaw), Rate { hz: 1_000_000_000, ppm: 0 });
    let first = Source::MonotonicRaw.now();
    let later = Source::MonotonicRaw.now();
    assert!(later >= first);
    assert_eq!(Source::MonotonicRaw.name(), "monotonic-raw");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn flags_are_words_of_the_first_flags_line() {
    let info = "processor\t: 0\nflags\t\t: fpu constant_tsc nonstop_tsc\nbugs\t: x\n";
    assert!(has_flag(info, "constant_tsc") && has_flag(info, "nonstop_tsc"));
    assert!(!has_flag(info, "tsc") && !has_flag("", "fpu"));
}

#[test]
fn additions_are_carried_out() {
    assert_eq!(add(3, 4), 7);
    assert_eq!(add_turns(1, 2, 3), 1 + 2 * 3 * ALU_UNROLL);
    // Whole turns, a rest, neither: each must end.
    for n in [0, 1, ALU_UNROLL - 1, ALU_UNROLL, ALU_UNROLL + 1, 10_000] {
        alu(n);
    }
}
