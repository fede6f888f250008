//! Formats a drafted description as a file of the description format, with the source of every value in a comment.

use fathom_analysis::draft::{Draft, Grounds, Key, Table, Written};
use fathom_units::compact;
use fathom_units::facts::ValueClass;

use crate::number;
use crate::text::{clean, wrap};

/// Longest line in columns, except for a long line about the machine.
const MAX_WIDTH: usize = 112;

/// Column in which comments begin, if they fit.
const COMMENT_COLUMN: usize = 32;

/// Formats the draft as a file, with a final newline. Text from a record cannot end a comment or a string.
#[must_use]
pub fn draft(d: &Draft) -> String {
    let mut out = String::new();
    for remark in &d.remarks {
        comment(&mut out, &clean(remark, true));
    }
    out += &format!("format = 1\nabout = {}\n", quoted(&clean(&d.about, true)));
    for table in &d.tables {
        write_table(&mut out, table);
    }
    out
}

fn comment(out: &mut String, text: &str) {
    for line in wrap(text, MAX_WIDTH, "# ", "# ") {
        *out += &line;
        out.push('\n');
    }
}

fn write_table(out: &mut String, table: &Table) {
    let (open, close) = if table.listed { ("[[", "]]") } else { ("[", "]") };
    *out += &format!("\n{open}{}{close}\n", table.name);
    for key in &table.keys {
        write_key(out, key);
    }
    write_classes(out, table);
}

/// Writes the key with the classes of the table's values. Its lists may be broken into lines, which TOML allows.
fn write_classes(out: &mut String, table: &Table) {
    let mut pieces: Vec<String> = Vec::new();
    // A draft comes from a record, so no value is from a study.
    for class in [ValueClass::Manual, ValueClass::Measured, ValueClass::Assumed] {
        let keys = table.keys.iter().filter(|key| key.grounds.class == Some(class));
        let mut open = Some(format!("{} = [", class.word()));
        for key in keys {
            match (open.take(), pieces.last_mut()) {
                (Some(open), Some(last)) => *last = format!("{}], {open}", last.trim_end_matches(',')),
                (Some(open), None) => pieces.push(format!("classes = {{ {open}")),
                (None, _) => {}
            }
            pieces.push(format!("{},", quoted(key.key)));
        }
    }
    let Some(last) = pieces.last_mut() else { return };
    *last = format!("{}] }}", last.trim_end_matches(','));
    let mut line = String::new();
    for piece in pieces {
        let space = if line.is_empty() || line.ends_with('[') { "" } else { " " };
        if line.len() + space.len() + piece.len() > MAX_WIDTH {
            *out += &format!("{line}\n");
            line = format!("    {piece}");
        } else {
            line += &format!("{space}{piece}");
        }
    }
    *out += &format!("{line}\n");
}

/// Writes a key with its source in a trailing comment, or above it if the line would be too long.
fn write_key(out: &mut String, key: &Key) {
    let source = clean(&grounds(&key.grounds), true);
    let line = format!("{} = {}", key.key, written(&key.value));
    let whole = format!("{line:<COMMENT_COLUMN$}# {source}");
    if source.is_empty() {
        *out += &line;
    } else if whole.chars().count() <= MAX_WIDTH {
        *out += &whole;
    } else {
        comment(out, &source);
        *out += &line;
    }
    out.push('\n');
}

/// Formats a source: `tier.1.capacity 32.00 KiB (31.90..32.12), n 34: how it was chosen`.
fn grounds(g: &Grounds) -> String {
    let Some(f) = &g.found else { return g.comment.clone() };
    let (shown, unit) = number::in_cells(f);
    let name = f.name();
    let parts = [name.as_str(), &shown.value, unit, &shown.interval];
    let words: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    let colon = if g.comment.is_empty() { "" } else { ": " };
    format!("{}, n {}{colon}{}", words.join(" "), f.count, g.comment)
}

fn written(value: &Written) -> String {
    match value {
        Written::Text(text) => quoted(&clean(text, true)),
        Written::Count(n) => n.to_string(),
        Written::Flag(yes) => yes.to_string(),
        Written::Size(bytes) => quoted(&compact(*bytes)),
        Written::Sizes(all) => {
            let all: Vec<String> = all.iter().map(|bytes| quoted(&compact(*bytes))).collect();
            format!("[{}]", all.join(", "))
        }
        Written::Cycles(v) => quoted(&format!("{v} cycles")),
        Written::Ns(v) => quoted(&format!("{v} ns")),
        Written::Hz(v) => quoted(&frequency(*v)),
    }
}

/// Formats a frequency in the largest unit of which it is at least one, if that reads back as the same number.
fn frequency(hz: f64) -> String {
    let units = [("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3)];
    let same = |(_, scale): &(&str, f64)| hz >= *scale && hz / scale * scale == hz;
    match units.into_iter().find(same) {
        Some((unit, scale)) => format!("{} {unit}", hz / scale),
        None => format!("{hz} Hz"),
    }
}

/// Quotes text as a TOML basic string; it has no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_use_the_units_of_the_format() {
        for (bytes, shown) in
            [(0, "0"), (64, "64"), (48 << 10, "48K"), (4352 << 10, "4352K"), (1 << 40, "1T")]
        {
            assert_eq!(written(&Written::Size(bytes)), format!("\"{shown}\""));
        }
        for (hz, shown) in
            [(600e6, "600 MHz"), (1.5e9, "1.5 GHz"), (32768.0, "32.768 kHz"), (100.0, "100 Hz")]
        {
            assert_eq!(frequency(hz), shown);
        }
    }
}
