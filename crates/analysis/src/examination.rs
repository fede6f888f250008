//! Row types of `fathom doctor`.

/// State of an examined item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Best possible state.
    Good,
    /// Known limitation that cannot be changed from here.
    Note,
    /// Limits the measurement and could be improved.
    Costs,
    /// Prevents any measurement.
    Prevents,
}

impl State {
    /// Every state, best first.
    pub const ALL: [State; 4] = [State::Good, State::Note, State::Costs, State::Prevents];

    /// Returns the stable token.
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

/// A row of the examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the examined item: stable, of lower-case letters and dashes.
    pub what: &'static str,
    /// State of the item.
    pub state: State,
    /// Observed value.
    pub found: String,
    /// Effect on the measurement; empty if there is none.
    pub cost: String,
    /// Command that improves the state; empty if there is none.
    pub command: String,
}

impl Row {
    /// Creates a row without effect on the measurement.
    #[must_use]
    pub fn good(what: &'static str, found: impl Into<String>) -> Row {
        Row { what, state: State::Good, found: found.into(), cost: String::new(), command: String::new() }
    }

    /// Creates a row for a limitation that cannot be changed.
    #[must_use]
    pub fn note(what: &'static str, found: impl Into<String>, cost: &str) -> Row {
        Row { state: State::Note, cost: cost.to_owned(), ..Row::good(what, found) }
    }

    /// Creates a row for a limitation that `command` would remove.
    #[must_use]
    pub fn costs(what: &'static str, found: impl Into<String>, cost: &str, command: &str) -> Row {
        Row { state: State::Costs, command: command.to_owned(), ..Row::note(what, found, cost) }
    }
}
