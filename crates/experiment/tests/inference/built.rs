//! Inferred against described machines: lines, ways, sets and replacement of caches; entries, ways and sets of TLBs.
//! Refused values are counted separately; reported values must be right.

use fathom_analysis::findings::{Report, Value};
use fathom_analysis::metrics::survey as metrics;
use fathom_model::description::{Description, Level, Tlb};
use fathom_model::expected;

use crate::entries::{entries, number};

/// Results for one kind of value.
#[derive(Debug, Default)]
pub struct Tally {
    /// Number of right values.
    pub right: usize,
    /// Values without result, with the reason if any.
    pub refused: Vec<String>,
    /// Wrong values.
    pub wrong: Vec<String>,
}

impl Tally {
    /// Returns the number of reported values.
    pub fn decided(&self) -> usize {
        self.right + self.wrong.len()
    }

    /// Adds a value: right, wrong, or refused (None).
    fn add(&mut self, what: String, right: Option<bool>) {
        match right {
            None => self.refused.push(what),
            Some(true) => self.right += 1,
            Some(false) => self.wrong.push(what),
        }
    }

    /// Adds the counts of another tally.
    pub fn take(&mut self, other: Tally) {
        self.right += other.right;
        self.refused.extend(other.refused);
        self.wrong.extend(other.wrong);
    }
}

/// Results of machines by kind of value.
#[derive(Debug, Default)]
pub struct Built {
    /// Lines, ways and sets of caches.
    pub caches: Tally,
    /// Replacement of caches.
    pub policies: Tally,
    /// Entries of TLBs.
    pub entries: Tally,
    /// Ways and sets of TLBs.
    pub tlbs: Tally,
}

impl Built {
    /// Prints the results of each kind and their sum; `ORACLE_REFUSED=1` prints refused values too.
    pub fn print(&self, what: &str) {
        let mut whole = (0, 0, 0, 0);
        for (of, tally) in self.kinds() {
            let (decided, right) = (tally.decided(), tally.right);
            let (wrong, refused) = (tally.wrong.len(), tally.refused.len());
            println!("  {of}: {decided} decided, {right} right, {wrong} wrong, {refused} refused");
            tally.wrong.iter().for_each(|wrong| println!("    {wrong}"));
            if std::env::var_os("ORACLE_REFUSED").is_some() {
                tally.refused.iter().for_each(|refused| println!("    refused: {refused}"));
            }
            whole = (whole.0 + decided, whole.1 + right, whole.2 + wrong, whole.3 + refused);
        }
        let (decided, right, wrong, refused) = whole;
        println!("oracle: {what}: {decided} decided, {right} right, {wrong} wrong, {refused} refused");
    }

    /// Returns each kind with its name.
    pub fn kinds(&self) -> [(&'static str, &Tally); 4] {
        [
            ("lines, ways and sets", &self.caches),
            ("replacement", &self.policies),
            ("entries of TLBs", &self.entries),
            ("ways and sets of TLBs", &self.tlbs),
        ]
    }

    /// Adds the counts of another result.
    pub fn take(&mut self, other: Built) {
        self.caches.take(other.caches);
        self.policies.take(other.policies);
        self.entries.take(other.entries);
        self.tlbs.take(other.tlbs);
    }
}

/// Compares a report with the description.
pub fn judge(d: &Description, report: &Report) -> Built {
    let mut built = Built::default();
    for (i, level) in expected::data_levels(d).into_iter().enumerate() {
        cache(d, report, (i + 1, level), &mut built);
    }
    tlbs(d, report, &mut built);
    huge(d, report, &mut built.entries);
    built
}

fn whole(report: &Report, name: &str) -> Option<u64> {
    number(report, name).map(|(_, v)| v as u64)
}

fn reason<'a>(report: &'a Report, what: &str) -> &'a str {
    report.refusals.iter().find(|r| r.what == what).map_or("", |r| r.reason.as_str())
}

fn cache(d: &Description, report: &Report, (n, level): (usize, &Level), built: &mut Built) {
    let line = whole(report, &format!("tier.{n}.line"));
    let ways = format!("tier.{n}.ways");
    let rows = [
        ("line", line, level.line),
        ("ways", whole(report, &ways), level.ways.into()),
        ("sets", whole(report, &format!("tier.{n}.sets")), level.sets()),
    ];
    for (what, found, truth) in rows {
        let reason = reason(report, &ways);
        let what_found = format!("{} {}: {what} {found:?}, described {truth}; {reason}", d.name, level.name);
        built.caches.add(what_found, found.map(|found| found == truth));
    }
    let policies = format!("tier.{n}.policies");
    let found = report.findings.iter().find(|f| f.name() == policies).map(|f| f.value.clone());
    let truth = level.replacement.word();
    let right = found.as_ref().map(|found| match found {
        // With one way all policies are equal, and with two ways several are.
        Value::Text(names) => names.split(',').any(|name| name == truth) || level.ways == 1,
        Value::Number(_) => false,
    });
    let reason = reason(report, &policies);
    built.policies.add(format!("{} {}: {found:?}, described {truth}; {reason}", d.name, level.name), right);
}

/// Returns the TLBs that are observable for pages of this size: the last one, and those whose miss costs something.
fn observable_tlbs(d: &Description, page: u64) -> Vec<&Tlb> {
    let able: Vec<&Tlb> = d.tlbs.iter().filter(|t| t.pages.contains(&page)).collect();
    let costs = |next: Option<&&Tlb>| next.is_none_or(|next| next.latency.in_cycles(d.core.clock_hz) > 0.0);
    able.iter().enumerate().filter(|(i, _)| costs(able.get(i + 1))).map(|(_, t)| *t).collect()
}

fn tlbs(d: &Description, report: &Report, built: &mut Built) {
    let (right, wrong) = entries(&expected::expected(d), report);
    built.entries.right += right.len();
    built.entries.wrong.extend(wrong.into_iter().map(|what| format!("{}: {what}", d.name)));
    let truth = observable_tlbs(d, d.memory.pages[0]);
    for n in 1.. {
        let Some((_, entries)) = number(report, &format!("tlb.{n}.entries")) else { break };
        let ways = format!("tlb.{n}.ways");
        let found = number(report, &ways).zip(number(report, &format!("tlb.{n}.sets")));
        let found = found.map(|(ways, sets)| (ways.1, sets.1));
        let of = |t: &&&Tlb| (f64::from(t.entries) / entries - 1.0).abs() < 0.15;
        let is = truth.iter().find(of).map(|t| (f64::from(t.ways), f64::from(t.entries / t.ways)));
        let reason = reason(report, &ways);
        assert!(found.is_some() || !reason.is_empty(), "{}: TLB {n} has no ways and no refusal", d.name);
        let what = format!("{}: TLB {n}, {entries} entries: {found:?} of {is:?}; {reason}", d.name);
        built.tlbs.add(what, found.map(|found| Some(found) == is));
    }
}

/// Compares the TLBs that were found with huge pages.
fn huge(d: &Description, report: &Report, tally: &mut Tally) {
    let page = *d.memory.pages.last().unwrap();
    if d.memory.pages.len() < 2 {
        return;
    }
    let truth = observable_tlbs(d, page);
    for n in 1.. {
        let Some((f, v)) = number(report, &format!("tlb.huge.{n}.entries")) else { break };
        let (low, high) = (f.low.unwrap_or(v), f.high.unwrap_or(v));
        let right = truth.iter().any(|t| (low..=high).contains(&f64::from(t.entries)));
        // The report notes that this may be page tables.
        let noted = f.detail.flag(metrics::MAYBE_TABLES);
        tally.add(format!("{}: huge TLB {n}: {low}..{high}", d.name), (right || !noted).then_some(right));
    }
    if let Some((_, quiet)) = number(report, "tlb.huge.pages") {
        let smallest = truth.iter().map(|t| f64::from(t.entries)).fold(f64::INFINITY, f64::min);
        // Twice as many pages as entries cause misses under any replacement.
        let what = format!("{}: no huge TLB up to {quiet} pages, {smallest} entries", d.name);
        tally.add(what, Some(quiet < 2.0 * smallest));
    }
}
