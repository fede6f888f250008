//! Programs of accesses to one set, and their notation.
//!
//! `A-I A B? a-d C?` visits the blocks A to I, then A, then B (timed), four evictor blocks, and C (timed). The program
//! is a cycle: its last access is followed by its first.

use std::fmt;

/// A block (cache line) of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// Falls into the set under test, together with all other tested blocks, and into one set of each nearer level.
    /// Numbered from 0: A to Z, A1 to Z1, A2 ...
    Tested(u16),
    /// Falls into that set of the nearer levels but into other sets of the level under test: it evicts the tested
    /// blocks from the nearer levels. Numbered from 0: a to z, a1 to z1, a2 ...
    Evictors(u16),
}

/// One load of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Block that is loaded.
    pub block: Block,
    /// Whether this load is timed and classified as a hit or a miss.
    pub timed: bool,
}

/// A cycle of dependent loads. [`std::fmt::Display`] writes the notation, [`std::str::FromStr`] reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The loads of one lap, in order.
    pub accesses: Vec<Access>,
}

/// Error in a word of the notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// Word.
    pub word: String,
    /// Description of the error.
    pub why: &'static str,
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.word, self.why)
    }
}

impl std::error::Error for NotationError {}

/// Largest number of accesses of a program: far above that of any battery. A short text of ranges could request many
/// more.
const MAX_ACCESSES: usize = 1 << 14;
/// Smallest run of ascending untimed blocks that is written as a range.
const MIN_RANGE: usize = 3;

impl Program {
    /// Returns the number of timed loads per lap.
    #[must_use]
    pub fn queries(&self) -> usize {
        self.accesses.iter().filter(|a| a.timed).count()
    }

    /// Returns the numbers of distinct tested blocks and evictor blocks of a lap.
    #[must_use]
    pub fn blocks(&self) -> (usize, usize) {
        let mut all: Vec<Block> = self.accesses.iter().map(|a| a.block).collect();
        all.sort_unstable();
        all.dedup();
        let tested = all.iter().filter(|b| matches!(b, Block::Tested(_))).count();
        (tested, all.len() - tested)
    }

    /// Returns the largest number of visits of a block per lap: a line needs a word of 8 bytes for each.
    #[must_use]
    pub fn visits(&self) -> usize {
        let mut all: Vec<Block> = self.accesses.iter().map(|a| a.block).collect();
        all.sort_unstable();
        all.chunk_by(|a, b| a == b).map(<[Block]>::len).max().unwrap_or(0)
    }
}

impl Block {
    fn next(self) -> Block {
        match self {
            Block::Tested(n) => Block::Tested(n.saturating_add(1)),
            Block::Evictors(n) => Block::Evictors(n.saturating_add(1)),
        }
    }

    fn number(self) -> u16 {
        let (Block::Tested(n) | Block::Evictors(n)) = self;
        n
    }

    fn parse(name: &str) -> Result<Block, &'static str> {
        let mut rest = name.chars();
        let letter =
            rest.next().filter(char::is_ascii_alphabetic).ok_or("a block is a letter and a number")?;
        let round = match rest.as_str() {
            "" => 0,
            digits => {
                let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
                let number: Option<u16> = if canonical { digits.parse().ok() } else { None };
                number
                    .filter(|n| *n < 100)
                    .ok_or("after the letter comes nothing or a number from 1 to 99")?
            }
        };
        let within = u16::from(letter.to_ascii_lowercase() as u8 - b'a');
        let number = 26 * round + within;
        Ok(if letter.is_ascii_uppercase() { Block::Tested(number) } else { Block::Evictors(number) })
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, n) = match self {
            Block::Tested(n) => (b'A', n),
            Block::Evictors(n) => (b'a', n),
        };
        write!(f, "{}", char::from(first + (n % 26) as u8))?;
        if n / 26 > 0 { write!(f, "{}", n / 26) } else { Ok(()) }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        while at < self.accesses.len() {
            let Access { block, timed } = self.accesses[at];
            let run = 1 + self.accesses[at..]
                .windows(2)
                .take_while(|w| !w[0].timed && !w[1].timed && w[1].block == w[0].block.next())
                .count();
            let space = if at == 0 { "" } else { " " };
            let query = if timed { "?" } else { "" };
            if run >= MIN_RANGE {
                write!(f, "{space}{block}-{}", self.accesses[at + run - 1].block)?;
                at += run;
            } else {
                write!(f, "{space}{block}{query}")?;
                at += 1;
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Program {
    type Err = NotationError;

    /// Parses the notation: words separated by white space, each a block (`A`, `B12`, `c`), a timed block (`A?`) or a
    /// range of ascending blocks of one kind (`A-F1`). The error names the word.
    fn from_str(text: &str) -> Result<Program, NotationError> {
        let mut accesses = Vec::new();
        for word in text.split_whitespace() {
            let wrong = |why| NotationError { word: word.to_owned(), why };
            match word.split_once('-') {
                Some((from, to)) => {
                    if to.ends_with('?') {
                        return Err(wrong("a range cannot be timed: write its blocks singly"));
                    }
                    let (mut from, to) =
                        (Block::parse(from).map_err(wrong)?, Block::parse(to).map_err(wrong)?);
                    let one_kind = matches!(from, Block::Tested(_)) == matches!(to, Block::Tested(_));
                    if !one_kind || from > to {
                        return Err(wrong("a range must ascend, within upper case or within lower case"));
                    }
                    for _ in from.number()..=to.number() {
                        accesses.push(Access { block: from, timed: false });
                        from = from.next();
                    }
                }
                None => {
                    let (name, timed) = word.strip_suffix('?').map_or((word, false), |name| (name, true));
                    accesses.push(Access { block: Block::parse(name).map_err(wrong)?, timed });
                }
            }
            if accesses.len() > MAX_ACCESSES {
                return Err(wrong("the program exceeds 16384 accesses here"));
            }
        }
        Ok(Program { accesses })
    }
}
