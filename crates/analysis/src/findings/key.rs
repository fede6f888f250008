//! The key of a finding: metric and coordinates; and the name derived from them.

use std::borrow::Cow;

use super::axis::Axis;
use super::metric::Metric;
use super::tokens::whole;

/// A coordinate along an axis. Tokens are ordered like their list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coordinate {
    /// A whole number from 1.
    Number(u64),
    /// A token: its position in the list of the axis and, if it ends with a number, the number.
    Word(usize, u64),
    /// A text from outside (a task, a function), or a token that the axis does not list.
    Text(String),
}

impl Coordinate {
    /// Parses a part of a name.
    fn read(axis: Axis, part: &str) -> Option<Coordinate> {
        match axis.tokens() {
            None => whole(part).map(Coordinate::Number),
            Some(words) => words.find(part).map(|(place, number)| Coordinate::Word(place, number)),
        }
    }

    /// Returns the part of a name.
    #[must_use]
    pub fn write(&self, axis: Axis) -> String {
        match self {
            Coordinate::Number(number) => number.to_string(),
            Coordinate::Word(place, number) => {
                axis.tokens().map_or_else(String::new, |words| words.write(*place, *number))
            }
            Coordinate::Text(text) => escaped(text).into_owned(),
        }
    }
}

/// Returns a text as one part of a name: characters that would end the part or a line are written as `%XX`.
fn escaped(text: &str) -> Cow<'_, str> {
    let plain = |c: char| !(c == '.' || c == '%' || c.is_control() || c.is_whitespace());
    if text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for c in text.chars() {
        if plain(c) {
            out.push(c);
        } else {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| out += &format!("%{byte:02x}"));
        }
    }
    Cow::Owned(out)
}

/// Input of a coordinate: a whole number, or a token that the axis lists.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// A whole number.
    Number(u64),
    /// A token.
    Word(&'a str),
}

impl From<u64> for Part<'_> {
    fn from(number: u64) -> Self {
        Part::Number(number)
    }
}

impl From<usize> for Part<'_> {
    fn from(number: usize) -> Self {
        Part::Number(number as u64)
    }
}

impl<'a> From<&'a str> for Part<'a> {
    fn from(word: &'a str) -> Self {
        Part::Word(word)
    }
}

impl<'a> From<&'a String> for Part<'a> {
    fn from(word: &'a String) -> Self {
        Part::Word(word)
    }
}

/// A metric with coordinates along its axes: unique in a report, and the key by which comparisons join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The metric.
    pub metric: &'static Metric,
    /// Axis and coordinate, in the order of the name.
    pub at: Vec<(Axis, Coordinate)>,
}

impl From<&'static Metric> for Key {
    /// Returns the key of a metric without axes.
    fn from(metric: &'static Metric) -> Key {
        Key { metric, at: Vec::new() }
    }
}

impl Metric {
    /// Returns the key of this metric at these coordinates, in the order of its axes. Excess coordinates are ignored.
    pub fn at<'a, const N: usize>(&'static self, parts: [Part<'a>; N]) -> Key {
        debug_assert_eq!(self.axes().count(), N, "{}", self.pattern);
        let at = self.axes().zip(parts).map(|(axis, part)| {
            let coordinate = match part {
                Part::Number(number) => Coordinate::Number(number),
                Part::Word(word) => {
                    Coordinate::read(axis, word).unwrap_or_else(|| Coordinate::Text(word.to_owned()))
                }
            };
            (axis, coordinate)
        });
        Key { metric: self, at: at.collect() }
    }

    /// Returns the key of a name of this metric: the inverse of [`Key::name`].
    #[must_use]
    pub fn key(&'static self, name: &str) -> Option<Key> {
        let mut at = Vec::new();
        let (mut patterns, mut parts) = (self.parts(), name.split('.'));
        loop {
            match (patterns.next(), parts.next()) {
                (None, None) => return Some(Key { metric: self, at }),
                (Some(Ok(word)), Some(part)) if word == part => {}
                (Some(Err(axis)), Some(part)) => at.push((axis, Coordinate::read(axis, part)?)),
                _ => return None,
            }
        }
    }
}

impl Key {
    /// Returns the coordinate along an axis.
    #[must_use]
    pub fn get(&self, axis: Axis) -> Option<&Coordinate> {
        self.at.iter().find(|(of, _)| *of == axis).map(|(_, coordinate)| coordinate)
    }

    /// Returns the coordinate along an axis, if it is a number.
    #[must_use]
    pub fn number(&self, axis: Axis) -> Option<u64> {
        match self.get(axis) {
            Some(Coordinate::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns the coordinate along an axis as text.
    #[must_use]
    pub fn word(&self, axis: Axis) -> Option<String> {
        Some(self.get(axis)?.write(axis))
    }

    /// Returns the dotted name: `tier.1.latency`.
    #[must_use]
    pub fn name(&self) -> String {
        let parts = self.metric.parts().map(|part| match part {
            Ok(word) => word.to_owned(),
            Err(axis) => self.word(axis).unwrap_or_default(),
        });
        parts.collect::<Vec<_>>().join(".")
    }
}

/// All metrics, by experiment.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    lists: &'static [&'static [&'static Metric]],
}

impl Registry {
    /// Creates a registry of these lists.
    #[must_use]
    pub const fn new(lists: &'static [&'static [&'static Metric]]) -> Registry {
        Registry { lists }
    }

    /// Returns all metrics, in display order.
    pub fn metrics(self) -> impl Iterator<Item = &'static Metric> {
        self.lists.iter().flat_map(|list| list.iter().copied())
    }

    /// Returns the metric with this pattern.
    #[must_use]
    pub fn metric(self, pattern: &str) -> Option<&'static Metric> {
        self.metrics().find(|metric| metric.pattern == pattern)
    }

    /// The inverse of [`Key::name`].
    #[must_use]
    pub fn key(self, name: &str) -> Option<Key> {
        self.metrics().find_map(|metric| metric.key(name))
    }
}
