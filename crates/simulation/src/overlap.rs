//! The time of data accesses, if those that the nearest level and TLB do not serve overlap: a lower bound, because what
//! depends on what is not known here, and every access is taken as independent of all others.
//!
//! Each CPU begins its accesses in the order of the program. One that is no hit begins when
//!
//! - fewer than `outstanding` of those before it are under way, and
//! - of those that are `window` or more loads and stores before it, none is under way.
//!
//! It is under way for its time beyond a hit. Hits take no time of their own: they pass while others are under way. What an access
//! adds is the time by which it moves the end of all accesses so far, so what several functions add is the whole.

/// Accesses of a machine's CPUs under way.
#[derive(Debug)]
pub(crate) struct Overlap {
    outstanding: usize,
    /// In loads and stores.
    window: u64,
    cpus: Vec<Cpu>,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    /// Loads and stores so far.
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
    pub fn new(outstanding: u32, window: Option<u32>, cpus: u32) -> Overlap {
        Overlap {
            outstanding: outstanding.max(1) as usize,
            window: window.map_or(u64::MAX, u64::from),
            cpus: vec![Cpu::default(); cpus as usize],
        }
    }

    /// Moves a CPU on by loads and stores, the last of which may be no hit.
    #[inline]
    pub fn pass(&mut self, cpu: u32, accesses: u64) {
        self.cpus[cpu as usize].position += accesses;
    }

    /// Makes the access at a CPU's present position, which takes `beyond` units more than a hit. Returns what it adds to the
    /// time of all accesses.
    pub fn add(&mut self, cpu: u32, beyond: u64) -> u64 {
        let of = &mut self.cpus[cpu as usize];
        let mut begins = of.begun;
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
        of.under_way.push((begins + beyond, of.position));
        let end = of.end.max(begins + beyond);
        end - std::mem::replace(&mut of.end, end)
    }
}

#[cfg(test)]
mod tests {
    use super::Overlap;

    /// Returns what each access adds: accesses since the one before, and time.
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
        // A window of one access has no second one.
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
    fn accesses_farther_apart_than_the_window_do_not_overlap() {
        // The window is of 8: the second is 8 after the first, the third 7 after the second.
        assert_eq!(added(4, Some(8), &[(1, 50), (8, 50), (7, 50), (1, 50)]), [50, 50, 0, 50]);
        assert_eq!(added(4, Some(8), &[(1, 50), (7, 50)]), [50, 0]);
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
