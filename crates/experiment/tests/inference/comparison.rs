//! Comparison of a survey with its description, value by value. The oracle's tests and `examples/score` use it.
//!
//! `crates/model/src/expected.rs` computes the expected values from the description alone. A latency is right within 1 % or
//! 0.2 cycle, a capacity if its interval holds the described one, a penalty within 3 % or 0.3 cycle; all others have to be
//! equal. Beside neighbours, penalties are in cycles of the clock that was found, and memory's latency is in ns. A latency or penalty
//! that differs more, but whose interval holds the described one, is wide, as is a capacity with an interval of more than 6 %.

use fathom_analysis::findings::{Finding, Key, Report, Value, WarningKind};
use fathom_analysis::metrics::survey as metrics;
use fathom_model::description::{Description, Level, Tlb};
use fathom_model::expected::{self, Expected, Range, expected};

use crate::entries::{Entry, entries, number};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// The number of tiers, memory included.
    TierCount,
    /// Latency of a level, cycles.
    Latency,
    /// Latency of memory, cycles.
    MemoryLatency,
    /// Capacity of a level, bytes.
    Capacity,
    /// Line of a level, bytes.
    Line,
    /// Ways of a level.
    Ways,
    /// Sets of a level.
    Sets,
    /// Replacement policy of a level.
    Policy,
    /// Entries of a TLB, for base pages.
    TlbEntries,
    /// Penalty of a TLB, cycles.
    TlbPenalty,
    /// Ways and sets of a TLB.
    TlbSets,
    /// Entries of a TLB, for huge pages.
    HugeEntries,
}

/// Result of one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The found value is the described one.
    Right,
    /// The interval holds the described value, but is wider than promised.
    Wide,
    /// The found value is not the described one.
    Wrong,
    /// No value was found, and one is expected.
    Missing,
    /// No value was found, and none has to be.
    Refused,
}

/// One compared value.
#[derive(Clone, Debug)]
pub struct Row {
    pub quantity: Quantity,
    pub verdict: Verdict,
    /// Truth and finding, or the reason of a refusal.
    pub text: String,
    /// The finding's value and interval, in the unit of the quantity.
    pub found: Option<(f64, Option<(f64, f64)>)>,
    /// The described value; an interval if it depends on the state of the machine.
    pub truth: Option<Range>,
    /// The finding's notes; those of all tiers for their number. Warnings that lower confidence are notes of all findings.
    pub notes: Vec<String>,
}

impl Row {
    fn new(quantity: Quantity, verdict: Verdict, text: String) -> Row {
        Row { quantity, verdict, text, found: None, truth: None, notes: Vec::new() }
    }

    /// Adds value, interval and notes of a finding, in units of `unit`, and the truth.
    fn with(mut self, finding: &Finding, unit: f64, truth: Range) -> Row {
        if let Value::Number(value) = finding.value {
            // A lower bound has no upper end.
            let interval =
                finding.low.map(|low| (low / unit, finding.high.map_or(f64::INFINITY, |high| high / unit)));
            self.found = Some((value / unit, interval));
        }
        self.truth = Some(truth);
        self.notes.clone_from(&finding.notes);
        self
    }

    /// Returns whether the finding's interval holds the truth; `None` without an interval.
    pub fn covers(&self) -> Option<bool> {
        let (_, (low, high)) = self.found.and_then(|(value, interval)| Some((value, interval?)))?;
        // A value of four digits, which nobody would call wrong.
        let slack = 5e-4;
        self.truth.map(|truth| low <= truth.high * (1.0 + slack) && high >= truth.low * (1.0 - slack))
    }
}

/// Returns the verdict on a value that is `right` or not: it is wide if its interval holds the truth nevertheless.
fn judged(row: Row, right: bool) -> Row {
    let verdict = match row.covers() {
        _ if right => Verdict::Right,
        Some(true) => Verdict::Wide,
        _ => Verdict::Wrong,
    };
    Row { verdict, ..row }
}

fn exactly(value: f64) -> Range {
    Range { low: value, high: value }
}

/// Returns all comparisons of a report.
pub fn compare(d: &Description, report: &Report) -> Vec<Row> {
    let mut rows = latency_curve(d, report);
    rows.extend(geometry(d, report).into_iter().filter(|row| row.quantity != Quantity::TlbEntries));
    // Not every machine has the counters of a described one: a blind test of what times tell does not profit from them.
    let by_time = report.warnings.iter().filter(|warning| warning.kind != WarningKind::CountsContradict);
    let low = by_time.filter(|warning| warning.kind.lowers_confidence());
    let warnings: Vec<String> = low.map(|warning| warning.text.clone()).collect();
    rows.iter_mut().for_each(|row| row.notes.extend_from_slice(&warnings));
    rows
}

/// Returns the comparisons of the latency curve: tiers, and entries and penalties of TLBs, without geometry.
pub fn latency_curve(d: &Description, report: &Report) -> Vec<Row> {
    let truth = expected(d);
    let mut rows = entry_rows(&truth, report);
    tiers(d, &truth, report, &mut rows);
    penalties(d, &truth, report, &mut rows);
    rows
}

/// Returns the comparisons of lines, ways, sets, policies and TLBs.
pub fn geometry(d: &Description, report: &Report) -> Vec<Row> {
    let mut rows = Vec::new();
    for (i, level) in expected::data_levels(d).into_iter().enumerate() {
        cache(d, report, (i + 1, level), &mut rows);
    }
    rows.extend(entry_rows(&expected(d), report));
    tlb_sets(d, report, &mut rows);
    huge(d, report, &mut rows);
    rows
}

fn entry_rows(truth: &Expected, report: &Report) -> Vec<Row> {
    let quantity = Quantity::TlbEntries;
    let row = |entry: &Entry| match entry {
        Entry::Right(finding, _, tlb) => {
            Row::new(quantity, Verdict::Right, String::new()).with(finding, 1.0, exactly(tlb.entries.into()))
        }
        Entry::Wrong(finding, tlb, text) => {
            let row = Row::new(quantity, Verdict::Wrong, text.clone());
            let truth = tlb.as_ref().map(|tlb| exactly(tlb.entries.into()));
            Row { truth, ..row.with(finding, 1.0, exactly(0.0)) }
        }
        Entry::Missing(tlb) => {
            let text = format!("no TLB of {} entries found", tlb.entries);
            let refused = report.refusals.iter().filter(|r| r.what.to_lowercase().starts_with("tlb"));
            let notes =
                refused.map(|r| r.reason.clone()).chain(walks_that_grow(report, tlb.entries)).collect();
            Row { notes, ..Row::new(quantity, Verdict::Missing, text) }
        }
    };
    entries(truth, report).iter().map(row).collect()
}

/// Returns the notes of the page walk if it grows near so many pages: they say that another TLB may end there.
fn walks_that_grow(report: &Report, entries: u32) -> Vec<String> {
    let is_near = |pages: f64| (0.5..2.0).contains(&(pages / f64::from(entries)));
    let walk = report.findings.iter().find(|row| row.key == Key::from(&metrics::WALK_LATENCY));
    let grows = walk.filter(|walk| walk.detail.number(metrics::GROWS_BEYOND).is_some_and(is_near));
    grows.map_or_else(Vec::new, |walk| walk.notes.clone())
}

fn tiers(d: &Description, truth: &Expected, report: &Report, rows: &mut Vec<Row>) {
    let cycle_ns = 1e9 / d.core.clock_hz;
    let found = (1..).take_while(|n| number(report, &format!("tier.{n}.latency")).is_some()).count();
    let right = found == truth.tiers.len();
    let text = format!("{found} tiers, expected {}", truth.tiers.len());
    let verdict = if right { Verdict::Right } else { Verdict::Wrong };
    let mut count = Row::new(Quantity::TierCount, verdict, text);
    for n in 1..=found {
        for name in ["latency", "capacity"] {
            let finding = number(report, &format!("tier.{n}.{name}"));
            count.notes.extend(finding.iter().flat_map(|(finding, _)| finding.notes.clone()));
        }
    }
    rows.push(count);
    if !right {
        return;
    }
    for (n, tier) in (1..).zip(&truth.tiers) {
        let quantity = if tier.capacity.is_some() { Quantity::Latency } else { Quantity::MemoryLatency };
        // A neighbour that slows the core down does not slow memory down, so its time is compared then.
        let in_ns = tier.capacity.is_none() && !d.neighbours.is_empty();
        let (name, unit) = if in_ns { ("latency", cycle_ns) } else { ("latency_cycles", 1.0) };
        rows.push(match number(report, &format!("tier.{n}.{name}")) {
            Some((finding, v)) => {
                let v = v / unit;
                let text = format!("tier {n}: {v:?} cycles, expected {:?}", tier.cycles);
                let row = Row::new(quantity, Verdict::Wrong, text).with(finding, unit, tier.cycles);
                judged(row, tier.cycles.holds(v, 0.01, 0.2))
            }
            None => {
                let text = format!("tier {n}: no latency in cycles, expected {:?}", tier.cycles);
                Row::new(quantity, Verdict::Missing, text)
            }
        });
        if let Some(capacity) = tier.capacity {
            rows.push(capacity_row(n, capacity, report));
        }
    }
}

fn capacity_row(n: usize, capacity: expected::Capacity, report: &Report) -> Row {
    let Some((finding, v)) = number(report, &format!("tier.{n}.capacity")) else {
        return Row::new(Quantity::Capacity, Verdict::Missing, format!("tier {n}: no capacity"));
    };
    let (low, high) = (finding.low.unwrap_or(v), finding.high.unwrap_or(v));
    let (verdict, text) = if low > capacity.bytes.high || high < capacity.bytes.low {
        let text = format!("tier {n}: capacity {low:.0}..{high:.0}, expected {:?}", capacity.bytes);
        (Verdict::Wrong, text)
    } else if capacity.exact && (high - low) / v > 0.06 {
        (Verdict::Wide, format!("tier {n}: capacity {low:.0}..{high:.0} is wider than 6 %"))
    } else {
        (Verdict::Right, String::new())
    };
    Row::new(Quantity::Capacity, verdict, text).with(finding, 1.0, capacity.bytes)
}

fn penalties(d: &Description, truth: &Expected, report: &Report, rows: &mut Vec<Row>) {
    // Beside neighbours the core's clock as it was found: it may have been slow all the time.
    let found = number(report, "clock.core_hz").filter(|_| !d.neighbours.is_empty());
    let cycle_ns = 1e9 / found.map_or(d.core.clock_hz, |(_, hz)| hz);
    for entry in entries(truth, report) {
        let Entry::Right(_, n, tlb) = entry else { continue };
        let name = format!("tlb.{n}.penalty");
        let Some((finding, ns)) = number(report, &name) else {
            let text = format!("TLB {n}: no penalty, expected {:?}", tlb.penalty);
            let refused = report.refusals.iter().filter(|refused| refused.what == name);
            let notes = refused.map(|refused| refused.reason.clone()).collect();
            rows.push(Row { notes, ..Row::new(Quantity::TlbPenalty, Verdict::Missing, text) });
            continue;
        };
        let penalty = ns / cycle_ns;
        let text = format!("TLB {n}: penalty {penalty:.2} cycles, expected {:?}", tlb.penalty);
        let row = Row::new(Quantity::TlbPenalty, Verdict::Wrong, text).with(finding, cycle_ns, tlb.penalty);
        rows.push(judged(row, tlb.penalty.holds(penalty, 0.03, 0.3)));
    }
}

fn reason<'a>(report: &'a Report, what: &str) -> &'a str {
    report.refusals.iter().find(|r| r.what == what).map_or("", |r| r.reason.as_str())
}

/// Returns the row of a value that may be refused, with the notes of its finding.
fn decided(quantity: Quantity, text: String, right: Option<bool>, finding: Option<&Finding>) -> Row {
    let verdict = match right {
        None => Verdict::Refused,
        Some(true) => Verdict::Right,
        Some(false) => Verdict::Wrong,
    };
    let notes = finding.map_or_else(Vec::new, |finding| finding.notes.clone());
    Row { notes, ..Row::new(quantity, verdict, text) }
}

fn cache(d: &Description, report: &Report, (n, level): (usize, &Level), rows: &mut Vec<Row>) {
    let ways = format!("tier.{n}.ways");
    let names = [
        (Quantity::Line, "line", level.line),
        (Quantity::Ways, "ways", level.ways.into()),
        (Quantity::Sets, "sets", level.sets()),
    ];
    for (quantity, what, truth) in names {
        let reason = reason(report, &ways);
        let finding = number(report, &format!("tier.{n}.{what}"));
        let found = finding.map(|(_, v)| v as u64);
        let text = format!("{} {}: {what} {found:?}, described {truth}; {reason}", d.name, level.name);
        rows.push(decided(quantity, text, found.map(|found| found == truth), finding.map(|f| f.0)));
    }
    let policies = format!("tier.{n}.policies");
    let finding = report.findings.iter().find(|f| f.name() == policies);
    let found = finding.map(|f| f.value.clone());
    let truth = level.replacement.word();
    let right = found.as_ref().map(|found| match found {
        // With one way all policies are equal, and with two ways several are.
        Value::Text(names) => names.split(',').any(|name| name == truth) || level.ways == 1,
        Value::Number(_) => false,
    });
    let reason = reason(report, &policies);
    let text = format!("{} {}: {found:?}, described {truth}; {reason}", d.name, level.name);
    rows.push(decided(Quantity::Policy, text, right, finding));
}

/// Returns the TLBs that are observable for pages of this size: the last one, and those whose miss costs something.
fn observable_tlbs(d: &Description, page: u64) -> Vec<&Tlb> {
    let able: Vec<&Tlb> = d.tlbs.iter().filter(|t| t.pages.contains(&page)).collect();
    let costs = |next: Option<&&Tlb>| next.is_none_or(|next| next.latency.in_cycles(d.core.clock_hz) > 0.0);
    able.iter().enumerate().filter(|(i, _)| costs(able.get(i + 1))).map(|(_, t)| *t).collect()
}

fn tlb_sets(d: &Description, report: &Report, rows: &mut Vec<Row>) {
    let truth = observable_tlbs(d, d.memory.pages[0]);
    for n in 1.. {
        let Some((_, entries)) = number(report, &format!("tlb.{n}.entries")) else { break };
        let ways = format!("tlb.{n}.ways");
        let sets = number(report, &format!("tlb.{n}.sets"));
        let found = number(report, &ways).zip(sets).map(|(ways, sets)| (ways.1, sets.1));
        let of = |t: &&&Tlb| (f64::from(t.entries) / entries - 1.0).abs() < 0.15;
        let is = truth.iter().find(of).map(|t| (f64::from(t.ways), f64::from(t.entries / t.ways)));
        let reason = reason(report, &ways);
        let text = format!("{}: TLB {n}, {entries} entries: {found:?} of {is:?}; {reason}", d.name);
        // What has neither a value nor a refusal is an error of the report.
        let unexplained = reason.is_empty().then_some(false);
        let right = found.map_or(unexplained, |found| Some(Some(found) == is));
        rows.push(decided(Quantity::TlbSets, text, right, sets.map(|f| f.0)));
    }
}

/// Compares the TLBs that were found with huge pages.
fn huge(d: &Description, report: &Report, rows: &mut Vec<Row>) {
    let page = *d.memory.pages.last().unwrap();
    if d.memory.pages.len() < 2 {
        return;
    }
    let truth = observable_tlbs(d, page);
    for n in 1.. {
        let Some((f, v)) = number(report, &format!("tlb.huge.{n}.entries")) else { break };
        let (low, high) = (f.low.unwrap_or(v), f.high.unwrap_or(v));
        let right = truth.iter().any(|t| held(t).iter().any(|n| (low..=high).contains(n)));
        // The report notes that this may be page tables.
        let noted = f.detail.flag(metrics::MAYBE_TABLES);
        let text = format!("{}: huge TLB {n}: {low}..{high}", d.name);
        rows.push(decided(Quantity::HugeEntries, text, (right || !noted).then_some(right), Some(f)));
    }
    if let Some((f, quiet)) = number(report, "tlb.huge.pages") {
        let smallest = truth.iter().map(|t| f64::from(t.entries)).fold(f64::INFINITY, f64::min);
        // Twice as many pages as entries cause misses under any replacement.
        let text = format!("{}: no huge TLB up to {quiet} pages, {smallest} entries", d.name);
        rows.push(decided(Quantity::HugeEntries, text, Some(quiet < 2.0 * smallest), Some(f)));
    }
}

/// Returns the numbers of huge pages that a TLB can be found to hold. One that splits them holds a piece of each, and pieces
/// at the same offset of huge pages are in one set, or in few if the number of sets is not a power of two.
fn held(tlb: &Tlb) -> Vec<f64> {
    let mut numbers = vec![f64::from(tlb.entries)];
    if tlb.splits.is_some() {
        numbers.push(f64::from(tlb.ways));
    }
    numbers
}
