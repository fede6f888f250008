//! A machine description drafted from a survey's findings: keys, values and their sources.
//!
//! Measured values are used; a value that only a claim states is used and marked as claimed; all others are assumed,
//! with the reason. If claim and measurement disagree, the measurement is used and both are reported. This module
//! neither formats a draft nor checks that the machine is possible: the caller parses the written draft with the reader
//! of descriptions.

use fathom_units::facts::{self, ValueClass};

use crate::findings::{Basis, Finding, WarningKind};
use crate::hierarchy::{Hierarchy, interval, value};
use crate::interval::Interval;
use crate::metrics::{common, survey};

mod caches;
mod claimed;
mod round;
mod translation;

pub(crate) use round::significant;
pub use round::{roundest, shortest};

/// Value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// A token or a line of text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// Yes or no.
    Flag(bool),
    /// Bytes.
    Size(u64),
    /// Several sizes, bytes.
    Sizes(Vec<u64>),
    /// A time in core cycles.
    Cycles(f64),
    /// A time in ns.
    Ns(f64),
    /// A frequency in Hz.
    Hz(f64),
}

/// Source of a key's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Grounds {
    /// Finding that the value was taken from.
    pub found: Option<Finding>,
    /// Further explanation: how the value was chosen, who claims it, why it is assumed. May be empty if there is a
    /// finding.
    pub comment: String,
    /// Class of the value; `None` for a name.
    pub class: Option<ValueClass>,
}

impl Grounds {
    fn found(finding: &Finding, comment: impl Into<String>) -> Grounds {
        Grounds { found: Some(finding.clone()), ..Grounds::of(ValueClass::Measured, comment) }
    }

    /// The source of a name, which has no class.
    fn name(comment: &str) -> Grounds {
        Grounds { found: None, comment: comment.to_owned(), class: None }
    }

    fn of(class: ValueClass, comment: impl Into<String>) -> Grounds {
        Grounds { found: None, comment: comment.into(), class: Some(class) }
    }

    /// A claim of the machine about itself.
    fn claimed(comment: impl Into<String>) -> Grounds {
        Grounds::of(ValueClass::Manual, comment)
    }

    fn assumed(why: &str) -> Grounds {
        Grounds::of(ValueClass::Assumed, format!("assumed: {why}"))
    }
}

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Name in the format.
    pub key: &'static str,
    /// Value.
    pub value: Written,
    /// Source of the value.
    pub grounds: Grounds,
}

/// A table of keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name in the format.
    pub name: &'static str,
    /// Whether it is an element of an array of tables of that name.
    pub listed: bool,
    /// Keys, in the format's order.
    pub keys: Vec<Key>,
}

/// A drafted description.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Remarks on the whole draft, one paragraph each.
    pub remarks: Vec<String>,
    /// One-line description of the machine.
    pub about: String,
    /// Tables, in the format's order.
    pub tables: Vec<Table>,
}

impl Table {
    fn new(name: &'static str) -> Table {
        Table { name, listed: false, keys: Vec::new() }
    }

    fn listed(name: &'static str) -> Table {
        Table { listed: true, ..Table::new(name) }
    }

    fn put(&mut self, key: &'static str, value: Written, grounds: Grounds) {
        self.keys.push(Key { key, value, grounds });
    }

    fn word(&mut self, key: &'static str, word: &str, grounds: Grounds) {
        self.put(key, Written::Text(word.to_owned()), grounds);
    }
}

/// Inputs of a draft that are not findings.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Name of the machine in the line about it; the record's subject if empty.
    pub name: &'a str,
    /// Tokens of the format for replacement policies.
    pub policies: &'a [&'a str],
}

/// Drafts a description.
#[must_use]
pub fn draft(h: &Hierarchy, options: &Options) -> Draft {
    let levels = caches::levels(h, options.policies);
    let (tlbs, walk) = translation::tables(h, &levels);
    let mut tables = vec![core(h), timer(h)];
    tables.extend(levels);
    tables.extend(tlbs);
    tables.extend(walk);
    tables.push(memory(h));
    Draft { remarks: remarks(h), about: about(h, options.name), tables }
}

/// Returns a time in core cycles if the clock is known, else in ns; rounded to the fewest digits within its interval.
fn time(h: &Hierarchy, ns: Interval) -> Written {
    match h.core_hz() {
        Some(hz) => Written::Cycles(shortest(ns.scaled(value(hz) / 1e9))),
        None => Written::Ns(shortest(ns)),
    }
}

fn fact<'a>(h: &Hierarchy<'a>, name: &str) -> Option<&'a str> {
    h.report().facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn remarks(h: &Hierarchy) -> Vec<String> {
    let report = h.report();
    let mut remarks = vec![
        format!(
            "A draft by `fathom describe`, from a survey of {} ({}), seed {}. Each value is followed by its source: \
             a finding with its 95 % interval and its samples, a claim, or an assumption.",
            report.subject, report.trust, report.seed
        ),
        "A size is where misses begin. A level that replaces at random, or that is shared with other users, may be \
         larger; for an exclusive one the size includes that of the nearer levels, so it may be \
         smaller by theirs. A survey does not measure instruction caches, so they are missing here."
            .to_owned(),
    ];
    remarks.extend(without_overlap(h));
    if report.trust == "virtual" {
        remarks.push(
            "The record is a guest's: this describes what the guest behaves like, not what the machine is."
                .to_owned(),
        );
    }
    if h.disturbed() {
        remarks.push("The record is disturbed: take another before using this draft.".to_owned());
    }
    remarks.extend(
        report.warnings.iter().map(|w| format!("Warning of the record, {}: {}.", w.kind.token(), w.text)),
    );
    remarks
}

/// Facts that name a machine, best first.
const MACHINE_NAME_FACTS: [&str; 3] = [facts::BOARD_MODEL, facts::CPU_MODEL, facts::MACHINE_NAME];

/// Longest line about a machine, in characters (`machines/README.md`).
const MAX_ABOUT: usize = 200;

fn about(h: &Hierarchy, name: &str) -> String {
    let report = h.report();
    let is = MACHINE_NAME_FACTS.iter().find_map(|fact_name| fact(h, fact_name)).unwrap_or(&report.subject);
    let name = if name.is_empty() { is } else { name };
    let text = format!("{name}: drafted from a survey of {}", report.subject);
    text.chars().filter(|c| !c.is_control()).take(MAX_ABOUT).collect()
}

/// Minimum relative error of a core clock, regardless of its interval: the tolerance of crystals.
const CRYSTAL_TOLERANCE: f64 = 1e-4;

fn core(h: &Hierarchy) -> Table {
    let mut table = Table::new("core");
    match h.core_hz() {
        Some(f) => {
            let i = interval(f);
            let wide = Interval {
                low: i.low * (1.0 - CRYSTAL_TOLERANCE),
                high: i.high * (1.0 + CRYSTAL_TOLERANCE),
                ..i
            };
            let comment = "rounded within the interval widened by 100 ppm";
            table.put("clock", Written::Hz(round::frequency(wide)), Grounds::found(f, comment));
        }
        None => {
            let why = "no core clock was measured; all times here are in ns, so this value has no effect";
            table.put("clock", Written::Hz(1e9), Grounds::assumed(why));
        }
    }
    table.put("cpus", Written::Count(1), Grounds::assumed("a survey measures one at a time"));
    let part = "the cost of the loop is included in the latencies here";
    table.put("alu", Written::Cycles(0.0), Grounds::assumed(part));
    table.put("branch", Written::Cycles(0.0), Grounds::assumed(part));
    if let Some(f) = overlap(h) {
        let number = value(f).round().clamp(OUTSTANDING.0, OUTSTANDING.1) as u64;
        let comment = match f.basis {
            Basis::Bounds => "a lower bound",
            _ => "the nearest whole number",
        };
        table.put("outstanding", Written::Count(number), Grounds::found(f, comment));
        if let Some(f) = window(h) {
            let window = (value(f).round().min(MAX_WINDOW) as u64).max(number);
            table.put("window", Written::Count(window), Grounds::found(f, "the nearest whole number"));
        }
        if let Some(f) = h.set_fill() {
            table.put("set_fill", time(h, interval(f)), Grounds::found(f, ""));
        }
    }
    streams(h, &mut table);
    table
}

/// Least and most misses under way that a description may have (`machines/README.md`).
const OUTSTANDING: (f64, f64) = (1.0, 256.0);

/// Most instructions in flight that a description may have.
const MAX_WINDOW: f64 = 4096.0;

/// Least ratio of a load's time in random order inside of windows of a few pages to that in the order of addresses, for which the latter is
/// prefetched. Without prefetch it is that of open rows of memory and of fewer translations: 1.00 to 1.06 on the eleven
/// committed machines whose survey of 3 s has both, and 2.5 to 21 in ten surveys of a guest that prefetches, beside other work.
const PREFETCHED: f64 = 2.0;

/// Runs that a core is assumed to follow at the same time: those of the streamer of Intel's cores (Intel 64 and IA-32 Architectures
/// Optimization Reference Manual, "Data Prefetching").
const STREAMS: u64 = 32;

/// Adds what a line of a run of adjacent lines costs, if loads in the order of addresses show that they are prefetched.
fn streams(h: &Hierarchy, table: &mut Table) {
    let random = h.number(survey::PREFETCH_ORDER_TIME.at(["window".into()]));
    let (Some(ordered), Some(random)) = (h.in_order(), random) else { return };
    if value(random) < PREFETCHED * value(ordered) {
        return;
    }
    // A description has no line of a run that costs less than a hit, which is rounded within its interval.
    let hit = h.tiers.first().map_or(0.0, |level| 1.01 * interval(level.latency).high);
    let at_least = |ns: f64| ns.max(hit);
    let i = interval(ordered);
    let ns = Interval { value: at_least(i.value), low: at_least(i.low), high: at_least(i.high) };
    let comment = "ns, because it depends on memory, which has its own clock";
    table.put("stream", Written::Ns(shortest(ns)), Grounds::found(ordered, comment));
    let why = "as many as Intel's manual says of its cores; a survey does not measure it";
    table.put("streams", Written::Count(STREAMS), Grounds::assumed(why));
}

/// Returns the finding of how many instructions are in flight. Without it a draft does not limit them: it is a bound of time.
fn window<'a>(h: &Hierarchy<'a>) -> Option<&'a Finding> {
    h.number(&survey::MEMORY_WINDOW).filter(|f| value(f) > 0.0)
}

/// Returns the finding of how many misses are under way at the same time.
fn overlap<'a>(h: &Hierarchy<'a>) -> Option<&'a Finding> {
    h.number(&survey::MEMORY_OVERLAP).filter(|f| value(f) > 0.0)
}

/// Returns a remark on a draft without that number. The key is optional, and no number may be assumed: what it adds is a bound of
/// time.
fn without_overlap(h: &Hierarchy) -> Option<String> {
    if overlap(h).is_some() {
        return None;
    }
    let refused = h.report().refusals.iter().find(|refused| refused.what == survey::MEMORY_OVERLAP.pattern);
    let reason = match (refused, h.report().trust.as_str()) {
        (Some(refused), _) => refused.reason.as_str(),
        (None, "modelled") => "a described machine executes one access at a time",
        (None, _) => "it was not measured",
    };
    Some(format!(
        "How many misses the core has under way at the same time (outstanding) is missing here: {reason}."
    ))
}

fn timer(h: &Hierarchy) -> Table {
    let mut table = Table::new("timer");
    let tick = h.number(&common::CLOCK_TICK_HZ).filter(|f| value(f) > 0.0);
    match tick {
        Some(f) => table.put("clock", Written::Hz(round::frequency(interval(f))), Grounds::found(f, "")),
        None => table.put("clock", Written::Hz(1e9), Grounds::assumed("one tick per nanosecond")),
    }
    let ns = tick.map_or(1.0, |f| 1e9 / value(f));
    let bias = h.number(&common::BIAS_TIMER).filter(|f| f.unit == "ticks" && value(f) >= 0.0);
    match bias {
        Some(f) => table.put("overhead", time(h, interval(f).scaled(ns)), Grounds::found(f, "")),
        None => table.put("overhead", Written::Cycles(0.0), Grounds::assumed("it was not measured")),
    }
    table.put("jitter", Written::Cycles(0.0), Grounds::assumed("it cancels between n and 2n loads"));
    table.put("resolution", Written::Count(1), Grounds::assumed("the clock advances by single ticks"));
    table
}

/// Smallest drafted memory, bytes; a survey of a described machine needs that much.
const MIN_MEMORY: u64 = 1 << 30;

fn memory(h: &Hierarchy) -> Table {
    let mut table = Table::new("memory");
    let size = h.largest().saturating_mul(4).clamp(MIN_MEMORY, 1 << 40).next_power_of_two();
    let why = "room for four times the largest working set that was measured, 1 GiB at least";
    table.put("size", Written::Size(size), Grounds::assumed(why));
    let (pages, grounds) = pages(h);
    table.put("pages", Written::Sizes(pages), grounds);
    let mut comment = String::new();
    if let Some(f) = h.memory.cycles {
        comment = format!(
            "{} {} at this clock; ns, because memory has its own clock",
            round::significant(value(f)),
            f.unit
        );
    }
    if h.warned(WarningKind::NoFinalPlateau) {
        comment += "; latency was still rising: a lower bound";
    }
    let latency = h.memory.latency;
    let comment = comment.trim_start_matches("; ");
    table.put("latency", Written::Ns(shortest(interval(latency))), Grounds::found(latency, comment));
    table.put("spread", Written::Ns(0.0), Grounds::assumed("a survey gives only the mean"));
    table
}

/// Returns the page sizes that mappings used.
fn pages(h: &Hierarchy) -> (Vec<u64>, Grounds) {
    let page = |name: &str| fact(h, name)?.parse().ok().filter(|p: &u64| p.is_power_of_two());
    let Some(base) = page(facts::PAGE_BASE) else {
        return (vec![4096], Grounds::assumed("the record does not state its page sizes"));
    };
    match page(facts::PAGE_HUGE).filter(|huge| *huge > base) {
        Some(_) if h.warned(WarningKind::NoHugePages) => {
            (vec![base], Grounds::claimed("fact page.base; no huge pages were available"))
        }
        Some(huge) => (vec![base, huge], Grounds::claimed("facts page.base, page.huge")),
        None => (vec![base], Grounds::claimed("fact page.base")),
    }
}

#[cfg(test)]
mod tests;
