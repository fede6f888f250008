//! How much memory the command may take to judge what it was given: a record or a description comes from
//! anywhere, and the machine that reads it may be a small board.

use crate::ceiling::ceiling;
use crate::process::address_room;
use crate::read::Root;

/// What is taken where nothing says how much there is: every machine that this was tried on has more.
const UNKNOWN: u64 = 64 << 20;

/// Memory that may be had, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Bytes beyond what the process has already.
    pub bytes: u64,
    /// What sets the limit, in words that follow "limited by".
    pub limit: String,
}

/// Half of what is free now, of the system and of every control group, and no more than the process's own
/// limits leave.
#[must_use]
pub fn memory_budget() -> MemoryBudget {
    let own = |root: &Root| address_room(root);
    of(&Root::system(), own)
}

fn of(root: &Root, own: impl Fn(&Root) -> Option<(u64, &'static str)>) -> MemoryBudget {
    let mut memory_budget = match root.text("/proc/meminfo") {
        Some(_) => {
            let ceiling = ceiling(root, 0);
            MemoryBudget { bytes: ceiling.bytes, limit: ceiling.limit }
        }
        None => MemoryBudget {
            bytes: UNKNOWN,
            limit: "what any machine has, because /proc/meminfo cannot be read".into(),
        },
    };
    if let Some((bytes, name)) = own(root)
        && bytes < memory_budget.bytes
    {
        memory_budget = MemoryBudget {
            bytes,
            limit: format!("{name}, the limit of this process (ulimit -v, ulimit -d)"),
        };
    }
    memory_budget
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn memory_budget_is_the_tightest_limit_and_missing_limits_pass() {
        let meminfo = ("/proc/meminfo", "MemAvailable:    1048576 kB\n");
        let (_keep, root) = fixture::root(&[meminfo]);
        assert_eq!(of(&root, |_| None).bytes, 512 << 20);
        assert!(of(&root, |_| None).limit.contains("MemAvailable"));
        let own = of(&root, |_| Some((40 << 20, "RLIMIT_AS")));
        assert_eq!(own.bytes, 40 << 20);
        assert!(own.limit.starts_with("RLIMIT_AS"), "{}", own.limit);
        let (_keep, root) = fixture::root(&[]);
        assert_eq!(of(&root, |_| None).bytes, UNKNOWN);
        assert!(of(&root, |_| None).limit.contains("/proc/meminfo"));
    }
}
