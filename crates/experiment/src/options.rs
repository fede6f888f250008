//! What two records were asked for, beside each other.

use fathom_probe::machine::{Attribute, Operation};

use crate::cacheability;
use crate::latency::ladder::Ladder;
use crate::record::{self, Record, Run};

/// What was asked differently for two records beside what their reports show: a sentence each. Seeds may differ;
/// that is a repetition.
#[must_use]
pub fn option_differences(a: &Record, b: &Record) -> Vec<String> {
    let [a, b] = [a, b].map(|record| requested(&record.run.clone().unwrap_or_default()));
    let differ = a.into_iter().zip(b).filter(|((_, a), (_, b))| a != b);
    differ.map(|((what, a), (_, b))| format!("{what}: {a} against {b}")).collect()
}

/// What a run was asked for, in words.
fn requested(run: &Run) -> [(&'static str, String); 12] {
    let operations = |requested: &[Operation]| record::words(requested);
    let ladders = |requested: &[Ladder]| record::ladder_words(requested);
    let attributes = |requested: &[Attribute]| record::attribute_words(requested);
    let rounds = if run.rounds == 0 { cacheability::ROUNDS } else { run.rounds };
    let beside = match (run.first_touch, run.prefetch) {
        (false, false) => "nothing",
        (true, false) => "first-touch sweeps",
        (false, true) => "the ladder of prefetch",
        (true, true) => "first-touch sweeps and the ladder of prefetch",
    };
    let transfers = run.dma.words();
    let transfers = if transfers.is_empty() { "nothing" } else { transfers.trim_start() };
    let wakeup = run.wakeup.words();
    let wakeup = if wakeup.is_empty() { "nothing" } else { wakeup.trim_start() };
    [
        ("budget", format!("{} ms", run.budget_ms)),
        ("working sets in bytes", or("its own choice", &run.bytes, sizes)),
        ("strides in bytes", or("its own choice", &run.strides, sizes)),
        ("operations", or("all", &run.operations, operations)),
        ("ladders", or("none", &run.ladders, ladders)),
        ("page colours", or("none", &run.colours, sizes)),
        ("attributes", or("all", &run.attributes, attributes)),
        ("rounds", rounds.to_string()),
        ("substitute", (if run.flush { "flushes" } else { "none" }).to_owned()),
        ("of the wake-ups", wakeup.to_owned()),
        ("of the transfers", transfers.to_owned()),
        ("beside the sweeps", beside.to_owned()),
    ]
}

/// What was asked for, or what nothing means.
fn or<T>(nothing: &str, requested: &[T], words: impl Fn(&[T]) -> String) -> String {
    if requested.is_empty() { nothing.to_owned() } else { words(requested) }
}

fn sizes(bytes: &[u64]) -> String {
    bytes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
