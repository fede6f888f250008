use fathom_analysis::claims::FactValue;
use fathom_analysis::findings::WarningKind;
use fathom_probe::pattern::{Alu, Trial};
use fathom_probe::rows::{Done, Sample};

use super::*;
use crate::record::{End, TrialRun};

/// Returns a record with these facts, ten seconds long.
fn record(facts: &[(&str, &str)]) -> Record {
    let value = |name: &str, text: &str| match text.parse() {
        Ok(number) if name.ends_with("khz") || name.ends_with("count") => FactValue::Int(number),
        _ => FactValue::Text(text.to_owned()),
    };
    let mut record = Record::default();
    record.facts.extend(facts.iter().map(|(name, text)| ((*name).to_owned(), value(name, text))));
    record.end = Some(End { status: "complete".into(), elapsed_ms: 10_000 });
    record
}

/// Adds a cycle calibration of this many ticks per operation, in a separate round.
fn cycle_calibration(record: &mut Record, ticks: u64) {
    let id = record.trials.len() as u64 + 1;
    let trial = Trial { id, round: id, loads: 1000, ..Trial::of(Alu) };
    let sample = Sample { ticks: 50, ticks2: 50 + ticks, ..Sample::default() };
    let done = Done { trial: id, ..Done::default() };
    let samples = vec![sample; 5];
    record.trials.push(TrialRun { trial, samples, done: Some(done), ..TrialRun::default() });
}

fn tokens(record: &Record) -> Vec<&'static str> {
    judge(record).iter().map(|w| w.kind.token()).collect()
}

#[test]
fn unknown_or_unchanged_facts_give_no_warning() {
    assert_eq!(tokens(&Record::default()), [""; 0]);
    let still = [
        ("env.core_throttle_count", "3"),
        ("env.after.core_throttle_count", "3"),
        ("env.pressure.cpu", "some avg10=0.00 total=1000; full total=0"),
        ("env.after.pressure.cpu", "some avg10=0.00 total=900000; full total=0"),
        ("env.get_throttled", "50005"),
        ("env.after.get_throttled", "50000"),
        // The first reading may be of a core that was just woken: no evidence.
        ("env.freq.cur.khz", "600000"),
        ("env.after.freq.cur.khz", "1500000"),
    ];
    let mut record = record(&still);
    cycle_calibration(&mut record, 1000);
    cycle_calibration(&mut record, 1010);
    assert_eq!(tokens(&record), [""; 0], "{:?}", judge(&record));
}

#[test]
fn a_changed_clock_is_reported_with_the_first_remedy_not_yet_applied() {
    let governor = "env.freq.governor";
    for (facts, expected) in [
        (&[][..], "no cpufreq"),
        (&[(governor, "ondemand"), ("env.freq.no_turbo", "0")], "scaling_governor"),
        (
            &[(governor, "performance"), ("env.freq.no_turbo", "0")],
            "echo 1 | sudo tee /sys/devices/system/cpu/intel",
        ),
        (&[(governor, "performance"), ("env.freq.boost", "1")], "echo 0 | sudo tee"),
        (&[(governor, "performance"), ("env.freq.no_turbo", "1")], "already"),
        (&[(governor, "performance")], "already"),
    ] {
        let mut record = record(facts);
        cycle_calibration(&mut record, 1000);
        cycle_calibration(&mut record, 1100);
        let reported = judge(&record);
        assert_eq!((reported.len(), reported[0].kind), (1, WarningKind::Frequency), "{reported:?}");
        assert!(reported[0].text.contains("10.0 %"), "{reported:?}");
        assert!(reported[0].remedy.contains(expected), "{reported:?}");
    }
}

#[test]
fn throttling_counts_from_the_start_of_the_session() {
    let record = record(&[("env.core_throttle_count", "3"), ("env.after.core_throttle_count", "5")]);
    let reported = judge(&record);
    assert!(
        reported[0].kind == WarningKind::Throttled && reported[0].text.contains("2 times"),
        "{reported:?}"
    );
    // Bit 18: throttled since boot, and not before this session.
    let pi = self::record(&[("env.get_throttled", "0x10000"), ("env.after.get_throttled", "0x50001")]);
    let reported = judge(&pi);
    assert!(
        reported[0].text.contains("throttling") && reported[0].text.contains("under-voltage"),
        "{reported:?}"
    );
    assert!(reported[0].remedy.contains("power supply"), "{reported:?}");
}

#[test]
fn waiting_tasks_are_reported_with_a_remedy_not_yet_applied() {
    let waited = |resource: &str, us: u64| {
        vec![
            (format!("env.pressure.{resource}"), "some avg10=9.00 total=5; full total=0".to_owned()),
            (
                format!("env.after.pressure.{resource}"),
                format!("some avg10=9.00 total={}; full total=0", us + 5),
            ),
        ]
    };
    let with = |facts: Vec<(String, String)>, more: &[(&str, &str)]| {
        let mut all: Vec<(&str, &str)> = facts.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        all.extend(more);
        judge(&record(&all))
    };
    let reported = with(waited("cpu", 4_000_000), &[]);
    assert!(reported[0].kind == WarningKind::Pressure && reported[0].text.contains("40 %"), "{reported:?}");
    assert!(reported[0].remedy.starts_with("stop other work"), "{reported:?}");
    let reported = with(waited("cpu", 4_000_000), &[("env.cpus.isolated", "2-3")]);
    assert!(reported[0].remedy.starts_with("CPUs are isolated already"), "{reported:?}");
    assert!(with(waited("memory", 200_000), &[])[0].text.contains("reclaim"));
    assert!(with(waited("io", 200_000), &[]).is_empty());
    // The duration of an interrupted session is unknown.
    let mut cut = record(&[]);
    cut.facts.extend(waited("cpu", 9_000_000).into_iter().map(|(n, v)| (n, FactValue::Text(v))));
    cut.end = None;
    assert_eq!(tokens(&cut), [""; 0]);
}
