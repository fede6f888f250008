//! What the DMA experiment was asked for, as it stands on the `run` line.

use std::ops::RangeInclusive;

use fathom_probe::machine::dma::{Direction, Engine, Maintenance, Mistake, Strategy, VICTIM};
use fathom_probe::wire::{Fields, Line, WireError};

/// Bits a second of a link: from a slow serial line to more than any.
pub const LINK: RangeInclusive<u64> = 1_000..=10_000_000_000_000;

/// The options of the experiment; sizes and substitute are [`crate::record::Run`]'s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Strategies; empty for all.
    pub strategies: Vec<Strategy>,
    /// Directions; empty for both.
    pub directions: Vec<Direction>,
    /// Rate of the link at which a CPU's load is told, bits a second; 0 for what the engine itself reached.
    pub link_bits: u64,
    /// What moves the data; none for what the machine has.
    pub engine: Option<Engine>,
    /// How a described kernel maintains buffers; none for its own way.
    pub maintenance: Option<Maintenance>,
    /// What a described driver does wrong.
    pub mistake: Option<Mistake>,
    /// Bytes of the victim's working set, 0 for none; none for the experiment's.
    pub victim: Option<u64>,
}

fn commas<T: Copy>(all: &[T], token: fn(T) -> &'static str) -> String {
    all.iter().map(|v| token(*v)).collect::<Vec<_>>().join(",")
}

impl Options {
    /// Key, option and value of everything that is a word, empty where nothing was asked.
    fn texts(&self) -> [(&'static str, &'static str, String); 5] {
        let one = |token: Option<&'static str>| token.unwrap_or_default().to_owned();
        [
            ("strategies", "strategy", commas(&self.strategies, Strategy::token)),
            ("directions", "direction", commas(&self.directions, Direction::token)),
            ("engine", "engine", one(self.engine.map(Engine::token))),
            ("maintenance", "maintenance", one(self.maintenance.map(Maintenance::token))),
            ("mistake", "mistake", one(self.mistake.map(Mistake::token))),
        ]
    }

    /// Adds the keys that say something.
    pub(crate) fn onto(&self, line: Line) -> Line {
        let said = self.texts().into_iter().filter(|(_, _, text)| !text.is_empty());
        let line = said.fold(line, |line, (key, _, text)| line.text(key, &text));
        let line = if self.link_bits > 0 { line.int("link_bits", self.link_bits) } else { line };
        self.victim.into_iter().fold(line, |line, victim| line.int("victim", victim))
    }

    /// Reads them.
    pub(crate) fn read(f: &mut Fields<'_>) -> Result<Options, WireError> {
        let within = |key: &str, value: Option<u64>, range: RangeInclusive<u64>| match value {
            Some(value) if value > 0 && !range.contains(&value) => Err(WireError::new(format!(
                "run: {key}={value} must be 0 or from {} to {}",
                range.start(),
                range.end()
            ))),
            value => Ok(value),
        };
        Ok(Options {
            strategies: words(
                "strategies",
                f.text("strategies")?,
                Strategy::from_token,
                Strategy::choices(),
            )?,
            directions: words(
                "directions",
                f.text("directions")?,
                Direction::from_token,
                Direction::choices(),
            )?,
            engine: word("engine", f.text("engine")?, Engine::from_token, Engine::choices())?,
            maintenance: word(
                "maintenance",
                f.text("maintenance")?,
                Maintenance::from_token,
                Maintenance::choices(),
            )?,
            mistake: word("mistake", f.text("mistake")?, Mistake::from_token, Mistake::choices())?,
            link_bits: within("link_bits", f.int("link_bits")?, LINK)?.unwrap_or(0),
            victim: within("victim", f.int("victim")?, VICTIM)?,
        })
    }

    /// The options as they would be typed.
    #[must_use]
    pub fn words(&self) -> String {
        let said = self.texts().into_iter().filter(|(_, _, text)| !text.is_empty());
        let mut words: String = said.map(|(_, option, text)| format!(" --{option} {text}")).collect();
        if self.link_bits > 0 {
            words += &format!(" --link {}bit", self.link_bits);
        }
        self.victim.into_iter().fold(words, |words, victim| words + &format!(" --victim {victim}"))
    }
}

/// Words with commas, each at most once in the list of all.
fn words<T: PartialEq>(
    key: &str,
    text: Option<&str>,
    from: fn(&str) -> Option<T>,
    choices: &str,
) -> Result<Vec<T>, WireError> {
    let mut all = Vec::new();
    for one in text.unwrap_or_default().split(',').filter(|word| !word.is_empty()) {
        let value = from(one).ok_or_else(|| {
            WireError::new(format!("run: {key} has '{one}', which is not one of: {choices}"))
        })?;
        if !all.contains(&value) {
            all.push(value);
        }
    }
    Ok(all)
}

fn word<T: PartialEq>(
    key: &str,
    text: Option<&str>,
    from: fn(&str) -> Option<T>,
    choices: &str,
) -> Result<Option<T>, WireError> {
    Ok(words(key, text, from, choices)?.pop())
}
