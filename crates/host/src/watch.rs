//! What happens to the measuring thread while it measures.

use std::fs::File;
use std::os::fd::AsFd;

use fathom_probe::machine::Watch;

use crate::clock;
use crate::read::Root;

/// Reads [`Watch`] cheaply: one clock through the vDSO and three system calls at most.
pub(crate) struct Watcher {
    /// `/proc/stat`, kept open, where stolen time is worth reading.
    stat: Option<File>,
    /// The start of this CPU's line in it.
    line: String,
    /// Nanoseconds in one unit of `/proc/stat`.
    unit_ns: u64,
    buffer: Vec<u8>,
}

impl Watcher {
    /// A watcher of the calling thread on `cpu`. Stolen time is read only where a hypervisor may steal:
    /// on a large bare machine `/proc/stat` costs hundreds of microseconds, and says zero.
    pub(crate) fn new(root: &Root, cpu: u32, stealing: bool) -> Watcher {
        let stat = stealing.then(|| File::open(root.path("/proc/stat")).ok()).flatten();
        let hz = rustix::param::clock_ticks_per_second().max(1);
        // Each CPU's line is at most "cpuNNNN" and ten numbers of 20 digits; those before it are skipped.
        let buffer = vec![0; if stat.is_some() { 256 * (cpu as usize + 2) } else { 0 }];
        Watcher { stat, line: format!("cpu{cpu} "), unit_ns: 1_000_000_000 / hz, buffer }
    }

    /// Can stolen time be seen, and in steps of how many nanoseconds?
    pub(crate) fn steal_step_ns(&self) -> Option<u64> {
        self.stat.as_ref().map(|_| self.unit_ns)
    }

    /// What has happened so far. Thread time and the wall clock are read side by side, last, so that what
    /// reading the others costs does not look like time lost.
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

/// The eighth number of a CPU's line in `/proc/stat`: time stolen, in clock ticks (proc_stat(5)).
fn stolen(text: &str, line: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(line))?.split_whitespace().nth(7)?.parse().ok()
}

/// Involuntary context switches of the calling thread.
#[inline]
pub(crate) fn involuntary() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_nivcsw as u64
}

/// Resource usage of the calling thread (`RUSAGE_THREAD`) or its process (`RUSAGE_SELF`).
pub(crate) fn usage(who: i32) -> libc::rusage {
    // SAFETY: all-zero bytes are a valid `rusage` (integers only).
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a live, exclusive rusage for the call to fill. On an error (an emulator without
    // RUSAGE_THREAD) it stays zero, which says that nothing was seen.
    unsafe { libc::getrusage(who, &mut usage) };
    usage
}

#[cfg(test)]
mod tests;
