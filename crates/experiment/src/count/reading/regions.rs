//! Findings of the regions of a counted program.

use std::collections::BTreeSet;

use fathom_analysis::findings::{Item, Key, Metric, Refused, Report, Warning, WarningKind};
use fathom_analysis::metrics::count as metrics;
use fathom_analysis::metrics::count::REGION;

use super::{CYCLES, END_OTHERS, INSTRUCTIONS, over_runs};
use crate::reading::INVENTED;
use crate::record::{AskedRegions, ProgramMarks, ProgramRegion, ProgramRun, ProgramRuns};

/// Name of what is between pairs of marks with nothing in between.
const EMPTY: &str = "";

/// Runs whose marks counted, each with these.
fn marked(program: &ProgramRuns) -> impl Iterator<Item = (&ProgramRun, &ProgramMarks)> + Clone {
    let marks = |run: &'_ ProgramRun| {
        run.marks.as_ref().filter(|marks| marks.attached > 0 && !marks.damaged).is_some()
    };
    program.runs.iter().filter(move |run| marks(run)).filter_map(|run| Some((run, run.marks.as_ref()?)))
}

/// Returns the names of the regions that were entered or begun in any run, in alphabetical order.
fn names(program: &ProgramRuns) -> BTreeSet<&str> {
    let all = marked(program).flat_map(|(_, marks)| &marks.regions);
    all.map(|region| region.name.as_str()).filter(|name| *name != EMPTY).collect()
}

fn region<'a>(marks: &'a ProgramMarks, name: &str) -> Option<&'a ProgramRegion> {
    marks.regions.iter().find(|region| region.name == name)
}

/// Returns the counts of an event in a region, one of each run that counted it, each with that of another event.
fn counted<'a>(
    program: &'a ProgramRuns,
    name: &'a str,
    event: &'a str,
    other: &'a str,
) -> impl Iterator<Item = (f64, Option<f64>)> + 'a {
    marked(program).filter_map(move |(run, marks)| {
        let set = run.set.and_then(|set| program.sets.get(set))?;
        let place = |event: &str| set.iter().position(|own| own == event);
        let at = place(event)?;
        // A run that did not enter it has none; one with threads that had no counters may have entered it there.
        let Some(region) = region(marks, name) else {
            return (marks.uncounted == 0).then_some((0.0, Some(0.0)));
        };
        let whole = region.shared == 0 && region.torn == 0;
        whole.then(|| (region.counts[at] as f64, place(other).map(|at| region.counts[at] as f64)))
    })
}

/// Returns the runs whose times are told: those that read nothing but the clock at marks, unless there are none.
fn timed(program: &ProgramRuns) -> impl Iterator<Item = &ProgramMarks> + Clone {
    let by_clock = marked(program).any(|(run, _)| run.set.is_none());
    marked(program).filter(move |(run, _)| run.set.is_none() || !by_clock).map(|(_, marks)| marks)
}

/// Adds the regions, and what is in all of them of the marks.
pub(super) fn add(program: &ProgramRuns, emulated: bool, report: &mut Report) {
    let Some(asked) = &program.regions else { return };
    let names = names(program);
    for (name, nth) in names.iter().copied().zip(1u64..) {
        one(program, name, nth, emulated, report);
    }
    if marked(program).next().is_some() {
        marks(program, emulated, report);
        let missing: Vec<&str> =
            asked.names.iter().map(String::as_str).filter(|name| !names.contains(name)).collect();
        if !missing.is_empty() || names.is_empty() {
            report.refusals.push(not_entered(&missing));
        }
    } else {
        report.refusals.push(nothing(program, asked));
    }
}

fn not_entered(missing: &[&str]) -> Refused {
    let what = match missing {
        [] => "regions".to_owned(),
        [one] => format!("region {one}"),
        _ => format!("regions {}", missing.join(", ")),
    };
    Refused {
        what,
        reason: "the program did not enter it, or not by marks that count".to_owned(),
        remedy: "see the names that the program marks: --regions counts all of them".to_owned(),
    }
}

fn nothing(program: &ProgramRuns, asked: &AskedRegions) -> Refused {
    let what =
        if asked.all { "all regions".to_owned() } else { format!("regions {}", asked.names.join(", ")) };
    let damaged = program.runs.iter().any(|run| run.marks.as_ref().is_some_and(|marks| marks.damaged));
    let (reason, remedy) = match damaged {
        true => (
            "the program wrote into the memory in which its marks count",
            "find the stray stores: an address sanitizer, or fathom simulate",
        ),
        false => (
            "no program or library with marks that count was started",
            "build the program with include/fathom.h without FATHOM_MARKS_ONLY, or the crate fathom-mark with its feature count",
        ),
    };
    Refused { what, reason: reason.to_owned(), remedy: remedy.to_owned() }
}

/// Adds a region.
fn one(program: &ProgramRuns, name: &str, nth: u64, emulated: bool, report: &mut Report) {
    let before = report.findings.len();
    let at = |metric: &'static Metric| -> Key { metric.at([nth.into()]) };
    let of = |f: fn(&ProgramRegion) -> u64| {
        timed(program).map(move |marks| region(marks, name).map_or(0.0, |region| f(region) as f64))
    };
    if !emulated {
        over_runs(at(&metrics::REGION_TIME), "ms", of(|region| region.ns).map(|ns| ns / 1e6), report);
    }
    over_runs(at(&metrics::REGION_ENTERED), "", of(|region| region.entered), report);
    let events = program.events.iter().map(|event| event.name.as_str());
    for event in events.filter(|event| !(emulated && INVENTED.contains(event))) {
        let at = |metric: &'static Metric| -> Key { metric.at([nth.into(), event.into()]) };
        let counts = counted(program, name, event, event).map(|(count, _)| count);
        over_runs(at(&metrics::REGION_COUNT), "", counts, report);
        let ratios = |of: &'static str| {
            counted(program, name, event, of)
                .filter_map(|(count, all)| Some(count / all.filter(|all| *all > 0.0)?))
        };
        if event == INSTRUCTIONS {
            if !emulated {
                over_runs(metrics::REGION_PER_CYCLE.at([nth.into()]), "", ratios(CYCLES), report);
            }
        } else {
            let per_thousand = ratios(INSTRUCTIONS).map(|ratio| 1000.0 * ratio);
            over_runs(at(&metrics::REGION_PER_THOUSAND), "", per_thousand, report);
        }
    }
    for finding in &mut report.findings[before..] {
        finding.detail.set(REGION, Item::Token(name.to_owned()));
    }
}

/// Adds what is in each entry of a region because of its marks, and what a pair of them takes.
fn marks(program: &ProgramRuns, emulated: bool, report: &mut Report) {
    let each =
        |marks: &ProgramMarks, all: u64| (marks.pairs[0] > 0).then(|| all as f64 / marks.pairs[0] as f64);
    if !emulated {
        let inside = timed(program).filter_map(|marks| each(marks, region(marks, EMPTY)?.ns));
        over_runs(&metrics::MARKS_TIME, "ns", inside, report);
        let whole = timed(program).filter_map(|marks| each(marks, marks.pairs[1]));
        over_runs(&metrics::MARKS_COST, "ns", whole, report);
    }
    for event in program.events.iter().map(|event| event.name.as_str()) {
        if emulated && INVENTED.contains(&event) {
            continue;
        }
        let with = marked(program).filter(|(run, _)| {
            run.set
                .and_then(|set| program.sets.get(set))
                .is_some_and(|set| set.iter().any(|own| own == event))
        });
        let counts = with.clone().filter_map(|(run, marks)| {
            let at = program.sets[run.set?].iter().position(|own| own == event)?;
            each(marks, region(marks, EMPTY)?.counts[at])
        });
        let before = report.findings.len();
        over_runs(metrics::MARKS_COUNT.at([event.into()]), "", counts, report);
        let mut costs: Vec<f64> = with.clone().filter_map(|(_, marks)| each(marks, marks.pairs[1])).collect();
        costs.sort_by(f64::total_cmp);
        for finding in &mut report.findings[before..] {
            finding.detail.set(metrics::READ_BY, Item::Token(read_by(with.clone().map(|(_, marks)| marks))));
            if let Some(cost) = costs.get(costs.len() / 2).filter(|_| !emulated) {
                finding.detail.set(metrics::PAIR, Item::Number(*cost));
            }
        }
    }
}

/// Returns how the counters were read.
fn read_by<'a>(all: impl Iterator<Item = &'a ProgramMarks> + Clone) -> String {
    let any = |at: usize| all.clone().any(|marks| marks.read_by[at]);
    match (any(0), any(1), any(2)) {
        (false, true, false) => "instructions",
        (false, false, true) => "driver",
        (_, false, false) => "read",
        _ => "some-by-instructions",
    }
    .to_owned()
}

/// Adds what limits the regions.
pub(super) fn doubts(program: &ProgramRuns) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let all: Vec<&ProgramMarks> = program.runs.iter().filter_map(|run| run.marks.as_ref()).collect();
    let regions = || all.iter().flat_map(|marks| &marks.regions);
    let unmatched: Vec<String> = names(program)
        .into_iter()
        .filter_map(|name| {
            let most = regions().filter(|region| region.name == name).map(|region| region.unmatched).max()?;
            (most > 0).then(|| format!("{name} ({most} times)"))
        })
        .collect();
    if !unmatched.is_empty() {
        let text = format!(
            "a region has an end without a beginning, or the other way round, which is not counted: {}",
            unmatched.join(", ")
        );
        let remedy = "mark every way out of the region, also return, break and longjmp";
        warnings.push(Warning::new(WarningKind::MarksUnmatched, text, remedy));
    }
    if regions().any(|region| region.shared > 0) {
        let text = "others used the processor's counters while threads were in regions: counts of these regions and runs are left out";
        warnings.push(Warning::new(WarningKind::CountersShared, text, END_OTHERS));
    }
    warnings.extend(lost(program, &all));
    warnings
}

/// Tells what marks did not count.
fn lost(program: &ProgramRuns, all: &[&ProgramMarks]) -> Option<Warning> {
    let sum =
        |of: fn(&ProgramMarks) -> u64| all.iter().fold(0u64, |sum, marks| sum.saturating_add(of(marks)));
    let torn = |marks: &ProgramMarks| marks.regions.iter().map(|region| region.torn).sum();
    let why = all.iter().zip(&program.runs).find(|(marks, _)| marks.error[0] > 0);
    let why =
        why.map_or("no room for so many, or the program has closed its files".to_owned(), |(marks, _)| {
            let errno = i32::try_from(marks.error[0]).unwrap_or_default();
            format!("perf_event_open: {}", std::io::Error::from_raw_os_error(errno))
        });
    let damaged = all.iter().filter(|marks| marks.damaged).count() as u64;
    let parts = [
        (sum(|marks| marks.uncounted), format!("threads had no counters ({why})")),
        (sum(|marks| marks.lost), "marks were in the handler of a signal during another mark".to_owned()),
        (
            sum(|marks| marks.overflow),
            "entries were of more regions than there is room for, or of longer names".to_owned(),
        ),
        (sum(torn), "threads were ended while they wrote what they had counted".to_owned()),
        (
            damaged,
            "runs have written into the memory in which marks count: nothing of them counts".to_owned(),
        ),
    ];
    let told: Vec<String> =
        parts.iter().filter(|(times, _)| *times > 0).map(|(times, what)| format!("{times} {what}")).collect();
    let remedy = "choose fewer regions by --region; raise the limit on open files (ulimit -n)";
    (!told.is_empty()).then(|| {
        Warning::new(WarningKind::MarksLost, format!("marks did not count: {}", told.join("; ")), remedy)
    })
}

#[cfg(test)]
mod tests;
