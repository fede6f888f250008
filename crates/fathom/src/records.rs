//! Reads records, and pages with findings, from a file or a pipe.

use std::io::{BufRead, Read as _};
use std::path::{Path, PathBuf};

use fathom_analysis::findings::Report;
use fathom_experiment::record::Record;
use fathom_experiment::report_kinds::{self, REPORT_KINDS};
use fathom_experiment::survey;
use fathom_report::{ReportKind, html};

use crate::failure::Failure;
use crate::memory_budget::MemoryBudget;
use crate::{record_writer, subjects};

mod lines;

/// Returns the kind of a report. The report of an unknown experiment, possible in a page, is refused.
pub fn kind(name: &str, report: &Report) -> Result<&'static ReportKind, Failure> {
    report_kinds::kind(&report.experiment).ok_or_else(|| {
        Failure::usage(
            format!("{name}: {:?} is not an experiment of this fathom", report.experiment),
            "read it with the fathom that made it",
        )
    })
}

/// Returns the reports in a file, or on stdin for `-`: a record is judged, the findings of a page are used unchanged.
pub fn reports(file: &Path) -> Result<Vec<(String, Report)>, Failure> {
    let name = file.display().to_string();
    match read(file, 0)? {
        Input::Record(record) => Ok(vec![(name, judged(&record)?)]),
        Input::Page(text) => html::reports(&text, &REPORT_KINDS)
            .map_err(|e| Failure::usage(format!("{name}: {e}"), "make the page again from its record")),
    }
}

/// Returns the record in a file, or on stdin for `-`; `taken` is the memory that earlier ones need.
pub fn load(file: &Path, taken: u64) -> Result<Record, Failure> {
    match read(file, taken)? {
        Input::Record(record) => Ok(*record),
        Input::Page(_) => Err(Failure::usage(
            format!("{}: a page has findings and no samples", file.display()),
            "name the record that it was made from",
        )),
    }
}

/// Kept records among which a survey of this host is searched.
const SEARCHED: usize = 50;

/// Returns the surveys of this host that are kept, the newest first. They may be of another machine with the same home.
pub fn surveys_of_host() -> impl Iterator<Item = (PathBuf, Record)> {
    let is_one = |record: &Record| {
        let run = record.run.as_ref();
        run.is_some_and(|run| run.experiment == survey::EXPERIMENT.name && run.subject == subjects::HOST)
    };
    let kept = record_writer::newest(SEARCHED).into_iter();
    kept.filter_map(|path| Some((load(&path, 0).ok()?, path)))
        .filter(move |(record, _)| is_one(record))
        .map(|(record, path)| (path, record))
}

/// Judges a record.
pub fn judged(record: &Record) -> Result<Report, Failure> {
    fathom_experiment::read(record).map_err(|why| Failure::usage(why, ANOTHER_VERSION))
}

/// Remedy for a record with options that no experiment of this version has.
const ANOTHER_VERSION: &str = "read it with the version of fathom that made it";

enum Input {
    Record(Box<Record>),
    Page(String),
}

fn read(file: &Path, taken: u64) -> Result<Input, Failure> {
    let shown = file.display();
    let mut memory_budget = MemoryBudget::now();
    let mut out_of_memory = false;
    let enough = |record: &Record| {
        let why = memory_budget.look(record, taken);
        out_of_memory = why.is_some() && record.excess().is_none();
        why
    };
    let input = if file.as_os_str() == "-" {
        read_from(std::io::stdin().lock(), enough, taken)
    } else {
        match std::fs::File::open(file) {
            Ok(file) => read_from(std::io::BufReader::new(file), enough, taken),
            Err(e) => {
                return Err(Failure::usage(format!("{shown}: {e}"), "name a record, or - for stdin"));
            }
        }
    };
    if let Ok(Input::Record(record)) = &input {
        fathom_experiment::check(record)
            .map_err(|why| Failure::usage(format!("{shown}: {why}"), ANOTHER_VERSION))?;
    }
    input.map_err(|what| {
        let remedy = match out_of_memory {
            true => "judge it on a machine with more memory",
            false => "records are written by `fathom survey --record FILE`",
        };
        Failure::usage(format!("{shown}: {what}"), remedy)
    })
}

/// Largest page, bytes.
const MAX_PAGE: u64 = 64 << 20;

/// Memory for reading a page, as a multiple of its length: bytes, text, values, reports. Measured: a page of 9.5 MB
/// fitted in 64 MiB, and one of 50 MB in 256 MiB.
const MEMORY_PER_PAGE_BYTE: u64 = 16;

/// Reads a page or a record, distinguished by their first bytes.
fn read_from(
    mut from: impl BufRead,
    enough: impl FnMut(&Record) -> Option<String>,
    taken: u64,
) -> Result<Input, String> {
    let begin = from.fill_buf().map_err(|e| e.to_string())?;
    if !html::is_page(&String::from_utf8_lossy(&begin[..begin.len().min(64)])) {
        return lines::read(from, enough).map(|record| Input::Record(Box::new(record)));
    }
    let memory_budget = MemoryBudget::now();
    let mut page = Vec::new();
    while from.by_ref().take(1 << 20).read_to_end(&mut page).map_err(|e| e.to_string())? > 0 {
        let length = page.len() as u64;
        if length > MAX_PAGE {
            return Err(format!("longer than {} MiB, the limit of a page", MAX_PAGE >> 20));
        }
        if let Some(lack) = memory_budget.lacks(length * MEMORY_PER_PAGE_BYTE + taken) {
            return Err(lack);
        }
    }
    Ok(Input::Page(String::from_utf8_lossy(&page).into_owned()))
}
