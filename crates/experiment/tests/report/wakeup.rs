use fathom_analysis::findings::{Finding, Item, Refused, Report, Value};
use fathom_analysis::metrics::wakeup as metrics;

use fathom_report::Style;

use crate::samples::{self, golden};
use crate::{ASCII, STUDIES, json_of, page_of, text_of, unwrapped};

fn with_studies(report: &Report) -> String {
    text_of(report, &STUDIES, None)
}

fn text(report: &Report) -> String {
    text_of(report, &Style::default(), None)
}

#[test]
fn default_run_matches_the_golden_texts() {
    golden("wakeup-unicode.txt", &text(&samples::wakeup()));
    golden("wakeup-ascii.txt", &text_of(&samples::wakeup(), &ASCII, None));
}

#[test]
fn sweep_matches_the_golden_text() {
    golden("wakeup-sweep.txt", &text(&samples::sweep()));
}

#[test]
fn json_matches_the_golden_documents() {
    golden("wakeup.json", &json_of(&samples::wakeup()));
    golden("wakeup-sweep.json", &json_of(&samples::sweep()));
}

fn without(report: &Report, gone: impl Fn(&str) -> bool) -> Report {
    let mut report = report.clone();
    report.findings.retain(|f| !gone(&f.name()));
    report
}

#[test]
fn headline_uses_the_available_rows() {
    let whole = samples::wakeup();
    let shown_text = unwrapped(&text(&whole));
    assert!(
        shown_text.contains("The memory workers of stress-mix-vm add 15 (13..17) us at p99.9."),
        "{shown_text}"
    );
    assert!(shown_text.contains("of which 53971.0 us waiting for the CPU, between wake-up and switch to the task; stress ran before. 7 of the 7 next worst lost most of their time in the same stage."), "{shown_text}");
    assert!(
        shown_text.contains("The maximum is not caused by memory load: it occurred without load. Periodic"),
        "{shown_text}"
    );
    assert!(shown_text.contains("62 % every 1000 ms (fair-server or throttle)"), "{shown_text}");
    let compared = unwrapped(&text(&without(&whole, |name| name.starts_with("explained."))));
    assert!(compared.contains("Latency at p99.9: 37 (30..45) us under stress-mix"), "{compared}");
    let alone = unwrapped(&text(&without(&whole, |name| {
        name.contains("stress-mix") || name.starts_with("explained")
    })));
    assert!(alone.contains("Without load: 29 (23..34) us at p99.9"), "{alone}");
}

fn halved(f: &Finding) -> Finding {
    let half = |v: Option<f64>| v.map(|v| v / 2.0);
    match f.value {
        Value::Number(v) => {
            Finding { value: Value::Number(v / 2.0), low: half(f.low), high: half(f.high), ..f.clone() }
        }
        _ => f.clone(),
    }
}

#[test]
fn cache_share_rows_appear_with_full_load_and_no_load() {
    let mut report = samples::wakeup();
    assert!(!text(&report).contains("resctrl"));
    let confined: Vec<Finding> = report
        .findings
        .iter()
        .filter(|f| f.name().starts_with("wakeup.user.stress-mix-vm."))
        // Half the latencies, so that the two conditions can be distinguished.
        .map(|f| Finding {
            key: samples::key(&f.name().replace("stress-mix-vm", "stress-mix-vm-confined")),
            ..halved(f)
        })
        .collect();
    report.findings.extend(confined);
    let shown_text = unwrapped(&text(&report));
    let expected = "Latency at p99.9: 46 (37..55) us under the load with all of the caches, 23 (18..27) us with that share";
    assert!(shown_text.contains("confined to the smallest share of the caches"), "{shown_text}");
    assert!(shown_text.contains(expected), "{shown_text}");
}

#[test]
fn memory_is_excluded_only_with_evidence() {
    let mut report = samples::wakeup();
    for f in report.findings.iter_mut().filter(|f| f.name() == "worst.1.latency") {
        f.detail.set(metrics::CONDITION, Item::Token("stress-mix-vm".to_owned()));
    }
    // An equal maximum occurred without load.
    assert!(
        unwrapped(&text(&report)).contains("not caused by memory load: without load the maximum is 53991 us")
    );
    for f in report.findings.iter_mut().filter(|f| f.name() == "wakeup.user.unloaded.max") {
        f.value = Value::Number(90.0);
    }
    assert!(!text(&report).contains("caused by memory load"));
    for f in report.findings.iter_mut().filter(|f| f.name() == "worst.1.latency") {
        f.detail.set(metrics::CONDITION, Item::Token("io".to_owned()));
    }
    assert!(unwrapped(&text(&report)).contains("it occurred without memory workers"));
}

#[test]
fn insignificant_increase_is_marked() {
    let mut report = samples::wakeup();
    for f in report.findings.iter_mut().filter(|f| f.name() == "explained.increase") {
        f.low = Some(-1.0);
    }
    assert!(unwrapped(&text(&report)).contains("which is not significant"));
}

#[test]
fn study_values_are_shown_on_request_and_only_for_times() {
    let mut report = samples::wakeup();
    assert!(!text(&report).contains("S3"), "not in ordinary output");
    let shown = with_studies(&report);
    let row = |text: &str, label: &str| text.lines().find(|l| l.starts_with(label)).map(str::to_owned);
    let max = row(&shown, "S3 max").expect("the study's maxima");
    for us in ["16.133", "12.966", "7.736", "30.918", "25.303", "8.240"] {
        assert!(max.contains(us), "{max}");
    }
    assert!(unwrapped(&shown).contains("published values of another machine, TI AM5728"), "{shown}");
    assert_eq!(shown.matches("(disputed)").count(), 4, "{shown}");
    // A guest whose clock counts instructions has no times to compare with the study's.
    for f in report.findings.iter_mut().filter(|f| f.unit == "us") {
        f.unit = "instructions";
    }
    let counted = with_studies(&report);
    assert!(counted.contains("Maximum: 53991 instructions") && !counted.contains("S3 max"), "{counted}");
    assert!(!counted.contains("(disputed)"), "{counted}");
    // Without the study's loads there is nothing to compare.
    let alone = with_studies(&without(&samples::wakeup(), |name| name.contains("stress-mix")));
    assert!(!alone.contains("S3") && !alone.contains("(disputed)"), "{alone}");
}

/// If no condition with a load was measured, nothing is concluded about loads.
#[test]
fn report_without_loads_concludes_nothing_about_loads() {
    let loads = ["unloaded", "warm", "flushed", "evicted"].map(|state| format!(".{state}."));
    let alone = without(&samples::wakeup(), |name| {
        let loaded = name.starts_with("wakeup.") && !loads.iter().any(|state| name.contains(state));
        let of_loads = ["effect.", "interaction.", "explained.", "pressure.", "stall."];
        loaded || of_loads.iter().any(|prefix| name.starts_with(prefix))
    });
    let mut alone = Report { histograms: Vec::new(), ..alone };
    for f in alone.findings.iter_mut().filter(|f| f.name().starts_with("worst.")) {
        f.detail.set(metrics::CONDITION, Item::Token("unloaded".to_owned()));
    }
    let shown_text = unwrapped(&text(&alone));
    assert!(shown_text.contains("Without load: "), "{shown_text}");
    for wrong in ["caused by memory load", "Memory load is not periodic", "S3", "disputed", "memory workers"]
    {
        assert!(!shown_text.contains(wrong), "{wrong}: {shown_text}");
    }
    // With loads both sentences are printed.
    let whole = unwrapped(&text(&samples::wakeup()));
    assert!(
        whole.contains("caused by memory load") && whole.contains("Memory load is not periodic"),
        "{whole}"
    );
}

#[test]
fn only_curves_with_changepoints_are_drawn() {
    let shown = text(&samples::sweep());
    // Both the tail and p50 have a changepoint; the other three curves have none.
    assert_eq!(shown.matches("by block size, both axes").count(), 2, "{shown}");
    assert!(shown.contains("Stride 4K: the tail by"), "{shown}");
    let shown_text = unwrapped(&shown);
    assert!(shown_text.contains("malloc.free.4096, p50: step at 31.5 MiB (31.0..32.0)"), "{shown}");
    // Page faults are a property of the load, so they are reported with the latencies at the same size.
    let faults =
        "malloc.free.4096, faults: step at 31.5 MiB (31.0..32.0), from 0 (0..0) per second to 106000";
    assert!(shown_text.contains(faults) && shown_text.contains("p50 0.16 (0.12..0.20)"), "{shown}");
}

#[test]
fn sweep_without_inflections_is_reported() {
    let mut flat = without(&samples::sweep(), |name| name.starts_with("changepoint."));
    assert!(text(&flat).contains("with block size\nNone."));
    flat.findings.retain(|f| f.name() != "sweep.malloc.free.64.changepoints");
    flat.refusals.push(Refused {
        what: "changepoints of malloc.free.64".to_owned(),
        reason: "too few".to_owned(),
        remedy: String::new(),
    });
    assert!(text(&flat).contains("None in the curves with enough data"));
}

#[test]
fn distributions_fit_whatever_their_conditions_are_called() {
    let mut report = samples::wakeup();
    for h in &mut report.histograms {
        h.key = samples::key(&h.name().replace("stress-mix-vm", "imported-64"));
    }
    for width in [60, 80, 120, 200] {
        let shown = text_of(&report, &Style { width, ..Style::default() }, None);
        assert!(shown.lines().all(|line| line.chars().count() <= width), "{width}: {shown}");
        assert!(shown.lines().any(|line| line.starts_with("imported-64 ")), "{width}: {shown}");
    }
}

#[test]
fn page_has_the_figures_of_each_kind_of_run() {
    let figures = |report: &Report| -> Vec<String> {
        let page = page_of(&[("A", report)], &[]);
        let parts = page.split("data-chart=\"").skip(1);
        parts.map(|p| p.split('"').next().unwrap_or_default().to_owned()).collect()
    };
    let places = ["user", "switch", "wake", "irq", "work"].map(|place| format!("wakeups.{place}"));
    let others = ["stages", "effects.effect", "effects.explained"].map(str::to_owned);
    assert_eq!(figures(&samples::wakeup()), [&places[..], &others[..]].concat());
    let modes = ["free", "keep"];
    let expected =
        modes.map(|mode| ["sweep", "sweepheat"].map(|figure| format!("{figure}.malloc.{mode}"))).concat();
    assert_eq!(figures(&samples::sweep()), expected);
}
