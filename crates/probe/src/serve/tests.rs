//! Tests of the server on a machine that is plain memory, and on variants with a defect.

mod conversation;
mod proofs;

use super::*;
use crate::machine::batch::chase;
use crate::machine::batch::copy::{self, Copying};
use crate::machine::batch::stride::{self, Sweep};
use crate::machine::batch::together;
use crate::machine::{
    ClockTrust, Control, Count, CountedEvent, Counters, Disturb, Dma, Fresh, Maintain, MapRequest, Mapping,
    ONE_AT_A_TIME, Pages, Ticks, Translate, Wake, Watch,
};
use crate::pattern::{Copy, Memory, Pattern, Stride};
use crate::rows::{EventCount, Rows, Sample, Samples};
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

/// Defect of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Forgery {
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
    /// A sweep covers half of its cells, and of several chains only the first moves.
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
    /// No defect, but it executes one access at a time.
    Blocking,
    /// No defect, but its clock is revoked during each trial.
    Timeless,
    /// No defect, and it counts its loads; each reading of the counter counts as one, too.
    Counting,
}

struct Plain {
    memory: Vec<u64>,
    time: u64,
    forgery: Forgery,
    lap: u64,
    in_batch: bool,
    untouched: Vec<bool>,
    faults: u64,
    loads: u64,
}

impl Plain {
    fn new(forgery: Forgery) -> Plain {
        let memory = vec![0; 1 << 15];
        Plain {
            memory,
            time: 0,
            forgery,
            lap: 0,
            in_batch: false,
            untouched: Vec::new(),
            faults: 0,
            loads: 0,
        }
    }
    fn touch(&mut self, at: usize) {
        if let Some(page) = self.untouched.get_mut(at / 512) {
            self.faults += u64::from(core::mem::replace(page, false));
        }
    }
}

impl Counters for Plain {
    fn counters(&mut self) -> Result<Vec<Count>, Refusal> {
        if self.forgery != Forgery::Counting {
            return Err(Refusal::new("no counters", ""));
        }
        self.loads += 1;
        let (name, event) = ("accesses".into(), Some(CountedEvent::Accesses));
        Ok(vec![Count { name, event, value: self.loads }])
    }
}
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
        if self.forgery == Forgery::Timeless { Err(Refusal::new("no clock", "another one")) } else { Ok(()) }
    }
    fn link(&mut self, at: usize, to: usize) {
        self.touch(at);
        self.memory[at] = to as u64;
    }
    fn follow(&mut self, at: usize) -> usize {
        self.time += 3;
        self.loads += 1;
        self.touch(at);
        if self.forgery == Forgery::Guessed {
            return 0;
        }
        let idle = self.forgery == Forgery::Stuck || (self.forgery == Forgery::Unloaded && !self.in_batch);
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
        let n = match self.forgery {
            Forgery::Idle => 0,
            Forgery::OneShort => n - n.min(1),
            Forgery::Home => n - n % self.lap,
            _ => n,
        };
        self.in_batch = true;
        let end = chase::body(self, start, n);
        self.in_batch = false;
        end
    }
    fn chase_together(&mut self, cells: &mut [usize], n: u64) -> Result<(), Refusal> {
        let n = match self.forgery {
            Forgery::Idle => 0,
            Forgery::OneShort => n - n.min(1),
            // The question whether it can comes before any chain.
            Forgery::Home => n - n % self.lap.max(1),
            _ => n,
        };
        if self.forgery == Forgery::Blocking {
            return Err(Refusal::new(ONE_AT_A_TIME, ""));
        }
        // Only the first chain moves.
        let moving = if self.forgery == Forgery::Narrow { cells.len().min(1) } else { cells.len() };
        together::body(self, &mut cells[..moving], n)
    }
    fn chase_spaced(&mut self, cells: &mut [usize], fillers: u64, n: u64) -> Result<(), Refusal> {
        // As if nothing overlapped: two loads, and the instructions after each.
        self.time += cells.len() as u64 * fillers * n;
        self.chase_together(cells, n)
    }
    fn copy(&mut self, copying: &Copying, from: u64, n: u64) -> Option<()> {
        match self.forgery {
            Forgery::Idle => Some(()),
            Forgery::OneShort => copy::body(self, copying, from, n - n.min(1)),
            Forgery::Narrow => copy::body(self, &Copying { cells: copying.cells / 2, ..*copying }, from, n),
            Forgery::Twice => (0..n).try_for_each(|i| copy::body(self, copying, from + i / 2 * 2, 1)),
            _ => copy::body(self, copying, from, n),
        }
    }
    fn sweep(&mut self, sweep: &Sweep, from: u64, n: u64) -> Option<u64> {
        let one = |m: &mut Plain, position| stride::body(m, sweep, position, 1);
        match self.forgery {
            Forgery::Idle => Some(0),
            Forgery::OneShort => stride::body(self, sweep, from, n - n.min(1)),
            Forgery::Home => stride::body(self, sweep, from, n - n % sweep.cells),
            Forgery::Narrow => stride::body(self, &Sweep { cells: sweep.cells / 2, ..*sweep }, from, n),
            Forgery::Hoisted => (0..n).map(|_| one(self, from)).sum(),
            Forgery::LastLap => {
                let late = n.min(sweep.cells);
                stride::body(self, sweep, from + n - late, late)
            }
            Forgery::Twice => (0..n).map(|i| one(self, from + i / 2 * 2)).sum(),
            Forgery::Lost => {
                let memory = self.memory.clone();
                let sum = stride::body(self, sweep, from, n);
                self.memory = memory;
                sum
            }
            Forgery::Honest
            | Forgery::Stuck
            | Forgery::Unloaded
            | Forgery::Guessed
            | Forgery::Timeless
            | Forgery::Blocking
            | Forgery::Counting => stride::body(self, sweep, from, n),
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

/// Returns the lines of the probe for this input, parsed.
fn served(forgery: Forgery, input: &[&str]) -> Vec<Line> {
    let mut script = Script { input: input.iter().map(ToString::to_string).collect(), output: Vec::new() };
    serve(&mut Plain::new(forgery), &mut script).unwrap();
    script.output.iter().map(|l| Line::parse(l).unwrap()).collect()
}

/// Returns the same, and checks that sequence numbers are without gaps.
fn served_in_order(forgery: Forgery, input: &[&str]) -> Vec<Line> {
    let lines = served(forgery, input);
    for (i, line) in lines.iter().enumerate() {
        assert_eq!(line.seq, Some(i as u64 + 1));
    }
    lines
}

/// Returns the indices of the unverified samples of the trial in a reply.
fn unverified(lines: &[Line]) -> Vec<usize> {
    let one = |word: &str| lines.iter().find(|l| l.word == word).unwrap();
    let trial = Trial::read(one("trial")).unwrap();
    let done = Done::read(one("done")).unwrap();
    let samples = Samples::read(one("sample")).unwrap();
    assert_eq!(samples.list.len() as u64, trial.samples);
    trial.unverified(&Rows::Samples(samples), &done)
}
