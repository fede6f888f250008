//! Wake-ups along a described path: exact costs in near caches, and the effect of a shared level.

mod common;

use common::random_description;
use fathom_model::description::{Stage, Time, Wakeup};
use fathom_model::{Description, Model, catalog};
use fathom_probe::machine::{ActivationRow, Machine, Stream, Wake as _, Wakes};
use fathom_probe::pattern::{self, CoRunning, Memory, Trial, Wake};

fn machine(name: &str) -> Description {
    catalog::load(name).expect("embedded").expect("sound")
}

/// Shortens the path so that the nearest caches hold all of it: each run of lines uses a set at most once.
fn short(mut d: Description) -> Description {
    d.wakeup = Some(Wakeup {
        instruction: Time::cycles(1.5),
        common: 64,
        within: 64 << 10,
        stages: [10, 7, 100, 1000, 5].map(|instructions| Stage { instructions, code: 64, data: 0 }),
    });
    d.timer.overhead = Time::cycles(30.0);
    d
}

fn trial(every_ns: u64, with: &[u64]) -> Trial {
    waiting(Wakes { every_ns, traced: true, ..Wakes::default() }, with)
}

fn waiting(wakes: Wakes, with: &[u64]) -> Trial {
    let streams = with.iter().zip(1..).map(|(&bytes, cpu)| Stream { cpu, bytes }).collect();
    Trial {
        memory: Memory::of(64, 64),
        loads: 1,
        samples: 200,
        warm: 20,
        beside: CoRunning { streams, ..CoRunning::default() },
        ..Trial::of(Wake::of(wakes))
    }
}

fn woken(d: &Description, seed: u64, trial: &Trial) -> Vec<ActivationRow> {
    let mut model = Model::new(d, seed);
    model.quiet_begin();
    pattern::run(&mut model, trial).expect("woken").rows.activations().to_vec()
}

/// Returns the machine with the numbers of lines on the path scaled.
fn scaled(d: &Description, by: f64) -> Description {
    let mut d = d.clone();
    let wakeup = d.wakeup.as_mut().expect("described");
    let scale = |bytes: u64| ((bytes as f64 * by / 64.0).round() as u64).max(1) * 64;
    wakeup.common = scale(wakeup.common);
    for stage in &mut wakeup.stages {
        (stage.code, stage.data) = (scale(stage.code), scale(stage.data));
    }
    d
}

/// Loads on the other CPU.
const LOADS: [(&str, &[u64]); 4] =
    [("idle", &[]), ("128 MiB", &[128 << 20]), ("2 MiB", &[2 << 20]), ("256 KiB", &[256 << 10])];

fn mean(rows: &[ActivationRow]) -> f64 {
    rows.iter().map(|w| w.user_ns as f64 / 1e3).sum::<f64>() / rows.len() as f64
}

/// Returns the least, median and greatest value.
fn extremes(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 2], values[values.len() - 1])
}

/// Prints one line of the table, for the activations of all seeds.
fn print_row(what: &str, rows: &[Vec<ActivationRow>]) {
    let place = |of: fn(&ActivationRow) -> u64| {
        let mut all: Vec<f64> = rows.iter().flatten().map(|w| of(w) as f64 / 1e3).collect();
        all.sort_by(f64::total_cmp);
        format!("{:7.2} {:7.2} {:7.2}", all[all.len() / 2], all[all.len() * 99 / 100], all[all.len() - 1])
    };
    let irq = place(|w| w.irq_ns.unwrap_or(0));
    let switch = place(|w| w.switch_ns.unwrap_or(0));
    let missed: u64 = rows.iter().flatten().map(|w| w.missed).sum();
    println!("{what:46} | {irq} | {switch} | {} | missed {missed}", place(|w| w.user_ns));
}

#[test]
fn cached_path_costs_instructions_and_hits_exactly() {
    for name in ["am5728", "am5728-l2-off"] {
        let d = short(machine(name));
        // A line of code and the shared line of data of each stage up to this one, 4 cycles per hit, with TLB hits. At
        // 1.5 GHz,
        // three half cycles are one ns.
        let ns = |n: usize| {
            let until = &d.wakeup.as_ref().expect("described").stages[1..=n];
            until.iter().map(|stage| 3 * stage.instructions + 2 * (4 + 4)).sum::<u64>() / 3
        };
        for woke in woken(&d, 5, &trial(100_000, &[])) {
            let places = (woke.irq_ns, woke.wake_ns, woke.switch_ns, woke.user_ns);
            assert_eq!(places, (Some(ns(1)), Some(ns(2)), Some(ns(3)), ns(4)), "{name}");
            assert_eq!((woke.missed, woke.skipped, woke.cpu, woke.involuntary), (0, 0, 0, 0));
        }
    }
}

#[test]
fn first_wake_up_misses_and_eviction_makes_it_miss_again() {
    let d = machine("am5728");
    let first = Trial { warm: 0, samples: 2, ..trial(1_000_000, &[]) };
    let cold = woken(&d, 1, &first);
    let lines = d
        .wakeup
        .as_ref()
        .map_or(0, |w| w.common / 64 + w.stages[1..].iter().map(|s| s.code / 64 + s.data / 64).sum::<u64>());
    assert!(cold[0].user_ns > lines * 100, "each of {lines} lines comes from memory: {:?}", cold[0]);
    assert!(cold[1].user_ns < cold[0].user_ns / 2, "{cold:?}");
    let warm = woken(&d, 1, &trial(1_000_000, &[]));
    // 4 MiB are twice the L2 and evict everything from it.
    let wakes = Wakes { every_ns: 10_000_000, evict: 4 << 20, traced: true, ..Wakes::default() };
    let spoilt = woken(&d, 1, &Trial { samples: 5, warm: 2, ..waiting(wakes, &[]) });
    assert!(spoilt.iter().all(|w| w.user_ns > 2 * warm[0].user_ns), "{spoilt:?} {:?}", warm[0]);
    let wakes = Wakes { flushed: true, traced: true, ..Wakes::default() };
    let flushed = woken(&d, 1, &waiting(wakes, &[]));
    let walk = |w: &ActivationRow| w.work_ns - w.user_ns;
    assert!(walk(&flushed[9]) > walk(&warm[9]) + 90, "its own line comes from memory: {:?}", flushed[9]);
}

#[test]
fn places_follow_one_another_and_a_seed_gives_the_same() {
    for name in ["am5728", "am5728-l2-off", "bcm2711"] {
        let requested = trial(200_000, &[8 << 20]);
        let d = machine(name);
        let rows = woken(&d, 3, &requested);
        for w in &rows {
            let places = [w.irq_ns, w.wake_ns, w.switch_ns, Some(w.user_ns), Some(w.work_ns)];
            assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{name}: {w:?}");
        }
        assert_eq!(rows, woken(&d, 3, &requested), "{name}");
        assert_ne!(rows, woken(&d, 4, &requested), "{name}: lines lie elsewhere");
        let untraced = waiting(Wakes { every_ns: 200_000, ..Wakes::default() }, &[8 << 20]);
        assert!(woken(&d, 3, &untraced).iter().zip(&rows).all(|(u, t)| {
            (u.irq_ns, u.wake_ns, u.switch_ns, u.user_ns) == (None, None, None, t.user_ns)
        }));
    }
}

#[test]
fn load_on_other_cpu_needs_a_shared_level_to_matter() {
    let mut d = machine("am5728-l2-off");
    // The time of memory varies with random draws that both CPUs share, and with the rows that they open for each
    // other.
    (d.memory.spread, d.memory.rows) = (Time::ZERO, None);
    let idle = woken(&d, 2, &trial(1_000_000, &[]));
    for bytes in [256 << 10, 2 << 20, 128 << 20] {
        assert_eq!(woken(&d, 2, &trial(1_000_000, &[bytes])), idle, "{bytes}");
    }
    let mut shared = machine("am5728");
    (shared.memory.spread, shared.memory.rows) = (Time::ZERO, None);
    let user =
        |with: &[u64]| woken(&shared, 2, &trial(1_000_000, with)).iter().map(|w| w.user_ns).sum::<u64>();
    assert!(
        user(&[128 << 20]) > user(&[]) + 200 * 1000,
        "a microsecond each: {} {}",
        user(&[128 << 20]),
        user(&[])
    );
}

#[test]
fn more_lines_take_longer() {
    for name in ["am5728", "am5728-l2-off"] {
        for with in [&[][..], &[128 << 20]] {
            let median = |by: f64| {
                let mut all: Vec<u64> = (1..=3)
                    .flat_map(|seed| woken(&scaled(&machine(name), by), seed, &trial(1_000_000, with)))
                    .map(|w| w.user_ns)
                    .collect();
                all.sort_unstable();
                all[all.len() / 2]
            };
            let medians = [0.5, 0.66, 1.0, 1.5].map(median);
            assert!(medians.is_sorted_by(|a, b| a < b), "{name} {with:?}: {medians:?}");
        }
    }
}

#[test]
fn stages_are_ordered_on_any_random_machine() {
    let mut described = 0;
    for seed in 0..120 {
        let d = random_description(seed);
        if d.wakeup.is_none() {
            continue;
        }
        described += 1;
        let with: &[u64] = if d.core.cpus > 1 { &[40_000] } else { &[] };
        let requested = Trial { samples: 6, warm: 2, ..trial(50_000, with) };
        let rows = woken(&d, seed, &requested);
        assert_eq!(rows, woken(&d, seed, &requested), "seed {seed}");
        for w in rows {
            let places = [w.irq_ns, w.wake_ns, w.switch_ns, Some(w.user_ns), Some(w.work_ns)];
            assert!(places.is_sorted(), "seed {seed}: {w:?}");
        }
    }
    assert!(described > 40, "{described}");
}

#[test]
fn description_without_wakeup_path_is_refused_with_remedy() {
    let mut model = Model::new(&machine("zen3"), 1);
    let refusal = pattern::run(&mut model, &trial(1_000_000, &[])).expect_err("nothing is described");
    assert!(refusal.remedy.contains("[wakeup]") && refusal.remedy.contains("--on host"), "{refusal:?}");
    assert!(model.wake_at(1).is_err());
    assert!(model.wake_end().expect("nothing").places.is_empty());
}

/// The effect of an absent L2: prints a table (`--nocapture`) and checks its main results. Nine seeds in the full tier,
/// three in the default one.
#[test]
fn absent_l2_costs_less_where_another_cpu_fills_it() {
    let seeds = if std::env::var_os("FATHOM_FULL").is_some() { 9 } else { 3 };
    println!("us after expiry at the places irq, switch and user: median, p99 and max of each");
    for every in [100_000, 1_000_000] {
        for lines in [0.66, 1.0, 1.5] {
            // If the path is not scaled to the traced number of lines, the most important loads suffice.
            let loads = if lines == 1.0 { &LOADS[..] } else { &LOADS[..2] };
            let cost = |(load, with): &(&str, &[u64])| {
                let users = ["am5728", "am5728-l2-off"].map(|name| {
                    let d = scaled(&machine(name), lines);
                    let requested = Trial { samples: 40, ..trial(every, with) };
                    let rows: Vec<Vec<ActivationRow>> =
                        (1..=seeds).map(|seed| woken(&d, seed, &requested)).collect();
                    print_row(&format!("{name:13} {:4} us, lines x {lines:.2}, {load}", every / 1000), &rows);
                    rows.iter().map(|rows| mean(rows)).collect::<Vec<f64>>()
                });
                let cost = extremes(users[0].iter().zip(&users[1]).map(|(on, off)| off - on).collect());
                println!("  an absent L2: {:+.2} us (seeds: {:+.2} to {:+.2})", cost.1, cost.0, cost.2);
                cost
            };
            let costs: Vec<_> = loads.iter().map(cost).collect();
            let (idle, wide) = (costs[0], costs[1]);
            assert!(idle.0 > 0.0, "every seed: {idle:?}");
            if let Some(narrow) = costs.get(3) {
                assert!((narrow.1 - idle.1).abs() < 0.05 * idle.1, "256 KiB leave room: {narrow:?} {idle:?}");
            }
            if every == 1_000_000 {
                assert!(wide.1 < idle.1, "{wide:?} {idle:?}");
            }
        }
    }
}
