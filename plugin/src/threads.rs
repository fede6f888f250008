//! The accesses of each thread of the program, until there are enough of them for a batch.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use fathom_model::{Access, Kind};
use fathom_simulation::calls::{Block, Made, Stack};
use fathom_simulation::origin::pc_of;
use fathom_simulation::{Accessor, Allocator, Event, Mark, Repeats};

use crate::counters::Counters;
use crate::heap::Awaited;
use crate::places::{Accesses, Line, Planted};
use crate::session::Session;
use crate::tasks::Tasks;

/// Threads of the program at the same time, at most.
pub const MAX_THREADS: usize = 4096;

/// Parts of calls that are kept before they are added to the program's.
const PARTS: usize = 4096;

/// A thread's accesses.
struct Thread(UnsafeCell<Pending>);

struct Pending {
    batch: Vec<Access>,
    /// Accesses in a batch.
    most: usize,
    /// Finds the accesses that need not be in it.
    repeats: Repeats,
    /// Loads and stores that are not in it.
    repeated: [u64; 2],
    /// The line that instructions were fetched from last.
    line: u64,
    /// The physical page of the last access, of a guest.
    frame: u32,
    /// Regions of the guest's program that the CPU is in, and whether it executes other code.
    inside: u32,
    away: bool,
    /// Executed instructions, if the program has markers, calls are told, or a machine needs them.
    executed: u64,
    /// Whether a machine does, and those before the last load or store that is in the batch.
    between: bool,
    position: u64,
    /// The calls that it is in, if calls are told.
    stack: Stack,
    /// What it has made in the present call, and in those before.
    made: Made,
    calls: Vec<Made>,
    /// The call of the allocator that it is in.
    awaited: Option<Awaited>,
}

static THREADS: [AtomicPtr<Thread>; MAX_THREADS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_THREADS];

/// Returns a thread's accesses.
///
/// # Safety
/// Only one caller at a time may use those of one thread: the thread itself, or any when the program is stopped.
#[inline(always)]
unsafe fn pending<'a>(thread: u32) -> Option<&'a mut Pending> {
    let slot = THREADS.get(thread as usize)?;
    let mut known = slot.load(Ordering::Relaxed);
    if known.is_null() {
        known = begin(slot)?;
    }
    // SAFETY: it is never freed, and the caller promises to be the only one.
    Some(unsafe { &mut *(*known).0.get() })
}

#[cold]
fn begin(slot: &AtomicPtr<Thread>) -> Option<*mut Thread> {
    let session = Session::get()?;
    let (most, repeats) = (session.batch(), session.repeats);
    let batch = Vec::with_capacity(most + 1);
    let pending = Pending {
        batch,
        most,
        repeats,
        repeated: [0; 2],
        line: u64::MAX,
        frame: 0,
        inside: 0,
        away: false,
        executed: 0,
        between: session.between,
        position: 0,
        stack: Stack::default(),
        made: Made::default(),
        calls: Vec::new(),
        awaited: None,
    };
    let new = Box::into_raw(Box::new(Thread(UnsafeCell::new(pending))));
    slot.store(new, Ordering::Release);
    Some(new)
}

/// Adds a load or store.
#[inline(always)]
pub fn push(thread: u32, address: u64, bytes: u16, store: bool, of: &Accesses) {
    // SAFETY: QEMU calls this on the thread itself.
    let Some(own) = (unsafe { pending(thread) }) else { return without(thread) };
    add(thread, own, Data { address, bytes, store, space: 0, by: Accessor::Program }, of);
}

/// A load or store.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub address: u64,
    pub bytes: u16,
    pub store: bool,
    /// The physical page, of a guest.
    pub space: u32,
    /// Whose code it is by.
    pub by: Accessor,
}

#[inline(always)]
fn add(thread: u32, own: &mut Pending, data: Data, of: &Accesses) {
    let Data { address, bytes, store, space, by } = data;
    if own.repeats.repeats(address, bytes, store) {
        own.repeated[usize::from(store)] += 1;
        own.made.repeated[usize::from(store)] += 1;
        return;
    }
    let instructions = if own.between { own.instructions(of.rest) } else { 1 };
    let kind = if store { Kind::Store } else { Kind::Load };
    let pc = pc_of(of.place, own.made.call, by);
    own.batch.push(Access { address, pc, bytes, space, instructions, kind });
    if own.batch.len() >= own.most {
        take_turn(thread, own);
    }
}

/// The CPU of a guest that was told of last: QEMU executes one after the other, on one thread.
static CPU: AtomicU32 = AtomicU32::new(0);

/// Returns the accesses of a CPU. What another one has left goes first.
///
/// # Safety
/// As for [`pending`]; and QEMU executes all CPUs on the thread that calls this.
#[inline(always)]
unsafe fn on_cpu<'a>(cpu: u32) -> Option<&'a mut Pending> {
    let last = CPU.load(Ordering::Relaxed);
    if last != cpu {
        CPU.store(cpu, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        if let Some(other) = unsafe { pending(last) } {
            pass_on(last, other);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { pending(cpu) }
}

/// Adds a load or store of a guest.
#[inline(always)]
pub fn push_on_cpu(cpu: u32, data: Data, of: &Accesses) {
    // SAFETY: QEMU calls this on the thread of all CPUs: `fathom simulate` has it count instructions (-icount).
    let Some(own) = (unsafe { on_cpu(cpu) }) else { return without(cpu) };
    if own.frame != data.space {
        own.frame = data.space;
        own.repeats.forget();
    }
    add(cpu, own, data, of);
}

/// Adds the fetch of an instruction of a guest from a physical page.
#[inline(always)]
pub fn fetch_on_cpu(cpu: u32, line: &Line, space: u32, by: Accessor) {
    // SAFETY: as for `push_on_cpu`.
    let Some(own) = (unsafe { on_cpu(cpu) }) else { return without(cpu) };
    fetch_line(cpu, own, line, space, by);
}

/// Counts the instructions of a block of a guest. `own_code`: it is code of the program whose regions count.
#[inline(always)]
pub fn executed_on_cpu(cpu: u32, count: u64, own_code: bool) {
    // SAFETY: as for `push_on_cpu`.
    let Some(own) = (unsafe { on_cpu(cpu) }) else { return without(cpu) };
    if own.inside > 0 && own.away == own_code {
        go(cpu, own, !own_code);
    }
    own.executed += count;
}

/// A guest's kernel switches the task of a CPU: the region of one ends, and that of another one begins.
pub fn change_task(session: &Session, tasks: &Tasks, cpu: u32) {
    // SAFETY: as for `push_on_cpu`.
    let Some(own) = (unsafe { on_cpu(cpu) }) else { return without(cpu) };
    pass_on(cpu, own);
    for event in tasks.switch(cpu) {
        session.mark(cpu, Mark { event, instructions: own.executed });
    }
}

/// A guest has asked for counts, by a store of a CPU after which `rest` instructions of its block follow.
pub fn answer(session: &Session, counters: &Counters, (cpu, rest): (u32, u64), asked: u32) {
    // SAFETY: as for `push_on_cpu`.
    let Some(own) = (unsafe { on_cpu(cpu) }) else { return without(cpu) };
    pass_on(cpu, own);
    let executed = own.executed.saturating_sub(rest);
    let others = (0..MAX_THREADS as u32).filter(|&other| other != cpu && is_known(other));
    // SAFETY: the other CPUs are executed by the same thread.
    let others = others.filter_map(|other| Some(unsafe { pending(other) }?.executed));
    let all = executed + others.sum::<u64>();
    if let Some(snapshot) = session.snapshot(cpu) {
        counters.answer(asked, cpu, [executed, all], &snapshot);
    }
}

/// A CPU leaves the code of the program whose regions it is in, or goes back.
#[inline(never)]
fn go(cpu: u32, own: &mut Pending, away: bool) {
    own.away = away;
    pass_on(cpu, own);
    if let Some(session) = Session::get() {
        let event = if away { Event::Away } else { Event::Back };
        session.mark(cpu, Mark { event, instructions: own.executed });
    }
}

/// Adds the fetch of an instruction, unless the line before was the same: it is still in the core.
#[inline(always)]
pub fn fetch(thread: u32, line: &Line) {
    // SAFETY: QEMU calls this on the thread itself.
    let Some(own) = (unsafe { pending(thread) }) else { return without(thread) };
    fetch_line(thread, own, line, 0, Accessor::Program);
}

#[inline(always)]
fn fetch_line(thread: u32, own: &mut Pending, line: &Line, space: u32, by: Accessor) {
    if own.line == line.last {
        return;
    }
    own.line = line.last;
    own.repeats.forget();
    let (address, bytes) = (line.pc, line.bytes);
    let pc = pc_of(line.place, own.made.call, by);
    own.batch.push(Access { address, pc, bytes, space, instructions: 0, kind: Kind::Fetch });
    if own.batch.len() >= own.most {
        take_turn(thread, own);
    }
}

/// Counts instructions.
#[inline(always)]
pub fn executed(thread: u32, count: u64) {
    // SAFETY: QEMU calls this on the thread itself.
    let Some(own) = (unsafe { pending(thread) }) else { return without(thread) };
    own.executed += count;
}

/// Counts a block's instructions in the call that executes it.
#[inline(always)]
pub fn follow(thread: u32, block: &Block) {
    // SAFETY: QEMU calls this on the thread itself.
    let Some(own) = (unsafe { pending(thread) }) else { return without(thread) };
    if !own.stack.stays(block) {
        enter(thread, own, block);
    }
    own.executed += block.instructions;
    own.made.executed += block.instructions;
}

/// The same for a CPU of a guest, whose instructions are counted elsewhere.
#[inline(always)]
pub fn follow_on_cpu(cpu: u32, block: &Block) {
    // SAFETY: as for `push_on_cpu`.
    let Some(own) = (unsafe { on_cpu(cpu) }) else { return without(cpu) };
    if !own.stack.stays(block) {
        enter(cpu, own, block);
    }
    own.made.executed += block.instructions;
}

/// A guest's kernel switches the task of a CPU, and with it the calls that it is in.
pub fn switch_task(cpu: u32) {
    // SAFETY: as for `push_on_cpu`.
    let Some(own) = (unsafe { on_cpu(cpu) }) else { return without(cpu) };
    if let Some(followed) = Session::get().and_then(Session::followed) {
        followed.switch(cpu, &mut own.stack);
    }
}

/// Follows a thread to a block that may be in another call.
#[inline(never)]
fn enter(thread: u32, own: &mut Pending, block: &Block) {
    let Some(followed) = Session::get().and_then(Session::followed) else { return };
    followed.enter(&mut own.stack, block);
    if own.stack.call() != own.made.call {
        own.calls.push(std::mem::replace(&mut own.made, Made { call: own.stack.call(), ..Made::default() }));
        if own.calls.len() >= PARTS {
            pass_on(thread, own);
        }
    }
}

/// Passes on what a thread has made before a marker, and the marker. The block of both has been counted.
pub fn mark(thread: u32, planted: &Planted) {
    // SAFETY: QEMU calls this on the thread itself.
    let Some(own) = (unsafe { pending(thread) }) else { return without(thread) };
    pass_on(thread, own);
    match planted.event {
        Event::Begin(_) => own.inside += 1,
        Event::End(_) => own.inside = own.inside.saturating_sub(1),
        _ => {}
    }
    if let Some(session) = Session::get() {
        let instructions = own.executed.saturating_sub(planted.rest);
        session.mark(thread, Mark { event: planted.event, instructions });
    }
}

/// A function of the allocator begins. What the thread has made before is passed on before a block is free.
pub fn allocates(thread: u32, allocator: Allocator) {
    // SAFETY: QEMU calls this on the thread itself.
    let Some(own) = (unsafe { pending(thread) }) else { return without(thread) };
    let Some((session, heap)) = Session::get().and_then(|session| Some((session, session.heap()?))) else {
        return;
    };
    let base = session.places().base();
    if let Some(event) = heap.called(thread, &mut own.awaited, allocator, base) {
        pass_on(thread, own);
        session.add_heap(thread, event);
    }
}

/// A thread is where a call returns to: it may have a new block.
#[inline(always)]
pub fn returned(thread: u32, pc: u64) {
    // SAFETY: QEMU calls this on the thread itself.
    let Some(own) = (unsafe { pending(thread) }) else { return without(thread) };
    if own.awaited.is_some() {
        allocated(thread, own, pc);
    }
}

#[inline(never)]
fn allocated(thread: u32, own: &mut Pending, pc: u64) {
    let Some((session, heap)) = Session::get().and_then(|session| Some((session, session.heap()?))) else {
        return;
    };
    let base = session.places().base();
    let mappings = || session.places().mappings("");
    for event in heap.returned(thread, &mut own.awaited, pc, base, mappings).into_iter().flatten() {
        pass_on(thread, own);
        session.add_heap(thread, event);
    }
}

/// There is no place for the accesses of a thread.
#[cold]
fn without(thread: u32) {
    if let Some(session) = Session::get().filter(|_| thread as usize >= MAX_THREADS) {
        session.refuse(&format!("the program has more than {MAX_THREADS} threads"));
    }
}

#[inline(never)]
fn pass_on(thread: u32, own: &mut Pending) {
    own.repeats.forget();
    let repeated = std::mem::take(&mut own.repeated);
    match Session::get() {
        Some(session) => {
            session.run(thread, &mut own.batch, repeated);
            own.most = session.batch();
            own.end_part();
            session.add_calls(&mut own.calls, own.stack.deepest());
        }
        None => own.batch.clear(),
    }
}

/// Passes a whole batch on. The thread waits if it is too far ahead of others.
#[inline(never)]
fn take_turn(thread: u32, own: &mut Pending) {
    pass_on(thread, own);
    if let Some(turns) = Session::get().and_then(Session::turns) {
        turns.wait(thread);
    }
}

/// A thread makes a system call. If others may learn from it what the thread has done, or go on meanwhile, that is passed on first.
pub fn leave(session: &Session, thread: u32) {
    let Some(turns) = session.turns() else { return };
    // SAFETY: QEMU calls this on the thread itself.
    if let Some(own) = unsafe { pending(thread) } {
        pass_on(thread, own);
        turns.leave(thread);
    }
}

/// Passes on what a thread that ends has left. The thread itself calls it.
pub fn end(thread: u32) {
    // SAFETY: QEMU calls this on the thread itself.
    if let Some(own) = unsafe { pending(thread) } {
        own.line = u64::MAX;
        pass_on(thread, own);
        // Another thread may get its number.
        (own.stack, own.made, own.awaited) = (Stack::default(), Made::default(), None);
        if let Some(session) = Session::get() {
            session.mark(thread, Mark { event: Event::Over, instructions: own.executed });
            session.end_thread(thread);
        }
    }
}

/// What a thread has left.
#[derive(Debug, Default)]
pub struct Left {
    pub batch: Vec<Access>,
    /// Loads and stores that repeat them.
    pub repeated: [u64; 2],
    /// Instructions that it has executed, if the program has markers.
    pub executed: u64,
    /// What it has made in calls, if they are told, and the most calls within one another.
    pub calls: Vec<Made>,
    pub deepest: u64,
}

impl Pending {
    /// Moves on to a load or store whose instruction is the first of the last `rest` of the present block. Returns the instructions
    /// since the one before, its own included.
    #[inline(always)]
    fn instructions(&mut self, rest: u32) -> u32 {
        let at = (self.executed + 1).saturating_sub(u64::from(rest));
        u32::try_from(at.saturating_sub(std::mem::replace(&mut self.position, at))).unwrap_or(u32::MAX)
    }

    /// Adds what has been made in the present call to that of those before.
    fn end_part(&mut self) {
        let next = Made { call: self.made.call, ..Made::default() };
        self.calls.push(std::mem::replace(&mut self.made, next));
    }

    fn take(&mut self) -> Left {
        self.repeats.forget();
        self.end_part();
        Left {
            batch: std::mem::take(&mut self.batch),
            repeated: std::mem::take(&mut self.repeated),
            executed: self.executed,
            calls: std::mem::take(&mut self.calls),
            deepest: self.stack.deepest(),
        }
    }
}

/// Takes what a thread has left. The thread itself calls it.
pub fn take(thread: u32) -> Left {
    // SAFETY: the thread itself calls this.
    unsafe { pending(thread) }.map(Pending::take).unwrap_or_default()
}

/// Returns whether a thread has made anything.
fn is_known(thread: u32) -> bool {
    !THREADS[thread as usize].load(Ordering::Acquire).is_null()
}

/// Takes what all threads have left.
///
/// # Safety
/// No thread of the program runs.
pub unsafe fn take_all() -> Vec<(u32, Left)> {
    let known = (0..MAX_THREADS as u32).filter(|&n| is_known(n));
    // SAFETY: the caller's promise.
    known.filter_map(|n| Some((n, unsafe { pending(n) }?.take()))).collect()
}
