//! `fathom simulate --source`: the source beside the counts of its lines, and when it is not shown.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::common::User;
use crate::simulate::{TARGETS, can_simulate, compiled, misses};

const SOURCE: &str = "simulated.source.{rank}.cycles";

/// 4096 lines of 64 bytes, read once; a text that a page and a terminal could interpret.
const TEXT: &str = "static volatile char data[4096 * 64] __attribute__((aligned(4096)));\n\
                    int main(void)\n\
                    {\n\
                    \tint sum = 0;\n\
                    \n\
                    \tfor (int n = 0; n < 4096; n++) /* <b>\u{1b}[31m\u{202e}\u{202c} */\n\
                    \t\tsum += data[n * 64];\n\
                    \treturn sum;\n\
                    }\n";

fn lines(document: &Value) -> Vec<&Value> {
    let findings = document["findings"].as_array().expect("a list");
    findings.iter().filter(|finding| finding["metric"] == SOURCE).collect()
}

/// Returns a user with the program, where that can be simulated.
fn user(options: &[&str]) -> Option<User> {
    let (user, target) = (User::new(), &TARGETS[2]);
    let source = user.write("stream.c", TEXT);
    (can_simulate(target.qemu) && compiled(&user, target, &source, options).is_some()).then_some(user)
}

#[test]
fn lines_of_the_source_have_their_text_and_their_counts() {
    let Some(user) = user(&["-static"]) else { return };
    let options = ["simulate", "--on", "bcm2837", "--source", "--keep-trace", "kept.trace"];
    let did = user.run(&[&options[..], &["--record", "kept.fathom", "--json", "--", "./program"]].concat());
    let document: Value = serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"));
    let all = lines(&document);
    let line = |number: u64| {
        let mut details = all.iter().map(|finding| &finding["detail"]);
        let found = details.find(|f| f["line_number"] == number && f["source_file"] == "stream.c");
        found.unwrap_or_else(|| panic!("no line {number}: {all:?}"))
    };
    assert_eq!((&line(7)["text"], misses(line(7), "L1D")), (&"        sum += data[n * 64];".into(), 4096));
    assert_eq!((line(7)["accesses"].as_u64(), line(5).get("text")), (Some(4096), None));
    assert_eq!(
        (line(4)["text"].as_str(), line(9)["executed"].as_u64() > Some(0)),
        (Some("    int sum = 0;"), true)
    );
    // Without it, nobody else sees the source.
    let without = user.run(&["simulate", "--on", "bcm2837", "--json", "--", "./program"]);
    assert!(!without.out.contains("data[n"), "{without:?}");
    let shared = user.run(&["share", "kept.fathom"]);
    assert!(shared.status == 0 && !shared.out.contains("data[n"), "{shared:?}");
    // The trace names the program, whose lines have their source.
    let trace = user.run(&["simulate", "--on", "bcm2837", "--source", "--json", "--trace", "kept.trace"]);
    let replayed: Value = serde_json::from_str(&trace.out).unwrap_or_else(|e| panic!("{e}: {trace:?}"));
    assert_eq!(lines(&replayed), all);
}

#[test]
fn text_of_a_source_is_shown_and_not_interpreted() {
    let Some(user) = user(&["-static"]) else { return };
    let did =
        user.run(&["simulate", "--on", "bcm2837", "--source", "--html", "page.html", "--", "./program"]);
    assert!(did.err.contains("7          sum += data[n * 64];"), "{did:?}");
    assert!(!did.err.contains('\u{1b}') && !did.err.contains('\u{202e}'), "{did:?}");
    crate::common::fits(&did.err);
    let page = std::fs::read_to_string(user.path("page.html")).expect("a page");
    assert!(page.contains("        sum += data[n * 64];</span>") && page.contains("&lt;b&gt;"));
    assert!(!page.contains("<b>") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
}

#[test]
fn source_that_cannot_be_that_of_the_program_is_not_shown() {
    let Some(user) = user(&["-static"]) else { return };
    let run = |source: &[&str]| {
        let did = user.run(&[&["simulate", "--on", "bcm2837", "--source"], source].concat());
        assert!(did.status == 0 && !did.err.contains("sum +="), "{did:?}");
        did.err
    };
    let program = ["--", "./program"];
    let file = std::fs::File::options().append(true).open(user.path("stream.c")).expect("the source");
    file.set_modified(SystemTime::now() + Duration::from_secs(60)).expect("its time is set");
    let newer = run(&program);
    assert!(
        newer.contains("stream.c is newer than program") && newer.contains("build the program again"),
        "{newer}"
    );
    std::fs::remove_file(user.path("stream.c")).expect("it is removed");
    let none = run(&program);
    assert!(none.contains("the source is not on this machine"), "{none}");
    // A pipe would never end.
    let pipe = std::process::Command::new("mkfifo").arg(user.path("stream.c")).status().expect("mkfifo");
    assert!(pipe.success() && run(&program).contains("the source is not on this machine"));
    user.write("x.din", "0 1000\n0 2000\n");
    let trace = user.run(&["simulate", "--on", "bcm2837", "--source", "--trace", "x.din"]);
    assert!(trace.err.contains("the trace does not tell its program"), "{trace:?}");
}

#[test]
fn program_without_line_tables_has_no_source() {
    let Some(user) = user(&["-static", "-g0"]) else { return };
    let did = user.run(&["simulate", "--on", "bcm2837", "--source", "--", "./program"]);
    assert!(did.err.contains("no line tables: compile it with -g"), "{did:?}");
}
