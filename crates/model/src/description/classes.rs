//! Classes of a description's values: where each one comes from.

use std::collections::BTreeMap;
use std::ops::Range;

use fathom_units::facts::ValueClass;
use toml::de::{DeTable, DeValue};

use super::nearest;
use super::source::{Result, Source, place_of};

/// The key of a table that gives the classes of the others.
pub(super) const KEY: &str = "classes";

/// One value of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueKey {
    /// The table: `core`, `level`, `wakeup.irq`.
    pub table: &'static str,
    /// Index among the tables of that name, from 0.
    pub index: usize,
    /// The key in it.
    pub key: &'static str,
}

/// Classes of a description's values. A value without a class is unclassified.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes(BTreeMap<ValueKey, ValueClass>);

impl Classes {
    /// Returns the class of a value; `None` if it is unclassified.
    #[must_use]
    pub fn of(&self, value: ValueKey) -> Option<ValueClass> {
        self.0.get(&value).copied()
    }

    /// Sets the class of a value, and returns the one that it had.
    pub fn set(&mut self, value: ValueKey, class: ValueClass) -> Option<ValueClass> {
        self.0.insert(value, class)
    }
}

/// Returns whether a key of a table is a value. Names, what a level holds, and what a neighbour takes from,
/// are structure.
pub(super) fn is_value(key: &str) -> bool {
    !matches!(key, "name" | "holds" | "levels" | "tlbs" | "sleep" | "irq" | "wake" | "switch" | "user" | KEY)
}

/// Formats the key of these classes.
pub(super) fn line(values: &[(&str, ValueClass)]) -> String {
    let list = |class: &ValueClass| {
        let of_class = values.iter().filter(|(_, of)| of == class);
        let keys: Vec<String> = of_class.map(|(key, _)| format!("\"{key}\"")).collect();
        (!keys.is_empty()).then(|| format!("{} = [{}]", class.token(), keys.join(", ")))
    };
    let lists: Vec<String> = ValueClass::ALL.iter().filter_map(list).collect();
    format!("{KEY} = {{ {} }}", lists.join(", "))
}

/// The table whose classes are read.
pub(super) struct Within<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) name: &'static str,
    pub(super) index: usize,
    pub(super) entries: &'a DeTable<'a>,
    pub(super) known: &'static [&'static str],
}

const EXAMPLE: &str = "for example: classes = { manual = [\"ways\"], assumed = [\"latency\"] }";

/// Reads the classes of a table's values, if it gives them.
pub(super) fn read(t: &Within, classes: &mut Classes) -> Result<()> {
    let Some(value) = t.entries.get(KEY) else { return Ok(()) };
    let wrong = |value: &toml::Spanned<DeValue>, what: &str| {
        let message = format!("{what}, not {}", value.get_ref().type_str());
        t.source.fault(value.span(), message, EXAMPLE)
    };
    let table = value.get_ref().as_table();
    for (token, list) in table.ok_or_else(|| wrong(value, "`classes` must be a table"))?.iter() {
        let word = token.get_ref();
        let class = ValueClass::from_token(word).ok_or_else(|| unknown(t.source, word, token.span()))?;
        let expected = "a class must be a list of quoted keys";
        let keys = list.get_ref().as_array().ok_or_else(|| wrong(list, expected))?;
        for key in keys.iter() {
            let word = key.get_ref().as_str().ok_or_else(|| wrong(key, expected))?;
            let value = ValueKey { table: t.name, index: t.index, key: value_key(t, word, key.span())? };
            if classes.set(value, class).is_some() {
                let message = format!("`{word}` is listed twice in `classes`");
                return Err(t.source.fault(key.span(), message, "list each key once, in one class"));
            }
        }
    }
    Ok(())
}

fn unknown(source: &Source, word: &str, span: Range<usize>) -> super::DescriptionError {
    let tokens = ValueClass::ALL.iter().map(|class| class.token());
    let help = match nearest(word, tokens.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "classes: {}; a key that is not listed is unclassified",
            tokens.collect::<Vec<_>>().join(", ")
        ),
    };
    source.fault(span, format!("unknown class `{word}`"), help)
}

/// Returns the key of a classified value, which the table must have.
fn value_key(t: &Within, word: &str, span: Range<usize>) -> Result<&'static str> {
    let has = |key: &str| t.entries.get(key).is_some();
    match t.known.iter().find(|key| **key == word).copied() {
        Some(key) if !is_value(key) => {
            let message = format!("`{key}` is not a value and has no class");
            Err(t.source.fault(span, message, "remove it from `classes`"))
        }
        Some(key) if has(key) => Ok(key),
        _ => {
            let values = t.known.iter().copied().filter(|key| is_value(key) && has(key));
            let help = match nearest(word, values.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("values of this table: {}", values.collect::<Vec<_>>().join(", ")),
            };
            let message = format!("`classes` lists `{word}`, which is not a key {}", place_of(t.name));
            Err(t.source.fault(span, message, help))
        }
    }
}
