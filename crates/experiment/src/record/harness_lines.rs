//! The harness's own lines: `run` (the request) and `end`.

use fathom_probe::wire::{Line, WireError};

use crate::options::Asked;

/// Returns whether the line is one of the harness's own. The probe's lines are numbered, whichever word they begin
/// with.
pub(super) fn is_harness_line(line: &Line) -> bool {
    let word = line.word.as_str();
    matches!(word, "run" | "end")
        || line.seq.is_none()
            && matches!(
                word,
                "hello"
                    | "again"
                    | "lost"
                    | "damaged"
                    | "imported"
                    | "simulated"
                    | "program"
                    | "profile"
                    | "sensitivity"
                    | "varied"
                    | "depends"
            )
}

/// The request to the harness: the `run` line.
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
    /// The options that were given to the experiment.
    pub asked: Asked,
}

impl Run {
    /// Returns it as a line: first what all experiments have in common, then each option under its own name.
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

    /// Reads a `run` line. It does not check that the options belong to the experiment: [`crate::check`] does.
    ///
    /// # Errors
    /// Names the key.
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

/// The end of a session: the `end` line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct End {
    /// `complete`, `interrupted` or `failed`.
    pub status: String,
    /// Wall time of the measurement, ms.
    pub elapsed_ms: u64,
}

impl End {
    /// Returns it as a line.
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
