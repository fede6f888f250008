//! The page that sections write on: lines are wrapped first and coloured after.

use anstyle::{AnsiColor, Style as Ansi};
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use unicode_width::UnicodeWidthStr;

use super::{Style, text};

/// What a piece of text is, from which its colour follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
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
}

/// Colours of tiers, in turn: told apart on dark and on light ground.
const TIERS: [AnsiColor; 5] =
    [AnsiColor::Green, AnsiColor::Cyan, AnsiColor::Blue, AnsiColor::Magenta, AnsiColor::Yellow];

fn ansi(ink: Ink) -> Ansi {
    let coloured = |c: AnsiColor| Ansi::new().fg_color(Some(c.into()));
    match ink {
        Ink::Plain | Ink::Tier(0) => Ansi::new(),
        Ink::Bold => Ansi::new().bold(),
        Ink::Dim => Ansi::new().dimmed(),
        Ink::Good => coloured(AnsiColor::Green),
        Ink::Bad => coloured(AnsiColor::Red).bold(),
        Ink::Warn => coloured(AnsiColor::Yellow),
        Ink::Tier(n) => coloured(TIERS[(n - 1) % TIERS.len()]),
    }
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
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

/// The text so far.
pub struct Page {
    out: String,
    style: Style,
}

impl Page {
    /// An empty page.
    pub fn new(style: Style) -> Page {
        Page { out: String::new(), style }
    }

    /// The style in force.
    pub fn style(&self) -> Style {
        self.style
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.out
    }

    /// One line of pieces that together are known to fit.
    pub fn pieces(&mut self, pieces: &[(Ink, String)]) {
        for (ink, text) in pieces {
            let ansi = ansi(*ink);
            if self.style.colour && !text.is_empty() && ansi != Ansi::new() {
                self.out += &format!("{ansi}{text}{ansi:#}");
            } else {
                self.out += text;
            }
        }
        self.out.push('\n');
    }

    /// One line that is known to fit.
    pub fn line(&mut self, ink: Ink, text: &str) {
        self.pieces(&[(ink, text.trim_end().to_string())]);
    }

    /// Text of any length, wrapped; the first line begins with `first`, the others with `under`.
    pub fn text(&mut self, ink: Ink, text: &str, first: &str, under: &str) {
        for line in text::wrap(text, self.style.width, first, under) {
            self.line(ink, &line);
        }
    }

    /// An empty line and a heading.
    pub fn heading(&mut self, text: &str) {
        self.out.push('\n');
        self.text(Ink::Bold, text, "", "  ");
    }

    /// A table. Columns in which no row has anything are left out. Where the whole would be too
    /// wide, each row becomes a sentence instead: a number that is broken in two misleads.
    /// `colour` says what a line that contains a text is.
    pub fn table(&mut self, columns: &[Column], rows: &[Vec<String>], colour: &[(&str, Ink)]) {
        let used: Vec<usize> =
            (0..columns.len()).filter(|&c| rows.iter().any(|row| !row[c].is_empty())).collect();
        let rule = if self.style.unicode { '\u{2500}' } else { '-' };
        let mut table = Table::new();
        table
            .load_style(TableStyle::new().header_separator(LineStyle::none().fill(rule).junction(rule)))
            .set_header(used.iter().map(|&c| columns[c].head));
        for row in rows {
            table.add_row(used.iter().map(|&c| row[c].clone()));
        }
        for (at, &c) in used.iter().enumerate() {
            if let Some(column) = table.column_mut(at) {
                let gap = if at + 1 == used.len() { 0 } else { columns[c].gap };
                column.set_padding((0, gap)).set_cell_alignment(columns[c].alignment);
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_string()).collect();
        if lines.iter().any(|line| line.width() > self.style.width) {
            return self.sentences(columns, rows, colour);
        }
        for (at, line) in lines.iter().enumerate() {
            // The head and the rule under it.
            let ink = if at < 2 { Ink::Dim } else { ink_of(line, colour) };
            self.line(ink, line);
        }
    }

    /// A table's rows as sentences: `tier 1, capacity 48 KiB (47..49), ...`.
    fn sentences(&mut self, columns: &[Column], rows: &[Vec<String>], colour: &[(&str, Ink)]) {
        for row in rows {
            let mut text = String::new();
            for (column, cell) in columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                if column.head == INTERVAL.head {
                    text += &format!(" {cell}");
                } else {
                    let comma = if text.is_empty() { "" } else { ", " };
                    text += &format!("{comma}{}", format!("{} {cell}", column.head).trim_start());
                }
            }
            self.text(ink_of(&text, colour), text.trim_start(), "", "  ");
        }
    }
}

/// The ink of a line by the first text that it contains.
fn ink_of(line: &str, colour: &[(&str, Ink)]) -> Ink {
    colour.iter().find(|(text, _)| line.contains(text)).map_or(Ink::Plain, |(_, ink)| *ink)
}
