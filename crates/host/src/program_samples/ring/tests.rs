//! Rings whose memory no kernel writes: what they have is planted.

use super::super::records::{self, Format, Part};
use super::super::trace::{
    CAPABILITIES, HAS_ZERO, IS_SHORT, LOCK, TIME, TIME_MASK, TIME_ZERO, TRACE_HEAD, TRACE_TAIL, Trace,
    Traced, clock,
};
use super::super::{Callers, DataSource, Gap, SampledAccess, Stack};
use super::*;
use crate::spe::SpeClock;

const PAGE: usize = 4096;

/// A record of SPE of 64 bytes: an access to `data` at this tick, whose instruction is at 0x1000.
fn access(data: u64, tick: u64) -> Vec<u8> {
    let [instruction, data, tick] = [0x1000, data, tick].map(u64::to_le_bytes);
    let parts: [&[u8]; 8] = [&[0xb0], &instruction, &[0xb2], &data, &[0x98, 30, 0], &[0x71], &tick, &[0; 34]];
    parts.concat()
}

/// A record of the ring about a part.
fn told(offset: u64, bytes: u64, flags: u64, process: u32, time: u64) -> Vec<u8> {
    let mut record = [11u32.to_ne_bytes(), (48u32 << 16).to_ne_bytes()].concat();
    record.extend([offset, bytes, flags].into_iter().flat_map(u64::to_ne_bytes));
    record.extend([process, process].into_iter().flat_map(u32::to_ne_bytes));
    record.extend(time.to_ne_bytes());
    record
}

/// A ring of 16 KiB and a trace of 4 KiB, which ticks each 40 ns.
fn ring() -> Ring {
    let shared = Shared::planted(PAGE, 4 * PAGE);
    shared.word(CAPABILITIES).store(HAS_ZERO, Ordering::Relaxed);
    shared.word(TIME).store(40 << 32, Ordering::Relaxed);
    shared.word(TIME_ZERO).store(1000, Ordering::Relaxed);
    let format = Format { callers: Callers::Unknown, each: Some(512), has_data: true, has_access: false };
    let traced = Traced { weight: 512, midr: Some(0x413f_d0c1), without: Some(1) };
    let trace = Some(Trace::of(Shared::planted(0, PAGE), clock(&shared), traced));
    Ring { leaders: Vec::new(), pmu: None, samples: 0, counters: Vec::new(), format, shared, trace }
}

/// Adds a part of the trace, and what the ring tells of it.
fn add(ring: &Ring, offset: u64, bytes: &[u8], flags: u64, process: u32, time: u64) {
    ring.trace.as_ref().expect("a trace").shared.plant(offset, bytes);
    let head = ring.shared.word(HEAD).load(Ordering::Relaxed);
    let record = told(offset, bytes.len() as u64, flags, process, time);
    ring.shared.plant(head, &record);
    ring.shared.word(HEAD).store(head + record.len() as u64, Ordering::Relaxed);
    ring.shared.word(TRACE_HEAD).store(offset + bytes.len() as u64, Ordering::Relaxed);
}

fn sample(process: u32, data: u64, time: u64) -> SampledEvent {
    let source = DataSource::Spe { events: 0, number: None, midr: Some(0x413f_d0c1) };
    let access = Some(SampledAccess { latency: 30, source });
    let (address, data, stack) = (0x1000, Some(data), Stack::Unknown);
    SampledEvent { time, what: Sampled::Sample { process, address, weight: 512, stack, data, access } }
}

/// Parts of a trace that goes round its end, and so does the ring.
#[test]
fn parts_of_a_trace_are_read_as_the_ring_tells_them() {
    let mut ring = ring();
    let begin = 10 * PAGE as u64;
    ring.shared.word(TRACE_TAIL).store(begin - 128, Ordering::Relaxed);
    ring.shared.word(HEAD).store(4 * PAGE as u64 - 24, Ordering::Relaxed);
    ring.shared.word(TAIL).store(4 * PAGE as u64 - 24, Ordering::Relaxed);
    let two = [access(0x5000, 100), access(0x6000, 200)].concat();
    add(&ring, begin - 64, &two, 0, 7, 20_000);
    // Its record is told at 9000 ns: the tick is no time of the kernel's clock.
    add(&ring, begin + 64, &access(0x7000, 1 << 40), 0, 8, 9000);
    assert_eq!(ring.take(), [sample(7, 0x5000, 5000), sample(7, 0x6000, 9000), sample(8, 0x7000, 9000)]);
    assert_eq!((ring.samples, ring.shared.word(TRACE_TAIL).load(Ordering::Relaxed)), (3, begin + 128));
    assert_eq!(ring.take(), []);
}

#[test]
fn what_a_trace_does_not_have_is_told() {
    let mut ring = ring();
    let half = [access(0x5000, 100), access(0x6000, 200)[..20].to_vec()].concat();
    add(&ring, 0, &half, 1 | 8, 7, 20_000);
    // This process has no samples.
    add(&ring, 84, &access(0x6000, 300), 0, 1, 30_000);
    let gap = |gap, time| SampledEvent { time, what: Sampled::Gap(gap) };
    let expected = [
        gap(Gap::CutShort, 20_000),
        gap(Gap::Collided, 20_000),
        gap(Gap::Unreadable(1), 20_000),
        sample(7, 0x5000, 5000),
    ];
    assert_eq!(ring.take(), expected);
    // Without room and without bytes; more than there is room for; and a record that is cut short itself.
    add(&ring, 148, &[], 4, 7, 40_000);
    assert_eq!(ring.take(), [gap(Gap::CutShort, 40_000)]);
    let many: Vec<u8> = (0..65).flat_map(|_| access(0x5000, 100)).collect();
    add(&ring, 148, &many, 0, 7, 50_000);
    let events = ring.take();
    assert_eq!((events.len(), &events[0]), (65, &gap(Gap::Unreadable(1), 50_000)));
    assert_eq!(records::part(&told(0, 64, 0, 7, 9)[..40]), None);
}

#[test]
fn full_traces_have_to_begin_again() {
    let mut ring = ring();
    let full = |ring: &mut Ring| {
        let Ring { trace, shared, .. } = ring;
        trace.as_mut().expect("a trace").release(shared)
    };
    assert!(!full(&mut ring));
    let mut trace = ring.trace.take().expect("a trace");
    trace.shared = Shared::planted(0, 4 * PAGE);
    ring.trace = Some(trace);
    assert!(!full(&mut ring));
    ring.shared.word(TRACE_HEAD).store(3 * PAGE as u64, Ordering::Relaxed);
    assert!(full(&mut ring), "the kernel may have stopped it");
    let mut trace = ring.trace.take().expect("a trace");
    drop(trace.take(&Part {
        offset: 0,
        bytes: 3 * PAGE as u64,
        is_cut_short: true,
        has_collided: false,
        process: 7,
        time: 1,
    }));
    assert!(trace.release(&ring.shared) && !trace.release(&ring.shared));
}

/// A page that the kernel writes meanwhile, without end, tells no clock; nor does one of a kernel that tells none.
#[test]
fn clock_is_read_when_nobody_writes() {
    let ring = ring();
    assert_eq!(clock(&ring.shared), Some(SpeClock { shift: 0, factor: 40, zero: 1000, short: None }));
    ring.shared.word(TIME_MASK).store((1 << 56) - 1, Ordering::Relaxed);
    ring.shared.word(CAPABILITIES).store(HAS_ZERO | IS_SHORT, Ordering::Relaxed);
    assert_eq!(clock(&ring.shared).and_then(|clock| clock.short), Some((0, (1 << 56) - 1)));
    ring.shared.word(LOCK).store(3, Ordering::Relaxed);
    assert_eq!(clock(&ring.shared), None);
    ring.shared.word(LOCK).store(4, Ordering::Relaxed);
    ring.shared.word(CAPABILITIES).store(0, Ordering::Relaxed);
    assert_eq!(clock(&ring.shared), None);
}
