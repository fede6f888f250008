//! Signals that end a session.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::child::RAISE_LIMITS;
use crate::failure::{Failure, print_message};

/// Time after a signal in which a session ends. Its trial and its processes take two seconds; the rest is for a report on a
/// slow board. A reader that does not read (a pipe as stdout, record or page) would take longer.
const END_GRACE: Duration = Duration::from_secs(10);

/// Number of the last signal received that ends a session; 0 if none.
#[derive(Clone, Debug)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Listens from now on.
    pub fn listen() -> Result<Stop, Failure> {
        let failed =
            |e: std::io::Error| Failure::new(format!("cannot listen for signals: {e}"), RAISE_LIMITS);
        let flag = Arc::new(AtomicUsize::new(0));
        let (wakes, guard) = UnixStream::pair().map_err(failed)?;
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
                .and_then(|_| signal_hook::low_level::pipe::register(signal, wakes.try_clone()?))
                .map_err(failed)?;
        }
        let last = Arc::clone(&flag);
        std::thread::Builder::new().spawn(move || end_blocked(guard, &last)).map_err(failed)?;
        Ok(Stop(flag))
    }

    /// Returns the number of the last such signal, if any.
    pub fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}

/// Waits for a signal, and ends a process that is blocked then: a write to a pipe whose reader does not read is not
/// interrupted.
fn end_blocked(mut guard: UnixStream, last: &AtomicUsize) {
    if guard.read_exact(&mut [0]).is_err() {
        return;
    }
    std::thread::sleep(END_GRACE);
    let signal = i32::try_from(last.load(Ordering::Relaxed)).unwrap_or(0);
    print_message(&format!(
        "ended by signal {signal}: {} s after it, a pipe that is written to was still not read",
        END_GRACE.as_secs()
    ));
    std::process::exit(128 + signal);
}

/// Returns the signals that this process ignores from its start, one bit each from signal 1; none if the system does
/// not report them (proc_pid_status(5): SigIgn).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0)
}
