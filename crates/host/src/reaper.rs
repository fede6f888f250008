//! The reaper: a process that removes what would outlive the probe, however the probe ends.
//!
//! Memory, priority and workers end with their processes. A directory of the kernel's trace files does not. The probe
//! reports what it has made to the reaper through a pipe, of which it alone holds the write end. When the pipe ends,
//! the probe has ended, and the reaper removes what is left. The reaper is in a separate process group and ignores
//! terminal signals, so that it outlives whatever ends the others. If it is killed, the probe's supervisor starts
//! another one before the probe exits (`supervisor.rs`).

use std::ffi::OsStr;
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::owner::PREFIX;
use crate::process::{list, set_affinity};
use crate::procfs::{Root, cpu_list};
use crate::rt_priority;
use crate::trace;

/// How long the reaper retries: the kernel keeps a directory of trace files while the ending probe still has one
/// open.
const MAX_REMOVE_TIME: Duration = Duration::from_secs(5);

/// A file or directory that outlives a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedResource {
    pub(crate) path: PathBuf,
    /// Whether it is a directory, of trace files or of a control group.
    pub(crate) directory: bool,
}

impl OwnedResource {
    /// Returns a resource that a reaper may remove: an absolute path without a newline, whose last part has Fathom's
    /// prefix.
    pub(crate) fn new(path: &Path, directory: bool) -> Option<OwnedResource> {
        let bytes = path.as_os_str().as_bytes();
        let has_prefix = path.file_name().is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()));
        let is_absolute_line = path.is_absolute() && !bytes.contains(&b'\n');
        (has_prefix && is_absolute_line).then(|| OwnedResource { path: path.to_owned(), directory })
    }

    fn line(&self) -> Vec<u8> {
        let word: &[u8] = if self.directory { b"rmdir " } else { b"unlink " };
        [word, self.path.as_os_str().as_bytes(), b"\n"].concat()
    }

    /// Removes the resource; succeeds if it no longer exists.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let name = self.path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let outcome = match self.directory {
            // The name may require other settings to be restored. The path may go through a file descriptor of the
            // probe, which does not exist in this process.
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

/// A running reaper, as seen by the probe.
pub(crate) struct Reaper {
    pub(crate) child: Child,
    pipe: ChildStdin,
}

impl Reaper {
    /// Starts `program` as a reaper on `cpus`, away from the measured CPU.
    pub(crate) fn start(program: &[String], cpus: &[u32]) -> io::Result<Reaper> {
        let (first, rest) = program.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut child = Command::new(first)
            .arg0("fathom")
            .args(rest)
            .arg(list(cpus))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A separate group from the first instruction on: a harness kills the probe's group.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Reaper { child, pipe })
    }

    /// Registers a resource for removal when the probe has ended.
    pub(crate) fn register(&mut self, held: &OwnedResource) -> io::Result<()> {
        self.pipe.write_all(&held.line())
    }

    /// Unregisters a resource that the probe has removed.
    pub(crate) fn release(&mut self, path: &Path) {
        // The supervisor has already noticed a reaper that is gone.
        let _ = self.pipe.write_all(&[b"done ", path.as_os_str().as_bytes(), b"\n"].concat());
    }
}

/// Runs as a reaper until standard input ends, on these CPUs (a list such as `0,2-3`).
///
/// # Errors
/// Resources that could not be removed, with the reason, one line each.
pub fn run_reaper(cpus: &str) -> Result<(), String> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let _ = rustix::thread::set_name(c"fathom-reaper");
    // A failure is harmless: the process sleeps nearly always.
    let _ = rt_priority::set_ordinary();
    let _ = set_affinity(&cpu_list(cpus));
    let mut held = Vec::new();
    for line in io::stdin().lock().split(b'\n') {
        // An unreadable input counts as its end.
        let Ok(line) = line else { break };
        handle_line(&line, &mut held);
    }
    remove_all(held)
}

fn handle_line(line: &[u8], held: &mut Vec<OwnedResource>) {
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
    let until = Instant::now() + MAX_REMOVE_TIME;
    loop {
        let tried: Vec<(OwnedResource, io::Result<()>)> =
            held.into_iter().map(|h| (h.clone(), h.remove())).collect();
        let left: Vec<(OwnedResource, io::Error)> =
            tried.into_iter().filter_map(|(h, r)| Some((h, r.err()?))).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            let message =
                |(h, e): (OwnedResource, io::Error)| format!("cannot remove {} ({e})", h.path.display());
            return Err(left.into_iter().map(message).collect::<Vec<_>>().join("\n"));
        }
        held = left.into_iter().map(|(h, _)| h).collect();
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests;
