//! Decoder of a byte of `MAIR_EL1`: Arm Architecture Reference Manual for A-profile, DDI 0487, "MAIR_EL1, Memory
//! Attribute Indirection Register".
//!
//! It gives the architectural meaning. The behaviour of a core is measured. `fathom_analysis` has a separate decoder,
//! because probe and analysis share no code.

use core::fmt;

use crate::machine::Attribute;

/// A byte of `MAIR_EL1`, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Device memory (0b0000dd00).
    Device(Device),
    /// Normal memory (0booooiiii, neither half 0).
    Normal {
        /// The upper half.
        outer: Policy,
        /// The lower half.
        inner: Policy,
    },
    /// Unpredictable, or defined by an extension alone (memory tagging, the XS attribute).
    Reserved,
}

/// The kinds of device memory, by what the interconnect may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Accesses may be gathered.
    pub gathering: bool,
    /// Accesses may be reordered.
    pub reordering: bool,
    /// A store may be acknowledged before it has arrived.
    pub early: bool,
}

/// Cache policy of one half of the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// 0b0100.
    NonCacheable,
    /// 0b10RW; 0b00RW, which is transient.
    WriteThrough(Hints),
    /// 0b11RW; 0b01RW, which is transient.
    WriteBack(Hints),
}

/// Allocation hints of one half of the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Transient: not to be kept for long.
    pub transient: bool,
    /// A read miss may fill.
    pub read_allocate: bool,
    /// A write miss may fill.
    pub write_allocate: bool,
}

impl Meaning {
    /// Decodes a byte.
    #[must_use]
    pub fn of(byte: u8) -> Meaning {
        let (outer, inner) = (byte >> 4, byte & 0xf);
        match (outer, inner) {
            (0, _) if inner & 3 == 0 => {
                let kind = inner >> 2;
                Meaning::Device(Device { gathering: kind == 3, reordering: kind >= 2, early: kind >= 1 })
            }
            (0, _) | (_, 0) => Meaning::Reserved,
            _ => Meaning::Normal { outer: policy(outer), inner: policy(inner) },
        }
    }

    /// Returns the attribute of the byte if both halves have the same policy. Of device memory, only nGnRnE is an
    /// attribute.
    #[must_use]
    pub fn attribute(self) -> Option<Attribute> {
        match self {
            Meaning::Device(Device { early: false, .. }) => Some(Attribute::Device),
            Meaning::Normal { outer, inner } => {
                (outer.attribute() == inner.attribute()).then_some(inner.attribute())
            }
            _ => None,
        }
    }
}

fn policy(half: u8) -> Policy {
    let bit = |n: u8| half >> n & 1 == 1;
    let hints = Hints { transient: !bit(3), read_allocate: bit(1), write_allocate: bit(0) };
    match half {
        4 => Policy::NonCacheable,
        _ if bit(2) => Policy::WriteBack(hints),
        _ => Policy::WriteThrough(hints),
    }
}

impl Policy {
    /// Returns the attribute of memory for which both halves have this policy.
    #[must_use]
    pub fn attribute(self) -> Attribute {
        match self {
            Policy::NonCacheable => Attribute::NormalNc,
            Policy::WriteThrough(_) => Attribute::WriteThrough,
            Policy::WriteBack(_) => Attribute::WriteBack,
        }
    }
}

/// Returns the byte of an attribute: the same policy in both halves, read and write allocating, not transient.
#[must_use]
pub fn byte_of(attribute: Attribute) -> u8 {
    match attribute {
        Attribute::WriteBack => 0xff,
        Attribute::WriteThrough => 0xbb,
        Attribute::NormalNc => 0x44,
        Attribute::Device => 0x00,
    }
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meaning::Device(Device { gathering, reordering, early }) => {
                let sign = |allowed: &bool| if *allowed { "" } else { "n" };
                write!(f, "Device-{}G{}R{}E", sign(gathering), sign(reordering), sign(early))
            }
            Meaning::Normal { outer, inner } if outer == inner => write!(f, "Normal {inner}"),
            Meaning::Normal { outer, inner } => write!(f, "Normal outer {outer}, inner {inner}"),
            Meaning::Reserved => write!(f, "reserved"),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, hints) = match self {
            Policy::NonCacheable => return write!(f, "non-cacheable"),
            Policy::WriteThrough(hints) => ("write-through", hints),
            Policy::WriteBack(hints) => ("write-back", hints),
        };
        let allocate = match (hints.read_allocate, hints.write_allocate) {
            (true, true) => "",
            (true, false) => " no-write-allocate",
            (false, true) => " no-read-allocate",
            (false, false) => " no-allocate",
        };
        write!(f, "{name}{}{allocate}", if hints.transient { " transient" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn bytes_match_the_tables_of_the_manual() {
        for (byte, meaning) in [
            (0x00, "Device-nGnRnE"),
            (0x04, "Device-nGnRE"),
            (0x08, "Device-nGRE"),
            (0x0c, "Device-GRE"),
            (0x01, "reserved"),
            (0x0f, "reserved"),
            (0x40, "reserved"),
            (0xf0, "reserved"),
            (0x44, "Normal non-cacheable"),
            (0xff, "Normal write-back"),
            (0xee, "Normal write-back no-write-allocate"),
            (0xcc, "Normal write-back no-allocate"),
            (0x77, "Normal write-back transient"),
            (0xbb, "Normal write-through"),
            (0x33, "Normal write-through transient"),
            (0x11, "Normal write-through transient no-read-allocate"),
            (0x88, "Normal write-through no-allocate"),
            (0x4f, "Normal outer non-cacheable, inner write-back"),
            (0xfb, "Normal outer write-back, inner write-through"),
        ] {
            assert_eq!(Meaning::of(byte).to_string(), meaning, "{byte:#04x}");
        }
    }

    #[test]
    fn every_byte_is_of_one_kind_and_attributes_come_back() {
        let (mut device, mut normal, mut reserved) = (0, 0, 0);
        for byte in 0..=u8::MAX {
            match Meaning::of(byte) {
                Meaning::Device(_) => device += 1,
                Meaning::Normal { .. } => normal += 1,
                Meaning::Reserved => reserved += 1,
            }
        }
        // 4 kinds of device memory, 15 x 15 pairs of policies.
        assert_eq!((device, normal, reserved), (4, 225, 27));
        for &attribute in Attribute::ALL {
            assert_eq!(Meaning::of(byte_of(attribute)).attribute(), Some(attribute));
        }
        assert_eq!(Meaning::of(0x0c).attribute(), None);
        assert_eq!(Meaning::of(0x4f).attribute(), None);
        assert_eq!(Meaning::of(0xc7).attribute(), Some(Attribute::WriteBack), "hints aside");
    }
}
