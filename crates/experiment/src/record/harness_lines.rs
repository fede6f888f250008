//! The harness's own lines: what was asked, and how it ended.

use fathom_probe::machine::{Attribute, Operation};
use fathom_probe::wire::{Line, WireError};

use crate::dma;
use crate::latency::ladder::Ladder;
use crate::wakeup;

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
    /// Working sets asked for, bytes; empty where the experiment chooses them.
    pub bytes: Vec<u64>,
    /// Steps asked for, bytes; empty where the experiment chooses them or has none.
    pub strides: Vec<u64>,
    /// Operations asked for; empty where the experiment chooses them or has none.
    pub operations: Vec<Operation>,
    /// Ladders of the latency experiment that were asked for; mostly none.
    pub ladders: Vec<Ladder>,
    /// Are sweeps over memory that nobody has touched wanted beside the others?
    pub first_touch: bool,
    /// Is the ladder of prefetch wanted beside the sweeps?
    pub prefetch: bool,
    /// Is the replacement of the survey's levels wanted too?
    pub replacement: bool,
    /// Attributes that cacheability was asked for; empty where it takes all.
    pub attributes: Vec<Attribute>,
    /// Rounds over a working set that cacheability's totals are of; 0 where none were asked for.
    pub rounds: u64,
    /// Are flushes wanted as a substitute for memory that is not cached?
    pub flush: bool,
    /// Is every byte of MAIR_EL1 wanted beside cacheability's attributes?
    pub every_mair: bool,
    /// Are page walks by the tables' own attribute wanted beside them?
    pub walks: bool,
    /// Numbers of page colours that the conflict experiment was asked for; mostly none.
    pub colours: Vec<u64>,
    /// What the DMA experiment was asked for.
    pub dma: dma::options::Options,
    /// What the wake-up experiment was asked for.
    pub wakeup: wakeup::options::Options,
}

impl Run {
    /// The line that says it.
    #[must_use]
    pub fn line(&self) -> Line {
        let line = Line::new("run")
            .text("experiment", &self.experiment)
            .text("subject", &self.subject)
            .int("seed", self.seed)
            .int("budget_ms", self.budget_ms)
            .text("build", &self.build)
            .text("command", &self.command);
        let line = if self.bytes.is_empty() { line } else { line.list("bytes", &self.bytes) };
        // Younger than the first records: they stand only where they say something.
        let line = if self.strides.is_empty() { line } else { line.list("strides", &self.strides) };
        let line = if self.operations.is_empty() { line } else { line.text("ops", &words(&self.operations)) };
        let line =
            if self.ladders.is_empty() { line } else { line.text("ladders", &ladder_words(&self.ladders)) };
        let line = if self.first_touch { line.int("first_touch", 1) } else { line };
        let line = if self.prefetch { line.int("prefetch", 1) } else { line };
        let line = if self.replacement { line.int("replacement", 1) } else { line };
        let attributes = attribute_words(&self.attributes);
        let line = if attributes.is_empty() { line } else { line.text("attributes", &attributes) };
        let line = if self.rounds == 0 { line } else { line.int("rounds", self.rounds) };
        let line = if self.flush { line.int("flush", 1) } else { line };
        let line = if self.every_mair { line.int("every_mair", 1) } else { line };
        let line = if self.walks { line.int("walks", 1) } else { line };
        let line = if self.colours.is_empty() { line } else { line.list("colours", &self.colours) };
        self.wakeup.onto(self.dma.onto(line))
    }

    pub(super) fn read(line: &Line) -> Result<Run, WireError> {
        let mut f = line.fields();
        let mut text = |key: &str| Ok::<_, WireError>(f.text(key)?.unwrap_or_default().to_owned());
        let (experiment, subject) = (text("experiment")?, text("subject")?);
        let (build, command) = (text("build")?, text("command")?);
        let run = Run {
            experiment,
            subject,
            seed: f.need_int("seed")?,
            budget_ms: f.need_int("budget_ms")?,
            build,
            command,
            bytes: f.list("bytes")?,
            strides: f.list("strides")?,
            operations: list("ops", f.text("ops")?, Operation::from_token, Operation::choices())?,
            first_touch: flag("first_touch", f.int("first_touch")?)?,
            prefetch: flag("prefetch", f.int("prefetch")?)?,
            replacement: flag("replacement", f.int("replacement")?)?,
            ladders: list(
                "ladders",
                f.text("ladders")?,
                Ladder::from_token,
                "order page placement prefetch",
            )?,
            attributes: list(
                "attributes",
                f.text("attributes")?,
                Attribute::from_token,
                Attribute::choices(),
            )?,
            rounds: f.int("rounds")?.unwrap_or(0),
            flush: flag("flush", f.int("flush")?)?,
            every_mair: flag("every_mair", f.int("every_mair")?)?,
            walks: flag("walks", f.int("walks")?)?,
            colours: colours(f.list("colours")?)?,
            dma: dma::options::Options::read(&mut f)?,
            wakeup: wakeup::options::Options::read(&mut f)?,
        };
        f.finish()?;
        Ok(run)
    }
}

/// Operations as they stand on a line and on a command line: `read,rmw`.
#[must_use]
pub fn words(operations: &[Operation]) -> String {
    operations.iter().map(|o| o.token()).collect::<Vec<_>>().join(",")
}

/// The same of ladders: `order,page`.
#[must_use]
pub fn ladder_words(ladders: &[Ladder]) -> String {
    ladders.iter().map(|l| l.token()).collect::<Vec<_>>().join(",")
}

/// The same of attributes: `normal-nc,device`.
#[must_use]
pub fn attribute_words(attributes: &[Attribute]) -> String {
    attributes.iter().map(|a| a.token()).collect::<Vec<_>>().join(",")
}

/// Numbers of page colours, of which there may be so many, each up to [`MOST_COLOURS`].
const MOST_NUMBERS: usize = 64;

/// Most page colours that may be asked for.
pub const MOST_COLOURS: u64 = 1024;

fn colours(all: Vec<u64>) -> Result<Vec<u64>, WireError> {
    if all.len() > MOST_NUMBERS {
        return Err(WireError::new(format!("run: colours has more than {MOST_NUMBERS} numbers")));
    }
    match all.iter().find(|k| !(1..=MOST_COLOURS).contains(*k)) {
        Some(k) => {
            Err(WireError::new(format!("run: colours has {k}, which is not from 1 to {MOST_COLOURS}")))
        }
        None => Ok(all),
    }
}

/// A key that is 1, or not there.
fn flag(key: &str, value: Option<u64>) -> Result<bool, WireError> {
    match value {
        None | Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(value) => Err(WireError::new(format!("run: {key}={value} must be from 0 to 1"))),
    }
}

/// Words separated by commas.
fn list<T>(
    key: &str,
    text: Option<&str>,
    from: fn(&str) -> Option<T>,
    choices: &str,
) -> Result<Vec<T>, WireError> {
    let words = text.unwrap_or_default().split(',').filter(|word| !word.is_empty());
    words
        .map(|word| {
            from(word).ok_or_else(|| {
                WireError::new(format!("run: {key} has '{word}', which is not one of: {choices}"))
            })
        })
        .collect()
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
