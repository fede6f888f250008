//! A plugin for QEMU: passes a program's instructions and accesses, or those of a whole guest, to described machines.
//!
//! `fathom simulate` starts QEMU with it and gives it the socket on which both talk ([`fathom_simulation::protocol`]). What is
//! translated is noted once (`places`), what is executed is collected by thread (`threads`), and batches go to the machines
//! (`session`). What is different for a guest is in `system` and `guest`. Ends of the program that QEMU does not tell are found in `ends`. QEMU's functions are declared in `qemu`, for version 1 of the plugin interface (QEMU 4.2 to 8.2).

mod children;
mod code;
mod counters;
mod ends;
mod followed;
mod guest;
mod heap;
mod in_files;
mod kept;
mod places;
mod qemu;
mod regions;
mod registers;
mod session;
mod signals;
mod socket;
mod system;
mod system_calls;
mod tasks;
mod threads;
mod turns;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use fathom_simulation::calls::{self, Branch};
use fathom_simulation::{Accessor, Allocator};
use places::{Accesses, Block, Line, Places, Planted};
use session::Session;

/// Returns the arguments `key=value` of the command line.
///
/// # Safety
/// `argv` points to `argc` texts that end with a zero.
unsafe fn argument(key: &str, argc: c_int, argv: *const *const c_char) -> Option<String> {
    (0..usize::try_from(argc).unwrap_or(0)).find_map(|n| {
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(*argv.add(n)) }.to_str().ok()?;
        text.strip_prefix(key)?.strip_prefix('=').map(str::to_owned)
    })
}

/// Called by QEMU before the program is loaded. Returns 0, or another number for a failure.
///
/// # Safety
/// As QEMU calls it: `info` points to its description, `argv` to `argc` texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: qemu::Id,
    info: *const qemu::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a valid description.
    let (cpus, target) = unsafe {
        let info = &*info;
        (info.system_emulation.then_some(info.cpus[0]), CStr::from_ptr(info.target_name))
    };
    // SAFETY: QEMU passes `argc` texts.
    let Some(socket) = (unsafe { argument("socket", argc, argv) }) else {
        eprintln!("fathom-plugin: no socket=FILE: it is started by `fathom simulate`");
        return 1;
    };
    let target = target.to_string_lossy().into_owned();
    if let Err(what) = Session::begin(&socket, &target, cpus) {
        eprintln!("fathom-plugin: {what}");
        return 1;
    }
    register(id);
    0
}

/// Registers what is called from now on. Called by QEMU itself after a reset.
extern "C" fn register(id: qemu::Id) {
    let is_guest = Session::get().is_some_and(|session| session.guest.is_some());
    let translated = if is_guest { system::translated } else { translated };
    // SAFETY: the functions have the types that QEMU expects, and live as long as the process.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu::qemu_plugin_register_vcpu_init_cb(id, thread_begins);
        qemu::qemu_plugin_register_vcpu_exit_cb(id, thread_ended);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, call_begins);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, call_returns);
        qemu::qemu_plugin_register_atexit_cb(id, ended, null_mut());
    }
}

/// A block has been translated: its instructions get their places, and calls are planted.
extern "C" fn translated(id: qemu::Id, block: *mut qemu::Block) {
    let Some(session) = Session::get() else { return };
    // SAFETY: QEMU's block is valid during this call.
    let count = unsafe { qemu::qemu_plugin_tb_n_insns(block) };
    let mut places = session.places();
    let mut numbers = Vec::with_capacity(count);
    let mut last_line = None;
    let mut codes: Vec<&[u8]> = Vec::with_capacity(count);
    let (mut first, mut next, mut begins) = (0, 0, 0);
    for index in 0..count {
        let Translated { instruction, pc, host, code } = Translated::of(block, index);
        places.based(host.wrapping_sub(pc));
        codes.push(code);
        next = pc + code.len() as u64;
        if index == 0 {
            (first, begins) = (pc, host);
        }
        if index == 0 && session.learn(&mut places, pc) {
            // SAFETY: QEMU makes the call when no thread executes code, and translates all code again.
            unsafe { qemu::qemu_plugin_reset(id, register) };
        }
        let accesses = places.instruction(pc, code, Accessor::Program, count - index);
        let number = accesses.place;
        numbers.push(number);
        on_access(instruction, accesses);
        let line = Line::new(pc, code.len() as u64, number, session.fetch_shift);
        if session.fetches && (last_line != Some(line.first) || line.last != line.first) {
            last_line = Some(line.last);
            on_execution(instruction, entered, places.keep_line(line));
        }
        // After its own fetch.
        if let Some(planted) = places.marker(pc, count - index) {
            on_execution(instruction, passed, planted);
        }
    }
    let counter = places.keep_block(Block::new(numbers));
    // SAFETY: the counter is never freed.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_exec_inline(block, qemu::ADD, counter.cast(), 1) };
    watch_heap(session, &mut places, block, first, begins);
    if session.followed().is_some() {
        follow(block, call_block(session, &mut places, (first, next), &codes));
    } else if session.counts_by_thread() {
        // SAFETY: the number is no pointer for QEMU.
        unsafe {
            let count = std::ptr::without_provenance_mut(count);
            qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, executed, qemu::NO_REGISTERS, count);
        }
    }
}

/// Returns a block from `first` to `next` with this code, for the calls of the program.
fn call_block(
    session: &Session,
    places: &mut Places,
    (first, next): (u64, u64),
    codes: &[&[u8]],
) -> &'static calls::Block {
    let branch = Branch::of(session.target(), first, codes);
    let (function, entry) = places.function(first);
    let instructions = codes.len() as u64;
    places.keep_call_block(calls::Block {
        first,
        named: first,
        next,
        instructions,
        function,
        entry,
        branch,
        special: None,
    })
}

/// An instruction that has been translated.
struct Translated<'a> {
    instruction: *mut qemu::Instruction,
    /// Its address in the program, and in this process.
    pc: u64,
    host: u64,
    code: &'a [u8],
}

impl Translated<'_> {
    /// Returns the instruction of this number in a block that QEMU translates.
    fn of<'a>(block: *mut qemu::Block, index: usize) -> Translated<'a> {
        // SAFETY: `translated` passes QEMU's block and the number of one of its instructions; the pointers are valid until it returns,
        // and it keeps none.
        unsafe {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            let pc = qemu::qemu_plugin_insn_vaddr(instruction);
            let size = qemu::qemu_plugin_insn_size(instruction);
            let host = qemu::qemu_plugin_insn_haddr(instruction) as u64;
            let data = qemu::qemu_plugin_insn_data(instruction).cast::<u8>();
            Translated { instruction, pc, host, code: std::slice::from_raw_parts(data, size) }
        }
    }
}

/// Has loads and stores of an instruction counted.
fn on_access(instruction: *mut qemu::Instruction, of: &'static Accesses) {
    let of = std::ptr::from_ref(of).cast_mut().cast();
    // SAFETY: the function has the type that QEMU expects, and `of` is never freed.
    unsafe {
        qemu::qemu_plugin_register_vcpu_mem_cb(
            instruction,
            accessed,
            qemu::NO_REGISTERS,
            qemu::READS_AND_WRITES,
            of,
        );
    }
}

/// Plants a call before an instruction. `call` takes an `of`.
fn on_execution<T>(
    instruction: *mut qemu::Instruction,
    call: extern "C" fn(c_uint, *mut c_void),
    of: &'static T,
) {
    let of = std::ptr::from_ref(of).cast_mut().cast();
    // SAFETY: the function has the type that QEMU expects, and `of` is never freed.
    unsafe { qemu::qemu_plugin_register_vcpu_insn_exec_cb(instruction, call, qemu::NO_REGISTERS, of) };
}

/// Has the threads that execute a block followed in the calls of the program.
fn follow(block: *mut qemu::Block, of: &'static calls::Block) {
    let of = std::ptr::from_ref(of).cast_mut().cast();
    // SAFETY: `translated` passes QEMU's block, which is valid; the other one is never freed.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, followed, qemu::NO_REGISTERS, of) };
}

/// Has calls of the allocator followed: where its functions begin, and where calls return to. The block begins at `first`, and at
/// `host` in this process.
fn watch_heap(session: &Session, places: &mut Places, block: *mut qemu::Block, first: u64, host: u64) {
    if session.heap().is_none() {
        return;
    }
    if let Some(allocator) = places.allocator(first) {
        let of = std::ptr::from_ref(allocator).cast_mut().cast();
        // SAFETY: `translated` passes QEMU's block, which is valid; the function is never freed.
        unsafe { qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, allocates, qemu::NO_REGISTERS, of) };
    }
    if heap::may_return(session.target(), first, host) {
        // SAFETY: the number is no pointer for QEMU.
        unsafe {
            let pc = std::ptr::without_provenance_mut(first as usize);
            qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, returned, qemu::NO_REGISTERS, pc);
        }
    }
}

/// A function of the allocator begins.
extern "C" fn allocates(thread: c_uint, of: *mut c_void) {
    // SAFETY: `watch_heap` passes a function that is never freed.
    threads::allocates(thread, unsafe { *of.cast::<Allocator>() });
}

/// A block begins where a call returns to.
extern "C" fn returned(thread: c_uint, pc: *mut c_void) {
    threads::returned(thread, pc.addr() as u64);
}

/// A block of a program with markers is executed: its counter alone does not tell by which thread.
extern "C" fn executed(thread: c_uint, count: *mut c_void) {
    threads::executed(thread, count.addr() as u64);
}

/// A block is executed, and calls are told.
extern "C" fn followed(thread: c_uint, block: *mut c_void) {
    // SAFETY: `translated` passes a block that is never freed.
    let block = unsafe { &*block.cast::<calls::Block>() };
    threads::follow(thread, block);
}

/// A marker is executed.
extern "C" fn passed(thread: c_uint, planted: *mut c_void) {
    // SAFETY: `translated` passes a marker that is never freed.
    let planted = unsafe { &*planted.cast::<Planted>() };
    threads::mark(thread, planted);
}

/// An instruction has loaded or stored.
extern "C" fn accessed(thread: c_uint, what: u32, address: u64, of: *mut c_void) {
    // SAFETY: `translated` passes an instruction that is never freed.
    let of = unsafe { &*of.cast::<Accesses>() };
    // SAFETY: pure functions of the word.
    let (shift, store) =
        unsafe { (qemu::qemu_plugin_mem_size_shift(what), qemu::qemu_plugin_mem_is_store(what)) };
    of.add(store);
    threads::push(thread, address, 1 << shift, store, of);
}

/// An instruction on another line than the one before in its block is executed.
extern "C" fn entered(thread: c_uint, line: *mut c_void) {
    // SAFETY: `translated` passes a line that is never freed.
    let line = unsafe { &*line.cast::<Line>() };
    threads::fetch(thread, line);
}

/// A thread of the program will begin. The one that starts it calls this.
extern "C" fn thread_begins(_id: qemu::Id, thread: c_uint) {
    if let Some(session) = Session::get() {
        session.begin_thread(thread);
    }
}

/// A thread of the program has ended.
extern "C" fn thread_ended(_id: qemu::Id, thread: c_uint) {
    threads::end(thread);
}

/// The program ends.
extern "C" fn ended(_id: qemu::Id, _: *mut c_void) {
    Session::end_with_qemu();
}

/// The program makes a system call.
#[allow(clippy::too_many_arguments, reason = "QEMU's interface")]
extern "C" fn call_begins(
    _id: qemu::Id,
    thread: c_uint,
    call: i64,
    a: u64,
    b: u64,
    c: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    if let Some(session) = Session::get() {
        threads::leave(session, thread);
        ends::call_begins(session, thread, call, [a, b, c]);
    }
}

/// A system call has returned to the program.
extern "C" fn call_returns(_id: qemu::Id, thread: c_uint, call: i64, _result: i64) {
    if let Some(session) = Session::get() {
        if let Some(turns) = session.turns() {
            turns.come_back(thread);
        }
        session.goes_on();
        if session.calls.is_some_and(|calls| calls.maps(call)) {
            session.moved();
        }
    }
}
