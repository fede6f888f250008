//! The time of accesses that overlap.
//!
//! Each CPU begins its accesses in the order of the program. One begins when
//!
//! - fewer than `outstanding` of those before it are under way,
//! - of those that are `window` or more instructions before it, none is under way: the core would have to hold more than `window`
//!   instructions, and an instruction leaves it when all before it are complete, and
//! - what it depends on is complete, if that is known.
//!
//! It is under way for its time, and longer if it fills a set of the nearest level that another one has begun to fill less than `set_fill`
//! before: then its time begins when that has passed. What an access adds is the time by which it moves the end of all accesses so far, so what several
//! functions add is the whole.

use crate::description::{Description, Holds};
use crate::time::Scale;

/// Accesses of a machine's CPUs under way.
#[derive(Clone, Debug)]
pub struct Overlap {
    outstanding: usize,
    /// In instructions.
    window: u64,
    sets: Option<Sets>,
    cpus: Vec<Cpu>,
}

/// The sets of the nearest data level that accesses fill one after the other.
#[derive(Clone, Copy, Debug)]
struct Sets {
    /// Time between two of them, in units.
    apart: u64,
    number: u64,
    /// log2 of the bytes of a line.
    shift: u32,
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
    /// When the next access may fill each set.
    free: Vec<u64>,
}

impl Overlap {
    /// Creates it for this number of CPUs of a described machine; `None` if it is not described how many accesses overlap. Without a
    /// window, only their number limits the accesses under way.
    #[must_use]
    pub fn of(description: &Description, cpus: u32) -> Option<Overlap> {
        let core = &description.core;
        let nearest = description.levels.iter().find(|level| level.holds != Holds::Instructions);
        let sets = core.set_fill.zip(nearest).map(|(apart, level)| Sets {
            apart: Scale::new(description).units(apart),
            number: level.sets(),
            shift: level.line.trailing_zeros(),
        });
        let cpu = Cpu { free: vec![0; sets.map_or(0, |sets| sets.number as usize)], ..Cpu::default() };
        Some(Overlap {
            outstanding: core.outstanding?.max(1) as usize,
            window: core.window.map_or(u64::MAX, u64::from),
            sets,
            cpus: vec![cpu; cpus as usize],
        })
    }

    /// Moves a CPU on by instructions, the last of which may make an access.
    #[inline]
    pub fn pass(&mut self, cpu: u32, instructions: u64) {
        self.cpus[cpu as usize].position += instructions;
    }

    /// Makes an access at a CPU's present position that takes `units`, and that depends on no other. `fills` is the address whose line it
    /// fills into the nearest data level, if it does. Returns what it adds to the time of all accesses.
    #[inline]
    pub fn add(&mut self, cpu: u32, fills: Option<u64>, units: u64) -> u64 {
        let before = self.end(cpu);
        self.add_after(cpu, 0, fills, units);
        self.end(cpu) - before
    }

    /// Makes an access at a CPU's present position that takes `units` from the time `ready` on, or later. Returns when it is complete.
    pub fn add_after(&mut self, cpu: u32, ready: u64, fills: Option<u64>, units: u64) -> u64 {
        let sets = self.sets;
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
        if let (Some(sets), Some(address)) = (sets, fills) {
            let free = &mut of.free[((address >> sets.shift) % sets.number) as usize];
            begins = begins.max(*free);
            *free = begins + sets.apart;
        }
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
    use crate::catalog;
    use crate::description::{Description, Time};

    /// A machine of two CPUs whose nearest level has `sets` sets, if another access may fill one only so many units later.
    fn overlap(outstanding: u32, window: Option<u32>, set_fill: Option<(u64, u64)>) -> Overlap {
        let mut described: Description = catalog::load("s1-8way").expect("embedded").expect("valid");
        (described.core.outstanding, described.core.window) = (Some(outstanding), window);
        if let Some((units, sets)) = set_fill {
            described.core.set_fill = Some(Time::cycles(units as f64 / 4096.0));
            described.levels[0].size = described.levels[0].line * u64::from(described.levels[0].ways) * sets;
        }
        Overlap::of(&described, 2).expect("described")
    }

    /// Returns what each access adds: instructions since the one before, and time.
    fn added(outstanding: u32, window: Option<u32>, accesses: &[(u64, u64)]) -> Vec<u64> {
        let mut overlap = overlap(outstanding, window, None);
        let add = |&(passed, beyond): &(u64, u64)| {
            overlap.pass(1, passed);
            overlap.add(1, None, beyond)
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
        let mut overlap = overlap(4, Some(8), None);
        let mut make = |passed, ready| {
            overlap.pass(0, passed);
            overlap.add_after(0, ready, None, 30)
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
        let mut overlap = overlap(1, None, None);
        let mut add = |cpu| {
            overlap.pass(cpu, 1);
            overlap.add(cpu, None, 30)
        };
        assert_eq!([add(0), add(1), add(0), add(1)], [30; 4], "the time of both adds up");
    }

    #[test]
    fn fills_of_one_set_are_apart() {
        // Four sets of lines of 64 bytes.
        let added = |lines: &[u64]| {
            let mut overlap = overlap(8, None, Some((20, 4)));
            lines.iter().map(|line| overlap.add(0, Some(64 * line + 7), 30)).collect::<Vec<u64>>()
        };
        assert_eq!(added(&[0, 1, 2, 3]), [30, 0, 0, 0]);
        assert_eq!(added(&[0, 4, 8]), [30, 20, 20]);
        // One that waits for its set delays no other set.
        assert_eq!(added(&[0, 4, 1, 9, 8]), [30, 20, 0, 0, 20]);
        let mut overlap = overlap(8, None, Some((20, 4)));
        let mut add = |fills| overlap.add(0, fills, 30);
        assert_eq!(
            [add(Some(0)), add(None), add(Some(0))],
            [30, 0, 20],
            "what fills nothing waits for no set"
        );
    }
}
