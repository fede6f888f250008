//! Seeds of the fuzz targets: the records, descriptions and tables of the repository.

use std::path::{Path, PathBuf};

use fathom_model::Access;
use fathom_simulation::origin::pc_of;
use fathom_simulation::protocol::{Answer, End, GuestAnswer, HeapSites, Mapping, Place};
use fathom_simulation::{Accessor, Event, HeapEvent, Mark};
use fathom_trace::{Header, Writer};

use crate::{mutate, tables, trace, wire};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the files of a directory with this ending, by name; none if the directory does not exist.
fn files(directory: &str, ending: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(root().join(directory)).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.retain(|p| p.is_file() && p.to_string_lossy().ends_with(ending));
    paths.sort();
    paths.iter().map(|p| std::fs::read(p).unwrap_or_else(|e| panic!("{}: {e}", p.display()))).collect()
}

/// Returns inputs that fuzzing once found to fail; the defects are fixed.
pub fn found(target: &str) -> Vec<Vec<u8>> {
    files(&format!("crates/fathom/tests/fuzz/found/{target}"), "")
}

fn head(text: &[u8], lines: usize) -> Vec<u8> {
    text.split_inclusive(|&b| b == b'\n').take(lines).flatten().copied().collect()
}

const REQUESTS: &str = "facts
trial bytes=8192
trial id=1 round=1 pattern=pages bytes=640 stride=64 loads=17 samples=2
trial id=2 pattern=clock loads=1 samples=3
trial id=3 pattern=alu loads=100 samples=3 warm=10
trial id=4 pattern=single bytes=4096 loads=33 timed=4 samples=17
trial id=5 bytes=65536 order=window window=4096 page=huge seed=99 place=7
trial id=6 bytes=1024 order=sequential with_cpu=1,2 with_bytes=4096,64
trial id=7 attribute=device
trial id=8 pattern=conflict bytes=1152 stride=64 group=2 period=4096 page=huge loads=2049 samples=2 counted=1
trial id=9 pattern=pair bytes=4096 stride=64 period=1536 loads=513 samples=2
trial id=11 pattern=transfer bytes=1536 stride=8 strategy=zero-copy direction=from-device engine=edu pollution_set=4096 samples=3
trial id=10 pattern=eviction-set bytes=640 stride=64 period=4096 offset=256 sequence=\"A-H I A?\" samples=10
trial id=12 pattern=side-by-side bytes=131072 chains=1,4,12 loads=17 samples=6
trial id=12 pattern=spaced-chains bytes=131072 fillers=2,40,1024 loads=17 samples=6
trial size=8k
hello text=\"a \\u{1b}[31m \\\"b\\\" \\\\ \\n\" hex=0x00ff list=-1,2,3 token=a.b-c seq=18446744073709551615
bye
";

/// Seeds of the wire: lines typed by hand, and lines of records.
pub fn wire() -> Vec<Vec<u8>> {
    let unsealed = |record: Vec<u8>| -> Vec<u8> {
        record.split(|&b| b == b'\n').flat_map(|line| [mutate::unsealed(line), b"\n"].concat()).collect()
    };
    let records: Vec<Vec<u8>> = files("records", ".fathom").into_iter().map(unsealed).collect();
    let heads = records.iter().map(|r| head(r, 60));
    let tails = records.iter().map(|r| {
        let lines: Vec<&[u8]> = r.split_inclusive(|&b| b == b'\n').collect();
        lines[lines.len().saturating_sub(20)..].concat()
    });
    // Lines of records without seals, so that a mutation does not only fail the checksum.
    let plain = records.iter().map(|r| {
        let text = String::from_utf8_lossy(&head(r, 120)).into_owned();
        text.lines()
            .skip(80)
            .flat_map(|l| [l.split(" seq=").next().unwrap_or(l), "\n"])
            .collect::<String>()
            .into_bytes()
    });
    [REQUESTS.as_bytes().to_vec()].into_iter().chain(heads).chain(tails).chain(plain).collect()
}

/// Seeds of descriptions: every described machine, a small one, and a file of subjects.
pub fn description() -> Vec<Vec<u8>> {
    let subjects =
        "[pi]\ncommand = [\"ssh\", \"pi\", \"fathom\", \"serve\", \"host\"]\nabout = \"the board\"\n";
    let mut all = files("machines", ".toml");
    all.extend([subjects.as_bytes().to_vec(), wire::SMALL.as_bytes().to_vec()]);
    all
}

/// Seeds of records: every committed record, whole and truncated, and one with too few samples for a tier.
pub fn record() -> Vec<Vec<u8>> {
    let mut all = files("records", ".fathom");
    for n in 0..all.len() {
        all.push(head(&all[n], 100));
        all.push(head(&all[n], 160));
        // Few facts and few trials: quick to judge, and every line matters.
        let thin: Vec<u8> = all[n]
            .split_inclusive(|&b| b == b'\n')
            .enumerate()
            .filter(|(n, l)| !l.starts_with(b"fact ") || n % 9 == 0)
            .map(|(_, l)| l)
            .take(90)
            .flatten()
            .copied()
            .collect();
        all.push(mutate::resealed(&thin));
    }
    all.extend(WAKEUPS.iter().map(|(trust, requested, trials)| wakeup(trust, requested, trials)));
    all
}

/// Records of `fathom wakeup` that can be resumed: clock trust, options, and the conditions of each trial.
const WAKEUPS: [(&str, &str, &[&str]); 4] = [
    ("virtual", "", &["", "traced=1", "load=\"copy*2\"", "load=\"cpu*16 io*4 disk*2:256M\"", "flushed=1"]),
    (
        "virtual",
        "sweep=\"yes\" bytes=1048576,33554432 strides=64,4096 modes=\"free,keep,hold2,hold4\"",
        &[
            "",
            "load=\"vm*2:1M:64\"",
            "load=\"vm*2:1M:64\"",
            "load=\"vm*2:32M:4K:hold4\"",
            "load=\"vm*2:32M:64\"",
        ],
    ),
    (
        "real",
        "conditions=\"unloaded,vm\" load=\"cpu*2; vm:8M:64:keep\" like_stress=\"yes\" period=\"100us\" priority=0",
        &["", "timerlat=1", "load=\"cpu*2\"", "load=\"vm:8M:64:keep\"", "load=\"malloc*2:128M\""],
    ),
    (
        "modelled",
        "conditions=\"unloaded,flushed,copy\"",
        &["", "with_cpu=1 with_bytes=65536", "flushed=1", "with_cpu=1 with_bytes=65536"],
    ),
];

/// Returns a record with a few activations per trial, so that every line matters.
fn wakeup(trust: &str, requested: &str, trials: &[&str]) -> Vec<u8> {
    let mut text = format!(
        "fathom.record version=1\nrun experiment=\"wakeup\" subject=\"host\" seed=1 budget_ms=60000 {requested}\n\
         probe wire=1 trust={trust} seq=1 crc=0x0\n"
    );
    for (trial, under) in trials.iter().enumerate() {
        let numbers = |from: usize| {
            (0..8).map(|n| (from + 977 * ((n * 5 + trial) % 8)).to_string()).collect::<Vec<_>>().join(",")
        };
        let places = if under.contains("traced") {
            format!(" irq={} wake={} switch={}", numbers(1000), numbers(2000), numbers(3000))
        } else {
            String::new()
        };
        text += &format!(
            "trial id={trial} round={} pattern=wake bytes=64 loads=1 samples=8 warm=4 {under} seq=1 crc=0x0\n\
             woken trial={trial} first_ns=1000000 user={} work={} cpu=1,1,1,1,1,1,1,1{places} seq=1 crc=0x0\n\
             around trial={trial} nth=2 at_ns=0 what=\"local_timer\" seq=1 crc=0x0\n",
            1 + trial / 2,
            numbers(10_000),
            numbers(12_000),
        );
        if under.contains("load") {
            text += &format!(
                "load_stats trial={trial} stressor=0 ns=9000000 passes=7 lines=70 faults=7 bytes=700 seq=1 crc=0x0\n\
                 stalls trial={trial} cpu_us=9 memory_us=1 memory_full_us=0 io_us=2 io_full_us=1 seq=1 crc=0x0\n"
            );
        }
        text += &format!(
            "done trial={trial} page_bytes=4096 base=0 wall_ns=12000000 cpu_ns=300000 involuntary=0 steal_ns=0 \
             faults=64 accesses=9000 spent_ns=12000000 seq=1 crc=0x0\n"
        );
    }
    mutate::resealed(text.as_bytes())
}

#[test]
fn wakeup_seed_records_are_valid() {
    for (trust, requested, trials) in WAKEUPS {
        let text = wakeup(trust, requested, trials);
        let record =
            fathom_experiment::record::file::read(&String::from_utf8_lossy(&text)).expect("a record");
        assert_eq!(record.problems, Vec::<String>::new());
        fathom_experiment::check(&record).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            record.trials.iter().filter(|run| run.done.is_some()).count(),
            trials.len(),
            "{requested}"
        );
        assert!(!fathom_experiment::wakeup::plan(&record, 1, 60_000).is_empty(), "{requested}");
    }
}

/// Seeds of tables: the committed tables of real machines.
pub fn tables() -> Vec<Vec<u8>> {
    const FIXTURES: &str = "crates/analysis/tests/claims/fixtures";
    let trees = files(FIXTURES, ".dtb").into_iter().map(|b| packed("devicetree.blob", 0, 0, &b));
    let digit = |b: &u8| (*b as char).to_digit(16).map(|d| d as u8);
    let bytes = |hex: Vec<u8>| -> Vec<u8> {
        let lines = hex.split(|&b| b == b'\n').filter(|l| !l.starts_with(b"#"));
        let digits: Vec<u8> = lines.flatten().filter_map(digit).collect();
        digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    };
    let pptt = files(FIXTURES, ".pptt.hex").into_iter().map(|b| packed("acpi.pptt", 0, 0, &bytes(b)));
    let lists = files(FIXTURES, ".facts").into_iter().map(|b| listed(&String::from_utf8_lossy(&b)));
    trees.chain(pptt).chain(lists).chain([arm()]).collect()
}

/// Seeds of imports: results of other tools.
pub fn foreign() -> Vec<Vec<u8>> {
    const FIXTURES: &str = "crates/analysis/tests/import/fixtures";
    [".json", ".txt", ".gnuplot"].into_iter().flat_map(|ending| files(FIXTURES, ending)).collect()
}

/// Seeds of traces: a short one of each format, and longer ones of Fathom's own, without and with compression.
pub fn trace() -> Vec<Vec<u8>> {
    let lackey = "==1== Lackey\nI  04001000,3\n L 1ffefff,8\nI  04001003,7\n M 1fff000,4\nI  04001040,2\n S 1fff008,16\n";
    let view = "Output format:\n  1  0:  12 <marker: version 5>\n  2  1:  12 ifetch  5 byte(s) @ 0x404a7e 48 8b\n\
                \x20 3  1:  12 read  8 byte(s) @ 0x7f00 by PC 0x404a7e\n  4  2:  13 write  8 byte(s) @ 0x7f08 by PC 0x404a83\n";
    let memtrace = "Format: <data address>: <data size>, <(r)ead/(w)rite/opcode>\n0x40:  5, call\n0x80:  8, w\n0x88:  8, r\n";
    let mut champsim = Vec::new();
    for n in 1..20u64 {
        let words = [0x40_1000 + 4 * n, n % 3 / 2, 0x9000 + 8 * n, 0, 0x8000 * (n % 2), 0, 0, 0];
        champsim.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    let own = |rounds: u64, strides: u64, guest: bool| {
        let header = Header { program: "p".into(), fetch_shift: Some(5), guest };
        let mut writer = Writer::new(Vec::new(), &header).expect("memory");
        for n in 0..rounds {
            let jump = if n % strides == 0 { n.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { 8 * n };
            let batch = [
                Access::fetch(0x1000 + 32 * (n % 2), 4).at(n % 2),
                Access::load(jump, 8).at(2 + n % 5),
                Access::store(0x9000 + 8 * n, 4).at(7),
            ];
            let batch = batch.map(|access| {
                let (frame, by) = ((access.address >> 12) as u32 ^ (n / 50) as u32, Accessor::Kernel);
                let moved = Access { space: frame, pc: pc_of(access.pc as u32, 0, by), ..access };
                if guest { moved } else { access }
            });
            writer.add((n / 100 % 2) as u32, &batch).expect("memory");
            if n % 100 == 50 {
                let event = if n % 200 == 50 { Event::Begin(0) } else { Event::End(0) };
                writer.mark(0, Mark { event, instructions: n }).expect("memory");
                let block = HeapEvent::Allocated { address: 0x9000 + 8 * n, bytes: 400, site: 0 };
                writer.heap(1, if n % 200 == 50 { block } else { HeapEvent::Freed(0x9000) }).expect("memory");
            }
        }
        let places = (0..8).map(|n| Place { pc: 0x1000 + 4 * n, executed: n, loads: 1, stores: 2 }).collect();
        let mapping = Mapping { start: 0, end: 9, offset: 0, file: "/p".into(), checksum: Some(1) };
        let run = Answer {
            end: End::Complete,
            status: 0,
            target: "arm".into(),
            threads: 2,
            unseen: vec![("dc zva".into(), 1)],
            places,
            mappings: vec![mapping],
            regions: vec![],
            heap: HeapSites { returns: vec![0x1004], problem: None },
            calls: None,
            guest: guest.then(GuestAnswer::default),
            machines: vec![],
        };
        writer.finish(&run).expect("memory")
    };
    let mut all = vec![b"2 401000\n0 7fff0010\n1 0x7fff0018\n3 0\n".to_vec(), champsim];
    all.extend([lackey, view, memtrace].map(|text| text.as_bytes().to_vec()));
    for trace in [own(10, 3, false), own(300, 7, false), own(2000, 1000, false), own(20, 4, true)] {
        all.push(trace::plain(&trace));
        all.push(trace);
    }
    all
}

/// Returns a fact in the format of [`tables::run`].
fn packed(name: &str, digit: u8, kind: u8, value: &[u8]) -> Vec<u8> {
    let number =
        tables::NAMES.iter().position(|n| *n == name).unwrap_or_else(|| panic!("{name} is not decoded"));
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes();
    let mut out = vec![number as u8, digit, kind, length[0], length[1]];
    out.extend_from_slice(&value[..value.len().min(usize::from(u16::MAX))]);
    out
}

/// Returns the facts of a fixture (`NAME r REGISTERS` or `NAME t TEXT`) in the format of the target.
fn listed(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let mut words = line.splitn(3, ' ');
        let (Some(name), Some(kind), Some(value)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        // The target takes the digit in a name from the input.
        let known = |digit: &u8| tables::NAMES.iter().find(|n| n.replace('#', &digit.to_string()) == name);
        let Some((digit, name)) = (0..10u8).find_map(|d| Some((d, known(&d)?))) else { continue };
        out.extend(match kind {
            "t" => packed(name, digit, 1, value.as_bytes()),
            _ => {
                let words = value.split(' ').filter_map(|w| u32::from_str_radix(w, 16).ok());
                packed(name, digit, 0, &words.flat_map(u32::to_le_bytes).collect::<Vec<_>>())
            }
        });
    }
    out
}

/// Cortex-A72's cache registers (technical reference manual 100095, reset values with 32 KiB and 1 MiB).
fn arm() -> Vec<u8> {
    let int = |name, digit, value: u64| packed(name, digit, 2, &value.to_le_bytes());
    [
        int("arm.ctr_el0", 0, 0x8444_c004),
        int("arm.clidr_el1", 0, 0x0a20_0023),
        int("arm.ccsidr_el1.#.data", 1, 0x701f_e00a),
        int("arm.ccsidr_el1.#.instructions", 1, 0x201f_e012),
        int("arm.ccsidr_el1.#.data", 2, 0x707f_e07a),
        int("described.level.#.size", 1, 32768),
        packed("described.level.#.holds", 1, 1, b"data"),
    ]
    .concat()
}
