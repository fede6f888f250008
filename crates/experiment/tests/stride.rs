//! Strides on described machines: times per access must agree with the description.

#[path = "common/asked.rs"]
mod asked;
mod common;
#[path = "common/full.rs"]
mod full;

use asked::asked;
use common::{finding, number};
use fathom_analysis::findings::{Axis, Detail, Report, WarningKind};
use fathom_analysis::metrics::stride as metrics;
use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::{InProcess, Session};
use fathom_experiment::{option_differences, read, stride};
use fathom_model::description::{Description, Holds, Inclusion};
use fathom_model::{Model, catalog};
use fathom_probe::machine::Operation;
use fathom_probe::splitmix::mix;
use fathom_probe::wire::Line;
use full::full;

const KIB: u64 = 1 << 10;

fn measured(d: &Description, bytes: &[u64], steps: &[u64], budget_ms: u64, seed: u64) -> (Record, Report) {
    let list = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let asked = asked(stride::options::ALL, &[("bytes", &list(bytes)), ("strides", &list(steps))]);
    let run = Run { experiment: stride::NAME.into(), seed, budget_ms, asked, ..Run::default() };
    common::measured(d, stride::plan, run)
}

fn assert_near(what: &str, value: f64, truth: f64, share: f64) {
    assert!((value - truth).abs() <= share * truth, "{what}: {value} for {truth}");
}

fn machine(name: &str) -> Description {
    catalog::load(name).unwrap().unwrap()
}

/// The question of the study, whether the L2 is on: the study's own working set does not show it, a size inside the L2
/// does.
#[test]
fn size_between_levels_shows_whether_l2_is_on() {
    let report_of = |name| measured(&machine(name), &[16 * KIB, 256 * KIB, 16 << 20], &[8, 64], 3_000, 1).1;
    let (on, off) = (report_of("am5728"), report_of("am5728-l2-off"));
    let time =
        |r: &Report, bytes: u64, op: &str| number(r, &format!("stride.{bytes}.64.{op}.time_per_access"));
    for op in ["read", "write", "rmw"] {
        assert_near("L1", time(&off, 16 * KIB, op), time(&on, 16 * KIB, op), 0.03);
        assert!(time(&off, 256 * KIB, op) > 5.0 * time(&on, 256 * KIB, op), "{op}");
        assert_near("beyond both", time(&off, 16 << 20, op), time(&on, 16 << 20, op), 0.03);
    }
    // The value that the study printed is equal for both.
    assert_near("ratio", number(&off, "stride.study.lap_ratio"), number(&on, "stride.study.lap_ratio"), 0.03);
    assert!(
        finding(&on, "stride.study.lap_ratio").notes[0]
            .contains("16 MiB at a stride of 8 compared with one at 64, rmw")
    );
}

/// Expected cycles per access: a first level of `near_by` cycles, a second of `far`, a TLB miss of 12 cycles per page,
/// and a line size.
struct Truth {
    near_by: f64,
    far: f64,
    line: f64,
    allocates: bool,
}

impl Truth {
    fn cycles(&self, inside: bool, step: f64, operation: Operation) -> f64 {
        let page = if inside { 0.0 } else { 12.0 * step / 4096.0 };
        let far = if inside { self.near_by } else { self.far };
        // One access to each line fetches it.
        let share = (step / self.line).min(1.0);
        let brought = share * far + (1.0 - share) * self.near_by;
        page + match operation {
            Operation::Read => brought,
            // A store goes to the level that has the line; without write allocation the first level does not fetch it.
            Operation::Write if !self.allocates => self.far,
            Operation::Write => brought,
            Operation::Rmw => brought + self.near_by,
            other => panic!("{other:?} is no stride"),
        }
    }
}

/// Lines, latencies, policies and clocks drawn from a seed: forty variants in the full tier, twelve in the default
/// tier.
#[test]
fn times_of_am5728_variants_agree_with_the_description() {
    let original = machine("am5728").to_toml();
    let variants = if full() { 40 } else { 12 };
    for seed in 0..variants {
        let mut state = mix(seed);
        let mut draw = |low: u64, high: u64| {
            state = mix(state);
            low + state % (high - low + 1)
        };
        let truth = Truth {
            near_by: draw(2, 6) as f64,
            far: draw(12, 60) as f64,
            line: (16 << draw(0, 3)) as f64,
            allocates: draw(0, 1) == 1,
        };
        let through = draw(0, 1) == 1;
        let (overhead, mhz) = (draw(0, 90), draw(50, 1500));
        let (first, second) = original.split_once("name = \"L2\"").unwrap();
        let write = format!("write = \"{}\"", if through { "through" } else { "back" });
        let first = first
            .replacen("write = \"back\"", &write, 1)
            .replacen("allocate = true", &format!("allocate = {}", truth.allocates), 1)
            .replace("latency = \"4 cycles\"", &format!("latency = \"{} cycles\"", truth.near_by))
            .replace("overhead = \"30 cycles\"", &format!("overhead = \"{overhead} cycles\""))
            .replace("clock = \"6.144 MHz\"", &format!("clock = \"{mhz} MHz\""));
        let second =
            second.replacen("latency = \"21 cycles\"", &format!("latency = \"{} cycles\"", truth.far), 1);
        let toml = format!("{first}name = \"L2\"{second}")
            .replace("line = \"64\"", &format!("line = \"{}\"", truth.line));
        let d = Description::parse("variant", &toml).unwrap_or_else(|e| panic!("{e}\n{toml}"));
        assert_eq!(d.levels[0].line, truth.line as u64, "{toml}");
        let (_, report) = measured(&d, &[16 * KIB, 256 * KIB], &[8, 32, 128], 700, seed);
        for &operation in Operation::STRIDES {
            for step in [8, 32, 128] {
                for (bytes, inside) in [(16 * KIB, true), (256 * KIB, false)] {
                    let name = format!("stride.{bytes}.{step}.{}", operation.token());
                    let found = number(&report, &format!("{name}.time_per_access")) * 1.5;
                    let what = format!("variant {seed} (line {}, through {through}): {name}", truth.line);
                    assert_near(&what, found, truth.cycles(inside, step as f64, operation), 0.02);
                    // The line size is that of the claim.
                    let line = number(&report, &format!("{name}.time_per_line")) * 1.5;
                    assert_near(&what, line, found * (truth.line / step as f64).max(1.0), 1e-9);
                }
            }
        }
    }
}

/// The time per access grows up to the line size and not beyond; only the cost of translation grows on (5 % of the
/// largest here).
#[test]
fn time_per_access_grows_up_to_the_line_size() {
    for (name, line) in [("am5728", 64), ("gr712rc", 16), ("imx6q", 32), ("neoverse-n1", 64)] {
        let d = machine(name);
        assert_eq!(d.levels[0].line, line, "{name}");
        let steps = [8, 16, 32, 64, 128];
        // Beyond the first level of each machine, inside the second if present.
        let (_, report) = measured(&d, &[128 * KIB], &steps, 1_500, 1);
        let time = |step: u64| number(&report, &format!("stride.131072.{step}.read.time_per_access"));
        for step in steps.into_iter().filter(|s| *s < 128) {
            let grows = time(2 * step) / time(step);
            if step < line {
                assert!(grows > 1.15, "{name}: {grows} from {step} on");
            } else {
                assert!(grows < 1.1, "{name}: {grows} from {step} on");
            }
        }
    }
}

/// In a first level that writes through without allocation every store goes farther, at any stride; with allocation a
/// store costs as much as a read.
#[test]
fn stores_identify_the_write_policy() {
    let time = |name: &str, op: &str, step: u64| {
        let (_, report) = measured(&machine(name), &[8 * KIB], &[8, 128], 2_000, 1);
        number(&report, &format!("stride.8192.{step}.{op}.time_per_access"))
    };
    // The model has no write buffer before memory: it shows the policy, not how much of its cost is hidden.
    assert!(time("gr712rc", "write", 8) > 3.0 * time("gr712rc", "read", 8));
    assert_near("any step", time("gr712rc", "write", 128), time("gr712rc", "write", 8), 0.1);
    assert_near("allocates", time("am5728", "write", 8), time("am5728", "read", 8), 0.03);
}

#[test]
fn unmeasured_strides_are_reported_and_options_compared() {
    let d = machine("imxrt1062");
    let (a, report) = measured(&d, &[KIB, 1 << 39], &[64, 4096], 1_000, 1);
    let warning = report.warnings.iter().find(|w| w.kind == WarningKind::BudgetExhausted).expect("a warning");
    assert!(warning.text.contains("1 KiB at 4096 (read)"), "{}", warning.text);
    assert!(warning.text.contains("5 more") && warning.remedy.contains("--budget"), "{warning:?}");
    assert!(number(&report, "stride.1024.64.read.time_per_access") > 0.0);
    let few = &finding(&report, "stride.1024.64.read.time_per_access").notes;
    assert!(few.iter().any(|n| n.contains("fewer than 32 accesses")), "{few:?}");
    assert!(
        report.findings.iter().all(|f| f.name() != "stride.study.lap_ratio"),
        "no smaller step, no ratio"
    );
    let (b, _) = measured(&d, &[KIB, 1 << 39], &[64], 1_000, 1);
    assert_eq!(option_differences(&a, &b), ["--strides: 64, 4096 against 64"]);
}

#[test]
fn hostile_run_line_plans_no_invalid_trial() {
    let line = "run experiment=\"stride\" subject=\"x\" seed=1 budget_ms=1000 build=\"\" command=\"\" \
                bytes=0,1,18446744073709551615 strides=0,3,7,8,18446744073709551615 op=\"rmw,read\"";
    let mut record = Record::default();
    record.push(&Record::first_line()).unwrap();
    record.push(line).unwrap();
    assert_eq!(record.problems, Vec::<String>::new());
    record.push("probe wire=1 trust=modelled").unwrap();
    for trial in stride::plan(&record, 1, 1000) {
        assert!(
            trial.memory.stride.is_power_of_two() && trial.memory.stride <= trial.memory.bytes,
            "{trial:?}"
        );
    }
    let why = read(&record).expect_err("it asks for what nobody can ask for");
    assert!(why.contains("line 2") && why.contains("bytes: 0 must be from 128 bytes"), "{why}");
}

/// Returns the level that serves loads at a working set according to the description: `nearest`, `level` or `memory`.
/// Returns None within twice a capacity, where a part may be served by a nearer level.
fn truth(d: &Description, bytes: u64) -> Option<&'static str> {
    let mut reach = 0;
    let mut ends = Vec::new();
    for level in d.levels.iter().filter(|l| l.holds != Holds::Instructions) {
        reach = if level.inclusion == Inclusion::Exclusive { reach + level.size } else { level.size };
        ends.push(reach);
    }
    if ends.iter().any(|end| *end < bytes && bytes < 4 * end) {
        return None;
    }
    Some(match ends.iter().position(|end| bytes <= *end) {
        Some(0) => "nearest",
        Some(_) => "level",
        None => "memory",
    })
}

/// The level that is reported for each size must be right on every committed machine. The coarse scan chooses the sizes
/// and infers the level without the description.
#[test]
fn each_size_names_the_described_level() {
    let (mut right, mut open, mut wrong) = (0, 0, Vec::new());
    // The default tier has every second machine.
    let step = if full() { 1 } else { 2 };
    for name in catalog::names().step_by(step) {
        let d = machine(name);
        // Levels beyond the last size of the coarse scan are not measured.
        if d.levels.iter().any(|l| l.size > 8 << 20) {
            continue;
        }
        let asked = asked(stride::options::ALL, &[("strides", "64"), ("op", "read")]);
        let run =
            Run { experiment: stride::NAME.into(), seed: 1, budget_ms: 10_000, asked, ..Run::default() };
        let (_, report) = common::measured(&d, stride::plan, run);
        let mut reported = 0;
        for f in report.of(&metrics::STRIDE_SERVED_BY) {
            let (Some(bytes), Some(answer)) = (f.key.number(Axis::Size), f.word()) else {
                panic!("{name}: {f:?}");
            };
            reported += 1;
            match (truth(&d, bytes), answer) {
                (Some(truth), answer) if truth == answer => right += 1,
                (None, _) => open += 1,
                (truth, _) => wrong.push(format!("{name}: {truth:?}, and {}", f.notes[0])),
            }
        }
        assert!(reported >= 3, "{name}: {reported} sizes");
    }
    println!("{right} right, {open} undecidable, {} wrong: {wrong:#?}", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(right >= 3 * open && right > 30 / step, "{right} right and {open} undecidable");
}

fn requested(d: &Description, budget_ms: u64, typed: &[(&str, &str)]) -> Report {
    let asked = asked(stride::options::ALL, typed);
    let run = Run { experiment: stride::NAME.into(), seed: 1, budget_ms, asked, ..Run::default() };
    common::measured(d, stride::plan, run).1
}

/// The study's question with default sizes, which have a reported level each.
#[test]
fn default_sizes_show_whether_l2_is_on() {
    let report_of = |name| requested(&machine(name), 10_000, &[("strides", "8,64"), ("op", "read")]);
    let (on, off) = (report_of("am5728"), report_of("am5728-l2-off"));
    fn served_by(r: &Report, bytes: u64) -> (Option<&str>, &Detail) {
        let f = r.find(metrics::STRIDE_SERVED_BY.at([bytes.into()])).expect("it is told");
        (f.word(), &f.detail)
    }
    let first = |detail: &Detail| detail.number(metrics::BEYOND).map(|bytes| bytes as u64 / KIB);
    for report in [&on, &off] {
        assert_eq!(served_by(report, 16 * KIB).0, Some("nearest"));
        assert_eq!(served_by(report, 16 << 20).0, Some("memory"));
        // Dependent loads and sweeps agree, because nothing is prefetched there.
        let load = number(report, "latency.262144.time");
        assert_near("a line", number(report, "stride.262144.64.read.time_per_line"), load, 0.03);
    }
    let (answer, detail) = served_by(&on, 256 * KIB);
    assert_eq!((answer, first(detail)), (Some("level"), Some(32)), "{detail:?}");
    assert!(
        detail.number(metrics::UP_TO) > Some(256.0 * 1024.0) && !detail.flag(metrics::ONE_LEVEL),
        "{detail:?}"
    );
    let (answer, detail) = served_by(&off, 256 * KIB);
    assert_eq!((answer, first(detail)), (Some("memory"), Some(32)), "{detail:?}");
    assert!(detail.flag(metrics::ONE_LEVEL), "{detail:?}");
}

/// A claimed level that serves no loads is named with the source of the claim.
#[test]
fn claimed_level_without_effect_is_named() {
    let d = machine("am5728-l2-off");
    let asked = asked(stride::options::ALL, &[("strides", "64"), ("op", "read")]);
    let run = Run { experiment: stride::NAME.into(), seed: 1, budget_ms: 10_000, asked, ..Run::default() };
    let (text, _) = InProcess::new(Session::new(stride::plan, run)).run(&mut Model::new(&d, 1));
    let mut record = Record::default();
    let mut shift = 0;
    for line in text {
        if line.starts_with("facts_end") {
            for (name, value) in [("size", "2048K"), ("level", "2"), ("type", "Unified")] {
                let name = format!("sysfs.cpu0.cache.index2.{name}");
                let fact = Line::new("fact").text("name", &name).text("text", value);
                shift += 1;
                let seq = Line::parse(&line).unwrap().seq.unwrap() - 1 + shift;
                record.push(&fact.seal(seq)).unwrap();
            }
        }
        let parsed = Line::parse(&line).unwrap();
        match parsed.seq {
            Some(seq) => record.push(&parsed.seal(seq + shift)).unwrap(),
            None => record.push(&line).unwrap(),
        }
    }
    assert_eq!(record.problems, Vec::<String>::new());
    let report = read(&record).expect("a report");
    let detail = &finding(&report, "stride.262144.served_by").detail;
    assert_eq!(detail.number(metrics::ABSENT_LEVEL), Some(2.0), "{detail:?}");
    assert_eq!(detail.number(metrics::ABSENT_BYTES), Some(2048.0 * 1024.0), "{detail:?}");
    assert_eq!(detail.word(metrics::ABSENT_SOURCE), Some("sysfs"), "{detail:?}");
    assert!(!detail.flag(metrics::ONE_LEVEL), "{detail:?}");
}

/// Described machines have no prefetcher: a constant stride has no advantage over random order in pages. Sequential
/// order gains only from DRAM rows and translation, as order inside pages does.
#[test]
fn prefetch_ladder_shows_no_gain_without_prefetcher() {
    for name in ["am5728", "gr712rc", "bcm2835", "imx6q", "alpha21164"] {
        let typed = [("bytes", "8M"), ("strides", "64"), ("op", "read"), ("prefetch", "")];
        let report = requested(&machine(name), 20_000, &typed);
        let time = |order: &str| number(&report, &format!("prefetch.{order}.time"));
        for way in ["forward", "backward"] {
            assert_eq!(number(&report, &format!("prefetch.max_stride_lines.{way}")), 0.0, "{name}");
            for lines in 2..=8 {
                // It may be slower: each step leaves its page earlier, so translation costs more.
                let time_at_stride = time(&format!("{way}{lines}"));
                assert!(time_at_stride > time("window") / 1.2, "{name}, {way}{lines}: {time_at_stride}");
            }
        }
        assert_near(name, number(&report, "prefetch.gain"), time("random") / time("sequential"), 1e-6);
        assert_near(name, number(&report, "prefetch.repeat_gain"), 1.0, 0.03);
    }
}

#[test]
fn described_machine_refuses_first_touch_and_shows_the_rest() {
    let typed = [("bytes", "64K"), ("strides", "64"), ("first-touch", "")];
    let report = requested(&machine("am5728"), 2_000, &typed);
    let refused: Vec<_> =
        report.refusals.iter().filter(|r| r.reason.contains("no page faults at first touch")).collect();
    assert_eq!(refused.len(), 1, "{:?}", report.refusals);
    assert!(number(&report, "stride.65536.64.read.time_per_access") > 0.0);
    assert!(report.findings.iter().all(|f| !f.name().contains("first_touch")));
}

/// Records without a coarse scan keep their default sizes, and have no statement about the serving level.
#[test]
fn record_without_coarse_scan_keeps_its_sizes() {
    let asked = asked(stride::options::ALL, &[("bytes", "16K,256K,1M,16M"), ("strides", "8,64")]);
    let named = Run { experiment: stride::NAME.into(), seed: 1, budget_ms: 5_000, asked, ..Run::default() };
    let (text, _) =
        InProcess::new(Session::new(stride::plan, named)).run(&mut Model::new(&machine("am5728"), 1));
    let mut record = Record::default();
    for line in text {
        let line = if line.starts_with("run ") {
            line.replace("bytes=16384,262144,1048576,16777216 ", "")
        } else {
            line
        };
        record.push(&line).unwrap();
    }
    assert!(record.run.is_some() && !record.asked().has(&stride::options::BYTES));
    let report = read(&record).expect("a report");
    for bytes in stride::SIZES {
        assert!(number(&report, &format!("stride.{bytes}.64.read.time_per_access")) > 0.0);
    }
    assert!(report.findings.iter().all(|f| !f.name().ends_with(".served_by")));
}
