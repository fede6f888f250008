//! The descriptor bytes of CPUID leaf 2.
//!
//! Source of every row: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A,
//! CPUID, table 3-12 "Encoding of CPUID Leaf 2 Descriptors".

use super::Holds::{self, Data, Instructions, Unified};

/// Associativity of a TLB, as a descriptor states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    Unknown,
    Full,
    Of(u32),
}

/// Meaning of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Descriptor {
    /// A cache of `kib` KiB.
    Cache { level: u8, holds: Holds, kib: u32, ways: u32, line: u32 },
    /// A TLB for pages of these sizes, in bytes.
    Tlb { level: u8, holds: Holds, pages: &'static [u64], entries: u32, ways: Ways },
    /// "Use leaf 4."
    UseLeaf4,
    /// "Use leaf 18H."
    UseLeaf18,
    /// Trace caches, prefetch sizes, "no such level": no claim.
    Nothing,
}

const K4: &[u64] = &[4 << 10];
const M2: &[u64] = &[2 << 20];
const M4: &[u64] = &[4 << 20];
const G1: &[u64] = &[1 << 30];
const M2_M4: &[u64] = &[2 << 20, 4 << 20];
const K4_M2: &[u64] = &[4 << 10, 2 << 20];
const K4_M4: &[u64] = &[4 << 10, 4 << 20];
const K4_M2_M4: &[u64] = &[4 << 10, 2 << 20, 4 << 20];

const fn cache(level: u8, holds: Holds, kib: u32, ways: u32, line: u32) -> Option<Descriptor> {
    Some(Descriptor::Cache { level, holds, kib, ways, line })
}

const fn tlb(level: u8, holds: Holds, pages: &'static [u64], entries: u32, ways: Ways) -> Option<Descriptor> {
    Some(Descriptor::Tlb { level, holds, pages, entries, ways })
}

/// Returns the meaning of a descriptor byte on a processor of this family and model, if it is in the table.
pub(super) fn lookup(byte: u8, family: u32, model: u32) -> Option<Descriptor> {
    match byte {
        // 40H: no level 2, or no level 3; 70H..72H: trace caches, counted in micro-operations; F0H, F1H: prefetch
        // sizes.
        0x00 | 0x40 | 0x70..=0x72 | 0xf0 | 0xf1 => Some(Descriptor::Nothing),
        0xfe => Some(Descriptor::UseLeaf18),
        0xff => Some(Descriptor::UseLeaf4),
        // Level 3 of the Xeon MP, family 0FH, model 06H; level 2 on all others.
        0x49 if family == 0xf && model == 6 => cache(3, Unified, 4096, 16, 64),
        _ => level_1(byte).or_else(|| level_2(byte)).or_else(|| level_3(byte)).or_else(|| tlbs(byte)),
    }
}

/// Returns the second array that some descriptors describe, in addition to the one of [`lookup`].
pub(super) fn second(byte: u8) -> Option<Descriptor> {
    match byte {
        0x63 => tlb(1, Data, G1, 4, Ways::Of(4)),
        0xc3 => tlb(2, Unified, G1, 16, Ways::Of(4)),
        _ => None,
    }
}

fn level_1(byte: u8) -> Option<Descriptor> {
    match byte {
        0x06 => cache(1, Instructions, 8, 4, 32),
        0x08 => cache(1, Instructions, 16, 4, 32),
        0x09 => cache(1, Instructions, 32, 4, 64),
        0x0a => cache(1, Data, 8, 2, 32),
        0x0c => cache(1, Data, 16, 4, 32),
        0x0d => cache(1, Data, 16, 4, 64),
        0x0e => cache(1, Data, 24, 6, 64),
        0x2c => cache(1, Data, 32, 8, 64),
        0x30 => cache(1, Instructions, 32, 8, 64),
        0x60 => cache(1, Data, 16, 8, 64),
        0x66 => cache(1, Data, 8, 4, 64),
        0x67 => cache(1, Data, 16, 4, 64),
        0x68 => cache(1, Data, 32, 4, 64),
        _ => None,
    }
}

fn level_2(byte: u8) -> Option<Descriptor> {
    match byte {
        0x1d => cache(2, Unified, 128, 2, 64),
        0x21 => cache(2, Unified, 256, 8, 64),
        0x24 => cache(2, Unified, 1024, 16, 64),
        0x41 => cache(2, Unified, 128, 4, 32),
        0x42 => cache(2, Unified, 256, 4, 32),
        0x43 => cache(2, Unified, 512, 4, 32),
        0x44 => cache(2, Unified, 1024, 4, 32),
        0x45 => cache(2, Unified, 2048, 4, 32),
        0x48 => cache(2, Unified, 3072, 12, 64),
        0x49 => cache(2, Unified, 4096, 16, 64),
        0x4e => cache(2, Unified, 6144, 24, 64),
        0x78 => cache(2, Unified, 1024, 4, 64),
        0x79 => cache(2, Unified, 128, 8, 64),
        0x7a => cache(2, Unified, 256, 8, 64),
        0x7b => cache(2, Unified, 512, 8, 64),
        0x7c => cache(2, Unified, 1024, 8, 64),
        0x7d => cache(2, Unified, 2048, 8, 64),
        0x7f => cache(2, Unified, 512, 2, 64),
        0x80 => cache(2, Unified, 512, 8, 64),
        0x82 => cache(2, Unified, 256, 8, 32),
        0x83 => cache(2, Unified, 512, 8, 32),
        0x84 => cache(2, Unified, 1024, 8, 32),
        0x85 => cache(2, Unified, 2048, 8, 32),
        0x86 => cache(2, Unified, 512, 4, 64),
        0x87 => cache(2, Unified, 1024, 8, 64),
        _ => None,
    }
}

fn level_3(byte: u8) -> Option<Descriptor> {
    match byte {
        0x22 => cache(3, Unified, 512, 4, 64),
        0x23 => cache(3, Unified, 1024, 8, 64),
        0x25 => cache(3, Unified, 2048, 8, 64),
        0x29 => cache(3, Unified, 4096, 8, 64),
        0x46 => cache(3, Unified, 4096, 4, 64),
        0x47 => cache(3, Unified, 8192, 8, 64),
        0x4a => cache(3, Unified, 6144, 12, 64),
        0x4b => cache(3, Unified, 8192, 16, 64),
        0x4c => cache(3, Unified, 12288, 12, 64),
        0x4d => cache(3, Unified, 16384, 16, 64),
        0xd0 => cache(3, Unified, 512, 4, 64),
        0xd1 => cache(3, Unified, 1024, 4, 64),
        0xd2 => cache(3, Unified, 2048, 4, 64),
        0xd6 => cache(3, Unified, 1024, 8, 64),
        0xd7 => cache(3, Unified, 2048, 8, 64),
        0xd8 => cache(3, Unified, 4096, 8, 64),
        0xdc => cache(3, Unified, 1536, 12, 64),
        0xdd => cache(3, Unified, 3072, 12, 64),
        0xde => cache(3, Unified, 6144, 12, 64),
        0xe2 => cache(3, Unified, 2048, 16, 64),
        0xe3 => cache(3, Unified, 4096, 16, 64),
        0xe4 => cache(3, Unified, 8192, 16, 64),
        0xea => cache(3, Unified, 12288, 24, 64),
        0xeb => cache(3, Unified, 18432, 24, 64),
        0xec => cache(3, Unified, 24576, 24, 64),
        _ => None,
    }
}

/// The manual's "TLB0" and "uTLB" are level 1 here; its "TLB1" and the TLB that backs a uTLB are level 2.
fn tlbs(byte: u8) -> Option<Descriptor> {
    match byte {
        0x01 => tlb(1, Instructions, K4, 32, Ways::Of(4)),
        0x02 => tlb(1, Instructions, M4, 2, Ways::Full),
        0x03 => tlb(1, Data, K4, 64, Ways::Of(4)),
        0x04 => tlb(1, Data, M4, 8, Ways::Of(4)),
        0x05 => tlb(2, Data, M4, 32, Ways::Of(4)),
        0x0b => tlb(1, Instructions, M4, 4, Ways::Of(4)),
        0x4f => tlb(1, Instructions, K4, 32, Ways::Unknown),
        0x50 => tlb(1, Instructions, K4_M2_M4, 64, Ways::Unknown),
        0x51 => tlb(1, Instructions, K4_M2_M4, 128, Ways::Unknown),
        0x52 => tlb(1, Instructions, K4_M2_M4, 256, Ways::Unknown),
        0x55 => tlb(1, Instructions, M2_M4, 7, Ways::Full),
        0x56 => tlb(1, Data, M4, 16, Ways::Of(4)),
        0x57 => tlb(1, Data, K4, 16, Ways::Of(4)),
        0x59 => tlb(1, Data, K4, 16, Ways::Full),
        0x5a => tlb(1, Data, M2_M4, 32, Ways::Of(4)),
        0x5b => tlb(1, Data, K4_M4, 64, Ways::Unknown),
        0x5c => tlb(1, Data, K4_M4, 128, Ways::Unknown),
        0x5d => tlb(1, Data, K4_M4, 256, Ways::Unknown),
        0x61 => tlb(1, Instructions, K4, 48, Ways::Full),
        0x63 => tlb(1, Data, M2_M4, 32, Ways::Of(4)),
        0x64 => tlb(1, Data, K4, 512, Ways::Of(4)),
        0x6a => tlb(1, Data, K4, 64, Ways::Of(8)),
        0x6b => tlb(2, Data, K4, 256, Ways::Of(8)),
        0x6c => tlb(2, Data, M2_M4, 128, Ways::Of(8)),
        0x6d => tlb(2, Data, G1, 16, Ways::Full),
        0x76 => tlb(1, Instructions, M2_M4, 8, Ways::Full),
        0xa0 => tlb(1, Data, K4, 32, Ways::Full),
        0xb0 => tlb(1, Instructions, K4, 128, Ways::Of(4)),
        // 8 entries of 2 MiB pages; or 4 of 4 MiB pages, which take two each.
        0xb1 => tlb(1, Instructions, M2, 8, Ways::Of(4)),
        0xb2 => tlb(1, Instructions, K4, 64, Ways::Of(4)),
        0xb3 => tlb(1, Data, K4, 128, Ways::Of(4)),
        0xb4 => tlb(2, Data, K4, 256, Ways::Of(4)),
        0xb5 => tlb(1, Instructions, K4, 64, Ways::Of(8)),
        0xb6 => tlb(1, Instructions, K4, 128, Ways::Of(8)),
        0xba => tlb(2, Data, K4, 64, Ways::Of(4)),
        0xc0 => tlb(1, Data, K4_M4, 8, Ways::Of(4)),
        0xc1 => tlb(2, Unified, K4_M2, 1024, Ways::Of(8)),
        0xc2 => tlb(1, Data, K4_M2, 16, Ways::Of(4)),
        0xc3 => tlb(2, Unified, K4_M2, 1536, Ways::Of(6)),
        0xc4 => tlb(1, Data, M2_M4, 32, Ways::Of(4)),
        0xca => tlb(2, Unified, K4, 512, Ways::Of(4)),
        _ => None,
    }
}
