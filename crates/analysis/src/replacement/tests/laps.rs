//! Tests with laps simulated under each policy, with costs and errors unknown to the judge.

use super::*;
use crate::seeds::{Seeds, full};

/// Costs of an access, of a miss in the nearer level and of a miss in the tested level, and the relative error of a
/// lap.
#[derive(Clone, Copy)]
struct Costs {
    costs: [f64; 3],
    error: f64,
}

/// Simulates timed laps of a program.
fn time(
    cache: &mut dyn Cache,
    mut nearer: Option<Set>,
    program: &Program,
    of: Costs,
    rng: &mut Rng,
) -> Total {
    let laps = 400;
    let mut sum = 0.0;
    for lap in 0..laps + WARM_UP {
        for access in &program.accesses {
            let (number, tested) = match access.block {
                Block::Tested(n) => (n, true),
                Block::Evictors(n) => (30_000 + n, false),
            };
            let nearer_hit = nearer.as_mut().map(|n| n.visit(number));
            let missed = nearer_hit != Some(true) && tested && !cache.visit(number);
            let counted = f64::from(u8::from(lap >= WARM_UP));
            sum += counted * of.costs[0];
            sum += if nearer_hit == Some(false) { counted * of.costs[1] } else { 0.0 };
            sum += if missed { counted * of.costs[2] } else { 0.0 };
        }
    }
    // The sum of twelve uniform numbers from 0 to 1 is nearly normal with variance 1.
    let normal: f64 = (0..12).map(|_| rng.below(1 << 30) as f64 / f64::from(1 << 30)).sum::<f64>() - 6.0;
    let lap = sum / laps as f64;
    Total {
        program: program.clone(),
        seen: LapObservation::Time(lap * (1.0 + of.error * normal)),
        error: of.error * lap,
    }
}

/// Returns the programs and an empty one, which stands for the cost of a miss.
fn whole(programs: &[Program]) -> Vec<&Program> {
    static NONE: Program = Program { accesses: Vec::new() };
    programs.iter().chain([&NONE]).collect()
}

/// Adds the cost of a miss to the laps, with the precision of a latency curve and an error of half of that.
fn with_cost(mut totals: Vec<Total>, of: Costs) -> Vec<Total> {
    let seen = LapObservation::Cost(1.025 * of.costs[2]);
    totals.push(Total { program: Program::default(), seen, error: 0.05 * of.costs[2] });
    totals
}

/// Numbers of sessions: all, those whose result includes the true policy, those whose result is exactly the
/// indistinguishable group, and those decided without the true policy.
#[derive(Default, Debug)]
struct Tally {
    all: u32,
    kept: u32,
    exact: u32,
    wrong: u32,
}

fn sessions(ways: usize, visits: usize, costs: &[f64], runs: u64, tally: &mut Tally) {
    let programs = programs_per_lap(ways, visits, None);
    let expected = [Expected::new(ways, None, &[], &whole(&programs))];
    for truth in Policy::ALL {
        let group =
            indistinguishable(ways, visits).into_iter().find(|g| g.contains(truth)).unwrap_or_default();
        for (run, miss) in (0..runs).flat_map(|run| costs.iter().map(move |miss| (run, *miss))) {
            let of = Costs { costs: [1.7, 0.0, 1.7 * miss], error: 0.002 };
            let mut rng = Rng::new((ways as u64) << 32 ^ run << 8 ^ miss.to_bits() ^ *truth as u64);
            let totals = programs.iter().map(|program| {
                let mut set = KnownPolicy::start(*truth, ways, rng.next());
                time(&mut set, None, program, of, &mut rng)
            });
            let verdict = score_policies(ways, &expected, &[], &with_cost(totals.collect(), of));
            let kept = verdict.consistent.contains(truth);
            tally.all += 1;
            tally.kept += u32::from(kept);
            tally.exact +=
                u32::from(verdict.decided && sorted(verdict.consistent.clone()) == sorted(group.clone()));
            tally.wrong += u32::from(verdict.decided && !kept);
            if !kept {
                eprintln!("{ways} ways, {truth}, a miss of {miss}: {}", verdict.reason);
            }
        }
    }
}

/// Costs of a miss, as multiples of a hit.
const MISSES: [f64; 4] = [0.35, 0.7, 1.5, 3.0];

/// Asserts, for sessions with each number of ways, that the true policy is consistent in 99 % and that `exact` of them
/// have exactly its group.
fn assert_policies_found(ways: impl Iterator<Item = usize>, exact: f64) {
    let mut tally = Tally::default();
    for ways in ways {
        sessions(ways, if ways % 3 == 0 { 2 } else { 8 }, &MISSES, 1, &mut tally);
    }
    println!("{tally:?}");
    let seeds = Seeds::of(2, 1);
    assert!(tally.kept as usize >= seeds.least(0.99, tally.all as usize), "{tally:?}");
    assert!(tally.exact as usize >= seeds.least(exact, tally.all as usize), "{tally:?}");
    // One in a thousand may be wrong: a state that no simulated start reaches.
    assert!(1000 * tally.wrong <= tally.all, "{tally:?}");
}

#[test]
fn policy_is_found_from_laps_of_few_ways() {
    assert_policies_found((2..=8).step_by(if full() { 1 } else { 2 }), 0.97);
}

#[test]
fn policy_is_found_from_laps_of_many_ways() {
    assert_policies_found((9..=20).step_by(if full() { 2 } else { 7 }), 0.9);
}

/// A long run with many more sessions than a test run has time for.
#[test]
#[ignore = "minutes: cargo test --release -p fathom-analysis --lib many_laps -- --ignored --nocapture"]
fn many_laps() {
    for ways in 2..=20 {
        let mut tally = Tally::default();
        sessions(ways, if ways % 3 == 0 { 2 } else { 8 }, &MISSES, 20, &mut tally);
        println!("{ways} ways: {tally:?}");
    }
}

#[test]
fn unknown_policy_gets_no_name_from_laps() {
    for ways in [4, 8, 12, 6, 16, 20].into_iter().take(if full() { 6 } else { 3 }) {
        let programs = programs_per_lap(ways, 8, None);
        let expected = [Expected::new(ways, None, &[], &whole(&programs))];
        for (kind, miss) in (0..4).flat_map(|kind| MISSES.map(|miss| (kind, miss))) {
            let empty: Vec<u16> = (0..ways as u16).map(|n| 50_000 + n).collect();
            let mut rng = Rng::new(77 + kind + ways as u64);
            let of = Costs { costs: [1.7, 0.0, 1.7 * miss], error: 0.002 };
            let totals = programs.iter().map(|program| {
                let mut other = match kind {
                    0 => UnknownPolicy::Mixed(empty.clone(), Rng::new(rng.next())),
                    1 => UnknownPolicy::MostRecent(empty.clone()),
                    2 => UnknownPolicy::Lip(empty.clone()),
                    _ => UnknownPolicy::Hashed(vec![Set::new(Policy::Lru, ways, rng.next()); 4]),
                };
                time(&mut other, None, program, of, &mut rng)
            });
            let verdict = score_policies(ways, &expected, &[], &with_cost(totals.collect(), of));
            let (named, why) = (verdict.consistent, verdict.reason);
            assert!(
                named.is_empty() && verdict.decided,
                "{ways} ways, kind {kind}, {miss}: {named:?}, {why}"
            );
        }
    }
}

#[test]
fn second_level_is_identified_from_laps() {
    let all = [(4, Policy::Lru, false), (8, Policy::Random, true), (16, Policy::TreePlru, false)];
    for (ways, near, random) in all.into_iter().take(if full() { 3 } else { 2 }) {
        let programs = programs_per_lap(ways, 8, Some(Evictors { ways: 8, random }));
        let whole: Vec<&Program> = programs.iter().collect();
        let expected = [Policy::Lru, near].map(|near| Expected::new(ways, Some((near, 8)), &[], &whole));
        for truth in [Policy::Lru, Policy::TreePlru, Policy::Nru, Policy::Random, Policy::Srrip] {
            // The default tier has only the more difficult cost.
            for miss in [0.7_f64, 3.0].into_iter().take(if full() { 2 } else { 1 }) {
                let mut rng = Rng::new(miss.to_bits() ^ ways as u64);
                let of = Costs { costs: [1.0, 2.5, 3.5 * miss], error: 0.002 };
                let totals = programs.iter().map(|program| {
                    let nearer = Some(Set::new(near, 8, rng.next()));
                    time(&mut KnownPolicy::start(truth, ways, rng.next()), nearer, program, of, &mut rng)
                });
                let verdict = score_policies(ways, &expected, &[], &totals.collect::<Vec<_>>());
                println!("{ways} behind {near}, {truth}, {miss}: {:?}", verdict.consistent);
                assert!(
                    verdict.consistent.contains(&truth),
                    "{ways} behind {near}, {truth}: {}",
                    verdict.reason
                );
            }
        }
    }
}

#[test]
fn uninformative_lap_times_decide_nothing() {
    let programs = programs_per_lap(8, 8, None);
    let session = |miss: f64, error: f64, of: usize| {
        let mut rng = Rng::new(5);
        let of = programs[..of].iter().map(|program| {
            let of = Costs { costs: [1.7, 0.0, miss], error };
            time(&mut KnownPolicy::start(Policy::Lru, 8, rng.next()), None, program, of, &mut rng)
        });
        judge(8, &[], &[], &of.collect::<Vec<_>>())
    };
    // Misses without cost, errors of a third of a lap, and few programs.
    for verdict in
        [session(0.0, 0.002, programs.len()), session(1.0, 0.3, programs.len()), session(1.0, 0.002, 5)]
    {
        assert!(!verdict.decided && verdict.consistent.contains(&Policy::Lru), "{}", verdict.reason);
        assert!(verdict.reason.starts_with("too few"), "{}", verdict.reason);
    }
    let mut broken =
        vec![Total { program: programs[0].clone(), seen: LapObservation::Time(f64::NAN), error: 0.1 }];
    assert!(!judge(8, &[], &[], &broken).decided);
    broken[0].seen = LapObservation::Time(0.0);
    broken[0].error = f64::INFINITY;
    assert!(!judge(8, &[], &[], &broken).decided);
}
