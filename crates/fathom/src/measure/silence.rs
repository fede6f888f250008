//! Length of a probe's silence, and the times at which a silent probe is pinged.

use std::time::{Duration, Instant};

/// Longest silence if a reply is overdue. A line of 4 KiB takes a third of a second at 115200 baud; a running board
/// replies in less.
const OVERDUE_AFTER: Duration = Duration::from_millis(1500);
/// Share of the patience, as a divisor, after which a working probe is pinged.
const PATIENCE_DIVISOR: u32 = 8;

/// A silence.
#[derive(Debug)]
pub struct Silence {
    since: Instant,
    /// Time of the last ping.
    pinged: Instant,
    /// Number of pings.
    pings: u32,
    /// Longest silence allowed.
    patience: Duration,
}

impl Silence {
    /// Starts a silence now.
    pub fn new(patience: Duration) -> Silence {
        let now = Instant::now();
        Silence { since: now, pinged: now, pings: 0, patience }
    }

    /// Restarts it after a line was sent or received.
    pub fn reset(&mut self) {
        *self = Silence::new(self.patience);
    }

    /// Returns its length.
    pub fn length(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns whether a ping is due, and counts it: soon if a reply is overdue, else later. The interval doubles each
    /// time, because a busy probe has to reply to every ping in the end.
    pub fn due(&mut self, overdue: bool) -> bool {
        let part = self.patience / PATIENCE_DIVISOR;
        let first = if overdue { OVERDUE_AFTER.min(part) } else { part };
        let due = self.pinged.elapsed() >= first.saturating_mul(1 << self.pings.min(16));
        if due {
            self.pinged = Instant::now();
            self.pings += 1;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overdue_answer_is_requested_again_within_patience() {
        let patience = Duration::from_secs(60);
        let mut quiet = Silence::new(patience);
        assert!(!quiet.due(true));
        let mut requested = Vec::new();
        // The start time is moved back instead of waiting.
        for second in 0..60 {
            quiet.pinged -= Duration::from_secs(1);
            if quiet.due(true) {
                requested.push(second);
            }
        }
        assert!((4..7).contains(&requested.len()), "{requested:?}");
        quiet.reset();
        quiet.pinged -= Duration::from_secs(7);
        assert!(!quiet.due(false), "a working probe is pinged later");
        quiet.pinged -= Duration::from_secs(1);
        assert!(quiet.due(false));
    }
}
