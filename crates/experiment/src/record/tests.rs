//! A small session as text, and the record that is read from it.

mod content;
mod damage;
mod sealed;
mod sensitivity;

use fathom_analysis::findings::WarningKind;
use std::sync::LazyLock;

use fathom_probe::pattern::{self, Clock, Memory};
use fathom_probe::rows::Sample;
use fathom_probe::wire::Value;

use super::*;
use crate::options::Asked;
use crate::{budget::Budget, disturbance, survey};

/// Returns samples of a chase with the correct cells at their ends.
fn verified_samples(chase: &Trial) -> Vec<Sample> {
    let chain = chase.pattern.chain(chase, 0, 0, 4096).expect("a chain");
    let mut at = chase.warm;
    (0..chase.samples)
        .map(|i| {
            let end = chain.cell_at(at + chase.loads);
            at += 3 * chase.loads;
            Sample {
                ticks: 12_000 + i,
                ticks2: 24_000 + i,
                end,
                end2: chain.cell_at(at),
                ..Sample::default()
            }
        })
        .collect()
}

/// Returns a small complete session: facts (one in parts), a clock trial, a verified chase, a refusal, the end.
fn session() -> Vec<String> {
    let run = Run {
        experiment: "survey".into(),
        subject: "a \"board\"\nwith\ttwo lines".into(),
        seed: 7,
        budget_ms: 1000,
        build: "x".into(),
        command: "fathom survey --on 'a b'".into(),
        asked: Asked::default().switched_on(&survey::options::REPLACEMENT),
    };
    let chase = Trial { id: 2, round: 1, memory: Memory::of(8192, 64), samples: 20, ..Trial::default() };
    let clock = Trial { id: 1, round: 1, loads: 3, samples: 1, ..Trial::of(Clock) };
    let tick = Sample { ticks: 5, ticks2: 30, ..Sample::default() };
    let done = |trial| Done {
        trial,
        page_bytes: 4096,
        translation: None,
        base: 0,
        spent_ns: 1_100_000,
        watch: Watch { wall_ns: 1_000_000, cpu_ns: 990_000, involuntary: 1, ..Watch::default() },
    };
    let mut sent = vec![
        Line::new("probe").int("wire", wire::VERSION).token("trust", "virtual"),
        Line::new("fact").text("name", "page.base").int("int", 4096u64),
        Line::new("fact").text("name", "dt").int("part", 0u64).int("of", 2u64).hex("hex", &[1, 2]),
        Line::new("fact").text("name", "dt").int("part", 1u64).int("of", 2u64).hex("hex", &[3]),
        Line::new("fact").text("name", "env.cpu.model").text("text", "naïve \"core\""),
        Line::new("facts_end").int("count", 3u64),
        clock.line(),
    ];
    sent.extend(Samples { trial: 1, list: vec![tick] }.lines());
    sent.extend([done(1).line(), chase.line()]);
    sent.extend(Samples { trial: 2, list: verified_samples(&chase) }.lines());
    sent.extend([
        done(2).line(),
        Trial { id: 3, round: 2, ..Trial::default() }.line(),
        Line::new("refusal").int("trial", 3u64).text("reason", "no pages").text("remedy", "free some"),
        Line::new("fault").text("what", "'x' is not asked here"),
        Line::new("fact").text("name", "env.after.loadavg").text("text", "1.00"),
        Line::new("gone"),
    ]);
    let mut lines = vec![Record::first_line(), run.line().render()];
    lines.extend(sent.iter().enumerate().map(|(i, line)| line.seal(i as u64 + 1)));
    lines.push(End { status: "complete".into(), elapsed_ms: 12 }.line().render());
    lines
}

static SESSION: LazyLock<Vec<String>> = LazyLock::new(session);

/// Reads a record, and computes everything that depends on it, to check that nothing panics.
fn read(text: &str) -> Result<Record, String> {
    let record = Record::parse(text)?;
    let _ = survey::read(&record);
    let _ = Budget::of(&record, u64::MAX).left();
    let _ = disturbance::judge(&record, &[], &[]);
    let _ = survey::plan(&record, 1, 1000);
    Ok(record)
}

fn damaged(record: &Record) -> Option<String> {
    let report = survey::read(record);
    report.warnings.iter().find(|w| w.kind == WarningKind::DamagedRecord).map(|w| w.text.clone())
}
