//! Identifies the replacement policies that are consistent with observations of one set of a cache.
//!
//! A probe repeatedly runs a short [`Program`] of dependent loads over blocks that all fall into one set, and times
//! some of these loads. [`programs`] returns the programs to run. [`predict()`] computes how often each timed load misses
//! under a policy. [`judge()`] returns the SET of policies that the observations do not reject: one; several if no
//! program distinguishes them; or none ("no textbook policy"). If a clock is too coarse for single loads, whole laps
//! are timed ([`programs_per_lap`], [`predict_lap`], [`Total`]).
//!
//! This module depends on no probe and no machine description: blocks are letters, observations are counts. It assumes
//! that the blocks of a program fall into one set of the level under test, that other software writes to that set only
//! occasionally, and that levels are neither inclusive nor exclusive.

mod battery;
mod judge;
mod laps;
mod noise;
mod observation;
mod predict;
mod program;
pub(crate) mod rng;
mod set;

pub use battery::{Evictors, programs, programs_per_lap};

pub use judge::{Score, Verdict, Worst, judge};
pub use observation::{LapObservation, Observation, Total};
pub use predict::{LapPrediction, Prediction, WARM_UP, predict, predict_lap};
pub use program::{Access, Block, NotationError, Program};
pub use set::{MAX_WAYS, Set};

/// Replacement policy of a full set. All policies fill free ways first, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Evicts the least recently used line.
    Lru,
    /// Evicts the line filled longest ago; hits change nothing.
    Fifo,
    /// Evicts any way with equal probability.
    Random,
    /// A binary tree of bits over the next power of two of ways. Every use makes the bits on its path point to the
    /// other half, and the bits lead to the evicted way. A half without ways is never entered.
    TreePlru,
    /// One bit per way, set by a use; the use that sets the last clear bit clears all OTHERS at once. Evicts the lowest
    /// way whose bit is clear. Also called MRU (A. Abel and J. Reineke, "nanoBench", ISPASS 2020).
    BitPlru,
    /// One bit per way, set by a use. If none is clear at a replacement, all are cleared first; evicts the lowest way
    /// whose bit is clear (Jaleel et al., "High performance cache replacement using RRIP", ISCA 2010, section 2).
    Nru,
    /// As [`Policy::Nru`], but evicts a random way among those whose bits are clear.
    NruRandom,
    /// Evicts a random way, but never the most recently used.
    NotMruRandom,
    /// SRRIP-HP with two bits (Jaleel et al., ISCA 2010). Ages are 0 to 3; a fill sets 2, a hit sets 0. Evicts the
    /// lowest way of age 3; all ways age together until there is one.
    Srrip,
    /// Quad-age LRU, as named by nanoBench. A hit sets age 0 (H00), a fill sets age 1 (M1), and the lowest way of age 3
    /// is evicted (R0 and R2 differ only in which free way is filled). After every access the OTHER ways age together
    /// until one of them is 3 (U1). nanoBench reports it for the second level of Intel's Coffee Lake
    /// (`QLRU_H00_M1_R2_U1` in its tools/CacheAnalyzer/cacheSim.py).
    QlruH00M1R2U1,
}

impl Policy {
    /// All policies.
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

    /// Returns the token in reports and records.
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

    /// Returns the policy of a token; `None` for any other text.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Policy> {
        Policy::ALL.iter().copied().find(|p| p.token() == token)
    }

    /// Returns whether the policy is random.
    #[must_use]
    pub fn is_random(self) -> bool {
        matches!(self, Policy::Random | Policy::NruRandom | Policy::NotMruRandom)
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.token())
    }
}

/// Smallest number of visits of a program's block per lap: it is filled and timed.
pub const MIN_VISITS: usize = 2;

/// Returns the misses per round of `lines` lines cycling in one set of `ways` ways, in the steady state reached from an
/// empty set. Exact for deterministic policies, else the mean of many rounds (standard error about 0.3 %).
#[must_use]
pub fn misses_per_round(policy: Policy, ways: usize, lines: usize) -> f64 {
    misses_of(policy, ways, lines, predict::LONG_AVERAGE_ACCESSES)
}

/// Returns an approximation of [`misses_per_round`] in a quarter of the time, with twice the error.
pub(crate) fn approximate_misses(policy: Policy, ways: usize, lines: usize) -> f64 {
    misses_of(policy, ways, lines, predict::LONG_AVERAGE_ACCESSES / 4)
}

fn misses_of(policy: Policy, ways: usize, lines: usize, accesses: usize) -> f64 {
    let timed = (0..lines).map(|n| Access { block: Block::Tested(n as u16), timed: true });
    predict::from_empty(policy, ways, &Program { accesses: timed.collect() }, accesses)
}

/// Groups the policies that no program distinguishes in a set of `ways` ways, if a block may be visited `visits` times
/// per lap. Every policy is in one group. With one way all policies are equal. With two ways, some policies always
/// evict the way that was not used last, as LRU does: a tree with one bit, bits or ages that mark only the last use,
/// and a rule that protects the last use. From three ways on all policies differ, and two visits suffice. (Found by the
/// battery and by random programs; the tests repeat both.)
#[must_use]
pub fn indistinguishable(ways: usize, visits: usize) -> Vec<Vec<Policy>> {
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
