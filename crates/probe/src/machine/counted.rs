//! The events that a machine may count.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// An event of which a machine may count how often it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CountedEvent {
    /// Executed instructions.
    Instructions,
    /// Accesses of data.
    Accesses,
    /// Refills of a cache on the path of data, numbered from 1 at the core.
    Refill(u64),
    /// Refills of a TLB, numbered from 1 at the core.
    TlbRefill(u64),
    /// Loads that miss the TLB, as the kernel generalises them: refills of the first TLB, of the last one, or walks,
    /// depending on the processor.
    TlbMisses,
    /// Walks of the page tables.
    Walks,
    /// Lines that are read from memory.
    MemoryReads,
    /// Cycles in which the core waits for a resource.
    StallCycles,
}

/// Events without a number, with their tokens.
const WHOLE: [(CountedEvent, &str); 6] = [
    (CountedEvent::Instructions, "instructions"),
    (CountedEvent::Accesses, "accesses"),
    (CountedEvent::TlbMisses, "tlb.misses"),
    (CountedEvent::Walks, "walks"),
    (CountedEvent::MemoryReads, "memory.reads"),
    (CountedEvent::StallCycles, "stall.cycles"),
];
/// What the tokens of numbered events begin with.
const TLB_REFILL: &str = "refill.tlb.";
const REFILL: &str = "refill.cache.";
/// Most levels and TLBs.
const MAX_NUMBER: u64 = 8;

impl CountedEvent {
    /// Returns its token on the wire: `walks`, `refill.cache.1`, `refill.tlb.2`.
    #[must_use]
    pub fn token(self) -> String {
        match self {
            CountedEvent::Refill(level) => format!("{REFILL}{level}"),
            CountedEvent::TlbRefill(tlb) => format!("{TLB_REFILL}{tlb}"),
            _ => WHOLE
                .iter()
                .find(|(event, _)| *event == self)
                .map_or_else(String::new, |(_, token)| (*token).to_owned()),
        }
    }

    /// Returns the event of a token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<CountedEvent> {
        let numbered = |prefix: &str, event: fn(u64) -> CountedEvent| {
            let number = token.strip_prefix(prefix)?;
            let value: u64 = number.parse().ok().filter(|n| (1..=MAX_NUMBER).contains(n))?;
            (format!("{value}") == number).then(|| event(value))
        };
        let whole = || WHOLE.iter().find(|(_, whole)| *whole == token).map(|(event, _)| *event);
        whole()
            .or_else(|| numbered(TLB_REFILL, CountedEvent::TlbRefill))
            .or_else(|| numbered(REFILL, CountedEvent::Refill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_others_are_not() {
        let numbered = [CountedEvent::Refill(1), CountedEvent::TlbRefill(2)];
        for event in WHOLE.iter().map(|(event, _)| *event).chain(numbered) {
            assert_eq!(CountedEvent::from_token(&event.token()), Some(event));
        }
        for wrong in [
            "",
            "walk",
            "refill.cache.",
            "refill.cache.0",
            "refill.tlb.9",
            "refill.cache.01",
            "refill.cache.+1",
        ] {
            assert_eq!(CountedEvent::from_token(wrong), None, "{wrong}");
        }
    }
}
