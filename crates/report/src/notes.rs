//! Notes under a table: each once, with the labels of its rows.

use fathom_analysis::findings::Finding;

use crate::page::{Page, TextRole};

/// Smallest number of notes, equal except for one number, that are merged into one note with a range.
const MIN_SERIES: usize = 3;

/// Largest number of labels listed; of more, only the first and last are printed.
const MAX_LABELS: usize = 3;

/// A note and the labels of its rows.
type LabelledNote<'a> = (String, Vec<&'a str>);

/// Prints notes under a table: each once, with the labels of its rows.
pub fn notes(page: &mut Page, of: &[(String, &Finding)]) {
    let mut notes: Vec<LabelledNote> = Vec::new();
    for (label, f) in of {
        for note in &f.notes {
            let at = notes.iter().position(|(n, _)| n == note).unwrap_or_else(|| {
                notes.push((note.clone(), Vec::new()));
                notes.len() - 1
            });
            if !notes[at].1.contains(&label.as_str()) {
                notes[at].1.push(label);
            }
        }
    }
    let all = of.iter().map(|(label, _)| label).collect::<std::collections::BTreeSet<_>>().len();
    for (note, labels) in ranges(notes) {
        let about = match labels.as_slice() {
            [only] => format!("{only}: "),
            many if many.len() == all => String::new(),
            few if few.len() <= MAX_LABELS => format!("{}: ", few.join(", ")),
            // A long list of labels is shortened to its ends.
            [first, .., last] => format!("{first} to {last} ({} of {all}): ", labels.len()),
            _ => String::new(),
        };
        page.text(TextRole::Dim, &format!("{about}{note}"), "  ", "    ");
    }
}

/// Merges the notes of a series into one, at the position of the first.
fn ranges(notes: Vec<LabelledNote>) -> Vec<LabelledNote> {
    let mut out: Vec<LabelledNote> = Vec::new();
    let mut done = vec![false; notes.len()];
    let split: Vec<Vec<&str>> = notes.iter().map(|(note, _)| words(note)).collect();
    for at in 0..notes.len() {
        if done[at] {
            continue;
        }
        let series = series(&split, &done, at);
        let Some((word, members)) = series else {
            out.push(notes[at].clone());
            continue;
        };
        let mut numbers: Vec<&str> = members.iter().map(|&m| split[m][word]).collect();
        let value = |text: &&str| text.parse::<f64>().unwrap_or(f64::NAN);
        numbers.sort_by(|a, b| value(a).total_cmp(&value(b)));
        let range = format!("{} to {}", numbers[0], numbers[numbers.len() - 1]);
        let note = [&split[at][..word], &[range.as_str()], &split[at][word + 1..]].concat().concat();
        let mut labels: Vec<&str> = Vec::new();
        for &m in &members {
            done[m] = true;
            labels.extend(notes[m].1.iter().filter(|label| !labels.contains(label)).collect::<Vec<_>>());
        }
        out.push((note, labels));
    }
    out
}

/// Returns the notes from `at` on, including it, that differ from it only in one number, and the index of that word.
/// `None` if there are too few.
fn series(split: &[Vec<&str>], done: &[bool], at: usize) -> Option<(usize, Vec<usize>)> {
    let this = &split[at];
    (0..this.len()).filter(|&w| this[w].parse::<f64>().is_ok_and(f64::is_finite)).find_map(|word| {
        let alike = |m: &usize| {
            let other = &split[*m];
            let same = |w: usize| {
                if w == word {
                    other[w].parse::<f64>().is_ok_and(f64::is_finite)
                } else {
                    other[w] == this[w]
                }
            };
            !done[*m] && other.len() == this.len() && (0..this.len()).all(same)
        };
        let members: Vec<usize> = (at..split.len()).filter(alike).collect();
        (members.len() >= MIN_SERIES).then_some((word, members))
    })
}

/// Splits a note into numbers and the text between them.
fn words(note: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = note;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit();
        let end = if rest.starts_with(is_digit) {
            rest.find(|c: char| !is_digit(c)).unwrap_or(rest.len())
        } else {
            rest.find(is_digit).unwrap_or(rest.len())
        };
        words.push(&rest[..end]);
        rest = &rest[end..];
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(notes: &[&str]) -> Vec<String> {
        let labels: Vec<String> = (0..notes.len()).map(|n| format!("label {n}")).collect();
        let reported: Vec<LabelledNote> =
            notes.iter().zip(&labels).map(|(n, l)| (n.to_string(), vec![l.as_str()])).collect();
        ranges(reported).into_iter().map(|(note, labels)| format!("{}: {note}", labels.join(","))).collect()
    }

    #[test]
    fn series_of_notes_are_merged_and_pairs_are_not() {
        assert_eq!(
            reported(&[
                "a trial times 14 % of a lap",
                "else",
                "a trial times 7 % of a lap",
                "a trial times 100 % of a lap"
            ]),
            ["label 0,label 2,label 3: a trial times 7 to 100 % of a lap", "label 1: else"]
        );
        assert_eq!(reported(&["up to 4", "up to 8"]), ["label 0: up to 4", "label 1: up to 8"]);
        // Notes with two different numbers are not merged, because the pairing would be lost.
        let pairs = ["4 of 8", "5 of 9", "6 of 10"];
        assert_eq!(reported(&pairs).len(), 3);
    }
}
