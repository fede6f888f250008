//! Whether user space may read the generic timer's counter: the kernel's vDSO tells.
//!
//! Without the right, a reading is an illegal instruction. If the timer is unusable (none, or its rate is unknown to
//! the firmware), the kernel removes the clock functions from the vDSO, since they would read it
//! (arch/arm/kernel/vdso.c, `patch_vdso`); otherwise it permits the counter (drivers/clocksource/arm_arch_timer.c,
//! `arch_counter_set_user_access`).

use std::io::Read as _;
use std::io::{Seek as _, SeekFrom};

use object::{Object as _, ObjectSymbol as _};

use crate::procfs::Root;

/// Largest vDSO that is read, bytes: those of all architectures have one to four pages of 4 KiB.
const MAX_BYTES: u64 = 256 << 10;

/// A function of the vDSO that reads the counter.
const READER: &str = "__vdso_clock_gettime";

/// Returns whether the vDSO of this process reads the counter.
pub(super) fn reads_the_counter(root: &Root) -> bool {
    image(root).is_some_and(|image| exports(&image, READER))
}

/// Reads the vDSO of this process.
fn image(root: &Root) -> Option<Vec<u8>> {
    let maps = root.text("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
    let [begin, end] = [begin, end].map(|digits| u64::from_str_radix(digits, 16));
    let (begin, end) = (begin.ok()?, end.ok()?);
    let mut bytes = Vec::new();
    let mut memory = std::fs::File::open(root.path("/proc/self/mem")).ok()?;
    memory.seek(SeekFrom::Start(begin)).ok()?;
    memory.take(end.checked_sub(begin)?.min(MAX_BYTES)).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns whether an ELF image has a dynamic symbol of this name.
fn exports(image: &[u8], name: &str) -> bool {
    object::File::parse(image)
        .is_ok_and(|elf| elf.dynamic_symbols().any(|symbol| symbol.name().is_ok_and(|found| found == name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// The vDSO of x86-64 and AArch64 always has a clock function. Removed as the kernel does, it is not found.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn removed_function_is_not_found() {
        let Some(mut image) = image(&Root::system()) else {
            fathom_skip::skipped!(Unchecked, "this kernel maps no vDSO");
            return;
        };
        assert!(exports(&image, READER) && !exports(&image, "__vdso_no_such_function"));
        // `st_name` of a symbol is an offset into the strings: 0 is the empty name.
        let name = image.windows(READER.len() + 1).position(|at| at == [READER.as_bytes(), &[0]].concat());
        let name = name.expect("its name is a string");
        image[name] = b'x';
        assert!(!exports(&image, READER));
    }

    #[test]
    fn process_without_vdso_reads_no_counter() {
        let (_keep, root) =
            fixture::root(&[("/proc/self/maps", "00010000-00020000 r-xp 00000000 08:01 1 /bin/x\n")]);
        assert!(!reads_the_counter(&root));
        assert!(!exports(b"", READER) && !exports(&[0x7f, b'E', b'L', b'F', 1, 1, 1], READER));
    }
}
