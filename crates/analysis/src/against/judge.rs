//! Rows of a check, claim by claim.

use super::{
    CAPACITY_TOLERANCE, CLOCK_TOLERANCE, Described, ENTRIES_TOLERANCE, LATENCY_TOLERANCE, Level,
    MERGE_RATIOS, OUTSTANDING_TOLERANCE, PENALTY_TOLERANCE, Span, Tlb, Tolerance, Verdict, WINDOW_TOLERANCE,
    compared,
};
use crate::findings::{Axis, Basis, Coordinate, Finding, Key, Metric, Part, Value, WarningKind};
use crate::hierarchy::{Hierarchy, Tlb as Step, interval};
use crate::interval::Interval;
use crate::metrics::{claims, conflict, survey};

/// Returns the rows of all claims that the hierarchy allows to check.
pub(super) fn rows(hierarchy: &Hierarchy, described: &Described) -> Vec<Finding> {
    let cycles = hierarchy.core_hz().is_some();
    let mut judge = Judge { hierarchy, described, cycles, rows: Vec::new() };
    judge.clock();
    judge.levels();
    judge.memory();
    judge.outstanding();
    judge.window();
    judge.set_fill();
    judge.stream();
    judge.translation();
    judge.rows
}

/// A claim to be checked.
struct Claim<'s> {
    /// Keys of the expected value and of the verdict.
    keys: [Key; 2],
    /// Subject of the claim, for notes.
    of: &'s str,
    unit: &'static str,
    described: Span,
}

/// Returns the keys of the expected value and of the verdict, at the same coordinates.
fn keys<const N: usize>(expected: &'static Metric, against: &'static Metric, at: [Part; N]) -> [Key; 2] {
    [expected.at(at), against.at(at)]
}

struct Judge<'a> {
    hierarchy: &'a Hierarchy<'a>,
    described: &'a Described,
    /// Whether times are compared in cycles; otherwise in ns.
    cycles: bool,
    rows: Vec<Finding>,
}

impl<'a> Judge<'a> {
    fn time_unit(&self) -> &'static str {
        if self.cycles { "cycles" } else { "ns" }
    }

    /// Converts cycles of the description to the unit in which times are compared.
    fn time(&self, cycles: Span) -> Span {
        let scale = if self.cycles { 1.0 } else { 1e9 / self.described.hz };
        (cycles.0 * scale, cycles.1 * scale)
    }

    fn tolerance(&self, of: Tolerance) -> Tolerance {
        Tolerance { absolute: self.time((of.absolute, 0.0)).0, ..of }
    }

    /// Converts a finding in ns to that unit.
    fn measured(&self, f: &Finding) -> Interval {
        interval(f).scaled(if self.cycles { self.described.hz / 1e9 } else { 1.0 })
    }

    /// Adds the two rows of a claim.
    fn row(
        &mut self,
        claim: &Claim,
        verdict: Verdict,
        measured: Option<(Interval, &Finding)>,
        note: Option<String>,
    ) {
        let (low, high) = claim.described;
        let ends = (low < high).then_some((low, high));
        let [expected, against] = claim.keys.clone();
        self.rows.push(Finding {
            low: ends.map(|e| e.0),
            high: ends.map(|e| e.1),
            basis: Basis::Assumed,
            notes: vec![format!("{} of {}", claim.of, self.described.name)],
            ..Finding::number(expected, low).in_unit(claim.unit)
        });
        self.rows.push(Finding {
            low: measured.map(|m| m.0.low),
            high: measured.map(|m| m.0.high).filter(|high| high.is_finite()),
            count: measured.map_or(0, |m| m.1.count),
            trials: measured.map(|m| m.1.trials.clone()).unwrap_or_default(),
            basis: Basis::Derived,
            notes: note.into_iter().collect(),
            ..Finding::text(against, verdict.token()).in_unit(claim.unit)
        });
    }

    /// Leaves a disagreement undecided if the run was disturbed, because the disturbance may have caused it.
    fn firm(&self, verdict: Verdict) -> (Verdict, &'static str) {
        if verdict == Verdict::Disagrees && self.hierarchy.disturbed() {
            return (Verdict::Undecided, "; the run was disturbed, so this is not a contradiction");
        }
        (verdict, "")
    }

    /// As [`firm`](Self::firm), for a verdict on this finding.
    fn firm_on(&self, from: &Finding, verdict: Verdict) -> (Verdict, &'static str) {
        if verdict == Verdict::Disagrees && from.is_doubtful() {
            return (Verdict::Undecided, "; its trials were disturbed, so this is not a contradiction");
        }
        self.firm(verdict)
    }

    /// Compares a claim with a measurement. `why` is a reason that turns a disagreement into `Undecided`.
    fn against(
        &mut self,
        claim: &Claim,
        i: Interval,
        from: &Finding,
        tolerance: Tolerance,
        why: Option<&str>,
    ) -> Verdict {
        let verdict = compared(claim.described, i, tolerance);
        let (verdict, more) = match (verdict, why) {
            (Verdict::Disagrees, Some(why)) => (Verdict::Undecided, why),
            _ => self.firm_on(from, verdict),
        };
        let unit = claim.unit;
        let measured = around(i, unit);
        let verb = match self.hierarchy.report().trust.as_str() {
            "virtual" => "this guest behaves like",
            _ => "measured is",
        };
        let note = format!("{} is described as {}, {verb} {measured}", claim.of, span(claim.described, unit));
        let note = match verdict {
            Verdict::Agrees => None,
            Verdict::Disagrees => Some(note),
            Verdict::Undecided if more.is_empty() => Some(format!("{note}: neither shown nor contradicted")),
            Verdict::Undecided => Some(format!("{note}{more}")),
        };
        self.row(claim, verdict, Some((i, from)), note);
        verdict
    }

    /// Compares a counted whole number: agreement if equal, undecided if the interval contains it.
    fn count(
        &mut self,
        keys: [Key; 2],
        of: &str,
        unit: &'static str,
        described: u64,
        from: &Finding,
        why: Option<&str>,
    ) {
        let i = interval(from);
        let at = described as f64;
        let claim = Claim { keys, of, unit, described: (at, at) };
        let verdict = match (i.value.round() == at, i.low <= at && at <= i.high) {
            (true, _) => Verdict::Agrees,
            (false, true) => Verdict::Undecided,
            (false, false) => Verdict::Disagrees,
        };
        let (verdict, more) = match (verdict, why) {
            (Verdict::Disagrees, Some(why)) => (Verdict::Undecided, why),
            _ => self.firm_on(from, verdict),
        };
        let note =
            format!("{of} is described as {}, measured is {}", formatted(at, unit), formatted(i.value, unit));
        let note = (verdict != Verdict::Agrees).then(|| format!("{note}{more}"));
        self.row(&claim, verdict, Some((i, from)), note);
    }

    fn clock(&mut self) {
        let Some(found) = self.hierarchy.core_hz() else { return };
        let hz = self.described.core_hz;
        let claim = Claim {
            keys: keys(&claims::DESCRIBED_CORE_CLOCK, &claims::CHECK_CORE_CLOCK, []),
            of: "the core's clock",
            unit: "Hz",
            described: (hz, hz),
        };
        let moved =
            self.hierarchy.warned(WarningKind::Frequency).then_some("; the clock moved while measuring");
        self.against(&claim, interval(found), found, CLOCK_TOLERANCE, moved);
    }

    fn levels(&mut self) {
        let h = self.hierarchy;
        let described = self.described;
        let mut missing = Verdict::Agrees;
        for (i, level) in described.levels.iter().enumerate() {
            let n = i + 1;
            let of = format!("the size of {}", level.name);
            let size = Claim {
                keys: keys(&claims::DESCRIBED_LEVEL_SIZE, &claims::CHECK_LEVEL_SIZE, [n.into()]),
                of: &of,
                unit: "bytes",
                described: level.size,
            };
            let Some((tier, capacity)) = h.tiers.get(i).and_then(|t| Some((t, t.capacity?))) else {
                let verdict = self.unseen(i);
                missing = if missing == Verdict::Disagrees { missing } else { verdict };
                let note = format!(
                    "{of} is described as {}; no increase of load latency was measured there, up to working sets of {}",
                    span(level.size, "bytes"),
                    formatted(h.largest() as f64, "bytes")
                );
                self.row(&size, verdict, None, Some(note));
                continue;
            };
            // This tier may be two levels that the survey merged.
            let merged = h.tiers.len() < described.levels.len() && self.merges(i);
            let why = merged.then_some("; the survey may have merged it with a similar level");
            self.against(&size, interval(capacity), capacity, CAPACITY_TOLERANCE, why);
            self.latency(
                keys(&claims::DESCRIBED_LEVEL_LATENCY, &claims::CHECK_LEVEL_LATENCY, [n.into()]),
                &level.name,
                level.latency,
                tier.latency,
                why,
            );
            self.geometry(n, level, why);
        }
        let (seen, expected) = (h.tiers.len(), described.levels.len());
        let (verdict, more) = self.firm(if seen > expected { Verdict::Disagrees } else { missing });
        let text =
            format!("{} describes {expected} levels before memory, {seen} were measured", described.name);
        let mut notes: Vec<String> =
            (seen != expected).then(|| format!("{text}{more}")).into_iter().collect();
        notes.extend(self.unmeasured());
        let at = expected as f64;
        let of = "the number of levels";
        let keys = keys(&claims::DESCRIBED_TIERS, &claims::CHECK_TIERS, []);
        self.row(&Claim { keys, of, unit: "", described: (at, at) }, verdict, None, None);
        if let Some(row) = self.rows.last_mut() {
            row.notes = notes;
        }
    }

    /// Returns whether a level is so similar to a neighbour that a survey may merge the two.
    fn merges(&self, at: usize) -> bool {
        let levels = &self.described.levels;
        let size = |i: usize| levels[i].size.1;
        let latency = |i: usize| levels.get(i).map_or(self.described.memory.0, |l| l.latency.1);
        let near = |i: usize| {
            let smaller = i + 1 < levels.len() && size(i + 1) < MERGE_RATIOS.0 * size(i);
            smaller || latency(i + 1) < MERGE_RATIOS.1 * latency(i)
        };
        near(at) || at.checked_sub(1).is_some_and(near)
    }

    /// Returns the verdict on a level without a corresponding tier: a contradiction if the survey should have seen the
    /// level.
    fn unseen(&self, at: usize) -> Verdict {
        let size = self.described.levels[at].size.1;
        let reached = self.hierarchy.largest() as f64 >= MERGE_RATIOS.0 * size;
        let verdict = if reached && !self.merges(at) { Verdict::Disagrees } else { Verdict::Undecided };
        self.firm(verdict).0
    }

    fn latency(&mut self, keys: [Key; 2], of: &str, cycles: Span, from: &Finding, why: Option<&str>) {
        let of = format!("the latency of {of}");
        let claim = Claim { keys, of: &of, unit: self.time_unit(), described: self.time(cycles) };
        self.against(&claim, self.measured(from), from, self.tolerance(LATENCY_TOLERANCE), why);
    }

    fn geometry(&mut self, n: usize, level: &Level, why: Option<&str>) {
        let h = self.hierarchy;
        // Without a line per level, the line measured for the whole hierarchy is that of the nearest level.
        let line = h.line(n);
        if let Some(line) = line {
            let of = format!("the line of {}", level.name);
            let keys = keys(&claims::DESCRIBED_LEVEL_LINE, &claims::CHECK_LEVEL_LINE, [n.into()]);
            self.count(keys, &of, "bytes", level.line, line, why);
        }
        if let Some(found) = h.number(conflict::TIER_WAYS.at([n.into()])) {
            let of = format!("the number of ways of {}", level.name);
            let keys = keys(&claims::DESCRIBED_LEVEL_WAYS, &claims::CHECK_LEVEL_WAYS, [n.into()]);
            self.count(keys, &of, "", u64::from(level.ways), found, why);
        }
        if let Some(found) = h.number(conflict::TIER_SETS.at([n.into()])) {
            let of = format!("the number of sets of {}", level.name);
            let keys = keys(&claims::DESCRIBED_LEVEL_SETS, &claims::CHECK_LEVEL_SETS, [n.into()]);
            self.count(keys, &of, "", level.sets, found, why);
        }
        let Some(policies) = h.text(conflict::TIER_POLICIES.at([n.into()])) else { return };
        let fits = policies.split(',').any(|p| p.trim() == level.replacement);
        let (verdict, more) = self.firm(if fits { Verdict::Agrees } else { Verdict::Disagrees });
        let note = (!fits).then(|| {
            format!(
                "the replacement of {} is described as {}; what was measured fits {policies}{more}",
                level.name, level.replacement
            )
        });
        let of = format!("the replacement of {}", level.name);
        let keys = keys(&claims::DESCRIBED_LEVEL_REPLACEMENT, &claims::CHECK_LEVEL_REPLACEMENT, [n.into()]);
        let claim = Claim { keys, of: &of, unit: "", described: (0.0, 0.0) };
        let at = self.rows.len();
        self.row(&claim, verdict, None, note);
        self.rows[at].value = Value::Text(level.replacement.clone());
    }

    /// Returns a note that lists what the record did not measure.
    fn unmeasured(&self) -> Option<String> {
        let report = self.hierarchy.report();
        let max = self.described.levels.len() as u64;
        let level = |f: &Finding| matches!(f.at(Axis::Level), Some(Coordinate::Number(n)) if *n <= max);
        let any = |metric: &'static Metric| report.of(metric).any(level);
        let requested = [
            ("line", any(&conflict::TIER_LINE)),
            ("ways", any(&conflict::TIER_WAYS)),
            ("sets", any(&conflict::TIER_SETS)),
            ("replacement", any(&conflict::TIER_POLICIES)),
            (
                "misses under way",
                self.described.outstanding.is_none() || report.of(&survey::MEMORY_OVERLAP).next().is_some(),
            ),
            (
                "instructions in flight",
                self.described.window.is_none() || report.of(&survey::MEMORY_WINDOW).next().is_some(),
            ),
            ("fills of one set", self.described.set_fill.is_none() || self.hierarchy.set_fill().is_some()),
            ("lines in order", self.described.stream.is_none() || self.hierarchy.in_order().is_some()),
        ];
        let not: Vec<&str> = requested.iter().filter(|a| !a.1).map(|a| a.0).collect();
        (!not.is_empty()).then(|| format!("not measured, so not checked: {}", not.join(", ")))
    }

    fn memory(&mut self) {
        let h = self.hierarchy;
        let open = h
            .warned(WarningKind::NoFinalPlateau)
            .then_some("; the curve was still rising, so that is a bound");
        // A lower bound contradicts only described values below it.
        let open =
            open.filter(|_| self.measured(h.memory.latency).value < self.time(self.described.memory).0);
        let keys = keys(&claims::DESCRIBED_MEMORY_LATENCY, &claims::CHECK_MEMORY_LATENCY, []);
        self.latency(keys, "memory", self.described.memory, h.memory.latency, open);
    }

    fn outstanding(&mut self) {
        let Some(described) = self.described.outstanding else { return };
        let Some(found) = self.hierarchy.number(&survey::MEMORY_OVERLAP) else { return };
        let (of, at) = ("the number of misses under way", f64::from(described));
        let keys = keys(&claims::DESCRIBED_OUTSTANDING, &claims::CHECK_OUTSTANDING, []);
        let claim = Claim { keys, of, unit: "", described: (at, at) };
        // A lower bound has no end.
        let i = match found.basis {
            Basis::Bounds => Interval { high: f64::INFINITY, ..interval(found) },
            _ => interval(found),
        };
        let fewer = (i.value < at)
            .then_some("; the window of the core or the bandwidth of memory may allow fewer, so this is not a contradiction");
        self.against(&claim, i, found, OUTSTANDING_TOLERANCE, fewer);
    }

    fn window(&mut self) {
        let Some(described) = self.described.window else { return };
        let Some(found) = self.hierarchy.number(&survey::MEMORY_WINDOW) else { return };
        let (of, at) = ("the number of instructions in flight", f64::from(described));
        let keys = keys(&claims::DESCRIBED_WINDOW, &claims::CHECK_WINDOW, []);
        let claim = Claim { keys, of, unit: "", described: (at, at) };
        self.against(&claim, interval(found), found, WINDOW_TOLERANCE, None);
    }

    fn set_fill(&mut self) {
        let Some(described) = self.described.set_fill else { return };
        let Some(found) = self.hierarchy.set_fill() else { return };
        let keys = keys(&claims::DESCRIBED_SET_FILL, &claims::CHECK_SET_FILL, []);
        self.latency(keys, "fills of one set", described, found, None);
    }

    fn stream(&mut self) {
        let Some(described) = self.described.stream else { return };
        let Some(found) = self.hierarchy.in_order() else { return };
        let keys = keys(&claims::DESCRIBED_STREAM, &claims::CHECK_STREAM, []);
        self.latency(keys, "lines in order", described, found, None);
    }

    fn translation(&mut self) {
        let h = self.hierarchy;
        let described = self.described;
        let mut next = 0;
        let mut missing = Verdict::Agrees;
        for tlb in &described.tlbs {
            let of = format!("the reach of {}", tlb.name);
            let at = f64::from(tlb.entries);
            let nth = tlb.nth;
            let both = keys(&claims::DESCRIBED_TLB_ENTRIES, &claims::CHECK_TLB_ENTRIES, [nth.into()]);
            let entries = Claim { keys: both, of: &of, unit: "", described: (at, at) };
            let Some((place, step)) = step_of(&h.tlbs, next, at, tlb.merged) else {
                let verdict = self.unreached(tlb, h.tlbs.len() > next);
                missing = if missing == Verdict::Disagrees { missing } else { verdict };
                let note = format!(
                    "{of} is described as {at} pages; no increase of load latency was measured there"
                );
                self.row(&entries, verdict, None, Some(note));
                continue;
            };
            next = place + 1;
            self.against(&entries, interval(step.entries), step.entries, ENTRIES_TOLERANCE, None);
            let of = format!("the penalty of {}", tlb.name);
            let unit = self.time_unit();
            let both = keys(&claims::DESCRIBED_TLB_PENALTY, &claims::CHECK_TLB_PENALTY, [nth.into()]);
            let penalty = Claim { keys: both, of: &of, unit, described: self.time(tlb.penalty) };
            let measured = self.measured(step.penalty);
            self.against(&penalty, measured, step.penalty, self.tolerance(PENALTY_TOLERANCE), None);
            if let Some(ways) = h.number(survey::TLB_WAYS.at([(place + 1).into()])) {
                let of = format!("the number of ways of {}", tlb.name);
                let keys = keys(&claims::DESCRIBED_TLB_WAYS, &claims::CHECK_TLB_WAYS, [nth.into()]);
                self.count(keys, &of, "", u64::from(tlb.ways), ways, None);
            }
        }
        let extra = h.tlbs[next.min(h.tlbs.len())..].iter().filter(|s| !s.maybe_tables).count();
        let (verdict, more) = self.firm(if extra > 0 { Verdict::Disagrees } else { missing });
        let expected = described.tlbs.len();
        let note = (extra > 0).then(|| {
            format!(
                "of the TLBs of {} a survey can see {expected}; it measured {extra} more{more}",
                described.name
            )
        });
        let (of, at) = ("the number of TLBs", expected as f64);
        let keys = keys(&claims::DESCRIBED_TLBS, &claims::CHECK_TLBS, []);
        self.row(&Claim { keys, of, unit: "", described: (at, at) }, verdict, None, note);
    }

    /// Returns the verdict on a TLB without a corresponding step. `doubtful`: some remaining steps may not be TLBs.
    fn unreached(&self, tlb: &Tlb, doubtful: bool) -> Verdict {
        let pages = self.hierarchy.report().of(&survey::TRANSLATION_ADDED);
        let max = pages.filter_map(|f| f.key.number(Axis::Pages)).max().unwrap_or(0);
        let covered = max >= 2 * u64::from(tlb.entries);
        self.firm(if covered && !tlb.merged && !doubtful { Verdict::Disagrees } else { Verdict::Undecided }).0
    }
}

/// Finds the step of a TLB with `entries` entries in `steps[next..]`. Steps that may not be TLBs are skipped unless
/// they match. The first certain TLB step is taken even if it does not match, except when this TLB may be `merged`.
fn step_of<'a>(steps: &[Step<'a>], next: usize, entries: f64, merged: bool) -> Option<(usize, Step<'a>)> {
    let holds = |s: &Step| {
        let i = interval(s.entries);
        i.low <= entries && entries <= i.high
    };
    let rest = || steps.iter().enumerate().skip(next);
    let at = rest().find(|(_, s)| holds(s) || !s.maybe_tables)?.0;
    (holds(&steps[at]) || !merged).then_some((at, steps[at]))
}

/// Returns the size of the display unit in `unit`, and the display unit's name.
fn scale(v: f64, unit: &str) -> (f64, &str) {
    match unit {
        "bytes" => fathom_units::unit_of(v),
        "Hz" => (1e6, "MHz"),
        other => (1.0, other),
    }
}

/// Formats a value with its unit.
fn formatted(v: f64, unit: &str) -> String {
    span((v, v), unit)
}

/// Formats a range with its unit; as one number if four digits do not distinguish its ends.
fn span((low, high): Span, unit: &str) -> String {
    let (one, unit) = scale(high, unit);
    let [low, high] = [low, high].map(|v| significant(v / one));
    let range = if low == high { low } else { format!("{low} to {high}") };
    format!("{range} {unit}").trim_end().to_owned()
}

/// Formats a measured value with its interval.
fn around(i: Interval, unit: &str) -> String {
    if i.high.is_infinite() {
        return format!("at least {}", formatted(i.low, unit));
    }
    let (value, ends) = (formatted(i.value, unit), span((i.low, i.high), unit));
    if value == ends { value } else { format!("{value} ({ends})") }
}

/// Formats with four significant digits, without trailing zeros.
fn significant(v: f64) -> String {
    let text = crate::draft::significant(v);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
