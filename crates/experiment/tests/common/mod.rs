//! Helper functions for tests of experiments and their reports.

use fathom_analysis::findings::{Finding, Report, Value};
use fathom_experiment::read;
use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::{InProcess, Plan, Session};
use fathom_model::Model;
use fathom_model::description::Description;

/// Runs a session on a described machine; asserts that its record gives the same report when read from text.
pub fn measured(d: &Description, plan: Plan, run: Run) -> (Record, Report) {
    let seed = run.seed;
    let (text, record) = InProcess::new(Session::new(plan, run)).run(&mut Model::new(d, seed));
    let report = read(&record).expect("a report");
    // Compared as text, because refused values are NaN, which equals nothing.
    let again = read(&Record::parse(&text.join("\n")).unwrap()).expect("a report");
    assert_eq!(format!("{again:?}"), format!("{report:?}"));
    assert!(record.trials.iter().all(|t| t.unverified == 0), "an unverified sample");
    (record, report)
}

/// Returns the finding with this name.
pub fn finding<'a>(report: &'a Report, name: &str) -> &'a Finding {
    report.findings.iter().find(|f| f.name() == name).unwrap_or_else(|| panic!("no {name}: {report:#?}"))
}

/// Returns the value of a finding, which must be a number.
pub fn number(report: &Report, name: &str) -> f64 {
    match finding(report, name).value {
        Value::Number(v) => v,
        ref other => panic!("{name}: {other:?}"),
    }
}
