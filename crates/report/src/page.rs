//! The page that views write on, and its output as terminal text.

use anstyle::{AnsiColor, Style as Ansi};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::chart::Chart;
use crate::style::Style;
pub use crate::style::TextRole;
use crate::text;

pub use crate::table::{Column, INTERVAL, Table, left, measured, right};

/// Colours of tiers, in turn; distinguishable on dark and on light backgrounds.
const TIERS: [AnsiColor; 5] =
    [AnsiColor::Green, AnsiColor::Cyan, AnsiColor::Blue, AnsiColor::Magenta, AnsiColor::Yellow];

/// Colours of a heat map, from the smallest to the largest value.
const HEAT: [AnsiColor; 5] =
    [AnsiColor::Blue, AnsiColor::Cyan, AnsiColor::Green, AnsiColor::Yellow, AnsiColor::Red];

fn ansi(role: TextRole) -> Ansi {
    let coloured = |c: AnsiColor| Ansi::new().fg_color(Some(c.into()));
    match role {
        TextRole::Plain | TextRole::Tier(0) => Ansi::new(),
        TextRole::Bold => Ansi::new().bold(),
        TextRole::Dim => Ansi::new().dimmed(),
        TextRole::Good => coloured(AnsiColor::Green),
        TextRole::Bad => coloured(AnsiColor::Red).bold(),
        TextRole::Warn => coloured(AnsiColor::Yellow),
        TextRole::Tier(n) => coloured(TIERS[(n - 1) % TIERS.len()]),
        TextRole::Heat(n) => coloured(HEAT[n.min(HEAT.len() - 1)]),
    }
}

/// A line as pieces of one role each.
pub type Pieces = Vec<(TextRole, String)>;

/// An element of a page. The terminal prints all of them as text; other formats render them differently.
#[derive(Clone, Debug)]
pub enum Block {
    /// A line that fits the width.
    Line(Pieces),
    /// Text of any length; its first line begins with `first`, the others with `under`.
    Text {
        /// Role.
        role: TextRole,
        /// Text, not wrapped.
        text: String,
        /// Begin of the first line.
        first: String,
        /// Begin of the other lines.
        under: String,
    },
    /// A heading.
    Heading(String),
    /// Lines of any length whose spaces count: a program's source. A terminal cuts them at its width.
    Listing(Vec<Pieces>),
    /// A table.
    Table(Table),
    /// Key figures; a terminal omits them, because the tables have them.
    Tiles(Vec<Tile>),
    /// A picture drawn in characters.
    Picture {
        /// The chart for a page that can draw; boxed because it is larger than other blocks.
        chart: Box<Chart>,
        /// Lines, which fit the width; empty if there is only a table.
        lines: Vec<Pieces>,
    },
}

/// A key figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Name.
    pub name: String,
    /// Number with its unit.
    pub value: String,
    /// The number in another unit, or empty.
    pub under: String,
    /// Further information, or empty.
    pub more: String,
}

/// A page: the blocks written to it, and its style.
#[derive(Debug)]
pub struct Page {
    blocks: Vec<Block>,
    style: Style,
}

impl Page {
    /// Creates an empty page.
    pub fn new(style: Style) -> Page {
        Page { blocks: Vec::new(), style }
    }

    /// Returns the style.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Writes comparisons with published studies if the style shows them. Findings that `write` takes from an index are
    /// taken in either case, so that no other section lists them.
    pub fn studies(&mut self, write: impl FnOnce(&mut Page)) {
        if self.style.studies {
            write(self);
        } else {
            write(&mut Page::new(self.style));
        }
    }

    /// Returns all blocks, in order.
    pub fn blocks(self) -> Vec<Block> {
        self.blocks
    }

    /// Returns the page as terminal text.
    pub fn finish(self) -> String {
        let mut out = Text { out: String::new(), style: self.style };
        for block in &self.blocks {
            out.block(block);
        }
        out.out
    }

    /// Adds a line of pieces that together fit the width.
    pub fn pieces(&mut self, pieces: &[(TextRole, String)]) {
        self.blocks.push(Block::Line(pieces.to_vec()));
    }

    /// Adds a line that fits the width.
    pub fn line(&mut self, role: TextRole, text: &str) {
        self.pieces(&[(role, text.trim_end().to_string())]);
    }

    /// Adds text of any length, to be wrapped; the first line begins with `first`, the others with `under`.
    pub fn text(&mut self, role: TextRole, text: &str, first: &str, under: &str) {
        let [text, first, under] = [text, first, under].map(str::to_string);
        self.blocks.push(Block::Text { role, text, first, under });
    }

    /// Adds lines of any length whose spaces count.
    pub fn listing(&mut self, lines: Vec<Pieces>) {
        self.blocks.push(Block::Listing(lines));
    }

    /// Adds an empty line and a heading.
    pub fn heading(&mut self, text: &str) {
        self.blocks.push(Block::Heading(text.to_string()));
    }

    /// Adds a table. `colour` maps a text to the role of the lines that contain it.
    pub fn table(&mut self, columns: &[Column], rows: &[Vec<String>], colour: &[(&'static str, TextRole)]) {
        let (columns, rows, colour) = (columns.to_vec(), rows.to_vec(), colour.to_vec());
        self.blocks.push(Block::Table(Table::new(columns, rows, colour)));
    }

    /// Adds key figures.
    pub fn tiles(&mut self, tiles: Vec<Tile>) {
        self.blocks.push(Block::Tiles(tiles));
    }

    /// Adds a chart, and the same in lines that fit the width; no lines if there is only a table.
    pub fn picture(&mut self, chart: Chart, lines: Vec<Pieces>) {
        self.blocks.push(Block::Picture { chart: Box::new(chart), lines });
    }
}

/// Converts blocks to text: lines are wrapped first and coloured afterwards.
struct Text {
    out: String,
    style: Style,
}

impl Text {
    fn block(&mut self, block: &Block) {
        match block {
            Block::Line(pieces) => self.pieces(pieces),
            Block::Text { role, text, first, under } => self.text(*role, text, first, under),
            Block::Heading(text) => {
                self.out.push('\n');
                self.text(TextRole::Bold, text, "", "  ");
            }
            Block::Table(table) => {
                table.lines(&self.style).iter().for_each(|(role, line)| self.line(*role, line))
            }
            Block::Tiles(_) => {}
            Block::Listing(lines) => lines.iter().for_each(|line| self.pieces(&self.cut(line))),
            Block::Picture { lines, .. } => lines.iter().for_each(|line| self.pieces(line)),
        }
    }

    fn pieces(&mut self, pieces: &[(TextRole, String)]) {
        for (role, text) in pieces {
            let ansi = ansi(*role);
            if self.style.colour && !text.is_empty() && ansi != Ansi::new() {
                self.out += &format!("{ansi}{text}{ansi:#}");
            } else {
                self.out += text;
            }
        }
        self.out.push('\n');
    }

    /// Returns a line up to the width; the last columns tell that there is more.
    fn cut(&self, line: &[(TextRole, String)]) -> Pieces {
        let more = if self.style.unicode { "\u{2026}" } else { ">" };
        let whole: usize = line.iter().map(|(_, text)| text.width()).sum();
        if whole <= self.style.width {
            return line.to_vec();
        }
        let mut left = self.style.width - more.width();
        let mut out = Pieces::new();
        for (role, text) in line {
            let mut fits = String::new();
            for c in text.chars() {
                let Some(rest) = left.checked_sub(c.width().unwrap_or(0)) else {
                    fits += more;
                    out.push((*role, fits));
                    return out;
                };
                left = rest;
                fits.push(c);
            }
            out.push((*role, fits));
        }
        out
    }

    fn line(&mut self, role: TextRole, text: &str) {
        self.pieces(&[(role, text.trim_end().to_string())]);
    }

    fn text(&mut self, role: TextRole, text: &str, first: &str, under: &str) {
        for line in text::wrap(text, self.style.width, first, under) {
            self.line(role, &line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_keeps_blanks_and_ends_at_the_width() {
        let shown = |unicode, width, text: &str| {
            let mut page = Page::new(Style { unicode, width, ..Style::default() });
            page.listing(vec![vec![(TextRole::Warn, "  a".to_owned()), (TextRole::Dim, text.to_owned())]]);
            page.finish()
        };
        assert_eq!(shown(true, 60, "  b"), "  a  b\n");
        let long = "x".repeat(57);
        assert_eq!(shown(true, 60, &long), format!("  a{long}\n"));
        assert_eq!(shown(true, 60, &(long.clone() + "x")), format!("  a{}\u{2026}\n", &long[1..]));
        assert_eq!(shown(false, 60, &long.repeat(2)), format!("  a{}>\n", &long[1..]));
        // A wide character takes two columns.
        assert_eq!(
            shown(true, 60, &"\u{4e2d}".repeat(29)),
            format!("  a{}\u{2026}\n", "\u{4e2d}".repeat(28))
        );
    }
}
