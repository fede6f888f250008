//! A machine without an operating system: AArch64 or 32-bit ARM, connected by its UART.
//!
//! Everything that does not need hardware is ordinary code with tests: descriptors and tables of address translation,
//! the arena's windows, registers, boards, the parameter block, and texts of faults. What differs between the two
//! architectures is in `aarch64` and `arm`, which have modules of the same names. Hardware access is in `hardware`, which
//! exists for bare-metal targets only. Sources throughout: Arm Architecture Reference Manual for A-profile (DDI 0487), for
//! ARMv7-A (DDI 0406C) and for ARMv6 (DDI 0100I); for the boards the documents named in [`board`].
#![no_std]

extern crate alloc;

pub mod aarch64;
pub mod arm;
pub mod board;
pub mod clock_trust;
pub mod firmware;
#[cfg(target_os = "none")]
mod hardware;
pub mod identification;
pub mod interrupts;
pub mod parameters;
pub mod study;
pub mod windows;

#[cfg(not(target_arch = "arm"))]
use aarch64 as arch;
#[cfg(target_arch = "arm")]
use arm as arch;
