//! Options of experiments, each declared once as an [`Opt`].
//!
//! One declaration provides the command-line argument with its help, the key and values on the record's `run` line, the
//! command that reproduces a record, and the comparison of the options of two records.

mod given;
pub(crate) mod substitute;
mod values;

use fathom_probe::wire::{Line, Value, WireError};

pub use given::Given;
pub use values::{LIST, Many, Values, Word, number, size, tokens};
pub(crate) use values::{number_and_unit, within, working_set};

/// One option of an experiment.
#[derive(Debug)]
pub struct Opt {
    /// The name on the command line, without its dashes: `first-touch`.
    pub name: &'static str,
    /// Placeholder of the value in help: `SIZES`. Empty for a switch.
    pub value: &'static str,
    /// Help: sentences, without the default and without the last full stop.
    pub help: &'static str,
    /// Meaning of an absent option, as shown in help, or the default value; may be empty.
    pub default: &'static str,
    /// Number of values.
    pub many: Many,
    /// Kind of values.
    pub values: Values,
    /// Name of an option that this one requires.
    pub requires: Option<&'static str>,
}

impl Opt {
    /// Returns a switch.
    #[must_use]
    pub const fn switch(name: &'static str, help: &'static str) -> Opt {
        Opt { name, value: "", help, default: "", many: Many::One, values: Values::Switch, requires: None }
    }

    /// Returns the key on the `run` line: `first_touch`.
    #[must_use]
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns the help text with the default.
    #[must_use]
    pub fn help(&self) -> String {
        if self.default.is_empty() {
            return self.help.to_owned();
        }
        format!("{}. Default: {}", self.help, self.default)
    }

    /// Returns the values as stored on the `run` line, from values as typed.
    ///
    /// # Errors
    /// The values that the option takes.
    pub fn give<S: AsRef<str>>(&self, typed: &[S]) -> Result<Given, String> {
        let items: Vec<String> =
            typed.iter().map(|text| self.values.read(text.as_ref())).collect::<Result<_, _>>()?;
        let max = self.many.max();
        if items.len() > max {
            return Err(format!("has {} values; at most {max} may be given", items.len()));
        }
        if matches!(self.values, Values::Number { .. }) {
            let numbers = items.iter().filter_map(|item| item.parse().ok()).collect();
            return Ok(Given::Numbers(numbers));
        }
        let separator = if self.many.separator() == ';' { "; " } else { "," };
        Ok(Given::Text(items.join(separator)))
    }

    /// Checks the values of a record, and returns them as parsed from the command line.
    ///
    /// # Errors
    /// The wrong value, and the values that the option takes.
    pub fn check(&self, given: &Given) -> Result<Given, String> {
        match (&self.values, given) {
            (Values::Number { .. }, Given::Text(text)) => return Err(format!("'{text}' is not a number")),
            (Values::Number { check, .. }, Given::Numbers(numbers)) => {
                for number in numbers {
                    check(*number).map_err(|why| format!("{number} {why}"))?;
                }
            }
            _ => {}
        }
        let items = given.items(self.many.separator());
        if items.is_empty() { Err("it has no value".to_owned()) } else { self.give(&items) }
    }
}

/// Options of a run with their values, in the order of the `run` line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    given: Vec<(String, Given)>,
}

impl Asked {
    /// Returns an empty list.
    pub(crate) const fn nothing() -> Asked {
        Asked { given: Vec::new() }
    }

    /// Adds an option with its values as typed. Without values the option is absent.
    ///
    /// # Errors
    /// The option, the wrong value, and the values that the option takes.
    pub fn with<S: AsRef<str>>(mut self, option: &Opt, typed: &[S]) -> Result<Asked, String> {
        if !typed.is_empty() {
            let given = option.give(typed).map_err(|why| format!("--{}: {why}", option.name))?;
            self.given.push((option.key(), given));
        }
        Ok(self)
    }

    /// Turns a switch on.
    #[must_use]
    pub fn switched_on(mut self, option: &Opt) -> Asked {
        self.given.push((option.key(), Given::Text(values::SWITCHED_ON.to_owned())));
        self
    }

    /// Reads the pairs of a `run` line of any experiment. Does not check them.
    pub(crate) fn of_pairs(pairs: &[(&str, &Value)]) -> Result<Asked, WireError> {
        let given = pairs.iter().map(|(key, value)| Ok(((*key).to_owned(), Given::of_value(key, value)?)));
        Ok(Asked { given: given.collect::<Result<_, WireError>>()? })
    }

    /// Adds the pairs to a `run` line.
    pub(crate) fn onto(&self, line: Line) -> Line {
        self.given.iter().fold(line, |line, (key, given)| given.onto(line, key))
    }

    /// Checks keys and values against the options of an experiment.
    ///
    /// # Errors
    /// The key, the wrong value, and the allowed values.
    pub fn check(&self, options: &[&Opt]) -> Result<(), String> {
        for (key, given) in &self.given {
            let Some(option) = options.iter().find(|option| option.key() == *key) else {
                let keys: Vec<String> = options.iter().map(|option| option.key()).collect();
                return Err(format!("unknown key {key}; its options are: {}", keys.join(" ")));
            };
            option.check(given).map_err(|why| format!("{key}: {why}"))?;
        }
        Ok(())
    }

    /// Returns the values of an option, if given and valid. A plan may see a record that was not checked, so an invalid
    /// value counts as absent.
    fn given(&self, option: &Opt) -> Option<Given> {
        let key = option.key();
        let (_, given) = self.given.iter().find(|(k, _)| *k == key)?;
        option.check(given).ok()
    }

    /// Returns whether the option was given.
    #[must_use]
    pub fn has(&self, option: &Opt) -> bool {
        self.given(option).is_some()
    }

    /// Returns the numbers of an option in its unit; empty if absent.
    #[must_use]
    pub fn numbers(&self, option: &Opt) -> Vec<u64> {
        match self.given(option) {
            Some(Given::Numbers(numbers)) => numbers,
            _ => Vec::new(),
        }
    }

    /// Returns the number of an option, if given.
    #[must_use]
    pub fn number(&self, option: &Opt) -> Option<u64> {
        self.numbers(option).pop()
    }

    /// Returns the values of an option, each converted by `of`.
    #[must_use]
    pub fn values<T>(&self, option: &Opt, of: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let items = self.given(option).map_or(Vec::new(), |given| given.items(option.many.separator()));
        items.iter().filter_map(|item| of(item)).collect()
    }

    /// Returns the value of an option, converted by `of`, if given.
    #[must_use]
    pub fn value<T>(&self, option: &Opt, of: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.values(option, of).pop()
    }

    /// Returns the options as typed, each after a blank: ` --bytes 8192,65536 --prefetch`.
    #[must_use]
    pub fn command(&self, options: &[&Opt]) -> String {
        let mut words = String::new();
        for option in options {
            let Some(given) = self.given(option) else { continue };
            let items = given.items(option.many.separator());
            let values = match (option.values, option.many) {
                (Values::Switch, _) => {
                    words += &format!(" --{}", option.name);
                    continue;
                }
                (_, Many::Repeated(_)) => items,
                _ => vec![items.join(",")],
            };
            for value in values {
                words += &format!(" --{} {}", option.name, quoted(&value));
            }
        }
        words
    }

    /// Returns the values of an option as text for messages.
    fn shown(&self, option: &Opt) -> String {
        match self.given(option) {
            Some(given) => given.items(option.many.separator()).join(", "),
            None if option.default.is_empty() => "not given".to_owned(),
            None => option.default.to_owned(),
        }
    }

    /// Returns the values of an option, or its default if that is a value.
    fn effective(&self, option: &Opt) -> Option<Given> {
        let default = || option.default.split(',').map(str::trim).collect::<Vec<_>>();
        self.given(option).or_else(|| option.give(&default()).ok())
    }
}

/// Returns a value quoted for a shell.
fn quoted(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+:,".contains(&b);
    if value.bytes().all(plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

/// Returns the options that differ between two runs of one experiment, one sentence per option.
#[must_use]
pub fn differences(options: &[&Opt], a: &Asked, b: &Asked) -> Vec<String> {
    let differ = options.iter().filter(|option| a.effective(option) != b.effective(option));
    differ
        .map(|option| format!("--{}: {} against {}", option.name, a.shown(option), b.shown(option)))
        .collect()
}

#[cfg(test)]
mod tests;
