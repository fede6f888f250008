//! The instruction and its note, as in `fathom.h`.

// But for the braces of the template: `raw`.
/// A mark.
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
