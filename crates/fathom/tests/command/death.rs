//! If any one process dies, all others end, and the record so far is kept.

use std::process::Stdio;
use std::time::Instant;

use rustix::process::Signal;

use crate::common::{Did, User, is_of, kill, wait};

/// A survey with a budget of one hour.
const LONG_SURVEY: [&str; 5] = ["survey", "--budget", "60m", "--record", "A"];

fn on(machine: &'static str) -> Vec<&'static str> {
    [&LONG_SURVEY[..], &["--on", machine]].concat()
}

/// A described machine whose survey computes for many seconds even with a fast model.
const SLOW: &str = "neoverse-n1";

/// Returns the tested subjects: a model, and this host if it can be measured.
fn subjects() -> Vec<&'static str> {
    let user = User::new();
    let did = user.run_with(&["serve", "host"], b"bye\n");
    if did.status == 0 {
        vec![SLOW, "host"]
    } else {
        fathom_skip::skipped!(HostProbe, "on this host, which refuses a probe: {}", did.err);
        vec![SLOW]
    }
}

/// Starts a long survey and waits until its record has samples.
fn begin(user: &User, machine: &'static str) -> (std::process::Child, u32) {
    let child = user.spawn(&on(machine));
    user.lines("A", 40);
    let until = Instant::now() + crate::common::SOON;
    while !user.read("A").contains("\ndone ") {
        assert!(Instant::now() < until, "no trial ends");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let probe = user.child_of(child.id());
    (child, probe)
}

fn last_line(user: &User) -> String {
    user.read("A").lines().last().unwrap_or_default().to_owned()
}

/// Asserts that the record is reported as interrupted.
fn readable(user: &User) {
    let did = user.run(&["report", "A", "--json"]);
    assert_eq!((did.status, did.err.as_str()), (3, ""), "{}", did.out);
    let document: serde_json::Value = serde_json::from_str(&did.out).expect("JSON");
    let warnings = document["warnings"].as_array().expect("a list");
    assert!(warnings.iter().any(|w| w.to_string().contains("interrupted")), "{warnings:?}");
}

#[test]
fn killed_probe_ends_the_survey_and_keeps_the_record() {
    for machine in subjects() {
        let user = User::new();
        let (harness, probe) = begin(&user, machine);
        kill(probe, Signal::KILL);
        let since = Instant::now();
        let did = wait(harness);
        user.nothing_left(since);
        did.failed(1, &["ended before its work did", "signal: 9", "fathom report A"]);
        assert!(last_line(&user).starts_with("end status=failed elapsed_ms="), "{}", last_line(&user));
        readable(&user);
    }
}

#[test]
fn killed_harness_leaves_no_process_and_a_readable_record() {
    for machine in subjects() {
        let user = User::new();
        let (mut harness, _) = begin(&user, machine);
        kill(harness.id(), Signal::KILL);
        let since = Instant::now();
        user.nothing_left(since);
        harness.wait().expect("it is dead");
        assert!(!user.read("A").contains("\nend "), "{}", last_line(&user));
        readable(&user);
    }
}

/// Asserts the result of a signal: a report of the samples so far, a record with its end line, and no error.
fn interrupted(user: &User, did: &Did, status: i32) {
    assert_eq!(did.status, status, "{did:?}");
    assert!(is_of(&did.out, "survey: ") && did.out.contains("interrupted"), "{}", did.out);
    assert!(did.out.ends_with("Next: fathom report A\n"), "{}", did.out);
    assert_eq!(did.err, "");
    assert!(last_line(user).starts_with("end status=interrupted elapsed_ms="), "{}", last_line(user));
    readable(user);
}

#[test]
fn signals_end_a_survey_and_keep_its_record() {
    for machine in subjects() {
        let signals = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];
        // One signal is enough to show that the probe of the host ends as well.
        for (signal, status) in signals.into_iter().take(if machine == "host" { 1 } else { 3 }) {
            let user = User::new();
            let (harness, _) = begin(&user, machine);
            kill(harness.id(), signal);
            let since = Instant::now();
            let did = wait(harness);
            user.nothing_left(since);
            interrupted(&user, &did, status);
        }
    }
}

#[test]
fn initially_ignored_signals_stay_ignored() {
    let user = User::new();
    // The shell passes its ignored signals to its children, as nohup does.
    let line = "trap '' HUP; fathom survey --on bcm2835 --budget 400ms --record A >out & p=$!; \
                while ! test -s A; do sleep 0.05; done; kill -HUP $p; wait $p";
    let did = user.shell(line);
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    assert!(last_line(&user).starts_with("end status=complete"), "{}", last_line(&user));
}

/// Returns a pseudo-terminal with a long survey of a model.
fn terminal(user: &User, subject: &str) -> rexpect::session::PtySession {
    let mut command = user.command(&[&LONG_SURVEY[..], &["--on", subject]].concat());
    // The terminal replaces the pipes.
    command.env("TERM", "xterm").stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    rexpect::session::spawn_command(command, Some(crate::common::SOON.as_millis() as u64))
        .expect("a terminal")
}

fn ended(session: &rexpect::session::PtySession) -> i32 {
    let until = Instant::now() + crate::common::SOON;
    loop {
        match session.process().status() {
            Some(rexpect::process::WaitStatus::Exited(_, status)) => return status,
            Some(rexpect::process::WaitStatus::Signaled(_, signal, _)) => return -(signal as i32),
            _ => assert!(Instant::now() < until, "it does not end"),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn ctrl_c_ends_a_survey_and_keeps_its_record() {
    let user = User::new();
    let mut session = terminal(&user, SLOW);
    user.lines("A", 60);
    session.send_control('c').expect("a terminal");
    let since = Instant::now();
    let shown = session.exp_string("fathom report A").expect("the report");
    assert!(shown.contains("interrupted"), "{shown}");
    assert_eq!(ended(&session), 130);
    user.nothing_left(since);
    readable(&user);
}

#[test]
fn second_ctrl_c_ends_with_an_unresponsive_probe() {
    let user = User::new();
    // A probe that ignores signals: it has half a second to end before it is killed, which leaves time for the second
    // Ctrl-C.
    user.subject("deaf", "trap '' TERM HUP; while :; do sleep 1; done");
    let mut session = terminal(&user, "deaf");
    user.wait(crate::common::SOON, |all| all.len() >= 3);
    user.lines("A", 2);
    session.send_control('c').expect("a terminal");
    std::thread::sleep(std::time::Duration::from_millis(100));
    session.send_control('c').expect("a terminal");
    assert_eq!(ended(&session), 130);
    assert!(!user.read("A").contains("end status=complete"));
}
