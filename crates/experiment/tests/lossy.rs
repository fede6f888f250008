//! Sessions over a line that drops, flips and repeats bytes and lines, and with boards that are reset. Every result
//! equals that of the undisturbed session or is missing with a reason, and every session ends.

#[path = "common/full.rs"]
mod full;

use std::collections::HashMap;

use fathom_analysis::findings::{Report, Value, WarningKind};
use fathom_experiment::options::Asked;
use fathom_experiment::record::{Record, Run, TrialRun};
use fathom_experiment::session::{Plan, Session};
use fathom_experiment::{latency, read, survey};
use fathom_model::{Description, Model, catalog};
use fathom_probe::serve::{Lines, ServerState, serve_from};
use fathom_probe::splitmix::SplitMix64;
use fathom_probe::wire::{Line, MAX_LINE};
use full::full;

/// Random events on the line, from a seed.
struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Returns true with a probability of `in_a_million` / 1,000,000.
    fn happens(&mut self, in_a_million: u64) -> bool {
        self.next() % 1_000_000 < in_a_million
    }
}

/// Error rates, each per million.
#[derive(Clone, Copy, Debug, Default)]
struct Noise {
    /// Of bytes: dropped, flipped, or repeated.
    bytes: u64,
    /// Of lines: dropped or repeated.
    lines: u64,
    /// Of lines: a run of bytes is missing, as after a buffer overflow; often up to the line's end.
    runs: u64,
    /// Of trials: the board is reset during the trial.
    resets: u64,
}

/// One direction of the stream.
#[derive(Default)]
struct Wire {
    /// Received part of a line that has not ended.
    half: Vec<u8>,
}

impl Wire {
    /// Transmits a line; returns the lines that the other side receives.
    fn carry(&mut self, line: &str, noise: Noise, random: &mut Random) -> Vec<String> {
        let mut out = Vec::new();
        let times = match () {
            () if random.happens(noise.lines) => 0,
            () if random.happens(noise.lines) => 2,
            () => 1,
        };
        let mut bytes = line.as_bytes().to_vec();
        if random.happens(noise.runs) {
            let from = random.below(bytes.len());
            let to = from + 1 + random.below(2 * bytes.len());
            bytes.drain(from..to.min(bytes.len()));
        }
        for _ in 0..times {
            for &byte in bytes.iter().chain(b"\n") {
                let (mut byte, mut times) = (byte, 1);
                if random.happens(noise.bytes) {
                    match random.below(3) {
                        0 => times = 0,
                        1 => byte ^= 1 << random.below(8),
                        _ => times = 2,
                    }
                }
                for _ in 0..times {
                    if byte == b'\n' || self.half.len() > MAX_LINE + 1 {
                        out.push(String::from_utf8_lossy(&self.half).into_owned());
                        self.half.clear();
                    }
                    if byte != b'\n' {
                        self.half.push(byte);
                    }
                }
            }
        }
        out
    }
}

/// A running board: the probe's own server, with a new machine for every trial, so that a repeated trial gives the same
/// result.
struct Board<'a> {
    description: &'a Description,
    place: ServerState,
}

/// A stream that reads one line and keeps all written lines.
struct SingleRequest {
    line: Option<String>,
    out: Vec<String>,
}

impl Lines for SingleRequest {
    type Error = core::convert::Infallible;

    fn read(&mut self, line: &mut String) -> Result<bool, Self::Error> {
        Ok(self.line.take().map(|l| line.push_str(&l)).is_some())
    }

    fn write(&mut self, line: &str) -> Result<(), Self::Error> {
        self.out.push(line.to_owned());
        Ok(())
    }
}

impl Board<'_> {
    fn switch_on(&mut self) -> Vec<String> {
        self.place = ServerState::default();
        self.serve(None)
    }

    fn serve(&mut self, line: Option<String>) -> Vec<String> {
        let mut one = SingleRequest { line, out: Vec::new() };
        let Ok(()) = serve_from(&mut Model::new(self.description, 1), &mut one, &mut self.place);
        one.out
    }
}

/// End of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Complete,
    /// The session gave up, with a reason.
    Broken,
    /// No more lines were received.
    Silent,
}

/// Maximum number of steps of a session; each is a sent line or a silence.
const MAX_STEPS: usize = 5_000;
/// Number of consecutive silences after which the command's patience is over.
const PATIENCE: usize = 12;

struct Outcome {
    end: End,
    transcript: Vec<String>,
    record: Record,
}

/// Runs a session over a faulty line.
fn converse(description: &Description, plan: Plan, run: Run, noise: Noise, seed: u64) -> Outcome {
    let mut random = Random(SplitMix64::new(seed));
    let mut board = Board { description, place: ServerState::default() };
    let (mut to, mut from) = (Wire::default(), Wire::default());
    let mut session = Session::new(plan, run);
    let mut transcript = session.head().to_vec();
    // Half of the boards were already running.
    let mut sent = if random.below(2) == 0 { board.switch_on() } else { Vec::new() };
    let mut silences = 0;
    for _ in 0..MAX_STEPS {
        let received: Vec<String> =
            sent.drain(..).flat_map(|line| from.carry(&line, noise, &mut random)).collect();
        let quiet = received.is_empty();
        for line in received {
            session.take(&line);
            transcript.push(line);
            transcript.extend(std::iter::from_fn(|| session.harness_line()));
        }
        let end = match () {
            () if session.broken().is_some() || session.incompatible_greeting().is_some() => {
                Some(End::Broken)
            }
            () if session.over() && (session.gone() || silences > PATIENCE) => Some(End::Complete),
            () if silences > PATIENCE => Some(End::Silent),
            () => None,
        };
        if let Some(end) = end {
            transcript.push(session.end(if end == End::Complete { "complete" } else { "failed" }, 0));
            return Outcome { end, transcript, record: session.record };
        }
        let lines = match session.may_send() {
            true => vec![session.next_line()],
            false if quiet => session.ping(),
            false => Vec::new(),
        };
        transcript.extend(std::iter::from_fn(|| session.harness_line()));
        silences = if quiet { silences + 1 } else { 0 };
        for line in lines.iter().flat_map(|line| to.carry(line, noise, &mut random)).collect::<Vec<_>>() {
            let trial = line.starts_with("trial");
            let mut response = board.serve(Some(line));
            if trial && random.happens(noise.resets) {
                response.truncate(random.below(response.len() + 1));
                response.extend(board.switch_on());
            }
            sent.extend(response);
        }
    }
    panic!("a session without end: {noise:?}, seed {seed}");
}

fn run(experiment: &str, bytes: &[u64], budget_ms: u64) -> Run {
    let sizes: Vec<String> = bytes.iter().map(u64::to_string).collect();
    let asked = Asked::default().with(&latency::options::BYTES, &sizes).expect("sizes");
    Run {
        experiment: experiment.into(),
        subject: "board".into(),
        seed: 1,
        budget_ms,
        asked,
        ..Run::default()
    }
}

/// Asserts the properties of every session on any line; returns its report.
fn judged(was: &Outcome, good: &Outcome, truth: &mut HashMap<String, TrialRun>, why: &str) -> Report {
    // The record gives the same when read from text.
    let again = Record::parse(&was.transcript.join("\n")).unwrap();
    assert!((&again.trials, &again.facts) == (&was.record.trials, &was.record.facts), "{why}");
    assert_eq!((&again.losses, &again.end), (&was.record.losses, &was.record.end), "{why}");
    let report = read(&was.record).expect("a report");
    assert!(format!("{report:?}") == format!("{:?}", read(&again).expect("a report")), "{why}");
    // Every trial that counts equals the same trial of an undisturbed session.
    for run in was.record.trials.iter().filter(|run| run.done.is_some() || run.refusal.is_some()) {
        let key = run.trial.line().render();
        if let Some(expected) = truth.get(&key) {
            assert!(run == expected, "trial {}: {why}", run.trial.id);
        } else {
            // After an abandoned trial the rounds may differ; a trial that is not in the undisturbed session must be
            // verified.
            truth.insert(key, run.clone());
        }
        assert_eq!(run.unverified, 0, "{why}");
    }
    if was.end != End::Complete {
        assert!(report.warnings.iter().any(|w| w.kind == WarningKind::Interrupted), "{why}");
        return report;
    }
    assert!(was.record.facts == good.record.facts, "{why}");
    if was.record.losses.lost.is_empty() {
        assert!(was.record.trials == good.record.trials, "{why}");
        let good = read(&good.record).expect("a report");
        // Compared as text, because refused values are NaN, which equals nothing.
        assert!(format!("{:?}", report.findings) == format!("{:?}", good.findings), "{why}");
    } else {
        assert!(report.warnings.iter().any(|w| w.kind == WarningKind::LossyLine), "{why}");
    }
    report
}

/// Returns the trials of a session without noise, by request line.
fn truth_of(good: &Outcome) -> HashMap<String, TrialRun> {
    good.record.trials.iter().map(|run| (run.trial.line().render(), run.clone())).collect()
}

const RATES: [Noise; 14] = [
    Noise { bytes: 0, lines: 0, runs: 0, resets: 0 },
    Noise { bytes: 3, lines: 0, runs: 0, resets: 0 },
    Noise { bytes: 30, lines: 0, runs: 0, resets: 0 },
    Noise { bytes: 300, lines: 0, runs: 0, resets: 0 },
    Noise { bytes: 1_000, lines: 0, runs: 0, resets: 0 },
    Noise { bytes: 10_000, lines: 0, runs: 0, resets: 0 },
    Noise { bytes: 0, lines: 3_000, runs: 0, resets: 0 },
    Noise { bytes: 0, lines: 30_000, runs: 0, resets: 0 },
    Noise { bytes: 0, lines: 300_000, runs: 0, resets: 0 },
    Noise { bytes: 0, lines: 0, runs: 0, resets: 50_000 },
    Noise { bytes: 0, lines: 0, runs: 0, resets: 500_000 },
    Noise { bytes: 0, lines: 0, runs: 30_000, resets: 0 },
    Noise { bytes: 0, lines: 0, runs: 200_000, resets: 0 },
    Noise { bytes: 100, lines: 10_000, runs: 10_000, resets: 20_000 },
];

/// Runs `seeds` sessions at every rate; returns the number of sessions by end, and the number of complete ones with
/// repeated trials.
fn all(plan: Plan, run: &Run, seeds: u64) -> (HashMap<End, usize>, usize) {
    let description = catalog::load("s1-8way").expect("embedded").expect("a description");
    let good = converse(&description, plan, run.clone(), Noise::default(), 0);
    assert_eq!((good.end, good.record.problems.len()), (End::Complete, 0));
    assert!(good.record.trials.len() > 10, "{} trials", good.record.trials.len());
    let mut truth = truth_of(&good);
    let (mut ends, mut retried) = (HashMap::new(), 0);
    for noise in RATES {
        for seed in 1..=seeds {
            let was = converse(&description, plan, run.clone(), noise, seed);
            judged(&was, &good, &mut truth, &format!("{noise:?}, seed {seed}"));
            *ends.entry(was.end).or_default() += 1;
            retried += usize::from(was.end == End::Complete && was.record.losses.again > 0);
        }
    }
    (ends, retried)
}

#[test]
fn latency_over_lossy_line_equals_lossless_or_is_missing() {
    let run = run(latency::NAME, &[8192, 1 << 16, 1 << 20], 200);
    let seeds = if full() { 25 } else { 10 };
    let (ends, retried) = all(latency::plan, &run, seeds as u64);
    println!("{ends:?}, {retried} complete after something was asked again");
    assert!(ends[&End::Complete] > 6 * seeds && retried > 2 * seeds, "{ends:?}, {retried}");
}

#[test]
fn survey_over_lossy_line_equals_lossless_or_gives_reason() {
    let (ends, retried) = all(survey::plan, &run(survey::NAME, &[], 200), 3);
    println!("{ends:?}, {retried} complete after something was asked again");
    assert!(ends[&End::Complete] > 12 && retried > 4, "{ends:?}, {retried}");
}

/// After abandoned trials the remaining values must agree with those of the undisturbed session.
#[test]
fn abandoned_trials_leave_remaining_findings_unchanged() {
    let description = catalog::load("s1-8way").expect("embedded").expect("a description");
    let run = run(latency::NAME, &[8192, 1 << 16, 1 << 20], 200);
    let good = converse(&description, latency::plan, run.clone(), Noise::default(), 0);
    let good = read(&good.record).expect("a report");
    let mut sessions_with_losses = 0;
    let seeds = if full() { 60 } else { 24 };
    for seed in 1..=seeds {
        let noise = Noise { bytes: 1_000, lines: 30_000, runs: 0, resets: 0 };
        let was = converse(&description, latency::plan, run.clone(), noise, seed);
        if was.record.losses.lost.is_empty() {
            continue;
        }
        sessions_with_losses += 1;
        for found in
            read(&was.record).expect("a report").findings.iter().filter(|f| f.name().ends_with(".latency"))
        {
            let (Value::Number(value), Some(low), Some(high)) = (&found.value, found.low, found.high) else {
                continue;
            };
            let expected = good.findings.iter().find(|f| f.name() == found.name()).expect("it was found");
            let (from, to) = (expected.low.expect("an interval"), expected.high.expect("an interval"));
            assert!(low <= to && high >= from, "{}: {value} ({low}..{high}), not {from}..{to}", found.name());
        }
    }
    assert!(sessions_with_losses > seeds / 6, "{sessions_with_losses} sessions with trials given up");
}

/// The greeting of a running board arrives twice: its own, and the requested one.
#[test]
fn repeated_first_greeting_is_harmless() {
    let description = catalog::load("s1-8way").expect("embedded").expect("a description");
    let plan: Plan = |_, _, _| Vec::new();
    let mut session = Session::new(plan, run("survey", &[], 100));
    let mut board = Board { description: &description, place: ServerState::default() };
    let mut requested = session.ping();
    assert_eq!((requested.len(), requested[0].as_str()), (2, ""));
    assert_eq!(session.harness_line().as_deref(), Some("hello"));
    let mut sent = board.switch_on();
    sent.extend(board.serve(requested.pop()));
    session.take(&sent[0]);
    let facts = session.next_line();
    session.take(&sent[1]);
    assert!(!session.may_send(), "the facts were asked for before");
    board.serve(Some(facts)).iter().for_each(|line| session.take(line));
    assert_eq!(Line::parse(&session.next_line()).unwrap().word, "bye");
    assert_eq!((session.record.problems.len(), session.record.losses.restarts), (0, 0));
    assert!(
        read(&session.record).expect("a report").warnings.iter().all(|w| w.kind == WarningKind::Interrupted)
    );
}
