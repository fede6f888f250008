//! The page that sections write on, and how a terminal shows it.

use anstyle::{AnsiColor, Style as Ansi};
use comfy_table::{CellAlignment, LineStyle, TableStyle};
use unicode_width::UnicodeWidthStr;

use crate::style::Style;
use crate::text;

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

/// Colours of tiers, in turn: told apart on dark and on light ground.
const TIERS: [AnsiColor; 5] =
    [AnsiColor::Green, AnsiColor::Cyan, AnsiColor::Blue, AnsiColor::Magenta, AnsiColor::Yellow];

/// Colours of a heat map, in the order in which heat is told.
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

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// In as many lines as it has.
    head: &'static str,
    alignment: CellAlignment,
    /// Blank columns to its right, beside the one that the table puts between any two.
    gap: u16,
}

/// A column of words.
pub const fn left(head: &'static str) -> Column {
    Column { head, alignment: CellAlignment::Left, gap: 1 }
}

/// A column of numbers.
pub const fn right(head: &'static str) -> Column {
    Column { head, alignment: CellAlignment::Right, gap: 1 }
}

/// A column of numbers whose interval is the next column.
pub const fn measured(head: &'static str) -> Column {
    Column { head, alignment: CellAlignment::Right, gap: 0 }
}

/// The column of those intervals.
pub const INTERVAL: Column = left("(95 %)");

/// What a picture shows, for whoever draws it anew from the findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chart {
    /// Latency by working set.
    LatencyCurve,
    /// What translation adds by the number of pages.
    Pages,
    /// The histogram of single loads at this working set, bytes.
    Histogram(u64),
    /// Time an access by step, with this operation.
    Stride(String),
    /// Time of 8 bytes by working set and attribute, with this operation.
    Attributes(String),
    /// CPU time of a transfer by size and strategy, in this direction.
    Transfers(String),
    /// Its parts by strategy, of one direction and size.
    TransferParts {
        /// Which way data go.
        direction: String,
        /// Bytes of the transfer.
        size: u64,
    },
    /// What a victim lost by a transfer in this direction, by size and strategy.
    Pollution(String),
    /// Time a line by working set and step, with this operation.
    Heat(String),
    /// Rounds of reads: their misses or their time.
    Rounds(Shown),
    /// Which line of this tier is gone.
    Evicted(u64),
    /// Time of a pair's second load by its distance.
    Pairs,
    /// Distributions of wake-up latency at this place, by condition.
    Wakeups(String),
    /// The worst activations by their stages.
    Stages,
    /// What factors add (`effect`), or explain of what memory workers add (`explained`).
    Effects(&'static str),
    /// The tail and the maximum by block size, of this stressor and mode.
    Sweep(String, String),
    /// The tail by block size and stride, of this stressor and mode.
    SweepHeat(String, String),
    /// Page colours of a tier: what is shown of each round, by pages.
    Colours(u64, Shown),
}

/// What is shown of rounds of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Their misses.
    Misses {
        /// Also what replacement policies would do?
        expected: bool,
    },
    /// Their time.
    Time,
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
        /// What it shows.
        chart: Chart,
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

/// A table: columns in which no row has anything are left out.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    colour: Vec<(&'static str, TextRole)>,
}

impl Table {
    /// The columns that are shown: head, is it of numbers, and where its cells are in a row.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, bool, usize)> {
        let used = |c: &usize| self.rows.iter().any(|row| !row[*c].is_empty());
        (0..self.columns.len())
            .filter(used)
            .map(|c| (self.columns[c].head, self.columns[c].alignment == CellAlignment::Right, c))
    }

    /// The rows, each with the ink that a text in it asks for.
    pub fn rows(&self) -> impl Iterator<Item = (TextRole, &[String])> {
        self.rows.iter().map(|row| {
            let line: String = row.iter().map(|cell| format!(" {cell}")).collect();
            (role_of(&line, &self.colour), row.as_slice())
        })
    }
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
        self.blocks.push(Block::Table(Table { columns, rows, colour }));
    }

    /// The few numbers that most readers came for.
    pub fn tiles(&mut self, tiles: Vec<Tile>) {
        self.blocks.push(Block::Tiles(tiles));
    }

    /// A picture, in lines that are known to fit.
    pub fn picture(&mut self, chart: Chart, lines: Vec<Pieces>) {
        self.blocks.push(Block::Picture { chart, lines });
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
            Block::Table(table) => self.table(table),
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

    /// Where the whole would be too wide, each row becomes a sentence instead: a number that is broken in
    /// two misleads.
    fn table(&mut self, shown: &Table) {
        // Closer together before they are taken apart.
        let Some(lines) = [1, 0].into_iter().find_map(|gap| self.lines_of(shown, gap)) else {
            return self.sentences(shown);
        };
        let head = shown.columns().map(|(head, _, _)| head.lines().count()).max().unwrap_or(1);
        for (at, line) in lines.iter().enumerate() {
            // The head and the rule under it.
            let role = if at <= head { TextRole::Dim } else { role_of(line, &shown.colour) };
            self.line(role, line);
        }
    }

    /// A table's lines, with gaps of at most so many columns between groups; none where they do not fit.
    fn lines_of(&self, shown: &Table, most: u16) -> Option<Vec<String>> {
        let used: Vec<usize> = shown.columns().map(|(_, _, c)| c).collect();
        let rule = if self.style.unicode { '\u{2500}' } else { '-' };
        let mut table = comfy_table::Table::new();
        table
            .load_style(TableStyle::new().header_separator(LineStyle::none().fill(rule).junction(rule)))
            .set_header(used.iter().map(|&c| shown.columns[c].head));
        for row in &shown.rows {
            table.add_row(used.iter().map(|&c| row[c].clone()));
        }
        for (at, &c) in used.iter().enumerate() {
            if let Some(column) = table.column_mut(at) {
                let gap = if at + 1 == used.len() { 0 } else { shown.columns[c].gap.min(most) };
                column.set_padding((0, gap)).set_cell_alignment(shown.columns[c].alignment);
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_string()).collect();
        lines.iter().all(|line| line.width() <= self.style.width).then_some(lines)
    }

    /// A table's rows as sentences: `tier 1, capacity 48 KiB (47..49), ...`.
    fn sentences(&mut self, table: &Table) {
        for row in &table.rows {
            let mut text = String::new();
            for (column, cell) in table.columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                if column.head == INTERVAL.head {
                    text += &format!(" {cell}");
                } else {
                    let comma = if text.is_empty() { "" } else { ", " };
                    let head = column.head.replace('\n', " ");
                    text += &format!("{comma}{}", format!("{head} {cell}").trim_start());
                }
            }
            self.text(role_of(&text, &table.colour), text.trim_start(), "", "  ");
        }
    }
}

/// The ink of a line by the first text that it contains.
fn role_of(line: &str, colour: &[(&str, TextRole)]) -> TextRole {
    colour.iter().find(|(text, _)| line.contains(text)).map_or(TextRole::Plain, |(_, role)| *role)
}
