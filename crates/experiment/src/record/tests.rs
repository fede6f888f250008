use std::sync::LazyLock;

use fathom_probe::pattern::{self, Clock, Memory};
use fathom_probe::rows::Sample;
use fathom_probe::wire::Value;
use proptest::prelude::*;

use super::*;
use crate::options::Asked;
use crate::{budget::Budget, disturbance, survey};

/// Returns a small complete session: facts (one in parts), a clock trial, a verified chase, a refusal, the end.
fn session() -> Vec<String> {
    let run = Run {
        experiment: "survey".into(),
        subject: "a \"board\"\nwith\ttwo lines".into(),
        seed: 7,
        budget_ms: 1000,
        build: "x".into(),
        command: "fathom survey --on 'a b'".into(),
        asked: Asked::default().switched_on(&survey::options::REPLACEMENT),
    };
    let chase = Trial { id: 2, round: 1, memory: Memory::of(8192, 64), samples: 20, ..Trial::default() };
    let chain = chase.pattern.chain(&chase, 0, 0, 4096).expect("a chain");
    let mut at = chase.warm;
    let list: Vec<Sample> = (0..chase.samples)
        .map(|i| {
            let end = chain.cell_at(at + chase.loads);
            at += 3 * chase.loads;
            Sample {
                ticks: 12_000 + i,
                ticks2: 24_000 + i,
                end,
                end2: chain.cell_at(at),
                ..Sample::default()
            }
        })
        .collect();
    let clock = Trial { id: 1, round: 1, loads: 3, samples: 1, ..Trial::of(Clock) };
    let tick = Sample { ticks: 5, ticks2: 30, ..Sample::default() };
    let done = |trial| Done {
        trial,
        page_bytes: 4096,
        translation: None,
        base: 0,
        spent_ns: 1_100_000,
        watch: Watch { wall_ns: 1_000_000, cpu_ns: 990_000, involuntary: 1, ..Watch::default() },
    };
    let mut sent = vec![
        Line::new("probe").int("wire", VERSION).token("trust", "virtual"),
        Line::new("fact").text("name", "page.base").int("int", 4096u64),
        Line::new("fact").text("name", "dt").int("part", 0u64).int("of", 2u64).hex("hex", &[1, 2]),
        Line::new("fact").text("name", "dt").int("part", 1u64).int("of", 2u64).hex("hex", &[3]),
        Line::new("fact").text("name", "env.cpu.model").text("text", "naïve \"core\""),
        Line::new("facts_end").int("count", 3u64),
        clock.line(),
    ];
    sent.extend(Samples { trial: 1, list: vec![tick] }.lines());
    sent.extend([done(1).line(), chase.line()]);
    sent.extend(Samples { trial: 2, list }.lines());
    sent.extend([
        done(2).line(),
        Trial { id: 3, round: 2, ..Trial::default() }.line(),
        Line::new("refusal").int("trial", 3u64).text("reason", "no pages").text("remedy", "free some"),
        Line::new("fault").text("what", "'x' is not asked here"),
        Line::new("fact").text("name", "env.after.loadavg").text("text", "1.00"),
        Line::new("gone"),
    ]);
    let mut lines = vec![Record::first_line(), run.line().render()];
    lines.extend(sent.iter().enumerate().map(|(i, line)| line.seal(i as u64 + 1)));
    lines.push(End { status: "complete".into(), elapsed_ms: 12 }.line().render());
    lines
}

static SESSION: LazyLock<Vec<String>> = LazyLock::new(session);

/// Reads a record, and computes everything that depends on it, to check that nothing panics.
fn read(text: &str) -> Result<Record, String> {
    let record = Record::parse(text)?;
    let _ = survey::read(&record);
    let _ = Budget::of(&record, u64::MAX).left();
    let _ = disturbance::judge(&record, &[], &[]);
    let _ = survey::plan(&record, 1, 1000);
    Ok(record)
}

fn damaged(record: &Record) -> Option<String> {
    let report = survey::read(record);
    report.warnings.iter().find(|w| w.token == "damaged-record").map(|w| w.text.clone())
}

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
    assert_eq!(record.text("env.after.loadavg"), Some("1.00"), "in addition to those of the start");
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
fn other_files_are_refused_with_the_expected_first_line() {
    for (text, says) in [
        ("", "empty"),
        ("hello\n", "fathom.record version=1"),
        ("\0\0\0\n", "line 1"),
        ("probe wire=1 trust=real\n", "'probe'"),
        ("fathom.record version=2\n", "up to 1: update it"),
        ("fathom.record version=0\n", "version 0"),
        ("fathom.record\n", "'version' is missing"),
        ("fathom.record version=1 colour=red\n", "colour"),
    ] {
        let error = Record::parse(text).unwrap_err();
        assert!(error.contains(says), "{text:?}: {error}");
    }
    let long = Record::parse(&"a".repeat(1 << 20)).unwrap_err();
    assert!(long.contains("limit") && long.len() < 300, "{long}");
}

#[test]
fn a_lost_line_is_reported_at_the_next_line() {
    for i in 2..SESSION.len() - 2 {
        let mut lines = SESSION.clone();
        lines.remove(i);
        let record = read(&lines.join("\n")).unwrap();
        // Without the greeting there is no earlier line number to compare with.
        if i == 2 {
            assert_eq!(record.trust, None);
            continue;
        }
        assert!(record.problems[0].starts_with(&format!("line {}: ", i + 1)), "{:?}", record.problems);
        assert!(damaged(&record).unwrap().contains(&format!("line {}: ", i + 1)));
    }
}

#[test]
fn a_repeated_line_counts_once() {
    let whole = read(&SESSION.join("\n")).unwrap();
    for i in 1..SESSION.len() {
        let mut lines = SESSION.clone();
        lines.insert(i, lines[i].clone());
        let record = read(&lines.join("\n")).unwrap();
        assert_eq!(record.problems.len(), 1, "{:?}", record.problems);
        assert!(record.problems[0].starts_with(&format!("line {}: ", i + 2)), "{:?}", record.problems);
        assert_eq!((&record.trials, &record.facts), (&whole.trials, &whole.facts), "{}", SESSION[i]);
        assert_eq!((&record.run, &record.end), (&whole.run, &whole.end));
    }
}

#[test]
fn incomplete_facts_are_dropped_and_a_missing_facts_end_is_tolerated() {
    let mut lines = SESSION.clone();
    let part = lines.iter().position(|l| l.contains("part=1")).unwrap();
    lines.remove(part);
    let record = read(&lines.join("\n")).unwrap();
    assert_eq!(record.facts.get("dt"), None);
    assert!(record.problems.iter().any(|p| p.contains("only 1 of 2 parts")), "{:?}", record.problems);

    let mut lines = SESSION.clone();
    lines.retain(|l| !l.starts_with("facts_end"));
    assert_eq!(read(&lines.join("\n")).unwrap().int("page.base"), Some(4096));
}

#[test]
fn a_probe_may_not_send_harness_lines() {
    for line in [End { status: "complete".into(), elapsed_ms: 0 }.line(), Run::default().line()] {
        let mut lines = SESSION[..3].to_vec();
        lines.push(line.seal(2));
        let record = read(&lines.join("\n")).unwrap();
        assert!(record.problems[0].contains("a line of the harness"), "{:?}", record.problems);
        assert_eq!((record.end, record.run.unwrap().seed), (None, 7));
    }
}

/// Returns the session with the two time columns of the chase swapped in its first `swapped` samples.
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
fn times_of_2n_below_n_are_refused() {
    let about = |record: &Record| {
        let report = survey::read(record);
        let of = |f: &&fathom_analysis::findings::Finding| f.name().starts_with("latency.8192.");
        let refused =
            report.refusals.iter().find(|r| r.what.starts_with("the time of trial 2 (chase of 8 KiB"));
        (report.findings.iter().filter(of).count(), refused.map(|r| r.reason.clone()))
    };
    // Unchanged, and with fewer than half of the samples contradicting the others.
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
        assert!(refused.is_some_and(|why| why.contains("less time than n")), "{swapped}");
    }
}

#[test]
fn an_unverified_sample_is_left_out() {
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
    // The first sample of each of its two lines is wrong. The next sample is still verified, because verification
    // counts loads, not cells.
    let unverified = read(&lines.join("\n")).unwrap();
    assert_eq!((unverified.trials[1].unverified, unverified.trials[1].samples.len()), (2, 18));
    record.trials[1].samples.remove(16);
    record.trials[1].samples.remove(0);
    assert_eq!(unverified.trials[1].samples, record.trials[1].samples);
    assert!(survey::read(&unverified).warnings.iter().any(|w| w.token == "unproven"));
}

#[test]
fn huge_numbers_are_read_or_refused_and_sums_do_not_overflow() {
    let max = u64::MAX;
    let mut lines = SESSION.clone();
    let end = lines.pop().unwrap();
    let mut seq = Line::parse(lines.last().unwrap()).unwrap().seq.unwrap();
    let mut push = |line: Line| {
        seq += 1;
        lines.push(line.seal(seq));
    };
    for id in [10u64, 11] {
        push(
            Trial {
                id,
                round: 3,
                memory: Memory::of(1 << 40, 64),
                loads: 1 << 32,
                warm: 1 << 32,
                ..Trial::of(pattern::Pages::default())
            }
            .line(),
        );
        let sample = Sample {
            ticks: max,
            ticks2: 0,
            end: max,
            end2: max,
            cycles: Some((max, 0)),
            misses: Some((max, 0)),
        };
        push(Samples { trial: id, list: vec![sample] }.lines().remove(0));
        let watch =
            Watch { wall_ns: max, cpu_ns: max, involuntary: max, steal_ns: max, faults: max, accesses: max };
        push(Done { trial: id, page_bytes: max, base: max, translation: None, watch, spent_ns: max }.line());
    }
    push(Trial { id: max, round: max, ..Trial::default() }.line());
    push(Line::new("fact").text("name", "late").int("part", max).int("of", max).int("int", max));
    lines.push(end);
    let record = read(&lines.join("\n")).unwrap();
    assert_eq!(record.trials.len(), 5);
    assert_eq!(record.round(), 3);
    assert_eq!(record.problems.len(), 2, "{:?}", record.problems);
    assert!(record.problems[0].contains("id and round"), "{:?}", record.problems);
    assert_eq!(Budget::of(&record, 1000).spent, max);
}

#[test]
fn stored_problems_are_limited() {
    let mut text = SESSION.join("\n");
    text.push('\n');
    text.push_str(&"garbage in, \0 nothing out\n".repeat(50_000));
    let record = read(&text).unwrap();
    assert_eq!(record.problems.len(), MAX_PROBLEMS);
    assert_eq!(record.trials.len(), 3);
}

/// Returns the session with a reset of the board during its second trial; the lines after it are numbered from 1 on.
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
fn an_unrequested_greeting_is_a_restart_that_loses_the_running_trial() {
    let whole = read(&SESSION.join("\n")).unwrap();
    let record = read(&reset(1, &[]).join("\n")).unwrap();
    assert_eq!((record.problems.len(), record.losses.restarts), (1, 1), "{:?}", record.problems);
    assert!(record.problems[0].contains("the probe was started again"), "{:?}", record.problems);
    // The interrupted trial never ended; all others are complete.
    assert_eq!((record.trials[1].trial.id, &record.trials[1].done), (2, &None));
    assert_eq!((&record.trials[0], &record.trials[2..]), (&whole.trials[0], &whole.trials[1..]));
    let warnings = survey::read(&record).warnings;
    let reported = warnings.iter().find(|w| w.token == "lossy-line").expect("a warning");
    assert_eq!(reported.text, "the probe was started again once");
    // Lines of the old trial after the greeting are ignored.
    let mut late = reset(1, &[]);
    let echo = late.iter().rposition(|l| l.starts_with("trial id=2")).unwrap();
    late.remove(echo);
    let record = read(&late.join("\n")).unwrap();
    assert!(record.trials[1].samples.is_empty() && record.trials[1].done.is_none());
}

#[test]
fn harness_lines_void_lost_trials() {
    let whole = read(&SESSION.join("\n")).unwrap();
    let harness_lines = ["hello", "again from=1 why=\"no end of it came\""];
    // A board may greet twice: after the `hello`, and on its own. A requested greeting is not a reset.
    let record = read(&reset(1, &harness_lines).join("\n")).unwrap();
    assert_eq!(record.trials, whole.trials);
    assert_eq!((record.problems.len(), record.losses.restarts, record.losses.again), (0, 0, 1));
    assert!(survey::read(&record).warnings.iter().any(|w| w.token == "lossy-line"));
    let record = read(&reset(2, &harness_lines).join("\n")).unwrap();
    assert_eq!((&record.trials, record.losses.restarts), (&whole.trials, 1));
    // A trial that was given up is a refusal in the report, and not one of the machine.
    let lost = ["lost what=\"trial 9: chase of 8 KiB\" reason=\"no end of it came\""];
    let record = read(&reset(0, &lost)[..].join("\n")).unwrap();
    let refused = survey::read(&record).refusals;
    assert!(refused.iter().any(|r| r.what == "trial 9: chase of 8 KiB"), "{refused:?}");
    // A probe does not send these lines.
    let mut lines = SESSION[..3].to_vec();
    lines.push(Line::new("again").int("from", 0u64).text("why", "").seal(2));
    let record = read(&lines.join("\n")).unwrap();
    assert_eq!((record.losses.again, record.problems.len()), (0, 1), "{:?}", record.problems);
}

#[test]
fn a_probe_that_changes_its_clock_trust_gets_the_lower_one() {
    let mut lines = SESSION[..5].to_vec();
    lines.push(Line::new("probe").int("wire", 1u64).token("trust", "emulated").seal(1));
    let record = read(&lines.join("\n")).unwrap();
    assert_eq!(record.trust, Some(ClockTrust::Emulated));
    assert!(record.problems.iter().any(|p| p.contains("another clock trust")), "{:?}", record.problems);
}

/// Returns hostile replacements of a line.
fn hostile_line() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z_.]{1,12}( [a-z_]{1,10}=(-?[0-9]{1,21}|[a-z]{1,8}|\"[^\"\n]{0,9}\"|0x([0-9a-f]{2}){0,9})){0,9}",
        "(run|end|hello|again|lost|probe|fact|facts_end|trial|sample|done|refusal|fault|gone)( [a-z_]{2,10}=[0-9]{1,20}){0,9}",
        any::<prop::sample::Index>().prop_map(|i| i.get(SESSION.as_slice()).clone()),
        // A valid, sealed line with hostile numbers.
        (any::<prop::sample::Index>(), any::<u64>(), any::<[u64; 12]>()).prop_map(|(i, seq, n)| {
            let text: &String = i.get(SESSION.as_slice());
            let mut line = Line::parse(text).unwrap();
            for ((_, value), n) in line.pairs.iter_mut().zip(n) {
                match value {
                    Value::Int(v) => *v = i128::from(n >> (n % 64)),
                    Value::List(list) => list.iter_mut().for_each(|v| *v = i128::from(n)),
                    _ => {}
                }
            }
            line.seal(seq >> (seq % 64))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_flipped_bit_in_a_probes_line_is_always_noticed(
        line in 2..SESSION.len() - 1,
        at in any::<prop::sample::Index>(),
        bit in 0..8u32,
    ) {
        let mut lines: Vec<Vec<u8>> = SESSION.iter().map(|l| l.clone().into_bytes()).collect();
        let at = at.index(lines[line].len());
        lines[line][at] ^= 1 << bit;
        let text = lines.join(&b'\n');
        let record = read(&String::from_utf8_lossy(&text)).unwrap();
        if record.problems.is_empty() {
            // The only flip without effect: a checksum's digit in upper case.
            let same = lines[line].eq_ignore_ascii_case(SESSION[line].as_bytes());
            prop_assert!(same && at > lines[line].len() - 9, "{}", String::from_utf8_lossy(&lines[line]));
            return Ok(());
        }
        // A flip may create a newline; the damage is then in the line or in the next one.
        let named = |n: usize| record.problems[0].starts_with(&format!("line {n}: "));
        prop_assert!(named(line + 1) || named(line + 2), "{:?}", record.problems);
        prop_assert!(damaged(&record).is_some());
    }

    #[test]
    fn a_record_cut_anywhere_is_read_up_to_there(at in any::<prop::sample::Index>()) {
        let text = SESSION.join("\n");
        let whole = Record::first_line().len();
        let mut cut = whole + at.index(text.len() - whole);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let record = read(&text[..cut]).unwrap();
        // A truncated line must not change a trial.
        for (a, b) in record.trials.iter().zip(&read(&text).unwrap().trials) {
            prop_assert_eq!(&a.trial, &b.trial);
        }
        prop_assert!(record.problems.len() <= 1, "{:?}", record.problems);
        let interrupted = survey::read(&record).warnings.iter().any(|w| w.token == "interrupted");
        prop_assert!(interrupted || record.end.is_some());
    }

    #[test]
    fn hostile_lines_never_panic(
        hostile in prop::collection::vec((any::<prop::sample::Index>(), hostile_line(), any::<bool>()), 1..6),
    ) {
        let mut lines = SESSION.clone();
        for (at, text, instead) in hostile {
            let at = 1 + at.index(lines.len() - 1);
            if instead { lines[at] = text } else { lines.insert(at, text) }
        }
        let record = read(&lines.join("\n"));
        prop_assert!(record.is_ok());
    }

    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let text = format!("{}\n{}", Record::first_line(), String::from_utf8_lossy(&bytes));
        prop_assert!(read(&text).is_ok());
    }
}

#[test]
fn a_truncated_last_line_is_a_problem() {
    let first = Record::first_line();
    let sealed = Line::new("probe").int("wire", 1u64).token("trust", "real").seal(1);
    let mut record = Record::default();
    for line in [first.as_str(), &sealed] {
        record.push(line).unwrap();
    }
    let mut cut = record.clone();
    cut.push_unended("end status=complete elapsed_ms=12").unwrap();
    assert_eq!((cut.end, cut.problems), (None, vec!["line 3: it has no newline: cut off".to_owned()]));
    // The checksum shows that only the newline is missing.
    let mut whole = Record::default();
    whole.push(&first).unwrap();
    whole.push_unended(&sealed).unwrap();
    assert!(whole.trust.is_some() && whole.problems.is_empty());
    assert!(Record::default().push_unended("fathom.recor").is_err());
}

#[test]
fn trials_beyond_the_limit_are_reported_and_dropped() {
    let mut record = Record::default();
    record.push(&Record::first_line()).unwrap();
    for n in 0..=MAX_TRIALS as u64 {
        assert_eq!(record.excess(), None);
        record.push(&Line::new("trial").int("id", n).seal(n + 1)).unwrap();
    }
    assert_eq!(record.excess(), Some("line 20002: more than 20000 trials, more than any session has"));
    assert_eq!(record.trials.len(), MAX_TRIALS);
    assert!(record.needs() > (MAX_TRIALS * size_of::<TrialRun>()) as u64);
}

#[test]
fn lines_without_content_are_limited() {
    for line in ["", "what is this"] {
        let mut record = Record::default();
        record.push(&Record::first_line()).unwrap();
        (0..MAX_DAMAGED).for_each(|_| record.push(line).unwrap());
        assert_eq!(record.excess(), None);
        record.push(line).unwrap();
        assert!(record.excess().is_some_and(|e| e.starts_with("line 100002: more than 100000 lines")));
        assert!(record.problems.len() <= MAX_PROBLEMS);
    }
}

/// As many as a file of a few megabytes holds; quadratic time would not end.
#[test]
fn a_trial_of_very_many_unverified_samples_is_read_in_linear_time() {
    let mut record = Record::default();
    record.push(&Record::first_line()).unwrap();
    let wrong = vec![1u64; 200];
    let trial = Line::new("trial").int("bytes", 4096u64).int("loads", 7u64).seal(1);
    record.push(&trial).unwrap();
    let sample = Line::new("sample").int("trial", 0u64);
    let sample = ["ticks", "ticks2", "end", "end2"].iter().fold(sample, |line, key| line.list(key, &wrong));
    for seq in 2..3002 {
        record.push(&sample.seal(seq)).unwrap();
    }
    record.push(&Done { page_bytes: 4096, ..Done::default() }.line().seal(3002)).unwrap();
    assert_eq!((record.problems.len(), record.trials[0].unverified), (0, 600_000));
    assert!(record.trials[0].samples.is_empty());
}
