//! Translations of the guest's addresses, by the tables of either architecture.

use crate::{a32, a64};

/// The registers that control translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// Of AArch64.
    A64(a64::walk::Regime),
    /// Of 32-bit ARM.
    A32(a32::walk::Regime),
}

impl Regime {
    /// Returns whether translation is enabled.
    pub fn is_on(&self) -> bool {
        match self {
            Regime::A64(regime) => regime.is_on(),
            Regime::A32(regime) => regime.is_on(),
        }
    }

    /// Returns whether walks bypass the caches.
    pub fn walks_past_caches(&self) -> bool {
        match self {
            Regime::A64(regime) => regime.walks_past_caches(),
            Regime::A32(regime) => regime.walks_past_caches(),
        }
    }

    /// Walks for an address. `read` returns the 8 bytes at a physical address, if there is memory.
    pub fn walk(&self, va: u64, read: impl Fn(u64) -> Option<u64>) -> Option<Page> {
        match self {
            Regime::A64(regime) => regime.walk(va, read),
            Regime::A32(regime) => regime.walk(va, read),
        }
    }
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Physical address.
    pub pa: u64,
    /// Bytes that the last descriptor maps.
    pub bytes: u64,
    /// The attribute, as a byte of `MAIR_EL1`.
    pub mair: u8,
    /// Physical addresses of the descriptors, the last level's first.
    descriptors: [u64; 4],
    count: usize,
}

impl Page {
    /// Returns the translation by a walk without descriptors: translation is off, and `mair` is in force.
    pub fn untranslated(va: u64, mair: u8) -> Page {
        Page { pa: va, bytes: 4096, mair, descriptors: [0; 4], count: 0 }
    }

    /// Returns a translation by at most four descriptors, given with the last level's first.
    pub fn walked(pa: u64, bytes: u64, mair: u8, by: &[u64]) -> Page {
        let mut descriptors = [0; 4];
        let count = by.len().min(4);
        descriptors[..count].copy_from_slice(&by[..count]);
        Page { pa, bytes, mair, descriptors, count }
    }

    /// Returns the translation of another address in the same 4 KiB.
    pub fn at(self, va: u64) -> Page {
        Page { pa: self.pa & !0xfff | va & 0xfff, ..self }
    }

    /// Returns the descriptors of the walk, the last level's first; empty without translation.
    pub fn descriptors(&self) -> &[u64] {
        &self.descriptors[..self.count]
    }
}
