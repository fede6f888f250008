//! The machine and the four access patterns of the golden miss counts and of the speed comparison. dineroIV, pycachesim
//! and
//! an earlier prototype agree on these counts exactly.

#![allow(dead_code, reason = "the test and the bench each use their part")]

use fathom_model::Description;

/// Number of loads of a complete run.
pub const LOADS: u64 = 50_000_000;

/// 32 KiB 8-way and 1 MiB 16-way, 64-byte lines, LRU; no translation.
pub const PLAIN: &str = r#"
format = 1
about = "32 KiB 8-way + 1 MiB 16-way, LRU"
[core]
clock = "1 GHz"
cpus = 1
alu = "0 cycles"
branch = "0 cycles"
[timer]
clock = "1 GHz"
overhead = "0 cycles"
jitter = "0 cycles"
resolution = 1
[[level]]
name = "L1"
holds = "unified"
size = "32K"
line = "64"
ways = 8
latency = "4 cycles"
replacement = "lru"
write = "back"
allocate = true
inclusion = "neither"
shared = false
[[level]]
name = "L2"
holds = "unified"
size = "1M"
line = "64"
ways = 16
latency = "14 cycles"
replacement = "lru"
write = "back"
allocate = true
inclusion = "neither"
shared = false
[memory]
size = "1G"
pages = ["4K", "2M"]
latency = "100 ns"
"#;

/// Returns `PLAIN` with a third level, two levels of TLB and walks through L2.
pub fn full() -> String {
    let l3 = r#"
[[level]]
name = "L3"
holds = "unified"
size = "8M"
line = "64"
ways = 16
latency = "40 cycles"
replacement = "lru"
write = "back"
allocate = true
inclusion = "neither"
shared = true
[[tlb]]
name = "T1"
entries = 64
ways = 4
pages = ["4K", "2M"]
latency = "0 cycles"
replacement = "lru"
[[tlb]]
name = "T2"
entries = 1536
ways = 12
pages = ["4K", "2M"]
latency = "7 cycles"
replacement = "lru"
[walk]
fetches = 1
from = "L2"
latency = "10 cycles"
[memory]
"#;
    PLAIN.replace("\n[memory]\n", l3)
}

pub fn machine(text: &str) -> Description {
    Description::parse("golden.toml", text).unwrap_or_else(|e| panic!("{e}"))
}

/// Access pattern: offsets from the start of 64 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// (a) sequential over 64 MiB.
    A,
    /// (b) uniform random over 64 MiB.
    B,
    /// (c) sequential in 16 KiB.
    C,
    /// (r) random in 16 KiB.
    R,
}

impl Pattern {
    pub const ALL: [Pattern; 4] = [Pattern::A, Pattern::B, Pattern::C, Pattern::R];

    pub fn letter(self) -> &'static str {
        ["a", "b", "c", "r"][self as usize]
    }

    fn bytes(self) -> u64 {
        match self {
            Pattern::A | Pattern::B => 64 << 20,
            Pattern::C | Pattern::R => 16 << 10,
        }
    }

    /// Generates the first `count` addresses and passes them to `sink` in batches.
    pub fn run(self, count: u64, mut sink: impl FnMut(&[u64])) {
        let mask = (self.bytes() - 1) & !7;
        let mut state = 88_172_645_463_325_252u64;
        let mut batch = Vec::with_capacity(1 << 12);
        for n in 0..count {
            batch.push(match self {
                Pattern::A | Pattern::C => (n * 8) & mask,
                Pattern::B | Pattern::R => {
                    // xorshift64 (Marsaglia 2003), shifts 13, 7, 17.
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 20) & mask
                }
            });
            if batch.len() == batch.capacity() {
                sink(&batch);
                batch.clear();
            }
        }
        sink(&batch);
    }
}
