//! A machine without an operating system: AArch64, connected by its UART.
//!
//! Everything that does not need hardware is ordinary code with tests: descriptors and tables of address translation,
//! the arena's windows, registers, boards, the parameter block, and texts of faults. Hardware access is in
//! `hardware`, which exists for bare-metal targets only. Sources throughout: Arm Architecture Reference Manual for
//! A-profile (DDI 0487); for the boards the documents named in [`board`].
#![no_std]

extern crate alloc;

pub mod board;
pub mod clock_trust;
pub mod exception;
pub mod firmware;
#[cfg(target_os = "none")]
mod hardware;
pub mod parameters;
pub mod registers;
pub mod study;
pub mod tables;
pub mod windows;
