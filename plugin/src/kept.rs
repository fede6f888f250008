//! The trace that is kept: everything that the machines get, and fetches from lines that are short enough for other machines.
//!
//! The command writes the end of the trace, when it knows how the program has ended.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd as _, IntoRawFd as _};

use fathom_model::Access;
use fathom_simulation::protocol::Request;
use fathom_simulation::{Entered, HeapEvent, Mark};
use fathom_trace::{Header, Writer};

use crate::socket::{identity, moved};

/// log2 of the bytes of a line, as far as fetches are concerned: the shortest of all processors that Fathom describes.
const FETCH_SHIFT: u32 = 5;

/// A trace that is written.
pub struct Kept {
    writer: Writer<KeptFile>,
    fetch_shift: u32,
    /// Which fetches the machines get, if not all.
    entered: Option<Entered>,
}

impl Kept {
    /// Begins the trace. The machines' shortest lines have 2^`machines` bytes.
    pub fn begin(file: &str, request: &Request, machines: u32) -> Result<Kept, String> {
        let fetch_shift = machines.min(FETCH_SHIFT);
        let header = Header {
            program: request.program.clone(),
            fetch_shift: request.fetches.then_some(fetch_shift),
            guest: request.guest.is_some(),
        };
        let opened = KeptFile::open(file).and_then(|file| Writer::new(file, &header));
        let writer = opened.map_err(|e| cannot(&e))?;
        Ok(Kept { writer, fetch_shift, entered: (machines > fetch_shift).then(|| Entered::new(machines)) })
    }

    /// Returns log2 of the bytes of a line of fetches.
    pub fn fetch_shift(&self) -> u32 {
        self.fetch_shift
    }

    /// Adds a batch, and leaves in it what the machines get.
    pub fn add(&mut self, thread: u32, batch: &mut Vec<Access>) -> Result<(), String> {
        self.writer.add(thread, batch).map_err(|e| cannot(&e))?;
        if let Some(entered) = &mut self.entered {
            entered.retain(thread, batch);
        }
        Ok(())
    }

    /// Adds a mark.
    pub fn mark(&mut self, thread: u32, mark: Mark) -> Result<(), String> {
        self.writer.mark(thread, mark).map_err(|e| cannot(&e))
    }

    /// Adds what has happened to a block of the heap.
    pub fn heap(&mut self, thread: u32, event: HeapEvent) -> Result<(), String> {
        self.writer.heap(thread, event).map_err(|e| cannot(&e))
    }

    /// Writes everything that has been added, because the program may end now.
    pub fn flush(&mut self) -> Result<(), String> {
        self.writer.flush().map_err(|e| cannot(&e))
    }
}

fn cannot(why: &std::io::Error) -> String {
    format!("the trace cannot be written: {why}")
}

/// The file of the trace. The program may close it, and use its descriptor for a file of its own.
#[derive(Debug)]
struct KeptFile {
    path: String,
    /// `None` only within [`KeptFile::write`].
    file: Option<File>,
    /// Device and number of the file.
    identity: Option<(u64, u64)>,
}

impl KeptFile {
    fn open(path: &str) -> std::io::Result<KeptFile> {
        let file = OpenOptions::new().append(true).open(path).and_then(moved)?;
        Ok(KeptFile { path: path.to_owned(), identity: identity(file.as_raw_fd()), file: Some(file) })
    }
}

impl Write for KeptFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let is_own =
            |file: &&mut File| self.identity.is_some() && identity(file.as_raw_fd()) == self.identity;
        if let Some(file) = self.file.as_mut().filter(is_own) {
            return file.write(bytes);
        }
        // The descriptor may be the program's now, so it is not closed.
        let _ = self.file.take().map(File::into_raw_fd);
        *self = KeptFile::open(&self.path)?;
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
