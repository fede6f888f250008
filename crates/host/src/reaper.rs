//! The reaper: a process that removes what would outlive the probe, however the probe ends.
//!
//! Memory, priority and workers end with their processes; a directory of the kernel's trace files does not. The
//! probe tells the reaper of what it has made, through a pipe whose other end it alone has: when the pipe ends, the
//! probe has, and what is left then is removed. The reaper is in a process group of its own and ignores what a
//! terminal sends, so that it outlives whatever ends the others; where it is killed, the probe's watch starts another
//! one before the probe leaves (`supervisor.rs`).

use std::ffi::OsStr;
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::owner::PREFIX;
use crate::process::{list, set_affinity};
use crate::quiet;
use crate::read::{Root, cpu_list};
use crate::trace;

/// How long the reaper tries: the kernel keeps a directory of trace files while the ending probe still has one open.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something that outlives a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedResource {
    pub(crate) path: PathBuf,
    /// Is it a directory, of trace files or of a control group?
    pub(crate) directory: bool,
}

impl OwnedResource {
    /// What may be given to a reaper: an absolute path on one line, whose last part is Fathom's.
    pub(crate) fn new(path: &Path, directory: bool) -> Option<OwnedResource> {
        let bytes = path.as_os_str().as_bytes();
        let ours = path.file_name().is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()));
        let whole = path.is_absolute() && !bytes.contains(&b'\n');
        (ours && whole).then(|| OwnedResource { path: path.to_owned(), directory })
    }

    fn line(&self) -> Vec<u8> {
        let word: &[u8] = if self.directory { b"rmdir " } else { b"unlink " };
        [word, self.path.as_os_str().as_bytes(), b"\n"].concat()
    }

    /// Removes it; what is not there any more is removed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let name = self.path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let outcome = match self.directory {
            // Its name may say what else is to be put back, and its path may lead through a file descriptor, which
            // is none of another process.
            true if self.path.parent().is_some_and(|p| p.ends_with("instances")) => {
                trace::remove(&Root::system(), name)
            }
            true => std::fs::remove_dir(&self.path),
            false => std::fs::remove_file(&self.path),
        };
        match outcome {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// A running reaper, as the probe sees it.
pub(crate) struct Reaper {
    pub(crate) child: Child,
    pipe: ChildStdin,
}

impl Reaper {
    /// Starts `program` as one, away from the measured CPU.
    pub(crate) fn start(program: &[String], cpus: &[u32]) -> io::Result<Reaper> {
        let (first, rest) = program.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut child = Command::new(first)
            .arg0("fathom")
            .args(rest)
            .arg(list(cpus))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A group of its own from the first instruction on: a harness kills the probe's.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Reaper { child, pipe })
    }

    /// Gives it something to remove when the probe has ended.
    pub(crate) fn hold(&mut self, held: &OwnedResource) -> io::Result<()> {
        self.pipe.write_all(&held.line())
    }

    /// Takes it back: the probe has removed it.
    pub(crate) fn done(&mut self, path: &Path) {
        // A reaper that is gone has been noticed.
        let _ = self.pipe.write_all(&[b"done ", path.as_os_str().as_bytes(), b"\n"].concat());
    }
}

/// Serves as a reaper on standard input, on these CPUs (a list such as `0,2-3`), and ends with it.
///
/// # Errors
/// What is left and why, one line each.
pub fn keep(cpus: &str) -> Result<(), String> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: to ignore a signal installs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let _ = rustix::thread::set_name(c"fathom-reaper");
    // Whatever of this fails, it is a process that sleeps nearly always.
    let _ = quiet::ordinary();
    let _ = set_affinity(&cpu_list(cpus));
    let mut held = Vec::new();
    for line in io::stdin().lock().split(b'\n') {
        // What cannot be read any more is at its end.
        let Ok(line) = line else { break };
        obey(&line, &mut held);
    }
    remove_all(held)
}

fn obey(line: &[u8], held: &mut Vec<OwnedResource>) {
    let mut parts = line.splitn(2, |&b| b == b' ');
    let (Some(word), Some(path)) = (parts.next(), parts.next()) else { return };
    let path = Path::new(OsStr::from_bytes(path));
    match word {
        b"rmdir" => held.extend(OwnedResource::new(path, true)),
        b"unlink" => held.extend(OwnedResource::new(path, false)),
        b"done" => held.retain(|h| h.path != path),
        _ => {}
    }
}

fn remove_all(mut held: Vec<OwnedResource>) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let tried: Vec<(OwnedResource, io::Result<()>)> =
            held.into_iter().map(|h| (h.clone(), h.remove())).collect();
        let left: Vec<(OwnedResource, io::Error)> =
            tried.into_iter().filter_map(|(h, r)| Some((h, r.err()?))).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            let one =
                |(h, e): (OwnedResource, io::Error)| format!("cannot remove {} ({e})", h.path.display());
            return Err(left.into_iter().map(one).collect::<Vec<_>>().join("\n"));
        }
        held = left.into_iter().map(|(h, _)| h).collect();
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests;
