//! What the instruction at the end of a block does, as far as calls are concerned.
//!
//! Sources: AArch64: DDI 0487, C4.1.66 (unconditional branch, register and immediate), C6.2 (ERET, ERETAA, ERETAB). ARM and Thumb:
//! DDI 0406, A5 and A6.
//! RISC-V: the unprivileged ISA, 2.5, with the hints of its table 3 for return-address stacks, and the C extension. x86-64: the
//! instruction set reference of Intel's manual, CALL, JMP, RET.

/// Functions of the kernel for programs of 32-bit ARM (Documentation/arch/arm/kernel_user_helpers.rst). QEMU executes them as one
/// instruction each, which returns.
const KERNEL_HELPERS: u64 = 0xffff_0000;

/// How a block of instructions ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// A call: it keeps the address after the block to return to.
    Call,
    /// A return, by the instructions that compilers use for it and for nothing else.
    Return,
    /// The end of an exception: execution goes on where it was interrupted.
    Resume,
    /// Another branch whose target is not in the instruction.
    Jump,
    /// A branch whose target is in it, or none.
    Other,
}

impl Branch {
    /// Returns how a block ends. `target` is QEMU's name of the instruction set; the block begins at `pc`.
    #[must_use]
    pub fn of(target: &str, pc: u64, block: &[&[u8]]) -> Branch {
        let Some(last) = block.last() else { return Branch::Other };
        match target {
            "arm" if pc >= KERNEL_HELPERS => Branch::Return,
            "aarch64" => word(last).map_or(Branch::Other, aarch64),
            "arm" if is_thumb(pc, block) => thumb(last),
            "arm" => {
                let before = block.len().checked_sub(2).and_then(|at| word(block[at]));
                word(last).map_or(Branch::Other, |of| arm(of, before))
            }
            "riscv64" => riscv(last),
            "x86_64" => x86(last),
            _ => Branch::Other,
        }
    }
}

/// Returns an instruction of four bytes.
fn word(code: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*code.first_chunk()?)).filter(|_| code.len() == 4)
}

fn half(code: &[u8]) -> Option<u32> {
    code.first_chunk().map(|two| u16::from_le_bytes(*two).into())
}

fn aarch64(of: u32) -> Branch {
    // Bits 24 and 11 are those of pointer authentication, which has the modifier in the lowest five bits.
    let register = of & 0xfe9f_0000 == 0xd61f_0000;
    if of & 0xffff_f3e0 == 0xd69f_03e0 {
        return Branch::Resume;
    }
    match (of >> 26, (of >> 21) & 3) {
        (0b10_0101, _) => Branch::Call,
        (_, 1) if register => Branch::Call,
        (_, 2) if register => Branch::Return,
        (_, 0) if register => Branch::Jump,
        _ => Branch::Other,
    }
}

/// Returns whether a block of 32-bit ARM is Thumb code: QEMU does not tell. Thumb has instructions of two bytes, and the first
/// half of one with four is 0xe800 at least. A single instruction of four bytes may be both.
fn is_thumb(pc: u64, block: &[&[u8]]) -> bool {
    let is_long = |code: &&[u8]| half(code).is_some_and(|first| first >= 0xe800);
    if pc & 2 != 0 || block.iter().any(|code| code.len() == 2) {
        return true;
    }
    match block {
        [single] if is_long(single) => is_thumb_alone(single),
        _ => block.iter().all(is_long),
    }
}

fn is_thumb_alone(code: &[u8]) -> bool {
    let Some(of) = word(code) else { return true };
    let (first, second) = (of & 0xffff, of >> 16);
    let has_prefix = first & 0xf800 == 0xf000;
    // B.W, and BLX of a near address. As ARM code they would be conditional calls, and LDM of SP and LR.
    if has_prefix && (second & 0xc000 == 0x8000 || second & 0xf801 == 0xe800) {
        return true;
    }
    match (arm(of, None), thumb(code)) {
        (Branch::Other, _) => true,
        (_, Branch::Other) => false,
        // LDR PC and MOV PC. As Thumb code they would be BLX of addresses that are some MB away.
        _ => second & 0xf000 != 0xe000,
    }
}

fn arm(of: u32, before: Option<u32>) -> Branch {
    const PC: u32 = 15;
    // MOV LR, PC: the address of the instruction after the next one, before BLX was there.
    let is_linked = before.is_some_and(|before| before & 0x0fff_ffff == 0x01a0_e00f);
    let (destination, from) = (of >> 12 & 15, of & 15);
    let kind = if of >> 25 == 0b111_1101 || of >> 24 & 15 == 0b1011 || of & 0x0fff_fff0 == 0x012f_ff30 {
        // BLX to Thumb code, BL, BLX of a register.
        return Branch::Call;
    } else if of & 0x0fff_fff0 == 0x012f_ff10 || of & 0x0fff_fff0 == 0x01a0_f000 {
        // BX, MOV PC.
        if from == 14 { Branch::Return } else { Branch::Jump }
    } else if of >> 25 & 7 == 0b100 && of & (1 << 20 | 1 << PC) == 1 << 20 | 1 << PC {
        // LDM with PC.
        Branch::Return
    } else if of >> 26 & 3 == 0b01 && of & 1 << 20 != 0 && destination == PC {
        // LDR PC: from the stack, with an increment, it is a POP.
        if of & 0x0fff_ffff == 0x049d_f004 { Branch::Return } else { Branch::Jump }
    } else if of >> 26 & 3 == 0 && destination == PC && of >> 23 & 3 != 0b10 && of & 0x90 != 0x90 {
        // Arithmetic whose result is PC.
        Branch::Jump
    } else {
        Branch::Other
    };
    if is_linked && kind != Branch::Other { Branch::Call } else { kind }
}

fn thumb(code: &[u8]) -> Branch {
    let Some(first) = half(code) else { return Branch::Other };
    let Some(second) = code.get(2..).and_then(half) else {
        return match first {
            // BLX and BX of a register; POP with PC; MOV PC.
            _ if first & 0xff87 == 0x4780 => Branch::Call,
            _ if first & 0xff87 == 0x4700 => {
                if first >> 3 & 15 == 14 {
                    Branch::Return
                } else {
                    Branch::Jump
                }
            }
            _ if first & 0xff00 == 0xbd00 => Branch::Return,
            _ if first & 0xff87 == 0x4687 => {
                if first >> 3 & 15 == 14 {
                    Branch::Return
                } else {
                    Branch::Jump
                }
            }
            _ => Branch::Other,
        };
    };
    match (first, second) {
        // BL, and BLX to ARM code.
        _ if first & 0xf800 == 0xf000 && second & 0xc000 == 0xc000 => Branch::Call,
        // LDMIA and LDMDB with PC; LDR PC, from the stack with an increment or otherwise; TBB and TBH.
        _ if first & 0xfe50 == 0xe810
            && second & 0x8000 != 0
            && first & 0x0180 != 0
            && first & 0x0180 != 0x0180 =>
        {
            Branch::Return
        }
        (0xf85d, 0xfb04) => Branch::Return,
        _ if first & 0xff70 == 0xf850 && second & 0xf000 == 0xf000 => Branch::Jump,
        _ if first & 0xfff0 == 0xe8d0 && second & 0xffe0 == 0xf000 => Branch::Jump,
        _ => Branch::Other,
    }
}

fn riscv(code: &[u8]) -> Branch {
    // x1, and x5 that routines for saving registers use.
    let links = |register: u32| register == 1 || register == 5;
    let by_hints = |to: u32, from: u32| match (links(to), links(from)) {
        (true, _) => Branch::Call,
        (false, true) => Branch::Return,
        (false, false) => Branch::Jump,
    };
    if let Some(of) = word(code) {
        let (to, from) = (of >> 7 & 31, of >> 15 & 31);
        return match of & 0x7f {
            0x6f if links(to) => Branch::Call,
            0x67 => by_hints(to, from),
            _ => Branch::Other,
        };
    }
    let Some(of) = half(code) else { return Branch::Other };
    match (of & 0xf07f, of >> 7 & 31) {
        (0x8002, from) if from != 0 => by_hints(0, from),
        (0x9002, from) if from != 0 => by_hints(1, from),
        _ => Branch::Other,
    }
}

fn x86(code: &[u8]) -> Branch {
    let is_prefix =
        |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3);
    let mut rest = code.iter().copied().skip_while(|byte| is_prefix(byte));
    match (rest.next(), rest.next().map(|byte| byte >> 3 & 7)) {
        (Some(0xe8), _) | (Some(0xff), Some(2 | 3)) => Branch::Call,
        (Some(0xc2 | 0xc3 | 0xca | 0xcb), _) => Branch::Return,
        (Some(0xff), Some(4 | 5)) => Branch::Jump,
        _ => Branch::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::Branch::{Call, Jump, Other, Resume, Return};
    use super::*;

    fn of(target: &str, code: &[&[u8]]) -> Branch {
        Branch::of(target, 0x1000, code)
    }

    /// Words as assembled by binutils.
    #[test]
    fn instructions_of_four_bytes() {
        let nop = 0xe1a0_0000u32;
        for (target, before, last, kind) in [
            ("aarch64", 0, 0x9400_0001u32, Call),
            ("aarch64", 0, 0xd63f_0260, Call),
            ("aarch64", 0, 0xd73f_0801, Call),
            ("aarch64", 0, 0xd63f_081f, Call),
            ("aarch64", 0, 0xd65f_03c0, Return),
            ("aarch64", 0, 0xd65f_0bff, Return),
            ("aarch64", 0, 0xd69f_03e0, Resume),
            ("aarch64", 0, 0xd69f_0bff, Resume),
            ("aarch64", 0, 0xd69f_0fff, Resume),
            ("aarch64", 0, 0xd61f_0220, Jump),
            ("aarch64", 0, 0x1400_0010, Other),
            ("aarch64", 0, 0x5400_0040, Other),
            ("aarch64", 0, 0xd400_0001, Other),
            ("arm", nop, 0xeb00_0002, Call),
            ("arm", nop, 0x1b00_0002, Call),
            ("arm", nop, 0xfa00_0002, Call),
            ("arm", nop, 0xe12f_ff33, Call),
            ("arm", 0xe1a0_e00f, 0xe12f_ff13, Call),
            ("arm", 0xe1a0_e00f, 0xe597_f000, Call),
            ("arm", nop, 0xe12f_ff1e, Return),
            ("arm", nop, 0x012f_ff1e, Return),
            ("arm", nop, 0xe1a0_f00e, Return),
            ("arm", nop, 0xe8bd_8010, Return),
            ("arm", nop, 0xe49d_f004, Return),
            ("arm", nop, 0xe91b_a800, Return),
            ("arm", nop, 0xe12f_ff1c, Jump),
            ("arm", nop, 0xe5bc_ffec, Jump),
            ("arm", nop, 0xe79f_f102, Jump),
            ("arm", nop, 0xe08f_f102, Jump),
            ("arm", nop, 0xea00_0001, Other),
            ("arm", nop, 0xef00_0000, Other),
            ("arm", nop, 0xe352_f000, Other),
            ("riscv64", 0, 0x0000_00ef, Call),
            ("riscv64", 0, 0x0000_02ef, Call),
            ("riscv64", 0, 0x0007_80e7, Call),
            ("riscv64", 0, 0x0000_8067, Return),
            ("riscv64", 0, 0x0002_8067, Return),
            ("riscv64", 0, 0x000e_0367, Jump),
            ("riscv64", 0, 0x0000_006f, Other),
            ("riscv64", 0, 0x0000_0073, Other),
            ("mips", 0, 0x0000_006f, Other),
        ] {
            let (before, last) = (before.to_le_bytes(), last.to_le_bytes());
            assert_eq!(of(target, &[&before, &last]), kind, "{target} {last:x?}");
        }
    }

    #[test]
    fn other_instructions() {
        for (target, code, kind) in [
            ("riscv64", &[0x82, 0x80][..], Return),
            ("riscv64", &[0x82, 0x87], Jump),
            ("riscv64", &[0x82, 0x97], Call),
            ("riscv64", &[0x02, 0x90], Other),
            ("riscv64", &[0xbe, 0x90], Other),
            ("x86_64", &[0xe8, 1, 0, 0, 0], Call),
            ("x86_64", &[0xff, 0xd0], Call),
            ("x86_64", &[0x41, 0xff, 0x14, 0x24], Call),
            ("x86_64", &[0xf2, 0xff, 0x15, 1, 0, 0, 0], Call),
            ("x86_64", &[0xc3], Return),
            ("x86_64", &[0xf3, 0xc3], Return),
            ("x86_64", &[0xff, 0xe2], Jump),
            ("x86_64", &[0x3e, 0xff, 0xe0], Jump),
            ("x86_64", &[0xff, 0x25, 1, 0, 0, 0], Jump),
            ("x86_64", &[0xff, 0xc0], Other),
            ("x86_64", &[0xeb, 0xfe], Other),
            ("arm", &[0x70, 0x47], Return),
            ("arm", &[0x60, 0x47], Jump),
            ("arm", &[0x98, 0x47], Call),
            ("arm", &[0x10, 0xbd], Return),
            ("arm", &[0x10, 0xb5], Other),
            ("arm", &[0x97, 0x46], Jump),
            ("arm", &[0x00, 0xf0, 0x01, 0xf8], Call),
            ("arm", &[0x00, 0xf0, 0x02, 0xe8], Call),
            ("arm", &[0x00, 0xf0, 0x01, 0xb8], Other),
            ("arm", &[0xbd, 0xe8, 0xf0, 0x81], Return),
            ("arm", &[0x5d, 0xf8, 0x04, 0xfb], Return),
            ("arm", &[0xdc, 0xf8, 0x00, 0xf0], Jump),
            ("arm", &[0xdf, 0xe8, 0x03, 0xf0], Jump),
        ] {
            assert_eq!(of(target, &[code]), kind, "{target} {code:x?}");
        }
        assert_eq!(of("arm", &[]), Other);
    }

    /// Blocks of a single instruction that may be Thumb code or not.
    #[test]
    fn single_instructions_of_arm() {
        for (word, kind) in [
            (0xe12f_ff1eu32, Return),
            (0xd12f_ff1e, Return),
            (0xe12f_ff33, Call),
            (0xe1a0_f00e, Return),
            (0xe51f_f004, Jump),
            (0xebff_fff0, Call),
            (0x1bff_fff0, Call),
            (0xe8bd_8010, Return),
            (0xf801_f000, Call),
            (0xe802_f000, Call),
            (0xb801_f000, Other),
            (0xbafe_f7ff, Other),
            (0x8001_f000, Other),
        ] {
            assert_eq!(of("arm", &[&word.to_le_bytes()]), kind, "{word:x}");
        }
    }
}
