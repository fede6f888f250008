//! Sessions without a stream: requests, handling of responses, and that every session ends.

use std::collections::VecDeque;

use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::{InProcess, Plan, Session};
use fathom_experiment::survey;
use fathom_model::{Model, catalog};
use fathom_probe::pattern::{Clock, Trial};
use fathom_probe::wire::Line;

fn run() -> Run {
    Run {
        experiment: "survey".into(),
        subject: "s1".into(),
        seed: 1,
        budget_ms: 200,
        build: "x".into(),
        ..Run::default()
    }
}

/// Plans two rounds of one trial each.
fn two_rounds(record: &Record, seed: u64, _: u64) -> Vec<Trial> {
    let round = record.round() + 1;
    let trial = Trial { id: round, round, seed, loads: 3, samples: 2, ..Trial::of(Clock) };
    if round > 2 { Vec::new() } else { vec![trial] }
}

/// Runs a session with the lines that `answer` returns; returns all requests. Panics after `most` requests.
fn converse(plan: Plan, most: usize, mut answer: impl FnMut(&str) -> Vec<Line>) -> (Vec<String>, Session) {
    let mut session = Session::new(plan, run());
    let mut seq = 0;
    let mut requested = Vec::new();
    let mut coming: VecDeque<Line> = [Line::new("probe").int("wire", 1u64).token("trust", "real")].into();
    loop {
        while let Some(line) = coming.pop_front() {
            seq += 1;
            session.take(&line.seal(seq));
        }
        if !session.may_send() {
            return (requested, session);
        }
        let sealed = session.next_line();
        let line = Line::parse(&sealed).unwrap();
        assert_eq!(
            line.seq,
            Some(requested.len() as u64 + 1),
            "the harness's lines are numbered like the probe's"
        );
        let line = line.render();
        requested.push(line.clone());
        assert!(requested.len() <= most, "a session without end: {line}");
        coming.extend(answer(&line));
    }
}

#[test]
fn session_requests_facts_then_rounds_then_ends() {
    let (requested, session) = converse(two_rounds, 10, |line| match line {
        "facts" => vec![Line::new("facts_end").int("count", 0u64)],
        "bye" => vec![Line::new("gone")],
        trial => {
            let trial = Line::parse(trial).unwrap();
            let id = Trial::read(&trial).unwrap().id;
            vec![trial, Line::new("refusal").int("trial", id).text("reason", "no").text("remedy", "")]
        }
    });
    let words: Vec<&str> = requested.iter().map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["facts", "trial", "trial", "bye"]);
    assert!(session.over());
    assert_eq!(session.record.trials.len(), 2);
}

/// A probe of a later version may echo an unknown key: such a line is not a trial, and earlier trials stay.
#[test]
fn invalid_echo_is_retried_once() {
    let mut spoilt = false;
    let (requested, session) = converse(two_rounds, 12, |line| match line {
        "facts" => vec![Line::new("facts_end").int("count", 0u64)],
        "bye" => vec![Line::new("gone")],
        line if !line.starts_with("trial") => Vec::new(),
        trial => {
            let trial = Line::parse(trial).unwrap();
            let id = Trial::read(&trial).unwrap().id;
            let spoil = id == 2 && !spoilt;
            spoilt |= spoil;
            let echo = if spoil { trial.int("later", 1u64) } else { trial };
            vec![echo, Line::new("refusal").int("trial", id).text("reason", "no").text("remedy", "")]
        }
    });
    assert!(spoilt && session.over() && session.broken().is_none());
    let ids: Vec<u64> = session.record.trials.iter().map(|r| r.trial.id).collect();
    assert_eq!(ids, [1, 2], "{requested:?}");
    assert!(session.record.trials.iter().all(|r| r.refusal.is_some()));
}

#[test]
fn probe_that_only_faults_ends_the_session() {
    for plan in [two_rounds as Plan, survey::plan] {
        let (requested, session) = converse(plan, 50, |_| vec![Line::new("fault").text("what", "no")]);
        assert_eq!(requested.last().unwrap(), "bye");
        assert!(session.over());
        assert!(session.record.faults.len() >= 2);
    }
}

#[test]
fn a_probe_that_refuses_everything_ends_the_session() {
    let (requested, session) = converse(survey::plan, 1000, |line| match Line::parse(line).unwrap() {
        l if l.word == "facts" => vec![Line::new("facts_end").int("count", 0u64)],
        l if l.word == "trial" => {
            let id = Trial::read(&l).unwrap().id;
            vec![l, Line::new("refusal").int("trial", id).text("reason", "no").text("remedy", "ask")]
        }
        _ => Vec::new(),
    });
    assert_eq!(requested.last().unwrap(), "bye");
    assert!(session.record.trials.iter().all(|r| r.refusal.is_some()));
}

#[test]
fn noise_before_the_greeting_does_not_begin_the_session() {
    let mut session = Session::new(two_rounds, run());
    for noise in ["Debian GNU/Linux 13", "", "\u{0}\u{1b}[2J", "login: trial id=1", "facts_end count=0"] {
        session.take(noise);
        assert!(!session.may_send(), "{noise:?}");
    }
    session.take(&Line::new("probe").int("wire", 1u64).token("trust", "real").seal(1));
    assert!(session.may_send());
    assert!(session.record.problems.len() >= 3);
}

#[test]
fn transcript_reads_back_as_the_record() {
    let description = catalog::load("s1-8way").expect("embedded").expect("a description");
    let runs: Vec<(Vec<String>, Record)> = (0..2)
        .map(|_| InProcess::new(Session::new(survey::plan, run())).run(&mut Model::new(&description, 1)))
        .collect();
    assert_eq!(runs[0].0, runs[1].0, "two surveys of one model with one seed");
    let (transcript, live) = &runs[0];
    let read = Record::parse(&transcript.join("\n")).unwrap();
    assert_eq!(read.problems, Vec::<String>::new());
    assert!(live.trials.len() > 10, "{} trials", live.trials.len());
    assert_eq!((&read.run, &read.trust, &read.facts), (&live.run, &live.trust, &live.facts));
    assert_eq!((&read.trials, &read.end), (&live.trials, &live.end));
    assert_eq!(survey::read(&read), survey::read(live));
}
