//! Values of an option, as stored on the `run` line.

use fathom_probe::wire::{Line, Value, WireError};

/// All values of one option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// Numbers, in the option's unit: `bytes=8192,65536`.
    Numbers(Vec<u64>),
    /// Text: one word, or several words separated by the option's separator.
    Text(String),
}

impl Given {
    /// Reads the value of a key.
    pub(super) fn of_value(key: &str, value: &Value) -> Result<Given, WireError> {
        let wrong = |expected: &str| WireError::new(format!("run: '{key}' must be {expected}"));
        let number = |v: &i128| u64::try_from(*v).map_err(|_| wrong("numbers from 0 to 2^64-1"));
        Ok(match value {
            Value::Int(v) => Given::Numbers(vec![number(v)?]),
            Value::List(items) => Given::Numbers(items.iter().map(number).collect::<Result<_, _>>()?),
            Value::Text(text) | Value::Token(text) => Given::Text(text.clone()),
            Value::Hex(_) => return Err(wrong("numbers or text")),
        })
    }

    /// Appends the values to a line.
    pub(super) fn onto(&self, line: Line, key: &str) -> Line {
        match self {
            Given::Numbers(numbers) => line.list(key, numbers),
            Given::Text(text) => line.text(key, text),
        }
    }

    /// Returns the values as text: numbers in decimal, text split at `separator`.
    pub(super) fn items(&self, separator: char) -> Vec<String> {
        match self {
            Given::Numbers(numbers) => numbers.iter().map(u64::to_string).collect(),
            Given::Text(text) => text
                .split(separator)
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }
}
