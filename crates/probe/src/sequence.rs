//! Sequences: which blocks of one cache set are loaded, in which order, and which of these loads are timed.
//!
//! The notation is one word per access: `A B C A?` loads A, B and C and then A again, timed. Upper-case blocks map to
//! the set under test. Lower-case blocks evict them from nearer levels, where both share a set, and do not map to the
//! set under test. A letter may carry a number (`A1` is the block after `Z`), and `A-L` is A to L.
//!
//! A sequence runs cyclically as a chain: each visit of a block has a separate word in the block's line, and the word
//! links to the next visit. So the inner loop is the bare chase, and only the blocks themselves are loaded.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::chain::Bijection;

/// Maximum accesses in a sequence: several times what identifying the policy of 20 ways takes.
pub const MAX_ACCESSES: usize = 1024;
/// Maximum visits of one block in a lap: the words of the longest line, 128 bytes.
pub const MAX_VISITS: u64 = 16;
/// Maximum blocks of one kind.
const MAX_BLOCKS: u64 = 1024;

/// A block: one line of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Whether it only evicts from the nearer levels.
    pub evicts: bool,
    /// Its number among the blocks of its kind, from 0.
    pub number: u64,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = if self.evicts { b'a' } else { b'A' };
        write!(f, "{}", char::from(first + (self.number % 26) as u8))?;
        match self.number / 26 {
            0 => Ok(()),
            more => write!(f, "{more}"),
        }
    }
}

/// One load of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The block that is loaded.
    pub block: Block,
    /// Whether this load is timed.
    pub timed: bool,
}

/// A sequence of loads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    accesses: Vec<Access>,
}

impl Sequence {
    /// Parses the notation.
    ///
    /// # Errors
    /// A sentence that names the invalid word, or the limit.
    pub fn parse(text: &str) -> Result<Sequence, String> {
        let mut accesses = Vec::new();
        for word in text.split_ascii_whitespace() {
            let (name, timed) = word.strip_suffix('?').map_or((word, false), |name| (name, true));
            let (from, to) = name.split_once('-').unwrap_or((name, name));
            let ends = block(from).zip(block(to)).filter(|(from, to)| from.evicts == to.evicts && from <= to);
            let Some((from, to)) = ends.filter(|(from, to)| !timed || from == to) else {
                return Err(format!(
                    "'{word}' is not an access; a block is a letter (A to Z in the set, a to z outside it), with a number after Z (A1), A-L is a range, and a final ? times one access"
                ));
            };
            if accesses.len() as u64 + to.number - from.number >= MAX_ACCESSES as u64 {
                return Err(format!("a sequence has at most {MAX_ACCESSES} accesses"));
            }
            let access = |number| Access { block: Block { number, ..from }, timed };
            accesses.extend((from.number..=to.number).map(access));
        }
        let sequence = Sequence { accesses };
        match sequence.visits().into_iter().max() {
            None => Err("a sequence needs an access".into()),
            Some(visits) if visits >= MAX_VISITS => {
                Err(format!("a block may be visited {MAX_VISITS} times in a lap, once per word of its line"))
            }
            Some(_) => Ok(sequence),
        }
    }

    /// Returns the accesses.
    #[must_use]
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Returns the indices of the timed accesses.
    #[must_use]
    pub fn timed(&self) -> Vec<usize> {
        (0..self.accesses.len()).filter(|&i| self.accesses[i].timed).collect()
    }

    /// Returns for each access how often its block was visited earlier in the lap.
    fn visits(&self) -> Vec<u64> {
        let of = |i: usize| self.accesses[..i].iter().filter(|a| a.block == self.accesses[i].block).count();
        (0..self.accesses.len()).map(|i| of(i) as u64).collect()
    }

    /// Returns the offset of each access's word from the first block, bytes. Blocks of the set are at multiples of
    /// `period`; evicting blocks are at multiples of `evictors` that are not multiples of `period`. `None` if there are
    /// no such multiples, or on overflow.
    ///
    /// `seed` selects the multiple of each block. Otherwise blocks that are visited in turn would be at a constant
    /// stride, and a stride prefetcher would fetch the next one in advance (seen on a Sapphire Rapids: of 48 lines
    /// cycling through 12 ways most hit).
    #[must_use]
    pub fn places(&self, period: u64, evictors: u64, seed: u64) -> Option<Vec<u64>> {
        let drawn = |evicts: bool| {
            let of = self.accesses.iter().filter(|a| a.block.evicts == evicts).map(|a| a.block.number + 1);
            Bijection::new(of.max().unwrap_or(1), seed)
        };
        let (tested, washing) = (drawn(false), drawn(true));
        // One of `every` multiples belongs to the set under test.
        let every = period.checked_div(evictors).unwrap_or(0);
        let place = |block: Block| match block {
            Block { evicts: false, number } => tested.at(number).checked_mul(period),
            Block { number, .. } if every >= 2 => {
                let number = washing.at(number);
                (number + number / (every - 1) + 1).checked_mul(evictors)
            }
            _ => None,
        };
        let visits = self.visits();
        self.accesses.iter().zip(visits).map(|(a, visit)| place(a.block)?.checked_add(8 * visit)).collect()
    }
}

/// Parses a block's name.
fn block(name: &str) -> Option<Block> {
    let letter = name.bytes().next().filter(u8::is_ascii_alphabetic)?;
    let more = match &name[1..] {
        "" => 0,
        digits
            if digits.len() <= 3
                && digits.bytes().all(|b| b.is_ascii_digit())
                && !digits.starts_with('0') =>
        {
            digits.parse::<u64>().ok()?
        }
        _ => return None,
    };
    let number = u64::from(letter.to_ascii_lowercase() - b'a') + 26 * more;
    (number < MAX_BLOCKS).then_some(Block { evicts: letter.is_ascii_lowercase(), number })
}

impl fmt::Display for Sequence {
    /// Writes the shortest notation: three or more ascending blocks become a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut i = 0;
        while let Some(first) = self.accesses.get(i) {
            let follows = |n: usize| {
                let next = Block { number: first.block.number + n as u64, ..first.block };
                self.accesses.get(i + n) == Some(&Access { block: next, timed: false })
            };
            let run = if first.timed { 1 } else { (1..).take_while(|&n| follows(n)).count() + 1 };
            let space = if i > 0 { " " } else { "" };
            if run >= 3 {
                write!(f, "{space}{}-{}", first.block, self.accesses[i + run - 1].block)?;
                i += run;
            } else {
                write!(f, "{space}{}{}", first.block, if first.timed { "?" } else { "" })?;
                i += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn notation_is_parsed() {
        let s = Sequence::parse("A B C A? a Z A1").unwrap();
        assert_eq!(s.accesses().len(), 7);
        assert_eq!(s.timed(), [3]);
        let numbers: Vec<u64> = s.accesses().iter().map(|a| a.block.number).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 0, 25, 26]);
        assert!(s.accesses()[4].block.evicts);
        // The second visit of A uses the second word of its line. `a` is one eviction stride away, not at a multiple of
        // the period.
        let places = s.places(4096, 1024, 5).unwrap();
        assert_eq!((places[3], places[4]), (places[0] + 8, 1024));
        assert!(places.iter().enumerate().all(|(i, p)| i == 3 || i == 4 || p % 4096 == 0), "{places:?}");
        let line = Sequence::parse("A-L").unwrap().places(4096, 1024, 5).unwrap();
        let steps: Vec<u64> = line.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert!(steps.iter().any(|step| *step != steps[0]), "a constant step: {line:?}");
        assert_eq!(s.places(4096, 4096, 5), None, "nowhere to wash");
        let evictors = Sequence::parse("a-f").unwrap();
        let mut washed = evictors.places(4096, 1024, 5).unwrap();
        washed.sort_unstable();
        assert_eq!(washed, [1024, 2048, 3072, 5120, 6144, 7168]);
    }

    #[test]
    fn invalid_sequence_is_refused() {
        for (text, names) in [
            ("", "needs an access"),
            ("A ? B", "'?'"),
            ("A 7", "'7'"),
            ("A-c", "'A-c'"),
            ("C-A", "'C-A'"),
            ("A-C?", "'A-C?'"),
            ("A01", "'A01'"),
            ("A-Z99 A-Z99", "'A-Z99'"),
            ("A-Z30 A-Z30", "at most 1024"),
            ("A A A A A A A A A A A A A A A A A", "visited 16 times"),
            ("Ä", "'Ä'"),
        ] {
            let error = Sequence::parse(text).unwrap_err();
            assert!(error.contains(names), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn sequence_text_round_trips(blocks in proptest::collection::vec((any::<bool>(), 0u64..60, any::<bool>()), 1..60)) {
            let accesses = blocks.iter().map(|&(evicts, number, timed)| Access { block: Block { evicts, number }, timed });
            let sequence = Sequence { accesses: accesses.collect() };
            prop_assert_eq!(Sequence::parse(&sequence.to_string()), Ok(sequence));
        }

        #[test]
        fn visits_have_distinct_words(blocks in proptest::collection::vec((any::<bool>(), 0u64..60), 1..60)) {
            let accesses = blocks.iter().map(|&(evicts, number)| Access { block: Block { evicts, number }, timed: false });
            let sequence = Sequence { accesses: accesses.collect() };
            let mut places = sequence.places(4096, 512, 7).unwrap();
            places.sort_unstable();
            places.dedup();
            prop_assert_eq!(places.len(), sequence.accesses().len());
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[A-Za-z0-9? -]{0,60}") {
            let _ = Sequence::parse(&text);
        }
    }
}
