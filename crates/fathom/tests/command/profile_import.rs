//! Samples of perf: files whose content is known by construction, hostile ones, and those of perf itself.

use serde_json::Value;

use crate::common::User;
use crate::perf_file::{Event, longs, machine, perf_file, record, words};
use crate::simulate::{TARGETS, compiled};

/// `PERF_SAMPLE_IP`, `_TID`, `_TIME`, `_CALLCHAIN`, `_ID`, `_PERIOD`.
const SAMPLED: u64 = 1 | 2 | 4 | 1 << 5 | 1 << 6 | 1 << 8;
/// A file with these events, numbered from 1, and these records.
fn file(events: &[&'static str], records: &[Vec<u8>]) -> Vec<u8> {
    file_of(SAMPLED, events, records)
}

/// The same, whose samples have this `sample_type`.
fn file_of(sampled: u64, events: &[&'static str], records: &[Vec<u8>]) -> Vec<u8> {
    let clock = |name: &&'static str| Event { name, kind: 1, period: 1000, sampled };
    let events: Vec<Event> = events.iter().map(clock).collect();
    perf_file(&events, &[machine("x86_64")], records)
}

/// What all records but samples end with: process, thread, time, event.
fn id(time: u64) -> Vec<u8> {
    [words(&[7, 7]), longs(&[time, 1])].concat()
}

fn sample(time: u64, event: u64, chain: &[u64]) -> Vec<u8> {
    let chain = [&[chain.len() as u64][..], chain].concat();
    let kernel = chain[1..].contains(&KERNEL);
    let body = [longs(&[chain[2]]), words(&[7, 7]), longs(&[time, event, 1000]), longs(&chain)].concat();
    record(9, if kernel { 1 } else { 2 }, &body)
}

/// A process `planted` with two pieces of code.
fn begun() -> Vec<Vec<u8>> {
    let map = |start: u64, name: &str| {
        let mut name = name.as_bytes().to_vec();
        name.resize(name.len() / 8 * 8 + 8, 0);
        let place = longs(&[start, 0x1000, 0]);
        record(10, 2, &[words(&[7, 7]), place, longs(&[0, 0, 0]), words(&[5, 2]), name, id(2)].concat())
    };
    let name = record(3, 1 << 13, &[words(&[7, 7]), b"planted\0".to_vec(), id(1)].concat());
    vec![name, map(0x1000, "[one]"), map(0x2000, "[two]")]
}

/// `PERF_CONTEXT_USER` and `_KERNEL`.
const IN_USER: u64 = -512_i64 as u64;
const IN_KERNEL: u64 = -128_i64 as u64;
/// An address in the kernel.
const KERNEL: u64 = 0xffff_8000_0000_1000;

/// 3 samples in `[two]`, called by `[one]`; 2 in `[one]`; 1 in the kernel, called by `[one]`.
fn planted() -> Vec<Vec<u8>> {
    let mut all = begun();
    all.extend((0..3).map(|n| sample(10 + n, 1, &[IN_USER, 0x2010, 0x1020])));
    all.extend((0..2).map(|n| sample(20 + n, 1, &[IN_USER, 0x1030])));
    all.push(sample(30, 1, &[IN_KERNEL, KERNEL, KERNEL, IN_USER, 0x1040]));
    all
}

fn finding<'a>(document: &'a Value, name: &str) -> &'a Value {
    let all = document["findings"].as_array().expect("findings");
    all.iter().find(|f| f["name"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

#[test]
fn planted_samples_come_back() {
    let user = User::new();
    std::fs::write(user.path("perf.data"), file(&["cpu-clock"], &planted())).expect("a file");
    let did = user.run(&["import", "perf.data", "--record", "kept.fathom", "--json"]);
    // Six samples are few.
    assert_eq!(did.status, 3, "{}", did.err);
    let document: Value = serde_json::from_str(&did.out).expect("JSON");
    assert_eq!(document["subject"]["trust"], "unknown");
    let samples = finding(&document, "profile.samples");
    assert_eq!((&samples["value"], &samples["detail"]["kernel"]), (&6.into(), &true.into()));
    let share = |name: &str| {
        let found = finding(&document, name);
        (found["value"].as_f64().expect("a share"), found["detail"].clone())
    };
    for (name, expected, file) in [
        ("profile.function.1.share", 3.0, Some("[two]")),
        ("profile.function.2.share", 2.0, Some("[one]")),
        ("profile.function.3.share", 1.0, None),
        ("profile.total.1.share", 6.0, Some("[one]")),
    ] {
        let (value, detail) = share(name);
        assert!(
            (value * 6.0 - expected).abs() < 1e-9 && detail["file"].as_str() == file,
            "{name}: {value} {detail}"
        );
    }
    // Two frames of the kernel are one.
    let folded = user.run(&["export", "kept.fathom", "--as", "folded"]);
    assert_eq!(folded.out, "? 2\n?;? 3\n?;[kernel] 1\n");
    assert!(user.run(&["report", "kept.fathom"]).out.contains("planted"));
}

#[test]
fn one_of_several_events_is_asked_for() {
    let user = User::new();
    let mut records = begun();
    records.extend([sample(10, 1, &[IN_USER, 0x1010]), sample(11, 2, &[IN_USER, 0x2010])]);
    std::fs::write(user.path("perf.data"), file(&["cycles", "cache-misses"], &records)).expect("a file");
    user.run(&["import", "perf.data"])
        .failed(2, &["perf.data: samples of several events", "cycles, cache-misses"]);
    user.run(&["import", "perf.data", "--event", "none"])
        .failed(2, &["no event none", "cycles, cache-misses"]);
    let did = user.run(&["import", "perf.data", "--event", "cache-misses"]);
    assert!(did.status == 3 && did.out.contains("samples by cache-misses"), "{} {}", did.out, did.err);
    user.write("hist.txt", "nothing");
    user.run(&["import", "perf.data", "hist.txt"]).failed(2, &["perf.data", "alone"]);
    user.run(&["import", "hist.txt", "--event", "cycles"]).failed(2, &["--event"]);
}

/// Damage at any place, lengths beyond all memory included: told, with status 2, or read as what it is.
#[test]
fn damaged_files_are_told() {
    let user = User::new();
    let whole = file(&["cpu-clock"], &planted());
    let mut files: Vec<Vec<u8>> = (8..whole.len()).step_by(149).map(|end| whole[..end].to_vec()).collect();
    for at in (8..whole.len().saturating_sub(8)).step_by(73) {
        for with in [u64::MAX, 1 << 40] {
            let mut damaged = whole.clone();
            damaged[at..at + 8].copy_from_slice(&with.to_le_bytes());
            files.push(damaged);
        }
    }
    let (mut told, mut read) = (0, 0);
    for bytes in files {
        std::fs::write(user.path("perf.data"), bytes).expect("a file");
        let did = user.run(&["import", "perf.data"]);
        assert!(!did.err.contains("panicked"), "{}", did.err);
        match did.status {
            2 => {
                assert!(did.err.contains("perf.data") && did.err.contains("remedy"), "{}", did.err);
                told += 1;
            }
            0 | 3 | 5 => read += 1,
            other => panic!("{other}: {} {}", did.out, did.err),
        }
    }
    assert!(told > 10 && read > 0, "{told} told, {read} read");
}

/// What perf itself has written, where it is installed.
#[test]
fn file_of_perf_is_read() {
    let user = User::new();
    let source =
        "__attribute__((noinline)) static void inner(long n) { for (volatile long i = 0; i < n; i++); }
__attribute__((noinline)) static void work(long n) { inner(n); __asm__ volatile(\"\"); }
int main(void) { work(100000000); return 0; }
";
    if !cfg!(target_arch = "x86_64") {
        return fathom_skip::skipped!(Unchecked, "this host is no x86-64");
    }
    if compiled(&user, &TARGETS[4], &user.write("work.c", source), &[]).is_none() {
        return;
    }
    let did = user.shell("perf record -q -e cpu-clock:u --call-graph dwarf -o perf.data ./program");
    if did.status != 0 {
        return fathom_skip::skipped!(Unchecked, "perf does not record here: {}", did.err);
    }
    let did = user.run(&["import", "perf.data", "--record", "kept.fathom"]);
    assert!(
        did.status == 0 && did.out.contains("of the time in user space is in inner"),
        "{} {}",
        did.out,
        did.err
    );
    let folded = user.run(&["export", "kept.fathom", "--as", "folded"]);
    assert!(folded.out.lines().any(|line| line.contains(";main;work;inner ")), "{}", folded.out);
}

/// `PERF_SAMPLE_IP`, `_TID`, `_TIME`, `_ADDR`, `_ID`, `_PERIOD`, `_DATA_SRC`, `_PHYS_ADDR`, `_DATA_PAGE_SIZE`; those of perf mem record.
const OF_ACCESSES: u64 = 1 | 2 | 4 | 8 | 1 << 6 | 1 << 8 | 1 << 15 | 1 << 19 | 1 << 22;
/// `PERF_SAMPLE_WEIGHT` and `_WEIGHT_STRUCT`.
const WEIGHTS: [u64; 2] = [1 << 14, 1 << 24];
/// `union perf_mem_data_src` of loads from the first level, and from memory of this node: Intel's, with both fields for levels.
const FROM_L1: u64 = 2 | (0x08 | 2) << 5 | 1 << 33;
const FROM_MEMORY: u64 = 2 | (0x80 | 2) << 5 | 13 << 33;

/// A load from `data`; of a structure the upper half of the weight is not the latency.
fn access(time: u64, data: u64, latency: u64, source: u64) -> Vec<u8> {
    let head = [longs(&[0x1010]), words(&[7, 7]), longs(&[time, data, 1, 1000])].concat();
    record(9, 2, &[head, longs(&[latency, source, 0x7000, 4096])].concat())
}

/// Samples of `perf mem record` are told by object, latency and level, however perf writes the latency.
#[test]
fn accesses_of_perf_are_reported_by_object_latency_and_level() {
    let user = User::new();
    let mut records = begun();
    // Other memory of no file.
    let mut name = b"//anon".to_vec();
    name.resize(8, 0);
    let place = longs(&[0x7f00_0000, 0x1000, 0]);
    records.push(record(
        10,
        2,
        &[words(&[7, 7]), place, longs(&[0, 0, 0]), words(&[3, 2]), name, id(3)].concat(),
    ));
    records.extend((0..30).map(|n| access(10 + n, 0x7f00_0010, 200 + n, FROM_MEMORY)));
    records.extend((0..10).map(|n| access(50 + n, 0x2010, 5, FROM_L1)));
    for weight in WEIGHTS {
        // The structure's upper half has other times.
        let upper = if weight == WEIGHTS[1] { 77 << 32 } else { 0 };
        let mut records = records.clone();
        if upper > 0 {
            for of in records.iter_mut().filter(|of| of[0] == 9) {
                let at = of.len() - 32;
                let latency = u64::from_le_bytes(of[at..at + 8].try_into().expect("a word")) | upper;
                of[at..at + 8].copy_from_slice(&latency.to_le_bytes());
            }
        }
        let event = "cpu/mem-loads,ldlat=30/P";
        std::fs::write(user.path("perf.data"), file_of(OF_ACCESSES | weight, &[event], &records))
            .expect("a file");
        let did = user.run(&["import", "perf.data", "--json"]);
        assert_eq!(did.status, 3, "{}", did.err);
        let document: Value = serde_json::from_str(&did.out).expect("a document");
        let row = |name: &str| {
            let f = finding(&document, name);
            let number = |of: &Value| of.as_f64().unwrap_or_else(|| panic!("{f}"));
            let of = |key: &str| number(&f["detail"][key]);
            (number(&f["value"]), of("samples"), of("latency"), of("latency_p90"))
        };
        assert_eq!(row("profile.level.1.share"), (0.25, 10.0, 5.0, 5.0));
        assert_eq!(row("profile.level.2.share"), (0.75, 30.0, 214.0, 226.0));
        assert_eq!(finding(&document, "profile.level.2.share")["detail"]["level"], "memory");
        assert_eq!(row("profile.object.1.share"), (0.75, 30.0, 214.0, 226.0));
        assert_eq!(finding(&document, "profile.object.1.share")["detail"]["object"], "memory at 0x7f000000");
    }
    let text =
        user.run(&["import", "perf.data", "--color", "never"]).err + &user.run(&["import", "perf.data"]).out;
    assert!(text.contains("Where the data of accesses were") && text.contains("p90, cycles"), "{text}");
    assert!(text.contains("A sample names the instruction itself."), "{text}");
}
