//! Sections of the latency curve, its tiers, and translation (TLB reach and miss penalty).

use fathom_analysis::findings::{Axis, Finding, Metric, Report};
use fathom_analysis::metrics::claims::CLAIM_LEVEL_SIZE;
use fathom_analysis::metrics::latency::{LATENCY_CYCLES, LATENCY_TIME};
use fathom_analysis::metrics::survey as metrics;
use fathom_report::chart::{Band, Chart, Kind, Line, Mark, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, Tile, left, measured, right};
use fathom_report::plot::{Plateau, Plot, draw};
use fathom_report::rows::show_rows;

/// Text rows of the latency curve.
const CURVE_ROWS: usize = 12;

/// Text rows of the smaller translation curve.
const TRANSLATION_ROWS: usize = 6;

fn count(f: Option<&Finding>) -> String {
    f.map(|f| f.count.to_string()).unwrap_or_default()
}

/// Findings of one tier.
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
        let Some(n) = f.key.number(Axis::Tier) else { continue };
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

/// Returns the value if a logarithmic axis can show it.
fn on_log_axis(f: &Finding) -> Option<f64> {
    // Outside of these limits a logarithm is still exact, but the value cannot be a time.
    f.finite().filter(|v| (1e-12..1e15).contains(v))
}

/// Renders the latency curve and the table of tiers.
pub(crate) fn section(page: &mut Page, report: &Report, finding_index: &mut FindingIndex) {
    let points = finding_index.along(&LATENCY_TIME, Axis::Size);
    let cycles = finding_index.along(&LATENCY_CYCLES, Axis::Size);
    let tiers = take_tiers(finding_index);
    page.tiles(tiers.iter().filter_map(tile).collect());
    let (drawn, other): (Vec<_>, Vec<_>) = points.iter().partition(|(_, f)| on_log_axis(f).is_some());
    if drawn.len() >= 2 {
        picture(page, report, &drawn, &tiers);
        let labelled: Vec<(String, &Finding)> =
            points.iter().chain(&cycles).map(|(bytes, f)| (label(*bytes), *f)).collect();
        notes(page, &labelled);
    }
    // Points that the picture cannot show are listed in rows.
    let few: Vec<&Finding> = if drawn.len() >= 2 { &other } else { &points }.iter().map(|p| p.1).collect();
    if !few.is_empty() {
        page.heading("Latency by working set");
        show_rows(page, &few);
    }
    if drawn.len() < 2 && !cycles.is_empty() {
        page.heading("Latency by working set, core cycles");
        show_rows(page, &cycles.iter().map(|p| p.1).collect::<Vec<_>>());
    }
    if !tiers.is_empty() {
        table_of_tiers(page, report, &tiers);
    }
}

/// Returns a summary tile of a tier: cycles if known, time, capacity.
fn tile(tier: &Tier) -> Option<Tile> {
    let with_unit = |f: &Finding| {
        let (shown, unit) = number::in_cells(f);
        format!("{} {unit}", shown.value).trim().to_owned()
    };
    let is_number = |f: &&Finding| f.word().is_none();
    let latency = with_unit(tier.latency.filter(is_number)?);
    let cycles = tier.cycles.filter(is_number).map(with_unit);
    Some(Tile {
        name: format!("tier {}", tier.n),
        under: if cycles.is_some() { latency.clone() } else { String::new() },
        value: cycles.unwrap_or(latency),
        more: tier.capacity.filter(is_number).map(|f| format!("up to {}", with_unit(f))).unwrap_or_default(),
    })
}

fn label(bytes: u64) -> String {
    number::size(bytes as f64, None, None).value
}

fn picture(page: &mut Page, report: &Report, drawn: &[(u64, &Finding)], tiers: &[Tier]) {
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
        log_x: true,
        log_y: true,
        from_zero: false,
        rows: CURVE_ROWS,
        x_label: number::short_size,
        y_label: |v| number::shown(v, None, None).value,
    };
    page.heading(&format!(
        "Latency of one load (ns) by working set, {} points, both axes logarithmic",
        drawn.len()
    ));
    page.picture(chart(report, drawn, tiers), draw(&plot, page.style().width, page.style().unicode));
}

/// Returns the curve with the tiers as bands, their capacities, the translation, and the claimed sizes.
fn chart(report: &Report, drawn: &[(u64, &Finding)], tiers: &[Tier]) -> Chart {
    let mut bands = Vec::new();
    let mut from = None;
    for tier in tiers {
        let to = tier.capacity.and_then(Finding::finite);
        bands.push(Band { from, to, label: format!("tier {}", tier.n), strong: false });
        if let Some(f) = tier.capacity.filter(|f| f.low.is_some()) {
            bands.push(Band { from: f.low, to: f.high, label: String::new(), strong: true });
        }
        from = to;
    }
    let ends = [drawn.first(), drawn.last()].map(|point| point.map_or(0.0, |(bytes, _)| *bytes as f64));
    let claimed = claimed(report).into_iter().filter(|mark| (ends[0]..=ends[1]).contains(&mark.x)).collect();
    let caption =
        "Both axes logarithmic. Bands are tiers, their borders the capacities with their 95 % intervals.";
    let x = Scale::of(Axis::Size, "working set").log().sizes();
    let chart = Chart::new("latency_curve", Kind::Lines, x, Scale::values("ns per load").log(), caption)
        .with(Series::of(&LATENCY_TIME, "cache: random loads"))
        .bands("", bands)
        .marks("claimed sizes", claimed)
        .overlay();
    let base = report.facts.iter().find(|(name, _)| name == "page.base");
    match base.and_then(|(_, bytes)| bytes.parse::<f64>().ok()).filter(|bytes| *bytes > 0.0) {
        Some(base) => chart.with(
            Series::of(&metrics::TRANSLATION_ADDED, "TLB: translation, by pages")
                .line(Line::Dashed)
                .scaled_within(Axis::Pages, base),
        ),
        None => chart,
    }
}

/// Returns the claimed sizes of levels, each once.
fn claimed(report: &Report) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for f in report.of(&CLAIM_LEVEL_SIZE) {
        let data = f.key.word(Axis::Side).is_some_and(|side| side != "instructions");
        let (Some(level), Some(x), true) = (f.key.number(Axis::Tier), f.finite(), data) else { continue };
        let label = format!("L{level} {}", number::size(x, None, None).value);
        if !marks.iter().any(|mark| mark.label == label) {
            marks.push(Mark { x, label });
        }
    }
    marks
}

fn table_of_tiers(page: &mut Page, report: &Report, tiers: &[Tier]) {
    page.heading(match report.trust.as_str() {
        "virtual" => "Tiers (inferred; guest)",
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

/// Renders the TLBs, the page walk, and the curve that they are derived from.
pub(crate) fn translation(page: &mut Page, finding_index: &mut FindingIndex) {
    let found = take_tlbs(finding_index);
    let none_huge = finding_index.one(&metrics::TLB_HUGE_PAGES);
    let walk = finding_index.one(&metrics::WALK_LATENCY);
    let share = finding_index.one(&metrics::WALK_SHARE);
    let splintered = finding_index.one(&metrics::HUGE_SPLINTERED);
    let pages = finding_index.along(&metrics::TRANSLATION_ADDED, Axis::Pages);
    let alone = [walk, share, none_huge, splintered].iter().all(Option::is_none);
    if found.is_empty() && pages.is_empty() && alone {
        return;
    }
    page.heading("Translation: TLB reach and miss penalty");
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
        let text = format!("No rise was observed up to {} huge pages.", number::value(f).value);
        page.text(TextRole::Plain, &text, "", "  ");
        labelled.push(("huge pages".to_string(), f));
    }
    for (label, what, finding) in [
        ("share", "Share of translation in a far random load", share),
        ("huge pages", "Share of the cost of TLB misses that huge pages do not save", splintered),
    ] {
        let Some(finding) = finding else { continue };
        let [value, interval] = number::cells(Some(finding));
        page.text(TextRole::Plain, &format!("{what}: {value} {interval}"), "", "  ");
        labelled.push((label.to_string(), finding));
    }
    notes(page, &labelled);
    let reach: Vec<(u64, f64)> = found
        .iter()
        .filter(|tlb| !tlb.huge)
        .filter_map(|tlb| Some((tlb.n, tlb.entries?.finite()?)))
        .collect();
    curve_of_pages(page, &pages, marks, &reach);
}

/// Table rows of the TLBs, their notes, and their ends on the curve of pages.
struct Tlbs<'a> {
    table: Vec<Vec<String>>,
    labelled: Vec<(String, &'a Finding)>,
    marks: Vec<(f64, String)>,
}

/// Findings of one TLB.
struct Tlb<'a> {
    huge: bool,
    n: u64,
    entries: Option<&'a Finding>,
    ways: Option<&'a Finding>,
    sets: Option<&'a Finding>,
    penalty: Option<&'a Finding>,
}

/// Takes the TLBs, those for base pages first.
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

fn curve_of_pages(
    page: &mut Page,
    pages: &[(u64, &Finding)],
    marks: Vec<(f64, String)>,
    reach: &[(u64, f64)],
) {
    let drawn: Vec<(f64, f64)> =
        pages.iter().filter_map(|(n, f)| Some((*n as f64, f.finite().filter(|v| v.abs() < 1e15)?))).collect();
    if drawn.len() < 2 || drawn.len() < pages.len() {
        if !pages.is_empty() {
            show_rows(page, &pages.iter().map(|p| p.1).collect::<Vec<_>>());
        }
        return;
    }
    let (first, last) = (drawn[0].0, drawn[drawn.len() - 1].0);
    let within = |x: f64| (first..=last).contains(&x);
    let plot = Plot {
        marks: marks.into_iter().filter(|(x, _)| within(*x)).collect(),
        points: drawn,
        plateaus: Vec::new(),
        log_x: true,
        log_y: false,
        from_zero: false,
        rows: TRANSLATION_ROWS,
        x_label: |v| number::shown(v.round(), None, None).value,
        y_label: number::height,
    };
    page.text(TextRole::Plain, "Additional time per load (ns) by the number of pages:", "", "  ");
    let marks = reach.iter().filter(|(_, entries)| within(*entries)).map(|(n, entries)| Mark {
        x: *entries,
        label: format!("TLB {n}: {} entries", number::shown(*entries, None, None).value),
    });
    let caption = "Additional time per load on this many pages, one line in each, compared with as many lines packed together.";
    let x = Scale::of(Axis::Pages, "pages").log();
    let chart = Chart::new("pages", Kind::Lines, x, Scale::values("added ns"), caption)
        .small()
        .with(Series::of(&metrics::TRANSLATION_ADDED, "translation"))
        .marks("TLB entries", marks.collect());
    page.picture(chart, draw(&plot, page.style().width, page.style().unicode));
    let labelled: Vec<(String, &Finding)> = pages.iter().map(|(n, f)| (format!("{n} pages"), *f)).collect();
    notes(page, &labelled);
}
