//! `fathom doctor`.

use serde_json::Value;

use crate::common::{User, in_tracefs};

/// Returns the rows of `fathom doctor --json` with these arguments, and its exit status; None if this host refuses a
/// probe.
fn rows(user: &User, arguments: &[&str]) -> Option<(i32, Vec<Value>)> {
    let did = user.run(&[&["doctor", "--json"][..], arguments].concat());
    if did.status == 1 {
        fathom_skip::skipped!(HostProbe, "this host refuses a probe: {}", did.err);
        return None;
    }
    let document: Value = serde_json::from_str(&did.out).expect("JSON");
    assert_eq!((&document["format"], &document["version"]), (&"fathom.doctor".into(), &1.into()));
    Some((did.status, document["rows"].as_array().expect("rows").clone()))
}

fn find<'a>(rows: &'a [Value], what: &str) -> &'a Value {
    rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("{what} in {rows:?}"))
}

#[test]
fn doctor_examines_this_host_and_creates_no_files() {
    let user = User::new();
    let Some((status, rows)) = rows(&user, &[]) else { return };
    for what in ["machine", "clock", "priority", "locked-memory", "huge-pages", "counters", "load", "records"]
    {
        let row = find(&rows, what);
        assert!(row["found"].as_str().is_some_and(|found| !found.is_empty()), "{row}");
    }
    // The exit status is that of the worst row. A row in state `costs` names its cost.
    let worst = |state: &str| rows.iter().any(|row| row["state"] == state);
    assert_eq!(
        status,
        if worst("prevents") {
            5
        } else if worst("costs") {
            3
        } else {
            0
        }
    );
    for row in rows.iter().filter(|row| row["state"] == "costs") {
        assert!(row["cost"] != "" && row["command"] != "", "{row}");
    }
    assert!(!user.path(".local").exists(), "an examination keeps no record and makes no directory");

    let text = user.run(&["doctor", "--color", "never"]);
    assert!(text.out.starts_with("doctor: host\n"), "{text:?}");
    for line in text.out.lines() {
        // Command lines are not wrapped.
        assert!(line.starts_with("    ") || line.chars().count() <= 80, "{line}");
    }
    assert!(text.out.trim_end().ends_with("Next: fathom survey"), "{}", text.out);
}

#[test]
fn doctor_names_errors_in_user_files_with_line() {
    let user = User::new();
    user.write(".config/fathom/subjects.toml", "[pi]\ncomand = [\"ssh\"]\n");
    user.write(".local/share/fathom", "a file where a directory should be");
    let Some((status, found)) = rows(&user, &[]) else { return };
    assert!(matches!(status, 3 | 5), "{status}");
    let subjects = find(&found, "subjects");
    assert!(subjects["found"].to_string().contains("line 2"), "{subjects}");
    assert!(subjects["command"].to_string().contains("subjects.toml"), "{subjects}");
    let records = find(&found, "records");
    assert!(
        records["state"] == "costs" && records["found"].to_string().contains("not a directory"),
        "{records}"
    );
}

#[test]
fn doctor_restore_without_leftovers_does_nothing() {
    let user = User::new();
    let record = ".local/share/fathom/records/20200101T000000-4294967294-survey-host.fathom";
    user.write(record, "fathom.record version=1\n");
    let did = user.run(&["doctor", "--restore"]);
    let words: Vec<&str> = did.out.split_whitespace().collect();
    let reported = words.join(" ");
    // Killed probes of concurrent tests may have left something.
    assert!(
        reported.contains("There is nothing to restore.") || reported.contains("left by a killed probe"),
        "{did:?}"
    );
    assert!(did.out.contains("truncated-records") && did.out.contains("1 end early"), "{did:?}");
    // Other programs on this machine may have left a probe, which has exit status 3.
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    user.run(&["doctor", "--restore", "--on", "zen3"]).failed(2, &["--restore", "--on"]);
}

#[test]
fn doctor_restore_removes_and_names_a_leftover_trace_instance() {
    let user = User::new();
    // No process has this number (PID_MAX_LIMIT of 64-bit kernels is 4194304).
    let name = format!("fathom.4194304.1.{}", std::process::id());
    let until = std::time::Instant::now() + crate::common::SOON;
    loop {
        let made = user.shell(&in_tracefs(&format!("mkdir instances/{name}")));
        if made.status != 0 {
            fathom_skip::skipped!(TraceInstance, "no trace instance can be made here: {}", made.err);
            return;
        }
        let did = user.run(&["doctor", "--restore"]);
        let gone = user.shell(&in_tracefs(&format!("! test -e instances/{name}")));
        assert_eq!(gone.status, 0, "{did:?}");
        if did.out.contains("left by a killed probe") {
            let words: Vec<&str> = did.out.split_whitespace().collect();
            assert!(words.concat().contains(&name), "{did:?}");
            return;
        }
        // A probe of a concurrent test may have removed the instance first.
        assert!(std::time::Instant::now() < until, "{did:?}");
    }
}

#[test]
fn doctor_examines_the_subject_given_with_on() {
    let user = User::new();
    let did = user.run(&["doctor", "--on", "zen3"]);
    did.ended(0);
    assert!(did.out.starts_with("doctor: zen3\n") && did.out.contains("described"), "{did:?}");
    assert!(!did.out.contains("orphan-probes"), "what is left here is not left there: {}", did.out);
    user.subject("broken", "exit 3");
    user.run(&["doctor", "--on", "broken"]).failed(1, &["broken", "ended before its work did"]);
    user.run(&["doctor", "--on", "zen4"]).failed(2, &["zen4", "did you mean"]);
    user.run(&["doctor", "--on", "zen3", "--cpu", "0"]).failed(2, &["--cpu 0"]);
}
