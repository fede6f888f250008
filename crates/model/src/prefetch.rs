//! Data in the order of addresses: runs of adjacent lines, which arrive before they are needed.

use crate::description::{Description, Streams};
use crate::time::Scale;

/// What a CPU is charged at most for a line of a run, and the runs of each CPU's accesses.
#[derive(Clone, Debug)]
pub(crate) struct Prefetch {
    /// The most that such a line costs, in units.
    pub cost: u64,
    number: usize,
}

/// The runs of one CPU, the one used last first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(Vec<Run>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The line of its last access.
    last: u64,
    /// Whether it ascends; not known after its first line.
    ascends: Option<bool>,
}

impl Run {
    /// Returns the line that continues it.
    fn next(self) -> Option<u64> {
        match self.ascends? {
            true => Some(self.last.wrapping_add(1)),
            false => Some(self.last.wrapping_sub(1)),
        }
    }
}

impl Prefetch {
    /// Returns it if a description has it.
    pub fn new(description: &Description, scale: Scale) -> Option<Prefetch> {
        let Streams { cost, number } = description.core.streams?;
        Some(Prefetch { cost: scale.units(cost), number: number as usize })
    }

    /// Makes an access of a CPU to a line that the nearest level does not serve. Returns whether the line has been
    /// prefetched: it is the third one of a run, or a later one.
    pub fn follows(&self, runs: &mut Runs, line: u64) -> bool {
        let runs = &mut runs.0;
        let continues = |run: &Run| run.next() == Some(line);
        let begins = |run: &Run| run.ascends.is_none() && run.last.abs_diff(line) == 1;
        if let Some(at) = runs.iter().position(continues) {
            runs[..=at].rotate_right(1);
            runs[0].last = line;
            return true;
        }
        if let Some(at) = runs.iter().position(|run| run.last == line) {
            runs[..=at].rotate_right(1);
        } else if let Some(at) = runs.iter().position(begins) {
            let ascends = Some(line > runs[at].last);
            runs[..=at].rotate_right(1);
            runs[0] = Run { last: line, ascends };
        } else {
            runs.truncate(self.number - 1);
            runs.insert(0, Run { last: line, ascends: None });
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Prefetch, Runs};

    /// Returns which of these lines have been prefetched.
    fn followed(number: usize, lines: &[u64]) -> Vec<bool> {
        let (prefetch, mut runs) = (Prefetch { cost: 1, number }, Runs::default());
        lines.iter().map(|&line| prefetch.follows(&mut runs, line)).collect()
    }

    fn count(number: usize, lines: &[u64]) -> usize {
        followed(number, lines).into_iter().filter(|&was| was).count()
    }

    #[test]
    fn runs_are_known_from_the_third_line_on_in_both_directions() {
        assert_eq!(followed(1, &[7, 8, 9, 10]), [false, false, true, true]);
        assert_eq!(followed(1, &[10, 9, 8, 7]), [false, false, true, true]);
        // The same line again neither continues nor ends a run.
        assert_eq!(followed(1, &[7, 8, 8, 9]), [false, false, false, true]);
        // A run that turns round begins again.
        assert_eq!(followed(1, &[7, 8, 9, 8, 7, 6]), [false, false, true, false, false, true]);
        assert_eq!(count(4, &[1, 3, 5, 7, 9]), 0);
    }

    #[test]
    fn as_many_runs_side_by_side_as_there_are_streams() {
        let lines =
            |runs: u64| (0..100).flat_map(|n| (0..runs).map(move |run| 1000 * run + n)).collect::<Vec<_>>();
        assert_eq!(count(4, &lines(4)), 4 * 98);
        assert_eq!(count(4, &lines(5)), 0, "each has been forgotten when it goes on");
    }
}
