//! Writing of records: the requested file, and always a copy in the user's data directory.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, print_message};
use crate::file_id::FileId;

/// Largest size of all kept records, bytes; the oldest are removed first. Some 300 surveys.
const MAX_KEPT_BYTES: u64 = 64 << 20;

/// Output files of a session's record.
#[derive(Debug, Default)]
pub struct RecordWriter {
    /// Requested file.
    requested: Option<Opened>,
    /// Copy in the user's data directory.
    copy: Option<Opened>,
    /// Failure of writing the requested file completely.
    lost: Option<Failure>,
    /// Reason why there is no complete copy; printed once, at the end.
    trouble: Option<String>,
}

impl RecordWriter {
    /// Opens the requested file, which must succeed, and the copy, which may fail; both get `head`.
    pub fn open(
        requested: Option<&Path>,
        experiment: &str,
        subject: &str,
        head: &[String],
    ) -> Result<RecordWriter, Failure> {
        let mut keep = RecordWriter::default();
        if let Some(path) = requested {
            let file = File::create(path).map_err(|e| {
                Failure::usage(format!("--record {}: {e}", path.display()), "name a file that can be written")
            })?;
            keep.requested = Some((path.to_owned(), BufWriter::new(file)));
        }
        match copy(experiment, subject) {
            Ok(opened) => keep.copy = Some(opened),
            Err(trouble) => keep.trouble = Some(trouble),
        }
        for line in head {
            keep.line(line);
        }
        // A file that cannot take its first lines fails before the measurement.
        match keep.lost.take() {
            Some(lost) => {
                keep.remove_copy();
                Err(lost)
            }
            None => Ok(keep),
        }
    }

    /// Appends a line and flushes it, so that a crash loses none.
    pub fn line(&mut self, line: &str) {
        if let Some(e) = append(&mut self.requested, line) {
            self.lost = Some(Failure::new(
                format!("--record {}: the record ends early: {}", e.0.display(), e.1),
                "name a file with room for it",
            ));
        }
        if let Some(e) = append(&mut self.copy, line) {
            self.trouble = Some(format!("the copy of the record, {}, ends early: {}", e.0.display(), e.1));
        }
    }

    /// Returns the file to name to the user: the requested one, else the copy.
    pub fn path(&self) -> Option<&Path> {
        self.requested.as_ref().or(self.copy.as_ref()).map(|f| f.0.as_path())
    }

    /// Returns the ids of the files written.
    pub fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.requested.iter().chain(&self.copy).filter_map(|(_, file)| FileId::of(file.get_ref()))
    }

    /// Removes the copy of a session that did not begin.
    pub fn remove_copy(&self) {
        if let Some((path, _)) = &self.copy {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Closes the files. Prints why there is no complete copy, and returns why the requested file is incomplete.
    pub fn close(mut self) -> Option<Failure> {
        if let Some(trouble) = &self.trouble {
            print_message(trouble);
        }
        if let (Some(lost), Some((copy, _))) = (&mut self.lost, &self.copy) {
            lost.remedy.push_str(&format!("; the copy is whole: {}", copy.display()));
        }
        self.lost
    }
}

/// Writes a line and flushes. A file that fails is closed, and returned with the error.
fn append(to: &mut Option<Opened>, line: &str) -> Option<(PathBuf, std::io::Error)> {
    let (_, file) = to.as_mut()?;
    let e = writeln!(file, "{line}").and_then(|()| file.flush()).err()?;
    let (path, file) = to.take()?;
    // The rest of the buffer is not written, because that has just failed.
    let _ = file.into_parts();
    Some((path, e))
}

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

/// Returns at most `max` kept records, the newest first. Their names begin with the time.
pub fn newest(max: usize) -> Vec<PathBuf> {
    let entries = data_dir().and_then(|dir| std::fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let mut records: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "fathom")).collect();
    records.sort();
    records.into_iter().rev().take(max).collect()
}

type Opened = (PathBuf, BufWriter<File>);

fn copy(experiment: &str, subject: &str) -> Result<Opened, String> {
    let Some(dir) = data_dir() else {
        return Err("no copy of the record is kept: neither XDG_DATA_HOME nor HOME names a directory".into());
    };
    let trouble = |e: std::io::Error| format!("no copy of the record is kept in {}: {e}", dir.display());
    std::fs::create_dir_all(&dir).map_err(trouble)?;
    rotate(&dir);
    let plain: String =
        subject.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let plain = plain.get(..plain.len().min(40)).unwrap_or("subject").to_owned();
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S").to_string();
    let path = dir.join(format!("{now}-{}-{experiment}-{plain}.fathom", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(trouble)?;
    Ok((path, BufWriter::new(file)))
}

/// Removes the oldest records above the limit. Names begin with the time, so they sort by age.
fn rotate(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut records: Vec<(PathBuf, u64)> = entries
        .flatten()
        .map(|e| (e.path(), e.metadata().map_or(0, |m| m.len())))
        .filter(|(p, _)| p.extension().is_some_and(|x| x == "fathom"))
        .collect();
    records.sort();
    let mut total: u64 = records.iter().map(|r| r.1).sum();
    for (path, size) in records {
        if total <= MAX_KEPT_BYTES {
            return;
        }
        if std::fs::remove_file(path).is_ok() {
            total -= size;
        }
    }
}
