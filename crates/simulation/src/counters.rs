//! What the processor's counters tell apart and no other counts do: see [`CounterCounts`].

use fathom_model::{Kind, Outcome};

use crate::counts::CounterCounts;

/// The counts so far.
#[derive(Debug)]
pub(crate) struct Counters {
    counts: CounterCounts,
    /// The line of each CPU's last load or store.
    last: Vec<u64>,
}

impl Counters {
    /// Creates those of a machine's CPUs.
    pub fn new(cpus: u32) -> Counters {
        // No line has this number: it has fewer bits than an address.
        Counters { counts: CounterCounts::default(), last: vec![u64::MAX; cpus as usize] }
    }

    /// Counts a load or store of a CPU that begins in a line and touches `lines` of them. One that was left out, because it repeats
    /// the one before, changes nothing.
    #[inline]
    pub fn made(&mut self, cpu: u32, line: u64, lines: u64) {
        let last = std::mem::replace(&mut self.last[cpu as usize], line.wrapping_add(lines - 1));
        self.counts.line_changes += u64::from(line != last) + lines - 1;
    }

    /// Counts an access that the nearest level or TLB did not serve. `hit`: what a hit of both costs, in units.
    #[inline]
    pub fn note(&mut self, kind: Kind, outcome: Outcome, [hit, translation]: [u64; 2]) {
        let (kind, counts) = (kind as usize, &mut self.counts);
        counts.tlb_misses[kind] += u64::from(outcome.tlb_missed);
        counts.walks[kind] += u64::from(outcome.walked);
        counts.waits[kind] += outcome.cost.saturating_sub(outcome.translation).saturating_sub(hit);
        let waits = if outcome.walked { &mut counts.walk_waits } else { &mut counts.tlb_waits };
        waits[kind] += outcome.translation.saturating_sub(translation);
    }

    /// Returns the counts.
    pub fn counts(&self) -> CounterCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;

    #[test]
    fn a_run_over_a_line_is_one_access() {
        let mut counters = Counters::new(2);
        let mut made = |cpu, line, lines| {
            counters.made(cpu, line, lines);
            counters.counts().line_changes
        };
        assert_eq!([made(0, 5, 1), made(0, 5, 1), made(0, 6, 1), made(0, 5, 1)], [1, 1, 2, 3]);
        // One that crosses a line touches both, and its successor follows in the second.
        assert_eq!([made(0, 5, 2), made(0, 6, 1)], [4, 4]);
        assert_eq!([made(1, 6, 1), made(0, 6, 1)], [5, 5], "CPUs have predecessors of their own");
    }
}
