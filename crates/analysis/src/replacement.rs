//! Which replacement policies are consistent with what was observed in one set of a cache.
//!
//! A probe runs a short [`Program`] of dependent loads over blocks that all fall into one set, over and over, and
//! times single ones of them. [`programs`] is the battery that is worth running, [`predict`] says how often each
//! timed load misses under a policy, and [`judge`] names the SET of policies that the observations do not reject:
//! one, several where no program can tell them apart, or none ("no textbook policy"). Where a clock is too coarse for
//! single loads, laps are timed as a whole ([`programs_per_lap`], [`predict_lap`], [`Total`]).
//!
//! Nothing here knows a probe or a described machine: blocks are letters, observations are counts. What is assumed of
//! the hardware: the blocks of a program fall into one set of the level under test; nobody else writes to that set but
//! now and then; levels neither include nor exclude one another.

mod battery;
mod judge;
mod noise;
mod observation;
mod predict;
mod program;
pub(crate) mod rng;
mod set;
mod whole;

pub use battery::{Evictors, programs, programs_per_lap};

pub use judge::{Score, Verdict, Worst, judge};
pub use observation::{LapObservation, Observation, Total};
pub use predict::{LapPrediction, Prediction, WARM_UP, predict, predict_lap};
pub use program::{Access, Block, NotationError, Program};
pub use set::{MAX_WAYS, Set};

/// How a full set chooses the line that makes room. In all of them free ways are filled first, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// The line used longest ago.
    Lru,
    /// The line filled longest ago; hits change nothing.
    Fifo,
    /// Any way, each with the same chance.
    Random,
    /// A binary tree of bits over the next power of two of ways: every use makes the bits on its path point to the
    /// other half, and the bits lead to the victim. A half without ways is never entered.
    TreePlru,
    /// A bit a way, set by a use; the use that sets the last clear bit clears all OTHERS at once. The lowest way
    /// whose bit is clear goes. Also called MRU (A. Abel and J. Reineke, "nanoBench", ISPASS 2020).
    BitPlru,
    /// A bit a way, set by a use. At a replacement with none clear, all are cleared first; the lowest way whose bit
    /// is clear goes (Jaleel et al., "High performance cache replacement using RRIP", ISCA 2010, section 2).
    Nru,
    /// As [`Policy::Nru`], but any of the ways whose bits are clear goes.
    NruRandom,
    /// Any way but the one used last.
    NotMruRandom,
    /// SRRIP-HP with two bits (Jaleel et al., ISCA 2010): ages from 0 to 3; filled with 2, a hit makes it 0, the
    /// lowest way of age 3 goes, and all age together until there is one.
    Srrip,
    /// Quad-age LRU as nanoBench names it: a hit makes any age 0 (H00), a fill has age 1 (M1), the lowest way of age
    /// 3 goes (R0 and R2 differ only in which free way is filled), and after every access the OTHER ways age
    /// together until one of them is 3 (U1). What nanoBench reports of the second level of Intel's Coffee Lake
    /// (`QLRU_H00_M1_R2_U1` in its tools/CacheAnalyzer/cacheSim.py).
    QlruH00M1R2U1,
}

impl Policy {
    /// Every policy.
    pub const ALL: &[Policy] = &[
        Policy::Lru,
        Policy::Fifo,
        Policy::Random,
        Policy::TreePlru,
        Policy::BitPlru,
        Policy::Nru,
        Policy::NruRandom,
        Policy::NotMruRandom,
        Policy::Srrip,
        Policy::QlruH00M1R2U1,
    ];

    /// Its word in reports and records.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Policy::Lru => "lru",
            Policy::Fifo => "fifo",
            Policy::Random => "random",
            Policy::TreePlru => "tree-plru",
            Policy::BitPlru => "bit-plru",
            Policy::Nru => "nru",
            Policy::NruRandom => "nru-random",
            Policy::NotMruRandom => "not-mru-random",
            Policy::Srrip => "srrip",
            Policy::QlruH00M1R2U1 => "qlru-h00-m1-r2-u1",
        }
    }

    /// The policy of a token; `None` of any other word.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Policy> {
        Policy::ALL.iter().copied().find(|p| p.token() == token)
    }

    /// Does it draw lots?
    #[must_use]
    pub fn draws(self) -> bool {
        matches!(self, Policy::Random | Policy::NruRandom | Policy::NotMruRandom)
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.token())
    }
}

/// Visits that a block of a program has at least: it is filled and asked.
pub const MIN_VISITS: usize = 2;

/// Misses a round of `lines` lines cycling in one set of `ways` ways, in the steady state that an empty set comes to:
/// exact where the policy draws no lots, else the mean of many rounds (standard error about 0.3 %).
#[must_use]
pub fn misses_per_round(policy: Policy, ways: usize, lines: usize) -> f64 {
    misses_of(policy, ways, lines, predict::ACCESSES)
}

/// The same, a fourth of the time and with twice the error: for one of many sets.
pub(crate) fn misses_roughly(policy: Policy, ways: usize, lines: usize) -> f64 {
    misses_of(policy, ways, lines, predict::ACCESSES / 4)
}

fn misses_of(policy: Policy, ways: usize, lines: usize, accesses: usize) -> f64 {
    let timed = (0..lines).map(|n| Access { block: Block::Tested(n as u16), timed: true });
    predict::from_empty(policy, ways, &Program { accesses: timed.collect() }, accesses)
}

/// The policies that no program tells apart in a set of so many ways, where a block may be visited `visits` times a lap:
/// every policy stands in one group. With one way all are alike. With two, the way that was not used last goes under
/// LRU, and so it does where a tree has one bit, where bits or ages mark the last use alone, and where that is spared by
/// rule. From three ways on each stands alone, and two visits suffice. (Found by the battery and by random programs;
/// the tests repeat both.)
#[must_use]
pub fn alike(ways: usize, visits: usize) -> Vec<Vec<Policy>> {
    let together: &[Policy] = match ways {
        _ if visits < MIN_VISITS => Policy::ALL,
        0 | 1 => Policy::ALL,
        2 => &[Policy::Lru, Policy::TreePlru, Policy::BitPlru, Policy::NotMruRandom, Policy::QlruH00M1R2U1],
        _ => &[],
    };
    let alone = Policy::ALL.iter().filter(|p| !together.contains(p)).map(|p| vec![*p]);
    let group = (!together.is_empty()).then(|| together.to_vec());
    group.into_iter().chain(alone).collect()
}

#[cfg(test)]
mod tests;
