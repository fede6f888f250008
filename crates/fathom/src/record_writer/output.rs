//! One file of a record: locked while it is written, appended in place.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::file_id::FileId;
use crate::new_file::{self, NewFile};

/// Interval at which a reader of a pipe is looked for.
const READER_INTERVAL: Duration = Duration::from_millis(20);

/// Time that a look at a lock, as for the rotation of the copies, may take on a loaded machine.
const LOOK_GRACE: Duration = Duration::from_millis(200);
/// Interval at which a lock is tried again in that time.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// An open file of a record. Its lock ends with the process, and tells others that the record is being written.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) path: PathBuf,
    file: File,
}

/// Returns whether a session has locked the file.
pub fn is_being_written(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Locks a file; an error if another process has it. One that only looks at the lock has it for a moment.
fn lock(file: &File) -> io::Result<()> {
    let until = Instant::now() + LOOK_GRACE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOOK_INTERVAL),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another fathom is writing it"));
            }
            // Network file systems may have no locks.
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => return Ok(()),
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
}

/// The file of a record, locked so that no other session writes or replaces it meanwhile.
#[derive(Debug)]
pub struct Held {
    _locked: File,
}

impl Held {
    /// Locks the file at a path; `None` if there is none.
    ///
    /// # Errors
    /// `ResourceBusy` if another session is writing it.
    pub fn lock(path: &Path) -> io::Result<Option<Held>> {
        loop {
            let file = match File::open(path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?,
            };
            lock(&file)?;
            // Another session may have replaced it between the two.
            if FileId::at(path) == FileId::of(&file) {
                return Ok(Some(Held { _locked: file }));
            }
        }
    }
}

impl Output {
    /// Creates a file.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one, or a link, or if another session replaced the new one.
    pub(super) fn create(path: &Path) -> io::Result<Output> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        lock(&file)?;
        if FileId::at(path) != FileId::of(&file) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        new_file::sync_directory(path)?;
        Ok(Output { path: path.to_owned(), file })
    }

    /// Opens a pipe or a device; `None` if there is none at the path. A pipe needs a reader, and is waited for.
    ///
    /// # Errors
    /// `Interrupted` if `stopped` during the waiting.
    pub(super) fn special(path: &Path, stopped: &dyn Fn() -> bool) -> io::Result<Option<Output>> {
        let kind = std::fs::metadata(path).map(|about| about.file_type());
        if !kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device() || kind.is_block_device()) {
            return Ok(None);
        }
        let mut options = OpenOptions::new();
        // A terminal does not become the controlling one, and a pipe without reader is an error: open(2), fifo(7).
        options.write(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
        let file = loop {
            match options.open(path) {
                Err(e) if Errno::from_io_error(&e) == Some(Errno::NXIO) => {}
                opened => break opened?,
            }
            if stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            std::thread::sleep(READER_INTERVAL);
        };
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        Ok(Some(Output { path: path.to_owned(), file }))
    }

    /// Replaces a file, or creates it, by a locked one with this text. A kill leaves the old or the new one. `held` is the
    /// old one, if it is locked already.
    ///
    /// # Errors
    /// `ResourceBusy` if another session is writing the old one.
    pub(super) fn replace(path: &Path, text: &str, held: Option<Held>) -> io::Result<Output> {
        let target = new_file::creation_path(path).unwrap_or_else(|| path.to_owned());
        let mut held = held;
        loop {
            // Kept until the new file has its name.
            held = held.map_or_else(|| Held::lock(&target), |held| Ok(Some(held)))?;
            let mut new = NewFile::beside(&target)?;
            lock(new.file())?;
            new.file().write_all(text.as_bytes())?;
            new.file().sync_data()?;
            let named = match held {
                Some(_) => new.replace(&target),
                None => new.create(&target),
            };
            match named {
                // Another session has created one meanwhile.
                Err(e) if held.is_none() && e.kind() == io::ErrorKind::AlreadyExists => {}
                named => {
                    let file = named?;
                    new_file::sync_directory(&target)?;
                    return Ok(Output { path: path.to_owned(), file });
                }
            }
        }
    }

    pub(super) fn id(&self) -> Option<FileId> {
        FileId::of(&self.file)
    }

    /// Appends a line.
    pub(super) fn line(&mut self, line: &str) -> io::Result<()> {
        // One call, so that a kill leaves whole lines.
        self.file.write_all(format!("{line}\n").as_bytes())
    }

    /// Waits until all lines are on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // Pipes and devices have no disk.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }
}
