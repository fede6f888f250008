//! The x86 CPUID leaves that describe caches and TLBs, decoded from recorded bytes.
//!
//! Decoded by hand, without a CPUID library: the bytes may come from another machine and may be hostile. Libraries
//! return leaf 2 as text and refuse the leaves of unknown vendors.
//!
//! Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID (leaves
//! 02H, 04H, 18H); AMD64 Architecture Programmer's Manual, volume 3, appendix E (Fn8000_0005, _0006,
//! _0019, _001D).

use super::descriptors::{self, Descriptor, Ways};
use super::{Claim, Decoded, Facts, Holds, Source, TlbClaim};

/// The four registers of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) eax: u32,
    pub(super) ebx: u32,
    pub(super) ecx: u32,
    pub(super) edx: u32,
}

/// Reads the fact `cpuid.LEAF.SUBLEAF`: eax, ebx, ecx, edx, little endian.
pub(super) fn leaf(facts: &Facts, leaf: u32, subleaf: u32, complaints: &mut Vec<String>) -> Option<Leaf> {
    let name = format!("cpuid.{leaf:x}.{subleaf:x}");
    let bytes = facts.bytes(&name, complaints)?;
    let (words, rest) = bytes.as_chunks::<4>();
    let ([eax, ebx, ecx, edx], []) = (words, rest) else {
        complaints.push(format!("{name}: expected 16 bytes, found {}", bytes.len()));
        return None;
    };
    Some(Leaf {
        eax: u32::from_le_bytes(*eax),
        ebx: u32::from_le_bytes(*ebx),
        ecx: u32::from_le_bytes(*ecx),
        edx: u32::from_le_bytes(*edx),
    })
}

/// Returns the twelve letters of the vendor, from ebx, edx, ecx of leaf 0.
pub(super) fn vendor(leaf: Leaf) -> [u8; 12] {
    let mut name = [0; 12];
    for (part, register) in name.chunks_exact_mut(4).zip([leaf.ebx, leaf.edx, leaf.ecx]) {
        part.copy_from_slice(&register.to_le_bytes());
    }
    name
}

/// Extracts bits `high..=low` of a register.
fn bits(register: u32, high: u32, low: u32) -> u32 {
    // high - low is at most 30 in every use, so the mask does not overflow.
    register >> low & ((1 << (high - low + 1)) - 1)
}

/// Properties that decide which leaves are valid.
struct Cpu {
    intel: bool,
    /// Highest basic leaf. Intel returns the data of this leaf for higher ones.
    basic: u32,
    extended: u32,
    family: u32,
    model: u32,
}

pub(super) fn decode(facts: &Facts, out: &mut Decoded) {
    let Some(cpu) = identify(facts, out) else { return };
    let by_leaf_4 = cpu.basic >= 4 && deterministic(facts, 4, out);
    if cpu.intel {
        let used_18 = cpu.basic >= 0x18 && address_translation(facts, out);
        if cpu.basic >= 2 {
            by_descriptors(facts, &cpu, by_leaf_4, used_18, out);
        }
    } else {
        // AMD leaves leaf 4 empty, Zhaoxin fills it.
        let by_1d = !by_leaf_4 && cpu.extended >= 0x8000_001d && deterministic(facts, 0x8000_001d, out);
        legacy_caches(facts, &cpu, by_leaf_4 || by_1d, out);
        legacy_tlbs(facts, &cpu, out);
    }
}

fn identify(facts: &Facts, out: &mut Decoded) -> Option<Cpu> {
    facts.under("cpuid.").next()?;
    let Some(zero) = leaf(facts, 0, 0, &mut out.complaints) else {
        out.complain("cpuid.0.0", "is missing, so no leaf can be trusted to exist");
        return None;
    };
    let signature = leaf(facts, 1, 0, &mut out.complaints).unwrap_or_default().eax;
    // Intel SDM volume 2A, figure 3-6: the extended fields count for families 6 and 15.
    let (base_family, base_model) = (bits(signature, 11, 8), bits(signature, 7, 4));
    let family = if base_family == 15 { 15 + bits(signature, 27, 20) } else { base_family };
    let extended = matches!(base_family, 6 | 15);
    let model = if extended { base_model | bits(signature, 19, 16) << 4 } else { base_model };
    let highest = leaf(facts, 0x8000_0000, 0, &mut out.complaints).map(|leaf| leaf.eax);
    // Without this fact, the extended leaves in the record are assumed to exist.
    let extended = highest.unwrap_or(u32::MAX);
    Some(Cpu { intel: &vendor(zero) == b"GenuineIntel", basic: zero.eax, extended, family, model })
}

/// Decodes leaf 4 or AMD's leaf 8000_001D, which has the same layout. Returns whether it described a cache.
fn deterministic(facts: &Facts, number: u32, out: &mut Decoded) -> bool {
    let mut any = false;
    for subleaf in 0..=u32::from(u8::MAX) {
        let Some(found) = leaf(facts, number, subleaf, &mut out.complaints) else { break };
        let fact = format!("cpuid.{number:x}.{subleaf:x}");
        let holds = match bits(found.eax, 4, 0) {
            0 => break,
            1 => Holds::Data,
            2 => Holds::Instructions,
            3 => Holds::Unified,
            kind => {
                out.complain(&fact, format_args!("cache type {kind} is reserved"));
                continue;
            }
        };
        let level = bits(found.eax, 7, 5);
        if level == 0 {
            out.complain(&fact, "has level 0");
            continue;
        }
        any = true;
        let mut claim = Claim::new(Source::Cpuid, level as u8, holds);
        let line = u64::from(bits(found.ebx, 11, 0)) + 1;
        // A line may consist of several partitions; 1 in every processor since the Pentium 4.
        let partitions = u64::from(bits(found.ebx, 21, 12)) + 1;
        claim.line = Some(line * partitions);
        claim.sets = Some(u64::from(found.ecx) + 1);
        claim.fully_associative = found.eax & 1 << 9 != 0;
        claim.ways = Some(bits(found.ebx, 31, 22) + 1);
        claim.shared_by = Some(bits(found.eax, 25, 14) + 1);
        out.claim(&fact, claim);
    }
    any
}

/// Decodes leaf 18H: one TLB per sub-leaf. Returns whether it described a TLB.
fn address_translation(facts: &Facts, out: &mut Decoded) -> bool {
    let Some(first) = leaf(facts, 0x18, 0, &mut out.complaints) else { return false };
    let mut any = false;
    for subleaf in 0..=first.eax.min(u32::from(u8::MAX)) {
        // Sub-leaves may be invalid in the middle of the list: type 0.
        let Some(found) = leaf(facts, 0x18, subleaf, &mut out.complaints) else { continue };
        let fact = format!("cpuid.18.{subleaf:x}");
        let holds = match bits(found.edx, 4, 0) {
            0 => continue,
            // 4 and 5 are for loads only and stores only.
            1 | 4 | 5 => Holds::Data,
            2 => Holds::Instructions,
            3 => Holds::Unified,
            kind => {
                out.complain(&fact, format_args!("translation cache type {kind} is reserved"));
                continue;
            }
        };
        let ways = bits(found.ebx, 31, 16);
        let level = bits(found.edx, 7, 5);
        let Some(entries) = ways.checked_mul(found.ecx).filter(|n| *n != 0 && level != 0) else {
            let sets = found.ecx;
            out.complain(&fact, format_args!("level {level} with {ways} ways x {sets} sets is impossible"));
            continue;
        };
        any = true;
        let sizes = [4 << 10, 2 << 20, 4 << 20, 1 << 30];
        let page_bytes = (0..4).filter(|bit| found.ebx & 1 << bit != 0).map(|bit| sizes[bit]).collect();
        let fully_associative = found.edx & 1 << 8 != 0;
        let ways = Some(if fully_associative { entries } else { ways });
        let level = level as u8;
        let source = Source::Cpuid;
        out.tlbs.push(TlbClaim { source, level, holds, page_bytes, entries, ways, fully_associative });
    }
    any
}

/// Decodes leaf 2: one byte per descriptor. Caches are used only if leaf 4 describes none, TLBs only if leaf 18H
/// describes none.
fn by_descriptors(facts: &Facts, cpu: &Cpu, by_leaf_4: bool, by_leaf_18: bool, out: &mut Decoded) {
    let Some(found) = leaf(facts, 2, 0, &mut out.complaints) else { return };
    for byte in descriptor_bytes(found) {
        let Some(descriptor) = descriptors::lookup(byte, cpu.family, cpu.model) else {
            out.complain("cpuid.2.0", format_args!("descriptor {byte:#04x} is not in the manual's table"));
            continue;
        };
        for descriptor in [Some(descriptor), descriptors::second(byte)].into_iter().flatten() {
            match descriptor {
                Descriptor::Cache { level, holds, kib, ways, line } if !by_leaf_4 => {
                    let mut claim = Claim::new(Source::Cpuid, level, holds);
                    claim.size = Some(u64::from(kib) << 10);
                    claim.ways = Some(ways);
                    claim.line = Some(u64::from(line));
                    out.claim("cpuid.2.0", claim);
                }
                Descriptor::Tlb { level, holds, pages, entries, ways } if !by_leaf_18 => {
                    let (ways, fully_associative) = match ways {
                        Ways::Unknown => (None, false),
                        Ways::Full => (Some(entries), true),
                        Ways::Of(n) => (Some(n), false),
                    };
                    let (source, page_bytes) = (Source::Cpuid, pages.to_vec());
                    out.tlbs.push(TlbClaim {
                        source,
                        level,
                        holds,
                        page_bytes,
                        entries,
                        ways,
                        fully_associative,
                    });
                }
                Descriptor::UseLeaf18 if !by_leaf_18 => {
                    out.complain("cpuid.2.0", "refers to leaf 18H for the TLBs, but leaf 18H describes none");
                }
                Descriptor::UseLeaf4 if !by_leaf_4 => {
                    out.complain("cpuid.2.0", "refers to leaf 4 for the caches, but leaf 4 describes none");
                }
                _ => {}
            }
        }
    }
}

/// Returns the descriptors. AL is a call count, and a register with bit 31 set holds none.
fn descriptor_bytes(leaf: Leaf) -> impl Iterator<Item = u8> {
    [leaf.eax & !0xff, leaf.ebx, leaf.ecx, leaf.edx]
        .into_iter()
        .filter(|register| register >> 31 == 0)
        .flat_map(u32::to_le_bytes)
        .filter(|byte| *byte != 0)
}

/// Associativity field of leaves 8000_0006 and 8000_0019.
enum Associativity {
    Disabled,
    Ways(u32),
    Full,
    /// 9: "see leaf 8000_001D".
    Elsewhere,
    Reserved,
}

fn associativity(field: u32) -> Associativity {
    match field {
        0 => Associativity::Disabled,
        n @ 1..=4 => Associativity::Ways(n),
        5 => Associativity::Ways(6),
        6 => Associativity::Ways(8),
        8 => Associativity::Ways(16),
        9 => Associativity::Elsewhere,
        0xa => Associativity::Ways(32),
        0xb => Associativity::Ways(48),
        0xc => Associativity::Ways(64),
        0xd => Associativity::Ways(96),
        0xe => Associativity::Ways(128),
        0xf => Associativity::Full,
        _ => Associativity::Reserved,
    }
}

/// Decodes caches from leaves 8000_0005 and 8000_0006, if no newer leaf describes them.
fn legacy_caches(facts: &Facts, cpu: &Cpu, described: bool, out: &mut Decoded) {
    if described {
        return;
    }
    if let Some(found) =
        (cpu.extended >= 0x8000_0005).then(|| leaf(facts, 0x8000_0005, 0, &mut out.complaints)).flatten()
    {
        for (register, holds) in [(found.ecx, Holds::Data), (found.edx, Holds::Instructions)] {
            let mut claim = Claim::new(Source::Cpuid, 1, holds);
            claim.size = Some(u64::from(bits(register, 31, 24)) << 10).filter(|size| *size != 0);
            claim.line = Some(u64::from(bits(register, 7, 0))).filter(|line| *line != 0);
            match bits(register, 23, 16) {
                0 => {}
                0xff => claim.fully_associative = true,
                ways => claim.ways = Some(ways),
            }
            if claim.size.is_some() {
                out.claim("cpuid.80000005.0", claim);
            }
        }
    }
    if let Some(found) =
        (cpu.extended >= 0x8000_0006).then(|| leaf(facts, 0x8000_0006, 0, &mut out.complaints)).flatten()
    {
        let l2 = u64::from(bits(found.ecx, 31, 16)) << 10;
        // The size of level 3 is a lower bound, in units of 512 KiB.
        let l3 = u64::from(bits(found.edx, 31, 18)) << 19;
        for (level, register, size) in [(2, found.ecx, l2), (3, found.edx, l3)] {
            let mut claim = Claim::new(Source::Cpuid, level, Holds::Unified);
            claim.size = Some(size).filter(|size| *size != 0);
            claim.line = Some(u64::from(bits(register, 7, 0))).filter(|line| *line != 0);
            match associativity(bits(register, 15, 12)) {
                Associativity::Disabled => continue,
                Associativity::Ways(ways) => claim.ways = Some(ways),
                Associativity::Full => claim.fully_associative = true,
                Associativity::Elsewhere => {}
                Associativity::Reserved => out.complain(
                    "cpuid.80000006.0",
                    format_args!("associativity {} of level {level} is reserved", bits(register, 15, 12)),
                ),
            }
            if claim.size.is_some() {
                out.claim("cpuid.80000006.0", claim);
            }
        }
    }
}

/// Decodes TLBs from leaves 8000_0005 (level 1), 8000_0006 (level 2) and 8000_0019 (1 GiB pages).
fn legacy_tlbs(facts: &Facts, cpu: &Cpu, out: &mut Decoded) {
    // A 4 MiB page takes two entries of the large-page arrays, so these count as 2 MiB entries.
    let (small, large, giant) = (4u64 << 10, 2u64 << 20, 1u64 << 30);
    let mut read =
        |number: u32| (cpu.extended >= number).then(|| leaf(facts, number, 0, &mut out.complaints)).flatten();
    let (five, six, nineteen) = (read(0x8000_0005), read(0x8000_0006), read(0x8000_0019));
    if let Some(found) = five {
        for (register, page) in [(found.eax, large), (found.ebx, small)] {
            for (shift, holds) in [(0, Holds::Instructions), (16, Holds::Data)] {
                let entries = bits(register, shift + 7, shift);
                let field = bits(register, shift + 15, shift + 8);
                let ways = if field == 0xff { Associativity::Full } else { Associativity::Ways(field) };
                legacy_tlb("cpuid.80000005.0", 1, holds, page, entries, &ways, out);
            }
        }
    }
    let pairs = [
        (six.map(|leaf| leaf.eax), "cpuid.80000006.0", 2, large),
        (six.map(|leaf| leaf.ebx), "cpuid.80000006.0", 2, small),
        (nineteen.map(|leaf| leaf.eax), "cpuid.80000019.0", 1, giant),
        (nineteen.map(|leaf| leaf.ebx), "cpuid.80000019.0", 2, giant),
    ];
    for (register, fact, level, page) in pairs {
        let Some(register) = register else { continue };
        for (shift, holds) in [(0, Holds::Instructions), (16, Holds::Data)] {
            let entries = bits(register, shift + 11, shift);
            let field = associativity(bits(register, shift + 15, shift + 12));
            legacy_tlb(fact, level, holds, page, entries, &field, out);
        }
    }
}

fn legacy_tlb(
    fact: &str,
    level: u8,
    holds: Holds,
    page: u64,
    entries: u32,
    field: &Associativity,
    out: &mut Decoded,
) {
    let (ways, fully_associative) = match field {
        Associativity::Disabled | Associativity::Ways(0) => return,
        Associativity::Ways(ways) => (Some(*ways), false),
        Associativity::Full => (Some(entries), true),
        Associativity::Elsewhere => (None, false),
        Associativity::Reserved => {
            out.complain(fact, format_args!("associativity of the level {level} {holds} TLB is reserved"));
            (None, false)
        }
    };
    if entries == 0 {
        return;
    }
    let page_bytes = vec![page];
    let source = Source::Cpuid;
    out.tlbs.push(TlbClaim { source, level, holds, page_bytes, entries, ways, fully_associative });
}
