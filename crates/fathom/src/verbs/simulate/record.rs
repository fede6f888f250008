//! The record of a simulated program: what was asked, the facts of the described machine, the counts.

use std::path::{Path, PathBuf};

use fathom_experiment::record::{End, Record, Run, Simulated};
use fathom_model::Description;
use fathom_probe::serve::{Lines, serve};

use crate::failure::Failure;
use crate::output::short;
use crate::subjects;

/// What every machine's record has in common.
pub struct Common<'a> {
    /// The experiment.
    pub experiment: &'a str,
    /// Name of the program.
    pub program: &'a str,
    /// The command line.
    pub command: &'a str,
    /// Seed of the machines.
    pub seed: u64,
    /// Whether the program was interrupted.
    pub interrupted: bool,
    /// Duration, ms.
    pub elapsed_ms: u64,
}

/// Returns the lines of a machine's record.
pub fn lines(
    common: &Common,
    machine: &Description,
    name: &str,
    counted: &Simulated,
) -> Result<Vec<String>, Failure> {
    let run = Run {
        experiment: common.experiment.to_owned(),
        subject: short(&format!("{} on {name}", common.program)),
        seed: common.seed,
        build: crate::build_id::id(),
        command: short(common.command),
        ..Run::default()
    };
    let status = if common.interrupted { "interrupted" } else { "complete" };
    let end = End { status: status.to_owned(), elapsed_ms: common.elapsed_ms };
    let mut all = vec![Record::first_line(), run.line().render()];
    all.extend(facts(machine, name, common.seed)?);
    all.extend(counted.record_lines().iter().map(|line| line.render()));
    all.push(end.line().render());
    Ok(all)
}

/// Returns what a probe of the machine says about it.
fn facts(machine: &Description, name: &str, seed: u64) -> Result<Vec<String>, Failure> {
    let mut model = subjects::model_of(name, machine, seed)?;
    let mut session = Session { requests: vec!["bye", "facts"], lines: Vec::new() };
    let Ok(()) = serve(&mut model, &mut session);
    Ok(session.lines)
}

/// A session that asks for the facts.
struct Session {
    /// The last one is first.
    requests: Vec<&'static str>,
    lines: Vec<String>,
}

impl Lines for Session {
    type Error = std::convert::Infallible;

    fn read(&mut self, line: &mut String) -> Result<bool, Self::Error> {
        let next = self.requests.pop();
        line.push_str(next.unwrap_or_default());
        Ok(next.is_some())
    }

    fn write(&mut self, line: &str) -> Result<(), Self::Error> {
        self.lines.push(line.trim_end().to_owned());
        Ok(())
    }
}

/// Returns the file of a machine's record: the requested one, with the machine's name before its extension if there are
/// several machines.
pub fn file(requested: &Path, machine: &str, several: bool) -> PathBuf {
    if !several {
        return requested.to_owned();
    }
    let word: String = machine
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.=".contains(c) { c } else { '_' })
        .collect();
    let stem = requested.file_stem().unwrap_or_default().to_string_lossy();
    let extension = requested.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    requested.with_file_name(format!("{stem}.{}{}", word.trim_matches('.'), extension.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_has_the_facts_of_its_machine() {
        let machine = subjects::description("bcm2835").expect("built in");
        let common = Common {
            experiment: "simulate",
            program: "p",
            command: "fathom simulate",
            seed: 3,
            interrupted: false,
            elapsed_ms: 5,
        };
        let counted =
            Simulated { program: "p".into(), threads: 1, clock_hz: 700_000_000, ..Simulated::default() };
        let lines = lines(&common, &machine, "bcm2835", &counted).expect("lines");
        let record = Record::parse(&lines.join("\n")).expect("a record");
        assert!(record.problems.is_empty(), "{:?}", record.problems);
        assert_eq!(record.text("machine.name"), Some("bcm2835"));
        assert_eq!(record.simulated, Some(counted));
        let run = record.run.expect("a run");
        assert_eq!((run.subject.as_str(), run.seed), ("p on bcm2835", 3));
    }

    #[test]
    fn files_of_several_machines_have_their_names() {
        let path = Path::new("out/a.fathom");
        assert_eq!(file(path, "zen3", false), path);
        assert_eq!(file(path, "zen3", true), Path::new("out/a.zen3.fathom"));
        assert_eq!(file(path, "./m/x.toml l2.size=1M", true), Path::new("out/a._m_x.toml_l2.size=1M.fathom"));
        assert_eq!(file(Path::new("a"), "zen3", true), Path::new("a.zen3"));
    }
}
