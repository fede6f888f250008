//! The page of memory in which a guest reads counts: a file that QEMU maps as memory of a PCI device, and the plugin, too.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::failure::Failure;

/// Bytes of the page (`struct fathom_guest_page` of `include/fathom_guest.h`).
const BYTES: u64 = 4096;
/// Name of the memory, for QEMU.
const NAME: &str = "fathom-counters";

/// The page, which is removed with it.
#[derive(Debug)]
pub struct CountersPage {
    _folder: TempDir,
    file: PathBuf,
}

impl CountersPage {
    /// Creates its file, with zeros.
    ///
    /// # Errors
    /// There is no directory for it.
    pub fn create() -> Result<CountersPage, Failure> {
        let made = tempfile::tempdir().and_then(|folder| {
            let file = folder.path().join("page");
            std::fs::File::create(&file)?.set_len(BYTES)?;
            Ok(CountersPage { _folder: folder, file })
        });
        made.map_err(|e| {
            let what = format!("--counters: the page cannot be created: {e}");
            Failure::new(what, "set TMPDIR to a directory that can be written")
        })
    }

    /// Returns its path.
    pub fn path(&self) -> String {
        self.file.display().to_string()
    }

    /// Returns QEMU's arguments. It takes a comma for the end of a value, and two for one.
    pub fn arguments(&self) -> [String; 4] {
        let file = self.path().replace(',', ",,");
        let memory = format!("memory-backend-file,id={NAME},share=on,mem-path={file},size={BYTES}");
        ["-object".to_owned(), memory, "-device".to_owned(), format!("ivshmem-plain,memdev={NAME}")]
    }
}
