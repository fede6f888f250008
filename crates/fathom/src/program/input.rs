//! The stdin of a program that is run several times.

use std::fs::File;
use std::io::{IsTerminal as _, copy};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::process::Stdio;

use crate::failure::Failure;

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
        let stdin = std::io::stdin();
        let is_device = || {
            let kind = std::fs::metadata("/proc/self/fd/0").map(|metadata| metadata.file_type());
            kind.map_or(true, |kind| kind.is_char_device())
        };
        if once || stdin.is_terminal() || is_device() {
            return Ok(Input::Inherited);
        }
        let failed = |e: std::io::Error| {
            Failure::new(
                format!("cannot copy stdin, which each run of the program reads: {e}"),
                "set TMPDIR to a directory with room for it, give the program a file, or run it --once",
            )
        };
        let mut file = tempfile::tempfile().map_err(failed)?;
        copy(&mut stdin.lock(), &mut file).map_err(failed)?;
        Ok(Input::Copy(file))
    }

    /// Returns the stdin of a run: all of it.
    pub fn begin(&self) -> std::io::Result<Stdio> {
        match self {
            Input::Inherited => Ok(Stdio::inherit()),
            // With a position of its own.
            Input::Copy(file) => Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into()),
        }
    }
}
