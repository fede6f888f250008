//! Traces of Arm's Statistical Profiling Extension (SPE): the bytes that the processor writes to memory, as records of sampled operations.
//!
//! The format is that of the Arm Architecture Reference Manual (DDI 0487), chapter "Statistical Profiling Extension Sample Record
//! Specification". A record is a sequence of packets, which ends with an end packet or a timestamp. The bytes come from a processor, or from
//! a file of a stranger: any of them end without panic, and what is no record is counted.

use crate::program_samples::{DataSource, Sampled, SampledAccess, Stack};

mod clock;
mod packet;
#[cfg(test)]
mod tests;

pub use clock::SpeClock;
use packet::{Bad, Packet};

/// Where records begin again after bytes that are no packets: multiples of so many bytes, counted from the begin of the buffer. It is the
/// largest record of the Neoverse processors (PMSIDR_EL1.MaxSize), to which they align each one.
const ALIGNED: u64 = 64;

/// Bits of an address: the eight above are a tag, or tell the exception level.
const ADDRESS_BITS: u32 = 56;

/// A sampled operation. What the processor does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeRecord {
    /// Address of the instruction.
    pub instruction: Option<u64>,
    /// Virtual address of the data, without a tag.
    pub data: Option<u64>,
    /// From begin to end of the operation, cycles.
    pub latency: Option<u64>,
    /// Events (a bit for each, E\[n\] of the manual).
    pub events: u64,
    /// Where the data of a load came from, as this processor numbers it.
    pub source: Option<u16>,
    /// Class and subclass of the operation.
    pub operation: Option<(u8, u8)>,
    /// Thread (CONTEXTIDR), where the kernel keeps it there.
    pub thread: Option<u32>,
    /// Timestamp, ticks of the generic timer.
    pub time: Option<u64>,
}

/// What was read of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeTrace {
    /// Records, in the order of the bytes.
    pub records: Vec<SpeRecord>,
    /// Records that could not be read: damaged, cut off at begin or end, or without the address of an instruction.
    pub unreadable: u64,
}

/// Reads bytes that begin at this offset of the buffer.
#[must_use]
pub fn read_spe(bytes: &[u8], offset: u64) -> SpeTrace {
    let mut trace = SpeTrace::default();
    let mut record: Option<SpeRecord> = None;
    let mut at = 0usize;
    while let Some(left) = bytes.get(at..).filter(|left| !left.is_empty()) {
        let begin = offset.wrapping_add(at as u64);
        let (packet, length) = match packet::read(left, begin) {
            Ok(found) => found,
            Err(Bad::CutOff) => {
                record.get_or_insert_default();
                break;
            }
            Err(Bad::Unknown) => {
                trace.unreadable += 1;
                record = None;
                at = at.saturating_add((ALIGNED - begin % ALIGNED) as usize);
                continue;
            }
        };
        at += length;
        let is_end = matches!(packet, Packet::End | Packet::Time(_));
        if packet != Packet::Padding {
            record.get_or_insert_default().take(packet);
        }
        if let Some(whole) = record.take_if(|_| is_end) {
            trace.add(whole);
        }
    }
    trace.unreadable += u64::from(record.is_some());
    trace
}

impl SpeTrace {
    fn add(&mut self, record: SpeRecord) {
        match record.instruction {
            Some(_) => self.records.push(record),
            None => self.unreadable += 1,
        }
    }
}

/// Returns the address in a packet, extended as the processor does.
fn address(value: u64) -> u64 {
    let unused = u64::BITS - ADDRESS_BITS;
    ((value << unused).cast_signed() >> unused).cast_unsigned()
}

impl SpeRecord {
    fn take(&mut self, packet: Packet) {
        match packet {
            Packet::Time(ticks) => self.time = Some(ticks).filter(|ticks| *ticks > 0),
            Packet::Events(events) => self.events = events,
            Packet::Source(number) => self.source = Some(number),
            Packet::Thread(thread) => self.thread = Some(thread),
            Packet::Operation(class, of) => self.operation = Some((class, of)),
            Packet::Counter(packet::TOTAL_LATENCY, cycles) => self.latency = Some(cycles.into()),
            Packet::Address(packet::INSTRUCTION, value) => self.instruction = Some(address(value)),
            Packet::Address(packet::DATA, value) => self.data = Some(address(value)),
            Packet::Counter(..) | Packet::Address(..) | Packet::Padding | Packet::End => {}
        }
    }

    /// Returns it as a sample that stands for so many operations, of a processor with this MIDR_EL1. `None` if the address of its
    /// instruction is not known.
    #[must_use]
    pub fn sample(&self, process: u32, weight: u64, midr: Option<u64>) -> Option<Sampled> {
        let source = DataSource::Spe { events: self.events, number: self.source, midr };
        Some(Sampled::Sample {
            process,
            address: self.instruction?,
            weight,
            stack: Stack::Unknown,
            data: self.data,
            access: Some(SampledAccess { latency: self.latency.unwrap_or(0), source }),
        })
    }
}
