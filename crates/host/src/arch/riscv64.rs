//! RISC-V with 64 bits: RV64GC (the RISC-V Instruction Set Manual, volume I).

mod trust;

#[cfg(target_arch = "riscv64")]
mod cpu;

#[cfg(target_arch = "riscv64")]
pub(crate) use cpu::Cpu;
