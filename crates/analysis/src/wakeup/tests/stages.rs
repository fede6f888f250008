//! Tests of the stages of the worst activations.

use super::super::random::SeededRng;
use super::super::stages::*;

fn activations(late: &dyn Fn(usize) -> Option<usize>) -> Vec<StagedActivation> {
    let mut rng = SeededRng::new(7);
    (0..5_000)
        .map(|i| {
            // The second stage is always the longest, so it explains nothing.
            let mut us = [2.0, 30.0, 4.0, 1.5].map(|m| m * (0.9 + 0.2 * rng.unit()));
            if let Some(stage) = late(i) {
                us[stage] += 20.0 + 10.0 * rng.unit();
            }
            StagedActivation { period: i as u64, us: [us[0], us[1], us[2] + us[3]], switch: Some(us[2]) }
        })
        .collect()
}

#[test]
fn worst_latency_names_the_delaying_stage_not_the_longest() {
    let r = read(&activations(&|i| (i % 500 == 3).then_some(2)), 10).unwrap();
    assert_eq!(r.count, 5_000);
    assert_eq!(r.worst.len(), 10);
    assert!(r.worst.iter().all(|w| w.dominant == Stage::WakeupToSwitch && w.share > 0.8), "{:?}", r.worst);
    assert!(r.worst.iter().all(|w| w.activation.period % 500 == 3));
    assert!(r.worst.windows(2).all(|w| w[0].activation.total() >= w[1].activation.total()));
    let row = r.rows[2];
    assert_eq!((row.stage.token(), row.dominates), ("wakeup-to-switch", 10));
    assert!(row.all.high < 4.1 && row.worst.low > 20.0, "{row:?}");
    assert!((r.rows[1].worst.value / r.rows[1].all.value - 1.0).abs() < 0.1);
    assert_eq!(r.common(0.8), Some(Stage::WakeupToSwitch));
}

#[test]
fn different_causes_have_no_common_stage() {
    let r = read(&activations(&|i| (i % 500 == 3).then_some(if i % 1000 == 3 { 0 } else { 2 })), 10).unwrap();
    assert_eq!(r.common(0.8), None);
    assert_eq!(r.rows.iter().map(|row| row.dominates).collect::<Vec<_>>(), [5, 0, 5, 0]);
}

#[test]
fn empty_and_invalid_input_has_no_stages() {
    assert_eq!(read(&[], 5), None);
    let one = |us: f64| StagedActivation { period: 0, us: [us, 1.0, 2.0], switch: Some(1.0) };
    assert_eq!(read(&[one(f64::NAN)], 5), None);
    assert_eq!(read(&[StagedActivation { switch: Some(f64::NAN), ..one(1.0) }], 5), None);
    assert_eq!(read(&[one(1.0)], 0), None);
    let r = read(&[one(1.0)], 5).unwrap();
    assert_eq!((r.worst.len(), r.worst[0].share), (1, 0.0));
}

#[test]
fn missing_switch_merges_the_last_two_stages() {
    let mut all = activations(&|i| (i % 500 == 3).then_some(2));
    let whole = read(&all, 10).unwrap();
    // If a few activations lack the switch, only these are left out.
    all.iter_mut().step_by(20).for_each(|a| a.switch = None);
    let r = read(&all, 10).unwrap();
    assert_eq!((r.count, r.rows.len(), r.common(0.8)), (4_750, 4, Some(Stage::WakeupToSwitch)));
    // If most lack it, none is left out, and the late ones are the same.
    all.iter_mut().filter(|a| a.period % 3 != 0).for_each(|a| a.switch = None);
    let r = read(&all, 10).unwrap();
    assert_eq!((r.count, r.rows.len(), r.common(0.8)), (5_000, 3, Some(Stage::WakeupToUser)));
    let late = |r: &Reading| r.worst.iter().map(|w| w.activation.period).collect::<Vec<_>>();
    assert_eq!(late(&r), late(&whole));
    let sum = whole.rows[2].all.value + whole.rows[3].all.value;
    assert!((r.rows[2].all.value / sum - 1.0).abs() < 0.01, "{:?}", r.rows[2]);
}
