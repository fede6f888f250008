//! 32-bit ARM (ARMv6 and ARMv7-A): descriptors, registers and exceptions, without access to hardware.

pub mod exception;
pub mod registers;
pub mod tables;
