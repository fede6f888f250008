//! Slices of time: what a program, or a process that runs already, does in each.

use std::io;
use std::time::{Duration, Instant};

use fathom_experiment::record::{MAX_SLICES, ProgramRuns, ProgramSlice};
use fathom_host::{ProgramCount, ProgramCounters, ProgramCounting, ProgramEvent};

use super::{access_times, begin, cannot_count, head_of, run_of};
use crate::failure::{Exit, Failure};
use crate::measure::stop::Stop;
use crate::program::Runner;
use crate::program::process::Process;
use crate::program::recorded::Filling;

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
    let mut head = ProgramRuns { times: access_times(&filling.record, &found), ..head_of(name, &found) };
    head.every_ms = Some(every.as_millis() as u64);
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
    filling.add_result(run.lines().iter().map(fathom_probe::wire::Line::render))?;
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

/// Returns what can be counted of a process that runs already.
pub fn counters_of(process: &Process) -> Result<ProgramCounters, Failure> {
    let found = with_kernel(ProgramCounters::find())?;
    ProgramCounting::of_process(process.number, &found.sets[0]).map_err(|e| process.failure(&e))?;
    Ok(found)
}

/// Counts a process in slices.
pub fn of_process(
    process: &Process,
    found: &ProgramCounters,
    every: Duration,
    name: &str,
    filling: &mut Filling,
    stop: &Stop,
) -> Result<Exit, Failure> {
    let every_ms = Some(every.as_millis() as u64);
    begin(ProgramRuns { process: Some(process.number.into()), every_ms, ..head_of(name, found) }, filling)?;
    let start = Instant::now();
    for nth in 0..MAX_SLICES {
        let set = nth % found.sets.len();
        let mut counting = match ProgramCounting::of_process(process.number, &found.sets[set]) {
            Ok(counting) => counting,
            Err(e) if e.kind() == io::ErrorKind::NotFound => break,
            Err(e) => {
                let Failure { what, remedy, .. } = process.failure(&e);
                return Err(Failure::new(format!("{what}; after {nth} slices"), remedy));
            }
        };
        let from = start.elapsed();
        process.wait(start, from + every, stop);
        let counts = counting.read().map_err(|e| cannot_count(&e))?;
        let all = counts.iter().map(|count| count.count).collect();
        filling.add_result([slice(set, [from, start.elapsed()], all, &counts).line().render()])?;
        if !process.goes_on(start, stop) {
            break;
        }
    }
    process.tell_if_ended(start);
    Ok(Exit::Done)
}
