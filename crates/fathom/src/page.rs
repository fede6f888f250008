//! The file of `--html`.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use fathom_report::html::{Change, Entry};

use crate::failure::Failure;
use crate::file_id::FileId;
use crate::output::Out;

/// Most symbolic links that a name leads through, as on Linux (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// What a record begins with.
const RECORD: &[u8; 13] = b"fathom.record";

/// Where a page goes. Opened before anything is measured, so that a wrong name costs nothing.
#[derive(Debug)]
pub enum Target {
    /// stdout, instead of the text.
    Stdout,
    /// A file.
    File(PageFile),
}

/// A file that is left as it was, or is not made, until there is a page to be written: a run that is killed
/// leaves nothing.
#[derive(Debug)]
pub struct PageFile {
    path: PathBuf,
    /// Files of the same command that the page must not replace, by device and inode.
    others: Vec<FileId>,
}

impl Target {
    /// The target of `--html`, if there is one; `others` are the files that the same command reads, and the file of its
    /// record, none of which it must be.
    pub fn open<'a>(
        path: Option<&Path>,
        others: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Option<Target>, Failure> {
        let Some(path) = path else { return Ok(None) };
        if path.as_os_str() == "-" {
            return Ok(Some(Target::Stdout));
        }
        let others: Vec<&Path> = others.into_iter().collect();
        if others.iter().any(|other| same(path, other)) || holds_record(path) {
            return Err(is_needed(path));
        }
        writable(path).map_err(|e| {
            Failure::usage(
                format!("--html {}: {e}", path.display()),
                "name a file that can be written, or - for stdout",
            )
        })?;
        let others = others.iter().filter_map(|other| FileId::at(other)).collect();
        Ok(Some(Target::File(PageFile { path: path.to_owned(), others })))
    }

    /// Files that were made since, which the page must not be either: the record's, and its copy. A name that led
    /// nowhere when it was looked at may lead to one of them now.
    pub fn spare(&mut self, made: impl IntoIterator<Item = FileId>) -> Result<(), Failure> {
        let Target::File(page) = self else { return Ok(()) };
        page.others.extend(made);
        match FileId::at(&page.path) {
            Some(file) if page.others.contains(&file) => Err(is_needed(&page.path)),
            _ => Ok(()),
        }
    }

    /// Is the page to stand where the text would?
    pub fn is_stdout(&self) -> bool {
        matches!(self, Target::Stdout)
    }

    /// Writes the page.
    pub fn write(self, entries: &[Entry], changes: &[Change], out: &Out) -> Result<(), Failure> {
        let short = shortened(&entries.iter().map(|entry| entry.name).collect::<Vec<_>>());
        let of = |name: &str| entries.iter().position(|e| e.name == name).map_or("?", |at| short[at]);
        let changes: Vec<Change> = changes.iter().map(|c| Change { names: c.names.map(of), ..*c }).collect();
        let entries: Vec<Entry> =
            entries.iter().map(|entry| Entry { name: of(entry.name), ..*entry }).collect();
        let page = fathom_report::html(&entries, &changes)
            .map_err(|e| Failure::new(format!("the page cannot be made: {e}"), "--json has all of it"))?;
        match self {
            Target::Stdout => out.text(&page).map(|_| ()),
            Target::File(to) => to.write(&page),
        }
    }
}

impl PageFile {
    /// Writes the page's text, unless the name has come to lead to a file that must stay.
    fn write(&self, page: &str) -> Result<(), Failure> {
        let lost = |e: std::io::Error| {
            Failure::new(
                format!("--html {}: {e}", self.path.display()),
                "is the disk full? `fathom report RECORD --html FILE` makes the page again",
            )
        };
        // Nothing is cut off before it is known what was opened.
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(false).open(&self.path).map_err(lost)?;
        let id = FileId::of(&file);
        if id.is_some_and(|id| self.others.contains(&id)) || holds_record(&self.path) {
            return Err(is_needed(&self.path));
        }
        if id.is_some() {
            file.set_len(0).and_then(|()| file.rewind()).map_err(lost)?;
        }
        file.write_all(page.as_bytes()).map_err(lost)
    }
}

/// The name is that of a record, or of a file that this command reads.
fn is_needed(path: &Path) -> Failure {
    Failure::usage(
        format!("--html {}: that is a record, or a file that this command reads", path.display()),
        "name another file: a page has no samples, and cannot be judged again",
    )
}

/// May the file be written, or made? Nothing is changed by asking.
fn writable(path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return File::options().write(true).open(path).map(|_| ());
    }
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(rustix::fs::access(directory, rustix::fs::Access::WRITE_OK)?)
}

/// Are both names of one file, be it there or not? Files that are there are compared as files, others by the place at
/// which they would be made.
pub fn same(a: &Path, b: &Path) -> bool {
    match (FileId::at(a), FileId::at(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => {
            !a.exists() && !b.exists() && matches!((place(a), place(b)), (Some(a), Some(b)) if a == b)
        }
        _ => false,
    }
}

/// Where a file would be made that is not there: its directory without links, and its name; at the end of links that
/// lead nowhere yet.
fn place(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = directory.canonicalize().ok()?;
        match std::fs::read_link(&path) {
            Ok(target) => path = directory.join(target),
            Err(_) => return Some(directory.join(path.file_name()?)),
        }
    }
    None
}

/// Does the file begin as a record does?
fn holds_record(path: &Path) -> bool {
    let mut begin = [0; RECORD.len()];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == *RECORD
}

/// Names of files without their directories, where that leaves them different: a page is shown to others.
fn shortened<'a>(names: &[&'a str]) -> Vec<&'a str> {
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

    /// A target as of a name that was looked at before the files of `since` were made.
    fn target(path: &Path) -> Target {
        Target::open(Some(path), []).expect("a name that can be written").expect("a target")
    }

    #[test]
    fn a_file_that_was_made_since_is_not_written_to() {
        let dir = tempfile::tempdir().expect("a directory");
        let (record, link) = (dir.path().join("R"), dir.path().join("L"));
        std::os::unix::fs::symlink(&record, &link).expect("a link");
        let mut page = target(&link);
        let file = File::create(&record).expect("a record");
        std::fs::write(&record, "as it was").expect("its text");
        assert!(page.spare([FileId::of(&file).expect("a file")]).is_err());
        // Whoever goes on all the same replaces nothing.
        let Target::File(page) = page else { panic!("a file") };
        assert!(page.write("a page").is_err());
        assert_eq!(std::fs::read_to_string(&record).expect("the record"), "as it was");
        // A record of another command that has come to be there.
        let other = dir.path().join("O");
        let Target::File(page) = target(&other) else { panic!("a file") };
        std::fs::write(&other, "fathom.record version=1\n").expect("a record");
        assert!(page.write("a page").is_err());
    }

    #[test]
    fn page_replaces_only_unrelated_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let (record, old) = (dir.path().join("R"), dir.path().join("P"));
        std::fs::write(&old, "a longer and older page").expect("a page");
        let mut page = Target::open(Some(&old), [record.as_path()]).expect("free").expect("a target");
        let file = File::create(&record).expect("a record");
        page.spare(FileId::of(&file)).expect("another file");
        let Target::File(page) = page else { panic!("a file") };
        page.write("a page").expect("written");
        assert_eq!(std::fs::read_to_string(&old).expect("the page"), "a page");
        assert!(!same(&record, &old) && same(&record, &dir.path().join("./R")));
        assert!(
            same(&dir.path().join("N"), &dir.path().join("./N"))
                && FileId::at(Path::new("/dev/null")).is_none()
        );
    }

    #[test]
    fn directories_are_left_out_where_names_stay_different() {
        assert_eq!(shortened(&["/home/me/a.fathom", "b/c.fathom", "-"]), ["a.fathom", "c.fathom", "-"]);
        assert_eq!(shortened(&["x/a.fathom", "y/a.fathom"]), ["x/a.fathom", "y/a.fathom"]);
        assert_eq!(shortened(&["/", ""]), ["/", ""]);
    }
}
