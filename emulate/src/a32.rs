//! 32-bit ARM, v6 and v7: decoder of instructions, tables of translations, and registers of coprocessor 15.

pub mod code;
pub mod cpu;
pub mod system;
pub mod walk;
