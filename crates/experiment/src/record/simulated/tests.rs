//! Lines of a simulated program.

use super::events::SimulatedEvent;
use super::why::SimulatedEnd;
use super::*;

fn sample() -> Simulated {
    let hot = Hot {
        function: "core::ptr::drop<A, B>".into(),
        file: "libc.so.6".into(),
        source: "a b.c:12".into(),
        instruction: None,
        executed: 1,
        accesses: 2,
        misses: vec![3, 4, 5],
        walks: 6,
        units: u64::MAX,
        overlapped: Some(u64::MAX),
        reasons: Some([1, 2, 3, 4, 5, 6]),
    };
    let end = SimulatedEnd {
        object: "a::b<C>".into(),
        offset: 64,
        function: "f".into(),
        source: "a b.c:12".into(),
        cpu: 1,
    };
    let call = |caller| SimulatedCall {
        caller,
        function: "f<A, B>".into(),
        file: "libc.so.6".into(),
        executed: 1,
        accesses: 2,
        walks: 3,
        units: u64::MAX,
        least: Some(u64::MAX),
        misses: vec![4],
    };
    Simulated {
        program: "a program".into(),
        target: "arm".into(),
        trace: "din".into(),
        refused: String::new(),
        ended: "exit status: 3".into(),
        replaced: true,
        threads: 1,
        instructions: 10,
        unseen: 0,
        accesses: [1, 2, 3],
        walks: 4,
        memory: 5,
        memory_writes: 6,
        units: [7, 8, 9, 10],
        sharing: Some(SimulatedSharing { invalidated: 1, transfers: 0, upgrades: u64::MAX }),
        clock_hz: 700_000_000,
        events: Some(SimulatedEvents {
            table: "arm1176".into(),
            waits: u64::MAX,
            tiers: vec![[3000, 3000, 3000], [56_000, 55_000, 57_000]],
            translation: Some([[60_000, 60_000, 60_000], [30_000, 0, 60_000]]),
            all: vec![
                SimulatedEvent { code: 0, name: "ICACHE_MISS".into(), count: Ok(7) },
                SimulatedEvent { code: 5, name: "BR_EXEC".into(), count: Err("a reason: \u{e9}".into()) },
            ],
        }),
        overlap: Some(SimulatedOverlap { outstanding: 3, window: 0, data: u64::MAX, fetches: 1 }),
        levels: vec![SimulatedLevel {
            name: "L1D".into(),
            holds: "data".into(),
            accesses: 3,
            reasons: Some([0, 1, 0, 0, 0, u64::MAX]),
            sharing: Some(SimulatedSharing::default()),
            ..Default::default()
        }],
        granule: 64,
        source: vec![SimulatedSource {
            file: "a b.c".into(),
            number: 12,
            text: "    sum += a[i]; /* \u{fc}% */".into(),
            executed: 1,
            accesses: 2,
            walks: 3,
            units: u64::MAX,
            overlapped: Some(u64::MAX),
            misses: vec![4],
        }],
        regions: vec![SimulatedRegion {
            name: "inner loop".into(),
            entered: 1,
            unmatched: 2,
            instructions: 3,
            accesses: 4,
            walks: 5,
            memory: 6,
            units: u64::MAX,
            entries: Some([1, 2, 3, u64::MAX]),
            least: Some(u64::MAX),
            reached: vec![8],
            misses: vec![9],
        }],
        guest: Some(SimulatedGuest { devices: [5, 6], unplaced: 7 }),
        nested: [300, 256],
        merged: 1,
        totals: vec![call(0)],
        calls: vec![call(0), call(1)],
        objects: vec![SimulatedObject {
            name: "heap".into(),
            misses: vec![7],
            walks: 8,
            units: 9,
            overlapped: Some(8),
            reasons: [9, 8, 7, 6, 5, 4],
            heap: Some([1, 2, 3, 4]),
            sharing: Some(SimulatedSharing { invalidated: u64::MAX, transfers: 5, upgrades: 6 }),
            ..Default::default()
        }],
        unfollowed: "no registers".into(),
        page_pairs: vec![SimulatedPair {
            level: 0,
            count: 9,
            end: end.clone(),
            by: end.clone(),
            ..Default::default()
        }],
        pairs: vec![SimulatedPair {
            level: 0,
            reason: 2,
            set: 3,
            count: 4,
            by: SimulatedEnd { function: String::new(), ..end.clone() },
            end,
        }],
        tlbs: vec![SimulatedTlb {
            name: "TLB 1".into(),
            accesses: 3,
            misses: 1,
            reasons: Some([1, 0, 0, 0, 0, 0]),
        }],
        functions: vec![hot.clone(), Hot { source: String::new(), ..Hot::default() }],
        lines: vec![hot.clone()],
        hot_instructions: vec![Hot {
            instruction: Some(Instruction { address: u64::MAX, offset: u64::MAX }),
            ..hot
        }],
    }
}

fn record(lines: &[Line]) -> Record {
    let lines: Vec<String> = lines.iter().map(Line::render).collect();
    Record::parse(&format!("{}\n{}", Record::first_line(), lines.join("\n"))).expect("a record")
}

#[test]
fn lines_read_back() {
    let record = record(&sample().record_lines());
    assert!(record.problems.is_empty(), "{:?}", record.problems);
    assert_eq!(record.simulated, Some(sample()));
}

#[test]
fn longest_texts_fit_in_lines() {
    let mut long = sample();
    let text = "\u{1f980} %".repeat(400);
    long.lines[0] =
        Hot { function: text.clone(), file: text.clone(), source: text.clone(), ..long.lines[0].clone() };
    (long.program, long.target, long.refused) = (text.clone(), text.clone(), text.clone());
    (long.trace, long.unfollowed) = (text.clone(), text.clone());
    long.lines[0].misses = vec![u64::MAX; MAX_UNITS];
    long.lines[0].reasons = Some([u64::MAX; 6]);
    long.hot_instructions[0] =
        Hot { instruction: long.hot_instructions[0].instruction, ..long.lines[0].clone() };
    (long.source[0].file, long.source[0].text) = (text.clone(), text.clone());
    long.source[0].misses = vec![u64::MAX; MAX_UNITS];
    long.regions[0].name = text.clone();
    (long.calls[1].function, long.calls[1].file) = (text.clone(), text.clone());
    long.calls[1].misses = vec![u64::MAX; MAX_UNITS];
    long.regions[0].misses = vec![u64::MAX; MAX_UNITS];
    long.regions[0].reached = vec![u64::MAX; MAX_UNITS];
    let object = SimulatedObject { name: text.clone(), file: text.clone(), ..long.objects[0].clone() };
    long.objects[0] =
        SimulatedObject { misses: vec![u64::MAX; MAX_UNITS], heap: Some([u64::MAX; 4]), ..object };
    let (offset, cpu, all) = (u64::MAX, u64::MAX, text);
    let end = SimulatedEnd { object: all.clone(), offset, function: all.clone(), source: all, cpu };
    long.pairs[0] = SimulatedPair { end: end.clone(), by: end, ..long.pairs[0].clone() };
    let record = record(&long.record_lines());
    assert!(record.problems.is_empty(), "{:?}", record.problems);
}

#[test]
fn wrong_lines_are_problems_with_their_number() {
    let mut lines = sample().record_lines();
    lines[1] = Line::new("simulated").token("part", "level").text("name", "x").list("counts", &[1]);
    lines.push(Line::new("simulated").token("part", "rumour"));
    let problems = record(&lines).problems;
    assert!(problems[0].contains("line 3") && problems[0].contains("counts has 1 numbers instead of 4"));
    assert!(problems[1].contains("a pair of level 0"), "the level was not read: {problems:?}");
    assert!(problems[2].contains("part=rumour is not one of"), "{problems:?}");
    let pair = SimulatedPair { level: 1, ..sample().pairs[0].clone() };
    let mut lines = sample().record_lines();
    lines.push(pair.record_line(Line::new("simulated").token("part", "pair")));
    assert!(record(&lines).problems[0].contains("a pair of level 1"), "{:?}", record(&lines).problems);
    let forward = SimulatedCall { caller: 3, ..sample().calls[0].clone() };
    let mut lines = sample().record_lines();
    lines.push(forward.record_line(Line::new("simulated").token("part", "call")));
    assert!(record(&lines).problems[0].contains("caller=3 is not one of 2"), "{:?}", record(&lines).problems);
    assert!(record(&lines[1..2]).problems[0].contains("before part=program"));
}
