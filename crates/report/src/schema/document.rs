//! The schema as text, and as a JSON Schema.

use fathom_units::facts::Study;
use serde_json::{Value, json};

use fathom_analysis::findings::tokens::{self, Tokens};
use fathom_analysis::findings::{Axis, Basis, Kind, Metric, UNITS, WarningKind};

use super::closed::{closed, optional};
use super::{FORMAT, TRUST, VERSION};
use crate::json::{DISTURBED_TRIALS, dependence_schema, sensitivity_schema};
use crate::kind::{self, ReportKind};

/// Returns the schema as text, within 100 columns: names of these kinds of report with unit and meaning, then axes and
/// words.
#[must_use]
pub fn schema_text(kinds: &[&ReportKind]) -> String {
    let metrics = kind::metrics(kinds);
    let mut out = format!("format {FORMAT}, version {VERSION}\n\nNames of findings and of histograms\n");
    for metric in &metrics {
        let kind = match metric.kind {
            Kind::Token(words) => format!("token of {}", words.name),
            Kind::Tokens(words) => format!("tokens of {}, separated by commas, or none", words.name),
            Kind::Text => "text".to_owned(),
            Kind::Histogram => format!("histogram, {}", metric.units.join(" or ")),
            Kind::Number if metric.units == [""] => "number".to_owned(),
            Kind::Number => metric.units.join(" or "),
        };
        out += &entry(metric.pattern, &format!("[{kind}] {}", metric.about));
        for field in metric.detail {
            let of = field.words.map(|words| format!(" (of {})", words.name)).unwrap_or_default();
            out += &entry("", &format!("detail.{}: {}{of}", field.name, field.about));
        }
    }
    out += "\nAxes: the coordinates in braces in a name, and in `at`\n";
    for axis in Axis::ALL {
        let of = axis.tokens().map_or("a whole number from 1".to_owned(), |words| {
            if words.name == axis.name() { list(words) } else { format!("a token of {}", words.name) }
        });
        out += &entry(axis.name(), &format!("{}: {of}", axis.about()));
    }
    out += "\nTokens\n";
    for words in token_lists(&metrics) {
        out += &entry(words.name, &format!("{}: {}", words.about, list(words)));
    }
    let units: Vec<&str> = UNITS.iter().map(|unit| if unit.is_empty() { "(none)" } else { unit }).collect();
    out += &entry("unit", &format!("unit of a value and of its interval: {}", units.join(", ")));
    let bases = Basis::ALL.map(Basis::token).join(", ");
    out += &entry("basis", &format!("origin of a value: {bases}"));
    out += "\nOther documents\n";
    for (format, about) in DOCUMENTS {
        out += &entry(format, about);
    }
    out += "\nWarnings\n";
    for kind in WarningKind::ALL {
        out += &entry(kind.token(), kind.about());
    }
    out
}

fn list(words: &Tokens) -> String {
    words.values.join(", ")
}

/// Every list of tokens that is not listed with its axis, once.
fn token_lists(metrics: &[&'static Metric]) -> Vec<&'static Tokens> {
    let values = metrics.iter().filter_map(|metric| match metric.kind {
        Kind::Token(words) | Kind::Tokens(words) => Some(words),
        Kind::Number | Kind::Text | Kind::Histogram => None,
    });
    let axes = Axis::ALL.iter().filter_map(|axis| axis.tokens());
    let with_axis = |words: &&Tokens| {
        Axis::ALL.iter().any(|axis| axis.tokens() == Some(*words) && axis.name() == words.name)
    };
    let mut all: Vec<&'static Tokens> = Vec::new();
    for words in values.chain(axes).chain([TRUST]).filter(|words| !with_axis(words)) {
        if !all.iter().any(|known| known.name == words.name) {
            all.push(words);
        }
    }
    all
}

/// Other machine-readable documents, all of version 1.
const DOCUMENTS: [(&str, &str); 2] = [
    (
        crate::json::COMPARISON,
        "`fathom compare --json`; its JSON Schema: `fathom schema --json --of comparison`",
    ),
    (
        crate::json::EXAMINATION,
        "`fathom doctor --json`: subject, and rows of what, state, found, cost and command",
    ),
];

/// Width of [`schema_text`], columns.
const TEXT_WIDTH: usize = 100;

/// Formats a name with its explanation next to it, wrapped.
fn entry(name: &str, text: &str) -> String {
    let head = format!("  {name:<26} ");
    let under = " ".repeat(29);
    let options = textwrap::Options::new(TEXT_WIDTH)
        .initial_indent(&head)
        .subsequent_indent(&under)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

/// Regular expression of a whole number from 1.
const WHOLE: &str = "[1-9][0-9]*";

/// Returns a regular expression (ECMA 262, as required by JSON Schema) for one of some words.
fn one_of(words: &Tokens) -> String {
    let one = |word: &&str| {
        tokens::numbered(word).map_or_else(|| (*word).to_owned(), |stem| format!("{stem}{WHOLE}"))
    };
    format!("({})", words.values.iter().map(one).collect::<Vec<_>>().join("|"))
}

/// Returns a regular expression for the names of a metric.
fn regex(metric: &Metric) -> String {
    let parts: Vec<String> = metric
        .pattern
        .split('.')
        .map(|part| {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            match name.and_then(Axis::of) {
                None => part.to_owned(),
                Some(axis) => axis.tokens().map_or(WHOLE.to_owned(), one_of),
            }
        })
        .collect();
    format!("^{}$", parts.join("\\."))
}

/// Returns the schema of `at` of a metric's findings.
fn coordinates(metric: &Metric) -> Value {
    let properties: serde_json::Map<String, Value> = metric
        .axes()
        .map(|axis| {
            let value = match axis.tokens() {
                None => json!({"type": "integer", "minimum": 1}),
                Some(words) => json!({"type": "string", "pattern": format!("^{}$", one_of(words))}),
            };
            (axis.name().to_owned(), value)
        })
        .collect();
    closed("Coordinates along the metric's axes.", Value::Object(properties))
}

fn finding_schema(metrics: &[&'static Metric]) -> Value {
    let mut row = closed(
        "One finding: a flat row.",
        json!({
            "name": {"description": "Dotted path, stable: the metric with its coordinates filled in.", "type": "string"},
            "metric": {"description": "Metric, as listed by `fathom schema`.", "type": "string"},
            "at": {"description": "Coordinates by axis.", "type": "object"},
            "basis": {"description": "Origin of the value.", "enum": Basis::ALL.map(Basis::token)},
            "detail": {"description": "Fields that the metric declares.", "type": "object"},
            "value": {
                "description": "A number in `unit`, or a text; null if the number is not finite (see the notes).",
                "type": ["number", "string", "null"],
            },
            "unit": {"enum": UNITS},
            "low": {"description": "Lower end of the 95 % interval, in `unit`.", "type": ["number", "null"]},
            "high": {"description": "Upper end of the 95 % interval, in `unit`.", "type": ["number", "null"]},
            "count": {"description": "Number of samples used for the value.", "type": "integer", "minimum": 0},
            "trials": {
                "description": "Ids of the trials of these samples in the record.",
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
            },
            "fitted": {
                "description": "The study with which it is compared, if values of that study are in the machine's description.",
                "enum": Study::ALL.iter().map(|study| json!(study.token())).chain([Value::Null]).collect::<Vec<_>>(),
            },
            "depends_on": dependence_schema(),
            "disturbed_trials": {
                "description": "Number of these trials that were disturbed, if they are so many that the value is doubtful; absent if not.",
                "type": "integer",
                "minimum": 1,
            },
            "notes": {
                "description": "Notes on bias, conditions and causes; one sentence each.",
                "type": "array",
                "items": {"type": "string"},
            },
        }),
    );
    optional(&mut row, DISTURBED_TRIALS);
    row["anyOf"] = metrics
        .iter()
        .filter_map(|metric| {
            let value = match metric.kind {
                Kind::Histogram => return None,
                Kind::Tokens(words) => {
                    let one = one_of(words);
                    json!({"type": "string", "pattern": format!("^(none|{one}(,{one})*)$")})
                }
                Kind::Token(words) => json!({"type": "string", "pattern": format!("^{}$", one_of(words))}),
                Kind::Text => json!({"type": "string"}),
                Kind::Number => json!({"type": ["number", "null"]}),
            };
            let mut one = of_metric(metric);
            one["properties"]["value"] = value;
            Some(one)
        })
        .collect();
    row
}

/// Returns the part of the schema that all rows of a metric share.
fn of_metric(metric: &Metric) -> Value {
    json!({
        "title": metric.pattern,
        "description": metric.about,
        "properties": {
            "name": {"pattern": regex(metric)},
            "metric": {"const": metric.pattern},
            "at": coordinates(metric),
            "unit": {"enum": metric.units},
        },
    })
}

fn histogram_schema(metrics: &[&'static Metric]) -> Value {
    let mut row = closed(
        "A histogram of raw samples, each divided by the loads that it timed.",
        json!({
            "name": {"description": "Dotted path, stable: the metric with its coordinates filled in.", "type": "string"},
            "metric": {"description": "Metric, as listed by `fathom schema`.", "type": "string"},
            "at": {"description": "Coordinates by axis.", "type": "object"},
            "bytes": {"description": "Working set, bytes.", "type": "integer", "minimum": 0},
            "unit": {"enum": UNITS},
            "loads_per_sample": {"description": "Loads that one sample timed.", "type": "integer", "minimum": 0},
            "counts": {
                "description": "[value, count], ascending in value.",
                "type": "array",
                "items": {
                    "type": "array",
                    "prefixItems": [{"type": ["number", "null"]}, {"type": "integer", "minimum": 0}],
                    "items": false,
                    "minItems": 2,
                },
            },
        }),
    );
    let histograms = metrics.iter().filter(|metric| metric.kind == Kind::Histogram);
    row["anyOf"] = histograms.map(|metric| of_metric(metric)).collect();
    row
}

/// Returns the JSON Schema (draft 2020-12) of the document that `--json` prints, indented.
///
/// `kinds` are the kinds of report of this build. `warnings` is the list of its warnings; an empty list allows any
/// token.
#[must_use]
pub fn schema_json(kinds: &[&ReportKind]) -> String {
    let metrics = kind::metrics(kinds);
    let token = json!({"enum": WarningKind::ALL.iter().map(|kind| kind.token()).collect::<Vec<_>>()});
    let headline = closed(
        "Summary of the findings for people; each line may be empty.",
        json!({
            "answer": {"description": "Main result.", "type": "string"},
            "confidence": {"description": "Confidence in the result.", "type": "string"},
            "action": {"description": "Recommended action.", "type": "string"},
        }),
    );
    let subject = closed(
        "The measured machine.",
        json!({
            "name": {"description": "The subject's name as the user typed it.", "type": "string"},
            "trust": {"description": "Trust in its clock.", "enum": TRUST.values},
            "facts": {"type": "object", "additionalProperties": {"type": "string"}},
        }),
    );
    let refusal = closed(
        "A measurement that was refused, with reason and remedy.",
        json!({"what": {"type": "string"}, "reason": {"type": "string"}, "remedy": {"type": "string"}}),
    );
    let warning = closed(
        "A restriction of the findings.",
        json!({"token": token, "text": {"type": "string"}, "remedy": {"type": "string"}}),
    );
    let mut document = closed(
        "Report of one experiment.",
        json!({
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "experiment": {"type": "string"},
            "headline": headline,
            "subject": subject,
            "seed": {"description": "The plan's seed, 64 bits.", "type": "integer", "minimum": 0},
            "elapsed_s": {"description": "Wall time of the measurement, seconds.", "type": ["number", "null"]},
            "findings": {"type": "array", "items": finding_schema(&metrics)},
            "histograms": {"type": "array", "items": histogram_schema(&metrics)},
            "refusals": {"type": "array", "items": refusal},
            "warnings": {"type": "array", "items": warning},
            "sensitivity": sensitivity_schema(),
        }),
    );
    let mut schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": FORMAT});
    if let (Some(head), Some(rest)) = (schema.as_object_mut(), document.as_object_mut()) {
        head.append(rest);
    }
    format!("{schema:#}\n")
}
