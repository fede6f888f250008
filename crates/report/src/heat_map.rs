//! Heat map in characters: a shade per cell, with its number if it fits.

use crate::number::{self, short_size};
use crate::page::{Pieces, TextRole};

/// Data of a heat map: a row per size and a column per stride, both in bytes and ascending.
pub struct HeatMap {
    /// Sizes.
    pub rows: Vec<u64>,
    /// Strides.
    pub columns: Vec<u64>,
    /// Cells by row; `None` if not measured. Values are above 0.
    pub cells: Vec<Vec<Option<f64>>>,
}

/// Shades from the smallest to the largest value. A cell without a number is blank.
const UNICODE: [char; SHADES] = ['\u{b7}', '\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];
const ASCII: [char; SHADES] = ['.', ':', 'o', '%', '@'];
/// Number of shades.
pub const SHADES: usize = 5;

/// Width of the row labels: `256 KiB `.
const MARGIN: usize = 8;
/// Width of a cell with its number: two shades, a blank, five digits, a blank.
const NUMBERED: usize = 9;

impl HeatMap {
    /// Draws the map in lines of at most `width` columns (at least 40): strides, a line per size, legend. Empty if
    /// there are fewer than two rows or columns.
    pub fn draw(&self, width: usize, unicode: bool) -> Vec<Pieces> {
        let values: Vec<f64> = self.cells.iter().flatten().filter_map(|v| *v).collect();
        let (min, max) = values.iter().fold((f64::INFINITY, 0.0f64), |(a, b), v| (a.min(*v), b.max(*v)));
        if self.rows.len() < 2 || self.columns.len() < 2 || values.is_empty() {
            return Vec::new();
        }
        let cell = ((width - MARGIN) / self.columns.len()).clamp(1, NUMBERED);
        let pens = if unicode { UNICODE } else { ASCII };
        let mut lines = vec![vec![(TextRole::Dim, self.head(cell, width))]];
        for (size, row) in self.rows.iter().zip(&self.cells) {
            let label = number::size(*size as f64, None, None).value;
            let mut line = vec![(TextRole::Plain, format!("{label:>w$} ", w = MARGIN - 1))];
            for value in row.iter().take((width - MARGIN) / cell) {
                let Some(value) = value else {
                    line.push((TextRole::Plain, " ".repeat(cell)));
                    continue;
                };
                let shade = shade(*value, min, max);
                let (wide, number) = match cell {
                    NUMBERED => (2, format!(" {:<6}", short(*value))),
                    cell => (cell.saturating_sub(1).max(1), " ".repeat(usize::from(cell > 1))),
                };
                line.push((TextRole::Heat(shade), pens[shade].to_string().repeat(wide)));
                line.push((TextRole::Plain, number));
            }
            lines.push(line);
        }
        lines.extend(key(&pens, min, max, width));
        lines.iter_mut().for_each(trim);
        lines
    }

    /// Returns the header: strides over their columns, as many as fit.
    fn head(&self, cell: usize, width: usize) -> String {
        let mut line = " ".repeat(MARGIN);
        for (n, stride) in self.columns.iter().enumerate() {
            let (at, label) = (MARGIN + n * cell, short_size(*stride as f64));
            if at + label.len() <= width && (n == 0 || line.len() < at) {
                line += &" ".repeat(at - line.len());
                line += &label;
            }
        }
        line
    }
}

/// Returns the shade of a value, on a logarithmic scale.
fn shade(value: f64, min: f64, max: f64) -> usize {
    let share = (value / min).ln() / (max / min).ln().max(f64::MIN_POSITIVE);
    ((share * SHADES as f64) as usize).min(SHADES - 1)
}

/// Formats a time in at most five characters.
fn short(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v if v < 99_999.5 => format!("{v:.0}"),
        v => format!("{v:.0e}"),
    }
}

/// Returns the legend: the smallest value of each shade.
fn key(pens: &[char; SHADES], min: f64, max: f64, width: usize) -> Vec<Pieces> {
    let bound = |n: usize| min * (max / min).powf(n as f64 / SHADES as f64);
    let entries = (0..SHADES).map(|n| {
        let to = if n + 1 == SHADES { format!(" to {}", short(max)) } else { String::new() };
        let text = format!(" {}{to}  ", short(bound(n)));
        (pens[n].to_string().repeat(2), TextRole::Heat(n), text)
    });
    let blank = || vec![(TextRole::Plain, " ".repeat(MARGIN))];
    let (mut lines, mut line, mut used) = (Vec::new(), blank(), MARGIN);
    for (pen, role, text) in entries {
        let wide = 2 + text.chars().count();
        if used > MARGIN && used + wide - 2 > width {
            lines.push(core::mem::replace(&mut line, blank()));
            used = MARGIN;
        }
        used += wide;
        line.extend([(role, pen), (TextRole::Dim, text)]);
    }
    lines.push(line);
    lines
}

/// Removes blanks at the end of a line.
fn trim(line: &mut Pieces) {
    while let Some((_, text)) = line.last_mut() {
        text.truncate(text.trim_end().len());
        if !text.is_empty() {
            return;
        }
        line.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(heat: &HeatMap, width: usize, unicode: bool) -> Vec<String> {
        let drawn = heat.draw(width, unicode);
        drawn.iter().map(|line| line.iter().map(|(_, t)| t.as_str()).collect()).collect()
    }

    fn map(columns: usize, top: f64) -> HeatMap {
        let columns: Vec<u64> = (0..columns).map(|n| 8 << n).collect();
        let rows: Vec<u64> = vec![16 << 10, 256 << 10, 16 << 20];
        let cell = |row: usize, n: usize| (row, n) != (0, 1);
        let value = |row: usize| if row == 0 { 1.0 } else { top.powi(row as i32) };
        let cells = (0..rows.len())
            .map(|row| (0..columns.len()).map(|n| cell(row, n).then(|| value(row))).collect())
            .collect();
        HeatMap { rows, columns, cells }
    }

    #[test]
    fn shades_match_the_numbers() {
        let lines = text(&map(8, 10.0), 80, true);
        assert_eq!(lines[0], "        8        16       32       64       128      256      512      1K");
        assert!(lines[1].starts_with(" 16 KiB \u{b7}\u{b7} 1.00           \u{b7}\u{b7} 1.00"), "{lines:?}");
        assert!(lines[2].starts_with("256 KiB \u{2592}\u{2592} 10.0  \u{2592}\u{2592} 10.0"), "{lines:?}");
        assert!(lines[3].starts_with(" 16 MiB \u{2588}\u{2588} 100   "), "{lines:?}");
        // Also without colour and Unicode.
        assert!(text(&map(8, 10.0), 80, false)[3].starts_with(" 16 MiB @@ 100   @@ 100"));
    }

    #[test]
    fn map_fits_the_width_and_equal_values_have_one_shade() {
        for (columns, width) in [(2, 40), (8, 40), (18, 40), (18, 80), (8, 120)] {
            for top in [1.0, 1e3, 1e9] {
                let lines = text(&map(columns, top), width, true);
                assert!(lines.iter().all(|l| l.chars().count() <= width), "{columns} in {width}: {lines:#?}");
                assert!(lines.len() > 4, "{lines:#?}");
            }
        }
        assert!(text(&map(1, 10.0), 80, true).is_empty());
        let lines = text(&map(4, 1.0), 80, true);
        assert!(lines[1..4].iter().all(|l| !l.contains('\u{2588}')), "{lines:?}");
    }
}
