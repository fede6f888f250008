//! The machines with the least of a count, by what they cost.

use fathom_report::number;
use fathom_report::page::{Page, TextRole, left, right};

/// Machines that are shown, if none has a cost.
const SHOWN: usize = 10;

/// A machine, and what it counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// Name.
    pub name: &'a str,
    /// The count.
    pub value: f64,
    /// What it costs, in a unit of the user's; `None` if no costs are given.
    pub cost: Option<f64>,
}

/// Returns those with the least count, ascending; with costs, those of which no other counts as little or less and costs as little or less,
/// the cheapest first. Of equal ones it is the first.
fn chosen<'a, 'n>(all: &'a [Candidate<'n>]) -> Vec<&'a Candidate<'n>> {
    let mut sorted: Vec<&Candidate> = all.iter().collect();
    let cost = |of: &Candidate| of.cost.unwrap_or(0.0);
    sorted.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.value.total_cmp(&b.value)));
    if all.iter().all(|of| of.cost.is_none()) {
        sorted.truncate(SHOWN);
        return sorted;
    }
    let mut least = f64::INFINITY;
    sorted.retain(|of| {
        let better = of.value < least;
        least = least.min(of.value);
        better
    });
    sorted
}

/// Shows the machines with the least `what`.
pub fn best(what: &str, all: &[Candidate], page: &mut Page) {
    let priced = all.iter().any(|of| of.cost.is_some());
    let chosen = chosen(all);
    page.heading(&if priced { format!("Least {what} for each cost") } else { format!("Least {what}") });
    let least = all.iter().map(|of| of.value).fold(f64::INFINITY, f64::min);
    let shown = |value: f64| number::shown(value, None, None).value;
    let row = |of: &&Candidate| {
        let relative = if least > 0.0 { format!("{:.3}", of.value / least) } else { String::new() };
        let mut row = vec![of.name.to_owned(), shown(of.value), relative];
        row.extend(of.cost.map(shown));
        row
    };
    let mut columns = vec![left("machine").key(), right("count"), right("of least")];
    columns.extend(priced.then(|| right("cost")));
    page.table(&columns, &chosen.iter().map(row).collect::<Vec<_>>(), &[]);
    let others = all.len() - chosen.len();
    if others > 0 {
        let who = if others == 1 { "1 other has".to_owned() } else { format!("{others} others have") };
        let what =
            if priced { "no less than one of these that costs as much or less" } else { "more, or as much" };
        page.text(TextRole::Plain, &format!("{who} {what}"), "", "  ");
    }
}

#[cfg(test)]
mod tests {
    use fathom_report::Style;

    use super::*;

    fn text(all: &[Candidate]) -> Vec<String> {
        let mut page = Page::new(Style { colour: false, unicode: false, width: 80, studies: false });
        best("walks", all, &mut page);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        page.finish().lines().map(words).filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn without_costs_the_least_are_first() {
        let names: Vec<String> = (0..12).map(|n| format!("m{n}")).collect();
        let of = |n: usize| Candidate { name: &names[n], value: 50.0 - n as f64, cost: None };
        let lines = text(&(0..12).map(of).collect::<Vec<_>>());
        let at = lines.iter().position(|line| line.starts_with("m11 39 1.000")).expect("the least");
        assert!(lines[at + 1].starts_with("m10 40 1.026"), "{lines:?}");
        assert_eq!(
            lines.iter().filter(|line| line.starts_with('m') && !line.contains("machine")).count(),
            10
        );
        assert!(lines.last().is_some_and(|line| line.starts_with("2 others have more")), "{lines:?}");
    }

    #[test]
    fn with_costs_each_is_better_than_all_that_cost_as_much_or_less() {
        let of = |name, value, cost| Candidate { name, value, cost: Some(cost) };
        let all = [
            of("dear", 10.0, 9.0),
            of("cheap", 40.0, 1.0),
            of("worse", 41.0, 1.0),
            of("same", 40.0, 2.0),
            of("middle", 20.0, 4.0),
            of("wasted", 20.0, 5.0),
        ];
        let lines = text(&all);
        assert!(lines[0].contains("Least walks for each cost"), "{lines:?}");
        let rows: Vec<&String> = lines.iter().filter(|line| line.split(' ').count() == 4).collect();
        let names: Vec<&str> = rows.iter().filter_map(|line| line.split(' ').next()).collect();
        assert!(names.ends_with(&["cheap", "middle", "dear"]), "{lines:?}");
        assert!(rows[rows.len() - 1].ends_with("10 1.000 9"), "{lines:?}");
        assert!(lines.last().is_some_and(|line| line.starts_with("3 others have no less")), "{lines:?}");
    }

    #[test]
    fn nothing_counted_has_no_ratio() {
        let lines = text(&[Candidate { name: "a", value: 0.0, cost: None }]);
        assert!(lines.contains(&"a 0".to_owned()), "{lines:?}");
    }
}
