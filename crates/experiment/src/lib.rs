//! One file a question: about, plan, reading.
//!
//! An experiment's plan is a pure function of the record so far, a seed and a budget; its reading is a
//! pure function of the record. So anything can be judged again years later, from the file alone.
#![forbid(unsafe_code)]

pub mod budget;
pub mod cacheability;
mod clock;
mod common;
pub mod conflict;
pub mod disturbance;
pub mod doctor;
mod environment;
mod geometry;
pub mod latency;
pub mod pressure;
mod reading;
pub mod record;
pub mod session;
pub mod stride;
pub mod survey;

pub use reading::WARNINGS;

use fathom_probe::machine::Attribute;

/// What was asked differently for two records beside what their reports show: a sentence each. Seeds may differ;
/// that is a repetition.
#[must_use]
pub fn asked_differently(a: &record::Record, b: &record::Record) -> Vec<String> {
    let (a, b) = (a.run.clone().unwrap_or_default(), b.run.clone().unwrap_or_default());
    let sizes = |bytes: &[u64]| match bytes {
        [] => "its own choice".to_owned(),
        asked => asked.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut differ = Vec::new();
    if a.budget_ms != b.budget_ms {
        differ.push(format!("budget: {} ms against {} ms", a.budget_ms, b.budget_ms));
    }
    if a.bytes != b.bytes {
        differ.push(format!("working sets in bytes: {} against {}", sizes(&a.bytes), sizes(&b.bytes)));
    }
    if a.steps != b.steps {
        differ.push(format!("steps in bytes: {} against {}", sizes(&a.steps), sizes(&b.steps)));
    }
    if a.operations != b.operations {
        let all = |asked: &[fathom_probe::machine::Operation]| match asked {
            [] => "all".to_owned(),
            asked => record::words(asked),
        };
        differ.push(format!("operations: {} against {}", all(&a.operations), all(&b.operations)));
    }
    if a.ladders != b.ladders {
        let all = |asked: &[latency::ladder::Ladder]| match asked {
            [] => "none".to_owned(),
            asked => record::ladder_words(asked),
        };
        differ.push(format!("ladders: {} against {}", all(&a.ladders), all(&b.ladders)));
    }
    if a.colours != b.colours {
        let all = |asked: &[u64]| if asked.is_empty() { "none".to_owned() } else { sizes(asked) };
        differ.push(format!("page colours: {} against {}", all(&a.colours), all(&b.colours)));
    }
    if a.attributes != b.attributes {
        let all = |asked: &[Attribute]| match asked {
            [] => "all".to_owned(),
            asked => record::attribute_words(asked),
        };
        differ.push(format!("attributes: {} against {}", all(&a.attributes), all(&b.attributes)));
    }
    if a.rounds != b.rounds {
        let rounds = |n: u64| if n == 0 { cacheability::ROUNDS } else { n };
        differ.push(format!("rounds: {} against {}", rounds(a.rounds), rounds(b.rounds)));
    }
    if a.flush != b.flush {
        let with = |flush: bool| if flush { "flushes" } else { "none" };
        differ.push(format!("stand-in: {} against {}", with(a.flush), with(b.flush)));
    }
    if a.pressure != b.pressure {
        let words = |run: &record::Run| match run.pressure.words() {
            words if words.is_empty() => "nothing".to_owned(),
            words => words.trim_start().to_owned(),
        };
        differ.push(format!("of the pressure: {} against {}", words(&a), words(&b)));
    }
    let beside = |run: &record::Run| match (run.unfaulted, run.prefetch) {
        (false, false) => "nothing",
        (true, false) => "un-faulted sweeps",
        (false, true) => "the ladder of prefetch",
        (true, true) => "un-faulted sweeps and the ladder of prefetch",
    };
    if (a.unfaulted, a.prefetch) != (b.unfaulted, b.prefetch) {
        differ.push(format!("beside the sweeps: {} against {}", beside(&a), beside(&b)));
    }
    differ
}

/// Reads a record by the experiment that made it. Records of an experiment that this version does not know
/// are read as a survey: what it recognises in them it shows.
#[must_use]
pub fn read(record: &record::Record) -> fathom_analysis::findings::Report {
    match record.run.as_ref().map(|run| run.experiment.as_str()) {
        Some(latency::NAME) => latency::read(record),
        Some(stride::NAME) => stride::read(record),
        Some(conflict::NAME) => conflict::read(record),
        Some(cacheability::NAME) => cacheability::read(record),
        Some(pressure::NAME) => pressure::read(record),
        _ => survey::read(record),
    }
}
