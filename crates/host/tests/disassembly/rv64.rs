//! Decoder for the RV64GC instructions of the loops. Encodings: The RISC-V Instruction Set Manual, volume I, chapters "RV32/64G
//! Instruction Set Listings" and "C".

use super::check::{Instruction, Kind};

/// Decodes `code`, which begins at `address`. An addition and the load from its sum to the same register are one load from the sum
/// of two registers, because RISC-V has no instruction for both.
pub fn decode(code: &[u8], address: u64) -> Vec<Instruction> {
    let mut found: Vec<(Instruction, Option<Sum>)> = Vec::new();
    let mut place = 0;
    while let Some(&[low, high]) = code.get(place..place + 2) {
        let half = u16::from_le_bytes([low, high]);
        let at = address + place as u64;
        let decoded = if half & 3 == 3 {
            let Some(&[c, d]) = code.get(place + 2..place + 4) else { break };
            place += 4;
            word(u32::from_le_bytes([low, high, c, d]), at)
        } else {
            place += 2;
            compressed(u32::from(half), at)
        };
        let before = found.last().and_then(|(instruction, sum)| Some((instruction.at, sum.as_ref()?)));
        match (&decoded, before) {
            (Decoded::LoadAt { to, from }, Some((at, sum))) if sum.to == *from && to == from => {
                let kind = Kind::Load { to: *to, address: sum.of };
                found.pop();
                found.push((Instruction { at, kind }, None));
            }
            _ => found.push(decoded.instruction(at)),
        }
    }
    found.into_iter().map(|(instruction, _)| instruction).collect()
}

/// An addition of two registers.
struct Sum {
    to: u32,
    of: [u32; 2],
}

/// An instruction that may be a part of a load.
enum Decoded {
    Sum(Sum),
    /// A load of 8 bytes without displacement.
    LoadAt {
        to: u32,
        from: u32,
    },
    Other(Kind),
}

impl Decoded {
    fn instruction(self, at: u64) -> (Instruction, Option<Sum>) {
        match self {
            Decoded::Sum(sum) => (Instruction { at, kind: Kind::Other { writes: vec![sum.to] } }, Some(sum)),
            Decoded::LoadAt { .. } => (Instruction { at, kind: Kind::Memory { reads: 8, writes: 0 } }, None),
            Decoded::Other(kind) => (Instruction { at, kind }, None),
        }
    }
}

/// Accesses whose sizes are not decoded, because no loop may have any of them.
const MEMORY: Decoded = Decoded::Other(Kind::Memory { reads: u32::MAX, writes: u32::MAX });
const LOAD: Decoded = Decoded::Other(Kind::Memory { reads: 8, writes: 0 });
const STORE: Decoded = Decoded::Other(Kind::Memory { reads: 0, writes: 8 });

fn other(register: u32) -> Decoded {
    Decoded::Other(Kind::Other { writes: vec![register] })
}

fn branch(at: u64, offset: i32, conditional: bool) -> Decoded {
    Decoded::Other(Kind::Branch { to: at.wrapping_add_signed(offset.into()), conditional })
}

/// Returns the sign-extended number whose bits are those of `of`, each (from, to, count).
fn bits(of: u32, fields: &[(u32, u32, u32)], width: u32) -> i32 {
    let all = fields.iter().fold(0, |all, &(from, to, count)| all | (of >> from & ((1 << count) - 1)) << to);
    (all << (32 - width)).cast_signed() >> (32 - width)
}

fn word(word: u32, at: u64) -> Decoded {
    let (rd, rs1, rs2) = (word >> 7 & 31, word >> 15 & 31, word >> 20 & 31);
    match (word & 0x7f, word >> 12 & 7) {
        (0x03, 3) if word >> 20 == 0 => Decoded::LoadAt { to: rd, from: rs1 },
        (0x03, 3) => LOAD,
        (0x23, 3) => STORE,
        // Other loads and stores, those of floating point, and atomics.
        (0x03 | 0x23 | 0x07 | 0x27 | 0x2f, _) => MEMORY,
        (0x33, 0) if word >> 25 == 0 => Decoded::Sum(Sum { to: rd, of: [rs1, rs2] }),
        // ADDI rd, rd, -1.
        (0x13, 0) if rd == rs1 && word >> 20 == 0xfff => Decoded::Other(Kind::Decrement { register: rd }),
        (0x63, _) => branch(at, bits(word, &[(8, 1, 4), (25, 5, 6), (7, 11, 1), (31, 12, 1)], 13), true),
        (0x6f, _) => branch(at, bits(word, &[(21, 1, 10), (20, 11, 1), (12, 12, 8), (31, 20, 1)], 21), false),
        _ => other(rd),
    }
}

fn compressed(half: u32, at: u64) -> Decoded {
    // Three bits name registers 8 to 15.
    let (rd, rs2, short) = (half >> 7 & 31, half >> 2 & 31, |from: u32| 8 + (half >> from & 7));
    match (half & 3, half >> 13) {
        // C.LD; its displacement is in bits 5, 6 and 10 to 12.
        (0, 3) if half & 0x1c60 == 0 => Decoded::LoadAt { to: short(2), from: short(7) },
        (0, 3) | (2, 3) => LOAD,
        (0, 7) | (2, 7) => STORE,
        (0, 1 | 2 | 5 | 6) | (2, 1 | 2 | 5 | 6) => MEMORY,
        // C.ADDI with all bits of the immediate.
        (1, 0) if half & 0x107c == 0x107c => Decoded::Other(Kind::Decrement { register: rd }),
        (1, 5) => branch(
            at,
            bits(
                half,
                &[(3, 1, 3), (11, 4, 1), (2, 5, 1), (7, 6, 1), (6, 7, 1), (9, 8, 2), (8, 10, 1), (12, 11, 1)],
                12,
            ),
            false,
        ),
        (1, 6 | 7) => {
            branch(at, bits(half, &[(3, 1, 2), (10, 3, 2), (2, 5, 1), (5, 6, 2), (12, 8, 1)], 9), true)
        }
        (1, 4) => other(short(7)),
        // C.ADD.
        (2, 4) if half >> 12 & 1 == 1 && rs2 != 0 => Decoded::Sum(Sum { to: rd, of: [rd, rs2] }),
        (0, _) => other(short(2)),
        _ => other(rd),
    }
}
