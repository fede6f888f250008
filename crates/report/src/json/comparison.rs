//! Comparisons as JSON, and the schema of that document.

use fathom_analysis::compare::{Comparison, Row, Verdict};
use serde_json::{Value, json};

use super::number;
use fathom_analysis::findings::{Key, UNITS};

use crate::schema::closed;
use crate::text::visible_json;

/// The `format` of the document that `fathom compare --json` prints.
pub const COMPARISON: &str = "fathom.comparison";

/// `version` of the document; it is increased only if an old reader would misread a new document.
pub const COMPARISON_VERSION: u64 = 1;

/// All verdicts, for the schema.
const VERDICTS: [Verdict; 5] =
    [Verdict::Differs, Verdict::Same, Verdict::Untested, Verdict::Disturbed, Verdict::Unmatched];

/// Returns the document that `fathom compare --json` prints, with a final newline. `others` are the other records
/// (name, and comparison with `first`) in the order given. `beyond` is the share that affects the exit status.
#[must_use]
pub fn comparison(
    experiment: &str,
    first: &str,
    others: &[(String, Comparison)],
    beyond: Option<f64>,
) -> String {
    let one = |(name, c): &(String, Comparison)| {
        let lines: Vec<String> = c.rows.iter().map(|r| format!("        {}", row(r, beyond, c))).collect();
        let rows =
            if lines.is_empty() { "[]".to_owned() } else { format!("[\n{}\n      ]", lines.join(",\n")) };
        let words: Vec<Value> =
            c.words.iter().map(|(key, a, b)| json!({"name": key.name(), "a": a, "b": b})).collect();
        let unusable: Vec<&str> =
            ["a", "b"].into_iter().zip(c.unusable).filter_map(|(name, is)| is.then_some(name)).collect();
        let only = |keys: &[Key]| json!(keys.iter().map(Key::name).collect::<Vec<_>>());
        format!(
            "    {{\n      \"b\": {},\n      \"unusable\": {},\n      \"option_differences\": {},\n      \"rows\": {rows},\n      \
             \"changed_values\": {},\n      \"only_a\": {},\n      \"only_b\": {}\n    }}",
            json!(name),
            json!(unusable),
            json!(c.plans),
            json!(words),
            only(&c.only[0]),
            only(&c.only[1])
        )
    };
    let all: Vec<String> = others.iter().map(one).collect();
    visible_json(&format!(
        "{{\n  \"format\": {},\n  \"version\": {COMPARISON_VERSION},\n  \"experiment\": {},\n  \"a\": {},\n  \
         \"fail_if\": {},\n  \"comparisons\": [\n{}\n  ]\n}}\n",
        json!(COMPARISON),
        json!(experiment),
        json!(first),
        json!(beyond.map(number)),
        all.join(",\n")
    ))
}

fn row(r: &Row, beyond: Option<f64>, c: &Comparison) -> Value {
    let tested = |v: f64| matches!(r.verdict, Verdict::Differs | Verdict::Same).then(|| number(v));
    let far = beyond.map(|share| c.beyond(share).any(|far| far.key == r.key));
    json!({
        "name": r.key.name(),
        "metric": r.key.metric.pattern,
        "at": super::at(&r.key),
        "better": r.key.metric.better.token(),
        "unit": r.unit,
        "a": number(r.values[0].value),
        "b": number(r.values[1].value),
        "change": number(r.change.value),
        "low": tested(r.change.low),
        "high": tested(r.change.high),
        "p": r.p.map(number),
        "differs": r.verdict.token(),
        "beyond": far,
    })
}

/// Returns the JSON Schema (draft 2020-12) of that document, indented.
#[must_use]
pub fn comparison_schema() -> String {
    let share = |about: &str| json!({"description": about, "type": ["number", "null"]});
    let texts = |about: &str| json!({"description": about, "type": "array", "items": {"type": "string"}});
    let row = closed(
        "One finding that both records have as a number: a flat row.",
        json!({
            "name": {"description": "The finding's name, as in fathom.findings.", "type": "string"},
            "unit": {"enum": UNITS},
            "metric": {"description": "Metric, as listed by `fathom schema`.", "type": "string"},
            "at": {"description": "Coordinates by axis.", "type": "object"},
            "better": {"description": "Which change is an improvement.", "enum": ["less", "more", "neither"]},
            "a": {"description": "Its value in A, in `unit`.", "type": ["number", "null"]},
            "b": {"description": "Its value in B, in `unit`.", "type": ["number", "null"]},
            "change": share("B less A over A: 0.01 is 1 %."),
            "low": share("Lower end of the change's 95 % interval; null if not tested."),
            "high": share("Upper end of it."),
            "p": share("p-value, corrected for the number of rows (Holm)."),
            "differs": {
                "description": "`disturbed`: not judged, because trials of one of the two were disturbed, or its session is unusable.",
                "enum": VERDICTS.map(Verdict::token),
            },
            "beyond": {
                "description": "Whether the whole interval is beyond `fail_if`; null without it.",
                "type": ["boolean", "null"],
            },
        }),
    );
    let word = closed(
        "A finding that is a token, with another value in B.",
        json!({"name": {"type": "string"}, "a": {"type": "string"}, "b": {"type": "string"}}),
    );
    let one = closed(
        "Comparison of a record with the first one.",
        json!({
            "b": {"description": "The record's file.", "type": "string"},
            "unusable": {
                "description": "The sessions that are unusable because of disturbance; then no row is judged.",
                "type": "array",
                "items": {"enum": ["a", "b"]},
            },
            "option_differences": texts("Options and clock trust that differ: read these first."),
            "rows": {"type": "array", "items": row},
            "changed_values": {"type": "array", "items": word},
            "only_a": texts("Findings that only A has."),
            "only_b": texts("Findings that only B has."),
        }),
    );
    let mut document = closed(
        "Comparisons of each further record with the first.",
        json!({
            "format": {"const": COMPARISON},
            "version": {"const": COMPARISON_VERSION},
            "experiment": {"type": "string"},
            "a": {"description": "The first record's file.", "type": "string"},
            "fail_if": {"description": "The share of --fail-if.", "type": ["number", "null"]},
            "comparisons": {"type": "array", "items": one},
        }),
    );
    let mut schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": COMPARISON});
    if let (Some(head), Some(rest)) = (schema.as_object_mut(), document.as_object_mut()) {
        head.append(rest);
    }
    format!("{schema:#}\n")
}
