//! `--sensitivity`, and `fathom machines NAME --without STUDY`.

use fathom_model::Model;
use fathom_probe::machine::{FactValue, Machine};
use fathom_units::facts;
use serde_json::Value;

use crate::common::{User, fits};

/// A session of some milliseconds.
const SESSION: [&str; 14] = [
    "dma",
    "--on",
    "omap3-sdio",
    "--bytes",
    "1536",
    "--direction",
    "from-device",
    "--strategy",
    "streaming-copy,uncached-copy",
    "--pollution-set",
    "0",
    "--record",
    "A",
    "--force",
];

#[test]
fn sensitivity_is_computed_shown_and_kept_in_the_record() {
    let user = User::new();
    let plain = user.run(&SESSION);
    let flat = plain.ended(0).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("1 is from study S2") && flat.contains("sensitivity not computed"), "{flat}");
    assert!(!flat.contains("What the findings depend on"), "{flat}");
    let study = user.run(&[&SESSION[..], &["--sensitivity", "--study"]].concat());
    let text = study.ended(0);
    fits(text);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "- dma.widest 16..64: dma.study.saved -9796..2804 ns",
        "values were varied one at a time",
        "fitted: values of this description are taken from study S2",
    ] {
        assert!(flat.contains(expected), "{expected} is not in\n{text}");
    }
    assert!(!flat.contains("sensitivity not computed"), "{flat}");
    let again = user.run(&["report", "A", "--study"]);
    let rest = |text: &str| text.split("\nNext: ").next().map(str::to_owned);
    assert_eq!(rest(again.ended(0)), rest(text), "the record has all of it");
    let json = user.run(&["report", "A", "--json"]);
    let found: Value = serde_json::from_str(json.ended(0)).expect("JSON");
    let findings = found["findings"].as_array().expect("a list");
    let saved = findings.iter().find(|f| f["name"] == "dma.study.saved").expect("the finding");
    assert_eq!(
        (&saved["fitted"], &saved["depends_on"]["value"]["value"]),
        (&"S2".into(), &"dma.widest".into())
    );
    assert_eq!(
        (&saved["depends_on"]["value"]["low"], &found["sensitivity"]["state"]),
        (&"16".into(), &"session".into())
    );
    let page = user.run(&["report", "A", "--html", "A.html"]);
    page.ended(0);
    let page = std::fs::read_to_string(user.home.path().join("A.html")).expect("a page");
    assert!(page.contains("dma.widest 16..64") && page.contains("fitted to study S2"));
}

#[test]
fn sensitivity_of_a_host_is_refused() {
    let user = User::new();
    user.run(&["survey", "--sensitivity"]).failed(2, &["no description whose values", "--on NAME"]);
}

/// Returns the digest of a built-in machine's description, as a record has it.
fn digest(name: &str) -> String {
    let description = fathom_model::catalog::load(name).expect("a machine").expect("a description");
    let mut digest = None;
    Model::new(&description, 1).facts(&mut |fact| {
        if let FactValue::Text(text) = fact.value
            && fact.name == facts::DESCRIBED_DIGEST
        {
            digest = Some(text);
        }
    });
    digest.expect("a digest")
}

/// What was computed ahead is of the descriptions as they are (after a change, run `scripts/sensitivity`), and is shown
/// without being asked for. Another seed was not computed. The default tier runs every fifth session.
#[test]
fn built_in_machines_have_what_was_computed_ahead() {
    let user = User::new();
    let ahead = include_str!("../../../../machines/sensitivity.txt");
    let of = |line: &'static str| {
        let (command, digest) = line.strip_prefix("ahead command=\"fathom ")?.split_once("\" digest=\"")?;
        Some((command.split(' ').collect::<Vec<_>>(), digest.trim_end_matches('"')))
    };
    let sessions: Vec<(Vec<&str>, &str)> = ahead.lines().filter_map(of).collect();
    assert!(sessions.len() >= 20, "{sessions:?}");
    for (command, computed) in &sessions {
        assert_eq!(
            (command[1], digest(command[2])),
            ("--on", computed.to_string()),
            "run scripts/sensitivity"
        );
    }
    let step = if std::env::var_os("FATHOM_FULL").is_some() { 1 } else { 5 };
    for (command, _) in sessions.iter().rev().step_by(step) {
        let did = user.run(command);
        // 3: the default budget does not suffice for narrow intervals of large caches.
        assert!(matches!(did.status, 0 | 3), "{command:?}: {did:?}");
        let flat = did.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("computed ahead for this description"), "{command:?}: {flat}");
    }
    let session = ["cacheability", "--on", "bcm2837", "--bytes", "2560", "--op", "rmw", "--seed", "2"];
    let other = user.run(&session);
    assert!(!other.ended(0).contains("computed ahead"), "{}", other.out);
}

#[test]
fn machines_without_a_study_have_other_values() {
    let user = User::new();
    let with = user.run(&["machines", "bcm2837"]);
    assert!(with.ended(0).contains("alu = \"1 cycles\""));
    let without = user.run(&["machines", "bcm2837", "--without", "S0"]);
    assert!(
        without.ended(0).contains("alu = \"0.5 cycles\"") && !without.out.contains("study"),
        "{}",
        without.out
    );
    user.run(&["machines", "bcm2837", "--without", "S9"]).failed(2, &["not a study"]);
    user.run(&["machines", "--without", "S0"]).failed(2, &["<NAME>"]);
    let text = with.out.lines().filter(|line| !line.starts_with("instead")).collect::<Vec<_>>().join("\n");
    std::fs::write(user.home.path().join("mine.toml"), text).expect("written");
    let missing = user.run(&["machines", "./mine.toml", "--without", "S0"]);
    missing.failed(2, &["values of study S0 alone: core.alu, core.branch", "instead = {"]);
}
