//! How long nothing has been heard, and when a silent probe is asked whether it is there.

use std::time::{Duration, Instant};

/// How long a silence may be where an answer is due at once. A line of 4 KiB takes a third of a second at 115200
/// baud; a board that is on answers in less.
const SOON: Duration = Duration::from_millis(1500);
/// The part of the patience that a probe which is at work may be silent before it is asked.
const PART: u32 = 8;

/// A silence.
#[derive(Debug)]
pub struct Silence {
    since: Instant,
    /// When it was last asked about.
    requested: Instant,
    /// How often it was.
    times: u32,
    /// How long it may be in all.
    patience: Duration,
}

impl Silence {
    /// A silence that begins now.
    pub fn new(patience: Duration) -> Silence {
        let now = Instant::now();
        Silence { since: now, requested: now, times: 0, patience }
    }

    /// Something was heard or said: it begins again.
    pub fn broken(&mut self) {
        *self = Silence::new(self.patience);
    }

    /// How long it has been.
    pub fn length(&self) -> Duration {
        self.since.elapsed()
    }

    /// Is it time to ask? Soon where the answer is overdue, each time twice as long as before: whoever is at work
    /// has to answer every question in the end.
    pub fn due(&mut self, overdue: bool) -> bool {
        let part = self.patience / PART;
        let first = if overdue { SOON.min(part) } else { part };
        let due = self.requested.elapsed() >= first.saturating_mul(1 << self.times.min(16));
        if due {
            self.requested = Instant::now();
            self.times += 1;
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
        // What has passed since is put back instead of waited for.
        for second in 0..60 {
            quiet.requested -= Duration::from_secs(1);
            if quiet.due(true) {
                requested.push(second);
            }
        }
        assert!((4..7).contains(&requested.len()), "{requested:?}");
        quiet.broken();
        quiet.requested -= Duration::from_secs(7);
        assert!(!quiet.due(false), "whoever is at work is left alone for longer");
        quiet.requested -= Duration::from_secs(1);
        assert!(quiet.due(false));
    }
}
