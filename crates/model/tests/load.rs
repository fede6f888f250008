//! Co-running loads: each stressor is a stream of its own, on its own CPU, through the levels that are shared.

use fathom_model::description::Time;
use fathom_model::{Description, Model, catalog};
use fathom_probe::load::{Load, LoadStats, Stress};
use fathom_probe::machine::{
    ActivationRow, Control as _, Counters as _, Disturb as _, Machine as _, Refusal, Wakes,
};
use fathom_probe::pattern::{self, CoRunning, Memory, Trial, Wake};

fn machine(name: &str) -> Description {
    catalog::load(name).expect("embedded").expect("sound")
}

/// The same machine; memory takes the same time for every access, whoever came before.
fn even(mut d: Description) -> Description {
    (d.memory.spread, d.memory.rows) = (Time::ZERO, None);
    d
}

fn trial(load: &str, samples: u64) -> Trial {
    let load = Load::parse(load).expect("a load");
    Trial {
        memory: Memory::of(64, 64),
        loads: 1,
        samples,
        warm: 20,
        beside: CoRunning { load, ..CoRunning::default() },
        ..Trial::of(Wake::of(Wakes { every_ns: 1_000_000, ..Wakes::default() }))
    }
}

fn run(d: &Description, load: &str, samples: u64) -> Result<(Vec<ActivationRow>, Vec<LoadStats>), Refusal> {
    let mut model = Model::new(d, 1);
    model.quiet_begin();
    let output = pattern::run(&mut model, &trial(load, samples))?;
    assert_eq!(output.load_report.stalls, None);
    Ok((output.rows.activations().to_vec(), output.load_report.load_stats))
}

/// Activations and counts of a load of one stressor.
fn one(d: &Description, load: &str, samples: u64) -> (Vec<ActivationRow>, LoadStats) {
    let (rows, counts) = run(d, load, samples).unwrap_or_else(|refusal| panic!("{load}: {refusal:?}"));
    assert_eq!(counts.len(), 1);
    (rows, counts[0])
}

fn user(rows: &[ActivationRow]) -> Vec<u64> {
    rows.iter().map(|w| w.user_ns).collect()
}

fn mean(rows: &[ActivationRow]) -> f64 {
    user(rows).iter().sum::<u64>() as f64 / rows.len() as f64
}

#[test]
fn computing_touches_no_memory() {
    let d = machine("am5728");
    let (alone, none) = run(&d, "none", 50).expect("no load");
    assert_eq!(none, []);
    for load in ["cpu", "cpu*3"] {
        let (rows, counts) = one(&d, load, 50);
        assert_eq!(rows, alone, "{load}");
        assert_eq!((counts.lines, counts.faults, counts.bytes, counts.shared), (0, 0, 0, Some(0)));
        // One CPU computes all the time: eight cycles a pass.
        let passes = counts.ns as f64 * 1.5 / 8.0;
        assert!((counts.passes as f64 - passes).abs() < 10.0, "{load}: {counts:?}");
    }
}

#[test]
fn only_what_reaches_a_shared_level_slows_another_cpu() {
    let d = even(machine("am5728"));
    let (alone, _) = run(&d, "none", 50).expect("no load");
    // It stays in the private level once it is there, before the activations that count.
    let (rows, near) = one(&d, "chase:4K", 50);
    assert_eq!(rows, alone);
    assert!(near.shared.is_some_and(|shared| shared < 200) && near.lines > 1_000_000, "{near:?}");
    for load in ["read:8M", "write:8M", "copy:8M", "chase:8M", "pages", "vm:8M", "malloc:8M"] {
        let (rows, counts) = one(&d, load, 50);
        assert!(mean(&rows) > 1.1 * mean(&alone), "{load}: {} {}", mean(&rows), mean(&alone));
        assert!(counts.shared.is_some_and(|shared| shared > 100_000), "{load}: {counts:?}");
    }
    // Without a shared level nothing that runs there matters.
    let off = even(machine("am5728-l2-off"));
    let (alone, _) = run(&off, "none", 50).expect("no load");
    for load in ["read:8M", "vm:8M", "fault:8M"] {
        assert_eq!(one(&off, load, 50).0, alone, "{load}");
    }
}

#[test]
fn no_two_stressors_do_the_same() {
    let d = machine("am5728");
    let loads = [
        "cpu",
        "vm:8M",
        "vm:8M:64",
        "vm:8M:4K:keep",
        "vm:8M:4K:hold1",
        "vm:16M",
        "malloc:64M",
        "read",
        "copy",
        "chase",
        "chase:8M",
        "pages",
        "fault",
        "read cpu",
        "vm*2:8M",
    ];
    let all: Vec<_> = loads.iter().map(|load| run(&d, load, 30).expect("runs").1).collect();
    for (i, counts) in all.iter().enumerate() {
        println!("{:16} {:?}", loads[i], counts);
        assert_eq!(all.iter().position(|other| other == counts), Some(i), "{}", loads[i]);
    }
    // A store costs what a load costs there, and nothing is paid for writing back. What differs is what it writes.
    let (read, write) = (one(&d, "read", 30), one(&d, "write", 30));
    assert_eq!((&read, read.1.lines), (&write, write.1.lines));
    let writes = |load: &str| {
        let mut model = Model::new(&d, 1);
        model.quiet_begin();
        pattern::run(&mut model, &trial(load, 30)).expect("runs");
        let counts = model.counters().expect("counted");
        counts.iter().find(|count| count.name == "memory.writes").map_or(0, |count| count.value)
    };
    assert!(writes("write") > writes("read") + 100_000, "{} {}", writes("write"), writes("read"));
}

#[test]
fn fresh_pages_are_cleared_once_per_pass() {
    let d = machine("am5728");
    let (_, counts) = one(&d, "vm:1M", 100);
    let passes = counts.passes;
    assert!(passes > 10, "{counts:?}");
    // 256 pages of 64 lines, each written and read back once.
    let (of_pass, more) = (256 * 66, counts.lines - 256 * 66 * passes);
    assert!(more <= of_pass, "{counts:?}");
    assert!((256 * passes..=256 * (passes + 1)).contains(&counts.faults), "{counts:?}");
    // A block that stays has no faults; neither has one that glibc keeps on its heap.
    for load in ["vm:1M:4K:keep", "malloc:1M", "malloc:31M"] {
        let (_, kept) = one(&d, load, 100);
        assert_eq!((kept.faults, kept.lines > 0, kept.bytes), (0, true, kept.lines), "{load}: {kept:?}");
    }
    assert!(one(&d, "malloc:32M", 100).1.faults > 1000);
    // Small strides touch each line several times, and it counts once.
    let (_, bytes) = one(&d, "vm:64K:1:keep", 10);
    assert_eq!(bytes.bytes / bytes.lines, 64, "{bytes:?}");
}

#[test]
fn released_pieces_use_the_same_frames_again() {
    let d = even(machine("am5728"));
    let (_, fault) = one(&d, "fault:64M", 50);
    let (_, vm) = one(&d, "vm:64M", 50);
    assert!(fault.faults > 2 * vm.faults, "its frames stay in the L2: {fault:?} {vm:?}");
    // A line is touched after 64 were cleared.
    assert!((65 * (fault.faults - 1)..=65 * fault.faults).contains(&fault.lines), "{fault:?}");
}

#[test]
fn workers_of_one_cpu_take_turns() {
    let d = machine("am5728");
    let passes = |load: &str| run(&d, load, 100).expect("runs").1;
    let (alone, shared) = (passes("cpu")[0], passes("cpu pages"));
    let half = shared[0].passes as f64 / alone.passes as f64;
    assert!((half - 0.5).abs() < 0.02, "{half}");
    // A worker that sleeps leaves its turns to the other.
    let beside = passes("cpu vm:1M:4K:hold60");
    assert!(beside[0].passes as f64 > 0.95 * alone.passes as f64, "{beside:?}");
    // With another CPU each has one to itself.
    let mut wide = d.clone();
    wide.core.cpus = 3;
    let each = run(&wide, "cpu pages", 100).expect("runs").1;
    let whole = each[0].passes as f64 / alone.passes as f64;
    assert!((whole - 1.0).abs() < 0.001, "{whole}");
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    let d = machine("am5728");
    let refused = |d: &Description, load: &str| run(d, load, 10).expect_err(load);
    for kind in [Stress::Io, Stress::Disk, Stress::Unmap] {
        let refusal = refused(&d, kind.token());
        assert!(refusal.reason.contains(kind.token()) && !refusal.remedy.is_empty(), "{refusal:?}");
    }
    let mix = refused(&d, "cpu*16 io*4 disk*2:256M vm*2:128M");
    assert!(mix.reason.contains("io*4") && mix.reason.contains("disk*2"), "{mix:?}");
    assert!(!mix.reason.contains("vm*2") && mix.remedy.contains("'cpu*16 vm*2:128M'"), "{mix:?}");
    let large = refused(&d, "read*2:1G");
    assert!(large.reason.contains("2G") && large.reason.contains("1G for loads"), "{large:?}");
    let mut single = d.clone();
    single.core.cpus = 1;
    let scheduler = refused(&single, "cpu");
    assert!(scheduler.reason.contains("one CPU") && scheduler.reason.contains("cpu*1"), "{scheduler:?}");
    let mut model = Model::new(&d, 1);
    let load = Load::parse("cpu").expect("a load");
    assert!(model.start_load(&load, true).expect_err("confined").reason.contains("partition"));
    // A refused load leaves nothing behind.
    assert_eq!(model.stop_load().load_stats, []);
    model.control(&Default::default()).expect("plain");
}

#[test]
fn a_seed_gives_the_same_and_a_load_leaves_nothing_behind() {
    let d = machine("am5728");
    let mut model = Model::new(&d, 1);
    model.quiet_begin();
    let first = pattern::run(&mut model, &trial("chase vm:8M fault", 30)).expect("runs").load_report;
    assert_eq!(first.load_stats, run(&d, "chase vm:8M fault", 30).expect("runs").1);
    let (before, alone) = (model.stop_load(), run(&even(d.clone()), "none", 30).expect("no load").0);
    assert_eq!(before.load_stats, []);
    let mut again = Model::new(&even(d), 1);
    again.quiet_begin();
    pattern::run(&mut again, &trial("read:8M", 30)).expect("runs");
    let rows = pattern::run(&mut again, &trial("none", 30)).expect("no load").rows.activations().to_vec();
    assert_eq!(user(&rows), user(&alone));
}
