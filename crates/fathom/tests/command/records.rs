//! Records: reproducible, readable from the file, and reported as in the golden files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::User;

/// Returns the document without the elapsed time.
fn timeless(text: &str) -> Value {
    let mut document: Value = serde_json::from_str(text).expect("JSON");
    let elapsed = document.as_object_mut().expect("an object").remove("elapsed_s").expect("elapsed_s");
    assert!(elapsed.as_f64().is_some_and(|s| s >= 0.0));
    document
}

#[test]
fn two_surveys_of_one_model_are_the_same_but_for_elapsed_times() {
    let user = User::new();
    let survey = ["survey", "--on", "bcm2835", "--budget", "1s", "--json", "--record"];
    let [a, b] = ["A", "B"].map(|name| user.run(&[&survey[..], &[name]].concat()));
    assert_eq!(timeless(a.ended(b.status)), timeless(b.ended(a.status)));
    let without_end = |name: &str| {
        let text = user.read(name);
        let (rest, end) =
            text.trim_end().rsplit_once('\n').map(|(r, e)| (r.to_owned(), e.to_owned())).expect("lines");
        assert!(end.starts_with("end status=complete elapsed_ms="), "{end}");
        rest
    };
    assert_eq!(without_end("A"), without_end("B"));
    // Another seed gives another record.
    let other = user.run(&[&survey[..], &["C", "--seed", "2"]].concat());
    assert_ne!(without_end("A"), without_end("C"));
    assert_ne!(timeless(&other.out), timeless(&a.out));

    // From the file, including the elapsed time, and from a pipe.
    for did in [user.run(&["report", "A", "--json"]), user.shell("fathom report - --json <A")] {
        assert_eq!((did.status, &did.out), (a.status, &a.out));
    }
    // The automatic copy equals the record.
    let copies = std::fs::read_dir(user.path(".local/share/fathom/records")).expect("copies");
    let copies: Vec<String> =
        copies.flatten().map(|e| std::fs::read_to_string(e.path()).expect("a record")).collect();
    assert_eq!(copies.len(), 3);
    assert!(copies.contains(&user.read("A")));
}

#[test]
fn damaged_record_is_reported_with_the_damaged_line() {
    let user = User::new();
    let text = std::fs::read(records_path("v1-bcm2835-survey.fathom")).expect("a record");
    let lines: Vec<&[u8]> = text.split_inclusive(|&b| b == b'\n').collect();
    let at = lines.len() / 2;
    let mut flipped = lines[at].to_vec();
    flipped[20] ^= 4;
    for (name, with) in [
        ("flipped", flipped),
        ("missing", Vec::new()),
        ("twice", lines[at].repeat(2)),
        ("hostile", [lines[at], &b"x".repeat(1 << 20), b"\n", &[0; 100], b"\n\xe4\xf6\n"].concat()),
    ] {
        let mut damaged = lines.clone();
        damaged[at] = &with;
        std::fs::write(user.path(name), damaged.concat()).expect("a file");
        let did = user.run(&["report", name, "--json"]);
        assert_eq!((did.status, did.err.as_str()), (3, ""), "{name}: {}", did.out);
        let document: Value = serde_json::from_str(&did.out).expect("JSON");
        let warnings = document["warnings"].as_array().expect("a list");
        let reported = warnings.iter().find(|w| w.to_string().contains("damaged-record"));
        let reported = reported.unwrap_or_else(|| panic!("{name}: {warnings:?}")).to_string();
        let numbers = [at, at + 1, at + 2].map(|n| format!("line {n}: "));
        assert!(numbers.iter().any(|n| reported.contains(n)), "{name}: {reported} is not about {}", at + 1);
    }
}

fn records_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records").join(name)
}

/// Returns whether two values are equal, numbers within 1e-9: the last digits of a logarithm depend on the C library.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        _ => a == b,
    }
}

/// Returns the differences of two documents, one per line.
fn changes(expected: &Value, found: &Value) -> String {
    // Every key, and every row of lists.
    let rows = |document: &Value| -> Vec<(String, Value)> {
        let keys = document.as_object().expect("an object").iter();
        keys.flat_map(|(key, value)| {
            let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            values.into_iter().map(|v| (key.clone(), v))
        })
        .collect()
    };
    let (expected, found) = (rows(expected), rows(found));
    let missing = |sign: char, from: &[(String, Value)], others: &[(String, Value)]| -> String {
        let gone = from.iter().filter(|row| !others.iter().any(|o| o.0 == row.0 && same(&o.1, &row.1)));
        gone.map(|(key, value)| format!("\n{sign} {key}: {value}")).collect()
    };
    let moved = expected.len() == found.len()
        && expected.iter().zip(&found).any(|(a, b)| a.0 != b.0 || !same(&a.1, &b.1));
    let (less, more) = (missing('-', &expected, &found), missing('+', &found, &expected));
    match (less.is_empty() && more.is_empty(), moved || expected.len() != found.len()) {
        (true, false) => String::new(),
        (true, true) => "\nrows in another order or number\n".to_owned(),
        (false, _) => format!("{less}{more}\n"),
    }
}

/// The findings of a committed record may change only on purpose: `FATHOM_BLESS=1 cargo test -p fathom --test command
/// golden` writes the current findings.
#[test]
fn golden_records_give_the_golden_findings() {
    let user = User::new();
    let mut records: Vec<PathBuf> = std::fs::read_dir(records_path(""))
        .expect("records")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|x| x == "fathom"))
        .collect();
    records.sort();
    assert!(records.len() >= 2, "{records:?}");
    for record in records {
        let findings = record.with_extension("json");
        let did = user.run(&["report", record.to_str().expect("a name"), "--json"]);
        // An emulator's record has only claims and verifications.
        let emulated = did.out.contains("\"trust\":\"emulated\"");
        assert!(if emulated { did.status == 5 } else { matches!(did.status, 0 | 3) }, "{did:?}");
        if std::env::var_os("FATHOM_BLESS").is_some() {
            std::fs::write(&findings, &did.out).expect("the findings");
        }
        let text =
            std::fs::read_to_string(&findings).unwrap_or_else(|e| panic!("{}: {e}", findings.display()));
        let expected: Value = serde_json::from_str(&text).expect("JSON");
        let found: Value = serde_json::from_str(&did.out).expect("JSON");
        let changes = changes(&expected, &found);
        let bless = "FATHOM_BLESS=1 cargo test -p fathom --test command golden";
        assert!(changes.is_empty(), "{}: {changes}if that is wanted: {bless}", record.display());
    }
}

/// A committed record must not identify the owner of the machine.
#[test]
fn golden_records_contain_no_identity() {
    for entry in std::fs::read_dir(records_path("")).expect("records") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("text");
        for private in ["hostname", "serial", "uuid", "/home", "/root", "/work", "/tmp", "root=", "ip="] {
            assert!(!text.to_lowercase().contains(private), "{} has '{private}'", path.display());
        }
    }
}

/// The probe reports changed facts when it receives `bye`, after the last trial. The record has them at its end, and
/// the findings have them among the facts.
#[test]
fn host_record_ends_with_changed_facts() {
    let user = User::new();
    let did = user.run(&["survey", "--budget", "500ms", "--record", "A", "--json"]);
    if crate::common::is_refused(&did) {
        return;
    }
    let text = user.read("A");
    let at = |word: &str| text.lines().position(|line| line.contains(word));
    let last = text.lines().count() - 1;
    let done =
        text.lines().enumerate().filter(|(_, line)| line.starts_with("done ")).last().expect("a trial").0;
    let after = at("fact name=\"env.after.").expect("what has moved");
    assert!(done < after && Some(last - 1) == at("gone seq="), "{done} {after} {last}");
    let document: Value = serde_json::from_str(&did.out).expect("JSON");
    let facts = &document["subject"]["facts"];
    let Some(before) = facts["env.loadavg"].as_str() else {
        fathom_skip::skipped!(Unchecked, "this kernel tells no load");
        return;
    };
    assert!(
        facts["env.after.loadavg"]
            .as_str()
            .is_some_and(|a| a.split(' ').count() == before.split(' ').count())
    );
    // Both builds are recorded. The harness and the probe have the same build here.
    let build = facts["env.build"].as_str().expect("a build");
    assert!(text.contains(&format!("build=\"{build}\"")), "{build}");
    // The head of the report does not list these facts.
    assert!(!user.run(&["report", "A"]).out.contains("loadavg"));
}
