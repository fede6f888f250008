//! Tests with known effects.

use super::super::factorial::*;
use super::super::random::SeededRng;
use super::synthetic::{normal, p999, true_p999};
use crate::interval::Interval;

/// Activations per case: 4 s at 1 ms.
const RUN: usize = 4_000;
/// Number of blocks.
const BLOCKS: usize = 5;

fn on(levels: &[bool], factor: usize) -> f64 {
    f64::from(u8::from(levels[factor]))
}

/// Shift and scale of the samples of a case.
type Truth<'a> = &'a dyn Fn(&[bool]) -> (f64, f64);

/// Simulates a session: each block in its own order, on a machine that drifts within a block and jumps between blocks.
fn session(design: &Design, blocks: usize, truth: Truth, seed: u64) -> Vec<Measured> {
    let mut rng = SeededRng::new(seed);
    let mut measured = Vec::new();
    for (block, cases) in design.order(blocks, seed).into_iter().enumerate() {
        let jump = normal(&mut rng);
        for (i, case) in cases.into_iter().enumerate() {
            let (shift, scale) = truth(design.levels(case));
            let drift = jump + 0.05 * i as f64 + 0.3 * normal(&mut rng);
            measured.push(Measured { block, case, us: p999(&mut rng, RUN, shift + drift, scale) });
        }
    }
    measured
}

fn holds(i: Interval, truth: f64) -> bool {
    i.low <= truth && truth <= i.high
}

#[test]
fn designs_separate_factors_from_each_other_and_interactions() {
    assert!(Design::new(0).is_none() && Design::new(MAX_FACTORS + 1).is_none());
    for factors in 1..=MAX_FACTORS {
        let d = Design::new(factors).unwrap();
        assert_eq!((d.factors(), d.cases()), (factors, 1 << factors.min(4)));
        assert!(d.levels(d.cases()).is_empty());
        let sign =
            |of: &[usize], c: usize| of.iter().map(|&f| 2.0 * on(d.levels(c), f) - 1.0).product::<f64>();
        let same =
            |a: &[usize], b: &[usize]| (0..d.cases()).map(|c| sign(a, c) * sign(b, c)).sum::<f64>().abs();
        for a in 0..factors {
            assert_eq!(same(&[a], &[]), 0.0, "on in half of the cells");
            for b in a + 1..factors {
                assert_eq!(same(&[a], &[b]), 0.0, "{factors}: {a} and {b}");
                (0..factors).filter(|&c| c != a && c != b).for_each(|c| {
                    assert_eq!(same(&[c], &[a, b]), 0.0, "{factors}: resolution III");
                });
            }
        }
        let pairs: usize = d.groups().iter().map(Vec::len).sum();
        assert_eq!(pairs, factors * (factors - 1) / 2);
        assert!(factors > 5 || d.groups().iter().all(|g| g.len() == 1), "up to five no pair is aliased");
        for group in d.groups() {
            for pair in &group[1..] {
                let whole = same(&[group[0].0, group[0].1], &[pair.0, pair.1]);
                assert_eq!(whole, d.cases() as f64, "{group:?}");
            }
        }
    }
    // 2^(6-2) with E = ABC and F = BCD: AB is confounded with CE, and so on: seven groups.
    let six = Design::new(6).unwrap();
    assert_eq!(six.groups().len(), 7);
    assert!(six.groups().contains(&vec![(0, 1), (2, 4)]));
}

#[test]
fn orders_are_random_complete_and_repeatable() {
    let d = Design::new(5).unwrap();
    let order = d.order(4, 1);
    assert_eq!(order, d.order(4, 1));
    assert_ne!(order, d.order(4, 2));
    assert_ne!(order[0], order[1]);
    for block in &order {
        let mut cases = block.clone();
        cases.sort_unstable();
        assert_eq!(cases, (0..16).collect::<Vec<_>>());
    }
}

#[test]
fn planted_effects_are_recovered() {
    // Read, write, footprint, page walks, faults, TLB shootdowns: shifts add to p99.9 directly.
    let shifts = [0.5, 2.0, 0.0, 1.0, 11.0, 4.0];
    for factors in [4, 5, 6] {
        let design = Design::new(factors).unwrap();
        let truth = |l: &[bool]| ((0..factors).map(|f| shifts[f] * on(l, f)).sum(), 2.0);
        let (mut sets, mut single, mut false_pairs) = (0, 0, 0);
        for seed in 0..100 {
            let e = effects(&design, &session(&design, BLOCKS, &truth, seed)).unwrap();
            let held = (0..factors).filter(|&f| holds(e.factors[f], shifts[f])).count();
            sets += usize::from(held == factors);
            single += held;
            false_pairs += usize::from(e.groups.iter().any(|g| !holds(g.us, 0.0)));
        }
        println!(
            "{factors} factors, {BLOCKS} blocks: all effects in their intervals in {sets} of 100, {single} of {} single \
             ones; an interaction that is none in {false_pairs} of 100",
            100 * factors
        );
        assert!(sets >= 90, "{factors}: {sets} of 100");
        assert!(false_pairs <= 12, "{factors}: {false_pairs} of 100");
    }
}

#[test]
fn planted_scale_effects_and_interactions_are_recovered() {
    // Factors that stretch the tail: p99.9 increases by more than the mean of the samples. Factors 1 and 3 interact.
    let scale = |l: &[bool]| {
        2.0 * (1.0 + 0.3 * on(l, 0) + 0.1 * on(l, 1) + 0.6 * on(l, 4) + 0.4 * on(l, 1) * on(l, 3))
    };
    let design = Design::new(5).unwrap();
    let us = true_p999(RUN, 0.0, 2.0) - 20.0;
    // Averaged over the other factors, an effect contains half of its interaction.
    let planted = [0.3, 0.1 + 0.2, 0.0, 0.2, 0.6].map(|part| part * us);
    let (mut sets, mut pairs) = (0, 0);
    for seed in 0..100 {
        let e = effects(&design, &session(&design, BLOCKS, &|l| (0.0, scale(l)), 500 + seed)).unwrap();
        sets += usize::from((0..5).all(|f| holds(e.factors[f], planted[f])));
        let group = e.groups.iter().find(|g| g.pairs.contains(&(1, 3))).unwrap();
        pairs += usize::from(holds(group.us, 0.4 * us) && group.us.low > 0.0);
    }
    println!(
        "effects on the scale: all in their intervals in {sets} of 100; the interaction seen and in its interval in \
         {pairs}"
    );
    assert!(sets >= 90, "{sets} of 100");
    assert!(pairs >= 90, "{pairs} of 100");
}

#[test]
fn an_increase_is_attributed_by_dose() {
    let i = |value: f64, off: f64| Interval { value, low: value - off, high: value + off };
    let effects = [i(22.0, 2.0), i(2.0, 0.5), i(5.0, 1.0), i(3.0, 1.0)];
    let doses = [
        Some(Dose { load: 50_000.0, alone: 100_000.0 }),
        Some(Dose { load: 9e9, alone: 3e9 }),
        None,
        Some(Dose { load: 1.0, alone: 0.0 }),
    ];
    let a = attribute(i(14.8, 1.0), &effects, &doses);
    assert_eq!(a.factors[0], Explained { us: Some(i(11.0, 1.0)), at_least: false });
    assert_eq!(a.factors[1], Explained { us: Some(i(2.0, 0.5)), at_least: true }, "at most its whole effect");
    assert_eq!(a.factors[2].us, None);
    assert_eq!(a.factors[3].us, None, "a factor that did nothing explains nothing");
    assert!((a.unexplained.value - 1.8).abs() < 1e-9);
    // 1, 1 and 0.5 in quadrature.
    assert!((a.unexplained.high - 3.3).abs() < 1e-9 && (a.unexplained.low - 0.3).abs() < 1e-9, "{a:?}");
}

#[test]
fn added_latency_is_explained_within_intervals() {
    // A load with 60 % of the faults, all of the bandwidth, and 1.5 us that belong to no factor.
    let shifts = [2.0, 0.0, 3.0, 11.0];
    let parts = [1.0, 0.3, 0.0, 0.6];
    let design = Design::new(4).unwrap();
    let truth = |l: &[bool]| ((0..4).map(|f| shifts[f] * on(l, f)).sum(), 2.0);
    let doses = parts.map(|part| Some(Dose { load: part, alone: 1.0 }));
    let added: f64 = shifts.iter().zip(parts).map(|(s, p)| s * p).sum::<f64>() + 1.5;
    let mut held = 0;
    for seed in 0..100 {
        let e = effects(&design, &session(&design, BLOCKS, &truth, 900 + seed)).unwrap();
        let mut rng = SeededRng::new(seed);
        let mut each = |shift: f64| {
            let repeats: Vec<f64> = (0..12).map(|_| p999(&mut rng, RUN, shift, 2.0)).collect();
            crate::interval::median_interval(&repeats).unwrap()
        };
        let (before, behind) = (each(0.0), each(added));
        let value = behind.value - before.value;
        let low = value - (behind.value - behind.low).hypot(before.high - before.value);
        let high = value + (behind.high - behind.value).hypot(before.value - before.low);
        let a = attribute(Interval { value, low, high }, &e.factors, &doses);
        let each = (0..4).all(|f| holds(a.factors[f].us.unwrap(), shifts[f] * parts[f]));
        held += usize::from(each && holds(a.unexplained, 1.5));
    }
    println!("attribution: every factor's part and the rest in their intervals in {held} of 100");
    assert!(held >= 90, "{held} of 100");
}

#[test]
fn blocks_without_all_cells_are_left_out() {
    let design = Design::new(2).unwrap();
    let mut measured = session(&design, 3, &|_| (0.0, 2.0), 1);
    let at = measured.iter().position(|m| m.block == 1 && m.case == 2).unwrap();
    measured[at].us = f64::NAN;
    let e = effects(&design, &measured).unwrap();
    assert_eq!((e.blocks, e.incomplete), (2, 1));
    measured.retain(|m| m.block > 0);
    assert_eq!(effects(&design, &measured), Err(Refusal::TooFew { blocks: 1 }));
}
