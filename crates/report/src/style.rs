//! Style of text: colour, Unicode, width.

/// Style of text, set by the caller; this crate does not access the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether colour (ANSI escape sequences) may be used.
    pub colour: bool,
    /// Whether characters beyond ASCII may be used.
    pub unicode: bool,
    /// Longest line in columns, except for commands; limited to [`Style::MIN_COLUMNS`] to [`Style::MAX_COLUMNS`].
    pub width: usize,
    /// Whether comparisons with the published studies are shown.
    pub studies: bool,
}

impl Style {
    /// Smallest supported width, columns.
    pub const MIN_COLUMNS: usize = 60;

    /// Largest supported width, columns.
    pub const MAX_COLUMNS: usize = 200;
}

impl Default for Style {
    /// Without colour, in Unicode, 80 columns, without comparisons with studies.
    fn default() -> Style {
        Style { colour: false, unicode: true, width: 80, studies: false }
    }
}

/// Role of a piece of text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRole {
    /// Ordinary text.
    Plain,
    /// Headings.
    Bold,
    /// Less important text: axes, rules, notes.
    Dim,
    /// Agreement.
    Good,
    /// Disagreement, disturbance.
    Bad,
    /// Warnings, refusals.
    Warn,
    /// Part of a picture that belongs to the tier of this number (from 1), or to none (0).
    Tier(usize),
    /// The nth shade of a heat map, from 0, the smallest value.
    Heat(usize),
}
