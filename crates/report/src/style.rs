//! What text may use: colour, characters beyond ASCII, columns.

/// How the text may look. Who calls decides; nothing here looks at the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// May it be coloured (ANSI escape sequences)?
    pub colour: bool,
    /// May characters beyond ASCII be used?
    pub unicode: bool,
    /// Columns that no line exceeds, but for a command; fewer than [`Style::MIN_COLUMNS`] count as that many, and more than
    /// [`Style::MAX_COLUMNS`] as that many.
    pub width: usize,
    /// Whether comparisons with the published studies are shown.
    pub studies: bool,
}

impl Style {
    /// The narrowest width that output is fitted to, in columns.
    pub const MIN_COLUMNS: usize = 60;

    /// The widest width that output is fitted to, in columns.
    pub const MAX_COLUMNS: usize = 200;
}

impl Default for Style {
    /// Without colour, in Unicode, 80 columns, without comparisons with studies.
    fn default() -> Style {
        Style { colour: false, unicode: true, width: 80, studies: false }
    }
}

/// What a piece of text is, from which its colour follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRole {
    /// As the terminal has it.
    Plain,
    /// Headings.
    Bold,
    /// What may be overlooked: axes, rules, notes.
    Dim,
    /// Agreement.
    Good,
    /// Disagreement, disturbance.
    Bad,
    /// Warnings, refusals.
    Warn,
    /// What belongs to the tier of this number (from 1) or to none (0), in the picture.
    Tier(usize),
    /// The nth shade of a heat map, from 0, the least.
    Heat(usize),
}
