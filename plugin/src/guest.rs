//! A guest: where its memory is, whose code is executed, and what is counted beside the machines.
//!
//! QEMU tells the physical address of a load or store, and of an instruction its virtual address and where it is in this process.
//! The guest's memory is one part of this process for each of its chips, so a distance tells the physical address of code, too: it is
//! learnt from the first load of an instruction from its own page, the same for both.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_model::{Description, GUEST_PAGE};
use fathom_simulation::calls::{Entry, Special};
use fathom_simulation::protocol::{GuestAnswer, GuestCalls, GuestRequest, Mapping, OTHER_PROGRAMS, Request};
use fathom_simulation::{Code, Event, MAX_REGIONS, Note};

use crate::session::lock;
use crate::tasks::Tasks;

/// Bytes of a page.
const PAGE: usize = GUEST_PAGE as usize;

/// Whose code an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The kernel.
    Kernel,
    /// The program that is told apart; the offset of the page in its file.
    Program(u64),
    /// Other programs, and code that runs before the kernel has its addresses.
    Others,
}

/// A part of this process that is memory of the guest.
#[derive(Clone, Debug)]
struct Memory {
    host: Range<u64>,
    /// Physical address of the host's address 0.
    base: u64,
}

/// The guest.
#[derive(Debug)]
pub struct Guest {
    request: GuestRequest,
    program: Option<Program>,
    memory: Mutex<Vec<Memory>>,
    devices: [AtomicU64; 2],
    unplaced: AtomicU64,
    /// What the program's addresses are moved by: the first two different ones.
    moved: Mutex<Vec<u64>>,
    /// Its tasks, if they are told apart.
    tasks: Option<Tasks>,
}

impl Guest {
    /// Returns the guest that a request is about, if it has so many CPUs; `None` for a program without a guest.
    ///
    /// # Errors
    /// The emulator is of another kind than the request, a machine has fewer CPUs, there are too many regions, or QEMU does not tell what
    /// tasks need.
    pub fn begin(request: &Request, cpus: Option<i32>, target: &str) -> Result<Option<Guest>, String> {
        let (of, cpus) = match (&request.guest, cpus) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err("this is a whole machine: simulate --system".to_owned()),
            (Some(_), None) => return Err("--system needs an emulator of whole machines".to_owned()),
            (Some(of), Some(cpus)) => (of, cpus.max(1).unsigned_abs()),
        };
        for machine in &request.machines {
            let description = Description::parse(&machine.name, &machine.text).map_err(|e| e.to_string())?;
            let has = description.core.cpus;
            if has < cpus {
                let name = &machine.name;
                return Err(format!("the guest has {cpus} CPUs (QEMU's -smp), and {name} has {has}"));
            }
        }
        let program = of.program.as_deref().map(Program::read).transpose()?;
        let regions = program.as_ref().map_or(0, |program| program.regions.len());
        if regions + of.spans.len() > MAX_REGIONS {
            return Err(format!("there are more than {MAX_REGIONS} regions"));
        }
        let first = regions + of.spans.len();
        let tasks = of.tasks.map(|switch| Tasks::begin(switch, first, target)).transpose()?;
        Ok(Some(Guest {
            tasks,
            request: of.clone(),
            program,
            memory: Mutex::default(),
            devices: Default::default(),
            unplaced: AtomicU64::new(0),
            moved: Mutex::default(),
        }))
    }

    /// Returns whether instructions are counted by CPU: anything happens at addresses, or the guest reads counts.
    pub fn is_marked(&self) -> bool {
        self.request.counters.is_some()
            || self.tasks.is_some()
            || !self.request.spans.is_empty()
            || self.program.as_ref().is_some_and(|of| !of.regions.is_empty())
    }

    /// Returns its tasks, if they are told apart.
    pub fn tasks(&self) -> Option<&Tasks> {
        self.tasks.as_ref()
    }

    /// Returns the names of regions, of what is timed between addresses, and of tasks, by number.
    pub fn regions(&self) -> Vec<String> {
        let regions = self.program.iter().flat_map(|program| program.regions.iter().cloned());
        let spans = self.request.spans.iter().map(|span| span.name.clone());
        regions.chain(spans).chain(self.tasks.iter().flat_map(Tasks::names)).collect()
    }

    /// Returns where the program's file is at the addresses for which it was linked.
    pub fn mappings(&self) -> Vec<Mapping> {
        let Some(program) = &self.program else { return Vec::new() };
        let mapping = |(offset, bytes, start): (u64, u64, u64)| {
            let file = program.file.clone();
            Mapping { start, end: start.saturating_add(bytes), offset, file, checksum: None }
        };
        program.code.segments().map(mapping).collect()
    }

    /// Returns what was counted here.
    pub fn answer(&self) -> GuestAnswer {
        let devices = [0, 1].map(|kind: usize| self.devices[kind].load(Ordering::Relaxed));
        let unplaced = self.unplaced.load(Ordering::Relaxed);
        GuestAnswer { kernel: self.request.kernel, moved: lock(&self.moved).clone(), devices, unplaced }
    }

    /// Notes that the program's code is executed at addresses that are moved by so much from those in its file.
    pub fn is_moved_by(&self, distance: u64) {
        let mut moved = lock(&self.moved);
        if moved.len() < 2 && !moved.contains(&distance) {
            moved.push(distance);
        }
    }

    /// Counts a load from a device, or a store to one.
    pub fn add_device(&self, store: bool) {
        self.devices[usize::from(store)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an access without a physical address.
    pub fn add_unplaced(&self) {
        self.unplaced.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of the physical page at an address of this process; `None` if that is not known yet.
    pub fn frame(&self, host: u64) -> Option<u32> {
        let known = lock(&self.memory);
        let memory = known.iter().find(|memory| memory.host.contains(&host))?;
        Some((memory.base.wrapping_add(host) / GUEST_PAGE) as u32)
    }

    /// Notes that an address of this process is one of the guest's memory.
    pub fn learn(&self, host: u64, physical: u64) {
        if self.frame(host).is_some() {
            return;
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let range = maps.lines().find_map(|line| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some(number(start)?..number(end)?).filter(|range| range.contains(&host))
        });
        if let Some(host_range) = range {
            let base = physical.wrapping_sub(host);
            lock(&self.memory).push(Memory { host: host_range, base });
        }
    }

    /// Returns whose code is on the page of an address. `contents` returns what the page has.
    pub fn owner<'a>(&self, pc: u64, contents: impl FnOnce() -> Option<&'a [u8; PAGE]>) -> Owner {
        if pc >= self.request.kernel {
            return Owner::Kernel;
        }
        let found = self.program.as_ref().and_then(|program| program.page(pc, contents()?));
        found.map_or(Owner::Others, Owner::Program)
    }

    /// Returns the address in the program's file, as it was linked, of an offset.
    pub fn linked(&self, offset: u64) -> Option<u64> {
        self.program.as_ref()?.code.address(offset)
    }

    /// Returns what is known of a block for calls: it begins at `pc`, and in the program's file at `offset`. Only if they are asked for.
    pub fn call_block(&self, pc: u64, owner: Owner, offset: Option<u64>) -> Option<CallBlock> {
        let of = self.request.calls.as_ref()?;
        let at = |function: u32, start: u64, named: u64| {
            let entry = if start == named { Entry::Begin } else { Entry::Middle };
            CallBlock { function, entry, named, is_followed: true, special: None }
        };
        let others =
            CallBlock { named: OTHER_PROGRAMS, is_followed: false, entry: Entry::Unknown, ..at(0, 0, 0) };
        let program = offset.and_then(|offset| self.program.as_ref()?.function(offset));
        Some(match (owner, program) {
            (Owner::Kernel, _) => {
                let after = of.functions.partition_point(|start| *start <= pc);
                let start = after.checked_sub(1).map_or(0, |before| of.functions[before]);
                CallBlock { special: special(of, pc), ..at(2 * after as u32 + 2, start, pc) }
            }
            (_, Some((number, start, linked))) => at(2 * number + 1, start, linked),
            (_, None) => others,
        })
    }

    /// Returns whether tasks are switched by the function that begins at an address.
    pub fn switches(&self, pc: u64) -> bool {
        self.request.calls.as_ref().is_some_and(|of| of.switch == pc)
    }

    /// Returns what happens before an instruction: ends first, because the entry of a function may end one time and begin the next.
    pub fn events(&self, pc: u64, offset: Option<u64>) -> Vec<Event> {
        let mark = offset.zip(self.program.as_ref()).and_then(|(at, of)| of.events.get(&at).copied());
        let first = self.program.as_ref().map_or(0, |program| program.regions.len()) as u32;
        let spans = || self.request.spans.iter().zip(first..);
        let ends = spans().filter(|(span, _)| span.to == pc).map(|(_, number)| Event::To(number));
        let begins = spans().filter(|(span, _)| span.from == pc).map(|(_, number)| Event::From(number));
        ends.chain(begins).chain(mark).collect()
    }
}

/// What is known of a block for calls.
#[derive(Debug)]
pub struct CallBlock {
    /// Number of its function: 0 for all programs that are not told apart.
    pub function: u32,
    pub entry: Entry,
    /// Address by which the function is named.
    pub named: u64,
    /// Whether its calls and returns are.
    pub is_followed: bool,
    pub special: Option<Special>,
}

/// Returns what begins with a block at an address of the kernel.
fn special(of: &GuestCalls, pc: u64) -> Option<Special> {
    match Some(pc) {
        at if at == of.new_task => Some(Special::NewTask),
        at if at == of.new_program => Some(Special::NewProgram),
        _ => Special::exception(of.vectors, pc),
    }
}

/// The program that is told apart: its code, recognised by what is in its pages.
#[derive(Debug)]
struct Program {
    file: String,
    bytes: Vec<u8>,
    code: Code,
    /// Offsets of pages with code, by their checksums.
    pages: HashMap<u32, Vec<u64>>,
    /// Names of its regions, and its marks by offset.
    regions: Vec<String>,
    events: HashMap<u64, Event>,
}

impl Program {
    fn read(file: &str) -> Result<Program, String> {
        let mut bytes = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
        let code = Code::of_bytes(&bytes);
        // The kernel fills the rest of a file's last page with zeros.
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        let mut program = Program {
            file: file.to_owned(),
            bytes,
            code,
            pages: HashMap::new(),
            regions: Vec::new(),
            events: HashMap::new(),
        };
        for (start, size) in program.code.executable().collect::<Vec<_>>() {
            let end = start.saturating_add(size).min(program.bytes.len() as u64);
            for at in (start / GUEST_PAGE * GUEST_PAGE..end).step_by(PAGE) {
                let sum = crc32fast::hash(program.contents(at));
                program.pages.entry(sum).or_default().push(at);
            }
        }
        for note in Note::all_of(std::path::Path::new(file)) {
            let known = program.regions.iter().position(|name| *name == note.region);
            let number = known.unwrap_or(program.regions.len());
            if known.is_none() {
                program.regions.push(note.region.clone());
            }
            let number = number as u32;
            let event = if note.begins { Event::Begin(number) } else { Event::End(number) };
            program.events.insert(note.offset, event);
        }
        Ok(program)
    }

    /// Returns number and first address of the function at an offset of the file, and the address there; of none, number 0.
    fn function(&self, offset: u64) -> Option<(u32, u64, u64)> {
        let linked = self.code.address(offset)?;
        let found = self.code.function_number(linked);
        let (number, start) = found.map_or((0, 0), |(number, of)| (number as u32 + 1, of.start));
        Some((number, start, linked))
    }

    fn contents(&self, at: u64) -> &[u8] {
        &self.bytes[at as usize..at as usize + PAGE]
    }

    /// Returns the offset in the file of the page of an address with these contents: of several, that which is linked there.
    fn page(&self, pc: u64, contents: &[u8; PAGE]) -> Option<u64> {
        let same = self.pages.get(&crc32fast::hash(contents))?;
        let mut same = same.iter().copied().filter(|&at| self.contents(at) == contents).peekable();
        let first = *same.peek()?;
        let within = pc % GUEST_PAGE;
        Some(same.find(|at| self.code.address(at + within) == Some(pc)).unwrap_or(first))
    }
}
