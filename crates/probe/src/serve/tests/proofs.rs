//! Verification of samples: those of a correct machine pass, those of a defective one fail.

use super::*;

const REQUESTED: [&str; 19] = [
    "trial id=1 pattern=chase bytes=8192 loads=300 samples=4 warm=77",
    "trial id=1 pattern=chase bytes=17024 order=window window=4096 loads=100 samples=4",
    "trial id=1 pattern=chase bytes=8192 order=sequential loads=300 samples=4 warm=1",
    "trial id=1 pattern=pages bytes=2048 loads=300 samples=4 seed=9",
    "trial id=1 pattern=single bytes=8192 loads=77 samples=4 seed=3",
    "trial id=1 pattern=single bytes=8192 loads=77 timed=5 samples=4",
    "trial id=1 pattern=single bytes=8192 loads=3 timed=5 samples=4",
    "trial id=1 pattern=conflict bytes=576 period=4096 offset=192 loads=301 samples=4",
    "trial id=1 pattern=conflict bytes=36864 stride=4096 group=4 period=24576 loads=301 samples=4 warm=5",
    "trial id=1 pattern=pair bytes=960 stride=24 period=1000 loads=301 samples=4 seed=8",
    "trial id=1 pattern=single bytes=576 period=4096 loads=77 samples=4",
    "trial id=1 pattern=eviction-set period=4096 stride=1024 sequence=\"A-I B a-d A\" loads=301 samples=4 warm=3",
    "trial id=1 pattern=eviction-set period=4096 sequence=\"A-I B? A C?\" samples=5 warm=3",
    "trial id=1 pattern=chase bytes=8192 order=backward3 loads=300 samples=4",
    "trial id=1 pattern=chase bytes=65600 order=forward8 loads=300 samples=4 warm=9",
    "trial id=1 pattern=chase bytes=131072 order=repermuted loads=300 samples=4 warm=900",
    "trial id=1 pattern=single bytes=36864 stride=4096 group=4 period=24576 loads=77 samples=4",
    "trial id=1 pattern=pages per_page=2 bytes=2048 loads=300 samples=4 seed=9",
    "trial id=1 pattern=pages per_page=2 order=pairs bytes=2048 loads=300 samples=4 seed=9",
];

#[test]
fn correct_samples_pass_and_forged_ones_fail() {
    for requested in REQUESTED {
        assert_eq!(unverified(&served_in_order(Forgery::Honest, &[requested])), [], "{requested}");
        for forgery in [Forgery::Idle, Forgery::OneShort, Forgery::Home, Forgery::Stuck] {
            assert!(
                !unverified(&served_in_order(forgery, &[requested])).is_empty(),
                "{forgery:?} got through: {requested}"
            );
        }
    }
}

/// Chains of different numbers, and one alone.
const TOGETHER: [&str; 2] = [
    "trial id=1 pattern=side-by-side bytes=131072 chains=4,1,12,8 loads=20 samples=6 warm=77 seed=3",
    "trial id=1 pattern=side-by-side bytes=131072 chains=64 loads=5 samples=3 warm=0",
];

#[test]
fn correct_chains_side_by_side_pass_and_forged_ones_fail() {
    for requested in TOGETHER {
        assert_eq!(unverified(&served_in_order(Forgery::Honest, &[requested])), [], "{requested}");
        let forged = [Forgery::Idle, Forgery::OneShort, Forgery::Home, Forgery::Stuck, Forgery::Narrow];
        for forgery in forged {
            assert!(
                !unverified(&served_in_order(forgery, &[requested])).is_empty(),
                "{forgery:?} got through: {requested}"
            );
        }
    }
}

/// A step of k chains is k loads of 3 ticks each.
#[test]
fn chains_side_by_side_visit_each_cell_once() {
    let lines = served_in_order(Forgery::Honest, &[TOGETHER[0]]);
    let ticks: Vec<(u64, u64)> = samples_of(&lines).iter().map(|s| (s.ticks, s.ticks2)).collect();
    let of = |chains: u64| (1 + 60 * chains, 1 + 120 * chains);
    assert_eq!(ticks, [of(4), of(1), of(12), of(8), of(4), of(1)]);
    // The next sample begins where the last chain of the one before ends: with one chain in every sample, the cells are those of one
    // walk.
    let one = "trial id=1 pattern=side-by-side bytes=8192 chains=1 loads=7 samples=3 warm=5 seed=3";
    let walk = "trial id=1 pattern=chase bytes=8192 loads=7 samples=3 warm=5 seed=3";
    let ends = |requested: &str| -> Vec<(u64, u64)> {
        samples_of(&served_in_order(Forgery::Honest, &[requested])).iter().map(|s| (s.end, s.end2)).collect()
    };
    assert_eq!(ends(one), ends(walk));
}

#[test]
fn chains_side_by_side_need_a_list_room_and_a_machine_that_overlaps() {
    let words = |forgery, requested: &str| {
        served_in_order(forgery, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>()
    };
    for wrong in [
        "trial pattern=side-by-side bytes=131072 loads=5",
        "trial pattern=side-by-side bytes=131072 loads=5 chains=3",
        "trial pattern=side-by-side bytes=131072 loads=5 chains=4,0",
        "trial pattern=side-by-side bytes=131072 loads=100 chains=1,8",
        "trial pattern=side-by-side bytes=131072 loads=5 chains=4 order=window",
        "trial pattern=chase bytes=131072 loads=5 chains=4",
    ] {
        assert_eq!(words(Forgery::Honest, wrong)[1..], ["fault"], "{wrong}");
    }
    assert_eq!(words(Forgery::Blocking, TOGETHER[0])[1..], ["trial", "refusal"]);
    for requested in TOGETHER {
        let trial = Trial::read(&Line::parse(requested).unwrap()).unwrap();
        assert_eq!(Trial::read(&trial.line()), Ok(trial));
    }
}

/// Two chains with instructions between their loads, of another number in each sample.
const SPACED: &str =
    "trial id=1 pattern=spaced-chains bytes=131072 fillers=2,40,1024 loads=20 samples=6 warm=77 seed=3";

#[test]
fn correct_spaced_chains_pass_and_forged_ones_fail() {
    assert_eq!(unverified(&served_in_order(Forgery::Honest, &[SPACED])), []);
    for forgery in [Forgery::Idle, Forgery::OneShort, Forgery::Home, Forgery::Stuck, Forgery::Narrow] {
        assert!(!unverified(&served_in_order(forgery, &[SPACED])).is_empty(), "{forgery:?} got through");
    }
    // A step of two loads of 3 ticks each, and the instructions of each sample.
    let lines = served_in_order(Forgery::Honest, &[SPACED]);
    let ticks: Vec<(u64, u64)> = samples_of(&lines).iter().map(|s| (s.ticks, s.ticks2)).collect();
    let of = |fillers: u64| (1 + 20 * (6 + 2 * fillers), 1 + 40 * (6 + 2 * fillers));
    assert_eq!(ticks, [of(2), of(40), of(1024), of(2), of(40), of(1024)]);
    // The cells are those of two chains side by side.
    let together = "trial id=1 pattern=side-by-side bytes=131072 chains=2 loads=20 samples=6 warm=77 seed=3";
    let ends = |requested: &str| -> Vec<(u64, u64)> {
        samples_of(&served_in_order(Forgery::Honest, &[requested])).iter().map(|s| (s.end, s.end2)).collect()
    };
    assert_eq!(ends(SPACED), ends(together));
}

#[test]
fn spaced_chains_need_a_list_room_and_a_machine_that_has_the_loop() {
    let words = |forgery, requested: &str| {
        served_in_order(forgery, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>()
    };
    for wrong in [
        "trial pattern=spaced-chains bytes=131072 loads=5",
        "trial pattern=spaced-chains bytes=131072 loads=5 fillers=1",
        "trial pattern=spaced-chains bytes=131072 loads=5 fillers=2,1025",
        "trial pattern=spaced-chains bytes=131072 loads=200 fillers=2",
        "trial pattern=spaced-chains bytes=131072 loads=5 fillers=2 order=window",
        "trial pattern=side-by-side bytes=131072 loads=5 chains=2 fillers=2",
    ] {
        assert_eq!(words(Forgery::Honest, wrong)[1..], ["fault"], "{wrong}");
    }
    assert_eq!(words(Forgery::Blocking, SPACED)[1..], ["trial", "refusal"]);
    let trial = Trial::read(&Line::parse(SPACED).unwrap()).unwrap();
    assert_eq!(Trial::read(&trial.line()), Ok(trial));
}

/// Fewer accesses per run than a lap, several laps, and a lap with an odd number of cells.
const SWEEPS: [&str; 3] = [
    "trial id=1 pattern=stride bytes=65536 stride=64 loads=300 samples=3 warm=1024 seed=5",
    "trial id=1 pattern=stride bytes=16384 stride=64 loads=1111 samples=3 warm=77",
    "trial id=1 pattern=stride bytes=1984 stride=64 loads=1000 samples=3 warm=0 seed=1",
];

#[test]
fn correct_sweeps_pass_and_forged_ones_fail() {
    let all = [
        Forgery::Idle,
        Forgery::OneShort,
        Forgery::Home,
        Forgery::Narrow,
        Forgery::Hoisted,
        Forgery::LastLap,
    ];
    for requested in SWEEPS {
        for op in ["read", "write", "rmw"] {
            let requested = format!("{requested} op={op}");
            let caught = |forgery| !unverified(&served_in_order(forgery, &[&requested])).is_empty();
            assert!(!caught(Forgery::Honest), "{requested}");
            for forgery in all.into_iter().chain([Forgery::Lost, Forgery::Twice, Forgery::Stuck]) {
                let harmless = match forgery {
                    // A read stores nothing that could be lost.
                    Forgery::Lost => op == "read",
                    // The result is that of a correct loop. The check of the machine code covers this defect. A run of
                    // less than a lap
                    // has no other lap.
                    Forgery::LastLap => op == "write" || requested.contains("bytes=65536"),
                    _ => false,
                };
                assert!(caught(forgery) || harmless, "{forgery:?} got through: {requested}");
                assert!(!(caught(forgery) && harmless), "{forgery:?} is caught after all: {requested}");
            }
        }
    }
}

/// One cell per page, and several cells of one page.
const SHARED: [&str; 2] = [
    "trial id=1 pattern=stride bytes=36864 stride=4096 frames=1 loads=100 samples=3 warm=7",
    "trial id=1 pattern=stride bytes=192 stride=64 frames=1 loads=100 samples=3 warm=0",
];

#[test]
fn correct_shared_page_loads_pass_and_forged_ones_fail() {
    for requested in SHARED {
        assert_eq!(unverified(&served_in_order(Forgery::Honest, &[requested])), [], "{requested}");
        // The loaded value is part of the next address, so a wrong value leads to wrong cells or outside the buffer.
        for forgery in [Forgery::Stuck, Forgery::Unloaded] {
            let lines = served_in_order(forgery, &[requested]);
            let caught = lines.iter().any(|l| l.word == "refusal") || !unverified(&lines).is_empty();
            assert!(caught, "{forgery:?} got through: {requested}");
        }
        // All words are equal, so a machine that returns this value without a load is not detected. The load of the
        // host is
        // volatile, and the machine code of the bare loops is checked.
        assert_eq!(unverified(&served_in_order(Forgery::Guessed, &[requested])), [], "{requested}");
        // An end that is one load off is detected.
        let mut lines = served_in_order(Forgery::Honest, &[requested]);
        let at = lines.iter().position(|l| l.word == "sample").unwrap();
        let mut samples = Samples::read(&lines[at]).unwrap();
        samples.list[1].end += 1;
        lines[at] = samples.lines().remove(0);
        assert_eq!(unverified(&lines), [1], "{requested}");
    }
    // Whole laps end where they started.
    let whole = SHARED[0].replace("loads=100", "loads=90");
    assert_eq!(unverified(&served_in_order(Forgery::Honest, &[&whole])), [0, 1, 2]);
}

#[test]
fn frames_are_accepted_only_with_reading_strides() {
    let words = |requested| {
        served_in_order(Forgery::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>()
    };
    for requested in ["trial bytes=8192 frames=1", "trial pattern=stride op=write bytes=8192 frames=1"] {
        assert_eq!(words(requested)[1..], ["fault"], "{requested}");
    }
    let trial = Trial::of(Stride { frames: 1, ..Stride::default() });
    assert_eq!(Trial::read(&trial.line()), Ok(trial));
    assert!(!Trial::default().line().render().contains("frames"));
}

/// Returns the samples of the only trial in the reply.
fn samples_of(lines: &[Line]) -> Vec<Sample> {
    Samples::read(lines.iter().find(|l| l.word == "sample").unwrap()).unwrap().list
}

/// One line per page, and several lines per page.
#[test]
fn correct_first_touches_pass_and_forged_ones_fail() {
    for (requested, every) in [
        ("trial id=1 pattern=stride bytes=131072 stride=4096 loads=10 samples=3 first_touch=1", true),
        ("trial id=1 pattern=stride bytes=131072 stride=64 loads=640 samples=3 first_touch=1 seed=5", false),
    ] {
        for op in ["read", "write", "rmw"] {
            let requested = format!("{requested} op={op}");
            let lines = served_in_order(Forgery::Honest, &[&requested]);
            assert_eq!(unverified(&lines), [], "{requested}");
            assert!(samples_of(&lines).iter().all(|s| s.end == 10), "{requested}");
            for forgery in [
                Forgery::Idle,
                Forgery::Home,
                Forgery::Hoisted,
                Forgery::OneShort,
                Forgery::Twice,
                Forgery::Lost,
            ] {
                // The kernel counts pages and not accesses. A read stores nothing that could be lost.
                let unseen = match forgery {
                    Forgery::OneShort | Forgery::Twice => op == "read" && !every,
                    Forgery::Lost => op == "read",
                    _ => false,
                };
                let caught = !unverified(&served_in_order(forgery, &[&requested])).is_empty();
                assert_eq!(caught, !unseen, "{forgery:?}: {requested}");
            }
        }
    }
}

#[test]
fn first_touch_of_used_memory_is_unverified() {
    // The value read there is not zero.
    let requested = "trial id=1 pattern=stride bytes=131072 stride=4096 loads=10 samples=3 first_touch=1";
    assert_eq!(unverified(&served_in_order(Forgery::Stuck, &[requested])), [0, 1, 2]);
}

#[test]
fn single_pass_needs_enough_cells_and_a_suitable_pattern() {
    let words = |requested| {
        served_in_order(Forgery::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>()
    };
    for wrong in [
        "trial pattern=stride bytes=8192 loads=43 first_touch=1",
        "trial pattern=stride bytes=8192 loads=8 first_touch=2",
        "trial pattern=chase bytes=8192 loads=8 first_touch=1",
        "trial pattern=chase bytes=8192 order=repermuted loads=40 warm=9",
        "trial pattern=single bytes=8192 order=repermuted loads=4 warm=9",
        "trial pattern=chase bytes=8192 order=backward9",
    ] {
        assert_eq!(words(wrong)[1..], ["fault"], "{wrong}");
    }
    let requested = "trial pattern=stride bytes=8192 loads=42 samples=1 first_touch=1";
    assert_eq!(words(requested)[1..], ["trial", "sample", "done"]);
    let trial = Trial::read(&Line::parse(requested).unwrap()).unwrap();
    assert_eq!(Trial::read(&trial.line()), Ok(trial.clone()));
    // The default is not written, so lines of earlier versions stay the same.
    assert!(!Trial { pattern: Stride::default().into(), ..trial }.line().render().contains("first_touch"));
}

#[test]
fn repermuted_chain_has_a_new_order_for_each_sample() {
    let lines = served_in_order(Forgery::Honest, &[REQUESTED[15]]);
    let ends: Vec<u64> = samples_of(&lines).iter().map(|s| s.end).collect();
    assert!(ends.windows(2).all(|pair| pair[0] != pair[1]), "{ends:?}");
}

#[test]
fn lost_stores_make_all_samples_unverified() {
    let mut lines = served_in_order(
        Forgery::Honest,
        &["trial id=1 pattern=stride op=write bytes=8192 loads=100 samples=4"],
    );
    assert_eq!(unverified(&lines), []);
    let at = lines.iter().position(|l| l.word == "sample").unwrap();
    let mut samples = Samples::read(&lines[at]).unwrap();
    // The final contents of the buffer verify all samples. The last cell of a run verifies only its sample.
    samples.list[1].end += 1;
    lines[at] = samples.lines().remove(0);
    assert_eq!(unverified(&lines), [1]);
    samples.list[3].end2 += 1;
    lines[at] = samples.lines().remove(0);
    assert_eq!(unverified(&lines), [0, 1, 2, 3]);
}

#[test]
fn operation_is_for_strides_and_copies_and_defaults_to_read() {
    let words = |requested| {
        served_in_order(Forgery::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>()
    };
    assert_eq!(words("trial bytes=8192 op=write")[1..], ["fault"]);
    assert_eq!(words("trial bytes=8192 pattern=stride op=halve")[1..], ["fault"]);
    let line = Line::parse("trial pattern=stride bytes=8192").unwrap();
    let trial = Trial::read(&line).unwrap();
    assert!(trial.is::<Stride>(|stride| stride.operation == crate::machine::Operation::Read));
    assert!(!trial.line().render().contains("op="), "{}", trial.line().render());
    for &operation in crate::machine::Operation::ALL {
        let pattern: Pattern = match operation.copies() {
            true => Copy { operation }.into(),
            false => Stride::of(operation).into(),
        };
        let requested = Trial { memory: Memory::of(8192, 8), ..Trial::of(pattern) };
        assert_eq!(Trial::read(&requested.line()), Ok(requested));
    }
}

#[test]
fn correct_copies_pass_and_forged_ones_fail() {
    for op in ["copy_to", "copy_from"] {
        // Less than a lap, more than a lap, and a multiple of a lap.
        for n in [100, 1500, 1024] {
            let requested =
                format!("trial id=1 pattern=copy op={op} bytes=8192 stride=8 loads={n} samples=4 seed=3");
            assert_eq!(unverified(&served_in_order(Forgery::Honest, &[&requested])), [], "{requested}");
            for forgery in [Forgery::Idle, Forgery::OneShort, Forgery::Narrow, Forgery::Twice] {
                assert!(
                    !unverified(&served_in_order(forgery, &[&requested])).is_empty(),
                    "{forgery:?}: {requested}"
                );
            }
        }
    }
    let words = |requested| {
        served_in_order(Forgery::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>()
    };
    for wrong in [
        "trial pattern=copy bytes=8192 stride=8",
        "trial pattern=copy op=set bytes=8192 stride=8",
        "trial pattern=copy op=copy_to bytes=8192 stride=64",
        "trial pattern=stride op=copy_to bytes=8192 stride=8",
    ] {
        assert_eq!(words(wrong)[1..], ["fault"], "{wrong}");
    }
}

#[test]
fn correct_sets_pass_and_forged_ones_fail() {
    let requested = "trial id=1 pattern=stride op=set bytes=8192 stride=8 loads=1500 samples=4";
    assert_eq!(unverified(&served_in_order(Forgery::Honest, &[requested])), []);
    for forgery in [Forgery::Idle, Forgery::Lost, Forgery::Hoisted] {
        assert!(!unverified(&served_in_order(forgery, &[requested])).is_empty(), "{forgery:?}");
    }
}

#[test]
fn timed_load_that_did_not_run_is_unverified() {
    for requested in [REQUESTED[4], REQUESTED[12]] {
        let all: Vec<usize> = (0..if requested == REQUESTED[4] { 4 } else { 5 }).collect();
        assert_eq!(unverified(&served_in_order(Forgery::Unloaded, &[requested])), all);
    }
}

#[test]
fn timed_load_follows_all_earlier_loads() {
    let lines = served_in_order(Forgery::Honest, &[REQUESTED[12]]);
    let list = Samples::read(lines.iter().find(|l| l.word == "sample").unwrap()).unwrap().list;
    // B is the tenth access and C the twelfth, alternately. A load takes 3 ticks, a reading of the clock 1.
    assert_eq!(
        list.iter().map(|s| (s.end, s.end2)).collect::<Vec<_>>(),
        [(9, 10), (11, 0), (9, 10), (11, 0), (9, 10)]
    );
    assert!(list.iter().all(|s| (s.ticks, s.ticks2) == (3 + 1, 1)));
}

#[test]
fn counted_samples_have_no_misses_without_counters() {
    // This machine has no counters, so the line contains no misses.
    let lines = served_in_order(Forgery::Honest, &["trial id=1 counted=1 loads=300 samples=2"]);
    let line = lines.iter().find(|l| l.word == "sample").unwrap();
    assert!(!line.render().contains("misses"), "{}", line.render());
}

/// Only a trial that requests events has lines of them, and only from a machine that counts them.
#[test]
fn events_are_sums_over_the_runs_of_all_samples() {
    let counted = |forgery, requested| {
        let lines = served_in_order(forgery, &[requested]);
        let of = |line: &Line| (line.word == "counted").then(|| EventCount::read(line).unwrap());
        lines.iter().filter_map(of).collect::<Vec<_>>()
    };
    let requested = "trial id=1 loads=300 samples=2 events=1";
    assert_eq!(counted(Forgery::Honest, requested), []);
    assert_eq!(counted(Forgery::Counting, "trial id=1 loads=300 samples=2"), []);
    // Each reading counts one itself.
    let accesses = EventCount { event: CountedEvent::Accesses, count: 2 * 301, count2: 2 * 601 };
    assert_eq!(counted(Forgery::Counting, requested), [(1, accesses)]);
    assert!((accesses.per_operation(300, 2) - 1.0).abs() < 1e-12);
}

#[test]
fn single_samples_time_their_loads_and_the_clock_overhead() {
    // A load takes 3 ticks, a reading of the clock 1.
    let samples = |requested| {
        let lines = served_in_order(Forgery::Honest, &[requested]);
        Samples::read(lines.iter().find(|l| l.word == "sample").unwrap()).unwrap().list
    };
    assert!(samples(REQUESTED[4]).iter().all(|s| (s.ticks, s.ticks2) == (3 + 1, 1)));
    assert!(samples(REQUESTED[5]).iter().all(|s| (s.ticks, s.ticks2) == (5 * 3 + 1, 1)));
}

#[test]
fn samples_of_whole_laps_are_unverified() {
    let lines = served_in_order(Forgery::Honest, &["trial id=1 bytes=8192 loads=256 samples=3"]);
    assert_eq!(unverified(&lines), [0, 1, 2]);
}
