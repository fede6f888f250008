//! Notes under a table: each once, with what it is about.

use fathom_analysis::findings::Finding;

use crate::page::{Page, TextRole};

/// So many notes that are the same but for one number become one note with its range.
const SERIES: usize = 3;

/// So many labels are listed; of more only the ends are.
const LISTED: usize = 3;

/// A note and the labels of what it is about.
type Told<'a> = (String, Vec<&'a str>);

/// Notes under a table: each note once, with what it is about.
pub fn notes(page: &mut Page, of: &[(String, &Finding)]) {
    let mut reported: Vec<Told> = Vec::new();
    for (label, f) in of {
        for note in &f.notes {
            let at = reported.iter().position(|(n, _)| n == note).unwrap_or_else(|| {
                reported.push((note.clone(), Vec::new()));
                reported.len() - 1
            });
            if !reported[at].1.contains(&label.as_str()) {
                reported[at].1.push(label);
            }
        }
    }
    let all = of.iter().map(|(label, _)| label).collect::<std::collections::BTreeSet<_>>().len();
    for (note, labels) in ranges(reported) {
        let about = match labels.as_slice() {
            [only] => format!("{only}: "),
            many if many.len() == all => String::new(),
            few if few.len() <= LISTED => format!("{}: ", few.join(", ")),
            // A list of sixty working sets says no more than its ends.
            [first, .., last] => format!("{first} to {last} ({} of {all}): ", labels.len()),
            _ => String::new(),
        };
        page.text(TextRole::Dim, &format!("{about}{note}"), "  ", "    ");
    }
}

/// Notes of a series become one at the place of the first.
fn ranges(reported: Vec<Told>) -> Vec<Told> {
    let mut out: Vec<Told> = Vec::new();
    let mut done = vec![false; reported.len()];
    let split: Vec<Vec<&str>> = reported.iter().map(|(note, _)| words(note)).collect();
    for at in 0..reported.len() {
        if done[at] {
            continue;
        }
        let series = series(&split, &done, at);
        let Some((word, members)) = series else {
            out.push(reported[at].clone());
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
            labels.extend(reported[m].1.iter().filter(|label| !labels.contains(label)).collect::<Vec<_>>());
        }
        out.push((note, labels));
    }
    out
}

/// The notes from `at` on, itself among them, that differ from it in one and the same number; and which of its
/// words that is. None where they are too few.
fn series(split: &[Vec<&str>], done: &[bool], at: usize) -> Option<(usize, Vec<usize>)> {
    let own = &split[at];
    (0..own.len()).filter(|&w| own[w].parse::<f64>().is_ok_and(f64::is_finite)).find_map(|word| {
        let alike = |m: &usize| {
            let other = &split[*m];
            let same = |w: usize| {
                if w == word { other[w].parse::<f64>().is_ok_and(f64::is_finite) } else { other[w] == own[w] }
            };
            !done[*m] && other.len() == own.len() && (0..own.len()).all(same)
        };
        let members: Vec<usize> = (at..split.len()).filter(alike).collect();
        (members.len() >= SERIES).then_some((word, members))
    })
}

/// A note in numbers and what stands between them.
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
        let reported: Vec<Told> =
            notes.iter().zip(&labels).map(|(n, l)| (n.to_string(), vec![l.as_str()])).collect();
        ranges(reported).into_iter().map(|(note, labels)| format!("{}: {note}", labels.join(","))).collect()
    }

    #[test]
    fn a_series_is_one_note_and_two_alike_are_two() {
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
        // Two numbers that differ are no series: which belongs to which would be lost.
        let pairs = ["4 of 8", "5 of 9", "6 of 10"];
        assert_eq!(reported(&pairs).len(), 3);
    }
}
