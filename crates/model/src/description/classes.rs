//! Classes of a description's values: where each one comes from.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use fathom_units::facts::{Study, ValueClass};
use toml::de::{DeTable, DeValue};

use super::source::{Result, Source, place_of};
use super::{DescriptionError, nearest};

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

impl fmt::Display for ValueKey {
    /// Writes the path of the value: `core.clock`; `level[2].latency` for the second table of that name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.table {
            "level" | "tlb" => write!(f, "{}[{}].{}", self.table, self.index + 1, self.key),
            table => write!(f, "{table}.{}", self.key),
        }
    }
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

/// Returns whether a key of a table is a value. Names, what a level holds, the table of the core's events, and what a
/// neighbour takes from, are structure.
pub(super) fn is_value(key: &str) -> bool {
    !matches!(
        key,
        "name" | "holds" | "events" | "levels" | "tlbs" | "sleep" | "irq" | "wake" | "switch" | "user"
    )
}

/// Formats the key of these classes.
pub(super) fn line(values: &[(&str, ValueClass)]) -> String {
    let list = |class: ValueClass| {
        let of_class = values.iter().filter(|(_, of)| *of == class);
        let keys: Vec<String> = of_class.map(|(key, _)| format!("\"{key}\"")).collect();
        (!keys.is_empty()).then(|| format!("[{}]", keys.join(", ")))
    };
    let one = |class: ValueClass| list(class).map(|list| format!("{} = {list}", class.word()));
    let of_study =
        |study: &Study| list(ValueClass::Study(*study)).map(|list| format!("{} = {list}", study.token()));
    let studies: Vec<String> = Study::ALL.iter().filter_map(of_study).collect();
    let studies = (!studies.is_empty()).then(|| format!("{STUDY} = {{ {} }}", studies.join(", ")));
    let before = [ValueClass::Manual, ValueClass::Measured].into_iter().filter_map(one);
    let lists: Vec<String> = before.chain(studies).chain(one(ValueClass::Assumed)).collect();
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

impl Within<'_> {
    /// Returns the error of a value of another type.
    pub(super) fn wrong(&self, value: &toml::Spanned<DeValue>, what: &str, help: &str) -> DescriptionError {
        self.source.fault(value.span(), format!("{what}, not {}", value.get_ref().type_str()), help)
    }
}

const EXAMPLE: &str = "for example: classes = { manual = [\"ways\"], assumed = [\"latency\"] }";
const STUDY_EXAMPLE: &str = "for example: study = { S3 = [\"clock\"] }";
/// The class whose value is a table: its keys are studies.
const STUDY: &str = "study";

/// Reads the classes of a table's values, if it gives them.
pub(super) fn read(t: &Within, classes: &mut Classes) -> Result<()> {
    let Some(value) = t.entries.get(KEY) else { return Ok(()) };
    let table = value.get_ref().as_table();
    let table = table.ok_or_else(|| t.wrong(value, "`classes` must be a table", EXAMPLE))?;
    for (word, list) in table.iter() {
        if word.get_ref() != STUDY {
            list_of_class(t, class(t.source, word)?, list, classes)?;
            continue;
        }
        let expected = "`study` must be a table that names the study";
        let studies = list.get_ref().as_table().ok_or_else(|| t.wrong(list, expected, STUDY_EXAMPLE))?;
        for (name, list) in studies.iter() {
            list_of_class(t, ValueClass::Study(study(t.source, name)?), list, classes)?;
        }
    }
    Ok(())
}

/// Reads the list of the keys of one class.
fn list_of_class(
    t: &Within,
    class: ValueClass,
    list: &toml::Spanned<DeValue>,
    classes: &mut Classes,
) -> Result<()> {
    let expected = "a class must be a list of quoted keys";
    let keys = list.get_ref().as_array().ok_or_else(|| t.wrong(list, expected, EXAMPLE))?;
    for key in keys.iter() {
        let word = key.get_ref().as_str().ok_or_else(|| t.wrong(key, expected, EXAMPLE))?;
        let value = ValueKey { table: t.name, index: t.index, key: value_key(t, KEY, word, key.span())? };
        if classes.set(value, class).is_some() {
            let message = format!("`{word}` is listed twice in `classes`");
            return Err(t.source.fault(key.span(), message, "list each key once, in one class"));
        }
    }
    Ok(())
}

/// Returns the class of this word; it is not that of studies.
pub(super) fn class(source: &Source, word: &toml::Spanned<Cow<str>>) -> Result<ValueClass> {
    let named = word.get_ref();
    let plain = ValueClass::ALL.iter().filter(|class| class.study().is_none());
    plain.clone().find(|class| class.word() == named.as_ref()).copied().ok_or_else(|| {
        let mut words: Vec<&str> = plain.map(|class| class.word()).collect();
        words.insert(words.len() - 1, STUDY);
        let help = match nearest(named, words.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("classes: {}; a key that is not listed is unclassified", words.join(", ")),
        };
        source.fault(word.span(), format!("unknown class `{named}`"), help)
    })
}

/// Returns the study of this name.
fn study(source: &Source, name: &toml::Spanned<Cow<str>>) -> Result<Study> {
    let named = name.get_ref();
    Study::from_token(named).ok_or_else(|| {
        let names: Vec<&str> = Study::ALL.iter().map(|study| study.token()).collect();
        let help = format!("studies: {}; {STUDY_EXAMPLE}", names.join(", "));
        source.fault(name.span(), format!("unknown study `{named}`"), help)
    })
}

/// Returns the key of a value that `list` (`classes`, `ranges`, `instead`) names. The table must have the value.
pub(super) fn value_key(t: &Within, list: &str, word: &str, span: Range<usize>) -> Result<&'static str> {
    let has = |key: &str| t.entries.get(key).is_some();
    match t.known.iter().find(|key| **key == word).copied() {
        Some(key) if !is_value(key) => {
            let message = format!("`{key}` is not a value and cannot be in `{list}`");
            Err(t.source.fault(span, message, format!("remove it from `{list}`")))
        }
        Some(key) if has(key) => Ok(key),
        _ => {
            let values = t.known.iter().copied().filter(|key| is_value(key) && has(key));
            let help = match nearest(word, values.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("values of this table: {}", values.collect::<Vec<_>>().join(", ")),
            };
            let message = format!("`{list}` lists `{word}`, which is not a key {}", place_of(t.name));
            Err(t.source.fault(span, message, help))
        }
    }
}
