//! The trace of a run that is kept (`--keep-trace`): the plugin writes the accesses to a file that has no name until it is
//! whole, and its end is written here.

use std::collections::HashMap;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use fathom_simulation::protocol::{Answer, Mapping, Request};

use super::conversation::Ran;
use crate::failure::Failure;
use crate::new_file::{NewFile, sync_directory};

/// Runs what is asked about, and keeps its trace in `file`, if that is requested.
///
/// # Errors
/// Those of `run`, and what is wrong with the file.
pub fn keeping(
    file: Option<&Path>,
    request: Request,
    run: impl FnOnce(Request) -> Result<Ran, Failure>,
) -> Result<Ran, Failure> {
    let mut kept = file.map(KeptTrace::create).transpose()?;
    let trace = kept.as_mut().map(KeptTrace::open_as);
    let ran = run(Request { trace, ..request })?;
    kept.map_or(Ok(()), |kept| kept.keep(&ran.answer))?;
    Ok(ran)
}

/// A trace that is made.
struct KeptTrace {
    path: PathBuf,
    file: NewFile,
}

impl KeptTrace {
    /// Creates it, without a name.
    ///
    /// # Errors
    /// The file exists, or cannot be created.
    fn create(path: &Path) -> Result<KeptTrace, Failure> {
        if path.exists() {
            return Err(exists(path));
        }
        let file = NewFile::beside(path).map_err(|e| failed(path, &e))?;
        Ok(KeptTrace { path: path.to_owned(), file })
    }

    /// Returns a path by which another process of this user can open the file.
    fn open_as(&mut self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.file().as_raw_fd())
    }

    /// Ends the trace, and gives the file its name.
    ///
    /// # Errors
    /// A file of this name has been made meanwhile, or the disk has failed.
    fn keep(mut self, answer: &Answer) -> Result<(), Failure> {
        let path = self.path;
        let run =
            Answer { mappings: with_checksums(&answer.mappings), machines: Vec::new(), ..answer.clone() };
        // The plugin has written at another position.
        let mut file = self.file.file();
        let ended = file.seek(SeekFrom::End(0)).and_then(|_| fathom_trace::end(&mut file, &run));
        let kept = ended.and_then(|()| file.sync_data()).and_then(|()| self.file.create(&path).map(drop));
        kept.and_then(|()| sync_directory(&path)).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => exists(&path),
            _ => failed(&path, &e),
        })
    }
}

/// Notes what the files are now, so that a later report sees whether they have changed.
fn with_checksums(mappings: &[Mapping]) -> Vec<Mapping> {
    let mut sums: HashMap<&str, Option<u32>> = HashMap::new();
    let mut all = mappings.to_vec();
    for (mapping, old) in all.iter_mut().zip(mappings) {
        let sum = || std::fs::read(&old.file).ok().map(|bytes| crc32fast::hash(&bytes));
        mapping.checksum = *sums.entry(&old.file).or_insert_with(sum);
    }
    all
}

fn exists(path: &Path) -> Failure {
    let what = format!("--keep-trace {}: the file exists", path.display());
    Failure::usage(what, "name a new file, or remove this one")
}

fn failed(path: &Path, why: &io::Error) -> Failure {
    let what = format!("--keep-trace {}: {why}", path.display());
    Failure::usage(what, "name a file in a directory that can be written")
}
