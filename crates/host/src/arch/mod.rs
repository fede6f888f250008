//! Architecture-specific code of this crate.
//!
//! An architecture is one file in this folder, with a folder of the same name if one file would be too long. It
//! implements, for one type named `Cpu`,
//!
//! - [`Instructions`]: the instructions of the loops in `fathom-loops`;
//! - [`Architecture`]: the clock, barriers, flushes, identification, and properties of all its machines;
//! - [`CycleCounter`], if the kernel can grant user space the core's cycle counter; else [`Architecture::Cycles`] is
//!   [`Infallible`].
//!
//! No other file of this crate depends on the target architecture. A new architecture needs its own file and its
//! lines in this one: the module, the type, the name in the compile error's condition, and [`PROGRAMS`]. (Its machine
//! code is checked if `tests/disassembly` has a decoder for it: x86-64 and AArch64 have one.)
//!
//! Code of an architecture that only decodes or judges, without its instructions, is compiled in the tests of all
//! architectures. The rest is below `cfg(target_arch)` in its own file.

use std::convert::Infallible;
use std::fmt::Debug;
use std::io;

use fathom_loops::Instructions;
use fathom_probe::machine::{ClockTrust, Fact};

use crate::procfs::Root;

// Its evidence of an emulator is that of 32-bit ARM too.
#[cfg(any(target_arch = "aarch64", target_arch = "arm", test))]
mod aarch64;
#[cfg(any(target_arch = "arm", test))]
mod arm;
#[cfg(any(target_arch = "riscv64", test))]
mod riscv64;
#[cfg(any(target_arch = "x86_64", test))]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::Cpu;
#[cfg(target_arch = "arm")]
pub(crate) use arm::Cpu;
#[cfg(target_arch = "riscv64")]
pub(crate) use riscv64::Cpu;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::Cpu;

#[cfg(not(any(
    target_arch = "aarch64",
    target_arch = "arm",
    target_arch = "riscv64",
    target_arch = "x86_64"
)))]
compile_error!(
    "fathom-host does not know this architecture: write crates/host/src/arch/NAME.rs, which implements the traits of \
     crates/host/src/arch/mod.rs for a type `Cpu`, and name it there"
);

/// Properties that identify programs of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Output of `uname -m` on a machine that runs them.
    pub uname: &'static str,
    /// `uname -m` of other machines that run them.
    pub also_on: Option<&'static str>,
    /// `e_machine` of their ELF header (System V ABI, the registry of the generic ABI).
    pub elf_machine: u16,
    /// `EI_CLASS` of that header: 1 for 32 bits, 2 for 64.
    pub elf_class: u8,
    /// Rust's target for a static program.
    pub target: &'static str,
}

impl Program {
    /// Returns whether a machine with this output of `uname -m` runs them.
    #[must_use]
    pub fn runs_on(&self, uname: &str) -> bool {
        self.uname == uname || self.also_on == Some(uname)
    }
}

/// Programs of every architecture that this crate can be compiled for.
///
/// Of those that run on one machine, the best is first.
pub const PROGRAMS: [Program; 5] = [X86_64, AARCH64, ARMV7, ARMV6, RISCV64];

/// Programs of the architecture that this crate is compiled for.
pub const PROGRAM: Program = Cpu::PROGRAM;

const X86_64: Program = Program {
    uname: "x86_64",
    also_on: None,
    elf_machine: 62,
    elf_class: 2,
    target: "x86_64-unknown-linux-musl",
};
const AARCH64: Program = Program {
    uname: "aarch64",
    also_on: None,
    elf_machine: 183,
    elf_class: 2,
    target: "aarch64-unknown-linux-musl",
};
const ARMV7: Program = Program {
    uname: "armv7l",
    also_on: None,
    elf_machine: 40,
    elf_class: 1,
    target: "armv7-unknown-linux-gnueabihf",
};
const ARMV6: Program = Program {
    uname: "armv6l",
    also_on: Some(ARMV7.uname),
    elf_machine: 40,
    elf_class: 1,
    target: "arm-unknown-linux-gnueabi",
};
const RISCV64: Program = Program {
    uname: "riscv64",
    also_on: None,
    elf_machine: 243,
    elf_class: 2,
    target: "riscv64gc-unknown-linux-gnu",
};

/// Registers of a sampled program, from which the callers of its function are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// Of x86-64: instruction pointer, stack pointer, RBP.
    X86_64 {
        /// RIP.
        pc: u64,
        /// RSP.
        sp: u64,
        /// RBP.
        fp: u64,
    },
    /// Of AArch64.
    Aarch64 {
        /// Program counter.
        pc: u64,
        /// X30, the link register.
        lr: u64,
        /// Stack pointer.
        sp: u64,
        /// X29, the frame pointer.
        fp: u64,
    },
}

impl Registers {
    /// RBP, RSP and RIP, by their numbers in asm/perf_regs.h, ascending.
    pub const OF_X86_64: [u64; 3] = [6, 7, 8];
    /// X29, the link register, the stack pointer and the program counter of AArch64.
    pub const OF_AARCH64: [u64; 4] = [29, 30, 31, 32];

    /// Returns those of x86-64, in the order of [`Registers::OF_X86_64`].
    #[must_use]
    pub fn of_x86_64([fp, sp, pc]: [u64; 3]) -> Registers {
        Registers::X86_64 { pc, sp, fp }
    }

    /// Returns those of AArch64, in the order of [`Registers::OF_AARCH64`].
    #[must_use]
    pub fn of_aarch64([fp, lr, sp, pc]: [u64; 4]) -> Registers {
        Registers::Aarch64 { pc, lr, sp, fp }
    }

    /// Returns the address of the instruction.
    #[must_use]
    pub fn pc(&self) -> u64 {
        let (Registers::X86_64 { pc, .. } | Registers::Aarch64 { pc, .. }) = *self;
        pc
    }
}

/// Returns a bit for each number.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
const fn bits(numbers: &[u64]) -> u64 {
    let (mut all, mut at) = (0, 0);
    while at < numbers.len() {
        all |= 1 << numbers[at];
        at += 1;
    }
    all
}

/// Bytes of a block of code: a line of most instruction caches.
pub(crate) const BLOCK_BYTES: usize = 64;

/// Returns a block of instructions of 32 bits: one that does nothing, repeated, and the return from a function.
#[cfg(not(target_arch = "x86_64"))]
const fn block(nothing: u32, and_return: u32) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    let mut at = 0;
    while at < BLOCK_BYTES {
        let word = if at + 4 == BLOCK_BYTES { and_return } else { nothing }.to_le_bytes();
        let mut byte = 0;
        while byte < 4 {
            block[at + byte] = word[byte];
            byte += 1;
        }
        at += 4;
    }
    block
}

/// Interface of an architecture.
pub(crate) trait Architecture: Instructions {
    /// Its programs: an entry of [`PROGRAMS`].
    const PROGRAM: Program;

    /// Makes `turns` turns of two dependent loads: each cell is replaced by the word at its offset from `base`. From one load to the next
    /// `fillers` instructions are executed, and some more at the end of a turn: a jump into a sequence of instructions that do nothing,
    /// and what the architecture needs for an address.
    ///
    /// # Safety
    /// At the offset of each cell is a readable word, aligned, that is such an offset. `fillers` is one of
    /// [`FILLERS`](fathom_probe::machine::batch::spaced::FILLERS), and `turns` is not 0.
    unsafe fn chase_spaced(base: *const u8, cells: [usize; 2], fillers: usize, turns: usize) -> [usize; 2];

    /// Name in the fact `clock.name` of the counter that [`Architecture::counter`] reads.
    const COUNTER: &'static str;

    /// Smallest data line of any of its caches, bytes: the stride of flushes over a buffer.
    const LINE_BYTES: usize;

    /// Whether user space may flush lines; if not, the reason.
    const FLUSH_PERMITTED: Result<(), &'static str> = Ok(());

    /// Whether caches are coherent with DMA on every machine.
    const COHERENT_DMA: bool;

    /// Whether the current CPU's number is available without a system call.
    const CHEAP_CPU_NUMBER: bool;

    /// Keys of `/proc/cpuinfo` about the CPU's model, with the names of their facts. Keys that identify one specimen
    /// ("Serial") are not included.
    const CPUINFO: &'static [(&'static str, &'static str)];

    /// The core's cycle counter, if user space can be granted it.
    type Cycles: CycleCounter;

    /// Reads the counter that user space may always read, after every earlier load and before every later one. It
    /// wraps.
    fn counter() -> u64;

    /// Returns why the counter's rate is the same in all power states. Whether it counts is tested elsewhere.
    ///
    /// # Errors
    /// Returns why its rate may change.
    fn fixed_rate_evidence(root: &Root) -> Result<String, String>;

    /// Returns the counter's exact rate as reported by the hardware, Hz; `None` if it reports none.
    fn counter_hz() -> Option<u64>;

    /// Completes earlier loads and delays later ones, for a clock that is a call.
    fn order();

    /// Cleans and invalidates the line of `at` in all caches to the point of memory. It is complete after
    /// [`Architecture::flush_barrier`], which completes any number of flushes. Does nothing if user space may not
    /// flush ([`Architecture::FLUSH_PERMITTED`]).
    ///
    /// # Safety
    /// There is a readable byte at `at`.
    unsafe fn flush_line(at: *mut u8);

    /// A function that does nothing and returns.
    const BLOCK: [u8; BLOCK_BYTES];

    /// Makes instructions that were stored visible to their execution by this thread.
    ///
    /// # Safety
    /// The bytes are readable.
    unsafe fn synchronise(code: *const u8, bytes: usize);

    /// Waits for flushes, and delays later accesses until they are complete.
    fn flush_barrier();

    /// Returns facts of the CPU that the thread is pinned to, undecoded.
    fn facts(root: &Root) -> Vec<Fact>;

    /// Returns the CPU's evidence for a hypervisor or emulator, as a verdict and its reason; `None` if it has none.
    /// `tree` is `compatible` of the devicetree's root and `dmi` the strings of the DMI tables; both are empty if
    /// absent.
    fn trust(root: &Root, tree: &str, dmi: &str) -> Option<(ClockTrust, String)>;

    /// Returns the memory attribute, as a byte of MAIR_EL1, of a translation that Fathom's driver read (`raw` of its
    /// reply); `None` if translations contain no such byte.
    fn mair(raw: u64) -> Option<u8>;

    /// Registers of a sample from which its callers are found: a bit for each number of the kernel's asm/perf_regs.h; 0 if
    /// they cannot be found that way.
    const SAMPLED_REGISTERS: u64 = 0;

    /// Returns these registers, by their values in the order of the numbers.
    fn sampled_registers(_values: &[u64]) -> Option<Registers> {
        None
    }
}

/// The core's cycle counter, which the kernel may grant. `crate::cycles` requests and tests it, and falls back to
/// Fathom's driver if the kernel does not grant it.
pub(crate) trait CycleCounter {
    /// Whether user space can be granted it at all.
    const READABLE: bool;

    /// Name in the fact `clock.name`.
    const NAME: &'static str;

    /// Command by which the kernel grants it.
    const REMEDY: &'static str;

    /// Proof that the counter may be read: a reading without the grant has a defined effect.
    type Reader: Copy + Debug + PartialEq + Eq;

    /// The kernel's grant; it ends when this is dropped.
    type Grant: Debug;

    /// Prepares this process for readings without the grant, once.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn prepare() -> io::Result<Self::Reader>;

    /// Requests the right to read it from the kernel, for the calling thread, pinned to `cpu`. Also returns the
    /// source of the right as text.
    ///
    /// # Errors
    /// Returns why the kernel does not grant it, as text.
    fn grant(root: &Root, cpu: u32) -> Result<(Self::Grant, String), String>;

    /// Returns whether the kernel's grant is in force for the calling thread now.
    fn in_force(grant: &Self::Grant) -> bool;

    /// Reads it, ordered as [`Architecture::counter`]. Without the grant, it reads another clock and counts that.
    fn read(reader: Self::Reader) -> u64;

    /// Returns the number of readings without the grant since the last call.
    fn take_denied() -> u64;
}

/// No such counter: the reader cannot be constructed.
impl CycleCounter for Infallible {
    const READABLE: bool = false;
    const NAME: &'static str = "";
    const REMEDY: &'static str = "";

    type Reader = Infallible;
    type Grant = Infallible;

    fn prepare() -> io::Result<Infallible> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn grant(_root: &Root, _cpu: u32) -> Result<(Infallible, String), String> {
        Err("user space has no such counter on this architecture".into())
    }

    fn in_force(grant: &Infallible) -> bool {
        match *grant {}
    }

    fn read(reader: Infallible) -> u64 {
        match reader {}
    }

    fn take_denied() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_unique_names_and_include_this_one() {
        assert!(PROGRAMS.contains(&PROGRAM));
        let program = std::fs::read("/proc/self/exe").expect("this program");
        assert_eq!(
            program.get(18..20),
            Some(&PROGRAM.elf_machine.to_le_bytes()[..]),
            "bytes of its ELF header"
        );
        for (at, one) in PROGRAMS.iter().enumerate() {
            for other in &PROGRAMS[..at] {
                assert_ne!(one.uname, other.uname);
            }
        }
    }

    /// Loads on both sides of a barrier, and lines flushed one by one: the contents must stay.
    #[test]
    fn flush_keeps_the_contents() {
        let mut memory: Vec<u64> = (0..1024).collect();
        let bytes = size_of_val(memory.as_slice());
        let start: *mut u8 = memory.as_mut_ptr().cast();
        for at in (0..bytes).step_by(Cpu::LINE_BYTES) {
            // SAFETY: the byte is one of this memory.
            unsafe { Cpu::flush_line(start.wrapping_add(at)) };
        }
        Cpu::flush_barrier();
        Cpu::order();
        assert!(memory.iter().copied().eq(0..1024));
        assert!(Cpu::LINE_BYTES.is_power_of_two() && Cpu::LINE_BYTES >= 8);
    }

    #[test]
    fn additions_and_pair_accesses_have_their_results() {
        assert_eq!(Cpu::add(3, 4), 7);
        assert_eq!(Cpu::add(usize::MAX, 2), 1);
        assert_eq!(Cpu::add_turns(1, 2, 3), 1 + 2 * 3 * fathom_loops::ADDITIONS as usize);
        let mut memory = [1u64, 2, 3, 4, 5, 6];
        let at: *mut u8 = memory.as_mut_ptr().cast();
        // SAFETY: two words from 8 bytes on, aligned to 8 but possibly not to 16; then two words from 24 bytes on,
        // copied to the first two.
        unsafe {
            Cpu::store_pair(at.wrapping_add(8), 9);
            Cpu::move_pair(at.wrapping_add(24), at);
        }
        assert_eq!(memory, [4, 5, 9, 4, 5, 6]);
    }
}
