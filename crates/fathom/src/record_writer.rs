//! Keeping records: the file that was requested, and always a copy in the user's data directory.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, tell};
use crate::file_id::FileId;

/// Most bytes of kept records; the oldest go first. Some 300 surveys.
const CAP: u64 = 64 << 20;

/// Where a session's lines go.
#[derive(Debug, Default)]
pub struct RecordWriter {
    /// The file that was requested.
    requested: Option<Opened>,
    /// The copy in the user's data directory.
    copy: Option<Opened>,
    /// Why the file that was requested ends early.
    lost: Option<Failure>,
    /// Why there is no whole copy; to be told once, at the end.
    trouble: Option<String>,
}

impl RecordWriter {
    /// Opens the file that was requested, which must work, and the copy, which may not; both get `head`.
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
        // A file that cannot take its first lines is a wrong file; better said before than after.
        match keep.lost.take() {
            Some(lost) => {
                keep.remove_copy();
                Err(lost)
            }
            None => Ok(keep),
        }
    }

    /// Appends a line; each is written out at once, so that a crash loses none.
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

    /// The file to name to the user: the one asked for, else the copy.
    pub fn path(&self) -> Option<&Path> {
        self.requested.as_ref().or(self.copy.as_ref()).map(|f| f.0.as_path())
    }

    /// The files that are written, whatever names lead to them.
    pub fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.requested.iter().chain(&self.copy).filter_map(|(_, file)| FileId::of(file.get_ref()))
    }

    /// Removes the copy of a session that does not begin.
    pub fn remove_copy(&self) {
        if let Some((path, _)) = &self.copy {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Ends the keeping: tells once why there is no copy, and returns why the file that was requested is
    /// not whole.
    pub fn close(mut self) -> Option<Failure> {
        if let Some(trouble) = &self.trouble {
            tell(trouble);
        }
        if let (Some(lost), Some((copy, _))) = (&mut self.lost, &self.copy) {
            lost.remedy.push_str(&format!("; the copy is whole: {}", copy.display()));
        }
        self.lost
    }
}

/// Writes a line out; a file that does not take it is given up, and answered with the reason.
fn append(to: &mut Option<Opened>, line: &str) -> Option<(PathBuf, std::io::Error)> {
    let (_, file) = to.as_mut()?;
    let e = writeln!(file, "{line}").and_then(|()| file.flush()).err()?;
    let (path, file) = to.take()?;
    // Without writing what is left in the buffer: that just failed.
    let _ = file.into_parts();
    Some((path, e))
}

/// A directory that an environment variable names; relative ones are ignored, as the XDG Base Directory
/// Specification wants.
pub fn directory(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|p| p.is_absolute())
}

/// Where copies of records are kept.
pub fn data_dir() -> Option<PathBuf> {
    directory("XDG_DATA_HOME")
        .or_else(|| directory("HOME").map(|h| h.join(".local/share")))
        .map(|d| d.join("fathom/records"))
}

/// The newest kept records, at most `most`, the newest first. Their names begin with the time.
pub fn newest(most: usize) -> Vec<PathBuf> {
    let entries = data_dir().and_then(|dir| std::fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let mut records: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "fathom")).collect();
    records.sort();
    records.into_iter().rev().take(most).collect()
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

/// Removes the oldest records above the cap. Names begin with the time, so their order is their age.
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
        if total <= CAP {
            return;
        }
        if std::fs::remove_file(path).is_ok() {
            total -= size;
        }
    }
}
