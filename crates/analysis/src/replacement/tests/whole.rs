//! Laps timed as a whole: simulated under each policy, with costs and errors that the judge does not know.

use super::*;

/// What an access costs, a miss in the nearer level, and one in the level under test; and the relative error of a lap.
#[derive(Clone, Copy)]
struct Clockwork {
    costs: [f64; 3],
    error: f64,
}

/// Times laps of a program as a whole, the more of them the shorter they are, as a probe does.
fn time(
    cache: &mut dyn Cache,
    mut nearer: Option<Set>,
    program: &Program,
    of: Clockwork,
    rng: &mut Rng,
) -> Total {
    let laps = 400;
    let mut sum = 0.0;
    for lap in 0..laps + WARM_UP {
        for access in &program.accesses {
            let (number, tested) = match access.block {
                Block::Tested(n) => (n, true),
                Block::Wash(n) => (30_000 + n, false),
            };
            let answered = nearer.as_mut().map(|n| n.visit(number));
            let missed = answered != Some(true) && tested && !cache.visit(number);
            let counted = f64::from(u8::from(lap >= WARM_UP));
            sum += counted * of.costs[0];
            sum += if answered == Some(false) { counted * of.costs[1] } else { 0.0 };
            sum += if missed { counted * of.costs[2] } else { 0.0 };
        }
    }
    // Twelve draws from 0 to 1 add up to something normal of variance 1.
    let normal: f64 = (0..12).map(|_| rng.below(1 << 30) as f64 / f64::from(1 << 30)).sum::<f64>() - 6.0;
    let lap = sum / laps as f64;
    Total {
        program: program.clone(),
        seen: Seen::Time(lap * (1.0 + of.error * normal)),
        error: of.error * lap,
    }
}

/// Of sessions under each policy: all, those that keep the truth, those that name exactly what is alike, and those that
/// are decided without the truth.
#[derive(Default, Debug)]
struct Tally {
    all: u32,
    kept: u32,
    exact: u32,
    wrong: u32,
}

fn sessions(ways: usize, visits: usize, costs: &[f64], runs: u64, tally: &mut Tally) {
    let programs = programs_in_whole(ways, visits, None);
    let began = std::time::Instant::now();
    let expected = [Expected::new(ways, None, &[], &programs.iter().collect::<Vec<_>>())];
    println!("{} programs, whole {:?}", programs.len(), began.elapsed());
    let began = std::time::Instant::now();
    let asks = super::super::programs(ways, visits, None);
    Expected::new(ways, None, &asks.iter().collect::<Vec<_>>(), &[]);
    println!("asks {:?}", began.elapsed());
    for truth in Policy::ALL {
        let group = alike(ways, visits).into_iter().find(|g| g.contains(truth)).unwrap_or_default();
        for (run, miss) in (0..runs).flat_map(|run| costs.iter().map(move |miss| (run, *miss))) {
            let of = Clockwork { costs: [1.7, 0.0, 1.7 * miss], error: 0.002 };
            let mut rng = Rng::new((ways as u64) << 32 ^ run << 8 ^ miss.to_bits() ^ *truth as u64);
            let totals = programs.iter().map(|program| {
                let mut set = Of::start(*truth, ways, rng.next());
                time(&mut set, None, program, of, &mut rng)
            });
            let verdict = weigh(ways, &expected, &[], &totals.collect::<Vec<_>>());
            let kept = verdict.consistent.contains(truth);
            tally.all += 1;
            tally.kept += u32::from(kept);
            tally.exact += u32::from(
                verdict.decided && sorted(verdict.consistent.clone()) == sorted(group.clone()),
            );
            tally.wrong += u32::from(verdict.decided && !kept);
            if !kept {
                eprintln!("{ways} ways, {truth}, a miss of {miss}: {}", verdict.reason);
            }
        }
    }
}

/// What a miss costs, in hits.
const MISSES: [f64; 4] = [0.35, 0.7, 1.5, 3.0];

#[test]
fn the_truth_comes_out_of_laps_as_a_whole() {
    for visits in [2, 8] {
        for ways in [2, 3, 4, 6, 8, 11, 12, 16, 20] {
            let mut tally = Tally::default();
            sessions(ways, visits, &MISSES, 1, &mut tally);
            println!("{ways} ways, {visits} visits: {tally:?}");
        }
    }
}
