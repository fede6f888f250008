//! Sections of claims and their verdicts, and of the check of a description.

mod against;

use fathom_analysis::findings::{Axis, Finding, Metric, Report, Value};
use fathom_analysis::metrics::claims;
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{Page, TextRole, left, right};

/// Metrics that a source may claim of a level, in the order of the table's columns.
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

/// Takes the claims by level, then by source in the order of the schema, then by contents of the level.
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

/// Text roles of the verdicts.
const VERDICTS: &[(&str, TextRole)] = &[
    (" disagrees", TextRole::Bad),
    (" disagrees (guest)", TextRole::Bad),
    (" agrees", TextRole::Good),
    (" agrees (guest)", TextRole::Good),
];

/// Returns a verdict as it is printed: in a guest it applies to the guest, not to the machine.
fn worded(verdict: &str, trust: &str) -> String {
    match (verdict, trust) {
        ("agrees", "virtual") => "agrees (guest)",
        ("disagrees", "virtual") => "disagrees (guest)",
        _ => verdict,
    }
    .to_string()
}

/// Returns a finding's word.
fn word(f: &Finding) -> String {
    match &f.value {
        Value::Text(text) => text.clone(),
        Value::Number(_) => number::value(f).value,
    }
}

/// Renders claims, verdicts and the check of a description, if present.
pub(crate) fn section(page: &mut Page, report: &Report, finding_index: &mut FindingIndex) {
    measured_claims(page, report, finding_index);
    against::section(page, report, finding_index);
}

/// Renders the claims and the verdicts.
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
    page.heading("Claims and measurements");
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut levels: Vec<u64> = claimed.iter().map(|c| c.level).chain(verdicts.iter().map(|v| v.0)).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        let verdict = verdicts.iter().find(|v| v.0 == level).map(|v| v.1);
        let mut result = [
            verdict.map(|f| number::value(f).interval).unwrap_or_default(),
            verdict.map(|f| worded(&word(f), &report.trust)).unwrap_or_default(),
        ];
        let mut name = level.to_string();
        let of_level: Vec<&Claim> = claimed.iter().filter(|c| c.level == level).collect();
        if of_level.is_empty() {
            table.push([vec![name.clone()], vec![String::new(); 6], result.to_vec()].concat());
        }
        for c in of_level {
            let values = CLAIMED.map(|metric| c.value(metric));
            // Level and verdict only on the first row of a level.
            let head = vec![std::mem::take(&mut name), c.holds.clone(), c.source.clone()];
            table.push([head, values.to_vec(), std::mem::take(&mut result).to_vec()].concat());
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

/// Prints a verdict's notes; if there are none and it disagrees, one sentence.
fn sentence(page: &mut Page, report: &Report, level: u64, f: &Finding, claims: &[Claim]) {
    let disagrees = word(f) == "disagrees";
    let role = if disagrees { TextRole::Bad } else { TextRole::Plain };
    for note in &f.notes {
        page.text(role, note, "- ", "  ");
    }
    if !f.notes.is_empty() || !disagrees {
        return;
    }
    let claimed: Vec<String> = claims
        .iter()
        .filter(|c| c.level == level && c.part(CLAIMED[0]).is_some())
        .map(|c| format!("{} by {}", c.value(CLAIMED[0]), c.source))
        .collect();
    let guest = if report.trust == "virtual" { " (guest)" } else { "" };
    page.text(
        role,
        &format!("level {level}: claimed {}; the measurement disagrees{guest}", claimed.join(", ")),
        "- ",
        "  ",
    );
}

/// Properties of a level's geometry with verdicts.
const PARTS: [(&Metric, &str); 3] = [
    (&claims::VERDICT_LEVEL_LINE, "line"),
    (&claims::VERDICT_LEVEL_WAYS, "ways"),
    (&claims::VERDICT_LEVEL_SETS, "sets"),
];

/// Prints the verdicts on a level's geometry: disagreements one by one, the others summarised.
fn parts(page: &mut Page, report: &Report, built: &[((u64, usize), &Finding)]) {
    let mut levels: Vec<u64> = built.iter().map(|((level, _), _)| *level).collect();
    levels.dedup();
    // Levels with the same summary are printed together.
    let mut reported: Vec<(String, Vec<String>)> = Vec::new();
    for level in levels {
        let mut verdicts: Vec<(String, Vec<&str>)> = Vec::new();
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
            match verdicts.iter_mut().find(|(v, _)| *v == verdict) {
                Some((_, parts)) => parts.push(what),
                None => verdicts.push((verdict, vec![what])),
            }
        }
        let summary: Vec<String> =
            verdicts.iter().map(|(v, parts)| format!("{}: {v}", parts.join(", "))).collect();
        let summary = summary.join("; ");
        match reported.iter_mut().find(|(s, _)| *s == summary) {
            Some((_, levels)) => levels.push(level.to_string()),
            None => reported.push((summary, vec![level.to_string()])),
        }
    }
    for (summary, levels) in reported.iter().filter(|(summary, _)| !summary.is_empty()) {
        let levels = if let [only] = levels.as_slice() {
            format!("level {only}")
        } else {
            format!("levels {}", levels.join(", "))
        };
        page.text(TextRole::Plain, &format!("{levels} {summary}"), "- ", "  ");
    }
}

/// Prints the notes of claims.
fn remarks(page: &mut Page, claims: &[Claim]) {
    let label = |c: &Claim| format!("level {} by {}", c.level, c.source);
    let labelled: Vec<(String, &Finding)> =
        claims.iter().flat_map(|c| c.parts.iter().map(move |f| (label(c), *f))).collect();
    notes(page, &labelled);
}
