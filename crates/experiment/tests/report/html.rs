use fathom_analysis::compare::compare;
use fathom_analysis::findings::{Axis, Refused, Report, Warning, WarningKind};
use fathom_analysis::metrics::latency::{LATENCY_PEAK, LATENCY_SINGLE};
use proptest::prelude::*;

use fathom_report::Style;
use fathom_report::html::{Change, is_page};

use crate::samples::{self, number, word};
use crate::{json_of, page_of, read_page, text_of};

fn page(report: &Report) -> String {
    page_of(&[("a.fathom", report)], &[])
}

/// Returns the main part of a page, without template and data.
fn body(page: &str) -> &str {
    let main = page.split_once("<main>").expect("a main part").1;
    main.split_once("</main>").expect("an end").0
}

#[test]
fn a_page_is_read_back_as_the_same_findings() {
    let (a, b) = (samples::survey(33), samples::latency());
    let text = page_of(&[("a.fathom", &a), ("b.fathom", &b)], &[]);
    assert!(is_page(&text));
    let back = read_page(&text).expect("its data");
    assert_eq!(back.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["a.fathom", "b.fathom"]);
    assert_eq!(json_of(&back[0].1), json_of(&a));
    assert_eq!(json_of(&back[1].1), json_of(&b));
}

proptest! {
    #![proptest_config(samples::config())]
    #[test]
    fn any_report_is_read_back(report in samples::any_report()) {
        // A page loses the directories of its subject, and nothing else.
        let report = Report { subject: report.subject.replace('/', "|"), ..report };
        let back = read_page(&page(&report)).expect("its data");
        prop_assert_eq!(json_of(&back[0].1), json_of(&report));
    }
}

const HOSTILE: &str = "</script></pre></td><script>alert(1)</script><img src=x onerror=alert(1)>\"'&`";

/// Returns a report in which every text from a record is hostile.
fn hostile() -> Report {
    let text = || HOSTILE.to_string();
    let mut report = samples::latency();
    (report.subject, report.trust, report.experiment) = (text(), text(), text());
    report.facts = vec![(text(), text()), ("about".to_string(), text())];
    report.findings.push(number("samples.verified", 1.0, "samples", None, 1));
    report.findings.push(word("disturbance.state", "unusable", &[HOSTILE]));
    report.findings.push(word("verdict.level.1.size", HOSTILE, &[HOSTILE]));
    report.findings.iter_mut().for_each(|f| f.notes.push(text()));
    report.warnings.push(Warning { kind: WarningKind::NoHugePages, text: text(), remedy: text() });
    report.refusals.push(Refused { what: text(), reason: text(), remedy: text() });
    report
}

#[test]
fn page_data_has_the_tokens_of_every_axis() {
    let text = page(&samples::survey(9));
    for axis in Axis::ALL {
        let listed = axis.tokens().map(|words| format!("\"{}\":{}", axis.name(), json_list(words.values)));
        assert!(listed.is_none_or(|listed| text.contains(&listed)), "{axis:?}");
    }
}

fn json_list(words: &[&str]) -> String {
    serde_json::to_string(words).expect("words are JSON")
}

#[test]
fn hostile_text_never_becomes_markup_or_script() {
    let report = hostile();
    let mut other = report.clone();
    other.findings[0].value = fathom_analysis::findings::Value::Text(HOSTILE.to_string());
    let comparison = compare(&report, &other, |_| true);
    let change = Change { names: [HOSTILE, HOSTILE], comparison: &comparison, beyond: Some(0.05) };
    let text = page_of(&[(HOSTILE, &report), (HOSTILE, &other)], &[change]);
    let harmless = page(&samples::survey(33));
    for tag in ["<script", "</script", "<img", "<style"] {
        assert_eq!(text.matches(tag).count(), harmless.matches(tag).count(), "{tag}");
    }
    assert!(!body(&text).contains("onerror=alert(1)>"), "markup in the body");
    assert!(read_page(&text).is_ok());
}

#[test]
fn a_page_needs_no_network_and_is_small_without_data() {
    let text = page(&samples::refused());
    assert!(text.len() < 600 << 10, "{} bytes", text.len());
    // The licences contain the address of a project, but nothing may be fetched.
    for fetch in ["src=\"", "href=\"http", "@import", "url(", "fetch(", "XMLHttpRequest"] {
        assert!(!text.contains(fetch), "{fetch}");
    }
    assert!(text.contains("default-src 'none'"));
}

#[test]
fn a_page_has_every_section_of_the_terminal_with_its_figures() {
    let all = [
        samples::survey(33),
        samples::latency(),
        samples::conflict(),
        samples::disturbed(),
        samples::refused(),
    ];
    for report in all {
        let text = page(&report);
        let shown = text_of(&report, &Style::default(), None);
        let built = ["Geometry by tier", "Tier 1: evictions", "Pairs of loads", "Rounds of", "Page colours"];
        let others = ["Tiers", "Translation", "Prefetch", "Access time", "Claims and measurements"];
        for heading in built.into_iter().chain(others) {
            assert_eq!(text.contains(&format!("<h2>{heading}")), shown.contains(heading), "{heading}");
        }
        // A histogram has a figure if its peak is in the table.
        let shown_here = report.of(&LATENCY_PEAK).next().is_some();
        for h in report.histograms.iter().filter(|h| shown_here && h.is(&LATENCY_SINGLE)) {
            assert!(text.contains(&format!("data-chart=\"histogram.{}\"", h.bytes)), "{}", h.name());
        }
        assert_eq!(text.contains("data-chart=\"latency_curve\""), shown.contains("both axes logarithmic"));
        for (chart, heading) in
            [("evicted", built[1]), ("pairs", built[2]), ("rounds", built[3]), ("colours", built[4])]
        {
            assert_eq!(text.contains(&format!("data-chart=\"{chart}")), shown.contains(heading), "{chart}");
        }
        for f in &report.findings {
            assert!(text.contains(&format!("<tr><td>{}</td>", f.name())), "{}", f.name());
        }
        for w in &report.warnings {
            assert!(
                text.contains(&format!("<code>{}</code>", w.kind.token())) && text.contains("Remedy"),
                "{w:?}"
            );
        }
    }
}

#[test]
fn non_page_is_refused() {
    assert!(!is_page("fathom record") && !is_page("") && !is_page("<!doc"));
    assert!(is_page("\n<!DOCTYPE HTML>"));
    let whole = page(&samples::latency());
    let island = whole.find("fathom-data\">").expect("an island");
    for cut in [15, island - 3, island + 40] {
        let error = read_page(&whole[..cut]).expect_err("cut off").to_string();
        assert!(error.contains("no data in this page"), "{error}");
    }
    let foreign = whole.replace("fathom.page", "other.page");
    assert!(read_page(&foreign).expect_err("foreign").to_string().contains("other.page"));
    let newer = whole.replace("\"fathom.page\", \"version\": 1", "\"fathom.page\", \"version\": 9");
    assert!(read_page(&newer).expect_err("newer").to_string().contains("newer fathom"));
}
