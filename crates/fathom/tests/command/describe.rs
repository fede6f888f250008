//! `fathom describe`, and `fathom report --against`.

use serde_json::Value;

use crate::common::User;

/// Described machines with small last levels: two levels with random replacement and two TLBs; one level with few ways;
/// one level directly before memory.
const MACHINES: [&str; 3] = ["bcm2837", "cortex-a8", "am5728-l2-off"];

/// Surveys a machine into a record. `budget` is small in tests of files and messages.
fn survey(user: &User, on: &str, record: &str, budget: &str) {
    let did = user.run(&["survey", "--on", on, "--budget", budget, "--record", record, "-q"]);
    assert!(matches!(did.status, 0 | 3), "{did:?}");
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Returns names and verdicts of the rows of a check.
fn verdicts(document: &Value) -> Vec<(String, String)> {
    let rows = document["findings"].as_array().expect("a list").iter();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    rows.map(|f| (text(&f["name"]), text(&f["value"])))
        .filter(|(name, _)| name.starts_with("check."))
        .collect()
}

#[test]
fn machine_agrees_with_own_description_and_draft_only() {
    let user = User::new();
    // The default tier has the last one, which is the fastest.
    let first = if std::env::var_os("FATHOM_FULL").is_some() { 0 } else { MACHINES.len() - 1 };
    for (i, machine) in MACHINES.iter().enumerate().skip(first) {
        survey(&user, machine, "R", "6s");
        let same_machine = user.run(&["report", "R", "--against", machine, "--json"]);
        let rows = verdicts(&document(same_machine.ended(0)));
        assert!(rows.len() >= 8, "{machine}: {rows:?}");
        assert!(rows.iter().all(|(_, verdict)| verdict == "agrees"), "{machine}: {rows:?}");
        // The draft has the values of the record, and a survey of the draft's model finds them again.
        let draft = format!("draft-{machine}.toml");
        let did = user.run(&["describe", "R", "-o", &draft]);
        assert_eq!(did.ended(0), format!("Next: fathom survey --on ./{draft}\n"));
        let file = format!("./{draft}");
        let reported = user.run(&["report", "R", "--against", &file]);
        assert!(
            reported.ended(0).contains(&format!("Against the description draft-{machine}")),
            "{}",
            reported.out
        );
        assert!(!reported.out.contains("disagrees"), "{}", reported.out);
        survey(&user, &file, "again", "6s");
        let again = user.run(&["report", "again", "--against", machine, "--json"]);
        let rows = verdicts(&document(again.ended(0)));
        assert!(rows.iter().all(|(_, verdict)| verdict == "agrees"), "{machine}: {rows:?}");
        // A check against another machine disagrees, in the text, in the rows and in the exit status.
        let other = MACHINES[(i + 1) % MACHINES.len()];
        let wrong = user.run(&["report", "R", "--against", other]);
        let text = wrong.ended(4);
        assert!(text.contains("disagrees") && text.contains(" is described as "), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }
}

/// What the machine prefetches is in its surveys, is checked and drafted, and is found by its stride: lines that are adjacent.
#[test]
fn machine_that_prefetches_is_described_as_such() {
    let user = User::new();
    let plain = user.run(&["machines", "s1-8way"]);
    let text = plain.ended(0);
    let core = text.lines().find(|line| line.starts_with("alu = ")).expect("a core");
    user.write("ordered.toml", &text.replace(core, &format!("{core}\nstream = \"12 ns\"\nstreams = 4")));
    survey(&user, "./ordered.toml", "R", "5s");
    let verdict = |against: &str| {
        let rows = verdicts(&document(&user.run(&["report", "R", "--against", against, "--json"]).out));
        rows.into_iter().find(|(name, _)| name == "check.stream").map(|(_, verdict)| verdict)
    };
    assert_eq!(verdict("./ordered.toml").as_deref(), Some("agrees"));
    user.write("slower.toml", &user.read("ordered.toml").replace("12 ns", "24 ns"));
    assert_eq!(verdict("./slower.toml").as_deref(), Some("disagrees"));
    assert_eq!(verdict("s1-8way"), None);
    user.run(&["describe", "R", "-o", "draft.toml"]).ended(0);
    assert_eq!(verdict("./draft.toml").as_deref(), Some("agrees"));
    survey(&user, "s1-8way", "plain", "5s");
    assert!(!user.run(&["describe", "plain"]).ended(0).contains("\nstream"));
    let strides = ["--bytes", "8M", "--strides", "64", "--op", "read", "--prefetch", "--json"];
    let longest = |on: &str| {
        let did = user.run(&[&["stride", "--on", on], &strides[..]].concat());
        let all = document(did.ended(0));
        let of = |f: &&Value| f["metric"] == "prefetch.max_stride_lines.{towards}";
        all["findings"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(of)
            .map(|f| f["value"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!((longest("./ordered.toml"), longest("s1-8way")), (vec![1.into(); 2], vec![0.into(); 2]));
}

#[test]
fn page_contains_the_check_and_can_be_drafted() {
    let user = User::new();
    survey(&user, "cortex-a8", "R", "5s");
    let did = user.run(&["report", "R", "--against", "bcm2835", "--html", "P"]);
    assert_eq!(did.status, 4, "{did:?}");
    let page = user.read("P");
    assert!(page.contains("Against the description bcm2835") && page.contains("check.level.1.size"));
    // The page keeps its check. Only `--against` sets the exit status, and it replaces the check of the page.
    assert!(user.run(&["report", "P"]).ended(0).contains("Against the description bcm2835"));
    let same_machine = user.run(&["report", "P", "--against", "cortex-a8"]);
    assert!(
        same_machine.ended(0).contains("Against the description cortex-a8")
            && !same_machine.out.contains("bcm2835"),
        "{}",
        same_machine.out
    );
    let (record, page) = (user.run(&["describe", "R"]), user.run(&["describe", "P"]));
    assert_eq!(record.ended(0), page.ended(0));
    assert_eq!(user.run_with(&["describe", "-"], user.read("R").as_bytes()).ended(0), record.out);
    // The name of every row of the check is in the schema, with its unit.
    let json = user.run(&["report", "R", "--against", "bcm2835", "--json"]);
    for f in document(&json.out)["findings"].as_array().expect("a list") {
        let name = f["name"].as_str().expect("a name");
        let known = fathom_report::kind::key(&fathom_experiment::report_kinds::REPORT_KINDS, name)
            .unwrap_or_else(|| panic!("{name} is in no schema"));
        assert!(known.metric.units.contains(&f["unit"].as_str().expect("a unit")), "{f}");
    }
}

#[test]
fn draft_gives_a_source_for_every_value() {
    let user = User::new();
    survey(&user, "s1-8way", "R", "3s");
    let did = user.run(&["describe", "R", "--name", "my \"board\""]);
    let text = did.ended(0);
    assert!(text.contains(r#"about = "my \"board\": drafted from a survey of s1-8way""#), "{text}");
    let mut above = "";
    let mut values = 0;
    for line in text.lines() {
        let key = line.split_once(" = ").is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase()));
        if key && !["format", "about", "classes"].iter().any(|other| line.starts_with(other)) {
            values += 1;
            assert!(line.contains("  # ") || above.starts_with("# "), "{line}");
        }
        above = line;
    }
    assert!(values > 40, "{text}");
    for comment in ["# tier.1.latency_cycles", "# assumed: ", "# claimed by description, not measured"] {
        assert!(text.contains(comment), "no '{comment}' in {text}");
    }
}

#[test]
fn unusable_records_are_refused_with_reason() {
    let user = User::new();
    user.run(&["latency", "--on", "bcm2835", "--bytes", "8K", "--budget", "300ms", "--record", "L", "-q"]);
    user.write("text", "Dear diary\n");
    user.write("bad.toml", "format = 1\nabuot = \"a board\"\n");
    // An emulator's times are refused, so there is nothing to describe.
    let greeting = "probe wire=1 trust=emulated seq=1 crc=0x01bed28e";
    user.subject("board", &format!("fathom serve model s1-8way | sed -u \"s/^probe .*/{greeting}/\""));
    user.shell("fathom survey --on board --budget 200ms --record E");
    survey(&user, "bcm2835", "R", "1s");
    for (file, words) in [
        ("none", &["none: No such file"][..]),
        ("text", &["text: line 1: 'Dear'"]),
        ("L", &["L: a record of 'latency' has no tiers", "fathom survey --record FILE"]),
        ("E", &["E: an emulator's times were refused", "on the machine itself"]),
    ] {
        user.run(&["describe", file]).failed(2, words);
        user.run(&["describe", file, "-o", "D.toml"]).failed(2, words);
        user.run(&["report", file, "--against", "bcm2835"]).failed(2, words);
    }
    assert!(!user.path("D.toml").exists());
    user.run(&["report", "R", "--against", "bcm2385"]).failed(2, &["did you mean 'bcm2835'?"]);
    user.run(&["report", "R", "--against", "./none.toml"]).failed(2, &["./none.toml: No such file"]);
    user.run(&["report", "R", "--against", "./bad.toml"]).failed(2, &["./bad.toml:2:1", "abuot"]);
    user.run(&["report", "R", "--against", "bcm2835", "--html", "P"]).ended(0);
    user.run(&["report", "R", "R", "--html", "two"]).ended(0);
    user.run(&["describe", "two"]).failed(2, &["two: a page of 2 reports"]);
}

#[test]
fn page_with_impossible_values_is_refused() {
    let user = User::new();
    survey(&user, "bcm2835", "R", "1s");
    user.run(&["report", "R", "--html", "P"]).ended(0);
    let page = user.read("P");
    let row = |page: &str, name: &str| {
        let expected = format!("\"name\":\"{name}\"");
        let line = page.lines().find(|line| line.contains(&expected)).expect("a row");
        line.trim().trim_end_matches(',').to_owned()
    };
    let changed = |name: &str, value: &str| {
        let old = row(&page, name);
        let metric = name.replace(".1.", ".{tier}.");
        let new = serde_json::json!({
            "name": name, "metric": metric, "at": {"tier": 1}, "value": 0, "unit": "bytes", "low": null, "high": null,
            "basis": "measured", "detail": {}, "count": 1, "trials": [], "notes": [],
        });
        // The text of the JSON, because some of these values are integers too large for the JSON library's writer.
        page.replace(&old, &new.to_string().replace("\"value\":0", &format!("\"value\":{value}")))
    };
    for value in ["1e15", "9e15", "1e300"] {
        user.write("H", &changed("tier.1.capacity", value));
        user.run(&["describe", "H"]).failed(
            2,
            &["H: its findings do not describe a possible machine: ", "fathom survey --record FILE"],
        );
    }
    // A null value is treated as absent.
    user.write("H", &changed("tier.1.latency", "null"));
    user.run(&["describe", "H"]).failed(2, &["H: no tiers were measured", "--budget"]);
}

#[test]
fn draft_does_not_replace_existing_files() {
    let user = User::new();
    survey(&user, "bcm2835", "R", "1s");
    let record = user.read("R");
    user.write("mine.toml", "# hours of work\n");
    for existing in ["mine.toml", "R"] {
        user.run(&["describe", "R", "-o", existing])
            .failed(2, &[&format!("--output {existing}: File exists"), "a new file"]);
    }
    assert_eq!((user.read("mine.toml").as_str(), user.read("R") == record), ("# hours of work\n", true));
    user.run(&["describe", "R", "-o", "no/such/D"]).failed(2, &["--output no/such/D", "No such file"]);
    user.run(&["describe", "R", "-o", "."]).failed(2, &["--output ."]);
    user.run(&["describe", "R", "-o", "/dev/full"])
        .failed(1, &["--output /dev/full: No space left", "with room"]);
    assert!(user.run(&["describe", "R", "-o", "-"]).ended(0).starts_with("# A draft by `fathom describe`"));
    // A file name without an extension works as well.
    assert_eq!(
        user.run(&["describe", "R", "--output", "plain"]).ended(0),
        "Next: fathom survey --on ./plain\n"
    );
    user.run(&["machines", "./plain"]).ended(0);
}

#[test]
fn policies_of_findings_equal_policies_of_descriptions() {
    let known: Vec<&str> = fathom_model::description::Replacement::ALL.iter().map(|p| p.word()).collect();
    assert_eq!(fathom_analysis::findings::tokens::POLICY.values, known);
}
