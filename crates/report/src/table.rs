//! Tables: columns of numbers and text, as lines that fit a width.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};
use unicode_width::UnicodeWidthStr;

use crate::style::{Style, TextRole};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Head, possibly of several lines.
    head: &'static str,
    alignment: CellAlignment,
    /// Blank columns to its right, in addition to the one between all columns.
    gap: u16,
    /// Whether it identifies the rows, so that every part of a divided table repeats it.
    key: bool,
}

impl Column {
    /// Marks the column as one that identifies the rows. Without any, the first column is used.
    #[must_use]
    pub const fn key(self) -> Column {
        Column { key: true, ..self }
    }
}

/// Creates a left-aligned column, for text.
pub const fn left(head: &'static str) -> Column {
    Column { head, alignment: CellAlignment::Left, gap: 1, key: false }
}

/// Creates a right-aligned column, for numbers.
pub const fn right(head: &'static str) -> Column {
    Column { head, alignment: CellAlignment::Right, gap: 1, key: false }
}

/// Creates a column of numbers whose interval is the next column.
pub const fn measured(head: &'static str) -> Column {
    Column { head, alignment: CellAlignment::Right, gap: 0, key: false }
}

/// Column of these intervals.
pub const INTERVAL: Column = left("(95 %)");

/// A table. Empty columns are left out.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    colour: Vec<(&'static str, TextRole)>,
}

impl Table {
    pub(crate) fn new(
        columns: Vec<Column>,
        rows: Vec<Vec<String>>,
        colour: Vec<(&'static str, TextRole)>,
    ) -> Table {
        Table { columns, rows, colour }
    }

    /// Returns the columns that are shown: head, whether it is right-aligned, and index of its cells in a row.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, bool, usize)> {
        let used = |c: &usize| self.rows.iter().any(|row| !row[*c].is_empty());
        (0..self.columns.len())
            .filter(used)
            .map(|c| (self.columns[c].head, self.columns[c].alignment == CellAlignment::Right, c))
    }

    /// Returns the rows, each with the role determined by its text.
    pub fn rows(&self) -> impl Iterator<Item = (TextRole, &[String])> {
        self.rows.iter().map(|row| {
            let line: String = row.iter().map(|cell| format!(" {cell}")).collect();
            (role_of(&line, &self.colour), row.as_slice())
        })
    }

    /// Formats the table as lines of at most `style.width` columns. A table that is too wide is divided by columns into
    /// several tables, each with the columns that identify the rows. Numbers are never broken; a text is, if a table of
    /// its column alone would be too wide.
    pub(crate) fn lines(&self, style: &Style) -> Vec<(TextRole, String)> {
        let used: Vec<usize> = self.columns().map(|(_, _, c)| c).collect();
        // Smaller gaps are tried before the table is divided.
        if let Some(lines) = [1, 0].into_iter().find_map(|gap| self.fitting(&used, gap, style)) {
            return lines;
        }
        let keys: Vec<usize> = match used.iter().copied().filter(|&c| self.columns[c].key).collect::<Vec<_>>()
        {
            none if none.is_empty() => used.first().copied().into_iter().collect(),
            keys => keys,
        };
        let with_keys = |columns: &[usize]| [&keys[..], columns].concat();
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for unit in self.units(&used, &keys) {
            let joined = parts.last().map(|part| [&part[..], &unit[..]].concat());
            match joined.filter(|joined| self.fitting(&with_keys(joined), 0, style).is_some()) {
                Some(joined) => {
                    parts.pop();
                    parts.push(joined);
                }
                None => parts.push(unit),
            }
        }
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        let parts = parts.iter().map(|part| {
            let columns = with_keys(part);
            self.fitting(&columns, 1, style)
                .or_else(|| self.fitting(&columns, 0, style))
                .unwrap_or_else(|| self.wrapped(&columns, style))
        });
        parts.collect::<Vec<_>>().join(&(TextRole::Plain, String::new()))
    }

    /// Groups the columns that are not keys: a number with its interval.
    fn units(&self, used: &[usize], keys: &[usize]) -> Vec<Vec<usize>> {
        let mut units: Vec<Vec<usize>> = Vec::new();
        for &c in used.iter().filter(|c| !keys.contains(c)) {
            match units.last_mut() {
                Some(unit) if self.columns[c].head == INTERVAL.head => unit.push(c),
                _ => units.push(vec![c]),
            }
        }
        units
    }

    /// Formats these columns as lines, with gaps of at most `max_gap` blanks between groups; `None` if they do not fit.
    fn fitting(&self, columns: &[usize], max_gap: u16, style: &Style) -> Option<Vec<(TextRole, String)>> {
        let lines: Vec<String> =
            self.drawn(columns, max_gap, style).lines().map(|line| line.trim_end().to_owned()).collect();
        if lines.iter().any(|line| line.width() > style.width) {
            return None;
        }
        let head = lines.len().saturating_sub(self.rows.len());
        let roles = self.rows().map(|(role, _)| role);
        Some(std::iter::repeat_n(TextRole::Dim, head).chain(roles).zip(lines).collect())
    }

    /// Formats these columns as lines, with wrapping of cells that are too wide.
    fn wrapped(&self, columns: &[usize], style: &Style) -> Vec<(TextRole, String)> {
        let mut table = self.drawn(columns, 0, style);
        let width = u16::try_from(style.width).unwrap_or(u16::MAX);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        let head = self.head_lines(columns);
        let role =
            |at: usize, line: &str| if at <= head { TextRole::Dim } else { role_of(line, &self.colour) };
        table.lines().enumerate().map(|(at, line)| (role(at, &line), line.trim_end().to_owned())).collect()
    }

    /// Returns the number of lines of the head.
    fn head_lines(&self, columns: &[usize]) -> usize {
        columns.iter().map(|&c| self.columns[c].head.lines().count()).max().unwrap_or(1)
    }

    fn drawn(&self, columns: &[usize], max_gap: u16, style: &Style) -> comfy_table::Table {
        let rule = if style.unicode { '\u{2500}' } else { '-' };
        let mut table = comfy_table::Table::new();
        table
            .load_style(TableStyle::new().header_separator(LineStyle::none().fill(rule).junction(rule)))
            .set_header(columns.iter().map(|&c| self.columns[c].head));
        for row in &self.rows {
            table.add_row(columns.iter().map(|&c| row[c].clone()));
        }
        for (at, &c) in columns.iter().enumerate() {
            if let Some(column) = table.column_mut(at) {
                let gap = if at + 1 == columns.len() { 0 } else { self.columns[c].gap.min(max_gap) };
                column.set_padding((0, gap)).set_cell_alignment(self.columns[c].alignment);
            }
        }
        table
    }
}

/// Returns the role of a line by the first text that it contains.
fn role_of(line: &str, colour: &[(&str, TextRole)]) -> TextRole {
    colour.iter().find(|(text, _)| line.contains(text)).map_or(TextRole::Plain, |(_, role)| *role)
}
