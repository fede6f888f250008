//! Text for a terminal: cleaned of control characters, and wrapped by display width.

use fathom_analysis::findings::{Dependence, Outcome, Varied};
use fathom_analysis::findings::{Finding, Refused, Report, Value, Warning};
use textwrap::WordSeparator;
use textwrap::core::{Word, break_words};
use textwrap::wrap_algorithms::wrap_first_fit;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the common ASCII replacement of a character, if there is one.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{b5}' | '\u{3bc}' => "u",
        '\u{b7}' | '\u{2022}' => "*",
        '\u{d7}' => "x",
        '\u{b1}' => "+-",
        '\u{b0}' => " deg",
        '\u{ae}' => "(R)",
        '\u{2122}' => "(TM)",
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "-",
        '\u{2018}' | '\u{2019}' => "'",
        '\u{201c}' | '\u{201d}' => "\"",
        '\u{2026}' => "...",
        '\u{2192}' => "->",
        '\u{2264}' => "<=",
        '\u{2265}' => ">=",
        _ => return None,
    })
}

/// Returns whether the character is a combining accent: the only zero-width characters that are printed unchanged.
fn is_accent(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

/// Returns whether a character acts on a terminal or on the direction of the text around it, or is invisible: controls (C0, DEL,
/// C1), and the format characters that reorder, join or hide text (Unicode Standard Annex 9, and section 23.2).
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        )
}

/// Returns `text` with its hidden characters shown by number, but for newlines and tabs: for messages that quote a file, a
/// subject or another program.
#[must_use]
pub fn visible(text: &str) -> String {
    with_hidden(text, |c, out| out.extend(c.escape_unicode()))
}

/// Returns `text` like [`visible`], but with the escape sequences of styles (`ESC [ NUMBERS m`) as they are: for text that this
/// program has styled, and in which a name or a path may be left as it came.
#[must_use]
pub fn visible_styled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let (before, escape) = rest.split_at(at);
        out.push_str(&visible(before));
        let numbers = escape[2..].trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        let after = numbers.strip_prefix('m').unwrap_or(&escape[2..]);
        let sequence = &escape[..escape.len() - after.len()];
        if sequence.ends_with('m') {
            out.push_str(sequence)
        } else {
            out.push_str(&visible(sequence))
        }
        rest = after;
    }
    out + &visible(rest)
}

/// Returns a JSON document with the hidden characters of its strings as JSON escapes: the same document, harmless on a
/// terminal and in a page.
#[must_use]
pub fn visible_json(document: &str) -> String {
    // All of them are in the basic plane, so that one escape suffices.
    with_hidden(document, |c, out| out.push_str(&format!("\\u{:04x}", u32::from(c))))
}

/// Returns `text` with each hidden character but newlines and tabs written by `write`.
fn with_hidden(text: &str, write: impl Fn(char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && c != '\n' && c != '\t' { write(c, &mut out) } else { out.push(c) }
    }
    out
}

/// Returns `text` without anything that a terminal would interpret or that has no defined width.
///
/// A record may be untrusted, so escape sequences, other controls, marks that reverse the direction of writing and
/// invisible characters are shown by number. Any white space becomes one blank each. Without `unicode`, characters
/// beyond ASCII are replaced by common ASCII forms, else shown by number.
pub fn clean(text: &str, unicode: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() {
            out.push(' ');
        } else if c.is_ascii() && !c.is_ascii_control() {
            out.push(c);
        } else if !unicode && let Some(ascii) = plain(c) {
            out.push_str(ascii);
        } else if unicode && (c.width().is_some_and(|w| w > 0) || is_accent(c)) {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    out
}

/// Returns a copy of the report in which every text is [`clean`], so that views need not do it.
pub fn clean_report(report: &Report, unicode: bool) -> Report {
    let tidy = |text: &String| clean(text, unicode).trim().to_string();
    let finding = |f: &Finding| Finding {
        value: match &f.value {
            Value::Text(text) => Value::Text(tidy(text)),
            number => number.clone(),
        },
        // A line of a source begins with blanks.
        detail: f.detail.map_text(|text| clean(text, unicode).trim_end().to_string()),
        depends_on: f.depends_on.as_ref().map(|on| Dependence {
            varied: varied(&on.varied, tidy),
            outcome: Outcome { words: on.outcome.words.iter().map(tidy).collect(), ..on.outcome.clone() },
        }),
        notes: f.notes.iter().map(tidy).collect(),
        ..f.clone()
    };
    Report {
        experiment: tidy(&report.experiment),
        subject: tidy(&report.subject),
        trust: tidy(&report.trust),
        facts: report.facts.iter().map(|(name, value)| (tidy(name), tidy(value))).collect(),
        seed: report.seed,
        elapsed_s: report.elapsed_s,
        findings: report.findings.iter().map(finding).collect(),
        histograms: report.histograms.clone(),
        refusals: report
            .refusals
            .iter()
            .map(|r| Refused { what: tidy(&r.what), reason: tidy(&r.reason), remedy: tidy(&r.remedy) })
            .collect(),
        warnings: report
            .warnings
            .iter()
            .map(|w| Warning::new(w.kind, tidy(&w.text), tidy(&w.remedy)))
            .collect(),
        sensitivity: report
            .sensitivity
            .as_ref()
            .map(|(ahead, all)| (*ahead, all.iter().map(|v| varied(v, tidy)).collect())),
    }
}

fn varied(v: &Varied, tidy: impl Fn(&String) -> String) -> Varied {
    let ends = v.ends.each_ref().map(|end| end.as_ref().map(&tidy));
    Varied { value: tidy(&v.value), class: v.class, ends }
}

/// Wraps `text` in lines of at most `width` columns: between words, and inside a word only if it is longer than a line.
/// Text between backticks is a command: it is never broken, regardless of its length, so that it can be pasted. The
/// first line begins with `first`, the others with `under`.
pub fn wrap(text: &str, width: usize, first: &str, under: &str) -> Vec<String> {
    let room = |indent: &str| width.saturating_sub(indent.width()).max(1);
    let words = words(text).into_iter().flat_map(|word| match word.contains(['`']) {
        true => vec![word],
        false => break_words([word], room(under).min(room(first))),
    });
    let words: Vec<Word> = words.collect();
    let lines = wrap_first_fit(&words, &[room(first) as f64, room(under) as f64]);
    let line = |(at, words): (usize, &&[Word])| {
        let text: String = words.iter().flat_map(|word| [word.word, word.whitespace]).collect();
        format!("{}{text}", if at == 0 { first } else { under }).trim_end().to_owned()
    };
    lines.iter().enumerate().map(line).collect()
}

/// Splits text into words, each with the following blanks. A command between backticks is one word, with adjacent text.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut end = 0;
    let mut open = false;
    let plain = text.matches('`').count() % 2 == 1;
    for word in WordSeparator::AsciiSpace.find_words(text) {
        open ^= !plain && word.word.matches('`').count() % 2 == 1;
        end += word.word.len() + word.whitespace.len();
        if !open {
            words.push(Word::from(&text[start..end]));
            start = end;
        }
    }
    words
}
