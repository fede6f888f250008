//! When an instruction is fetched: when execution enters another line than that of the instruction before.

use fathom_model::description::Holds;
use fathom_model::{Access, Description, Kind};

use crate::protocol::Machine;

/// log2 of a line's bytes where no machine has a level for instructions.
const DEFAULT_SHIFT: u32 = 6;

/// The lines from which the threads of a program have fetched last.
#[derive(Clone, Debug)]
pub struct Entered {
    shift: u32,
    /// By thread.
    lines: Vec<u64>,
}

impl Entered {
    /// Creates it for lines of 2^`shift` bytes.
    #[must_use]
    pub fn new(shift: u32) -> Entered {
        Entered { shift: shift.min(63), lines: Vec::new() }
    }

    /// Returns whether a thread enters another line with the instruction at `pc` of `bytes` bytes.
    #[inline]
    pub fn enters(&mut self, thread: u32, pc: u64, bytes: u64) -> bool {
        let thread = thread as usize;
        if thread >= self.lines.len() {
            // No line has this number: it has fewer bits than an address, but with lines of one byte.
            self.lines.resize(thread + 1, u64::MAX);
        }
        let line = pc.wrapping_add(bytes.max(1) - 1) >> self.shift;
        std::mem::replace(&mut self.lines[thread], line) != line
    }

    /// Removes the fetches of a thread's accesses that stay within a line.
    pub fn retain(&mut self, thread: u32, accesses: &mut Vec<Access>) {
        accesses.retain(|access| {
            access.kind != Kind::Fetch || self.enters(thread, access.address, access.bytes.into())
        });
    }
}

/// Returns log2 of the shortest line of instructions of all machines.
#[must_use]
pub fn fetch_shift(machines: &[Machine]) -> u32 {
    let line = |text: &str| {
        let description = Description::parse("", text).ok()?;
        let code = description.levels.iter().find(|level| level.holds != Holds::Data)?;
        Some(code.line.trailing_zeros())
    };
    machines.iter().filter_map(|machine| line(&machine.text)).min().unwrap_or(DEFAULT_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_is_one_for_each_line_that_a_thread_enters() {
        let mut entered = Entered::new(5);
        let mut enters = |thread, pc, bytes| entered.enters(thread, pc, bytes);
        assert!(enters(0, 0x1000, 4));
        assert!(!enters(0, 0x101c, 4));
        assert!(enters(0, 0x101e, 4), "it ends on the next line");
        assert!(!enters(0, 0x1020, 4));
        assert!(enters(1, 0x1020, 4), "another thread");
        assert!(enters(0, 0x1000, 4), "back");
    }

    /// A trace with short lines has what a trace with longer ones has.
    #[test]
    fn fetches_of_long_lines_are_among_those_of_short_ones() {
        let (mut pc, mut state) = (0x1000u64, 1u64);
        let mut instructions = Vec::new();
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bytes = 1 + (state >> 60) as u16 % 8;
            instructions.push(Access::fetch(pc, bytes));
            pc = if state >> 40 & 7 == 0 { 0x1000 + (state >> 44) % 4096 } else { pc + u64::from(bytes) };
        }
        let retained = |shift: u32, of: &[Access]| {
            let mut all = of.to_vec();
            Entered::new(shift).retain(0, &mut all);
            all
        };
        let short = retained(5, &instructions);
        for shift in [5, 6, 7, 12] {
            assert_eq!(retained(shift, &short), retained(shift, &instructions), "{shift}");
        }
        assert!(short.len() > 3000);
    }

    #[test]
    fn shortest_line_of_instructions_counts() {
        let machine = |name: &str| Machine {
            name: name.to_owned(),
            text: fathom_model::catalog::text(name).expect("embedded").to_owned(),
        };
        assert_eq!(fetch_shift(&[machine("bcm2837"), machine("bcm2835")]), 5);
        assert_eq!(fetch_shift(&[machine("bcm2837")]), 6);
    }
}
