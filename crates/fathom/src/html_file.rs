//! The output file of `--html`.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use fathom_report::html::{self, Change, Entry};
use fathom_report::page::Block;

use crate::failure::Failure;
use crate::file_id::FileId;
use crate::new_file::{self, creation_path};
use crate::output::Out;

/// First bytes of a record.
const RECORD: &[u8] = b"fathom.record";

/// Destination of a page. Opened before the measurement, so that a wrong name fails early.
#[derive(Debug)]
pub enum Target {
    /// stdout, instead of the text.
    Stdout,
    /// A file.
    File(PageFile),
}

/// A file that is not changed or created before the page is written, so that a killed run leaves nothing.
#[derive(Debug)]
pub struct PageFile {
    path: PathBuf,
    /// Files of the same command that the page must not replace.
    others: Vec<FileId>,
}

impl Target {
    /// Opens the target of `--html`, if given. `others` are the files that the same command reads, and the file of its
    /// record; the target must be none of them.
    pub fn open<'a>(
        path: Option<&Path>,
        others: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Option<Target>, Failure> {
        let Some(path) = path else { return Ok(None) };
        if path.as_os_str() == "-" {
            return Ok(Some(Target::Stdout));
        }
        let others: Vec<&Path> = others.into_iter().collect();
        if others.iter().any(|other| same(path, other)) {
            return Err(would_overwrite(path));
        }
        only_page(path)?;
        writable(path).map_err(|e| {
            Failure::usage(
                format!("--html {}: {e}", path.display()),
                "name a file that can be written, or - for stdout",
            )
        })?;
        let others = others.iter().filter_map(|other| FileId::at(other)).collect();
        Ok(Some(Target::File(PageFile { path: path.to_owned(), others })))
    }

    /// Adds files created since, which the page must not replace either: the record and its copy. A name that did not
    /// exist when it was checked may now lead to one of them.
    pub fn exclude_files(&mut self, made: impl IntoIterator<Item = FileId>) -> Result<(), Failure> {
        let Target::File(page) = self else { return Ok(()) };
        page.others.extend(made);
        match FileId::at(&page.path) {
            Some(file) if page.others.contains(&file) => Err(would_overwrite(&page.path)),
            _ => Ok(()),
        }
    }

    /// Returns whether the page goes to stdout instead of the text.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Target::Stdout)
    }

    /// Writes the page.
    pub fn write(self, entries: &[Entry], changes: &[Change], out: &Out) -> Result<(), Failure> {
        self.write_together(entries, changes, &[], out)
    }

    /// Writes the page, with `together` of all entries before them.
    pub fn write_together(
        self,
        entries: &[Entry],
        changes: &[Change],
        together: &[Block],
        out: &Out,
    ) -> Result<(), Failure> {
        let short = shortened(&entries.iter().map(|entry| entry.name).collect::<Vec<_>>());
        let of = |name: &str| entries.iter().position(|e| e.name == name).map_or("?", |at| short[at]);
        let changes: Vec<Change> = changes.iter().map(|c| Change { names: c.names.map(of), ..*c }).collect();
        let entries: Vec<Entry> =
            entries.iter().map(|entry| Entry { name: of(entry.name), ..*entry }).collect();
        let page = fathom_report::html(&entries, &changes, together, out.style().studies)
            .map_err(|e| Failure::new(format!("cannot render the page: {e}"), "use --json"))?;
        match self {
            Target::Stdout => out.text(&page).map(|_| ()),
            Target::File(to) => to.write(&page),
        }
    }
}

impl PageFile {
    /// Writes the page, unless the name now leads to a file that must not be replaced.
    fn write(&self, page: &str) -> Result<(), Failure> {
        let lost = |e: std::io::Error| {
            Failure::new(
                format!("--html {}: {e}", self.path.display()),
                "is the disk full? `fathom report RECORD --html FILE` makes the page again",
            )
        };
        let id = FileId::at(&self.path);
        if id.is_some_and(|id| self.others.contains(&id)) {
            return Err(would_overwrite(&self.path));
        }
        only_page(&self.path)?;
        // Only pipes and devices have no identity.
        if id.is_some() || !self.path.exists() {
            return new_file::replace(&self.path, page.as_bytes()).map_err(lost);
        }
        let mut file = OpenOptions::new().write(true).open(&self.path).map_err(lost)?;
        if is_own_pipe(&file) {
            return Err(Failure::usage(
                format!("--html {}: this is a pipe from which fathom itself reads", self.path.display()),
                "name a file, or - for stdout",
            ));
        }
        file.write_all(page.as_bytes()).map_err(lost)
    }
}

/// Returns the error for a target that is a record or an input file.
fn would_overwrite(path: &Path) -> Failure {
    Failure::usage(
        format!("--html {}: refusing to overwrite a record or an input file", path.display()),
        "name another file: a page has no samples, and cannot be judged again",
    )
}

/// Returns whether the file is a pipe of which this process holds a reading end, as a name below /proc/self/fd may be. A
/// write to it would block as soon as the pipe is full, because nothing empties it.
fn is_own_pipe(file: &File) -> bool {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    let Ok(target) = file.metadata() else { return false };
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
    let is_reading_end = |fd: &std::ffi::OsStr| {
        let same = std::fs::metadata(Path::new("/proc/self/fd").join(fd))
            .is_ok_and(|end| (end.dev(), end.ino()) == (target.dev(), target.ino()));
        // The two lowest bits of `flags`, an octal number, are the access mode (proc_pid_fdinfo(5)): 1 is write only.
        let info = || std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(fd)).unwrap_or_default();
        let mode = |line: &str| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok();
        same && info().lines().find_map(mode).is_some_and(|flags| flags & 3 != 1)
    };
    target.file_type().is_fifo() && open.flatten().any(|entry| is_reading_end(&entry.file_name()))
}

/// Checks whether the file can be written or created, without changing anything.
fn writable(path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return File::options().write(true).open(path).map(|_| ());
    }
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(rustix::fs::access(directory, rustix::fs::Access::WRITE_OK)?)
}

/// Returns whether both names lead to the same file. Existing files are compared by identity, others by the path at
/// which they would be created.
pub fn same(a: &Path, b: &Path) -> bool {
    match (FileId::at(a), FileId::at(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => {
            !a.exists()
                && !b.exists()
                && matches!((creation_path(a), creation_path(b)), (Some(a), Some(b)) if a == b)
        }
        _ => false,
    }
}

/// Checks that nothing but a page would be replaced: a record, a description, or whatever else the name leads to is kept.
fn only_page(path: &Path) -> Result<(), Failure> {
    const BEGIN: u64 = 64;
    let mut begin = Vec::new();
    let read = match path.is_file() {
        true => File::open(path).and_then(|file| file.take(BEGIN).read_to_end(&mut begin)),
        false => Ok(0),
    };
    match read {
        Ok(0) => Ok(()),
        Ok(_) if html::is_page(&String::from_utf8_lossy(&begin)) => Ok(()),
        Ok(_) if begin.starts_with(RECORD) => Err(would_overwrite(path)),
        Ok(_) => Err(Failure::usage(
            format!("--html {}: this file exists, and is not a page", path.display()),
            "name another file, or remove it",
        )),
        Err(e) => Err(Failure::usage(format!("--html {}: {e}", path.display()), "name another file")),
    }
}

/// Returns file names without their directories, if they remain unique.
pub fn shortened<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let last = |name: &'a str| {
        Path::new(name).file_name().and_then(|n| n.to_str()).filter(|n| !n.is_empty()).unwrap_or(name)
    };
    let short: Vec<&str> = names.iter().map(|name| last(name)).collect();
    let unique: std::collections::BTreeSet<&&str> = short.iter().collect();
    if unique.len() == short.len() { short } else { names.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_with_own_reading_end_is_recognised() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let ours = |file: &std::io::PipeWriter| {
            use std::os::fd::AsFd as _;
            is_own_pipe(&File::from(file.as_fd().try_clone_to_owned().expect("a copy")))
        };
        assert!(ours(&writer), "its reading end is open here");
        drop(reader);
        assert!(!ours(&writer), "its reading end is closed");
        assert!(!is_own_pipe(&tempfile::tempfile().expect("a file")));
    }

    /// A target whose name was checked before the files of `since` were created.
    fn target(path: &Path) -> Target {
        Target::open(Some(path), []).expect("a name that can be written").expect("a target")
    }

    #[test]
    fn file_created_after_the_check_is_not_overwritten() {
        let dir = tempfile::tempdir().expect("a directory");
        let (record, link) = (dir.path().join("R"), dir.path().join("L"));
        std::os::unix::fs::symlink(&record, &link).expect("a link");
        let mut page = target(&link);
        let file = File::create(&record).expect("a record");
        std::fs::write(&record, "as it was").expect("its text");
        assert!(page.exclude_files([FileId::of(&file).expect("a file")]).is_err());
        // A later write replaces nothing.
        let Target::File(page) = page else { panic!("a file") };
        assert!(page.write("a page").is_err());
        assert_eq!(std::fs::read_to_string(&record).expect("the record"), "as it was");
        // A record of another command, created since.
        let other = dir.path().join("O");
        let Target::File(page) = target(&other) else { panic!("a file") };
        std::fs::write(&other, "fathom.record version=1\n").expect("a record");
        assert!(page.write("a page").is_err());
    }

    #[test]
    fn page_replaces_only_unrelated_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let (record, old) = (dir.path().join("R"), dir.path().join("P"));
        std::fs::write(&old, "<!doctype html>a longer and older page").expect("a page");
        let mut page = Target::open(Some(&old), [record.as_path()]).expect("free").expect("a target");
        let file = File::create(&record).expect("a record");
        page.exclude_files(FileId::of(&file)).expect("another file");
        let Target::File(page) = page else { panic!("a file") };
        page.write("a page").expect("written");
        assert_eq!(std::fs::read_to_string(&old).expect("the page"), "a page");
        for other in ["fathom.record version=1\n", "format = 1\n", "a page"] {
            std::fs::write(&old, other).expect("a file");
            Target::open(Some(&old), []).expect_err("it is no page");
            assert_eq!(std::fs::read_to_string(&old).expect("the file"), other);
        }
        assert!(!same(&record, &old) && same(&record, &dir.path().join("./R")));
        assert!(
            same(&dir.path().join("N"), &dir.path().join("./N"))
                && FileId::at(Path::new("/dev/null")).is_none()
        );
    }

    #[test]
    fn directories_are_removed_if_names_stay_different() {
        assert_eq!(shortened(&["/home/me/a.fathom", "b/c.fathom", "-"]), ["a.fathom", "c.fathom", "-"]);
        assert_eq!(shortened(&["x/a.fathom", "y/a.fathom"]), ["x/a.fathom", "y/a.fathom"]);
        assert_eq!(shortened(&["/", ""]), ["/", ""]);
    }
}
