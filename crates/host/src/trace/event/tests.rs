use super::*;
use crate::trace::format::PageLayout;
use crate::trace::format::tests::{ARM, X86, file};
use crate::trace::ring::records;

fn kinds(all: &str) -> EventKinds {
    EventKinds::read(|name| file(all, name)).expect("all that is needed")
}

/// Returns the events of the first page of a trace of an arm64 -rt kernel, without its clock's offset.
pub(crate) fn page() -> Vec<Event> {
    let layout = PageLayout::parse(&file(ARM, "header_page").expect("there")).expect("a layout");
    let page = include_bytes!("../formats/arm64-rt-6.1.page");
    let (records, missed) = records(page, &layout).expect("a page");
    assert_eq!(missed, 0);
    let kinds = kinds(ARM);
    records.map(|record| kinds.event(record).expect("no other kinds")).collect()
}

/// Text of the same records from the same kernel, rounded to microseconds:
///
/// ```text
///    sh-93  [000] d...2.. 4.161323: sched_switch: prev_comm=sh prev_pid=93 prev_prio=120 prev_state=S ==>
///                                   next_comm=sh next_pid=158 next_prio=120
/// sleep-158 [000] d..h... 4.164003: irq_handler_entry: irq=11 name=arch_timer
/// sleep-158 [000] d..h... 4.164007: hrtimer_expire_entry: hrtimer=X function=tick_sched_timer now=4164005040
/// sleep-158 [000] d..h2.. 4.164015: sched_waking: comm=rcuc/0 pid=18 prio=98 target_cpu=000
/// sleep-158 [000] dn.h1.. 4.164029: hrtimer_start: hrtimer=X function=tick_sched_timer expires=4168000000
///                                   softexpires=4168000000 mode=ABS was_armed=0
/// sleep-158 [000] d...2.. 4.164040: sched_switch: prev_comm=sleep prev_pid=158 prev_prio=120 prev_state=R+ ==>
///                                   next_comm=rcuc/0 next_pid=18 next_prio=98
/// (the 69th)
/// sleep-160 [000] d..h211 4.176014: sched_waking: comm=ktimers/0 pid=15 prio=98 target_cpu=000
/// ```
#[test]
fn real_event_page_is_decoded() {
    let thread = |tid, name: &str| ThreadEntry { tid, name: Name::from_bytes(name.as_bytes()) };
    let tick = 0xffff_5848_8ff2_f1f0;
    let all = page();
    assert_eq!(all.len(), 69);
    let whats: Vec<TraceEvent> = all.iter().take(6).map(|event| event.data).collect();
    let expected = [
        TraceEvent::Switch { prev: thread(93, "sh"), sleeps: true, next: thread(158, "sh") },
        TraceEvent::Irq { number: 11, name: Name::from_bytes(b"arch_timer") },
        TraceEvent::Expire { hrtimer: tick, now: 4_164_005_040 },
        TraceEvent::Waking { tid: 18 },
        TraceEvent::Start { hrtimer: tick, due: 4_168_000_000, tid: 158, in_interrupt: true },
        TraceEvent::Switch { prev: thread(158, "sleep"), sleeps: false, next: thread(18, "rcuc/0") },
    ];
    assert_eq!(whats, expected);
    let printed = [4_161_323, 4_164_003, 4_164_007, 4_164_015, 4_164_029, 4_164_040];
    let micros: Vec<u64> = all.iter().take(6).map(|event| (event.ns + 500) / 1000).collect();
    assert_eq!(micros, printed);
    assert!(all.is_sorted_by_key(|event| event.ns));
    let last = all.last().map(|event| ((event.ns + 500) / 1000, event.data));
    assert_eq!(last, Some((4_176_014, TraceEvent::Waking { tid: 15 })));
}

#[test]
fn missing_kernel_events_are_skipped() {
    assert_eq!(kinds(X86).names.len(), 12);
    assert_eq!(kinds(ARM).names.len(), 5);
    for name in REQUIRED_EVENTS {
        let without = EventKinds::read(|other| if other == name { None } else { file(X86, other) });
        assert_eq!(without.err(), Some(name));
    }
}

#[test]
fn events_have_readable_text() {
    let thread = |tid, name: &[u8]| ThreadEntry { tid, name: Name::from_bytes(name) };
    let text = |event: TraceEvent| event.text();
    let switch =
        TraceEvent::Switch { prev: thread(0, b"swapper/1"), sleeps: false, next: thread(7, b"a\x1b[2J\0zz") };
    assert_eq!(text(switch).as_deref(), Some("switch idle -> a?[2J:7"));
    let name = Name::from_bytes(b"a-name-longer-than-sixteen");
    assert_eq!(text(TraceEvent::Irq { number: 3, name }).as_deref(), Some("irq a-name-longer-th 3"));
    assert_eq!(text(TraceEvent::Softirq { vector: 7 }).as_deref(), Some("softirq SCHED"));
    assert_eq!(text(TraceEvent::Softirq { vector: 99 }).as_deref(), Some("softirq 99"));
    assert_eq!(text(TraceEvent::Vector("local_timer")).as_deref(), Some("local_timer"));
    assert_eq!(text(TraceEvent::Waking { tid: 1 }), None);
}

proptest::proptest! {
    #![proptest_config(crate::cases::fixed())]

    #[test]
    fn random_records_do_not_panic(
        mut data in proptest::collection::vec(proptest::num::u8::ANY, 0..80),
        event_kind in 0usize..12,
    ) {
        for all in [X86, ARM] {
            let kinds = kinds(all);
            let id = kinds.known[event_kind % kinds.known.len()].0 as u16;
            data.iter_mut().zip(id.to_le_bytes()).for_each(|(to, from)| *to = from);
            for length in 0..data.len() {
                if let Some(event) = kinds.event(Record { ns: 1, data: &data[..length] }) {
                    proptest::prop_assert!(event.data.text().is_none_or(|text| !text.contains('\x1b')));
                }
            }
        }
    }
}
