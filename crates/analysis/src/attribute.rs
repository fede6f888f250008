//! Decodes memory attribute bytes of MAIR_EL1 for reports.
//!
//! Source: Arm Architecture Reference Manual (DDI 0487), "MAIR_EL1, Memory Attribute Indirection Register (EL1)": the
//! tables of `Attr<n>`, of device memory and of the halves `oooo` (outer) and `iiii` (inner) of normal memory. Actual
//! cores may differ: many treat write-through and halves with different policies as non-cacheable.
//!
//! The probe has its own decoder (`fathom-probe`, `mair`), because probe and analysis share no code.

/// Cache policy of one half of the byte, for normal memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Not cached.
    NonCacheable,
    /// Cached, and every store is also written to memory.
    WriteThrough {
        /// Whether the line is likely to be needed for a short time only.
        transient: bool,
        /// Whether a read allocates a line.
        read: bool,
        /// Whether a write allocates a line.
        write: bool,
    },
    /// Cached, and stores stay in the line until it is evicted.
    WriteBack {
        /// As above.
        transient: bool,
        /// As above.
        read: bool,
        /// As above.
        write: bool,
    },
}

/// Memory type that a byte encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Device memory.
    Device {
        /// Whether accesses may be merged.
        gathers: bool,
        /// Whether accesses may be reordered.
        reorders: bool,
        /// Whether a store may be acknowledged before it reaches the device.
        early: bool,
    },
    /// Normal memory.
    Normal {
        /// Policy of the outer caches; which caches these are is implementation defined.
        outer: Policy,
        /// Policy of the nearest caches.
        inner: Policy,
    },
    /// Assigned to an extension (tags, XS) or to nothing.
    Reserved,
}

/// Decodes a half of a byte of normal memory; `None` if the encoding is not a policy.
fn policy(half: u8) -> Option<Policy> {
    let (read, write) = (half & 2 != 0, half & 1 != 0);
    match (half >> 2, read || write) {
        (0b00, true) => Some(Policy::WriteThrough { transient: true, read, write }),
        (0b01, false) => Some(Policy::NonCacheable),
        (0b01, true) => Some(Policy::WriteBack { transient: true, read, write }),
        (0b10, _) => Some(Policy::WriteThrough { transient: false, read, write }),
        (0b11, _) => Some(Policy::WriteBack { transient: false, read, write }),
        _ => None,
    }
}

impl Memory {
    /// Decodes a byte.
    #[must_use]
    pub fn of(mair: u8) -> Memory {
        match (mair >> 4, mair & 15) {
            (0, 0b0000) => Memory::Device { gathers: false, reorders: false, early: false },
            (0, 0b0100) => Memory::Device { gathers: false, reorders: false, early: true },
            (0, 0b1000) => Memory::Device { gathers: false, reorders: true, early: true },
            (0, 0b1100) => Memory::Device { gathers: true, reorders: true, early: true },
            (0, _) => Memory::Reserved,
            (outer, inner) => match (policy(outer), policy(inner)) {
                (Some(outer), Some(inner)) => Memory::Normal { outer, inner },
                _ => Memory::Reserved,
            },
        }
    }

    /// Returns the token: that of the inner and outer policy if they are of one kind, else `mixed`.
    #[must_use]
    pub fn token(self) -> &'static str {
        let kind = |p: Policy| match p {
            Policy::NonCacheable => "normal-nc",
            Policy::WriteThrough { .. } => "write-through",
            Policy::WriteBack { .. } => "write-back",
        };
        match self {
            Memory::Device { gathers: false, reorders: false, early: false } => "device-ngnrne",
            Memory::Device { gathers: false, reorders: false, .. } => "device-ngnre",
            Memory::Device { gathers: false, .. } => "device-ngre",
            Memory::Device { .. } => "device-gre",
            Memory::Normal { outer, inner } if kind(outer) == kind(inner) => kind(inner),
            Memory::Normal { .. } => "mixed",
            Memory::Reserved => "reserved",
        }
    }
}

/// All values of [`Memory::token`].
pub const TOKENS: &[&str] = &[
    "write-back",
    "write-through",
    "normal-nc",
    "mixed",
    "device-ngnrne",
    "device-ngnre",
    "device-ngre",
    "device-gre",
    "reserved",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_bytes_have_the_expected_token() {
        for (byte, token) in [
            (0x00, "device-ngnrne"),
            (0x04, "device-ngnre"),
            (0x08, "device-ngre"),
            (0x0c, "device-gre"),
            (0x44, "normal-nc"),
            (0xff, "write-back"),
            (0xee, "write-back"),
            (0xbb, "write-through"),
            (0xaa, "write-through"),
            (0x4f, "mixed"),
            (0xf4, "mixed"),
            (0xf0, "reserved"),
            (0x01, "reserved"),
            (0x40, "reserved"),
        ] {
            assert_eq!(Memory::of(byte).token(), token, "{byte:#04x}");
        }
    }

    #[test]
    fn every_byte_has_a_token_and_every_token_a_byte() {
        let all: Vec<&str> = (0..=255).map(|byte| Memory::of(byte).token()).collect();
        assert!(all.iter().all(|token| TOKENS.contains(token)));
        assert!(TOKENS.iter().all(|token| all.contains(token)));
        // 15 policies per half (0000 is not one), all combinations; five device bytes less the reserved one.
        let normal = |byte: &u8| matches!(Memory::of(*byte), Memory::Normal { .. });
        assert_eq!((0..=255u8).filter(normal).count(), 15 * 15);
        assert_eq!(
            Memory::of(0x7d),
            Memory::Normal {
                outer: Policy::WriteBack { transient: true, read: true, write: true },
                inner: Policy::WriteBack { transient: false, read: false, write: true },
            }
        );
    }
}
