//! Reading records from a file or a pipe.

use std::path::Path;

use fathom_experiment::record::Record;

use crate::failure::Failure;

mod lines;

use lines::read;

/// Reads the record in a file, or on stdin for `-`.
pub fn load(file: &Path) -> Result<Record, Failure> {
    let shown = file.display();
    let record = if file.as_os_str() == "-" {
        read(std::io::stdin().lock())
    } else {
        match std::fs::File::open(file) {
            Ok(file) => read(std::io::BufReader::new(file)),
            Err(e) => {
                return Err(Failure::usage(format!("{shown}: {e}"), "name a record, or - for stdin"));
            }
        }
    };
    record.map_err(|what| {
        Failure::usage(format!("{shown}: {what}"), "records are written by `fathom survey --record FILE`")
    })
}
