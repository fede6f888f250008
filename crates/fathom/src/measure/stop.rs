//! Signals that end a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::failure::Failure;

/// Number of the last signal received that ends a session; 0 if none.
#[derive(Clone, Debug)]
pub(super) struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Listens from now on.
    pub(super) fn listen() -> Result<Stop, Failure> {
        let flag = Arc::new(AtomicUsize::new(0));
        let ignored = ignored();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            // Signals that were ignored at the start stay ignored: nohup, and background jobs of a script.
            if ignored & (1 << (signal - 1)) != 0 {
                continue;
            }
            // A second signal of the same kind ends the process at once: ctrl-C twice.
            let armed = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&armed))
                .and_then(|_| signal_hook::flag::register(signal, armed))
                .and_then(|_| signal_hook::flag::register_usize(signal, Arc::clone(&flag), signal as usize))
                .map_err(|e| Failure::new(format!("cannot listen for signals: {e}"), ""))?;
        }
        Ok(Stop(flag))
    }

    /// Returns the number of the last such signal, if any.
    pub(super) fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}

/// Returns the signals that this process ignores from its start, one bit each from signal 1; none if the system does
/// not report them (proc_pid_status(5): SigIgn).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0)
}
