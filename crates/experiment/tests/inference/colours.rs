//! Page colours on described machines: misses by colour must follow from the size of a way and the policy.

use fathom_analysis::findings::{Report, Value};
use fathom_experiment::options::Asked;
use fathom_experiment::record::{Record, Run, TrialRun};
use fathom_experiment::session::{InProcess, Session};
use fathom_experiment::{conflict, option_differences};
use fathom_model::Model;
use fathom_model::description::{Description, Frames, Holds, Replacement, Time};
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{PatternKind, Stride};

use crate::asked::asked;
use crate::common::{self, finding, number};

const PAGE: u64 = 4096;

/// Returns a machine whose first level has eight LRU ways of `pages_per_way` pages, and whose second level has twice the
/// ways, of eight pages.
fn machine(pages_per_way: u64) -> Description {
    let mut d = crate::machines::machine("s1-8way");
    (d.timer.jitter, d.memory.spread) = (Time::ZERO, Time::ZERO);
    let data = d.levels.iter_mut().filter(|level| level.holds != Holds::Instructions);
    for (level, (ways, pages)) in data.zip([(8, pages_per_way), (16, 8)]) {
        (level.ways, level.size) = (ways, u64::from(ways) * pages * PAGE);
        level.replacement = Replacement::Lru;
    }
    d
}

/// Budget of sessions that measure a second level too, ms.
const LONG_MS: u64 = 10_000;
/// Budget of sessions that measure the first level, ms.
const FIRST_MS: u64 = 5_000;
/// Budget of sessions whose times are not used, ms.
const SHORT_MS: u64 = 3_000;

fn measured(d: &Description, colours: &[u64], budget_ms: u64) -> (Record, Report) {
    let list = colours.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let run = Run {
        experiment: conflict::NAME.into(),
        seed: 1,
        budget_ms,
        asked: asked(conflict::options::ALL, &[("colours", &list)]),
        ..Run::default()
    };
    common::measured(d, conflict::plan, run)
}

/// Returns the misses per round of LRU sets: all lines of every colour that has more lines than ways.
fn lru(pages: u64, colours: u64, ways: u64) -> u64 {
    (0..colours).map(|c| (pages + colours - 1 - c) / colours).filter(|&lines| lines > ways).sum()
}

/// Returns every measured number of pages with its misses per round.
fn misses(report: &Report, tier: u64, which: &str) -> Vec<(u64, f64)> {
    let head = format!("tier.{tier}.colour.{which}.");
    let all = report.findings.iter().filter_map(|f| {
        let name = f.name();
        let pages = name.strip_prefix(&head)?.strip_suffix(".misses_per_round")?;
        let Value::Number(misses) = f.value else { panic!("{f:?}") };
        Some((pages.parse().unwrap(), misses))
    });
    all.collect()
}

#[track_caller]
fn assert_misses(found: &[(u64, f64)], truth: impl Fn(u64) -> u64) {
    assert!(found.len() > 15, "{found:?}");
    for &(pages, misses) in found {
        // A sample has a few loads more than whole rounds.
        let tolerance = 0.002 * pages as f64;
        assert!(
            (misses - truth(pages) as f64).abs() <= tolerance,
            "{pages} pages: {misses} for {}",
            truth(pages)
        );
    }
}

#[test]
fn more_colours_delay_conflicts_with_ways_of_four_pages() {
    let (record, report) = measured(&machine(4), &[1, 2, 4], FIRST_MS);
    for colours in [1, 2, 4] {
        let found = misses(&report, 1, &colours.to_string());
        assert_misses(&found, |pages| lru(pages, colours, 8));
        assert!(found.iter().any(|&(pages, misses)| pages > 8 * colours && misses > 0.0));
    }
    assert_misses(&misses(&report, 1, "shared"), |_| 0);
    let help = finding(&report, "tier.1.colour.useful");
    assert_eq!(help.value, Value::Text("yes".into()));
    assert!(help.notes[0].contains("a way of 16 KiB is 4 pages of 4 KiB"), "{:?}", help.notes);
    // The second level is not measured, because the first has colours.
    assert_eq!(misses(&report, 2, "1"), []);
    // The time follows the misses: rounds with as many hits take less time.
    let time = |which: &str| number(&report, &format!("tier.1.colour.{which}.16.time_per_round"));
    assert!(time("1") > 1.5 * time("2") && (time("2") / time("4") - 1.0).abs() < 0.02);
    let mut other = record.clone();
    other.run.as_mut().unwrap().asked = Asked::default();
    assert_eq!(option_differences(&record, &other), ["--colours: 1, 2, 4 against not given"]);
}

#[test]
fn colours_have_no_effect_in_level_with_ways_of_one_page() {
    let (_, report) = measured(&machine(1), &[2, 4], LONG_MS);
    for colours in [1, 2, 4] {
        assert_misses(&misses(&report, 1, &colours.to_string()), |pages| lru(pages, 1, 8));
    }
    assert_misses(&misses(&report, 1, "shared"), |_| 0);
    let help = finding(&report, "tier.1.colour.useful");
    assert_eq!(help.value, Value::Text("no".into()));
    let note = &help.notes[0];
    assert!(note.contains("not larger than a page") && note.contains("tier 2 has one of 32 KiB, 8 colours"));
    // The second level is measured as well, in pages that are all in one set of the first level.
    for colours in [1, 2, 4] {
        let found = misses(&report, 2, &colours.to_string());
        assert_misses(&found, |pages| lru(pages, colours, 16));
    }
    assert_misses(&misses(&report, 2, "shared"), |_| 0);
    assert_eq!(finding(&report, "tier.2.colour.useful").value, Value::Text("yes".into()));
    let initialised = finding(&report, "tier.1.colour.4.16.time_per_round");
    assert_eq!(initialised.notes, ["laid out for 4 colours; there is one"]);
}

/// Without a page map, pages in random frames have unknown colours, so the experiment refuses.
#[test]
fn colours_of_scattered_pages_are_refused() {
    let mut d = machine(4);
    d.memory.pages.truncate(1);
    let contiguous = measured(&d, &[2], FIRST_MS).1;
    assert_eq!(finding(&contiguous, "tier.1.colour.useful").value, Value::Text("yes".into()));
    (d.memory.frames, d.memory.page_map) = (Frames::Scattered, false);
    let scattered = measured(&d, &[2], FIRST_MS).1;
    assert_eq!(misses(&scattered, 1, "2"), []);
    assert!(scattered.refusals.iter().any(|r| r.what.contains("page colours")), "{:?}", scattered.refusals);
}

/// Returns a session.
fn session(budget_ms: u64) -> Session {
    let run = Run {
        experiment: conflict::NAME.into(),
        seed: 1,
        budget_ms,
        asked: asked(conflict::options::ALL, &[("colours", "2")]),
        ..Run::default()
    };
    Session::new(conflict::plan, run)
}

/// If pages of chosen colours are available, everything larger than a page is measured in them.
#[test]
fn coloured_pages_are_requested_where_available() {
    let mut d = machine(4);
    d.memory.pages.truncate(1);
    d.memory.frames = Frames::Scattered;
    d.levels.iter_mut().filter(|level| level.holds == Holds::Unified).for_each(|level| level.size *= 4);
    let record = InProcess::new(session(LONG_MS)).run(&mut Model::new(&d, 1)).1;
    let report = conflict::read(&record);
    for colours in [1, 2] {
        assert_misses(&misses(&report, 1, &colours.to_string()), |pages| lru(pages, colours, 8));
    }
    assert_eq!(finding(&report, "tier.1.colour.useful").value, Value::Text("yes".into()));
    // The ways of the second level too, which cannot be inferred in scattered frames.
    assert_eq!(number(&report, "tier.2.ways"), 16.0);
    let beyond = |run: &&TrialRun| run.trial.kind() == PatternKind::Conflict && run.trial.counted > 0;
    assert!(record.trials.iter().filter(beyond).all(|run| run.trial.memory.page == Pages::Coloured));
    assert!(
        record.trials.iter().all(|run| run.trial.memory.page != Pages::Coloured || run.refusal.is_none())
    );
}

/// Huge pages have every colour: where there are any, caches are measured in them.
#[test]
fn caches_are_not_measured_in_coloured_pages_beside_huge_ones() {
    let mut d = machine(4);
    d.memory.frames = Frames::Scattered;
    let record = InProcess::new(session(SHORT_MS)).run(&mut Model::new(&d, 1)).1;
    let of_caches = |run: &&TrialRun| {
        run.trial.kind() == PatternKind::Conflict && run.trial.counted > 0
            || run.trial.kind() == PatternKind::Chase
    };
    let pages = || record.trials.iter().filter(of_caches).map(|run| run.trial.memory.page);
    assert!(pages().count() > 10 && pages().all(|page| page == Pages::Huge));
}

#[test]
fn colours_are_not_reported_without_the_option() {
    let (record, report) = measured(&machine(4), &[], SHORT_MS);
    assert!(report.findings.iter().all(|f| !f.name().contains("colour")));
    assert!(
        record
            .trials
            .iter()
            .all(|run| run.trial.or_default::<Stride>().frames == 0 && run.trial.pattern.groups().group < 2
                || run.trial.counted == 0)
    );
}
