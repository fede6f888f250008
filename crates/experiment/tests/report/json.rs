use fathom_analysis::findings::{Report, Value};
use proptest::prelude::*;

use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_report::from_json;
use fathom_report::json::ReadError;

use crate::samples::{self, golden};
use crate::{json_of, read};

#[test]
fn disturbed_survey_matches_the_golden_document() {
    golden("disturbed.json", &json_of(&samples::disturbed()));
}

#[test]
fn keys_have_the_documented_order() {
    let text = json_of(&samples::disturbed());
    let keys: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("  \"")).filter_map(|l| l.split('"').next()).collect();
    assert_eq!(
        keys,
        [
            "format",
            "version",
            "experiment",
            "headline",
            "subject",
            "seed",
            "elapsed_s",
            "findings",
            "histograms",
            "refusals",
            "warnings",
            "sensitivity"
        ]
    );
}

#[test]
fn whole_numbers_have_no_fraction_and_all_numbers_read_back() {
    let mut report = Report::default();
    for v in [49152.0, 0.1 + 0.2, -0.0, 1e300, 9_007_199_254_740_992.0, f64::MIN_POSITIVE] {
        report.findings.push(samples::number("bias.timer", v, "ticks", None, 1));
    }
    let text = json_of(&report);
    assert!(text.contains("\"value\":49152,"), "{text}");
    let back = from_json(&text, &REPORT_KINDS).expect("own output reads back");
    for (a, b) in report.findings.iter().zip(&back.findings) {
        let (Value::Number(a), Value::Number(b)) = (&a.value, &b.value) else {
            panic!("numbers stay numbers")
        };
        assert_eq!(a.to_bits(), b.to_bits());
    }
}

#[test]
fn non_finite_number_is_null_with_one_note() {
    let mut report = samples::survey(3);
    let bad = &mut report.findings[1];
    bad.value = Value::Number(f64::NAN);
    (bad.low, bad.high) = (Some(f64::NEG_INFINITY), Some(f64::INFINITY));
    report.elapsed_s = f64::INFINITY;
    let text = json_of(&report);
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert!(text.contains("\"elapsed_s\": null"), "{text}");
    let back = read(&text).expect("null reads back");
    assert!(matches!(back.findings[1].value, Value::Number(v) if v.is_nan()));
    assert_eq!((back.findings[1].low, back.findings[1].notes.len()), (None, 3));
    assert_eq!(json_of(&back), text, "a second pass adds nothing");
}

#[test]
fn facts_of_one_name_are_joined() {
    let fact = |v: &str| ("cpu".to_string(), v.to_string());
    let report = Report { facts: vec![fact("a"), fact("b")], ..Report::default() };
    let back = from_json(&json_of(&report), &REPORT_KINDS).expect("own output reads back");
    assert_eq!(back.facts, [fact("a; b")]);
}

#[test]
fn errors_name_what_is_wrong() {
    let good = json_of(&samples::disturbed());
    let error = |text: &str| read(text).expect_err("must not be read").to_string();
    assert!(error("{").contains("line 1 column 1"));
    assert!(error(&good.replace("fathom.findings", "other")).contains("\"other\""));
    assert!(error(&good.replace("\"version\": 1", "\"version\": 2")).contains("newer fathom"));
    assert!(
        error(&good.replace("\"unit\":\"ticks\"", "\"unit\":\"tics\""))
            .contains("\"tics\" of \"bias.timer\"")
    );
    assert!(error(&good.replace("\"seed\"", "\"sed\"")).contains("unknown field `sed`"));
    assert!(error(&good.replace("\"value\":24", "\"value\":[]")).contains("a number, a text or null"));
    assert!(error(&good.replace("\"count\":1000", "\"count\":-1")).contains("line"));
    assert!(
        matches!(from_json(&good.replace("\"budget-exhausted\"", "\"late\""), &REPORT_KINDS), Err(ReadError::Warning(t)) if t == "late")
    );
}

proptest! {
    #![proptest_config(samples::config())]

    #[test]
    fn printed_json_reads_back_equal(report in samples::any_report()) {
        let text = json_of(&report);
        let back = read(&text);
        prop_assert_eq!(back.as_ref().ok(), Some(&report), "{:?}", back.as_ref().err());
        prop_assert_eq!(json_of(&back.expect("checked above")), text);
    }

    #[test]
    fn arbitrary_json_does_not_panic(text in any::<String>(), at in any::<prop::sample::Index>()) {
        let _ = read(&text);
        let mut broken: Vec<char> = json_of(&samples::refused()).chars().collect();
        let at = at.index(broken.len());
        broken.splice(at..=at, text.chars());
        let _ = read(&broken.into_iter().collect::<String>());
    }
}
