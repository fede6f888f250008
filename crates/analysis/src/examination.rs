//! What an examination of a machine says: rows, judged elsewhere and printed elsewhere.

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As good as it gets.
    Good,
    /// Known, and nothing to be done about it from here.
    Note,
    /// It costs the measurement something, and could be better.
    Costs,
    /// Nothing can be measured like this.
    Prevents,
}

impl State {
    /// Every state, best first.
    pub const ALL: [State; 4] = [State::Good, State::Note, State::Costs, State::Prevents];

    /// The stable token.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Note => "note",
            State::Costs => "costs",
            State::Prevents => "prevents",
        }
    }
}

/// One row of the examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What was looked at: a stable name of lower-case letters and dashes.
    pub what: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What that costs the measurement; empty where it costs nothing.
    pub cost: String,
    /// The line to type that gives it; empty where there is none.
    pub line: String,
}

impl Row {
    /// A row that costs nothing.
    #[must_use]
    pub fn good(what: &'static str, found: impl Into<String>) -> Row {
        Row { what, state: State::Good, found: found.into(), cost: String::new(), line: String::new() }
    }

    /// A row of something that is as it is.
    #[must_use]
    pub fn note(what: &'static str, found: impl Into<String>, cost: &str) -> Row {
        Row { state: State::Note, cost: cost.to_owned(), ..Row::good(what, found) }
    }

    /// A row that costs the measurement something; `line` would change that.
    #[must_use]
    pub fn costs(what: &'static str, found: impl Into<String>, cost: &str, line: &str) -> Row {
        Row { state: State::Costs, line: line.to_owned(), ..Row::note(what, found, cost) }
    }
}
