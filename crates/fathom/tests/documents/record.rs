//! The record that the README shows, without private facts.

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
    let (mut out, mut seq, mut facts) = (String::new(), 0, 0u64);
    for text in record.lines() {
        let Ok(mut line) = Line::parse(text) else { panic!("a damaged record is not published: {text}") };
        if line.seq.is_none() {
            out += text;
            out.push('\n');
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
        out += &line.seal(seq);
        out.push('\n');
    }
    out
}

#[test]
fn private_facts_are_removed_and_the_rest_is_resealed() {
    let line = |seq, line: Line| line.seal(seq) + "\n";
    let fact = |name: &str| Line::new("fact").text("name", name).int("int", 1u64);
    let end = |count: u64| Line::new("facts_end").int("count", count);
    let whole = [
        "fathom.record version=1\n".to_owned(),
        line(1, fact("page.base")),
        line(2, fact("env.loadavg")),
        line(3, fact("clock.hz")),
        line(4, end(3)),
    ];
    let expected = [whole[0].clone(), whole[1].clone(), line(2, fact("clock.hz")), line(3, end(2))];
    assert_eq!(published(&whole.concat()), expected.concat());
}
