//! What text may use: colour, characters beyond ASCII, columns.

/// How the text may look. Who calls decides; nothing here looks at the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// May it be coloured (ANSI escape sequences)?
    pub colour: bool,
    /// May characters beyond ASCII be used?
    pub unicode: bool,
    /// Columns that no line exceeds, but for a command; fewer than [`Style::NARROWEST`] count as that many, and more than
    /// [`Style::WIDEST`] as that many.
    pub width: usize,
}

impl Style {
    /// The narrowest width that output is fitted to, in columns.
    pub const NARROWEST: usize = 60;

    /// The widest width that output is fitted to, in columns.
    pub const WIDEST: usize = 200;
}

impl Default for Style {
    /// Without colour, in Unicode, 80 columns.
    fn default() -> Style {
        Style { colour: false, unicode: true, width: 80 }
    }
}
