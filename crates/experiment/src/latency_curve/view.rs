//! The survey's sections: latency curve, translation, prefetch; and what every report has.

use fathom_analysis::findings::{Axis, Finding, Histogram, Metric, Refused, Report, Value, Warning};
use fathom_analysis::metrics::latency::{LATENCY_CYCLES, LATENCY_TIME};
use fathom_analysis::metrics::{common, survey as metrics, wakeup};

use super::finding_index::FindingIndex;
use super::notes;
use super::picture::{Plateau, Plot, draw};
use crate::number::{self, Shown};
use crate::page::{Chart, INTERVAL, Page, TextRole, left, measured, right};

/// Rows of text that the latency curve takes.
const STAIRS: usize = 12;

/// Rows of text of the smaller curve of what translation adds.
const SMALL: usize = 6;

fn count(f: Option<&Finding>) -> String {
    f.map(|f| f.count.to_string()).unwrap_or_default()
}

/// What is known of one tier.
#[derive(Default)]
struct Tier<'a> {
    n: u64,
    latency: Option<&'a Finding>,
    cycles: Option<&'a Finding>,
    capacity: Option<&'a Finding>,
}

fn take_tiers<'a>(finding_index: &mut FindingIndex<'a>) -> Vec<Tier<'a>> {
    let mut tiers: Vec<Tier> = Vec::new();
    for f in
        finding_index.of(&[&metrics::TIER_LATENCY, &metrics::TIER_LATENCY_CYCLES, &metrics::TIER_CAPACITY])
    {
        let Some(n) = f.key.number(Axis::Level) else { continue };
        if tiers.last().is_none_or(|t| t.n != n) {
            tiers.push(Tier { n, ..Tier::default() });
        }
        let Some(tier) = tiers.last_mut() else { continue };
        if f.is(&metrics::TIER_LATENCY) {
            tier.latency = Some(f);
        } else if f.is(&metrics::TIER_CAPACITY) {
            tier.capacity = Some(f);
        } else {
            tier.cycles = Some(f);
        }
    }
    tiers
}

/// Can it stand on a logarithmic axis?
fn on_log_axis(f: &Finding) -> Option<f64> {
    // Outside of these a double's logarithm still is exact, but no time is meant.
    f.finite().filter(|v| (1e-12..1e15).contains(v))
}

/// The latency curve and the table of tiers.
pub fn latency_curve(page: &mut Page, report: &Report, finding_index: &mut FindingIndex) {
    let points = finding_index.along(&LATENCY_TIME, Axis::Size);
    let cycles = finding_index.along(&LATENCY_CYCLES, Axis::Size);
    let tiers = take_tiers(finding_index);
    let (drawn, other): (Vec<_>, Vec<_>) = points.iter().partition(|(_, f)| on_log_axis(f).is_some());
    if drawn.len() >= 2 {
        picture(page, &drawn, &tiers);
        let labelled: Vec<(String, &Finding)> =
            points.iter().chain(&cycles).map(|(bytes, f)| (label(*bytes), *f)).collect();
        notes(page, &labelled);
    }
    // What the picture cannot show is shown in rows.
    let few: Vec<&Finding> = if drawn.len() >= 2 { &other } else { &points }.iter().map(|p| p.1).collect();
    if !few.is_empty() {
        page.heading("Latency by working set");
        rows(page, &few);
    }
    if drawn.len() < 2 && !cycles.is_empty() {
        page.heading("Latency by working set, core cycles");
        rows(page, &cycles.iter().map(|p| p.1).collect::<Vec<_>>());
    }
    if !tiers.is_empty() {
        table_of_tiers(page, report, &tiers);
    }
}

fn label(bytes: u64) -> String {
    number::size(bytes as f64, None, None).value
}

fn picture(page: &mut Page, drawn: &[(u64, &Finding)], tiers: &[Tier]) {
    let capacity = |t: &Tier| t.capacity.and_then(Finding::finite).filter(|v| *v >= 1.0);
    let mut plateaus = Vec::new();
    let mut from = None;
    for t in tiers {
        if let Some(f) = t.latency
            && let Some(y) = on_log_axis(f)
        {
            plateaus.push(Plateau { y, label: number::value(f).value, from, to: capacity(t) });
        }
        from = capacity(t);
    }
    let marks = tiers
        .iter()
        .filter_map(|t| Some((capacity(t)?, t.capacity.map(|f| number::value(f).value).unwrap_or_default())));
    let plot = Plot {
        points: drawn.iter().filter_map(|(bytes, f)| Some((*bytes as f64, f.finite()?))).collect(),
        plateaus,
        marks: marks.collect(),
        log_y: true,
        rows: STAIRS,
        x_label: number::short_size,
        y_label: |v| number::shown(v, None, None).value,
    };
    page.heading(&format!(
        "Latency of one load (ns) by working set, {} points, both axes logarithmic",
        drawn.len()
    ));
    page.picture(Chart::LatencyCurve, draw(&plot, page.style().width, page.style().unicode));
}

fn table_of_tiers(page: &mut Page, report: &Report, tiers: &[Tier]) {
    page.heading(match report.trust.as_str() {
        "virtual" => "Tiers: the machine behaves like one with these",
        _ => "Tiers",
    });
    let row = |t: &Tier| {
        let mut row = vec![t.n.to_string()];
        row.extend(number::cells(t.capacity));
        if t.capacity.is_none() {
            row[1] = "-".to_string();
        }
        row.extend(number::cells(t.latency));
        row.extend(number::cells(t.cycles));
        row.push(count(t.latency.or(t.capacity).or(t.cycles)));
        row
    };
    let columns = [
        right("tier"),
        measured("capacity"),
        INTERVAL,
        measured("ns"),
        INTERVAL,
        measured("cycles"),
        INTERVAL,
        right("n"),
    ];
    page.table(&columns, &tiers.iter().map(row).collect::<Vec<_>>(), &[]);
    let mut labelled = Vec::new();
    for t in tiers {
        labelled.extend(
            [t.capacity, t.latency, t.cycles].into_iter().flatten().map(|f| (format!("tier {}", t.n), f)),
        );
    }
    notes(page, &labelled);
}

/// The TLBs, the walk, and the curve that they come from.
pub fn translation(page: &mut Page, finding_index: &mut FindingIndex) {
    let found = take_tlbs(finding_index);
    let none_huge = finding_index.one(&metrics::TLB_HUGE_PAGES);
    let walk = finding_index.one(&metrics::WALK_LATENCY);
    let share = finding_index.one(&metrics::WALK_SHARE);
    let pages = finding_index.along(&metrics::PAGES_EXTRA, Axis::Pages);
    let alone = [walk, share, none_huge].iter().all(Option::is_none);
    if found.is_empty() && pages.is_empty() && alone {
        return;
    }
    page.heading("Translation: what the TLBs reach, and what a load pays beyond");
    let Tlbs { mut table, mut labelled, marks } = tlbs(&found);
    if let Some(walk) = walk {
        let [cost, cost_95] = number::cells(Some(walk));
        let mut row = vec!["walk".to_string()];
        row.resize(5, String::new());
        row.extend([cost, cost_95, count(Some(walk))]);
        table.push(row);
        labelled.push(("walk".to_string(), walk));
    }
    if !table.is_empty() {
        let columns = [
            left(""),
            measured("entries"),
            INTERVAL,
            right("ways"),
            right("sets"),
            measured("penalty ns"),
            INTERVAL,
            right("n"),
        ];
        page.table(&columns, &table, &[]);
    }
    if let Some(f) = none_huge {
        let text = format!("No rise was seen up to {} huge pages.", number::value(f).value);
        page.text(TextRole::Plain, &text, "", "  ");
        labelled.push(("huge pages".to_string(), f));
    }
    if let Some(share) = share {
        let [value, interval] = number::cells(Some(share));
        let text = format!("Share of a far random load that is translation: {value} {interval}");
        page.text(TextRole::Plain, &text, "", "  ");
        labelled.push(("share".to_string(), share));
    }
    notes(page, &labelled);
    curve_of_pages(page, &pages, marks);
}

/// Rows of the TLBs, what their notes are about, and where they end on the curve of pages.
struct Tlbs<'a> {
    table: Vec<Vec<String>>,
    labelled: Vec<(String, &'a Finding)>,
    marks: Vec<(f64, String)>,
}

/// What is known of one TLB.
struct Tlb<'a> {
    huge: bool,
    n: u64,
    entries: Option<&'a Finding>,
    ways: Option<&'a Finding>,
    sets: Option<&'a Finding>,
    penalty: Option<&'a Finding>,
}

/// The TLBs, those for base pages first.
fn take_tlbs<'a>(finding_index: &mut FindingIndex<'a>) -> Vec<Tlb<'a>> {
    use metrics::{TLB_ENTRIES, TLB_HUGE_ENTRIES, TLB_HUGE_PENALTY, TLB_PENALTY, TLB_SETS, TLB_WAYS};
    let base: &[&Metric] = &[&TLB_ENTRIES, &TLB_WAYS, &TLB_SETS, &TLB_PENALTY];
    let mut all: Vec<Tlb> = Vec::new();
    for (huge, of) in [(false, base), (true, &[&TLB_HUGE_ENTRIES, &TLB_HUGE_PENALTY])] {
        for f in finding_index.of(of) {
            let Some(n) = f.key.number(Axis::Tlb) else { continue };
            if all.last().is_none_or(|tlb| (tlb.huge, tlb.n) != (huge, n)) {
                all.push(Tlb { huge, n, entries: None, ways: None, sets: None, penalty: None });
            }
            let Some(tlb) = all.last_mut() else { continue };
            let field = match f.key.metric {
                m if *m == TLB_WAYS => &mut tlb.ways,
                m if *m == TLB_SETS => &mut tlb.sets,
                m if *m == TLB_ENTRIES || *m == TLB_HUGE_ENTRIES => &mut tlb.entries,
                _ => &mut tlb.penalty,
            };
            *field = Some(f);
        }
    }
    all
}

fn tlbs<'a>(found: &[Tlb<'a>]) -> Tlbs<'a> {
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut labelled: Vec<(String, &Finding)> = Vec::new();
    let mut marks = Vec::new();
    for &Tlb { huge, n, entries, ways, sets, penalty } in found {
        let name = if huge { format!("huge TLB {n}") } else { format!("TLB {n}") };
        let [[reach, reach_95], [cost, cost_95]] = [number::cells(entries), number::cells(penalty)];
        let [by, sets_of] = [ways, sets].map(|f| number::cells(f)[0].clone());
        let n = count(penalty.or(entries));
        table.push(vec![name.clone(), reach.clone(), reach_95, by, sets_of, cost, cost_95, n]);
        labelled.extend([entries, penalty].into_iter().flatten().map(|f| (name.clone(), f)));
        labelled.extend([ways, sets].into_iter().flatten().map(|f| (format!("{name} ways"), f)));
        marks.extend(entries.and_then(Finding::finite).filter(|v| *v >= 1.0 && !huge).map(|v| (v, reach)));
    }
    Tlbs { table, labelled, marks }
}

fn curve_of_pages(page: &mut Page, pages: &[(u64, &Finding)], marks: Vec<(f64, String)>) {
    let drawn: Vec<(f64, f64)> =
        pages.iter().filter_map(|(n, f)| Some((*n as f64, f.finite().filter(|v| v.abs() < 1e15)?))).collect();
    if drawn.len() < 2 || drawn.len() < pages.len() {
        if !pages.is_empty() {
            rows(page, &pages.iter().map(|p| p.1).collect::<Vec<_>>());
        }
        return;
    }
    let within = |x: f64| drawn[0].0 <= x && drawn.last().is_some_and(|last| x <= last.0);
    let plot = Plot {
        marks: marks.into_iter().filter(|(x, _)| within(*x)).collect(),
        points: drawn,
        plateaus: Vec::new(),
        log_y: false,
        rows: SMALL,
        x_label: |v| number::shown(v.round(), None, None).value,
        y_label: number::height,
    };
    page.text(TextRole::Plain, "Added to a load (ns) by the number of pages it is spread over:", "", "  ");
    page.picture(Chart::Pages, draw(&plot, page.style().width, page.style().unicode));
    let labelled: Vec<(String, &Finding)> = pages.iter().map(|(n, f)| (format!("{n} pages"), *f)).collect();
    notes(page, &labelled);
}

/// Columns of the longest bar.
const BAR: f64 = 20.0;

/// The ladder of orders.
pub fn prefetch(page: &mut Page, finding_index: &mut FindingIndex) {
    // The list of orders is from the kindest to the hardest.
    let found = finding_index.of(&[&metrics::PREFETCH_ORDER_TIME]);
    let steps: Vec<(String, &Finding)> =
        found.into_iter().map(|f| (f.key.word(Axis::Order).unwrap_or_default(), f)).collect();
    if steps.is_empty() {
        return;
    }
    let positive = |f: &Finding| f.finite().filter(|v| *v > 0.0);
    let random = steps.iter().find(|(order, _)| order == "random").and_then(|(_, f)| positive(f));
    let most = steps.iter().filter_map(|(_, f)| positive(f)).fold(0.0, f64::max);
    let block = if page.style().unicode { "\u{2588}" } else { "#" };
    let row = |(order, f): &(String, &Finding)| {
        let [value, interval] = number::cells(Some(f));
        let ratio = match (random, positive(f)) {
            (Some(random), Some(own)) => format!("{}x", number::shown_ratio(random / own)),
            _ => String::new(),
        };
        let bar = positive(f).map_or(0.0, |v| (BAR * (v / most)).round().max(1.0));
        vec![order.clone(), value, interval, ratio, block.repeat(bar as usize), count(Some(f))]
    };
    page.heading("What prefetch gains: time of one load by order");
    let columns =
        [left("order"), measured("ns"), INTERVAL, right("random takes"), left("ns to scale"), right("n")];
    page.table(&columns, &steps.iter().map(row).collect::<Vec<_>>(), &[]);
    notes(page, &steps);
    // What follows from them: a sentence each.
    for (key, says) in [
        ((&metrics::PREFETCH_WORTH).into(), "Random over ascending"),
        (metrics::PREFETCH_REACH.at(["forward".into()]), "Reach forward, lines"),
        (metrics::PREFETCH_REACH.at(["backward".into()]), "Reach backward, lines"),
        ((&metrics::PREFETCH_TEMPORAL).into(), "A new order each lap over one that comes again"),
    ] {
        if let Some(f) = finding_index.one(key) {
            let Shown { value, interval } = number::value(f);
            let text = format!("{says}: {}", format!("{value} {interval}").trim());
            page.text(TextRole::Plain, &format!("{text}; {}", f.notes.join("; ")), "", "  ");
        }
    }
}

/// Findings as they are: numbers as rows (name, value, interval, unit, count), texts as lines,
/// notes below.
pub fn rows(page: &mut Page, findings: &[&Finding]) {
    let (texts, numbers): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|f| matches!(f.value, Value::Text(_)));
    let row = |f: &&Finding| {
        let (Shown { value, interval }, unit) = number::in_cells(f);
        vec![f.name().clone(), value, interval, unit.to_string(), f.count.to_string()]
    };
    if !numbers.is_empty() {
        let columns = [left("finding"), measured("value"), INTERVAL, left("unit"), right("n")];
        page.table(&columns, &numbers.iter().map(row).collect::<Vec<_>>(), &[]);
    }
    for f in texts {
        let (Shown { value, interval }, unit) = number::in_cells(f);
        let all = format!("{}: {value} {interval} {unit}", f.name());
        page.text(TextRole::Plain, &format!("{} (n {})", all.trim_end(), f.count), "", "  ");
    }
    let labelled: Vec<(String, &Finding)> = findings.iter().map(|f| (f.name().clone(), *f)).collect();
    notes(page, &labelled);
}

/// Clocks, and what measuring adds.
const CLOCKS: [&Metric; 6] = [
    &common::BIAS_TIMER,
    &common::BIAS_WALK,
    &common::BIAS_SAMPLE,
    &common::CLOCK_CORE_HZ,
    &common::CLOCK_TICK_HZ,
    &wakeup::BIAS_TRACE,
];

/// Whatever no section took: clocks, bias, and what no section shows.
pub fn rest(page: &mut Page, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    let known = |f: &&Finding| CLOCKS.contains(&f.key.metric);
    page.heading(if findings.iter().all(known) { "Clocks and bias" } else { "Other findings" });
    rows(page, findings);
}

/// Histograms by their ends; the counts themselves are in the JSON.
pub fn histograms(page: &mut Page, histograms: &[&Histogram]) {
    if histograms.is_empty() {
        return;
    }
    page.heading("Histograms (every count with --json)");
    let row = |h: &&Histogram| {
        let end = |at: Option<&(f64, u64)>| {
            at.map(|(v, _)| number::shown(*v, None, None).value).unwrap_or_default()
        };
        vec![
            h.name(),
            number::size(h.bytes as f64, None, None).value,
            end(h.counts.first()),
            end(h.counts.last()),
            h.unit.to_string(),
            h.loads_per_sample.to_string(),
            h.counts.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n)).to_string(),
        ]
    };
    let columns = [
        left("histogram"),
        right("working set"),
        right("least"),
        right("most"),
        left("unit"),
        right("loads a sample"),
        right("n"),
    ];
    page.table(&columns, &histograms.iter().map(row).collect::<Vec<_>>(), &[]);
}

/// A statement and, on a line of its own, what to do about it.
fn item(page: &mut Page, mark: &str, text: &str, remedy: &str) {
    page.text(TextRole::Warn, &format!("{mark}: {text}"), "- ", "  ");
    if !remedy.is_empty() {
        page.text(TextRole::Plain, &format!("remedy: {remedy}"), "  ", "    ");
    }
}

/// Warnings with their remedies.
pub fn warnings(page: &mut Page, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    page.heading("Warnings");
    for w in warnings {
        item(page, w.token, &w.text, &w.remedy);
    }
}

/// What was refused, why, and what would help.
pub fn refusals(page: &mut Page, refusals: &[Refused]) {
    if refusals.is_empty() {
        return;
    }
    page.heading("Refused");
    for r in refusals {
        item(page, &r.what, &r.reason, &r.remedy);
    }
}
