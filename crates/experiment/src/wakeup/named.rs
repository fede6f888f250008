//! Named conditions: one table for the option, the plan and the reading.

use fathom_analysis::metrics::wakeup::condition;

/// Load of study S3: `stress -c 16 -i 4 -d 2 --hdd-bytes 256M`.
const STRESS_MIX: &str = "cpu*16 io*4 disk*2:256M";
/// The same with `--vm 2 --vm-bytes 128M`.
pub(super) const STRESS_MIX_VM: &str = "cpu*16 io*4 disk*2:256M vm*2:128M";
/// The same with blocks allocated by `malloc`, as in `stress`.
pub(super) const STRESS_MIX_MALLOC: &str = "cpu*16 io*4 disk*2:256M malloc*2:128M";

/// Token of the study's load with memory workers, confined to a share of the caches.
pub(super) const CONFINED: &str = condition::STRESS_MIX_VM_CONFINED;

/// State of the caches when the task wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Left by the load; the task accesses no memory of its own.
    Idle,
    /// Left by the load; the task walks a small working set.
    Warm,
    /// The task's own lines are flushed before each sleep.
    Flushed,
    /// A buffer larger than the core's own caches is swept before each sleep.
    Evicted,
    /// The load is confined to the smallest share of the caches that can be partitioned; the task accesses no memory of
    /// its own.
    Confined,
}

/// A named condition.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Token in findings and on the command line.
    pub token: &'static str,
    /// Description for help and reports.
    pub about: &'static str,
    /// Load in the notation of the wire format; empty for none.
    pub(super) load: &'static str,
    /// State of the caches.
    pub(super) state: State,
}

const fn loaded(token: &'static str, load: &'static str, about: &'static str) -> Condition {
    Condition { token, about, load, state: State::Idle }
}

const fn state(token: &'static str, state: State, about: &'static str) -> Condition {
    Condition { token, about, load: "", state }
}

/// All named conditions, in the order of reports.
pub const NAMED: &[Condition] = &[
    loaded(condition::UNLOADED, "", "no load"),
    loaded(condition::STRESS_MIX, STRESS_MIX, "load of stress -c 16 -i 4 -d 2 --hdd-bytes 256M"),
    loaded(condition::STRESS_MIX_VM, STRESS_MIX_VM, "the same with memory workers: --vm 2 --vm-bytes 128M"),
    Condition {
        token: CONFINED,
        about: "the same, its workers confined to the smallest share of the caches (resctrl)",
        load: STRESS_MIX_VM,
        state: State::Confined,
    },
    loaded("cpu", "cpu*2", "two workers that only compute"),
    loaded("io", "io*2", "two workers that sync"),
    loaded("disk", "disk*2", "two workers that write files"),
    loaded("vm", "vm*2:128M", "two workers that map, write, read back and unmap 128 MiB"),
    loaded("malloc", "malloc*2:128M", "the same, allocated as stress does"),
    loaded("read", "read*2", "two workers that load: bandwidth"),
    loaded("write", "write*2", "two workers that store: bandwidth"),
    loaded("copy", "copy*2", "two workers that copy: bandwidth"),
    loaded("chase", "chase*2", "two workers that chase pointers: a footprint in caches"),
    loaded("pages", "pages*2", "two workers that load one line per page: page walks"),
    loaded("fault", "fault*2", "two workers that touch fresh pages: page faults"),
    loaded("unmap", "unmap*2", "two workers that unmap pages: TLB shootdowns"),
    state("warm", State::Warm, "no load; the task walks 16 KiB"),
    state("flushed", State::Flushed, "as warm; these lines are flushed before each sleep"),
    state(
        "evicted",
        State::Evicted,
        "as warm; more than the core's private caches is swept before each sleep",
    ),
];

/// Maximum number of user-defined loads: `load-1` and so on, each of which the schema lists.
pub const LOADS: usize = 18;

/// Returns the condition of a token.
#[must_use]
pub fn named(word: &str) -> Option<&'static Condition> {
    NAMED.iter().find(|condition| condition.token == word)
}
