//! Files of records: never overwritten, locked while they are written, resumed in place, and kept in order.

use std::time::Instant;

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::common::{User, kill, wait};

const SURVEY: [&str; 5] = ["survey", "--on", "s1-8way", "--budget", "500ms"];

#[test]
fn record_is_replaced_on_request_only() {
    let user = User::new();
    user.run(&[&SURVEY[..], &["--record", "A"]].concat()).ended(0);
    let first = user.read("A");
    user.run(&[&SURVEY[..], &["--record", "A"]].concat())
        .failed(2, &["--record A: it exists", "name another file", "--force"]);
    // A hard link and a symbolic link are other names of the same file.
    std::fs::hard_link(user.path("A"), user.path("hard")).expect("a link");
    std::os::unix::fs::symlink("A", user.path("soft")).expect("a link");
    for name in ["hard", "soft", "./A"] {
        user.run(&[&SURVEY[..], &["--record", name]].concat()).failed(2, &["it exists"]);
    }
    assert_eq!(user.read("A"), first);
    user.run(&[&SURVEY[..], &["--record", "A", "--force", "--seed", "2"]].concat()).ended(0);
    assert!(user.read("A").contains("seed=2"));
    assert_eq!(user.read("hard"), first, "the older file was replaced, not overwritten");
    user.run(&[&SURVEY[..], &["--force"]].concat()).failed(2, &["--record"]);
}

#[test]
fn record_that_a_session_is_writing_is_not_replaced() {
    let user = User::new();
    let session = user.spawn(&["survey", "--on", "host", "--budget", "60s", "--record", "A"]);
    user.lines("A", 3);
    user.run(&[&SURVEY[..], &["--record", "A", "--force"]].concat())
        .failed(2, &["--record A: another fathom is writing it", "wait for its end"]);
    kill(session.id(), Signal::TERM);
    let did = wait(session);
    assert!(matches!(did.status, 143 | 1), "{did:?}");
    user.nothing_left(Instant::now());
    user.run(&[&SURVEY[..], &["--record", "A", "--force"]].concat()).ended(0);
}

#[test]
fn one_of_several_sessions_that_begin_at_once_gets_the_file() {
    for (force, why) in [(None, "it exists"), (Some("--force"), "another fathom is writing it")] {
        let user = User::new();
        let line: Vec<&str> = SURVEY.into_iter().chain(["--record", "A"]).chain(force).collect();
        let sessions: Vec<_> = (0..6).map(|_| user.spawn(&line)).collect();
        let ends: Vec<_> = sessions.into_iter().map(wait).collect();
        let written = ends.iter().filter(|did| did.status == 0).count();
        assert!(written >= 1 && (force.is_some() || written == 1), "{ends:?}");
        for did in ends.iter().filter(|did| did.status != 0) {
            did.failed(2, &["--record A: ", why]);
        }
        let did = user.run(&["report", "A"]);
        assert!(!did.ended(0).contains("damaged-record"), "{did:?}");
    }
}

/// Returns a record of wake-ups, and its first half as a kill leaves it.
fn half_of_wakeups(user: &User, on: &str) -> (String, String) {
    let wakeup = ["wakeup", "--on", on, "--budget", "20s", "--conditions", "unloaded,cpu"];
    user.run(&[&wakeup[..], &["--record", "whole"]].concat()).ended(0);
    let whole = user.read("whole");
    let lines: Vec<&str> = whole.lines().collect();
    let cut = lines[..lines.len() / 2].join("\n") + "\n" + &lines[lines.len() / 2][..9];
    (whole, cut)
}

#[test]
fn record_of_another_machine_is_not_continued() {
    let user = User::new();
    let text = user.run(&["machines", "am5728"]).out;
    let changed = text.replacen("latency = \"4 cycles\"", "latency = \"5 cycles\"", 1);
    assert_ne!(text, changed);
    user.write("board.toml", &text);
    let (_, cut) = half_of_wakeups(&user, "./board.toml");
    user.write("A", &cut);
    user.write("board.toml", &changed);
    let resume = ["wakeup", "--resume", "A", "--on", "./board.toml"];
    user.run(&resume)
        .failed(2, &["the record is of another machine: described.digest was", "start a new record"]);
    assert_eq!(user.read("A"), cut);
    user.write("board.toml", &text);
    user.run(&resume).ended(0);
}

#[test]
fn damage_is_told_after_the_record_was_continued() {
    let user = User::new();
    let (_, cut) = half_of_wakeups(&user, "am5728");
    let lines: Vec<&str> = cut.lines().collect();
    let at = lines.len() / 2;
    for (change, told) in [
        (vec![lines[at].replacen('=', "~", 1)], "1 damaged lines before it were left out"),
        (Vec::new(), "1 lines are missing before it"),
    ] {
        let mut damaged: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        damaged.splice(at..=at, change);
        user.write("A", &damaged.join("\n"));
        let did = user.run(&["wakeup", "--resume", "A"]);
        for did in [did, user.run(&["report", "A"])] {
            let flat = did.out.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(did.status, 3, "{flat}");
            assert!(flat.contains("damaged-record") && flat.contains(told), "{flat}");
        }
        assert!(user.read("A").contains("\nend status=complete"));
    }
}

#[test]
fn record_of_another_version_is_not_continued() {
    let user = User::new();
    let (_, cut) = half_of_wakeups(&user, "am5728");
    let lines = cut.lines().filter_map(|line| Some(line.rsplit_once(" @")?.0)).collect::<Vec<_>>().join("\n");
    let newer = lines.replacen("fathom.record version=1", "fathom.record version=2", 1);
    user.write_record("A", &newer);
    let before = user.read("A");
    user.run(&["wakeup", "--resume", "A"]).failed(
        2,
        &["record version 2; this program reads version 1", "with the version of fathom that made it"],
    );
    // Without seals, as of a version that had none.
    user.write("B", &lines);
    user.run(&["wakeup", "--resume", "B"]).failed(2, &["B: line 1"]);
    assert_eq!((user.read("A"), user.read("B")), (before, lines));
}

#[test]
fn interrupted_record_is_continued_in_its_file() {
    let user = User::new();
    let (whole, cut) = half_of_wakeups(&user, "am5728");
    let lines: Vec<&str> = whole.lines().collect();
    user.write("A", &cut);
    let did = user.run(&["wakeup", "--resume", "A"]);
    assert_eq!((did.status, did.err.as_str()), (0, ""), "{did:?}");
    let resumed = user.read("A");
    assert!(
        resumed.lines().count() > lines.len() / 2 && resumed.contains("\nend status=complete"),
        "{resumed}"
    );
    let again = user.run(&["report", "A"]);
    assert!(!again.out.contains("damaged-record") && !again.out.contains("cut off"), "{}", again.out);
    // A record that another session continues is refused.
    user.write("A", &cut);
    let held = std::fs::File::open(user.path("A")).expect("a record");
    flock(&held, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
    user.run(&["wakeup", "--resume", "A"]).failed(2, &["--resume A: another fathom is writing it"]);
    assert_eq!(user.read("A"), cut);
}

#[test]
fn lost_lines_are_told_with_their_place() {
    let user = User::new();
    user.run(&[&SURVEY[..], &["--record", "A"]].concat()).ended(0);
    let whole = user.read("A");
    let lines: Vec<&str> = whole.lines().collect();
    for missing in [1, 2, 50, 200] {
        let kept = lines.len() - 1 - missing;
        user.write("B", &[&lines[..kept], &lines[lines.len() - 1..]].concat().join("\n"));
        let did = user.run(&["report", "B"]);
        assert_eq!(did.status, 3, "{missing}: {}", did.out);
        let flat = did.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            flat.contains(&format!("line {}: {missing} lines are missing before it", kept + 1)),
            "{flat}"
        );
    }
}

#[test]
fn full_disk_and_full_stdout_are_both_told() {
    let user = User::new();
    let did =
        user.shell("ulimit -f 16; fathom survey --on s1-8way --budget 500ms --record A --html P >/dev/full");
    assert_eq!(did.status, 1, "{did:?}");
    for words in ["cannot write to stdout", "--record A: the record ends early", "--html P: "] {
        assert!(did.err.contains(words), "no '{words}' in {}", did.err);
    }
    assert!(!user.path("P").exists(), "no page is better than a part of one");
}

#[test]
fn page_replaces_nothing_but_a_page() {
    let user = User::new();
    user.run(&[&SURVEY[..], &["--record", "A"]].concat()).ended(0);
    let description = user.run(&["machines", "s1-8way"]).out;
    for (name, text) in [("notes.txt", "mine\n"), ("s.toml", &description), ("other.fathom", &user.read("A"))]
    {
        user.write(name, text);
        for line in [&["report", "A", "--html", name][..], &[&SURVEY[..], &["--html", name]].concat()] {
            user.run(line).failed(2, &[&format!("--html {name}: "), "name another file"]);
            assert_eq!(user.read(name), text, "{line:?}");
        }
    }
}

#[test]
fn page_that_cannot_be_written_leaves_the_older_one() {
    let user = User::new();
    user.run(&[&SURVEY[..], &["--html", "P", "--record", "A"]].concat()).ended(0);
    let older = user.read("P");
    let did = user.shell("ulimit -f 16; fathom report A --html P");
    assert!(did.status == 1 && did.err.contains("--html P: "), "{did:?}");
    assert_eq!(user.read("P"), older);
    let left = std::fs::read_dir(user.path(".")).expect("a directory").flatten();
    let left: Vec<_> =
        left.map(|entry| entry.file_name()).filter(|n| n.to_string_lossy().starts_with(".fathom-")).collect();
    assert!(left.is_empty(), "{left:?}");
}
