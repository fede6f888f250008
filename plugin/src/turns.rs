//! Threads of the program wait for one another, so that they advance together in simulated time ([`fathom_simulation::Turns`]).
//!
//! A thread waits only after a batch has gone to the machines, and holds no lock then. It is within QEMU's execution of the
//! program's code, so what stops all threads there (`fork`, the program's end) waits for it: for twice [`PATIENCE`] at most.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use fathom_simulation::Turns;

use crate::session::{Session, lock};

/// Accesses in a batch of each of several threads: those that share lines then do so every few accesses, as CPUs do. A prime, because a
/// multiple of what a loop makes in a step would begin all turns of a thread at the same instruction: with a store there, no load would
/// find what another CPU has modified.
pub const TURN: usize = 61;
/// Batches by which a thread may be ahead of the slowest one.
const AHEAD: u64 = 4;
/// A thread that runs and makes no access in this time is given up until it does. Whoever waits asks at this interval, so it may take
/// twice as long. Longer than a host with several programs for
/// each of its CPUs usually lets a thread wait for one.
const PATIENCE: Duration = Duration::from_millis(50);

/// The turns of the program's threads.
#[derive(Debug)]
pub struct Gate {
    /// Whether there are several threads. One alone has no turns.
    several: AtomicBool,
    turns: Mutex<Turns>,
    /// Someone may go on.
    moved: Condvar,
}

impl Gate {
    /// No thread has begun.
    pub fn new() -> Gate {
        Gate {
            several: AtomicBool::new(false),
            turns: Mutex::new(Turns::new(AHEAD * TURN as u64)),
            moved: Condvar::new(),
        }
    }

    /// Returns whether there are several threads.
    #[inline(always)]
    pub fn has_several(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }

    /// A thread will begin.
    pub fn begin(&self, thread: u32) {
        self.change(|turns| {
            let several = turns.go_on(thread as usize) > 1;
            self.several.store(several, Ordering::Relaxed);
        });
    }

    /// A thread is over.
    pub fn end(&self, thread: u32) {
        self.change(|turns| {
            let several = turns.end(thread as usize) > 1;
            self.several.store(several, Ordering::Relaxed);
        });
    }

    /// A thread makes a system call.
    pub fn leave(&self, thread: u32) {
        self.change(|turns| turns.leave(thread as usize));
    }

    /// A system call of a thread has returned.
    pub fn come_back(&self, thread: u32) {
        self.change(|turns| {
            turns.go_on(thread as usize);
        });
    }

    /// A thread has made accesses.
    pub fn made(&self, thread: u32, accesses: u64) {
        self.change(|turns| turns.made(thread as usize, accesses));
    }

    fn change(&self, what: impl FnOnce(&mut Turns)) {
        let mut turns = lock(&self.turns);
        what(&mut turns);
        if turns.someone_may_go_on() {
            self.moved.notify_all();
        }
    }

    /// A thread waits if it is too far ahead.
    #[cold]
    pub fn wait(&self, thread: u32) {
        let thread = thread as usize;
        let mut turns = lock(&self.turns);
        if !turns.waits(thread) {
            return;
        }
        while !turns.may_go_on(thread) && Session::get().is_some() {
            let waited = self.moved.wait_timeout(turns, PATIENCE);
            let (now, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            turns = now;
            if timeout.timed_out() {
                turns.give_up(thread);
            }
        }
        // Others of the same time may, too.
        self.moved.notify_all();
    }
}
