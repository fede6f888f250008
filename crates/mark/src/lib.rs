//! Marks regions of a program, for `fathom simulate`: `include/fathom.h` for Rust.
//!
//! ```
//! fn sum(of: &[u32]) -> u32 {
//!     fathom_mark::region!("sum");
//!     of.iter().sum()
//! }
//! # assert_eq!(sum(&[1, 2]), 3);
//! ```
//!
//! A mark is one instruction that does nothing, and a note in the file, which is not loaded: the program runs as without it. The
//! note is that of a static probe (section `.note.stapsdt`; `readelf --notes` shows it), with the provider `fathom_begin` or
//! `fathom_end` and the region's name.
//!
//! They are for `fathom simulate` only: unlike those of `include/fathom.h`, they have no counters, and `fathom count --region`
//! refuses a program that has no others.
//!
//! - The name is a literal without quotation marks and backslashes. The same one may be marked at several places: that is one
//!   region.
//! - Regions may contain others, and themselves.
//! - The compiler moves no access to memory across a mark. It may move arithmetic.
//! - Marks are inline assembly: a crate that forbids unsafe code cannot have them.
//! - On other systems than Linux and other processors than Arm, RISC-V and x86, the macros do nothing.
#![no_std]
#![forbid(unsafe_code)]

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
    ($name:literal) => {
        $crate::__mark!("begin", $name)
    };
}

/// Ends the region of this name.
#[macro_export]
macro_rules! end {
    ($name:literal) => {
        $crate::__mark!("end", $name)
    };
}

// As in fathom.h, but for the braces of the template: `raw`.
/// The instruction and its note.
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    any(
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv32",
        target_arch = "riscv64",
        target_arch = "x86",
        target_arch = "x86_64"
    )
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __mark {
    ($what:literal, $name:literal) => {
        // SAFETY: one instruction that does nothing; the rest is in a section that is not loaded.
        unsafe {
            ::core::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt,\"?\",\"note\"",
                ".balign 4",
                ".4byte 992f-991f",
                ".4byte 994f-993f",
                ".4byte 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                ::core::concat!("993: ", $crate::__address!(), " 990b"),
                ::core::concat!($crate::__address!(), " 0"),
                ::core::concat!($crate::__address!(), " 0"),
                ::core::concat!(".asciz \"fathom_", $what, "\""),
                ::core::concat!(".asciz \"", $name, "\""),
                ".asciz \"\"",
                "994: .balign 4",
                ".popsection",
                options(nostack, preserves_flags, raw)
            )
        }
    };
}

/// No mark.
#[cfg(not(all(
    any(target_os = "linux", target_os = "android"),
    any(
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv32",
        target_arch = "riscv64",
        target_arch = "x86",
        target_arch = "x86_64"
    )
)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __mark {
    ($what:literal, $name:literal) => {};
}

/// The assembler's word for an address.
#[cfg(target_pointer_width = "64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __address {
    () => {
        ".8byte"
    };
}

/// The assembler's word for an address.
#[cfg(not(target_pointer_width = "64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __address {
    () => {
        ".4byte"
    };
}
