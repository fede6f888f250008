//! The time of accesses that overlap.
//!
//! Each CPU begins its accesses in the order of the program. One begins when
//!
//! - fewer than `outstanding` of those before it are under way,
//! - of those that are `window` or more instructions before it, none is under way: the core would have to hold more than `window`
//!   instructions, and an instruction leaves it when all before it are complete, and
//! - what it depends on is complete, if that is known.
//!
//! It is under way for its time. What an access adds is the time by which it moves the end of all accesses so far, so what several
//! functions add is the whole.

/// Accesses of a machine's CPUs under way.
#[derive(Clone, Debug)]
pub struct Overlap {
    outstanding: usize,
    /// In instructions.
    window: u64,
    cpus: Vec<Cpu>,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    /// Instructions so far.
    position: u64,
    /// When the last one began.
    begun: u64,
    /// When all are complete.
    end: u64,
    /// Those that may be under way: when they are complete, and their positions.
    under_way: Vec<(u64, u64)>,
}

impl Overlap {
    /// Creates it for a machine's CPUs. Without a window, only their number limits the accesses under way.
    #[must_use]
    pub fn new(outstanding: u32, window: Option<u32>, cpus: u32) -> Overlap {
        Overlap {
            outstanding: outstanding.max(1) as usize,
            window: window.map_or(u64::MAX, u64::from),
            cpus: vec![Cpu::default(); cpus as usize],
        }
    }

    /// Moves a CPU on by instructions, the last of which may make an access.
    #[inline]
    pub fn pass(&mut self, cpu: u32, instructions: u64) {
        self.cpus[cpu as usize].position += instructions;
    }

    /// Makes an access at a CPU's present position that takes `units`, and that depends on no other. Returns what it adds to the time of
    /// all accesses.
    #[inline]
    pub fn add(&mut self, cpu: u32, units: u64) -> u64 {
        let before = self.end(cpu);
        self.add_after(cpu, 0, units);
        self.end(cpu) - before
    }

    /// Makes an access at a CPU's present position that takes `units` from the time `ready` on, or later. Returns when it is complete.
    pub fn add_after(&mut self, cpu: u32, ready: u64, units: u64) -> u64 {
        let of = &mut self.cpus[cpu as usize];
        let mut begins = of.begun.max(ready);
        for &(complete, position) in &of.under_way {
            if of.position - position >= self.window {
                begins = begins.max(complete);
            }
        }
        of.under_way.retain(|&(complete, _)| complete > begins);
        if of.under_way.len() >= self.outstanding
            && let Some(first) = of.under_way.iter().map(|&(complete, _)| complete).min()
        {
            begins = first;
            of.under_way.retain(|&(complete, _)| complete > begins);
        }
        of.begun = begins;
        let complete = begins + units;
        of.under_way.push((complete, of.position));
        of.end = of.end.max(complete);
        complete
    }

    /// Returns when all accesses of a CPU are complete.
    #[inline]
    #[must_use]
    pub fn end(&self, cpu: u32) -> u64 {
        self.cpus[cpu as usize].end
    }
}

#[cfg(test)]
mod tests {
    use super::Overlap;

    /// Returns what each access adds: instructions since the one before, and time.
    fn added(outstanding: u32, window: Option<u32>, accesses: &[(u64, u64)]) -> Vec<u64> {
        let mut overlap = Overlap::new(outstanding, window, 2);
        let add = |&(passed, beyond): &(u64, u64)| {
            overlap.pass(1, passed);
            overlap.add(1, beyond)
        };
        accesses.iter().map(add).collect()
    }

    #[test]
    fn one_at_a_time_is_the_sum() {
        let accesses: Vec<(u64, u64)> = (0..50).map(|n| (1 + n % 7, 10 + n * n % 90)).collect();
        let times: Vec<u64> = accesses.iter().map(|of| of.1).collect();
        assert_eq!(added(1, None, &accesses), times);
        assert_eq!(added(1, Some(4), &accesses), times);
        // A window of one instruction has no second access.
        assert_eq!(added(1, Some(1), &accesses), times);
    }

    #[test]
    fn equal_accesses_overlap_as_many_as_may() {
        assert_eq!(added(3, None, &[(1, 90); 7]), [90, 0, 0, 90, 0, 0, 90]);
        let sum = |outstanding, count: usize| -> u64 {
            added(outstanding, None, &vec![(1, 90); count]).into_iter().sum()
        };
        for outstanding in [1, 2, 3, 8] {
            assert_eq!(sum(outstanding, 48), 90 * 48 / u64::from(outstanding));
        }
    }

    #[test]
    fn places_are_free_when_an_access_is_complete_and_not_in_order() {
        // The second one is complete at 10; the third takes its place until 30, and the fourth until 40.
        assert_eq!(added(2, None, &[(1, 100), (1, 10), (1, 20), (1, 10)]), [100, 0, 0, 0]);
        // Both places are free at 40 and at 100: until 90, and until 140.
        assert_eq!(added(2, None, &[(1, 100), (1, 40), (1, 50), (1, 50)]), [100, 0, 0, 40]);
    }

    #[test]
    fn accesses_as_far_apart_as_the_window_do_not_overlap() {
        // Two accesses, 8 instructions apart: a window that has both has nine.
        let two = |window| added(4, Some(window), &[(1, 50), (8, 50)]);
        assert_eq!([two(7), two(8), two(9)], [[50, 50], [50, 50], [50, 0]]);
        // The second is 8 after the first, the third 7 after the second, the fourth of the third's instruction.
        assert_eq!(added(4, Some(8), &[(1, 50), (8, 50), (7, 50), (0, 50)]), [50, 50, 0, 0]);
    }

    #[test]
    fn dependent_accesses_wait() {
        let mut overlap = Overlap::new(4, Some(8), 1);
        let mut make = |passed, ready| {
            overlap.pass(0, passed);
            overlap.add_after(0, ready, 30)
        };
        let first = make(1, 0);
        let second = make(1, 0);
        assert_eq!((first, second), (30, 30));
        // Each waits for the one before of its chain: two chains side by side take the time of one.
        assert_eq!((make(1, first), make(1, second)), (60, 60));
        assert_eq!(overlap.end(0), 60);
    }

    #[test]
    fn cpus_do_not_wait_for_each_other() {
        let mut overlap = Overlap::new(1, None, 2);
        let mut add = |cpu| {
            overlap.pass(cpu, 1);
            overlap.add(cpu, 30)
        };
        assert_eq!([add(0), add(1), add(0), add(1)], [30; 4], "the time of both adds up");
    }
}
