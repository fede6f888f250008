//! Surveys described machines in one process and prints what was found: the oracle's raw material.
//!
//! `cargo run --release -p fathom-experiment --example survey_model -- bcm2835 zen3`

use fathom_analysis::findings::Value;
use fathom_experiment::record::Run;
use fathom_experiment::session::{InProcess, Session};
use fathom_experiment::survey;
use fathom_model::{Model, catalog};

fn main() {
    for name in std::env::args().skip(1) {
        let description = match catalog::load(&name) {
            Some(Ok(d)) => d,
            other => {
                eprintln!("{name}: {other:?}");
                continue;
            }
        };
        let run = Run {
            experiment: survey::NAME.into(),
            subject: name.clone(),
            seed: 1,
            budget_ms: 10_000,
            ..Run::default()
        };
        let (_, record) =
            InProcess::new(Session::new(survey::plan, run)).run(&mut Model::new(&description, 1));
        let report = survey::read(&record);
        let accesses: u64 = record.trials.iter().filter_map(|t| t.done).map(|d| d.watch.accesses).sum();
        println!("== {name}: {} trials, {} rounds, {accesses} accesses", record.trials.len(), record.round());
        for f in &report.findings {
            let long = std::env::var_os("LONG").is_some();
            if !long && ["latency.", "pages.", "claim."].iter().any(|p| f.name().starts_with(p)) {
                continue;
            }
            match &f.value {
                Value::Number(v) => println!(
                    "  {} = {v:.3} {} [{:.3?} .. {:.3?}] {:?}",
                    f.name(),
                    f.unit,
                    f.low.unwrap_or(0.0),
                    f.high.unwrap_or(0.0),
                    f.notes
                ),
                Value::Text(t) => println!("  {} = {t} {:?}", f.name(), f.notes),
            }
        }
        for w in &report.warnings {
            println!("  ! {}: {}", w.kind.token(), w.text);
        }
        for r in &report.refusals {
            println!("  refused {}: {}", r.what, r.reason);
        }
        for p in &record.problems {
            println!("  problem {p}");
        }
    }
}
