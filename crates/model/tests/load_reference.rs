//! Loads of the model against the naive one: the time of every access of CPU 0 beside them, and all that they did.

mod common;
#[path = "common/reference.rs"]
mod reference;

use common::{Draw, random_description};
use fathom_model::{Description, Model};
use fathom_probe::load::Load;
use fathom_probe::machine::{Attribute, Counters, Disturb, Machine, MapRequest, Pages};
use reference::{Reference, load::Loaded};

const STRESSORS: [&str; 18] = [
    "cpu",
    "vm:32K",
    "vm:20K:100",
    "vm:64K:1:keep",
    "vm:96K:4K:hold1",
    "vm:64K:16K",
    "malloc:16K:32",
    "malloc:200K",
    "malloc:100K:4K:hold1",
    "read:64K",
    "read:5000",
    "write:16K",
    "copy:48K",
    "chase:16K",
    "chase:300K",
    "pages:256K",
    "fault:300K",
    "fault:64K",
];

/// A load of up to four stressors.
fn random_load(draw: &mut Draw) -> Load {
    let words: Vec<String> = (0..1 + draw.below(4))
        .map(|_| {
            let word = draw.one_of(&STRESSORS);
            let (name, rest) =
                word.split_once(':').map_or((word, String::new()), |(n, r)| (n, format!(":{r}")));
            format!("{name}*{}{rest}", 1 + draw.below(3))
        })
        .collect();
    Load::parse(&words.join(" ")).expect("a load")
}

/// Runs both, the model on `d` and the naive one on `other`; the first difference, if any. `None` also if the machine
/// has one CPU.
fn differ(d: &Description, other: &Description, seed: u64) -> Option<String> {
    let draw = &mut Draw::new(seed ^ 0x10ad);
    let load = random_load(draw);
    let mut model = Model::new(d, seed);
    let naive = Reference::new(other, seed, model.arena_bytes(), 0..0);
    let page = d.memory.pages[0];
    let request = MapRequest {
        bytes: 12 * page,
        pages: Pages::Base,
        attribute: Attribute::WriteBack,
        place: draw.next(),
    };
    let mapping = model.map(&request).expect("base pages");
    model.start_load(&load, false).unwrap_or_else(|refusal| panic!("seed {seed}: {load}: {refusal:?}"));
    let mut naive = Loaded::new(naive, &load);
    for n in 0..60 {
        let most = if draw.chance(8) { 300_000 } else { 3000 };
        let cycles = draw.below(most);
        model.alu(cycles);
        naive.compute(cycles);
        let at = mapping.base + draw.below(mapping.bytes / 8) * 8;
        model.follow(model.cell(at).expect("mapped"));
        let (clock, expected) = (model.clock(), naive.load(at));
        if clock != expected {
            return Some(format!("seed {seed}: {load}: load {n}: {clock} instead of {expected}"));
        }
    }
    let (rows, expected) = (model.stop_load().load_stats, naive.stats());
    for (row, expected) in rows.iter().zip(&expected) {
        let figures =
            |s: &fathom_probe::load::LoadStats| (s.stressor, s.passes, s.lines, s.faults, s.bytes, s.shared);
        if figures(row) != figures(expected) {
            return Some(format!("seed {seed}: {load}: {row:?} instead of {expected:?}"));
        }
    }
    if model.stalled() != naive.machine.stalled() {
        return Some(format!("stalled {}, naive {}", model.stalled(), naive.machine.stalled()));
    }
    if let Some(difference) = naive.machine.differs_in_sharing(&model) {
        return Some(format!("seed {seed}: {load}: {difference}"));
    }
    let counted = model.counters().expect("counted");
    let counted: Vec<(String, u64)> =
        counted.into_iter().map(|count| (count.name.into_owned(), count.value)).collect();
    let wrong = naive.machine.counters().into_iter().find(|count| !counted.contains(count));
    wrong.map(|count| format!("seed {seed}: {load}: {count:?}, not {counted:?}"))
}

fn parallel(seed: u64) -> Option<Description> {
    let d = random_description(seed);
    (d.core.cpus > 1).then_some(d)
}

#[test]
fn every_step_of_a_load_is_that_of_the_naive_model() {
    let seeds = if std::env::var_os("FATHOM_FULL").is_some() { 1500 } else { 150 };
    let mut ran = 0;
    for seed in 0..seeds {
        let Some(d) = parallel(seed) else { continue };
        ran += 1;
        assert_eq!(differ(&d, &d, seed), None);
    }
    assert!(ran > 60, "{ran}");
}

#[test]
fn comparison_sees_planted_differences() {
    let caught = |bug: fn(&mut Description)| {
        let differs = |seed: u64| {
            let d = parallel(seed)?;
            let mut other = d.clone();
            bug(&mut other);
            (other != d).then(|| differ(&d, &other, seed).is_some())
        };
        let all: Vec<bool> = (0..60).filter_map(differs).collect();
        println!("caught in {} of {}", all.iter().filter(|caught| **caught).count(), all.len());
        all.len() >= 8 && all.iter().filter(|caught| **caught).count() * 4 >= all.len()
    };
    assert!(caught(|d| d.core.cpus += 1), "another CPU");
    assert!(caught(|d| d.core.branch.cycles += 1.0), "loops");
    assert!(caught(|d| d.levels.iter_mut().for_each(|l| l.allocate = true)), "stores allocate");
    assert!(caught(|d| d.walk.iter_mut().for_each(|w| w.latency.cycles += 1.0)), "walks");
}
