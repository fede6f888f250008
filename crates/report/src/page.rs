//! The page that sections write on, and how a terminal shows it.

use anstyle::{AnsiColor, Style as Ansi};

use crate::chart::Chart;
use crate::style::Style;
pub use crate::style::TextRole;
use crate::text;

pub use crate::table::{Column, INTERVAL, Table, left, measured, right};

/// Colours of tiers, in turn: told apart on dark and on light ground.
const TIERS: [AnsiColor; 5] =
    [AnsiColor::Green, AnsiColor::Cyan, AnsiColor::Blue, AnsiColor::Magenta, AnsiColor::Yellow];

/// Colours of a heat map, in the order in which heat is reported.
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

/// A line in pieces of one ink each.
pub type Pieces = Vec<(TextRole, String)>;

/// One thing on a page. The terminal prints all of them as text; other forms give them a shape of their own.
#[derive(Clone, Debug)]
pub enum Block {
    /// A line that is known to fit.
    Line(Pieces),
    /// Text of any length; its first line begins with `first`, the others with `under`.
    Text {
        /// What it is.
        role: TextRole,
        /// The text, not wrapped.
        text: String,
        /// Begin of the first line.
        first: String,
        /// Begin of the others.
        under: String,
    },
    /// A heading.
    Heading(String),
    /// A table.
    Table(Table),
    /// The few numbers that most readers came for; a terminal leaves them to the tables.
    Tiles(Vec<Tile>),
    /// A picture, drawn in characters.
    Picture {
        /// The same for a page that can draw; boxed, because it is larger than other blocks.
        chart: Box<Chart>,
        /// Its lines, which fit; none where only a table can be printed.
        lines: Vec<Pieces>,
    },
}

/// One of the few numbers that most readers came for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// What it is of.
    pub name: String,
    /// The number with its unit.
    pub value: String,
    /// The same in another unit, or nothing.
    pub under: String,
    /// What else to know of it, or nothing.
    pub more: String,
}

/// What has been written so far.
#[derive(Debug)]
pub struct Page {
    blocks: Vec<Block>,
    style: Style,
}

impl Page {
    /// An empty page.
    pub fn new(style: Style) -> Page {
        Page { blocks: Vec::new(), style }
    }

    /// The style in force.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Everything on it, in order.
    pub fn blocks(self) -> Vec<Block> {
        self.blocks
    }

    /// The whole as text.
    pub fn finish(self) -> String {
        let mut out = Text { out: String::new(), style: self.style };
        for block in &self.blocks {
            out.block(block);
        }
        out.out
    }

    /// One line of pieces that together are known to fit.
    pub fn pieces(&mut self, pieces: &[(TextRole, String)]) {
        self.blocks.push(Block::Line(pieces.to_vec()));
    }

    /// One line that is known to fit.
    pub fn line(&mut self, role: TextRole, text: &str) {
        self.pieces(&[(role, text.trim_end().to_string())]);
    }

    /// Text of any length, wrapped; the first line begins with `first`, the others with `under`.
    pub fn text(&mut self, role: TextRole, text: &str, first: &str, under: &str) {
        let [text, first, under] = [text, first, under].map(str::to_string);
        self.blocks.push(Block::Text { role, text, first, under });
    }

    /// An empty line and a heading.
    pub fn heading(&mut self, text: &str) {
        self.blocks.push(Block::Heading(text.to_string()));
    }

    /// A table. `colour` says what a line that contains a text is.
    pub fn table(&mut self, columns: &[Column], rows: &[Vec<String>], colour: &[(&'static str, TextRole)]) {
        let (columns, rows, colour) = (columns.to_vec(), rows.to_vec(), colour.to_vec());
        self.blocks.push(Block::Table(Table::new(columns, rows, colour)));
    }

    /// The few numbers that most readers came for.
    pub fn tiles(&mut self, tiles: Vec<Tile>) {
        self.blocks.push(Block::Tiles(tiles));
    }

    /// A chart, and the same in lines that are known to fit; none where only a table can be printed.
    pub fn picture(&mut self, chart: Chart, lines: Vec<Pieces>) {
        self.blocks.push(Block::Picture { chart: Box::new(chart), lines });
    }
}

/// Blocks as text: lines are wrapped first and coloured after.
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

    fn line(&mut self, role: TextRole, text: &str) {
        self.pieces(&[(role, text.trim_end().to_string())]);
    }

    fn text(&mut self, role: TextRole, text: &str, first: &str, under: &str) {
        for line in text::wrap(text, self.style.width, first, under) {
            self.line(role, &line);
        }
    }
}
