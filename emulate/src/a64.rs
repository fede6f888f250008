//! AArch64: decoder of instructions, tables of translations, and system registers.

pub mod code;
pub mod cpu;
pub mod walk;
