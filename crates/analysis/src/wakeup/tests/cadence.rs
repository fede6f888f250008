//! Tests with simulated cadences, and with exceedances without one.

use super::super::cadence::*;
use super::super::random::SeededRng;
use super::synthetic::normal;
use crate::seeds::Seeds;

const MS: u64 = 1_000_000;

fn candidates() -> Vec<Candidate> {
    [("tick", 4 * MS), ("tick-1000", MS), ("tick-100", 10 * MS), ("quota", 100 * MS), ("throttle", 1000 * MS)]
        .map(|(name, period_ns)| Candidate { name: name.into(), period_ns })
        .to_vec()
}

// The seeds from 10,000 on were not used to choose constants.

/// Exceedances of a task of period `grid` over `span`: an event is observed at the next activation.
struct Simulation {
    span: u64,
    grid: u64,
    rng: SeededRng,
    times: Vec<u64>,
}

impl Simulation {
    fn new(span: u64, grid: u64, seed: u64) -> Simulation {
        Simulation { span, grid, rng: SeededRng::new(seed), times: Vec::new() }
    }

    /// `n` random events.
    fn background(mut self, n: usize) -> Simulation {
        for _ in 0..n {
            let at = (self.rng.unit() * self.span as f64) as u64;
            self.times.push(at.div_ceil(self.grid) * self.grid);
        }
        self
    }

    /// Adds one event per `period`, of which a share `kept` is observed, each with `jitter` (standard deviation).
    fn cadence(mut self, period: u64, kept: f64, jitter: f64) -> Simulation {
        let mut at = self.rng.unit() * period as f64;
        while at < self.span as f64 {
            let off = jitter * normal(&mut self.rng);
            if self.rng.unit() < kept && at + off > 0.0 {
                self.times.push(((at + off) as u64).div_ceil(self.grid) * self.grid);
            }
            at += period as f64;
        }
        self
    }

    /// Adds bursts of 50 activations, of which every third is late on average.
    fn storms(mut self, n: usize) -> Simulation {
        for _ in 0..n {
            let at = ((self.rng.unit() * self.span as f64) as u64).div_ceil(self.grid);
            for i in 0..50 {
                if self.rng.unit() < 1.0 / 3.0 {
                    self.times.push((at + i) * self.grid);
                }
            }
        }
        self
    }

    /// Bursts of up to five late activations in a row.
    fn bursts(mut self, n: usize) -> Simulation {
        for _ in 0..n {
            let at = ((self.rng.unit() * self.span as f64) as u64).div_ceil(self.grid);
            let long = 1 + self.rng.below(5) as u64;
            self.times.extend((0..long).map(|i| (at + i) * self.grid));
        }
        self
    }

    fn times(mut self) -> Vec<u64> {
        self.times.sort_unstable();
        self.times.dedup();
        self.times
    }
}

#[test]
fn exceedances_at_random_have_no_cadence() {
    let seeds = Seeds::of(100, 15);
    let mut report = Vec::new();
    for (what, grid, span, n, bursts, storms) in [
        ("300 in 300 s at 1 ms", MS, 300_000 * MS, 300, 0, 0),
        ("60 in 60 s at 1 ms", MS, 60_000 * MS, 60, 0, 0),
        ("3000 in 60 s at 1 ms", MS, 60_000 * MS, 3000, 0, 0),
        ("600 in 30 s at 100 us", MS / 10, 30_000 * MS, 600, 0, 0),
        ("300 bursts in 300 s at 1 ms", MS, 300_000 * MS, 0, 300, 0),
        ("30 storms in 300 s at 1 ms", MS, 300_000 * MS, 0, 0, 30),
        ("100 storms and 100 others in 300 s at 1 ms", MS, 300_000 * MS, 100, 0, 100),
    ] {
        let wrong: Vec<_> = (31_000..31_000 + seeds.count)
            .filter_map(|seed| {
                let times =
                    Simulation::new(span, grid, seed).background(n).bursts(bursts).storms(storms).times();
                find(&times, grid, &candidates()).into_iter().next()
            })
            .collect();
        println!("no cadence, {what}: {} of {} false", wrong.len(), seeds.count);
        if let Some(first) = wrong.first() {
            println!("  {first:?}");
        }
        report.push(wrong.len());
    }
    assert_eq!(report, [0; 7]);
}

/// Fewer than half of the exceedances of three seconds recur: at a significance level of 1 % two of these series would
/// have a cadence, at 30 % eight.
#[test]
fn weak_cadence_is_not_significant() {
    let mut found = Vec::new();
    for seed in 35_000..35_040 {
        let times = Simulation::new(3_000 * MS, MS, seed).cadence(37 * MS, 0.3, 0.3e6).background(30).times();
        found.extend(find(&times, MS, &candidates()));
    }
    assert!(found.len() <= 1, "{found:?}");
}

#[test]
fn planted_cadences_are_named_alone() {
    let seeds = Seeds::of(100, 15);
    for (name, period, jitter, kept, background, span) in [
        ("throttle", 1000 * MS, 2e6, 0.8, 60, 60_000 * MS),
        ("throttle", 1000 * MS, 0.5e6, 0.7, 150, 300_000 * MS),
        ("quota", 100 * MS, 1e6, 0.7, 300, 60_000 * MS),
        ("quota", 100 * MS, 0.3e6, 0.4, 200, 60_000 * MS),
        ("tick", 4 * MS, 0.2e6, 0.05, 300, 60_000 * MS),
        ("tick", 4 * MS, 0.1e6, 0.03, 100, 100_000 * MS),
    ] {
        let mut named = 0;
        let (mut held, mut shares) = (0, 0);
        for seed in 0..seeds.count {
            let of = Simulation::new(span, MS, 32_000 + seed).cadence(period, kept, jitter);
            let members = of.times.len();
            let times = of.background(background).times();
            let found = find(&times, MS, &candidates());
            let right = found.len() == 1 && found[0].names == [name];
            named += usize::from(right);
            if right {
                let t = found[0].period_ns;
                held += usize::from(t.low <= period as f64 && period as f64 <= t.high);
                let truth = members as f64 / times.len() as f64;
                shares += usize::from((found[0].share.value - truth).abs() < 0.15);
            } else {
                println!("  seed {seed}: {found:?}");
            }
        }
        println!(
            "{name}, {kept} seen, jitter {} ms, {background} others, {} s: {named} of {} named, of these the \
             interval holds the period in {held}, the share is within 0.15 in {shares}",
            jitter / 1e6,
            span / 1000 / MS,
            seeds.count
        );
        assert!(named >= seeds.least(0.95, seeds.count as usize), "{name}: {named} of {}", seeds.count);
        assert!(held >= seeds.least(0.95, named), "{name}: {held} of {named}");
        assert!(shares >= seeds.least(0.95, named), "{name}: {shares} of {named}");
    }
}

#[test]
fn unnamed_cadence_is_reported_by_period() {
    let times = Simulation::new(60_000 * MS, MS, 5).cadence(37 * MS, 0.6, 0.3e6).background(200).times();
    let found = find(&times, MS, &candidates());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].names.is_empty());
    assert!((found[0].period_ns.value / 37e6 - 1.0).abs() < 1e-3, "{found:?}");
}

#[test]
fn cause_of_another_period_recurs_at_the_common_multiple() {
    // A tick of 4 ms meets a task of 3 ms every 12 ms.
    let grid = 3 * MS;
    let mut rng = SeededRng::new(9);
    let times: Vec<u64> =
        (0..20_000u64).map(|i| i * grid).filter(|t| t % (4 * MS) == 0 && rng.unit() < 0.5).collect();
    let found = find(&times, grid, &candidates());
    assert_eq!(found[0].names, ["tick"], "{found:?}");
    assert!((found[0].period_ns.value / 12e6 - 1.0).abs() < 1e-3, "{found:?}");
}

#[test]
fn two_cadences_are_both_found() {
    // 1 s is not a multiple of 37 ms. With a multiple at the same phase the two would be one cadence.
    let seeds = Seeds::of(50, 25);
    let mut both = 0;
    for seed in 0..seeds.count {
        let times = Simulation::new(120_000 * MS, MS, 33_000 + seed)
            .cadence(1000 * MS, 0.95, 0.3e6)
            .cadence(37 * MS, 0.1, 0.1e6)
            .background(50)
            .times();
        let found = find(&times, MS, &candidates());
        let mut periods: Vec<_> = found.iter().map(|c| (c.period_ns.value / 1e6).round()).collect();
        periods.sort_by(f64::total_cmp);
        both += usize::from(periods == [37.0, 1000.0]);
    }
    println!("1 s and 37 ms together: both found in {both} of {}", seeds.count);
    assert!(both >= seeds.least(0.9, seeds.count as usize), "{both} of {}", seeds.count);
}

#[test]
fn too_few_or_too_short_series_have_no_cadence() {
    assert!(find(&[], MS, &candidates()).is_empty());
    assert!(find(&[5; 40], MS, &candidates()).is_empty());
    assert!(find(&[0, u64::MAX], 0, &candidates()).is_empty());
    // A grid of 1 ns, and times near the largest number.
    let odd: Vec<u64> = (0..40).map(|i| u64::MAX - i * i * 77_777_777).collect();
    assert!(find(&odd, 0, &candidates()).is_empty());
    let nine: Vec<u64> = (0..9).map(|i| i * 100 * MS).collect();
    assert!(find(&nine, MS, &candidates()).is_empty());
}
