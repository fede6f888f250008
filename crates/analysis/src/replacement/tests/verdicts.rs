//! Verdicts on simulated observations whose policy is known.

use super::*;
use crate::seeds::Seeds;

/// Numbers of sessions: all, those whose result includes the true policy, and those whose result is exactly the group
/// of policies that cannot be distinguished from it.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    all: usize,
    kept: usize,
    exact: usize,
}

/// Predictions for a number of ways, computed once for all sessions.
struct Battery {
    ways: usize,
    visits: usize,
    programs: Vec<Program>,
    expected: [Expected; 1],
}

impl Battery {
    fn of(ways: usize, visits: usize) -> Battery {
        let programs = programs(ways, visits, None);
        let expected = [Expected::new(ways, None, &programs.iter().collect::<Vec<_>>(), &[])];
        Battery { ways, visits, programs, expected }
    }

    /// Adds the results of `runs` sessions under each policy.
    fn sessions(&self, error: f64, runs: u64, tally: &mut Tally) {
        let ways = self.ways;
        for truth in Policy::ALL {
            let group = indistinguishable(ways, self.visits)
                .into_iter()
                .find(|g| g.contains(truth))
                .unwrap_or_default();
            for run in 0..runs {
                let observed = self.programs.iter().enumerate().map(|(i, program)| {
                    let seed = (1000 * (ways as u64) + 100 * run + i as u64)
                        ^ error.to_bits()
                        ^ ((*truth as u64) << 40);
                    observe(&mut KnownPolicy::start(*truth, ways, seed), program, None, 200, error, seed)
                });
                let verdict = score_policies(ways, &self.expected, &observed.collect::<Vec<_>>(), &[]);
                let kept = verdict.consistent.contains(truth);
                let exact = sorted(verdict.consistent.clone()) == sorted(group.clone()) && verdict.decided;
                tally.all += 1;
                tally.kept += usize::from(kept);
                tally.exact += usize::from(exact);
                if !kept {
                    eprintln!(
                        "{ways} ways, {truth}, errors {error}: {:?} {:?}",
                        verdict.reason, verdict.scores
                    );
                }
            }
        }
    }
}

/// Asserts that the true policy is consistent in 99 % of sessions, and that 97 % have exactly its group (up to 2 % of
/// errors).
fn assert_policies_found(ways: impl Iterator<Item = usize>) {
    let errors = [(0.0, 0.97), (0.02, 0.97), (0.05, 0.90)];
    let seeds = Seeds::of(2, 1);
    let mut tallies = [Tally::default(); 3];
    for ways in ways {
        let battery = Battery::of(ways, if ways % 3 == 0 { 2 } else { 8 });
        for ((error, _), tally) in errors.iter().zip(&mut tallies) {
            battery.sessions(*error, seeds.count, tally);
        }
    }
    for ((error, floor), tally) in errors.into_iter().zip(tallies) {
        println!("errors {error}: {tally:?}");
        assert!(tally.kept >= seeds.least(0.99, tally.all), "errors {error}: {tally:?}");
        assert!(tally.exact >= seeds.least(floor, tally.all), "errors {error}: {tally:?}");
    }
}

#[test]
fn policy_is_found_with_even_numbers_of_ways() {
    assert_policies_found((2..=20).step_by(2));
}

#[test]
fn policy_is_found_with_odd_numbers_of_ways() {
    assert_policies_found((3..=19).step_by(2));
}

/// A long run with many more sessions than a test run has time for.
#[test]
#[ignore = "minutes: cargo test --release -p fathom-analysis --lib many_sessions -- --ignored --nocapture"]
fn many_sessions() {
    for visits in VISITS {
        let batteries: Vec<Battery> = (2..=20).map(|ways| Battery::of(ways, visits)).collect();
        for error in [0.0, 0.02, 0.05] {
            let mut tally = Tally::default();
            batteries.iter().for_each(|battery| battery.sessions(error, 20, &mut tally));
            println!("{visits} visits, errors {error}: {tally:?}");
        }
    }
}

#[test]
fn unknown_policy_gets_no_name() {
    for ways in [2, 4, 6, 8, 12, 16, 20] {
        let programs = programs(ways, 8, None);
        let expected = [Expected::new(ways, None, &programs.iter().collect::<Vec<_>>(), &[])];
        for (kind, error) in (0..4).flat_map(|k| [(k, 0.0), (k, 0.02), (k, 0.05)]) {
            // In a set of two ways LIP and "most recent" are equal.
            let empty: Vec<u16> = (0..ways as u16).map(|n| 50_000 + n).collect();
            let observed = programs.iter().enumerate().map(|(i, program)| {
                let seed = 77 + i as u64;
                let mut other = match kind {
                    0 => UnknownPolicy::Mixed(empty.clone(), Rng::new(seed)),
                    1 => UnknownPolicy::MostRecent(empty.clone()),
                    2 => UnknownPolicy::Lip(empty.clone()),
                    _ => UnknownPolicy::Hashed(vec![Set::new(Policy::Lru, ways, seed); 4]),
                };
                observe(&mut other, program, None, 200, error, seed)
            });
            let verdict = score_policies(ways, &expected, &observed.collect::<Vec<_>>(), &[]);
            let (named, why) = (verdict.consistent, verdict.reason);
            assert!(named.is_empty(), "{ways} ways, kind {kind}, errors {error}: {named:?}");
            assert!(why.starts_with("no textbook") || why.starts_with("contradictory"), "{why}");
            assert_eq!(verdict.decided, why.starts_with("no textbook"));
            assert!(kind != 0 || verdict.decided, "{ways}: {why}");
        }
    }
}

/// Returns the observations of a session with eight ways.
fn session(truth: Policy, laps: u32, error: f64) -> Vec<Observation> {
    let seen = |(i, p): (usize, &Program)| {
        observe(&mut KnownPolicy::start(truth, 8, i as u64), p, None, laps, error, 31 * i as u64)
    };
    programs(8, 8, None).iter().enumerate().map(seen).collect()
}

#[test]
fn too_little_or_contradictory_evidence_decides_nothing() {
    let undecided = |observations: &[Observation], why: &str| {
        let verdict = judge(8, &[], observations, &[]);
        assert!(!verdict.decided && verdict.reason.starts_with(why), "{}", verdict.reason);
        verdict.consistent
    };
    let full = session(Policy::Lru, 200, 0.02);
    undecided(&[], "too few");
    undecided(&session(Policy::Lru, 5, 0.02), "too few");
    // Calibration, and one program that excludes almost nothing.
    let kept = undecided(&full[..4], "too few");
    assert!(kept.contains(&Policy::Lru) && kept.len() > 1);
    // An observation without counts is contradictory.
    let mut short = full[3].clone();
    short.missed = vec![];
    undecided(&[short], "contradictory");
    let mut twice = full.clone();
    twice.push(Observation { missed: vec![0], ..full[3].clone() });
    undecided(&twice, "contradictory");
    // Accesses that must hit miss every second time, and accesses that must miss hit every second time.
    for program in [0, 2] {
        let mut wrong = full.clone();
        wrong[program].missed.fill(100);
        assert!(undecided(&wrong, "contradictory").is_empty());
    }
    assert!(undecided(&session(Policy::Lru, 200, 0.3), "contradictory").is_empty());
}

#[test]
fn verdict_names_the_worst_fit() {
    let verdict = judge(8, &[], &session(Policy::TreePlru, 200, 0.01), &[]);
    assert_eq!((verdict.consistent.as_slice(), verdict.decided), ([Policy::TreePlru].as_slice(), true));
    assert_eq!(verdict.reason, "every policy but tree-plru is rejected");
    assert_eq!(verdict.scores.len(), Policy::ALL.len());
    assert_eq!(verdict.scores[0].policy, Policy::TreePlru);
    let fifo = verdict.scores.iter().find(|s| s.policy == Policy::Fifo).unwrap();
    let worst = fifo.worst.unwrap();
    assert!((worst.predicted - worst.observed).abs() > 0.9 && fifo.deviance_per_query > 20.0);
    let two = judge(
        2,
        &[],
        &{
            let seen = |(i, p): (usize, &Program)| {
                observe(&mut KnownPolicy::start(Policy::Lru, 2, i as u64), p, None, 200, 0.01, i as u64)
            };
            programs(2, 8, None).iter().enumerate().map(seen).collect::<Vec<_>>()
        },
        &[],
    );
    assert!(two.decided && two.consistent.len() == 5, "{}", two.reason);
}

/// Returns a program with `lines` lines in turn.
fn cycle(lines: usize) -> Program {
    let accesses = (0..lines).map(|n| Access { block: Block::Tested(n as u16), timed: false });
    Program { accesses: accesses.collect() }
}

#[test]
fn counted_misses_are_used_as_evidence() {
    let seen = session(Policy::Random, 200, 0.02);
    let counted = |lines: usize, misses: f64, error: f64| Total {
        program: cycle(lines),
        seen: LapObservation::Misses(misses),
        error,
    };
    let curve = [9, 10, 12, 16, 24].map(|n| counted(n, misses_per_round(Policy::Random, 8, n), 0.1));
    let verdict = judge(8, &[], &seen, &curve);
    assert_eq!(verdict.consistent, [Policy::Random], "{}", verdict.reason);
    // No textbook policy has study S1's 4.69 misses per round of nine lines, whatever the programs show.
    for truth in Policy::ALL {
        let verdict = judge(8, &[], &session(*truth, 200, 0.02), &[counted(9, 4.69, 0.02)]);
        // If a cycle of nine depends on the initial state, it excludes nothing.
        let steady = predict_lap(*truth, 8, &cycle(9), None).steady;
        assert_eq!(verdict.consistent.is_empty(), steady, "{truth}: {}", verdict.reason);
        assert!(steady || !matches!(truth, Policy::Lru | Policy::TreePlru | Policy::Nru | Policy::Random));
    }
}

#[test]
fn second_level_is_identified() {
    for (ways, near, random) in
        [(16, Policy::TreePlru, false), (4, Policy::Lru, false), (8, Policy::Random, true)]
    {
        let programs = programs(ways, 8, Some(Evictors { ways: 8, random }));
        let requested: Vec<&Program> = programs.iter().collect();
        let expected = [Policy::Lru, near].map(|near| Expected::new(ways, Some((near, 8)), &requested, &[]));
        for truth in [Policy::Lru, Policy::TreePlru, Policy::Nru, Policy::Random, Policy::Srrip] {
            let observed = programs.iter().enumerate().map(|(i, p)| {
                let seed = 900 + i as u64;
                observe(
                    &mut KnownPolicy::start(truth, ways, seed),
                    p,
                    Some(Set::new(near, 8, seed)),
                    200,
                    0.02,
                    seed,
                )
            });
            let observed: Vec<Observation> = observed.collect();
            let verdict = score_policies(ways, &expected, &observed, &[]);
            assert_eq!(verdict.consistent, [truth], "{ways} behind {near}: {}", verdict.reason);
        }
    }
}
