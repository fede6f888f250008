//! Addresses to which calls return: those after an instruction that calls.

use super::Branch;

/// Bytes before an address that [`is_return_point`] looks at: the longest call of x86-64 has a prefix, REX, opcode, ModRM, SIB and
/// four bytes of displacement.
pub const LOOKED_AT: usize = 9;

/// Returns whether a call may end at `pc`, before which these bytes are in memory. Data or the middle of an instruction may look like a
/// call, so that some are returned that are none; of the calls that compilers make, all are found. `target` is QEMU's name of
/// the instruction set.
#[must_use]
pub fn is_return_point(target: &str, pc: u64, before: &[u8]) -> bool {
    let last = |bytes: usize| before.len().checked_sub(bytes).map(|from| &before[from..]);
    let calls = |block: &[&[u8]]| Branch::of(target, pc.wrapping_sub(4), block) == Branch::Call;
    match target {
        "x86_64" => (2..=LOOKED_AT).any(|bytes| last(bytes).is_some_and(|code| calls(&[code]))),
        "arm" => {
            // A NOP of two bytes tells that the other one is Thumb code.
            let thumb = |code: &[u8]| calls(&[&[0x00, 0xbf], code]);
            last(4).is_some_and(|code| calls(&[code]) || thumb(code))
                || last(2).is_some_and(thumb)
                || last(8).is_some_and(|both| calls(&[&both[..4], &both[4..]]))
        }
        _ => [2, 4].into_iter().any(|bytes| last(bytes).is_some_and(|code| calls(&[code]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_before_an_address_are_found_and_other_branches_are_not() {
        for (target, before, is) in [
            ("aarch64", &[0x01, 0x00, 0x00, 0x94][..], true),
            ("aarch64", &[0x60, 0x02, 0x3f, 0xd6], true),
            ("aarch64", &[0x10, 0x00, 0x00, 0x14], false),
            ("aarch64", &[0xc0, 0x03, 0x5f, 0xd6], false),
            ("riscv64", &[0xef, 0x00, 0x00, 0x00], true),
            ("riscv64", &[0x13, 0x01, 0x82, 0x97], true),
            ("riscv64", &[0x13, 0x01, 0x82, 0x80], false),
            ("arm", &[0x02, 0x00, 0x00, 0xeb], true),
            ("arm", &[0x33, 0xff, 0x2f, 0xe1], true),
            ("arm", &[0x0f, 0xe0, 0xa0, 0xe1, 0x00, 0xf0, 0x97, 0xe5], true),
            ("arm", &[0x00, 0xf0, 0x01, 0xf8], true),
            ("arm", &[0x00, 0xbf, 0x98, 0x47], true),
            ("arm", &[0x01, 0x00, 0x00, 0xea], false),
            ("arm", &[0x1e, 0xff, 0x2f, 0xe1], false),
            ("x86_64", &[0x90, 0x90, 0xe8, 1, 0, 0, 0], true),
            ("x86_64", &[0x90, 0x90, 0x90, 0xff, 0xd0], true),
            ("x86_64", &[0xf2, 0x41, 0xff, 0x94, 0x24, 0, 1, 0, 0], true),
            ("x86_64", &[0x41, 0xff, 0x14, 0x24], true),
            ("x86_64", &[0x90, 0x90, 0xe9, 1, 0, 0, 0], false),
            ("x86_64", &[0x90, 0x90, 0x90, 0x0f, 0x1f, 0x40, 0x00], false),
            ("x86_64", &[0xc3], false),
            ("x86_64", &[], false),
        ] {
            assert_eq!(is_return_point(target, 0x1000, before), is, "{target} {before:x?}");
        }
    }
}
