//! Several machines side by side, as text.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::Style;
use fathom_report::number;
use fathom_report::page::{Page, left, right};

/// Returns a table: for each machine cycles, those of the first as 1, misses of each level, walks, accesses of memory.
pub fn table(reports: &[(&str, &Report)], style: Style) -> String {
    let columns = [
        left("machine").key(),
        right("cycles"),
        right("of first"),
        left("misses"),
        right("walks"),
        right("memory"),
    ];
    let first = reports.first().and_then(|(_, report)| cycles(report));
    let row = |(name, report): &(&str, &Report)| {
        let relative = cycles(report).zip(first).map(|(here, first)| format!("{:.3}", here / first));
        let of = |metric| shown(report.find(metric));
        let misses = report
            .of(&metrics::LEVEL_MISSES)
            .map(|f| format!("{} {}", f.detail.word(metrics::NAME).unwrap_or_default(), shown(Some(f))));
        vec![
            (*name).to_owned(),
            of(&metrics::CYCLES),
            relative.unwrap_or_default(),
            misses.collect::<Vec<_>>().join(", "),
            of(&metrics::WALK_COUNT),
            of(&metrics::MEMORY_ACCESSES),
        ]
    };
    let rows: Vec<Vec<String>> = reports.iter().map(row).collect();
    let mut page = Page::new(style);
    page.heading("Machines, with the same accesses");
    page.table(&columns, &rows, &[]);
    page.finish()
}

fn cycles(report: &Report) -> Option<f64> {
    report.find(&metrics::CYCLES).and_then(Finding::finite).filter(|cycles| *cycles > 0.0)
}

fn shown(finding: Option<&Finding>) -> String {
    number::cells(finding)[0].clone()
}

#[cfg(test)]
mod tests {
    use fathom_analysis::findings::Item;

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
        let style = Style { colour: false, unicode: false, width: 80, studies: false };
        let text = table(&[("a", &a), ("b", &b)], style);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<_> = text.lines().map(words).collect();
        assert!(lines.contains(&words("a 1000 1.000 L1D 7, L2 3")), "{text}");
        assert!(lines.contains(&words("b 1500 1.500 L1D 9")), "{text}");
    }
}
