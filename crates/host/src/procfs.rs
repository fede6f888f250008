//! Bounded reads of `/proc` and `/sys`, below a root directory that tests replace.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Directory that contains `/proc` and `/sys`: `/` on a machine, a fixture's directory in a test.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

/// Longest text that is read from one file, bytes. The longest file needed is `/proc/self/smaps` of a process with
/// some hundred mappings at about 700 bytes each.
const MAX_TEXT_BYTES: u64 = 4 << 20;

impl Root {
    /// Returns the root of the running system.
    pub(crate) fn system() -> Root {
        Root(PathBuf::from("/"))
    }

    /// Returns a root at another directory.
    #[cfg(test)]
    pub(crate) fn at(path: &Path) -> Root {
        Root(path.to_path_buf())
    }

    /// Returns the path of `absolute` below the root.
    pub(crate) fn path(&self, absolute: &str) -> PathBuf {
        self.0.join(absolute.trim_start_matches('/'))
    }

    /// Returns the text of a file without its final newlines; `None` if it cannot be read. Bytes that are not UTF-8
    /// are replaced: these files are ASCII, and a malformed one must not end the probe.
    pub(crate) fn text(&self, absolute: &str) -> Option<String> {
        let raw = self.bytes(absolute, MAX_TEXT_BYTES)?;
        let text = String::from_utf8_lossy(&raw);
        Some(text.trim_end_matches(['\n', '\0']).to_owned())
    }

    /// Returns the first `limit` bytes of a file.
    pub(crate) fn bytes(&self, absolute: &str, limit: u64) -> Option<Vec<u8>> {
        read_bounded(&self.path(absolute), limit)
    }

    /// Returns `length` bytes of a file from `offset` on; `None` if the file is shorter.
    pub(crate) fn bytes_at(&self, absolute: &str, offset: u64, length: usize) -> Option<Vec<u8>> {
        let mut raw = vec![0; length];
        File::open(self.path(absolute)).ok()?.read_exact_at(&mut raw, offset).ok()?;
        Some(raw)
    }

    /// Reads a file that contains one decimal number.
    pub(crate) fn number(&self, absolute: &str) -> Option<u64> {
        self.text(absolute)?.trim().parse().ok()
    }

    /// Returns the names in a directory, sorted, so that the order of facts is stable.
    pub(crate) fn names(&self, absolute: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(absolute)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

fn read_bounded(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    File::open(path).ok()?.take(limit).read_to_end(&mut raw).ok()?;
    Some(raw)
}

/// Returns the value in bytes of the line `KEY:  N kB`, the format of `/proc/meminfo`, `/proc/self/status` and each
/// entry of `/proc/self/smaps`.
pub(crate) fn kilobytes(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| kilobytes_line(line, key))
}

/// [`kilobytes`] of one line.
pub(crate) fn kilobytes_line(line: &str, key: &str) -> Option<u64> {
    let rest = line.strip_prefix(key)?.strip_prefix(':')?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Parses a list such as `0-3,8,10-11`, the format of CPU lists in sysfs. A part that is not a number or a range is
/// skipped. A range is cut at 4096 CPUs, above any kernel's `NR_CPUS` today.
pub(crate) fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.trim().parse::<u32>(), to.trim().parse::<u32>()) {
            cpus.extend((from..=to).take(4096));
        }
    }
    cpus
}
