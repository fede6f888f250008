use fathom_analysis::metrics::wakeup as metrics;
use proptest::prelude::*;

use fathom_analysis::findings::{Refused, Report, Warning, WarningKind};
use fathom_experiment::MACHINE_COLUMNS;
use fathom_report::share::{self, anonymous};

use crate::samples;
use crate::{kind_of, read};

fn header() -> String {
    share::header(MACHINE_COLUMNS)
}

fn row(report: &Report) -> String {
    share::row(report, MACHINE_COLUMNS)
}

fn details(report: &Report) -> String {
    share::details(report, kind_of(report))
}

fn json(report: &Report) -> String {
    share::json(report, kind_of(report))
}

/// Text that must not be shared.
const SECRETS: [&str; 14] = [
    "bobs-laptop",
    "/home/bob/src/mine.toml",
    "bob@example.org",
    "https://example.org/bob",
    "de:ad:be:ef:00:01",
    "de-ad-be-ef-00-01",
    "192.168.7.23",
    "fe80::dead:beef",
    "2001:db8:0:0:1:2:3:4",
    "123e4567-e89b-12d3-a456-426614174000",
    "10000000deadbeef",
    "root=UUID=123e4567-e89b-12d3-a456-426614174000",
    "SN4711BOB",
    "/sys/fs/cgroup/user.slice/bob.service",
];

/// Returns a survey with all of them, in every place where text of a record can appear.
fn report_with_secrets() -> Report {
    let mut report = samples::survey(20);
    let all = format!("serial SN4711BOB, host {}", SECRETS.join(" "));
    report.subject = "bobs-laptop".into();
    for name in [
        "env.cmdline",
        "env.hostname",
        "env.kernel.version",
        "env.cpu.serial",
        "virt.dmi",
        "trust.evidence",
        "memory.ceiling.limit",
        "machine.name",
    ] {
        report.facts.push((name.into(), all.clone()));
    }
    report.facts.push(("env.kernel.release".into(), "6.1.0-bobs-laptop".into()));
    let findable = SECRETS
        .iter()
        .filter(|s| !["bobs-laptop", "SN4711BOB"].contains(s))
        .copied()
        .collect::<Vec<_>>()
        .join(" ");
    report.facts.push(("env.board.model".into(), format!("A Board serial SN4711BOB {findable}")));
    report.findings.push(samples::word("verdict.level.1.size", &all, &[]));
    report.findings[0].notes.push(format!("s/n:SN4711BOB, owner=bob. {findable}"));
    report.refusals.push(Refused { what: all.clone(), reason: all.clone(), remedy: all.clone() });
    report.warnings.push(Warning { kind: WarningKind::BudgetExhausted, text: all.clone(), remedy: all });
    report
}

fn forms(report: &Report) -> [String; 3] {
    [row(report), details(report), json(report)]
}

#[test]
fn shared_report_contains_no_identity() {
    let shared = anonymous(&report_with_secrets(), None);
    for text in forms(&shared) {
        for secret in SECRETS.iter().chain(&["bob", "SN4711", "deadbeef"]) {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    // The description of the machine and its measurements are still present.
    assert!(row(&shared).contains("A Board") && row(&shared).contains("48 KiB"), "{}", row(&shared));
    assert!(details(&shared).contains("6.1.0") && details(&shared).contains("budget-exhausted"));
    // The subject's name is shared if it is that of a built-in machine.
    assert!(
        json(&anonymous(&report_with_secrets(), Some("zen3"))).contains("\"subject\": {\"name\":\"zen3\"")
    );
}

#[test]
fn tokens_are_shared_and_kernel_texts_are_not() {
    let shared = anonymous(&samples::wakeup(), None);
    let worst = shared.of(&metrics::WORST_LATENCY).next().expect("a row");
    assert_eq!(worst.detail.word(metrics::CONDITION), Some("unloaded"));
    assert_eq!(worst.detail.number(metrics::SLEPT), Some(53.0));
    assert_eq!(worst.detail.numbers(metrics::STAGES).len(), 4);
    assert!(worst.detail.get(metrics::EVENTS).is_none() && worst.detail.get(metrics::RAN_BEFORE).is_none());
}

#[test]
fn rows_have_as_many_cells_as_columns() {
    let unescaped = |line: &str| line.replace("\\|", "").matches('|').count();
    let shared = anonymous(&samples::survey(20), Some("host"));
    for line in header().lines().chain([row(&shared).trim_end()]) {
        assert_eq!(unescaped(line), MACHINE_COLUMNS.len() + 3, "{line}");
    }
    assert!(row(&anonymous(&samples::refused(), None)).starts_with("| "));
}

/// Returns the text between the fences if the block is well-formed: one opening and one closing fence.
fn inside(block: &str) -> Option<String> {
    let rest = block.strip_prefix("<details>\n<summary>")?;
    let (summary, rest) = rest.split_once("</summary>\n\n")?;
    assert!(!summary.contains(['<', '>', '\n', '\r']), "{summary}");
    let (fence, rest) = rest.split_once("text\n")?;
    assert!(fence.len() >= 3 && fence.bytes().all(|b| b == b'`'), "{fence}");
    let text = rest.strip_suffix(&format!("{fence}\n\n</details>\n"))?;
    text.lines().all(|line| !line.trim_start().starts_with(fence)).then(|| text.to_owned())
}

#[test]
fn hostile_text_cannot_end_row_block_or_document() {
    for hostile in [
        "a | b",
        "</details><script>alert(1)</script>",
        "```\n```",
        "a\nb\r\nc\u{2028}d",
        "``````",
        "\"\\\u{0}",
    ] {
        let mut report = samples::survey(5);
        report.facts.insert(0, ("env.board.model".into(), hostile.into()));
        report.findings[0].notes.push(hostile.into());
        let shared = anonymous(&report, None);
        let line = row(&shared);
        assert_eq!(line.lines().count(), 1, "{line:?}");
        assert_eq!(line.replace("\\|", "").matches('|').count(), MACHINE_COLUMNS.len() + 3, "{line}");
        assert!(!line.contains('<') && !line.replace("\\`", "").contains('`'), "{line}");
        assert!(inside(&details(&shared)).is_some(), "{}", details(&shared));
        assert!(read(&json(&shared)).is_ok(), "{}", json(&shared));
    }
}

#[test]
fn shared_json_reads_back_equal() {
    let shared = anonymous(&samples::survey(20), Some("host"));
    let read = read(&json(&shared)).expect("findings");
    assert!(shared.findings.iter().any(|f| f.name().starts_with("tier.")));
    assert_eq!(read, shared);
}

proptest! {
    #[test]
    fn shared_forms_of_random_reports_are_well_formed(report in samples::any_report()) {
        let shared = anonymous(&report, None);
        let [row, details, json] = forms(&shared);
        prop_assert_eq!(row.lines().count(), 1);
        prop_assert_eq!(row.replace("\\\\", "").replace("\\|", "").matches('|').count(), MACHINE_COLUMNS.len() + 3);
        prop_assert!(inside(&details).is_some(), "{}", details);
        prop_assert!(read(&json).is_ok(), "{}", json);
        prop_assert_eq!(fathom_report::text::clean(&json.replace('\n', " "), true), json.replace('\n', " "));
    }
}
