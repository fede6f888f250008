//! Tests of lines: written lines parse to the same values, and hostile input is an error, never a panic.

use super::*;
use crate::machine::ActivationRow;
use crate::pattern::{EvictionSet, Memory, PatternKind, Trial, Wake};
use crate::rows::{ActivationRows, Done, NearbyEvent, Sample, Samples};
use proptest::prelude::*;

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(|v| Value::Int(v.into())),
        "[a-z][a-z0-9_.-]{0,12}".prop_map(Value::Token),
        any::<String>().prop_map(|t| Value::Text(t.chars().take(60).collect())),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Hex),
        prop::collection::vec(any::<u64>().prop_map(i128::from), 2..12).prop_map(Value::List),
    ]
}

/// Keys that the seal does not use itself.
fn key() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_.]{0,6}".prop_filter("the seal's own", |key| !["seq", "crc"].contains(&key.as_str()))
}

fn line() -> impl Strategy<Value = Line> {
    ("[a-z][a-z0-9_.]{0,8}", prop::collection::btree_map(key(), value(), 0..8))
        .prop_map(|(word, pairs)| Line { word, pairs: pairs.into_iter().collect(), seq: None })
}

proptest! {
    #[test]
    fn rendered_line_parses_back(line in line()) {
        prop_assert_eq!(Line::parse(&line.render()).unwrap(), line);
    }

    #[test]
    fn sealed_line_parses_back_with_its_number(line in line(), seq: u64) {
        let sealed = line.seal(seq);
        let read = Line::parse(&sealed).unwrap();
        prop_assert_eq!(read.seq, Some(seq));
        prop_assert_eq!(read.pairs, line.pairs);
    }

    #[test]
    fn one_changed_character_of_a_sealed_line_is_detected(line in line(), at in 0usize..4096, with in b'0'..b'z') {
        let sealed = line.seal(7).into_bytes();
        let mut damaged = sealed.clone();
        let at = at % (damaged.len() - " crc=0x00000000".len());
        prop_assume!(damaged[at] != with && damaged[at].is_ascii());
        damaged[at] = with;
        let text = String::from_utf8(damaged).unwrap();
        prop_assert!(Line::parse(&text).is_err(), "{text}");
    }

    #[test]
    fn hostile_text_is_an_error_or_a_line(text in "\\PC{0,200}") {
        if let Ok(line) = Line::parse(&text) {
            let _ = (Trial::read(&line), Samples::read(&line), Done::read(&line));
        }
    }

    #[test]
    fn hostile_pairs_are_an_error_or_a_trial(text in "trial( pattern=(conflict|pair|single|side-by-side|probe))?( (id|chains|bytes|step|loads|with_cpu|with_bytes|order|page|period|group|offset|counted)=[-a-z0-9,]{0,24}){0,9}( sequence=\"[A-Fa-f?0-9 -]{0,24}\")?") {
        if let Ok(line) = Line::parse(&text)
            && let Ok(trial) = Trial::read(&line)
        {
            // An accepted trial has a layout without overflow.
            prop_assert!(trial.pattern.chain(&trial, 0, 0, 4096).is_none_or(|chain| chain.cells() >= 1));
            prop_assert!(trial.get::<EvictionSet>().is_some() || trial.extent(1 << 16) >= trial.memory.cells());
            prop_assert_eq!(Trial::read(&trial.line()), Ok(trial));
        }
    }

    #[test]
    fn samples_round_trip(list in prop::collection::vec(any::<(u64, u64, u64, u64)>(), 0..50), counted: bool) {
        let list: Vec<Sample> = list
            .into_iter()
            .map(|(ticks, ticks2, end, end2)| Sample { ticks, ticks2, end, end2, cycles: counted.then_some((end, ticks)), misses: counted.then_some((ticks, end)) })
            .collect();
        let sent = Samples { trial: 3, list };
        let mut got = Vec::new();
        for line in sent.lines() {
            let text = line.seal(u64::MAX);
            prop_assert!(text.len() <= MAX_LINE);
            got.extend(Samples::read(&Line::parse(&text).unwrap()).unwrap().list);
        }
        prop_assert_eq!(got, sent.list);
    }

    #[test]
    fn activations_round_trip(list in prop::collection::vec(any::<[u64; 7]>(), 0..50), seen in any::<[u64; 3]>()) {
        let place = |at: usize| (seen[at] > 0).then_some(seen[at]);
        let woke = |v: [u64; 7]| ActivationRow {
            missed: v[0], skipped: v[1], user_ns: v[2], work_ns: v[3], end: v[4], cpu: v[5], involuntary: v[6],
            irq_ns: place(0), wake_ns: place(1), switch_ns: place(2),
        };
        let sent = ActivationRows { trial: 3, first_ns: None, lost: 0, list: list.into_iter().map(woke).collect() };
        let mut got = Vec::new();
        for line in sent.lines() {
            let text = line.seal(u64::MAX);
            prop_assert!(text.len() <= MAX_LINE);
            got.extend(ActivationRows::read(&Line::parse(&text).unwrap()).unwrap().list);
        }
        prop_assert_eq!(got, sent.list);
    }
}

#[test]
fn trial_of_wake_ups_round_trips() {
    let typed = "trial pattern=wake every_ns=100000 priority=90 traced=1 flushed=1 evict=4096 samples=100000 \
                 confined=1 load=\"cpu*16 vm*2:128M\"";
    let trial = Trial::read(&Line::parse(typed).unwrap()).unwrap();
    let wakes = |trial: &Trial| trial.get::<Wake>().unwrap().wakes;
    let requested = wakes(&trial);
    assert_eq!((requested.every_ns, requested.priority, requested.evict), (100_000, 90, 4096));
    assert!(requested.traced && requested.flushed && trial.beside.confined);
    let kernels = Trial::read(&Line::parse("trial pattern=wake timerlat=1").unwrap()).unwrap();
    assert!(wakes(&kernels).timerlat && !requested.timerlat);
    assert_eq!(Trial::read(&kernels.line()).unwrap(), kernels);
    for (typed, says) in [
        ("trial pattern=wake timerlat=1 traced=1", "a kernel thread"),
        ("trial pattern=wake timerlat=2", "timerlat=2"),
        ("trial timerlat=1", "timerlat=1 is not for pattern=chase, but for pattern=wake"),
        ("trial pattern=wake confined=1", "confined=1 is for the workers of a load="),
        ("trial pattern=wake confined=2 load=cpu", "confined=2"),
    ] {
        let error = Trial::read(&Line::parse(typed).unwrap()).unwrap_err().what;
        assert!(error.contains(says), "{typed}: {error}");
    }
    assert_eq!(trial.beside.load.to_string(), "cpu*16 vm*2:128M");
    assert_eq!(Trial::read(&trial.line()).unwrap(), trial);
    let around = NearbyEvent { nth: 3, at_ns: 4, what: "switch \"a\" -> b".into() };
    assert_eq!(NearbyEvent::read(&around.line(7)).unwrap(), (7, around));
    let sent = ActivationRows {
        trial: 7,
        first_ns: Some(u64::MAX),
        lost: 3,
        list: [ActivationRow::default(); 40].into(),
    };
    let read: Vec<ActivationRows> =
        sent.lines().iter().map(|line| ActivationRows::read(line).unwrap()).collect();
    assert_eq!(read.iter().map(|w| w.first_ns).collect::<Vec<_>>(), [Some(u64::MAX), None, None]);
    assert_eq!(read.iter().map(|w| w.lost).sum::<u64>(), 3);
    let columns = Line::parse("woken trial=1 user=1,2,3 irq=1,2").unwrap();
    assert_eq!(ActivationRows::read(&columns).unwrap_err().what, "woken: columns of different lengths");
}

#[test]
fn trial_of_a_short_line_has_defaults_and_round_trips() {
    let typed = Trial::read(&Line::parse("trial bytes=8192").unwrap()).unwrap();
    assert_eq!(typed, Trial { memory: Memory { bytes: 8192, ..Memory::default() }, ..Trial::default() });
    assert_eq!(Trial::read(&typed.line()).unwrap(), typed);
}

#[test]
fn errors_name_the_key() {
    let error = |text: &str| match Line::parse(text) {
        Err(e) => e.what,
        Ok(line) => Trial::read(&line).unwrap_err().what,
    };
    assert_eq!(error("trial byte=8192"), "trial: unknown key byte");
    assert_eq!(
        error("trial bytes=8k"),
        "'bytes=8k': expected an integer, a list of integers, a lower-case token, \"text\" or 0x-bytes"
    );
    assert!(error("trial order=up").starts_with("trial: order=up is not one of: random window sequential "));
    assert_eq!(error("trial stride=48"), "trial: stride=48 must be a power of two up to 1048576");
    assert_eq!(
        error("trial pattern=conflict period=4100"),
        "trial: period=4100 must be a multiple of 8 from 8 to 1073741824"
    );
    assert_eq!(
        error("trial period=4096"),
        "trial: period=4096 is not for pattern=chase, but for pattern=single, conflict, pair, eviction-set"
    );
    assert!(error("trial pattern=alu order=sequential").contains("order=sequential is not for pattern=alu"));
    assert_eq!(
        Trial::read(&Line::parse("trial pattern=alu order=random window=4096").unwrap()).unwrap().kind(),
        PatternKind::Alu
    );
    assert!(error("trial pattern=pair period=64 stride=64 bytes=128").contains("2 cells at a stride of 64"));
    assert!(error("trial pattern=pair period=640 stride=64 bytes=192").contains("even number of cells"));
    assert!(error("trial pattern=eviction-set period=64").contains("eviction-set needs a sequence="));
    assert!(error("trial pattern=eviction-set period=64 sequence=\"A a\"").contains("two strides"));
    assert!(error("trial pattern=eviction-set period=64 sequence=\"A ?\"").contains("'?'"));
    assert!(error("trial pattern=pair group=3 period=640").contains("group=3"));
    assert_eq!(error("trial bytes=1 bytes=2"), "key 'bytes' occurs twice");
    assert!(error("trial with_cpu=0 with_bytes=64").contains("with_cpu"));
    assert!(error("trial load=\"vn*2\"").contains("load: 'vn' is not a stressor"));
    assert!(error("trial priority=90").contains("pattern=wake"));
    assert!(error("trial pattern=wake every_ns=1").contains("every_ns=1"));
    assert!(error("trial pattern=wake priority=100").contains("priority=100"));
    assert!(error("trial pattern=wake evict=3").contains("evict=3"));
    assert!(error("trial pattern=wake samples=1000000 every_ns=2000000").contains("1000 s"));
}

#[test]
fn every_token_has_its_inverse() {
    for &kind in PatternKind::ALL {
        assert_eq!(PatternKind::from_token(kind.token()), Some(kind));
    }
    for &trust in crate::machine::ClockTrust::ALL {
        assert_eq!(crate::machine::ClockTrust::from_token(trust.token()), Some(trust));
    }
    let all = "clock alu chase pages single stride conflict pair side-by-side spaced-chains eviction-set copy alias wake transfer";
    assert!(PatternKind::choices().starts_with(all), "{}", PatternKind::choices());
    macro_rules! inverse {
        ($($of:ident)*) => {
            $(for &value in crate::machine::dma::$of::ALL {
                assert_eq!(crate::machine::dma::$of::from_token(value.token()), Some(value));
            })*
        };
    }
    inverse!(Strategy Direction Engine Maintenance DriverBug);
}

#[test]
fn checksum_elsewhere_than_at_the_end_is_an_error() {
    let sealed = Line::new("done").int("trial", 1u64).seal(3);
    let spaced = Line::parse(&format!("{sealed}  \r\n")).unwrap();
    assert_eq!(
        (spaced.seq, spaced.pairs.len()),
        (Some(3), 1),
        "the checksum must be found before trailing blanks"
    );
    for bad in ["done crc=5", "done crc=0x12 trial=1", "done trial=1 seq=3 crc=0x+abcdef"] {
        assert!(Line::parse(bad).unwrap_err().what.contains("crc"), "{bad}");
    }
    let wrong = format!("{} ", sealed.replace("trial=1", "trial=2"));
    assert!(Line::parse(&wrong).unwrap_err().what.contains("differs"), "{wrong}");
}

#[test]
fn line_with_the_maximum_of_pairs_can_be_sealed() {
    let most = (0..MAX_PAIRS).fold(Line::new("fact"), |line, n| line.int(&format!("k{n}"), n as u64));
    assert_eq!(Line::parse(&most.seal(1)).unwrap().pairs, most.pairs);
    let more = most.int("more", 1u64);
    assert!(Line::parse(&more.seal(1)).unwrap_err().what.contains("64 pairs"));
}
