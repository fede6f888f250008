//! The page of memory in which a guest reads counts: a file that QEMU maps as memory of a PCI device, and the plugin, too.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use crate::failure::Failure;

/// Bytes of the page (`struct fathom_guest_page` of `include/fathom_guest.h`).
const BYTES: u64 = 4096;
/// Name of the memory, for QEMU.
const NAME: &str = "fathom-counters";

/// The page. Its file has no name, so nothing is left of it, however this process ends.
#[derive(Debug)]
pub struct CountersPage {
    file: File,
}

impl CountersPage {
    /// Creates its file, with zeros.
    ///
    /// # Errors
    /// There is no directory for it.
    pub fn create() -> Result<CountersPage, Failure> {
        let made = tempfile::tempfile().and_then(|file| {
            file.set_len(BYTES)?;
            Ok(CountersPage { file })
        });
        made.map_err(|e| {
            let what = format!("--counters: the page cannot be created: {e}");
            Failure::new(what, "set TMPDIR to a directory that can be written")
        })
    }

    /// Returns its path, by which QEMU and the plugin open it while this process is there.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Returns QEMU's arguments.
    pub fn arguments(&self) -> [String; 4] {
        let memory = format!("memory-backend-file,id={NAME},share=on,mem-path={},size={BYTES}", self.path());
        ["-object".to_owned(), memory, "-device".to_owned(), format!("ivshmem-plain,memdev={NAME}")]
    }
}
