//! Page colours: tables per tier of misses and of time, by number of pages and number of colours.

use std::collections::BTreeSet;

use fathom_analysis::findings::{Axis, Finding, Metric};
use fathom_analysis::metrics::conflict as metrics;

use fathom_report::chart::{Chart, Kind, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{Column, Page, TextRole, right};

/// Column heads by number of colours. Other numbers are left to the table of other findings.
const HEADS: [(u64, &str); 20] = [
    (1, "1 colour"),
    (2, "2 colours"),
    (3, "3 colours"),
    (4, "4 colours"),
    (5, "5 colours"),
    (6, "6 colours"),
    (7, "7 colours"),
    (8, "8 colours"),
    (9, "9 colours"),
    (10, "10 colours"),
    (11, "11 colours"),
    (12, "12 colours"),
    (13, "13 colours"),
    (14, "14 colours"),
    (15, "15 colours"),
    (16, "16 colours"),
    (32, "32 colours"),
    (64, "64 colours"),
    (128, "128 colours"),
    (256, "256 colours"),
];
/// Columns per table in addition to the pages: as many as fit in eighty columns.
const MAX_COLUMNS: usize = 6;
/// Marks a shared frame among the numbers of colours.
const SHARED: u64 = 0;

fn head(colours: u64) -> Option<&'static str> {
    if colours == SHARED {
        return Some("shared");
    }
    HEADS.iter().find(|(k, _)| *k == colours).map(|(_, head)| *head)
}

/// A finding with its pages and colours.
type Cell<'a> = (u64, u64, &'a Finding);

/// Metrics of a round: with colours, with a shared frame, and unit in headings.
const SHOWN: [(&Metric, &Metric, &str); 2] = [
    (
        &metrics::TIER_COLOUR_MISSES_PER_ROUND,
        &metrics::TIER_COLOUR_SHARED_MISSES_PER_ROUND,
        "misses per round",
    ),
    (&metrics::TIER_COLOUR_TIME_PER_ROUND, &metrics::TIER_COLOUR_SHARED_TIME_PER_ROUND, "ns per round"),
];

/// Returns the number of colours of a finding, if it has a column.
fn colours(f: &Finding) -> Option<u64> {
    let shared = SHOWN.iter().any(|(_, shared, ..)| f.is(shared));
    let colours = if shared { SHARED } else { f.key.number(Axis::Colours)? };
    head(colours).map(|_| colours)
}

/// Renders the tables, if colours were requested.
pub(super) fn section(page: &mut Page, finding_index: &mut FindingIndex) {
    let is_shown = |f: &Finding| SHOWN.iter().any(|(own, shared, ..)| f.is(own) || f.is(shared));
    let all = finding_index.listed(|f| is_shown(f) && colours(f).is_some());
    let tiers: BTreeSet<u64> = all.iter().filter_map(|f| f.key.number(Axis::Tier)).collect();
    for tier in tiers {
        for (own, shared, unit) in SHOWN {
            let of = |f: &&&Finding| f.key.number(Axis::Tier) == Some(tier) && (f.is(own) || f.is(shared));
            let mut cells: Vec<Cell> = all
                .iter()
                .filter(of)
                .filter_map(|f| Some((f.key.number(Axis::Pages)?, colours(f)?, *f)))
                .collect();
            cells.sort_by_key(|cell| (cell.0, cell.1));
            if !cells.is_empty() {
                page.heading(&format!("Page colours of tier {tier}: {unit}, one load in each page"));
                page.picture(chart(tier, [own, shared], unit), Vec::new());
                table(page, &cells);
            }
        }
        if let Some(f) = finding_index.one(metrics::TIER_COLOUR_USEFUL.at([tier.into()])) {
            let helps = number::value(f).value;
            page.line(TextRole::Plain, "");
            let (why, more) = f.notes.split_first().map_or(("", &[][..]), |(why, more)| (why.as_str(), more));
            page.text(TextRole::Plain, &format!("Colouring helps in tier {tier}: {helps}; {why}"), "", "  ");
            for note in more {
                page.text(TextRole::Plain, note, "- ", "  ");
            }
        }
    }
}

/// Returns the chart of a quantity per round by number of pages, one curve per number of colours.
fn chart(tier: u64, [own, shared]: [&'static Metric; 2], unit: &'static str) -> Chart {
    let caption = format!(
        "A round loads once from each page, one curve per number of colours; {unit}. Wider curves are below \
         narrower ones."
    );
    let x = Scale::of(Axis::Pages, "pages").whole();
    Chart::new(
        format!("colours.{tier}.{}", unit.replace(' ', "-")),
        Kind::Nested,
        x,
        Scale::values(unit).zero(),
        caption,
    )
    .with(Series::of(shared, "one shared frame").at(Axis::Tier, tier))
    .with(Series::of(own, "colours: {colours}").at(Axis::Tier, tier).by(Axis::Colours))
}

fn table(page: &mut Page, cells: &[Cell]) {
    let colours: Vec<u64> = cells.iter().map(|c| c.1).collect::<BTreeSet<_>>().into_iter().collect();
    let pages: Vec<u64> = cells.iter().map(|c| c.0).collect::<BTreeSet<_>>().into_iter().collect();
    let of = |pages: u64, k: u64| cells.iter().find(|c| (c.0, c.1) == (pages, k)).map(|c| c.2);
    // All columns of one kind of number, with the same number of digits.
    let all = colours.iter().flat_map(|&k| pages.iter().map(move |&n| of(n, k)));
    let mut shown = number::column(all).into_iter();
    for some in colours.chunks(MAX_COLUMNS) {
        let mut columns: Vec<Column> = vec![right("pages")];
        columns.extend(some.iter().filter_map(|&k| Some(right(head(k)?))));
        let mut rows: Vec<Vec<String>> = pages.iter().map(|n| vec![n.to_string()]).collect();
        for _ in some {
            rows.iter_mut().for_each(|row| row.extend(shown.next()));
        }
        page.table(&columns, &rows, &[]);
    }
    let labelled: Vec<(String, &Finding)> =
        cells.iter().map(|(_, k, f)| (head(*k).unwrap_or_default().to_owned(), *f)).collect();
    notes(page, &labelled);
}
