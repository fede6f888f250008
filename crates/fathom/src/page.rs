//! The file of `--html`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use fathom_analysis::findings::Report;
use fathom_report::html::Change;

use crate::failure::Failure;
use crate::output::Out;

/// Where a page goes. Opened before anything is measured, so that a wrong name costs nothing.
#[derive(Debug)]
pub enum Target {
    /// stdout, in the place of the text.
    Stdout,
    /// A file.
    File(PageFile),
}

/// A file that is left as it was, or is not made, until there is a page to be written: a run that is killed
/// leaves nothing.
#[derive(Debug)]
pub struct PageFile {
    path: PathBuf,
}

impl Target {
    /// The target of `--html`, if there is one; `record` is the file of the same command's record, which it must not be.
    pub fn open(path: Option<&Path>, record: Option<&Path>) -> Result<Option<Target>, Failure> {
        let Some(path) = path else { return Ok(None) };
        if path.as_os_str() == "-" {
            return Ok(Some(Target::Stdout));
        }
        if record.is_some_and(|record| same(path, record)) || holds_record(path) {
            return Err(Failure::usage(
                format!("--html {}: that is a record", path.display()),
                "name another file: a page has no samples, and cannot be judged again",
            ));
        }
        writable(path).map_err(|e| {
            Failure::usage(
                format!("--html {}: {e}", path.display()),
                "name a file that can be written, or - for stdout",
            )
        })?;
        Ok(Some(Target::File(PageFile { path: path.to_owned() })))
    }

    /// Is the page to stand where the text would?
    pub fn is_stdout(&self) -> bool {
        matches!(self, Target::Stdout)
    }

    /// Writes the page.
    pub fn write(self, named: &[(&str, &Report)], changes: &[Change], out: &Out) -> Result<(), Failure> {
        let short = shortened(&named.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        let of = |name: &str| named.iter().position(|(n, _)| *n == name).map_or("?", |at| short[at]);
        let changes: Vec<Change> = changes.iter().map(|c| Change { names: c.names.map(of), ..*c }).collect();
        let named: Vec<(&str, &Report)> = named.iter().map(|(name, report)| (of(name), *report)).collect();
        let page = fathom_report::html(&named, &changes)
            .map_err(|e| Failure::new(format!("the page cannot be made: {e}"), "--json has all of it"))?;
        match self {
            Target::Stdout => out.text(&page).map(|_| ()),
            Target::File(to) => {
                let written = std::fs::write(&to.path, &page);
                written.map_err(|e| {
                    Failure::new(
                        format!("--html {}: {e}", to.path.display()),
                        "is the disk full? `fathom report RECORD --html FILE` makes the page again",
                    )
                })
            }
        }
    }
}

/// May the file be written, or made? Nothing is changed by asking.
fn writable(path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return File::options().write(true).open(path).map(|_| ());
    }
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(rustix::fs::access(directory, rustix::fs::Access::WRITE_OK)?)
}

/// Are both names of one file, be it there or not?
pub fn same(a: &Path, b: &Path) -> bool {
    let place = |p: &Path| p.canonicalize().or_else(|_| std::path::absolute(p));
    a == b || matches!((place(a), place(b)), (Ok(a), Ok(b)) if a == b)
}

/// Does the file begin as a record does?
fn holds_record(path: &Path) -> bool {
    let mut begin = [0; 13];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == *b"fathom.record"
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
    use super::shortened;

    #[test]
    fn directories_are_left_out_where_names_stay_different() {
        assert_eq!(shortened(&["/home/me/a.fathom", "b/c.fathom", "-"]), ["a.fathom", "c.fathom", "-"]);
        assert_eq!(shortened(&["x/a.fathom", "y/a.fathom"]), ["x/a.fathom", "y/a.fathom"]);
        assert_eq!(shortened(&["/", ""]), ["/", ""]);
    }
}
