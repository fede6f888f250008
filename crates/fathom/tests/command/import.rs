//! `fathom import`: results of other tools.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{User, fits};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../analysis/tests/import/fixtures").join(name)
}

/// Copies a tool's result to the user's home directory.
fn copy_fixture(user: &User, name: &str) {
    std::fs::copy(fixture(name), user.path(name)).expect("a copy");
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn number(document: &Value, name: &str) -> Option<f64> {
    let rows = document["findings"].as_array().expect("a list");
    rows.iter().find(|f| f["name"] == name)?["value"].as_f64()
}

#[test]
fn imported_record_can_be_reported_compared_and_drawn() {
    let user = User::new();
    copy_fixture(&user, "cyclictest-histogram.json");
    copy_fixture(&user, "xenomai-places.txt");
    let import =
        ["import", "cyclictest-histogram.json", "xenomai-places.txt", "-o", "A.fathom", "--json"].as_slice();
    let did = user.run(import);
    let reported = document(did.ended(0));
    assert_eq!(
        (&reported["experiment"], &reported["subject"]["trust"]),
        (&"wakeup".into(), &"unknown".into())
    );
    assert_eq!(number(&reported, "wakeup.user.imported-1.p50"), Some(11.5));
    assert_eq!(number(&reported, "wakeup.user.imported-2.max"), Some(397.0));
    for place in ["user.imported-3", "kernel.imported-4", "irq.imported-5"] {
        assert!(number(&reported, &format!("wakeup.{place}.p99")).is_some(), "{place}");
    }
    assert_eq!(number(&reported, "wakeup.irq.imported-5.min"), Some(-0.594), "a timer that is set early");
    let refusals = reported["refusals"].as_array().expect("a list");
    assert!(refusals.iter().any(|r| r.to_string().contains("lacks the order")), "{refusals:?}");
    // The report of the record equals the report of the import.
    let again = user.run(&["report", "A.fathom", "--json"]);
    assert_eq!(again.ended(0), did.out);
    let text = user.run(&["report", "A.fathom"]);
    assert!(text.ended(0).contains("imported-2"), "{}", text.out);
    fits(&text.out);
    // The record is also kept as a copy, and it can be compared and drawn.
    let kept = std::fs::read_dir(user.path(".local/share/fathom/records")).expect("copies");
    assert_eq!(kept.flatten().count(), 1);
    let compared = user.run(&["compare", "A.fathom", "A.fathom", "--json"]);
    assert!(compared.ended(0).contains("wakeup.user.imported-1.p50"), "{}", compared.out);
    let page = user.run(&["report", "A.fathom", "--html", "a.html"]);
    assert_eq!(page.status, 0, "{page:?}");
    let read = user.run(&["report", "a.html", "--json"]);
    assert_eq!(read.ended(0), did.out);
}

#[test]
fn import_reads_stdin() {
    let user = User::new();
    let text = std::fs::read(fixture("cyclictest-plain.txt")).expect("a fixture");
    let reported = user.run_with(&["import", "-", "--json"], &text);
    let reported = document(reported.ended(0));
    assert!(number(&reported, "wakeup.user.imported-1.max").is_some(), "{reported}");
    assert_eq!(reported["subject"]["name"], "cyclictest stdin");
}

#[test]
fn import_refuses_unknown_format_with_line_and_remedy() {
    let user = User::new();
    copy_fixture(&user, "cyclictest-histogram.txt");
    user.write("cut", &user.read("cyclictest-histogram.txt")[..400]);
    user.write("note", "\nbuy milk\n");
    for (files, words) in [
        (["cyclictest-histogram.txt", "note"], ["note: line 2: `buy milk`", "cyclictest --json=FILE"]),
        (["cyclictest-histogram.txt", "cut"], ["cut: line ", "the file is truncated"]),
        (["cyclictest-histogram.txt", "none"], ["none: No such file", "name a tool's result"]),
        (["-", "-"], ["stdin can be named once", "name a file"]),
    ] {
        let did = user.run(&["import", files[0], files[1], "-o", "A"]);
        did.failed(2, &words);
        assert!(!user.path("A").exists() && !user.path(".local").exists());
    }
    let did = user.run(&["import", "cyclictest-histogram.txt", "-o", "./cyclictest-histogram.txt"]);
    did.failed(2, &["refusing to overwrite an input file"]);
    assert_eq!(
        user.read("cyclictest-histogram.txt").as_bytes(),
        std::fs::read(fixture("cyclictest-histogram.txt")).expect("a fixture")
    );
    let many = vec!["cyclictest-histogram.txt"; 33];
    let did = user.run(&[&["import"], many.as_slice()].concat());
    did.failed(2, &["66 series", "a record takes at most 64"]);
    user.run(&["import"]).failed(2, &["FILE"]);
}
