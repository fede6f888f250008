//! Stressor that writes to a disk: one file without a name, repeatedly.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use fathom_probe::machine::Refusal;
use rustix::fs::{Access, Mode, OFlags, access, open, statfs, statvfs, unlink};
use rustix::io::Errno;

use super::slots::Tally;
use super::task::{Passes, Stage, WorkerError};

/// Bytes of one write, as in `stress --hdd`.
const CHUNK_BYTES: usize = 1 << 20;
/// Divisor of the disk's free space that all workers together may take.
const FREE_SPACE_DIVISOR: u64 = 4;
/// File systems in memory (Linux, include/uapi/linux/magic.h: TMPFS_MAGIC, RAMFS_MAGIC).
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// A file without a name, and the data written to it.
pub(crate) struct Disk {
    file: File,
    bytes: u64,
    chunk: Vec<u8>,
}

impl Disk {
    pub(crate) fn open(directory: &Path, bytes: u64) -> Result<Disk, WorkerError> {
        let file = open_nameless(directory).map_err(|e| WorkerError::new(Stage::File, &e.into()))?;
        // Incompressible bytes: a file system that compresses would write less.
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let random_byte = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 56) as u8
        };
        let length = CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES)).max(1);
        Ok(Disk { file: File::from(file), bytes, chunk: (0..length).map(random_byte).collect() })
    }
}

/// Opens a nameless file in the directory. If the file system cannot create one, it is created with a name, which is
/// removed at once.
fn open_nameless(directory: &Path) -> rustix::io::Result<OwnedFd> {
    match open(directory, OPEN | OFlags::TMPFILE, Mode::RUSR | Mode::WUSR) {
        // open(2): EOPNOTSUPP of file systems without it, EISDIR and ENOENT of kernels without it.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => open_and_unlink(directory),
        opened => opened,
    }
}

/// Flags for opening the file.
const OPEN: OFlags = OFlags::WRONLY.union(OFlags::CLOEXEC);

fn open_and_unlink(directory: &Path) -> rustix::io::Result<OwnedFd> {
    let name = file_name(directory, std::process::id());
    let flags = OPEN | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = open(&name, flags, Mode::RUSR | Mode::WUSR)?;
    unlink(&name)?;
    Ok(file)
}

/// Returns the name that a worker's file has for a short time if it must have one.
pub(crate) fn file_name(directory: &Path, worker: u32) -> PathBuf {
    directory.join(format!("fathom.{worker}"))
}

impl Passes for Disk {
    fn pass(&mut self, tally: &mut Tally<'_>) -> Result<(), WorkerError> {
        let failed = |e: &io::Error| WorkerError::new(Stage::Write, e);
        // Other processes may have filled the disk since; at the start four times as much was free.
        let free = rustix::fs::fstatvfs(&self.file).map(|s| s.f_bavail * s.f_frsize);
        if free.is_ok_and(|free| free < self.bytes.saturating_mul(2)) {
            return Err(WorkerError { stage: Stage::Write, errno: libc::ENOSPC });
        }
        let mut left = self.bytes;
        while left > 0 {
            let length = self.chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.file.write_all(&self.chunk[..length]).map_err(|e| failed(&e))?;
            left -= length as u64;
            tally.count_lines(0, length as u64);
            tally.publish();
        }
        rewind(&self.file).map_err(|e| failed(&e))?;
        tally.count_passes(1);
        Ok(())
    }
}

/// Returns the written space to the disk.
fn rewind(mut file: &File) -> io::Result<()> {
    use std::io::Seek as _;
    file.set_len(0)?;
    file.rewind()
}

/// Returns the directory to write in: the first of `$TMPDIR`, `/var/tmp` and `/tmp` that is on a disk and writable.
pub(crate) fn directory() -> Result<PathBuf, Refusal> {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let all: Vec<PathBuf> = named.into_iter().chain(["/var/tmp".into(), "/tmp".into()]).collect();
    choose(&all)
}

fn choose(all: &[PathBuf]) -> Result<PathBuf, Refusal> {
    let on_disk = |path: &&PathBuf| {
        // Pseudo file systems (/proc) have no blocks.
        let disk = statfs(path.as_path())
            .is_ok_and(|s| !MEMORY_FILE_SYSTEMS.contains(&(s.f_type as u64 & 0xffff_ffff)) && s.f_blocks > 0);
        disk && path.is_dir() && access(path.as_path(), Access::WRITE_OK | Access::EXEC_OK).is_ok()
    };
    all.iter().find(on_disk).cloned().ok_or_else(|| {
        let shown: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
        Refusal::new(
            format!("none of {} is a writable directory on a disk", shown.join(", ")),
            "set TMPDIR to such a directory",
        )
    })
}

/// Checks that all workers together may write `bytes` bytes there.
pub(crate) fn check(directory: &Path, bytes: u64) -> Result<(), Refusal> {
    let shown = directory.display();
    let free = statvfs(directory).map(|s| s.f_bavail * s.f_frsize).map_err(|e| {
        Refusal::new(format!("the free space in {shown} is unknown ({e})"), "set TMPDIR to another directory")
    })?;
    within(bytes, free).map_err(|max_bytes| {
        Refusal::new(
            format!(
                "the load writes files of {bytes} bytes in total, and {max_bytes} are allowed in {shown}: a quarter of \
                 its free space"
            ),
            "write smaller files (disk:64M), or set TMPDIR to a directory on a larger disk",
        )
    })
}

/// Checks that `bytes` is within the permitted part of the free space; otherwise returns the maximum.
fn within(bytes: u64, free: u64) -> Result<(), u64> {
    if bytes <= free / FREE_SPACE_DIVISOR { Ok(()) } else { Err(free / FREE_SPACE_DIVISOR) }
}

#[cfg(test)]
mod tests;
