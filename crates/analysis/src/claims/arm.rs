//! The ARM identification registers: `CTR_EL0`, `CLIDR_EL1`, `CCSIDR_EL1`, and the Cache Type
//! Register of the processors before ARMv7.
//!
//! Sources: Arm Architecture Reference Manual for A-profile (DDI 0487), D24.2, for the first three;
//! ARM Architecture Reference Manual (DDI 0100I), B6.6.2, and ARM1176JZF-S Technical Reference Manual
//! (DDI 0301H), 3.2.3, for the last.

use super::{Claim, Decoded, Facts, Holds, Source};

pub(super) fn decode(facts: &Facts, out: &mut Decoded) {
    if let Some(ctr) = facts.int("arm.ctr_el0", &mut out.complaints) {
        cache_type("arm.ctr_el0", ctr, out);
    }
    if let Some(ctr) = facts.int("arm.ctr", &mut out.complaints) {
        match ctr >> 29 {
            0 => cache_type_before_v7(ctr, out),
            0b100 => cache_type("arm.ctr", ctr, out),
            format => out.complain("arm.ctr", format_args!("format {format:#b} in bits 31:29 is unknown")),
        }
    }
    cache_sizes(facts, out);
}

/// `CTR_EL0` and the ARMv7 CTR: the smallest lines, in log2 of 4-byte words.
fn cache_type(fact: &str, ctr: u64, out: &mut Decoded) {
    for (shift, holds) in [(16, Holds::Data), (0, Holds::Instructions)] {
        let mut claim = Claim::new(Source::Ctr, 1, holds);
        claim.line = Some(4 << (ctr >> shift & 0xf));
        out.claim(fact, claim);
    }
}

/// Bits 24 (separate), 23:12 (data or unified) and 11:0 (instructions).
fn cache_type_before_v7(ctr: u64, out: &mut Decoded) {
    let separate = ctr >> 24 & 1 == 1;
    let sides: &[(u64, Holds)] = if separate {
        &[(ctr >> 12 & 0xfff, Holds::Data), (ctr & 0xfff, Holds::Instructions)]
    } else {
        &[(ctr >> 12 & 0xfff, Holds::Unified)]
    };
    for (field, holds) in sides {
        let (size, associativity, m, length) = (field >> 6 & 0xf, field >> 3 & 7, field >> 2 & 1, field & 3);
        // M = 1 with associativity 0 means no cache. Otherwise M selects 3 instead of 2 as the multiplier.
        if m == 1 && associativity == 0 {
            continue;
        }
        let mut claim = Claim::new(Source::Ctr, 1, *holds);
        claim.size = Some((2 + m) << (size + 8));
        claim.ways = Some(((2 + m as u32) << associativity) >> 1);
        claim.line = Some(8 << length);
        out.claim("arm.ctr", claim);
    }
}

/// Decodes `CLIDR_EL1`, which lists the levels, and `CCSIDR_EL1`, which describes each.
fn cache_sizes(facts: &Facts, out: &mut Decoded) {
    const PREFIX: &str = "arm.ccsidr_el1.";
    let levels = facts.numbers(PREFIX);
    let clidr = facts.int("arm.clidr_el1", &mut out.complaints);
    if clidr.is_none() && !levels.is_empty() {
        out.complain(
            "arm.clidr_el1",
            "is missing, so the kind of each level is inferred from the CCSIDR facts",
        );
    }
    for level in 1..=7u8 {
        let kind = clidr.map(|clidr| clidr >> (3 * (level - 1)) & 7);
        let fact = |side: &str| format!("{PREFIX}{level}.{side}");
        let reported = |side: &str| facts.get(&fact(side)).is_some();
        let both = [(Holds::Data, "data"), (Holds::Instructions, "instructions")];
        let sides: &[(Holds, &str)] = match kind {
            Some(0) => {
                if reported("data") || reported("instructions") {
                    out.complain(
                        "arm.clidr_el1",
                        format_args!("has no level {level}, yet CCSIDR was read for it"),
                    );
                }
                // Ctype 0 ends the list: "no caches that can be managed beyond".
                break;
            }
            Some(1) => &both[1..],
            Some(2) => &both[..1],
            Some(3) => &both,
            Some(4) => &[(Holds::Unified, "data")],
            Some(kind) => {
                out.complain("arm.clidr_el1", format_args!("type {kind} of level {level} is reserved"));
                continue;
            }
            None if reported("instructions") => &both,
            None => &[(Holds::Unified, "data")],
        };
        for (holds, side) in sides {
            one_size(facts, level, *holds, &fact(side), out);
        }
    }
    if let Some(beyond) = levels.iter().find(|level| !(1..=7).contains(*level)) {
        out.complain(&format!("{PREFIX}{beyond}"), "levels are 1 to 7");
    }
}

fn one_size(facts: &Facts, level: u8, holds: Holds, fact: &str, out: &mut Decoded) {
    let Some(value) = facts.int(fact, &mut out.complaints) else { return };
    // ID_AA64MMFR2_EL1.CCIDX: 1 is the 64-bit layout.
    let (ways, sets) = match facts.int("arm.ccidx", &mut out.complaints).unwrap_or(0) {
        0 if value >> 32 == 0 => (value >> 3 & 0x3ff, value >> 13 & 0x7fff),
        0 => {
            out.complain(fact, "has bits above 31 in the 32-bit layout: is arm.ccidx missing?");
            return;
        }
        1 => (value >> 3 & 0x1f_ffff, value >> 32 & 0xff_ffff),
        layout => {
            out.complain("arm.ccidx", format_args!("layout {layout} is unknown"));
            return;
        }
    };
    let (ways, sets) = (ways as u32 + 1, sets + 1);
    if ways == 1 && sets == 1 {
        // Since Linux 6.3, KVM returns this to hide the host's geometry from guests.
        out.complain(fact, "describes one set of one way: a hypervisor hides the geometry");
        return;
    }
    let mut claim = Claim::new(Source::Ccsidr, level, holds);
    claim.line = Some(16 << (value & 7));
    claim.ways = Some(ways);
    claim.sets = Some(sets);
    out.claim(fact, claim);
}
