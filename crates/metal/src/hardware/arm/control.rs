//! Controls of the core: the attribute of table walks, prefetchers.

use fathom_probe::machine::{Attribute, Refusal};

use super::{IS_V7, cpu, mmu};
use crate::arm::registers;
use crate::hardware::mappings::WALKS;

/// Restores the defaults.
pub(in crate::hardware) fn restore() {
    set_walks(WALKS);
}

/// Checks that walks can have this attribute. The default is accepted on ARM1176 too, whose walks have no other.
pub(in crate::hardware) fn check_walks(attribute: Attribute) -> Result<(), Refusal> {
    if !IS_V7 && attribute != WALKS {
        return Err(Refusal::new(
            "the table walks of ARM1176 never read its caches (DDI 0301H, 3.2.13), so they have no attribute",
            "leave tables out",
        ));
    }
    let known = registers::walk_bits(attribute, IS_V7);
    known.map(|_| ()).ok_or_else(|| {
        Refusal::new(
            "table walks do not fetch from device memory (TTBR0.IRGN has no such value)",
            "request tables write-back, write-through or normal-nc",
        )
    })
}

/// Puts an attribute of table walks in force, which [`check_walks`] has accepted.
pub(in crate::hardware) fn set_walks(attribute: Attribute) {
    if let Some(walks) = registers::walk_bits(attribute, IS_V7) {
        mmu::set_walks(walks);
    }
}

/// Checks that memory can have the attribute of a byte in the encoding of `MAIR_EL1`.
pub(in crate::hardware) fn check_byte(byte: u8) -> Result<(), Refusal> {
    let known = registers::region_bits(byte);
    known.map(|_| ()).ok_or_else(|| {
        Refusal::new(
            alloc::format!("short descriptors of 32-bit ARM cannot express the attribute {byte:#04x}"),
            "request 0x00, 0x04, or a byte of two digits of 4, a, e and f",
        )
    })
}

/// Refuses to switch the prefetchers.
pub(in crate::hardware) fn prefetch(_on: bool) -> Result<(), Refusal> {
    let core = cpu::name();
    let reason = alloc::format!(
        "this image cannot switch the prefetchers of {core}: ARM1176 has none, and those of later cores belong to the \
         secure state"
    );
    Err(Refusal::new(reason, "measure with the prefetchers as they are"))
}
