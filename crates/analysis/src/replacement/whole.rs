//! Laps that were counted or timed as a whole, as a policy explains them.

use super::LapPrediction;
use super::noise::{COUNT_FLOOR, Noise, TIME_FLOOR, TOTALS_FOR_ONE_OUTLIER, Term};
use super::observation::{LapObservation, Total};

/// What costs time: an access, a miss in the nearer level, a miss in the level under test.
const COSTS: usize = 3;

/// The terms of a policy that predicts these laps. `None` where that depends on the start.
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

/// The misses of a lap may have been counted, free of errors of telling, or classified, with them.
fn counted(noise: &Noise, predicted: &LapPrediction, seen: f64, error: f64) -> Term {
    let (misses, accesses) = (predicted.missed, predicted.accesses);
    let reported = accesses * noise.reported(misses / accesses);
    let nearest = seen.clamp(misses.min(reported), misses.max(reported));
    let variance = error * error + predicted.error.powi(2) + (COUNT_FLOOR * accesses).powi(2);
    term((seen - nearest).powi(2) / variance, variance, nearest, seen)
}

/// What is counted of a total: of a miss's cost, the one miss.
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

/// The variance of a lap's time about what is predicted. The predictions of both levels come from the same simulated
/// laps, so at worst their errors go together.
fn uncertainty(costs: &[f64; COSTS], predicted: &LapPrediction, seen: f64, error: f64) -> f64 {
    let simulated = (costs[1] * predicted.nearer_error).abs() + (costs[2] * predicted.error).abs();
    // Nothing takes no time; the last keeps a time of 0 from being sure.
    error.max(TIME_FLOOR * seen.abs()).max(f64::MIN_POSITIVE.sqrt()).powi(2) + simulated * simulated
}

/// The costs that explain the times of the laps best; of many laps without the worst one, which the absolute judgement
/// leaves out as well and which would otherwise bend all others to itself.
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
    if timed.len() < TOTALS_FOR_ONE_OUTLIER {
        return all;
    }
    let deviance = |(predicted, seen, error): &(LapPrediction, f64, f64)| {
        (seen - time(&all, predicted)).powi(2) / uncertainty(&all, predicted, *seen, *error)
    };
    // What is known besides is nobody's outlier.
    let laps = (0..timed.len()).filter(|&i| timed[i].0.accesses > 0.0);
    let worst = laps.max_by(|&i, &j| deviance(&timed[i]).total_cmp(&deviance(&timed[j])));
    if let Some(worst) = worst {
        timed.swap_remove(worst);
    }
    best(&timed)
}

/// The costs that explain these laps, each with its time and the error of that, by least squares. Those that nothing
/// tells (the nearer miss where there is no nearer level) are 0.
fn best(timed: &[(LapPrediction, f64, f64)]) -> [f64; COSTS] {
    let mut costs = [0.0; COSTS];
    // How much the simulation's errors weigh depends on what a miss costs: once without them, then twice with.
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

/// What is left of a pivot, relative, below which an unknown is taken for a combination of those before it.
const SINGULAR: f64 = 1e-9;

/// Solves normal equations by elimination; what they do not determine is 0.
fn solved(mut matrix: [[f64; COSTS]; COSTS], mut right: [f64; COSTS]) -> [f64; COSTS] {
    let whole: Vec<f64> = (0..COSTS).map(|i| matrix[i][i]).collect();
    for i in 0..COSTS {
        if matrix[i][i] <= SINGULAR * whole[i] {
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
        if matrix[i][i] > SINGULAR * whole[i] {
            costs[i] = right[i] / matrix[i][i];
        }
    }
    costs
}
