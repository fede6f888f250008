//! Names of what outlives its process: they say whose it is, so that the next one knows what was left behind.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::read::Root;

/// What every such name begins with. A reaper may be root; nobody's but Fathom's things are its business.
pub(crate) const PREFIX: &str = "fathom.";

/// `fathom.PID.START.N`, the Nth of this process: a number alone could be another process's by now.
pub(crate) fn name(root: &Root) -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let (pid, n) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    format!("{PREFIX}{pid}.{}.{n}", started(root, pid).unwrap_or(0))
}

/// Is this the name of something of a process that is gone?
pub(crate) fn left_behind(root: &Root, name: &str) -> bool {
    let mut parts = name.strip_prefix(PREFIX).unwrap_or_default().split('.');
    let pid: Option<u32> = parts.next().and_then(|pid| pid.parse().ok());
    let start: Option<u64> = parts.next().and_then(|start| start.parse().ok());
    match (pid, start) {
        (Some(pid), Some(start)) => started(root, pid).is_none_or(|now| now != start),
        _ => false,
    }
}

/// When a process was started, in clock ticks since boot; nothing where it is gone, or dead and only waiting to
/// be reaped. (proc_pid_stat(5): the state is the third field, the start the 22nd, and the second ends with the
/// last parenthesis.)
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
