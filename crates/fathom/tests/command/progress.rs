//! The progress line, which is shown on terminals only.

use std::collections::BTreeSet;
use std::process::Stdio;

use crate::common::{SOON, User, is_of};

/// Runs a survey on a pseudo-terminal, which is its stdin, stdout and stderr.
fn on_a_terminal(user: &User, arguments: &[&str], term: &str) -> rexpect::session::PtySession {
    let mut command = user.command(arguments);
    command.env("TERM", term).stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    rexpect::session::spawn_command(command, Some(SOON.as_millis() as u64)).expect("a terminal")
}

#[test]
fn progress_shows_experiment_points_and_remaining_time() {
    let user = User::new();
    let arguments = ["survey", "--on", "bcm2711", "--budget", "4s", "--color", "never"];
    let shown = on_a_terminal(&user, &arguments, "xterm").exp_eof().expect("its end");
    let (progress, report) = shown.split_once("survey: ").expect("a report behind the progress");
    for word in [" points", " s left", "[="] {
        assert!(progress.contains(word), "no '{word}' in {progress:?}");
    }
    // The questions for which the budget suffices depend on the machine; at least two must be shown in turn.
    let requested = progress
        .split("\x1b[2K")
        .filter_map(|line| line.split_once('['))
        .map(|(question, _)| question.trim());
    let requested: BTreeSet<&str> = requested.collect();
    assert!(requested.contains("capacities") && requested.len() > 1, "{requested:?} in {progress:?}");
    // The progress line is removed at the end and does not appear in the report.
    assert!(!report.contains(" s left"), "{report}");
    assert!(report.contains("tier 1"), "{report}");
}

#[test]
fn progress_is_absent_when_quiet_or_not_a_terminal() {
    let user = User::new();
    let arguments = ["survey", "--on", "bcm2835", "--budget", "500ms", "--color", "never"];
    for (more, term) in [(&["--quiet"][..], "xterm"), (&["-q"], "xterm"), (&[], "dumb")] {
        let shown = on_a_terminal(&user, &[&arguments[..], more].concat(), term).exp_eof().expect("its end");
        assert!(is_of(&shown, "survey: "), "{more:?} {term}: {shown:?}");
        assert!(
            !shown.contains("at most") && !shown.contains("capacities") && !shown.contains('\x1b'),
            "{more:?} {term}: {shown:?}"
        );
    }
    // Into a pipe, whatever TERM is.
    let output = user.command(&arguments).env("TERM", "xterm").output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
