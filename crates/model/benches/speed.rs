//! Speed of the model, compared with pycachesim: `cargo bench -p fathom-model`.
//!
//! A plain program without a harness. It prints one table of million loads per second of the thread's CPU time, best of
//! three. The rates of pycachesim were measured once, on a 2.95 GHz x86; those of the model are measured by this run.

#[path = "../tests/common/golden.rs"]
mod golden;

use fathom_model::{Description, Model};
use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::machine::{Attribute, Machine, MapRequest, Pages};
use rustix::time::{ClockId, clock_gettime};

use golden::{LOADS, PLAIN, Pattern, full, machine};

/// Rates of pycachesim's C core, with one address per call.
const PYCACHESIM: [f64; 4] = [108.0, 21.7, 208.0, 47.5];
/// Target rates of the model: counts only; full, base pages; full, huge pages.
const TARGETS: [[f64; 4]; 3] =
    [[500.0, 120.0, 800.0, 150.0], [250.0, 20.0, 400.0, 80.0], [250.0, 60.0, 400.0, 80.0]];

/// Returns the CPU time of this thread in seconds, which excludes other work on the machine.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns million loads per second of the best of three runs. Addresses are generated before the clock starts.
fn rate(d: &Description, (pattern, loads): (Pattern, u64), pages: Pages, run: fn(&mut Model, &[u64])) -> f64 {
    let mut model = Model::new(d, 1);
    let request = MapRequest { bytes: 64 << 20, pages, attribute: Attribute::WriteBack, place: 0 };
    let base = model.map(&request).expect("1 GiB holds it").base;
    let mut addresses = Vec::with_capacity(loads as usize);
    pattern.run(loads, |batch| addresses.extend(batch.iter().map(|a| base + a)));
    let mut best = 0f64;
    for _ in 0..3 {
        let begun = cpu_time();
        for batch in addresses.chunks(1 << 14) {
            run(&mut model, batch);
        }
        best = best.max(loads as f64 / (cpu_time() - begun) / 1e6);
    }
    best
}

fn counted(model: &mut Model, batch: &[u64]) {
    model.count_loads(batch).expect("inside");
}

fn timed(model: &mut Model, batch: &[u64]) {
    model.loads(batch).expect("inside");
}

/// Returns million loads per second of a chase over `bytes`, as the survey runs it.
fn chase(d: &Description, bytes: u64, order: Order, loads: u64) -> f64 {
    let mut model = Model::new(d, 1);
    let request = MapRequest { bytes, pages: Pages::Huge, attribute: Attribute::WriteBack, place: 0 };
    let base = model.map(&request).expect("1 GiB holds it").base;
    let chain = Chain::new(base, bytes / 64, 64, Layout::Packed, order, 1);
    model.initialise(&chain).expect("inside");
    let start = model.cell(chain.at(0)).expect("mapped");
    let begun = cpu_time();
    let end = model.chase(start, loads);
    assert_eq!(model.offset(end), chain.at(loads));
    loads as f64 / (cpu_time() - begun) / 1e6
}

fn row(name: &str, rates: [f64; 4]) {
    println!("{name:<34}{}", rates.map(|r| format!("{r:>9.1}")).concat());
}

fn main() {
    // `cargo bench` passes --bench. Other words select rows: counts, full, chase, or columns by letter. A number sets
    // the loads of a run.
    let selected: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let number = selected.iter().find_map(|a| a.parse().ok());
    let loads = number.unwrap_or(LOADS / 5);
    let selected: Vec<String> = selected.into_iter().filter(|a| a.parse::<u64>().is_err()).collect();
    let enabled = |name: &str| selected.is_empty() || selected.iter().any(|o| o == name);
    let (plain, full) = (machine(PLAIN), machine(&full()));
    let all = |d: &Description, pages, run: fn(&mut Model, &[u64])| {
        Pattern::ALL.map(|p| if enabled(p.letter()) { rate(d, (p, loads), pages, run) } else { 0.0 })
    };
    println!(
        "million loads per second{}{}",
        " ".repeat(12),
        Pattern::ALL.map(|p| format!("{:>9}", p.letter())).concat()
    );
    if enabled("counts") {
        row("counts only, 2 levels", all(&plain, Pages::Base, counted));
        row("  aim", TARGETS[0]);
        row("  pycachesim, C core", PYCACHESIM);
    }
    if enabled("full") {
        row("full, 3 levels, TLBs, 4 KiB pages", all(&full, Pages::Base, timed));
        row("  aim", TARGETS[1]);
        row("full, 3 levels, TLBs, 2 MiB pages", all(&full, Pages::Huge, timed));
        row("  aim", TARGETS[2]);
    }
    if !enabled("chase") {
        return;
    }
    println!("\nchase, full, 2 MiB pages, million loads per second");
    let orders =
        [("random", Order::Random), ("window 4K", Order::Window(4096)), ("sequential", Order::Sequential)];
    for (name, order) in orders {
        let rates =
            [16u64 << 10, 512 << 10, 4 << 20, 64 << 20].map(|bytes| chase(&full, bytes, order, loads / 2));
        row(&format!("  {name}: 16K 512K 4M 64M"), rates);
    }
}
