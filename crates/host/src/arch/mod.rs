//! Everything in this crate that depends on the architecture of the CPU.
//!
//! An architecture is one file in this folder, with a folder of the same name below it where one file would be too
//! long. It implements, for one type named `Cpu`,
//!
//! - [`Instructions`]: what the loops of `fathom-loops` are made of;
//! - [`Architecture`]: the clock, barriers, flushes, identification, and what is known of every machine of its kind;
//! - [`CycleCounter`], where the kernel can grant user space the core's cycle counter; else
//!   [`Architecture::Cycles`] is [`Infallible`].
//!
//! No other file of this crate asks for which architecture it is compiled. A new one is its own file and its lines in
//! this one: the module, the type, the name in the compile error's condition, and [`PROGRAMS`]. (Its machine code is
//! checked where `tests/disassembly` has a decoder for it.)
//!
//! What an architecture only decodes or judges, without an instruction of its own, is compiled in the tests of every
//! one; the rest of it is below `cfg(target_arch)` in its own file.

use std::convert::Infallible;
use std::fmt::Debug;
use std::io;

use fathom_loops::Instructions;
use fathom_probe::machine::{ClockTrust, Fact};

use crate::read::Root;

#[cfg(any(target_arch = "aarch64", test))]
mod aarch64;
#[cfg(any(target_arch = "x86_64", test))]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::Cpu;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::Cpu;

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
compile_error!(
    "fathom-host does not know this architecture: write crates/host/src/arch/NAME.rs, which implements the traits of \
     crates/host/src/arch/mod.rs for a type `Cpu`, and name it there"
);

/// How the programs of an architecture are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// What `uname -m` says of a machine that runs them.
    pub uname: &'static str,
    /// `e_machine` of their ELF header (System V ABI, the registry of the generic ABI).
    pub elf_machine: u16,
}

/// The programs of every architecture that this crate can be compiled for.
pub const PROGRAMS: [Program; 2] = [X86_64, AARCH64];

/// The programs of the architecture that this one is compiled for.
pub const PROGRAM: Program = Cpu::PROGRAM;

const X86_64: Program = Program { uname: "x86_64", elf_machine: 62 };
const AARCH64: Program = Program { uname: "aarch64", elf_machine: 183 };

/// What an architecture provides.
pub(crate) trait Architecture: Instructions {
    /// Its programs: an entry of [`PROGRAMS`].
    const PROGRAM: Program;

    /// The name, in the fact `clock.name`, of the counter that [`Architecture::counter`] reads.
    const COUNTER: &'static str;

    /// The least line of data that any of its caches has, bytes: from one flush to the next over a buffer.
    const LINE: usize;

    /// May user space flush lines; and if not, why.
    const FLUSHES: Result<(), &'static str> = Ok(());

    /// Do caches see what a device writes and hold nothing back from it, on every machine?
    const COHERENT_DMA: bool;

    /// Is the number of the present CPU known without a system call?
    const CHEAP_CPU_NUMBER: bool;

    /// Keys of `/proc/cpuinfo` about the CPU's model, with the names of their facts. Keys of one specimen ("Serial")
    /// are left out.
    const CPUINFO: &'static [(&'static str, &'static str)];

    /// The core's cycle counter, where user space can be granted it.
    type Cycles: CycleCounter;

    /// Reads the counter that user space may always read, after every earlier load and before every later one. Wraps.
    fn counter() -> u64;

    /// Has that counter one rate in all states of power? Returns why it is a clock, or why it is none, in words. That
    /// it counts is looked at elsewhere.
    ///
    /// # Errors
    /// Why its rate may change.
    fn counter_is_steady(root: &Root) -> Result<String, String>;

    /// The rate of that counter as the hardware states it, exactly, Hz; `None` where it states none.
    fn counter_hz() -> Option<u64>;

    /// Completes earlier loads and holds later ones back, around a clock that is a call.
    fn order();

    /// Cleans and invalidates the line of `at` in all caches down to memory. It is complete after
    /// [`Architecture::flush_barrier`], which ends any number of these. Does nothing where user space may not
    /// ([`Architecture::FLUSHES`]).
    ///
    /// # Safety
    /// There is a readable byte at `at`.
    unsafe fn flush_line(at: *mut u8);

    /// Waits for flushes, and holds back later accesses until they are complete.
    fn flush_barrier();

    /// What the CPU that the thread is pinned to says about itself, undecoded.
    fn facts(root: &Root) -> Vec<Fact>;

    /// What the CPU says about anything between this program and the silicon, with the sentence that says why; `None`
    /// where it says nothing. `tree` is `compatible` of the devicetree's root and `dmi` the strings of the DMI tables,
    /// both empty where there is none.
    fn trust(root: &Root, tree: &str, dmi: &str) -> Option<(ClockTrust, String)>;

    /// The memory attribute, as a byte of MAIR_EL1, in a translation that Fathom's driver read (`raw` of its reply);
    /// `None` where translations do not hold such a byte.
    fn mair(raw: u64) -> Option<u8>;
}

/// The core's cycle counter, of whose reading the kernel decides. `crate::cycles` asks for it, tries it, and falls back
/// on Fathom's driver where the kernel does not grant it.
pub(crate) trait CycleCounter {
    /// Can user space be granted it at all?
    const READABLE: bool;

    /// Its name in the fact `clock.name`.
    const NAME: &'static str;

    /// The command by which the kernel grants it.
    const REMEDY: &'static str;

    /// Shows that the counter may be read: whatever a reading without the grant does, it is defined.
    type Reader: Copy + Debug + PartialEq + Eq;

    /// The kernel's own grant; it ends when this is dropped.
    type Grant: Debug;

    /// Prepares this process for readings without the grant, once.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn prepare() -> io::Result<Self::Reader>;

    /// Asks the kernel for the right to read it, for the calling thread, pinned to `cpu`; and in words who granted it.
    ///
    /// # Errors
    /// Why the kernel does not grant it, in words.
    fn grant(root: &Root, cpu: u32) -> Result<(Self::Grant, String), String>;

    /// May the calling thread read it right now, by the kernel's grant?
    fn in_force(grant: &Self::Grant) -> bool;

    /// Reads it, ordered as [`Architecture::counter`]. Without the grant, it is another clock's reading and counted.
    fn read(reader: Self::Reader) -> u64;

    /// How many readings were without the grant since this was called last.
    fn denied() -> u64;
}

/// No such counter: there is no value that could read it.
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
        Err("user space reads no such counter here".into())
    }

    fn in_force(grant: &Infallible) -> bool {
        match *grant {}
    }

    fn read(reader: Infallible) -> u64 {
        match reader {}
    }

    fn denied() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_unique_names_and_include_this_one() {
        assert!(PROGRAMS.contains(&PROGRAM));
        let own = std::fs::read("/proc/self/exe").expect("this program");
        assert_eq!(own.get(18..20), Some(&PROGRAM.elf_machine.to_le_bytes()[..]), "bytes of its ELF header");
        for (at, one) in PROGRAMS.iter().enumerate() {
            for other in &PROGRAMS[..at] {
                assert!(one.uname != other.uname && one.elf_machine != other.elf_machine);
            }
        }
    }

    /// Loads on both sides of a barrier, and lines flushed one by one: contents stay.
    #[test]
    fn a_flush_changes_no_contents() {
        let mut memory: Vec<u64> = (0..1024).collect();
        let bytes = size_of_val(memory.as_slice());
        let start: *mut u8 = memory.as_mut_ptr().cast();
        for at in (0..bytes).step_by(Cpu::LINE) {
            // SAFETY: the byte is one of this memory.
            unsafe { Cpu::flush_line(start.wrapping_add(at)) };
        }
        Cpu::flush_barrier();
        Cpu::order();
        assert!(memory.iter().copied().eq(0..1024));
        assert!(Cpu::LINE.is_power_of_two() && Cpu::LINE >= 8);
    }

    #[test]
    fn additions_and_pairs_have_named_counts() {
        assert_eq!(Cpu::add(3, 4), 7);
        assert_eq!(Cpu::add(u64::MAX, 2), 1);
        assert_eq!(Cpu::add_turns(1, 2, 3), 1 + 2 * 3 * fathom_loops::ADDITIONS);
        let mut memory = [1u64, 2, 3, 4, 5, 6];
        let at: *mut u8 = memory.as_mut_ptr().cast();
        // SAFETY: two words from 8 bytes on, aligned to 8 and, one way or the other, not to 16; then two words from 24
        // bytes on, to the first two.
        unsafe {
            Cpu::store_pair(at.wrapping_add(8), 9);
            Cpu::move_pair(at.wrapping_add(24), at);
        }
        assert_eq!(memory, [4, 5, 9, 4, 5, 6]);
    }
}
