//! A machine without an operating system: AArch64, reached over its UART.
//!
//! What can be thought through on a desk is ordinary code and tested there: the descriptors and tables of
//! address translation, where the windows of the arena lie, registers and what they say, the boards, the block
//! of parameters, the words for a fault. What touches hardware is in `hardware`, which exists for bare-metal
//! targets alone. Sources throughout: Arm Architecture Reference Manual for A-profile (DDI 0487); for the
//! boards the documents named in [`board`].
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
