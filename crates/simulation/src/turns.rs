//! Turns of threads: which of them may go on, so that all advance together in simulated time.
//!
//! CPUs of a machine run side by side, while a host gives one of its own to a thread for milliseconds at a time: what a thread
//! does in that time, another one would have done meanwhile. So the time of a thread is the number of accesses that it has made, and
//! one that is too far ahead of the slowest waits until that one has caught up. Who waits for whom:
//!
//! * A thread waits for those that run, or that wait themselves. The slowest of all never waits, so one of them always goes on.
//! * A thread that is away (in a system call, which may last) or over is not waited for. Time passes meanwhile: one that comes back
//!   is where the slowest is, if that is later. A new thread begins there, too.
//! * A thread that makes no access for some time (a long calculation, or QEMU has stopped it) is given up until its next access.
//!
//! This is a state without a clock and without locks: whoever asks decides what "some time" is.

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has not begun, or is over.
    Over,
    /// It runs.
    Runs,
    /// It waits for the others.
    Waits,
    /// It is in a system call.
    Away,
    /// It runs, and has made no access for some time.
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Accesses.
    time: u64,
    standing: Standing,
    /// Whether it has made any since the last [`Turns::give_up`].
    moved: bool,
}

/// The turns of all threads.
#[derive(Clone, Debug)]
pub struct Turns {
    threads: Vec<Turn>,
    /// The latest time of the slowest thread.
    now: u64,
    /// Accesses by which a thread may be ahead of the slowest.
    ahead: u64,
}

impl Turns {
    /// No thread has begun. One may be `ahead` accesses ahead of the slowest.
    #[must_use]
    pub const fn new(ahead: u64) -> Turns {
        Turns { threads: Vec::new(), now: 0, ahead }
    }

    /// A thread begins, or comes back from a system call. Returns the number of threads that are not over.
    pub fn go_on(&mut self, thread: usize) -> usize {
        self.turn(thread).moved = true;
        self.stand(thread, Standing::Runs);
        self.threads.iter().filter(|turn| turn.standing != Standing::Over).count()
    }

    /// A thread is in a system call from now on.
    pub fn leave(&mut self, thread: usize) {
        self.stand(thread, Standing::Away);
    }

    /// A thread is over. Returns the number of the others.
    pub fn end(&mut self, thread: usize) -> usize {
        self.stand(thread, Standing::Over);
        self.threads.iter().filter(|turn| turn.standing != Standing::Over).count()
    }

    /// A thread has made accesses.
    pub fn made(&mut self, thread: usize, accesses: u64) {
        let turn = self.turn(thread);
        turn.time += accesses;
        turn.moved = true;
        self.stand(thread, Standing::Runs);
    }

    /// Returns whether a thread is too far ahead. It waits then, until it [may go on](Turns::may_go_on).
    pub fn waits(&mut self, thread: usize) -> bool {
        let ahead = self.turn(thread).time.saturating_sub(self.ahead);
        let waits = self.slowest().is_some_and(|slowest| slowest < ahead);
        if waits {
            self.turn(thread).standing = Standing::Waits;
        }
        waits
    }

    /// Returns whether a thread that waits may go on, because none is behind it. It runs then.
    pub fn may_go_on(&mut self, thread: usize) -> bool {
        let may = self.slowest().is_none_or(|slowest| slowest >= self.turn(thread).time);
        if may {
            self.turn(thread).standing = Standing::Runs;
        }
        may
    }

    /// Returns whether a thread waits that may go on.
    #[must_use]
    pub fn someone_may_go_on(&self) -> bool {
        let slowest = self.slowest();
        self.threads.iter().any(|turn| turn.standing == Standing::Waits && Some(turn.time) == slowest)
    }

    /// Gives the threads up that are behind `thread`, and that have made no access since the last time.
    pub fn give_up(&mut self, thread: usize) {
        let time = self.turn(thread).time;
        for turn in &mut self.threads {
            if turn.standing == Standing::Runs && turn.time < time && !std::mem::take(&mut turn.moved) {
                turn.standing = Standing::GivenUp;
            }
        }
        self.pass();
    }

    /// Returns the time of the slowest thread that runs or waits.
    fn slowest(&self) -> Option<u64> {
        let counted = |turn: &&Turn| matches!(turn.standing, Standing::Runs | Standing::Waits);
        self.threads.iter().filter(counted).map(|turn| turn.time).min()
    }

    fn turn(&mut self, thread: usize) -> &mut Turn {
        if self.threads.len() <= thread {
            let new = Turn { time: 0, standing: Standing::Over, moved: false };
            self.threads.resize(thread + 1, new);
        }
        &mut self.threads[thread]
    }

    fn stand(&mut self, thread: usize, standing: Standing) {
        let now = self.now;
        let turn = self.turn(thread);
        let was = std::mem::replace(&mut turn.standing, standing);
        if standing == Standing::Runs && was != Standing::Runs {
            turn.time = turn.time.max(now);
        }
        self.pass();
    }

    /// Time has passed.
    fn pass(&mut self) {
        self.now = self.slowest().map_or(self.now, |slowest| slowest.max(self.now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns turns of threads 0 and 1, at the same time.
    fn two(ahead: u64) -> Turns {
        let mut turns = Turns::new(ahead);
        assert_eq!((turns.go_on(0), turns.go_on(1)), (1, 2));
        turns
    }

    #[test]
    fn a_thread_waits_for_the_slowest_until_that_has_caught_up() {
        let mut turns = two(100);
        turns.made(0, 100);
        assert!(!turns.waits(0), "100 ahead is allowed");
        turns.made(0, 1);
        assert!(turns.waits(0));
        assert!(!turns.waits(1), "the slowest never waits");
        turns.made(1, 100);
        assert!(!turns.may_go_on(0) && !turns.someone_may_go_on());
        turns.made(1, 1);
        assert!(turns.someone_may_go_on() && turns.may_go_on(0));
    }

    #[test]
    fn who_is_away_or_over_is_not_waited_for_and_comes_back_at_the_present() {
        for is_over in [false, true] {
            let mut turns = two(100);
            turns.made(0, 500);
            assert!(turns.waits(0));
            match is_over {
                true => assert_eq!(turns.end(1), 1),
                false => turns.leave(1),
            }
            assert!(turns.someone_may_go_on() && turns.may_go_on(0));
            turns.made(0, 500);
            assert!(!turns.waits(0));
            turns.go_on(1);
            turns.made(1, 100);
            assert!(!turns.waits(1), "1100 and 1000");
            turns.made(1, 1);
            assert!(turns.waits(1), "1101 and 1000");
        }
    }

    #[test]
    fn who_makes_no_access_is_given_up_until_it_does() {
        let mut turns = two(100);
        turns.made(0, 500);
        assert!(turns.waits(0));
        turns.give_up(0);
        assert!(!turns.may_go_on(0), "thread 1 has moved since it began");
        turns.give_up(0);
        assert!(turns.may_go_on(0));
        turns.made(0, 500);
        assert!(!turns.waits(0));
        turns.made(1, 1);
        turns.made(0, 101);
        assert!(turns.waits(0), "thread 1 was at 1000 with its next access");
    }

    /// Whatever threads do, one of those that run or wait may go on, and none is further ahead than allowed.
    #[test]
    fn someone_always_goes_on() {
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut turns, mut waited) = (Turns::new(64), 0);
        for thread in 0..5 {
            turns.go_on(thread);
        }
        for _ in 0..100_000 {
            let thread = draw(5) as usize;
            match turns.threads[thread].standing {
                Standing::Waits => {
                    turns.may_go_on(thread);
                }
                Standing::Away | Standing::Over => {
                    turns.go_on(thread);
                }
                Standing::Runs | Standing::GivenUp => match draw(12) {
                    0 => turns.leave(thread),
                    1 => {
                        turns.end(thread);
                    }
                    _ => {
                        turns.made(thread, draw(64));
                        waited += u32::from(turns.waits(thread));
                    }
                },
            }
            let all = &turns.threads;
            let counted: Vec<&Turn> =
                all.iter().filter(|turn| matches!(turn.standing, Standing::Runs | Standing::Waits)).collect();
            let slowest = counted.iter().map(|turn| turn.time).min().unwrap_or(0);
            assert!(counted.iter().all(|turn| turn.time <= slowest + 64 + 64), "{all:?}");
            let runs = counted.iter().any(|turn| turn.standing == Standing::Runs);
            assert!(counted.is_empty() || runs || turns.someone_may_go_on(), "{all:?}");
        }
        assert!(waited > 1000, "{waited}");
    }
}
