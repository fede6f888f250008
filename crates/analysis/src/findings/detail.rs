//! What a finding says beyond its value, for programs.

use super::tokens::Tokens;

/// On what a value rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Basis {
    /// Samples on a clock.
    #[default]
    Measured,
    /// A machine that is described: the value is exact for the description.
    Exact,
    /// Calculated from other findings or facts.
    Derived,
    /// Taken as given: nothing was measured.
    Assumed,
    /// A model whose parameters were fitted to samples.
    Fitted,
    /// The ends are bounds: the truth lies between them, anywhere.
    Bounds,
}

impl Basis {
    /// Every basis.
    pub const ALL: [Basis; 6] =
        [Basis::Measured, Basis::Exact, Basis::Derived, Basis::Assumed, Basis::Fitted, Basis::Bounds];

    /// The stable word for it.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Exact => "exact",
            Basis::Derived => "derived",
            Basis::Assumed => "assumed",
            Basis::Fitted => "fitted",
            Basis::Bounds => "bounds",
        }
    }

    /// The basis of this word.
    #[must_use]
    pub fn of(token: &str) -> Option<Basis> {
        Basis::ALL.into_iter().find(|basis| basis.token() == token)
    }
}

/// A field of detail that a metric declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// What it says, in one line, with its unit where it has one.
    pub about: &'static str,
    /// The list that its words are of; without one they may be any text.
    pub words: Option<&'static Tokens>,
}

impl Field {
    /// A field.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str) -> Field {
        Field { name, about, words: None }
    }

    /// The same, of words of a list.
    #[must_use]
    pub const fn of(self, words: &'static Tokens) -> Field {
        Field { words: Some(words), ..self }
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Yes or no.
    Flag(bool),
    /// A number, in the unit that the field declares.
    Number(f64),
    /// A token or a text.
    Token(String),
    /// Tokens, in order.
    Tokens(Vec<String>),
    /// Names and numbers, in order.
    Numbers(Vec<(String, f64)>),
}

/// The fields of one finding, in the order in which its metric declares them.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Detail(Vec<(&'static str, Item)>);

impl Detail {
    /// Sets a field.
    pub fn set(&mut self, field: Field, item: Item) {
        self.0.retain(|(name, _)| *name != field.name);
        self.0.push((field.name, item));
    }

    /// The field, where it is set.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&Item> {
        self.0.iter().find(|(name, _)| *name == field.name).map(|(_, item)| item)
    }

    /// Is the field set to yes?
    #[must_use]
    pub fn flag(&self, field: Field) -> bool {
        matches!(self.get(field), Some(Item::Flag(true)))
    }

    /// The field, where it is a number.
    #[must_use]
    pub fn number(&self, field: Field) -> Option<f64> {
        match self.get(field) {
            Some(Item::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The field, where it is a word.
    #[must_use]
    pub fn word(&self, field: Field) -> Option<&str> {
        match self.get(field) {
            Some(Item::Token(word)) => Some(word),
            _ => None,
        }
    }

    /// The words of the field; none where it is not set.
    #[must_use]
    pub fn words(&self, field: Field) -> &[String] {
        match self.get(field) {
            Some(Item::Tokens(words)) => words,
            _ => &[],
        }
    }

    /// The words and numbers of the field; none where it is not set.
    #[must_use]
    pub fn numbers(&self, field: Field) -> &[(String, f64)] {
        match self.get(field) {
            Some(Item::Numbers(numbers)) => numbers,
            _ => &[],
        }
    }

    /// Every field that is set: name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Item)> {
        self.0.iter().map(|(name, item)| (*name, item))
    }

    /// The same, with every text in it changed by `with`.
    #[must_use]
    pub fn map_text(&self, with: impl Fn(&String) -> String) -> Detail {
        let item = |item: &Item| match item {
            Item::Token(word) => Item::Token(with(word)),
            Item::Tokens(words) => Item::Tokens(words.iter().map(&with).collect()),
            Item::Numbers(pairs) => Item::Numbers(pairs.iter().map(|(word, v)| (with(word), *v)).collect()),
            other => other.clone(),
        };
        Detail(self.0.iter().map(|(name, of)| (*name, item(of))).collect())
    }

    /// Is no field set?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
