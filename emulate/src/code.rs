//! Decoder of instruction blocks: instructions to charge, and memory accesses.
//!
//! Encodings: Arm Architecture Reference Manual for A-profile, DDI 0487, C4.1 ("A64 instruction set encoding").

/// A decoded block of consecutive instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Size in bytes.
    pub bytes: u64,
    /// Instructions other than loads, stores and branches, without those in `chained`.
    pub others: u64,
    /// Such instructions that need the result of the previous instruction: no core issues the two together.
    pub chained: u64,
    /// Whether its first instruction, one of `others`, needs the result of its last chained one, so that the block waits
    /// for itself if it is repeated.
    pub carried: bool,
    /// Whether it ends in a branch.
    pub branch: bool,
    /// Its accesses to memory, in order.
    pub accesses: Vec<Access>,
}

/// A memory access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// An independent access.
    Single,
    /// The first half of a pair, which the core makes as one access.
    First,
    /// The second half.
    Second,
}

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

impl Block {
    /// Decodes the instructions of a block.
    pub fn decode(words: impl Iterator<Item = u32>) -> Block {
        let mut block = Block::default();
        let mut result = None;
        // Operands of the first instruction, and the register of the last chained one.
        let (mut first, mut end) = ([None; 2], None);
        for word in words {
            if block.bytes == 0 {
                first = operands(word);
            }
            block.bytes += 4;
            block.branch = false;
            let before = result.take();
            match kind(word) {
                Kind::Other => {
                    let chained = before.is_some_and(|register| operands(word).contains(&Some(register)));
                    block.chained += u64::from(chained);
                    block.others += u64::from(!chained);
                    result = calculates(word).then_some(word & 31);
                    if chained {
                        end = result;
                    } else if result == end {
                        // Another value: it does not depend on the chain.
                        end = None;
                    }
                }
                Kind::Branch => block.branch = true,
                Kind::Load => block.accesses.push(Access::Single),
                Kind::Pair => block.accesses.extend([Access::First, Access::Second]),
            }
        }
        block.carried = end.is_some() && first.contains(&end);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let block = Block::decode(words.into_iter());
        assert_eq!((block.others, block.chained), (4, 2));
    }

    /// The turn of the cycle calibration's loop waits for the turn before it; a loop of independent additions does not.
    #[test]
    fn repeated_chain_is_detected() {
        // add x0, x0, x1 four times; subs x2, x2, #1; b.ne.
        let chain = [0x8b01_0000, 0x8b01_0000, 0x8b01_0000, 0x8b01_0000, 0xf100_0442, 0x5400_0001];
        let block = Block::decode(chain.into_iter());
        assert_eq!((block.others, block.chained, block.carried, block.branch), (2, 3, true, true));
        // mov x0, x3 before the branch: the next turn needs that.
        let restarted = [0x8b01_0000, 0x8b01_0000, 0x8b01_0000, 0x8b01_0000, 0xaa03_03e0, 0x5400_0001];
        assert!(!Block::decode(restarted.into_iter()).carried);
        // subs x2, x2, #1; add x0, x0, x1 twice; b.ne: the first instruction is none of the chain.
        let counted = [0xf100_0442, 0x8b01_0000, 0x8b01_0000, 0x5400_0001];
        assert!(!Block::decode(counted.into_iter()).carried);
    }

    #[test]
    fn a_block_adds_up() {
        let words = [0xf940_0000, 0xca02_0000, 0xf900_0000, 0xa940_0440, 0xf100_0421, 0x5400_0001];
        let block = Block::decode(words.into_iter());
        let accesses = [Access::Single, Access::Single, Access::First, Access::Second];
        assert_eq!((block.bytes, block.others, block.chained, block.branch), (24, 2, 0, true));
        assert_eq!(block.accesses, accesses);
    }
}
