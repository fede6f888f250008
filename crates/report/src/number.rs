//! Formatting of numbers with the digits that their interval justifies.

use fathom_analysis::findings::{Finding, Value};
use fathom_units::unit_of;

/// A formatted value and its interval; the interval is empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Value, without its unit.
    pub value: String,
    /// `(low..high)`, or empty.
    pub interval: String,
}

/// Mark after a value that is doubtful because its trials were disturbed.
pub(crate) const DOUBTFUL: &str = "!";

/// Returns the text with the mark of a doubtful finding, if it is one.
fn marked(f: &Finding, shown: Shown) -> Shown {
    if f.is_doubtful() { Shown { value: shown.value + DOUBTFUL, ..shown } } else { shown }
}

/// Significant digits of a number without an interval, or with an interval of no width.
const DIGITS_ALONE: i32 = 4;

/// Largest number of decimals: a picosecond of a time in microseconds.
const MAX_DECIMALS: i32 = 6;

/// Range of numbers printed without an exponent, to limit the width of columns.
const PLAIN_RANGE: std::ops::Range<f64> = 1e-4..1e12;

fn exponent(v: f64) -> i32 {
    if v == 0.0 { 0 } else { v.abs().log10().floor() as i32 }
}

/// Returns the number of decimals: two significant digits of the interval's half-width if it begins with 1, else one,
/// so that rounding changes neither end by more than a quarter of it.
fn decimals(value: f64, low: f64, high: f64) -> usize {
    let half = (high - low) / 2.0;
    let digits = if half > 0.0 && half.is_finite() {
        let e = exponent(half);
        let leading = half / 10f64.powi(e);
        if leading < 1.95 { 1 - e } else { -e }
    } else {
        DIGITS_ALONE - 1 - exponent(value)
    };
    digits.clamp(0, MAX_DECIMALS) as usize
}

fn is_plain(v: f64) -> bool {
    v == 0.0 || PLAIN_RANGE.contains(&v.abs())
}

/// Removes the trailing zeros after the point that all `texts` share.
fn trim_together(texts: &mut [String]) {
    while texts.iter().all(|t| t.contains('.') && (t.ends_with('0') || t.ends_with('.'))) {
        for t in texts.iter_mut() {
            t.pop();
        }
        if !texts.iter().all(|t| t.contains('.')) {
            return;
        }
    }
}

fn print(numbers: &[f64], decimals: usize) -> Vec<String> {
    let largest = numbers.iter().fold(0.0, |max: f64, v| max.max(v.abs()));
    if !is_plain(largest) {
        return numbers.iter().map(|v| format!("{v:.3e}")).collect();
    }
    let mut texts: Vec<String> = numbers.iter().map(|v| format!("{v:.decimals$}")).collect();
    for text in &mut texts {
        // A value that rounds to zero has no sign.
        if text.bytes().all(|b| matches!(b, b'-' | b'0' | b'.')) {
            *text = text.trim_start_matches('-').to_string();
        }
    }
    trim_together(&mut texts);
    texts
}

/// Formats a number with its interval. A missing or non-finite end is a question mark.
pub fn shown(value: f64, low: Option<f64>, high: Option<f64>) -> Shown {
    if !value.is_finite() {
        return Shown { value: "none".to_string(), interval: String::new() };
    }
    let ends = [low.filter(|v| v.is_finite()), high.filter(|v| v.is_finite())];
    let decimals = decimals(value, ends[0].unwrap_or(value), ends[1].unwrap_or(value));
    let numbers: Vec<f64> = [Some(value), ends[0], ends[1]].into_iter().flatten().collect();
    let mut texts = print(&numbers, decimals).into_iter();
    let value = texts.next().unwrap_or_default();
    let mut end = |exists: bool| if exists { texts.next().unwrap_or_default() } else { "?".to_string() };
    let interval = match (low, high) {
        (None, None) => String::new(),
        _ => {
            let low = end(ends[0].is_some());
            format!("({low}..{})", end(ends[1].is_some()))
        }
    };
    Shown { value, interval }
}

/// Formats a size with its interval, in the binary unit of the size: `48 KiB`, `(47..49)`.
pub fn size(bytes: f64, low: Option<f64>, high: Option<f64>) -> Shown {
    let (in_it, name) = unit_of(bytes);
    let scaled = |v: f64| v / in_it;
    let shown = shown(scaled(bytes), low.map(scaled), high.map(scaled));
    Shown { value: format!("{} {name}", shown.value), interval: shown.interval }
}

/// Formats a size in few characters, for an axis: `48K`, `2M`.
pub fn short_size(bytes: f64) -> String {
    let (in_it, name) = unit_of(bytes);
    let shown = shown(bytes / in_it, None, None).value;
    format!("{shown}{}", if name == "B" { "" } else { &name[..1] })
}

/// Formats a frequency: `2.94`, `(2.93..2.95)`, and the unit `GHz`.
fn frequency(hz: f64, low: Option<f64>, high: Option<f64>) -> (Shown, &'static str) {
    let (in_it, name) = [(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")]
        .into_iter()
        .find(|(in_it, _)| hz.abs() >= *in_it)
        .unwrap_or((1.0, "Hz"));
    (shown(hz / in_it, low.map(|v| v / in_it), high.map(|v| v / in_it)), name)
}

/// Formats a finding's value, interval and unit for separate cells. A size includes its unit; a frequency is scaled.
pub fn in_cells(f: &Finding) -> (Shown, &'static str) {
    match f.value {
        Value::Number(hz) if f.unit == "Hz" => {
            let (shown, unit) = frequency(hz, f.low, f.high);
            (marked(f, shown), unit)
        }
        _ => (value(f), if f.unit == "bytes" { "" } else { f.unit }),
    }
}

/// Formats a finding's value and interval; sizes in their binary unit, others in the finding's unit. A doubtful value is
/// marked.
pub fn value(f: &Finding) -> Shown {
    let shown = match &f.value {
        Value::Text(text) => Shown { value: text.clone(), interval: interval_alone(f) },
        Value::Number(v) if f.unit == "bytes" => size(*v, f.low, f.high),
        Value::Number(v) if matches!(f.unit, "address" | "hex") && v.is_finite() => Shown {
            // A value that is not a non-negative integer is printed as a number.
            value: if *v < 0.0 || v.fract() != 0.0 {
                shown(*v, None, None).value
            } else {
                format!("{:#04x}", *v as u64)
            },
            interval: shown(*v, f.low, f.high).interval,
        },
        Value::Number(v) => shown(*v, f.low, f.high),
    };
    marked(f, shown)
}

/// Formats a place some bytes after the start of what has this name: `main+0x1c`; the start itself is the name.
pub fn place(name: &str, offset: f64) -> String {
    match offset as u64 {
        0 => name.to_owned(),
        offset => format!("{name}+{offset:#x}"),
    }
}

/// Formats value and interval; two empty cells without a finding.
pub fn cells(f: Option<&Finding>) -> [String; 2] {
    let Shown { value, interval } = f.map(value).unwrap_or_default();
    [value, interval]
}

/// Significant digits of the smallest and of the largest number of a column without intervals.
const COLUMN_DIGITS: (i32, i32) = (3, 5);

/// Formats the values of a column without intervals, all with the same number of decimals, so that they can be
/// compared. A dash without a finding.
pub fn column<'a>(findings: impl Iterator<Item = Option<&'a Finding>> + Clone) -> Vec<String> {
    let finite = |f: &Finding| match f.value {
        Value::Number(v) if v.is_finite() => Some(v),
        _ => None,
    };
    let sizes: Vec<f64> = findings.clone().flatten().filter_map(finite).map(f64::abs).collect();
    let largest = sizes.iter().fold(0.0f64, |max, v| max.max(*v));
    let smallest = sizes.iter().filter(|v| **v > 0.0).fold(largest, |min, v| min.min(*v));
    // A single number keeps the digits that its interval justifies.
    if sizes.len() < 2 {
        return findings.map(|f| f.map_or_else(|| "-".to_owned(), |f| value(f).value)).collect();
    }
    let (min_digits, max_digits) = COLUMN_DIGITS;
    let decimals = match sizes.iter().all(|v| v.fract() == 0.0) {
        true => 0,
        false => (min_digits - 1 - exponent(smallest))
            .min(max_digits - 1 - exponent(largest))
            .clamp(0, MAX_DECIMALS),
    };
    let show = |f: Option<&Finding>| match f.map(|f| (f, finite(f))) {
        None => "-".to_owned(),
        Some((_, Some(0.0))) => "0".to_owned(),
        Some((f, Some(v))) if is_plain(largest) && f.unit != "bytes" => {
            let mark = if f.is_doubtful() { DOUBTFUL } else { "" };
            format!("{v:.decimals$}{mark}", decimals = decimals as usize)
        }
        Some((f, _)) => value(f).value,
    };
    findings.map(show).collect()
}

/// Formats the interval of a finding whose value is a text.
fn interval_alone(f: &Finding) -> String {
    let middle = match (f.low, f.high) {
        (None, None) => return String::new(),
        (Some(low), Some(high)) => f64::midpoint(low, high),
        (end, None) | (None, end) => end.unwrap_or(0.0),
    };
    if f.unit == "bytes" {
        // The unit is normally part of the value.
        let shown = size(middle, f.low, f.high);
        let unit = shown.value.rsplit(' ').next().unwrap_or("B").to_string();
        return format!("{} {unit}", shown.interval);
    }
    shown(middle, f.low, f.high).interval
}

/// Formats a height on an axis with two digits.
pub fn height(v: f64) -> String {
    match v {
        // A value that rounds to zero has no sign.
        v if v.abs() < 0.05 => "0.0".to_owned(),
        v if v.abs() < 1e7 => format!("{v:.1}"),
        v => format!("{v:.1e}"),
    }
}

/// Formats a number on an axis, in few characters: `0.5`, `12`, `54k`.
pub fn short_number(v: f64) -> String {
    let scaled = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(in_it, _)| v.abs() >= *in_it);
    let (v, unit) = scaled.map_or((v, ""), |(in_it, unit)| (v / in_it, unit));
    match v {
        v if !is_plain(v) || v.abs() < 0.01 => format!("{v:.0e}{unit}"),
        v if v.abs() < 0.995 => format!("{v:.2}{unit}"),
        v if v.abs() < 9.95 => format!("{v:.1}{unit}"),
        v => format!("{v:.0}{unit}"),
    }
}

/// Formats a ratio with two digits; without decimals from ten on.
pub fn shown_ratio(ratio: f64) -> String {
    match ratio {
        r if r < 9.95 => format!("{r:.1}"),
        r if is_plain(r) => format!("{r:.0}"),
        r => format!("{r:.1e}"),
    }
}
