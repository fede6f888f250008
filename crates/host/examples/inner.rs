//! The optimised inner loop of the host, alone, for the test that disassembles it; run as a program it
//! prints a quick latency ladder: `inner [KiB]...`.
//!
//! Nothing here judges: it is the bare product of `Machine::chase` over [`Host`], compiled as the probe
//! compiles it.

use std::hint::black_box;

use fathom_host::{Host, HostCell, Options};
use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::machine::batch::stride::Sweep;
use fathom_probe::machine::{Attribute, Machine, MapRequest, Operation, Pages, Refusal};

/// The loop under test.
#[inline(never)]
fn fathom_chase_loop(host: &mut Host, start: HostCell, n: u64) -> HostCell {
    host.chase(start, n)
}

/// The same with one memory access too many in each turn: the test's check must reject it.
#[inline(never)]
fn fathom_spoiled_loop(host: &mut Host, start: HostCell, n: u64, seen: &mut [u64; 1]) -> HostCell {
    let mut cell = start;
    for _ in 0..n / 32 {
        cell = host.chase(cell, 32);
        // A value that the compiler must store in each turn.
        black_box(&mut *seen)[0] += 1;
    }
    cell
}

/// Ticks of `n` dependent loads.
fn ticks(host: &mut Host, start: HostCell, n: u64) -> u64 {
    let begin = host.now();
    let end = fathom_chase_loop(host, start, n);
    let ticks = host.now().since(begin);
    black_box(end);
    ticks
}

/// Ticks an access of a sweep, n of them less from 2n.
fn strides(host: &mut Host, sweep: &Sweep, n: u64) -> f64 {
    let mut ticks = |n| {
        let begin = host.now();
        black_box(host.sweep(sweep, 0, n));
        host.now().since(begin)
    };
    ticks(2 * n);
    let mut all: Vec<f64> = (0..9).map(|_| (ticks(2 * n) as f64 - ticks(n) as f64) / n as f64).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn ladder(host: &mut Host, kib: u64, pages: Pages) -> Result<(), Refusal> {
    let map = host.map(&MapRequest { bytes: kib << 10, pages, attribute: Attribute::WriteBack, place: 1 })?;
    let chain = Chain::new(map.base, (kib << 10) / 64, 64, Layout::Packed, Order::Random, kib);
    host.initialise(&chain)?;
    let Some(start) = host.cell(chain.at(0)) else { return Err(Refusal::new("an empty chain", "")) };
    let n = chain.cells().clamp(100_000, 2_000_000) / 32 * 32;
    fathom_chase_loop(host, start, n);
    host.quiet_begin();
    let mut all: Vec<(u64, u64)> =
        (0..9).map(|_| (ticks(host, start, n), ticks(host, start, 2 * n))).collect();
    let begin = host.now();
    host.alu(1_000_000);
    let alu = host.now().since(begin);
    host.quiet_end();
    all.sort_by_key(|(one, two)| two.saturating_sub(*one));
    let (one, two) = all[all.len() / 2];
    let per_load = two.saturating_sub(one) as f64 / n as f64;
    let per_cycle = alu as f64 / 1e6;
    println!("{kib:>8} KiB {pages:?}: {per_load:.3} ticks, {:.2} additions", per_load / per_cycle);
    for &operation in Operation::STRIDES {
        let sweep = Sweep { base: map.base, stride: 64, cells: (kib << 10) / 64, operation };
        let per_access = strides(host, &sweep, n);
        println!(
            "  {operation:?} at 64 bytes: {per_access:.3} ticks, {:.2} additions",
            per_access / per_cycle
        );
    }
    let mut seen = [0];
    // A number the compiler cannot know, or there would be no loop.
    black_box(fathom_spoiled_loop(host, start, black_box(64), &mut seen));
    Ok(())
}

fn main() -> Result<(), String> {
    let words = |r: Refusal| format!("{}; {}", r.reason, r.remedy);
    let mut host = Host::open(Options { die_with_parent: false, ..Options::default() }).map_err(words)?;
    host.facts(&mut |fact| println!("{} {:?}", fact.name, fact.value));
    let mut sizes: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![16, 32, 256, 1024, 8192, 65_536];
    }
    for kib in sizes {
        for pages in [Pages::Base, Pages::Huge] {
            if let Err(refusal) = ladder(&mut host, kib, pages) {
                println!("{kib:>8} KiB {pages:?}: {}", words(refusal));
            }
        }
    }
    Ok(())
}
