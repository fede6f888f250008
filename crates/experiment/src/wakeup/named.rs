//! Named conditions: one table for the option, the plan and the reading.

use fathom_analysis::metrics::wakeup::condition;

/// Load of study S3: `stress -c 16 -i 4 -d 2 --hdd-bytes 256M`.
const STUDY: &str = "cpu*16 io*4 disk*2:256M";
/// And with `--vm 2 --vm-bytes 128M`.
pub(super) const STUDY_VM: &str = "cpu*16 io*4 disk*2:256M vm*2:128M";
/// The same with blocks that are allocated as `stress` really does.
pub(super) const STUDY_MALLOC: &str = "cpu*16 io*4 disk*2:256M malloc*2:128M";

/// The word of the study's load with its memory workers, kept to a share of the caches.
pub(super) const CONFINED: &str = condition::STRESS_MIX_VM_CONFINED;

/// In which state the task finds the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// As the load left them; the task has no work.
    Idle,
    /// As the load left them; the task walks a small working set.
    Warm,
    /// The task's own lines are flushed before each sleep.
    Flushed,
    /// A buffer larger than the core's own caches is swept before each sleep.
    Evicted,
    /// The load may fill the least share of the caches that can be partitioned; the task has no work.
    Confined,
}

/// A condition that has a word.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The word in findings and on the command line.
    pub token: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    /// Its load, in the wire's notation; empty for none.
    pub(super) load: &'static str,
    /// The state of the caches.
    pub(super) state: State,
}

const fn loaded(token: &'static str, load: &'static str, about: &'static str) -> Condition {
    Condition { token, about, load, state: State::Idle }
}

const fn state(token: &'static str, state: State, about: &'static str) -> Condition {
    Condition { token, about, load: "", state }
}

/// Every condition that has a word, in the order of reports.
pub const NAMED: &[Condition] = &[
    loaded(condition::UNLOADED, "", "no load"),
    loaded(condition::STRESS_MIX, STUDY, "load of stress -c 16 -i 4 -d 2 --hdd-bytes 256M"),
    loaded(condition::STRESS_MIX_VM, STUDY_VM, "the same with memory workers: --vm 2 --vm-bytes 128M"),
    Condition {
        token: CONFINED,
        about: "the same, its workers confined to the smallest share of the caches (resctrl)",
        load: STUDY_VM,
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

/// Loads of the user's own, at most: `load-1` and so on, which the schema lists one by one.
pub const LOADS: usize = 18;

/// The condition of a word.
#[must_use]
pub fn named(word: &str) -> Option<&'static Condition> {
    NAMED.iter().find(|condition| condition.token == word)
}
