//! Several machines side by side, in text and on a page.

use fathom_analysis::findings::Report;
use fathom_experiment::simulate;
use fathom_report::Style;
use fathom_report::page::Page;

use super::machines::Machine;

/// Returns what is shown of several machines with the same accesses. Where one machine is varied, it is named in the heading, and its
/// rows by the values alone.
pub fn page(machines: &[Machine], reports: &[&Report], style: Style) -> Page {
    let first = machines.first().map_or("", |machine| machine.base.as_str());
    let one = machines.iter().all(|machine| !machine.varied.is_empty() && machine.base == first);
    let whose = if one { format!("{first} with other values") } else { "Machines".to_owned() };
    let names = machines.iter().map(|machine| if one { &machine.varied } else { &machine.name });
    let rows: Vec<(&str, &Report)> = names.map(String::as_str).zip(reports.iter().copied()).collect();
    let mut page = Page::new(style);
    simulate::machines(&format!("{whose}, with the same accesses"), &rows, &mut page);
    page
}

#[cfg(test)]
mod tests {
    use fathom_analysis::findings::Finding;
    use fathom_analysis::metrics::simulate as metrics;

    use super::super::machines::named;
    use super::super::vary::{self, Vary};
    use super::*;

    #[test]
    fn variants_of_one_machine_are_named_by_their_values() {
        let report = |cycles| Report {
            findings: vec![Finding::number(&metrics::CYCLES, cycles)],
            ..Report::default()
        };
        let reports = [&report(1000.0), &report(1500.0)];
        let style = Style { colour: false, unicode: false, width: 80, studies: false };
        let machines = named(&["bcm2835".to_owned(), "bcm2837".to_owned()]).unwrap();
        let text = page(&machines, &reports, style).finish();
        assert!(text.contains("Machines, with the same accesses") && text.contains("bcm2835  "), "{text}");
        let vary = Vary::parse("l2.size=1M,2M").unwrap();
        let text = page(&vary::all(vec![machines[1].clone()], &[vary]).unwrap(), &reports, style).finish();
        assert!(text.contains("bcm2837 with other values, with the same accesses"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("l2.size=2M")), "{text}");
    }
}
