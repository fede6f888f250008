//! Samples and their proofs: those of an honest machine hold, those of a dishonest one do not.

use super::*;

const REQUESTED: [&str; 17] = [
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
];

#[test]
fn honest_samples_are_proven_and_forged_ones_fail() {
    for requested in REQUESTED {
        assert_eq!(judged(&talk(Forgery::Honest, &[requested])), [], "{requested}");
        for forgery in [Forgery::Idle, Forgery::OneShort, Forgery::Home, Forgery::Stuck] {
            assert!(!judged(&talk(forgery, &[requested])).is_empty(), "{forgery:?} got through: {requested}");
        }
    }
}

/// Fewer accesses than a lap a run, some laps, and a lap of one cell fewer than a turn.
const SWEEPS: [&str; 3] = [
    "trial id=1 pattern=stride bytes=65536 stride=64 loads=300 samples=3 warm=1024 seed=5",
    "trial id=1 pattern=stride bytes=16384 stride=64 loads=1111 samples=3 warm=77",
    "trial id=1 pattern=stride bytes=1984 stride=64 loads=1000 samples=3 warm=0 seed=1",
];

#[test]
fn honest_sweeps_are_proven_and_forged_ones_fail() {
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
            let caught = |forgery| !judged(&talk(forgery, &[&requested])).is_empty();
            assert!(!caught(Forgery::Honest), "{requested}");
            for forgery in all.into_iter().chain([Forgery::Lost, Forgery::Twice, Forgery::Stuck]) {
                let harmless = match forgery {
                    // Nothing is stored that could be lost.
                    Forgery::Lost => op == "read",
                    // Leaves what an honest loop leaves: the machine code is looked at for this one. A run of
                    // less than a lap has no other lap.
                    Forgery::LastLap => op == "write" || requested.contains("bytes=65536"),
                    _ => false,
                };
                assert!(caught(forgery) || harmless, "{forgery:?} got through: {requested}");
                assert!(!(caught(forgery) && harmless), "{forgery:?} is caught after all: {requested}");
            }
        }
    }
}

/// A cell of a page each, and cells of one page.
const SHARED: [&str; 2] = [
    "trial id=1 pattern=stride bytes=36864 stride=4096 frames=1 loads=100 samples=3 warm=7",
    "trial id=1 pattern=stride bytes=192 stride=64 frames=1 loads=100 samples=3 warm=0",
];

#[test]
fn honest_shared_page_loads_are_proven_and_forged_ones_fail() {
    for requested in SHARED {
        assert_eq!(judged(&talk(Forgery::Honest, &[requested])), [], "{requested}");
        // What a load brings is part of the next address, so another word leads to other cells or off them.
        for forgery in [Forgery::Stuck, Forgery::Unloaded] {
            let lines = talk(forgery, &[requested]);
            let caught = lines.iter().any(|l| l.word == "refusal") || !judged(&lines).is_empty();
            assert!(caught, "{forgery:?} got through: {requested}");
        }
        // Every word is the same, so a machine that says it without a load is not caught: the host's load is
        // volatile, and the bare loops' machine code is looked at.
        assert_eq!(judged(&talk(Forgery::Guessed, &[requested])), [], "{requested}");
        // Ends that are one load off are.
        let mut lines = talk(Forgery::Honest, &[requested]);
        let at = lines.iter().position(|l| l.word == "sample").unwrap();
        let mut samples = Samples::read(&lines[at]).unwrap();
        samples.list[1].end += 1;
        lines[at] = samples.lines().remove(0);
        assert_eq!(judged(&lines), [1], "{requested}");
    }
    // Whole laps end where they began.
    let whole = SHARED[0].replace("loads=100", "loads=90");
    assert_eq!(judged(&talk(Forgery::Honest, &[&whole])), [0, 1, 2]);
}

#[test]
fn frames_are_for_reading_strides_alone() {
    let words =
        |requested| talk(Forgery::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>();
    for requested in ["trial bytes=8192 frames=1", "trial pattern=stride op=write bytes=8192 frames=1"] {
        assert_eq!(words(requested)[1..], ["fault"], "{requested}");
    }
    let trial = Trial::of(Stride { frames: 1, ..Stride::default() });
    assert_eq!(Trial::read(&trial.line()), Ok(trial));
    assert!(!Trial::default().line().render().contains("frames"));
}

/// The samples of the one trial in an answer.
fn samples_of(lines: &[Line]) -> Vec<Sample> {
    Samples::read(lines.iter().find(|l| l.word == "sample").unwrap()).unwrap().list
}

/// One line a page, and lines of pages that others share.
#[test]
fn honest_first_touches_are_proven_and_forged_ones_fail() {
    for (requested, every) in [
        ("trial id=1 pattern=stride bytes=131072 stride=4096 loads=10 samples=3 first_touch=1", true),
        ("trial id=1 pattern=stride bytes=131072 stride=64 loads=640 samples=3 first_touch=1 seed=5", false),
    ] {
        for op in ["read", "write", "rmw"] {
            let requested = format!("{requested} op={op}");
            let lines = talk(Forgery::Honest, &[&requested]);
            assert_eq!(judged(&lines), [], "{requested}");
            assert!(samples_of(&lines).iter().all(|s| s.end == 10), "{requested}");
            for forgery in [
                Forgery::Idle,
                Forgery::Home,
                Forgery::Hoisted,
                Forgery::OneShort,
                Forgery::Twice,
                Forgery::Lost,
            ] {
                // The kernel counts pages and not accesses; nothing is stored that could be lost.
                let unseen = match forgery {
                    Forgery::OneShort | Forgery::Twice => op == "read" && !every,
                    Forgery::Lost => op == "read",
                    _ => false,
                };
                let caught = !judged(&talk(forgery, &[&requested])).is_empty();
                assert_eq!(caught, !unseen, "{forgery:?}: {requested}");
            }
        }
    }
}

#[test]
fn memory_that_was_not_fresh_proves_no_first_touch() {
    // What is read there is not zero.
    let requested = "trial id=1 pattern=stride bytes=131072 stride=4096 loads=10 samples=3 first_touch=1";
    assert_eq!(judged(&talk(Forgery::Stuck, &[requested])), [0, 1, 2]);
}

#[test]
fn walking_once_needs_enough_cells_and_the_right_pattern() {
    let words =
        |requested| talk(Forgery::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>();
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
    // Absent where it says nothing: what earlier versions wrote is written again.
    assert!(!Trial { pattern: Stride::default().into(), ..trial }.line().render().contains("first_touch"));
}

#[test]
fn each_sample_of_a_chain_walked_once_has_an_order_of_its_own() {
    let lines = talk(Forgery::Honest, &[REQUESTED[15]]);
    let ends: Vec<u64> = samples_of(&lines).iter().map(|s| s.end).collect();
    assert!(ends.windows(2).all(|pair| pair[0] != pair[1]), "{ends:?}");
}

#[test]
fn stores_that_stop_during_a_trial_prove_no_sample() {
    let mut lines =
        talk(Forgery::Honest, &["trial id=1 pattern=stride op=write bytes=8192 loads=100 samples=4"]);
    assert_eq!(judged(&lines), []);
    let at = lines.iter().position(|l| l.word == "sample").unwrap();
    let mut samples = Samples::read(&lines[at]).unwrap();
    // What the buffer holds at the end is for all samples; what a run's last cell holds, for that one.
    samples.list[1].end += 1;
    lines[at] = samples.lines().remove(0);
    assert_eq!(judged(&lines), [1]);
    samples.list[3].end2 += 1;
    lines[at] = samples.lines().remove(0);
    assert_eq!(judged(&lines), [0, 1, 2, 3]);
}

#[test]
fn an_operation_is_the_strides_alone_and_old_lines_read() {
    let words =
        |requested| talk(Forgery::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>();
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
fn copies_are_proven_and_missing_copies_fail() {
    for op in ["copy_to", "copy_from"] {
        // Less than a lap, more than one, and a multiple of one.
        for n in [100, 1500, 1024] {
            let requested =
                format!("trial id=1 pattern=copy op={op} bytes=8192 stride=8 loads={n} samples=4 seed=3");
            assert_eq!(judged(&talk(Forgery::Honest, &[&requested])), [], "{requested}");
            for forgery in [Forgery::Idle, Forgery::OneShort, Forgery::Narrow, Forgery::Twice] {
                assert!(!judged(&talk(forgery, &[&requested])).is_empty(), "{forgery:?}: {requested}");
            }
        }
    }
    let words =
        |requested| talk(Forgery::Honest, &[requested]).iter().map(|l| l.word.clone()).collect::<Vec<_>>();
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
fn a_set_is_a_write_that_may_be_wider() {
    let requested = "trial id=1 pattern=stride op=set bytes=8192 stride=8 loads=1500 samples=4";
    assert_eq!(judged(&talk(Forgery::Honest, &[requested])), []);
    for forgery in [Forgery::Idle, Forgery::Lost, Forgery::Hoisted] {
        assert!(!judged(&talk(forgery, &[requested])).is_empty(), "{forgery:?}");
    }
}

#[test]
fn a_timed_load_that_never_ran_is_caught() {
    for requested in [REQUESTED[4], REQUESTED[12]] {
        let all: Vec<usize> = (0..if requested == REQUESTED[4] { 4 } else { 5 }).collect();
        assert_eq!(judged(&talk(Forgery::Unloaded, &[requested])), all);
    }
}

#[test]
fn timed_load_follows_all_earlier_loads() {
    let lines = talk(Forgery::Honest, &[REQUESTED[12]]);
    let list = Samples::read(lines.iter().find(|l| l.word == "sample").unwrap()).unwrap().list;
    // B is the tenth access, C the twelfth, and so round again. A load takes 3 here, a reading of the clock 1.
    assert_eq!(
        list.iter().map(|s| (s.end, s.end2)).collect::<Vec<_>>(),
        [(9, 10), (11, 0), (9, 10), (11, 0), (9, 10)]
    );
    assert!(list.iter().all(|s| (s.ticks, s.ticks2) == (3 + 1, 1)));
}

#[test]
fn refills_are_counted_on_request_where_counters_exist() {
    // Nobody does here, and the line says nothing of them.
    let lines = talk(Forgery::Honest, &["trial id=1 counted=1 loads=300 samples=2"]);
    let line = lines.iter().find(|l| l.word == "sample").unwrap();
    assert!(!line.render().contains("misses"), "{}", line.render());
}

#[test]
fn single_samples_time_one_load_and_nothing() {
    // A load takes 3 here, a reading of the clock 1.
    let samples = |requested| {
        let lines = talk(Forgery::Honest, &[requested]);
        Samples::read(lines.iter().find(|l| l.word == "sample").unwrap()).unwrap().list
    };
    assert!(samples(REQUESTED[4]).iter().all(|s| (s.ticks, s.ticks2) == (3 + 1, 1)));
    assert!(samples(REQUESTED[5]).iter().all(|s| (s.ticks, s.ticks2) == (5 * 3 + 1, 1)));
}

#[test]
fn whole_laps_prove_nothing() {
    let lines = talk(Forgery::Honest, &["trial id=1 bytes=8192 loads=256 samples=3"]);
    assert_eq!(judged(&lines), [0, 1, 2]);
}
