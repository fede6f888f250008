//! Accesses to coprocessor 15 that the model answers or has to know (DDI 0406C, B3.17; those of ARM1176: DDI 0301H, 3.2).

/// An access to coprocessor 15, found in the image's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// The register of the core that is read or written, `Rt`.
    pub register: u32,
    pub what: What,
}

/// What is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Reads the cycle counter: `PMCCNTR`, or `CCNT` of ARM1176.
    Cycles,
    /// Reads `CNTPCT`, whose high word goes to this register.
    Counter { high: u32 },
    /// Reads `CNTFRQ`.
    CounterRate,
    /// Reads `PMCR`.
    Control,
    /// Reads `PMCEID0`, which Unicorn does not have.
    EventList,
    /// Writes `PMSELR`.
    Select,
    /// Writes `PMXEVTYPER`.
    SetEvent,
    /// Reads `PMXEVCNTR`.
    Event,
    /// Reads `PMNC` of ARM1176.
    Monitor,
    /// Writes `PMNC`.
    SetMonitor,
    /// Reads count register 0 or 1 of ARM1176.
    Count(usize),
    /// Cleans or invalidates a line of data by its virtual address.
    Maintain,
    /// Invalidates translations.
    Invalidate,
    /// Translates an address as a load would.
    Translate,
    /// Reads the result.
    Translated,
}

impl What {
    /// Returns whether Unicorn does not execute it, so that it is skipped.
    pub fn is_unknown(self) -> bool {
        self == What::EventList
    }

    /// Returns whether it writes a register of the core.
    pub fn reads(self) -> bool {
        use What::{Invalidate, Maintain, Select, SetEvent, SetMonitor, Translate};
        !matches!(self, Select | SetEvent | SetMonitor | Maintain | Invalidate | Translate)
    }
}

/// Returns the access that an instruction makes, if it matters here. Only those that are always executed are in the image.
pub fn decode(word: u32) -> Option<System> {
    let register = word >> 12 & 0xf;
    // MRRC p15, 0, Rt, Rt2, c14.
    if word & 0xfff0_0fff == 0xec50_0f0e {
        return Some(System { register, what: What::Counter { high: word >> 16 & 0xf } });
    }
    // MCR and MRC of coprocessor 15: bit 20 reads.
    if word & 0xff00_0f10 != 0xee00_0f10 {
        return None;
    }
    let read = word >> 20 & 1 == 1;
    let name = (word >> 16 & 0xf, word >> 21 & 7, word & 0xf, word >> 5 & 7);
    let what = match (read, name) {
        (true, (9, 0, 13, 0) | (15, 0, 12, 1)) => What::Cycles,
        (true, (14, 0, 0, 0)) => What::CounterRate,
        (true, (9, 0, 12, 0)) => What::Control,
        (true, (9, 0, 12, 6)) => What::EventList,
        (false, (9, 0, 12, 5)) => What::Select,
        (false, (9, 0, 13, 1)) => What::SetEvent,
        (true, (9, 0, 13, 2)) => What::Event,
        (true, (15, 0, 12, 0)) => What::Monitor,
        (false, (15, 0, 12, 0)) => What::SetMonitor,
        (true, (15, 0, 12, 2)) => What::Count(0),
        (true, (15, 0, 12, 3)) => What::Count(1),
        // DCIMVAC, DCCMVAC, DCCIMVAC.
        (false, (7, 0, 6 | 10 | 14, 1)) => What::Maintain,
        (false, (8, ..)) => What::Invalidate,
        (false, (7, 0, 8, 0)) => What::Translate,
        (true, (7, 0, 4, 0)) => What::Translated,
        _ => return None,
    };
    Some(System { register, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_told_by_their_encoding() {
        for (word, expected) in [
            (0xee1f_3f3c, Some((3, What::Cycles))),
            (0xee19_3f1d, Some((3, What::Cycles))),
            (0xec51_0f0e, Some((0, What::Counter { high: 1 }))),
            (0xee1e_2f10, Some((2, What::CounterRate))),
            (0xee19_1fdc, Some((1, What::EventList))),
            (0xee09_1fbc, Some((1, What::Select))),
            (0xee09_1f3d, Some((1, What::SetEvent))),
            (0xee19_1f5d, Some((1, What::Event))),
            (0xee1f_1f1c, Some((1, What::Monitor))),
            (0xee0f_1f1c, Some((1, What::SetMonitor))),
            (0xee1f_1f7c, Some((1, What::Count(1)))),
            (0xee07_4f3e, Some((4, What::Maintain))),
            (0xee07_4f36, Some((4, What::Maintain))),
            (0xee08_0f17, Some((0, What::Invalidate))),
            (0xee07_0f18, Some((0, What::Translate))),
            (0xee17_0f14, Some((0, What::Translated))),
            // mcr p15, 0, r0, c7, c10, 4; mrc p15, 0, r0, c0, c0, 0; mrc p14; ldr.
            (0xee07_0f9a, None),
            (0xee10_0f10, None),
            (0xee19_3e1d, None),
            (0xe791_0000, None),
        ] {
            let found = decode(word).map(|system| (system.register, system.what));
            assert_eq!(found, expected, "{word:#x}");
        }
    }
}
