//! Samples of Arm's SPE: traces whose records are planted, in files of perf, and what perf itself reads in them.

use serde_json::Value;

use crate::common::User;
use crate::perf_file::{Event, longs, machine, perf_file, record, text, words};
use crate::simulate::{TARGETS, compiled};

/// `type` of the PMU, and operations of a sample.
const PMU: u32 = 10;
const PERIOD: u64 = 65_536;
/// `PERF_SAMPLE_IP`, `_TID`, `_TIME`, `_CPU`, `_IDENTIFIER`, as perf record -e arm_spe// has them.
const SAMPLED: u64 = 1 | 2 | 4 | 1 << 7 | 1 << 16;
/// Kinds of records.
const COMM: u32 = 3;
const MMAP2: u32 = 10;
const AUX: u32 = 11;
const SWITCH_CPU_WIDE: u32 = 15;
const AUXTRACE_INFO: u32 = 70;
const AUXTRACE: u32 = 71;
const TIME_CONV: u32 = 79;
/// Numbers of features: the processor, the index of the trace.
const CPUID: u32 = 9;
const TRACED: u32 = 18;
/// Ns of a tick, and of tick 0.
const TICK: u64 = 40;
const ZERO: u64 = 1000;

/// A load: instruction, data, latency, events, source, thread, and its time, ns.
#[derive(Clone, Copy)]
struct Load {
    instruction: u64,
    data: u64,
    latency: u16,
    events: u16,
    source: u8,
    thread: Option<u32>,
    time: u64,
}

/// Events: retired, L1 accessed and refilled, TLB accessed and walked, last level accessed and missed.
const FROM_MEMORY: u16 = 0b11_0011_1110;
/// Retired, L1 and TLB accessed.
const FROM_L1: u16 = 0b1_0110;

impl Load {
    /// Its record, 64 bytes.
    fn record(&self) -> Vec<u8> {
        let thread = self.thread.map(|thread| [&[0x64][..], &thread.to_le_bytes()].concat());
        let parts = [
            [&[0xb0][..], &self.instruction.to_le_bytes()].concat(),
            thread.unwrap_or_default(),
            vec![0x49, 0, 0x98],
            self.latency.to_le_bytes().to_vec(),
            [&[0x52][..], &self.events.to_le_bytes()].concat(),
            [&[0xb2][..], &self.data.to_le_bytes()].concat(),
            vec![0x43, self.source],
            [&[0x71][..], &((self.time - ZERO) / TICK).to_le_bytes()].concat(),
        ];
        let mut all = parts.concat();
        all.resize(64, 0);
        all
    }
}

/// What all records but samples end with.
fn id(process: u32, time: u64, cpu: u32) -> Vec<u8> {
    [words(&[process, process]), longs(&[time]), words(&[cpu, 0]), longs(&[1])].concat()
}

fn started(process: u32, name: &str) -> Vec<u8> {
    let mut name = name.as_bytes().to_vec();
    name.resize(8, 0);
    record(COMM, 1 << 13, &[words(&[process, process]), name, id(process, 1, 0)].concat())
}

fn mapped(process: u32, [start, bytes, offset]: [u64; 3], protection: u32, name: &str, time: u64) -> Vec<u8> {
    let mut name = name.as_bytes().to_vec();
    name.resize(name.len() / 8 * 8 + 8, 0);
    let place = longs(&[start, bytes, offset, 0, 0, 0]);
    let body = [words(&[process, process]), place, words(&[protection, 2]), name, id(process, time, 0)];
    record(MMAP2, 2, &body.concat())
}

/// What the kernel tells of a part.
fn part([offset, bytes, flags]: [u64; 3], process: u32, time: u64, cpu: u32) -> Vec<u8> {
    record(AUX, 0, &[longs(&[offset, bytes, flags]), id(process, time, cpu)].concat())
}

/// A piece of the buffer of a CPU, padded to a multiple of 8 as perf does it.
fn piece(offset: u64, cpu: u32, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let head = [longs(&[bytes.len() as u64, offset, 0]), words(&[cpu, u32::MAX, cpu, 0])].concat();
    [record(AUXTRACE, 0, &head), bytes].concat()
}

/// A file with these records on a Neoverse N1.
fn file(records: &[Vec<u8>]) -> Vec<u8> {
    // Kind of the trace and PMU; a clock of a counter of 56 bits.
    let info = record(AUXTRACE_INFO, 0, &[words(&[4, 0]), longs(&[PMU.into(), 1])].concat());
    let flags = [1, 1, 0, 0, 0, 0, 0, 0];
    let clock = [longs(&[0, TICK, ZERO, 0, (1 << 56) - 1]), flags.to_vec()].concat();
    let begun = [record(TIME_CONV, 0, &clock), info];
    let events = [
        Event { name: "arm_spe_0/ts_enable=1,load_filter=1/", kind: PMU, period: PERIOD, sampled: SAMPLED },
        Event { name: "dummy:u", kind: 1, period: 1, sampled: SAMPLED },
    ];
    let features = [machine("aarch64"), (CPUID, text("0x00000000410fd0c0")), (TRACED, longs(&[0]))];
    perf_file(&events, &features, &[&begun, records].concat())
}

fn import(user: &User, bytes: &[u8], more: &[&str]) -> Value {
    std::fs::write(user.path("perf.data"), bytes).expect("a file");
    let did = user.run(&[&["import", "perf.data", "--json"], more].concat());
    assert!(did.status == 3 || did.status == 0, "{} {}", did.status, did.err);
    serde_json::from_str(&did.out).expect("JSON")
}

fn finding<'a>(document: &'a Value, name: &str) -> &'a Value {
    let all = document["findings"].as_array().expect("findings");
    all.iter().find(|f| f["name"] == name).unwrap_or_else(|| panic!("no {name}: {document:#}"))
}

/// Value, samples, median and 90th percentile of a finding.
fn row(document: &Value, name: &str) -> (f64, f64, Option<f64>, Option<f64>) {
    let f = finding(document, name);
    let of = |key: &str| f["detail"][key].as_f64();
    (
        f["value"].as_f64().expect("a number"),
        of("samples").expect("samples"),
        of("latency"),
        of("latency_p90"),
    )
}

/// Detail of the findings of a metric, with their samples.
fn all(document: &Value, metric: &str, detail: &str) -> Vec<(String, u64)> {
    let findings = document["findings"].as_array().expect("findings");
    let of = |f: &&Value| f["metric"] == metric;
    let shown = |f: &Value| {
        (
            f["detail"][detail].as_str().unwrap_or("-").to_owned(),
            f["detail"]["samples"].as_u64().expect("samples"),
        )
    };
    let mut all: Vec<(String, u64)> = findings.iter().filter(of).map(shown).collect();
    all.sort();
    all
}

fn named(all: &[(&str, u64)]) -> Vec<(String, u64)> {
    all.iter().map(|(name, samples)| ((*name).to_owned(), *samples)).collect()
}

const FAR: Load = Load {
    instruction: 0x1010,
    data: 0x7f00_0010,
    latency: 200,
    events: FROM_MEMORY,
    source: 0b1110,
    thread: None,
    time: 9000,
};
const NEAR: Load = Load { instruction: 0x2020, data: 0x2f00, latency: 4, events: FROM_L1, source: 0, ..FAR };

/// Processes 7 and 8, which have other code at the same addresses, and some memory of no file.
fn begun() -> Vec<Vec<u8>> {
    vec![
        started(7, "planted"),
        started(8, "other"),
        mapped(7, [0x1000, 0x1000, 0], 5, "[one]", 2),
        mapped(7, [0x2000, 0x1000, 0], 5, "[two]", 3),
        mapped(8, [0x1000, 0x1000, 0], 5, "[other]", 4),
        mapped(7, [0x7f00_0000, 0x1000, 0], 3, "//anon", 5),
    ]
}

fn bytes(loads: &[Load]) -> Vec<u8> {
    loads.iter().flat_map(Load::record).collect()
}

/// Samples are of the process that had the CPU, and of what it had in memory at their time, which is long before they are told.
#[test]
fn planted_records_come_back() {
    let user = User::new();
    let slow: Vec<Load> =
        (0..30).map(|n| Load { latency: 200 + n, time: 2000 + 40 * u64::from(n), ..FAR }).collect();
    let early = bytes(&[&slow[..], &[NEAR; 10]].concat());
    let late = bytes(&[Load { time: 50_000, ..FAR }; 5]);
    let of_other = bytes(&[FAR; 4]);
    let mut records = begun();
    // The piece is told before its parts, and the code at 0x1000 changes between the samples of the first one.
    let buffer = [early.clone(), late.clone()].concat();
    records.extend([
        mapped(7, [0x1000, 0x1000, 0], 5, "[three]", 40_000),
        part([1 << 20, early.len() as u64 + 64, 0], 7, 60_000, 0),
        part([(1 << 20) + early.len() as u64 + 64, late.len() as u64 - 64, 0], 7, 70_000, 0),
        piece(1 << 20, 0, &buffer),
        part([0, of_other.len() as u64, 0], 8, 61_000, 1),
        piece(0, 1, &of_other),
    ]);
    let document = import(&user, &file(&records), &["--record", "kept.fathom"]);
    assert_eq!(finding(&document, "profile.samples")["value"], 49);
    let code = all(&document, "profile.function.{rank}.share", "file");
    assert_eq!(code, named(&[("[one]", 30), ("[other]", 4), ("[three]", 5), ("[two]", 10)]));
    let data = all(&document, "profile.object.{rank}.share", "object");
    assert_eq!(data, named(&[("?", 4), ("[two]", 10), ("memory at 0x7f000000", 35)]));
    let levels = all(&document, "profile.level.{rank}.share", "level");
    assert_eq!(levels, named(&[("L1", 10), ("memory", 39)]));
    // Of 9 loads of 200 cycles, and 30 from 200 on.
    assert_eq!(row(&document, "profile.level.2.share").2, Some(210.0));
    let walks = row(&document, "profile.walks.share");
    assert!((walks.0 - 39.0 / 49.0).abs() < 1e-9 && walks.1 == 39.0, "{walks:?}");
    // What it has is printed, and nothing was lost.
    let report = user.run(&["report", "kept.fathom"]);
    for told in [
        "arm_spe_0/ts_enable=1,load_filter=1/",
        "Accesses whose translation was in no TLB",
        "A sample names the instruction itself.",
    ] {
        assert!(report.out.contains(told), "{told}: {}", report.out);
    }
    assert!(!report.out.contains("samples-lost"), "{}", report.out);
}

/// Functions and variables of a program, by the addresses that it has.
#[test]
fn functions_and_variables_of_planted_addresses_come_back() {
    let user = User::new();
    let source = "long table[4096] = { 1 }, zeros[4096];
__attribute__((noinline)) long inner(long n) { return table[n] + zeros[n]; }
int main(int n, char **all) { return (int)inner(n) + (all == 0); }
";
    let source = user.write("work.c", source);
    if compiled(&user, &TARGETS[4], &source, &["-no-pie", "-fno-pie"]).is_none() {
        return;
    }
    let symbols = user.shell("nm program");
    let address = |name: &str| {
        let line = symbols.out.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("a symbol");
        u64::from_str_radix(line.split(' ').next().expect("a number"), 16).expect("a number")
    };
    let mut records = vec![started(7, "program")];
    let program = user.path("program").canonicalize().expect("a path").display().to_string();
    // Type, offset, virtual and physical address, size in the file and in memory, flags.
    for line in user.shell("readelf -lW program").out.lines().filter(|line| line.trim().starts_with("LOAD")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [offset, start, size] =
            [1, 2, 4].map(|n| u64::from_str_radix(words[n].trim_start_matches("0x"), 16).expect("a number"));
        let begin = start % 4096;
        let protection = if line.contains("R E") { 5 } else { 3 };
        let place = [start - begin, (size + begin).next_multiple_of(4096), offset - begin];
        records.push(mapped(7, place, protection, &program, 2));
    }
    let of = |data: u64| Load { instruction: address("inner") + 4, data, ..FAR };
    let loads =
        [[of(address("table") + 800); 3].to_vec(), [of(address("zeros") + 16_000); 5].to_vec()].concat();
    let buffer = bytes(&loads);
    records.extend([part([0, buffer.len() as u64, 0], 7, 60_000, 0), piece(0, 0, &buffer)]);
    let document = import(&user, &file(&records), &[]);
    let functions = all(&document, "profile.function.{rank}.share", "function");
    assert_eq!(functions, named(&[("inner", 8)]), "{document:#}");
    assert_eq!(finding(&document, "profile.instruction.1.share")["detail"]["offset"], 4);
    let data = all(&document, "profile.object.{rank}.share", "object");
    assert_eq!(data, named(&[("table", 3), ("zeros", 5)]));
}

/// Of a whole machine a part has many processes: those that records name, else those that were switched to.
#[test]
fn records_of_a_whole_machine_have_their_processes() {
    let user = User::new();
    let switched = |process: u32, time: u64| {
        record(SWITCH_CPU_WIDE, 0, &[words(&[1, 1]), id(process, time, 0)].concat())
    };
    let at = |time: u64, thread: Option<u32>| Load { time, thread, ..FAR };
    // Nobody is known before the first switch.
    let loads = [at(2000, None), at(4000, None), at(6000, None), at(6040, Some(7)), at(6080, Some(99))];
    let buffer = bytes(&loads);
    let mut records = begun();
    records.extend([
        switched(7, 3000),
        switched(8, 5000),
        part([0, buffer.len() as u64, 0], 0, 9000, 0),
        piece(0, 0, &buffer),
    ]);
    let document = import(&user, &file(&records), &[]);
    let code = all(&document, "profile.function.{rank}.share", "file");
    assert_eq!(code, named(&[("[one]", 2), ("[other]", 2)]), "{document:#}");
    let told = document["warnings"].to_string();
    assert!(told.contains("1 records could not be read"), "{told}");
}

/// Parts that were cut short, samples that collided, pieces that are not there, and damage: told, with what is left.
#[test]
fn gaps_are_told_with_counts() {
    let user = User::new();
    let whole = bytes(&[FAR; 4]);
    let mut records = begun();
    // Two whole records, a part of one (whose piece perf pads), and one that begins where its padding is.
    let (first, second) = (&whole[..128 + 13], &whole[..64]);
    let mut damaged = bytes(&[FAR; 3]);
    damaged[70] = 0xff;
    damaged[73] = 0xff;
    records.extend([
        part([0, 141, 1], 7, 10_000, 0),
        part([141, 64, 8 | 4], 7, 20_000, 0),
        part([640, 192, 8], 7, 30_000, 0),
        part([1 << 30, 64, 0], 7, 40_000, 0),
        piece(0, 0, first),
        piece(141, 0, second),
        piece(640, 0, &damaged),
    ]);
    let document = import(&user, &file(&records), &[]);
    assert_eq!(finding(&document, "profile.samples")["value"], 5);
    let told = document["warnings"].to_string();
    for part in ["2 parts were cut short", "in 2 parts samples collided", "3 records could not be read"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // The description of newer versions of perf: version, words, type of the PMU, number of CPUs.
    let newer = record(AUXTRACE_INFO, 0, &[words(&[4, 0]), longs(&[2, 4, PMU.into(), 0])].concat());
    let document = import(&user, &file(&[vec![newer], records.clone()].concat()), &[]);
    assert_eq!(finding(&document, "profile.samples")["value"], 5);
    // With the description of a trace of another kind it has no samples.
    let other = record(AUXTRACE_INFO, 0, &[words(&[1, 0]), longs(&[PMU.into(), 1])].concat());
    std::fs::write(user.path("perf.data"), file(&[vec![other], records].concat())).expect("a file");
    let did = user.run(&["import", "perf.data"]);
    assert_eq!(did.status, 5, "{} {}", did.out, did.err);
}

/// Damage at any place of a file with a trace is told, or read as what it is.
#[test]
fn damaged_traces_are_told() {
    let user = User::new();
    let buffer = bytes(&[FAR; 4]);
    let mut records = begun();
    records.extend([part([0, buffer.len() as u64, 0], 7, 60_000, 0), piece(0, 0, &buffer)]);
    let whole = file(&records);
    let (mut told, mut read) = (0, 0);
    for at in (104..whole.len() - 8).step_by(41) {
        let mut damaged = whole.clone();
        damaged[at..at + 8].copy_from_slice(&(u64::MAX >> (at % 3)).to_le_bytes());
        std::fs::write(user.path("perf.data"), damaged).expect("a file");
        let did = user.run(&["import", "perf.data"]);
        assert!(!did.err.contains("panicked"), "{}", did.err);
        match did.status {
            2 => told += 1,
            0 | 3 | 5 => read += 1,
            other => panic!("{other}: {} {}", did.out, did.err),
        }
    }
    assert!(told > 1 && read > 10, "{told} told, {read} read");
}

/// perf itself finds the planted records in such a file: time, data, instruction and latency of each.
#[test]
fn perf_finds_the_planted_records() {
    let user = User::new();
    let nth = |n: u64| Load {
        instruction: 0x1000 + 4 * n,
        data: 0xffff_1234_0000 + 8 * n,
        latency: 100 + n as u16,
        time: 2000 + 40 * n,
        ..if n.is_multiple_of(3) { FAR } else { NEAR }
    };
    let loads: Vec<Load> = (0..50).map(nth).collect();
    let buffer = bytes(&loads);
    let mut records = begun();
    records.extend([piece(0, 0, &buffer), part([0, buffer.len() as u64, 0], 7, 60_000, 0)]);
    std::fs::write(user.path("perf.data"), file(&records)).expect("a file");
    let did = user.shell("perf script -i perf.data --itrace=i1i -F time,weight,addr,ip --ns");
    if did.status != 0 || !did.out.contains(':') {
        return fathom_skip::skipped!(Unchecked, "perf reads no traces of SPE here: {}", did.err);
    }
    let found: Vec<String> =
        did.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let line = |load: &Load| {
        let Load { instruction, data, latency, time, .. } = load;
        format!("0.{time:09}: {data:x} {latency} {instruction:x}")
    };
    assert_eq!(found, loads.iter().map(line).collect::<Vec<_>>());
}
