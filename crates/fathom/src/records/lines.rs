//! Reads a record line by line from untrusted input. It depends on nothing else of the command, so that the fuzz
//! targets can include it unchanged.

use std::io::{BufRead, Read as _};

use fathom_experiment::record::Record;
use fathom_experiment::record::file::{FileReader, MAX_SEAL};
use fathom_probe::wire::MAX_LINE;

/// Largest record, bytes; an endless stdin ends here.
const MAX_RECORD: u64 = 256 << 20;

/// Reads a record line by line, so that other input is refused at its first line, regardless of its length.
///
/// `enough` checks the record after every line, and may end the reading with a reason.
pub fn read(from: impl BufRead, mut enough: impl FnMut(&Record) -> Option<String>) -> Result<Record, String> {
    let mut from = from.take(MAX_RECORD);
    let mut reader = FileReader::default();
    let mut bytes = Vec::new();
    let mut lines = 0u64;
    loop {
        bytes.clear();
        // A line that is too long is read up to the limit, reported with its number, and skipped.
        from.by_ref()
            .take((MAX_LINE + MAX_SEAL) as u64 + 2)
            .read_until(b'\n', &mut bytes)
            .map_err(|e| e.to_string())?;
        if bytes.is_empty() {
            break;
        }
        lines += 1;
        let text = String::from_utf8_lossy(&bytes);
        reader.push(text.trim_end_matches('\n').trim_end_matches('\r'))?;
        if let Some(why) = enough(reader.record()) {
            return Err(why);
        }
        if !bytes.ends_with(b"\n") {
            from.skip_until(b'\n').map_err(|e| e.to_string())?;
        }
    }
    match (lines, from.limit()) {
        (0, _) => Record::parse(""),
        (_, 0) => Err(format!("longer than {} MiB, the limit of a record", MAX_RECORD >> 20)),
        _ => Ok(reader.finish()),
    }
}
