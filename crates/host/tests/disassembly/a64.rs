//! Decoder for the A64 instructions of the loops. Encodings: Arm Architecture Reference Manual, C4.1.

use super::check::{Instruction, Kind};

/// Decodes `code`, which begins at `address`.
pub fn decode(code: &[u8], address: u64) -> Vec<Instruction> {
    let (words, _) = code.as_chunks::<4>();
    let at = |n: usize| address + 4 * n as u64;
    words
        .iter()
        .enumerate()
        .map(|(n, word)| Instruction { at: at(n), kind: kind(u32::from_le_bytes(*word), at(n)) })
        .collect()
}

fn kind(word: u32, at: u64) -> Kind {
    let (rd, rn, rm) = (word & 31, word >> 5 & 31, word >> 16 & 31);
    // LDR Xt, [Xn, Xm]: size 11, opc 01, option 011, S 0.
    if word & 0xffe0_fc00 == 0xf860_6800 {
        return Kind::Load { to: rd, address: [rn, rm] };
    }
    // LDR and STR of one X register in any addressing form: size 11, bits 29:27 111, V 0, bits 25:24 00 or 01;
    // opc 01 loads and 00 stores.
    if word & 0xfe80_0000 == 0xf800_0000 {
        return match word >> 22 & 1 {
            1 => Kind::Memory { reads: 8, writes: 0 },
            _ => Kind::Memory { reads: 0, writes: 8 },
        };
    }
    // Loads and stores have op0 (bits 28:25) of the form x1x0. Their sizes are not decoded, because no loop may have
    // any of them.
    if word >> 25 & 0b0101 == 0b0100 {
        return Kind::Memory { reads: u32::MAX, writes: u32::MAX };
    }
    // SUB and SUBS Xd, Xn, #1.
    if word & 0xdfff_fc00 == 0xd100_0400 && rd == rn {
        return Kind::Decrement { register: rd };
    }
    // B.cond and CBZ, CBNZ: 19 bits of words.
    if word & 0xff00_0010 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
        return Kind::Branch { to: target(word >> 5, 19, at), conditional: true };
    }
    // TBZ, TBNZ: 14 bits.
    if word & 0x7e00_0000 == 0x3600_0000 {
        return Kind::Branch { to: target(word >> 5, 14, at), conditional: true };
    }
    // B: 26 bits.
    if word & 0xfc00_0000 == 0x1400_0000 {
        return Kind::Branch { to: target(word, 26, at), conditional: false };
    }
    Kind::Other { writes: vec![rd] }
}

/// Returns a branch's destination: a signed field of `bits` bits, in words.
fn target(field: u32, bits: u32, at: u64) -> u64 {
    let signed = (field << (32 - bits)).cast_signed() >> (32 - bits);
    at.wrapping_add_signed(4 * i64::from(signed))
}
