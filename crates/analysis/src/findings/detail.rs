//! Fields of a finding in addition to its value, for programs.

use super::tokens::Tokens;

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Basis {
    /// Samples on a clock.
    #[default]
    Measured,
    /// Simulation of a described machine: the value is exact for the description.
    Exact,
    /// Calculated from other findings or facts.
    Derived,
    /// Assumed: not measured.
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

    /// Returns the token.
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

    /// Returns the basis with this token.
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
    /// Meaning, in one line, with the unit if it has one.
    pub about: &'static str,
    /// The list of its tokens; without a list, any text is valid.
    pub words: Option<&'static Tokens>,
}

impl Field {
    /// Declares a field.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str) -> Field {
        Field { name, about, words: None }
    }

    /// Returns the same metric, of words of a list.
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

    /// Returns the field, if it is set.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&Item> {
        self.0.iter().find(|(name, _)| *name == field.name).map(|(_, item)| item)
    }

    /// Returns whether the field is set and true.
    #[must_use]
    pub fn flag(&self, field: Field) -> bool {
        matches!(self.get(field), Some(Item::Flag(true)))
    }

    /// Returns the field, if it is a number.
    #[must_use]
    pub fn number(&self, field: Field) -> Option<f64> {
        match self.get(field) {
            Some(Item::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns the field, if it is a token.
    #[must_use]
    pub fn word(&self, field: Field) -> Option<&str> {
        match self.get(field) {
            Some(Item::Token(word)) => Some(word),
            _ => None,
        }
    }

    /// Returns the tokens of the field; none if it is not set.
    #[must_use]
    pub fn words(&self, field: Field) -> &[String] {
        match self.get(field) {
            Some(Item::Tokens(words)) => words,
            _ => &[],
        }
    }

    /// Returns the names and numbers of the field; none if it is not set.
    #[must_use]
    pub fn numbers(&self, field: Field) -> &[(String, f64)] {
        match self.get(field) {
            Some(Item::Numbers(numbers)) => numbers,
            _ => &[],
        }
    }

    /// Returns every field that is set: name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Item)> {
        self.0.iter().map(|(name, item)| (*name, item))
    }

    /// Returns the same fields with every text replaced by `with(text)`.
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

    /// Returns whether no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
