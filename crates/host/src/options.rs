//! Options with which a host is opened.

use crate::cpu_lock::LockOptions;

/// Options of [`Host::open`](crate::Host::open).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// CPU to measure on; by default an isolated one, else the last allowed one.
    pub cpu: Option<u32>,
    /// How to lock the CPU; without it, other measurements may run there at the same time.
    pub lock: Option<LockOptions>,
    /// Base page size to use instead of the kernel's, in bytes: a power of two, a multiple of the kernel's size, at
    /// most 1 MiB. It simulates machines with other page sizes; the record states that it was injected.
    pub base_page: Option<u64>,
    /// Maximum memory to take, in bytes, in addition to the limits of the machine.
    pub max_bytes: Option<u64>,
    /// Whether to raise the priority if permitted.
    pub priority: bool,
    /// Whether to end when the parent thread ends (`PR_SET_PDEATHSIG`).
    pub die_with_parent: bool,
    /// Expected process id of the parent; a probe with another parent refuses to start. Without it, the death of a
    /// parent before the probe's first instruction goes unnoticed until the probe's input ends.
    pub parent: Option<u32>,
    /// Version and hash of the program: the fact `env.build`.
    pub build: Option<String>,
    /// Program and first arguments of a process that calls [`crate::run_worker`]. Without them there is no co-running
    /// load.
    pub worker: Option<Vec<String>>,
    /// Program and first arguments of a process that calls [`crate::run_reaper`]. Without them nothing is created
    /// that would outlive the probe.
    pub reaper: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cpu: None,
            lock: None,
            base_page: None,
            max_bytes: None,
            priority: true,
            die_with_parent: true,
            parent: None,
            build: None,
            worker: None,
            reaper: None,
        }
    }
}
