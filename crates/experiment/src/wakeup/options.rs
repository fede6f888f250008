//! What the wake-up experiment was asked for, as it stands on the `run` line.

use fathom_probe::load::{BlockMode, Load};
use fathom_probe::wire::{Fields, Line, WireError};

use super::conditions;

/// What becomes of a block, at most.
const MOST: usize = 16;

/// The options of the experiment; those of every experiment stand beside them in [`crate::record::Run`], whose `bytes`
/// and `steps` are the sweep's sizes and strides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Words of [`conditions::NAMED`]; empty where the experiment chooses.
    pub conditions: Vec<String>,
    /// Loads that have no word.
    pub loads: Vec<Load>,
    /// Is memory allocated as `stress` does it, in the study's load and in the sweep?
    pub like_stress: bool,
    /// Sizes by strides by what becomes of a block, in place of conditions.
    pub sweep: bool,
    /// What becomes of a block in the sweep; empty for all that the study had.
    pub modes: Vec<BlockMode>,
    /// Period, ns; 0 for the experiment's.
    pub every_ns: u64,
    /// Priority; none for the experiment's, 0 for an ordinary task.
    pub priority: Option<u64>,
    /// Are the earlier places left alone?
    pub untraced: bool,
}

/// Words with commas.
fn commas<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl Options {
    /// Adds the keys that say something.
    pub(crate) fn onto(&self, mut line: Line) -> Line {
        let loads: Vec<String> = self.loads.iter().map(ToString::to_string).collect();
        for (key, text) in [
            ("conditions", commas(&self.conditions)),
            ("loads", loads.join("; ")),
            ("modes", commas(&self.modes)),
        ] {
            line = if text.is_empty() { line } else { line.text(key, &text) };
        }
        for (key, flag) in
            [("like_stress", self.like_stress), ("sweep", self.sweep), ("untraced", self.untraced)]
        {
            line = if flag { line.int(key, 1) } else { line };
        }
        line = if self.every_ns > 0 { line.int("every_ns", self.every_ns) } else { line };
        self.priority.into_iter().fold(line, |line, priority| line.int("priority", priority))
    }

    /// Reads them.
    pub(crate) fn read(f: &mut Fields<'_>) -> Result<Options, WireError> {
        let wrong = |key: &str, what: &str| WireError::new(format!("run: {key} has {what}"));
        let conditions: Vec<String> = words(f.text("conditions")?, ',').map(str::to_owned).collect();
        if let Some(word) = conditions.iter().find(|word| conditions::named(word).is_none()) {
            return Err(wrong("conditions", &format!("'{word}'; there are: {}", conditions::choices())));
        }
        let loads: Vec<Load> = words(f.text("loads")?, ';')
            .map(Load::parse)
            .collect::<Result<_, _>>()
            .map_err(|what| wrong("loads", &what))?;
        let modes = words(f.text("modes")?, ',').map(|word| {
            BlockMode::parse(word)
                .ok_or_else(|| wrong("modes", &format!("'{word}'; it is free, keep or hangN")))
        });
        let modes: Vec<BlockMode> = modes.collect::<Result<_, _>>()?;
        for (key, count, most) in [
            ("conditions", conditions.len(), conditions::NAMED.len()),
            ("loads", loads.len(), conditions::LOADS),
            ("modes", modes.len(), MOST),
        ] {
            if count > most {
                return Err(wrong(key, &format!("{count} of them, and {most} is the most")));
            }
        }
        let mut flag = |key: &str| match f.int(key)? {
            None | Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(value) => Err(WireError::new(format!("run: {key}={value} must be from 0 to 1"))),
        };
        let (like_stress, sweep, untraced) = (flag("like_stress")?, flag("sweep")?, flag("untraced")?);
        let every_ns = f.int("every_ns")?.unwrap_or(0);
        let priority = f.int("priority")?;
        Ok(Options { conditions, loads, like_stress, sweep, modes, every_ns, priority, untraced })
    }

    /// The options as they would be typed.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = String::new();
        for (option, text) in [("conditions", commas(&self.conditions)), ("modes", commas(&self.modes))] {
            if !text.is_empty() {
                words += &format!(" --{option} {text}");
            }
        }
        for load in &self.loads {
            words += &format!(" --load '{load}'");
        }
        for (option, given) in
            [("like-stress", self.like_stress), ("sweep", self.sweep), ("no-trace", self.untraced)]
        {
            words += &if given { format!(" --{option}") } else { String::new() };
        }
        if self.every_ns > 0 {
            words += &format!(" --period {}us", self.every_ns / 1000);
        }
        self.priority.into_iter().fold(words, |words, priority| words + &format!(" --priority {priority}"))
    }
}

fn words(text: Option<&str>, between: char) -> impl Iterator<Item = &str> {
    text.unwrap_or_default().split(between).map(str::trim).filter(|word| !word.is_empty())
}
