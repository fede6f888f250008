//! Which file a name leads to.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// A file whatever it is called: device and inode. A terminal, a pipe or /dev/null has none, because writing twice to
/// it replaces nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Of an open file.
    pub fn of(file: &File) -> Option<FileId> {
        file.metadata().ok().and_then(|about| FileId::from(&about))
    }

    /// Of the file that a name leads to, if there is one.
    pub fn at(path: &Path) -> Option<FileId> {
        std::fs::metadata(path).ok().and_then(|about| FileId::from(&about))
    }

    fn from(about: &Metadata) -> Option<FileId> {
        let keeps = about.is_file() || about.file_type().is_block_device();
        keeps.then(|| FileId { device: about.dev(), inode: about.ino() })
    }
}
