//! What records of Arm's SPE tell: events, as the architecture defines them, and a number of where a load's data were, which each processor
//! has its own of.

use fathom_experiment::record::DataLevel;

/// Events (Arm ARM DDI 0487, "Events packet"): bits of the payload.
const L1_ACCESS: u64 = 1 << 2;
const L1_REFILL: u64 = 1 << 3;
const TLB_ACCESS: u64 = 1 << 4;
const WALK: u64 = 1 << 5;
const LAST_LEVEL_ACCESS: u64 = 1 << 8;
const LAST_LEVEL_MISS: u64 = 1 << 9;
const REMOTE: u64 = 1 << 10;

/// MIDR_EL1: implementer and part, and those whose manuals have the numbers below: Neoverse N1, V1, N2 and V2.
const IDENTITY: u64 = 0xff << 24 | 0xfff << 4;
const NEOVERSE: [u64; 4] =
    [0x41 << 24 | 0xd0c << 4, 0x41 << 24 | 0xd40 << 4, 0x41 << 24 | 0xd49 << 4, 0x41 << 24 | 0xd4f << 4];

/// Returns where the data were, and the number of the place if this processor's numbers are not known.
pub(super) fn place(events: u64, number: Option<u16>, midr: Option<u64>) -> (DataLevel, Option<u16>) {
    let is_neoverse = midr.is_some_and(|midr| NEOVERSE.contains(&(midr & IDENTITY)));
    match number.and_then(|number| of_neoverse(number).filter(|_| is_neoverse)) {
        Some(level) => (level, None),
        None => (of_events(events), number),
    }
}

/// Returns whether page tables were walked, if the translation was looked up.
pub(super) fn is_walked(events: u64) -> Option<bool> {
    (events & (TLB_ACCESS | WALK) != 0).then_some(events & WALK != 0)
}

/// Data sources of the Neoverse processors (Neoverse N1 Technical Reference Manual, "Statistical Profiling Extension").
fn of_neoverse(number: u16) -> Option<DataLevel> {
    Some(match number {
        0b0000 => DataLevel::L1,
        0b1000 => DataLevel::L2,
        // A core of the same cluster, and another cluster.
        0b1001 | 0b1100 => DataLevel::OtherCache,
        // The cluster's cache.
        0b1010 => DataLevel::L3,
        0b1011 => DataLevel::SystemCache,
        0b1101 => DataLevel::Remote,
        0b1110 => DataLevel::Memory,
        _ => return None,
    })
}

/// Returns what events tell. A processor may not have those of the last level: then a refill is all that is known.
fn of_events(events: u64) -> DataLevel {
    let has = |event: u64| events & event != 0;
    if has(REMOTE) {
        DataLevel::Remote
    } else if has(LAST_LEVEL_MISS) {
        DataLevel::BehindLast
    } else if has(LAST_LEVEL_ACCESS) {
        DataLevel::LastLevel
    } else if has(L1_REFILL) {
        DataLevel::BehindFirst
    } else if has(L1_ACCESS) {
        DataLevel::L1
    } else {
        DataLevel::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MIDR_EL1 of a Neoverse N1 r3p1, as the kernel tells it, and as perf writes it, without variant and revision.
    const N1: [u64; 2] = [0x413f_d0c1, 0x410f_d0c0];

    #[test]
    fn numbers_of_neoverse_are_places() {
        for (number, level) in [
            (0, DataLevel::L1),
            (8, DataLevel::L2),
            (9, DataLevel::OtherCache),
            (10, DataLevel::L3),
            (11, DataLevel::SystemCache),
            (12, DataLevel::OtherCache),
            (13, DataLevel::Remote),
            (14, DataLevel::Memory),
        ] {
            for midr in N1.into_iter().chain([0x410f_d400, 0x410f_d490, 0x410f_d4f0]) {
                assert_eq!(place(L1_ACCESS, Some(number), Some(midr)), (level, None));
            }
            // A Cortex-A72, another implementer's processor, and one that is not known have other numbers, or may.
            for midr in [Some(0x410f_d080), Some(0xc00f_d0c0), None] {
                assert_eq!(place(L1_ACCESS, Some(number), midr), (DataLevel::L1, Some(number)));
            }
        }
        assert_eq!(place(LAST_LEVEL_ACCESS, Some(7), Some(N1[0])), (DataLevel::LastLevel, Some(7)));
        // Stores have no number.
        assert_eq!(place(L1_ACCESS | L1_REFILL, None, Some(N1[0])), (DataLevel::BehindFirst, None));
    }

    #[test]
    fn events_tell_the_farthest_that_they_know() {
        let refill = L1_ACCESS | L1_REFILL;
        for (events, level) in [
            (0, DataLevel::Unknown),
            (TLB_ACCESS | WALK | 2, DataLevel::Unknown),
            (L1_ACCESS, DataLevel::L1),
            (refill, DataLevel::BehindFirst),
            (refill | LAST_LEVEL_ACCESS, DataLevel::LastLevel),
            (refill | LAST_LEVEL_ACCESS | LAST_LEVEL_MISS, DataLevel::BehindLast),
            (refill | LAST_LEVEL_ACCESS | LAST_LEVEL_MISS | REMOTE, DataLevel::Remote),
        ] {
            assert_eq!(place(events, None, None), (level, None), "{events:#x}");
        }
        assert_eq!([0, TLB_ACCESS, TLB_ACCESS | WALK].map(is_walked), [None, Some(false), Some(true)]);
    }
}
