//! Reads a trace.

use fathom_model::GUEST_BATCH;
use fathom_simulation::protocol::{self, Answer, End, GuestAnswer, HeapSites};
use fathom_simulation::{Entered, MAX_REGIONS, MAX_SITES};

use super::predict::Decoder;
use super::{
    HEAD, Head, Header, MAGIC, MAX_ACCESSES, MAX_END, MAX_PAYLOAD, MAX_THREADS, checksum, heap_of, mark_of,
};
use crate::batch::{BATCH, Batch, Told};
use crate::error::{At, Error};
use crate::input::Input;
use crate::places::MAX_PLACES;

const REMEDY: &str =
    "it has been damaged or cut off: copy it again, or make it again (fathom simulate --keep-trace)";

/// A trace.
pub(crate) struct Source {
    header: Header,
    decoder: Decoder,
    /// The block that is read, and the number of its first byte.
    payload: Vec<u8>,
    from: u64,
    at: usize,
    /// Accesses left in it, and their thread.
    left: usize,
    thread: u32,
    /// Decides which fetches are accesses; `None`: those of the trace.
    fetches: Fetches,
    end: Vec<u8>,
    told: Option<Answer>,
}

/// What becomes of fetches.
enum Fetches {
    All,
    None,
    Entering(Entered),
}

impl Source {
    /// Reads the header.
    ///
    /// # Errors
    /// It is damaged, or fetches of shorter lines are wanted than the trace has.
    pub fn open(input: &mut Input, fetch_shift: Option<u32>) -> Result<Source, Error> {
        input.want(MAGIC.len())?;
        if !input.bytes().starts_with(MAGIC) {
            return Err(Error::new(At::Byte(0), "this is no trace of fathom", REMEDY));
        }
        input.used(MAGIC.len());
        let mut source = Source {
            header: Header::default(),
            decoder: Decoder::new(false),
            payload: Vec::new(),
            from: 0,
            at: 0,
            left: 0,
            thread: 0,
            fetches: Fetches::All,
            end: Vec::new(),
            told: None,
        };
        let head = source.block(input)?;
        if head.kind != b'H' {
            return Err(source.wrong("a block that is no header; expected the header"));
        }
        source.header = source.json(&source.payload)?;
        source.decoder = Decoder::new(source.header.guest);
        source.fetches = match (fetch_shift, source.header.fetch_shift) {
            (None, _) => Fetches::None,
            (Some(wanted), Some(has)) if wanted < has => {
                let what = format!(
                    "the trace has the fetches of lines of {} bytes, and a machine has lines of {}",
                    1u64 << has.min(63),
                    1u64 << wanted
                );
                let remedy =
                    "simulate without fetches (--no-fetches), or make the trace with this machine among --on";
                return Err(Error::new(At::Byte(source.from), what, remedy));
            }
            (Some(wanted), Some(has)) if wanted > has => Fetches::Entering(Entered::new(wanted)),
            _ => Fetches::All,
        };
        Ok(source)
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        let at = self.from + self.at as u64;
        Error::new(At::Byte(at), format!("{what} (counted after decompression)"), REMEDY)
    }

    fn json<T: for<'a> serde::Deserialize<'a>>(&self, bytes: &[u8]) -> Result<T, Error> {
        let text = std::str::from_utf8(bytes).map_err(|e| self.wrong(format!("no text: {e}")))?;
        protocol::read(text)
            .map_err(|e| self.wrong(format!("what the trace tells about the program is wrong: {e}")))
    }

    /// Reads a block, whose payload is then there.
    fn block(&mut self, input: &mut Input) -> Result<Head, Error> {
        (self.from, self.at) = (input.offset(), 0);
        input.want(HEAD)?;
        let Some(start) = input.bytes().first_chunk::<HEAD>() else {
            return Err(self.wrong("the trace ends without its end; expected a block"));
        };
        let (start, head) = (*start, Head::of(start));
        let possible = head.bytes as usize <= MAX_PAYLOAD
            && head.accesses <= MAX_ACCESSES
            && head.thread < MAX_THREADS
            && matches!(head.kind, b'H' | b'A' | b'M' | b'B' | b'E' | b'Z');
        if !possible {
            return Err(self.wrong("no block is possible here; expected one of kind H, A, M, B, E or Z"));
        }
        input.used(HEAD);
        input.want(head.bytes as usize)?;
        let Some(payload) = input.bytes().get(..head.bytes as usize) else {
            return Err(self.wrong("the trace ends within a block"));
        };
        if checksum(&start[..HEAD - 4], payload)
            != u32::from_le_bytes([start[13], start[14], start[15], start[16]])
        {
            return Err(self.wrong("the checksum of a block is wrong"));
        }
        self.payload.clear();
        self.payload.extend_from_slice(payload);
        input.used(head.bytes as usize);
        self.from += HEAD as u64;
        Ok(head)
    }

    /// Goes to the next block with accesses, or puts a mark into the batch. Returns `false` at the end.
    fn next_block(&mut self, input: &mut Input, batch: &mut Batch) -> Result<bool, Error> {
        if self.told.is_some() {
            return Ok(false);
        }
        let head = self.block(input)?;
        match head.kind {
            b'A' if self.end.is_empty() => {
                (self.left, self.thread) = (head.accesses as usize, head.thread);
                self.decoder.begin();
            }
            b'M' if self.end.is_empty() => {
                let mark = mark_of(&self.payload).ok_or_else(|| self.wrong("no mark is like that"))?;
                (batch.thread, batch.mark) = (head.thread, Some(mark));
            }
            b'B' if self.end.is_empty() => {
                let event =
                    heap_of(&self.payload).ok_or_else(|| self.wrong("no block of the heap is like that"))?;
                (batch.thread, batch.heap) = (head.thread, Some(event));
            }
            b'E' | b'Z' => {
                self.end.extend_from_slice(&self.payload);
                if self.end.len() > MAX_END {
                    return Err(self.wrong("the end is too long"));
                }
                if head.kind == b'Z' {
                    self.told = Some(self.whole_end()?);
                    input.want(1)?;
                    if !input.bytes().is_empty() {
                        return Err(self.wrong("something follows the end of the trace"));
                    }
                }
            }
            _ => return Err(self.wrong("a block that cannot follow here")),
        }
        Ok(true)
    }

    fn whole_end(&mut self) -> Result<Answer, Error> {
        let end = std::mem::take(&mut self.end);
        let told: Answer = self.json(&end)?;
        let possible = told.places.len() <= MAX_PLACES
            && told.regions.len() <= MAX_REGIONS
            && told.heap.returns.len() < MAX_SITES as usize
            && told.guest.is_some() == self.header.guest;
        if !told.machines.is_empty() || !possible {
            return Err(self.wrong("the end of the trace is not that of a program"));
        }
        Ok(told)
    }
}

impl crate::batch::Source for Source {
    fn read(&mut self, input: &mut Input, batch: &mut Batch) -> Result<bool, Error> {
        while batch.accesses.is_empty() && batch.mark.is_none() && batch.heap.is_none() {
            if self.left == 0 {
                if !self.next_block(input, batch)? {
                    return Ok(false);
                }
                continue;
            }
            batch.thread = self.thread;
            let count = self.left.min(if self.header.guest { GUEST_BATCH } else { BATCH });
            let read = self.decoder.read(&self.payload, self.at, count, MAX_PLACES, &mut batch.accesses);
            self.at = read.map_err(|(at, what)| {
                self.at = at;
                self.wrong(what)
            })?;
            self.left -= count;
            if self.left == 0 && self.at != self.payload.len() {
                return Err(self.wrong("a block has more bytes than accesses"));
            }
            match &mut self.fetches {
                Fetches::All => {}
                Fetches::None => batch.accesses.retain(|access| access.kind != fathom_model::Kind::Fetch),
                Fetches::Entering(entered) => entered.retain(batch.thread, &mut batch.accesses),
            }
        }
        Ok(true)
    }

    fn is_guest(&self) -> bool {
        self.header.guest
    }

    fn told(&mut self) -> Told {
        let cut_off = Answer {
            end: End::Interrupted,
            status: 0,
            target: String::new(),
            threads: 1,
            unseen: Vec::new(),
            places: Vec::new(),
            mappings: Vec::new(),
            regions: Vec::new(),
            heap: HeapSites::default(),
            calls: None,
            // Where its kernel is has not been told.
            guest: self.header.guest.then(|| GuestAnswer { kernel: u64::MAX, ..GuestAnswer::default() }),
            machines: Vec::new(),
        };
        let run = self.told.take().unwrap_or(cut_off);
        Told { run, program: self.header.program.clone(), all_instructions: true }
    }
}
