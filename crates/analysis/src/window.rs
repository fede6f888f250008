//! How many instructions a core has in flight, from the times of two loads of memory with other instructions between them.
//!
//! The loads do not depend on each other. While the core can hold all instructions from the one to the other, both are under way at the
//! same time, and a pair takes the time of one load; with more instructions between them it takes that of two. (The method of Henry Wong's
//! "Measuring Reorder Buffer Capacity", 2013.)

use crate::interval::{Interval, median};

/// Times of pairs with one number of instructions between the loads, of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Instructions between the two loads.
    pub fillers: u64,
    /// Time per pair, ns.
    pub ns: Vec<f64>,
}

/// The step from one latency to two.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Instructions in flight, both loads included.
    pub number: Interval,
    /// The most instructions between two loads that overlap, and the fewest between two that do not.
    pub between: (u64, u64),
    /// Time of a pair that does not overlap by that of one that does.
    pub ratio: f64,
    /// Trials that are not part of this, because others show overlap where they have none.
    pub left_out: usize,
}

/// Why there is no step, or none that is clear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unclear {
    /// There are too few times.
    Missing,
    /// The time does not double up to the most instructions, which are these.
    NoStep(u64),
    /// It grows with the instructions, from the first number to the second, and not at once.
    Gradual(u64, u64),
    /// It does not double: it grows by this factor.
    NotDouble(f64),
    /// This share of the times is on the wrong side of any step.
    Scattered(f64),
}

/// Ratio to the time of two loads next to each other from which on a pair does not overlap: half-way from one latency to two.
const APART: f64 = 1.5;
/// The same just before a step, at most, and just after it, at least. The time of the instructions themselves is part of it.
const BEFORE: f64 = 1.35;
const AFTER: f64 = 1.65;
/// Relative distance from a step within which that must hold, and some instructions in addition.
const NEAR: f64 = 0.15;
const NEAR_INSTRUCTIONS: f64 = 8.0;
/// Largest ratio far beyond a step: two latencies, and the instructions.
const MOST: f64 = 2.7;
/// Largest share of times on the wrong side.
const SCATTERED: f64 = 0.1;
/// Instructions by which the steps of two trials may differ: on a Zen 5 guest they were at 440 to 443.
const JITTER: u64 = 4;
/// Times on the wrong side by which a place of the step may be worse than the best one, and still be possible: of three times with one number
/// of instructions, one may be disturbed.
const POSSIBLE: usize = 1;

/// A time as a ratio to that of the trial's loads with the fewest instructions between them.
type Ratio = (u64, f64);

/// Returns the ratios of one trial, by instructions.
fn ratios(trial: &[Times]) -> Vec<Ratio> {
    let nearest = trial.iter().min_by_key(|times| times.fillers);
    let one = nearest.and_then(|times| median(&times.ns)).filter(|ns| *ns > 0.0);
    let all = trial.iter().flat_map(|times| times.ns.iter().map(move |ns| (times.fillers, *ns)));
    let ratios = all.filter_map(|(fillers, ns)| Some((fillers, ns / one?)));
    sorted(ratios.filter(|(_, ratio)| ratio.is_finite()))
}

fn sorted(ratios: impl Iterator<Item = Ratio>) -> Vec<Ratio> {
    let mut all: Vec<Ratio> = ratios.collect();
    all.sort_by_key(|(fillers, _)| *fillers);
    all
}

/// Returns the most instructions with which loads overlap in one trial, and the fewest with which they do not; `None` if too many of its times are
/// on the wrong side of any step.
fn step_of(ratios: &[Ratio]) -> Option<(u64, u64)> {
    let (least, places) = best(ratios)?;
    if least as f64 > SCATTERED * ratios.len() as f64 {
        return None;
    }
    Some(match (places.first(), places.last()) {
        (Some(first), Some(last)) => (first.0, last.1),
        _ => (ratios.last()?.0, u64::MAX),
    })
}

/// Returns the ratios of the trials that do not contradict another one, and the number of the others. Loads that overlap are in flight together; that
/// others do not, with fewer instructions between them, is no property of the core: a second thread on it takes its part of the window. Seen
/// on a Zen 5 guest in one of 14 surveys: in one trial of 38 ms no pair overlapped from 383 instructions on, and in the three others all did up
/// to 396 and 433. A trial without overlap in its whole range shows no step of its own, so it contradicts any that overlaps there.
fn agreeing(trials: &[Vec<Times>]) -> (Vec<Ratio>, usize) {
    let all: Vec<Vec<Ratio>> = trials.iter().map(|trial| ratios(trial)).collect();
    let steps: Vec<_> = all.iter().map(|ratios| step_of(ratios)).collect();
    let overlap = steps.iter().flatten().map(|step| step.0).max().unwrap_or(0);
    let contradicts = |ratios: &[Ratio], step: &Option<(u64, u64)>| {
        let nearest = ratios.first().map_or(0, |ratio| ratio.0);
        step.is_some_and(|(last, apart)| {
            apart.saturating_add(JITTER) < overlap || last == nearest && apart <= overlap
        })
    };
    let (left_out, kept): (Vec<_>, Vec<_>) =
        all.into_iter().zip(&steps).partition(|(ratios, step)| contradicts(ratios, step));
    (sorted(kept.into_iter().flat_map(|(ratios, _)| ratios)), left_out.len())
}

/// Returns the number of trials that contradict another one.
#[must_use]
pub fn left_out(trials: &[Vec<Times>]) -> usize {
    agreeing(trials).1
}

/// The places between two neighbouring numbers of instructions where the step may be, by how many times are on the wrong side.
fn places(ratios: &[Ratio]) -> Vec<((u64, u64), usize)> {
    let is_apart = |ratio: &&Ratio| ratio.1 >= APART;
    let mut wrong = ratios.len() - ratios.iter().filter(is_apart).count();
    let mut all = Vec::new();
    for (at, pair) in ratios.windows(2).enumerate() {
        // What is at or before this place overlaps.
        if is_apart(&&ratios[at]) {
            wrong += 1
        } else {
            wrong -= 1
        }
        if pair[0].0 < pair[1].0 {
            all.push(((pair[0].0, pair[1].0), wrong));
        }
    }
    all
}

/// Returns the numbers of instructions between which the step is, if there is one: the most with which loads overlap, and the fewest with which
/// they do not.
#[must_use]
pub fn bracket(trials: &[Vec<Times>]) -> Option<(u64, u64)> {
    let (ratios, _) = agreeing(trials);
    let (least, best) = best(&ratios)?;
    (!best.is_empty()).then(|| possible(&ratios, least))
}

/// Returns the fewest times on the wrong side, and the places of that many; none if the best is that there is no step.
fn best(ratios: &[Ratio]) -> Option<(usize, Vec<(u64, u64)>)> {
    let places = places(ratios);
    let without = ratios.iter().filter(|(_, ratio)| *ratio >= APART).count();
    let least = places.iter().map(|(_, wrong)| *wrong).min()?.min(without);
    let best =
        places.iter().filter(|(_, wrong)| *wrong == least && *wrong < without).map(|(place, _)| *place);
    Some((least, best.collect()))
}

fn possible(ratios: &[Ratio], least: usize) -> (u64, u64) {
    let places = places(ratios);
    let all = places.iter().filter(|(_, wrong)| *wrong <= least + POSSIBLE).map(|(place, _)| *place);
    all.fold((u64::MAX, 0), |range, place| (range.0.min(place.0), range.1.max(place.1)))
}

/// Returns the number of instructions in flight.
///
/// # Errors
/// Why there is no clear step.
pub fn read(trials: &[Vec<Times>]) -> Result<Window, Unclear> {
    let (ratios, left_out) = agreeing(trials);
    let (Some((least, best)), Some(most)) = (best(&ratios), ratios.last()) else {
        return Err(Unclear::Missing);
    };
    if best.is_empty() {
        return Err(Unclear::NoStep(most.0));
    }
    let wrong = least as f64 / ratios.len() as f64;
    if wrong > SCATTERED {
        return Err(Unclear::Scattered(wrong));
    }
    let (low, high) = possible(&ratios, least);
    let of = |holds: &dyn Fn(f64) -> bool| {
        let within = ratios.iter().filter(|(fillers, _)| holds(*fillers as f64));
        median(&within.map(|(_, ratio)| *ratio).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    let (last, first) = (low as f64, high as f64);
    let before = of(&|fillers| fillers <= last && fillers >= (1.0 - NEAR) * last - NEAR_INSTRUCTIONS);
    let after = of(&|fillers| fillers >= first && fillers <= (1.0 + NEAR) * first + NEAR_INSTRUCTIONS);
    let is_wide = first > (1.0 + NEAR) * last + NEAR_INSTRUCTIONS;
    if before > BEFORE || after < AFTER || is_wide {
        return Err(Unclear::Gradual(low, high));
    }
    let ratio = of(&|fillers| fillers >= first);
    if ratio > MOST {
        return Err(Unclear::NotDouble(ratio));
    }
    // Both loads are among them: with one more between the loads there would be one too many.
    let middle = best.iter().map(|(last, first)| (last + 2 + first + 1) as f64 / 2.0);
    let value = median(&middle.collect::<Vec<_>>()).unwrap_or(last + 2.0);
    let number = Interval { value, low: last + 2.0, high: first + 1.0 };
    Ok(Window { number, between: (low, high), ratio, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

    /// A core with so many instructions in flight, whose loads take 100 ns and instructions `each`; times have errors of up to `noise`,
    /// relative, and one of `disturbed` takes twice as long.
    #[derive(Clone, Copy)]
    struct Core {
        window: u64,
        each: f64,
        noise: f64,
        disturbed: u64,
    }

    const PLAIN: Core = Core { window: 224, each: 0.03, noise: 0.0, disturbed: u64::MAX };

    impl Core {
        fn trial(self, fillers: impl IntoIterator<Item = u64>, seed: u64) -> Vec<Times> {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let common = 1.0 + self.noise * ((rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0);
            let mut time = |fillers: u64| {
                let loads: f64 = if fillers + 2 <= self.window { 1.0 } else { 2.0 };
                let ns = (100.0 * loads).max(2.0 * fillers as f64 * self.each);
                let error = 1.0 + self.noise * ((rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0);
                let disturbed = if rng.next_u64() % self.disturbed == 0 { 2.0 } else { 1.0 };
                ns * error * disturbed * common
            };
            let mut ns = |fillers| (0..if fillers == 2 { 9 } else { 3 }).map(|_| time(fillers)).collect();
            fillers.into_iter().map(|fillers| Times { fillers, ns: ns(fillers) }).collect()
        }

        /// Searches as a plan does.
        fn searched(self, seed: u64) -> Vec<Vec<Times>> {
            let mut trials = vec![self.trial(coarse(), seed)];
            for nth in 1..4 {
                let Some((low, high)) = bracket(&trials).filter(|(low, high)| high - low > 1) else { break };
                trials.push(self.trial(fine(low, high), seed ^ nth << 20));
            }
            trials
        }
    }

    fn coarse() -> Vec<u64> {
        let mut all: Vec<u64> = (0..52).map(|nth| (2.0 * 1.13f64.powi(nth)).round() as u64).collect();
        all.dedup();
        all
    }

    fn fine(low: u64, high: u64) -> Vec<u64> {
        let mut all = vec![2];
        all.extend((0..=16).map(|nth| low + (high - low) * nth / 16));
        all.dedup();
        all
    }

    #[test]
    fn planted_window_comes_back_exactly() {
        for window in [5, 9, 40, 97, 128, 224, 448, 512, 630, 900] {
            let found = read(&Core { window, ..PLAIN }.searched(1)).expect("a step");
            let exact = Interval { value: window as f64, low: window as f64, high: window as f64 };
            assert_eq!((found.number, found.between), (exact, (window - 2, window - 1)));
            assert!((found.ratio - 2.0).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn intervals_hold_the_truth_under_noise() {
        for (noise, disturbed) in [(0.1, u64::MAX), (0.15, 30)] {
            let held = |seed: &u64| {
                let window = 60 + seed * 3;
                let found =
                    read(&Core { window, noise, disturbed, ..PLAIN }.searched(*seed)).expect("a step");
                found.number.low <= window as f64 && window as f64 <= found.number.high
            };
            let count = (0..200).filter(held).count();
            // 95 % of 200, less four standard errors.
            assert!(count >= 178, "{count} of 200 with {noise}");
        }
    }

    #[test]
    fn trials_beside_a_second_thread_are_left_out() {
        let whole = Core { window: 442, ..PLAIN };
        let halved = Core { window: 224, ..PLAIN };
        let found = read(&[
            whole.trial(coarse(), 1),
            halved.trial(fine(379, 428), 2),
            whole.trial(fine(379, 484), 3),
        ]);
        let found = found.expect("a step");
        assert!(found.number.low <= 442.0 && 442.0 <= found.number.high && found.left_out == 1, "{found:?}");
        // Whichever came first.
        let trials =
            [halved.trial(coarse(), 1), whole.trial(fine(210, 237), 2), whole.trial(fine(237, 268), 3)];
        assert_eq!((left_out(&trials), bracket(&trials)), (1, None));
        // An instruction more or less is the core's own.
        let trials = [whole.trial(fine(430, 446), 1), Core { window: 440, ..PLAIN }.trial(fine(430, 446), 2)];
        assert_eq!(left_out(&trials), 0);
    }

    #[test]
    fn what_is_no_step_is_told_apart() {
        let no = |core: Core| read(&core.searched(1)).expect_err("no step");
        assert_eq!(read(&[]), Err(Unclear::Missing));
        let Unclear::NoStep(most) = no(Core { window: 4000, ..PLAIN }) else { panic!("none is in reach") };
        assert!(most > 900);
        // A core that waits for each load, and one whose instructions take longer than a load.
        assert_eq!(no(Core { window: 3, ..PLAIN }), Unclear::NoStep(most));
        let slow = no(Core { window: 4000, each: 0.3, ..PLAIN });
        assert!(matches!(slow, Unclear::Gradual(..)), "{slow:?}");
        let slow = no(Core { window: 400, each: 0.3, ..PLAIN });
        assert!(matches!(slow, Unclear::Gradual(..)), "{slow:?}");
        let scattered = no(Core { noise: 0.9, disturbed: 3, ..PLAIN });
        assert!(matches!(scattered, Unclear::Scattered(share) if share > 0.1), "{scattered:?}");
    }
}
