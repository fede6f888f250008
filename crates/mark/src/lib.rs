//! Marks regions of a program, for `fathom simulate` and `fathom count --region`: `include/fathom.h` for Rust.
//!
//! ```
//! fn sum(of: &[u32]) -> u32 {
//!     fathom_mark::region!("sum");
//!     of.iter().sum()
//! }
//! # assert_eq!(sum(&[1, 2]), 3);
//! ```
//!
//! A mark is one instruction that does nothing, with a note in the file, which is not loaded; and a test of one flag, which only
//! `fathom count --region` sets: a load and a branch that is not taken. The note is that of a static probe (section
//! `.note.stapsdt`; `readelf --notes` shows it), with the provider `fathom_begin` or `fathom_end` and the region's name.
//!
//! Without its default feature `count` a mark is the instruction and its note, and nothing else is compiled: for programs without the
//! standard library, and where each instruction counts. So it is on other systems than Linux, and on other processors than x86-64,
//! AArch64, 32-bit ARM and RISC-V 64. `fathom count --region` refuses a program that has no other marks.
//!
//! - The name is a literal without quotation marks and backslashes, of 63 bytes at most where it is counted. The same one may be
//!   marked at several places: that is one region.
//! - Regions may contain others, and themselves.
//! - The compiler moves no access to memory across a mark. It may move arithmetic.
//! - Marks are inline assembly: a crate that forbids unsafe code cannot have them.
//! - Marks of C libraries in the program (`include/fathom.h`) have counters of their own: a region that is in both within itself counts
//!   twice.
//! - On other systems than Linux and other processors than Arm, RISC-V and x86, the macros do nothing.
#![no_std]

// The files of these names have what other systems and processors have: nothing. So each list of those that have more is here once.
#[cfg_attr(
    all(
        any(target_os = "linux", target_os = "android"),
        any(
            target_arch = "aarch64",
            target_arch = "arm",
            target_arch = "riscv32",
            target_arch = "riscv64",
            target_arch = "x86",
            target_arch = "x86_64"
        )
    ),
    path = "note.rs"
)]
mod mark;

#[cfg_attr(
    all(
        feature = "count",
        target_os = "linux",
        target_endian = "little",
        any(
            target_arch = "aarch64",
            target_arch = "arm",
            target_arch = "riscv64",
            all(target_arch = "x86_64", target_pointer_width = "64")
        )
    ),
    path = "counting/mod.rs"
)]
mod count;

/// Marks a region from here to the end of the block, also where it is left by `return`, `break`, `?` or a panic that unwinds.
#[macro_export]
macro_rules! region {
    ($name:literal) => {
        let _region = {
            struct Region;
            impl ::core::ops::Drop for Region {
                #[inline(always)]
                fn drop(&mut self) {
                    $crate::end!($name);
                }
            }
            $crate::begin!($name);
            Region
        };
    };
}

/// Begins the region of this name. Every way out of it needs an [`end!`]; [`region!`] has that.
#[macro_export]
macro_rules! begin {
    ($name:literal) => {{
        // The test is not in the region.
        $crate::__begin($name);
        $crate::__mark!("begin", $name)
    }};
}

/// Ends the region of this name.
#[macro_export]
macro_rules! end {
    ($name:literal) => {{
        $crate::__mark!("end", $name);
        $crate::__end($name)
    }};
}

/// Begins to count a region, if a run counts.
#[doc(hidden)]
#[inline(always)]
pub fn __begin(name: &'static str) {
    if count::is_on() {
        count::begin(name);
    }
}

/// Ends it.
#[doc(hidden)]
#[inline(always)]
pub fn __end(name: &'static str) {
    if count::is_on() {
        count::end(name);
    }
}
