//! Publishable forms of a report: a row for a table of machines, a collapsible block for an issue or a forum, JSON for
//! a database. Without personal data, and safe to paste for any record.
//!
//! Only listed content is included: names of findings in the schema, the facts of `FACTS`, and sentences made by the
//! analysis. The remaining text is searched for identifying words, which are replaced. A record is untrusted input: its
//! text cannot end the table's row or the block.

use fathom_analysis::findings::tokens::Tokens;
use fathom_analysis::findings::{
    Axis, Coordinate, Detail, Finding, Item, Kind, Refused, Report, Value, Warning,
};
use fathom_units::facts::{self, ValueClass};

use fathom_analysis::metrics::latency::REFUSED;

use crate::kind::ReportKind;
use crate::schema::TRUST;
use crate::style::Style;
use crate::terminal::terminal;

/// Facts about the machine and its settings that do not identify an owner. The kernel's release is cut to its numbers,
/// because the rest is free text.
const FACTS: [&str; 12] = [
    facts::CPU_MODEL,
    facts::BOARD_MODEL,
    facts::MACHINE,
    facts::CPU_MICROCODE,
    facts::KERNEL_RELEASE,
    facts::FREQ_GOVERNOR,
    facts::THP_ENABLED,
    facts::MITIGATIONS,
    facts::CLOCK_NAME,
    facts::PAGE_BASE,
    facts::PAGE_HUGE,
    facts::PRIVILEGE_FIFO,
];

/// Returns whether the fact is a count of a description's values or neighbours, which the head of the report states.
fn is_count_of_values(name: &str) -> bool {
    [facts::DESCRIBED_VALUES, facts::DESCRIBED_VALUES_UNCLASSIFIED, facts::DESCRIBED_NEIGHBOURS]
        .contains(&name)
        || ValueClass::ALL.iter().any(|class| facts::described_values(*class) == name)
}

/// Replacement for removed text.
const REMOVED: &str = "[left out]";

/// Returns a report without data that identify an owner, a user, a host or a specimen. `subject` is a public name
/// (`host`, a built-in machine); without it the subject is "a machine".
#[must_use]
pub fn anonymous(report: &Report, subject: Option<&str>) -> Report {
    let plain =
        |word: &str| !word.is_empty() && word.len() <= 20 && word.bytes().all(|b| b.is_ascii_lowercase());
    let known = |text: &str, words: &Tokens| words.contains(text);
    let experiment = if plain(&report.experiment) { report.experiment.as_str() } else { "unknown" };
    let trust = if known(&report.trust, TRUST) { report.trust.as_str() } else { "unknown" };
    let facts = report.facts.iter().filter(|(name, _)| {
        FACTS.contains(&name.as_str())
            || is_count_of_values(name)
            || name == facts::MACHINE_NAME && subject.is_some_and(|s| s != "host")
    });
    Report {
        experiment: experiment.to_owned(),
        subject: subject.unwrap_or("a machine").to_owned(),
        trust: trust.to_owned(),
        facts: facts.map(|(name, value)| (name.clone(), fact(name, value))).collect(),
        seed: report.seed,
        elapsed_s: report.elapsed_s,
        findings: report.findings.iter().filter_map(finding).collect(),
        histograms: report.histograms.iter().filter(|h| h.key.at.iter().all(ours)).cloned().collect(),
        // Reasons may quote paths, limits and free text of the probe.
        refusals: report.refusals.iter().map(|_| refused()).collect(),
        // The words of a description of a user's own are free text.
        sensitivity: report.sensitivity.clone().filter(|_| subject.is_some()),
        warnings: report.warnings.iter().map(|w| Warning::new(w.kind, w.kind.about(), "")).collect(),
    }
}

fn refused() -> Refused {
    Refused {
        what: "a trial".to_owned(),
        reason: "its reason is in the record, and is not shared".to_owned(),
        remedy: String::new(),
    }
}

fn fact(name: &str, value: &str) -> String {
    if name == facts::KERNEL_RELEASE {
        let numbers = |c: char| c.is_ascii_digit() || c == '.';
        return value.chars().take_while(|c| numbers(*c)).take(20).collect();
    }
    without_names(value)
}

/// Returns whether a coordinate is not free text.
fn ours((_, coordinate): &(Axis, Coordinate)) -> bool {
    !matches!(coordinate, Coordinate::Text(_))
}

/// Returns a finding without free text, if its value is a number or a token of its kind.
fn finding(f: &Finding) -> Option<Finding> {
    let known = match (f.key.metric.kind, &f.value) {
        (Kind::Number, Value::Number(_)) => true,
        (Kind::Token(words), Value::Text(text)) => words.contains(text),
        (Kind::Tokens(words), Value::Text(text)) => {
            text == "none" || text.split(',').all(|word| words.contains(word))
        }
        _ => false,
    };
    if !known {
        return None;
    }
    // The reason of a refusal is free text of the probe.
    let notes = if f.detail.flag(REFUSED) { &[][..] } else { &f.notes };
    let notes = notes.iter().map(|note| without_names(note)).collect();
    Some(Finding { notes, detail: detail(f), ..f.clone() })
}

/// Returns the fields that are numbers or listed words; others may be free text of the probe or the kernel.
fn detail(f: &Finding) -> Detail {
    let mut kept = Detail::default();
    for field in f.key.metric.detail {
        let known = |word: &String| field.words.is_some_and(|words| words.contains(word));
        let Some(item) = f.detail.get(*field) else { continue };
        let plain = match item {
            Item::Flag(_) | Item::Number(_) => true,
            Item::Token(word) => known(word),
            Item::Tokens(words) => words.iter().all(known),
            Item::Numbers(pairs) => pairs.iter().all(|(word, _)| known(word)),
        };
        if plain {
            kept.set(*field, item.clone());
        }
    }
    kept
}

/// Returns text without words that may identify an owner, a place or a specimen.
fn without_names(text: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let mut after_label = false;
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| "\"'`(),;:.[]{}<>".contains(c));
        let label = LABELS.contains(&bare.to_ascii_lowercase().as_str());
        if after_label || label || is_identifying(bare) || is_labelled(bare) {
            if out.last() != Some(&REMOVED) {
                out.push(REMOVED);
            }
        } else {
            out.push(word);
        }
        after_label = label;
    }
    out.join(" ")
}

/// Words that precede a name or a number of one specimen.
const LABELS: [&str; 10] =
    ["serial", "s/n", "sn", "uuid", "hostname", "user", "username", "owner", "mac", "imei"];

/// Returns whether the word is like `serial:4711`, `owner=bob` or `SN4711`.
fn is_labelled(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let value = |label: &&str| word.strip_prefix(*label).and_then(|rest| rest.chars().next());
    LABELS.iter().filter_map(value).any(|c| c.is_ascii_digit() || ":=#".contains(c))
}

/// Paths that are the same on every Linux.
const COMMON_PATHS: [&str; 4] = ["/proc/", "/sys/devices/", "/sys/kernel/", "/sys/firmware/"];

/// Returns whether the word is an address, a path, a UUID, or a long number.
fn is_identifying(word: &str) -> bool {
    let path = word.starts_with(['/', '~', '\\'])
        || word.starts_with("./")
        || word.starts_with("../")
        || ["=/", "/home/", "/root/", "/Users/", ":\\"].iter().any(|p| word.contains(p));
    if path && !COMMON_PATHS.iter().any(|place| word.starts_with(place))
        || word.contains('@')
        || word.contains("://")
    {
        return true;
    }
    // `name=value` and `model-SERIAL` are checked part by part.
    word.split(['=', '_', '/', ',', ';']).any(looks_unique)
}

/// Returns whether the word is a hexadecimal string of at least twelve digits (ignoring dashes) with a decimal digit in
/// it, as of a UUID, a serial number or a disk; pairs or groups separated by colons; or four numbers separated by dots.
/// `fathom-host` has the same test for new facts; there is no common crate for it.
fn looks_unique(word: &str) -> bool {
    let hex = |c: char| c.is_ascii_hexdigit();
    let long = |c: char| hex(c) || c == '-';
    let digits = word.chars().filter(|c| hex(*c)).count();
    let number = word.chars().all(long) && digits >= 12 && word.chars().any(|c| c.is_ascii_digit());
    let colons = word.matches(':').count();
    let groups = word.chars().all(|c| hex(c) || ":.%".contains(c)) && (colons >= 3 || word.contains("::"));
    let dashed = word.split('-').filter(|p| p.len() == 2 && p.chars().all(hex)).count() >= 6;
    let host = word.split(':').next().unwrap_or(word);
    let quad: Vec<&str> = host.split('.').collect();
    number || groups || dashed || quad.len() == 4 && quad.iter().all(|q| q.parse::<u8>().is_ok())
}

/// Returns the name of the machine: its board, its processor, or its description.
fn machine(report: &Report) -> &str {
    let of = |name: &str| report.facts.iter().find(|f| f.0 == name).map(|f| f.1.as_str());
    let known = [facts::BOARD_MODEL, facts::CPU_MODEL, facts::MACHINE_NAME].iter().find_map(|name| of(name));
    known.filter(|name| !name.is_empty()).unwrap_or("unnamed")
}

/// A column that an experiment adds to the table of machines.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Head.
    pub head: &'static str,
    /// Returns the cell for a report; empty if nothing was found.
    pub cell: fn(&Report) -> String,
}

/// Returns the two header lines of the Markdown table.
#[must_use]
pub fn header(columns: &[Column]) -> String {
    let heads: Vec<&str> =
        ["machine", "trust"].into_iter().chain(columns.iter().map(|column| column.head)).collect();
    format!("| {} |\n|{}\n", heads.join(" | "), " --- |".repeat(heads.len()))
}

/// Returns the row of an [`anonymous`] report in that table.
#[must_use]
pub fn row(report: &Report, columns: &[Column]) -> String {
    let own = [machine(report).to_owned(), report.trust.clone()];
    let cells = own.into_iter().chain(columns.iter().map(|column| (column.cell)(report)));
    format!("| {} |\n", cells.map(|cell| markdown(&cell)).collect::<Vec<_>>().join(" | "))
}

/// Escapes text for a Markdown table: no markup, and no end of the cell.
fn markdown(text: &str) -> String {
    let mut out = String::new();
    for c in super::text::clean(text, true).chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns a collapsible block with the whole [`anonymous`] report.
#[must_use]
pub fn details(report: &Report, kind: &ReportKind) -> String {
    let text = terminal(report, kind, &Style::default(), None);
    // Longer than any run of backticks in the text, so that no line closes the fence.
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let summary = markdown(&format!("{}: {} ({})", report.experiment, machine(report), report.trust));
    format!("<details>\n<summary>{summary}</summary>\n\n{fence}text\n{text}{fence}\n\n</details>\n")
}

/// Returns the findings of an [`anonymous`] report as JSON: the document that `--json` prints, with cleaned text.
#[must_use]
pub fn json(report: &Report, kind: &ReportKind) -> String {
    crate::json::json(&crate::text::clean_report(report, true), kind)
}

#[cfg(test)]
mod tests {
    use super::without_names;

    #[test]
    fn common_paths_and_numbers_are_not_removed() {
        for text in
            ["n/2n at 16 MiB (0.5..0.7)", "see /proc/meminfo", "5.10.0 at 2.4 GHz", "page 4096 of 2097152"]
        {
            assert_eq!(without_names(text), text);
        }
    }
}
