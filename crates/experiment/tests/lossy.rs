//! Sessions over a line that drops, flips and repeats bytes and lines, and with boards that are reset: what comes
//! out is what the undisturbed session finds, or is not there, with a reason; and every session ends.

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

/// What the line does next: any seed will do.
struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// True in so many of a million cases.
    fn happens(&mut self, in_a_million: u64) -> bool {
        self.next() % 1_000_000 < in_a_million
    }
}

/// How bad it is: so many in a million, each.
#[derive(Clone, Copy, Debug, Default)]
struct Noise {
    /// Of the bytes: dropped, a bit flipped, repeated.
    bytes: u64,
    /// Of the lines: dropped, repeated.
    lines: u64,
    /// Of the lines: a run of bytes is missing, as where a buffer overflows; often all to the line's end.
    runs: u64,
    /// Of the trials: the board is reset in the middle.
    resets: u64,
}

/// One direction of the stream.
#[derive(Default)]
struct Wire {
    /// What came of a line that has not ended.
    half: Vec<u8>,
}

impl Wire {
    /// Carries a line; returns the lines that come out at the far end.
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

/// A board that is on: the probe's own server, on a machine that is new for every trial. So what a trial
/// finds depends on the trial alone, and a trial that was requested twice gives the same twice.
struct Board<'a> {
    description: &'a Description,
    place: ServerState,
}

/// One line in, all lines out.
struct One {
    line: Option<String>,
    out: Vec<String>,
}

impl Lines for One {
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
        let mut one = One { line, out: Vec::new() };
        let Ok(()) = serve_from(&mut Model::new(self.description, 1), &mut one, &mut self.place);
        one.out
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Complete,
    /// The session itself gave up, with a reason.
    Broken,
    /// Nothing came any more.
    Silent,
}

/// The steps of the longest session that may be; each is a line sent or a silence.
const MAX_STEPS: usize = 5_000;
/// Silences in a row after which the command's patience is over.
const PATIENCE: usize = 12;

struct Was {
    end: End,
    transcript: Vec<String>,
    record: Record,
}

/// A session over a bad line.
fn converse(description: &Description, plan: Plan, run: Run, noise: Noise, seed: u64) -> Was {
    let mut random = Random(SplitMix64::new(seed));
    let mut board = Board { description, place: ServerState::default() };
    let (mut to, mut from) = (Wire::default(), Wire::default());
    let mut session = Session::new(plan, run);
    let mut transcript = session.head().to_vec();
    // Half of the boards were on before.
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
            return Was { end, transcript, record: session.record };
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
            let mut said = board.serve(Some(line));
            if trial && random.happens(noise.resets) {
                said.truncate(random.below(said.len() + 1));
                said.extend(board.switch_on());
            }
            sent.extend(said);
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

/// What holds of every session, however bad its line.
fn judged(was: &Was, good: &Was, truth: &mut HashMap<String, TrialRun>, why: &str) -> Report {
    // From the file alone it gives the same, whatever stands in it.
    let again = Record::parse(&was.transcript.join("\n")).unwrap();
    assert!((&again.trials, &again.facts) == (&was.record.trials, &was.record.facts), "{why}");
    assert_eq!((&again.losses, &again.end), (&was.record.losses, &was.record.end), "{why}");
    let report = read(&was.record).expect("a report");
    assert!(format!("{report:?}") == format!("{:?}", read(&again).expect("a report")), "{why}");
    // Every trial that counts is what the same trial gives where nothing is lost.
    for run in was.record.trials.iter().filter(|run| run.done.is_some() || run.refusal.is_some()) {
        let key = run.trial.line().render();
        if let Some(expected) = truth.get(&key) {
            assert!(run == expected, "trial {}: {why}", run.trial.id);
        } else {
            // Rounds may differ where a trial was given up; alone it gives what it gives.
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
        // As text, because what was refused has no number, which equals nothing.
        assert!(format!("{:?}", report.findings) == format!("{:?}", good.findings), "{why}");
    } else {
        assert!(report.warnings.iter().any(|w| w.kind == WarningKind::LossyLine), "{why}");
    }
    report
}

/// The trials of a session without noise, each by its line.
fn truth_of(good: &Was) -> HashMap<String, TrialRun> {
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

/// Runs `seeds` sessions at every rate and returns how many ended how, and how many of the complete ones were asked
/// something again.
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

/// Is this the full tier (`scripts/test --full`)?
fn full() -> bool {
    std::env::var_os("FATHOM_FULL").is_some()
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

/// Whatever is given up, the figures that remain are near those of the undisturbed session.
#[test]
fn abandoned_trials_leave_remaining_findings_unchanged() {
    let description = catalog::load("s1-8way").expect("embedded").expect("a description");
    let run = run(latency::NAME, &[8192, 1 << 16, 1 << 20], 200);
    let good = converse(&description, latency::plan, run.clone(), Noise::default(), 0);
    let good = read(&good.record).expect("a report");
    let mut seen = 0;
    let seeds = if full() { 60 } else { 24 };
    for seed in 1..=seeds {
        let noise = Noise { bytes: 1_000, lines: 30_000, runs: 0, resets: 0 };
        let was = converse(&description, latency::plan, run.clone(), noise, seed);
        if was.record.losses.lost.is_empty() {
            continue;
        }
        seen += 1;
        for found in
            read(&was.record).expect("a report").findings.iter().filter(|f| f.name().ends_with(".latency"))
        {
            let (Value::Number(value), Some(low), Some(high)) = (&found.value, found.low, found.high) else {
                continue;
            };
            let there = good.findings.iter().find(|f| f.name() == found.name()).expect("it was found");
            let (from, to) = (there.low.expect("an interval"), there.high.expect("an interval"));
            assert!(low <= to && high >= from, "{}: {value} ({low}..{high}), not {from}..{to}", found.name());
        }
    }
    assert!(seen > seeds / 6, "{seen} sessions with trials given up");
}

/// The greeting of a board that is on twice: its own, and the requested one.
#[test]
fn repeated_first_greeting_is_harmless() {
    let description = catalog::load("s1-8way").expect("embedded").expect("a description");
    let plan: Plan = |_, _, _| Vec::new();
    let mut session = Session::new(plan, run("survey", &[], 100));
    let mut board = Board { description: &description, place: ServerState::default() };
    let mut requested = session.ping();
    assert_eq!((requested.len(), requested[0].as_str()), (2, ""));
    assert_eq!(session.harness_line().as_deref(), Some("hello"));
    let mut said = board.switch_on();
    said.extend(board.serve(requested.pop()));
    session.take(&said[0]);
    let facts = session.next_line();
    session.take(&said[1]);
    assert!(!session.may_send(), "the facts were asked for before");
    board.serve(Some(facts)).iter().for_each(|line| session.take(line));
    assert_eq!(Line::parse(&session.next_line()).unwrap().word, "bye");
    assert_eq!((session.record.problems.len(), session.record.losses.restarts), (0, 0));
    assert!(
        read(&session.record).expect("a report").warnings.iter().all(|w| w.kind == WarningKind::Interrupted)
    );
}
