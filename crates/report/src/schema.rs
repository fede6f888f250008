//! The one list of what findings are called, in which unit, and of every token in a name.
//!
//! Whatever is printed for people ([`schema_text`]) or for tools ([`schema_json`]) comes from it.

mod cacheability;
mod claims;
mod conflict;
mod dma;
mod document;
mod every;
mod latency;
mod pressure;
mod stride;
mod survey;
mod tokens;

pub(crate) use document::closed;
pub use document::{schema_json, schema_text};
use tokens::TOKENS;

/// The `format` of the document that `--json` prints.
pub const FORMAT: &str = "fathom.findings";

/// The `version` of that document. It grows only when an old reader would misread a new document;
/// a name more is not such a change.
pub const VERSION: u64 = 1;

/// One name that a finding may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// Dotted path; a part in capitals is a placeholder, explained by the [`TokenKind`] of that kind.
    pub pattern: &'static str,
    /// The units that the value may have; an empty one for a text or a pure number.
    pub units: &'static [&'static str],
    /// The kind of token that the value is; `None` where the value is a number.
    pub value: Option<&'static str>,
    /// What it says, in one line.
    pub about: &'static str,
    /// The `version` of the document that first had it.
    pub since: u64,
}

/// One kind of token, and every token of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenKind {
    /// The word in capitals that stands for it.
    pub kind: &'static str,
    /// Every token of the kind; empty where it is any whole number from 1, or made of other kinds as `about` says. An N
    /// at a token's end stands for such a number.
    pub values: &'static [&'static str],
    /// What it says, in one line.
    pub about: &'static str,
}

/// A warning's stable token and what it says in one line. The list is kept where warnings are made,
/// in a crate that does not know this one; so it is handed in, as plain text.
pub type WarningKind = (&'static str, &'static str);

const fn number(pattern: &'static str, units: &'static [&'static str], about: &'static str) -> NamePattern {
    NamePattern { pattern, units, value: None, about, since: 1 }
}

const fn word(pattern: &'static str, kind: &'static str, about: &'static str) -> NamePattern {
    NamePattern { pattern, units: &[""], value: Some(kind), about, since: 1 }
}

/// What a measurement says of a claim; the interval and its unit are the measurement's.
const fn verdict(pattern: &'static str, units: &'static [&'static str], about: &'static str) -> NamePattern {
    NamePattern { units, ..word(pattern, "VERDICT", about) }
}

/// The names by experiment, in display order.
const NAMES: [&[NamePattern]; 10] = [
    every::NAMES,
    latency::NAMES,
    stride::NAMES,
    cacheability::NAMES,
    dma::NAMES,
    survey::TIERS,
    conflict::NAMES,
    survey::TRANSLATION,
    pressure::NAMES,
    claims::NAMES,
];

/// Every name that a finding may have, in display order.
pub fn names() -> impl Iterator<Item = &'static NamePattern> {
    NAMES.into_iter().flatten()
}

/// Every kind of token. Warnings are a kind too, whose list is kept where warnings are made.
#[must_use]
pub fn tokens() -> &'static [TokenKind] {
    TOKENS
}

/// The tokens of one kind; none for a kind that is a whole number or does not exist.
#[must_use]
pub fn values(kind: &str) -> &'static [&'static str] {
    TOKENS.iter().find(|k| k.kind == kind).map_or(&[], |k| k.values)
}

/// Is `part` of a pattern a placeholder (in capitals) rather than a word?
fn is_placeholder(part: &str) -> bool {
    part.bytes().all(|b| b.is_ascii_uppercase())
}

/// A whole number from 1, written as [`u64`] prints it.
fn is_whole(part: &str) -> bool {
    part.parse::<u64>().is_ok_and(|n| n >= 1 && n.to_string() == part)
}

/// What comes before the number of a token that ends with one.
fn numbered(token: &str) -> Option<&str> {
    token.strip_suffix('N').filter(|word| !word.is_empty())
}

/// Which token of a kind `part` is, and its number; 0 where it has none.
pub(crate) fn token(kind: &str, part: &str) -> Option<(usize, u64)> {
    values(kind).iter().enumerate().find_map(|(nth, token)| match numbered(token) {
        None => (*token == part).then_some((nth, 0)),
        Some(word) => {
            let number = part.strip_prefix(word).filter(|number| is_whole(number))?;
            Some((nth, number.parse().ok()?))
        }
    })
}

/// The inverse of [`token`].
pub(crate) fn written(kind: &str, (nth, number): (usize, u64)) -> String {
    let token = values(kind).get(nth).copied().unwrap_or_default();
    numbered(token).map_or_else(|| token.to_owned(), |word| format!("{word}{number}"))
}

fn part_matches(pattern: &str, part: &str) -> bool {
    if !is_placeholder(pattern) {
        return pattern == part;
    }
    match values(pattern) {
        [] => is_whole(part),
        _ => token(pattern, part).is_some(),
    }
}

/// The pattern that `name` follows, if one does.
#[must_use]
pub fn matches(name: &str) -> Option<&'static NamePattern> {
    names().find(|n| {
        let (mut patterns, mut parts) = (n.pattern.split('.'), name.split('.'));
        loop {
            match (patterns.next(), parts.next()) {
                (None, None) => return true,
                (Some(pattern), Some(part)) if part_matches(pattern, part) => {}
                _ => return false,
            }
        }
    })
}

#[cfg(test)]
mod tests;
