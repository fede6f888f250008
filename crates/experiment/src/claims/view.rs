//! Claims beside measurements: who says what of which level, and what the measurement says of it; and a description
//! beside them.

mod against;

use fathom_analysis::findings::{Axis, Finding, Metric, Report, Value};
use fathom_analysis::metrics::claims;
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{Page, TextRole, left, right};

/// What a source may claim of a level, in the order of the table's columns.
const CLAIMED: [&Metric; 4] = [
    &claims::CLAIM_LEVEL_SIZE,
    &claims::CLAIM_LEVEL_LINE,
    &claims::CLAIM_LEVEL_WAYS,
    &claims::CLAIM_LEVEL_SETS,
];

/// Everything that one source claims of one level.
struct Claim<'a> {
    level: u64,
    source: String,
    holds: String,
    parts: Vec<&'a Finding>,
}

impl<'a> Claim<'a> {
    fn part(&self, metric: &Metric) -> Option<&'a Finding> {
        self.parts.iter().copied().find(|f| f.is(metric))
    }

    fn value(&self, metric: &Metric) -> String {
        self.part(metric).map(|f| number::value(f).value).unwrap_or_default()
    }
}

/// Claims by level, then by source in the order of the schema, then by what the level holds.
fn take_claims<'a>(finding_index: &mut FindingIndex<'a>) -> Vec<Claim<'a>> {
    let mut found = finding_index.of(&CLAIMED);
    let place = |f: &Finding| [Axis::Level, Axis::Source, Axis::Side].map(|axis| f.at(axis).cloned());
    found.sort_by_key(|f| place(f));
    found
        .chunk_by(|a, b| a.key.at == b.key.at)
        .map(|parts| {
            let word = |axis| parts[0].key.word(axis).unwrap_or_default();
            let level = parts[0].key.number(Axis::Level).unwrap_or_default();
            Claim { level, source: word(Axis::Source), holds: word(Axis::Side), parts: parts.to_vec() }
        })
        .collect()
}

/// Inks of the words for verdicts.
const VERDICTS: &[(&str, TextRole)] = &[
    (" disagrees", TextRole::Bad),
    (" behaves unlike it", TextRole::Bad),
    (" agrees", TextRole::Good),
    (" behaves like it", TextRole::Good),
];

/// A verdict as it is worded for the trust in the clock: a guest cannot say what a machine is.
fn worded(verdict: &str, trust: &str) -> String {
    match (verdict, trust) {
        ("agrees", "virtual") => "behaves like it",
        ("disagrees", "virtual") => "behaves unlike it",
        _ => verdict,
    }
    .to_string()
}

/// A finding's word.
fn word(f: &Finding) -> String {
    match &f.value {
        Value::Text(text) => text.clone(),
        Value::Number(_) => number::value(f).value,
    }
}

/// Claims beside measurements, and the check of a description, where there is any of them.
pub(crate) fn section(page: &mut Page, report: &Report, finding_index: &mut FindingIndex) {
    measured_claims(page, report, finding_index);
    against::section(page, report, finding_index);
}

/// The claims and the verdicts.
fn measured_claims(page: &mut Page, report: &Report, finding_index: &mut FindingIndex) {
    let claimed = take_claims(finding_index);
    let level = |f: &Finding| f.key.number(Axis::Level).unwrap_or_default();
    let of = |f| (level(f), f);
    let verdicts: Vec<(u64, &Finding)> =
        finding_index.of(&[&claims::VERDICT_LEVEL_SIZE]).into_iter().map(of).collect();
    let part = |f: &Finding| PARTS.iter().position(|(metric, _)| f.is(metric)).unwrap_or_default();
    let built = finding_index.of(&PARTS.map(|(metric, _)| metric));
    let mut built: Vec<((u64, usize), &Finding)> =
        built.into_iter().map(|f| ((level(f), part(f)), f)).collect();
    built.sort_by_key(|(place, _)| *place);
    if claimed.is_empty() && verdicts.is_empty() && built.is_empty() {
        return;
    }
    page.heading("Claims beside measurements");
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut levels: Vec<u64> = claimed.iter().map(|c| c.level).chain(verdicts.iter().map(|v| v.0)).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        let verdict = verdicts.iter().find(|v| v.0 == level).map(|v| v.1);
        let mut said = [
            verdict.map(|f| number::value(f).interval).unwrap_or_default(),
            verdict.map(|f| worded(&word(f), &report.trust)).unwrap_or_default(),
        ];
        let mut name = level.to_string();
        let of_level: Vec<&Claim> = claimed.iter().filter(|c| c.level == level).collect();
        if of_level.is_empty() {
            table.push([vec![name.clone()], vec![String::new(); 6], said.to_vec()].concat());
        }
        for c in of_level {
            let values = CLAIMED.map(|metric| c.value(metric));
            // Level and verdict once, on the first of the rows that they belong to.
            let head = vec![std::mem::take(&mut name), c.holds.clone(), c.source.clone()];
            table.push([head, values.to_vec(), std::mem::take(&mut said).to_vec()].concat());
        }
    }
    let columns = [
        right("level").key(),
        left("holds").key(),
        left("source").key(),
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
        sentence(page, report, *level, f, &claimed);
    }
    parts(page, report, &built);
    remarks(page, &claimed);
}

/// What a verdict says in words: its notes, or where it has none and disagrees, one plain sentence.
fn sentence(page: &mut Page, report: &Report, level: u64, f: &Finding, claims: &[Claim]) {
    let disagrees = word(f) == "disagrees";
    let role = if disagrees { TextRole::Bad } else { TextRole::Plain };
    for note in &f.notes {
        page.text(role, note, "- ", "  ");
    }
    if !f.notes.is_empty() || !disagrees {
        return;
    }
    let said: Vec<String> = claims
        .iter()
        .filter(|c| c.level == level && c.part(CLAIMED[0]).is_some())
        .map(|c| format!("{} by {}", c.value(CLAIMED[0]), c.source))
        .collect();
    let otherwise =
        if report.trust == "virtual" { "the machine behaves otherwise" } else { "it measures otherwise" };
    page.text(
        role,
        &format!("level {level} is claimed to be {}, and {otherwise}", said.join(", ")),
        "- ",
        "  ",
    );
}

/// What a verdict on how a level is built may be about.
const PARTS: [(&Metric, &str); 3] = [
    (&claims::VERDICT_LEVEL_LINE, "line"),
    (&claims::VERDICT_LEVEL_WAYS, "ways"),
    (&claims::VERDICT_LEVEL_SETS, "sets"),
];

/// Verdicts on how a level is built: those that disagree in their own words, of the others what they are about.
fn parts(page: &mut Page, report: &Report, built: &[((u64, usize), &Finding)]) {
    let mut levels: Vec<u64> = built.iter().map(|((level, _), _)| *level).collect();
    levels.dedup();
    // Levels of which the same is said are told together.
    let mut reported: Vec<(String, Vec<String>)> = Vec::new();
    for level in levels {
        let mut said: Vec<(String, Vec<&str>)> = Vec::new();
        for ((_, part), f) in built.iter().filter(|((n, _), _)| *n == level) {
            let what = PARTS[*part].1;
            let verdict = word(f);
            let worded = worded(&verdict, &report.trust);
            if verdict == "disagrees" {
                let about = format!("level {level} {what}: ");
                let why: Vec<&str> =
                    f.notes.iter().map(|n| n.strip_prefix(about.as_str()).unwrap_or(n)).collect();
                page.text(TextRole::Bad, &format!("{about}{worded}: {}", why.join("; ")), "- ", "  ");
                continue;
            }
            let unmeasured = f.detail.flag(claims::UNMEASURED);
            let verdict = if unmeasured { format!("{worded} (not measured)") } else { worded };
            match said.iter_mut().find(|(v, _)| *v == verdict) {
                Some((_, parts)) => parts.push(what),
                None => said.push((verdict, vec![what])),
            }
        }
        let said: Vec<String> = said.iter().map(|(v, parts)| format!("{}: {v}", parts.join(", "))).collect();
        let said = said.join("; ");
        match reported.iter_mut().find(|(s, _)| *s == said) {
            Some((_, levels)) => levels.push(level.to_string()),
            None => reported.push((said, vec![level.to_string()])),
        }
    }
    for (said, levels) in reported.iter().filter(|(said, _)| !said.is_empty()) {
        let levels = if let [only] = levels.as_slice() {
            format!("level {only}")
        } else {
            format!("levels {}", levels.join(", "))
        };
        page.text(TextRole::Plain, &format!("{levels} {said}"), "- ", "  ");
    }
}

/// Notes of claims.
fn remarks(page: &mut Page, claims: &[Claim]) {
    let label = |c: &Claim| format!("level {} by {}", c.level, c.source);
    let labelled: Vec<(String, &Finding)> =
        claims.iter().flat_map(|c| c.parts.iter().map(move |f| (label(c), *f))).collect();
    notes(page, &labelled);
}
