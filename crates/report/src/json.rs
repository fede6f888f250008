//! Findings as JSON, and reading of that document.
//!
//! Every top-level key and every row is on a separate line, so that the document can be compared and searched by line.

mod comparison;
mod sensitivity;

use fathom_analysis::examination::Row;
use fathom_analysis::findings::{
    self, Basis, Coordinate, Detail, Finding, Histogram, Item, Key, Kind, Refused, Report, UNITS, Warning,
    WarningKind,
};
use fathom_units::facts::Study;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::kind::{self, ReportKind};
use crate::schema::{FORMAT, VERSION};

pub(crate) use sensitivity::{dependence_schema, sensitivity_schema};

pub use comparison::{COMPARISON, COMPARISON_VERSION, comparison, comparison_schema};

/// Error of reading a document.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or a key that is missing, unknown or of the wrong type; the message has line and column.
    #[error("not findings: {0}; the document is described by `fathom schema`")]
    Syntax(#[from] serde_json::Error),
    /// A page without data.
    #[error("no data in this page: it was not made by fathom's --html, or cut off")]
    NoData,
    /// Another format.
    #[error("`format` is {0:?}, which this fathom does not read: {FORMAT:?} is what its --json prints")]
    Format(String),
    /// A version newer than this reader.
    #[error("`version` is {0}, this reads up to {VERSION}: use a newer fathom")]
    Version(u64),
    /// A unit that is not in the schema.
    #[error("unit {unit:?} of {name:?} is not one of {}", known(UNITS))]
    Unit {
        /// Finding or histogram.
        name: String,
        /// Unit.
        unit: String,
    },
    /// A name of no metric.
    #[error(
        "no finding or histogram is called {0:?}: `fathom schema` lists them; read the document with the fathom that wrote it"
    )]
    Name(String),
    /// A metric or coordinates that do not match the name.
    #[error("`metric` and `at` of {0:?} are not those of its name")]
    Key(String),
    /// An unknown basis.
    #[error("basis {basis:?} of {name:?} is not one of {}", known(&Basis::ALL.map(Basis::token)))]
    Basis {
        /// Finding.
        name: String,
        /// Basis.
        basis: String,
    },
    /// An unknown class of a described value.
    #[error("class {0:?} of a described value is not one that this fathom knows")]
    Class(String),
    /// An unknown study.
    #[error("study {study:?} of {name:?} is not one of S0 to S4")]
    Study {
        /// Finding.
        name: String,
        /// Study.
        study: String,
    },
    /// A field of detail that the metric does not declare, or with another type.
    #[error("field {field:?} in the detail of {name:?} is not declared by its metric")]
    Detail {
        /// Finding.
        name: String,
        /// Field.
        field: String,
    },
    /// An unknown warning token.
    #[error(
        "warning {0:?} is not one that this fathom gives: read the document with the fathom that wrote it"
    )]
    Warning(String),
}

fn known(values: &[&str]) -> String {
    values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(", ")
}

/// Returns a number that reads back as the same f64; null if it is not finite. Whole numbers are printed without a
/// fraction (exact: below 2^53 an i64 and an f64 represent the same number).
pub(crate) fn number(v: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if v.fract() == 0.0 && v.abs() < EXACT && !(v == 0.0 && v.is_sign_negative()) {
        return Value::from(v as i64);
    }
    Value::from(v)
}

const NO_VALUE: &str = "the value is not finite";
const NO_LOW: &str = "the lower end of the interval is not finite";
const NO_HIGH: &str = "the upper end of the interval is not finite";

fn finding(f: &Finding) -> Value {
    let mut notes = f.notes.clone();
    let mut missing = |bad: bool, note: &str| {
        if bad && !notes.iter().any(|n| n == note) {
            notes.push(note.to_string());
        }
    };
    let value = match &f.value {
        findings::Value::Text(text) => json!(text),
        findings::Value::Number(v) => {
            missing(!v.is_finite(), NO_VALUE);
            number(*v)
        }
    };
    missing(f.low.is_some_and(|v| !v.is_finite()), NO_LOW);
    missing(f.high.is_some_and(|v| !v.is_finite()), NO_HIGH);
    json!({
        "name": f.name(),
        "metric": f.key.metric.pattern,
        "at": at(&f.key),
        "basis": f.basis.token(),
        "detail": detail(&f.detail),
        "value": value,
        "unit": f.unit,
        "low": f.low.map(number),
        "high": f.high.map(number),
        "count": f.count,
        "trials": f.trials,
        "fitted": f.fitted.map(Study::token),
        "depends_on": f.depends_on.as_ref().map(sensitivity::dependence),
        "notes": notes,
    })
}

/// Returns coordinates by axis.
fn at(key: &Key) -> Value {
    let coordinates = key.at.iter().map(|(axis, coordinate)| {
        let value = match coordinate {
            Coordinate::Number(number) => json!(number),
            Coordinate::Word(..) | Coordinate::Text(_) => json!(coordinate.write(*axis)),
        };
        (axis.name().to_owned(), value)
    });
    Value::Object(coordinates.collect())
}

/// Returns fields by name; words with numbers as pairs, in their order.
fn detail(detail: &Detail) -> Value {
    let fields = detail.iter().map(|(name, item)| {
        let value = match item {
            Item::Flag(flag) => json!(flag),
            Item::Number(v) => number(*v),
            Item::Token(word) => json!(word),
            Item::Tokens(words) => json!(words),
            Item::Numbers(pairs) => pairs.iter().map(|(word, v)| json!([word, number(*v)])).collect(),
        };
        (name.to_owned(), value)
    });
    Value::Object(fields.collect())
}

fn histogram(h: &Histogram) -> Value {
    let counts: Vec<Value> = h.counts.iter().map(|(v, n)| json!([number(*v), n])).collect();
    json!({
        "name": h.name(),
        "metric": h.key.metric.pattern,
        "at": at(&h.key),
        "bytes": h.bytes,
        "unit": h.unit,
        "loads_per_sample": h.loads_per_sample,
        "counts": counts,
    })
}

/// Returns the subject's facts as one object. Values of facts with the same name are joined by `; `, because readers
/// differ in how they treat repeated keys.
fn facts(report: &Report) -> Value {
    let mut object = Map::new();
    for (name, value) in &report.facts {
        match object.get_mut(name) {
            Some(Value::String(earlier)) => {
                earlier.push_str("; ");
                earlier.push_str(value);
            }
            _ => {
                object.insert(name.clone(), json!(value));
            }
        }
    }
    Value::Object(object)
}

/// Returns an array with a row per line.
fn rows<T>(items: &[T], row: impl Fn(&T) -> Value) -> String {
    if items.is_empty() {
        return "[]".to_string();
    }
    let lines: Vec<String> = items.iter().map(|item| format!("    {}", row(item))).collect();
    format!("[\n{}\n  ]", lines.join(",\n"))
}

/// Returns the document that `--json` prints, with a final newline.
///
/// A number that is not finite becomes null, with a note in its row.
#[must_use]
pub fn json(report: &Report, kind: &ReportKind) -> String {
    let headline = (kind.headline)(report);
    let headline = json!({
        "answer": headline.answer,
        "confidence": headline.confidence,
        "action": headline.action,
    });
    let subject = json!({"name": report.subject, "trust": report.trust, "facts": facts(report)});
    let keys = [
        ("format", json!(FORMAT).to_string()),
        ("version", json!(VERSION).to_string()),
        ("experiment", json!(report.experiment).to_string()),
        ("headline", headline.to_string()),
        ("subject", subject.to_string()),
        ("seed", json!(report.seed).to_string()),
        ("elapsed_s", number(report.elapsed_s).to_string()),
        ("findings", rows(&report.findings, finding)),
        ("histograms", rows(&report.histograms, histogram)),
        (
            "refusals",
            rows(&report.refusals, |r| json!({"what": r.what, "reason": r.reason, "remedy": r.remedy})),
        ),
        (
            "warnings",
            rows(&report.warnings, |w| json!({"token": w.kind.token(), "text": w.text, "remedy": w.remedy})),
        ),
        ("sensitivity", sensitivity::varied_values(report).to_string()),
    ];
    let lines: Vec<String> = keys.iter().map(|(key, value)| format!("  \"{key}\": {value}")).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

/// `format` of the document that [`examination`] returns.
pub const EXAMINATION: &str = "fathom.doctor";

/// Returns the document that `fathom doctor --json` prints: format, version, subject and one flat row per line.
#[must_use]
pub fn examination(subject: &str, found: &[Row]) -> String {
    let row = |r: &Row| json!({"what": r.what, "state": r.state.token(), "found": r.found, "cost": r.cost, "command": r.command});
    let (format, subject) = (json!(EXAMINATION), json!(subject));
    let rows = rows(found, row);
    format!(
        "{{\n  \"format\": {format},\n  \"version\": 1,\n  \"subject\": {subject},\n  \"rows\": {rows}\n}}\n"
    )
}

/// Keys that are checked before the rest is parsed.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u64,
    experiment: String,
    #[serde(rename = "headline")]
    _headline: HeadlineRow,
    subject: Subject,
    seed: u64,
    elapsed_s: Option<f64>,
    findings: Vec<FindingRow>,
    histograms: Vec<HistogramRow>,
    refusals: Vec<RefusalRow>,
    warnings: Vec<WarningRow>,
    sensitivity: sensitivity::SensitivityRow,
}

/// The headline follows from the findings, so it is not read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadlineRow {
    #[serde(rename = "answer")]
    _answer: String,
    #[serde(rename = "confidence")]
    _confidence: String,
    #[serde(rename = "action")]
    _action: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    name: String,
    trust: String,
    facts: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a value is a number, a text or null")]
enum AnyValue {
    Number(Option<f64>),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindingRow {
    name: String,
    metric: String,
    at: Map<String, Value>,
    basis: String,
    detail: Map<String, Value>,
    value: AnyValue,
    unit: String,
    low: Option<f64>,
    high: Option<f64>,
    count: u64,
    trials: Vec<u64>,
    fitted: Option<String>,
    depends_on: Option<sensitivity::DependenceRow>,
    notes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistogramRow {
    name: String,
    metric: String,
    at: Map<String, Value>,
    bytes: u64,
    unit: String,
    loads_per_sample: u64,
    counts: Vec<(Option<f64>, u64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusalRow {
    what: String,
    reason: String,
    remedy: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WarningRow {
    token: String,
    text: String,
    remedy: String,
}

/// Returns the unit as a static string.
fn unit(name: &str, unit: &str) -> Result<&'static str, ReadError> {
    let found = UNITS.iter().find(|u| **u == unit);
    found.copied().ok_or_else(|| ReadError::Unit { name: name.to_string(), unit: unit.to_string() })
}

/// Returns the key of a row from its name; metric and coordinates must match. A histogram's metric is of kind
/// histogram, a finding's is not.
fn read_key(
    kinds: &[&ReportKind],
    name: &str,
    metric: &str,
    coordinates: &Map<String, Value>,
    histogram: bool,
) -> Result<Key, ReadError> {
    let fits = |key: &Key| (key.metric.kind == Kind::Histogram) == histogram;
    let key = kind::key(kinds, name).filter(fits).ok_or_else(|| ReadError::Name(name.to_owned()))?;
    if key.metric.pattern != metric || at(&key).as_object() != Some(coordinates) {
        return Err(ReadError::Key(name.to_owned()));
    }
    Ok(key)
}

fn read_item(value: &Value) -> Option<Item> {
    Some(match value {
        Value::Bool(flag) => Item::Flag(*flag),
        Value::Number(v) => Item::Number(v.as_f64()?),
        Value::Null => Item::Number(f64::NAN),
        Value::String(word) => Item::Token(word.clone()),
        Value::Array(all) if all.iter().all(Value::is_string) => {
            Item::Tokens(all.iter().filter_map(|w| Some(w.as_str()?.to_owned())).collect())
        }
        Value::Array(all) => {
            let pair = |pair: &Value| match pair.as_array()?.as_slice() {
                [word, Value::Null] => Some((word.as_str()?.to_owned(), f64::NAN)),
                [word, v] => Some((word.as_str()?.to_owned(), v.as_f64()?)),
                _ => None,
            };
            Item::Numbers(all.iter().map(pair).collect::<Option<_>>()?)
        }
        Value::Object(_) => return None,
    })
}

/// Reads the fields that the metric declares; other fields, or other types, are errors.
fn read_detail(key: &Key, fields: &Map<String, Value>) -> Result<Detail, ReadError> {
    let mut detail = Detail::default();
    for (name, value) in fields {
        let field = key.metric.detail.iter().find(|field| field.name == name);
        let (Some(field), Some(item)) = (field, read_item(value)) else {
            return Err(ReadError::Detail { name: key.name(), field: name.clone() });
        };
        detail.set(*field, item);
    }
    Ok(detail)
}

fn read_finding(kinds: &[&ReportKind], row: FindingRow) -> Result<Finding, ReadError> {
    let key = read_key(kinds, &row.name, &row.metric, &row.at, false)?;
    Ok(Finding {
        unit: unit(&row.name, &row.unit)?,
        value: match row.value {
            AnyValue::Number(v) => findings::Value::Number(v.unwrap_or(f64::NAN)),
            AnyValue::Text(text) => findings::Value::Text(text),
        },
        low: row.low,
        high: row.high,
        count: row.count,
        trials: row.trials,
        basis: Basis::of(&row.basis)
            .ok_or_else(|| ReadError::Basis { name: key.name(), basis: row.basis.clone() })?,
        detail: read_detail(&key, &row.detail)?,
        fitted: row.fitted.map(|study| sensitivity::fitted(&row.name, study)).transpose()?,
        depends_on: row.depends_on.map(sensitivity::DependenceRow::read).transpose()?,
        notes: row.notes,
        key,
    })
}

fn read_histogram(kinds: &[&ReportKind], row: HistogramRow) -> Result<Histogram, ReadError> {
    Ok(Histogram {
        key: read_key(kinds, &row.name, &row.metric, &row.at, true)?,
        unit: unit(&row.name, &row.unit)?,
        bytes: row.bytes,
        loads_per_sample: row.loads_per_sample,
        counts: row.counts.into_iter().map(|(v, n)| (v.unwrap_or(f64::NAN), n)).collect(),
    })
}

fn read_fact((name, value): (String, Value)) -> Result<(String, String), ReadError> {
    let text = match value {
        Value::String(text) => text,
        // A fact that is not a text is an error with serde's message.
        other => serde_json::from_value(other)?,
    };
    Ok((name, text))
}

/// Reads a document written by [`json()`]. `kinds` are the kinds of report whose metrics may occur. The headline is not read: it follows from the findings.
///
/// A null value is read as not-a-number, which prints as null again.
///
/// # Errors
/// A [`ReadError`] with line and column, or with the offending unit, token or version.
pub fn from_json(text: &str, kinds: &[&ReportKind]) -> Result<Report, ReadError> {
    let head: Head = serde_json::from_str(text)?;
    if head.format != FORMAT {
        return Err(ReadError::Format(head.format));
    }
    if head.version > VERSION {
        return Err(ReadError::Version(head.version));
    }
    let d: Document = serde_json::from_str(text)?;
    let warning = |w: WarningRow| {
        let kind = WarningKind::from_token(&w.token).ok_or(ReadError::Warning(w.token))?;
        Ok(Warning::new(kind, w.text, w.remedy))
    };
    Ok(Report {
        experiment: d.experiment,
        subject: d.subject.name,
        trust: d.subject.trust,
        facts: d.subject.facts.into_iter().map(read_fact).collect::<Result<_, _>>()?,
        seed: d.seed,
        elapsed_s: d.elapsed_s.unwrap_or(f64::NAN),
        findings: d.findings.into_iter().map(|row| read_finding(kinds, row)).collect::<Result<_, _>>()?,
        histograms: d
            .histograms
            .into_iter()
            .map(|row| read_histogram(kinds, row))
            .collect::<Result<_, _>>()?,
        refusals: d
            .refusals
            .into_iter()
            .map(|r| Refused { what: r.what, reason: r.reason, remedy: r.remedy })
            .collect(),
        warnings: d.warnings.into_iter().map(warning).collect::<Result<_, ReadError>>()?,
        sensitivity: d.sensitivity.read()?,
    })
}
