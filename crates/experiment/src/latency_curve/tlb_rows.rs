//! Findings of the TLB pairs: reach and penalty of each TLB, and the page walk.

use fathom_analysis::findings::{Basis, Finding, Item, Key, Metric, Refused, Report, Value};
use fathom_analysis::interval::{Interval, median};
use fathom_analysis::metrics::survey;
use fathom_analysis::tiers::{Capacity, MIN_PLATEAU_POINTS, Reading, Tier};
use fathom_units::size;

use super::conflicts;
use super::curves::Curves;
use super::rows::{add_clock_error, wide_rise};
use super::tables::DESCRIPTOR;
use super::translation::{Pair, lines_per_page};
use super::two_lines::IN_MEMORY;
use crate::reading::measured;
use crate::scale::Scale;

/// Returns a note on trials with more pages than entries that fitted.
fn covered(capacity: &Capacity) -> Option<String> {
    let trials = capacity.covered;
    (trials > 0).then(|| {
        let times = if trials == 1 { "once".to_owned() } else { format!("in {trials} trials") };
        format!("more pages fitted {times}: an entry can cover pages whose frames lie side by side")
    })
}

/// Returns the most entries of a TLB whose reach is at most `high` pages.
fn most_entries(high: f64, scale: &Scale) -> f64 {
    let own = if scale.is_hardware() { OWN_PAGES } else { 0.0 };
    high.ceil() + own
}

/// Entries of a TLB that the task's own pages take, its stack and data: of 72 entries, 70 pages did not always fit.
const OWN_PAGES: f64 = 2.0;

/// Returns the entries of the TLB that ends at step `i`, beside which a load that hits takes `hit` ns. They are integers: the interval's ends
/// round outwards.
fn entries(all: &Curves, scale: &Scale, (steps, i): (&[(Capacity, Tier)], usize), hit: f64) -> Interval {
    let added = |step: &(Capacity, Tier)| step.1.latency.value - hit;
    let before = i.checked_sub(1).map_or(0.0, |nearer| added(&steps[nearer]));
    let capacity = &steps[i].0;
    let Interval { value, high, .. } = capacity.onset;
    let low = all.least_reach(capacity, (before, added(&steps[i]))).floor();
    Interval { value: value.floor(), low, high: most_entries(high, scale) }
}

/// Ratio of the reaches of two steps within which the first one may still rise where the second begins: with random replacement, m of the loads on x
/// times as many pages as a TLB has entries miss, where m = 1 - exp(-x m): 80 % at 2, 94 % at 3. On described machines whose lines conflict in a
/// cache beside a TLB's end, the plateau began at 1.6 and 2.4 times its reach.
const SAME_RISE: f64 = 3.0;

/// Returns whether the rise beyond the first of two ends may go on where the second one begins.
fn may_still_rise(end: &Interval, next: &Interval) -> bool {
    next.low < SAME_RISE * end.high
}

/// Extends the penalty of a TLB to that of the next step, if that may be none of a TLB: it is then a part of this one's.
fn extend_penalties(steps: &[(Capacity, Tier)], report: &mut Report) {
    for (n, pair) in (1u64..).zip(steps.windows(2)) {
        let of = |metric: &'static Metric, n: u64| metric.at([n.into()]);
        let next_may_be_none = report
            .findings
            .iter()
            .any(|row| row.key == of(&survey::TLB_ENTRIES, n + 1) && row.detail.flag(survey::MAYBE_TABLES));
        let is_near = may_still_rise(&pair[0].0.onset, &pair[1].0.onset);
        let next = report.findings.iter().find(|row| row.key == of(&survey::TLB_PENALTY, n + 1));
        let Some(high) = next.and_then(|next| next.high).filter(|_| next_may_be_none && is_near) else {
            continue;
        };
        if let Some(row) = report.findings.iter_mut().find(|row| row.key == of(&survey::TLB_PENALTY, n)) {
            row.high = row.high.map(|own| own.max(high));
        }
    }
}

impl Curves {
    /// Returns a note on a step of translation of so many ns if rows of memory that are open no longer may cause it.
    fn in_rows_of_memory(&self, pages: &Interval, step: f64) -> Option<String> {
        let beyond = self.pairs.iter().find(|pair| pair.pages as f64 > pages.high)?;
        let is_in_memory = beyond.packed.time() >= IN_MEMORY * self.latency_curve.last()?.time();
        self.rows_of_memory.filter(|_| is_in_memory)?.note(step)
    }
}

/// Adds the findings of the TLBs' reach.
pub(crate) fn tlb_rows(all: &Curves, scale: &Scale, report: &mut Report) {
    let Curves { pairs, reading: curves, translated: Some(reading), .. } = all else { return };
    let first = reading.tiers[0].latency;
    let count: usize = pairs.iter().map(|p| p.spread.values().len()).sum();
    let trials: Vec<u64> =
        pairs.iter().flat_map(|p| p.spread.trials.iter().chain(&p.packed.trials).copied()).collect();
    let note = format!("base pages of {}", size(scale.base as f64));
    let steps = all.tlb_steps();
    for (i, (capacity, beyond)) in steps.iter().enumerate() {
        let n = i + 1;
        let o = capacity.onset;
        let entries = entries(all, scale, (&steps, i), first.value);
        let mut row = measured(survey::TLB_ENTRIES.at([n.into()]), entries, "", count, &trials);
        row.basis = Basis::Fitted;
        row.notes.push(note.clone());
        row.notes.extend(wide_rise(capacity, |pages| format!("{pages:.0} pages")));
        row.notes.extend(covered(capacity));
        let lines = lines_per_page(pairs, &entries);
        if let Some(note) = curves.as_ref().and_then(|s| leaves_a_tier((&entries, lines), s, scale)) {
            maybe_tables(&mut row, note);
        }
        let nearer = i.checked_sub(1).map_or(first.value, |nearer| steps[nearer].1.latency.value);
        let conflicts = [
            all.in_rows_of_memory(&entries, beyond.latency.value - nearer),
            (entries.high > all.sure_pages).then(|| conflicts::note(all.sure_pages)),
            curves
                .as_ref()
                .filter(|_| lines == Some(1))
                .and_then(|tiers| conflicts::in_odd_sets(&entries, tiers, scale)),
            conflicts::after_a_fall(pairs, o.value, beyond.latency.value - first.value),
        ];
        conflicts.into_iter().flatten().take(1).for_each(|note| maybe_tables(&mut row, note));
        report.findings.push(row);
        let key = survey::TLB_PENALTY.at([n.into()]);
        if let Some(mut row) = penalty(key, (first, beyond), (count, &trials), scale, report) {
            row.notes.push("in addition to a load that hits in the first TLB".into());
            let end = steps.get(i + 1).map_or(f64::INFINITY, |next| next.0.onset.low);
            if let Some((least, most)) = all.added_beyond(capacity, end) {
                (row.low, row.high) =
                    (row.low.map(|low| low.min(least)), row.high.map(|high| high.max(most)));
                row.notes.push("pairs whose lines conflict in a cache were left out".into());
            }
            let walks = i + 1 == steps.len();
            if let Some(most) = all.by_one_line(capacity).filter(|_| walks) {
                row.high = row.high.map(|high| high.max(most));
            }
            add_refresh_error(all, &mut row, (capacity, end));
            add_host_error(&mut row, beyond, scale);
            add_clock_error(&mut row, beyond.latency.value, scale);
            report.findings.push(row);
        }
    }
    extend_penalties(&steps, report);
    if steps.is_empty() {
        report.refusals.extend(no_tlb(all, pairs, first.value));
    }
    if let Some((capacity, last)) = steps.last() {
        let rest = unexplained_rise(pairs, capacity.above, last.latency.value - first.value);
        // In a guest, whose pages are translated twice, a rise may be another TLB unless page tables are shown to cause it.
        let tables = all.walks_grow_from().is_some_and(|(_, shown)| shown || !scale.nested);
        match rest.filter(|_| !tables) {
            Some(refused) => report.refusals.push(refused),
            None => walk_row(all, scale, (first, capacity, last), (count, &trials), report),
        }
    }
}

/// Widens the interval of the penalty of a TLB by the error of loads in step with refreshes of memory; `end` is the number of pages at which the next
/// one ends. It does not count in the steps of the pairs, where it hides TLBs: that of 2048 entries of s1-8way.
fn add_refresh_error(all: &Curves, row: &mut Finding, (capacity, end): (&Capacity, f64)) {
    let (Value::Number(value), Some(error)) = (&row.value, all.error_of_refreshes(capacity, end)) else {
        return;
    };
    let (value, error) = (*value, 1.96 * error);
    row.low = row.low.map(|low| value - (value - low).hypot(error));
    row.high = row.high.map(|high| value + (high - value).hypot(error));
}

/// Smallest rise of the pairs that is not flat, as a share of a load that hits: smaller ones are no steps (`read_pairs`).
const MIN_RISE: f64 = 0.25;

/// Returns why there is no TLB although loads on many pages take longer; `hit` is the time of a load that hits, ns.
fn no_tlb(all: &Curves, pairs: &[Pair], hit: f64) -> Option<Refused> {
    let refused = |reason| Refused { what: "TLBs for base pages".into(), reason, remedy: String::new() };
    if let Some((pages, true)) = all.walks_grow_from() {
        return Some(refused(format!(
            "the first rise, at {pages:.0} pages, is due to page tables that leave a cache: loads in every 11th and 13th page take longer on fewer pages already"
        )));
    }
    let (pages, extra) = largest(pairs)?;
    (extra > MIN_RISE * hit).then(|| {
        refused(format!(
            "loads on {pages} pages take {extra:.1} ns longer than those that hit, but no rise is that of one TLB: page tables that leave the \
             caches, or lines one page apart that conflict in a cache, may hide its end"
        ))
    })
}

/// Adds the finding of the page walk, whose cost is that of the tier `last`.
fn walk_row(
    all: &Curves,
    scale: &Scale,
    (first, capacity, last): (Interval, &Capacity, &Tier),
    (count, trials): (usize, &[u64]),
    report: &mut Report,
) {
    let key = (&survey::WALK_LATENCY).into();
    let Some(mut row) = penalty(key, (first, last), (count, trials), scale, report) else { return };
    row.notes.push("cost of a miss in the last TLB".into());
    add_refresh_error(all, &mut row, (capacity, f64::INFINITY));
    add_host_error(&mut row, last, scale);
    add_clock_error(&mut row, last.latency.value, scale);
    if let Some((pages, shown)) = all.walks_grow_from() {
        row.detail.set(survey::GROWS_BEYOND, Item::Number(pages.round()));
        let cause = if shown {
            "page tables leave a cache: loads in every 11th and 13th page take longer on fewer pages already"
        } else {
            "the page tables no longer fit in the caches, or another TLB ends"
        };
        row.notes.push(format!("grows beyond {pages:.0} pages, where {cause}"));
    }
    report.findings.push(row);
}

/// Error of a penalty that its points do not show, relative and in cycles: part of its loads hit, and those that miss do not find
/// all page tables in the same cache. Of 71 penalties of described machines (wide generator, seeds 160000 to 160059), the errors of the
/// points alone held 62, and with this one 67.
const PENALTY_ERROR: (f64, f64) = (0.03, 0.3);

/// Returns the finding of the time that a load of the tier `beyond` takes longer than one of the `first` tier, with the
/// errors of both and [`PENALTY_ERROR`]; refuses it if the tier beyond has too few points.
pub(crate) fn penalty(
    key: Key,
    (first, beyond): (Interval, &Tier),
    (count, trials): (usize, &[u64]),
    scale: &Scale,
    report: &mut Report,
) -> Option<Finding> {
    if beyond.points < MIN_PLATEAU_POINTS {
        report.refusals.push(Refused {
            what: key.name(),
            reason: format!(
                "only {} of {MIN_PLATEAU_POINTS} points are in the range in which loads miss",
                beyond.points
            ),
            remedy: "give it a larger --budget".into(),
        });
        return None;
    }
    let (from, to) = (first, beyond.latency);
    let value = to.value - from.value;
    let cycle_ns = scale.cycle().map_or(0.0, |ticks| ticks * scale.tick_ns);
    let error = PENALTY_ERROR.0 * value.abs() + PENALTY_ERROR.1 * cycle_ns;
    let low = value - (to.value - to.low).hypot(from.high - from.value).hypot(error);
    let high = value + (to.high - to.value).hypot(from.value - from.low).hypot(error);
    let row = measured(key, Interval { value, low, high }, "ns", count, trials);
    Some(Finding { basis: Basis::Fitted, ..row })
}

/// Standard deviation of the logarithm of a page walk's cost, between sessions in a guest. Its walks are nested in those of the host,
/// which backs the pages of one session otherwise than those of the next. Fourteen sessions of 10 s on an EPYC (Genoa) guest: 15.3
/// to 47.8 ns, 0.36, while each one's own interval was within 11 to 35 %.
const GUEST_WALK_SIGMA: f64 = 0.36;

/// Widens the interval of a page walk in a guest by what other sessions find.
fn add_host_error(row: &mut Finding, beyond: &Tier, scale: &Scale) {
    if !scale.nested || beyond.latency.value <= scale.max_core_clocked() {
        return;
    }
    let factor = (1.96 * GUEST_WALK_SIGMA).exp();
    (row.low, row.high) = (row.low.map(|low| low / factor), row.high.map(|high| high * factor));
    row.notes.push(
        "in a guest: other sessions may find half or twice of it, as the host backs their pages".into(),
    );
}

/// Times by which loads on the most pages take longer than beyond the last TLB, from which on there is another step.
const UNEXPLAINED: f64 = 1.5;
/// Pairs with the most pages that show it.
const LAST_PAIRS: usize = 3;

/// Returns the median of what the [`LAST_PAIRS`] on the most pages add, ns, and the fewest pages of them; `None` of fewer pairs.
fn largest(pairs: &[Pair]) -> Option<(u64, f64)> {
    let last = &pairs[pairs.len().checked_sub(LAST_PAIRS)?..];
    let extra = median(&last.iter().map(|pair| pair.extra).collect::<Vec<_>>())?;
    Some((last[0].pages, extra))
}

/// Refuses a page walk if loads on the most pages take far longer than those on just more than the last TLB holds.
fn unexplained_rise(pairs: &[Pair], end: f64, penalty: f64) -> Option<Refused> {
    let beyond: Vec<Pair> = pairs.iter().filter(|pair| pair.pages as f64 > end).cloned().collect();
    let (pages, extra) = largest(&beyond)?;
    (extra > UNEXPLAINED * penalty).then(|| Refused {
        what: survey::WALK_LATENCY.pattern.to_owned(),
        reason: format!(
            "loads on {pages} pages take {extra:.1} ns longer than those that hit, {:.1} times as much as beyond the last TLB that was found: \
             the rise between them is not that of one TLB",
            extra / penalty
        ),
        remedy: "give it a larger --budget, or measure while the machine is idle".into(),
    })
}

/// Returns a note if translation begins to cost more at a number of pages whose lines and page tables, or tables alone, just fill a
/// tier, somewhere in the intervals of both: the cause may then be page tables leaving a cache, not a TLB. Each line of a page takes a line of
/// the curve's spacing, or the space of two if lines are spaced for 128. Its descriptor takes eight bytes. Of lines in memory (`None`) the tables
/// alone count.
pub(crate) fn leaves_a_tier(
    (pages, lines_per_page): (&Interval, Option<u64>),
    curves: &Reading,
    scale: &Scale,
) -> Option<String> {
    let ends: Vec<Interval> = curves.tiers.iter().filter_map(|t| t.capacity).map(|c| c.onset).collect();
    let (most, least) = (|end: &Interval| pages.high / end.low, |end: &Interval| pages.low / end.high);
    let with_lines = |end: &Interval| {
        lines_per_page.is_some_and(|lines| {
            let of = |stride: u64| (lines * stride + DESCRIPTOR) as f64;
            most(end) * of(scale.pair_stride()) >= 0.4
                && least(end) * of(scale.stride_at(end.value as u64)) <= 1.2
        })
    };
    let alone =
        |end: &Interval| most(end) * DESCRIPTOR as f64 >= 0.7 && least(end) * DESCRIPTOR as f64 <= 1.7;
    let fills = |what: &'static str, fits: &dyn Fn(&Interval) -> bool| {
        ends.iter().find(|end| fits(end)).map(|end| (what, end.value))
    };
    let (what, tier) =
        fills("lines and page tables", &with_lines).or_else(|| fills("the descriptors", &alone))?;
    let Interval { value, low, high } = pages;
    let pages = if high / low > CERTAIN { format!("{low:.0} to {high:.0}") } else { format!("{value:.0}") };
    Some(format!(
        "{what} of {pages} pages just fill the {} tier: page tables leaving it may cause this step, not a TLB",
        size(tier)
    ))
}

/// Ratio of the ends of an interval from which on the note names both of them: a choice of the text alone.
const CERTAIN: f64 = 1.5;

/// Marks a step of the translation curve that may not be a TLB.
pub(crate) fn maybe_tables(row: &mut Finding, note: String) {
    row.detail.set(survey::MAYBE_TABLES, Item::Flag(true));
    row.notes.push(note);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::At;

    fn pairs(extra: impl Fn(u64) -> f64) -> Vec<Pair> {
        let pair = |pages: u64| Pair {
            pages,
            extra: extra(pages),
            two_lines: None,
            spread: At::default(),
            packed: At::default(),
        };
        (1..=13).map(|power| pair(1 << power)).collect()
    }

    /// A TLB of 48 entries with random replacement, and a step within its rise (wide generator, seed 571759).
    #[test]
    fn rise_under_random_replacement_goes_on_at_three_times_the_entries() {
        let of = |low: f64, high: f64| Interval { value: low, low, high };
        assert!(may_still_rise(&of(47.0, 50.0), &of(130.0, 158.0)));
        assert!(!may_still_rise(&of(47.0, 50.0), &of(151.0, 158.0)));
    }

    /// A TLB of 64 entries ends, and another rise that was not read as a step.
    #[test]
    fn walk_is_refused_if_loads_on_more_pages_take_far_longer() {
        let rises =
            pairs(|pages| if pages <= 64 { 0.0 } else { 1.9 + (pages as f64 / 200.0).log2().max(0.0) * 5.0 });
        let refused = unexplained_rise(&rises, 70.0, 1.9).expect("refused");
        assert!(refused.reason.starts_with("loads on 2048 pages take 23.7 ns longer"), "{refused:?}");
        let flat = pairs(|pages| if pages <= 64 { 0.0 } else { 1.9 });
        assert_eq!(unexplained_rise(&flat, 70.0, 1.9), None);
        assert_eq!(unexplained_rise(&rises[..7], 70.0, 1.9), None, "too few pairs");
        assert_eq!(largest(&flat), Some((2048, 1.9)));
    }
}
