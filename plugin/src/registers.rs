//! Registers of the program, by functions of QEMU that are no part of its plugin interface.
//!
//! Version 1 of that interface has no registers. Debian's QEMU 7.2 exports all its functions to plugins, among them those of its
//! debugger's stub (`*_cpu_gdb_read_register` in target/*/gdbstub*.c). They read what generated code keeps in memory, which is
//! everything when a block begins, and not within one. So they may be called from a block's callback only. Whether they are there is
//! found when the program begins; whether they tell the truth, at the first allocation (`heap`).

use std::ffi::{CStr, c_int, c_uint, c_void};

/// `GByteArray` of GLib, which QEMU is linked with.
#[repr(C)]
struct ByteArray {
    data: *mut u8,
    bytes: c_uint,
}

type Cpu = unsafe extern "C" fn(c_int) -> *mut c_void;
type Read = unsafe extern "C" fn(*mut c_void, *mut ByteArray, c_int) -> c_int;
type ReadMemory = unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize, bool) -> c_int;
type New = unsafe extern "C" fn() -> *mut ByteArray;
type Release = unsafe extern "C" fn(*mut ByteArray, c_int) -> *mut u8;

/// Where calls of functions pass what, by the numbers of QEMU's gdbstub.
#[derive(Debug)]
pub struct Convention {
    target: &'static str,
    read: &'static CStr,
    /// Bytes of a register.
    pub bytes: usize,
    /// The first three arguments.
    pub arguments: [c_int; 3],
    pub result: c_int,
    pub stack: c_int,
    /// The address to return to; `None` if the stack has it.
    pub link: Option<c_int>,
}

/// By QEMU's name of the instruction set. Sources: AAPCS64 6.4, AAPCS32 6.1, the calling convention of RISC-V's ELF psABI, the x86-64
/// psABI 3.2; target/arm/gdbstub.c and gdbstub64.c, target/riscv/gdbstub.c, target/i386/gdbstub.c of QEMU 7.2.
const CONVENTIONS: [Convention; 4] = [
    Convention {
        target: "aarch64",
        read: c"aarch64_cpu_gdb_read_register",
        bytes: 8,
        arguments: [0, 1, 2],
        result: 0,
        stack: 31,
        link: Some(30),
    },
    Convention {
        target: "arm",
        read: c"arm_cpu_gdb_read_register",
        bytes: 4,
        arguments: [0, 1, 2],
        result: 0,
        stack: 13,
        link: Some(14),
    },
    Convention {
        target: "riscv64",
        read: c"riscv_cpu_gdb_read_register",
        bytes: 8,
        arguments: [10, 11, 12],
        result: 10,
        stack: 2,
        link: Some(1),
    },
    Convention {
        target: "x86_64",
        read: c"x86_cpu_gdb_read_register",
        bytes: 8,
        // RDI, RSI, RDX; RAX; RSP.
        arguments: [5, 4, 3],
        result: 0,
        stack: 7,
        link: None,
    },
];

/// Reads registers.
#[derive(Debug)]
pub struct Registers {
    pub convention: &'static Convention,
    cpu: Cpu,
    read: Read,
    new: New,
    release: Release,
}

impl Registers {
    /// Looks for QEMU's functions. `target` is its name of the instruction set.
    ///
    /// # Errors
    /// They are not there.
    pub fn of(target: &str) -> Result<Registers, String> {
        let known = CONVENTIONS.iter().find(|of| of.target == target);
        let convention = known.ok_or_else(|| format!("registers of {target} are unknown"))?;
        // SAFETY: the functions have these types in QEMU 7.2 (include/hw/core/cpu.h, target/*/cpu.h or internals.h), and in GLib.
        unsafe {
            Ok(Registers {
                convention,
                cpu: std::mem::transmute::<*mut c_void, Cpu>(function(c"qemu_get_cpu")?),
                read: std::mem::transmute::<*mut c_void, Read>(function(convention.read)?),
                new: std::mem::transmute::<*mut c_void, New>(function(c"g_byte_array_new")?),
                release: std::mem::transmute::<*mut c_void, Release>(function(c"g_byte_array_free")?),
            })
        }
    }

    /// Returns registers of the calling thread, by their numbers. Only when a block begins.
    pub fn get<const N: usize>(&self, thread: u32, numbers: [c_int; N]) -> Option<[u64; N]> {
        let mut values = [0; N];
        // SAFETY: `cpu` returns null or a CPU that lives while its thread does, which is the caller. `read` adds to the array, whose
        // fields are read before it is released.
        unsafe {
            let cpu = (self.cpu)(thread as c_int);
            if cpu.is_null() {
                return None;
            }
            let array = (self.new)();
            let width = self.convention.bytes;
            let whole = numbers.iter().all(|&number| (self.read)(cpu, array, number) == width as c_int);
            let whole = whole && (*array).bytes as usize == N * width;
            for (nth, value) in values.iter_mut().enumerate().filter(|_| whole) {
                let mut bytes = [0; 8];
                std::ptr::copy_nonoverlapping((*array).data.add(nth * width), bytes.as_mut_ptr(), width);
                *value = u64::from_le_bytes(bytes);
            }
            (self.release)(array, 1);
            whole.then_some(values)
        }
    }
}

/// Reads memory of a guest at virtual addresses, as QEMU's debugger does (softmmu/physmem.c of QEMU 7.2).
#[derive(Debug)]
pub struct Memory {
    cpu: Cpu,
    read: ReadMemory,
}

impl Memory {
    /// Looks for QEMU's functions.
    ///
    /// # Errors
    /// They are not there.
    pub fn find() -> Result<Memory, String> {
        // SAFETY: the functions have these types in QEMU 7.2 (include/hw/core/cpu.h, include/exec/cpu-all.h).
        unsafe {
            Ok(Memory {
                cpu: std::mem::transmute::<*mut c_void, Cpu>(function(c"qemu_get_cpu")?),
                read: std::mem::transmute::<*mut c_void, ReadMemory>(function(c"cpu_memory_rw_debug")?),
            })
        }
    }

    /// Reads at a virtual address of the calling CPU. Returns whether there is memory; else `to` is as before, or partly read.
    pub fn read(&self, cpu: u32, address: u64, to: &mut [u8]) -> bool {
        // SAFETY: `cpu` returns null or a CPU that lives as long as this process; the buffer has its length, and is only written.
        unsafe {
            let cpu = (self.cpu)(cpu as c_int);
            !cpu.is_null() && (self.read)(cpu, address, to.as_mut_ptr().cast(), to.len(), false) == 0
        }
    }
}

/// Returns the address of a function that QEMU, or a library of it, exports.
fn function(name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("this QEMU does not export {}", name.to_string_lossy()));
    }
    Ok(found)
}
