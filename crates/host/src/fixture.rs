//! Test fixtures: a `/proc` and a `/sys` in a temporary directory.

use std::path::Path;

use crate::procfs::Root;

/// Creates a root with the given files. The directory is removed when the first part is dropped.
pub(crate) fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (path, text) in files {
        write(directory.path(), path, text.as_bytes());
    }
    let root = Root::at(directory.path());
    (directory, root)
}

/// Writes one file of a fixture.
pub(crate) fn write(directory: &Path, path: &str, bytes: &[u8]) {
    let path = directory.join(path.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory");
    std::fs::write(path, bytes).expect("a file");
}
