//! Reading records from a file or a pipe.

use std::path::Path;

use fathom_experiment::record::Record;

use crate::failure::Failure;
use crate::room::Room;

mod lines;

use lines::read;

/// Reads the record in a file, or on stdin for `-`; `taken` is the memory that earlier ones need.
pub fn load(file: &Path, taken: u64) -> Result<Record, Failure> {
    let shown = file.display();
    let mut room = Room::now();
    let mut lacking = false;
    let enough = |record: &Record| {
        let why = room.look(record, taken);
        lacking = why.is_some() && record.excess().is_none();
        why
    };
    let record = if file.as_os_str() == "-" {
        read(std::io::stdin().lock(), enough)
    } else {
        match std::fs::File::open(file) {
            Ok(file) => read(std::io::BufReader::new(file), enough),
            Err(e) => {
                return Err(Failure::usage(format!("{shown}: {e}"), "name a record, or - for stdin"));
            }
        }
    };
    record.map_err(|what| {
        let remedy = match lacking {
            true => "judge it on a machine with more memory",
            false => "records are written by `fathom survey --record FILE`",
        };
        Failure::usage(format!("{shown}: {what}"), remedy)
    })
}
