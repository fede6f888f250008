//! Cycles that the misses of a program's loads would take one at a time, from their counts and the access times of an idle machine:
//! study S4's explanation of a slow program. A core that overlaps misses waits less; a loaded memory takes longer. Stores,
//! fetches of instructions and other nodes' memory are not in it.

use crate::findings::{Finding, Item, Metric, Report};
use crate::interval::Interval;
use crate::metrics::claims::CLAIMED;
use crate::metrics::{common, survey};

/// Access times of a machine, in core cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessTimes {
    /// Latency of a load by the tier that serves it, from the nearest; the last one is memory. At least two.
    pub tiers: Vec<Interval>,
    /// Latency that a TLB miss adds: from that of the nearest TLB to a walk. `None` if the survey saw none.
    pub translation: Option<Interval>,
}

/// Counts of misses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misses {
    /// Accesses that the nearest level did not serve.
    pub nearest: Interval,
    /// Accesses that memory served, if they are known.
    pub last: Option<Interval>,
    /// TLB misses, if they are known.
    pub translations: Option<Interval>,
}

/// Cycles beyond those of accesses that hit, by what served the misses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explained {
    /// Caches behind the nearest one.
    pub caches: Option<Interval>,
    /// These or memory, if what memory served is not counted.
    pub caches_or_memory: Option<Interval>,
    /// Memory.
    pub memory: Option<Interval>,
    /// Translation.
    pub translation: Option<Interval>,
    /// All of them.
    pub all: Interval,
}

impl AccessTimes {
    /// Returns those that a survey found; `None` without two tiers, or without both ends of their times in cycles. Memory that was
    /// not reached for certain has only a lower end.
    #[must_use]
    pub fn of_survey(report: &Report) -> Option<AccessTimes> {
        let tier = |n: u64| report.find(survey::TIER_LATENCY_CYCLES.at([n.into()]));
        let tiers: Option<Vec<Interval>> = (1..).map_while(tier).map(interval).collect();
        let tiers = tiers?;
        let cycles_per_ns = report.find(&common::CLOCK_CORE_HZ).and_then(Finding::finite)? / 1e9;
        let of = |metric: &'static Metric| report.of(metric).map(interval);
        // Without an end, a walk may take longer than all of them.
        let metrics: [&'static Metric; 2] = [&survey::TLB_PENALTY, &survey::WALK_LATENCY];
        let added: Option<Vec<Interval>> = metrics.into_iter().flat_map(of).collect();
        let added = added.unwrap_or_default();
        let translation = hull(added.into_iter()).map(|ns| ns.scaled(cycles_per_ns));
        (tiers.len() >= 2).then_some(AccessTimes { tiers, translation })
    }

    /// Returns what misses take.
    #[must_use]
    pub fn explain(&self, misses: &Misses) -> Option<Explained> {
        let (nearest, behind) = self.tiers.split_first()?;
        let (memory, caches) = behind.split_last()?;
        let beyond = |tiers: &[Interval]| Some(less(hull(tiers.iter().copied())?, *nearest));
        let of_memory = |count| product(count, less(*memory, *nearest));
        let (by_caches, by_either, by_memory) = match misses.last {
            // There is no cache in between.
            _ if caches.is_empty() => (None, None, Some(of_memory(misses.nearest))),
            Some(last) => {
                (Some(product(less(misses.nearest, last), beyond(caches)?)), None, Some(of_memory(last)))
            }
            None => (None, Some(product(misses.nearest, beyond(behind)?)), None),
        };
        let translation = misses.translations.zip(self.translation).map(|(count, time)| product(count, time));
        let all = [by_caches, by_either, by_memory, translation].into_iter().flatten().reduce(sum)?;
        Some(Explained {
            caches: by_caches,
            caches_or_memory: by_either,
            memory: by_memory,
            translation,
            all,
        })
    }
}

impl Explained {
    /// Adds the time of translations that a TLB behind the nearest one served.
    pub fn add_translation(&mut self, time: Interval) {
        self.translation = Some(self.translation.map_or(time, |known| sum(known, time)));
        self.all = sum(self.all, time);
    }
}

/// Returns the interval of a finding; `None` if one end of it is not known.
fn interval(f: &Finding) -> Option<Interval> {
    let is_bound = matches!(f.detail.get(CLAIMED), Some(Item::Number(_)));
    Some(Interval { value: f.finite()?, low: f.low?, high: f.high? }).filter(|_| !is_bound)
}

/// Returns an interval with all of them; its value is in the middle of the outermost values.
fn hull(all: impl Iterator<Item = Interval> + Clone) -> Option<Interval> {
    let least = |of: fn(&Interval) -> f64| all.clone().map(|i| of(&i)).reduce(f64::min);
    let most = |of: fn(&Interval) -> f64| all.clone().map(|i| of(&i)).reduce(f64::max);
    let value = (least(|i| i.value)? + most(|i| i.value)?) / 2.0;
    Some(Interval { value, low: least(|i| i.low)?, high: most(|i| i.high)? })
}

/// Returns the difference, not below 0, at the worst of both errors.
fn less(from: Interval, other: Interval) -> Interval {
    Interval {
        value: (from.value - other.value).max(0.0),
        low: (from.low - other.high).max(0.0),
        high: (from.high - other.low).max(0.0),
    }
}

fn product(a: Interval, b: Interval) -> Interval {
    Interval { value: a.value * b.value, low: a.low * b.low, high: a.high * b.high }
}

fn sum(a: Interval, b: Interval) -> Interval {
    Interval { value: a.value + b.value, low: a.low + b.low, high: a.high + b.high }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exactly(value: f64) -> Interval {
        Interval { value, low: value, high: value }
    }

    fn about(value: f64, low: f64, high: f64) -> Interval {
        Interval { value, low, high }
    }

    #[test]
    fn every_miss_takes_what_serves_it() {
        let times =
            AccessTimes { tiers: [4.0, 14.0, 104.0].map(exactly).to_vec(), translation: Some(exactly(30.0)) };
        let misses = Misses {
            nearest: exactly(1000.0),
            last: Some(exactly(100.0)),
            translations: Some(exactly(10.0)),
        };
        let explained = times.explain(&misses).expect("three tiers");
        assert_eq!(explained.caches, Some(exactly(9000.0)));
        assert_eq!(explained.memory, Some(exactly(10_000.0)));
        assert_eq!(explained.translation, Some(exactly(300.0)));
        assert_eq!(explained.all, exactly(19_300.0));
    }

    #[test]
    fn what_is_not_known_widens_the_interval() {
        // Two caches behind the nearest: each of them may serve.
        let times = AccessTimes { tiers: [4.0, 14.0, 44.0, 204.0].map(exactly).to_vec(), translation: None };
        let misses = Misses {
            nearest: exactly(1000.0),
            last: Some(exactly(100.0)),
            translations: Some(exactly(10.0)),
        };
        let explained = times.explain(&misses).expect("four tiers");
        assert_eq!(explained.caches, Some(about(900.0 * 25.0, 9000.0, 36_000.0)));
        assert_eq!((explained.memory, explained.translation), (Some(exactly(20_000.0)), None));
        // And memory too, if its accesses are not counted.
        let explained = times.explain(&Misses { last: None, ..misses }).expect("four tiers");
        assert_eq!(explained.caches_or_memory, Some(about(105_000.0, 10_000.0, 200_000.0)));
        assert_eq!((explained.caches, explained.memory), (None, None));
        // Errors of counts and times add up.
        let wide =
            AccessTimes { tiers: vec![about(4.0, 3.0, 5.0), about(54.0, 50.0, 60.0)], translation: None };
        let misses = Misses { nearest: about(10.0, 8.0, 12.0), last: None, translations: None };
        let explained = wide.explain(&misses).expect("two tiers");
        assert_eq!((explained.caches, explained.memory), (None, Some(about(500.0, 8.0 * 45.0, 12.0 * 57.0))));
    }

    #[test]
    fn fewer_misses_than_accesses_of_memory_are_no_negative_time() {
        let times = AccessTimes { tiers: [4.0, 14.0, 104.0].map(exactly).to_vec(), translation: None };
        // Prefetches may be counted in the last level only.
        let misses = Misses { nearest: exactly(10.0), last: Some(exactly(20.0)), translations: None };
        assert_eq!(times.explain(&misses).and_then(|explained| explained.caches), Some(exactly(0.0)));
    }

    #[test]
    fn a_survey_without_tiers_explains_nothing() {
        assert_eq!(AccessTimes::of_survey(&Report::default()), None);
    }

    /// A lower bound is not taken for the value.
    #[test]
    fn a_survey_that_did_not_reach_memory_explains_nothing() {
        let tier = |n: u64, cycles: f64| {
            let mut f = Finding::number(survey::TIER_LATENCY_CYCLES.at([n.into()]), cycles);
            (f.low, f.high) = (Some(cycles), Some(cycles));
            f
        };
        let clock = Finding::number(&common::CLOCK_CORE_HZ, 1e9);
        let mut report = Report { findings: vec![clock, tier(1, 4.0), tier(2, 104.0)], ..Report::default() };
        let whole = AccessTimes::of_survey(&report).expect("two tiers");
        assert_eq!(whole.tiers, [exactly(4.0), exactly(104.0)]);
        report.findings[2].detail.set(CLAIMED, Item::Number(1e6));
        assert_eq!(AccessTimes::of_survey(&report), None, "there may be a larger cache");
        report.findings[2] = Finding { high: None, ..tier(2, 104.0) };
        assert_eq!(AccessTimes::of_survey(&report), None);
    }
}
