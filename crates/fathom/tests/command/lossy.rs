//! Subjects over a lossy line: a stream editor between harness and probe. crates/experiment tests the harness with
//! hundreds of such lines; these tests cover timeouts, the record file and the exit status.

use std::time::Instant;

use crate::common::{Did, User, same_tiers, tiers};

/// Surveys a model, with one editor before and one after its probe.
fn survey(to: &str, from: &str, more: &str) -> (User, Did) {
    let user = User::new();
    user.subject("board", &format!("{to} | fathom serve model s1-8way | {from}"));
    let did = user.shell(&format!("fathom survey --on board --seed 1 --record A --json {more}"));
    user.nothing_left(Instant::now());
    (user, did)
}

#[test]
fn damaged_trials_are_requested_again_with_equal_findings() {
    let (_, good) = survey("cat", "cat", "--budget 3s");
    assert!(matches!(good.status, 0 | 3), "{good:?}");
    assert!(!good.out.contains("lossy-line"), "{good:?}");
    // Requests: one dropped, one changed, one repeated. Answers: several dropped, changed and repeated.
    let to = "sed -u -e 5d -e '9s/bytes=/bytes=1/' -e 12p";
    let from = "sed -u -e 22d -e '72s/1/2/' -e 92p -e 103d -e 104d -e '132s/ crc.*//' -e '152s/e/E/g'";
    let (user, did) = survey(to, from, "--patience 8s --budget 3s");
    assert_eq!((did.status, did.err.as_str()), (3, ""), "{did:?}");
    same_tiers(&did.out, &good.out);
    assert!(did.out.contains("\"lossy-line\"") && did.out.contains("were repeated"), "{}", did.out);
    let record = user.record("A");
    assert!(record.contains("\nhello\n") && record.contains("\nagain from="), "{record}");
    let again = user.run(&["report", "A", "--json"]);
    assert_eq!((again.status, &again.out), (3, &did.out));
}

#[test]
fn line_that_loses_every_done_is_abandoned_and_record_kept() {
    let (user, did) = survey("cat", "sed -u '/^done/d'", "--patience 3s --budget 60s");
    did.failed(
        1,
        &["the line to 'board' loses too much", "consecutive trials failed", "baud rate", "fathom report A"],
    );
    let record = user.record("A");
    assert!(record.matches("\nlost what=").count() == 3, "{record}");
    assert!(record.contains("\nend status=failed"));
    assert_eq!(user.run(&["report", "A"]).status, 3);
}

#[test]
fn facts_never_received_whole_are_abandoned() {
    let (_, did) = survey("cat", "sed -u '/^fact name=\"clock.hz\"/d'", "--patience 4s --budget 6s");
    did.failed(1, &["loses too much", "facts were requested 8 times", "fathom report A"]);
}

#[test]
fn hello_is_sent_if_no_greeting_was_received() {
    let (user, did) = survey("cat", "sed -u 1d", "--patience 8s --budget 3s");
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    assert!(user.record("A").contains("\nhello\nprobe wire=1"), "{}", user.record("A"));
    assert_eq!(tiers(&did.out).len(), 3);
}
