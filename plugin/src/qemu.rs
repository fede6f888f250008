//! QEMU's plugin interface, version 1, as far as it is used (include/qemu/qemu-plugin.h of QEMU 7.2).

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Version of the interface that this plugin needs. QEMU looks it up.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that QEMU looks up")]
pub static qemu_plugin_version: c_int = 1;

/// The number that QEMU has given to the plugin.
pub type Id = u64;

/// `qemu_info_t`.
#[repr(C)]
pub struct Info {
    /// Name of the instruction set.
    pub target_name: *const c_char,
    /// Lowest and current version of the interface.
    pub versions: [c_int; 2],
    /// Whether a whole machine is emulated.
    pub system_emulation: bool,
    /// For whole machines: number of CPUs, and the largest.
    pub cpus: [c_int; 2],
}

/// `struct qemu_plugin_tb`: a block of instructions.
#[repr(C)]
pub struct Block {
    _opaque: [u8; 0],
}

/// `struct qemu_plugin_insn`: an instruction of a block.
#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}

/// `struct qemu_plugin_hwaddr`: where an access of a guest went.
#[repr(C)]
pub struct Hardware {
    _opaque: [u8; 0],
}

/// `QEMU_PLUGIN_CB_NO_REGS`.
pub const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`.
pub const READS_AND_WRITES: c_int = 3;
/// `QEMU_PLUGIN_INLINE_ADD_U64`.
pub const ADD: c_int = 0;

/// A system call: plugin, thread, number, arguments.
pub type Call = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

unsafe extern "C" {
    pub fn qemu_plugin_reset(id: Id, call: extern "C" fn(Id));
    pub fn qemu_plugin_register_vcpu_init_cb(id: Id, call: extern "C" fn(Id, c_uint));
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: Id, call: Call);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: Id, call: extern "C" fn(Id, c_uint, i64, i64));
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, call: extern "C" fn(Id, *mut Block));
    pub fn qemu_plugin_register_vcpu_exit_cb(id: Id, call: extern "C" fn(Id, c_uint));
    pub fn qemu_plugin_register_atexit_cb(id: Id, call: extern "C" fn(Id, *mut c_void), data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_inline(block: *mut Block, op: c_int, to: *mut c_void, add: u64);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        call: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        call: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        call: extern "C" fn(c_uint, u32, u64, *mut c_void),
        flags: c_int,
        kinds: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_insn_haddr(instruction: *const Instruction) -> *mut c_void;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const c_void;
    pub fn qemu_plugin_mem_size_shift(what: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(what: u32) -> bool;
    pub fn qemu_plugin_get_hwaddr(what: u32, address: u64) -> *mut Hardware;
    pub fn qemu_plugin_hwaddr_is_io(of: *const Hardware) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(of: *const Hardware) -> u64;
}
