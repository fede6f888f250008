//! Progress: on a terminal, and nowhere else.

use std::collections::BTreeSet;
use std::process::Stdio;

use crate::common::{SOON, User, is_of};

/// A survey on a pseudo-terminal: all three streams are it.
fn on_a_terminal(user: &User, arguments: &[&str], term: &str) -> rexpect::session::PtySession {
    let mut command = user.command(arguments);
    command.env("TERM", term).stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    rexpect::session::spawn_command(command, Some(SOON.as_millis() as u64)).expect("a terminal")
}

#[test]
fn progress_shows_experiment_points_and_remaining_time() {
    let user = User::new();
    let ask = ["survey", "--on", "bcm2711", "--budget", "4s", "--color", "never"];
    let shown = on_a_terminal(&user, &ask, "xterm").exp_eof().expect("its end");
    let (progress, report) = shown.split_once("survey: ").expect("a report behind the progress");
    for word in [" points", " s left", "[="] {
        assert!(progress.contains(word), "no '{word}' in {progress:?}");
    }
    // Which questions the budget is enough for is the machine's affair; one changes into the next.
    let requested = progress
        .split("\x1b[2K")
        .filter_map(|line| line.split_once('['))
        .map(|(question, _)| question.trim());
    let requested: BTreeSet<&str> = requested.collect();
    assert!(requested.contains("capacities") && requested.len() > 1, "{requested:?} in {progress:?}");
    // What is finished is taken away: the report is the report.
    assert!(!report.contains(" s left"), "{report}");
    assert!(report.contains("tier 1"), "{report}");
}

#[test]
fn progress_is_absent_when_quiet_or_not_a_terminal() {
    let user = User::new();
    let ask = ["survey", "--on", "bcm2835", "--budget", "500ms", "--color", "never"];
    for (more, term) in [(&["--quiet"][..], "xterm"), (&["-q"], "xterm"), (&[], "dumb")] {
        let shown = on_a_terminal(&user, &[&ask[..], more].concat(), term).exp_eof().expect("its end");
        assert!(is_of(&shown, "survey: "), "{more:?} {term}: {shown:?}");
        assert!(
            !shown.contains("at most") && !shown.contains("capacities") && !shown.contains('\x1b'),
            "{more:?} {term}: {shown:?}"
        );
    }
    // A pipe, whatever the terminal is called.
    let output = user.command(&ask).env("TERM", "xterm").output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
