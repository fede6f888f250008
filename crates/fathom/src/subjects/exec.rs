//! Replaces this process by a program that executes the bare-metal image.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::child::end_with_parent;
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
    // The setting survives exec.
    if let Err(failure) = end_with_parent(parent) {
        return failure;
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
