//! The conversation with `fathom simulate`, and the machines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fathom_model::{Access, GUEST_BATCH};
use fathom_simulation::calls::Made;
use fathom_simulation::protocol::{self, Answer, End, HeapSites, Message, Request};
use fathom_simulation::{Event, HeapEvent, MachineCounts, Machines, Mark, Repeats, Snapshot, fetch_shift};

use crate::children;
use crate::counters::Counters;
use crate::followed::Followed;
use crate::guest::Guest;
use crate::heap::Heap;
use crate::kept::Kept;
use crate::places::Places;
use crate::signals::BlockedSignals;
use crate::socket::{Socket, moved};
use crate::system_calls::Calls;
use crate::threads::{self, Left};
use crate::turns::{Gate, TURN};

/// Accesses in a batch.
const BATCH: usize = 4096;
/// Interval of messages about progress.
const PROGRESS: Duration = Duration::from_millis(200);

static SESSION: OnceLock<Session> = OnceLock::new();

/// The process's only session.
pub struct Session {
    /// Whether instruction fetches are simulated.
    pub fetches: bool,
    /// log2 of the bytes of a line, as far as fetches are concerned: the shortest of all machines.
    pub fetch_shift: u32,
    /// Finds accesses that need not be made, at the beginning of a thread.
    pub repeats: Repeats,
    /// Whether marks of regions have been found, so that instructions are counted by thread.
    marked: AtomicBool,
    /// Whether a machine or a trace needs the instructions between accesses, so that they are counted by thread from the beginning.
    pub between: bool,
    /// Whether the program's mappings have changed since marks were looked for.
    moved: AtomicBool,
    /// The guest, if a whole machine is emulated.
    pub guest: Option<Guest>,
    /// System calls that may end the program.
    pub calls: Option<&'static Calls>,
    target: String,
    /// Name of the program's file.
    program: String,
    /// The process that began: children of the program are other processes.
    process: u32,
    /// The program's calls, if they are asked for.
    followed: Option<Followed>,
    /// The page in which a guest reads counts, if it may.
    pub counters: Option<Counters>,
    /// The program's allocator, if it is asked for, or why it is not followed.
    heap: Option<Result<Heap, String>>,
    places: Mutex<Places>,
    sink: Mutex<Sink>,
    /// Who of the program's threads waits for whom.
    gate: Gate,
    socket: Mutex<Socket>,
    accesses: AtomicU64,
    ended: AtomicBool,
    /// Whether the answer has been sent.
    answered: AtomicBool,
    /// Whether the counts have been sent because the program may end.
    may_end: AtomicBool,
}

/// Where batches go.
struct Sink {
    machines: Option<Machines>,
    /// The trace that is kept.
    kept: Option<Kept>,
    /// Why it is not.
    failed: Option<String>,
    /// The largest number of a thread, plus one.
    threads: u32,
}

/// Locks, also what a thread has left that has panicked.
pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Connects to the command, reads its request and creates the machines. `cpus` is the number of a guest's CPUs.
    pub fn begin(socket: &str, target: &str, cpus: Option<i32>) -> Result<(), String> {
        let connected = UnixStream::connect(socket).and_then(moved).map_err(|e| format!("{socket}: {e}"))?;
        let mut writer = connected.try_clone().and_then(moved).map_err(|e| format!("{socket}: {e}"))?;
        let mut refuse = |what: String| {
            let _ = writer.write_all(protocol::line(&Message::Refused(what.clone())).as_bytes());
            what
        };
        let mut line = String::new();
        let mut reader = BufReader::new(connected);
        reader.read_line(&mut line).map_err(|e| format!("{socket}: {e}"))?;
        let request: Request = protocol::read(&line).map_err(&mut refuse)?;
        let guest = Guest::begin(&request, cpus, target).map_err(&mut refuse)?;
        // QEMU passes SIGINT on to the program, which would die of it. The command's user means the simulation: it tells
        // the command, and that closes its side.
        // SAFETY: ignoring a signal has no further condition. The program may still set a handler of its own.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        let blocked = BlockedSignals::all();
        let page = request.guest.as_ref().and_then(|guest| guest.counters.as_deref());
        let counters = page.map(|file| Counters::begin(file, &request.machines)).transpose();
        let counters = counters.map_err(&mut refuse)?;
        let machines = machines_of(&request, guest.is_some(), counters.is_some());
        let machines = machines.map_err(&mut refuse)?;
        // A trace is for machines that may need them, too.
        let between = machines.need_instructions() || request.trace.is_some();
        let mut places = Places::default();
        if between {
            places.count_in_blocks();
        }
        let shift = fetch_shift(&request.machines);
        let kept = request.trace.as_deref().map(|file| Kept::begin(file, &request, shift)).transpose();
        let kept = kept.map_err(&mut refuse)?;
        let followed = request.calls.then(|| Followed::begin(guest.is_some(), target)).transpose();
        let followed = followed.map_err(&mut refuse)?;
        let session = Session {
            fetches: request.fetches,
            fetch_shift: kept.as_ref().map_or(shift, Kept::fetch_shift),
            // A trace has all accesses.
            repeats: if kept.is_some() { Repeats::none() } else { machines.repeats() },
            gate: Gate::new(),
            marked: AtomicBool::new(guest.as_ref().is_some_and(Guest::is_marked)),
            moved: AtomicBool::new(false),
            between,
            program: request.program,
            calls: if guest.is_none() { Calls::of(target) } else { None },
            heap: (guest.is_none() && (request.why || request.trace.is_some())).then(|| Heap::begin(target)),
            guest,
            target: target.to_owned(),
            followed,
            counters,
            process: std::process::id(),
            places: Mutex::new(places),
            sink: Mutex::new(Sink::new(machines, kept)),
            socket: Mutex::new(Socket::new(writer, socket)),
            accesses: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            may_end: AtomicBool::new(false),
        };
        if SESSION.set(session).is_err() {
            return Err("the plugin is loaded twice".to_owned());
        }
        std::thread::spawn(move || stop_when_closed(reader));
        std::thread::spawn(tell_progress);
        drop(blocked);
        Ok(())
    }

    /// Returns the session; `None` before it has begun, after its end, and in children of the program.
    #[inline(always)]
    pub fn get() -> Option<&'static Session> {
        SESSION.get().filter(|session| !session.ended.load(Ordering::Relaxed))
    }

    /// QEMU ends: its process must not be gone before the answer. Ends the session, or waits for the thread that does.
    pub fn end_with_qemu() {
        let Some(session) = SESSION.get() else { return };
        session.end(End::Complete, None);
        // A signal may have ended the guest and told the command at the same time.
        while session.guest.is_some() && !session.answered.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns whether this is the process that began, and not a child of it.
    pub fn is_own(&self) -> bool {
        std::process::id() == self.process
    }

    pub fn places(&self) -> MutexGuard<'_, Places> {
        lock(&self.places)
    }

    /// Returns whether marks of regions have been found.
    pub fn is_marked(&self) -> bool {
        self.marked.load(Ordering::Relaxed)
    }

    /// Returns whether instructions are counted by thread.
    pub fn counts_by_thread(&self) -> bool {
        self.between || self.is_marked()
    }

    /// Returns the calls, if they are told.
    #[inline(always)]
    pub fn followed(&self) -> Option<&Followed> {
        self.followed.as_ref()
    }

    /// Returns QEMU's name of the instruction set.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Adds what a thread has made in calls.
    pub fn add_calls(&self, made: &mut Vec<Made>, deepest: u64) {
        if let Some(followed) = self.followed().filter(|_| self.is_own()) {
            followed.add(made, deepest);
        }
        made.clear();
    }

    /// Notes that the program's mappings have changed.
    pub fn moved(&self) {
        self.moved.store(true, Ordering::Relaxed);
    }

    /// Looks for marks at an address whose code is translated. Returns whether they are the first ones, and there is older code
    /// that does not count its instructions by thread.
    pub fn learn(&self, places: &mut Places, pc: u64) -> bool {
        let moved = self.moved.swap(false, Ordering::Relaxed);
        let found = places.learn(pc, moved).unwrap_or_else(|what| {
            self.refuse(&what);
            false
        });
        found && !self.marked.swap(true, Ordering::Relaxed) && !places.is_empty() && !self.between
    }

    /// Passes a batch of a thread to the machines, and empties it.
    pub fn run(&self, thread: u32, batch: &mut Vec<Access>, repeated: [u64; 2]) {
        if !self.is_own() {
            // A child of the program, by fork: its threads of this plugin do not exist.
            self.ended.store(true, Ordering::Relaxed);
            batch.clear();
            return;
        }
        let made = batch.len() as u64 + repeated[0] + repeated[1];
        let mut sink = lock(&self.sink);
        sink.run(thread, batch, repeated, &self.accesses);
        if let Some(what) = sink.failed.take() {
            self.refuse(&what);
        }
        drop(sink);
        if self.gate.has_several() {
            self.gate.made(thread, made);
        }
    }

    /// Returns the accesses of a thread in a batch.
    pub fn batch(&self) -> usize {
        match self.guest {
            Some(_) => GUEST_BATCH,
            None if self.gate.has_several() => TURN,
            None => BATCH,
        }
    }

    /// Returns the turns of the program's threads; `None` for one thread, for a guest, and in children of the program, which may
    /// not use a lock that another thread had when they began.
    pub fn turns(&self) -> Option<&Gate> {
        Some(&self.gate).filter(|gate| gate.has_several() && self.is_own())
    }

    /// A thread of the program will begin.
    pub fn begin_thread(&self, thread: u32) {
        if self.guest.is_none() && self.is_own() {
            self.gate.begin(thread);
        }
    }

    /// A thread of the program is over.
    pub fn end_thread(&self, thread: u32) {
        if let Some(turns) = self.turns() {
            turns.end(thread);
        }
    }

    /// Passes a mark of a thread to the machines.
    pub fn mark(&self, thread: u32, mark: Mark) {
        if !self.is_marked() || !self.is_own() {
            return;
        }
        let mut sink = lock(&self.sink);
        sink.mark(thread, mark);
        if let Some(what) = sink.failed.take() {
            self.refuse(&what);
        }
    }

    /// Returns the program's allocator, if it is followed.
    #[inline(always)]
    pub fn heap(&self) -> Option<&Heap> {
        self.heap.as_ref()?.as_ref().ok()
    }

    /// Passes what has happened to a block of the heap to the machines.
    pub fn add_heap(&self, thread: u32, event: HeapEvent) {
        if !self.is_own() {
            return;
        }
        let mut sink = lock(&self.sink);
        sink.heap(thread, event);
        if let Some(what) = sink.failed.take() {
            self.refuse(&what);
        }
    }

    /// Returns what is known of allocation sites.
    fn heap_sites(&self) -> HeapSites {
        match &self.heap {
            None => HeapSites::default(),
            Some(Ok(heap)) => heap.told(),
            Some(Err(problem)) => HeapSites { problem: Some(problem.clone()), ..HeapSites::default() },
        }
    }

    /// Returns what the first machine has counted so far, of a CPU and of all.
    pub fn snapshot(&self, cpu: u32) -> Option<Snapshot> {
        lock(&self.sink).machines.as_ref()?.snapshot(cpu)
    }

    /// Ends the simulation because it cannot go on.
    pub fn refuse(&self, what: &str) {
        if !self.ended.swap(true, Ordering::SeqCst) {
            self.tell(&Message::Refused(what.to_owned()));
            self.answered.store(true, Ordering::SeqCst);
        }
    }

    /// Ends the simulation and sends the answer. `thread` is the one that calls, if it is one of the program's and others
    /// may still run; what those have left is not counted then.
    pub fn end(&self, how: End, thread: Option<u32>) {
        if !self.is_own() || self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        // The lock stays taken, so that whatever still runs waits until the process ends.
        let mut sink = lock(&self.sink);
        if how == End::Complete {
            // SAFETY: QEMU has stopped all threads.
            for (thread, left) in unsafe { threads::take_all() } {
                self.run_left(&mut sink, thread, left);
            }
        } else if let Some(thread) = thread {
            self.run_left(&mut sink, thread, threads::take(thread));
        }
        sink.flush();
        let counts = sink.machines.take().map(Machines::finish).unwrap_or_default();
        match sink.failed.take() {
            Some(what) => self.tell(&Message::Refused(what)),
            None => self.tell(&Message::Answer(Box::new(self.answer(how, &sink, counts)))),
        }
        self.answered.store(true, Ordering::SeqCst);
        if how == End::Interrupted && self.guest.is_some() {
            // Whatever waits goes on without the machines; QEMU restores the terminal.
            drop(sink);
            // SAFETY: sends a signal, for which QEMU has a handler.
            unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        } else if how == End::Interrupted {
            children::end_all();
            // SAFETY: ends the process at once, without the handlers of a program that is in the middle of something.
            unsafe { libc::_exit(0) };
        }
    }

    /// Sends the counts so far, because the program may end now, without telling. Its thread `thread` calls this.
    pub fn may_end(&self, how: End, thread: u32) {
        let left = threads::take(thread);
        let mut sink = lock(&self.sink);
        self.run_left(&mut sink, thread, left);
        sink.flush();
        let counts = sink.machines.as_ref().map(Machines::counts).unwrap_or_default();
        let answer = self.answer(how, &sink, counts);
        self.may_end.store(true, Ordering::Relaxed);
        self.tell(&Message::SoFar(Box::new(answer)));
    }

    /// Passes on what a thread has left.
    fn run_left(&self, sink: &mut Sink, thread: u32, mut left: Left) {
        sink.run(thread, &mut left.batch, left.repeated, &self.accesses);
        self.add_calls(&mut left.calls, left.deepest);
        if self.is_marked() {
            sink.mark(thread, Mark { event: Event::Now, instructions: left.executed });
        }
    }

    /// Revokes what [`Session::may_end`] has sent.
    pub fn goes_on(&self) {
        if self.may_end.load(Ordering::Relaxed)
            && self.is_own()
            && self.may_end.swap(false, Ordering::Relaxed)
        {
            self.tell(&Message::GoesOn);
        }
    }

    fn answer(&self, end: End, sink: &Sink, machines: Vec<MachineCounts>) -> Answer {
        let places = self.places();
        let counted = places.counted();
        Answer {
            end,
            status: 0,
            target: self.target.clone(),
            threads: sink.threads,
            unseen: places.unseen(&self.target, &counted),
            places: counted,
            mappings: match &self.guest {
                Some(guest) => guest.mappings(),
                None => places.mappings(&self.program),
            },
            regions: self.guest.as_ref().map_or_else(|| places.regions(), Guest::regions),
            heap: self.heap_sites(),
            calls: self.followed().map(|followed| Box::new(followed.tree())),
            guest: self.guest.as_ref().map(Guest::answer),
            machines,
        }
    }

    /// Sends a message, if necessary through another socket than before.
    fn tell(&self, message: &Message) {
        lock(&self.socket).tell(&protocol::line(message));
    }
}

/// Creates the machines, for a guest or a program. `by_cpu`: what each CPU has made is asked for.
fn machines_of(request: &Request, guest: bool, by_cpu: bool) -> Result<Machines, String> {
    let Request { machines, seed, threads, why, .. } = request;
    match guest {
        true => Machines::of_guest(machines, *seed, *threads, *why, by_cpu),
        false => Machines::new(machines, *seed, *threads, *why),
    }
}

impl Sink {
    fn new(machines: Machines, kept: Option<Kept>) -> Sink {
        Sink { machines: Some(machines), kept, failed: None, threads: 0 }
    }

    /// Writes what the trace has, because its end may follow.
    fn flush(&mut self) {
        if let Some(Err(what)) = self.kept.as_mut().map(Kept::flush) {
            self.failed = Some(what);
        }
    }

    fn run(&mut self, thread: u32, batch: &mut Vec<Access>, repeated: [u64; 2], total: &AtomicU64) {
        self.threads = self.threads.max(thread + 1);
        let made = batch.len() as u64 + repeated[0] + repeated[1];
        total.fetch_add(made, Ordering::Relaxed);
        if let Some(Err(what)) = self.kept.as_mut().map(|kept| kept.add(thread, batch)) {
            self.failed = Some(what);
        }
        if let Some(machines) = &mut self.machines {
            machines.run_and_clear(thread, batch);
            machines.add_hits(thread, repeated);
        }
    }

    fn heap(&mut self, thread: u32, event: HeapEvent) {
        if let Some(Err(what)) = self.kept.as_mut().map(|kept| kept.heap(thread, event)) {
            self.failed = Some(what);
        }
        if let Some(machines) = &mut self.machines {
            machines.heap(event);
        }
    }

    fn mark(&mut self, thread: u32, mark: Mark) {
        if let Some(Err(what)) = self.kept.as_mut().map(|kept| kept.mark(thread, mark)) {
            self.failed = Some(what);
        }
        if let Some(machines) = &mut self.machines {
            machines.mark(thread, mark);
        }
    }
}

/// Waits until the command closes its side, or is gone.
fn stop_when_closed(mut reader: BufReader<UnixStream>) {
    let _ = reader.read_to_end(&mut Vec::new());
    if let Some(session) = Session::get() {
        session.end(End::Interrupted, None);
    }
}

fn tell_progress() {
    let mut last = 0;
    while let Some(session) = Session::get() {
        std::thread::sleep(PROGRESS);
        let now = session.accesses.load(Ordering::Relaxed);
        if now != last && Session::get().is_some() {
            lock(&session.socket).tell_if_open(&protocol::line(&Message::Progress(now)));
            last = now;
        }
    }
}
