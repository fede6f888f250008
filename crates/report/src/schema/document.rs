//! The list of names as text, and as a JSON Schema.

use serde_json::{Value, json};

use super::{FORMAT, TOKENS, VERSION, WarningKind, is_placeholder, names, numbered, values};

/// The list for people, within 100 columns: names with unit and meaning, then the tokens.
#[must_use]
pub fn schema_text(warnings: &[WarningKind]) -> String {
    let mut out = format!("format {FORMAT}, version {VERSION}\n\nNames of findings\n");
    for n in names() {
        let kind = match n.value {
            Some(kind) => kind.to_string(),
            None if n.units == [""] => "number".to_string(),
            None => n.units.join(" or "),
        };
        out += &entry(n.pattern, &format!("[{kind}] {}", n.about));
    }
    out += "\nTokens\n";
    for k in TOKENS {
        let list: Vec<&str> = k.values.iter().map(|v| if v.is_empty() { "(none)" } else { v }).collect();
        let text =
            if list.is_empty() { k.about.to_string() } else { format!("{}: {}", k.about, list.join(", ")) };
        out += &entry(k.kind, &text);
    }
    out += "\nOther documents\n";
    for (format, about) in DOCUMENTS {
        out += &entry(format, about);
    }
    if !warnings.is_empty() {
        out += "\nWarnings\n";
        for (token, about) in warnings {
            out += &entry(token, about);
        }
    }
    out
}

/// What else is printed for scripts, all of version 1.
const DOCUMENTS: [(&str, &str); 3] = [
    (
        crate::json::COMPARISON,
        "`fathom compare --json`; its JSON Schema: `fathom schema --json --of comparison`",
    ),
    (
        crate::json::EXAMINATION,
        "`fathom doctor --json`: subject, and rows of what, state, found, cost and line",
    ),
    ("fathom.share", "`fathom share --as yaml`: an anonymous summary"),
];

/// Columns that [`schema_text`] keeps within.
const TEXT_WIDTH: usize = 100;

/// A name and its explanation beside it, wrapped under itself.
fn entry(name: &str, text: &str) -> String {
    let head = format!("  {name:<26} ");
    let under = " ".repeat(29);
    let options = textwrap::Options::new(TEXT_WIDTH)
        .initial_indent(&head)
        .subsequent_indent(&under)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

/// A whole number from 1.
const WHOLE: &str = "[1-9][0-9]*";

/// A regular expression (ECMA 262, as JSON Schema wants) for one pattern.
fn regex(pattern: &str) -> String {
    let parts: Vec<String> = pattern
        .split('.')
        .map(|part| match (is_placeholder(part), values(part)) {
            (false, _) => part.to_string(),
            (true, []) => WHOLE.to_string(),
            (true, tokens) => {
                let one = |t: &&str| numbered(t).map_or_else(|| (*t).to_string(), |w| format!("{w}{WHOLE}"));
                format!("({})", tokens.iter().map(one).collect::<Vec<_>>().join("|"))
            }
        })
        .collect();
    format!("^{}$", parts.join("\\."))
}

/// A regular expression for one or more policies.
fn policies() -> String {
    let (none, one) = (values("POLICIES").join("|"), values("POLICY").join("|"));
    format!("^({none}|({one})(,({one}))*)$")
}

/// A closed object: every property required, none other allowed.
pub(crate) fn closed(about: &str, properties: Value) -> Value {
    let keys: Vec<&str> =
        properties.as_object().map_or(Vec::new(), |o| o.keys().map(String::as_str).collect());
    json!({
        "description": about,
        "type": "object",
        "required": keys,
        "additionalProperties": false,
        "properties": properties,
    })
}

fn finding_schema() -> Value {
    let mut row = closed(
        "One finding: a flat row.",
        json!({
            "name": {"description": "Dotted path, stable.", "type": "string"},
            "value": {
                "description": "A number in `unit`, or a text; null where no finite number came out (see the notes).",
                "type": ["number", "string", "null"],
            },
            "unit": {"enum": values("UNIT")},
            "low": {"description": "Lower end of the 95 % interval, in `unit`.", "type": ["number", "null"]},
            "high": {"description": "Upper end of the 95 % interval, in `unit`.", "type": ["number", "null"]},
            "count": {"description": "Samples that the value rests on.", "type": "integer", "minimum": 0},
            "trials": {
                "description": "Ids in the record of the trials that they came from.",
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
            },
            "notes": {
                "description": "Bias notes, conditions, causes; a sentence each.",
                "type": "array",
                "items": {"type": "string"},
            },
        }),
    );
    row["anyOf"] = names()
        .map(|n| {
            let value = match n.value {
                Some("POLICIES") => json!({"type": "string", "pattern": policies()}),
                Some("CURVE") => json!({"type": "string", "pattern": regex("STRESS.MODE.STEP")}),
                Some(kind) => json!({"enum": values(kind)}),
                None => json!({"type": ["number", "null"]}),
            };
            json!({
                "title": n.pattern,
                "description": format!("{}; since version {}", n.about, n.since),
                "properties": {"name": {"pattern": regex(n.pattern)}, "unit": {"enum": n.units}, "value": value},
            })
        })
        .collect();
    row
}

fn histogram_schema() -> Value {
    closed(
        "A histogram of raw samples.",
        json!({
            "name": {"type": "string"},
            "bytes": {"description": "Working set, bytes.", "type": "integer", "minimum": 0},
            "unit": {"enum": values("UNIT")},
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
    )
}

/// The JSON Schema (draft 2020-12) of the document that `--json` prints, indented.
///
/// `warnings` is the list of warnings that this build may give; an empty one allows any token.
#[must_use]
pub fn schema_json(warnings: &[WarningKind]) -> String {
    let token = if warnings.is_empty() {
        json!({"type": "string"})
    } else {
        json!({"enum": warnings.iter().map(|w| w.0).collect::<Vec<_>>()})
    };
    let subject = closed(
        "What was measured.",
        json!({
            "name": {"description": "The subject's name as the user typed it.", "type": "string"},
            "worth": {"description": "How far its clock may be believed.", "enum": values("WORTH")},
            "facts": {"type": "object", "additionalProperties": {"type": "string"}},
        }),
    );
    let refusal = closed(
        "A reasoned \"not here\", with the remedy.",
        json!({"what": {"type": "string"}, "reason": {"type": "string"}, "remedy": {"type": "string"}}),
    );
    let warning = closed(
        "What to know before trusting the findings.",
        json!({"token": token, "text": {"type": "string"}, "remedy": {"type": "string"}}),
    );
    let mut document = closed(
        "Everything that one experiment says.",
        json!({
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "experiment": {"type": "string"},
            "subject": subject,
            "seed": {"description": "The plan's seed, 64 bits.", "type": "integer", "minimum": 0},
            "elapsed_s": {"description": "Wall time that the measurement took, seconds.", "type": ["number", "null"]},
            "findings": {"type": "array", "items": finding_schema()},
            "histograms": {"type": "array", "items": histogram_schema()},
            "refusals": {"type": "array", "items": refusal},
            "warnings": {"type": "array", "items": warning},
        }),
    );
    let mut schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": FORMAT});
    if let (Some(head), Some(rest)) = (schema.as_object_mut(), document.as_object_mut()) {
        head.append(rest);
    }
    format!("{schema:#}\n")
}
