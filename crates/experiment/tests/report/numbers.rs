//! Formatted numbers and texts.

use fathom_analysis::findings::Finding;
use fathom_report::number::{short_size, shown, shown_ratio, size};
use fathom_report::text;

use crate::samples;

#[test]
fn text_from_a_record_cannot_move_the_cursor() {
    let evil = "a\u{1b}[2Jb\rc\u{202e}d\u{200b}e\u{9b}f\tg\nh";
    assert_eq!(text::clean(evil, true), "a\\u{1b}[2Jb c\\u{202e}d\\u{200b}e\\u{9b}f g h");
    assert_eq!(text::clean("3 µs ± 1 – 漢", false), "3 us +- 1 - \\u{6f22}");
    assert_eq!(text::clean("3 µs ± 1 – 漢", true), "3 µs ± 1 – 漢");
}

#[test]
fn digits_follow_the_interval() {
    let both = |v: f64, low: f64, high: f64| {
        let s = shown(v, Some(low), Some(high));
        format!("{} {}", s.value, s.interval)
    };
    assert_eq!(both(1.687_34, 1.684, 1.69), "1.687 (1.684..1.690)");
    assert_eq!(both(5.59, 5.4, 6.1), "5.6 (5.4..6.1)");
    assert_eq!(both(146.23, 139.1, 158.3), "146 (139..158)");
    assert_eq!(both(1463.2, 1300.0, 1600.0), "1463 (1300..1600)");
    // A half-width that begins with 1 is printed with one more digit.
    assert_eq!(both(10.04, 9.88, 10.2), "10.04 (9.88..10.20)");
    // An exact value has no trailing zeros.
    assert_eq!(both(3.0, 3.0, 3.0), "3 (3..3)");
    assert_eq!(both(-0.0001, -0.4, 0.4), "0.0 (-0.4..0.4)");
    assert_eq!(both(2e15, 1e15, 3e15), "2.000e15 (1.000e15..3.000e15)");
    assert_eq!(shown(215.8333, None, None).value, "215.8");
    assert_eq!(shown(f64::NAN, None, None).value, "none");
    assert_eq!(shown(2.0, None, Some(3.0)).interval, "(?..3)");
    assert_eq!(shown(2.0, Some(1.0), Some(f64::INFINITY)).interval, "(1..?)");
}

#[test]
fn sizes_are_in_their_binary_unit() {
    let both = |v: f64, low: f64, high: f64| {
        let s = size(v, Some(low), Some(high));
        format!("{} {}", s.value, s.interval)
    };
    assert_eq!(both(49152.0, 48128.0, 50176.0), "48 KiB (47..49)");
    assert_eq!(both(2097152.0, 2044723.0, 2149580.0), "2.00 MiB (1.95..2.05)");
    assert_eq!(size(64.0, None, None).value, "64 B");
    assert_eq!(short_size(1_572_864.0), "1.5M");
    assert_eq!([shown_ratio(75.36), shown_ratio(2.386)], ["75", "2.4"]);
}

#[test]
fn column_without_intervals_has_equal_decimal_places() {
    let all = [1.816, 12.725, 0.0, 172.49]
        .map(|v| samples::number("walk.latency", v, "ns", Some((v - 0.1, v + 0.1)), 1));
    let shown = |of: &[Option<&Finding>]| fathom_report::number::column(of.iter().copied());
    assert_eq!(
        shown(&[Some(&all[0]), None, Some(&all[1]), Some(&all[2]), Some(&all[3])]),
        ["1.82", "-", "12.72", "0", "172.49"]
    );
    assert_eq!(shown(&[Some(&all[1])]), ["12.72"]);
    let whole = [3.0, 12.0].map(|v| samples::number("walk.share", v, "", None, 1));
    assert_eq!(shown(&[Some(&whole[0]), Some(&whole[1])]), ["3", "12"]);
}
