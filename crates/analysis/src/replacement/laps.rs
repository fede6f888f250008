//! Terms of a policy for whole laps that were counted or timed.

use super::LapPrediction;
use super::noise::{COUNT_FLOOR, MIN_TOTALS_FOR_OUTLIER, Noise, TIME_FLOOR, Term};
use super::observation::{LapObservation, Total};

/// Number of costs: of an access, of a miss in the nearer level, of a miss in the level under test.
const COSTS: usize = 3;

/// Returns the terms of a policy with these predictions; `None` if a prediction depends on the initial state.
pub(super) fn terms(noise: &Noise, totals: &[Total], predicted: &[LapPrediction]) -> Vec<Option<Term>> {
    let costs = costs(totals, predicted);
    let scored = totals.iter().zip(predicted).map(|(total, predicted)| {
        let predicted = &counted_of(total, predicted);
        let sound = total.seen.value().is_finite() && total.error.is_finite();
        if !predicted.steady || !sound {
            return None;
        }
        Some(match total.seen {
            LapObservation::Misses(_) if predicted.accesses == 0.0 => return None,
            LapObservation::Misses(seen) => counted(noise, predicted, seen, total.error),
            LapObservation::Time(seen) | LapObservation::Cost(seen) => {
                let expected = time(&costs, predicted);
                let variance = uncertainty(&costs, predicted, seen, total.error);
                term((seen - expected).powi(2) / variance, variance, expected, seen)
            }
        })
    });
    scored.collect()
}

fn term(deviance: f64, variance: f64, predicted: f64, observed: f64) -> Term {
    let log_likelihood = -0.5 * (deviance + (std::f64::consts::TAU * variance).ln());
    Term { log_likelihood, deviance, predicted, observed }
}

/// Returns the term of a lap's misses, which may have been counted (exact) or classified (with errors).
fn counted(noise: &Noise, predicted: &LapPrediction, seen: f64, error: f64) -> Term {
    let (misses, accesses) = (predicted.missed, predicted.accesses);
    let reported = accesses * noise.reported(misses / accesses);
    let nearest = seen.clamp(misses.min(reported), misses.max(reported));
    let variance = error * error + predicted.error.powi(2) + (COUNT_FLOOR * accesses).powi(2);
    term((seen - nearest).powi(2) / variance, variance, nearest, seen)
}

/// Returns the counts of a total; for the cost of a miss, one miss.
fn counted_of(total: &Total, predicted: &LapPrediction) -> LapPrediction {
    if !matches!(total.seen, LapObservation::Cost(_)) {
        return *predicted;
    }
    LapPrediction {
        accesses: 0.0,
        missed_nearer: 0.0,
        nearer_error: 0.0,
        missed: 1.0,
        error: 0.0,
        steady: true,
    }
}

fn counts(predicted: &LapPrediction) -> [f64; COSTS] {
    [predicted.accesses, predicted.missed_nearer, predicted.missed]
}

fn time(costs: &[f64; COSTS], predicted: &LapPrediction) -> f64 {
    costs.iter().zip(counts(predicted)).map(|(cost, count)| cost * count).sum()
}

/// Returns the variance of a lap's time about its prediction. The predictions of both levels come from the same
/// simulated laps, so their errors are added (worst case).
fn uncertainty(costs: &[f64; COSTS], predicted: &LapPrediction, seen: f64, error: f64) -> f64 {
    let simulated = (costs[1] * predicted.nearer_error).abs() + (costs[2] * predicted.error).abs();
    // The lower bound keeps the variance of a time of 0 positive.
    error.max(TIME_FLOOR * seen.abs()).max(f64::MIN_POSITIVE.sqrt()).powi(2) + simulated * simulated
}

/// Fits the costs to the times of the laps. With many laps the worst one is left out, as in the absolute test, because
/// it would distort the costs for all others.
fn costs(totals: &[Total], predicted: &[LapPrediction]) -> [f64; COSTS] {
    let mut timed: Vec<(LapPrediction, f64, f64)> = Vec::new();
    for (total, predicted) in totals.iter().zip(predicted).filter(|(_, p)| p.steady) {
        if let LapObservation::Time(seen) | LapObservation::Cost(seen) = total.seen
            && seen.is_finite()
            && total.error.is_finite()
        {
            timed.push((counted_of(total, predicted), seen, total.error));
        }
    }
    let all = best(&timed);
    if timed.len() < MIN_TOTALS_FOR_OUTLIER {
        return all;
    }
    let deviance = |(predicted, seen, error): &(LapPrediction, f64, f64)| {
        (seen - time(&all, predicted)).powi(2) / uncertainty(&all, predicted, *seen, *error)
    };
    // Independently known costs are never outliers.
    let laps = (0..timed.len()).filter(|&i| timed[i].0.accesses > 0.0);
    let worst = laps.max_by(|&i, &j| deviance(&timed[i]).total_cmp(&deviance(&timed[j])));
    if let Some(worst) = worst {
        timed.swap_remove(worst);
    }
    best(&timed)
}

/// Fits the costs to these laps, each with time and error, by least squares. Undetermined costs (the nearer miss
/// without a nearer level) are 0.
fn best(timed: &[(LapPrediction, f64, f64)]) -> [f64; COSTS] {
    let mut costs = [0.0; COSTS];
    // The weight of the simulation's errors depends on the cost of a miss: one pass without them, then two with them.
    for _ in 0..3 {
        let (mut matrix, mut right) = ([[0.0; COSTS]; COSTS], [0.0; COSTS]);
        for (predicted, seen, error) in timed {
            let weight = 1.0 / uncertainty(&costs, predicted, *seen, *error);
            let counts = counts(predicted);
            for i in 0..COSTS {
                right[i] += weight * counts[i] * seen;
                (0..COSTS).for_each(|j| matrix[i][j] += weight * counts[i] * counts[j]);
            }
        }
        costs = solved(matrix, right);
    }
    costs
}

/// Relative size of a pivot below which an unknown counts as a combination of earlier ones.
const MIN_PIVOT: f64 = 1e-9;

/// Solves the normal equations by elimination; undetermined unknowns are 0.
fn solved(mut matrix: [[f64; COSTS]; COSTS], mut right: [f64; COSTS]) -> [f64; COSTS] {
    let whole: Vec<f64> = (0..COSTS).map(|i| matrix[i][i]).collect();
    for i in 0..COSTS {
        if matrix[i][i] <= MIN_PIVOT * whole[i] {
            continue;
        }
        let (row, value) = (matrix[i], right[i]);
        for j in (0..COSTS).filter(|&j| j != i) {
            let factor = matrix[j][i] / row[i];
            (0..COSTS).for_each(|k| matrix[j][k] -= factor * row[k]);
            right[j] -= factor * value;
        }
    }
    let mut costs = [0.0; COSTS];
    for i in 0..COSTS {
        if matrix[i][i] > MIN_PIVOT * whole[i] {
            costs[i] = right[i] / matrix[i][i];
        }
    }
    costs
}
