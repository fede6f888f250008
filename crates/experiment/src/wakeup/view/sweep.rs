//! Sections of the sweep: tail by block size, stride and mode, and its change-points.

use fathom_analysis::findings::{Axis, Finding, Key, Metric, tokens};
use fathom_analysis::metrics::wakeup as metrics;

use super::{column, word};
use fathom_report::chart::{Band, Chart, Kind, Line, Scale, Series};
use fathom_report::finding_index::FindingIndex;
use fathom_report::heat_map::HeatMap;
use fathom_report::notes;
use fathom_report::number::{self, Shown, short_size};
use fathom_report::page::{INTERVAL, Page, Pieces, TextRole, measured, right};
use fathom_report::plot::{Plot, draw};

/// Heading of the change-points.
const HEADING: &str = "Changes of wake-up latency with block size";
/// Text rows of a curve.
const ROWS: usize = 8;

/// The statistic of a change-point without one.
const TAIL: &str = tokens::STATISTIC.values[0];

/// Stressor and mode: curves that are shown together.
#[derive(Clone, PartialEq)]
struct Group {
    stressor: String,
    mode: String,
}

impl Group {
    fn name(&self) -> String {
        format!("{}.{}", self.stressor, self.mode)
    }
}

/// One block size of a curve.
struct SweepPoint<'a> {
    group: Group,
    stride: u64,
    bytes: u64,
    p50: Option<&'a Finding>,
    tail: Option<&'a Finding>,
    max: Option<&'a Finding>,
    faults: Option<&'a Finding>,
}

/// A change-point of a curve.
struct ChangePoint<'a> {
    nth: String,
    /// The curve, if the findings name it.
    group: Option<Group>,
    stride: u64,
    bytes: Option<&'a Finding>,
    effect: Option<&'a Finding>,
    kind: Option<&'a Finding>,
    statistic: Option<&'a Finding>,
    /// Page faults before and after, if these change.
    before: Option<&'a Finding>,
    after: Option<&'a Finding>,
    /// Changes of latencies there.
    across: Vec<&'a Finding>,
}

impl ChangePoint<'_> {
    /// Returns the statistic that changes: the tail if unknown.
    fn of(&self) -> &str {
        self.statistic.and_then(|f| f.word()).unwrap_or(TAIL)
    }

    /// Returns whether it is a change-point of this curve.
    fn is_of(&self, group: &Group, stride: u64) -> bool {
        self.group.as_ref() == Some(group) && self.stride == stride
    }
}

/// Renders all sections, if there is a sweep.
pub(super) fn section(page: &mut Page, finding_index: &mut FindingIndex) {
    let cells = take_points(finding_index);
    let change_points = take_change_points(finding_index);
    let mut curves: Vec<Key> = cells.iter().map(curve_key).collect();
    curves.dedup();
    // Taken where the curve is shown: it shows whether the curve had enough data.
    let counted =
        curves.into_iter().filter_map(|curve| finding_index.one(curve)).map(|f| &f.key).collect::<Vec<_>>();
    if !cells.is_empty() && change_points.is_empty() {
        page.heading(HEADING);
        let reported = |cell: &SweepPoint| counted.contains(&&curve_key(cell));
        let text = match cells.iter().all(reported) {
            true => "None.",
            false => "None in the curves with enough data; for the others see the refusals.",
        };
        page.text(TextRole::Plain, text, "", "  ");
    }
    changepoints(page, &change_points);
    let mut groups: Vec<&Group> = cells.iter().map(|c| &c.group).collect();
    groups.dedup();
    for group in groups {
        let of: Vec<&SweepPoint> = cells.iter().filter(|c| c.group == *group).collect();
        mode(page, group, &of, &change_points);
    }
}

/// Returns the key of the number of change-points of a cell's curve.
fn curve_key(cell: &SweepPoint) -> Key {
    let Group { stressor, mode } = &cell.group;
    metrics::CHANGEPOINTS.at([stressor.into(), mode.into(), cell.stride.into()])
}

fn take_points<'a>(finding_index: &mut FindingIndex<'a>) -> Vec<SweepPoint<'a>> {
    let found = finding_index.of(&[
        &metrics::SWEEP_P50,
        &metrics::SWEEP_TAIL,
        &metrics::SWEEP_MAX,
        &metrics::SWEEP_FAULTS,
    ]);
    let mut cells: Vec<SweepPoint> = Vec::new();
    for f in found {
        let group = Group { stressor: word(f, Axis::Stressor), mode: word(f, Axis::Mode) };
        let (Some(stride), Some(bytes)) = (f.key.number(Axis::Stride), f.key.number(Axis::Size)) else {
            continue;
        };
        let same = |cell: &SweepPoint| cell.group == group && (cell.stride, cell.bytes) == (stride, bytes);
        if !cells.last().is_some_and(same) {
            cells.push(SweepPoint { group, stride, bytes, p50: None, tail: None, max: None, faults: None });
        }
        let Some(cell) = cells.last_mut() else { continue };
        let slots: [(&Metric, &mut Option<&'a Finding>); 4] = [
            (&metrics::SWEEP_P50, &mut cell.p50),
            (&metrics::SWEEP_TAIL, &mut cell.tail),
            (&metrics::SWEEP_MAX, &mut cell.max),
            (&metrics::SWEEP_FAULTS, &mut cell.faults),
        ];
        put(slots, f);
    }
    cells
}

/// Stores a finding in the slot of its metric.
fn put<'a, const N: usize>(slots: [(&Metric, &mut Option<&'a Finding>); N], f: &'a Finding) {
    for (metric, slot) in slots {
        if f.is(metric) {
            *slot = Some(f);
        }
    }
}

fn take_change_points<'a>(finding_index: &mut FindingIndex<'a>) -> Vec<ChangePoint<'a>> {
    let found = finding_index.of(&[
        &metrics::CHANGEPOINT_BYTES,
        &metrics::CHANGEPOINT_EFFECT,
        &metrics::CHANGEPOINT_KIND,
        &metrics::CHANGEPOINT_STATISTIC,
        &metrics::CHANGEPOINT_BEFORE,
        &metrics::CHANGEPOINT_AFTER,
        &metrics::CHANGEPOINT_ACROSS,
    ]);
    let mut change_points: Vec<ChangePoint> = Vec::new();
    for f in found {
        let nth = word(f, Axis::Index);
        if change_points.last().is_none_or(|b| b.nth != nth) {
            change_points.push(start_change_point(nth, f));
        }
        let Some(b) = change_points.last_mut() else { continue };
        let slots: [(&Metric, &mut Option<&'a Finding>); 6] = [
            (&metrics::CHANGEPOINT_BYTES, &mut b.bytes),
            (&metrics::CHANGEPOINT_EFFECT, &mut b.effect),
            (&metrics::CHANGEPOINT_KIND, &mut b.kind),
            (&metrics::CHANGEPOINT_STATISTIC, &mut b.statistic),
            (&metrics::CHANGEPOINT_BEFORE, &mut b.before),
            (&metrics::CHANGEPOINT_AFTER, &mut b.after),
        ];
        put(slots, f);
        if f.is(&metrics::CHANGEPOINT_ACROSS) {
            b.across.push(f);
        }
    }
    change_points
}

/// Starts a change-point from its first finding; each of its findings names the curve.
fn start_change_point<'a>(nth: String, f: &Finding) -> ChangePoint<'a> {
    let of = |field| f.detail.word(field).map(str::to_owned);
    let group = of(metrics::STRESSOR).zip(of(metrics::MODE)).map(|(stressor, mode)| Group { stressor, mode });
    let stride = f.detail.number(metrics::STRIDE).unwrap_or(0.0) as u64;
    let (bytes, effect, kind, statistic, before, after) = (None, None, None, None, None, None);
    ChangePoint { nth, group, stride, bytes, effect, kind, statistic, before, after, across: Vec::new() }
}

/// Renders a sentence per change-point.
fn changepoints(page: &mut Page, change_points: &[ChangePoint]) {
    if change_points.is_empty() {
        return;
    }
    page.heading(HEADING);
    let value = |f: &Finding| {
        let Shown { value, interval } = number::value(f);
        format!("{value} {interval}").trim_end().to_owned()
    };
    for b in change_points {
        let mut text = format!("{}:", b.nth);
        if let Some(group) = &b.group {
            text += &format!(" {}.{}", group.name(), b.stride);
        }
        if let Some(f) = b.statistic {
            text += &format!(", {}", value(f));
        }
        text += &format!(": {}", b.kind.map_or_else(|| "change".to_owned(), value));
        if let Some(f) = b.bytes {
            text += &format!(" at {}", value(f));
        }
        if let Some(f) = b.effect {
            text += &format!(", relative change {}", value(f));
        }
        if let Some(f) = b.before {
            text += &format!(", from {} per second", value(f));
        }
        if let Some(f) = b.after {
            text += &format!(" to {} per second", value(f));
        }
        let across = b.across.iter();
        let latencies: Vec<String> =
            across.map(|f| format!("{} {}", word(f, Axis::Statistic), value(f))).collect();
        if !latencies.is_empty() {
            text += &format!("; relative changes of latencies there: {}", latencies.join(", "));
        }
        let all = [b.bytes, b.effect, b.kind, b.statistic].into_iter().flatten();
        for note in all.flat_map(|f| &f.notes) {
            text += &format!("; {note}");
        }
        page.text(TextRole::Plain, &text, "- ", "  ");
    }
}

/// Strides that are shown at first; of more than that, only those with change-points and the ends.
const MAX_SHOWN: usize = 4;

/// Returns the chart of tail, maximum and median by block size, one colour per stride, with the change-points.
fn sweep_chart(group: &Group, strides: &[u64], change_points: &[ChangePoint], unit: &'static str) -> Chart {
    let of: Vec<&ChangePoint> = change_points.iter().filter(|b| b.group.as_ref() == Some(group)).collect();
    let band = |b: &&ChangePoint| {
        let bytes = b.bytes?;
        let kind = b.kind.and_then(|f| f.word()).unwrap_or("change");
        let label = format!("{}: {kind}, {}", b.nth, b.of());
        Some(Band { from: bytes.low, to: bytes.high, label, strong: true })
    };
    let bands: Vec<Band> = of.iter().filter_map(band).collect();
    let mut caption = "Wake-up latency by block size, one colour per stride; both axes logarithmic. Solid: the tail (p99.9, or \
                       p99) with 95 % intervals; dotted: the maximum; dashed: the median."
        .to_owned();
    if !bands.is_empty() {
        caption += " Bands: ranges of the change-points.";
    }
    let series = |metric: &'static Metric, what: &'static str, line: Line| {
        Series::of(metric, "stride {stride} B")
            .what(what)
            .at(Axis::Stressor, &group.stressor)
            .at(Axis::Mode, &group.mode)
            .by(Axis::Stride)
            .line(line)
    };
    let x = Scale::of(Axis::Size, "block size").log().sizes();
    let ends = [strides.first(), strides.last()];
    let first = |stride: &&u64| {
        strides.len() <= MAX_SHOWN || ends.contains(&Some(*stride)) || of.iter().any(|b| b.stride == **stride)
    };
    Chart::new(format!("sweep.{}", group.name()), Kind::Lines, x, Scale::values(unit).log(), caption)
        .with(series(&metrics::SWEEP_TAIL, "tail", Line::Solid))
        .with(series(&metrics::SWEEP_MAX, "maximum", Line::Dotted))
        .with(series(&metrics::SWEEP_P50, "median", Line::Dashed))
        .bands("changepoints", bands)
        .shown(strides.iter().filter(first).map(|stride| format!("stride {stride} B")))
}

/// Returns the heat map of the tail, block sizes by strides.
fn heat_chart(group: &Group, unit: &'static str) -> Chart {
    let caption = format!(
        "The tail of wake-up latency ({unit}), block sizes by strides: darker means later; colours are logarithmic."
    );
    let x = Scale::of(Axis::Stride, "stride").sizes();
    let y = Scale::of(Axis::Size, unit).sizes();
    let series = Series::of(&metrics::SWEEP_TAIL, "tail")
        .at(Axis::Stressor, &group.stressor)
        .at(Axis::Mode, &group.mode);
    Chart::new(format!("sweepheat.{}", group.name()), Kind::HeatMap, x, y, caption)
        .label("{size} at a stride of {stride} B")
        .with(series)
}

/// Renders a stressor and mode: heat map, curves with change-points, table.
fn mode(page: &mut Page, group: &Group, cells: &[&SweepPoint], change_points: &[ChangePoint]) {
    let Some(unit) = cells.iter().find_map(|c| c.tail.or(c.p50).or(c.max)).map(|f| f.unit) else {
        return table(page, cells);
    };
    page.heading(&format!("Sweep of {}: wake-up latency by block size and stride, {unit}", group.name()));
    let mut strides: Vec<u64> = cells.iter().map(|c| c.stride).collect();
    strides.dedup();
    let chart = sweep_chart(group, &strides, change_points, unit);
    let mut curves: Vec<Pieces> = Vec::new();
    for stride in strides {
        let of: Vec<&SweepPoint> = cells.iter().copied().filter(|c| c.stride == stride).collect();
        let of_stride: Vec<&ChangePoint> = change_points.iter().filter(|b| b.is_of(group, stride)).collect();
        for (tail, what) in [(true, "the tail"), (false, "p50")] {
            let Some(plot) = curve(&of, &of_stride, tail) else { continue };
            let stride = short_size(stride as f64);
            curves.push(vec![(
                TextRole::Plain,
                format!("Stride {stride}: {what} by block size, both axes logarithmic:"),
            )]);
            curves.extend(draw(&plot, page.style().width, page.style().unicode));
            curves.push(Vec::new());
        }
    }
    page.picture(chart, curves);
    let map = heat(cells).draw(page.style().width, page.style().unicode);
    if !map.is_empty() {
        page.text(
            TextRole::Plain,
            &format!("The tail ({unit}), sizes by strides; shades are logarithmic:"),
            "",
            "  ",
        );
        page.picture(heat_chart(group, unit), map);
        page.line(TextRole::Plain, "");
    }
    table(page, cells);
}

/// Returns the plot of the tail, or of p50, by size, if it has change-points; those of p90 are marked on p50.
fn curve(cells: &[&SweepPoint], change_points: &[&ChangePoint], tail: bool) -> Option<Plot> {
    let marks: Vec<(f64, String)> = change_points
        .iter()
        .filter(|b| tail == (b.of() == TAIL))
        .filter_map(|b| Some((b.bytes?.finite()?, format!("{}: {}", b.nth, b.of()))))
        .collect();
    let late = |c: &&SweepPoint| if tail { c.tail } else { c.p50 }?.finite().filter(|us| *us > 0.0);
    let points: Vec<(f64, f64)> = cells.iter().filter_map(|c| Some((c.bytes as f64, late(c)?))).collect();
    let [first, .., last] = points.as_slice() else { return None };
    let within: Vec<(f64, String)> =
        marks.into_iter().filter(|(bytes, _)| (first.0..=last.0).contains(bytes)).collect();
    if within.is_empty() || points.iter().any(|(_, us)| *us > 1e15) {
        return None;
    }
    Some(Plot {
        marks: within,
        points,
        plateaus: Vec::new(),
        log_x: true,
        log_y: true,
        from_zero: false,
        rows: ROWS,
        x_label: short_size,
        y_label: number::height,
    })
}

/// Returns the tail by size and stride.
fn heat(cells: &[&SweepPoint]) -> HeatMap {
    let ascending = |of: fn(&SweepPoint) -> u64| {
        let all: std::collections::BTreeSet<u64> = cells.iter().map(|c| of(c)).collect();
        all.into_iter().collect::<Vec<u64>>()
    };
    let (rows, columns) = (ascending(|c| c.bytes), ascending(|c| c.stride));
    let cell = |bytes: u64, stride: u64| {
        let of = |c: &&&SweepPoint| (c.bytes, c.stride) == (bytes, stride);
        cells.iter().find(of)?.tail?.finite().filter(|us| *us > 0.0)
    };
    let cells = rows.iter().map(|b| columns.iter().map(|s| cell(*b, *s)).collect()).collect();
    HeatMap { rows, columns, cells }
}

fn table(page: &mut Page, cells: &[&SweepPoint]) {
    let mut before = None;
    let mut rows = Vec::new();
    let p50 = column(&cells.iter().map(|c| c.p50).collect::<Vec<_>>());
    let max = column(&cells.iter().map(|c| c.max).collect::<Vec<_>>());
    let faults = column(&cells.iter().map(|c| c.faults).collect::<Vec<_>>());
    for (at, cell) in cells.iter().enumerate() {
        let (stride, bytes) = (cell.stride, cell.bytes);
        // The stride only on the first row of a group.
        let named = if before == Some(stride) { String::new() } else { stride.to_string() };
        before = Some(stride);
        let mut row = vec![named, number::size(bytes as f64, None, None).value, p50[at].clone()];
        row.extend(number::cells(cell.tail));
        let seen = cell.max.map(|f| f.count.to_string()).unwrap_or_default();
        row.extend([max[at].clone(), seen, faults[at].clone()]);
        rows.push(row);
    }
    let columns = [
        right("stride").key(),
        right("size").key(),
        right("p50"),
        measured("tail"),
        INTERVAL,
        right("max"),
        right("activations"),
        right("faults/s"),
    ];
    page.table(&columns, &rows, &[]);
    let labelled: Vec<(String, &Finding)> = cells
        .iter()
        .filter_map(|c| {
            let label = format!("{} at {}", number::size(c.bytes as f64, None, None).value, c.stride);
            Some((label, c.tail?))
        })
        .collect();
    notes(page, &labelled);
}
