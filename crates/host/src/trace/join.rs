//! Joins events to the stages of each wake-up, and selects the events around it.

use super::event::{Event, TraceEvent};

/// Maximum timers of a thread since it last got the CPU. One is its own sleep. The kernel sets others in its context
/// while it switches to another task (the fair server's).
const MAX_ARMED: usize = 8;

/// Places of one wake-up, ns of `CLOCK_MONOTONIC`. A place that the trace does not show (the timer may expire on
/// another CPU) is `None`. So is the switch of a thread that still had the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stages {
    /// Time that the thread requested.
    pub expires_ns: u64,
    /// The timer's interrupt: the time that its handler read when it looked for expired timers.
    pub irq_ns: Option<u64>,
    /// Time at which the scheduler begins to wake the thread.
    pub wake_ns: Option<u64>,
    /// Time at which the scheduler gives the thread the CPU.
    pub switch_ns: Option<u64>,
}

/// Follows one thread through the events of its CPU.
struct ThreadFollower {
    tid: u32,
    /// Timers set by the thread since it last got the CPU, in order: address and requested time.
    armed: Vec<(u64, u64)>,
    /// The expiry that is being followed, and its timer.
    open: Option<(u64, Stages)>,
    /// A wake-up without a traced expiry.
    woken: Option<u64>,
    /// Whether the thread has gone to sleep voluntarily.
    sleeps_voluntarily: bool,
    done: Vec<Stages>,
}

/// Returns the stages of every expiry of a timer on which the thread `tid` slept, in order.
///
/// Of an expiry's two times, `now` is used and not the event's own time stamp. The handler reads it once, before it
/// calls the first timer's callback. So it contains neither the callbacks of timers that expired before this one nor
/// the cost of writing the event, and it is never before `expires`.
pub(crate) fn stages(events: &[Event], tid: u32) -> Vec<Stages> {
    let mut follow = ThreadFollower {
        tid,
        armed: Vec::new(),
        open: None,
        woken: None,
        sleeps_voluntarily: false,
        done: Vec::new(),
    };
    for event in events {
        follow.step(event);
    }
    follow.close();
    follow.done
}

impl ThreadFollower {
    fn step(&mut self, event: &Event) {
        match event.data {
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
            TraceEvent::Switch { next, .. } if next.tid == self.tid => self.switched_in(event.ns),
            TraceEvent::Switch { prev, sleeps, .. } if prev.tid == self.tid => {
                self.sleeps_voluntarily = sleeps
            }
            _ => {}
        }
    }

    fn start(&mut self, hrtimer: u64, due: u64) {
        // A thread that sets a timer is running: an expiry before this had no switch.
        self.close();
        self.armed.retain(|(armed, _)| *armed != hrtimer);
        if self.armed.len() < MAX_ARMED && i64::try_from(due).is_ok() {
            self.armed.push((hrtimer, due));
        }
    }

    fn expire(&mut self, hrtimer: u64, now: u64) {
        // A sleeper's callback is the waking. Another timer's callback before a waking shows that this was not a
        // sleeper's.
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

    /// Handles a switch to the thread.
    fn switched_in(&mut self, ns: u64) {
        match self.open.as_mut() {
            Some((_, stages)) if stages.wake_ns.is_some() => stages.switch_ns = Some(ns),
            Some(_) => self.open = None,
            None => self.untraced_expiry(ns),
        }
        self.close();
        self.armed.clear();
        (self.woken, self.sleeps_voluntarily) = (None, false);
    }

    /// Handles the end of a sleep whose expiry was not traced. The time shows that its timer woke it, and not a
    /// signal.
    fn untraced_expiry(&mut self, ns: u64) {
        let due = self.armed.first().filter(|(_, due)| self.sleeps_voluntarily && *due <= ns);
        if let Some(&(hrtimer, expires_ns)) = due {
            let wake_ns = self.woken.filter(|wake| *wake >= expires_ns);
            self.open = Some((hrtimer, Stages { expires_ns, irq_ns: None, wake_ns, switch_ns: Some(ns) }));
        }
    }

    /// Ends the expiry that is being followed. One without a waking did not end a sleep.
    fn close(&mut self) {
        if let Some((_, stages)) = self.open.take()
            && (stages.wake_ns.is_some() || stages.switch_ns.is_some())
        {
            self.done.push(stages);
        }
    }
}

/// Returns the events from `from_ns` to `to_ns`, at most `max_rows`, beginning with the switch to the task that ran
/// at `from_ns`. If there are more, the first and the last are kept, and a row between them gives the number of
/// omitted events.
pub(crate) fn events_between(
    events: &[Event],
    from_ns: u64,
    to_ns: u64,
    max_rows: usize,
) -> Vec<(u64, String)> {
    let reported = |event: &&Event| event.data.text().is_some();
    let switch = |event: &&Event| event.ns <= from_ns && matches!(event.data, TraceEvent::Switch { .. });
    let before = events.iter().rev().find(switch);
    let within = events.iter().filter(|e| e.ns > from_ns && e.ns <= to_ns).filter(reported);
    let all: Vec<&Event> = before.into_iter().chain(within).collect();
    let row = |event: &&Event| (event.ns, event.data.text().unwrap_or_default());
    if all.len() <= max_rows {
        return all.iter().map(row).collect();
    }
    // One row is for the number of omitted events.
    let kept = max_rows.saturating_sub(1);
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let out = &all[head..all.len() - tail];
    let gap = out.first().map(|event| (event.ns, format!("{} more", out.len())));
    let rows = all[..head].iter().map(row).chain(gap).chain(all[all.len() - tail..].iter().map(row));
    rows.take(max_rows).collect()
}

#[cfg(test)]
pub(crate) mod tests;
