//! Sets of known and of unknown policies, simulated lap by lap with observation errors.

mod battery;
mod definitions;
mod laps;
mod verdicts;

use super::judge::{Expected, score_policies};
use super::rng::Rng;
use super::*;

/// Maximum number of visits per block, for lines of 64, 32 and 16 bytes.
const VISITS: [usize; 3] = [8, 4, 2];

/// A simulated cache set, of a known or of an unknown policy.
trait Cache {
    fn visit(&mut self, block: u16) -> bool;
}

struct KnownPolicy(Set);

impl KnownPolicy {
    /// Returns a set after a random walk over other blocks.
    fn start(policy: Policy, ways: usize, seed: u64) -> KnownPolicy {
        let mut set = Set::new(policy, ways, seed);
        let mut rng = Rng::new(!seed);
        for _ in 0..6 * ways {
            set.visit(60_000 + rng.below(2 * ways) as u16);
        }
        KnownPolicy(set)
    }
}

impl Cache for KnownPolicy {
    fn visit(&mut self, block: u16) -> bool {
        self.0.visit(block)
    }
}

/// Runs a program and records its timed loads; each is wrong with probability `error`.
fn observe(
    cache: &mut dyn Cache,
    program: &Program,
    mut nearer: Option<Set>,
    laps: u32,
    error: f64,
    seed: u64,
) -> Observation {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut missed = vec![0; program.queries()];
    for lap in 0..laps + WARM_UP as u32 {
        let mut query = 0;
        for access in &program.accesses {
            let (number, tested) = match access.block {
                Block::Tested(n) => (n, true),
                Block::Evictors(n) => (30_000 + n, false),
            };
            let nearer_hit = nearer.as_mut().is_some_and(|n| n.visit(number));
            let miss = !nearer_hit && tested && !cache.visit(number);
            if access.timed {
                let reported = miss != rng.with_probability(error);
                missed[query] += u32::from(reported && lap >= WARM_UP as u32);
                query += 1;
            }
        }
    }
    Observation { program: program.clone(), of: vec![laps; missed.len()], missed }
}

fn sorted(mut policies: Vec<Policy>) -> Vec<Policy> {
    policies.sort_unstable();
    policies
}

/// Policies that are not in the list: a mix of two, chosen at random at each replacement; eviction of the most recently
/// used; LIP, in which a fill is the oldest; and blocks hashed to four sets.
enum UnknownPolicy {
    Mixed(Vec<u16>, Rng),
    MostRecent(Vec<u16>),
    Lip(Vec<u16>),
    Hashed(Vec<Set>),
}

impl UnknownPolicy {
    /// Updates the queue of blocks, youngest first, on a hit.
    fn hit(held: &mut [u16], block: u16) -> bool {
        let at = held.iter().position(|h| *h == block);
        if let Some(at) = at {
            held[..=at].rotate_right(1);
        }
        at.is_some()
    }
}

impl Cache for UnknownPolicy {
    fn visit(&mut self, block: u16) -> bool {
        match self {
            UnknownPolicy::Mixed(held, rng) => {
                let hit = UnknownPolicy::hit(held, block);
                if !hit {
                    let oldest = held.len() - 1;
                    let out = if rng.with_probability(0.5) { oldest } else { rng.below(held.len()) };
                    held.remove(out);
                    held.insert(0, block);
                }
                hit
            }
            UnknownPolicy::MostRecent(held) => {
                let hit = UnknownPolicy::hit(held, block);
                held[0] = block;
                hit
            }
            UnknownPolicy::Lip(held) => {
                let hit = UnknownPolicy::hit(held, block);
                if let (false, Some(oldest)) = (hit, held.last_mut()) {
                    *oldest = block;
                }
                hit
            }
            UnknownPolicy::Hashed(sets) => {
                let set = (u32::from(block).wrapping_mul(2_654_435_761) >> 30) as usize;
                sets[set].visit(block)
            }
        }
    }
}
