//! Which policies the observations do not reject.
//!
//! # The criterion
//!
//! Under a policy each asked access misses in a share p of the laps ([`predict`]). It is reported as a miss in a share
//! q = p (1 - lost) + (1 - p) stray, because a neighbour evicts a line now and then, an interrupt makes a hit slow,
//! and a miss may be told as a hit. `stray` and `lost` come from the asks that hit, or miss, under every policy: the
//! calibration. Laps are not independent (a neighbour comes in bursts, and no error rate is the same everywhere), so
//! the misses told in n laps are taken as beta-binomial: variance n q (1 - q) (1 + (n - 1) rho), rho from the scatter
//! of the calibration. So many laps never make a rate surer than the square root of rho q (1 - q).
//!
//! A policy is rejected
//!
//! - absolutely, when it does not fit. Its deviance is twice what its log-likelihood lacks to that of the saturated
//!   model, in which every ask has the share that explains it best (from 0 to 1, with the same error rates). Where the
//!   policy is the true one that is about chi-squared with one degree a query. It must not be improbably large in all,
//!   nor in any one program: chances below [`REJECT`], the latter times the number of programs. Of [`FOR_ONE_OUTLIER`]
//!   programs or [`TOTALS_FOR_ONE_OUTLIER`] totals or more the worst one does not count here (in the comparison below it
//!   does).
//! - relatively, when another policy that does fit explains the asks that both predict better by a likelihood ratio
//!   above [`RATIO`]. If a policy is true, any given other one reaches the ratio K with a chance of at most 1/K,
//!   whatever the two say (Markov's inequality: the ratio's mean is 1 under the truth).
//!
//! # Laps as a whole
//!
//! A lap that was timed as a whole took n a + m b + k c: n accesses, of which m miss in the nearer level and k in the
//! level under test; a, b and c are what an access, a nearer miss and a miss cost. Nobody knows these to the 0.2 % that
//! one miss among a hundred accesses is of a lap, so under each policy they are those that explain all laps best
//! (weighted least squares): an access's time that is off by some tenths of a percent is off in all laps alike, and no
//! policy pays for it. It is the programs that all hit and those that all miss which hold them fast. What is left over
//! is a term like that of a query, normal instead of beta-binomial. Errors of telling there are none; what a neighbour
//! evicts goes into a and c where it evicts as much of every program's hits.
//!
//! What is left is consistent: one policy, several that cannot be told apart, or none. Asks whose prediction depends
//! on the state in which the program was begun prove nothing about that policy and are left out of its score.

use statrs::function::{beta::ln_beta, gamma::gamma_ur};

use super::noise::{MAX_RHO, MIN_ERROR, Noise, TOTALS_FOR_ONE_OUTLIER, Term};
use super::observation::{LapObservation, Observation, Total};
use super::{LapPrediction, Policy, Prediction, Program, alike, predict, predict_lap, whole};

/// What of a policy lies farthest from what was observed: a query of a program, or a total.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Index of the observation; from the number of observations on, of the totals.
    pub program: usize,
    /// Index of the ask in it; 0 for a total.
    pub query: usize,
    /// Share of laps told as misses that the policy predicts, errors included, 0 to 1; of a total, in its unit.
    pub predicted: f64,
    /// What was observed, in the same unit.
    pub observed: f64,
}

/// How a policy explains the observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The policy.
    pub policy: Policy,
    /// Mean natural logarithm of the likelihood of a query's count.
    pub log_likelihood_per_query: f64,
    /// Mean deviance of a query: about 1 or less where the policy is true.
    pub deviance_per_query: f64,
    /// Asks and totals that were scored.
    pub scored: usize,
    /// What fits worst; `None` where nothing was scored.
    pub worst: Option<Worst>,
}

/// What the observations say.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The policies that are not rejected, in the order of [`Policy::ALL`]. Empty and `decided`: no textbook policy.
    pub consistent: Vec<Policy>,
    /// All policies, the best fit first; empty where the observations could not be scored.
    pub scores: Vec<Score>,
    /// Do the observations say all that programs can say: nothing is consistent, or only what is alike?
    pub decided: bool,
    /// One clause that says why the verdict is as it is.
    pub reason: String,
}

/// An ask that all policies let miss in this share of laps or more calibrates misses. Random replacement keeps 2 % of
/// lines that cycle at four times the ways.
const SURE_MISS: f64 = 0.95;
/// Asks below which a policy that was not rejected was hardly asked; of totals, from which the costs are found as well,
/// [`TOTALS_FOR_ONE_OUTLIER`].
const MIN_TIMED_LOADS: usize = 8;
/// Chance at which a fit is rejected.
const REJECT: f64 = 1e-4;
/// Likelihood ratio at which the worse of two fits is rejected.
const RATIO: f64 = 1e3;
/// Of so many programs one may be disturbed, and is left out of the absolute judgement of a policy: its worst. A burst
/// of a neighbour spoils one, and so does a cycle of laps so rare that the prediction's starts did not meet it.
const FOR_ONE_OUTLIER: usize = 40;
/// Judges the observations of one set of `ways` ways. `nearer`: policy and ways of the nearer level; several where that
/// is uncertain (each policy gets the one that explains best), none for the first level. Observations or totals may be
/// empty; observations need the battery's calibration among them, and times its programs that hit and that miss.
#[must_use]
pub fn judge(
    ways: usize,
    nearer: &[(Policy, usize)],
    observations: &[Observation],
    totals: &[Total],
) -> Verdict {
    let programs: Vec<&Program> = observations.iter().map(|o| &o.program).collect();
    let whole: Vec<&Program> = totals.iter().map(|t| &t.program).collect();
    let filters: Vec<Option<(Policy, usize)>> =
        if nearer.is_empty() { vec![None] } else { nearer.iter().copied().map(Some).collect() };
    let expected: Vec<Expected> =
        filters.into_iter().map(|n| Expected::new(ways, n, &programs, &whole)).collect();
    score_policies(ways, &expected, observations, totals)
}

/// What every policy predicts behind one nearer level: policy by policy, program by program.
pub(super) struct Expected {
    queries: Vec<Vec<Prediction>>,
    laps: Vec<Vec<LapPrediction>>,
}

impl Expected {
    /// `whole`: the programs of which laps are predicted as a whole.
    pub fn new(
        ways: usize,
        nearer: Option<(Policy, usize)>,
        programs: &[&Program],
        whole: &[&Program],
    ) -> Self {
        let queries = |policy: Policy| programs.iter().map(|p| predict(policy, ways, p, nearer)).collect();
        let laps = |policy: Policy| whole.iter().map(|p| predict_lap(policy, ways, p, nearer)).collect();
        Expected {
            queries: Policy::ALL.iter().map(|p| queries(*p)).collect(),
            laps: Policy::ALL.iter().map(|p| laps(*p)).collect(),
        }
    }

    /// The asks that every policy predicts alike and surely: of each (program, ask) whether it misses.
    fn calibration(&self) -> Vec<(usize, usize, bool)> {
        let programs = self.queries.first().map_or(0, Vec::len);
        let mut sure = Vec::new();
        for program in (0..programs).filter(|i| self.queries.iter().all(|p| p[*i].steady)) {
            for query in 0..self.queries[0][program].miss.len() {
                let all = |f: &dyn Fn(f64) -> bool| self.queries.iter().all(|p| f(p[program].miss[query]));
                if all(&|m| m == 0.0) || all(&|m| m >= SURE_MISS) {
                    sure.push((program, query, all(&|m| m >= SURE_MISS)));
                }
            }
        }
        sure
    }
}

/// A policy's terms, in the order of the observations' asks and then the totals: `None` where it depends on the start.
struct Fit {
    policy: Policy,
    terms: Vec<Option<Term>>,
}

pub(super) fn score_policies(
    ways: usize,
    expected: &[Expected],
    observations: &[Observation],
    totals: &[Total],
) -> Verdict {
    let undecided =
        |reason: String| Verdict { consistent: Vec::new(), scores: Vec::new(), decided: false, reason };
    if let Some(fault) = fault(observations) {
        return undecided(fault);
    }
    let owners = owners(observations, totals.len());
    let mut fits: Vec<Fit> = Vec::new();
    let mut why = String::from("too few observations: none");
    for (at, policy) in Policy::ALL.iter().enumerate() {
        let mut best: Option<Fit> = None;
        for expected in expected {
            let noise = if observations.is_empty() && !totals.is_empty() {
                Ok(Noise::NONE)
            } else {
                Noise::of(&expected.calibration(), &expected.queries[at], observations)
            };
            match noise {
                Ok(noise) => {
                    let fit = Fit::new(*policy, &noise, expected, at, (observations, totals));
                    best =
                        Some(best.take().filter(|b| b.mean_deviance() <= fit.mean_deviance()).unwrap_or(fit));
                }
                Err(reason) => why = reason,
            }
        }
        fits.extend(best);
    }
    if fits.is_empty() {
        return undecided(why);
    }
    let firm: Vec<usize> =
        (0..totals.len()).filter(|&i| matches!(totals[i].seen, LapObservation::Cost(_))).collect();
    let firm: Vec<usize> = firm.iter().map(|i| observations.len() + i).collect();
    let fitting: Vec<&Fit> = fits.iter().filter(|f| f.fits(&owners, observations.len(), &firm)).collect();
    let beaten = |f: &Fit| fitting.iter().any(|other| f.beaten_by(other));
    let consistent: Vec<&Fit> = fitting.iter().copied().filter(|f| !beaten(f)).collect();
    let mut scores: Vec<Score> = fits.iter().map(|f| f.score(&owners)).collect();
    scores.sort_by(|a, b| a.deviance_per_query.total_cmp(&b.deviance_per_query));
    let least = if observations.is_empty() { TOTALS_FOR_ONE_OUTLIER } else { MIN_TIMED_LOADS };
    let (decided, reason) = decide(ways, least, &consistent, &scores);
    Verdict { consistent: consistent.iter().map(|f| f.policy).collect(), scores, decided, reason }
}

/// Is the verdict all that can be said, and in one clause, why?
fn decide(ways: usize, least: usize, consistent: &[&Fit], scores: &[Score]) -> (bool, String) {
    let names: Vec<&str> = consistent.iter().map(|f| f.policy.token()).collect();
    let named = names.join(", ");
    if let Some(hardly) = consistent.iter().find(|f| f.scored() < least) {
        let why = format!(
            "too few observations: {} asks of {} are predicted whatever the start, of {least}",
            hardly.scored(),
            hardly.policy
        );
        return (false, why);
    }
    if consistent.is_empty() {
        let nearest = scores.first().map_or(String::new(), |s| {
            format!("; {} comes nearest, with a deviance of {:.1} a query", s.policy, s.deviance_per_query)
        });
        return (true, format!("no textbook policy: each is rejected{nearest}"));
    }
    let groups = alike(ways, super::MIN_VISITS);
    if groups.iter().any(|g| consistent.iter().all(|f| g.contains(&f.policy))) {
        let why = match consistent.len() {
            1 => format!("every policy but {named} is rejected"),
            _ => format!("no program tells {named} apart with {ways} ways; every other policy is rejected"),
        };
        return (true, why);
    }
    (false, format!("too few observations: they do not tell {named} apart"))
}

/// What makes observations unusable: counts that do not answer their program, or one program that was answered twice
/// and differently.
fn fault(observations: &[Observation]) -> Option<String> {
    for (i, o) in observations.iter().enumerate() {
        let queries = o.program.queries();
        let whole = o.missed.len() == queries && o.of.len() == queries;
        if !whole || o.missed.iter().zip(&o.of).any(|(k, n)| k > n) {
            return Some(format!("contradictory observations: number {i} does not answer its program"));
        }
        for other in observations[..i].iter().filter(|other| other.program == o.program) {
            for query in 0..queries {
                let (k1, n1) = (f64::from(o.missed[query]), f64::from(o.of[query]));
                let (k2, n2) = (f64::from(other.missed[query]), f64::from(other.of[query]));
                let q = ((k1 + k2 + 1.0) / (n1 + n2 + 2.0)).clamp(MIN_ERROR, 1.0 - MIN_ERROR);
                let variance = q * (1.0 - q) * (1.0 / n1 + 1.0 / n2 + 2.0 * MAX_RHO);
                // Five standard errors, at the most overdispersion that is taken for noise.
                if n1.min(n2) > 0.0 && (k1 / n1 - k2 / n2).powi(2) > 25.0 * variance {
                    return Some(format!(
                        "contradictory observations: `{}` missed in {:.0} % and in {:.0} % of laps",
                        o.program,
                        100.0 * k1 / n1,
                        100.0 * k2 / n2
                    ));
                }
            }
        }
    }
    None
}

/// The program (or total) and the ask of each term.
fn owners(observations: &[Observation], totals: usize) -> Vec<(usize, usize)> {
    let queries = observations.iter().enumerate().flat_map(|(i, o)| (0..o.of.len()).map(move |a| (i, a)));
    queries.chain((0..totals).map(|i| (observations.len() + i, 0))).collect()
}

impl Fit {
    fn new(
        policy: Policy,
        noise: &Noise,
        expected: &Expected,
        at: usize,
        (observations, totals): (&[Observation], &[Total]),
    ) -> Fit {
        let mut terms = Vec::new();
        for (observation, prediction) in observations.iter().zip(&expected.queries[at]) {
            for query in 0..observation.of.len() {
                let (k, n) = (observation.missed[query], observation.of[query]);
                let scored = prediction.steady && n > 0;
                terms.push(
                    scored.then(|| requested(noise, prediction.miss[query], prediction.error[query], k, n)),
                );
            }
        }
        terms.extend(whole::terms(noise, totals, &expected.laps[at]));
        Fit { policy, terms }
    }

    fn scored(&self) -> usize {
        self.terms.iter().flatten().count()
    }

    fn mean_deviance(&self) -> f64 {
        let sum: f64 = self.terms.iter().flatten().map(|t| t.deviance).sum();
        sum / self.scored().max(1) as f64
    }

    /// Is it not rejected absolutely? The first `programs` owners are programs, the others totals.
    /// `firm` are no laps, so that nothing can have disturbed them.
    fn fits(&self, owners: &[(usize, usize)], programs: usize, firm: &[usize]) -> bool {
        let mut each = vec![(0.0, 0); owners.last().map_or(0, |o| o.0 + 1)];
        for (term, (owner, _)) in self.terms.iter().zip(owners) {
            if let Some(t) = term {
                each[*owner].0 += t.deviance;
                each[*owner].1 += 1;
            }
        }
        let scored = |e: &&(f64, usize)| e.1 > 0;
        let owned = each.iter().filter(scored).count().max(1) as f64;
        let worst = |(a, b): (f64, usize), (c, d): (f64, usize)| chance(a, b).total_cmp(&chance(c, d));
        for (kind, enough) in [(0..programs, FOR_ONE_OUTLIER), (programs..each.len(), TOTALS_FOR_ONE_OUTLIER)]
        {
            if each.get(kind.clone()).is_some_and(|e| e.iter().filter(scored).count() >= enough) {
                let outlier = kind.filter(|i| !firm.contains(i)).min_by(|i, j| worst(each[*i], each[*j]));
                outlier.into_iter().for_each(|i| each[i] = (0.0, 0));
            }
        }
        let (deviance, queries) = each.iter().fold((0.0, 0), |(d, n), e| (d + e.0, n + e.1));
        chance(deviance, queries) >= REJECT && each.iter().all(|(d, n)| chance(*d, *n) * owned >= REJECT)
    }

    /// Does another policy explain what both predict so much better that this one is rejected?
    fn beaten_by(&self, other: &Fit) -> bool {
        let both = self.terms.iter().zip(&other.terms).filter_map(|(a, b)| a.as_ref().zip(b.as_ref()));
        let better: f64 = both.map(|(mine, theirs)| theirs.log_likelihood - mine.log_likelihood).sum();
        better > RATIO.ln()
    }

    fn score(&self, owners: &[(usize, usize)]) -> Score {
        let worst = self
            .terms
            .iter()
            .zip(owners)
            .filter_map(|(t, owner)| t.map(|t| (t, owner)))
            .max_by(|a, b| a.0.deviance.total_cmp(&b.0.deviance))
            .map(|(t, (program, query))| Worst {
                program: *program,
                query: *query,
                predicted: t.predicted,
                observed: t.observed,
            });
        let sum: f64 = self.terms.iter().flatten().map(|t| t.log_likelihood).sum();
        Score {
            policy: self.policy,
            log_likelihood_per_query: sum / self.scored().max(1) as f64,
            deviance_per_query: self.mean_deviance(),
            scored: self.scored(),
            worst,
        }
    }
}

/// Chance of a chi-squared of so many degrees at least this large.
fn chance(deviance: f64, degrees: usize) -> f64 {
    if degrees == 0 || deviance <= 0.0 { 1.0 } else { gamma_ur(degrees as f64 / 2.0, deviance / 2.0) }
}

/// `k` misses told of `n` laps, where `miss` are predicted with a standard error.
fn requested(noise: &Noise, miss: f64, error: f64, k: u32, n: u32) -> Term {
    let (k, n) = (f64::from(k), f64::from(n));
    let q = noise.reported(miss);
    // An error of the prediction moves all laps together, as overdispersion does.
    let rho = (noise.rho + error * error / (q * (1.0 - q))).min(0.5);
    // ln of n over k; the same for every model, and what makes the likelihood one of the count.
    let ways_to_tell = -ln_beta(k + 1.0, n - k + 1.0) - (n + 1.0).ln();
    let log_likelihood = |q: f64| {
        let (a, b) = (q * (1.0 - rho) / rho, (1.0 - q) * (1.0 - rho) / rho);
        ways_to_tell + ln_beta(k + a, n - k + b) - ln_beta(a, b)
    };
    let of_policy = log_likelihood(q);
    let saturated = log_likelihood((k / n).clamp(noise.reported(0.0), noise.reported(1.0)));
    let deviance = (2.0 * (saturated - of_policy)).max(0.0);
    Term { log_likelihood: of_policy, deviance, predicted: q, observed: k / n }
}
