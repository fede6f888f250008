//! Planted counts of the ARM1176's events come back with what its table says about them.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::count as metrics;

use crate::read;
use crate::record::{End, Record, Run, Simulated, SimulatedEvent, SimulatedEvents};

fn event(code: u64, name: &str, count: Result<u64, &str>) -> SimulatedEvent {
    SimulatedEvent { code, name: name.to_owned(), count: count.map_err(str::to_owned) }
}

fn planted(all: Vec<SimulatedEvent>) -> Report {
    planted_with([[60_000; 3], [30_000, 0, 60_000]], all)
}

/// The same with these times of a walk, and of a miss of the nearest TLB.
fn planted_with(translation: [[u64; 3]; 2], all: Vec<SimulatedEvent>) -> Report {
    let exactly = |cycles: u64| [1000 * cycles; 3];
    let events = SimulatedEvents {
        table: "arm1176".to_owned(),
        waits: 6_000_000 * 4096,
        tiers: vec![exactly(3), exactly(56)],
        translation: Some(translation),
        all,
    };
    let simulated = Simulated {
        program: "p".to_owned(),
        threads: 1,
        instructions: 2_000_000,
        clock_hz: 1,
        events: Some(events),
        ..Simulated::default()
    };
    let run = Run { experiment: super::super::super::NAME.to_owned(), ..Run::default() };
    let end = End { status: "complete".to_owned(), elapsed_ms: 1 };
    let mut lines = vec![Record::first_line(), run.line().render()];
    lines.extend(simulated.record_lines().iter().map(|line| line.render()));
    lines.push(end.line().render());
    let record = Record::parse(&lines.join("\n")).expect("a record");
    assert!(record.problems.is_empty(), "{:?}", record.problems);
    read(&record).expect("counted")
}

fn all_events() -> Vec<SimulatedEvent> {
    vec![
        event(0x05, "BR_EXEC", Err("branches are not told apart")),
        event(0x06, "BR_MISPREDICT", Err("branches are not told apart")),
        event(0x07, "INSTR_EXEC", Ok(2_000_000)),
        event(0x09, "DCACHE_ACCESS_CACHEABLE", Ok(400_000)),
        event(0x0b, "DCACHE_MISS", Ok(80_000)),
        event(0x0f, "MAIN_TLB_MISS", Ok(20_000)),
        event(0x11, "LSU_FULL_STALL", Err("a description has no queue")),
        event(0xff, "CPU_CYCLES", Ok(10_000_000)),
    ]
}

fn value(report: &Report, name: &str) -> f64 {
    let found = report.findings.iter().find(|finding| finding.name() == name);
    found.and_then(Finding::finite).unwrap_or_else(|| panic!("{name}: {:?}", report.findings))
}

#[test]
fn planted_events_come_back_by_number_and_name_with_their_caveats() {
    let report = planted(all_events());
    assert_eq!(report.trust, "modelled");
    assert_eq!(value(&report, "program.entry.4.count"), 400_000.0);
    assert_eq!(value(&report, "program.entry.4.per_thousand"), 200.0);
    let access = report.findings.iter().find(|f| f.name() == "program.entry.4.count").expect("above");
    let word = |field| access.detail.word(field).unwrap_or_default();
    assert_eq!([word(metrics::EVENT_CODE), word(metrics::EVENT_NAME)], ["0x09", "DCACHE_ACCESS_CACHEABLE"]);
    assert!(word(metrics::CAVEAT).contains("a sequential run over a line counts once"), "{access:?}");
    assert_eq!(word(metrics::DIFFERS), "");
    let cycles = report.findings.iter().find(|f| f.name() == "program.entry.8.count").expect("cycles");
    assert!(cycles.detail.word(metrics::DIFFERS).is_some_and(|text| text.contains("description")));
}

#[test]
fn misses_times_the_descriptions_latencies_are_explained_and_the_rest_is_told() {
    let report = planted(all_events());
    assert_eq!(value(&report, "program.explained.memory"), 80_000.0 * 53.0);
    assert_eq!(value(&report, "program.explained.translation"), 20_000.0 * 60.0);
    assert_eq!(value(&report, "program.explained.all"), 5_440_000.0);
    assert_eq!(value(&report, "program.explained.rest"), 4_560_000.0);
    assert_eq!(value(&report, "program.waits"), 6_000_000.0);
    // Without walks, a TLB miss takes what a farther TLB or a walk takes.
    let mut all = all_events();
    all[5] = event(0x04, "DTLB_MISS", Ok(20_000));
    let report = planted(all);
    let f = report.find(&metrics::EXPLAINED_TRANSLATION).expect("misses");
    assert_eq!((f.finite(), f.low, f.high), (Some(600_000.0), Some(0.0), Some(1_200_000.0)));
    // Beside walks, misses of the nearest TLB take what the next one takes: nothing in this description; 3 cycles in another one.
    let mut all = all_events();
    all[3] = event(0x04, "DTLB_MISS", Ok(120_000));
    assert_eq!(value(&planted(all.clone()), "program.explained.translation"), 20_000.0 * 60.0);
    let report = planted_with([[60_000; 3], [31_500, 3_000, 60_000]], all);
    assert_eq!(value(&report, "program.explained.translation"), 20_000.0 * 60.0 + 100_000.0 * 3.0);
    assert_eq!(value(&report, "program.explained.all"), 5_440_000.0 + 300_000.0);
    // Without misses nothing is explained, and nothing invented.
    let mut all = all_events();
    all[4] = event(0x0b, "DCACHE_MISS", Err("a reason"));
    assert!(planted(all).find(&metrics::EXPLAINED).is_none());
}

#[test]
fn events_that_are_not_counted_are_refused_by_name_those_with_one_reason_together() {
    let report = planted(all_events());
    let refused: Vec<(&str, bool)> = report
        .refusals
        .iter()
        .map(|r| (&*r.what, r.reason.starts_with("not counted in a simulation: ")))
        .collect();
    assert_eq!(refused, [("BR_EXEC, BR_MISPREDICT", true), ("LSU_FULL_STALL", true)]);
    assert!(report.findings.iter().all(|f| !f.name().starts_with("program.entry.1.")));
}

#[test]
fn an_unknown_table_keeps_its_counts() {
    let mut all = all_events();
    all.push(event(0xffff, "OF_A_LATER_VERSION", Ok(3)));
    assert_eq!(value(&planted(all), "program.entry.9.count"), 3.0);
}

/// A range is told as such: its middle would be no result.
#[test]
fn headline_tells_what_misses_explain_and_how_far_that_is_known() {
    let answer = |report: &Report| (super::super::super::KIND.headline)(report).answer;
    let exact = answer(&planted(all_events()));
    assert_eq!(
        exact,
        "2000000 instructions take 10000000 cycles of the description; the counted misses explain 54 % of them, translation 12 %."
    );
    let mut all = all_events();
    all[5] = event(0x04, "DTLB_MISS", Ok(20_000));
    let range = answer(&planted(all));
    assert!(range.contains("explain 42 to 54 % of them, translation 0 to 12 %"), "{range}");
    // The Cortex-A9 has no number of instructions.
    let mut all = all_events();
    all[2] = event(0x07, "INSTR_EXEC", Err("a reason"));
    assert!(answer(&planted(all)).starts_with("The program takes 10000000 cycles"));
}
