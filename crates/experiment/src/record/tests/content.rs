//! Content of a record: lines, samples, restarts and clock trust.

use super::*;
use fathom_analysis::findings::WarningKind;
use fathom_probe::machine::CountedEvent;
use fathom_probe::rows::EventCount;

#[test]
fn every_line_of_a_session_is_read() {
    let record = read(&SESSION.join("\n")).unwrap();
    assert_eq!(record.problems, Vec::<String>::new());
    assert_eq!(damaged(&record), None);
    let run = record.run.as_ref().unwrap();
    assert_eq!((run.subject.as_str(), run.seed), ("a \"board\"\nwith\ttwo lines", 7));
    assert_eq!(record.trust, Some(ClockTrust::Virtual));
    assert_eq!(record.int("page.base"), Some(4096));
    assert_eq!(record.text("env.cpu.model"), Some("naïve \"core\""));
    assert_eq!(record.text("env.after.loadavg"), Some("1.00"), "beside those of the start, not instead");
    assert_eq!(record.facts.get("dt"), Some(&FactValue::Bytes(vec![1, 2, 3])));
    assert_eq!(record.trials.len(), 3);
    assert_eq!((record.trials[1].samples.len(), record.trials[1].unverified), (20, 0));
    assert_eq!(record.trials[2].refusal, Some(("no pages".into(), "free some".into())));
    assert_eq!(record.faults, ["'x' is not asked here"]);
    assert_eq!(record.end.as_ref().unwrap().status, "complete");
    assert_eq!(record.round(), 2);
}

#[test]
fn every_line_of_a_session_round_trips() {
    for text in SESSION.iter() {
        let line = Line::parse(text).unwrap();
        let again = match line.word.as_str() {
            "run" => Run::of_line(&line).unwrap().line(),
            "end" => End::read(&line).unwrap().line(),
            "trial" => Trial::read(&line).unwrap().line(),
            "sample" => Samples::read(&line).unwrap().lines().remove(0),
            "done" => Done::read(&line).unwrap().line(),
            _ => line.clone(),
        };
        let again = line.seq.map_or_else(|| again.render(), |seq| again.seal(seq));
        assert_eq!(&again, text);
    }
}

#[test]
fn non_record_is_refused_with_the_expected_first_line() {
    for (text, words) in [
        ("", "empty"),
        ("hello\n", "fathom.record version=1"),
        ("\0\0\0\n", "line 1"),
        ("probe wire=1 trust=real\n", "'probe'"),
        ("fathom.record version=2\n", "this program reads version 1"),
        ("fathom.record version=0\n", "version 0"),
        ("fathom.record\n", "'version' is missing"),
        ("fathom.record version=1 colour=red\n", "colour"),
    ] {
        let error = Record::parse(text).unwrap_err();
        assert!(error.contains(words), "{text:?}: {error}");
    }
    let long = Record::parse(&"a".repeat(1 << 20)).unwrap_err();
    assert!(long.contains("limit") && long.len() < 300, "{long}");
}

#[test]
fn probe_lines_cannot_be_harness_lines() {
    for line in [End { status: "complete".into(), elapsed_ms: 0 }.line(), Run::default().line()] {
        let mut lines = SESSION[..3].to_vec();
        lines.push(line.seal(2));
        let record = read(&lines.join("\n")).unwrap();
        assert!(record.problems[0].contains("is a line of the harness"), "{:?}", record.problems);
        assert_eq!((record.end, record.run.unwrap().seed), (None, 7));
    }
}

/// Returns the session in which the first `swapped` samples of the chase have their two times exchanged.
fn with_swapped_times(swapped: usize) -> Record {
    let mut left = swapped;
    let lines: Vec<String> = SESSION
        .iter()
        .map(|text| {
            let mut line = Line::parse(text).unwrap();
            if text.starts_with("sample trial=2") {
                let column = |line: &Line, key: &str| match line.pairs.iter().find(|p| p.0 == key) {
                    Some((_, Value::List(list))) => list.clone(),
                    other => panic!("{key}: {other:?}"),
                };
                let (mut short, mut long) = (column(&line, "ticks"), column(&line, "ticks2"));
                let here = left.min(short.len());
                left -= here;
                short[..here].swap_with_slice(&mut long[..here]);
                for (key, list) in [("ticks", short), ("ticks2", long)] {
                    let at = line.pairs.iter().position(|p| p.0 == key).unwrap();
                    line.pairs[at].1 = Value::List(list);
                }
            }
            line.seq.map_or_else(|| text.clone(), |seq| line.seal(seq))
        })
        .collect();
    read(&lines.join("\n")).unwrap()
}

#[test]
fn sample_with_decreasing_time_is_refused() {
    let about = |record: &Record| {
        let report = survey::read(record);
        let of = |f: &&fathom_analysis::findings::Finding| f.name().starts_with("latency.8192.");
        let refused =
            report.refusals.iter().find(|r| r.what.starts_with("the time of chase of 8 KiB (trial 2"));
        (report.findings.iter().filter(of).count(), refused.map(|r| r.reason.clone()))
    };
    // With no or with fewer than half of the samples in contradiction.
    for swapped in [0, 9] {
        let record = with_swapped_times(swapped);
        assert_eq!((record.trials[1].samples.len(), record.trials[1].contradicted), (20, None), "{swapped}");
        assert_eq!(about(&record).1, None, "{swapped}");
    }
    for swapped in [11, 20] {
        let record = with_swapped_times(swapped);
        let run = &record.trials[1];
        assert!(run.samples.is_empty() && run.contradicted.is_some_and(|t| t < 0.0), "{swapped}: {run:?}");
        assert_eq!(run.ticks_per_op().count(), 0);
        let (rows, refused) = about(&record);
        assert_eq!(rows, 0, "{swapped}");
        assert!(refused.is_some_and(|why| why.contains("2n operations took less time than n")), "{swapped}");
    }
}

/// Of part of a lap both runs count: all misses are in the n run, 13 ticks a load, and none in the 2n run, 4 ticks a load.
#[test]
fn misses_of_any_part_of_a_lap_are_in_the_time() {
    let trial = |bytes, loads| Trial { memory: Memory::of(bytes, 64), loads, ..Trial::default() };
    let run = |bytes, loads, ticks, ticks2| TrialRun {
        trial: trial(bytes, loads),
        samples: vec![Sample { ticks, ticks2, ..Sample::default() }],
        ..TrialRun::default()
    };
    let time = |run: &TrialRun| run.ticks_per_op().next().unwrap();
    let (lap, n) = (100_000 * 64, 32_769);
    assert!((time(&run(lap, n, 13 * n, 8 * n)) - 7.0).abs() < 1e-9);
    // A whole lap, and few loads, of which the readings of the clock take a part.
    assert!((time(&run(lap / 4, n, 5 * n + 100, 10 * n + 100)) - 5.0).abs() < 1e-9);
    assert!((time(&run(lap, 2048, 5 * 2048 + 100, 10 * 2048 + 100)) - 5.0).abs() < 1e-9);
}

#[test]
fn unverified_sample_is_left_out() {
    let mut record = read(&SESSION.join("\n")).unwrap();
    let lines: Vec<String> = SESSION
        .iter()
        .map(|text| {
            let mut line = Line::parse(text).unwrap();
            if text.starts_with("sample trial=2")
                && let Some((_, Value::List(ends))) = line.pairs.iter_mut().find(|p| p.0 == "end2")
            {
                ends[0] ^= 1;
            }
            line.seq.map_or_else(|| text.clone(), |seq| line.seal(seq))
        })
        .collect();
    // The first sample of both lines has a wrong end. The following samples are verified, because the end of a sample
    // depends on the number of loads and not on the previous sample.
    let unverified = read(&lines.join("\n")).unwrap();
    assert_eq!((unverified.trials[1].unverified, unverified.trials[1].samples.len()), (2, 18));
    record.trials[1].samples.remove(16);
    record.trials[1].samples.remove(0);
    assert_eq!(unverified.trials[1].samples, record.trials[1].samples);
    assert!(survey::read(&unverified).warnings.iter().any(|w| w.kind == WarningKind::Unverified));
}

/// Returns the session with a reset of the board in its second trial: after `greetings` greetings the session
/// continues, sealed from 1.
fn reset(greetings: usize, before: &[&str]) -> Vec<String> {
    let at = SESSION.iter().position(|l| l.starts_with("sample trial=2")).unwrap();
    let mut lines = SESSION[..at].to_vec();
    lines.extend(before.iter().map(ToString::to_string));
    for _ in 0..greetings {
        lines.push(SESSION[2].clone());
    }
    let again = at - 1..SESSION.len() - 1;
    lines.extend(
        SESSION[again].iter().enumerate().map(|(i, text)| Line::parse(text).unwrap().seal(i as u64 + 2)),
    );
    lines.push(SESSION.last().unwrap().clone());
    lines
}

#[test]
fn unrequested_greeting_is_a_restart_that_loses_the_trial() {
    let whole = read(&SESSION.join("\n")).unwrap();
    let record = read(&reset(1, &[]).join("\n")).unwrap();
    assert_eq!((record.problems.len(), record.losses.restarts), (1, 1), "{:?}", record.problems);
    assert!(record.problems[0].contains("the probe was started again"), "{:?}", record.problems);
    // The interrupted trial has no end; all others are present.
    assert_eq!((record.trials[1].trial.id, &record.trials[1].done), (2, &None));
    assert_eq!((&record.trials[0], &record.trials[2..]), (&whole.trials[0], &whole.trials[1..]));
    let warnings = survey::read(&record).warnings;
    let reported = warnings.iter().find(|w| w.kind == WarningKind::LossyLine).expect("a warning");
    assert_eq!(reported.text, "the probe was started again once");
    // After the greeting, lines of the old trial belong to no trial.
    let mut late = reset(1, &[]);
    let echo = late.iter().rposition(|l| l.starts_with("trial id=2")).unwrap();
    late.remove(echo);
    let record = read(&late.join("\n")).unwrap();
    assert!(record.trials[1].samples.is_empty() && record.trials[1].done.is_none());
}

#[test]
fn harness_lines_exclude_lost_trials() {
    let whole = read(&SESSION.join("\n")).unwrap();
    let harness_lines = ["hello", "again from=1 why=\"no end of it came\""];
    // A `hello` and an unrequested greeting may give two greetings; a requested greeting is not a reset.
    let record = read(&reset(1, &harness_lines).join("\n")).unwrap();
    assert_eq!(record.trials, whole.trials);
    assert_eq!((record.problems.len(), record.losses.restarts, record.losses.again), (0, 0, 1));
    assert!(survey::read(&record).warnings.iter().any(|w| w.kind == WarningKind::LossyLine));
    let record = read(&reset(2, &harness_lines).join("\n")).unwrap();
    assert_eq!((&record.trials, record.losses.restarts), (&whole.trials, 1));
    // A trial that was given up is listed as a refusal, but not as one of the machine.
    let lost = ["lost what=\"chase of 8 KiB (trial 9)\" reason=\"no end of it came\""];
    let record = read(&reset(0, &lost)[..].join("\n")).unwrap();
    let refused = survey::read(&record).refusals;
    assert!(refused.iter().any(|r| r.what == "chase of 8 KiB (trial 9)"), "{refused:?}");
    // A probe cannot send these lines.
    let mut lines = SESSION[..3].to_vec();
    lines.push(Line::new("again").int("from", 0u64).text("why", "").seal(2));
    let record = read(&lines.join("\n")).unwrap();
    assert_eq!((record.losses.again, record.problems.len()), (0, 1), "{:?}", record.problems);
}

#[test]
fn changed_clock_trust_keeps_the_lower() {
    let mut lines = SESSION[..5].to_vec();
    lines.push(Line::new("probe").int("wire", 1u64).token("trust", "emulated").seal(1));
    let record = read(&lines.join("\n")).unwrap();
    assert_eq!(record.trust, Some(ClockTrust::Emulated));
    assert!(record.problems.iter().any(|p| p.contains("another clock trust")), "{:?}", record.problems);
}

/// Sums over samples are dropped with one of their samples, and a second sum of the same event is a problem.
#[test]
fn counts_of_a_trial_are_read_unless_a_sample_is_left_out() {
    let counted = EventCount { event: CountedEvent::Refill(1), count: 5, count2: 9 };
    let memory = Memory::of(8192, 64);
    let trial = Trial { id: 1, round: 1, memory, loads: 300, samples: 2, ..Trial::default() };
    let of = |list: Vec<Sample>| {
        let lines = [
            Line::new("probe").int("wire", wire::VERSION).token("trust", "modelled"),
            trial.line(),
            Samples { trial: 1, list }.lines().remove(0),
            counted.line(1),
            counted.line(1),
            Done { trial: 1, page_bytes: 4096, ..Done::default() }.line(),
        ];
        let sealed = lines.iter().zip(1..).map(|(line, seq)| line.seal(seq));
        read(&std::iter::once(Record::first_line()).chain(sealed).collect::<Vec<_>>().join("\n")).unwrap()
    };
    let mut samples = verified_samples(&trial);
    let whole = of(samples.clone());
    assert_eq!(whole.trials[0].events, [counted]);
    assert!(whole.problems[0].contains("a second count of refill.cache.1"), "{:?}", whole.problems);
    samples[1].end2 += 1;
    let short = of(samples);
    assert_eq!((short.trials[0].samples.len(), short.trials[0].events.len()), (1, 0));
}
