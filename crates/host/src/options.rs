//! How the host is opened.

/// How a [`Host`](crate::Host) is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The CPU to measure on; by default an isolated one, else the last that is allowed.
    pub cpu: Option<u32>,
    /// A base page size instead of the kernel's own, in bytes: a power of two, a multiple of the real
    /// one, at most 1 MiB. For testing what other machines would do; the record says that it was injected.
    pub base_page: Option<u64>,
    /// Most memory to take, in bytes, below the ceilings that hold anyway.
    pub max_bytes: Option<u64>,
    /// Raise the priority where that is allowed.
    pub priority: bool,
    /// End when the parent thread ends (`PR_SET_PDEATHSIG`).
    pub die_with_parent: bool,
    /// The process id that the parent must have; a probe whose parent is another one refuses to start.
    /// Without it a parent that died before the probe's first instruction goes unnoticed until the probe's
    /// input ends.
    pub parent: Option<u32>,
    /// Version and hash of the program that this is part of: the fact `env.build`.
    pub build: Option<String>,
    /// Program and first arguments of what calls [`crate::work`]: the workers of co-running load, which there is none
    /// of without it.
    pub worker: Option<Vec<String>>,
    /// Program and first arguments of what calls [`crate::keep`]: the process that removes what would outlive the
    /// probe, which nothing is made of without it.
    pub reaper: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cpu: None,
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
