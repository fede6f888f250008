//! Several machines side by side, as text.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::Style;
use fathom_report::number;
use fathom_report::page::{Page, left, right};
use fathom_report::plot;

use super::machines::Machine;

/// Columns of the longest bar.
const BAR: f64 = 16.0;

/// Returns a table: for each machine cycles, also as a bar and with those of the first as 1, misses of each level, walks,
/// accesses of memory. Where one machine is varied, its rows are named by the values alone.
pub fn table(machines: &[Machine], reports: &[&Report], style: Style) -> String {
    let overlap = reports.iter().any(|report| report.find(&metrics::LEAST_CYCLES).is_some());
    let mut columns = vec![
        left("machine").key(),
        right("cycles"),
        right("of first"),
        left(""),
        left("misses"),
        right("walks"),
        right("memory"),
    ];
    let first = machines.first().map_or("", |machine| machine.base.as_str());
    let one = machines.iter().all(|machine| !machine.varied.is_empty() && machine.base == first);
    let first_cycles = reports.first().and_then(|report| cycles(report));
    let most = reports.iter().filter_map(|report| cycles(report)).fold(0.0, f64::max);
    let row = |(machine, report): (&Machine, &&Report)| {
        let relative = cycles(report).zip(first_cycles).map(|(here, first)| format!("{:.3}", here / first));
        let bar = cycles(report).map(|here| plot::bar(BAR * here / most, style.unicode));
        let of = |metric| shown(report.find(metric));
        let misses = report
            .of(&metrics::LEVEL_MISSES)
            .map(|f| format!("{} {}", f.detail.word(metrics::NAME).unwrap_or_default(), shown(Some(f))));
        let mut row = vec![
            if one { &machine.varied } else { &machine.name }.clone(),
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
    let rows: Vec<Vec<String>> = machines.iter().zip(reports).map(row).collect();
    let mut page = Page::new(style);
    let whose = if one { format!("{first} with other values") } else { "Machines".to_owned() };
    page.heading(&format!("{whose}, with the same accesses"));
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

    use super::super::machines::named;
    use super::super::vary::{self, Vary};
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
        let lines = |machines: &[Machine]| {
            let text = table(machines, &[&a, &b], style);
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        let machines = named(&["bcm2835".to_owned(), "bcm2837".to_owned()]).unwrap();
        let text = lines(&machines);
        assert!(text.contains(&"bcm2835 1000 1.000 ########### L1D 7, L2 3".to_owned()), "{text:#?}");
        assert!(text.contains(&"bcm2837 1500 1.500 ################ L1D 9".to_owned()), "{text:#?}");
        let vary = Vary::parse("l2.size=1M,2M").unwrap();
        let text = lines(&vary::all(vec![machines[1].clone()], &[vary]).unwrap());
        assert!(text.contains(&"bcm2837 with other values, with the same accesses".to_owned()), "{text:#?}");
        assert!(text.iter().any(|line| line.starts_with("l2.size=2M 1500 1.500")), "{text:#?}");
    }
}
