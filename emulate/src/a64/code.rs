//! Decoder of instructions.
//!
//! Encodings: Arm Architecture Reference Manual for A-profile, DDI 0487, C4.1 ("A64 instruction set encoding").

use crate::block::{Class, Instruction};

/// The kind of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Other,
    Branch,
    Load,
    Pair,
}

/// Decodes the kind. C4.1: bits 28:25 select the group. Loads and stores are x1x0; branches, exceptions and system
/// instructions 101x.
fn kind(word: u32) -> Kind {
    let group = word >> 25 & 0xf;
    if group & 0b0101 == 0b0100 {
        return load(word);
    }
    // In the branches' group, system instructions (barriers, hints, MSR, MRS, SYS) begin with 1101010100.
    let branch = group & 0b1110 == 0b1010 && word >> 22 != 0b11_0101_0100;
    if branch { Kind::Branch } else { Kind::Other }
}

/// Decodes the loads and stores. C4.1, "Loads and Stores": pairs have 101 in bits 29:27. Prefetches load nothing.
fn load(word: u32) -> Kind {
    if word >> 27 & 0b111 == 0b101 {
        return Kind::Pair;
    }
    let (size, simd, class) = (word >> 30, word >> 26 & 1, word >> 27 & 0b111);
    let prefetch = match class {
        // PRFM (literal): 11 011 0 00.
        0b011 => size == 0b11 && simd == 0 && word >> 24 & 3 == 0,
        // PRFM (register, unsigned offset): size 11, opc 10.
        0b111 => size == 0b11 && simd == 0 && word >> 22 & 3 == 0b10,
        _ => false,
    };
    if prefetch { Kind::Other } else { Kind::Load }
}

/// Returns whether it computes with registers (C4.1, "Data Processing -- Immediate", 100x, and "-- Register", x101).
/// Its result register is then in bits 4:0.
fn calculates(word: u32) -> bool {
    let group = word >> 25 & 0xf;
    group & 0b1110 == 0b1000 || group & 0b0111 == 0b0101
}

/// Returns its operand registers: bits 9:5, and 20:16 if there are two.
fn operands(word: u32) -> [Option<u32>; 2] {
    let two = word >> 25 & 0b0111 == 0b0101;
    [calculates(word).then_some(word >> 5 & 31), two.then_some(word >> 16 & 31)]
}

/// Decodes an instruction.
pub fn decode(word: u32) -> Instruction {
    let memory = |parts| Instruction::of(Class::Memory { parts, conditional: false });
    match kind(word) {
        Kind::Branch => Instruction::of(Class::Branch),
        Kind::Load => memory(1),
        // The halves of a pair.
        Kind::Pair => memory(2),
        Kind::Other => {
            let [first, second] = operands(word);
            let result = calculates(word).then_some(word & 31);
            Instruction { class: Class::Other, operands: [first, second, None], result }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Access, Block};

    fn block(words: impl IntoIterator<Item = u32>) -> Block {
        Block::decode(words.into_iter().map(decode))
    }

    #[test]
    fn instructions_are_of_the_kind_that_the_manual_says() {
        for (word, expected, name) in [
            (0xf862_6800, Kind::Load, "ldr x0, [x0, x2]"),
            (0xf940_0000, Kind::Load, "ldr x0, [x0]"),
            (0xf800_8420, Kind::Load, "str x0, [x1], #8"),
            (0x3940_0000, Kind::Load, "ldrb w0, [x0]"),
            (0x5800_0000, Kind::Load, "ldr x0, literal"),
            (0xa940_0440, Kind::Pair, "ldp x0, x1, [x2]"),
            (0xa900_0440, Kind::Pair, "stp x0, x1, [x2]"),
            (0xa9bf_7bfd, Kind::Pair, "stp x29, x30, [sp, #-16]!"),
            (0xf980_0000, Kind::Other, "prfm pldl1keep, [x0]"),
            (0xd800_0000, Kind::Other, "prfm pldl1keep, literal"),
            (0x8b02_0000, Kind::Other, "add x0, x0, x2"),
            (0xca02_0000, Kind::Other, "eor x0, x0, x2"),
            (0xd280_0000, Kind::Other, "mov x0, #0"),
            (0xd503_3fdf, Kind::Other, "isb"),
            (0xd503_399f, Kind::Other, "dsb ishld"),
            (0xd53b_e020, Kind::Other, "mrs x0, cntpct_el0"),
            (0xd50b_7e20, Kind::Other, "dc civac, x0"),
            (0x5400_0001, Kind::Branch, "b.ne"),
            (0x1400_0000, Kind::Branch, "b"),
            (0x9400_0000, Kind::Branch, "bl"),
            (0xb400_0000, Kind::Branch, "cbz x0"),
            (0x3600_0000, Kind::Branch, "tbz w0, #0"),
            (0xd65f_03c0, Kind::Branch, "ret"),
            (0xd69f_03e0, Kind::Branch, "eret"),
        ] {
            assert_eq!(kind(word), expected, "{name}");
        }
    }

    #[test]
    fn dependent_instruction_is_detected() {
        // add x0, x0, x2 twice; add x1, x1, #8; subs x3, x3, #1; eor x0, x4, x3; isb.
        let words = [0x8b02_0000, 0x8b02_0000, 0x9100_2021, 0xf100_0463, 0xca03_0080, 0xd503_3fdf];
        let found = block(words);
        assert_eq!((found.others, found.chained), (4, 2));
    }

    /// The turn of the cycle calibration's loop waits for the turn before it; a loop of independent additions does not.
    #[test]
    fn repeated_chain_is_detected() {
        // add x0, x0, x1 four times; subs x2, x2, #1; b.ne.
        let chain = [0x8b01_0000, 0x8b01_0000, 0x8b01_0000, 0x8b01_0000, 0xf100_0442, 0x5400_0001];
        let found = block(chain);
        assert_eq!((found.others, found.chained, found.carried, found.branch), (2, 3, true, true));
        // mov x0, x3 before the branch: the next turn needs that.
        let restarted = [0x8b01_0000, 0x8b01_0000, 0x8b01_0000, 0x8b01_0000, 0xaa03_03e0, 0x5400_0001];
        assert!(!block(restarted).carried);
        // subs x2, x2, #1; add x0, x0, x1 twice; b.ne: the first instruction is none of the chain.
        let counted = [0xf100_0442, 0x8b01_0000, 0x8b01_0000, 0x5400_0001];
        assert!(!block(counted).carried);
    }

    #[test]
    fn a_block_adds_up() {
        let words = [0xf940_0000, 0xca02_0000, 0xf900_0000, 0xa940_0440, 0xf100_0421, 0x5400_0001];
        let found = block(words);
        let accesses = [Access::Single, Access::Single, Access::First, Access::Last];
        assert_eq!((found.bytes, found.others, found.chained, found.branch), (24, 2, 0, true));
        assert_eq!(found.accesses, accesses);
    }
}
