//! Tests policies against observations.
//!
//! # The criterion
//!
//! Under a policy each timed access misses in a share p of the laps ([`predict()`]). It is classified as a miss in a
//! share q = p (1 - lost) + (1 - p) stray, because other software evicts a line now and then, an interrupt makes a hit
//! slow, and a miss may be classified as a hit. `stray` and `lost` come from the calibration: the timed loads that hit,
//! or miss, under every policy. Laps are not independent (interference comes in bursts, and error rates vary), so the
//! misses classified in n laps are modelled as beta-binomial: variance n q (1 - q) (1 + (n - 1) rho), with rho from the
//! scatter of the calibration. Therefore no number of laps makes the error of a rate smaller than the square root of
//! rho q (1 - q).
//!
//! A policy is rejected
//!
//! - absolutely, if it does not fit. Its deviance is twice the difference of its log-likelihood to that of the
//!   saturated model, in which every timed load has the share that explains it best (from 0 to 1, with the same error
//!   rates). For the true policy this is about chi-squared with one degree of freedom per timed load. It must not be
//!   improbably large in total, nor in any one program: p-values below [`REJECTION_P_VALUE`], the latter times the
//!   number of programs. With at least [`MIN_PROGRAMS_FOR_OUTLIER`] programs or [`MIN_TOTALS_FOR_OUTLIER`] totals, the
//!   worst one is ignored here (but not in the comparison below).
//! - relatively, if another policy that fits explains the timed loads that both predict better by a likelihood ratio
//!   above [`REJECTION_RATIO`]. If a policy is true, any other one reaches the ratio K with a probability of at most
//!   1/K (Markov's inequality: the ratio's mean is 1 under the true policy).
//!
//! # Timed laps
//!
//! A timed lap takes n a + m b + k c: n accesses, of which m miss in the nearer level and k in the level under test; a,
//! b and c are the costs of an access, a nearer miss and a miss. They are not known to the 0.2 % that one miss among a
//! hundred accesses contributes to a lap. So for each policy they are fitted to all laps (weighted least squares): an
//! access time that is off by some tenths of a percent is off in all laps equally and does not count against a policy.
//! The programs that only hit and those that only miss determine the costs. Each residual is a term like that of a
//! timed load, normal instead of beta-binomial. There are no classification errors; evictions by other software go into
//! a and c if they affect the hits of all programs equally.
//!
//! The remaining policies are consistent: one, several that cannot be distinguished, or none. Timed loads whose
//! prediction depends on the initial state prove nothing about that policy and are left out of its score.

use statrs::function::{beta::ln_beta, gamma::gamma_ur};

use super::noise::{MAX_RHO, MIN_ERROR, MIN_TOTALS_FOR_OUTLIER, Noise, Term};
use super::observation::{LapObservation, Observation, Total};
use super::{LapPrediction, Policy, Prediction, Program, indistinguishable, laps, predict, predict_lap};

/// Observation that deviates most from a policy: a timed load of a program, or a total.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Index of the observation; totals follow after the observations.
    pub program: usize,
    /// Index of the timed load in it; 0 for a total.
    pub query: usize,
    /// Predicted share of laps classified as misses, errors included, 0 to 1; for a total, in its unit.
    pub predicted: f64,
    /// Observed value, in the same unit.
    pub observed: f64,
}

/// Fit of a policy to the observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The policy.
    pub policy: Policy,
    /// Mean natural logarithm of the likelihood of a timed load's count.
    pub log_likelihood_per_query: f64,
    /// Mean deviance per timed load: about 1 or less if the policy is true.
    pub deviance_per_query: f64,
    /// Number of timed loads and totals that were scored.
    pub scored: usize,
    /// Worst fit; `None` if nothing was scored.
    pub worst: Option<Worst>,
}

/// Result of testing all policies.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Policies that are not rejected, in the order of [`Policy::ALL`]. Empty and `decided`: no textbook policy.
    pub consistent: Vec<Policy>,
    /// All policies, the best fit first; empty if the observations could not be scored.
    pub scores: Vec<Score>,
    /// Whether more observations could not improve the verdict: nothing is consistent, or only indistinguishable
    /// policies.
    pub decided: bool,
    /// Reason for the verdict, one clause.
    pub reason: String,
}

/// Smallest share of laps in which every policy must miss for a timed load to calibrate misses. Random replacement
/// keeps 2 % of lines that cycle at four times the ways.
const MIN_CERTAIN_MISS_SHARE: f64 = 0.95;
/// Smallest number of scored timed loads for a decision about a policy; for totals, from which the costs are fitted
/// too, it is [`MIN_TOTALS_FOR_OUTLIER`].
const MIN_TIMED_LOADS: usize = 8;
/// p-value below which a fit is rejected.
const REJECTION_P_VALUE: f64 = 1e-4;
/// Likelihood ratio above which the worse of two fits is rejected.
const REJECTION_RATIO: f64 = 1e3;
/// Smallest number of programs for which a policy's worst program is ignored in its absolute test. A burst of
/// interference disturbs one, and so does a cycle of laps so rare that no simulated start reached it.
const MIN_PROGRAMS_FOR_OUTLIER: usize = 40;
/// Tests all policies against the observations of one set of `ways` ways. `nearer` is policy and ways of the nearer
/// level; several if they are uncertain (each policy uses the one that fits best), none for the first level.
/// Observations or totals may be empty. Observations must include the battery's calibration programs, and totals its
/// programs that hit and that miss.
#[must_use]
pub fn judge(
    ways: usize,
    nearer: &[(Policy, usize)],
    observations: &[Observation],
    totals: &[Total],
) -> Verdict {
    let programs: Vec<&Program> = observations.iter().map(|o| &o.program).collect();
    let lap_programs: Vec<&Program> = totals.iter().map(|t| &t.program).collect();
    let filters: Vec<Option<(Policy, usize)>> =
        if nearer.is_empty() { vec![None] } else { nearer.iter().copied().map(Some).collect() };
    let expected: Vec<Expected> =
        filters.into_iter().map(|n| Expected::new(ways, n, &programs, &lap_programs)).collect();
    score_policies(ways, &expected, observations, totals)
}

/// Predictions of every policy for one nearer level: by policy, then by program.
pub(super) struct Expected {
    queries: Vec<Vec<Prediction>>,
    laps: Vec<Vec<LapPrediction>>,
}

impl Expected {
    /// `lap_programs`: the programs whose whole laps are predicted.
    pub fn new(
        ways: usize,
        nearer: Option<(Policy, usize)>,
        programs: &[&Program],
        lap_programs: &[&Program],
    ) -> Self {
        let queries = |policy: Policy| programs.iter().map(|p| predict(policy, ways, p, nearer)).collect();
        let laps =
            |policy: Policy| lap_programs.iter().map(|p| predict_lap(policy, ways, p, nearer)).collect();
        Expected {
            queries: Policy::ALL.iter().map(|p| queries(*p)).collect(),
            laps: Policy::ALL.iter().map(|p| laps(*p)).collect(),
        }
    }

    /// Returns the timed loads (program, index) that every policy predicts equally and with certainty, and whether they
    /// miss.
    fn calibration(&self) -> Vec<(usize, usize, bool)> {
        let programs = self.queries.first().map_or(0, Vec::len);
        let mut sure = Vec::new();
        for program in (0..programs).filter(|i| self.queries.iter().all(|p| p[*i].steady)) {
            for query in 0..self.queries[0][program].miss.len() {
                let all = |f: &dyn Fn(f64) -> bool| self.queries.iter().all(|p| f(p[program].miss[query]));
                if all(&|m| m == 0.0) || all(&|m| m >= MIN_CERTAIN_MISS_SHARE) {
                    sure.push((program, query, all(&|m| m >= MIN_CERTAIN_MISS_SHARE)));
                }
            }
        }
        sure
    }
}

/// Terms of a policy, in the order of the observations' timed loads and then the totals; `None` if the prediction
/// depends on the start.
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
    let cost_totals: Vec<usize> =
        (0..totals.len()).filter(|&i| matches!(totals[i].seen, LapObservation::Cost(_))).collect();
    let cost_totals: Vec<usize> = cost_totals.iter().map(|i| observations.len() + i).collect();
    let fitting: Vec<&Fit> =
        fits.iter().filter(|f| f.fits(&owners, observations.len(), &cost_totals)).collect();
    let beaten = |f: &Fit| fitting.iter().any(|other| f.beaten_by(other));
    let consistent: Vec<&Fit> = fitting.iter().copied().filter(|f| !beaten(f)).collect();
    let mut scores: Vec<Score> = fits.iter().map(|f| f.score(&owners)).collect();
    scores.sort_by(|a, b| a.deviance_per_query.total_cmp(&b.deviance_per_query));
    let min_scored = if observations.is_empty() { MIN_TOTALS_FOR_OUTLIER } else { MIN_TIMED_LOADS };
    let (decided, reason) = decide(ways, min_scored, &consistent, &scores);
    Verdict { consistent: consistent.iter().map(|f| f.policy).collect(), scores, decided, reason }
}

/// Returns whether the verdict is final, and the reason in one clause.
fn decide(ways: usize, min_scored: usize, consistent: &[&Fit], scores: &[Score]) -> (bool, String) {
    let names: Vec<&str> = consistent.iter().map(|f| f.policy.token()).collect();
    let named = names.join(", ");
    if let Some(undertested) = consistent.iter().find(|f| f.scored() < min_scored) {
        let why = format!(
            "too few observations: {} timed loads have a prediction under {} that is independent of the start; {min_scored} are needed",
            undertested.scored(),
            undertested.policy
        );
        return (false, why);
    }
    if consistent.is_empty() {
        let nearest = scores.first().map_or(String::new(), |s| {
            format!("; {} fits best, with a deviance of {:.1} per timed load", s.policy, s.deviance_per_query)
        });
        return (true, format!("no textbook policy: each is rejected{nearest}"));
    }
    let groups = indistinguishable(ways, super::MIN_VISITS);
    if groups.iter().any(|g| consistent.iter().all(|f| g.contains(&f.policy))) {
        let why = match consistent.len() {
            1 => format!("every policy but {named} is rejected"),
            _ => format!("no program distinguishes {named} with {ways} ways; every other policy is rejected"),
        };
        return (true, why);
    }
    (false, format!("too few observations: they do not distinguish {named}"))
}

/// Returns the reason why observations are unusable: counts that do not match their program, or two contradictory
/// observations of one program.
fn fault(observations: &[Observation]) -> Option<String> {
    for (i, o) in observations.iter().enumerate() {
        let queries = o.program.queries();
        let complete = o.missed.len() == queries && o.of.len() == queries;
        if !complete || o.missed.iter().zip(&o.of).any(|(k, n)| k > n) {
            return Some(format!(
                "contradictory observations: the counts of number {i} do not match its program"
            ));
        }
        for other in observations[..i].iter().filter(|other| other.program == o.program) {
            for query in 0..queries {
                let (k1, n1) = (f64::from(o.missed[query]), f64::from(o.of[query]));
                let (k2, n2) = (f64::from(other.missed[query]), f64::from(other.of[query]));
                let q = ((k1 + k2 + 1.0) / (n1 + n2 + 2.0)).clamp(MIN_ERROR, 1.0 - MIN_ERROR);
                let variance = q * (1.0 - q) * (1.0 / n1 + 1.0 / n2 + 2.0 * MAX_RHO);
                // Five standard errors, at the largest overdispersion that counts as noise.
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

/// Returns the program (or total) and the timed load of each term.
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
                    scored.then(|| query_term(noise, prediction.miss[query], prediction.error[query], k, n)),
                );
            }
        }
        terms.extend(laps::terms(noise, totals, &expected.laps[at]));
        Fit { policy, terms }
    }

    fn scored(&self) -> usize {
        self.terms.iter().flatten().count()
    }

    fn mean_deviance(&self) -> f64 {
        let sum: f64 = self.terms.iter().flatten().map(|t| t.deviance).sum();
        sum / self.scored().max(1) as f64
    }

    /// Returns whether the policy is not rejected absolutely. The first `programs` owners are programs, the others
    /// totals. `cost_totals` are not laps, so they cannot have been disturbed.
    fn fits(&self, owners: &[(usize, usize)], programs: usize, cost_totals: &[usize]) -> bool {
        let mut each = vec![(0.0, 0); owners.last().map_or(0, |o| o.0 + 1)];
        for (term, (owner, _)) in self.terms.iter().zip(owners) {
            if let Some(t) = term {
                each[*owner].0 += t.deviance;
                each[*owner].1 += 1;
            }
        }
        let scored = |e: &&(f64, usize)| e.1 > 0;
        let owned = each.iter().filter(scored).count().max(1) as f64;
        let worst = |(a, b): (f64, usize), (c, d): (f64, usize)| p_value(a, b).total_cmp(&p_value(c, d));
        for (kind, enough) in
            [(0..programs, MIN_PROGRAMS_FOR_OUTLIER), (programs..each.len(), MIN_TOTALS_FOR_OUTLIER)]
        {
            if each.get(kind.clone()).is_some_and(|e| e.iter().filter(scored).count() >= enough) {
                let outlier =
                    kind.filter(|i| !cost_totals.contains(i)).min_by(|i, j| worst(each[*i], each[*j]));
                outlier.into_iter().for_each(|i| each[i] = (0.0, 0));
            }
        }
        let (deviance, queries) = each.iter().fold((0.0, 0), |(d, n), e| (d + e.0, n + e.1));
        p_value(deviance, queries) >= REJECTION_P_VALUE
            && each.iter().all(|(d, n)| p_value(*d, *n) * owned >= REJECTION_P_VALUE)
    }

    /// Returns whether another policy explains what both predict so much better that this one is rejected.
    fn beaten_by(&self, other: &Fit) -> bool {
        let both = self.terms.iter().zip(&other.terms).filter_map(|(a, b)| a.as_ref().zip(b.as_ref()));
        let better: f64 = both.map(|(mine, theirs)| theirs.log_likelihood - mine.log_likelihood).sum();
        better > REJECTION_RATIO.ln()
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

/// Returns the p-value of a chi-squared with this many degrees of freedom.
fn p_value(deviance: f64, degrees: usize) -> f64 {
    if degrees == 0 || deviance <= 0.0 { 1.0 } else { gamma_ur(degrees as f64 / 2.0, deviance / 2.0) }
}

/// Returns the term of `k` classified misses in `n` laps, for a predicted share `miss` with a standard error.
fn query_term(noise: &Noise, miss: f64, error: f64, k: u32, n: u32) -> Term {
    let (k, n) = (f64::from(k), f64::from(n));
    let q = noise.reported(miss);
    // An error of the prediction affects all laps together, as overdispersion does.
    let rho = (noise.rho + error * error / (q * (1.0 - q))).min(0.5);
    // ln of n over k: the same for every model; needed for the likelihood of the count.
    let ln_binomial = -ln_beta(k + 1.0, n - k + 1.0) - (n + 1.0).ln();
    let log_likelihood = |q: f64| {
        let (a, b) = (q * (1.0 - rho) / rho, (1.0 - q) * (1.0 - rho) / rho);
        ln_binomial + ln_beta(k + a, n - k + b) - ln_beta(a, b)
    };
    let of_policy = log_likelihood(q);
    let saturated = log_likelihood((k / n).clamp(noise.reported(0.0), noise.reported(1.0)));
    let deviance = (2.0 * (saturated - of_policy)).max(0.0);
    Term { log_likelihood: of_policy, deviance, predicted: q, observed: k / n }
}
