//! What each pure factor costs, and how much of what the study's memory workers add that explains.

use fathom_analysis::findings::Finding;

use super::{Wakeups, finite, nth, said};
use crate::number;
use crate::page::{Chart, INTERVAL, Ink, Page, left, measured, right};
use crate::schema::values;
use crate::sections::notes;
use crate::sections::shelf::Shelf;

/// What a factor is, in words.
fn spoken(factor: &str) -> &str {
    match factor {
        "copy" => "bandwidth",
        "chase" => "a footprint in caches",
        "pages" => "page walks",
        "fault" => "page faults",
        "unmap" => "TLB shoot-downs",
        other => other,
    }
}

/// The figure, the tables and the sentence.
pub(super) fn section(page: &mut Page, wakeups: &Wakeups, shelf: &mut Shelf) {
    let none = shelf.take("effect.none");
    let factors = shelf.take_by(|parts| match parts {
        ["effect", factor] => nth("FACTOR", factor),
        _ => None,
    });
    let pairs = shelf.take_by(|parts| match parts {
        ["interaction", a, b] => Some((nth("FACTOR", a)?, nth("FACTOR", b)?)),
        _ => None,
    });
    let explained = shelf.take_by(|parts| match parts {
        ["explained", factor] => nth("FACTOR", factor),
        _ => None,
    });
    let rest = shelf.take("explained.rest");
    let word = |factor: usize| values("FACTOR")[factor];
    let mut rows: Vec<(String, &Finding)> = none.into_iter().map(|f| ("none".to_owned(), f)).collect();
    rows.extend(factors.iter().map(|(n, f)| (format!("{} ({})", word(*n), spoken(word(*n))), *f)));
    rows.extend(pairs.iter().map(|((a, b), f)| (format!("{} with {}", word(*a), word(*b)), *f)));
    if let Some((_, first)) = rows.first() {
        page.heading(&format!("What each factor adds by itself, {}", first.unit));
        page.picture(Chart::Effects("effect"), Vec::new());
        table(page, &rows);
    }
    let mut shares: Vec<(String, &Finding)> =
        wakeups.increase.into_iter().map(|f| ("the study's memory workers add".to_owned(), f)).collect();
    shares.extend(explained.iter().map(|(n, f)| (spoken(word(*n)).to_owned(), *f)));
    shares.extend(rest.map(|f| ("unexplained".to_owned(), f)));
    if let Some((_, first)) = shares.first() {
        page.heading(&format!(
            "Of what the study's memory workers add, what explains how much, {}",
            first.unit
        ));
        let named: Vec<(&str, &Finding)> = explained.iter().map(|(n, f)| (word(*n), *f)).collect();
        if let Some(text) = wakeups.increase.map(|f| sentence(f, named, rest)) {
            page.text(Ink::Plain, &text, "", "  ");
        }
        page.picture(Chart::Effects("explained"), Vec::new());
        table(page, &shares);
    }
}

fn table(page: &mut Page, labelled: &[(String, &Finding)]) {
    let rows: Vec<Vec<String>> = labelled
        .iter()
        .map(|(label, f)| {
            let [value, interval] = number::cells(Some(f));
            vec![label.clone(), value, interval, f.count.to_string()]
        })
        .collect();
    page.table(&[left(""), measured("adds"), INTERVAL, right("n")], &rows, &[]);
    notes(page, labelled);
}

/// "Of the +14.8 us at p99.9, 11.0 (9..13) us with page faults, ..., unexplained ...".
fn sentence(increase: &Finding, mut explained: Vec<(&str, &Finding)>, rest: Option<&Finding>) -> String {
    let at = increase.notes.iter().find_map(|note| note.rsplit_once(" at ")).map(|(_, word)| word);
    let at = at.map(|word| format!(" at {word}")).unwrap_or_default();
    let sign = if finite(increase).is_some_and(|v| v > 0.0) { "+" } else { "" };
    let size = |f: &Finding| finite(f).unwrap_or(0.0).abs();
    explained.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
    let mut parts: Vec<String> =
        explained.iter().map(|(factor, f)| format!("{} with {}", said(f), spoken(factor))).collect();
    match rest {
        Some(f) => parts.push(format!("unexplained {}", said(f))),
        None if parts.is_empty() => parts.push("nothing is explained".to_owned()),
        None => {}
    }
    format!("Of the {sign}{}{at}: {}.", said(increase), parts.join(", "))
}
