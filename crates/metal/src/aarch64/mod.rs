//! AArch64: descriptors, registers and exceptions, without access to hardware.

pub mod exception;
pub mod registers;
pub mod tables;
