use fathom_analysis::draft::{Options, draft};
use fathom_analysis::findings::{Report, Value, Warning, WarningKind};
use fathom_analysis::hierarchy::Hierarchy;

use crate::samples::{self, golden};

fn drafted(report: &Report, name: &str) -> String {
    let h = Hierarchy::of(report).expect("tiers");
    fathom_report::draft(&draft(&h, &Options { name, policies: &["lru"] }))
}

#[test]
fn draft_of_a_survey_matches_the_golden_file() {
    golden("draft.toml", &drafted(&samples::survey(33), ""));
}

#[test]
fn hostile_text_cannot_end_a_comment_or_a_string() {
    let mut report = samples::survey(3);
    let hostile = "x\"\ncpus = 7 # \u{1b}[2J \\ \r\n[memory] \u{7f}";
    report.subject = hostile.to_string();
    report.trust = hostile.to_string();
    report.warnings.push(Warning::new(WarningKind::Frequency, hostile, ""));
    report.findings.push(samples::word("tier.1.policies", hostile, &[]));
    report.facts.push(("env.board.model".to_string(), hostile.to_string()));
    for text in [drafted(&report, ""), drafted(&report, hostile)] {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert_eq!(text.lines().filter(|l| l.starts_with("cpus")).count(), 1, "{text}");
        assert_eq!(text.lines().filter(|l| l.starts_with("[memory]")).count(), 1, "{text}");
        assert!(text.contains(r#"about = "x\"cpus = 7"#), "{text}");
    }
}

#[test]
fn draft_lines_fit_and_omit_invalid_numbers() {
    let mut report = samples::survey(3);
    for f in &mut report.findings {
        f.notes.push("n".repeat(400));
        if f.name() == "tier.2.capacity" || f.name() == "tlb.1.penalty" {
            f.value = Value::Number(f64::NAN);
        }
    }
    let text = drafted(&report, "");
    assert!(text.lines().all(|l| l.chars().count() <= 112), "{text}");
    assert!(!text.contains("NaN") && !text.contains("[[tlb]]"), "{text}");
    assert_eq!(text.matches("[[level]]").count(), 1, "what has no capacity is memory: {text}");
}
