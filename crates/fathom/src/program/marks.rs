//! The memory in which a program's marks count: what `include/fathom_counters.h` declares, seen from outside.
//!
//! The program shares it and may write anything there. So it is read by read(2) into own memory, its numbers are checked, and
//! whatever is wrong is told, not believed.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use fathom_experiment::record::{AskedRegions, MAX_REGIONS, ProgramMarks, ProgramRegion};
use fathom_host::ProgramEvent;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Variable of the program's environment: the number of the file, a colon, and the number of the run.
pub const VARIABLE: &str = "FATHOM_REGIONS";
/// Longest name of a region, bytes: `FATHOM_1_NAME` has a zero, too.
pub const MAX_NAME: usize = NAME - 1;

/// Constants of `include/fathom_counters.h`, which a test compares: events, bytes of a name, parts of threads, bytes of a part.
const EVENTS: usize = 16;
const NAME: usize = 64;
const THREADS: usize = 1023;
const PART: usize = 65536;
/// `FATHOM_1_MAGIC_`.
const MAGIC: u64 = 0x6674_6d68_7265_6731;
/// `struct fathom_1_head`: offsets of its numbers and lists, bytes.
const HEAD_EVENTS: usize = 24;
const HEAD_ANSWERS: usize = HEAD_EVENTS + 24 * EVENTS;
const HEAD_PAIRS_NS: usize = HEAD_ANSWERS + 4 * ANSWERS;
const HEAD_READY: usize = HEAD_PAIRS_NS + 8;
const HEAD_NAMES: usize = HEAD_READY + 4 * MAX_REGIONS;
const HEAD_BYTES: usize = HEAD_NAMES + NAME * MAX_REGIONS;
/// Its numbers from `attached` to `pairs`.
const ANSWERS: usize = 10;
/// Place of `regions` among them.
const LISTED: usize = 7;
/// `struct fathom_1_part` and `fathom_1_entry`: bytes before the entries, bytes of one, and the offset of its counts.
const ENTRIES: usize = 64;
const ENTRY_BYTES: usize = 56 + 16 * EVENTS;
const ENTRY_COUNTS: usize = 40;
/// Difference of clocks and of readings of them that is allowed between this process and the program.
const SLACK: Duration = Duration::from_millis(100);

/// The memory of one run.
#[derive(Debug)]
pub struct Marks {
    file: File,
    nonce: u64,
    /// What was written before the run, up to the answers.
    asked: Vec<u8>,
    events: usize,
}

impl Marks {
    /// Creates it, for the events of a set. The program inherits its descriptor as long as it is open.
    ///
    /// # Errors
    /// The kernel has no such memory (before Linux 3.17), or none left.
    pub fn create(events: &[ProgramEvent], asked: &AskedRegions) -> io::Result<Marks> {
        let file: File = memfd_create("fathom-regions", MemfdFlags::ALLOW_SEALING)?.into();
        file.set_len(((THREADS + 1) * PART) as u64)?;
        // Nobody makes it shorter.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let nonce = nonce()?;
        let head = head(nonce, events, asked);
        file.write_all_at(&head, 0)?;
        Ok(Marks { file, nonce, asked: head[..HEAD_ANSWERS].to_vec(), events: events.len() })
    }

    /// Returns the value of [`VARIABLE`].
    pub fn variable(&self) -> String {
        format!("{}:{:x}", self.file.as_raw_fd(), self.nonce)
    }

    /// Reads what a run of this length has counted.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, wall: Duration) -> io::Result<ProgramMarks> {
        let mut head = vec![0; HEAD_BYTES];
        self.file.read_exact_at(&mut head, 0)?;
        let damaged = ProgramMarks { attached: 1, damaged: true, ..ProgramMarks::default() };
        let answers: [u32; ANSWERS] = std::array::from_fn(|nth| u32_at(&head, HEAD_ANSWERS + 4 * nth));
        let [attached, threads, uncounted, errno, event, methods, lost, _, overflow, pairs] =
            answers.map(u64::from);
        let names = names(&head, answers[LISTED] as usize);
        let Some(names) = names.filter(|_| head[..HEAD_ANSWERS] == self.asked && threads <= THREADS as u64)
        else {
            return Ok(damaged);
        };
        let regions = names.iter().map(|name| ProgramRegion {
            name: name.clone().unwrap_or_default(),
            counts: vec![0; self.events],
            ..ProgramRegion::default()
        });
        let mut marks = ProgramMarks {
            attached,
            threads,
            uncounted,
            error: [errno, event],
            read_by: [1, 2, 4].map(|method| methods & method != 0),
            lost,
            overflow,
            pairs: [pairs, u64_at(&head, HEAD_PAIRS_NS)],
            damaged: false,
            regions: regions.collect(),
        };
        let mut part = vec![0; ENTRIES + ENTRY_BYTES * names.len()];
        for thread in 0..threads {
            self.file.read_exact_at(&mut part, (thread + 1) * PART as u64)?;
            let entries = part[ENTRIES..].chunks_exact(ENTRY_BYTES);
            for (region, entry) in marks.regions.iter_mut().zip(entries) {
                add(region, entry);
            }
        }
        let most = (wall + SLACK).as_nanos().saturating_mul(u128::from(threads.max(1)));
        let possible =
            |region: &ProgramRegion| u128::from(region.ns) <= most && region.shared <= region.entered;
        if !marks.regions.iter().all(possible) || u128::from(marks.pairs[1]) > most {
            return Ok(damaged);
        }
        // Two threads may have added a name at the same time.
        let mut merged: Vec<ProgramRegion> = Vec::new();
        let named =
            std::mem::take(&mut marks.regions).into_iter().zip(&names).filter(|(_, name)| name.is_some());
        for (region, _) in named {
            match merged.iter_mut().find(|known| known.name == region.name) {
                Some(known) => merge(known, &region),
                None => merged.push(region),
            }
        }
        // What was asked, and not entered, is none.
        merged.retain(|region| region.entered > 0 || region.unmatched > 0 || region.torn > 0);
        marks.regions = merged;
        Ok(marks)
    }
}

/// Returns the head of the memory before the run.
fn head(nonce: u64, events: &[ProgramEvent], asked: &AskedRegions) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend([MAGIC, nonce].iter().flat_map(|word| word.to_ne_bytes()));
    head.extend([events.len() as u32, u32::from(asked.all)].iter().flat_map(|word| word.to_ne_bytes()));
    for event in events.iter().take(EVENTS) {
        let (kind, config, flags) = event.attributes();
        head.extend([config, flags].iter().flat_map(|word| word.to_ne_bytes()));
        head.extend([kind, 0].iter().flat_map(|word| word.to_ne_bytes()));
    }
    head.resize(HEAD_BYTES, 0);
    // Region 0 is that of empty pairs.
    let names = std::iter::once("").chain(asked.names.iter().map(String::as_str)).take(MAX_REGIONS);
    for (nth, name) in names.enumerate() {
        head[HEAD_READY + 4 * nth..][..4].copy_from_slice(&1u32.to_ne_bytes());
        head[HEAD_NAMES + NAME * nth..][..name.len()].copy_from_slice(name.as_bytes());
        let listed = (nth as u32 + 1).to_ne_bytes();
        head[HEAD_ANSWERS + 4 * LISTED..][..4].copy_from_slice(&listed);
    }
    head
}

/// Returns a number that other runs do not have.
fn nonce() -> io::Result<u64> {
    use io::Read as _;
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Returns the names of the list; `None` if it is none. One that is not ready was being written when its thread was ended; nothing
/// was counted for it.
fn names(head: &[u8], listed: usize) -> Option<Vec<Option<String>>> {
    if listed == 0 || listed > MAX_REGIONS {
        return None;
    }
    let name = |nth: usize| {
        if u32_at(head, HEAD_READY + 4 * nth) == 0 {
            return Some(None);
        }
        let bytes = &head[HEAD_NAMES + NAME * nth..][..NAME];
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(&bytes[..end]).ok()?;
        (!name.contains(char::is_control) && name.is_empty() == (nth == 0)).then(|| Some(name.to_owned()))
    };
    (0..listed).map(name).collect()
}

/// Adds what a thread has counted.
fn add(region: &mut ProgramRegion, entry: &[u8]) {
    let word = |nth: usize| u64_at(entry, 8 * nth);
    let [writing, depth] = [0, 4].map(|at| u32_at(entry, at));
    if writing % 2 != 0 {
        region.torn += 1;
        return;
    }
    let of_thread = ProgramRegion {
        entered: word(1),
        unmatched: word(2).saturating_add(depth.into()),
        ns: word(3),
        shared: word(4),
        counts: (0..region.counts.len()).map(|nth| u64_at(entry, ENTRY_COUNTS + 8 * nth)).collect(),
        ..ProgramRegion::default()
    };
    merge(region, &of_thread);
}

fn merge(into: &mut ProgramRegion, other: &ProgramRegion) {
    let sums = [
        (&mut into.entered, other.entered),
        (&mut into.unmatched, other.unmatched),
        (&mut into.ns, other.ns),
        (&mut into.shared, other.shared),
        (&mut into.torn, other.torn),
    ];
    let counts = into.counts.iter_mut().zip(other.counts.iter().copied());
    for (sum, more) in sums.into_iter().chain(counts) {
        *sum = sum.saturating_add(more);
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

#[cfg(test)]
mod tests;
