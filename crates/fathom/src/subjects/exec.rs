//! Becoming a program that executes the bare-metal image.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::failure::Failure;

/// Becomes `command`, which finds the image in the file whose name `with` is given to. The file is memory that has no
/// name, and is gone with the program; the program ends with its parent, which must be `parent` where that is known.
/// Returns only where it cannot be.
pub fn exec_with(
    image: &[u8],
    parent: Option<u32>,
    with: impl FnOnce(&str) -> Command,
    install: &str,
) -> Failure {
    let failed =
        |what: &str, e: rustix::io::Errno| Failure::new(format!("{what}: {}", std::io::Error::from(e)), "");
    // What is set here outlives the exec (prctl(2), PR_SET_PDEATHSIG). A parent that died before it is noticed by
    // its number.
    if let Err(e) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return failed("PR_SET_PDEATHSIG", e);
    }
    if parent.is_some_and(|parent| getppid().map(|p| p.as_raw_pid().cast_unsigned()) != Some(parent)) {
        return Failure::new("the harness is gone", "");
    }
    let file = match memfd_create("fathom-image", MemfdFlags::empty()) {
        Ok(file) => std::fs::File::from(file),
        Err(e) => return failed("memfd_create", e),
    };
    if let Err(e) = (&file).write_all(image) {
        return Failure::new(format!("cannot hand the image over: {e}"), "free some memory");
    }
    let mut command = with(&format!("/proc/self/fd/{}", file.as_raw_fd()));
    let e = command.exec();
    Failure::new(format!("cannot start {}: {e}", command.get_program().display()), install)
}
