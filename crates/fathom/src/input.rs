//! What comes in: records, and pages that carry findings.

use std::io::{BufRead, Read as _};
use std::path::Path;

use fathom_analysis::findings::Report;
use fathom_experiment::record::Record;
use fathom_probe::wire::MAX_LINE;
use fathom_report::html;

use crate::failure::Failure;

/// The reports in a file: a record is judged, the findings of a page are taken as they are.
pub fn reports(file: &Path) -> Result<Vec<(String, Report)>, Failure> {
    let name = file.display().to_string();
    match read(file)? {
        Input::Record(record) => Ok(vec![(name, fathom_experiment::read(&record))]),
        Input::Page(text) => html::reports(&text, fathom_experiment::WARNINGS)
            .map_err(|e| Failure::usage(format!("{name}: {e}"), "make the page again from its record")),
    }
}

/// The record in a file, or on stdin for `-`.
pub fn record(file: &Path) -> Result<Record, Failure> {
    match read(file)? {
        Input::Record(record) => Ok(record),
        Input::Page(_) => Err(Failure::usage(
            format!("{}: a page has findings and no samples", file.display()),
            "name the record that it was made from",
        )),
    }
}

enum Input {
    Record(Record),
    Page(String),
}

fn read(file: &Path) -> Result<Input, Failure> {
    let shown = file.display();
    let input = if file.as_os_str() == "-" {
        read_from(std::io::stdin().lock())
    } else {
        match std::fs::File::open(file) {
            Ok(file) => read_from(std::io::BufReader::new(file)),
            Err(e) => {
                return Err(Failure::usage(format!("{shown}: {e}"), "name a record, or - for stdin"));
            }
        }
    };
    input.map_err(|what| {
        Failure::usage(format!("{shown}: {what}"), "records are written by `fathom survey --record FILE`")
    })
}

/// A page is told from a record by its first bytes.
fn read_from(mut from: impl BufRead) -> Result<Input, String> {
    let begin = from.fill_buf().map_err(|e| e.to_string())?;
    if !html::is_page(&String::from_utf8_lossy(&begin[..begin.len().min(64)])) {
        return read_record(from).map(Input::Record);
    }
    let mut page = Vec::new();
    from.take(MOST_PAGE).read_to_end(&mut page).map_err(|e| e.to_string())?;
    if page.len() as u64 == MOST_PAGE {
        return Err(format!("longer than {} MiB, as no page is", MOST_PAGE >> 20));
    }
    Ok(Input::Page(String::from_utf8_lossy(&page).into_owned()))
}

/// No page is longer.
const MOST_PAGE: u64 = 64 << 20;

/// No record is longer; an endless stdin ends here.
const MOST_RECORD: u64 = 256 << 20;

/// Reads a record line by line, so that what is none is refused at its first line, however long it is.
fn read_record(from: impl BufRead) -> Result<Record, String> {
    let mut from = from.take(MOST_RECORD);
    let mut record = Record::default();
    let mut bytes = Vec::new();
    let mut lines = 0u64;
    loop {
        bytes.clear();
        // A line that is too long is read to this length, to be a problem with its number, and skipped.
        from.by_ref().take(MAX_LINE as u64 + 2).read_until(b'\n', &mut bytes).map_err(|e| e.to_string())?;
        if bytes.is_empty() {
            break;
        }
        lines += 1;
        let whole = bytes.ends_with(b"\n");
        let text = String::from_utf8_lossy(&bytes);
        record.push(text.trim_end_matches('\n').trim_end_matches('\r'))?;
        if !whole {
            from.skip_until(b'\n').map_err(|e| e.to_string())?;
        }
    }
    match (lines, from.limit()) {
        (0, _) => Record::parse(""),
        (_, 0) => Err(format!("longer than {} MiB, as no session is", MOST_RECORD >> 20)),
        _ => Ok(record),
    }
}
