//! What text may use: colour, characters beyond ASCII, columns.

/// How the text may look. Who calls decides; nothing here looks at the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// May it be coloured (ANSI escape sequences)?
    pub colour: bool,
    /// May characters beyond ASCII be used?
    pub unicode: bool,
    /// Columns that no line exceeds; fewer than [`Style::NARROWEST`] count as that many.
    pub width: usize,
}

impl Style {
    /// The narrowest width, in columns, that a table of numbers can still be read in.
    pub const NARROWEST: usize = 40;

    /// The widest line, in columns: what is wider than this is hard to read, however wide the terminal.
    pub const WIDEST: usize = 120;
}

impl Default for Style {
    /// Without colour, in Unicode, 80 columns.
    fn default() -> Style {
        Style { colour: false, unicode: true, width: 80 }
    }
}
