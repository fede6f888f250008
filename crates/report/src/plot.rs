//! Latency curve in characters: a curve of braille dots (asterisks in ASCII) over a logarithmic axis of sizes, with
//! horizontal lines for plateaus and vertical ones for capacities.

use crate::page::TextRole;

/// Returns a horizontal bar of a length in columns: blocks, or `#` in ASCII. It is never empty.
pub fn bar(length: f64, unicode: bool) -> String {
    if !unicode {
        return "#".repeat((length.round() as usize).max(1));
    }
    // Eighths of a block, so that a share of one percent is visible.
    let eighths = ((length * 8.0).round() as usize).max(1);
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + part
}

/// A plateau.
pub struct Plateau {
    /// Height, in the unit of y.
    pub y: f64,
    /// Height as printed on the axis.
    pub label: String,
    /// Begin; `None` for the left edge.
    pub from: Option<f64>,
    /// End; `None` for the right edge.
    pub to: Option<f64>,
}

/// Data of a plot. All numbers are finite, and above 0 on logarithmic axes.
pub struct Plot {
    /// Curve, ascending in x; at least two different x.
    pub points: Vec<(f64, f64)>,
    /// Plateaus, ascending; they are labelled `tier 1`, `tier 2` ... above the picture.
    pub plateaus: Vec<Plateau>,
    /// Places on the x axis marked with vertical lines, with their labels.
    pub marks: Vec<(f64, String)>,
    /// Whether x is logarithmic.
    pub log_x: bool,
    /// Whether y is.
    pub log_y: bool,
    /// Whether y begins at zero; then it is not logarithmic.
    pub from_zero: bool,
    /// Text rows of the curve.
    pub rows: usize,
    /// Formats a value of x.
    pub x_label: fn(f64) -> String,
    /// Formats a value of y, if there are no plateaus.
    pub y_label: fn(f64) -> String,
}

/// Characters of a character set.
struct Pen {
    across: char,
    dotted: char,
    mark: char,
    axis: char,
    tick: char,
    corner: char,
    below: char,
    under: char,
    on: char,
    end: char,
    braille: bool,
}

const UNICODE: Pen = Pen {
    across: '\u{2500}',
    dotted: '\u{2508}',
    mark: '\u{250a}',
    axis: '\u{2502}',
    tick: '\u{2524}',
    corner: '\u{2514}',
    below: '\u{252c}',
    under: '\u{2534}',
    on: '\u{253c}',
    end: '\u{25b2}',
    braille: true,
};

const ASCII: Pen = Pen {
    across: '-',
    dotted: '.',
    mark: ':',
    axis: '|',
    tick: '+',
    corner: '+',
    below: '+',
    under: '+',
    on: '+',
    end: '^',
    braille: false,
};

/// Dots in a braille cell: two columns, four rows.
const DOTS: (usize, usize) = (2, 4);

/// Bits of the dots of a braille cell, by column and row (the order of Unicode's block U+2800).
const BITS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// A scale from values to 0..=1.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64> + Clone, log: bool, margin: f64) -> Scale {
        let of = |v: f64| if log { v.log2() } else { v };
        let low = values.clone().map(of).fold(f64::INFINITY, f64::min);
        let high = values.map(of).fold(f64::NEG_INFINITY, f64::max);
        // A flat curve is drawn in the middle.
        let pad = if high > low { (high - low) * margin } else { 0.5 };
        Scale { low: low - pad, high: high + pad, log }
    }

    fn at(&self, v: f64) -> f64 {
        let v = if self.log { v.log2() } else { v };
        ((v - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Returns the value at a position, the inverse of [`at`](Scale::at).
    fn value(&self, at: f64) -> f64 {
        let v = self.low + at * (self.high - self.low);
        if self.log { v.exp2() } else { v }
    }
}

type Cell = (TextRole, char);

struct Canvas<'a> {
    plot: &'a Plot,
    pen: &'static Pen,
    x: Scale,
    y: Scale,
    columns: usize,
    cells: Vec<Vec<Cell>>,
}

const EMPTY: Cell = (TextRole::Plain, ' ');

impl<'a> Canvas<'a> {
    fn new(plot: &'a Plot, columns: usize, pen: &'static Pen) -> Canvas<'a> {
        let heights = plot.points.iter().map(|p| p.1).chain(plot.plateaus.iter().map(|p| p.y));
        Canvas {
            plot,
            pen,
            x: Scale::new(plot.points.iter().map(|p| p.0), plot.log_x, 0.0),
            y: if plot.from_zero {
                let high = heights.fold(0.0, f64::max);
                Scale { low: 0.0, high: if high > 0.0 { high } else { 1.0 }, log: false }
            } else {
                Scale::new(heights, plot.log_y, if plot.log_y { 0.04 } else { 0.0 })
            },
            columns,
            cells: vec![vec![EMPTY; columns]; plot.rows],
        }
    }

    fn column(&self, x: f64) -> usize {
        (self.x.at(x) * (self.columns - 1) as f64).round() as usize
    }

    fn row(&self, y: f64) -> usize {
        ((1.0 - self.y.at(y)) * (self.plot.rows * DOTS.1 - 1) as f64).round() as usize / DOTS.1
    }

    fn put(&mut self, column: usize, row: usize, cell: Cell) {
        if self.cells[row][column] == EMPTY {
            self.cells[row][column] = cell;
        }
    }

    /// Returns the tier of a value of x, from 1; 0 on a rise and without tiers.
    fn tier(&self, x: f64) -> usize {
        let inside = |p: &Plateau| p.from.is_none_or(|from| x > from) && p.to.is_none_or(|to| x <= to);
        self.plot.plateaus.iter().position(inside).map_or(0, |n| n + 1)
    }

    /// Draws the curve: straight lines between points, in dots.
    fn curve(&mut self) {
        let (across, down) = (self.columns * DOTS.0, self.plot.rows * DOTS.1);
        let place = |p: &(f64, f64)| {
            let x = self.x.at(p.0) * (across - 1) as f64;
            (x.round(), ((1.0 - self.y.at(p.1)) * (down - 1) as f64).round())
        };
        let places: Vec<(f64, f64)> = self.plot.points.iter().map(place).collect();
        let mut bits = vec![vec![0u32; self.columns]; self.plot.rows];
        for pair in places.windows(2) {
            let (dx, dy) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            let steps = dx.abs().max(dy.abs()).max(1.0) as usize;
            for step in 0..=steps {
                let t = step as f64 / steps as f64;
                let (c, r) = ((pair[0].0 + t * dx).round() as usize, (pair[0].1 + t * dy).round() as usize);
                bits[r / DOTS.1][c / DOTS.0] |= BITS[c % DOTS.0][r % DOTS.1];
            }
        }
        for (row, line) in bits.iter().enumerate() {
            for (column, &dots) in line.iter().enumerate().filter(|(_, dots)| **dots != 0) {
                let x = self.x.value(column as f64 / (self.columns - 1) as f64);
                let c = if self.pen.braille { char::from_u32(0x2800 + dots).unwrap_or('*') } else { '*' };
                self.put(column, row, (TextRole::Tier(self.tier(x)), c));
            }
        }
    }

    fn marks(&mut self) {
        for (x, _) in &self.plot.marks {
            let column = self.column(*x);
            for row in 0..self.plot.rows {
                self.put(column, row, (TextRole::Dim, self.pen.mark));
            }
        }
    }

    /// Draws each plateau across its tier, and dotted from the axis to its begin.
    fn plateaus(&mut self) {
        for (n, p) in self.plot.plateaus.iter().enumerate() {
            let row = self.row(p.y);
            let from = p.from.map_or(0, |x| self.column(x));
            let to = p.to.map_or(self.columns - 1, |x| self.column(x));
            for column in from..=to.max(from) {
                self.put(column, row, (TextRole::Tier(n + 1), self.pen.across));
            }
            for column in 0..from {
                self.put(column, row, (TextRole::Dim, self.pen.dotted));
            }
        }
    }

    /// Returns the line with the tiers' names over their ranges.
    fn ruler(&self) -> Vec<Cell> {
        let mut line = vec![(TextRole::Dim, self.pen.across); self.columns];
        let mut from = 0;
        for (n, p) in self.plot.plateaus.iter().enumerate() {
            let to = p.to.map_or(self.columns, |x| self.column(x));
            if to < self.columns {
                line[to] = (TextRole::Dim, self.pen.below);
            }
            let room = to.saturating_sub(from);
            let names = [format!(" tier {} ", n + 1), format!(" {} ", n + 1), format!("{}", n + 1)];
            if let Some(name) = names.iter().find(|name| name.len() + 2 <= room) {
                let start = from + (room - name.len()) / 2;
                for (i, c) in name.chars().enumerate() {
                    line[start + i] = (TextRole::Tier(n + 1), c);
                }
            }
            from = (to + 1).max(from);
        }
        line
    }

    /// Returns where labels are below the x axis: at powers of two, or at round numbers.
    fn ticks(&self) -> Vec<f64> {
        // A label needs up to six columns and two of distance.
        let least = 8.0 * (self.x.high - self.x.low) / self.columns as f64;
        let step = if self.x.log { least.ceil().max(1.0) } else { round_step(least) };
        let first =
            if self.x.log { (self.x.low - 1e-9).ceil() } else { ((self.x.low / step) - 1e-9).ceil() * step };
        // A number, because a step may be too small for a large x.
        let all = (0..=self.columns).map(|n| first + n as f64 * step);
        let within = all.take_while(|at| *at <= self.x.high + 1e-9);
        within.map(|at| if self.x.log { at.exp2() } else { at }).collect()
    }

    /// Returns the x axis with its ticks, and the line of sizes under them.
    fn axis(&self) -> (Vec<Cell>, Vec<Cell>) {
        let mut line = vec![(TextRole::Dim, self.pen.across); self.columns];
        let mut labels = vec![EMPTY; self.columns];
        for (x, _) in &self.plot.marks {
            line[self.column(*x)].1 = self.pen.under;
        }
        let mut free = 0;
        for x in self.ticks() {
            let (column, label) = (self.column(x), (self.plot.x_label)(x));
            let start = column.saturating_sub(label.len() / 2).min(self.columns.saturating_sub(label.len()));
            if start >= free && write(&mut labels, start, &label, TextRole::Dim) {
                free = start + label.len() + 1;
                let marked = line[column].1 == self.pen.under;
                line[column].1 = if marked { self.pen.on } else { self.pen.below };
            }
        }
        (line, labels)
    }

    /// Returns the labels of the marks, in as many lines as needed to avoid overlaps.
    fn mark_labels(&self) -> Vec<Vec<Cell>> {
        let mut lines: Vec<Vec<Cell>> = Vec::new();
        for (x, label) in &self.plot.marks {
            let column = self.column(*x);
            let right = format!("{} {label}", self.pen.end);
            let left = format!("{label} {}", self.pen.end);
            let columns = right.chars().count();
            let (start, text) = if column + columns <= self.columns {
                (column, right)
            } else {
                ((column + 1).saturating_sub(columns), left)
            };
            let end = (start + columns).min(self.columns);
            // One column more, so that labels do not touch.
            let is_free = |line: &Vec<Cell>| {
                line[start.saturating_sub(1)..(end + 1).min(self.columns)].iter().all(|c| *c == EMPTY)
            };
            let at = lines.iter().position(is_free).unwrap_or_else(|| {
                lines.push(vec![EMPTY; self.columns]);
                lines.len() - 1
            });
            write(&mut lines[at], start, &text, TextRole::Plain);
        }
        lines
    }
}

/// Returns the next larger one of 1, 2 and 5, times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}

/// Writes `text` at a column if all of it fits. Returns whether it did.
fn write(line: &mut [Cell], start: usize, text: &str, role: TextRole) -> bool {
    let columns = text.chars().count();
    if start + columns > line.len() {
        return false;
    }
    for (i, c) in text.chars().enumerate() {
        line[start + i] = (role, c);
    }
    true
}

/// Returns the labels of the y axis by row: the plateaus' values; without plateaus, the ends and the middle.
fn y_labels(canvas: &Canvas) -> Vec<Option<(TextRole, String)>> {
    let mut labels: Vec<Option<(TextRole, String)>> = vec![None; canvas.plot.rows];
    for (n, p) in canvas.plot.plateaus.iter().enumerate() {
        // Of two plateaus in one text row the lower one is labelled; the table has both.
        labels[canvas.row(p.y)].get_or_insert((TextRole::Tier(n + 1), p.label.clone()));
    }
    if canvas.plot.plateaus.is_empty() {
        let last = canvas.plot.rows - 1;
        for row in [0, last / 2, last] {
            let at = 1.0 - row as f64 / last.max(1) as f64;
            labels[row] = Some((TextRole::Dim, (canvas.plot.y_label)(canvas.y.value(at))));
        }
    }
    labels
}

/// Draws the plot in lines of at most `width` columns (at least 40).
pub fn draw(plot: &Plot, width: usize, unicode: bool) -> Vec<Vec<(TextRole, String)>> {
    let pen = if unicode { &UNICODE } else { &ASCII };
    let widest = plot.plateaus.iter().map(|p| p.label.chars().count()).max().unwrap_or(0);
    // Labels of `y_label` fit into nine columns.
    let margin = if plot.plateaus.is_empty() { 9 } else { widest.min(width / 4) } + 1;
    let mut canvas = Canvas::new(plot, width - margin - 1, pen);
    canvas.curve();
    canvas.marks();
    canvas.plateaus();
    let labels = y_labels(&canvas);
    let blank = " ".repeat(margin + 1);
    let mut lines = Vec::new();
    if !plot.plateaus.is_empty() {
        lines.push(pieces(&[(TextRole::Plain, blank.clone())], &canvas.ruler()));
    }
    for (cells, label) in canvas.cells.iter().zip(labels) {
        let tick = if label.is_some() { pen.tick } else { pen.axis };
        let (role, label) = label.unwrap_or((TextRole::Plain, String::new()));
        let label: String = label.chars().take(margin - 1).collect();
        let head = [(role, format!("{label:>w$} ", w = margin - 1)), (TextRole::Dim, tick.to_string())];
        lines.push(pieces(&head, cells));
    }
    let (axis, sizes) = canvas.axis();
    lines.push(pieces(&[(TextRole::Dim, format!("{}{}", " ".repeat(margin), pen.corner))], &axis));
    lines.push(pieces(&[(TextRole::Plain, blank.clone())], &sizes));
    for labels in canvas.mark_labels() {
        lines.push(pieces(&[(TextRole::Plain, blank.clone())], &labels));
    }
    lines
}

/// Converts cells to pieces of one role each, without blanks at the end.
fn pieces(head: &[(TextRole, String)], cells: &[Cell]) -> Vec<(TextRole, String)> {
    let used = cells.iter().rposition(|c| c.1 != ' ').map_or(0, |at| at + 1);
    let mut out: Vec<(TextRole, String)> = head.to_vec();
    for &(role, c) in &cells[..used] {
        match out.last_mut() {
            Some((last, text)) if *last == role => text.push(c),
            _ => out.push((role, c.to_string())),
        }
    }
    if used == 0
        && let Some((_, text)) = out.last_mut()
    {
        text.truncate(text.trim_end().len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: Vec<(f64, f64)>) -> Vec<String> {
        let plot = Plot {
            points,
            plateaus: Vec::new(),
            marks: Vec::new(),
            log_x: false,
            log_y: false,
            from_zero: true,
            rows: 4,
            x_label: |x| format!("{x}"),
            y_label: |y| format!("{y:.1}"),
        };
        let text = |line: Vec<(TextRole, String)>| line.into_iter().map(|(_, text)| text).collect::<String>();
        draw(&plot, 60, false).into_iter().map(text).collect()
    }

    #[test]
    fn linear_axes_have_round_numbers_and_begin_at_zero() {
        let lines = drawn(vec![(100.0, 1.0), (1000.0, 3.0)]);
        let labels: Vec<f64> =
            lines[lines.len() - 1].split_whitespace().map(|label| label.parse().expect("a number")).collect();
        assert_eq!(labels, [200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert!(
            lines[0].trim_start().starts_with("3.0") && lines[3].trim_start().starts_with("0.0"),
            "{lines:?}"
        );
        let flat = drawn(vec![(1.0, 0.0), (2.0, 0.0)]);
        assert!(
            flat[0].trim_start().starts_with("1.0") && flat[3].trim_start().starts_with("0.0"),
            "{flat:?}"
        );
    }

    /// Numbers of a hostile record, between which there are no others.
    #[test]
    fn steps_that_are_too_small_end() {
        for points in [vec![(1.8e16, 1.0), (1.8e16, 2.0)], vec![(1e300, 1.0), (1.1e300, 2.0)]] {
            assert!(!drawn(points).is_empty());
        }
    }
}
