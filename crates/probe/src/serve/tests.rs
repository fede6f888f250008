//! Tests of the server on a machine of plain memory, and on defective variants of it.

use super::*;
use crate::machine::batch::chase;
use crate::machine::batch::copy::{self, Copying};
use crate::machine::batch::stride::{self, Sweep};
use crate::machine::{
    ClockTrust, Control, Counters, Disturb, Dma, Fresh, Maintain, MapRequest, Mapping, Pages, Ticks,
    Translate, Wake, Watch,
};
use crate::pattern::{Copy, Memory, Pattern, Stride};
use crate::rows::{Rows, Sample, Samples};
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

/// Defect of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cheat {
    Honest,
    /// The loop never runs.
    Idle,
    /// The loop loses one load.
    OneShort,
    /// Only whole laps are run, so the loop ends where it began.
    Home,
    /// Every load returns its own cell.
    Stuck,
    /// The batch form works, a single load does not.
    Unloaded,
    /// A sweep covers half of its cells.
    Narrow,
    /// A sweep accesses the same cell every time.
    Hoisted,
    /// A sweep makes only the accesses that later laps of the same run do not repeat.
    LastLap,
    /// A sweep stores nothing.
    Lost,
    /// A sweep makes every second access, twice.
    Twice,
    /// A load returns the value of unwritten memory without loading.
    Guessed,
    /// No defect, but its clock is revoked during each trial.
    Timeless,
}

struct Plain {
    memory: Vec<u64>,
    time: u64,
    cheat: Cheat,
    lap: u64,
    in_batch: bool,
    untouched: Vec<bool>,
    faults: u64,
}

impl Plain {
    fn new(cheat: Cheat) -> Plain {
        let memory = vec![0; 1 << 15];
        Plain { memory, time: 0, cheat, lap: 0, in_batch: false, untouched: Vec::new(), faults: 0 }
    }
    fn touch(&mut self, at: usize) {
        if let Some(page) = self.untouched.get_mut(at / 512) {
            self.faults += u64::from(core::mem::replace(page, false));
        }
    }
}

impl Counters for Plain {}
impl Maintain for Plain {}
impl Fresh for Plain {
    /// Zeroes the memory, and counts a fault at the first touch of each page of 4096 bytes.
    fn give_back(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        self.memory[(mapping.base / 8) as usize..][..(mapping.bytes / 8) as usize].fill(0);
        self.untouched = vec![true; (mapping.bytes / 4096) as usize];
        Ok(())
    }
}
impl Wake for Plain {}
impl Disturb for Plain {}
impl Dma for Plain {}
impl Translate for Plain {}
impl Control for Plain {}

impl Machine for Plain {
    type Cell = usize;

    fn trust(&self) -> ClockTrust {
        ClockTrust::Emulated
    }
    fn facts(&mut self, sink: &mut dyn FnMut(Fact)) {
        sink(Fact { name: "a.number".to_string(), value: FactValue::Int(5) });
        sink(Fact { name: "a.text".to_string(), value: FactValue::Text("\u{1}\"long\"\n".repeat(900)) });
        sink(Fact {
            name: "a.blob".to_string(),
            value: FactValue::Bytes((0..9000u32).map(|b| b as u8).collect()),
        });
    }
    fn facts_after(&mut self, sink: &mut dyn FnMut(Fact)) {
        sink(Fact { name: "a.after".to_string(), value: FactValue::Int(6) });
    }
    fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        if request.pages == Pages::Huge || request.bytes > 1 << 18 {
            return Err(Refusal::new("too much", "ask for less"));
        }
        Ok(Mapping { base: 0, bytes: 1 << 18, page_bytes: 4096 })
    }
    fn map_shared(&mut self, request: &MapRequest, _: u64) -> Result<Mapping, Refusal> {
        self.memory.fill(0);
        self.map(request)
    }
    fn cell(&self, offset: u64) -> Option<usize> {
        (offset.is_multiple_of(8) && offset / 8 < self.memory.len() as u64).then_some(offset as usize / 8)
    }
    fn offset(&self, cell: usize) -> u64 {
        cell as u64 * 8
    }
    fn watch(&mut self) -> Watch {
        Watch { faults: self.faults, ..Watch::default() }
    }
    fn clock_was_available(&mut self) -> Result<(), Refusal> {
        if self.cheat == Cheat::Timeless { Err(Refusal::new("no clock", "another one")) } else { Ok(()) }
    }
    fn link(&mut self, at: usize, to: usize) {
        self.touch(at);
        self.memory[at] = to as u64;
    }
    fn follow(&mut self, at: usize) -> usize {
        self.time += 3;
        self.touch(at);
        if self.cheat == Cheat::Guessed {
            return 0;
        }
        let idle = self.cheat == Cheat::Stuck || (self.cheat == Cheat::Unloaded && !self.in_batch);
        if idle { at } else { self.memory[at] as usize }
    }
    fn now(&mut self) -> Ticks {
        self.time += 1;
        Ticks(self.time)
    }
    fn alu(&mut self, n: u64) {
        self.time += n;
    }
    fn initialise(&mut self, chain: &crate::chain::Chain) -> Result<(), Refusal> {
        self.lap = chain.cells();
        chase::initialise(self, chain)
    }
    fn initialise_cells(&mut self, cells: &[usize]) {
        self.lap = cells.len() as u64;
        for (i, &at) in cells.iter().enumerate() {
            self.link(at, cells[(i + 1) % cells.len()]);
        }
    }
    fn chase(&mut self, start: usize, n: u64) -> usize {
        let n = match self.cheat {
            Cheat::Idle => 0,
            Cheat::OneShort => n - n.min(1),
            Cheat::Home => n - n % self.lap,
            _ => n,
        };
        self.in_batch = true;
        let end = chase::body(self, start, n);
        self.in_batch = false;
        end
    }
    fn copy(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        match self.cheat {
            Cheat::Idle => Some(()),
            Cheat::OneShort => copy::body(self, copying, from, n - n.min(1)),
            Cheat::Narrow => copy::body(self, &Copying { cells: copying.cells / 2, ..*copying }, from, n),
            Cheat::Twice => (0..n).try_for_each(|i| copy::body(self, copying, from + i / 2 * 2, 1)),
            _ => copy::body(self, copying, from, n),
        }
    }
    fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        let one = |m: &mut Plain, position| stride::body(m, sweep, position, 1);
        match self.cheat {
            Cheat::Idle => Some(0),
            Cheat::OneShort => stride::body(self, sweep, from, n - n.min(1)),
            Cheat::Home => stride::body(self, sweep, from, n - n % sweep.cells),
            Cheat::Narrow => stride::body(self, &Sweep { cells: sweep.cells / 2, ..*sweep }, from, n),
            Cheat::Hoisted => (0..n).map(|_| one(self, from)).sum(),
            Cheat::LastLap => {
                let late = n.min(sweep.cells);
                stride::body(self, sweep, from + n - late, late)
            }
            Cheat::Twice => (0..n).map(|i| one(self, from + i / 2 * 2)).sum(),
            Cheat::Lost => {
                let memory = self.memory.clone();
                let sum = stride::body(self, sweep, from, n);
                self.memory = memory;
                sum
            }
            Cheat::Honest | Cheat::Stuck | Cheat::Unloaded | Cheat::Guessed | Cheat::Timeless => {
                stride::body(self, sweep, from, n)
            }
        }
    }
}

struct Script {
    input: VecDeque<String>,
    output: Vec<String>,
}

impl Lines for Script {
    type Error = ();
    fn read(&mut self, line: &mut String) -> Result<bool, ()> {
        Ok(self.input.pop_front().map(|l| line.push_str(&l)).is_some())
    }
    fn write(&mut self, line: &str) -> Result<(), ()> {
        assert!(line.len() <= MAX_LINE, "a line of {} bytes", line.len());
        self.output.push(line.to_string());
        Ok(())
    }
}

/// Returns the probe's reply to these lines, parsed.
fn heard(cheat: Cheat, input: &[&str]) -> Vec<Line> {
    let mut script = Script { input: input.iter().map(ToString::to_string).collect(), output: Vec::new() };
    serve(&mut Plain::new(cheat), &mut script).unwrap();
    script.output.iter().map(|l| Line::parse(l).unwrap()).collect()
}

/// As above, and checks that every line is sealed and that numbers have no gap.
fn talk(cheat: Cheat, input: &[&str]) -> Vec<Line> {
    let lines = heard(cheat, input);
    for (i, line) in lines.iter().enumerate() {
        assert_eq!(line.seq, Some(i as u64 + 1));
    }
    lines
}

/// Returns the indices of the unverified samples of the trial in a reply.
fn judged(lines: &[Line]) -> Vec<usize> {
    let one = |word: &str| lines.iter().find(|l| l.word == word).unwrap();
    let trial = Trial::read(one("trial")).unwrap();
    let done = Done::read(one("done")).unwrap();
    let samples = Samples::read(one("sample")).unwrap();
    assert_eq!(samples.list.len() as u64, trial.samples);
    trial.unproven(&Rows::Samples(samples), &done)
}

const ASKED: [&str; 17] = [
    "trial id=1 pattern=chase bytes=8192 loads=300 samples=4 warm=77",
    "trial id=1 pattern=chase bytes=17024 order=window window=4096 loads=100 samples=4",
    "trial id=1 pattern=chase bytes=8192 order=sequential loads=300 samples=4 warm=1",
    "trial id=1 pattern=pages bytes=2048 loads=300 samples=4 seed=9",
    "trial id=1 pattern=single bytes=8192 loads=77 samples=4 seed=3",
    "trial id=1 pattern=single bytes=8192 loads=77 timed=5 samples=4",
    "trial id=1 pattern=single bytes=8192 loads=3 timed=5 samples=4",
    "trial id=1 pattern=conflict bytes=576 period=4096 offset=192 loads=301 samples=4",
    "trial id=1 pattern=conflict bytes=36864 stride=4096 group=4 period=24576 loads=301 samples=4 warm=5",
    "trial id=1 pattern=pair bytes=960 stride=24 period=1000 loads=301 samples=4 seed=8",
    "trial id=1 pattern=single bytes=576 period=4096 loads=77 samples=4",
    "trial id=1 pattern=eviction-set period=4096 stride=1024 sequence=\"A-I B a-d A\" loads=301 samples=4 warm=3",
    "trial id=1 pattern=eviction-set period=4096 sequence=\"A-I B? A C?\" samples=5 warm=3",
    "trial id=1 pattern=chase bytes=8192 order=backward3 loads=300 samples=4",
    "trial id=1 pattern=chase bytes=65600 order=forward8 loads=300 samples=4 warm=9",
    "trial id=1 pattern=chase bytes=131072 order=repermuted loads=300 samples=4 warm=900",
    "trial id=1 pattern=single bytes=36864 stride=4096 group=4 period=24576 loads=77 samples=4",
];

#[test]
fn honest_samples_are_proven_and_cheats_are_caught() {
    for requested in ASKED {
        assert_eq!(judged(&talk(Cheat::Honest, &[requested])), [], "{requested}");
        for cheat in [Cheat::Idle, Cheat::OneShort, Cheat::Home, Cheat::Stuck] {
            assert!(!judged(&talk(cheat, &[requested])).is_empty(), "{cheat:?} got through: {requested}");
        }
    }
}

/// Runs of less than a lap, runs of several laps, and a lap of one cell less than an unrolled iteration.
const SWEEPS: [&str; 3] = [
    "trial id=1 pattern=stride bytes=65536 stride=64 loads=300 samples=3 warm=1024 seed=5",
    "trial id=1 pattern=stride bytes=16384 stride=64 loads=1111 samples=3 warm=77",
    "trial id=1 pattern=stride bytes=1984 stride=64 loads=1000 samples=3 warm=0 seed=1",
];

#[test]
fn honest_sweeps_are_proven_and_cheats_are_caught() {
    let all = [Cheat::Idle, Cheat::OneShort, Cheat::Home, Cheat::Narrow, Cheat::Hoisted, Cheat::LastLap];
    for requested in SWEEPS {
        for op in ["read", "write", "rmw"] {
            let requested = format!("{requested} op={op}");
            let caught = |cheat| !judged(&talk(cheat, &[&requested])).is_empty();
            assert!(!caught(Cheat::Honest), "{requested}");
            for cheat in all.into_iter().chain([Cheat::Lost, Cheat::Twice, Cheat::Stuck]) {
                let harmless = match cheat {
                    // A read stores nothing.
                    Cheat::Lost => op == "read",
                    // Leaves the correct contents; a test of the machine code covers this defect. A run of less than a
                    // lap has no other lap.
                    Cheat::LastLap => op == "write" || requested.contains("bytes=65536"),
                    _ => false,
                };
                assert!(caught(cheat) || harmless, "{cheat:?} got through: {requested}");
                assert!(!(caught(cheat) && harmless), "{cheat:?} is caught after all: {requested}");
            }
        }
    }
}

/// One cell per page, and several cells in one page.
const SHARED: [&str; 2] = [
    "trial id=1 pattern=stride bytes=36864 stride=4096 frames=1 loads=100 samples=3 warm=7",
    "trial id=1 pattern=stride bytes=192 stride=64 frames=1 loads=100 samples=3 warm=0",
];

#[test]
fn honest_loads_of_shared_pages_are_proven_and_cheats_are_caught() {
    for requested in SHARED {
        assert_eq!(judged(&talk(Cheat::Honest, &[requested])), [], "{requested}");
        // The loaded word is part of the next address, so another word leads to other cells or leaves them.
        for cheat in [Cheat::Stuck, Cheat::Unloaded] {
            let lines = talk(cheat, &[requested]);
            let caught = lines.iter().any(|l| l.word == "refusal") || !judged(&lines).is_empty();
            assert!(caught, "{cheat:?} got through: {requested}");
        }
        // Every word is the same, so a machine that returns it without a load is not detected. The host's load is
        // volatile, and a test checks the machine code of the loops.
        assert_eq!(judged(&talk(Cheat::Guessed, &[requested])), [], "{requested}");
        // Ends that are off by one load are detected.
        let mut lines = talk(Cheat::Honest, &[requested]);
        let at = lines.iter().position(|l| l.word == "sample").unwrap();
        let mut samples = Samples::read(&lines[at]).unwrap();
        samples.list[1].end += 1;
        lines[at] = samples.lines().remove(0);
        assert_eq!(judged(&lines), [1], "{requested}");
    }
    // Whole laps end where they began.
    let whole = SHARED[0].replace("loads=100", "loads=90");
    assert_eq!(judged(&talk(Cheat::Honest, &[&whole])), [0, 1, 2]);
}

#[test]
fn frames_are_for_reading_strides_alone() {
    let words =
        |requested| talk(Cheat::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>();
    for requested in ["trial bytes=8192 frames=1", "trial pattern=stride op=write bytes=8192 frames=1"] {
        assert_eq!(words(requested)[1..], ["fault"], "{requested}");
    }
    let trial = Trial::of(Stride { frames: 1, ..Stride::default() });
    assert_eq!(Trial::read(&trial.line()), Ok(trial));
    assert!(!Trial::default().line().render().contains("frames"));
}

/// Returns the samples of the trial in a reply.
fn samples_of(lines: &[Line]) -> Vec<Sample> {
    Samples::read(lines.iter().find(|l| l.word == "sample").unwrap()).unwrap().list
}

/// One line per page, and several lines per page.
#[test]
fn honest_first_touches_are_proven_and_cheats_are_caught() {
    for (requested, every) in [
        ("trial id=1 pattern=stride bytes=131072 stride=4096 loads=10 samples=3 first_touch=1", true),
        ("trial id=1 pattern=stride bytes=131072 stride=64 loads=640 samples=3 first_touch=1 seed=5", false),
    ] {
        for op in ["read", "write", "rmw"] {
            let requested = format!("{requested} op={op}");
            let lines = talk(Cheat::Honest, &[&requested]);
            assert_eq!(judged(&lines), [], "{requested}");
            assert!(samples_of(&lines).iter().all(|s| s.end == 10), "{requested}");
            for cheat in
                [Cheat::Idle, Cheat::Home, Cheat::Hoisted, Cheat::OneShort, Cheat::Twice, Cheat::Lost]
            {
                // The kernel counts pages, not accesses, and a read stores nothing.
                let unseen = match cheat {
                    Cheat::OneShort | Cheat::Twice => op == "read" && !every,
                    Cheat::Lost => op == "read",
                    _ => false,
                };
                let caught = !judged(&talk(cheat, &[&requested])).is_empty();
                assert_eq!(caught, !unseen, "{cheat:?}: {requested}");
            }
        }
    }
}

#[test]
fn memory_that_was_not_fresh_proves_no_first_touch() {
    // The words read there are not zero.
    let requested = "trial id=1 pattern=stride bytes=131072 stride=4096 loads=10 samples=3 first_touch=1";
    assert_eq!(judged(&talk(Cheat::Stuck, &[requested])), [0, 1, 2]);
}

#[test]
fn what_is_walked_once_has_room_for_it_and_the_right_pattern() {
    let words =
        |requested| talk(Cheat::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>();
    for wrong in [
        "trial pattern=stride bytes=8192 loads=43 first_touch=1",
        "trial pattern=stride bytes=8192 loads=8 first_touch=2",
        "trial pattern=chase bytes=8192 loads=8 first_touch=1",
        "trial pattern=chase bytes=8192 order=repermuted loads=40 warm=9",
        "trial pattern=single bytes=8192 order=repermuted loads=4 warm=9",
        "trial pattern=chase bytes=8192 order=backward9",
    ] {
        assert_eq!(words(wrong)[1..], ["fault"], "{wrong}");
    }
    let requested = "trial pattern=stride bytes=8192 loads=42 samples=1 first_touch=1";
    assert_eq!(words(requested)[1..], ["trial", "sample", "done"]);
    let trial = Trial::read(&Line::parse(requested).unwrap()).unwrap();
    assert_eq!(Trial::read(&trial.line()), Ok(trial.clone()));
    // A default is not written, as in earlier versions.
    assert!(!Trial { pattern: Stride::default().into(), ..trial }.line().render().contains("first_touch"));
}

#[test]
fn each_sample_of_a_chain_walked_once_has_an_order_of_its_own() {
    let lines = talk(Cheat::Honest, &[ASKED[15]]);
    let ends: Vec<u64> = samples_of(&lines).iter().map(|s| s.end).collect();
    assert!(ends.windows(2).all(|pair| pair[0] != pair[1]), "{ends:?}");
}

#[test]
fn stores_that_stop_half_way_through_a_trial_leave_no_sample_proven() {
    let mut lines =
        talk(Cheat::Honest, &["trial id=1 pattern=stride op=write bytes=8192 loads=100 samples=4"]);
    assert_eq!(judged(&lines), []);
    let at = lines.iter().position(|l| l.word == "sample").unwrap();
    let mut samples = Samples::read(&lines[at]).unwrap();
    // The contents at the end verify all samples; the last cell of a run verifies that run.
    samples.list[1].end += 1;
    lines[at] = samples.lines().remove(0);
    assert_eq!(judged(&lines), [1]);
    samples.list[3].end2 += 1;
    lines[at] = samples.lines().remove(0);
    assert_eq!(judged(&lines), [0, 1, 2, 3]);
}

#[test]
fn an_operation_is_the_strides_alone_and_old_lines_read() {
    let words =
        |requested| talk(Cheat::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>();
    assert_eq!(words("trial bytes=8192 op=write")[1..], ["fault"]);
    assert_eq!(words("trial bytes=8192 pattern=stride op=halve")[1..], ["fault"]);
    let line = Line::parse("trial pattern=stride bytes=8192").unwrap();
    let trial = Trial::read(&line).unwrap();
    assert!(trial.is::<Stride>(|stride| stride.operation == crate::machine::Operation::Read));
    assert!(!trial.line().render().contains("op="), "{}", trial.line().render());
    for &operation in crate::machine::Operation::ALL {
        let pattern: Pattern = match operation.copies() {
            true => Copy { operation }.into(),
            false => Stride::of(operation).into(),
        };
        let requested = Trial { memory: Memory::of(8192, 8), ..Trial::of(pattern) };
        assert_eq!(Trial::read(&requested.line()), Ok(requested));
    }
}

#[test]
fn copies_are_proven_and_what_was_not_copied_is_seen() {
    for op in ["copy_to", "copy_from"] {
        // Less than a lap, more than a lap, and a multiple of a lap.
        for n in [100, 1500, 1024] {
            let requested =
                format!("trial id=1 pattern=copy op={op} bytes=8192 stride=8 loads={n} samples=4 seed=3");
            assert_eq!(judged(&talk(Cheat::Honest, &[&requested])), [], "{requested}");
            for cheat in [Cheat::Idle, Cheat::OneShort, Cheat::Narrow, Cheat::Twice] {
                assert!(!judged(&talk(cheat, &[&requested])).is_empty(), "{cheat:?}: {requested}");
            }
        }
    }
    let words =
        |requested| talk(Cheat::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>();
    for wrong in [
        "trial pattern=copy bytes=8192 stride=8",
        "trial pattern=copy op=set bytes=8192 stride=8",
        "trial pattern=copy op=copy_to bytes=8192 stride=64",
        "trial pattern=stride op=copy_to bytes=8192 stride=8",
    ] {
        assert_eq!(words(wrong)[1..], ["fault"], "{wrong}");
    }
}

#[test]
fn a_set_is_a_write_that_may_be_wider() {
    let requested = "trial id=1 pattern=stride op=set bytes=8192 stride=8 loads=1500 samples=4";
    assert_eq!(judged(&talk(Cheat::Honest, &[requested])), []);
    for cheat in [Cheat::Idle, Cheat::Lost, Cheat::Hoisted] {
        assert!(!judged(&talk(cheat, &[requested])).is_empty(), "{cheat:?}");
    }
}

#[test]
fn what_this_machine_does_not_set_is_refused_and_the_keys_travel() {
    for key in ["mair=68", "tables=normal-nc", "prefetch=0"] {
        let requested = format!("trial id=1 bytes=8192 {key}");
        let lines = talk(Cheat::Honest, &[&requested]);
        let words: Vec<&str> = lines.iter().map(|l| l.word.as_str()).collect();
        assert_eq!(words, ["probe", "trial", "refusal"], "{requested}");
        assert!(lines[1].render().contains(key), "{}", lines[1].render());
    }
    assert_eq!(talk(Cheat::Honest, &["trial mair=256"])[1].word, "fault");
}

#[test]
fn a_trial_whose_clock_was_taken_away_is_a_refusal_and_no_sample_of_it_is_sent() {
    let words = |cheat| -> Vec<String> {
        let lines = talk(cheat, &["trial id=1 bytes=8192 samples=1", "trial id=2 bytes=8192 page=huge"]);
        lines.iter().map(|line| line.word.clone()).collect()
    };
    assert_eq!(words(Cheat::Honest), ["probe", "trial", "sample", "done", "trial", "refusal"]);
    assert_eq!(words(Cheat::Timeless), ["probe", "trial", "refusal", "trial", "refusal"]);
    // Other refusals keep their reason.
    let second =
        talk(Cheat::Timeless, &["trial id=2 bytes=8192 page=huge"]).pop().expect("a refusal").render();
    assert!(second.contains("too much"), "{second}");
}

#[test]
fn hello_greets_anew_and_a_fault_goes_on_where_it_was() {
    let lines = heard(Cheat::Honest, &["facts", "hello", "inject what=abort", "inject what=nothing", "bye"]);
    let last: Vec<(&str, Option<u64>)> =
        lines.iter().rev().take(4).map(|l| (l.word.as_str(), l.seq)).collect();
    assert_eq!(
        last,
        [("gone", Some(4)), ("fault", Some(3)), ("fault", Some(2)), ("probe", Some(1))],
        "nobody is told what has moved who has not asked since"
    );
    let mut place = ServerState { seq: 7, reported: true };
    let fault = Line::parse(&place.fault("data abort")).unwrap();
    assert_eq!((fault.seq, place.seq), (Some(8), 8));
}

#[test]
fn a_timed_load_that_never_ran_is_caught() {
    for requested in [ASKED[4], ASKED[12]] {
        let all: Vec<usize> = (0..if requested == ASKED[4] { 4 } else { 5 }).collect();
        assert_eq!(judged(&talk(Cheat::Unloaded, &[requested])), all);
    }
}

#[test]
fn an_asked_load_is_timed_after_all_that_come_before_it() {
    let lines = talk(Cheat::Honest, &[ASKED[12]]);
    let list = Samples::read(lines.iter().find(|l| l.word == "sample").unwrap()).unwrap().list;
    // B is the tenth access, C the twelfth, cyclically. A load takes 3 here, a reading of the clock 1.
    assert_eq!(
        list.iter().map(|s| (s.end, s.end2)).collect::<Vec<_>>(),
        [(9, 10), (11, 0), (9, 10), (11, 0), (9, 10)]
    );
    assert!(list.iter().all(|s| (s.ticks, s.ticks2) == (3 + 1, 1)));
}

#[test]
fn refills_are_counted_where_a_trial_asks_and_somebody_counts() {
    // This machine does not count them, and the line has no such column.
    let lines = talk(Cheat::Honest, &["trial id=1 counted=1 loads=300 samples=2"]);
    let line = lines.iter().find(|l| l.word == "sample").unwrap();
    assert!(!line.render().contains("misses"), "{}", line.render());
}

#[test]
fn single_samples_time_one_load_and_nothing() {
    // On this machine a load takes 3 ticks and a reading of the clock 1.
    let samples = |requested| {
        let lines = talk(Cheat::Honest, &[requested]);
        Samples::read(lines.iter().find(|l| l.word == "sample").unwrap()).unwrap().list
    };
    assert!(samples(ASKED[4]).iter().all(|s| (s.ticks, s.ticks2) == (3 + 1, 1)));
    assert!(samples(ASKED[5]).iter().all(|s| (s.ticks, s.ticks2) == (5 * 3 + 1, 1)));
}

#[test]
fn whole_laps_prove_nothing() {
    let lines = talk(Cheat::Honest, &["trial id=1 bytes=8192 loads=256 samples=3"]);
    assert_eq!(judged(&lines), [0, 1, 2]);
}

#[test]
fn a_conversation_goes_on_after_nonsense_and_refusals() {
    let lines = talk(
        Cheat::Honest,
        &[
            "",
            "facts",
            "what is this",
            "trial bytes=oops",
            "trial page=huge",
            "trial loads=8 id=3",
            "bye",
            "trial",
        ],
    );
    let words: Vec<&str> = lines.iter().map(|l| l.word.as_str()).filter(|w| *w != "fact").collect();
    assert_eq!(
        words,
        ["probe", "facts_end", "fault", "fault", "trial", "refusal", "trial", "sample", "done", "gone"]
    );
}

#[test]
fn what_has_moved_is_said_last_and_only_to_whoever_asked_for_facts() {
    let last = |requested: &[&str]| {
        let lines = talk(Cheat::Honest, requested);
        let [.., before, gone] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!(gone.word, "gone");
        before.clone()
    };
    let after = last(&["facts", "trial loads=8 samples=1", "bye"]);
    assert_eq!(after.fields().text("name").unwrap(), Some("a.after"));
    assert_eq!(last(&["trial loads=8 samples=1", "bye"]).word, "done");
    // At the end of the input nothing more is sent, because nothing reads it.
    assert_eq!(talk(Cheat::Honest, &["facts"]).last().unwrap().word, "facts_end");
}

#[test]
fn long_facts_travel_in_parts_and_come_out_whole() {
    let lines = talk(Cheat::Honest, &["facts"]);
    let (mut text, mut blob) = (String::new(), Vec::new());
    for line in lines.iter().filter(|l| l.word == "fact") {
        let mut f = line.fields();
        match f.text("name").unwrap().unwrap() {
            "a.text" => text.push_str(f.text("text").unwrap().unwrap()),
            "a.blob" => blob.extend_from_slice(f.hex("hex").unwrap().unwrap()),
            _ => {}
        }
    }
    assert_eq!(text, "\u{1}\"long\"\n".repeat(900));
    assert_eq!(blob, (0..9000u32).map(|b| b as u8).collect::<Vec<u8>>());
}

#[test]
fn a_fault_fits_on_its_line_however_long_what_it_quotes() {
    let keys: String = (0..60).map(|n| format!(" {}{n}=1", "k".repeat(62))).collect();
    let lines = talk(Cheat::Honest, &[&format!("trial{keys}"), "bye"]);
    assert_eq!(lines.iter().map(|l| l.word.as_str()).collect::<Vec<_>>(), ["probe", "fault", "gone"]);
    let reported = lines[1].fields().text("what").unwrap().unwrap().to_string();
    assert!(reported.contains("unknown key kkk") && lines[1].seal(u64::MAX).len() <= MAX_LINE, "{reported}");
}
