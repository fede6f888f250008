//! Replaces this process by a program that executes the bare-metal image.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::failure::Failure;

/// Replaces this process by `command`, which `with` creates from the name of the image's file. The file is unnamed
/// memory, released with the program. The program ends with its parent, which must be `parent` if given. Returns only
/// on failure.
pub fn exec_with(
    image: &[u8],
    parent: Option<u32>,
    with: impl FnOnce(&str) -> Command,
    install: &str,
) -> Failure {
    let failed =
        |what: &str, e: rustix::io::Errno| Failure::new(format!("{what}: {}", std::io::Error::from(e)), "");
    // The setting survives exec (prctl(2), PR_SET_PDEATHSIG). If the parent ended before it was set, the parent's
    // process id differs.
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
        return Failure::new(format!("cannot pass the image: {e}"), "free some memory");
    }
    let mut command = with(&format!("/proc/self/fd/{}", file.as_raw_fd()));
    let e = command.exec();
    Failure::new(format!("cannot start {}: {e}", command.get_program().display()), install)
}
