//! Identification registers that AArch64 and 32-bit ARM have in common (DDI 0487, part D; DDI 0406C, B4.1).

/// Returns the caches in `CLIDR_EL1` (`CLIDR`), in order: (level, instruction cache). `Ctype` 0 ends the list. A unified cache
/// counts as a data cache.
pub fn caches(clidr: u64) -> impl Iterator<Item = (u8, bool)> {
    let kinds = (1..=7u8).map(move |level| (level, clidr >> (3 * (level - 1)) & 7));
    kinds.take_while(|(_, kind)| *kind != 0).flat_map(|(level, kind)| {
        let sides: &[bool] = match kind {
            1 => &[true],
            3 => &[false, true],
            _ => &[false],
        };
        sides.iter().map(move |side| (level, *side))
    })
}

/// Returns `CSSELR_EL1` (`CSSELR`) for a cache: level minus 1 in bits 3:1, `InD` in bit 0.
#[must_use]
pub fn csselr(level: u8, instructions: bool) -> u64 {
    u64::from(level - 1) << 1 | u64::from(instructions)
}

/// Returns the number of event counters, without the cycle counter: `PMCR_EL0.N` (`PMCR.N`).
#[must_use]
pub fn event_counters(pmcr: u64) -> u64 {
    pmcr >> 11 & 0x1f
}

/// Returns whether `PMCEID0_EL0` (`PMCEID0`) lists the event (a number below 32).
#[must_use]
pub fn has_event(pmceid0: u64, event: u64) -> bool {
    event < 32 && pmceid0 >> event & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_listed() {
        // The A53's: two caches at level 1, a unified one at level 2.
        let all: alloc::vec::Vec<_> = caches(0x0a20_0023).collect();
        assert_eq!(all, [(1, false), (1, true), (2, false)]);
        assert_eq!((csselr(1, true), csselr(2, false)), (1, 2));
        assert_eq!(caches(0).count(), 0);
    }

    #[test]
    fn counters_and_events_are_decoded() {
        assert_eq!(event_counters(0x4103_3000), 6);
        assert!(has_event(1 << 3, 3) && !has_event(1 << 3, 4) && !has_event(u64::MAX, 32));
    }
}
