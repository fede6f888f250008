//! Decoder of instructions.
//!
//! Encodings: DDI 0406C, A5 ("ARM Instruction Set Encoding"); those of ARMv6 are a part of them, except for the barriers,
//! which are operations of coprocessor 15. The images have no Thumb code and no floating point.

use crate::block::{Class, Instruction};

/// Number of the program counter among the registers.
const PC: u32 = 15;

/// Returns the register in bits `from + 3` to `from`.
fn register(word: u32, from: u32) -> u32 {
    word >> from & 0xf
}

fn bit(word: u32, number: u32) -> bool {
    word >> number & 1 == 1
}

/// Decodes an instruction.
pub fn decode(word: u32) -> Instruction {
    let conditional = word >> 28 < 0xe;
    let memory = |parts| Instruction::of(Class::Memory { parts, conditional });
    if word >> 28 == 0xf {
        return Instruction::of(unconditional(word));
    }
    match word >> 25 & 7 {
        // A5.2: bits 7 and 4 mark multiplies, synchronisation and extra loads; else data processing.
        0b000 if bit(word, 7) && bit(word, 4) => match word >> 5 & 3 {
            0b00 if !bit(word, 24) => multiply(word),
            // SWP and SWPB read and write; LDREXD and STREXD (bits 22:20 01x) have two words.
            0b00 if !bit(word, 23) => memory(2),
            0b00 => memory(if word >> 21 & 3 == 0b01 { 2 } else { 1 }),
            // LDRD and STRD are the signed "loads" with the store bit.
            0b10 | 0b11 if !bit(word, 20) => memory(2),
            _ => memory(1),
        },
        0b000 | 0b001 => processing(word),
        0b011 if bit(word, 4) => Instruction::of(Class::Other),
        // A load of the program counter is a load; the branch is seen by where the next block begins.
        0b010 | 0b011 => memory(1),
        0b100 => memory((word & 0xffff).count_ones() as usize),
        0b101 => Instruction::of(Class::Branch),
        // Coprocessor loads and stores are not in the images; MRRC and MCRR have bits 27:21 1100010.
        0b110 if word >> 21 & 0x7f != 0b110_0010 => memory(1),
        // SVC.
        0b111 if bit(word, 24) => Instruction::of(Class::Branch),
        _ => Instruction::of(Class::Other),
    }
}

/// A5.7: BLX is 101; SRS and RFE 100; preloads, barriers, CPS and SETEND load nothing.
fn unconditional(word: u32) -> Class {
    match word >> 25 & 7 {
        0b101 => Class::Branch,
        0b100 => Class::Memory { parts: 2, conditional: false },
        _ => Class::Other,
    }
}

/// A5.2.5: the result is in bits 19:16 (of a long one, its high half), the operands in 3:0, 11:8 and, if it adds, 15:12.
fn multiply(word: u32) -> Instruction {
    let added = (word >> 21 & 7 != 0).then_some(register(word, 12));
    let operands = [Some(register(word, 0)), Some(register(word, 8)), added];
    Instruction { class: Class::Other, operands, result: Some(register(word, 16)) }
}

/// A5.2.1 to A5.2.3 and A5.2.11, A5.2.12: data processing, and what its comparisons without flags stand for instead.
fn processing(word: u32) -> Instruction {
    let (immediate, operation) = (bit(word, 25), word >> 21 & 0xf);
    // TST, TEQ, CMP and CMN have no result, and always set flags.
    let compares = operation & 0b1100 == 0b1000;
    if compares && !bit(word, 20) {
        return miscellaneous(word);
    }
    // MOV and MVN, and the shifts among them, have one operand.
    let moves = matches!(operation, 0b1101 | 0b1111);
    let shifted = (!immediate).then(|| register(word, 0));
    let by = (!immediate && bit(word, 4)).then(|| register(word, 8));
    let result = (!compares).then(|| register(word, 12));
    if result == Some(PC) {
        return Instruction::of(Class::Branch);
    }
    let operands = [(!moves).then(|| register(word, 16)), shifted, by];
    Instruction { class: Class::Other, operands, result }
}

/// A5.2.12 and A5.2.11: BX and BLX (0001 and 0011 in bits 7:4, 01 in 22:21) branch; MOVW and MOVT have a result; the rest
/// are MRS, MSR, CLZ, hints and the like, whose registers do not matter.
fn miscellaneous(word: u32) -> Instruction {
    if bit(word, 25) {
        // MOVW is 10000 in bits 24:20; MOVT, 10100, keeps the other half.
        let operands = [(word >> 20 & 0x1f == 0b10100).then(|| register(word, 12)), None, None];
        let moves = matches!(word >> 20 & 0x1f, 0b10000 | 0b10100);
        return Instruction { class: Class::Other, operands, result: moves.then(|| register(word, 12)) };
    }
    let branches = word >> 21 & 3 == 0b01 && matches!(word >> 4 & 0xf, 0b0001 | 0b0010 | 0b0011);
    Instruction::of(if branches { Class::Branch } else { Class::Other })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Access, Block};

    fn block(words: impl IntoIterator<Item = u32>) -> Block {
        Block::decode(words.into_iter().map(decode))
    }

    fn memory(parts: usize) -> Class {
        Class::Memory { parts, conditional: false }
    }

    #[test]
    fn instructions_are_of_the_class_that_the_manual_says() {
        for (word, expected, name) in [
            (0xe791_0000, memory(1), "ldr r0, [r1, r0]"),
            (0xe591_0004, memory(1), "ldr r0, [r1, #4]"),
            (0xe5c1_0000, memory(1), "strb r0, [r1]"),
            (0xe49d_f004, memory(1), "ldr pc, [sp], #4"),
            (0xe1d1_00b0, memory(1), "ldrh r0, [r1]"),
            (0xe1d1_00d0, memory(1), "ldrsb r0, [r1]"),
            (0xe1c1_00d0, memory(2), "ldrd r0, r1, [r1]"),
            (0xe1c1_00f0, memory(2), "strd r0, r1, [r1]"),
            (0xe891_000f, memory(4), "ldm r1, {r0-r3}"),
            (0xe92d_4ff0, memory(9), "push {r4-r11, lr}"),
            (0xe193_0f9f, memory(1), "ldrex r0, [r3]"),
            (0xe1b3_0f9f, memory(2), "ldrexd r0, r1, [r3]"),
            (0x1791_0000, Class::Memory { parts: 1, conditional: true }, "ldrne r0, [r1, r0]"),
            (0xe080_0001, Class::Other, "add r0, r0, r1"),
            (0xe252_2001, Class::Other, "subs r2, r2, #1"),
            (0xe350_0000, Class::Other, "cmp r0, #0"),
            (0xe000_0291, Class::Other, "mul r0, r1, r2"),
            (0xe30f_0fff, Class::Other, "movw r0, #0xffff"),
            (0xe16f_0f10, Class::Other, "clz r0, r0"),
            (0xe10f_5000, Class::Other, "mrs r5, cpsr"),
            (0xe7e0_0050, Class::Other, "ubfx r0, r0, #0, #1"),
            (0xee07_0f9a, Class::Other, "mcr p15, 0, r0, c7, c10, 4"),
            (0xee1f_0f3c, Class::Other, "mrc p15, 0, r0, c15, c12, 1"),
            (0xec51_0f0e, Class::Other, "mrrc p15, 0, r0, r1, c14"),
            (0xf57f_f04f, Class::Other, "dsb"),
            (0xf57f_f06f, Class::Other, "isb"),
            (0xf5d1_f000, Class::Other, "pld [r1]"),
            (0xf10c_0080, Class::Other, "cpsid i"),
            (0x1aff_fffd, Class::Branch, "bne"),
            (0xeb00_0000, Class::Branch, "bl"),
            (0xfa00_0000, Class::Branch, "blx"),
            (0xe12f_ff1e, Class::Branch, "bx lr"),
            (0xe12f_ff33, Class::Branch, "blx r3"),
            (0xe1a0_f00e, Class::Branch, "mov pc, lr"),
            (0xe08f_f100, Class::Branch, "add pc, pc, r0, lsl #2"),
        ] {
            assert_eq!(decode(word).class, expected, "{name}");
        }
    }

    /// The turn of the cycle calibration's loop waits for the turn before it; a loop of independent additions does not.
    #[test]
    fn repeated_chain_is_detected() {
        // add r0, r0, r1 four times; subs r2, r2, #1; bne.
        let add = 0xe080_0001;
        let found = block([add, add, add, add, 0xe252_2001, 0x1aff_fff9]);
        assert_eq!((found.others, found.chained, found.carried, found.branch), (2, 3, true, true));
        // mov r0, r3 before the branch: the next turn needs that.
        assert!(!block([add, add, add, add, 0xe1a0_0003, 0x1aff_fff9]).carried);
        // add r0, r1, r4, lsl r0 needs it as the amount of a shift; cmp r0, #0 has no result.
        assert_eq!(block([add, 0xe081_0014, 0xe350_0000, 0xe080_0001]).chained, 2);
        // mov r0, r1 needs nothing of before; mul r3, r0, r2 and mla r3, r1, r2, r3 do.
        assert_eq!(block([add, 0xe1a0_0001, 0xe003_0290, 0xe023_3291]).chained, 2);
        // movw r0, #1; movt r0, #1.
        assert_eq!(block([add, 0xe300_0001, 0xe340_0001]).chained, 1);
    }

    #[test]
    fn a_block_adds_up() {
        // ldr r0, [r1, r0]; ldm r1, {r0-r3}; stm r2, {r0-r3}; subs; bne.
        let found = block([0xe791_0000, 0xe891_000f, 0xe882_000f, 0xe252_2001, 0x1aff_fff9]);
        assert_eq!((found.bytes, found.others, found.chained, found.branch), (20, 1, 0, true));
        let group = [Access::First, Access::Next, Access::Next, Access::Last];
        assert_eq!(found.accesses, [&[Access::Single][..], &group, &group].concat());
    }
}
