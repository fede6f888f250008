//! Properties of every kind of report.

use std::path::Path;

use fathom_analysis::metrics::REGISTRY;
use fathom_experiment::record::file;
use fathom_experiment::report_kinds::{REPORT_KINDS, kind};
use fathom_report::kind::metrics;

#[test]
fn every_metric_belongs_to_a_kind_and_kind_names_are_unique() {
    let declared = metrics(&REPORT_KINDS);
    for metric in REGISTRY.metrics() {
        assert!(declared.contains(&metric), "{} is of no kind", metric.pattern);
    }
    for of in REPORT_KINDS.iter() {
        assert!(kind(of.name).is_some_and(|found| std::ptr::eq(found, *of)), "{}", of.name);
    }
    assert!(kind("rumour").is_none());
}

/// The findings of a record have only metrics that its experiment's kind declares.
#[test]
fn reports_have_the_metrics_of_their_kind() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records");
    let mut judged = 0;
    for entry in std::fs::read_dir(records).expect("the committed records") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "fathom") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a record");
        let record = file::read(&text).expect("it is one");
        let report = fathom_experiment::read(&record).expect("an experiment");
        let of = kind(&report.experiment).expect("a kind");
        for (what, metric) in report
            .findings
            .iter()
            .map(|f| (f.name(), f.key.metric))
            .chain(report.histograms.iter().map(|h| (h.name(), h.key.metric)))
        {
            assert!(
                of.metrics().any(|declared| *declared == *metric),
                "{}: {what} in {}",
                of.name,
                path.display()
            );
        }
        judged += 1;
    }
    assert!(judged > 8, "{judged} records");
}
