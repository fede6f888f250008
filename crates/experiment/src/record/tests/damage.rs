//! Damaged and hostile records.

use super::*;
use fathom_analysis::findings::WarningKind;
use proptest::prelude::*;

#[test]
fn a_lost_line_is_a_problem_with_the_number_of_the_next_one() {
    for i in 2..SESSION.len() - 2 {
        let mut lines = SESSION.clone();
        lines.remove(i);
        let record = read(&lines.join("\n")).unwrap();
        // Without its greeting the session has no known start, so no line is missed.
        if i == 2 {
            assert_eq!(record.trust, None);
            continue;
        }
        assert!(record.problems[0].starts_with(&format!("line {}: ", i + 1)), "{:?}", record.problems);
        assert!(damaged(&record).unwrap().contains(&format!("line {}: ", i + 1)));
    }
}

#[test]
fn repeated_line_counts_once() {
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
fn incomplete_fact_is_dropped_without_losing_others() {
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
fn number_of_kept_problems_is_bounded() {
    let mut text = SESSION.join("\n");
    text.push('\n');
    text.push_str(&"garbage in, \0 nothing out\n".repeat(50_000));
    let record = read(&text).unwrap();
    assert_eq!(record.problems.len(), MAX_PROBLEMS);
    assert_eq!(record.trials.len(), 3);
}

/// Returns random lines to replace or follow a line.
fn hostile_line() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z_.]{1,12}( [a-z_]{1,10}=(-?[0-9]{1,21}|[a-z]{1,8}|\"[^\"\n]{0,9}\"|0x([0-9a-f]{2}){0,9})){0,9}",
        "(run|end|hello|again|lost|probe|fact|facts_end|trial|sample|done|refusal|fault|gone)( [a-z_]{2,10}=[0-9]{1,20}){0,9}",
        any::<prop::sample::Index>().prop_map(|i| i.get(SESSION.as_slice()).clone()),
        // A valid line with random numbers, sealed.
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
            // The only flip without effect: a checksum's digit in capitals.
            let same = lines[line].eq_ignore_ascii_case(SESSION[line].as_bytes());
            prop_assert!(same && at > lines[line].len() - 9, "{}", String::from_utf8_lossy(&lines[line]));
            return Ok(());
        }
        // A flip may create a newline; the damage is then in this line or in the next.
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
        // A trial whose line was truncated is absent.
        for (a, b) in record.trials.iter().zip(&read(&text).unwrap().trials) {
            prop_assert_eq!(&a.trial, &b.trial);
        }
        prop_assert!(record.problems.len() <= 1, "{:?}", record.problems);
        let interrupted = survey::read(&record).warnings.iter().any(|w| w.kind == WarningKind::Interrupted);
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
fn excess_trials_are_reported_and_dropped() {
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
fn excess_of_invalid_lines_is_reported() {
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

/// As many samples as a file of a few megabytes has; a quadratic search would take too long.
#[test]
fn trial_with_very_many_unverified_samples_is_read() {
    let mut record = Record::default();
    record.push(&Record::first_line()).unwrap();
    let wrong_ends = vec![1u64; 200];
    let trial = Line::new("trial").int("bytes", 4096u64).int("loads", 7u64).seal(1);
    record.push(&trial).unwrap();
    let sample = Line::new("sample").int("trial", 0u64);
    let sample =
        ["ticks", "ticks2", "end", "end2"].iter().fold(sample, |line, key| line.list(key, &wrong_ends));
    for seq in 2..3002 {
        record.push(&sample.seal(seq)).unwrap();
    }
    record.push(&Done { page_bytes: 4096, ..Done::default() }.line().seal(3002)).unwrap();
    assert_eq!((record.problems.len(), record.trials[0].unverified), (0, 600_000));
    assert!(record.trials[0].samples.is_empty());
}
