//! Files that appear whole: written without a name in the same directory, and named when they are on the disk.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempPath;

/// Directory with a link for each open file of this process.
const DESCRIPTORS: &str = "/proc/self/fd";

/// Beginning of a temporary name.
const PREFIX: &str = ".fathom-";

/// Largest number of symbolic links followed, as on Linux (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Permissions of a new file, less the process's umask.
const NEW_FILE: u32 = 0o666;

/// A file without a name, which a kill leaves nowhere; where the file system has none, one with a temporary name.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    directory: PathBuf,
    /// The temporary name, removed when this is dropped.
    name: Option<TempPath>,
}

impl NewFile {
    /// Creates a file in the directory of `path`. It has the permissions of the file at `path`, if there is one.
    pub fn beside(path: &Path) -> io::Result<NewFile> {
        let directory = directory_of(path).to_owned();
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        // The name is given through /proc: open(2), O_TMPFILE.
        let unnamed = Path::new(DESCRIPTORS)
            .exists()
            .then(|| rustix::fs::open(&directory, flags, Mode::from_raw_mode(NEW_FILE)));
        let new = match unnamed {
            Some(Ok(file)) => NewFile { file: file.into(), directory, name: None },
            // Such as of NFS, which has none.
            Some(Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL)) | None => {
                let mut builder = tempfile::Builder::new();
                builder.prefix(PREFIX).permissions(Permissions::from_mode(NEW_FILE));
                let (file, name) = builder.tempfile_in(&directory)?.into_parts();
                NewFile { file, directory, name: Some(name) }
            }
            Some(Err(e)) => return Err(e.into()),
        };
        if let Ok(old) = std::fs::metadata(path) {
            new.file.set_permissions(old.permissions())?;
        }
        Ok(new)
    }

    /// Returns the open file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name; replaces another one.
    pub fn replace(self, path: &Path) -> io::Result<File> {
        match self.name {
            Some(name) => name.persist(path)?,
            None => match link(&self.file, path) {
                // A link does not replace a name, and a rename does.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    link_somewhere(&self.file, &self.directory)?.persist(path)?;
                }
                linked => linked?,
            },
        }
        Ok(self.file)
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// `AlreadyExists` if there is another one.
    pub fn create(self, path: &Path) -> io::Result<File> {
        match self.name {
            Some(name) => name.persist_noclobber(path)?,
            None => link(&self.file, path)?,
        }
        Ok(self.file)
    }
}

/// Gives an unnamed file a name.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = Path::new(DESCRIPTORS).join(file.as_raw_fd().to_string());
    Ok(rustix::fs::linkat(CWD, from, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Gives an unnamed file a temporary name.
fn link_somewhere(file: &File, directory: &Path) -> io::Result<TempPath> {
    let mut nth = std::process::id();
    loop {
        let path = directory.join(format!("{PREFIX}{nth}"));
        match link(file, &path) {
            Ok(()) => return TempPath::try_from_path(path),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => nth = nth.wrapping_add(1),
            Err(e) => return Err(e),
        }
    }
}

/// Gives a file these bytes. Another reader sees the old ones or all of the new ones, whatever happens in between.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = creation_path(path).unwrap_or_else(|| path.to_owned());
    written(&path, bytes)?.replace(&path)?;
    sync_directory(&path)
}

/// Creates a file with these bytes.
///
/// # Errors
/// `AlreadyExists` if there is one; then it is unchanged.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    written(path, bytes)?.create(path)?;
    sync_directory(path)
}

/// Returns a file with these bytes on the disk.
fn written(path: &Path, bytes: &[u8]) -> io::Result<NewFile> {
    let mut new = NewFile::beside(path)?;
    new.file.write_all(bytes)?;
    new.file.sync_data()?;
    Ok(new)
}

/// Makes the name of a new file survive a loss of power.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    match File::open(directory_of(path)).and_then(|directory| directory.sync_all()) {
        // Some file systems do not sync directories, and some directories may be written and not read.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied) => Ok(()),
        synced => synced,
    }
}

/// Returns the directory of a path.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the path at which a file is created or replaced: its directory without links, and its name. Follows links,
/// whether their targets exist or not.
pub fn creation_path(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let directory = directory_of(&path).canonicalize().ok()?;
        match std::fs::read_link(&path) {
            Ok(target) => path = directory.join(target),
            Err(_) => return Some(directory.join(path.file_name()?)),
        }
    }
    None
}
