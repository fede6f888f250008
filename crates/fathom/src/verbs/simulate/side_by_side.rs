//! Several machines side by side, in text and on a page.

use fathom_analysis::findings::Report;
use fathom_experiment::simulate;
use fathom_experiment::simulate::quantity::Quantity;
use fathom_report::Style;
use fathom_report::page::Page;

use super::machines::Machine;
use crate::failure::Failure;

/// Returns what is shown of several machines with the same accesses. Where one machine is varied, it is named in the heading, and its
/// rows by the values alone.
pub fn page(machines: &[Machine], reports: &[&Report], style: Style) -> Page {
    let whose = match variants_of(machines) {
        Some(one) => format!("{one} with other values"),
        None => "Machines".to_owned(),
    };
    let rows: Vec<(&str, &Report)> = names(machines).zip(reports.iter().copied()).collect();
    let mut page = Page::new(style);
    simulate::machines(&format!("{whose}, with the same accesses"), &rows, &mut page);
    page
}

/// Adds the machines with the least count, by what they cost.
///
/// # Errors
/// A machine has no such count.
pub fn best(
    machines: &[Machine],
    reports: &[&Report],
    of: &Quantity,
    costs: &[Option<f64>],
    page: &mut Page,
) -> Result<(), Failure> {
    let candidate = |((name, report), cost): ((&'_ str, &&Report), &Option<f64>)| {
        let wrong = |why| Failure::usage(format!("--best-of {why} ({name})"), "");
        of.of(report).map_err(wrong).map(|value| (value, *cost))
    };
    let counted: Vec<(f64, Option<f64>)> =
        names(machines).zip(reports).zip(costs).map(candidate).collect::<Result<_, Failure>>()?;
    let all: Vec<simulate::Candidate> = names(machines)
        .zip(counted)
        .map(|(name, (value, cost))| simulate::Candidate { name, value, cost })
        .collect();
    simulate::best(&of.text, &all, page);
    Ok(())
}

/// Returns the machine of which all are variants, if there is one.
fn variants_of(machines: &[Machine]) -> Option<&str> {
    let first = machines.first()?.base.as_str();
    machines.iter().all(|machine| !machine.varied.is_empty() && machine.base == first).then_some(first)
}

/// Returns their names: of variants of one machine the values alone.
fn names(machines: &[Machine]) -> impl Iterator<Item = &str> {
    let one = variants_of(machines).is_some();
    machines.iter().map(move |machine| if one { machine.varied.as_str() } else { machine.name.as_str() })
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
