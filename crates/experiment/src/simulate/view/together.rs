//! Several machines or programs side by side.

use fathom_analysis::findings::{Finding, Metric, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::page::{Page, left, right};
use fathom_report::plot;

use super::{cell, name};

/// Columns of the longest bar.
const BAR: f64 = 16.0;

/// Shows the reports of some machines, with their names in the table: cycles, also as a bar and with those of the first as 1, misses of
/// each level, walks, accesses of memory; and a figure of the cycles by who answered.
pub fn machines(heading: &str, machines: &[(&str, &Report)], page: &mut Page) {
    page.heading(heading);
    table("machine", machines, page);
}

/// Shows reports of records in the same way, each with what was simulated: programs may differ.
pub(crate) fn records(records: &[(&str, &Report)], page: &mut Page) {
    page.heading("Simulations, side by side");
    table("record", records, page);
    let row = |(name, report): &(&str, &Report)| {
        vec![(*name).to_owned(), report.subject.clone(), cell(report.find(&metrics::INSTRUCTIONS))]
    };
    let rows: Vec<Vec<String>> = records.iter().map(row).collect();
    page.table(&[left("record").key(), left("program and machine"), right("instructions")], &rows, &[]);
}

/// Shows the table and the figure. `what` is what its rows are.
fn table(what: &'static str, machines: &[(&str, &Report)], page: &mut Page) {
    let overlap = machines.iter().any(|(_, report)| report.find(&metrics::LEAST_CYCLES).is_some());
    let mut columns = vec![
        left(what).key(),
        right("cycles"),
        right("of first"),
        left(""),
        left("misses"),
        right("walks"),
        right("memory"),
    ];
    let first_cycles = machines.first().and_then(|(_, report)| cycles(report));
    let most = machines.iter().filter_map(|(_, report)| cycles(report)).fold(0.0, f64::max);
    let unicode = page.style().unicode;
    let row = |(machine, report): &(&str, &Report)| {
        let relative = cycles(report).zip(first_cycles).map(|(here, first)| format!("{:.3}", here / first));
        let bar = cycles(report).map(|here| plot::bar(BAR * here / most, unicode));
        let of = |metric: &'static Metric| cell(report.find(metric));
        let misses =
            report.of(&metrics::LEVEL_MISSES).map(|f| format!("{} {}", name(Some(f)), cell(Some(f))));
        let mut row = vec![
            (*machine).to_owned(),
            of(&metrics::CYCLES),
            relative.unwrap_or_default(),
            bar.unwrap_or_default(),
            misses.collect::<Vec<_>>().join(", "),
            of(&metrics::WALK_COUNT),
            of(&metrics::MEMORY_ACCESSES),
        ];
        if overlap {
            row.insert(2, of(&metrics::LEAST_CYCLES));
        }
        row
    };
    if overlap {
        columns.insert(2, right("least"));
    }
    let rows: Vec<Vec<String>> = machines.iter().map(row).collect();
    page.table(&columns, &rows, &[]);
    page.picture(parts(machines), Vec::new());
}

fn cycles(report: &Report) -> Option<f64> {
    report.find(&metrics::CYCLES).and_then(Finding::finite).filter(|cycles| *cycles > 0.0)
}

/// Returns the figure of the cycles by who answered: a row per machine. Levels of one name are one part.
fn parts(machines: &[(&str, &Report)]) -> Chart {
    let mut levels: Vec<String> = Vec::new();
    for level in machines.iter().flat_map(|(_, report)| report.of(&metrics::LEVEL_CYCLES)) {
        let name = name(Some(level));
        if !levels.contains(&name) {
            levels.push(name);
        }
    }
    let level = |level: &String| {
        Series::of(&metrics::LEVEL_CYCLES, format!("data from {level}")).whose(metrics::NAME, level)
    };
    let parts = [Series::of(&metrics::OPERATION_CYCLES, "instructions themselves")]
        .into_iter()
        .chain(levels.iter().map(level))
        .chain([
            Series::of(&metrics::MEMORY_CYCLES, "memory"),
            Series::of(&metrics::TRANSLATION_CYCLES, "translation"),
            Series::of(&metrics::FETCH_CYCLES, "instruction fetches"),
        ]);
    let axis = Scale::values("cycles").zero();
    let caption = "Cycles by who answered, if each access waits for the one before.";
    let names = machines.iter().map(|(name, _)| *name);
    let chart = Chart::new("together", Kind::Stacked, axis.clone(), axis, caption).row_names(names);
    parts.fold(chart, Chart::with)
}

#[cfg(test)]
mod tests {
    use fathom_analysis::findings::Item;
    use fathom_report::Style;

    use super::*;

    #[test]
    fn machines_are_compared_with_the_first() {
        let report = |cycles: f64, levels: &[(&str, f64)]| {
            let mut findings = vec![Finding::number(&metrics::CYCLES, cycles)];
            for ((name, misses), number) in levels.iter().zip(1u64..) {
                let mut finding = Finding::number(metrics::LEVEL_MISSES.at([number.into()]), *misses);
                finding.detail.set(metrics::NAME, Item::Token((*name).into()));
                findings.push(finding);
            }
            Report { findings, ..Report::default() }
        };
        let (a, b) = (report(1000.0, &[("L1D", 7.0), ("L2", 3.0)]), report(1500.0, &[("L1D", 9.0)]));
        let mut page = Page::new(Style { colour: false, unicode: false, width: 80, studies: false });
        machines("Machines", &[("bcm2835", &a), ("bcm2837", &b)], &mut page);
        let text = page.finish();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        assert!(lines.contains(&"bcm2835 1000 1.000 ########### L1D 7, L2 3".to_owned()), "{text}");
        assert!(lines.contains(&"bcm2837 1500 1.500 ################ L1D 9".to_owned()), "{text}");
    }

    #[test]
    fn records_tell_what_was_simulated() {
        let report = |subject: &str, cycles: f64, instructions: f64| Report {
            subject: subject.to_owned(),
            findings: vec![
                Finding::number(&metrics::CYCLES, cycles),
                Finding::number(&metrics::INSTRUCTIONS, instructions),
            ],
            ..Report::default()
        };
        let (a, b) = (report("a on bcm2835", 800.0, 70.0), report("b on bcm2835", 200.0, 60.0));
        let mut page = Page::new(Style { colour: false, unicode: false, width: 80, studies: false });
        records(&[("a.fathom", &a), ("b.fathom", &b)], &mut page);
        let text = page.finish();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        assert!(lines.contains(&"b.fathom 200 0.250 ####".to_owned()), "{text}");
        assert!(lines.contains(&"b.fathom b on bcm2835 60".to_owned()), "{text}");
    }
}
