//! A process that runs already, and is observed for a time.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, setrlimit};

use super::runner::wait_a_while;
use crate::cli::milliseconds;
use crate::failure::{Failure, print_message};
use crate::measure::stop::Stop;

/// Time by default.
const DEFAULT: Duration = Duration::from_secs(10);

/// Options of the verbs that run a program or observe a process.
#[derive(Debug, Args)]
pub struct ProcessOptions {
    /// Observe this process, which runs already, with all its threads, instead of running a program.
    #[arg(long = "pid", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=i32::MAX as i64), conflicts_with = "command")]
    pub process: Option<u32>,
    /// Time that it is observed: 30s. It may end before, and so does ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    time: Option<Duration>,
}

impl ProcessOptions {
    /// Returns the options as typed.
    pub fn typed(&self) -> [(&'static str, Option<String>); 2] {
        let ms = self.time.map(|time| format!("{}ms", time.as_millis()));
        [("--pid", self.process.map(|process| process.to_string())), ("--for", ms)]
    }

    /// Returns the process, if one is to be observed.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn open(&self) -> Result<Option<Process>, Failure> {
        if self.time.is_some() && self.process.is_none() {
            return Err(Failure::usage(
                "--for is the time that a running process is observed, and there is none",
                "name it: --pid 1234 --for 30s",
            ));
        }
        self.process.map(|number| Process::open(number, self.time.unwrap_or(DEFAULT))).transpose()
    }
}

/// Parses the time that a process is observed.
fn time(text: &str) -> Result<Duration, String> {
    time_within(text, [10, 7 * 24 * 3_600_000], "must be from 10ms to 10080m, a week")
}

/// Parses a time in a range of ms.
pub fn time_within(text: &str, [least, most]: [u64; 2], error: &str) -> Result<Duration, String> {
    let ms = milliseconds(text)?;
    let is_within = (least as f64..=most as f64).contains(&ms);
    is_within.then(|| Duration::from_millis(ms as u64)).ok_or_else(|| error.to_owned())
}

/// Returns the state of a process, of proc(5); `None` if there is none.
fn state(number: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name before it may have anything in it.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// A process that is observed.
pub struct Process {
    /// Its number.
    pub number: u32,
    /// Time that it is observed.
    pub time: Duration,
    /// None before Linux 5.3.
    descriptor: Option<OwnedFd>,
}

impl Process {
    fn open(number: u32, time: Duration) -> Result<Process, Failure> {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        // Each thread needs some files.
        let limit = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
        let descriptor = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let process = Process { number, time, descriptor };
        if state(number).is_some() && process.is_there() {
            return Ok(process);
        }
        Err(Failure::usage(format!("--pid {number}: no such process, or it has ended"), "ps -e lists them"))
    }

    /// Returns whether it has not ended. One that its parent has not waited for yet is still in /proc.
    fn is_there(&self) -> bool {
        match &self.descriptor {
            Some(descriptor) => {
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&now)) != Ok(1)
            }
            None => state(self.number).is_some_and(|state| !matches!(state, 'Z' | 'X')),
        }
    }

    /// Returns whether it is still to be observed, since `start`.
    pub fn goes_on(&self, start: Instant, stop: &Stop) -> bool {
        start.elapsed() < self.time && stop.signal().is_none() && self.is_there()
    }

    /// Waits until a time since `start`, or until it is no more to be observed.
    pub fn wait(&self, start: Instant, until: Duration, stop: &Stop) {
        let until = until.min(self.time);
        while start.elapsed() < until && self.goes_on(start, stop) {
            wait_a_while(self.descriptor.as_ref(), until.saturating_sub(start.elapsed()));
        }
    }

    /// Tells if it has ended before its time, which began at `start`.
    pub fn tell_if_ended(&self, start: Instant) {
        let observed = start.elapsed();
        if observed < self.time && !self.is_there() {
            let (after, of) = (observed.as_secs_f64(), self.time.as_secs_f64());
            print_message(&format_args!("process {} ended after {after:.1} of {of:.1} s", self.number));
        }
    }

    /// Returns the failure of counters or samples of it.
    pub fn failure(&self, error: &std::io::Error) -> Failure {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "ps -e lists processes",
            std::io::ErrorKind::PermissionDenied => {
                "choose a process of your own that may be read; else root, or CAP_PERFMON; sysctl kernel.perf_event_paranoid=2 or less"
            }
            _ if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
                "each thread needs a file for each event and CPU: raise the limit on open files (ulimit -n)"
            }
            _ => "see perf_event_open(2) for this error",
        };
        Failure::new(format!("--pid {}: it cannot be observed: {error}", self.number), remedy)
    }
}
