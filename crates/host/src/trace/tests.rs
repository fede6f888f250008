use rustix::thread::ClockId;
use rustix::time::Timespec;

use std::fs::File;

use super::join::tests::gaps;
use super::*;
use crate::process::{allowed_cpus, choose_cpu, pin};
use crate::rt_priority::RtPriority;

/// Returns the time of `CLOCK_MONOTONIC` in ns.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until several absolute times; returns the requested times, and the times at which the thread ran.
fn periodic(activations: usize, period_ns: u64) -> Vec<(u64, u64)> {
    let mut seen = Vec::with_capacity(activations);
    let mut due = now() + 10 * period_ns;
    for _ in 0..activations {
        let at = Timespec { tv_sec: (due / 1_000_000_000) as i64, tv_nsec: (due % 1_000_000_000) as _ };
        rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at).expect("a sleep");
        seen.push((due, now()));
        // The next time is in the future even if this activation was late: a past time would not sleep.
        due += period_ns * ((now() - due) / period_ns + 1);
    }
    seen
}

fn tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Opens a trace of this thread's CPU; `None`, with a message, if there is no trace here.
fn trace(test: &str) -> Option<Trace> {
    let root = Root::system();
    let cpu = choose_cpu(&root, &allowed_cpus(&root), None).expect("a CPU");
    pin(cpu);
    match Trace::open(&root, cpu, |_| Ok(())) {
        Ok(trace) => Some(trace),
        Err(refusal) => {
            assert!(!refusal.remedy.is_empty(), "{refusal:?}");
            fathom_skip::skipped!(Unchecked, "{test}: {}: {}", refusal.reason, refusal.remedy);
            None
        }
    }
}

#[test]
fn stages_of_real_wakeups_are_in_order() {
    let Some(mut trace) = trace("the stages of real wake-ups") else { return };
    let (mut rt_priority, fact) = RtPriority::new(&Root::system(), true);
    eprintln!("{fact:?}");
    // Twice: the second trace must have nothing of the first.
    for _ in 0..2 {
        trace.begin(tid()).expect("a trace begins");
        rt_priority.begin();
        let seen = periodic(200, 1_000_000);
        rt_priority.end();
        let traced = trace.end().expect("a trace ends");
        let mut complete = 0;
        for &(due, user) in &seen {
            let mut of = traced.stages.iter().filter(|stages| stages.expires_ns == due);
            let Some(stages) = of.next() else {
                eprintln!("{due}: no row; the thread ran {} ns later", user - due);
                continue;
            };
            assert_eq!(of.next(), None, "one activation, one row");
            let places = [Some(due), stages.irq_ns, stages.wake_ns, stages.switch_ns, Some(user)];
            let present: Vec<u64> = places.into_iter().flatten().collect();
            assert!(present.is_sorted(), "{present:?}");
            if present.len() != places.len() {
                eprintln!("{stages:?}, {user}");
            }
            complete += usize::from(present.len() == places.len());
        }
        let gaps = gaps(&traced.events);
        eprintln!("{complete} of {} whole, {gaps} gaps, {} lost", seen.len(), traced.lost);
        assert_eq!(traced.lost, 0);
        // A timer may expire on another CPU.
        let woken = traced.stages.iter().filter(|s| s.irq_ns.is_some() && s.wake_ns.is_some()).count();
        assert!(woken >= 190, "{woken} of {}, {traced:?}", seen.len());
        // A kernel that does not trace a thread, such as the idle thread of this CPU, does not show the switch from
        // that thread, but it shows the switch to it.
        assert!(complete as u64 + gaps >= 190, "{complete} of {}, {traced:?}", seen.len());
        let first = seen[0];
        let rows = traced.events_between(first.0, first.1, 20);
        assert!(rows.len() <= 20 && rows.iter().any(|(_, row)| row.contains("switch")), "{rows:?}");
        eprintln!("{rows:?}");
        if complete < 100 {
            fathom_skip::skipped!(
                Unchecked,
                "the switch of most wake-ups: this kernel does not show it on this CPU"
            );
        }
    }
}

#[test]
fn instance_exists_as_long_as_its_trace() {
    let root = Root::system();
    let Some(trace) = trace("that an instance is removed") else { return };
    let place = TraceFs::find(&root).expect("it was found once");
    let name = trace.path().file_name().expect("a name").to_str().expect("text").to_owned();
    let present = |name: &str| place.instances().contains(&name.to_owned());
    assert!(present(&name));
    assert!(!remove_stale(&root).contains(&name), "its process lives");
    // Names of dead processes: number 0 does not exist, and this process has another start time.
    let dead = format!("fathom.{}.0.0", std::process::id());
    place.create_abandoned(&dead).expect("an instance");
    // A concurrent test may remove them first.
    remove_stale(&root);
    assert!(!present(&dead) && present(&name));
    drop(trace);
    assert!(!present(&name));
}

#[test]
fn open_instance_is_not_removed() {
    let root = Root::system();
    let Some(_) = trace("that an open instance is kept") else { return };
    let place = TraceFs::find(&root).expect("it was found once");
    // A name from another PID namespace: the process number has another start time here.
    let foreign = format!("fathom.{}.1.0", std::process::id());
    let path = place.create_abandoned(&foreign).expect("an instance");
    let open = File::open(path.join("per_cpu/cpu0/trace_pipe_raw")).expect("its pages");
    assert!(!remove_stale(&root).contains(&foreign));
    assert!(place.instances().contains(&foreign));
    drop(open);
    remove_stale(&root);
    assert!(!place.instances().contains(&foreign));
}

#[test]
fn small_trace_buffer_counts_lost_events() {
    let Some(mut trace) = trace("that losses are counted") else { return };
    trace.reserve(1).expect("a small buffer");
    trace.begin(tid()).expect("a trace begins");
    let seen = periodic(300, 100_000);
    let traced = trace.end().expect("a trace ends");
    assert!(traced.lost > 0 && !traced.stages.is_empty(), "{} lost of {}", traced.lost, seen.len());
    assert!(traced.stages.len() < seen.len());
    assert!(trace.end().is_err(), "nothing was begun");
}

/// Cost of a trace per activation: medians of the user's latency with and without one, alternating. `cargo test
/// --release -p fathom-host --lib trace::tests::cost -- --ignored --nocapture`
#[test]
#[ignore = "takes a minute, and prints a time"]
fn cost() {
    let Some(mut trace) = trace("what a trace costs") else { return };
    let (mut rt_priority, _) = RtPriority::new(&Root::system(), true);
    for period_ns in [1_000_000, 100_000] {
        for run in 0..6 {
            let mut median = |traced: bool| {
                if traced {
                    trace.begin(tid()).expect("a trace begins");
                }
                rt_priority.begin();
                let seen = periodic(2000, period_ns);
                rt_priority.end();
                let events = if traced { trace.end().expect("a trace ends").events.len() } else { 0 };
                let mut late: Vec<u64> = seen.iter().map(|(due, user)| user - due).collect();
                late.sort_unstable();
                (late[1000], events)
            };
            let (without, (with, events)) = (median(false).0, median(true));
            println!("{period_ns} ns, run {run}: without {without} ns, with {with} ns, {events} events");
        }
    }
}
