//! Reading of the document that [`super::json()`] writes.

use fathom_analysis::findings::{
    self, Basis, Detail, Finding, Histogram, Item, Key, Kind, Refused, Report, UNITS, Warning, WarningKind,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::ReadError;
use super::{at, sensitivity};
use crate::kind::{self, ReportKind};
use crate::schema::{FORMAT, VERSION};

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
    /// Only doubtful findings have it.
    #[serde(default)]
    disturbed_trials: u64,
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
        disturbed_trials: row.disturbed_trials,
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

/// Reads a document written by [`super::json()`]. `kinds` are the kinds of report whose metrics may occur. The headline is not read: it follows from the findings.
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
