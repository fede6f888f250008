//! Memory limit of the command that reads records and descriptions. These come from anywhere, and the machine that
//! reads them may be a small board.

use fathom_units::facts::CeilingSource;

use crate::memory_limit::{MemoryLimit, memory_limit};
use crate::process::address_room;
use crate::procfs::Root;

/// Limit if the free memory is unknown, bytes: every machine that was tried has more.
const UNKNOWN_LIMIT_BYTES: u64 = 64 << 20;

/// Returns the memory that the command may take beyond what it has already: half of what is free now, of the system
/// and of every control group, and no more than the process's own limits leave.
#[must_use]
pub fn command_memory_limit() -> MemoryLimit {
    limit_below(&Root::system(), address_room)
}

fn limit_below(root: &Root, process_limit: impl Fn(&Root) -> Option<(u64, &'static str)>) -> MemoryLimit {
    let machine = match root.text("/proc/meminfo") {
        Some(_) => memory_limit(root, 0),
        None => MemoryLimit {
            bytes: UNKNOWN_LIMIT_BYTES,
            limit: "what any machine has, because /proc/meminfo cannot be read".into(),
            source: CeilingSource::Unknown,
        },
    };
    match process_limit(root) {
        Some((bytes, name)) => machine.and(bytes, CeilingSource::Process, || {
            format!("{name}, the limit of this process (ulimit -v, ulimit -d)")
        }),
        None => machine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn lowest_of_system_and_process_limits_is_used() {
        let meminfo = ("/proc/meminfo", "MemAvailable:    1048576 kB\n");
        let (_keep, root) = fixture::root(&[meminfo]);
        assert_eq!(limit_below(&root, |_| None).bytes, 512 << 20);
        assert!(limit_below(&root, |_| None).limit.contains("MemAvailable"));
        let limited = limit_below(&root, |_| Some((40 << 20, "RLIMIT_AS")));
        assert_eq!(limited.bytes, 40 << 20);
        assert!(limited.limit.starts_with("RLIMIT_AS"), "{}", limited.limit);
        let (_keep, root) = fixture::root(&[]);
        assert_eq!(limit_below(&root, |_| None).bytes, UNKNOWN_LIMIT_BYTES);
        assert!(limit_below(&root, |_| None).limit.contains("/proc/meminfo"));
    }
}
