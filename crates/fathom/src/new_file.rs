//! Files that appear whole: written under a temporary name in the same directory, and renamed.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Largest number of symbolic links followed, as on Linux (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Permissions of a new file, less the process's umask.
const NEW_FILE: u32 = 0o666;

/// Returns a temporary file beside `path`. It has the permissions of the file at `path`, if there is one.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fathom-").permissions(Permissions::from_mode(NEW_FILE));
    let file = builder.tempfile_in(directory)?;
    if let Ok(old) = std::fs::metadata(path) {
        file.as_file().set_permissions(old.permissions())?;
    }
    Ok(file)
}

/// Gives a file these bytes. Another reader sees the old ones or all of the new ones, whatever happens in between.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = creation_path(path).unwrap_or_else(|| path.to_owned());
    let mut file = beside(&path)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(&path)?;
    sync_directory(&path)
}

/// Creates a file with these bytes.
///
/// # Errors
/// `AlreadyExists` if there is one; then it is unchanged.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = beside(path)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist_noclobber(path)?;
    sync_directory(path)
}

/// Makes the name of a new file survive a loss of power.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(directory).and_then(|directory| directory.sync_all()) {
        // Some file systems do not sync directories, and some directories may be written and not read.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied) => Ok(()),
        synced => synced,
    }
}

/// Returns the path at which a file is created or replaced: its directory without links, and its name. Follows links,
/// whether their targets exist or not.
pub fn creation_path(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = directory.canonicalize().ok()?;
        match std::fs::read_link(&path) {
            Ok(target) => path = directory.join(target),
            Err(_) => return Some(directory.join(path.file_name()?)),
        }
    }
    None
}
