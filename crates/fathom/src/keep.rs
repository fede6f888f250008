//! Keeping records: the file that was asked for, and always a copy in the user's data directory.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Most bytes of kept records; the oldest go first. Some 300 surveys.
const CAP: u64 = 64 << 20;

/// Where a session's lines go.
#[derive(Debug, Default)]
pub struct Keep {
    files: Vec<(PathBuf, BufWriter<File>)>,
    /// What could not be kept, to be told at the end.
    pub troubles: Vec<String>,
}

impl Keep {
    /// Opens the file that was asked for, which must work, and the copy, which may not.
    pub fn open(asked: Option<&Path>, experiment: &str, subject: &str) -> Result<Keep, Failure> {
        let mut keep = Keep::default();
        if let Some(path) = asked {
            let file = File::create(path).map_err(|e| {
                Failure::usage(format!("--record {}: {e}", path.display()), "name a file that can be written")
            })?;
            keep.files.push((path.to_owned(), BufWriter::new(file)));
        }
        match copy(experiment, subject) {
            Ok(Some(opened)) => keep.files.push(opened),
            Ok(None) => {}
            Err(trouble) => keep.troubles.push(trouble),
        }
        Ok(keep)
    }

    /// Appends a line; each is written out at once, so that a crash loses none.
    pub fn line(&mut self, line: &str) {
        self.files.retain_mut(|(path, file)| {
            let written = writeln!(file, "{line}").and_then(|()| file.flush());
            if let Err(e) = &written {
                self.troubles.push(format!("the record {} ends early: {e}", path.display()));
            }
            written.is_ok()
        });
    }

    /// The file to name to the user: the one asked for, else the copy.
    pub fn path(&self) -> Option<&Path> {
        self.files.first().map(|f| f.0.as_path())
    }
}

fn data_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_DATA_HOME")
        .or_else(|| set("HOME").map(|h| h.join(".local/share")))
        .map(|d| d.join("fathom/records"))
}

type Opened = (PathBuf, BufWriter<File>);

fn copy(experiment: &str, subject: &str) -> Result<Option<Opened>, String> {
    let Some(dir) = data_dir() else { return Ok(None) };
    let trouble = |e: std::io::Error| format!("no copy of the record is kept in {}: {e}", dir.display());
    std::fs::create_dir_all(&dir).map_err(trouble)?;
    rotate(&dir);
    let plain: String =
        subject.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let plain = plain.get(..plain.len().min(40)).unwrap_or("subject").to_owned();
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S").to_string();
    let path = dir.join(format!("{now}-{}-{experiment}-{plain}.fathom", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(trouble)?;
    Ok(Some((path, BufWriter::new(file))))
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
