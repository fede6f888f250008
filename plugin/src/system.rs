//! What QEMU calls when it emulates a whole machine: as for a program (`crate::translated`), with physical addresses.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use fathom_model::GUEST_PAGE;

use crate::guest::{Guest, Owner};
use crate::places::{Accesses, Block, Line, Places, Planted};
use crate::session::Session;
use crate::threads::Data;
use crate::{Translated, on_execution, qemu, threads};

/// No physical page.
const UNKNOWN: u32 = u32::MAX;

/// A line of the guest's code.
struct GuestLine {
    line: Line,
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
        let accesses = place_of(&mut places, guest, (pc, code), owner.1, offset);
        numbers.push(accesses.place);
        on_access(instruction, accesses, guest, (pc, host));
        // The part of an instruction that is on the next page is elsewhere in memory.
        let bytes = (code.len() as u64).min(GUEST_PAGE - pc % GUEST_PAGE);
        let line = Line::new(pc, bytes, accesses.place, session.fetch_shift);
        if session.fetches && (last_line != Some(line.first) || line.last != line.first) {
            last_line = Some(line.last);
            let frame = AtomicU32::new(guest.frame(host).unwrap_or(UNKNOWN));
            on_execution(instruction, entered, keep(GuestLine { line, host, frame }));
        }
        for event in guest.events(pc, offset) {
            let rest = (count - index) as u64;
            on_execution(instruction, crate::passed, keep(Planted { event, rest }));
        }
    }
    let counter = places.keep_block(Block::new(numbers));
    // SAFETY: the counter is never freed.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_exec_inline(block, qemu::ADD, counter.cast(), 1) };
    if session.is_marked() {
        let own = matches!(owner.1, Owner::Program(_));
        let of = passed(keep(GuestBlock { instructions: count as u64, own }));
        // SAFETY: QEMU's block is valid, and the other one is never freed.
        unsafe { qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, executed, qemu::NO_REGISTERS, of) };
    }
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
    (pc, code): (u64, &[u8]),
    owner: Owner,
    offset: Option<u64>,
) -> &'static Accesses {
    match owner {
        Owner::Kernel => places.instruction(pc, code),
        _ => match offset.and_then(|offset| guest.linked(offset)) {
            Some(linked) => places.instruction(linked, code),
            None => places.of_others(code),
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
    threads::fetch_on_cpu(cpu, &line.line, frame);
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
    let of = unsafe { &*of.cast::<Unplaced>() };
    let physical = access(cpu, what, address, of.accesses);
    if let Some(physical) = physical.filter(|_| address / GUEST_PAGE == of.pc / GUEST_PAGE)
        && let Some(guest) = Session::get().and_then(|session| session.guest.as_ref())
    {
        guest.learn(of.host.wrapping_sub(of.pc).wrapping_add(address), physical);
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
    let physical = part(cpu, what, (address, here, store), of.place);
    if here < bytes {
        part(cpu, what, (address.wrapping_add(here), bytes - here, store), of.place);
    }
    physical
}

#[inline(always)]
fn part(cpu: c_uint, what: u32, (address, bytes, store): (u64, u64, bool), place: u32) -> Option<u64> {
    // SAFETY: QEMU calls this after an access to the page, and what it returns is valid until this returns.
    let (known, physical) = unsafe {
        let hardware = qemu::qemu_plugin_get_hwaddr(what, address);
        match hardware.is_null() {
            true => (None, 0),
            false => match qemu::qemu_plugin_hwaddr_is_io(hardware) {
                true => (Some(false), 0),
                false => (Some(true), qemu::qemu_plugin_hwaddr_phys_addr(hardware)),
            },
        }
    };
    if known != Some(true) {
        let guest = Session::get().and_then(|session| session.guest.as_ref())?;
        if known.is_some() {
            guest.add_device(store)
        } else {
            guest.add_unplaced()
        }
        return None;
    }
    let data = Data { address, bytes: bytes as u16, store, space: (physical / GUEST_PAGE) as u32 };
    threads::push_on_cpu(cpu, data, place);
    Some(physical)
}
