//! Transfers on described machines: correct data, cost of each part, and detection of mistakes.

mod common;

use common::random_description;
use fathom_model::Model;
use fathom_model::description::{Coherence, Description};
use fathom_probe::machine::dma::{
    Batch, Direction, DriverBug, Engine, Maintenance, Strategy, TransferTimes, Transfers,
};
use fathom_probe::machine::{Attribute, Dma, Refusal};

fn machine(name: &str) -> Description {
    fathom_model::catalog::load(name).expect("it is embedded").unwrap_or_else(|e| panic!("{e}"))
}

fn requested(strategy: Strategy, direction: Direction) -> Transfers {
    Transfers { strategy, direction, ..Transfers::default() }
}

/// Runs `count` transfers on a new model.
fn run(
    d: &Description,
    requested: &Transfers,
    bytes: u64,
    count: u64,
) -> Result<Vec<TransferTimes>, Refusal> {
    let batch = Batch { bytes, seed: 7, first: 0, count };
    Model::new(d, 1).transfer(requested, &batch).map(|(_, rows)| rows)
}

fn rows(d: &Description, requested: &Transfers, bytes: u64, count: u64) -> Vec<TransferTimes> {
    run(d, requested, bytes, count).unwrap_or_else(|r| panic!("{}: {requested:?}: {}", d.name, r.reason))
}

const NONCOHERENT: [&str; 3] = ["omap3-sdio", "bcm2711", "am5728"];
const COHERENT: [&str; 2] = ["neoverse-n1", "sapphire-rapids"];
const SIZES: [u64; 7] = [8, 64, 100, 1500, 2048, 65_536, 1 << 20];

#[test]
fn data_arrives_by_every_strategy_and_policy() {
    for name in NONCOHERENT {
        let d = machine(name);
        for &strategy in Strategy::ALL {
            for &direction in Direction::ALL {
                for &policy in Maintenance::ALL {
                    let requested = Transfers { maintenance: Some(policy), ..requested(strategy, direction) };
                    for bytes in SIZES {
                        let rows = rows(&d, &requested, bytes, 3);
                        assert_eq!(rows.len(), 3);
                        assert!(
                            rows.iter().all(|r| r.wrong == 0 && !r.unverified),
                            "{name} {requested:?} {bytes}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn coherent_device_needs_no_maintenance_and_has_no_uncached() {
    for name in COHERENT {
        let d = machine(name);
        for &strategy in Strategy::ALL {
            for &direction in Direction::ALL {
                let requested = requested(strategy, direction);
                if strategy == Strategy::UncachedCopy {
                    let refusal = run(&d, &requested, 1500, 1).expect_err("there is no such memory");
                    assert!(refusal.reason.contains("cached memory"), "{}", refusal.reason);
                    continue;
                }
                for bytes in SIZES {
                    // Mapping a buffer costs only its call, whatever the size; there is no maintenance per line.
                    let rows = rows(&d, &requested, bytes, 3);
                    let call = if strategy.maintains() { rows[0].map } else { 0 };
                    assert!(
                        rows.iter().all(|r| r.wrong == 0 && r.map == call),
                        "{name} {requested:?} {bytes}"
                    );
                }
            }
        }
        let requested = Transfers {
            maintenance: Some(Maintenance::Map),
            ..requested(Strategy::ZeroCopy, Direction::FromDevice)
        };
        assert!(run(&d, &requested, 64, 1).expect_err("nobody maintains").remedy.contains("--maintenance"));
    }
}

/// The levels may be exclusive, write-through, or without allocation.
#[test]
fn data_arrives_on_random_machines() {
    let mut described = 0;
    for seed in 0..120 {
        let d = random_description(seed);
        let Some(device) = &d.dma else { continue };
        described += 1;
        let behind = device.coherence == Coherence::None;
        for &strategy in Strategy::ALL {
            for &direction in Direction::ALL {
                for policy in Maintenance::ALL.iter().filter(|_| behind).map(|p| Some(*p)).chain([None]) {
                    let requested = Transfers { maintenance: policy, ..requested(strategy, direction) };
                    // Undescribed or unavailable strategies are refused.
                    let Ok(rows) = run(&d, &requested, 1000, 5) else { continue };
                    assert!(rows.iter().all(|r| r.wrong == 0), "seed {seed}: {requested:?} {rows:?}");
                }
            }
        }
    }
    assert!(described > 20, "{described}");
}

/// Returns which of three transfers deliver wrong data with a mistake.
fn wrong(
    d: &Description,
    strategy: Strategy,
    direction: Direction,
    by: (Maintenance, DriverBug),
) -> [bool; 3] {
    let requested =
        Transfers { maintenance: Some(by.0), driver_bug: Some(by.1), ..requested(strategy, direction) };
    let rows = rows(d, &requested, 2048, 3);
    std::array::from_fn(|i| rows[i].wrong > 0)
}

#[test]
fn line_written_by_device_without_invalidation_reads_stale() {
    use Maintenance::{CleanAndUnmap, Map, MapAndUnmap};
    let omap3 = machine("omap3-sdio");
    let from = |by| wrong(&omap3, Strategy::StreamingCopy, Direction::FromDevice, by);
    // The first transfer finds no line of the buffer in any cache; its copy leaves some there.
    for policy in [Map, MapAndUnmap, CleanAndUnmap] {
        assert_eq!(from((policy, DriverBug::Nothing)), [false, true, true], "{policy:?}");
    }
    // A core that does not read ahead does not load a line between its invalidation at mapping and its use.
    assert_eq!(from((Map, DriverBug::NoUnmap)), [false; 3]);
    assert_eq!(from((MapAndUnmap, DriverBug::NoUnmap)), [false; 3]);
    // A line that is only cleaned remains cached.
    assert_eq!(from((CleanAndUnmap, DriverBug::NoUnmap)), [false, true, true]);
}

#[test]
fn transmit_mapped_as_receive_loses_dirty_lines() {
    use Maintenance::{CleanAndUnmap, Map, MapAndUnmap, WholeCache};
    let omap3 = machine("omap3-sdio");
    for strategy in [Strategy::StreamingCopy, Strategy::ZeroCopy, Strategy::PersistentCopy] {
        let to = |policy| wrong(&omap3, strategy, Direction::ToDevice, (policy, DriverBug::AsFromDevice));
        assert_eq!(to(Map), [true; 3], "{strategy:?}");
        assert_eq!(to(MapAndUnmap), [true; 3], "{strategy:?}");
        assert_eq!(to(CleanAndUnmap), [false; 3], "{strategy:?}: cleaned whatever the direction");
        assert_eq!(to(WholeCache), [false; 3], "{strategy:?}");
    }
    // Where the device is coherent, such mistakes have no effect.
    let seen = Transfers {
        driver_bug: Some(DriverBug::AsFromDevice),
        ..requested(Strategy::ZeroCopy, Direction::ToDevice)
    };
    assert!(rows(&machine("neoverse-n1"), &seen, 2048, 3).iter().all(|r| r.wrong == 0));
}

#[test]
fn device_does_not_read_dirty_lines_in_caches() {
    let omap3 = machine("omap3-sdio");
    let by = (Maintenance::Map, DriverBug::Nothing);
    assert_eq!(wrong(&omap3, Strategy::ZeroCopy, Direction::ToDevice, by), [true; 3]);
    // Uncached memory needs no maintenance.
    assert_eq!(wrong(&omap3, Strategy::Coherent, Direction::ToDevice, by), [false; 3]);
    assert_eq!(wrong(&omap3, Strategy::UncachedCopy, Direction::FromDevice, by), [false; 3]);
}

/// Returns a machine whose costs are whole ns: a core of 1 GHz with one cache.
fn simple() -> Description {
    let text = r#"
format = 1
about = "round numbers"
[core]
clock = "1 GHz"
cpus = 1
alu = "0 cycles"
branch = "0 cycles"
store = "1 cycles"
maintain = "10 cycles"
[timer]
clock = "1 GHz"
overhead = "0 cycles"
resolution = 1
[[level]]
name = "L1D"
holds = "data"
size = "32K"
line = "64"
ways = 8
latency = "2 cycles"
replacement = "lru"
write = "back"
allocate = true
inclusion = "neither"
shared = false
[memory]
size = "256M"
pages = ["4K", "2M"]
latency = "100 ns"
[uncached]
load = "50 ns"
store = "1 ns"
buffers = 4
gather = "64"
drain = "20 ns"
device_load = "100 ns"
device_store = "100 ns"
[dma]
rate = "64 MB/s"
burst = "64"
setup = "300 ns"
interrupt = "700 ns"
coherence = "none"
maintenance = "map-and-unmap"
map = "40 ns"
write_back = "30 ns"
widest = "32"
"#;
    Description::parse("simple.toml", text).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns a row in ns.
fn ns(d: &Description, requested: &Transfers, bytes: u64, count: u64) -> TransferTimes {
    let batch = Batch { bytes, seed: 7, first: 0, count };
    let (channel, rows) =
        Model::new(d, 1).transfer(requested, &batch).unwrap_or_else(|r| panic!("{}", r.reason));
    assert_eq!((channel.engine, channel.coherent, channel.chunks), (Engine::Described, false, 1));
    let ns = |units: u64| units * 1_000_000_000 / channel.hz;
    let row = rows.last().expect("there are some");
    TransferTimes {
        used: ns(row.used),
        copy: ns(row.copy),
        map: ns(row.map),
        engine: ns(row.engine),
        setup: ns(row.setup),
        unmap: ns(row.unmap),
        ..*row
    }
}

#[test]
fn each_part_costs_the_sum_computed_by_hand() {
    let d = simple();
    // 1024 bytes are 16 lines, 128 words, 64 pairs and 32 of the widest loads. The device takes 100 ns for the first
    // access to memory, and 1 us for each burst of 64 bytes.
    let engine = 300 + 100 + 16 * 1000 + 700;
    let streaming = ns(&d, &requested(Strategy::StreamingCopy, Direction::FromDevice), 1024, 3);
    assert_eq!((streaming.engine, streaming.setup), (engine, 1000));
    // Each line of the buffer is invalidated before and after the transfer. No line is dirty.
    assert_eq!((streaming.map, streaming.unmap), (40 + 16 * 10, 40 + 16 * 10));
    // A copy misses once per line. The other three pairs of the line hit, and its stores hit.
    assert_eq!(streaming.copy, 16 * 100 + 48 * 2 + 64);
    assert_eq!(streaming.used, 128 * 2);

    let uncached = ns(&d, &requested(Strategy::UncachedCopy, Direction::FromDevice), 1024, 3);
    assert_eq!((uncached.map, uncached.unmap), (0, 0));
    assert_eq!((uncached.copy, uncached.used), (32 * 50 + 64, 128 * 2));

    let out = ns(&d, &requested(Strategy::UncachedCopy, Direction::ToDevice), 1024, 3);
    // Of 16 blocks, four are still gathering at the end and are written out before the device starts. The other twelve
    // were written out earlier.
    assert_eq!((out.copy, out.map), (64 * 2 + 64 + 12 * 20, 4 * 20));

    let zero = ns(&d, &requested(Strategy::ZeroCopy, Direction::ToDevice), 1024, 3);
    // All 16 lines of the packet are dirty. They stay in the cache, clean.
    assert_eq!((zero.copy, zero.map, zero.unmap), (0, 40 + 16 * (10 + 30), 40));
    assert_eq!(zero.used, 128);

    let coherent = ns(&d, &requested(Strategy::Coherent, Direction::FromDevice), 1024, 3);
    assert_eq!((coherent.used, coherent.copy, coherent.map, coherent.unmap), (128 * 50, 0, 0, 0));
}

#[test]
fn whole_cache_maintenance_costs_every_line() {
    let d = simple();
    let requested = Transfers {
        maintenance: Some(Maintenance::WholeCache),
        ..requested(Strategy::StreamingCopy, Direction::FromDevice)
    };
    let row = ns(&d, &requested, 1024, 3);
    // 512 lines. The 16 lines of the packet, written by the copy before, are dirty when the buffer is mapped.
    assert_eq!((row.map, row.unmap), (40 + 512 * 10 + 16 * 30, 40 + 512 * 10));
    // After that, the lines of the packet miss too.
    assert_eq!(row.copy, 16 * 100 + 48 * 2 + 16 * 100 + 48);
}

#[test]
fn a_copy_that_reads_ahead_waits_for_its_first_line_alone() {
    let mut d = simple();
    let slow = ns(&d, &requested(Strategy::StreamingCopy, Direction::FromDevice), 1024, 3);
    d.dma.as_mut().expect("described").stream = Some(fathom_model::description::Time::ns(25.0));
    let quick = ns(&d, &requested(Strategy::StreamingCopy, Direction::FromDevice), 1024, 3);
    assert_eq!(slow.copy - quick.copy, 15 * 75);
}

#[test]
fn stashing_device_writes_into_the_last_level() {
    let mut stashed = machine("sapphire-rapids");
    // A pass that reads ahead hides the latency of its lines.
    stashed.dma.as_mut().expect("described").stream = None;
    let mut snooped = stashed.clone();
    snooped.dma.as_mut().expect("described").coherence = Coherence::Snooped;
    let requested = requested(Strategy::ZeroCopy, Direction::FromDevice);
    let [a, b] = [&stashed, &snooped].map(|d| rows(d, &requested, 16_384, 4)[3]);
    assert!(a.used < b.used / 2, "from the last level {} units, from memory {}", a.used, b.used);
}

#[test]
fn undescribed_engine_is_refused_and_none_moves_nothing() {
    let d = machine("omap3-sdio");
    let with =
        |engine| Transfers { engine: Some(engine), ..requested(Strategy::ZeroCopy, Direction::FromDevice) };
    assert!(run(&d, &with(Engine::Edu), 64, 1).is_err());
    let rows = rows(&d, &with(Engine::Nothing), 2048, 2);
    assert!(rows.iter().all(|r| r.unverified && r.engine == 0 && r.wrong == 0));
    let none = machine("zen3");
    assert!(run(&none, &with(Engine::Nothing), 64, 1).expect_err("no [dma]").remedy.contains("[dma]"));
}

#[test]
fn dma_buffer_has_the_attribute_of_the_core() {
    let d = machine("bcm2711");
    let batch = Batch { bytes: 64, seed: 1, first: 0, count: 1 };
    for (strategy, attribute) in
        [(Strategy::UncachedCopy, Attribute::NormalNc), (Strategy::StreamingCopy, Attribute::WriteBack)]
    {
        let (channel, _) = Model::new(&d, 1)
            .transfer(&requested(strategy, Direction::ToDevice), &batch)
            .unwrap_or_else(|r| panic!("{}", r.reason));
        assert_eq!(channel.attribute, Some(attribute));
    }
}
