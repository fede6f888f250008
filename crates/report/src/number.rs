//! Numbers with as many digits as their interval justifies.

use fathom_analysis::findings::{Finding, Value};
use fathom_units::unit_of;

/// A value and its interval as they are printed; the interval is empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The value, without its unit.
    pub value: String,
    /// `(low..high)`, or nothing.
    pub interval: String,
}

/// Significant digits of a number that has no interval, or an interval of no width: enough to
/// compare by, and no claim beyond.
const DIGITS_ALONE: i32 = 4;

/// Digits after the point that no number exceeds: a picosecond of a time in microseconds.
const MAX_DECIMALS: i32 = 6;

/// Beyond these a number is printed with an exponent, so that a column stays a column.
const PLAIN: std::ops::Range<f64> = 1e-4..1e12;

fn exponent(v: f64) -> i32 {
    if v == 0.0 { 0 } else { v.abs().log10().floor() as i32 }
}

/// Digits after the point: two significant ones of the interval's half-width where it begins with
/// 1, else one, so that printing moves neither end by more than a quarter of it.
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
    v == 0.0 || PLAIN.contains(&v.abs())
}

/// Removes the trailing zeros that all of `texts` share after the point.
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
    let largest = numbers.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    if !is_plain(largest) {
        return numbers.iter().map(|v| format!("{v:.3e}")).collect();
    }
    let mut texts: Vec<String> = numbers.iter().map(|v| format!("{v:.decimals$}")).collect();
    for text in &mut texts {
        // What rounds to nothing is nothing, not a negative nothing.
        if text.bytes().all(|b| matches!(b, b'-' | b'0' | b'.')) {
            *text = text.trim_start_matches('-').to_string();
        }
    }
    trim_together(&mut texts);
    texts
}

/// A number with its interval. An end that is missing or not finite is a question mark.
pub fn shown(value: f64, low: Option<f64>, high: Option<f64>) -> Shown {
    if !value.is_finite() {
        return Shown { value: "none".to_string(), interval: String::new() };
    }
    let ends = [low.filter(|v| v.is_finite()), high.filter(|v| v.is_finite())];
    let decimals = decimals(value, ends[0].unwrap_or(value), ends[1].unwrap_or(value));
    let numbers: Vec<f64> = [Some(value), ends[0], ends[1]].into_iter().flatten().collect();
    let mut texts = print(&numbers, decimals).into_iter();
    let value = texts.next().unwrap_or_default();
    let mut end = |there: bool| if there { texts.next().unwrap_or_default() } else { "?".to_string() };
    let interval = match (low, high) {
        (None, None) => String::new(),
        _ => {
            let low = end(ends[0].is_some());
            format!("({low}..{})", end(ends[1].is_some()))
        }
    };
    Shown { value, interval }
}

/// A size with its interval, in the binary unit of the size: `48 KiB`, `(47..49)`.
pub fn size(bytes: f64, low: Option<f64>, high: Option<f64>) -> Shown {
    let (in_it, name) = unit_of(bytes);
    let scaled = |v: f64| v / in_it;
    let shown = shown(scaled(bytes), low.map(scaled), high.map(scaled));
    Shown { value: format!("{} {name}", shown.value), interval: shown.interval }
}

/// A size in few characters, for an axis: `48K`, `2M`.
pub fn short_size(bytes: f64) -> String {
    let (in_it, name) = unit_of(bytes);
    let shown = shown(bytes / in_it, None, None).value;
    format!("{shown}{}", if name == "B" { "" } else { &name[..1] })
}

/// A frequency and its unit: `2.94`, `(2.93..2.95)`, `GHz`.
fn frequency(hz: f64, low: Option<f64>, high: Option<f64>) -> (Shown, &'static str) {
    let (in_it, name) = [(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")]
        .into_iter()
        .find(|(in_it, _)| hz.abs() >= *in_it)
        .unwrap_or((1.0, "Hz"));
    (shown(hz / in_it, low.map(|v| v / in_it), high.map(|v| v / in_it)), name)
}

/// A finding's value, interval and unit, each for a cell of its own. A size carries its unit with
/// it; a frequency is scaled.
pub fn in_cells(f: &Finding) -> (Shown, &'static str) {
    match f.value {
        Value::Number(hz) if f.unit == "Hz" => frequency(hz, f.low, f.high),
        _ => (value(f), if f.unit == "bytes" { "" } else { f.unit }),
    }
}

/// A finding's value and interval; sizes in their binary unit, everything else in the finding's.
pub fn value(f: &Finding) -> Shown {
    match &f.value {
        Value::Text(text) => Shown { value: text.clone(), interval: interval_alone(f) },
        Value::Number(v) if f.unit == "bytes" => size(*v, f.low, f.high),
        Value::Number(v) if f.unit == "address" && v.is_finite() => Shown {
            // What is no address is none: it is printed as the number it is.
            value: if *v < 0.0 || v.fract() != 0.0 {
                shown(*v, None, None).value
            } else {
                format!("{:#04x}", *v as u64)
            },
            interval: shown(*v, f.low, f.high).interval,
        },
        Value::Number(v) => shown(*v, f.low, f.high),
    }
}

/// Value and interval, or two empty cells where there is no finding.
pub fn cells(f: Option<&Finding>) -> [String; 2] {
    let Shown { value, interval } = f.map(value).unwrap_or_default();
    [value, interval]
}

/// Significant digits of the smallest number of a column without intervals, and of its largest.
const COLUMN_DIGITS: (i32, i32) = (3, 5);

/// Values of a column that shows no intervals: all with as many digits after the point, so that they can be
/// compared. A dash where there is no finding.
pub fn column<'a>(findings: impl Iterator<Item = Option<&'a Finding>> + Clone) -> Vec<String> {
    let finite = |f: &Finding| match f.value {
        Value::Number(v) if v.is_finite() => Some(v),
        _ => None,
    };
    let sizes: Vec<f64> = findings.clone().flatten().filter_map(finite).map(f64::abs).collect();
    let largest = sizes.iter().fold(0.0f64, |most, v| most.max(*v));
    let smallest = sizes.iter().filter(|v| **v > 0.0).fold(largest, |least, v| least.min(*v));
    // One number has nothing to be compared with: it keeps the digits that its interval justifies.
    if sizes.len() < 2 {
        return findings.map(|f| f.map_or_else(|| "-".to_owned(), |f| value(f).value)).collect();
    }
    let (least, most) = COLUMN_DIGITS;
    let decimals = match sizes.iter().all(|v| v.fract() == 0.0) {
        true => 0,
        false => (least - 1 - exponent(smallest)).min(most - 1 - exponent(largest)).clamp(0, MAX_DECIMALS),
    };
    let show = |f: Option<&Finding>| match f.map(|f| (f, finite(f))) {
        None => "-".to_owned(),
        Some((_, Some(0.0))) => "0".to_owned(),
        Some((f, Some(v))) if is_plain(largest) && f.unit != "bytes" => {
            format!("{v:.decimals$}", decimals = decimals as usize)
        }
        Some((f, _)) => value(f).value,
    };
    findings.map(show).collect()
}

/// The interval of a finding whose value is a word.
fn interval_alone(f: &Finding) -> String {
    let middle = match (f.low, f.high) {
        (None, None) => return String::new(),
        (Some(low), Some(high)) => f64::midpoint(low, high),
        (end, None) | (None, end) => end.unwrap_or(0.0),
    };
    if f.unit == "bytes" {
        // The unit is otherwise on the value.
        let shown = size(middle, f.low, f.high);
        let unit = shown.value.rsplit(' ').next().unwrap_or("B").to_string();
        return format!("{} {unit}", shown.interval);
    }
    shown(middle, f.low, f.high).interval
}

/// A height on an axis: two digits are enough to read one by.
pub fn height(v: f64) -> String {
    match v {
        // Not a negative nothing.
        v if v.abs() < 0.05 => "0.0".to_owned(),
        v if v.abs() < 1e7 => format!("{v:.1}"),
        v => format!("{v:.1e}"),
    }
}

/// A number on an axis, in few characters: `0.5`, `12`, `54k`.
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

/// A ratio: two digits, as many as a reader compares by; whole from ten on.
pub fn shown_ratio(ratio: f64) -> String {
    match ratio {
        r if r < 9.95 => format!("{r:.1}"),
        r if is_plain(r) => format!("{r:.0}"),
        r => format!("{r:.1e}"),
    }
}
