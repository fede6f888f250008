//! From events to the stages of one wake-up, and what else ran on that CPU meanwhile.

use super::event::{Event, TraceEvent};

/// Timers that a thread may have set since it last got the CPU. Its own sleep is one; the kernel sets others in
/// its name while it gives the CPU away (the fair server's).
const MAX_ARMED: usize = 8;

/// The places that one wake-up passes, ns of `CLOCK_MONOTONIC`. A place that the trace does not show (the timer
/// may expire on another CPU) is left out, and so is the switch of a thread that still had the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stages {
    /// The time that the thread asked for.
    pub expires_ns: u64,
    /// The timer's interrupt: what its handler read from the clock when it looked for timers that are due.
    pub irq_ns: Option<u64>,
    /// The scheduler begins to wake the thread.
    pub wake_ns: Option<u64>,
    /// The scheduler gives the thread the CPU.
    pub switch_ns: Option<u64>,
}

/// Follows one thread through the events of its CPU.
struct Follow {
    tid: u32,
    /// Timers set by the thread since it last got the CPU, in order: address and time asked for.
    armed: Vec<(u64, u64)>,
    /// The expiry that is being followed, and its timer.
    open: Option<(u64, Stages)>,
    /// A wake-up without an expiry that was seen.
    woken: Option<u64>,
    /// Has the thread given the CPU away by itself?
    asleep: bool,
    done: Vec<Stages>,
}

/// The stages of every expiry of a timer that the thread `tid` slept on, in order.
///
/// Of an expiry's two times `now` is taken and not the event's own stamp: the handler reads it once, before it
/// calls back the first timer, so it holds neither the callbacks of timers that were due before this one nor
/// the cost of writing the event, and it is never before `expires`.
pub(crate) fn stages(events: &[Event], tid: u32) -> Vec<Stages> {
    let mut follow =
        Follow { tid, armed: Vec::new(), open: None, woken: None, asleep: false, done: Vec::new() };
    for event in events {
        follow.step(event);
    }
    follow.close();
    follow.done
}

impl Follow {
    fn step(&mut self, event: &Event) {
        match event.what {
            TraceEvent::Start { hrtimer, due, tid, in_interrupt: false } if tid == self.tid => {
                self.start(hrtimer, due);
            }
            TraceEvent::Expire { hrtimer, now } => self.expire(hrtimer, now.min(event.ns)),
            TraceEvent::Waking { tid } if tid == self.tid => match &mut self.open {
                Some((_, stages)) => {
                    stages.wake_ns.get_or_insert(event.ns);
                }
                None => self.woken = Some(event.ns),
            },
            TraceEvent::Switch { next, .. } if next.tid == self.tid => self.runs(event.ns),
            TraceEvent::Switch { prev, sleeps, .. } if prev.tid == self.tid => self.asleep = sleeps,
            _ => {}
        }
    }

    fn start(&mut self, hrtimer: u64, due: u64) {
        // Whoever sets a timer runs: an expiry before had no switch.
        self.close();
        self.armed.retain(|(armed, _)| *armed != hrtimer);
        if self.armed.len() < MAX_ARMED && i64::try_from(due).is_ok() {
            self.armed.push((hrtimer, due));
        }
    }

    fn expire(&mut self, hrtimer: u64, now: u64) {
        // A sleeper's callback is the waking. Another timer's callback in between shows that this was none.
        if self.open.is_some_and(|(_, stages)| stages.wake_ns.is_none()) {
            self.open = None;
        }
        let Some(at) = self.armed.iter().position(|(armed, _)| *armed == hrtimer) else { return };
        let (_, expires_ns) = self.armed.remove(at);
        if self.open.is_none() {
            let stages = Stages { expires_ns, irq_ns: Some(now), wake_ns: None, switch_ns: None };
            self.open = Some((hrtimer, stages));
        }
    }

    /// The thread gets the CPU.
    fn runs(&mut self, ns: u64) {
        match self.open.as_mut() {
            Some((_, stages)) if stages.wake_ns.is_some() => stages.switch_ns = Some(ns),
            Some(_) => self.open = None,
            None => self.unseen(ns),
        }
        self.close();
        self.armed.clear();
        (self.woken, self.asleep) = (None, false);
    }

    /// The thread runs again after a sleep whose expiry was not seen. That it was its timer's, and no signal's,
    /// shows in the time.
    fn unseen(&mut self, ns: u64) {
        let due = self.armed.first().filter(|(_, due)| self.asleep && *due <= ns);
        if let Some(&(hrtimer, expires_ns)) = due {
            let wake_ns = self.woken.filter(|wake| *wake >= expires_ns);
            self.open = Some((hrtimer, Stages { expires_ns, irq_ns: None, wake_ns, switch_ns: Some(ns) }));
        }
    }

    /// Ends the expiry that is being followed. One that woke nobody was no sleep's.
    fn close(&mut self) {
        if let Some((_, stages)) = self.open.take()
            && (stages.wake_ns.is_some() || stages.switch_ns.is_some())
        {
            self.done.push(stages);
        }
    }
}

/// What happened from `from_ns` to `to_ns`, at most `most` rows, beginning with the switch that shows who had
/// the CPU at `from_ns`. Of more, the first and the last are kept, and a row between them says how many are
/// not.
pub(crate) fn around(events: &[Event], from_ns: u64, to_ns: u64, most: usize) -> Vec<(u64, String)> {
    let reported = |event: &&Event| event.what.words().is_some();
    let switch = |event: &&Event| event.ns <= from_ns && matches!(event.what, TraceEvent::Switch { .. });
    let before = events.iter().rev().find(switch);
    let within = events.iter().filter(|e| e.ns > from_ns && e.ns <= to_ns).filter(reported);
    let all: Vec<&Event> = before.into_iter().chain(within).collect();
    let row = |event: &&Event| (event.ns, event.what.words().unwrap_or_default());
    if all.len() <= most {
        return all.iter().map(row).collect();
    }
    // One row is for what is left out.
    let kept = most.saturating_sub(1);
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let out = &all[head..all.len() - tail];
    let gap = out.first().map(|event| (event.ns, format!("{} more", out.len())));
    let rows = all[..head].iter().map(row).chain(gap).chain(all[all.len() - tail..].iter().map(row));
    rows.take(most).collect()
}

#[cfg(test)]
pub(crate) mod tests;
