//! What QEMU calls when it emulates a whole machine: as for a program (`crate::translated`), with physical addresses.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use fathom_model::GUEST_PAGE;
use fathom_simulation::Accessor;
use fathom_simulation::calls::{self, Branch};

use crate::guest::{Guest, Owner};
use crate::places::{Accesses, Block, Line, Places, Planted};
use crate::session::Session;
use crate::tasks::Tasks;
use crate::threads::Data;
use crate::{Translated, on_execution, qemu, threads};

/// No physical page.
const UNKNOWN: u32 = u32::MAX;

/// A line of the guest's code.
struct GuestLine {
    line: Line,
    /// Whose code it is.
    by: Accessor,
    /// Where it is in this process; 0 if it is no memory.
    host: u64,
    /// Its physical page, if that is known.
    frame: AtomicU32,
}

/// An instruction whose physical address is not known.
struct Unplaced {
    accesses: &'static Accesses,
    pc: u64,
    host: u64,
}

/// An instruction of a guest that may ask for counts.
struct Asking {
    unplaced: Unplaced,
    /// Instructions of its block after it.
    rest: u64,
}

/// A block, if anything happens at addresses.
struct GuestBlock {
    instructions: u64,
    /// Whether it is code of the program whose regions count.
    own: bool,
}

fn keep<T>(of: T) -> &'static T {
    Box::leak(Box::new(of))
}

fn passed<T>(of: &'static T) -> *mut c_void {
    std::ptr::from_ref(of).cast_mut().cast()
}

/// A block has been translated. QEMU does that again for each address space in which it is elsewhere.
pub extern "C" fn translated(_id: qemu::Id, block: *mut qemu::Block) {
    let Some(session) = Session::get() else { return };
    let Some(guest) = &session.guest else { return };
    // SAFETY: QEMU's block is valid during this call.
    let count = unsafe { qemu::qemu_plugin_tb_n_insns(block) };
    let mut places = session.places();
    let mut numbers = Vec::with_capacity(count);
    let mut last_line = None;
    let mut owner = (u64::MAX, Owner::Others);
    for index in 0..count {
        let Translated { instruction, pc, host, code } = Translated::of(block, index);
        if owner.0 != pc / GUEST_PAGE {
            owner = (pc / GUEST_PAGE, guest.owner(pc, || page_of(host)));
        }
        let offset = match owner.1 {
            Owner::Program(page) => Some(page + pc % GUEST_PAGE),
            _ => None,
        };
        let accesses = place_of(&mut places, guest, (pc, code, count - index), owner.1, offset);
        numbers.push(accesses.place);
        match session.counters {
            Some(_) => {
                on_access_beside_counters(instruction, accesses, (pc, host), (count - index - 1) as u64)
            }
            None => on_access(instruction, accesses, guest, (pc, host)),
        }
        // The part of an instruction that is on the next page is elsewhere in memory.
        let bytes = (code.len() as u64).min(GUEST_PAGE - pc % GUEST_PAGE);
        let line = Line::new(pc, bytes, accesses.place, session.fetch_shift);
        if session.fetches && (last_line != Some(line.first) || line.last != line.first) {
            last_line = Some(line.last);
            let frame = AtomicU32::new(guest.frame(host).unwrap_or(UNKNOWN));
            on_execution(instruction, entered, keep(GuestLine { line, by: accesses.by, host, frame }));
        }
        for event in guest.events(pc, offset) {
            let rest = (count - index) as u64;
            on_execution(instruction, crate::passed, keep(Planted { event, rest }));
        }
    }
    let counter = places.keep_block(Block::new(numbers));
    follow(session, guest, block, owner.1);
    watch_tasks(guest, block);
    // SAFETY: the counter is never freed.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_exec_inline(block, qemu::ADD, counter.cast(), 1) };
    if session.counts_by_thread() {
        let own = matches!(owner.1, Owner::Program(_));
        let of = passed(keep(GuestBlock { instructions: count as u64, own }));
        // SAFETY: QEMU's block is valid, and the other one is never freed.
        unsafe { qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, executed, qemu::NO_REGISTERS, of) };
    }
}

/// Has the calls of a block followed, if they are asked for. `last` is whose code its last page has.
fn follow(session: &Session, guest: &Guest, block: *mut qemu::Block, last: Owner) {
    if session.followed().is_none() {
        return;
    }
    // SAFETY: QEMU's block is valid, and has an instruction at least.
    let count = unsafe { qemu::qemu_plugin_tb_n_insns(block) };
    let (begin, end) = (Translated::of(block, 0), Translated::of(block, count - 1));
    let owner = if begin.pc / GUEST_PAGE == end.pc / GUEST_PAGE {
        last
    } else {
        guest.owner(begin.pc, || page_of(begin.host))
    };
    let offset = match owner {
        Owner::Program(page) => Some(page + begin.pc % GUEST_PAGE),
        _ => None,
    };
    let Some(of) = guest.call_block(begin.pc, owner, offset) else { return };
    let branch = Branch::of(session.target(), begin.pc, &[end.code]);
    let of = keep(calls::Block {
        first: begin.pc,
        named: of.named,
        next: end.pc + end.code.len() as u64,
        instructions: count as u64,
        function: of.function,
        entry: of.entry,
        branch: if of.is_followed { branch } else { Branch::Other },
        special: of.special,
    });
    // SAFETY: QEMU's block is valid, and the other one is never freed.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, followed, qemu::NO_REGISTERS, passed(of));
        if guest.switches(begin.pc) {
            qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, switched, qemu::NO_REGISTERS, passed(of));
        }
    }
}

/// Has the tasks of the guest watched, if they are told apart. What is registered here comes before the block's instructions are counted.
fn watch_tasks(guest: &Guest, block: *mut qemu::Block) {
    let Some(tasks) = guest.tasks() else { return };
    let Translated { pc, host, .. } = Translated::of(block, 0);
    let within = (pc % GUEST_PAGE) as usize;
    // At the beginning of a page it is not known what is before.
    let before = within.checked_sub(4).and_then(|at| page_of(host)?.get(at..within));
    // SAFETY: QEMU's block is valid; the numbers are no pointers for QEMU.
    unsafe {
        if let Some(register) = before.and_then(Tasks::written) {
            let register = std::ptr::without_provenance_mut(register as usize);
            qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, task_told, qemu::NO_REGISTERS, register);
        }
        if tasks.switches(pc) {
            let none = std::ptr::null_mut();
            qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, task_changed, qemu::NO_REGISTERS, none);
        }
    }
}

/// The block is executed that follows the write of a task's number.
extern "C" fn task_told(cpu: c_uint, register: *mut c_void) {
    if let Some(tasks) = Session::get().and_then(|session| session.guest.as_ref()?.tasks()) {
        tasks.write(cpu, register.addr() as c_int);
    }
}

/// The block that switches tasks is executed.
extern "C" fn task_changed(cpu: c_uint, _: *mut c_void) {
    let Some(session) = Session::get() else { return };
    if let Some(tasks) = session.guest.as_ref().and_then(Guest::tasks) {
        threads::change_task(session, tasks, cpu);
    }
}

/// A block is executed, and calls are told.
extern "C" fn followed(cpu: c_uint, block: *mut c_void) {
    // SAFETY: `follow` passes a block that is never freed.
    threads::follow_on_cpu(cpu, unsafe { &*block.cast::<calls::Block>() });
}

/// The block that switches tasks is executed.
extern "C" fn switched(cpu: c_uint, _: *mut c_void) {
    threads::switch_task(cpu);
}

/// Returns the contents of the guest's page at an address of this process; `None` if it is no memory.
fn page_of<'a>(host: u64) -> Option<&'a [u8; GUEST_PAGE as usize]> {
    if host == 0 {
        return None;
    }
    let page = std::ptr::with_exposed_provenance::<[u8; GUEST_PAGE as usize]>(
        (host / GUEST_PAGE * GUEST_PAGE) as usize,
    );
    // SAFETY: QEMU has translated code there: it is memory of the guest, which is there as long as this process, in whole pages of at
    // least this size. No CPU runs while QEMU translates on their only thread; what a device writes meanwhile is any byte.
    Some(unsafe { &*page })
}

/// Returns the place of an instruction: its own in the kernel and in the program, else that of all others.
fn place_of(
    places: &mut Places,
    guest: &Guest,
    (pc, code, rest): (u64, &[u8], usize),
    owner: Owner,
    offset: Option<u64>,
) -> &'static Accesses {
    match owner {
        Owner::Kernel => places.instruction(pc, code, Accessor::Kernel, rest),
        _ => match offset.and_then(|offset| guest.linked(offset)) {
            Some(linked) => {
                guest.is_moved_by(pc.wrapping_sub(linked));
                places.instruction(linked, code, Accessor::Program, rest)
            }
            None => places.of_others(code, rest),
        },
    }
}

/// Has loads and stores of an instruction counted.
fn on_access(
    instruction: *mut qemu::Instruction,
    accesses: &'static Accesses,
    guest: &Guest,
    (pc, host): (u64, u64),
) {
    let known = host == 0 || guest.frame(host).is_some();
    let (call, of): (extern "C" fn(c_uint, u32, u64, *mut c_void), _) = match known {
        true => (accessed, passed(accesses)),
        false => (accessed_and_learnt, passed(keep(Unplaced { accesses, pc, host }))),
    };
    let (flags, kinds) = (qemu::NO_REGISTERS, qemu::READS_AND_WRITES);
    // SAFETY: the functions have the type that QEMU expects, and `of` is never freed.
    unsafe { qemu::qemu_plugin_register_vcpu_mem_cb(instruction, call, flags, kinds, of) };
}

/// Has loads and stores of an instruction counted, and those of the page for counters seen.
fn on_access_beside_counters(
    instruction: *mut qemu::Instruction,
    accesses: &'static Accesses,
    (pc, host): (u64, u64),
    rest: u64,
) {
    let of = passed(keep(Asking { unplaced: Unplaced { accesses, pc, host }, rest }));
    let (flags, kinds) = (qemu::NO_REGISTERS, qemu::READS_AND_WRITES);
    // SAFETY: the function has the type that QEMU expects, and `of` is never freed.
    unsafe {
        qemu::qemu_plugin_register_vcpu_mem_cb(instruction, accessed_beside_counters, flags, kinds, of);
    }
}

/// A block is executed.
extern "C" fn executed(cpu: c_uint, block: *mut c_void) {
    // SAFETY: `translated` passes a block that is never freed.
    let block = unsafe { &*block.cast::<GuestBlock>() };
    threads::executed_on_cpu(cpu, block.instructions, block.own);
}

/// An instruction on another line than the one before in its block is executed.
extern "C" fn entered(cpu: c_uint, line: *mut c_void) {
    // SAFETY: `translated` passes a line that is never freed.
    let line = unsafe { &*line.cast::<GuestLine>() };
    let mut frame = line.frame.load(Ordering::Relaxed);
    if frame == UNKNOWN {
        let Some(guest) = Session::get().and_then(|session| session.guest.as_ref()) else { return };
        frame = guest.frame(line.host).unwrap_or(UNKNOWN);
        if frame == UNKNOWN {
            return guest.add_unplaced();
        }
        line.frame.store(frame, Ordering::Relaxed);
    }
    threads::fetch_on_cpu(cpu, &line.line, frame, line.by);
}

/// An instruction has loaded or stored.
extern "C" fn accessed(cpu: c_uint, what: u32, address: u64, of: *mut c_void) {
    // SAFETY: `on_access` passes an instruction that is never freed.
    let of = unsafe { &*of.cast::<Accesses>() };
    access(cpu, what, address, of);
}

/// The same, while it is not known where the instruction is in physical memory.
extern "C" fn accessed_and_learnt(cpu: c_uint, what: u32, address: u64, of: *mut c_void) {
    // SAFETY: `on_access` passes an instruction that is never freed.
    learn_by(cpu, what, address, unsafe { &*of.cast::<Unplaced>() });
}

/// Passes an access on, and learns from it where the instruction is.
fn learn_by(cpu: c_uint, what: u32, address: u64, of: &Unplaced) {
    let physical = access(cpu, what, address, of.accesses);
    if let Some(physical) = physical.filter(|_| address / GUEST_PAGE == of.pc / GUEST_PAGE)
        && let Some(guest) = Session::get().and_then(|session| session.guest.as_ref())
    {
        guest.learn(of.host.wrapping_sub(of.pc).wrapping_add(address), physical);
    }
}

/// An instruction of a guest that may ask for counts has loaded or stored. Accesses to the page for counters are a device's.
extern "C" fn accessed_beside_counters(cpu: c_uint, what: u32, address: u64, of: *mut c_void) {
    let Some(session) = Session::get() else { return };
    let Some((guest, counters)) = session.guest.as_ref().zip(session.counters.as_ref()) else { return };
    // SAFETY: `on_access_beside_counters` passes an instruction that is never freed; a pure function of the word.
    let (Asking { unplaced, rest }, store) =
        unsafe { (&*of.cast::<Asking>(), qemu::qemu_plugin_mem_is_store(what)) };
    let asked = if store { counters.asked() } else { None };
    let Some(Place::Memory(physical)) = place(what, address) else {
        access(cpu, what, address, unplaced.accesses);
        return;
    };
    if asked.is_some() {
        counters.is_at(address, physical);
    }
    if asked.is_some() || counters.has(address, physical) {
        unplaced.accesses.add(store);
        guest.add_device(store);
    } else {
        learn_by(cpu, what, address, unplaced);
    }
    if let Some(asked) = asked {
        threads::answer(session, counters, (cpu, *rest), asked);
    }
}

/// Passes an access on, in two parts if it crosses pages. Returns its physical address, if it is one of memory.
#[inline(always)]
fn access(cpu: c_uint, what: u32, address: u64, of: &Accesses) -> Option<u64> {
    // SAFETY: pure functions of the word.
    let (shift, store) =
        unsafe { (qemu::qemu_plugin_mem_size_shift(what), qemu::qemu_plugin_mem_is_store(what)) };
    of.add(store);
    let bytes = 1u64 << shift;
    let here = bytes.min(GUEST_PAGE - address % GUEST_PAGE);
    let physical = part(cpu, what, (address, here, store), of);
    if here < bytes {
        part(cpu, what, (address.wrapping_add(here), bytes - here, store), of);
    }
    physical
}

#[inline(always)]
fn part(cpu: c_uint, what: u32, (address, bytes, store): (u64, u64, bool), of: &Accesses) -> Option<u64> {
    let physical = match place(what, address) {
        Some(Place::Memory(physical)) => physical,
        other => {
            let guest = Session::get().and_then(|session| session.guest.as_ref())?;
            match other {
                Some(_) => guest.add_device(store),
                None => guest.add_unplaced(),
            }
            return None;
        }
    };
    let space = (physical / GUEST_PAGE) as u32;
    let data = Data { address, bytes: bytes as u16, store, space, by: of.by };
    threads::push_on_cpu(cpu, data, of);
    Some(physical)
}

/// Where an access has gone.
enum Place {
    /// To memory, at this physical address.
    Memory(u64),
    Device,
}

/// Returns where an access has gone, if that is known.
#[inline(always)]
fn place(what: u32, address: u64) -> Option<Place> {
    // SAFETY: QEMU calls this after an access to the page, and what it returns is valid until this returns.
    unsafe {
        let hardware = qemu::qemu_plugin_get_hwaddr(what, address);
        if hardware.is_null() {
            return None;
        }
        Some(match qemu::qemu_plugin_hwaddr_is_io(hardware) {
            true => Place::Device,
            false => Place::Memory(qemu::qemu_plugin_hwaddr_phys_addr(hardware)),
        })
    }
}
