use super::*;
use crate::trace::event::tests::page;
use crate::trace::event::{Name, ThreadEntry};

const TID: u32 = 40;
const OWN: u64 = 0xffff_0000;
const TICK: u64 = 0xaaaa;

fn start(ns: u64, hrtimer: u64, due: u64) -> Event {
    Event { ns, data: TraceEvent::Start { hrtimer, due, tid: TID, in_interrupt: false } }
}

fn expire(ns: u64, hrtimer: u64, now: u64) -> Event {
    Event { ns, data: TraceEvent::Expire { hrtimer, now } }
}

fn waking(ns: u64) -> Event {
    Event { ns, data: TraceEvent::Waking { tid: TID } }
}

fn switch(ns: u64, prev: u32, sleeps: bool, next: u32) -> Event {
    let thread = |tid| ThreadEntry { tid, name: Name::from_bytes(b"t") };
    Event { ns, data: TraceEvent::Switch { prev: thread(prev), sleeps, next: thread(next) } }
}

/// Returns the number of switches whose previous thread is not the one that last got the CPU; each shows a missing
/// switch. Some kernels do not trace certain threads.
pub(crate) fn gaps(events: &[Event]) -> u64 {
    let mut last = None;
    let mut gaps = 0;
    for event in events {
        if let TraceEvent::Switch { prev, next, .. } = event.data {
            gaps += u64::from(last.is_some_and(|tid| tid != prev.tid));
            last = Some(next.tid);
        }
    }
    gaps
}

fn row(expires_ns: u64, rest: [u64; 3]) -> Stages {
    let [irq_ns, wake_ns, switch_ns] = rest.map(|ns| (ns != 0).then_some(ns));
    Stages { expires_ns, irq_ns, wake_ns, switch_ns }
}

/// Returns the events of a typical activation, with the kernel's tick in it.
fn activation(at: u64) -> Vec<Event> {
    vec![
        start(at, OWN, at + 100),
        switch(at + 10, TID, true, 0),
        expire(at + 60, TICK, at + 55),
        expire(at + 112, OWN, at + 105),
        waking(at + 115),
        switch(at + 120, 0, false, TID),
    ]
}

#[test]
fn each_activation_is_joined_by_its_own_timer() {
    let events = [activation(1000), activation(2000)].concat();
    let expected = [row(1100, [1105, 1115, 1120]), row(2100, [2105, 2115, 2120])];
    assert_eq!(stages(&events, TID), expected);
    assert_eq!(stages(&events, TID + 1), []);
}

#[test]
fn tick_in_the_same_interrupt_is_ignored() {
    let mut events = activation(1000);
    // Before the expiry, and after the waking.
    events.insert(3, expire(1108, TICK, 1105));
    events.insert(6, expire(1117, TICK + 1, 1105));
    // The tick restarts its timer in the thread's context.
    let tick = TraceEvent::Start { hrtimer: TICK, due: 9000, tid: TID, in_interrupt: true };
    events.insert(1, Event { ns: 1001, data: tick });
    assert_eq!(stages(&events, TID), [row(1100, [1105, 1115, 1120])]);
}

#[test]
fn kernel_timers_on_behalf_of_a_thread_are_not_its_sleep() {
    let mut events = activation(1000);
    // The fair server's timer, set while the thread gives up the CPU; it expires first, and wakes no thread.
    events.insert(1, start(1005, TICK, 1050));
    assert_eq!(stages(&events, TID), [row(1100, [1105, 1115, 1120])]);
    // The same timer expires later, during the next sleep.
    let mut events = [activation(1000), activation(2000)].concat();
    events.insert(1, start(1005, TICK, 1950));
    assert_eq!(stages(&events, TID), [row(1100, [1105, 1115, 1120]), row(2100, [2105, 2115, 2120])]);
}

#[test]
fn a_thread_that_never_lost_the_cpu_has_no_switch() {
    let events = [
        start(1000, OWN, 900),
        expire(1004, OWN, 1002),
        waking(1005),
        // Other events may follow before its next sleep, and it may be preempted.
        start(1010, OWN, 1100),
        switch(1015, TID, true, 0),
        expire(1104, OWN, 1102),
        waking(1105),
        switch(1110, 0, false, TID),
    ];
    assert_eq!(stages(&events, TID), [row(900, [1002, 1005, 0]), row(1100, [1102, 1105, 1110])]);
}

#[test]
fn expiry_on_another_cpu_has_no_irq_and_wakeup_times() {
    let events = [
        start(1000, OWN, 1100),
        switch(1010, TID, true, 0),
        switch(1120, 0, false, TID),
        // Preempted, and so not woken.
        start(1130, OWN, 1200),
        switch(1140, TID, false, 7),
        switch(1150, 7, false, TID),
        // Woken before its time, by a signal.
        switch(1160, TID, true, 7),
        switch(1170, 7, false, TID),
    ];
    assert_eq!(stages(&events, TID), [row(1100, [0, 0, 1120])]);
}

#[test]
fn missing_switch_is_a_gap() {
    let mut events = [activation(1000), activation(2000)].concat();
    assert_eq!(gaps(&events), 0);
    // The switch of the first wake-up.
    events.remove(5);
    assert_eq!(gaps(&events), 1);
    assert_eq!(stages(&events, TID), [row(1100, [1105, 1115, 0]), row(2100, [2105, 2115, 2120])]);
    assert_eq!(gaps(&[]), 0);
}

#[test]
fn stall_before_the_switch_is_in_the_switch_time() {
    let mut events = activation(1000);
    events.insert(5, switch(1118, 0, false, 9));
    events[6] = switch(54_000_000, 9, false, TID);
    assert_eq!(stages(&events, TID), [row(1100, [1105, 1115, 54_000_000])]);
    assert_eq!(
        events_between(&events, 1100, 54_000_000, 9),
        [
            (1010, "switch t:40 -> idle".to_owned()),
            (1112, "hrtimer".to_owned()),
            (1118, "switch idle -> t:9".to_owned()),
            (54_000_000, "switch t:9 -> t:40".to_owned()),
        ]
    );
}

#[test]
fn first_and_last_of_many_rows_are_kept() {
    let events: Vec<Event> = (1..=100).map(|ns| expire(ns, TICK, ns)).collect();
    let rows = events_between(&events, 10, 60, 5);
    let times: Vec<u64> = rows.iter().map(|(ns, _)| *ns).collect();
    assert_eq!(times, [11, 12, 13, 59, 60]);
    assert_eq!(rows[2].1, "46 more");
    for max_rows in 0..4 {
        assert_eq!(events_between(&events, 10, 60, max_rows).len(), max_rows);
    }
    assert_eq!(events_between(&events, 0, 200, 100).len(), 100);
    assert_eq!(events_between(&events, 60, 10, 5), []);
}

/// In that trace a shell's `sleep` sleeps once, between the kernel's own threads.
#[test]
fn a_sleep_of_a_real_kernel_is_joined() {
    let all = stages(&page(), 158);
    // On this kernel the interrupt hands the timer of a thread without real-time priority to a separate thread, whose
    // clock reading is used.
    assert_eq!(all.len(), 1);
    let micros = [all[0].irq_ns, all[0].wake_ns, all[0].switch_ns].map(|ns| ns.map(|ns| (ns + 500) / 1000));
    assert_eq!(all[0].expires_ns, 4_165_093_520);
    assert_eq!(micros, [Some(4_165_172), Some(4_165_177), Some(4_165_197)]);
}

proptest::proptest! {
    #![proptest_config(crate::cases::fixed())]

    #[test]
    fn random_events_give_ordered_stages(kinds in proptest::collection::vec((0u8..6, 0u64..4, 0u64..40), 0..200)) {
        let event = |(i, &(kind, timer, due)): (usize, &(u8, u64, u64))| {
            let ns = i as u64;
            match kind {
                0 => start(ns, timer, due),
                1 => expire(ns, timer, ns),
                2 => waking(ns),
                3 => switch(ns, TID, due % 2 == 0, 0),
                4 => switch(ns, 0, true, TID),
                _ => switch(ns, 0, true, 7),
            }
        };
        let events: Vec<Event> = kinds.iter().enumerate().map(event).collect();
        let all = stages(&events, TID);
        proptest::prop_assert!(all.len() <= events.len());
        for stages in all {
            let places: Vec<u64> =
                [stages.irq_ns, stages.wake_ns, stages.switch_ns].into_iter().flatten().collect();
            proptest::prop_assert!(!places.is_empty() && places.is_sorted());
        }
        proptest::prop_assert!(events_between(&events, 10, 90, 7).len() <= 7);
    }
}
