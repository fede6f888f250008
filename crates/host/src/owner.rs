//! Owner tags in names of trace instances and resctrl groups, by which leftovers of a killed process are recognised.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::procfs::Root;

/// Prefix of every such name. A reaper may run as root, and must not touch anything that is not Fathom's.
pub(crate) const PREFIX: &str = "fathom.";

/// Returns `fathom.PID.START.N`, the Nth name of this process. The start time guards against reused process ids.
pub(crate) fn name(root: &Root) -> String {
    static NAMES_MADE: AtomicU32 = AtomicU32::new(0);
    let (pid, n) = (std::process::id(), NAMES_MADE.fetch_add(1, Ordering::Relaxed));
    format!("{PREFIX}{pid}.{}.{n}", started(root, pid).unwrap_or(0))
}

/// Returns whether the name belongs to a process that is gone.
pub(crate) fn left_behind(root: &Root, name: &str) -> bool {
    let mut parts = name.strip_prefix(PREFIX).unwrap_or_default().split('.');
    let pid: Option<u32> = parts.next().and_then(|pid| pid.parse().ok());
    let start: Option<u64> = parts.next().and_then(|start| start.parse().ok());
    match (pid, start) {
        (Some(pid), Some(start)) => started(root, pid).is_none_or(|now| now != start),
        _ => false,
    }
}

/// Returns the start time of a process in clock ticks since boot; `None` if it is gone or a zombie.
/// (proc_pid_stat(5): the state is the third field, the start the 22nd, and the second ends with the last
/// parenthesis.)
fn started(root: &Root, pid: u32) -> Option<u64> {
    let stat = root.text(&format!("/proc/{pid}/stat"))?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if ["Z", "X", "x"].contains(&state) {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests;
