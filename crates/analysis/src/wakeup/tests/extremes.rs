//! Tests with tails of known levels.

use super::super::Activation;
use super::super::cadence::Candidate;
use super::super::extremes::*;
use super::super::random::SeededRng;
use super::synthetic;
use crate::seeds::Seeds;

const MS: u64 = 1_000_000;
/// An hour at 1 ms.
const HOUR: f64 = 3.6e6;
/// Five minutes at 1 ms.
const RUN: usize = 300_000;

fn request(seed: u64) -> Request {
    let tick = Candidate { name: "tick".into(), period_ns: 4 * MS };
    let throttle = Candidate { name: "throttle".into(), period_ns: 1000 * MS };
    Request {
        period_ns: MS,
        tick_ns: 4 * MS,
        once_in: HOUR,
        mixed_causes: false,
        candidates: vec![tick, throttle],
        seed,
    }
}

/// A body, and with probability `rare` a tail from `at`.
#[derive(Clone, Copy)]
struct Mixture {
    rare: f64,
    at: f64,
    shape: f64,
    scale: f64,
}

impl Mixture {
    fn run(&self, n: usize, seed: u64) -> Vec<Activation> {
        let mut rng = SeededRng::new(seed);
        (0..n as u64)
            .map(|period| {
                let rare = rng.unit() < self.rare;
                let tail = |c: &mut SeededRng| self.at + synthetic::pareto(c, self.shape, self.scale);
                let us = if rare { tail(&mut rng) } else { synthetic::body(&mut rng, 2.0) };
                Activation { period, us }
            })
            .collect()
    }

    /// Returns the level that one in `many` activations exceeds; the body never reaches it.
    fn level(&self, many: f64) -> f64 {
        let e = (many * self.rare).ln();
        self.at
            + if self.shape == 0.0 {
                self.scale * e
            } else {
                self.scale / self.shape * ((self.shape * e).exp() - 1.0)
            }
    }
}

#[test]
fn return_levels_lie_in_ninety_percent_of_intervals() {
    let seeds = Seeds::of(100, 30);
    for (what, mixture) in [
        ("the spike's mixture, shape 0.15", Mixture { rare: 0.002, at: 40.0, shape: 0.15, scale: 8.0 }),
        ("exponential tail", Mixture { rare: 0.005, at: 30.0, shape: 0.0, scale: 6.0 }),
        ("shape 0.3", Mixture { rare: 0.003, at: 35.0, shape: 0.3, scale: 5.0 }),
        ("shape -0.2", Mixture { rare: 0.004, at: 30.0, shape: -0.2, scale: 10.0 }),
    ] {
        let truth = mixture.level(HOUR);
        let (mut reported, mut covered, mut why) = (0, 0, std::collections::BTreeMap::new());
        let (mut widths, mut values) = (Vec::new(), Vec::new());
        // Not the seeds that were used to choose the constants.
        for seed in 5000..5000 + seeds.count {
            match level(&mixture.run(RUN, seed), &request(seed)) {
                Ok(l) => {
                    reported += 1;
                    covered += usize::from(l.us.low <= truth && truth <= l.us.high);
                    widths.push((l.us.high - l.us.low) / truth);
                    values.push(l.us.value);
                }
                Err(refusal) => *why.entry(refusal.token()).or_insert(0) += 1,
            }
        }
        println!(
            "{what}: true level {truth:.0} us; spoke in {reported} of {}, held in {covered} of {reported}; median {:.0} us, \
             median width {:.0} %; refused {why:?}",
            seeds.count,
            crate::interval::median(&values).unwrap(),
            100.0 * crate::interval::median(&widths).unwrap()
        );
        assert!(covered >= seeds.least(0.9, reported), "{what}: {covered} of {reported}");
        let answers = seeds.least(0.5, seeds.count as usize);
        assert!(reported >= answers, "{what}: {reported} of {}", seeds.count);
    }
}

fn refusals(
    runs: usize,
    request: impl Fn(u64) -> Request,
    run: impl Fn(u64) -> Vec<Activation>,
    token: &str,
) -> usize {
    (0..runs as u64).filter(|&s| level(&run(s), &request(s)).is_err_and(|e| e.token() == token)).count()
}

#[test]
fn tails_that_cannot_be_known_are_refused() {
    let few = Mixture { rare: 0.002, at: 40.0, shape: 0.15, scale: 8.0 };
    assert_eq!(refusals(10, request, |s| few.run(1_000, s), "too-few"), 10);
    assert_eq!(level(&[], &request(0)), Err(Refusal::TooFew { clusters: 0 }));
    let same = vec![Activation { period: 0, us: 5.0 }; 10_000];
    assert!(level(&same, &request(0)).is_err());
    let mixed = |s| Request { mixed_causes: true, ..request(s) };
    assert_eq!(level(&few.run(RUN, 1), &mixed(1)), Err(Refusal::MixedCauses));
    let within = |s| Request { once_in: 50.0, ..request(s) };
    let heavy = Mixture { rare: 0.003, at: 35.0, shape: 0.9, scale: 5.0 };
    let n = refusals(20, request, |s| heavy.run(RUN, s), "too-heavy");
    println!("shape 0.9: too heavy in {n} of 20");
    assert!(n >= 17, "{n} of 20");
    let n = (0..20).filter(|&s| level(&few.run(RUN, s), &within(s)) == Err(Refusal::Within)).count();
    assert!(n >= 10, "{n} of 20");
}

/// Forty clusters of a heavy tail: the hourly level is unknown.
#[test]
fn interval_wider_than_a_decade_is_refused() {
    let vague = Mixture { rare: 40.0 / RUN as f64, at: 40.0, shape: 0.4, scale: 30.0 };
    let (mut wide, mut reported) = (0, 0);
    for seed in 0..60 {
        match level(&vague.run(RUN, seed), &Request { once_in: 1000.0 * HOUR, ..request(seed) }) {
            Ok(l) => {
                reported += 1;
                assert!(l.us.high <= 10.0 * l.us.low, "{l:?}");
            }
            Err(Refusal::TooWide { low, high }) => {
                wide += 1;
                assert!(low > 0.0 && high > 10.0 * low, "{low} {high}");
            }
            Err(_) => {}
        }
    }
    println!("a thousand hours from forty clusters: too wide in {wide} of 60, spoke in {reported}");
    assert!(wide >= 1, "{wide} of 60");
}

#[test]
fn periodic_second_cause_is_not_extrapolated() {
    let few = Mixture { rare: 0.002, at: 40.0, shape: 0.15, scale: 8.0 };
    let throttled = |s: u64| {
        let mut run = few.run(RUN, s);
        run.iter_mut().filter(|a| a.period % 1000 == 17).for_each(|a| a.us += 100.0);
        run
    };
    let n = refusals(20, request, throttled, "periodic");
    println!("a stall once a second: periodic in {n} of 20");
    assert!((0..20).all(|s| level(&throttled(s), &request(s)).is_err()), "a cadence is never extrapolated");
    // If the two causes do not form one tail, other refusals come first.
    assert!(n >= 1, "{n} of 20");
}

#[test]
fn changing_run_is_not_extrapolated() {
    let calm = Mixture { rare: 0.001, at: 40.0, shape: 0.0, scale: 8.0 };
    let wild = Mixture { rare: 0.005, at: 40.0, shape: 0.0, scale: 16.0 };
    let changed = |s: u64| {
        let mut run = calm.run(RUN, s);
        run[RUN / 2..].copy_from_slice(&wild.run(RUN, s + 100)[RUN / 2..]);
        run
    };
    let reported = (0..20).filter(|&s| level(&changed(s), &request(s)).is_ok()).count();
    println!("a run that changes in the middle: extrapolated in {reported} of 20");
    assert_eq!(reported, 0);
}

#[test]
fn bursts_count_once() {
    // Each late activation is followed by four slightly less late ones: the same number of clusters.
    let few = Mixture { rare: 0.001, at: 40.0, shape: 0.1, scale: 8.0 };
    let alone = few.run(RUN, 3);
    let mut burst = alone.clone();
    for i in 0..RUN - 4 {
        if alone[i].us > 40.0 {
            (1..=4).for_each(|k| burst[i + k].us = burst[i + k].us.max(alone[i].us - k as f64));
        }
    }
    let (a, b) = (level(&alone, &request(3)).unwrap(), level(&burst, &request(3)));
    // Bursts must not be counted five times.
    let b = b.unwrap();
    assert!(b.us.low < few.level(HOUR) && few.level(HOUR) < b.us.high, "{a:?} {b:?}");
    assert!(b.clusters as f64 <= 1.2 * RUN as f64 * few.rare, "{b:?}");
}

#[test]
fn fit_recovers_shape_and_scale() {
    let mut rng = SeededRng::new(11);
    for shape in [-0.3, 0.0, 0.2, 0.6] {
        let mut excesses: Vec<f64> = (0..4_000).map(|_| synthetic::pareto(&mut rng, shape, 7.0)).collect();
        excesses.sort_by(f64::total_cmp);
        let fit = Pareto::fit(&excesses);
        // Four standard errors.
        assert!((fit.shape - shape).abs() < 4.0 * fit.shape_error(4_000), "{shape}: {fit:?}");
        assert!((fit.scale / 7.0 - 1.0).abs() < 0.12, "{shape}: {fit:?}");
    }
}
