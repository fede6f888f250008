//! 32-bit ARM: ARMv6 (DDI 0100I, the ARM Architecture Reference Manual) and ARMv7-A (DDI 0406C, the same for ARMv7-A).
//!
//! A program for ARMv7 also runs on ARMv8 processors in their 32-bit state. One for ARMv6 runs on all of them, and uses
//! barriers that ARMv8 traps.

mod cpuinfo;
mod vdso;

#[cfg(target_arch = "arm")]
mod cpu;

#[cfg(target_arch = "arm")]
pub(crate) use fathom_loops::arm::Arm as Cpu;
