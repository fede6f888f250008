//! AArch64.

pub(super) mod boot;
pub(super) mod cache;
pub(super) mod clock;
pub(super) mod control;
pub(super) mod cpu;
pub(super) mod identify;
pub(super) mod mmu;
pub(super) mod pmu;
pub(super) mod vectors;

/// The instructions of the loops.
pub(super) use fathom_loops::aarch64::Aarch64 as Loops;

/// Reads a system register.
macro_rules! mrs {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading a register that exists at this exception level on this core changes nothing (DDI 0487,
        // MRS). A register that does not exist causes an Undefined exception, which is reported and not unsound. Not
        // `nomem`: reads of counters keep their place between accesses to memory.
        #[allow(unused_unsafe, reason = "some callers read a register inside an unsafe block that writes it")]
        unsafe {
            ::core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags));
        }
        value
    }};
}

/// Writes a system register. Unsafe: the caller justifies that the value may be in force.
macro_rules! msr {
    ($name:literal, $value:expr) => {
        ::core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) $value, options(nostack, preserves_flags))
    };
}

use {mrs, msr};
