//! Claims beside measurements: who says what of which level, and what the measurement says of it.

use fathom_analysis::claims::Holds;
use fathom_analysis::findings::{Finding, Report, Value};

use super::notes;
use super::shelf::{Shelf, whole};
use crate::number;
use crate::page::{Ink, Page, left, right};
use crate::schema;

/// Everything that one source claims of one level.
struct Claim<'a> {
    level: u64,
    source: String,
    parts: Vec<(String, &'a Finding)>,
}

impl<'a> Claim<'a> {
    fn part(&self, what: &str) -> Option<&'a Finding> {
        self.parts.iter().find(|(w, _)| w == what).map(|(_, f)| *f)
    }

    fn value(&self, what: &str) -> String {
        self.part(what).map(|f| number::value(f).value).unwrap_or_default()
    }

    /// What the level holds, from the notes of its claims.
    fn holds(&self) -> &'static str {
        self.parts.iter().find_map(|(_, f)| holds_of(f)).unwrap_or("")
    }
}

/// What a note that says nothing else says that a level holds: `data`, `holds data`, `holds: data`.
fn holds(note: &str) -> Option<&'static str> {
    let word = note.trim_start_matches("holds").trim_start_matches(':').trim().trim_end_matches('.');
    Holds::ALL.into_iter().map(Holds::token).find(|known| *known == word)
}

fn holds_of(f: &Finding) -> Option<&'static str> {
    f.notes.iter().find_map(|note| holds(note))
}

/// Claims by level, then by source in the order of the schema. Data and instructions of one level
/// are two claims under one name: told apart by their notes, else by their order.
fn take_claims<'a>(shelf: &mut Shelf<'a>) -> Vec<Claim<'a>> {
    let rank =
        |source: &str| schema::values("SOURCE").iter().position(|s| *s == source).unwrap_or(usize::MAX);
    let found = shelf.take_all(|parts| match parts {
        ["claim", source, "level", n, "size" | "line" | "ways" | "sets"] => {
            Some((whole(n)?, rank(source), source.to_string()))
        }
        _ => None,
    });
    let mut claims: Vec<Claim> = Vec::new();
    for ((level, _, source), f) in found {
        let what = f.name.rsplit('.').next().unwrap_or_default();
        let fits = |c: &Claim| {
            let same = c.level == level && c.source == source && c.part(what).is_none();
            same && holds_of(f).is_none_or(|h| c.holds().is_empty() || c.holds() == h)
        };
        match claims.iter().position(fits) {
            Some(at) => claims[at].parts.push((what.to_string(), f)),
            None => claims.push(Claim { level, source, parts: vec![(what.to_string(), f)] }),
        }
    }
    claims
}

/// Inks of the words for verdicts.
pub(super) const VERDICTS: &[(&str, Ink)] = &[
    (" disagrees", Ink::Bad),
    (" behaves unlike it", Ink::Bad),
    (" agrees", Ink::Good),
    (" behaves like it", Ink::Good),
];

/// A verdict as it is worded for the worth of the clock: a guest cannot say what a machine is.
pub(super) fn worded(verdict: &str, worth: &str) -> String {
    match (verdict, worth) {
        ("agrees", "virtual") => "behaves like it",
        ("disagrees", "virtual") => "behaves unlike it",
        _ => verdict,
    }
    .to_string()
}

/// A finding's word.
pub(super) fn word(f: &Finding) -> String {
    match &f.value {
        Value::Text(text) => text.clone(),
        Value::Number(_) => number::value(f).value,
    }
}

/// The claims and the verdicts.
pub fn section(page: &mut Page, report: &Report, shelf: &mut Shelf) {
    let claims = take_claims(shelf);
    let verdicts = shelf.take_by(|parts| match parts {
        ["verdict", "level", n, "size"] => whole(n),
        _ => None,
    });
    let built = shelf.take_by(|parts| match parts {
        ["verdict", "level", n, what] => Some((whole(n)?, PARTS.iter().position(|part| part == what)?)),
        _ => None,
    });
    if claims.is_empty() && verdicts.is_empty() && built.is_empty() {
        return;
    }
    page.heading("Claims beside measurements");
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut levels: Vec<u64> = claims.iter().map(|c| c.level).chain(verdicts.iter().map(|v| v.0)).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        let verdict = verdicts.iter().find(|v| v.0 == level).map(|v| v.1);
        let mut said = [
            verdict.map(|f| number::value(f).interval).unwrap_or_default(),
            verdict.map(|f| worded(&word(f), &report.worth)).unwrap_or_default(),
        ];
        let mut name = level.to_string();
        let of_level: Vec<&Claim> = claims.iter().filter(|c| c.level == level).collect();
        if of_level.is_empty() {
            table.push([vec![name.clone()], vec![String::new(); 6], said.to_vec()].concat());
        }
        for c in of_level {
            let claimed = ["size", "line", "ways", "sets"].map(|what| c.value(what));
            // Level and verdict once, on the first of the rows that they belong to.
            let head = vec![std::mem::take(&mut name), c.holds().to_string(), c.source.clone()];
            table.push([head, claimed.to_vec(), std::mem::take(&mut said).to_vec()].concat());
        }
    }
    let columns = [
        right("level"),
        left("holds"),
        left("source"),
        right("size"),
        right("line"),
        right("ways"),
        right("sets"),
        left("measured"),
        left("verdict"),
    ];
    if !table.is_empty() {
        page.table(&columns, &table, VERDICTS);
    }
    for (level, f) in &verdicts {
        sentence(page, report, *level, f, &claims);
    }
    parts(page, report, &built);
    remarks(page, &claims);
}

/// What a verdict says in words: its notes, or where it has none and disagrees, one plain sentence.
fn sentence(page: &mut Page, report: &Report, level: u64, f: &Finding, claims: &[Claim]) {
    let disagrees = word(f) == "disagrees";
    let ink = if disagrees { Ink::Bad } else { Ink::Plain };
    for note in &f.notes {
        page.text(ink, note, "- ", "  ");
    }
    if !f.notes.is_empty() || !disagrees {
        return;
    }
    let said: Vec<String> = claims
        .iter()
        .filter(|c| c.level == level && c.part("size").is_some())
        .map(|c| format!("{} by {}", c.value("size"), c.source))
        .collect();
    let otherwise =
        if report.worth == "virtual" { "the machine behaves otherwise" } else { "it measures otherwise" };
    page.text(
        ink,
        &format!("level {level} is claimed to be {}, and {otherwise}", said.join(", ")),
        "- ",
        "  ",
    );
}

/// What a verdict on how a level is built may be about.
const PARTS: [&str; 3] = ["line", "ways", "sets"];

/// Verdicts on how a level is built: those that disagree in their own words, of the others what they are about.
fn parts(page: &mut Page, report: &Report, built: &[((u64, usize), &Finding)]) {
    let mut levels: Vec<u64> = built.iter().map(|((level, _), _)| *level).collect();
    levels.dedup();
    // Levels of which the same is said are told together.
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for level in levels {
        let mut said: Vec<(String, Vec<&str>)> = Vec::new();
        for ((_, part), f) in built.iter().filter(|((n, _), _)| *n == level) {
            let what = PARTS[*part];
            let verdict = word(f);
            let worded = worded(&verdict, &report.worth);
            if verdict == "disagrees" {
                let about = format!("level {level} {what}: ");
                let why: Vec<&str> =
                    f.notes.iter().map(|n| n.strip_prefix(about.as_str()).unwrap_or(n)).collect();
                page.text(Ink::Bad, &format!("{about}{worded}: {}", why.join("; ")), "- ", "  ");
                continue;
            }
            let unmeasured = f.notes.iter().any(|note| note.ends_with("not measured"));
            let verdict = if unmeasured { format!("{worded} (not measured)") } else { worded };
            match said.iter_mut().find(|(v, _)| *v == verdict) {
                Some((_, parts)) => parts.push(what),
                None => said.push((verdict, vec![what])),
            }
        }
        let said: Vec<String> = said.iter().map(|(v, parts)| format!("{}: {v}", parts.join(", "))).collect();
        let said = said.join("; ");
        match told.iter_mut().find(|(s, _)| *s == said) {
            Some((_, levels)) => levels.push(level.to_string()),
            None => told.push((said, vec![level.to_string()])),
        }
    }
    for (said, levels) in told.iter().filter(|(said, _)| !said.is_empty()) {
        let levels = if let [only] = levels.as_slice() {
            format!("level {only}")
        } else {
            format!("levels {}", levels.join(", "))
        };
        page.text(Ink::Plain, &format!("{levels} {said}"), "- ", "  ");
    }
}

/// Notes of claims that say more than what the level holds.
fn remarks(page: &mut Page, claims: &[Claim]) {
    let mut labelled = Vec::new();
    for c in claims {
        for (_, f) in &c.parts {
            let more = f.notes.iter().filter(|note| holds(note).is_none()).cloned().collect::<Vec<_>>();
            labelled.push((
                format!("level {} by {}", c.level, c.source),
                Finding { notes: more, ..(*f).clone() },
            ));
        }
    }
    notes(page, &labelled.iter().map(|(label, f)| (label.clone(), f)).collect::<Vec<_>>());
}
