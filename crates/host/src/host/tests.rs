use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::machine::batch::spaced::FILLERS;
use fathom_probe::machine::batch::{copy, stride, together};
use fathom_probe::machine::{Attribute, FactValue, Machine, MapRequest, Operation, Pages};
use fathom_probe::pattern::{self, Copy, Memory, SideBySide, SpacedChains, Stride, Trial};

use super::*;
use fathom_probe::machine::batch::copy::EXTRA_SOURCE_CELLS;

/// Opens a host for tests: it does not change the death signal of the test process and takes little memory.
fn host() -> Host {
    Host::open(Options {
        die_with_parent: false,
        priority: false,
        max_bytes: Some(64 << 20),
        ..Options::default()
    })
    .expect("a host opens without any privilege")
}

fn request(bytes: u64, place: u64) -> MapRequest {
    MapRequest { bytes, pages: Pages::Base, attribute: Attribute::WriteBack, place }
}

fn facts(host: &mut Host) -> Vec<Fact> {
    let mut all = Vec::new();
    host.facts(&mut |fact| all.push(fact));
    all
}

fn number(facts: &[Fact], name: &str) -> u64 {
    match facts.iter().find(|f| f.name == name).map(|f| &f.value) {
        Some(FactValue::Int(value)) => *value,
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn chase_ends_at_the_cell_of_the_chain() {
    let mut host = host();
    for (cells, order) in
        [(1, Order::Random), (100, Order::Sequential), (4096, Order::Random), (5000, Order::Window(4096))]
    {
        let map = host.map(&request(cells * 64, cells)).expect("memory");
        let chain = Chain::new(map.base, cells, 64, Layout::Packed, order, 7);
        host.initialise(&chain).expect("the chain fits its mapping");
        for n in [0, 1, 31, 32, 33, 1000, 12_345] {
            let start = host.cell(chain.at(3)).expect("a cell of the chain");
            let end = host.chase(start, n);
            assert_eq!(host.offset(end), chain.at(3 + n), "{cells} cells, {order:?}, {n} loads");
        }
    }
}

/// Every number of chains has a loop of its own.
#[test]
fn chains_side_by_side_end_at_the_cells_of_the_chain() {
    let mut host = host();
    let map = host.map(&request(1 << 20, 4)).expect("memory");
    let chain = Chain::new(map.base, 1 << 14, 64, Layout::Packed, Order::Random, 9);
    host.initialise(&chain).expect("the chain fits its mapping");
    for &chains in together::CHAINS {
        for n in [0, 1, 2, 777] {
            let begins = |steps: u64| (0..chains).map(move |nth| nth * 100 + steps);
            let mut cells: Vec<HostCell> =
                begins(0).map(|i| host.cell(chain.at(i)).expect("a cell of the chain")).collect();
            host.chase_together(&mut cells, n).expect("a number of chains with a loop");
            let ends: Vec<u64> = cells.iter().map(|cell| host.offset(*cell)).collect();
            assert_eq!(
                ends,
                begins(n).map(|i| chain.at(i)).collect::<Vec<u64>>(),
                "{chains} chains, {n} steps"
            );
        }
    }
    let mut three = [host.cell(map.base).expect("inside"); 3];
    assert!(host.chase_together(&mut three, 1).is_err());
    let trial = Trial {
        memory: Memory::of(1 << 20, 64),
        loads: 41,
        samples: 2 * together::CHAINS.len() as u64,
        ..Trial::of(SideBySide { chains: together::CHAINS.to_vec() })
    };
    let output = pattern::run(&mut host, &trial).expect("memory");
    assert_eq!(output.unverified(&trial), []);
    assert_eq!(output.rows.samples().len() as u64, trial.samples);
}

#[test]
fn spaced_chains_end_at_the_cells_of_the_chain() {
    let mut host = host();
    let map = host.map(&request(1 << 20, 4)).expect("memory");
    let chain = Chain::new(map.base, 1 << 14, 64, Layout::Packed, Order::Random, 9);
    host.initialise(&chain).expect("the chain fits its mapping");
    let (least, most) = (*FILLERS.start(), *FILLERS.end());
    for fillers in [least, least + 1, 77, most - 1, most] {
        for n in [0, 1, 2, 777] {
            let mut cells = [5, 4000].map(|at| host.cell(chain.at(at)).expect("a cell of the chain"));
            host.chase_spaced(&mut cells, fillers, n).expect("it has the loop");
            let ends = cells.map(|cell| host.offset(cell));
            assert_eq!(ends, [5, 4000].map(|at| chain.at(at + n)), "{fillers} instructions, {n} steps");
        }
    }
    let mut cells = [host.cell(map.base).expect("inside"); 3];
    for (count, fillers) in [(2, least - 1), (2, most + 1), (3, 9)] {
        assert!(host.chase_spaced(&mut cells[..count], fillers, 1).is_err(), "{count} cells, {fillers}");
    }
    let trial = Trial {
        memory: Memory::of(1 << 20, 64),
        loads: 41,
        samples: 9,
        ..Trial::of(SpacedChains { fillers: vec![2, 100, 1024] })
    };
    let output = pattern::run(&mut host, &trial).expect("memory");
    assert_eq!((output.unverified(&trial), output.rows.samples().len()), (vec![], 9));
}

/// Compares the host's own loop with the generic body, which checks every cell.
#[test]
fn sweep_equals_the_generic_body() {
    let mut host = host();
    for (nth, &(cells, step)) in
        [(1, 8), (4, 4096), (31, 64), (33, 64), (1024, 8), (5000, 16)].iter().enumerate()
    {
        for &operation in Operation::ALL.iter().filter(|operation| !operation.copies()) {
            let map = host.map(&request(cells * step, nth as u64)).expect("memory");
            let sweep = Sweep { base: map.base, stride: step, cells, operation };
            for (from, n) in [(0, 1), (cells, 0), (cells + cells / 2, 7), (cells - 1, 3 * cells + 50)] {
                let all = |host: &mut Host| -> Vec<u64> {
                    let cell = |host: &Host, i| host.cell(sweep.base + i * step).expect("inside");
                    (0..cells).map(|i| host.peek(cell(host, i))).map(HostCell::offset).collect()
                };
                host.initialise_sweep(&sweep, 7).expect("inside");
                let sum = stride::body(&mut host, &sweep, from, n);
                let left = all(&mut host);
                host.initialise_sweep(&sweep, 7).expect("inside");
                assert_eq!(host.sweep(&sweep, from, n), sum, "{cells} x {step} {operation:?}");
                assert!(all(&mut host) == left, "{cells} x {step} {operation:?}: other contents");
                let flushed = host.control(&Controls { flush: true, ..Controls::default() });
                assert_eq!(flushed.is_ok(), Cpu::FLUSH_PERMITTED.is_ok(), "{flushed:?}");
                if flushed.is_err() {
                    continue;
                }
                host.initialise_sweep(&sweep, 7).expect("inside");
                assert_eq!(host.sweep(&sweep, from, n), sum, "flushed: {cells} x {step} {operation:?}");
                assert!(all(&mut host) == left, "flushed: {cells} x {step} {operation:?}: other contents");
                host.control(&Controls::default()).expect("the defaults");
            }
        }
    }
}

/// Compares the host's own copy with the generic body. A copy that leaves the arena, or overlaps its own source, is
/// refused.
#[test]
fn copy_equals_the_generic_body_and_invalid_ones_are_refused() {
    let mut host = host();
    for (nth, &cells) in [1, 2, 33, 40, 320, 1001].iter().enumerate() {
        let bytes = (cells + EXTRA_SOURCE_CELLS) * 8;
        let map = host.map(&request(2 * bytes, nth as u64)).expect("memory");
        let copying = Copying { from: map.base, to: map.base + bytes, cells };
        for (from, n) in [(0, 1), (cells, 0), (cells + cells / 2, 7), (cells - 1, 9 * cells + 50)] {
            let mut after = |optimised: bool| -> Vec<u64> {
                let cell = |host: &Host, i| host.cell(copying.to + i * 8).expect("inside");
                host.initialise_sweep(&copying.source(), 7).expect("inside");
                let first = host.cell(copying.from).expect("inside");
                (0..cells).for_each(|i| {
                    let at = cell(&host, i);
                    host.link(at, first)
                });
                let ran = if optimised {
                    host.copy(&copying, from, n)
                } else {
                    copy::body(&mut host, &copying, from, n)
                };
                assert_eq!(ran, Some(()));
                (0..cells).map(|i| host.peek(cell(&host, i))).map(HostCell::offset).collect()
            };
            assert!(after(true) == after(false), "{cells} cells, {n} from {from}");
        }
        let end = host.memory.arena.length();
        for bad in [
            Copying { cells: u64::MAX, ..copying },
            Copying { from: end - 8, ..copying },
            Copying { to: end, ..copying },
            Copying { from: copying.from + 4, ..copying },
            Copying { from: copying.to, ..copying },
        ] {
            assert_eq!(host.copy(&bad, 0, 1), None, "{bad:?}");
        }
    }
    for operation in [Operation::CopyTo, Operation::CopyFrom] {
        let trial = Trial { memory: Memory::of(2560, 8), loads: 999, ..Trial::of(Copy { operation }) };
        let yielded = pattern::run(&mut host, &trial).expect("memory");
        assert_eq!(yielded.unverified(&trial), []);
    }
}

/// Each released page faults when it is touched again, and the samples are verified. A kernel that counts no faults is
/// distinguished from missing faults.
#[test]
fn first_touches_fault_and_are_verified() {
    let mut host = host();
    for (nth, &(bytes, step)) in [(16 << 10, 8), (1 << 20, 64), (1 << 20, 8192)].iter().enumerate() {
        for &operation in Operation::STRIDES {
            let cells = bytes / step;
            let stride = Stride { first_touch: true, ..Stride::of(operation) };
            let trial = Trial {
                memory: Memory { place: nth as u64, ..Memory::of(bytes, step) },
                loads: cells / 4,
                samples: 3,
                warm: 0,
                ..Trial::of(stride)
            };
            let yielded = match pattern::run(&mut host, &trial) {
                Err(refusal) if refusal.reason.contains("counts no page faults") => {
                    return fathom_skip::skipped!(Unchecked, "first touches: {}", refusal.reason);
                }
                other => other.expect("memory"),
            };
            assert_eq!(yielded.unverified(&trial), [], "{trial:?}: {:?}", yielded.rows);
            // Mapped memory does not fault: the same memory, mapped again, has frames before it is swept.
            let base = host.map(&request(bytes, nth as u64)).expect("memory").base;
            let sweep = stride.sweep(&trial.memory, base);
            let before = host.watch().faults;
            host.sweep(&sweep, 0, cells).expect("inside");
            let faults = host.watch().faults - before;
            assert!(faults < cells.min(bytes / 4096).max(2), "{faults} faults in memory that was there");
        }
    }
}

#[test]
fn chain_of_order_once_is_initialised_completely() {
    let mut host = host();
    let map = host.map(&request(1 << 20, 5)).expect("memory");
    for seed in 0..3 {
        let chain = Chain::new(map.base, 1 << 14, 64, Layout::Packed, Order::Once, seed);
        host.initialise(&chain).expect("inside");
        for n in [1, 1000, (1 << 14) - 1, 1 << 14] {
            let start = host.cell(chain.at(0)).expect("a cell of the chain");
            let end = host.chase(start, n);
            assert_eq!(host.offset(end), chain.at(n), "{n} loads");
        }
    }
}

#[test]
fn sweep_beyond_the_arena_is_refused() {
    let mut host = host();
    let map = host.map(&request(4096, 0)).expect("memory");
    let good = Sweep { base: map.base, stride: 64, cells: 64, operation: Operation::Rmw };
    assert!(host.sweep(&good, 0, 1).is_some());
    let end = host.memory.arena.length();
    for bad in [
        Sweep { cells: 0, ..good },
        Sweep { cells: u64::MAX, ..good },
        Sweep { cells: end / 64, base: end - 64, ..good },
        Sweep { stride: 12, ..good },
        Sweep { stride: u64::MAX / 8 * 8, ..good },
        Sweep { base: map.base + 4, ..good },
        Sweep { operation: Operation::CopyTo, ..good },
        // The values of its laps would not be offsets of cells.
        Sweep { base: end - 512, cells: 1, ..good },
    ] {
        assert_eq!(host.sweep(&bad, 0, 1), None, "{bad:?}");
    }
}

/// The old contents are removed, no cell exists twice, and a later request may get the same place.
#[test]
fn shared_pages_are_in_one_frame_or_refused() {
    let mut host = host();
    let ordinary = |host: &mut Host| {
        let map = host.map(&request(16 << 12, 3)).expect("memory");
        let cell = host.cell(map.base + 4096).expect("inside");
        host.link(cell, cell);
        (map.base, host.offset(host.memory.arena.follow(cell)))
    };
    let (base, linked) = ordinary(&mut host);
    assert_eq!(linked, base + 4096);
    match host.map_shared(&request(16 << 12, 3), 1) {
        Ok(map) => {
            assert_eq!((map.base, map.bytes), (base, 16 << 12));
            let cell = host.cell(base + 4096).expect("inside");
            let held = host.follow(cell);
            assert_eq!(host.offset(held), 0);
            let mut reported = Vec::new();
            host.facts_after(&mut |fact| reported.push(fact.name));
            assert!(reported.contains(&"memory.after.shared".to_owned()), "{reported:?}");
        }
        Err(refusal) => {
            fathom_skip::skipped!(Unchecked, "no shared pages here: {}; {}", refusal.reason, refusal.remedy)
        }
    }
    assert_eq!(ordinary(&mut host), (base, linked));
    for (request, frames) in
        [(request(4096, 1), 2), (MapRequest { pages: Pages::Huge, ..request(4096, 1) }, 1)]
    {
        let refusal = host.map_shared(&request, frames).expect_err("the kernel has one such page");
        assert!(refusal.remedy.contains("frames=1"), "{}", refusal.remedy);
    }
}

#[test]
fn unwritten_memory_reads_as_the_first_cell() {
    let mut host = host();
    let map = host.map(&request(1 << 20, 1)).expect("memory");
    for offset in [0, 8, 4096, (1 << 20) - 8] {
        let cell = host.cell(map.base + offset).expect("inside the mapping");
        let next = host.follow(cell);
        assert_eq!(host.offset(next), 0);
    }
}

#[test]
fn cells_are_aligned_and_inside_the_mapping() {
    let mut host = host();
    let map = host.map(&request(8192, 5)).expect("memory");
    assert!(host.cell(map.base).is_some());
    assert!(host.cell(map.base + map.bytes - 8).is_some());
    assert!(host.cell(map.base + 4).is_none(), "not a multiple of 8");
    assert!(host.cell(map.base + map.bytes).is_none(), "one past the end");
    assert!(host.cell(map.base.wrapping_sub(8)).is_none(), "before the start");
    assert!(host.cell(u64::MAX).is_none());
    assert!(host.cell(u64::MAX - 7).is_none());
}

#[test]
fn a_chain_that_leaves_its_mapping_is_refused() {
    let mut host = host();
    let map = host.map(&request(4096, 0)).expect("memory");
    let cells = map.bytes / 64 + 1;
    let refusal = host.initialise(&Chain::new(map.base, cells, 64, Layout::Packed, Order::Sequential, 0));
    assert!(refusal.is_err());
}

#[test]
fn cells_of_one_host_are_valid_in_another() {
    let mut small = host();
    let mut large = host();
    let map = large.map(&request(32 << 20, 9)).expect("memory");
    let last = large.cell(map.base + map.bytes - 8).expect("inside");
    // `small` has no mapping at this offset; its reservation has the same length, so this reads a zero.
    let next = small.follow(last);
    assert_eq!(small.offset(next), 0);
}

#[test]
fn equal_requests_get_equal_placements_and_places_differ() {
    let mut host = host();
    let mut starts = Vec::new();
    for place in 0..16 {
        let first = host.map(&request(16 << 10, place)).expect("memory");
        host.map(&request(1 << 20, place + 100)).expect("memory");
        let again = host.map(&request(16 << 10, place)).expect("memory");
        assert_eq!(first, again);
        assert!(first.base.is_multiple_of(first.page_bytes));
        starts.push(first.base);
    }
    starts.sort_unstable();
    starts.dedup();
    assert!(starts.len() >= 12, "16 places gave {} starts", starts.len());
}

#[test]
fn impossible_requests_are_refused_with_reason() {
    let mut host = host();
    let nothing = host.map(&request(0, 0)).expect_err("0 bytes");
    assert!(nothing.reason.contains("0 bytes"));
    for bytes in [65 << 20, 1 << 50, u64::MAX, u64::MAX - 4095] {
        let refusal = host.map(&request(bytes, 0)).expect_err("more than the ceiling");
        assert!(refusal.reason.contains(&bytes.to_string()), "{refusal:?}");
        assert!(refusal.reason.contains("limited by"), "{refusal:?}");
        assert!(!refusal.remedy.is_empty());
    }
    for attribute in [Attribute::WriteThrough, Attribute::NormalNc, Attribute::Device] {
        match host.map(&MapRequest { attribute, ..request(4096, 0) }) {
            Err(refusal) => assert!(refusal.remedy.contains("fathom image"), "{refusal:?}"),
            Ok(_) => fathom_skip::skipped!(Unchecked, "a driver provides {} memory here", attribute.token()),
        }
    }
    // The host still works.
    assert!(host.map(&request(4096, 0)).is_ok());
}

#[test]
fn memory_limit_holds_over_many_requests() {
    let mut host = host();
    for place in 0..12 {
        host.map(&request(24 << 20, place)).expect("24 MiB are below a ceiling of 64 MiB");
        assert!(host.memory.populated() <= 64 << 20);
    }
    let map = host.map(&request(64 << 20, 3)).expect("the memory of earlier requests is released for it");
    assert!(host.memory.populated() <= 64 << 20);
    let cell = host.cell(map.base).expect("mapped");
    let next = host.follow(cell);
    assert_eq!(host.offset(next), 0, "memory that was given up and taken again is zero");
}

#[test]
fn huge_pages_are_verified_or_refused() {
    let mut host = host();
    let facts = facts(&mut host);
    match host.map(&MapRequest { pages: Pages::Huge, ..request(3 << 20, 2) }) {
        Ok(map) => {
            assert_eq!(map.page_bytes, number(&facts, "page.huge"));
            assert!(map.base.is_multiple_of(map.page_bytes));
            let chain = Chain::new(map.base, map.bytes / 64, 64, Layout::Packed, Order::Random, 1);
            host.initialise(&chain).expect("inside");
            let start = host.cell(chain.at(0)).expect("inside");
            let end = host.chase(start, chain.cells() + 5);
            assert_eq!(host.offset(end), chain.at(5));
        }
        Err(refusal) => assert!(!refusal.remedy.is_empty(), "{refusal:?}"),
    }
}

#[test]
fn injected_base_page_determines_placement() {
    for page in [16 << 10, 64 << 10] {
        let options = Options {
            base_page: Some(page),
            die_with_parent: false,
            priority: false,
            max_bytes: Some(64 << 20),
            ..Options::default()
        };
        let mut host = Host::open(options).expect("a multiple of the real page");
        let map = host.map(&request(1, 77)).expect("memory");
        assert_eq!((map.page_bytes, map.bytes), (page, page));
        assert!(map.base.is_multiple_of(page));
        assert_eq!(number(&facts(&mut host), "page.base"), page);
        assert_eq!(number(&facts(&mut host), "page.injected"), 1);
    }
}

#[test]
fn a_cpu_that_is_not_allowed_is_refused() {
    let options = Options { cpu: Some(1023), die_with_parent: false, ..Options::default() };
    let refusal = Host::open(options).err().expect("no such CPU here");
    assert!(refusal.reason.contains("1023"), "{refusal:?}");
    assert!(!refusal.remedy.is_empty());
}

#[test]
fn clock_and_thread_time_advance() {
    let mut host = host();
    let (before, watch) = (host.now(), host.watch());
    host.alu(10_000_000);
    let (after, later) = (host.now(), host.watch());
    assert!(after.since(before) > 0);
    assert!(later.cpu_ns > watch.cpu_ns && later.wall_ns > watch.wall_ns);
    assert_eq!(later.accesses, 0);
}

#[test]
fn facts_fit_the_wire() {
    let mut host = host();
    let mut all = facts(&mut host);
    host.facts_after(&mut |fact| all.push(fact));
    let mut names: Vec<&str> = all.iter().map(|f| f.name.as_str()).collect();
    for fact in &all {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b);
        assert!(fact.name.bytes().all(plain), "{}", fact.name);
        if let FactValue::Text(text) = &fact.value {
            assert!(!text.contains('\n'), "{fact:?}");
        }
    }
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "a fact is reported once");
    for name in [
        "cpu.pinned",
        "page.base",
        "clock.name",
        "clock.hz",
        "clock.hz.ppm",
        "trust.evidence",
        "memory.locked",
        "privilege.fifo",
        "privilege.memlock",
        "privilege.counters",
        "env.kernel.release",
        "env.affinity",
        "env.memory.total.bytes",
        "env.after.loadavg",
        "memory.after.locked",
    ] {
        assert!(names.contains(&name), "{name} is missing");
    }
}

#[test]
fn unprivileged_flushes_are_refused_with_reason() {
    assert_eq!(flushes(Ok(())), Ok(()));
    let refusal = flushes(Err("flushes are the kernel's here")).expect_err("not permitted");
    assert!(refusal.reason.contains("the kernel's here") && !refusal.remedy.is_empty());
}
