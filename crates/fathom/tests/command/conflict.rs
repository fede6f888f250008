//! `fathom conflict`: ways, replacement policy, page pairs and rounds.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use crate::common::{Did, User, fits};

/// Ways, policy, pairs and rounds of a small machine, measured once for all tests: the user with the record `A` and the
/// page `P`, and what the command printed. Its model needs one or two seconds for this budget. The name of the
/// automatic copy differs on each run; with `--record` the report names that file instead.
static SMALL: LazyLock<(User, Did)> = LazyLock::new(|| {
    let user = User::new();
    let arguments = ["conflict", "--on", "cortex-a8", "--budget", "4s", "--record", "A", "--html", "P"];
    let did = user.run(&arguments);
    (user, did)
});

/// Returns the text without the elapsed time.
fn timeless(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once(", ") {
        Some((head, _)) if line.starts_with("conflict: ") => format!("{head}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The report of a described machine's conflicts may change only on purpose: `FATHOM_BLESS=1 cargo test -p fathom
/// --test command golden` writes the current text.
#[test]
fn conflict_report_matches_the_golden_text() {
    let text = timeless(SMALL.1.ended(0));
    fits(&text);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/golden/conflict-cortex-a8.txt");
    if std::env::var_os("FATHOM_BLESS").is_some() {
        std::fs::write(&file, &text).expect("the text");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    let bless = "FATHOM_BLESS=1 cargo test -p fathom --test command golden";
    assert!(text == expected, "{}: if that is wanted: {bless}\nGot:\n{text}", file.display());
}

#[test]
fn conflict_report_compares_the_study() {
    let user = User::new();
    let did = user.run(&["conflict", "--on", "s1-8way", "--budget", "5s", "--study"]);
    let text = did.ended(0).split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "Expected misses per round for 9 lines in a set of 8 ways: ",
        "bit-plru 5.143; lru, fifo, tree-plru, nru, srrip 9",
        "; measured ",
        "one additional read alone accounts for +12.5 %",
        "(126 times), +14.1 % time (published as +14.2 %); 4.69 misses per round",
    ] {
        assert!(text.contains(sentence), "no '{sentence}' in {text}");
    }
    // A page has the figures, and `report` prints the same findings from it.
    let (user, did) = &*SMALL;
    did.ended(0);
    let page = user.read("P");
    for chart in ["evicted", "pairs", "rounds"] {
        assert!(page.contains(&format!("data-chart=\"{chart}")), "{chart}");
    }
    let [page, record] = ["P", "A"].map(|file| user.run(&["report", file, "--json"]));
    assert_eq!(page.ended(0), record.ended(0));
}

#[test]
fn rounds_without_tiers_are_measured_with_a_note() {
    let user = User::new();
    let did = user.run(&["conflict", "--on", "bcm2835", "--budget", "120ms", "--record", "A"]);
    assert!(did.ended(0).contains("Rounds of independent reads"), "{}", did.out);
    assert!(did.out.contains("the end of no tier was observed"), "{}", did.out);
    let json = user.run(&["report", "A", "--json"]);
    let found: Value = serde_json::from_str(json.ended(0)).expect("JSON");
    let names = found["findings"].as_array().expect("a list").iter().filter_map(|f| f["name"].as_str());
    let round = |name: &str| name.starts_with("conflict.") && name.ends_with(".time_per_round");
    assert!(names.into_iter().filter(|name| round(name)).count() > 3, "{}", json.out);
}
