//! Context switches, faults, CPU time and steal of the measuring thread.

use std::fs::File;
use std::os::fd::AsFd;

use fathom_probe::machine::Watch;

use crate::clock;
use crate::procfs::Root;

/// Reads [`Watch`] at low cost: one clock through the vDSO and three system calls at most.
pub(crate) struct Watcher {
    /// `/proc/stat`, kept open; only if a hypervisor may steal time.
    stat: Option<File>,
    /// Start of this CPU's line in `/proc/stat`.
    line: String,
    /// Nanoseconds in one unit of `/proc/stat`.
    unit_ns: u64,
    buffer: Vec<u8>,
}

impl Watcher {
    /// Creates a watcher of the calling thread on `cpu`. Stolen time is read only if a hypervisor may steal
    /// (`stealing`): on a large bare machine reading `/proc/stat` costs hundreds of microseconds, and shows zero.
    pub(crate) fn new(root: &Root, cpu: u32, stealing: bool) -> Watcher {
        let stat = stealing.then(|| File::open(root.path("/proc/stat")).ok()).flatten();
        let hz = rustix::param::clock_ticks_per_second().max(1);
        // Each CPU's line has at most "cpuNNNN" and ten numbers of 20 digits; the lines before it are skipped.
        let buffer = vec![0; if stat.is_some() { 256 * (cpu as usize + 2) } else { 0 }];
        Watcher { stat, line: format!("cpu{cpu} "), unit_ns: 1_000_000_000 / hz, buffer }
    }

    /// Returns the resolution of stolen time in nanoseconds, if stolen time is visible.
    pub(crate) fn steal_step_ns(&self) -> Option<u64> {
        self.stat.as_ref().map(|_| self.unit_ns)
    }

    /// Returns the counts up to now. Thread time and the wall clock are read last and together, so that the cost of
    /// reading the others does not look like time lost.
    pub(crate) fn read(&mut self) -> Watch {
        let steal_ns = self.steal();
        let usage = usage(libc::RUSAGE_THREAD);
        let cpu_ns = clock::thread_ns();
        Watch {
            wall_ns: clock::raw_ns(),
            cpu_ns,
            involuntary: usage.ru_nivcsw as u64,
            steal_ns,
            faults: (usage.ru_minflt as u64).wrapping_add(usage.ru_majflt as u64),
            accesses: 0,
        }
    }

    fn steal(&mut self) -> u64 {
        let Some(stat) = &self.stat else { return 0 };
        let Ok(read) = rustix::io::pread(stat.as_fd(), &mut self.buffer[..], 0) else { return 0 };
        let text = String::from_utf8_lossy(&self.buffer[..read]);
        stolen(&text, &self.line).unwrap_or(0).saturating_mul(self.unit_ns)
    }
}

/// Returns the eighth number of a CPU's line in `/proc/stat`: time stolen, in clock ticks (proc_stat(5)).
fn stolen(text: &str, line: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(line))?.split_whitespace().nth(7)?.parse().ok()
}

/// Returns the involuntary context switches of the calling thread.
#[inline]
pub(crate) fn involuntary() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_nivcsw as u64
}

/// Returns the resource usage of the calling thread (`RUSAGE_THREAD`), its process (`RUSAGE_SELF`) or the children that it
/// has waited for (`RUSAGE_CHILDREN`).
pub(crate) fn usage(who: i32) -> libc::rusage {
    // SAFETY: all-zero bytes are a valid `rusage` (integers only).
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a live, exclusive rusage for the call to fill. On an error (an emulator without
    // RUSAGE_THREAD) it stays zero, which reports no events.
    unsafe { libc::getrusage(who, &mut usage) };
    usage
}

#[cfg(test)]
mod tests;
