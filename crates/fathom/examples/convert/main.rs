//! Converts records and findings to the names of `docs/names.tsv`, and proves that only names changed.
//!
//! `convert FILE...` rewrites each file in place; files with the new names are not changed. `convert --prove OLD NEW`
//! compares a file with its converted form: every line of the record and every finding of the document must be present
//! under its new name with the same values. The exit status is 1 if one is not.
//!
//! No release has the old names, so this program is removed before the first release.

mod facts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use fathom_experiment::record::file::{self, resumable};
use fathom_probe::wire::{Line, Value};
use serde_json::Value as Json;

/// The table: a header, then the columns kind, old, new, where and why.
const TABLE: &str = include_str!("../../../../docs/names.tsv");

/// First word of the line after which a probe numbers its lines from 1 again.
const GREETING: &str = "probe";

/// The line that ends the facts, with their number.
const FACTS_END: &str = "facts_end";

/// New name of findings that were removed for the reason in the table.
const GONE: &str = "-";

/// The first line of every record.
const RECORD: &str = "fathom.record ";

/// Rules of the table for records and findings.
#[derive(Default)]
struct Names {
    /// Words of wire lines.
    words: BTreeMap<&'static str, &'static str>,
    /// Keys, by the line's new word and the old key.
    keys: BTreeMap<(&'static str, &'static str), &'static str>,
    /// Tokens, by the line's new word, the key and the old token.
    tokens: BTreeMap<(&'static str, &'static str, &'static str), &'static str>,
    /// Numbers that became text: the line's new word, the new key, the number (`N` matches any digits) and the text.
    values: Vec<(&'static str, &'static str, &'static str, &'static str)>,
    facts: BTreeMap<&'static str, &'static str>,
    experiments: BTreeMap<&'static str, &'static str>,
    warnings: BTreeMap<&'static str, &'static str>,
    /// New name of a finding (`*` matches any part), its old unit and its new unit.
    units: Vec<(&'static str, &'static str, &'static str)>,
    /// Verbs that have the option, the old option, and its new name.
    options: Vec<(&'static str, &'static str, &'static str)>,
    /// Names of findings as parts; a part in capitals matches any part.
    findings: Vec<(Vec<&'static str>, Vec<&'static str>)>,
    /// Keys of `subject` in a document.
    subject: BTreeMap<&'static str, &'static str>,
}

/// Returns the new name of `old`, or `old` if it is unchanged.
fn renamed<'a>(names: &BTreeMap<&'static str, &'static str>, old: &'a str) -> &'a str {
    names.get(old).copied().unwrap_or(old)
}

impl Names {
    fn read() -> Names {
        let mut names = Names::default();
        for row in TABLE.lines().skip(1) {
            let mut columns = row.split('\t');
            let mut next = || columns.next().unwrap_or_default();
            let (kind, old, new, place) = (next(), next(), next(), next());
            let (line, rest) = old.split_once(' ').unwrap_or(("", old));
            match kind {
                "wire-line-word" => drop(names.words.insert(old, new)),
                "wire-key" => drop(names.keys.insert((line, rest), new)),
                "token" => {
                    let (key, token) = rest.split_once('=').unwrap_or((rest, ""));
                    names.tokens.insert((line, key, token), new);
                }
                "value" => {
                    let (key, number) = rest.split_once('=').unwrap_or((rest, ""));
                    names.values.push((line, key, number, new));
                }
                "fact" => drop(names.facts.insert(old, new)),
                "experiment" => drop(names.experiments.insert(old, new)),
                "warning" => drop(names.warnings.insert(old, new)),
                "unit" => names.units.push((line, rest, new)),
                "option" => names.options.push((place, old, new)),
                "finding" => names.findings.push((old.split('.').collect(), new.split('.').collect())),
                "json-key" => {
                    let key = |path: &'static str| path.strip_prefix("subject.").unwrap_or(path);
                    names.subject.insert(key(old), key(new));
                }
                _ => {}
            }
        }
        names
    }

    /// Returns a finding's new name. Rules are applied repeatedly, because two coordinates of one name may have new
    /// tokens.
    fn finding(&self, name: &str) -> String {
        let mut name = name.to_owned();
        loop {
            let next = self.step(&name);
            if next == name {
                return name;
            }
            name = next;
        }
    }

    /// Applies one rule of the table to a finding's name. Placeholders keep their parts, in order.
    fn step(&self, name: &str) -> String {
        let parts: Vec<&str> = name.split('.').collect();
        // `NAME` matches any part, `name-N` matches a part that ends with a number.
        let is_any = |part: &str| part.bytes().all(|b| b.is_ascii_uppercase()) || part.ends_with("-N");
        let is_part = |p: &str, part: &str| match p.strip_suffix('N').filter(|stem| stem.ends_with('-')) {
            Some(stem) => part.strip_prefix(stem).is_some_and(|number| number.parse::<u64>().is_ok()),
            None => is_any(p) || p == part,
        };
        let fits = |pattern: &[&str]| {
            pattern.len() == parts.len() && pattern.iter().zip(&parts).all(|(p, part)| is_part(p, part))
        };
        let Some((old, new)) = self.findings.iter().find(|(old, _)| fits(old)) else {
            return name.to_owned();
        };
        let mut kept = old.iter().zip(&parts).filter(|(p, _)| is_any(p)).map(|(_, part)| *part);
        let new = new.iter().map(|p| if is_any(p) { kept.next().unwrap_or(p) } else { *p });
        new.collect::<Vec<_>>().join(".")
    }

    /// Converts a command line: its verb and the options of this verb.
    fn command(&self, text: &str) -> String {
        let Some((program, rest)) = text.split_once(' ') else { return text.to_owned() };
        let verb = rest.split(' ').next().unwrap_or_default();
        let mut out = format!("{program} {}", renamed(&self.experiments, verb));
        let mut previous = "";
        for word in rest.split(' ').skip(1) {
            let (option, value) = word.find('=').map_or((word, ""), |at| word.split_at(at));
            let named =
                |(verbs, old, _): &&(&str, &str, &str)| *old == option && verbs.split(' ').any(|v| v == verb);
            let option = self.options.iter().find(named).map_or(option, |(_, _, new)| new);
            let key = previous.trim_start_matches('-').replace('-', "_");
            let _ = write!(out, " {}{value}", self.list("run", &key, option));
            previous = option;
        }
        out
    }

    /// Converts tokens separated by commas.
    fn list(&self, word: &str, key: &str, text: &str) -> String {
        let token = |old| {
            let of = |((w, k, o), _): &(&(&str, &str, &str), _)| *w == word && *k == key && *o == old;
            self.tokens.iter().find(of).map_or(old, |(_, new)| *new)
        };
        text.split(',').map(token).collect::<Vec<_>>().join(",")
    }

    /// Converts a sentence that quotes options or patterns. Options that have different meanings in two verbs stay.
    fn sentence(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (_, old, new) in self.options.iter().filter(|(_, old, _)| !matches!(*old, "--ladder" | "--steps"))
        {
            out = out.replace(old, new);
        }
        for ((_, key, old), new) in self.tokens.iter().filter(|((word, _, _), _)| *word == "trial") {
            out = out.replace(&format!(": {old} of "), &format!(": {new} of "));
            out = out.replace(&format!("{key}={old}"), &format!("{key}={new}"));
        }
        out
    }

    /// Returns the text that replaces a number. The line's word is already the new one.
    fn text_of(&self, word: &str, key: &str, number: i128) -> Option<String> {
        let number = number.to_string();
        let of = |(w, k, old, new): &(&str, &str, &str, &str)| {
            let any = match old.strip_prefix('N') {
                Some(end) => number.strip_suffix(end)?,
                None => (*old == number).then_some("")?,
            };
            (*w == word && *k == key).then(|| new.replacen('N', any, usize::from(old.starts_with('N'))))
        };
        self.values.iter().find_map(of)
    }

    /// Converts one value. The line's word is already the new one.
    fn value(&self, word: &str, key: &str, value: &Value) -> Value {
        match value {
            Value::Int(number) => match self.text_of(word, key, *number) {
                Some(text) => Value::Text(text),
                None => value.clone(),
            },
            Value::Token(token) => {
                let of =
                    |((w, k, old), _): &(&(&str, &str, &str), _)| *w == word && *k == key && *old == token;
                let new = self.tokens.iter().find(of).map_or(token.as_str(), |(_, new)| new);
                Value::Token(new.to_owned())
            }
            Value::Text(text) => Value::Text(match (word, key) {
                ("run", "experiment") => renamed(&self.experiments, text).to_owned(),
                ("run", "command") => self.command(text),
                ("fact", "name") => renamed(&self.facts, text).to_owned(),
                ("refusal" | "lost" | "again", _) => self.sentence(text),
                _ => self.list(word, key, text),
            }),
            other => other.clone(),
        }
    }

    /// Converts a line.
    fn line(&self, old: &Line) -> Line {
        let word = renamed(&self.words, &old.word);
        let mut line = Line { word: word.to_owned(), pairs: Vec::new(), seq: old.seq };
        for (key, value) in &old.pairs {
            let of = |((w, k), _): &(&(&str, &str), _)| *w == word && *k == key;
            let new = self.keys.iter().find(of).map_or(key.as_str(), |(_, new)| new);
            line.pairs.push((new.to_owned(), self.value(word, new, value)));
        }
        line
    }

    /// Converts a record. Lines that are invalid or damaged are not changed. Seals are recomputed. Lines after a line
    /// that became several lines are renumbered, up to the next greeting.
    fn record(&self, text: &str) -> String {
        let already = text.lines().any(|raw| raw.contains(".ceiling.source\""));
        let (mut shift, mut added) = (0, 0);
        let mut out = String::new();
        for raw in text.split_inclusive('\n') {
            let (raw, end) = raw.strip_suffix('\n').map_or((raw, ""), |raw| (raw, "\n"));
            let Ok(old) = Line::parse(raw) else {
                out += &format!("{raw}{end}");
                continue;
            };
            let mut named = self.line(&old);
            match named.word.as_str() {
                GREETING => shift = 0,
                FACTS_END => more_facts(&mut named, std::mem::take(&mut added)),
                _ => {}
            }
            let all = if already { vec![named] } else { facts::lines(named) };
            for (nth, mut new) in all.into_iter().enumerate() {
                shift += u64::from(nth > 0);
                added += u64::from(nth > 0);
                new.seq = new.seq.map(|seq| seq + shift);
                out += &if new == old { raw.to_owned() } else { sealed(&new, raw) };
                out += end;
            }
        }
        out
    }

    /// Converts the names in a document that has one row per line; values are not changed.
    fn document(&self, text: &str) -> String {
        let mut out = String::new();
        for line in text.split_inclusive('\n') {
            out += &if let Some(rest) = line.strip_prefix("    {\"name\":\"") {
                let (name, rest) = rest.split_once('"').unwrap_or((rest, ""));
                let name = self.finding(name);
                let mut rest = rest.to_owned();
                for (_, old, new) in self.units.iter().filter(|(of, ..)| is_named(&name, of)) {
                    rest = rest.replace(&format!("\"unit\":\"{old}\""), &format!("\"unit\":\"{new}\""));
                }
                format!("    {{\"name\":\"{name}\"{rest}")
            } else if let Some(rest) = line.strip_prefix("    {\"token\":\"") {
                let (token, rest) = rest.split_once('"').unwrap_or((rest, ""));
                format!("    {{\"token\":\"{}\"{rest}", renamed(&self.warnings, token))
            } else if let Some(rest) = line.strip_prefix("  \"experiment\": \"") {
                let (name, rest) = rest.split_once('"').unwrap_or((rest, ""));
                format!("  \"experiment\": \"{}\"{rest}", renamed(&self.experiments, name))
            } else if line.starts_with("  \"subject\":") {
                self.subject(line)
            } else {
                line.to_owned()
            };
        }
        out
    }

    /// Returns the unit of a finding by its new name.
    fn unit<'a>(&self, name: &str, unit: &'a str) -> &'a str {
        let of = |(of, old, _): &&(&str, &str, &str)| *old == unit && is_named(name, of);
        self.units.iter().find(of).map_or(unit, |(_, _, new)| new)
    }

    fn subject(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (old, new) in self.subject.iter().chain(&self.facts) {
            line = line.replace(&format!("\"{old}\":"), &format!("\"{new}\":"));
        }
        let command = "\"run.command\":\"";
        let Some((before, rest)) = line.split_once(command) else { return line };
        let (text, after) = rest.split_once('"').unwrap_or((rest, ""));
        format!("{before}{command}{}\"{after}", self.command(text))
    }
}

/// Adds the number of added facts to the line that ends the facts.
fn more_facts(line: &mut Line, added: u64) {
    for (key, value) in &mut line.pairs {
        if let (true, Value::Int(count)) = (key == "count", value) {
            *count += i128::from(added);
        }
    }
}

/// Returns a line as text, sealed if the old one was sealed.
fn sealed(new: &Line, old: &str) -> String {
    match new.seq {
        Some(seq) if old.contains(" crc=0x") => new.seal(seq),
        Some(seq) => format!("{} seq={seq}", new.render()),
        None => new.render(),
    }
}

/// Returns the values of a finding that must not change.
fn values(finding: &Json) -> Vec<&Json> {
    ["value", "low", "high", "count", "trials"].iter().map(|key| &finding[key]).collect()
}

/// Returns whether a name is the expected one, in which `*` stands for a coordinate that the old name did not have.
fn is_named(name: &str, expected: &str) -> bool {
    let (name, expected): (Vec<&str>, Vec<&str>) = (name.split('.').collect(), expected.split('.').collect());
    name.len() == expected.len() && name.iter().zip(expected).all(|(part, e)| e == "*" || *part == e)
}

/// Proves that every finding of the old document is in the new one, under its new name and with its values. The new
/// name `-` marks a finding that was removed for the reason in the table.
fn prove_document(names: &Names, old: &str, new: &str) -> Result<usize, String> {
    let read = |text: &str| serde_json::from_str::<Json>(text).map_err(|e| e.to_string());
    let (old, new) = (read(old)?, read(new)?);
    let rows = |document: &Json| document["findings"].as_array().cloned().unwrap_or_default();
    let (old_rows, mut new_rows) = (rows(&old), rows(&new));
    for old in &old_rows {
        let name = names.finding(old["name"].as_str().unwrap_or_default());
        if name == GONE {
            continue;
        }
        let unit = |finding: &'_ Json| finding["unit"].as_str().unwrap_or_default().to_owned();
        let is_it = |new: &Json| {
            new["name"].as_str().is_some_and(|n| is_named(n, &name) && names.unit(n, &unit(old)) == unit(new))
                && values(old) == values(new)
        };
        let Some(at) = new_rows.iter().position(is_it) else {
            return Err(format!("{} should be {name} with the same values, and is not there", old["name"]));
        };
        new_rows.remove(at);
    }
    let worded = |document: &Json, key: &str| document["subject"][key].clone();
    for (a, b) in &names.subject {
        if worded(&old, a) != worded(&new, b) {
            return Err(format!("subject.{a} differs from subject.{b}"));
        }
    }
    Ok(old_rows.len())
}

/// Proves that every line of the old record is in the new one: under its new names, in order, numbered and with a valid
/// seal; no number differs.
fn prove_record(names: &Names, old: &str, new: &str) -> Result<usize, String> {
    let mut rest = new.lines().enumerate();
    let (mut rows, mut added) = (0, 0);
    for old in old.lines() {
        let expected = Line::parse(old).map(|mut line| {
            let mut named = names.line(&line);
            if named.word == FACTS_END {
                let added = std::mem::take(&mut added);
                more_facts(&mut named, added);
                more_facts(&mut line, added);
            }
            let all = facts::lines(named);
            added += all.len() as u64 - 1;
            (all, line)
        });
        let Ok((expected, was)) = expected else {
            match rest.next() {
                Some((_, new)) if new == old => continue,
                other => return Err(format!("what is no line has changed: {old} is now {other:?}")),
            }
        };
        for line in expected {
            let (number, new) = rest.next().ok_or_else(|| format!("nothing is left for {old}"))?;
            let wrong = |what: &str| format!("line {}: {what}: {old} is now {new}", number + 1);
            let is = Line::parse(new).map_err(|_| wrong("it cannot be read any more"))?;
            if is.word != line.word || is.pairs != line.pairs || is.seq.is_some() != line.seq.is_some() {
                return Err(wrong("names"));
            }
            let number = |v: &Value| !matches!(v, Value::Text(_) | Value::Token(_));
            let became_text = |key: &str, old: &Value| match old {
                Value::Int(number) => names.text_of(&is.word, key, *number).is_some(),
                _ => false,
            };
            let kept = |(old, new): (&(String, Value), &(String, Value))| {
                !number(&old.1) || old.1 == new.1 || became_text(&new.0, &old.1)
            };
            if !was.pairs.iter().zip(&is.pairs).all(kept) {
                return Err(wrong("a number"));
            }
        }
        rows += 1;
    }
    match rest.next() {
        None => Ok(rows),
        Some((number, new)) => Err(format!("line {}: it was not there: {new}", number + 1)),
    }
}

/// Returns the text of a file; of a record, its lines without the seals of the file.
fn text(file: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let contents: String = resumable(&text).into_iter().map(|line| line + "\n").collect();
    Ok(if contents.starts_with(RECORD) { contents } else { text })
}

fn run(arguments: &[&str]) -> Result<(), String> {
    let names = Names::read();
    if let ["--prove", old, new] = arguments {
        let (before, after) = (text(old)?, text(new)?);
        let proof = if before.starts_with(RECORD) { prove_record } else { prove_document };
        let rows = proof(&names, &before, &after).map_err(|what| format!("{new}: {what}"))?;
        println!("{new}: {rows} rows under their new names");
        return Ok(());
    }
    for name in arguments {
        let old = text(name)?;
        let new = if old.starts_with(RECORD) {
            file::sealed(names.record(&old).lines())
        } else {
            names.document(&old)
        };
        std::fs::write(name, new).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("convert: {what}");
            ExitCode::FAILURE
        }
    }
}
