//! Tests of transfers on a machine that records its requests and has known walk times.

use alloc::string::ToString as _;
use alloc::vec;

use super::*;
use crate::machine::dma::{Channel, Direction, DriverBug, Maintenance, Strategy};
use crate::machine::{
    Attribute, ClockTrust, Control, Counters, Disturb, Dma, Fact, Fresh, Maintain, MapRequest, Mapping,
    Ticks, Translate, Wake,
};
use crate::pattern::{self, Memory};
use crate::serve::{Lines, serve};
use crate::wire::Line;

/// Plain memory. A load takes one tick plus one for each transfer so far.
#[derive(Default)]
struct Mover {
    memory: Vec<u64>,
    now: u64,
    requested: Vec<(Transfers, Batch)>,
    made: u64,
    /// Wrong bytes of every transfer.
    wrong: u64,
    /// Number of missing rows.
    short: u64,
    /// Whether the chase is skipped.
    idle: bool,
}

impl Counters for Mover {}
impl Maintain for Mover {}
impl Fresh for Mover {}
impl Wake for Mover {}
impl Disturb for Mover {}
impl Translate for Mover {}
impl Control for Mover {}

const CHANNEL: Channel = Channel {
    hz: 1_000_000,
    cycles: false,
    engine: Engine::Edu,
    coherent: true,
    chunks: 2,
    attribute: Some(Attribute::NormalNc),
    maintenance: Some(Maintenance::CleanAndUnmap),
    substitute: false,
};

impl Dma for Mover {
    fn transfer(
        &mut self,
        requested: &Transfers,
        batch: &Batch,
    ) -> Result<(Channel, Vec<TransferTimes>), Refusal> {
        self.requested.push((*requested, *batch));
        self.made += batch.count;
        let row =
            |nth: u64| TransferTimes { used: nth, copy: 2, wrong: self.wrong, ..TransferTimes::default() };
        Ok((CHANNEL, (batch.first..batch.first + batch.count - self.short).map(row).collect()))
    }
}

impl Machine for Mover {
    type Cell = u64;
    fn trust(&self) -> ClockTrust {
        ClockTrust::Modelled
    }
    fn facts(&mut self, _: &mut dyn FnMut(Fact)) {}
    fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        self.memory = vec![0; request.bytes as usize / 8];
        Ok(Mapping { base: 0, bytes: request.bytes, page_bytes: 4096 })
    }
    fn cell(&self, offset: u64) -> Option<u64> {
        (offset / 8 < self.memory.len() as u64).then_some(offset)
    }
    fn offset(&self, cell: u64) -> u64 {
        cell
    }
    fn link(&mut self, at: u64, to: u64) {
        self.memory[at as usize / 8] = to;
    }
    fn follow(&mut self, at: u64) -> u64 {
        self.now += 1 + self.made;
        if self.idle { at } else { self.memory[at as usize / 8] }
    }
    fn now(&mut self) -> Ticks {
        Ticks(self.now)
    }
    fn alu(&mut self, _: u64) {}
}

fn trial(pollution_set: u64) -> Trial {
    moving(Transfers {
        strategy: Strategy::ZeroCopy,
        direction: Direction::FromDevice,
        pollution_set,
        ..Transfers::default()
    })
}

fn moving(transfers: Transfers) -> Trial {
    let pattern = Transfer { transfers };
    Trial { memory: Memory::of(1500, 8), samples: 3, warm: 2, seed: 5, ..Trial::of(pattern) }
}

/// Returns the indices of the transfers that fail verification.
fn unverified(trial: &Trial, rows: &Rows) -> Vec<usize> {
    trial.unverified(rows, &Done::default())
}

fn channel(rows: &Rows) -> Option<Channel> {
    let Rows::Transfers(transfers) = rows else { panic!("{rows:?}") };
    transfers.channel
}

#[test]
fn transfer_without_pollution_set_runs_one_batch_without_warm_up() {
    let mut machine = Mover::default();
    let result = pattern::run(&mut machine, &trial(0)).unwrap();
    assert_eq!(machine.requested.len(), 1);
    assert_eq!(machine.requested[0].1, Batch { bytes: 1500, seed: 5, first: 0, count: 5 });
    assert_eq!(result.rows.transfers().iter().map(|r| r.used).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(channel(&result.rows), Some(CHANNEL));
    assert_eq!((result.page_bytes, machine.memory.len()), (0, 0), "nothing is mapped");
    assert!(unverified(&trial(0), &result.rows).is_empty());
}

#[test]
fn a_pollution_set_is_walked_before_and_after_each_transfer() {
    let mut machine = Mover::default();
    let result = pattern::run(&mut machine, &trial(4096)).unwrap();
    assert_eq!(
        machine.requested.iter().map(|(_, b)| (b.first, b.count)).collect::<Vec<_>>(),
        [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]
    );
    // 64 cells and one more, each one tick slower after a transfer.
    for (nth, row) in result.rows.transfers().iter().enumerate() {
        let made = nth as u64 + 2;
        assert_eq!((row.before, row.after), (65 * (1 + made), 65 * (2 + made)));
    }
    assert!(unverified(&trial(4096), &result.rows).is_empty());
}

#[test]
fn unwalked_pollution_set_and_missing_data_are_unverified() {
    let mut machine = Mover { idle: true, ..Mover::default() };
    let rows = pattern::run(&mut machine, &trial(4096)).unwrap().rows;
    assert_eq!(unverified(&trial(4096), &rows), [0, 1, 2]);
    let mut machine = Mover { wrong: 8, ..Mover::default() };
    let rows = pattern::run(&mut machine, &trial(0)).unwrap().rows;
    assert_eq!(unverified(&trial(0), &rows), [0, 1, 2]);
}

#[test]
fn missing_transfers_make_the_trial_fail() {
    let mut machine = Mover { short: 1, ..Mover::default() };
    let refusal = pattern::run(&mut machine, &trial(0)).expect_err("a row is missing");
    assert!(refusal.reason.contains("interrupted"), "{}", refusal.reason);
}

#[test]
fn machine_without_device_refuses_transfers() {
    struct None;
    impl Dma for None {}
    let batch = Batch { bytes: 64, seed: 0, first: 0, count: 1 };
    let refusal = None.transfer(&Transfers::default(), &batch).expect_err("it has none");
    assert!(refusal.remedy.contains("fathom dma --on"), "{}", refusal.remedy);
}

/// All options of a trial of transfers round trip.
#[test]
fn trial_of_transfers_round_trips() {
    for &strategy in Strategy::ALL {
        for &direction in Direction::ALL {
            for engine in Engine::ALL.iter().copied().map(Some).chain([Option::None]) {
                let transfers = Transfers {
                    strategy,
                    direction,
                    engine,
                    maintenance: Some(Maintenance::WholeCache),
                    driver_bug: Some(DriverBug::AsFromDevice),
                    pollution_set: 8192,
                };
                let requested = moving(transfers);
                let line = Line::parse(&requested.line().render()).unwrap();
                assert_eq!(Trial::read(&line).unwrap(), requested);
            }
        }
    }
}

#[test]
fn invalid_transfers_are_named() {
    let with = |words: &str| {
        let line = Line::parse(&alloc::format!("trial stride=8 {words}")).unwrap();
        Trial::read(&line).expect_err(words).what
    };
    for (words, expected) in [
        ("pattern=transfer bytes=2097152", "1048576"),
        ("pattern=transfer bytes=64 pollution_set=4100", "multiple of 64"),
        ("pattern=transfer bytes=64 pollution_set=256", "from 4096"),
        ("pattern=transfer bytes=64 warm=4294967296", "the maximum is 2000"),
        ("pattern=transfer bytes=64 samples=1000 pollution_set=1073741824", "pollution sets in total"),
        ("pattern=transfer bytes=64 strategy=memcpy", "zero-copy"),
        ("pattern=transfer bytes=64 direction=up", "from-device"),
        ("pattern=transfer bytes=64 driver_bug=none", "as-from-device"),
        ("pattern=chase bytes=64 strategy=coherent", "pattern=transfer"),
        ("pattern=chase bytes=64 pollution_set=4096", "pattern=transfer"),
    ] {
        assert!(with(words).contains(expected), "{words}: {}", with(words));
    }
}

struct Wire<'a>(&'a str, Vec<alloc::string::String>);

impl Lines for Wire<'_> {
    type Error = ();
    fn read(&mut self, line: &mut alloc::string::String) -> Result<bool, ()> {
        *line = core::mem::take(&mut self.0).to_string();
        Ok(!line.is_empty())
    }
    fn write(&mut self, line: &str) -> Result<(), ()> {
        self.1.push(line.to_string());
        Ok(())
    }
}

#[test]
fn transfer_rows_and_channel_round_trip() {
    let mut requested = trial(0);
    requested.samples = 30;
    let text = requested.line().render();
    let mut wire = Wire(&text, Vec::new());
    serve(&mut Mover::default(), &mut wire).unwrap();
    let lines: Vec<Line> = wire.1.iter().map(|line| Line::parse(line).unwrap()).collect();
    let moved: Vec<TransferRows> =
        lines.iter().filter(|l| l.word == "moved").map(|l| TransferRows::read(l).unwrap()).collect();
    assert_eq!(moved.len(), 3, "each line has up to twelve rows");
    assert_eq!(
        moved.iter().map(|m| m.channel).collect::<Vec<_>>(),
        [Some(CHANNEL), Option::None, Option::None]
    );
    let rows: Vec<u64> = moved.iter().flat_map(|m| &m.list).map(|row| row.used).collect();
    assert_eq!(rows, (2..32).collect::<Vec<_>>());
}

#[test]
fn every_transfer_column_round_trips_and_unequal_ones_fail() {
    let row = TransferTimes {
        used: 1,
        copy: 2,
        map: 3,
        engine: 4,
        setup: 5,
        unmap: 6,
        before: 7,
        after: 8,
        end: 9,
        wrong: 10,
        unverified: true,
        migrated: true,
    };
    let moved = TransferRows { trial: 4, channel: Some(CHANNEL), list: vec![row, TransferTimes::default()] };
    let lines = moved.lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(TransferRows::read(&Line::parse(&lines[0].render()).unwrap()).unwrap(), moved);
    for (line, expected) in [
        ("moved trial=1 used=1,2 copy=1", "lengths"),
        ("moved trial=1 used=1 speed=1", "speed"),
        ("moved trial=1 used=1 by=magic", "described"),
        ("moved used=1", "trial"),
    ] {
        let reported = TransferRows::read(&Line::parse(line).unwrap()).expect_err(line).what;
        assert!(reported.contains(expected), "{line}: {reported}");
    }
}
