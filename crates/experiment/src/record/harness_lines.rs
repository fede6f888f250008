//! The harness's own lines: what was asked, and how it ended.

use fathom_probe::wire::{Line, WireError};

use crate::options::Asked;

/// Is it one of the harness's own lines? A probe's are numbered, whatever their word.
pub(super) fn is_harness_line(line: &Line) -> bool {
    let word = line.word.as_str();
    matches!(word, "run" | "end")
        || line.seq.is_none() && matches!(word, "hello" | "again" | "lost" | "imported")
}

/// What the harness was asked to do: the `run` line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Run {
    /// The experiment's name.
    pub experiment: String,
    /// The subject as the user typed it.
    pub subject: String,
    /// Seed of the plan.
    pub seed: u64,
    /// Budget, ms.
    pub budget_ms: u64,
    /// Version of the program that measured.
    pub build: String,
    /// The command line.
    pub command: String,
    /// The options that the experiment was asked with.
    pub asked: Asked,
}

impl Run {
    /// The line that says it: what is common to all experiments, then the options, each under its own name.
    #[must_use]
    pub fn line(&self) -> Line {
        let line = Line::new("run")
            .text("experiment", &self.experiment)
            .text("subject", &self.subject)
            .int("seed", self.seed)
            .int("budget_ms", self.budget_ms)
            .text("build", &self.build)
            .text("command", &self.command);
        self.asked.onto(line)
    }

    /// Reads a `run` line. Whether the options are those of the experiment, the record does not know: [`crate::check`]
    /// does.
    ///
    /// # Errors
    /// A sentence that names the key.
    pub fn of_line(line: &Line) -> Result<Run, WireError> {
        let mut f = line.fields();
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (experiment, subject) = (text("experiment")?, text("subject")?);
        let (build, command) = (text("build")?, text("command")?);
        Ok(Run {
            experiment,
            subject,
            seed: f.need_int("seed")?,
            budget_ms: f.need_int("budget_ms")?,
            build,
            command,
            asked: Asked::of_pairs(&f.rest())?,
        })
    }
}

/// How a session ended: the `end` line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct End {
    /// `complete`, `interrupted` or `failed`.
    pub status: String,
    /// Wall time of the measurement, ms.
    pub elapsed_ms: u64,
}

impl End {
    /// The line that says it.
    #[must_use]
    pub fn line(&self) -> Line {
        Line::new("end").token("status", &self.status).int("elapsed_ms", self.elapsed_ms)
    }

    pub(super) fn read(line: &Line) -> Result<End, WireError> {
        let mut f = line.fields();
        let status = f.token("status")?.unwrap_or("failed").to_owned();
        let end = End { status, elapsed_ms: f.need_int("elapsed_ms")? };
        f.finish()?;
        Ok(end)
    }
}
