//! Strides on described machines: what the description says comes back out of them.

#[path = "common/asked.rs"]
mod asked;
mod common;

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

const K: u64 = 1 << 10;

fn measured(d: &Description, bytes: &[u64], steps: &[u64], budget_ms: u64, seed: u64) -> (Record, Report) {
    let list = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let asked = asked(stride::options::ALL, &[("bytes", &list(bytes)), ("strides", &list(steps))]);
    let run = Run { experiment: stride::NAME.into(), seed, budget_ms, asked, ..Run::default() };
    common::measured(d, stride::plan, run)
}

fn near(what: &str, value: f64, truth: f64, share: f64) {
    assert!((value - truth).abs() <= share * truth, "{what}: {value} for {truth}");
}

fn machine(name: &str) -> Description {
    catalog::load(name).unwrap().unwrap()
}

/// The study's question: is the L2 on? Its own working set cannot tell, one inside the L2 can.
#[test]
fn size_between_levels_shows_whether_l2_is_on() {
    let ask = |name| measured(&machine(name), &[16 * K, 256 * K, 16 << 20], &[8, 64], 3_000, 1).1;
    let (on, off) = (ask("am5728"), ask("am5728-l2-off"));
    let time =
        |r: &Report, bytes: u64, op: &str| number(r, &format!("stride.{bytes}.64.{op}.time_per_access"));
    for op in ["read", "write", "rmw"] {
        near("L1", time(&off, 16 * K, op), time(&on, 16 * K, op), 0.03);
        assert!(time(&off, 256 * K, op) > 5.0 * time(&on, 256 * K, op), "{op}");
        near("beyond both", time(&off, 16 << 20, op), time(&on, 16 << 20, op), 0.03);
    }
    // What the study printed is the same of both.
    near("ratio", number(&off, "stride.study.lap_ratio"), number(&on, "stride.study.lap_ratio"), 0.03);
    assert!(
        finding(&on, "stride.study.lap_ratio").notes[0]
            .contains("16 MiB at a stride of 8 compared with one at 64, rmw")
    );
}

/// What an access takes in a description with an additive first level of `near_by` cycles and a second of `far`,
/// a TLB miss of 12 a page, and a line: cycles.
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
        // Of the accesses to a line one brings it.
        let share = (step / self.line).min(1.0);
        let brought = share * far + (1.0 - share) * self.near_by;
        page + match operation {
            Operation::Read => brought,
            // Stores go to the level that has the line; without write allocation no nearer level takes it.
            Operation::Write if !self.allocates => self.far,
            Operation::Write => brought,
            Operation::Rmw => brought + self.near_by,
            other => panic!("{other:?} is no stride"),
        }
    }
}

/// Lines, latencies, policies and clocks that are drawn from a seed, and come back at every stride: forty variants in the
/// full tier, twelve in the default one.
#[test]
fn variants_of_the_am5728_come_back() {
    let original = machine("am5728").to_toml();
    let variants = if std::env::var_os("FATHOM_FULL").is_some() { 40 } else { 12 };
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
        let (_, report) = measured(&d, &[16 * K, 256 * K], &[8, 32, 128], 700, seed);
        for &operation in Operation::STRIDES {
            for step in [8, 32, 128] {
                for (bytes, inside) in [(16 * K, true), (256 * K, false)] {
                    let name = format!("stride.{bytes}.{step}.{}", operation.token());
                    let found = number(&report, &format!("{name}.time_per_access")) * 1.5;
                    let what = format!("variant {seed} (line {}, through {through}): {name}", truth.line);
                    near(&what, found, truth.cycles(inside, step as f64, operation), 0.02);
                    // The line is that of the claim.
                    let line = number(&report, &format!("{name}.time_per_line")) * 1.5;
                    near(&what, line, found * (truth.line / step as f64).max(1.0), 1e-9);
                }
            }
        }
    }
}

/// Time an access stops growing at the line, and nowhere before; what a page's translation adds goes on (5 % of
/// the dearest here).
#[test]
fn the_line_shows_where_the_time_stops_growing() {
    for (name, line) in [("am5728", 64), ("gr712rc", 16), ("imx6q", 32), ("neoverse-n1", 64)] {
        let d = machine(name);
        assert_eq!(d.levels[0].line, line, "{name}");
        let steps = [8, 16, 32, 64, 128];
        // Beyond the first level of each, inside the second where there is one.
        let (_, report) = measured(&d, &[128 * K], &steps, 1_500, 1);
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

/// A first level that writes through and does not allocate takes every store farther, at any step; one that
/// allocates takes it as a read.
#[test]
fn stores_identify_the_write_policy() {
    let time = |name: &str, op: &str, step: u64| {
        let (_, report) = measured(&machine(name), &[8 * K], &[8, 128], 2_000, 1);
        number(&report, &format!("stride.8192.{step}.{op}.time_per_access"))
    };
    // The model has no buffer in front of memory: it says what the policy does, not how well it is hidden.
    assert!(time("gr712rc", "write", 8) > 3.0 * time("gr712rc", "read", 8));
    near("any step", time("gr712rc", "write", 128), time("gr712rc", "write", 8), 0.1);
    near("allocates", time("am5728", "write", 8), time("am5728", "read", 8), 0.03);
}

#[test]
fn unmeasured_strides_are_reported_and_options_compared() {
    let d = machine("imxrt1062");
    let (a, report) = measured(&d, &[K, 1 << 39], &[64, 4096], 1_000, 1);
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
    let (b, _) = measured(&d, &[K, 1 << 39], &[64], 1_000, 1);
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

/// What serves loads at a working set by the description: `nearest`, `level` or `memory`; none where a part of it may be
/// answered nearer, within twice a capacity (random replacement) or where two levels hold different lines.
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

/// The sentence of each size is right on every committed machine: the sketch chooses sizes and says what serves loads
/// there, and sees no description.
#[test]
fn each_size_names_the_described_level() {
    let (mut right, mut open, mut wrong) = (0, 0, Vec::new());
    for name in catalog::names() {
        let d = machine(name);
        // Levels farther than the coarse scan goes are behind its last size.
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
    assert!(right >= 3 * open && right > 30, "{right} right and {open} undecidable");
}

fn requested(d: &Description, budget_ms: u64, typed: &[(&str, &str)]) -> Report {
    let asked = asked(stride::options::ALL, typed);
    let run = Run { experiment: stride::NAME.into(), seed: 1, budget_ms, asked, ..Run::default() };
    common::measured(d, stride::plan, run).1
}

/// The study's question with default sizes, and a sentence at each.
#[test]
fn default_sizes_show_whether_l2_is_on() {
    let ask = |name| requested(&machine(name), 10_000, &[("strides", "8,64"), ("op", "read")]);
    let (on, off) = (ask("am5728"), ask("am5728-l2-off"));
    fn says(r: &Report, bytes: u64) -> (Option<&str>, &Detail) {
        let f = r.find(metrics::STRIDE_SERVED_BY.at([bytes.into()])).expect("it is told");
        (f.word(), &f.detail)
    }
    let first = |detail: &Detail| detail.number(metrics::BEYOND).map(|bytes| bytes as u64 / K);
    for report in [&on, &off] {
        assert_eq!(says(report, 16 * K).0, Some("nearest"));
        assert_eq!(says(report, 16 << 20).0, Some("memory"));
        // Dependent loads and sweeps agree: nothing is fetched ahead there.
        let load = number(report, "latency.262144.time");
        near("a line", number(report, "stride.262144.64.read.time_per_line"), load, 0.03);
    }
    let (answer, detail) = says(&on, 256 * K);
    assert_eq!((answer, first(detail)), (Some("level"), Some(32)), "{detail:?}");
    assert!(
        detail.number(metrics::UP_TO) > Some(256.0 * 1024.0) && !detail.flag(metrics::ONE_LEVEL),
        "{detail:?}"
    );
    let (answer, detail) = says(&off, 256 * K);
    assert_eq!((answer, first(detail)), (Some("memory"), Some(32)), "{detail:?}");
    assert!(detail.flag(metrics::ONE_LEVEL), "{detail:?}");
}

/// What is claimed and does not answer is named with who claims it.
#[test]
fn a_claim_that_nothing_answers_is_named() {
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

/// Nothing on a described machine fetches ahead: a constant stride gains nothing over a random order in pages, and
/// what ascending gains over random is rows and translation, which the order inside pages has too.
#[test]
fn the_ladder_shows_no_prefetch_where_none_is_described() {
    for name in ["am5728", "gr712rc", "bcm2835", "imx6q", "alpha21164"] {
        let typed = [("bytes", "8M"), ("strides", "64"), ("op", "read"), ("prefetch", "")];
        let report = requested(&machine(name), 20_000, &typed);
        let time = |order: &str| number(&report, &format!("prefetch.{order}.time"));
        for way in ["forward", "backward"] {
            assert_eq!(number(&report, &format!("prefetch.max_stride_lines.{way}")), 0.0, "{name}");
            for lines in 2..=8 {
                // Slower it may be: each jump leaves its page earlier, and translation costs more.
                let own = time(&format!("{way}{lines}"));
                assert!(own > time("window") / 1.2, "{name}, {way}{lines}: {own}");
            }
        }
        near(name, number(&report, "prefetch.gain"), time("random") / time("sequential"), 1e-6);
        near(name, number(&report, "prefetch.repeat_gain"), 1.0, 0.03);
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

/// Records of before there was a coarse scan keep their sizes, and say nothing of what serves loads.
#[test]
fn a_record_without_a_sketch_keeps_the_sizes_it_had() {
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
