//! AArch64 (DDI 0487, the Arm Architecture Reference Manual for A-profile).

#[cfg(target_arch = "aarch64")]
mod cpu;
#[cfg(target_arch = "aarch64")]
mod cycles;
#[cfg(target_arch = "aarch64")]
mod trap;
pub(super) mod trust;

#[cfg(target_arch = "aarch64")]
pub(crate) use fathom_loops::aarch64::Aarch64 as Cpu;
