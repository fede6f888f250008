//! Copies of records in the user's data directory: their names and their rotation.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::output::{self, Output};

/// Largest size of all kept records, bytes; the oldest are removed first. Some 300 surveys.
const MAX_KEPT_BYTES: u64 = 64 << 20;

/// Digits of the number that begins a name: as many records as a machine makes in a century.
const DIGITS: usize = 8;

/// Returns the directory that an environment variable names. Relative ones are ignored, as required by the XDG Base
/// Directory Specification.
pub fn directory(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|p| p.is_absolute())
}

/// Returns the directory of the copies of records.
pub fn data_dir() -> Option<PathBuf> {
    directory("XDG_DATA_HOME")
        .or_else(|| directory("HOME").map(|h| h.join(".local/share")))
        .map(|d| d.join("fathom/records"))
}

/// Returns at most `max` kept records, the newest first.
pub fn newest(max: usize) -> Vec<PathBuf> {
    let records = data_dir().map(|dir| records(&dir)).unwrap_or_default();
    records.into_iter().rev().take(max).map(|(_, path)| path).collect()
}

/// Returns the records in a directory with their numbers, the oldest first. The number, not the clock, gives the order: a
/// board's clock starts anywhere.
fn records(dir: &Path) -> Vec<(u64, PathBuf)> {
    let paths = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let number = |path: &Path| path.file_name()?.to_str()?.split_once('-')?.0.parse::<u64>().ok();
    let mut records: Vec<(u64, PathBuf)> = paths
        .filter(|path| path.extension().is_some_and(|x| x == "fathom"))
        // There is a number after each.
        .map(|path| (number(&path).filter(|&number| number < u64::MAX).unwrap_or(0), path))
        .collect();
    records.sort();
    records
}

/// Creates the copy of a record. Returns why there is none.
pub(super) fn create(experiment: &str, subject: &str) -> Result<Output, String> {
    let Some(dir) = data_dir() else {
        return Err("no copy of the record is kept: neither XDG_DATA_HOME nor HOME names a directory".into());
    };
    let trouble = |e: std::io::Error| format!("no copy of the record is kept in {}: {e}", dir.display());
    std::fs::create_dir_all(&dir).map_err(trouble)?;
    let records = records(&dir);
    rotate(&records);
    let plain: String =
        subject.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let plain = plain.get(..plain.len().min(40)).unwrap_or("subject");
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S");
    let mut number = records.last().map_or(0, |(number, _)| *number);
    loop {
        number += 1;
        let path = dir.join(format!("{number:0DIGITS$}-{now}-{experiment}-{plain}.fathom"));
        match Output::create(&path) {
            // Another session took the number.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            created => return created.map_err(trouble),
        }
    }
}

/// Removes the oldest records above the limit, but never the newest, nor one that a session is writing.
fn rotate(records: &[(u64, PathBuf)]) {
    let sizes = records.iter().map(|(_, path)| std::fs::metadata(path).map_or(0, |about| about.len()));
    let sizes: Vec<u64> = sizes.collect();
    let mut total: u64 = sizes.iter().sum();
    let Some((_, older)) = records.split_last() else { return };
    for ((_, path), size) in older.iter().zip(sizes) {
        if total <= MAX_KEPT_BYTES {
            return;
        }
        let unused = File::open(path).is_ok_and(|file| !output::is_being_written(&file));
        if unused && std::fs::remove_file(path).is_ok() {
            total -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates records of 30 MiB each, of which two may be kept.
    fn large(dir: &Path, names: &[&str]) -> Vec<(u64, PathBuf)> {
        for name in names {
            File::create(dir.join(name)).and_then(|file| file.set_len(30 << 20)).expect("a file");
        }
        records(dir)
    }

    #[test]
    fn order_is_by_number_and_not_by_the_clock() {
        let dir = tempfile::tempdir().expect("a directory");
        let largest = format!("{}-x.fathom", u64::MAX);
        let names = [
            "00000002-19700101T000000-a.fathom",
            "00000001-20300101T000000-b.fathom",
            "old.fathom",
            &largest,
        ];
        let found = large(dir.path(), &names).into_iter().map(|(number, _)| number);
        assert_eq!(found.collect::<Vec<_>>(), [0, 0, 1, 2]);
    }

    #[test]
    fn neither_the_newest_nor_an_open_record_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = large(dir.path(), &["1-a.fathom", "2-b.fathom", "3-c.fathom", "4-d.fathom"]);
        let open = File::open(dir.path().join("1-a.fathom")).expect("a record");
        open.lock().expect("a lock");
        rotate(&found);
        let left: Vec<u64> = records(dir.path()).into_iter().map(|(number, _)| number).collect();
        assert_eq!(left, [1, 4], "2 and 3 are the oldest that are not open");
        // A single record larger than the limit is the newest.
        let dir = tempfile::tempdir().expect("a directory");
        let found = large(dir.path(), &["1-a.fathom"]);
        found
            .iter()
            .for_each(|(_, path)| File::options().write(true).open(path).unwrap().set_len(1 << 30).unwrap());
        rotate(&found);
        assert_eq!(records(dir.path()).len(), 1);
    }
}
