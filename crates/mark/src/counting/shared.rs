//! The memory that `fathom count --region` shares with the program: what `include/fathom_counters.h` declares.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU32;

/// Events, regions, bytes of a name, parts of threads, and bytes of a part. The first part is the head.
pub(super) const EVENTS: usize = 16;
pub(super) const REGIONS: usize = 192;
pub(super) const NAME: usize = 64;
pub(super) const THREADS: u32 = 1023;
pub(super) const PART: usize = 65536;
/// First number of the file.
pub(super) const MAGIC: u64 = 0x6674_6d68_7265_6731;

/// An event that is asked.
#[repr(C)]
pub(super) struct Event {
    pub(super) config: u64,
    /// The bits of `perf_event_attr`.
    pub(super) flags: u64,
    pub(super) kind: u32,
    unused: u32,
}

/// The head.
#[repr(C)]
pub(super) struct Head {
    magic: u64,
    pub(super) nonce: u64,
    pub(super) events: u32,
    /// Whether regions count that are not in the list yet.
    pub(super) all: u32,
    pub(super) event: [Event; EVENTS],
    /// Processes and libraries that take part.
    pub(super) attached: AtomicU32,
    /// Parts that are taken.
    pub(super) threads: AtomicU32,
    /// Threads without a part or without counters.
    pub(super) uncounted: AtomicU32,
    /// Why: errno of the event of the next number.
    pub(super) error: AtomicU32,
    pub(super) error_event: AtomicU32,
    /// Bits: 1 by read(2), 2 by instructions, 4 by instructions that Fathom's driver grants.
    pub(super) methods: AtomicU32,
    /// Marks within a mark of the same thread.
    pub(super) lost: AtomicU32,
    /// Length of the list.
    pub(super) regions: AtomicU32,
    /// Entries of regions for which the list is too short, or the name too long.
    pub(super) overflow: AtomicU32,
    /// Pairs of marks of region 0 that were timed, and the time of all of them.
    pub(super) pairs: AtomicU32,
    pub(super) pairs_ns: UnsafeCell<u64>,
    pub(super) ready: [AtomicU32; REGIONS],
    /// Region 0 has no name: that of empty pairs.
    pub(super) name: UnsafeCell<[[u8; NAME]; REGIONS]>,
}

/// A region on a thread.
#[repr(C)]
pub(super) struct Entry {
    /// Odd while it is changed.
    pub(super) writing: AtomicU32,
    pub(super) depth: u32,
    /// Times that it was entered from outside, and left.
    pub(super) entered: u64,
    pub(super) unmatched: u64,
    pub(super) ns: u64,
    /// Of these times: those in which the counters were not all the time those of this thread.
    pub(super) shared: u64,
    pub(super) count: [u64; EVENTS],
    pub(super) begin_ns: u64,
    /// Time until then without hardware counters, ns.
    pub(super) begin_without: u64,
    pub(super) begin: [u64; EVENTS],
}

/// A thread's part.
#[repr(C)]
pub(super) struct Part {
    unused: [u64; 8],
    pub(super) entry: [Entry; REGIONS],
}

const _: () = assert!(size_of::<Part>() <= PART && size_of::<Head>() <= PART);
