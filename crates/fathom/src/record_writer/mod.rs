//! Writing of records: the requested file, and always a copy in the user's data directory.

use std::io;
use std::path::Path;

use fathom_experiment::record::file::{Sealer, sealed};

use crate::failure::{Failure, print_message};
use crate::file_id::FileId;

mod kept;
mod output;

pub use kept::{data_dir, directory, newest};
use output::Output;
pub use output::{Held, is_being_written};

/// The file that a record is written to.
#[derive(Debug)]
pub enum Requested<'a> {
    /// None but the copy.
    Copy,
    /// A new file, or a pipe or a device.
    New(&'a Path),
    /// A file that is replaced if it exists.
    Replaced(&'a Path),
    /// The file of the record that is resumed, locked since before it was read.
    Resumed(&'a Path, Option<Held>),
}

/// Output files of a session's record.
#[derive(Debug, Default)]
pub struct RecordWriter {
    /// Requested file.
    requested: Option<Output>,
    /// Copy in the user's data directory.
    copy: Option<Output>,
    /// Failure of writing the requested file completely.
    lost: Option<Failure>,
    /// Reason why there is no complete copy; printed once, at the end.
    trouble: Option<String>,
    /// Seals the lines of both.
    sealer: Sealer,
}

impl RecordWriter {
    /// Opens the requested file, which must succeed, and the copy, which may fail; both get `head`. A pipe without a
    /// reader is waited for until `stopped`.
    pub fn open(
        requested: Requested,
        experiment: &str,
        subject: &str,
        head: &[String],
        stopped: &dyn Fn() -> bool,
    ) -> Result<RecordWriter, Failure> {
        let mut writer = RecordWriter::default();
        let text = sealed(head.iter().map(String::as_str));
        let whole = matches!(requested, Requested::Replaced(_) | Requested::Resumed(..));
        writer.requested = open(requested, &text, stopped)?;
        // A resumed record among the copies is one.
        let is_copy = |output: &Output| data_dir().is_some_and(|dir| output.path.parent() == Some(&*dir));
        if !writer.requested.as_ref().is_some_and(is_copy) {
            match kept::create(experiment, subject) {
                Ok(opened) => writer.copy = Some(opened),
                Err(trouble) => writer.trouble = Some(trouble),
            }
        }
        for line in head {
            let line = writer.sealer.seal(line);
            if !whole {
                writer.write_requested(|output| output.line(&line));
            }
            writer.write_copy(|output| output.line(&line));
        }
        // A file that cannot take its first lines fails before the measurement.
        match writer.lost.take() {
            Some(lost) => {
                writer.remove_copy();
                Err(lost)
            }
            None => Ok(writer),
        }
    }

    /// Appends a line, so that a crash loses none.
    pub fn line(&mut self, line: &str) {
        let line = self.sealer.seal(line);
        self.write_requested(|output| output.line(&line));
        self.write_copy(|output| output.line(&line));
    }

    /// Waits until all lines are on the disk, so that a loss of power loses none.
    pub fn sync(&mut self) {
        self.write_requested(|output| output.sync());
        self.write_copy(|output| output.sync());
    }

    /// Does something with the requested file. One that fails is closed.
    fn write_requested(&mut self, act: impl FnOnce(&mut Output) -> io::Result<()>) {
        let Some(output) = &mut self.requested else { return };
        if let Err(e) = act(output) {
            let what = format!("--record {}: the record ends early: {e}", output.path.display());
            self.lost = Some(Failure::new(what, "name a file with room for it"));
            self.requested = None;
        }
    }

    /// Does something with the copy. One that fails is closed.
    fn write_copy(&mut self, act: impl FnOnce(&mut Output) -> io::Result<()>) {
        let Some(output) = &mut self.copy else { return };
        if let Err(e) = act(output) {
            let copy = output.path.display();
            self.trouble = Some(format!("the copy of the record, {copy}, ends early: {e}"));
            self.copy = None;
        }
    }

    /// Returns the file to name to the user: the requested one, else the copy.
    pub fn path(&self) -> Option<&Path> {
        self.requested.as_ref().or(self.copy.as_ref()).map(|output| output.path.as_path())
    }

    /// Returns the ids of the files written.
    pub fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.requested.iter().chain(&self.copy).filter_map(Output::id)
    }

    /// Removes the copy of a session that did not begin.
    pub fn remove_copy(&self) {
        if let Some(copy) = &self.copy {
            let _ = std::fs::remove_file(&copy.path);
        }
    }

    /// Closes the files. Prints why there is no complete copy, and returns why the requested file is incomplete.
    pub fn close(mut self) -> Option<Failure> {
        self.sync();
        if let Some(trouble) = &self.trouble {
            print_message(trouble);
        }
        if let (Some(lost), Some(copy)) = (&mut self.lost, &self.copy) {
            lost.remedy.push_str(&format!("; the copy is whole: {}", copy.path.display()));
        }
        self.lost
    }
}

impl Requested<'_> {
    /// Refuses a new file that exists, before anything is measured or started.
    pub fn check(&self) -> Result<(), Failure> {
        match self {
            Requested::New(path) if path.is_file() => {
                Err(refused("--record", path, &io::ErrorKind::AlreadyExists.into()))
            }
            _ => Ok(()),
        }
    }
}

/// Opens the requested file. Those that exist get `text` at once.
fn open(requested: Requested, text: &str, stopped: &dyn Fn() -> bool) -> Result<Option<Output>, Failure> {
    let (path, option) = match requested {
        Requested::Copy => return Ok(None),
        Requested::New(path) | Requested::Replaced(path) => (path, "--record"),
        Requested::Resumed(path, _) => (path, "--resume"),
    };
    let opened = match (Output::special(path, stopped), requested) {
        _ if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        (Ok(Some(special)), _) => Ok(special),
        (Err(e), _) => Err(e),
        (Ok(None), Requested::Resumed(_, held)) => Output::replace(path, text, held),
        (Ok(None), Requested::Replaced(_)) => Output::replace(path, text, None),
        (Ok(None), _) => Output::create(path),
    };
    opened.map(Some).map_err(|e| refused(option, path, &e))
}

/// Locks the file of a record that is to be resumed, before it is read.
pub fn hold(path: &Path) -> Result<Option<Held>, Failure> {
    // A pipe is read once, and not written.
    if !path.is_file() {
        return Ok(None);
    }
    Held::lock(path).map_err(|e| refused("--resume", path, &e))
}

/// Returns the failure of opening a file.
fn refused(option: &str, path: &Path, e: &io::Error) -> Failure {
    let (why, remedy) = match e.kind() {
        io::ErrorKind::AlreadyExists => ("it exists".to_owned(), "name another file, or replace it: --force"),
        io::ErrorKind::Interrupted => {
            ("no process has opened this pipe for reading".to_owned(), "start its reader")
        }
        io::ErrorKind::ResourceBusy => (e.to_string(), "wait for its end, or name another file"),
        _ => (e.to_string(), "name a file that can be written"),
    };
    Failure::usage(format!("{option} {}: {why}", path.display()), remedy)
}
