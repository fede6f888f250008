//! Reads a record of `fathom cacheability`: time per operation by attribute and working set, ratios to write-back, and
//! translation and behaviour of each attribute.

use fathom_analysis::attribute::Memory;
use fathom_analysis::claims::decode;
use fathom_analysis::findings::{Basis, Finding, Item, Metric, Refused, Report, Warning, WarningKind};
use fathom_analysis::interval::{grouped_interval, median};
use fathom_analysis::metrics::cacheability as metrics;
use fathom_probe::machine::{Attribute, Operation, Translation};
use fathom_probe::pattern::{PatternKind, Trial};
use fathom_units::size;

use super::behaviour::{Behaviour, behaves};
use super::points::{BEHAVIOUR_POINTS, Point, point, times};
use super::trials::refused;
use super::{NAME, Request, STRIDE, STUDY_BYTES, UncachedMethod, mair_bytes, walks};
use crate::claims;
use crate::disturbance;
use crate::reading::{clocks, disturbance_rows, measured, new_report, number, refuse_all, text};
use crate::record::{Record, TrialRun};
use crate::scale::{Scale, clock_is_usable};

/// Reads a record. The report depends on the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    let requested = Request::of(record);
    if !clock_is_usable(record) {
        refuse_all(record, "every time of an operation", &mut report);
        requested.methods.iter().for_each(|&method| mapping_rows(record, method, &mut report));
        mair_bytes::translations(record, &mut report);
        return report;
    }
    let scale = Scale::of(record);
    let all = points(record, &requested, &scale);
    let medians = |p: &Point| p.groups.iter().filter_map(|g| median(g)).collect::<Vec<f64>>();
    let repeats: Vec<Vec<f64>> = all.iter().map(medians).collect();
    disturbance_rows(&disturbance::judge(record, &scale.cycle_ticks, &repeats), &mut report);
    clocks(record, &scale, &mut report);
    let behaviour = |method| Some(behaves(times(&all, method)?, times(&all, cached())?));
    for &method in &requested.methods {
        mapping_rows(record, method, &mut report);
        if let Some(behaviour) = behaviour(method).filter(|_| method != UncachedMethod::Flush) {
            let mut row =
                text(metrics::CACHEABILITY_BEHAVES_AS.at([method.token().into()]), behaviour.token());
            (row.count, row.basis) = (3, Basis::Derived);
            row.notes.push("from the times of loads, adjacent stores, and stores one line apart".into());
            report.findings.push(row);
        }
    }
    let in_force = |method: UncachedMethod| in_force(method, behaviour(method));
    for point in all.iter().filter(|p| requested.points().contains(&p.key)) {
        let plain = all.iter().find(|p| p.key == (cached(), point.key.1, point.key.2));
        rows(point, plain.filter(|_| in_force(point.key.0)), requested.rounds, &scale, &mut report);
    }
    for &method in requested.methods.iter().filter(|method| !refused(record, **method) && !in_force(**method))
    {
        report.refusals.push(not_in_force(method, behaviour(method), &report.trust));
    }
    study(&all, requested.rounds, in_force(UncachedMethod::Attribute(Attribute::NormalNc)), &mut report);
    mair_bytes::rows(record, &scale, times(&all, cached()), &mut report);
    walks::rows(record, &scale, &mut report);
    missing(record, &requested, &all, &mut report);
    report.findings.extend(claims::rows(&decode(&record.facts)));
    report
}

fn cached() -> UncachedMethod {
    UncachedMethod::Attribute(Attribute::WriteBack)
}

/// Returns all measured points: the requested ones in their order, then those that determine the behaviour of memory.
fn points(record: &Record, requested: &Request, scale: &Scale) -> Vec<Point> {
    let mut keys: Vec<((UncachedMethod, Operation, u64), u64)> =
        requested.points().into_iter().map(|key| (key, STRIDE)).collect();
    for &method in &requested.methods {
        for (operation, bytes, step) in BEHAVIOUR_POINTS {
            let key = ((method, operation, bytes), step);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys.into_iter().filter_map(|(key, step)| point(record, key, step, scale)).collect()
}

/// Adds the translation of a method's mappings, and whether they alias write-back mappings.
fn mapping_rows(record: &Record, method: UncachedMethod, report: &mut Report) {
    translation_rows(record, method, report);
    alias_row(record, method, report);
}

/// Adds the addresses of a method's mappings, and their attribute in the tables.
fn translation_rows(record: &Record, method: UncachedMethod, report: &mut Report) {
    let of = |r: &&TrialRun| UncachedMethod::of(&r.trial) == method && r.trial.kind() == PatternKind::Stride;
    let translated = |r: &TrialRun| Some((r.trial.id, r.done?.translation?));
    let seen: Vec<(u64, Translation)> = record.trials.iter().filter(of).filter_map(translated).collect();
    let Some((id, t)) = seen.first() else { return };
    let at = [method.token().into()];
    let all = Item::Number(seen.len() as f64);
    let mut row = |metric: &'static Metric, value: u64| {
        let mut row = number(metric.at(at), value as f64, metric.units[0]);
        row.trials.push(*id);
        row.detail.set(metrics::MAPPINGS, all.clone());
        row.notes.push(format!("of the first of {} mappings", seen.len()));
        if let Some(who) = record.text(&format!("attribute.{}", method.token())) {
            row.detail.set(metrics::PROVIDER, Item::Token(who.to_owned()));
            row.notes.push(format!("memory of {who}"));
        }
        report.findings.push(row);
    };
    row(&metrics::CACHEABILITY_VA, t.va);
    t.pa.into_iter().for_each(|pa| row(&metrics::CACHEABILITY_PA, pa));
    if let Some(mair) = t.mair {
        // Another value would be another attribute in the same column.
        let same = seen.iter().filter(|(_, t)| t.mair == Some(mair)).count();
        row(&metrics::CACHEABILITY_MAIR, u64::from(mair));
        let mut row = text(metrics::CACHEABILITY_TRANSLATED_AS.at(at), Memory::of(mair).token());
        row.count = same as u64;
        row.detail.set(metrics::MAPPINGS, all.clone());
        if same < seen.len() {
            row.notes.push(format!("only {same} of {} mappings have {mair:#04x}", seen.len()));
        }
        report.findings.push(row);
    }
}

/// Adds whether stores through write-back mappings and through those of a method are visible to each other.
fn alias_row(record: &Record, method: UncachedMethod, report: &mut Report) {
    let of = |r: &&TrialRun| r.trial.kind() == PatternKind::Alias && UncachedMethod::of(&r.trial) == method;
    let aliases: Vec<&TrialRun> = record.trials.iter().filter(of).filter(|r| r.done.is_some()).collect();
    if !aliases.is_empty() {
        let lost: usize = aliases.iter().map(|r| r.unverified).sum();
        let mut row = text(
            metrics::CACHEABILITY_ALIAS.at([method.token().into()]),
            if lost == 0 { "seen" } else { "unseen" },
        );
        row.detail.set(metrics::LOST, Item::Number(lost as f64));
        row.count = aliases.iter().map(|r| (r.samples.len() + r.unverified) as u64).sum();
        row.trials = aliases.iter().map(|r| r.trial.id).collect();
        row.notes.push(match lost {
            0 => "stores through it are visible through a write-back mapping of the same memory, and vice versa".into(),
            lost => {
                format!("{lost} exchanges with a write-back mapping of the same memory lost stores")
            }
        });
        report.findings.push(row);
    }
}

/// Adds the findings of a point; `plain` is the same point of write-back memory, if a ratio to it is valid.
fn rows(point: &Point, plain: Option<&Point>, rounds: u64, scale: &Scale, report: &mut Report) {
    let (count, ids) = (point.count(), &point.ids);
    let (method, operation, bytes) = point.key;
    let mut row = measured(point.at(&metrics::CACHEABILITY_TIME), point.time, "ns", count, ids);
    if method == UncachedMethod::Flush {
        row.notes.push("a substitute: the flush and its barrier are part of the time".into());
    }
    if matches!(operation, Operation::Set | Operation::CopyTo | Operation::CopyFrom) {
        row.notes.push("for 8 of the 16 bytes of each access".into());
    }
    report.findings.push(row);
    if let Some(i) = grouped_interval(&point.cycles).filter(|_| scale.cycle().is_some()) {
        report.findings.push(measured(point.at(&metrics::CACHEABILITY_CYCLES), i, "cycles", count, ids));
    }
    let operations = (bytes / STRIDE) as f64 * rounds as f64;
    let time = point.time.scaled(operations / 1e6);
    let mut total = measured(point.at(&metrics::CACHEABILITY_TOTAL), time, "ms", count, ids);
    total.basis = Basis::Derived;
    total.detail.set(metrics::ROUNDS, Item::Number(rounds as f64));
    total.notes.push(format!("{rounds} rounds of {} operations", bytes / STRIDE));
    report.findings.push(total);
    if let Some(plain) = plain.filter(|_| method != cached())
        && let Some(ratio) = point.time.ratio_to(plain.time)
    {
        let ids = [ids.as_slice(), &plain.ids].concat();
        let key = point.at(&metrics::CACHEABILITY_RATIO);
        let row = measured(key, ratio, "", count + plain.count(), &ids);
        report.findings.push(Finding { basis: Basis::Derived, ..row });
    }
}

/// Returns whether memory that should be uncached behaves as uncached, if known. For write-through memory this cannot
/// be decided: a store buffer may hide every store.
fn in_force(method: UncachedMethod, behaviour: Option<Behaviour>) -> bool {
    let uncached = matches!(method, UncachedMethod::Attribute(Attribute::NormalNc | Attribute::Device));
    !uncached || !matches!(behaviour, None | Some(Behaviour::Cached | Behaviour::WrittenThrough))
}

fn not_in_force(method: UncachedMethod, behaviour: Option<Behaviour>, trust: &str) -> Refused {
    if behaviour.is_none() {
        return Refused {
            what: format!("the ratios of {}", method.token()),
            reason: "its behaviour was not measured, so it is unknown whether the attribute is in force"
                .into(),
            remedy: "give it a larger --budget".into(),
        };
    }
    Refused {
        what: format!("the ratios of {}", method.token()),
        reason: format!(
            "attribute not in force: its accesses take as long as cached ones{}",
            match trust {
                "virtual" =>
                    "; a hypervisor may override a guest's attributes (x86: the guest's PAT, arm64: \
                     FEAT_S2FWB)",
                _ => "",
            }
        ),
        remedy: match trust {
            "virtual" => "measure on the machine itself, not in a guest".into(),
            _ => String::new(),
        },
    }
}

/// Adds the study's own figure: read-modify-writes, uncached and cached.
fn study(all: &[Point], rounds: u64, in_force: bool, report: &mut Report) {
    let of = |attribute, bytes| {
        let key = (UncachedMethod::Attribute(attribute), Operation::Rmw, bytes);
        all.iter().find(|p| p.key == key && p.stride == STRIDE)
    };
    let sizes = [320, STUDY_BYTES];
    for bytes in sizes.into_iter().filter(|_| in_force) {
        let both = (of(Attribute::NormalNc, bytes), of(Attribute::WriteBack, bytes));
        let (Some(nc), Some(wb)) = both else { continue };
        let operations = (bytes / STRIDE) as f64 * rounds as f64;
        let (nc_ms, wb_ms) = (nc.time.value * operations / 1e6, wb.time.value * operations / 1e6);
        if wb_ms <= 0.0 {
            continue;
        }
        let share = 100.0 * ((nc_ms - wb_ms) / wb_ms).floor();
        let mut row = number(metrics::CACHEABILITY_STUDY.at([bytes.into()]), share, "%");
        row.basis = Basis::Derived;
        row.detail.set(metrics::ROUNDS, Item::Number(rounds as f64));
        row.detail.set(metrics::UNCACHED_MS, Item::Number(nc_ms));
        row.detail.set(metrics::CACHED_MS, Item::Number(wb_ms));
        row.count = (nc.count() + wb.count()) as u64;
        row.trials = [nc.ids.as_slice(), &wb.ids].concat();
        row.notes.push(format!(
            "{rounds} round{} over {bytes} bytes: non-cacheable {} ms, cacheable {} ms, {:.1} times",
            if rounds == 1 { "" } else { "s" },
            milliseconds(nc_ms),
            milliseconds(wb_ms),
            nc_ms / wb_ms
        ));
        if bytes == STUDY_BYTES {
            row.notes.push(
                "study S0, on a Raspberry Pi 3, 20000 rounds over 2560 bytes: 1040 ms, 53 ms, 19.6 times, published as \
                 \"1800 % faster\": rounded down to hundreds, as here"
                    .into(),
            );
        }
        report.findings.push(row);
    }
}

/// Formats milliseconds like the study, smaller ones with two digits.
fn milliseconds(ms: f64) -> String {
    let digits = if ms >= 9.5 { 0 } else { (1.0 - ms.max(1e-9).log10().floor()).clamp(1.0, 9.0) as usize };
    format!("{ms:.digits$}")
}

/// Warns of requested points that were neither refused nor measured.
fn missing(record: &Record, requested: &Request, all: &[Point], report: &mut Report) {
    let lost: Vec<String> = requested
        .points()
        .into_iter()
        .filter(|key| {
            let of = |t: &Trial| (UncachedMethod::of(t), t.pattern.operation(), t.memory.bytes) == *key;
            let refused =
                refused(record, key.0) || record.trials.iter().any(|r| r.refusal.is_some() && of(&r.trial));
            !refused && all.iter().all(|p| p.key != *key || p.stride != STRIDE)
        })
        .map(|(method, op, bytes)| format!("{} {} of {}", method.token(), op.token(), size(bytes as f64)))
        .collect();
    let lost: Vec<String> =
        lost.into_iter().chain(mair_bytes::missing(record)).chain(walks::missing(record)).collect();
    let (shown, rest) = lost.split_at(lost.len().min(4));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    if !shown.is_empty() {
        report.warnings.push(Warning {
            kind: WarningKind::BudgetExhausted,
            text: format!("not measured within the budget or the memory: {}{more}", shown.join(", ")),
            remedy: "give it a larger --budget, or fewer --bytes, --op or --attributes".into(),
        });
    }
}
