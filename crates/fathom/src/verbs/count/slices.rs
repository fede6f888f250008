//! Slices of time: what a program, or a process that runs already, does in each.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fathom_experiment::record::{MAX_SLICES, ProgramRuns, ProgramSlice};
use fathom_host::{ProgramCount, ProgramCounters, ProgramCounting, ProgramEvent};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{begin, cannot_count, head_of, run_of};
use crate::failure::{Exit, Failure};
use crate::measure::stop::Stop;
use crate::program::Runner;
use crate::program::recorded::Filling;
use crate::program::runner::wait_a_while;

/// Returns the counters with those of the kernel in each set. Without these there are no slices.
fn with_kernel(found: ProgramCounters) -> Result<ProgramCounters, Failure> {
    let found = found.with_kernel_events();
    if !found.sets.is_empty() {
        return Ok(found);
    }
    let why = found.refused.last();
    let [reason, remedy] =
        why.map_or([String::new(), String::new()], |why| [why.reason.clone(), why.remedy.clone()]);
    Err(Failure::new(format!("slices of time need the kernel's counters: {reason}"), remedy))
}

/// Runs the program once, and counts it in slices. Returns whether it ended with status 0.
pub fn of_program(
    every: Duration,
    name: &str,
    filling: &mut Filling,
    runner: &Runner,
) -> Result<Exit, Failure> {
    let found = ProgramCounters::find();
    // The run has those of the processor: its time, faults and switches are the kernel's account of all that it starts.
    let own: Option<Vec<ProgramEvent>> = found.sets.first().cloned();
    let found = with_kernel(found)?;
    let set = found.sets[0].clone();
    let mut head = head_of(name, &found);
    head.sets.truncate(1);
    let names = |set: &Vec<ProgramEvent>| set.iter().map(|event| event.name.to_owned()).collect();
    head.sets.splice(0..0, own.iter().map(names));
    let nth = head.sets.len() - 1;
    begin(head, filling)?;
    let counting = ProgramCounting::open(&set).map_err(|e| cannot_count(&e))?;
    let mut slices = Slices {
        every,
        nth,
        counting,
        begin: Instant::now(),
        end: Duration::ZERO,
        last: Vec::new(),
        kept: 0,
    };
    let mut failed = Ok(());
    let ended = runner.run(&mut || {
        let (left, done) = slices.next(filling);
        failed = std::mem::replace(&mut failed, Ok(())).and(done);
        left
    })?;
    failed?;
    slices.add(filling)?;
    let counts = slices.last.split_off(set.len() - own.as_ref().map_or(0, Vec::len));
    let run = run_of(&ended, own.map(|_| 0), &counts);
    filling.add_result([run.line().render()])?;
    Ok(if run.ended.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Slices of a running program.
struct Slices {
    every: Duration,
    /// Number of the set.
    nth: usize,
    counting: ProgramCounting,
    begin: Instant,
    /// End of the last slice, and the counts until then.
    end: Duration,
    last: Vec<ProgramCount>,
    kept: usize,
}

impl Slices {
    /// Adds a slice if it is time. Returns the time until the next one.
    fn next(&mut self, filling: &mut Filling) -> (Duration, Result<(), Failure>) {
        let due = self.end + self.every;
        let now = self.begin.elapsed();
        if now < due {
            return (due - now, Ok(()));
        }
        let done = self.add(filling);
        (self.every, done)
    }

    /// Adds what was counted since the last one.
    fn add(&mut self, filling: &mut Filling) -> Result<(), Failure> {
        let counts = self.counting.read().map_err(|e| cannot_count(&e))?;
        let now = self.begin.elapsed();
        let before = |at: usize| self.last.get(at).map_or(0, |count| count.count);
        let added = counts.iter().enumerate().map(|(at, now)| now.count.saturating_sub(before(at)));
        let slice = slice(self.nth, [self.end, now], added.collect(), &counts);
        (self.end, self.last) = (now, counts);
        self.kept += 1;
        if self.kept > MAX_SLICES { Ok(()) } else { filling.add(&slice.line().render()) }
    }
}

fn slice(set: usize, [from, to]: [Duration; 2], counts: Vec<u64>, of: &[ProgramCount]) -> ProgramSlice {
    let us = |time: Duration| time.as_micros() as u64;
    ProgramSlice {
        set,
        begin_us: us(from),
        wall_us: (us(to) - us(from)).max(1),
        counts,
        shared: of.iter().any(|count| !count.whole),
    }
}

/// A process that runs already, and what can be counted of it.
pub struct Process {
    number: u32,
    descriptor: Option<OwnedFd>,
    found: ProgramCounters,
}

impl Process {
    /// Checks that there is such a process, and that it may be counted.
    pub fn open(number: u32) -> Result<Process, Failure> {
        let no_process = || Failure::usage(format!("--pid {number}: no such process"), "ps -e lists them");
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or_else(no_process)?;
        // Before Linux 5.3 there are no such descriptors.
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok();
        if !is_there(number) {
            return Err(no_process());
        }
        let found = with_kernel(ProgramCounters::find())?;
        ProgramCounting::of_process(number, &found.sets[0]).map_err(|e| cannot_attach(number, &e))?;
        Ok(Process { number, descriptor, found })
    }

    /// Counts it in slices of a time, for a time.
    pub fn count(
        &self,
        [every, time]: [Duration; 2],
        name: &str,
        filling: &mut Filling,
        stop: &Stop,
    ) -> Result<Exit, Failure> {
        let Process { number, descriptor, found } = self;
        begin(ProgramRuns { process: Some((*number).into()), ..head_of(name, found) }, filling)?;
        let start = Instant::now();
        let goes_on = || start.elapsed() < time && stop.signal().is_none() && is_there(*number);
        for nth in 0..MAX_SLICES {
            let set = nth % found.sets.len();
            let mut counting = match ProgramCounting::of_process(*number, &found.sets[set]) {
                Ok(counting) => counting,
                Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                Err(e) => return Err(cannot_attach(*number, &e)),
            };
            let from = start.elapsed();
            let until = (from + every).min(time);
            while start.elapsed() < until && goes_on() {
                wait_a_while(descriptor.as_ref(), until.saturating_sub(start.elapsed()));
            }
            let counts = counting.read().map_err(|e| cannot_count(&e))?;
            let all = counts.iter().map(|count| count.count).collect();
            filling.add_result([slice(set, [from, start.elapsed()], all, &counts).line().render()])?;
            if !goes_on() {
                break;
            }
        }
        Ok(Exit::Done)
    }
}

/// Returns whether a process has not ended.
fn is_there(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}/task/{process}")).exists()
}

fn cannot_attach(process: u32, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "ps -e lists processes",
        io::ErrorKind::PermissionDenied => {
            "count processes of your own, as root, or with CAP_PERFMON; sysctl kernel.perf_event_paranoid"
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            "each thread needs a file for each event: raise the limit on open files (ulimit -n)"
        }
        _ => "see perf_event_open(2) for this error",
    };
    Failure::new(format!("process {process} cannot be counted: {error}"), remedy)
}
