//! Reads and applies the other values that a description gives for its own.

use std::collections::BTreeMap;
use std::ops::Range;

use fathom_units::facts::{Study, ValueClass};
use toml::de::DeValue;

use super::classes::{self, ValueKey, Within};
use super::other_values::{Alternatives, INSTEAD, RANGES};
use super::show::{self, Quoted};
use super::source::{Result, Source};
use super::{Description, DescriptionError, ranges};

/// The plausible range of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variation {
    /// The value.
    pub key: ValueKey,
    /// Its class.
    pub class: ValueClass,
    /// The value as it is, written as in a file.
    pub here: String,
    /// The ends, written as in a file.
    pub ends: [String; 2],
}

impl Description {
    /// Returns the plausible range of each assumed value and of each value of a study, in the order of the file: the
    /// range that the description gives, or a default one. A value for which there is neither is left out.
    #[must_use]
    pub fn variations(&self) -> Vec<Variation> {
        let varied = |(key, class): (ValueKey, Option<ValueClass>)| {
            let class = class.filter(|class| *class == ValueClass::Assumed || class.study().is_some())?;
            let here = show::literal(self, key)?;
            let given = self.alternatives.ranges.get(&key).cloned();
            let ends = given.or_else(|| ranges::default(key.key, &here))?;
            Some(Variation { key, class, here, ends })
        };
        self.values().into_iter().filter_map(varied).collect()
    }

    /// Returns the description with other values, each written as in a file.
    ///
    /// # Errors
    /// As [`Description::parse`], if this is not a possible machine.
    pub fn with(&self, values: &BTreeMap<ValueKey, String>) -> Result<Description> {
        let text = show::text_with(self, values);
        let mut other = Description::parse(&self.name, &text)?;
        other.alternatives = self.alternatives.clone();
        other.alternatives.ranges.retain(|key, _| !values.contains_key(key));
        other.alternatives.instead.retain(|key, _| !values.contains_key(key));
        Ok(other)
    }

    /// Returns the description without a study: each of the study's values is replaced by the one that the description
    /// gives instead, with that one's class.
    ///
    /// # Errors
    /// The values for which it gives none; or as [`Description::parse`].
    pub fn without(&self, study: Study) -> std::result::Result<Description, WithoutStudy> {
        let of_study = |(_, class): &(ValueKey, Option<ValueClass>)| *class == Some(ValueClass::Study(study));
        let keys: Vec<ValueKey> = self.values().into_iter().filter(of_study).map(|(key, _)| key).collect();
        let missing = keys.iter().filter(|key| !self.alternatives.instead.contains_key(key));
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        if !missing.is_empty() {
            return Err(WithoutStudy::Missing(missing));
        }
        let of = |key: &ValueKey| Some((*key, self.alternatives.instead.get(key)?.1.clone()));
        let values = keys.iter().filter_map(of).collect();
        let mut other = self.with(&values).map_err(|e| WithoutStudy::Impossible(Box::new(e)))?;
        for key in keys {
            if let Some((class, _)) = self.alternatives.instead.get(&key) {
                other.classes.set(key, *class);
            }
        }
        Ok(other)
    }
}

/// Why a description cannot do without a study's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WithoutStudy {
    /// The description gives no other value for these.
    Missing(Vec<String>),
    /// With the other values it is not a possible machine.
    Impossible(Box<DescriptionError>),
}

/// The alternatives of a file, and their places.
#[derive(Default)]
pub(super) struct Read {
    pub(super) alternatives: Alternatives,
    ranges: Vec<(ValueKey, Range<usize>)>,
    instead: Vec<(ValueKey, Range<usize>)>,
}

const RANGE_EXAMPLE: &str = "for example: ranges = { latency = [\"10 cycles\", \"40 cycles\"] }";
const INSTEAD_EXAMPLE: &str = "for example: instead = { manual = { clock = \"1.5 GHz\" } }";

/// Reads the alternatives of a table's values, if it gives any.
pub(super) fn read(t: &Within, read: &mut Read) -> Result<()> {
    if let Some(value) = t.entries.get(RANGES) {
        let table = value.get_ref().as_table();
        let table = table.ok_or_else(|| t.wrong(value, "`ranges` must be a table", RANGE_EXAMPLE))?;
        for (word, list) in table.iter() {
            let key = value_of(t, RANGES, word.get_ref(), word.span())?;
            let wrong = || t.wrong(list, "a range must be a list of two values", RANGE_EXAMPLE);
            let ends = list.get_ref().as_array().ok_or_else(wrong)?;
            let ends: Vec<String> = ends.iter().filter_map(|end| literal(end.get_ref())).collect();
            let ends: [String; 2] = ends.try_into().map_err(|_| wrong())?;
            read.alternatives.ranges.insert(key, ends);
            read.ranges.push((key, list.span()));
        }
    }
    let Some(value) = t.entries.get(INSTEAD) else { return Ok(()) };
    let table = value.get_ref().as_table();
    let table = table.ok_or_else(|| t.wrong(value, "`instead` must be a table", INSTEAD_EXAMPLE))?;
    for (word, values) in table.iter() {
        let class = classes::class(t.source, word)?;
        let expected = "a class of `instead` must be a table of values";
        let values = values.get_ref().as_table().ok_or_else(|| t.wrong(values, expected, INSTEAD_EXAMPLE))?;
        for (word, other) in values.iter() {
            let key = value_of(t, INSTEAD, word.get_ref(), word.span())?;
            let wrong =
                || t.wrong(other, "a value is a text, an integer, true, false or a list of texts", "");
            let text = literal(other.get_ref()).ok_or_else(wrong)?;
            if read.alternatives.instead.insert(key, (class, text)).is_some() {
                let message = format!("`{}` is listed twice in `instead`", key.key);
                return Err(t.source.fault(word.span(), message, "list each key once, in one class"));
            }
            read.instead.push((key, word.span()));
        }
    }
    Ok(())
}

fn value_of(t: &Within, list: &str, word: &str, span: Range<usize>) -> Result<ValueKey> {
    Ok(ValueKey { table: t.name, index: t.index, key: classes::value_key(t, list, word, span)? })
}

/// Checks that each alternative is a possible value of the description.
pub(super) fn check(source: &Source, d: &Description, read: &Read) -> Result<()> {
    for (key, span) in &read.ranges {
        let ends = &d.alternatives.ranges[key];
        if ends[0] == ends[1] {
            let message = format!("the range of `{}` has equal ends", key.key);
            return Err(source.fault(span.clone(), message, RANGE_EXAMPLE));
        }
        for end in ends {
            d.with(&BTreeMap::from([(*key, end.clone())])).map_err(|e| {
                let message = format!("`{}` = {end} is not possible: {}", key.key, e.message);
                source.fault(span.clone(), message, e.help)
            })?;
        }
    }
    for (key, span) in &read.instead {
        if d.classes.of(*key).and_then(ValueClass::study).is_none() {
            let message = format!("`instead` gives `{}`, which is not a value of a study", key.key);
            let help = "remove it, or list the key in `classes`: study = { S3 = [...] }";
            return Err(source.fault(span.clone(), message, help));
        }
    }
    for &study in Study::ALL {
        let of_study =
            |(key, _): &&(ValueKey, Range<usize>)| d.classes.of(*key) == Some(ValueClass::Study(study));
        if let Some((_, span)) = read.instead.iter().find(of_study)
            && let Err(WithoutStudy::Impossible(e)) = d.without(study)
        {
            let message = format!("without study {} it is not possible: {}", study.token(), e.message);
            return Err(source.fault(span.clone(), message, e.help));
        }
    }
    Ok(())
}

/// Returns a value as it is written in a file.
fn literal(value: &DeValue) -> Option<String> {
    match value {
        DeValue::String(text) => Some(Quoted(text).to_string()),
        DeValue::Integer(integer) => {
            u64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|number| number.to_string())
        }
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Array(list) => {
            let all: Option<Vec<String>> = list.iter().map(|one| literal(one.get_ref())).collect();
            all.map(|all| format!("[{}]", all.join(", ")))
        }
        _ => None,
    }
}
