//! What two records were asked for, beside each other.

use fathom_probe::machine::{Attribute, Operation};

use crate::cacheability;
use crate::latency::ladder::Ladder;
use crate::record::{self, Record, Run};

/// What was asked differently for two records beside what their reports show: a sentence each. Seeds may differ;
/// that is a repetition.
#[must_use]
pub fn asked_differently(a: &Record, b: &Record) -> Vec<String> {
    let [a, b] = [a, b].map(|record| asked(&record.run.clone().unwrap_or_default()));
    let differ = a.into_iter().zip(b).filter(|((_, a), (_, b))| a != b);
    differ.map(|((what, a), (_, b))| format!("{what}: {a} against {b}")).collect()
}

/// What a run was asked for, in words.
fn asked(run: &Run) -> [(&'static str, String); 12] {
    let operations = |asked: &[Operation]| record::words(asked);
    let ladders = |asked: &[Ladder]| record::ladder_words(asked);
    let attributes = |asked: &[Attribute]| record::attribute_words(asked);
    let rounds = if run.rounds == 0 { cacheability::ROUNDS } else { run.rounds };
    let beside = match (run.unfaulted, run.prefetch) {
        (false, false) => "nothing",
        (true, false) => "un-faulted sweeps",
        (false, true) => "the ladder of prefetch",
        (true, true) => "un-faulted sweeps and the ladder of prefetch",
    };
    let transfers = run.dma.words();
    let transfers = if transfers.is_empty() { "nothing" } else { transfers.trim_start() };
    let pressure = run.pressure.words();
    let pressure = if pressure.is_empty() { "nothing" } else { pressure.trim_start() };
    [
        ("budget", format!("{} ms", run.budget_ms)),
        ("working sets in bytes", or("its own choice", &run.bytes, sizes)),
        ("steps in bytes", or("its own choice", &run.steps, sizes)),
        ("operations", or("all", &run.operations, operations)),
        ("ladders", or("none", &run.ladders, ladders)),
        ("page colours", or("none", &run.colours, sizes)),
        ("attributes", or("all", &run.attributes, attributes)),
        ("rounds", rounds.to_string()),
        ("stand-in", (if run.flush { "flushes" } else { "none" }).to_owned()),
        ("of the pressure", pressure.to_owned()),
        ("of the transfers", transfers.to_owned()),
        ("beside the sweeps", beside.to_owned()),
    ]
}

/// What was asked for, or what nothing means.
fn or<T>(nothing: &str, asked: &[T], words: impl Fn(&[T]) -> String) -> String {
    if asked.is_empty() { nothing.to_owned() } else { words(asked) }
}

fn sizes(bytes: &[u64]) -> String {
    bytes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
