//! Reading of a record that is to be resumed: its lines without its end, and its options.

use std::path::Path;

use fathom_experiment::record::Run;
use fathom_experiment::record::file::contents;

use crate::failure::Failure;
use crate::records;

/// Contents of an interrupted record.
pub struct Resumed {
    /// Its options.
    pub run: Run,
    /// Its complete lines, without the end.
    pub lines: Vec<String>,
    /// Time that it has taken, ms.
    pub elapsed_ms: u64,
}

/// Reads a record of `experiment`.
pub fn read(file: &Path, experiment: &str) -> Result<Resumed, Failure> {
    let shown = file.display();
    let record = records::load(file, 0)?;
    let Some(run) = record.run.filter(|run| run.experiment == experiment) else {
        let what = format!("--resume {shown}: not a record of {experiment}");
        let remedy = format!("name one that `fathom {experiment} --record FILE` started");
        return Err(Failure::usage(what, remedy));
    };
    if record.end.as_ref().is_some_and(|end| end.status == "complete") && record.trust.is_none() {
        return Err(Failure::usage(
            format!("--resume {shown}: it has no measurements"),
            "start a new record",
        ));
    }
    let text = std::fs::read(file).map_err(|e| Failure::usage(format!("--resume {shown}: {e}"), ""))?;
    let text = String::from_utf8_lossy(&text);
    let lines = contents(&text).filter(|line| !line.starts_with("end ")).map(str::to_owned).collect();
    Ok(Resumed { run, lines, elapsed_ms: record.end.map_or(0, |end| end.elapsed_ms) })
}
