//! Packets: a header of a byte, or of two if it is extended, and a payload of 1, 2, 4 or 8 bytes, little endian.

/// Indices of counter and address packets that are used.
pub(super) const TOTAL_LATENCY: u8 = 0;
pub(super) const INSTRUCTION: u8 = 0;
pub(super) const DATA: u8 = 2;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// Nothing: a padding byte, or what an alignment packet skips.
    Padding,
    /// End of a record without a timestamp.
    End,
    /// Timestamp, which ends a record, ticks.
    Time(u64),
    /// Events.
    Events(u64),
    /// Where data came from.
    Source(u16),
    /// CONTEXTIDR of EL1 or EL2.
    Thread(u32),
    /// Class and subclass of the operation.
    Operation(u8, u8),
    /// Index and cycles.
    Counter(u8, u16),
    /// Index and address, with its upper byte.
    Address(u8, u64),
}

/// Why there is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// The bytes end within it.
    CutOff,
    /// No packet has this header.
    Unknown,
}

/// Headers.
const PADDING: u8 = 0x00;
const END: u8 = 0x01;
const TIME: u8 = 0x71;
/// The payload's size is in bits 5:4 of these.
const SIZE: u8 = 0x30;
const EVENTS: u8 = 0x42;
const SOURCE: u8 = 0x43;
/// Bits 1:0 are an index or a class.
const CONTEXT: u8 = 0x64;
const OPERATION: u8 = 0x48;
const EXTENDED: u8 = 0x20;
/// Bits 3:0 are the alignment's logarithm, less 1, if the second byte is 0; at most 2 KiB.
const ALIGNING: u8 = 0x20;
const MOST_ALIGNED: u8 = 0x2a;
/// Bits 2:0 are an index.
const COUNTER: u8 = 0x98;
const ADDRESS: u8 = 0xb0;
/// Second byte of an alignment packet.
const ALIGNMENT: u8 = 0x00;

/// Reads the first packet of some bytes, which begin at this offset of the buffer. Returns it with its length, which may be more than there
/// are bytes of padding.
pub(super) fn read(bytes: &[u8], at: u64) -> Result<(Packet, usize), Bad> {
    let first = *bytes.first().ok_or(Bad::CutOff)?;
    match first {
        PADDING => return Ok((Packet::Padding, 1)),
        END => return Ok((Packet::End, 1)),
        _ => {}
    }
    if !(ALIGNING..=MOST_ALIGNED).contains(&first) {
        return with_payload(bytes, first, 0, 1);
    }
    let second = *bytes.get(1).ok_or(Bad::CutOff)?;
    if second == ALIGNMENT {
        let to = 2u64 << (first & 15);
        return Ok((Packet::Padding, (to - at % to).max(2) as usize));
    }
    let is_indexed = first & !3 == EXTENDED && matches!(second & !7, COUNTER | ADDRESS);
    if is_indexed { with_payload(bytes, second, (first & 3) << 3, 2) } else { Err(Bad::Unknown) }
}

/// Reads a packet with this header, the upper bits of its index, and the length of all headers.
fn with_payload(bytes: &[u8], header: u8, upper: u8, length: usize) -> Result<(Packet, usize), Bad> {
    let size = 1usize << ((header & SIZE) >> 4);
    let end = length + size;
    let value = || {
        let mut value = [0; 8];
        value[..size].copy_from_slice(bytes.get(length..end).ok_or(Bad::CutOff)?);
        Ok(u64::from_le_bytes(value))
    };
    let index = upper | header & 7;
    // Each payload has the width of its field: nothing is cut off.
    let packet = match header {
        TIME => Packet::Time(value()?),
        _ if header & !SIZE == EVENTS => Packet::Events(value()?),
        _ if header & !SIZE == SOURCE && size <= 2 => Packet::Source(value()? as u16),
        _ if header & !3 == CONTEXT => Packet::Thread(value()? as u32),
        _ if header & !3 == OPERATION => Packet::Operation(header & 3, value()? as u8),
        _ if header & !7 == COUNTER => Packet::Counter(index, value()? as u16),
        _ if header & !7 == ADDRESS => Packet::Address(index, value()?),
        _ => return Err(Bad::Unknown),
    };
    Ok((packet, end))
}
