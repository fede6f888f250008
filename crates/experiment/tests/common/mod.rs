//! What the tests of every experiment ask of its report.

use fathom_analysis::findings::{Finding, Report, Value};
use fathom_experiment::read;
use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::{InProcess, Plan, Session};
use fathom_model::Model;
use fathom_model::description::Description;

/// A session on a described machine. From the file alone it gives the same.
pub fn measured(d: &Description, plan: Plan, run: Run) -> (Record, Report) {
    let seed = run.seed;
    let (text, record) = InProcess::new(Session::new(plan, run)).run(&mut Model::new(d, seed));
    let report = read(&record).expect("a report");
    // As text, because what was refused has no number, which equals nothing.
    let again = read(&Record::parse(&text.join("\n")).unwrap()).expect("a report");
    assert_eq!(format!("{again:?}"), format!("{report:?}"));
    assert!(record.trials.iter().all(|t| t.unverified == 0), "a sample without proof");
    (record, report)
}

/// The finding of this name.
pub fn finding<'a>(report: &'a Report, name: &str) -> &'a Finding {
    report.findings.iter().find(|f| f.name() == name).unwrap_or_else(|| panic!("no {name}: {report:#?}"))
}

/// Its value, a number.
pub fn number(report: &Report, name: &str) -> f64 {
    match finding(report, name).value {
        Value::Number(v) => v,
        ref other => panic!("{name}: {other:?}"),
    }
}
