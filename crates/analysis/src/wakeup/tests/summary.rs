//! Tests of percentiles, maxima and skipped activations.

use super::super::Activation;
use super::super::random::SeededRng;
use super::super::summary::*;
use super::synthetic;
use crate::interval::Interval;

fn run(us: &[f64]) -> Vec<Activation> {
    us.iter().enumerate().map(|(i, &us)| Activation { period: i as u64, us }).collect()
}

fn percentile(s: &Summary, token: &str) -> Result<Interval, Refusal> {
    s.percentiles.iter().find(|p| p.token == token).unwrap().us
}

#[test]
fn percentiles_need_enough_samples_for_both_bounds() {
    assert_eq!([0.5, 0.9, 0.99].map(needed), [6, 29, 299]);
    assert_eq!([0.999, 0.9999, 0.99999].map(needed), [2_995, 29_956, 299_572]);
    assert_eq!(ranks(2_994, 0.999), None);
    // The largest sample is the upper end; the lower end has almost none of the 5 %.
    let (low, high) = ranks(2_995, 0.999).unwrap();
    assert!(high == 2_994 && low < 2_984, "{low} {high}");
    assert_eq!(ranks(6, 0.5), Some((0, 5)));
    // The same as the median's interval in `interval`: the second of nine.
    assert_eq!(ranks(9, 0.5), Some((1, 7)));
    let few = summarise(&run(&[3.0; 100]), 1000.0).unwrap().seen;
    assert_eq!(percentile(&few, "p99.9"), Err(Refusal::TooFew { have: 100, need: 2_995 }));
    assert!(percentile(&few, "p90").is_ok());
    assert!(summarise(&[], 1000.0).is_none());
    assert!(summarise(&run(&[f64::NAN]), 1000.0).is_none());
}

#[test]
fn percentile_intervals_have_their_coverage() {
    let mut rng = SeededRng::new(1);
    for (q, token, n) in
        [(0.9, "p90", 29), (0.99, "p99", 1_000), (0.999, "p99.9", 2_995), (0.999, "p99.9", 8_000)]
    {
        let truth = -f64::ln(1.0 - q);
        let covered = (0..400)
            .filter(|_| {
                let v: Vec<f64> = (0..n).map(|_| rng.exponential()).collect();
                let i = percentile(&summarise(&run(&v), 1e9).unwrap().seen, token).unwrap();
                i.low <= truth && truth <= i.high && i.low <= i.value && i.value <= i.high
            })
            .count();
        println!("{token} of {n}: {covered} of 400 intervals hold the true one");
        // 95 % of 400 are 380; four standard errors are 17.
        assert!(covered >= 363, "{token} of {n}: {covered} of 400");
    }
}

#[test]
fn maximum_has_the_chance_of_being_exceeded() {
    let mut rng = SeededRng::new(2);
    let n = 1_000;
    let mut exceeded = 0;
    for _ in 0..400 {
        let mut draw = |n: usize| (0..n).map(|_| synthetic::body(&mut rng, 2.0)).fold(0.0, f64::max);
        exceeded += usize::from(draw(n) < draw(500));
    }
    let max = Maximum { us: 1.0, seen_in: n as u64 };
    // A third: 133 of 400, and four standard errors of 9.4.
    assert!((max.exceedance_probability(500) - 1.0 / 3.0).abs() < 1e-12);
    assert!((96..=171).contains(&exceeded), "{exceeded} of 400");
}

#[test]
fn stall_is_corrected_for_skipped_activations() {
    // Period 1 ms; the fourth is 5.3 ms late, so the next seen is the tenth: 4..=8 were missed.
    let mut activations = run(&[10.0, 10.0, 10.0, 5_300.0]);
    activations.extend([Activation { period: 9, us: 10.0 }, Activation { period: 12, us: 11.0 }]);
    let r = summarise(&activations, 1_000.0).unwrap();
    assert_eq!((r.seen.count, r.missed, r.explained, r.corrected.count), (6, 7, 5, 11));
    let largest: Vec<f64> =
        r.corrected.histogram.bars.iter().rev().take(6).map(|b| (b.0 / 100.0).round()).collect();
    assert_eq!(largest, [53.0, 43.0, 33.0, 23.0, 13.0, 3.0]);
    assert_eq!(r.seen.max, Maximum { us: 5_300.0, seen_in: 6 });
    // A task that catches up on missed periods has a sample of each: nothing is added.
    let all = run(&[10.0, 5_300.0, 4_300.0, 3_300.0, 2_300.0, 1_300.0, 300.0, 10.0]);
    let caught_up = summarise(&all, 1_000.0).unwrap();
    assert_eq!((caught_up.missed, caught_up.explained, caught_up.corrected), (0, 0, caught_up.seen));
    // The same from an imported histogram, which has no period numbers.
    let bars = corrected_bars(&[(10.0, 4), (5_300.0, 1), (11.0, 1)], 1_000.0);
    assert_eq!(bars.iter().map(|b| b.1).sum::<u64>(), 11);
    assert_eq!(of_bars(&bars).unwrap().mean, r.corrected.mean);
}

#[test]
fn correction_shows_what_omission_hides() {
    // One stall of 400 periods in 10,000: p99 of the seen activations does not show it, though 4 % of all periods were
    // late by milliseconds. The truth is a task that was activated in every period.
    let mut rng = SeededRng::new(3);
    let mut truth = Vec::new();
    let mut seen = Vec::new();
    for period in 0..10_000u64 {
        let us = synthetic::body(&mut rng, 2.0);
        let stalled = (2_000..2_400).contains(&period);
        let late = if stalled { us.max((2_400 - period) as f64 * 1_000.0) } else { us };
        truth.push(Activation { period, us: late });
        if !stalled || period == 2_000 {
            seen.push(Activation { period, us: late });
        }
    }
    let p99 = |s: &Summary| percentile(s, "p99").unwrap();
    let r = summarise(&seen, 1_000.0).unwrap();
    let whole = summarise(&truth, 1_000.0).unwrap().seen;
    assert!(p99(&r.seen).high < 100.0, "{:?}", p99(&r.seen));
    assert_eq!((r.missed, r.explained), (399, 399));
    assert!((p99(&r.corrected).value / p99(&whole).value - 1.0).abs() < 0.01);
}

#[test]
fn histogram_keeps_all_samples_within_one_percent() {
    let mut rng = SeededRng::new(4);
    let mut us: Vec<f64> = (0..20_000).map(|_| synthetic::pareto(&mut rng, 0.9, 5.0) + 0.5).collect();
    us.extend([-0.8, 0.0, 0.0005]);
    let s = summarise(&run(&us), 1e9).unwrap().seen;
    assert_eq!(s.histogram.below, 3);
    assert_eq!(s.histogram.bars.iter().map(|b| b.1).sum::<u64>() + 3, s.count);
    assert!(s.histogram.bars.windows(2).all(|w| w[1].0 / w[0].0 > 1.009));
    assert!(s.histogram.bars.len() < 1_200, "{}", s.histogram.bars.len());
    let last = s.histogram.bars.last().unwrap().0;
    assert!((last / s.max.us - 1.0).abs() < 0.006, "{last} for {}", s.max.us);
    let mean = us.iter().sum::<f64>() / us.len() as f64;
    let variance = us.iter().map(|u| (u - mean).powi(2)).sum::<f64>() / (us.len() - 1) as f64;
    assert!((s.mean - mean).abs() < 1e-9 * mean && (s.stddev - variance.sqrt()).abs() < 1e-9 * s.stddev);
}
