//! Sections on the geometry of levels: ways, sets, line, replacement; evictions within a set; pairs of loads.

use fathom_analysis::findings::{Axis, Finding};
use fathom_analysis::metrics::conflict as metrics;
use fathom_report::chart::{Chart, Kind, Mark, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::notes;
use fathom_report::number;
use fathom_report::page::{INTERVAL, Page, TextRole, left, measured, right};

/// Columns of the longest bar.
const BAR: f64 = 20.0;

/// Geometry of the nearest level, as far as known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nearest {
    /// Its ways.
    pub(crate) ways: Option<f64>,
    /// Bytes per way: one line of each set.
    pub(crate) way_bytes: Option<f64>,
}

/// Renders the tables, if any level was examined. Returns the geometry of the nearest level.
pub(crate) fn section(page: &mut Page, finding_index: &mut FindingIndex) -> Nearest {
    let (nearest, lines) = levels(page, finding_index);
    evicted(page, finding_index);
    pairs(page, &lines, finding_index);
    nearest
}

/// Formats a number or word for a cell; a dash if missing.
fn cell(finding: Option<&Finding>) -> String {
    finding.map_or_else(|| "-".to_owned(), |f| number::value(f).value)
}

/// Findings of one level's geometry.
#[derive(Default)]
struct Level<'a> {
    n: u64,
    line: Option<&'a Finding>,
    policies: Option<&'a Finding>,
    sets: Option<&'a Finding>,
    ways: Option<&'a Finding>,
}

impl<'a> Level<'a> {
    /// Returns the findings with their names.
    fn named(&self) -> impl Iterator<Item = (&'static str, &'a Finding)> {
        let all =
            [("line", self.line), ("replacement", self.policies), ("sets", self.sets), ("ways", self.ways)];
        all.into_iter().filter_map(|(name, f)| Some((name, f?)))
    }
}

fn take_levels<'a>(finding_index: &mut FindingIndex<'a>) -> Vec<Level<'a>> {
    use metrics::{TIER_LINE, TIER_POLICIES, TIER_SETS, TIER_WAYS};
    let mut levels: Vec<Level> = Vec::new();
    for f in finding_index.of(&[&TIER_LINE, &TIER_POLICIES, &TIER_SETS, &TIER_WAYS]) {
        let Some(n) = f.key.number(Axis::Tier) else { continue };
        if levels.last().is_none_or(|level| level.n != n) {
            levels.push(Level { n, ..Level::default() });
        }
        let Some(level) = levels.last_mut() else { continue };
        match f.key.metric {
            m if *m == TIER_POLICIES => level.policies = Some(f),
            m if *m == TIER_SETS => level.sets = Some(f),
            m if *m == TIER_WAYS => level.ways = Some(f),
            _ => level.line = Some(f),
        }
    }
    levels
}

/// Renders the table of levels. Returns the geometry of the nearest one, and every line size.
fn levels(page: &mut Page, finding_index: &mut FindingIndex) -> (Nearest, Vec<f64>) {
    let found = take_levels(finding_index);
    let lines: Vec<f64> = found.iter().filter_map(|level| level.line?.finite()).collect();
    if found.is_empty() {
        return (Nearest::default(), lines);
    }
    page.heading("Geometry by tier, from conflicts");
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|level| {
            let mut row = vec![level.n.to_string()];
            row.extend([level.ways, level.sets, level.line, level.policies].map(cell));
            row
        })
        .collect();
    page.table(
        &[right("tier"), right("ways"), right("sets"), right("line"), left("replacement")],
        &rows,
        &[],
    );
    let labelled: Vec<(String, &Finding)> = found
        .iter()
        .flat_map(|level| level.named().map(|(what, f)| (format!("tier {} {what}", level.n), f)))
        .collect();
    notes(page, &labelled);
    misfits(page, &found);
    let Some(nearest) = found.first().filter(|level| level.n == 1) else {
        return (Nearest::default(), lines);
    };
    let value = |f: Option<&Finding>| f.and_then(Finding::finite).filter(|v| *v > 0.0);
    let nearest = Nearest {
        ways: value(nearest.ways),
        way_bytes: value(nearest.sets).zip(value(nearest.line)).map(|(sets, line)| sets * line),
    };
    (nearest, lines)
}

/// Prints the deviance of policies, a line per tier, and the meaning of the number once.
fn misfits(page: &mut Page, found: &[Level]) {
    let mut explained = false;
    for level in found {
        let deviances = level.policies.map_or(&[][..], |f| f.detail.numbers(metrics::DEVIANCE));
        if deviances.is_empty() {
            continue;
        }
        if !explained {
            let text = "deviance: misfit of a policy to the observed evictions; about 1 or less is a fit";
            page.text(TextRole::Dim, text, "  ", "    ");
            explained = true;
        }
        let deviances: Vec<String> = deviances.iter().map(|(policy, d)| format!("{policy} {d:.1}")).collect();
        page.text(
            TextRole::Dim,
            &format!("tier {} deviance: {}", level.n, deviances.join(", ")),
            "  ",
            "    ",
        );
    }
}

fn evicted(page: &mut Page, finding_index: &mut FindingIndex) {
    let found = finding_index.along(&metrics::EVICTED_SHARE, Axis::Tier);
    let mut tiers: Vec<u64> = found.iter().map(|(tier, _)| *tier).collect();
    tiers.dedup();
    let block = if page.style().unicode { "\u{2588}" } else { "#" };
    for tier in tiers {
        page.heading(&format!("Tier {tier}: evictions by the number of later loads"));
        let text = "Share of laps in which a line had been evicted, by the number of loads since it was loaded. \
                    All lines map to one set and are loaded once.";
        page.text(TextRole::Plain, text, "", "  ");
        let caption = "Share of laps in which a line had been evicted, by the number of loads since it was loaded, with 95 % intervals.";
        let x = Scale::of(Axis::LoadsAgo, "loads ago").whole();
        let y = Scale::values("share evicted").up_to(1.0);
        let series = Series::of(&metrics::EVICTED_SHARE, "share evicted").at(Axis::Tier, tier);
        let chart = Chart::new(format!("evicted.{tier}"), Kind::Bars, x, y, caption).small().with(series);
        page.picture(chart, Vec::new());
        let of = found.iter().filter(|(of, _)| *of == tier);
        let rows: Vec<Vec<String>> = of
            .map(|(_, f)| {
                let share = f.finite().map_or(0.0, |v| v.clamp(0.0, 1.0));
                let mut row = vec![f.key.word(Axis::LoadsAgo).unwrap_or_default()];
                row.extend(number::cells(Some(f)));
                row.extend([block.repeat((BAR * share).round() as usize), f.count.to_string()]);
                row
            })
            .collect();
        let columns = [right("loads ago"), measured("share evicted"), INTERVAL, left(""), right("n")];
        page.table(&columns, &rows, &[]);
    }
}

/// Column heads; no machine has more tiers.
const HEADS: [&str; 4] = ["tier 1, ns", "tier 2, ns", "tier 3, ns", "tier 4, ns"];

/// Returns the chart: time of a pair's second load by distance, one curve per tier, with the line sizes.
fn pairs_chart(distances: impl Iterator<Item = u64> + Clone, lines: &[f64]) -> Chart {
    let caption = "Time of the second load of a pair; both axes logarithmic. It rises once the second load \
                   misses the line of the first.";
    let x = Scale::of(Axis::Distance, "bytes apart").log().whole();
    let (min, max) = (distances.clone().min().unwrap_or(0) as f64, distances.max().unwrap_or(0) as f64);
    let mut within: Vec<f64> = lines.iter().copied().filter(|line| (min..=max).contains(line)).collect();
    within.sort_by(f64::total_cmp);
    within.dedup();
    let mark = |x: f64| Mark { x, label: format!("line {}", number::size(x, None, None).value) };
    Chart::new("pairs", Kind::Nested, x, Scale::values("ns").log(), caption)
        .small()
        .with(Series::of(&metrics::PAIR_TIME, "beyond tier {tier}").by(Axis::Tier))
        .marks("line", within.into_iter().map(mark).collect())
}

fn pairs(page: &mut Page, lines: &[f64], finding_index: &mut FindingIndex) {
    // Tiers without a column are left to the table of other findings.
    let headed = |f: &Finding| f.key.number(Axis::Tier).is_some_and(|n| n <= HEADS.len() as u64);
    let mut found: Vec<((u64, u64), &Finding)> = finding_index
        .listed(|f| f.is(&metrics::PAIR_TIME) && headed(f))
        .into_iter()
        .filter_map(|f| Some((f.key.number(Axis::Tier).zip(f.key.number(Axis::Distance))?, f)))
        .collect();
    found.sort_by_key(|(key, _)| *key);
    let reach = finding_index.along(&metrics::PAIR_FETCHED_BYTES, Axis::Tier);
    if found.is_empty() && reach.is_empty() {
        return;
    }
    page.heading("Pairs of loads: time of the second by its distance from the first");
    let text =
        "Working sets larger than each tier. A fast second load hits the line that the first one fetched.";
    page.text(TextRole::Plain, text, "", "  ");
    page.picture(pairs_chart(found.iter().map(|((_, bytes), _)| *bytes), lines), Vec::new());
    let mut tiers: Vec<u64> = found.iter().map(|(key, _)| key.0).collect();
    tiers.dedup();
    let mut distances: Vec<u64> = found.iter().map(|(key, _)| key.1).collect();
    distances.sort_unstable();
    distances.dedup();
    let mut columns = vec![right("bytes apart")];
    columns.extend(tiers.iter().filter_map(|n| Some(right(HEADS.get(*n as usize - 1)?))));
    let mut rows: Vec<Vec<String>> = distances.iter().map(|bytes| vec![bytes.to_string()]).collect();
    for &n in &tiers {
        let at = |bytes: &u64| found.iter().find(|(key, _)| *key == (n, *bytes)).map(|(_, f)| *f);
        for (row, value) in rows.iter_mut().zip(number::column(distances.iter().map(at))) {
            row.push(value);
        }
    }
    page.table(&columns, &rows, &[]);
    for (n, f) in &reach {
        let text = format!("Tier {n}: a load fetches {} in total.", number::value(f).value);
        page.text(TextRole::Plain, &text, "  ", "    ");
    }
    let labelled: Vec<(String, &Finding)> = reach.iter().map(|(n, f)| (format!("tier {n}"), *f)).collect();
    notes(page, &labelled);
}
