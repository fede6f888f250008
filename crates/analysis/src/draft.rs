//! A machine description drafted from a survey's findings: which key gets which value, and on what grounds.
//!
//! What was measured is taken; what only a claim knows is taken as a claim and called one; the rest is assumed,
//! with the reason. Where claim and measurement disagree the measurement is taken and both are reported. How a draft
//! is written is no matter of this module, and neither is whether the machine can be: whoever writes it has it
//! read by the reader of descriptions.

use fathom_units::facts;

use crate::findings::Finding;
use crate::hierarchy::{Hierarchy, interval, value};
use crate::interval::Interval;
use crate::metrics::common;

mod caches;
mod claimed;
mod round;
mod translation;

pub(crate) use round::significant;
pub use round::{roundest, shortest};

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// A word or a line of text.
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

/// On what grounds a key has its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Grounds {
    /// The finding that it was taken from.
    pub found: Option<Finding>,
    /// What else is to be said: how it was chosen, who claims it, why it is assumed. May be empty beside a finding.
    pub said: String,
}

impl Grounds {
    fn found(finding: &Finding, said: impl Into<String>) -> Grounds {
        Grounds { found: Some(finding.clone()), said: said.into() }
    }

    fn said(said: impl Into<String>) -> Grounds {
        Grounds { found: None, said: said.into() }
    }

    fn assumed(why: &str) -> Grounds {
        Grounds::said(format!("assumed: {why}"))
    }
}

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its name in the format.
    pub key: &'static str,
    /// Its value.
    pub value: Written,
    /// On what grounds.
    pub grounds: Grounds,
}

/// One table of keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name in the format.
    pub name: &'static str,
    /// Is it one of several of that name?
    pub listed: bool,
    /// Its keys, in the format's order.
    pub keys: Vec<Key>,
}

/// A drafted description.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// What the reader should know of the whole; a paragraph each.
    pub remarks: Vec<String>,
    /// The line about the machine.
    pub about: String,
    /// The tables, in the format's order.
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

/// What a draft is not told by the findings.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// What the machine is to be called in the line about it; the record's subject where that is empty.
    pub name: &'a str,
    /// The words that the format has for replacement policies.
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

/// A time in core cycles where these are known, else in ns; as short as its interval allows.
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
            "A draft by `fathom describe`, from a survey of {} ({}), seed {}. Behind each value stands where it \
             comes from: a finding with its 95 % interval and its samples, a claim, or an assumption.",
            report.subject, report.trust, report.seed
        ),
        "A size is where misses begin. A level that replaces at random, or of which others take a part, may be \
         larger; one that is exclusive holds more together with the nearer ones than it does itself, and may be \
         smaller by theirs. Levels for instructions are not in a survey, and not here."
            .to_owned(),
    ];
    if report.trust == "virtual" {
        remarks.push(
            "The record is a guest's: this describes what the guest behaves like, not what the machine is."
                .to_owned(),
        );
    }
    if h.disturbed() {
        remarks.push("The record is disturbed: take another before you trust this.".to_owned());
    }
    remarks
        .extend(report.warnings.iter().map(|w| format!("Warning of the record, {}: {}.", w.token, w.text)));
    remarks
}

/// Facts that say what a machine is, best first.
const WHAT_IT_IS: [&str; 3] = [facts::BOARD_MODEL, facts::CPU_MODEL, facts::MACHINE_NAME];

/// No line about a machine may be longer, in characters (`machines/README.md`).
const MAX_ABOUT: usize = 200;

fn about(h: &Hierarchy, name: &str) -> String {
    let report = h.report();
    let is = WHAT_IT_IS.iter().find_map(|fact_name| fact(h, fact_name)).unwrap_or(&report.subject);
    let name = if name.is_empty() { is } else { name };
    let text = format!("{name}: drafted from a survey of {}", report.subject);
    text.chars().filter(|c| !c.is_control()).take(MAX_ABOUT).collect()
}

/// No core clock is known better than this, whatever its interval: crystals are off by as much.
const PPM: f64 = 1e-4;

fn core(h: &Hierarchy) -> Table {
    let mut table = Table::new("core");
    match h.core_hz() {
        Some(f) => {
            let i = interval(f);
            let wide = Interval { low: i.low * (1.0 - PPM), high: i.high * (1.0 + PPM), ..i };
            let said = "rounded, by 100 ppm at most where the interval is narrower";
            table.put("clock", Written::Hz(round::frequency(wide)), Grounds::found(f, said));
        }
        None => {
            let why = "no core clock was measured; all times here are in ns, so that nothing hangs on it";
            table.put("clock", Written::Hz(1e9), Grounds::assumed(why));
        }
    }
    table.put("cpus", Written::Count(1), Grounds::assumed("a survey measures one at a time"));
    let part = "what the loop costs is part of the latencies here";
    table.put("alu", Written::Cycles(0.0), Grounds::assumed(part));
    table.put("branch", Written::Cycles(0.0), Grounds::assumed(part));
    table
}

fn timer(h: &Hierarchy) -> Table {
    let mut table = Table::new("timer");
    let tick = h.number(&common::CLOCK_TICK_HZ).filter(|f| value(f) > 0.0);
    match tick {
        Some(f) => table.put("clock", Written::Hz(round::frequency(interval(f))), Grounds::found(f, "")),
        None => table.put("clock", Written::Hz(1e9), Grounds::assumed("a tick a nanosecond")),
    }
    let ns = tick.map_or(1.0, |f| 1e9 / value(f));
    let bias = h.number(&common::BIAS_TIMER).filter(|f| f.unit == "ticks" && value(f) >= 0.0);
    match bias {
        Some(f) => table.put("overhead", time(h, interval(f).scaled(ns)), Grounds::found(f, "")),
        None => table.put("overhead", Written::Cycles(0.0), Grounds::assumed("it was not measured")),
    }
    table.put("jitter", Written::Cycles(0.0), Grounds::assumed("it cancels between n and 2n loads"));
    table.put("resolution", Written::Count(1), Grounds::assumed("a clock that moves by single ticks"));
    table
}

/// The least memory that is drafted: a survey of a described machine takes no less.
const MIN_MEMORY: u64 = 1 << 30;

fn memory(h: &Hierarchy) -> Table {
    let mut table = Table::new("memory");
    let size = h.largest().saturating_mul(4).clamp(MIN_MEMORY, 1 << 40).next_power_of_two();
    let why = "room for four times the largest working set that was measured, 1 GiB at least";
    table.put("size", Written::Size(size), Grounds::assumed(why));
    let (pages, grounds) = pages(h);
    table.put("pages", Written::Sizes(pages), grounds);
    let mut said = String::new();
    if let Some(f) = h.memory.cycles {
        said = format!(
            "{} {} at this clock; ns, because memory has a clock of its own",
            round::significant(value(f)),
            f.unit
        );
    }
    if h.warned("last-tier-open") {
        said += "; latency was still rising: a lower bound";
    }
    let latency = h.memory.latency;
    let said = said.trim_start_matches("; ");
    table.put("latency", Written::Ns(shortest(interval(latency))), Grounds::found(latency, said));
    table.put("spread", Written::Ns(0.0), Grounds::assumed("a survey tells the mean alone"));
    table
}

/// The page sizes that mappings got.
fn pages(h: &Hierarchy) -> (Vec<u64>, Grounds) {
    let page = |name: &str| fact(h, name)?.parse().ok().filter(|p: &u64| p.is_power_of_two());
    let Some(base) = page(facts::PAGE_BASE) else {
        return (vec![4096], Grounds::assumed("the record does not tell its pages"));
    };
    match page(facts::PAGE_HUGE).filter(|huge| *huge > base) {
        Some(_) if h.warned("no-huge-pages") => {
            (vec![base], Grounds::said("fact page.base; huge pages were not to be had"))
        }
        Some(huge) => (vec![base, huge], Grounds::said("facts page.base, page.huge")),
        None => (vec![base], Grounds::said("fact page.base")),
    }
}

#[cfg(test)]
mod tests;
