//! Lines of the server: greetings, facts, faults and refusals.

use super::*;

#[test]
fn unsupported_control_is_refused_and_its_keys_round_trip() {
    for key in ["mair=68", "tables=normal-nc", "prefetch=0"] {
        let requested = format!("trial id=1 bytes=8192 {key}");
        let lines = served_in_order(Forgery::Honest, &[&requested]);
        let words: Vec<&str> = lines.iter().map(|l| l.word.as_str()).collect();
        assert_eq!(words, ["probe", "trial", "refusal"], "{requested}");
        assert!(lines[1].render().contains(key), "{}", lines[1].render());
    }
    assert_eq!(served_in_order(Forgery::Honest, &["trial mair=256"])[1].word, "fault");
}

#[test]
fn lost_clock_refuses_the_trial_without_samples() {
    let words = |forgery| -> Vec<String> {
        let lines =
            served_in_order(forgery, &["trial id=1 bytes=8192 samples=1", "trial id=2 bytes=8192 page=huge"]);
        lines.iter().map(|line| line.word.clone()).collect()
    };
    assert_eq!(words(Forgery::Honest), ["probe", "trial", "sample", "done", "trial", "refusal"]);
    assert_eq!(words(Forgery::Timeless), ["probe", "trial", "refusal", "trial", "refusal"]);
    // Any other refusal keeps its own reason.
    let second = served_in_order(Forgery::Timeless, &["trial id=2 bytes=8192 page=huge"])
        .pop()
        .expect("a refusal")
        .render();
    assert!(second.contains("too much"), "{second}");
}

#[test]
fn hello_restarts_numbers_and_faults_continue_them() {
    let lines =
        served(Forgery::Honest, &["facts", "hello", "inject what=abort", "inject what=nothing", "bye"]);
    let last: Vec<(&str, Option<u64>)> =
        lines.iter().rev().take(4).map(|l| (l.word.as_str(), l.seq)).collect();
    assert_eq!(
        last,
        [("gone", Some(4)), ("fault", Some(3)), ("fault", Some(2)), ("probe", Some(1))],
        "nobody is told what has moved who has not asked since"
    );
    let mut place = ServerState { seq: 7, reported: true };
    let fault = Line::parse(&place.fault("data abort")).unwrap();
    assert_eq!((fault.seq, place.seq), (Some(8), 8));
}

#[test]
fn server_continues_after_faults_and_refusals() {
    let lines = served_in_order(
        Forgery::Honest,
        &[
            "",
            "facts",
            "what is this",
            "trial bytes=oops",
            "trial page=huge",
            "trial loads=8 id=3",
            "bye",
            "trial",
        ],
    );
    let words: Vec<&str> = lines.iter().map(|l| l.word.as_str()).filter(|w| *w != "fact").collect();
    assert_eq!(
        words,
        ["probe", "facts_end", "fault", "fault", "trial", "refusal", "trial", "sample", "done", "gone"]
    );
}

#[test]
fn changed_facts_are_sent_last_and_only_after_facts() {
    let last = |requested: &[&str]| {
        let lines = served_in_order(Forgery::Honest, requested);
        let [.., before, gone] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!(gone.word, "gone");
        before.clone()
    };
    let after = last(&["facts", "trial loads=8 samples=1", "bye"]);
    assert_eq!(after.fields().text("name").unwrap(), Some("a.after"));
    assert_eq!(last(&["trial loads=8 samples=1", "bye"]).word, "done");
    // At the end of the input there is no last line, because its reader has gone.
    assert_eq!(served_in_order(Forgery::Honest, &["facts"]).last().unwrap().word, "facts_end");
}

#[test]
fn long_facts_are_sent_in_parts_and_join_unchanged() {
    let lines = served_in_order(Forgery::Honest, &["facts"]);
    let (mut text, mut blob) = (String::new(), Vec::new());
    for line in lines.iter().filter(|l| l.word == "fact") {
        let mut f = line.fields();
        match f.text("name").unwrap().unwrap() {
            "a.text" => text.push_str(f.text("text").unwrap().unwrap()),
            "a.blob" => blob.extend_from_slice(f.hex("hex").unwrap().unwrap()),
            _ => {}
        }
    }
    assert_eq!(text, "\u{1}\"long\"\n".repeat(900));
    assert_eq!(blob, (0..9000u32).map(|b| b as u8).collect::<Vec<u8>>());
}

#[test]
fn fault_line_with_long_quote_has_limited_length() {
    let keys: String = (0..60).map(|n| format!(" {}{n}=1", "k".repeat(62))).collect();
    let lines = served_in_order(Forgery::Honest, &[&format!("trial{keys}"), "bye"]);
    assert_eq!(lines.iter().map(|l| l.word.as_str()).collect::<Vec<_>>(), ["probe", "fault", "gone"]);
    let reported = lines[1].fields().text("what").unwrap().unwrap().to_string();
    assert!(reported.contains("unknown key kkk") && lines[1].seal(u64::MAX).len() <= MAX_LINE, "{reported}");
}
