//! The record that the README shows, without private facts.

use fathom_experiment::record::file::{resumable, sealed};
use fathom_probe::wire::{Line, Value};

/// Facts that identify the owner rather than the machine: the kernel's build and command line, the container, other
/// activity.
const PRIVATE: [&str; 6] =
    ["env.cmdline", "env.kernel.", "env.container", "env.pressure.", "env.loadavg", "env.after."];

fn name(line: &Line) -> &str {
    match line.pairs.first() {
        Some((key, Value::Text(name))) if key == "name" => name,
        _ => "",
    }
}

/// Returns a record without private facts, its lines renumbered and resealed.
pub fn published(record: &str) -> String {
    let (mut out, mut seq, mut facts) = (Vec::new(), 0, 0u64);
    for text in &resumable(record) {
        let Ok(mut line) = Line::parse(text) else { panic!("a damaged record is not published: {text}") };
        if line.seq.is_none() {
            out.push(text.to_owned());
            continue;
        }
        if line.word == "fact" && PRIVATE.iter().any(|p| name(&line).starts_with(p)) {
            continue;
        }
        let later_part = line.pairs.iter().any(|(k, v)| k == "part" && *v != Value::Int(0));
        facts += u64::from(line.word == "fact" && !later_part);
        if line.word == "facts_end" {
            line = Line::new("facts_end").int("count", facts);
        }
        seq += 1;
        out.push(line.seal(seq));
    }
    sealed(out.iter().map(String::as_str))
}

#[test]
fn private_facts_are_removed_and_the_rest_is_resealed() {
    let fact = |name: &str| Line::new("fact").text("name", name).int("int", 1u64);
    let end = |count: u64| Line::new("facts_end").int("count", count);
    let of = |lines: &[Line]| {
        let lines = lines.iter().zip(1..).map(|(line, seq)| line.seal(seq));
        let lines: Vec<String> = ["fathom.record version=1".to_owned()].into_iter().chain(lines).collect();
        sealed(lines.iter().map(String::as_str))
    };
    let whole = of(&[fact("page.base"), fact("env.loadavg"), fact("clock.hz"), end(3)]);
    assert_eq!(published(&whole), of(&[fact("page.base"), fact("clock.hz"), end(2)]));
}
