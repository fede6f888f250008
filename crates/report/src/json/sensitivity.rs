//! Sensitivity as JSON: the value on which a finding depends most, and the values that were varied.

use fathom_analysis::findings::Report;
use fathom_analysis::findings::{Dependence, Outcome, Varied};
use fathom_units::facts::{Study, ValueClass};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ReadError;
use super::number;
use crate::schema::closed;

/// Returns the row of a value: its name, its class and the ends of its range.
fn varied(v: &Varied) -> Value {
    json!({"value": v.value, "class": v.class.token(), "low": v.ends[0], "high": v.ends[1]})
}

/// Returns the value on which a finding depends most, and what the finding becomes over that value's range.
pub(super) fn dependence(on: &Dependence) -> Value {
    let Outcome { range, words, missing } = &on.outcome;
    json!({
        "value": varied(&on.varied),
        "low": range.map(|(low, _)| number(low)),
        "high": range.map(|(_, high)| number(high)),
        "words": words,
        "missing": missing,
    })
}

/// State of a report without varied values.
const NOT_COMPUTED: &str = "not-computed";
/// State of values that were varied in the session.
const SESSION: &str = "session";
/// State of values that were varied ahead of it.
const AHEAD: &str = "ahead";

/// Returns the values of the description that were varied.
pub(super) fn varied_values(report: &Report) -> Value {
    let (state, values) = match &report.sensitivity {
        None => (NOT_COMPUTED, &[][..]),
        Some((false, values)) => (SESSION, values.as_slice()),
        Some((true, values)) => (AHEAD, values.as_slice()),
    };
    json!({"state": state, "values": values.iter().map(varied).collect::<Vec<_>>()})
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariedRow {
    value: String,
    class: String,
    low: Option<String>,
    high: Option<String>,
}

impl VariedRow {
    fn read(self) -> Result<Varied, ReadError> {
        let class = ValueClass::from_token(&self.class).ok_or(ReadError::Class(self.class))?;
        Ok(Varied { value: self.value, class, ends: [self.low, self.high] })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DependenceRow {
    value: VariedRow,
    low: Option<f64>,
    high: Option<f64>,
    words: Vec<String>,
    missing: bool,
}

impl DependenceRow {
    pub(super) fn read(self) -> Result<Dependence, ReadError> {
        let outcome = Outcome { range: self.low.zip(self.high), words: self.words, missing: self.missing };
        Ok(Dependence { varied: self.value.read()?, outcome })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    NotComputed,
    Session,
    Ahead,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SensitivityRow {
    state: State,
    values: Vec<VariedRow>,
}

impl SensitivityRow {
    pub(super) fn read(self) -> Result<Option<(bool, Vec<Varied>)>, ReadError> {
        let values = self.values.into_iter().map(VariedRow::read).collect::<Result<_, _>>()?;
        Ok(match self.state {
            State::NotComputed => None,
            State::Session => Some((false, values)),
            State::Ahead => Some((true, values)),
        })
    }
}

/// Reads the study with which a finding is compared.
pub(super) fn fitted(name: &str, study: String) -> Result<Study, ReadError> {
    Study::from_token(&study).ok_or_else(|| ReadError::Study { name: name.to_owned(), study })
}

/// Returns the schema of a varied value.
fn varied_schema() -> Value {
    let end = json!({
        "description": "End of its range, as in a description; null if that is not a possible machine.",
        "type": ["string", "null"],
    });
    closed(
        "A value of the description, varied over its plausible range.",
        json!({
            "value": {"description": "Table, number of the table if there may be several, and key.", "type": "string"},
            "class": {
                "description": "Where the value comes from.",
                "enum": ValueClass::ALL.iter().map(|class| class.token()).collect::<Vec<_>>(),
            },
            "low": end,
            "high": end,
        }),
    )
}

/// Returns the schema of `depends_on`.
pub(crate) fn dependence_schema() -> Value {
    let on = closed(
        "The value of the machine's description on which the finding depends most, and what the finding becomes.",
        json!({
            "value": varied_schema(),
            "low": {"description": "Smallest number, in `unit`.", "type": ["number", "null"]},
            "high": {"description": "Largest number, in `unit`.", "type": ["number", "null"]},
            "words": {
                "description": "The words, if it is a word and becomes another: its own first.",
                "type": "array",
                "items": {"type": "string"},
            },
            "missing": {"description": "Whether there is no such finding at one of the ends.", "type": "boolean"},
        }),
    );
    json!({"anyOf": [on, {"type": "null"}]})
}

/// Returns the schema of `sensitivity`.
pub(crate) fn sensitivity_schema() -> Value {
    closed(
        "Values of the machine's description that were varied one at a time.",
        json!({
            "state": {
                "description": "Not computed; computed in the session; computed ahead, for the same description.",
                "enum": [NOT_COMPUTED, SESSION, AHEAD],
            },
            "values": {"type": "array", "items": varied_schema()},
        }),
    )
}
