//! Distributions on one logarithmic axis, a line per condition: darker means more activations.

use fathom_analysis::findings::{Axis, Histogram};
use fathom_analysis::metrics::wakeup as metrics;

use fathom_report::finding_index::FindingIndex;
use fathom_report::number::short_number;
use fathom_report::page::{Pieces, TextRole};

/// One condition.
pub(super) struct Line<'a> {
    condition: String,
    histogram: &'a Histogram,
}

/// Shades by the power of ten of the count: 1, 10, 100, 1000, 10000 and more.
const UNICODE: [char; SHADES] = ['\u{b7}', '\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];
const ASCII: [char; SHADES] = ['.', ':', 'o', '%', '@'];
const SHADES: usize = 5;
/// Minimum number of columns between two labels of the axis.
const MIN_LABEL_GAP: usize = 10;

/// Returns the distributions at a place, in the order of the conditions' tokens.
pub(super) fn of<'a>(place: &str, finding_index: &mut FindingIndex<'a>) -> Vec<Line<'a>> {
    let here =
        |h: &Histogram| h.is(&metrics::WAKEUPS) && h.key.word(Axis::Place).is_some_and(|of| of == place);
    let mut all = finding_index.histograms(|h| here(h) && bars(h).next().is_some());
    all.sort_by(|a, b| a.key.at.cmp(&b.key.at));
    let line =
        |histogram: &'a Histogram| Some(Line { condition: histogram.key.word(Axis::Condition)?, histogram });
    all.into_iter().filter_map(line).collect()
}

/// Returns the bars that the axis can show.
pub(super) fn bars(h: &Histogram) -> impl Iterator<Item = (f64, u64)> {
    h.counts.iter().copied().filter(|(v, n)| v.is_finite() && *v > 0.0 && *n > 0)
}

/// Returns the lines, within `width` columns (at least 40), the axis and the key.
pub(super) fn draw(lines: &[Line], width: usize, unicode: bool) -> Vec<Pieces> {
    let pens = if unicode { UNICODE } else { ASCII };
    // Conditions are printed before their lines: the longest word and a blank.
    let margin = 1 + lines.iter().map(|line| line.condition.len()).max().unwrap_or(0);
    let columns = width - margin;
    let all = || lines.iter().flat_map(|line| bars(line.histogram)).map(|(v, _)| v.log2());
    let (low, high) = all().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    // A single value is in the middle of an octave.
    let (low, high) = if high > low { (low, high) } else { (low - 0.5, high + 0.5) };
    let at = |v: f64| ((v.log2() - low) / (high - low) * (columns - 1) as f64).round() as usize;
    let mut drawn: Vec<Pieces> = lines
        .iter()
        .map(|line| {
            let mut counts = vec![0u64; columns];
            for (v, n) in bars(line.histogram) {
                let cell = &mut counts[at(v).min(columns - 1)];
                *cell = cell.saturating_add(n);
            }
            let mut pieces = vec![(TextRole::Plain, format!("{:<w$}", line.condition, w = margin))];
            let used = counts.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
            pieces.extend(counts[..used].iter().map(|n| match n.checked_ilog10() {
                None => (TextRole::Plain, " ".to_owned()),
                Some(power) => {
                    let shade = (power as usize).min(SHADES - 1);
                    (TextRole::Heat(shade), pens[shade].to_string())
                }
            }));
            pieces
        })
        .collect();
    drawn.push(vec![(TextRole::Dim, axis(low, high, margin, columns))]);
    drawn.push(key(&pens));
    drawn
}

/// Returns the axis: values below their columns, as many as fit.
fn axis(low: f64, high: f64, margin: usize, columns: usize) -> String {
    let mut line = " ".repeat(margin);
    let mut column = 0;
    while column < columns {
        let v = (low + (high - low) * column as f64 / (columns - 1) as f64).exp2();
        let label = short_number(v);
        if column + label.len() > columns {
            break;
        }
        line += &" ".repeat(margin + column - line.len());
        line += &label;
        column += MIN_LABEL_GAP.max(label.len() + 1);
    }
    line
}

/// Returns the legend of the shades, in 36 columns.
fn key(pens: &[char; SHADES]) -> Pieces {
    let mut line = vec![(TextRole::Plain, "  ".to_owned())];
    for (power, pen) in pens.iter().enumerate() {
        let more = if power + 1 == SHADES { "+" } else { "" };
        line.push((TextRole::Heat(power), pen.to_string()));
        line.push((
            TextRole::Dim,
            format!(" {}{more}{}", 10u64.pow(power as u32), if more.is_empty() { "  " } else { "" }),
        ));
    }
    line
}
