//! Tables of the events that the counters of processors count: number, name, what is counted in one sentence, and in
//! which way the count is not what its name suggests.
//!
//! The tables are data, `events/*.toml`, with the manual that each comes from. The build script checks them and turns
//! them into constants, so that a table cannot be wrong at run time and this crate needs no allocation. Counting is
//! elsewhere: `fathom-host` opens events, `fathom-model` counts its own.

#![no_std]
#![forbid(unsafe_code)]

mod quantity;
mod simulated;

pub use quantity::{Group, Quantity};
pub use simulated::{Access, Cache, Term, Unsimulated};

/// The events of one kind of processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name that users type: that of the file.
    pub name: &'static str,
    /// Name of the processor.
    pub title: &'static str,
    /// Manual and section of the events.
    pub source: &'static str,
    /// Number of event counters that count at the same time, the cycle counter not included.
    pub counters: u8,
    /// Width of a counter, bits.
    pub bits: u8,
    /// Whether a further counter counts cycles only.
    pub cycle_counter: bool,
    /// Processors that have these events.
    pub processors: &'static [Processor],
    /// Events, by code.
    pub events: &'static [Event],
}

/// A kind of processor, as it identifies itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// ARM: fields of the main identification register (MIDR).
    Arm {
        /// Implementer, bits 31:24.
        implementer: u8,
        /// Part number, bits 15:4.
        part: u16,
    },
    /// x86: CPUID's vendor, and the families that have the events; all if empty.
    X86 {
        /// Vendor of leaf 0.
        vendor: &'static str,
        /// Families of leaf 1, extended family included.
        families: &'static [u16],
    },
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number that selects it. On x86 the unit mask is in the high byte, as in perf's `config`.
    pub code: u16,
    /// Mnemonic of the manual, or of Linux where the manual has none.
    pub name: &'static str,
    /// What it is evidence of; `None` if that is nothing which other processors have too.
    pub of: Option<Quantity>,
    /// What is counted, as a sentence.
    pub counts: &'static str,
    /// In which way the count is not what its name suggests, as a sentence.
    pub caveat: Option<&'static str>,
    /// What it is in a simulation of the processor's caches: a sum, or why it cannot be counted.
    pub simulated: Result<&'static [Term], Unsimulated>,
}

impl Event {
    /// Group in which it is listed.
    #[must_use]
    pub fn group(&self) -> Group {
        self.of.map_or(Group::Other, Quantity::group)
    }
}

/// Identity of a processor that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// The main identification register of an ARM processor (MIDR).
    Midr(u64),
    /// Vendor and family of an x86 processor.
    X86 {
        /// Vendor of leaf 0.
        vendor: &'a str,
        /// Family of leaf 1, extended family included.
        family: u16,
    },
}

impl Processor {
    /// Whether a processor of this identity is of this kind.
    #[must_use]
    pub fn is(&self, identity: Identity) -> bool {
        match (self, identity) {
            (Processor::Arm { implementer, part }, Identity::Midr(midr)) => {
                midr >> 24 & 0xff == u64::from(*implementer) && midr >> 4 & 0xfff == u64::from(*part)
            }
            (Processor::X86 { vendor: own, families }, Identity::X86 { vendor, family }) => {
                *own == vendor && (families.is_empty() || families.contains(&family))
            }
            _ => false,
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// Returns the table of this name.
#[must_use]
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

/// Returns the table of a processor.
#[must_use]
pub fn table_of(identity: Identity) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.processors.iter().any(|processor| processor.is(identity)))
}

#[cfg(test)]
mod tests;
