//! Identity of a file, independent of its name.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Device and inode of a file. Terminals, pipes and /dev/null have none, because writing to them replaces nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the id of an open file.
    pub fn of(file: &File) -> Option<FileId> {
        file.metadata().ok().and_then(|about| FileId::from(&about))
    }

    /// Returns the id of the file at a path, if it exists.
    pub fn at(path: &Path) -> Option<FileId> {
        std::fs::metadata(path).ok().and_then(|about| FileId::from(&about))
    }

    fn from(about: &Metadata) -> Option<FileId> {
        let keeps = about.is_file() || about.file_type().is_block_device();
        keeps.then(|| FileId { device: about.dev(), inode: about.ino() })
    }
}
