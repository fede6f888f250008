//! The stdin of a program that is run several times.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use crate::failure::{Failure, print_message};

/// Time after which it is told that stdin is being read: a pipe that nobody closes looks like a hang.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Bytes that are copied at once.
const COPIED_BYTES: usize = 64 << 10;

/// What every run reads.
#[derive(Debug)]
pub enum Input {
    /// This process's stdin: a terminal, a device, or for one run only.
    Inherited,
    /// A copy of it.
    Copy(File),
}

impl Input {
    /// Takes stdin; all of it, if there may be several runs.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn take(once: bool) -> Result<Input, Failure> {
        let stdin = io::stdin();
        let is_device = fstat(&stdin)
            .map_or(true, |status| FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice);
        if once || stdin.is_terminal() || is_device {
            return Ok(Input::Inherited);
        }
        let failed = |e: io::Error| {
            Failure::new(
                format!("cannot copy stdin, which each run of the program reads: {e}"),
                "set TMPDIR to a directory with room for it, give the program a file, or run it --once",
            )
        };
        let mut file = tempfile::tempfile().map_err(failed)?;
        match copy(stdin.as_fd(), &mut file) {
            // It is open for writing only: no run can read it.
            Err(e) if Errno::from_io_error(&e) == Some(Errno::BADF) => Ok(Input::Inherited),
            copied => copied.map(|()| Input::Copy(file)).map_err(failed),
        }
    }

    /// Returns the stdin of a run: all of it.
    pub fn begin(&self) -> io::Result<Stdio> {
        match self {
            Input::Inherited => Ok(Stdio::inherit()),
            // With a position of its own.
            Input::Copy(file) => Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into()),
        }
    }
}

/// Copies all of a stream, and tells if it does not end.
fn copy(from: BorrowedFd, to: &mut File) -> io::Result<()> {
    let begin = Instant::now();
    let mut told = false;
    let mut bytes = vec![0; COPIED_BYTES];
    loop {
        let wait = TOLD_AFTER.saturating_sub(begin.elapsed());
        if !told && (wait.is_zero() || !is_ready(from, wait)?) {
            told = true;
            print_message(&"reading stdin to its end, as each run gets all of it (none: </dev/null)");
        }
        match rustix::io::read(from, &mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&bytes[..count])?,
            Err(Errno::INTR) => {}
            // It was opened so by somebody else.
            Err(Errno::AGAIN) => drop(is_ready(from, TOLD_AFTER)?),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Waits until a stream has something to read, or has ended.
fn is_ready(stream: BorrowedFd, at_most: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
    match poll(&mut [PollFd::from_borrowed_fd(stream, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
