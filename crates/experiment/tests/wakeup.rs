//! Pressure on a machine whose wake-ups are drawn from known distributions: what was planted is found, and what was not
//! is not.

#[path = "common/asked.rs"]
mod asked;

use asked::asked;
use fathom_analysis::findings::{Report, Value};
use fathom_analysis::metrics::wakeup as metrics;
use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::{InProcess, Session};
use fathom_experiment::wakeup;
use fathom_experiment::wakeup::conditions::NAMED;
use fathom_model::{Model, catalog};
use fathom_probe::load::{Load, LoadStats, Stalls, Stress};
use fathom_probe::machine::{ActivationRow, Wakes};
use fathom_probe::machine::{
    ActivationTrace, ClockTrust, Control, Counters, Disturb, Dma, Event, Fact, FactValue, Fresh, LoadReport,
    Machine, Maintain, MapRequest, Mapping, Places, Refusal, Ticks, Translate, Wake, WakeReturn, Watch,
};
use fathom_probe::wire::Line;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// What one kind of stressor adds to a wake-up, ns.
type Adds = fn(&fathom_probe::load::Stressor) -> u64;

/// A machine of paper: memory that holds, a clock that jumps to where it is told, and wake-ups that are drawn.
struct Paper {
    memory: Vec<u64>,
    now: u64,
    random: Xoshiro256PlusPlus,
    adds: Adds,
    load: Load,
    /// Can its caches be partitioned?
    parts: bool,
    confined: bool,
    pressed_at: u64,
    places: Vec<Places>,
    traced: bool,
    /// What being traced adds, ns.
    tracing: u64,
    /// Is there no tracer?
    blind: bool,
    /// Is no priority to be had?
    denied: bool,
    /// Every so many ns a wake-up is 300 us late; 0 for never.
    cadence: u64,
    /// Has the kernel a tracer of its own wake-ups?
    kernels: bool,
    /// Times that it was asked for.
    timed: usize,
}

impl Paper {
    fn new(adds: Adds) -> Paper {
        Paper {
            memory: vec![0; 4 << 20],
            now: 1_000_000_007,
            random: Xoshiro256PlusPlus::seed_from_u64(5),
            adds,
            load: Load::default(),
            parts: false,
            confined: false,
            pressed_at: 0,
            places: Vec::new(),
            traced: false,
            tracing: 0,
            blind: false,
            denied: false,
            cadence: 0,
            kernels: false,
            timed: 0,
        }
    }

    fn unit(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Counters for Paper {}
impl Fresh for Paper {}
impl Dma for Paper {}
impl Translate for Paper {}
impl Control for Paper {}
impl Maintain for Paper {
    fn clean_invalidate(&mut self, _: u64, _: u64) -> Result<(), Refusal> {
        Ok(())
    }
}

impl Disturb for Paper {
    fn start_load(&mut self, load: &Load, confined: bool) -> Result<(), Refusal> {
        if load.stressors.iter().any(|s| s.bytes > 1 << 30) {
            return Err(Refusal::new("so much memory is not there", "ask for less"));
        }
        if confined && !self.parts {
            return Err(Refusal::new("nothing here can be partitioned", "another machine"));
        }
        (self.load, self.confined, self.pressed_at) = (load.clone(), confined, self.now);
        Ok(())
    }

    fn stop_load(&mut self) -> LoadReport {
        let ns = self.now - self.pressed_at;
        // A worker of any kind does a thousand rounds a second, with ten faults each where it allocates.
        let row = |(i, s): (usize, &fathom_probe::load::Stressor)| {
            let passes = s.workers * ns / 1_000_000;
            // glibc maps blocks from 32 MiB on in each round, and keeps smaller ones.
            let mapped = s.kind == Stress::Malloc && s.bytes >= 32 << 20;
            let faulting = mapped || matches!(s.kind, Stress::Vm | Stress::Fault);
            let faults = if faulting { 10 * passes } else { 0 };
            LoadStats { stressor: i as u64, ns, passes, lines: 20 * passes, faults, bytes: 64 * passes }
        };
        let load_stats = self.load.stressors.iter().enumerate().map(row).collect();
        self.load = Load::default();
        LoadReport { load_stats, stalls: Some(Stalls { cpu_us: ns / 2000, ..Stalls::default() }) }
    }
}

impl Wake for Paper {
    fn wake_begin(&mut self, wakes: &Wakes, _: u64) -> Result<u64, Refusal> {
        if self.denied && wakes.priority > 0 {
            return Err(Refusal::new("no priority for this process", "run as root"));
        }
        if self.blind && wakes.traced {
            return Err(Refusal::new("no tracepoints here", "run as root"));
        }
        self.traced = wakes.traced;
        Ok(self.now)
    }

    /// 5 us, an exponential tail of 1 us, what the load adds, and now and then a hundred more.
    fn wake_at(&mut self, at_ns: u64) -> Result<WakeReturn, Refusal> {
        assert!(at_ns >= self.now, "asked to sleep until a time that is past");
        // What a load adds here it adds by way of the caches.
        let kept = if self.confined { 4 } else { 1 };
        let added = self.load.stressors.iter().map(self.adds).sum::<u64>() / kept;
        let tail = -1000.0 * (1.0 - self.unit()).ln();
        let traced = if self.traced { self.tracing } else { 0 };
        let periodic = self.cadence > 0 && at_ns % self.cadence < 1_000_000;
        let late = 5000 + tail as u64 + added + traced + if periodic { 300_000 } else { 0 };
        let place = |part: u64| Some(at_ns + late * part / 8);
        if self.traced {
            // What is added is added before the interrupt.
            self.places.push(Places {
                expires_ns: at_ns,
                irq_ns: place(5),
                wake_ns: place(6),
                switch_ns: place(7),
            });
        }
        self.now = at_ns + late;
        Ok(WakeReturn { now_ns: self.now, cpu: 0, involuntary: 0 })
    }

    fn wake_now(&mut self) -> u64 {
        self.now
    }

    fn wake_end(&mut self) -> Result<ActivationTrace, Refusal> {
        Ok(ActivationTrace { places: std::mem::take(&mut self.places), lost: 0 })
    }

    /// 3 us and the same tail; its interrupt after a quarter of that.
    fn timerlat(&mut self, wakes: &Wakes, activations: u64) -> Result<(Vec<ActivationRow>, u64), Refusal> {
        self.timed += 1;
        if !self.kernels {
            return Err(Refusal::new("no timerlat on paper", "take another kernel"));
        }
        self.now += (activations + 1) * wakes.every_ns;
        let one = |_| {
            let late = 3000 + (-1000.0 * (1.0 - self.unit()).ln()) as u64;
            ActivationRow { user_ns: late, work_ns: late, irq_ns: Some(late / 4), ..ActivationRow::default() }
        };
        Ok(((0..activations).map(one).collect(), 0))
    }

    fn wake_around(&mut self, from_ns: u64, _: u64, _: usize) -> Vec<Event> {
        vec![Event { at_ns: from_ns, what: "switch idle -> task".into() }]
    }
}

impl Machine for Paper {
    type Cell = usize;

    fn trust(&self) -> ClockTrust {
        ClockTrust::Real
    }
    fn facts(&mut self, sink: &mut dyn FnMut(Fact)) {
        sink(Fact { name: "clock.hz".into(), value: FactValue::Int(1_000_000_000) });
    }
    fn map(&mut self, request: &MapRequest) -> Result<Mapping, Refusal> {
        Ok(Mapping { base: 0, bytes: request.bytes, page_bytes: 4096 })
    }
    fn cell(&self, offset: u64) -> Option<usize> {
        (offset.is_multiple_of(8) && offset / 8 < self.memory.len() as u64).then_some(offset as usize / 8)
    }
    fn offset(&self, cell: usize) -> u64 {
        cell as u64 * 8
    }
    fn watch(&mut self) -> Watch {
        Watch { wall_ns: self.now, cpu_ns: self.now, ..Watch::default() }
    }
    fn link(&mut self, at: usize, to: usize) {
        self.memory[at] = to as u64;
    }
    fn follow(&mut self, at: usize) -> usize {
        self.memory[at] as usize
    }
    fn now(&mut self) -> Ticks {
        self.now += 10;
        Ticks(self.now)
    }
    fn alu(&mut self, n: u64) {
        self.now += n;
    }
}

fn session<M: Machine>(machine: &mut M, run: Run) -> (Vec<String>, Record) {
    let run = Run { experiment: wakeup::NAME.into(), subject: "paper".into(), seed: 1, ..run };
    InProcess::new(Session::new(wakeup::plan, run)).run(machine)
}

fn measure(machine: &mut Paper, run: Run) -> Report {
    let (transcript, record) = session(machine, run);
    assert_eq!(record.problems, Vec::<String>::new());
    assert!(record.trials.iter().all(|r| r.unverified == 0), "an activation proves nothing");
    // The file says the same.
    let again = Record::parse(&transcript.join("\n")).expect("a record");
    let report = wakeup::read(&record);
    assert_eq!(wakeup::read(&again), report);
    report
}

/// These options, within a budget.
fn run(budget_ms: u64, typed: &[(&str, &str)]) -> Run {
    Run { asked: asked(wakeup::options::ALL, typed), budget_ms, ..Run::default() }
}

fn minute() -> Run {
    run(60_000, &[])
}

fn row<'a>(report: &'a Report, name: &str) -> Option<&'a fathom_analysis::findings::Finding> {
    report.findings.iter().find(|f| f.name() == name)
}

fn number(report: &Report, name: &str) -> f64 {
    match row(report, name).map(|f| &f.value) {
        Some(Value::Number(v)) => *v,
        other => panic!("{name}: {other:?}"),
    }
}

/// Page faults cost 20 us, bandwidth 4 us, the study's memory workers what faults cost them; nothing else anything.
fn planted(s: &fathom_probe::load::Stressor) -> u64 {
    match s.kind {
        Stress::Fault | Stress::Vm => 20_000,
        Stress::Copy => 4_000,
        _ => 0,
    }
}

#[test]
fn what_each_factor_costs_and_what_it_explains() {
    let mut machine = Paper::new(planted);
    machine.tracing = 2000;
    let report = measure(&mut machine, minute());
    for (factor, us) in [("copy", 4.0), ("chase", 0.0), ("pages", 0.0), ("fault", 20.0), ("unmap", 0.0)] {
        let row = row(&report, &format!("effect.{factor}")).expect(factor);
        let (low, high) = (row.low.expect("an interval"), row.high.expect("an interval"));
        assert!(low <= us && us <= high, "{factor}: {low} to {high}, and {us} was planted");
        assert!(high - low < 4.0, "{factor}: {low} to {high} says nothing");
    }
    // All of the increase comes with page faults, of which the study's workers do as many as the factor.
    let near = |name: &str, us: f64| {
        let found = number(&report, name);
        assert!((found - us).abs() < 2.0, "{name}: {found} and not {us}");
    };
    near("explained.increase", 20.0);
    near("explained.fault", 20.0);
    near("bias.trace", 2.0);
    near("wakeup.user.unloaded.p50", 5.0 + 0.7 + 2.0);
    near("wakeup.irq.fault.p50", (5.0 + 0.7 + 2.0 + 20.0) * 5.0 / 8.0);
    assert!(number(&report, "load.fault.faults") > 0.0 && number(&report, "stall.fault.cpu") > 0.4);
    assert!(report.refusals.iter().all(|r| !r.what.contains("factors")), "{:?}", report.refusals);
}

#[test]
fn a_load_that_is_kept_to_a_share_of_the_caches_stands_beside_the_whole_one() {
    let mut machine = Paper::new(planted);
    machine.parts = true;
    let report = measure(&mut machine, minute());
    let near = |name: &str, us: f64| {
        let found = number(&report, name);
        assert!((found - us).abs() < 0.3, "{name}: {found} and not {us}");
    };
    near("wakeup.user.stress-mix-vm.p50", 25.7);
    near("wakeup.user.stress-mix-vm-confined.p50", 10.7);
    // It is none of the cells that the factors' effects are from.
    let effect = row(&report, "effect.baseline").expect("a row");
    assert!(
        (number(&report, "effect.baseline") - number(&report, "wakeup.user.unloaded.p99")).abs() < 0.3,
        "{effect:?}"
    );
    // Where nothing can be partitioned, that is said once, and nothing else lacks.
    let mut machine = Paper::new(planted);
    let without = measure(&mut machine, minute());
    let said = without.refusals.iter().filter(|r| r.reason == "nothing here can be partitioned").count();
    assert_eq!(said, 1, "{:?}", without.refusals);
    assert!(row(&without, "wakeup.user.stress-mix-vm-confined.p50").is_none());
    assert!(row(&without, "effect.baseline").is_some());
    // Who asks for it by name gets the refusal, too.
    let typed = [("conditions", "unloaded,stress-mix-vm-confined")];
    let named = measure(&mut Paper::new(planted), run(5_000, &typed));
    assert!(
        named.refusals.iter().any(|r| r.reason == "nothing here can be partitioned"),
        "{:?}",
        named.refusals
    );
    assert!(row(&named, "wakeup.user.unloaded.p50").is_some());
}

#[test]
fn where_nothing_is_planted_nothing_is_found() {
    let report = measure(&mut Paper::new(|_| 0), minute());
    for name in ["copy", "chase", "pages", "fault", "unmap"] {
        let row = row(&report, &format!("effect.{name}")).expect(name);
        assert!(row.low < Some(0.0) && row.high > Some(0.0), "{name}: {row:?}");
    }
    assert!(!report.findings.iter().any(|f| f.name().starts_with("cause.")), "{:?}", report.findings);
    let increase = row(&report, "explained.increase").expect("a row");
    assert!(increase.low < Some(0.1) && increase.high > Some(-0.1), "{increase:?}");
}

#[test]
fn what_comes_back_every_100_ms_is_named() {
    let mut machine = Paper::new(|_| 0);
    machine.cadence = 100_000_000;
    let report = measure(&mut machine, minute());
    assert!((number(&report, "cause.quota.period") - 100.0).abs() < 1.0);
    assert!(number(&report, "cause.quota.share") > 0.8);
    assert!(
        report.refusals.iter().any(|r| r.what == "wakeup.user.unloaded.return_level_1h"),
        "{:?}",
        report.refusals
    );
    let worst = row(&report, "worst.1.latency").expect("a row");
    // Whatever runs beside the task: all of it is late now and then.
    let condition = worst.detail.word(metrics::CONDITION);
    assert!(NAMED.iter().any(|named| Some(named.token) == condition), "{worst:?}");
    assert!(
        worst.detail.numbers(metrics::STAGES).iter().any(|(stage, _)| stage == "before-irq"),
        "{worst:?}"
    );
    assert!(worst.detail.numbers(metrics::EVENTS).iter().any(|e| e.0 == "switch idle -> task"), "{worst:?}");
    assert_eq!(worst.detail.word(metrics::RAN_BEFORE), Some("idle"));
}

#[test]
fn without_a_tracer_the_task_itself_is_what_there_is() {
    let mut machine = Paper::new(|_| 0);
    machine.blind = true;
    let report = measure(&mut machine, run(5_000, &[]));
    assert!(row(&report, "wakeup.user.unloaded.p50").is_some());
    assert!(row(&report, "wakeup.irq.unloaded.p50").is_none());
    assert!(report.refusals.iter().any(|r| r.reason.contains("tracepoints")), "{:?}", report.refusals);
}

#[test]
fn the_kernels_own_wake_ups_stand_beside_the_tasks_and_in_none_of_its_rows() {
    let mut machine = Paper::new(planted);
    machine.kernels = true;
    let report = measure(&mut machine, minute());
    let near = |name: &str, us: f64| {
        let found = number(&report, name);
        assert!((found - us).abs() < 0.3, "{name}: {found} and not {us}");
    };
    near("wakeup.kernel.timerlat.p50", 3.7);
    near("wakeup.irq.timerlat.p50", 3.7 / 4.0);
    near("wakeup.user.unloaded.p50", 5.7);
    near("effect.baseline", number(&report, "wakeup.user.unloaded.p99"));
    assert!(row(&report, "wakeup.user.timerlat.p50").is_none());
    let first = row(&report, "wakeup.kernel.timerlat.min").expect("a row");
    assert!(first.count > 300 && first.trials.len() > 1, "{first:?}");
    assert!(machine.timed > 3, "once in the look and once a round");
    // Where it is refused, that is said, and it is not asked again.
    let mut machine = Paper::new(planted);
    let report = measure(&mut machine, minute());
    assert!(report.refusals.iter().any(|r| r.reason == "no timerlat on paper"), "{:?}", report.refusals);
    assert_eq!(machine.timed, 1);
    assert!(!report.findings.iter().any(|f| f.name().contains("timerlat")));
}

#[test]
fn without_a_priority_nothing_is_measured_but_what_is_asked_for() {
    let mut machine = Paper::new(|_| 0);
    machine.denied = true;
    let report = measure(&mut machine, minute());
    assert!(!report.findings.iter().any(|f| f.name().starts_with("wakeup.")), "{:?}", report.findings);
    assert!(report.refusals.iter().any(|r| r.remedy == "run as root"));
    let report = measure(&mut machine, run(3_000, &[("priority", "0")]));
    assert!(row(&report, "wakeup.user.unloaded.p50").is_some());
    assert!(report.warnings.iter().any(|w| w.token == "wakeup-config"), "{:?}", report.warnings);
}

#[test]
fn a_load_that_is_refused_costs_the_others_nothing() {
    let report = measure(&mut Paper::new(planted), run(5_000, &[("load", "vm*1:2G;vm*2:8M")]));
    assert!(row(&report, "wakeup.user.load-1.p50").is_none());
    assert!(number(&report, "wakeup.user.load-2.p50") > number(&report, "wakeup.user.unloaded.p50") + 19.0);
    assert!(report.refusals.iter().any(|r| r.reason.contains("so much memory")), "{:?}", report.refusals);
}

fn sweep(budget_ms: u64) -> Run {
    run(budget_ms, &[("sweep", ""), ("modes", "free")])
}

/// A step of 2 us at 32 MiB.
fn kink(s: &fathom_probe::load::Stressor) -> u64 {
    if s.bytes >= 32 << 20 { 2000 } else { 0 }
}

#[test]
fn a_sweep_finds_where_the_path_gets_longer_and_how_sharply() {
    let report = measure(&mut Paper::new(kink), sweep(600_000));
    let found: Vec<&str> = report.of(&metrics::CHANGEPOINT_STATISTIC).filter_map(|f| f.word()).collect();
    assert!(found.contains(&"p50") && found.contains(&"p90"), "{found:?}");
    for nth in 1..=found.len() {
        let row = row(&report, &format!("changepoint.{nth}.bytes")).expect("a row");
        let (low, high) = (row.low.expect("an end"), row.high.expect("an end"));
        assert!(low < f64::from(32 << 20) && high >= f64::from(32 << 20), "{row:?}");
        assert!(high / low < 1.1 + 0.05, "not narrowed: {low} to {high}");
        let detail = &row.detail;
        assert_eq!(
            (detail.word(metrics::STRESSOR), detail.number(metrics::STRIDE)),
            (Some("vm"), Some(4096.0))
        );
        assert!(detail.word(metrics::MODE).is_some(), "{row:?}");
    }
    let counts: Vec<f64> = report.of(&metrics::CHANGEPOINTS).filter_map(|f| f.finite()).collect();
    assert_eq!(counts.iter().sum::<f64>(), found.len() as f64, "{counts:?}");
    // Without the step there is none.
    let report = measure(&mut Paper::new(|_| 0), sweep(300_000));
    assert!(!report.findings.iter().any(|f| f.name().starts_with("changepoint.")), "{:?}", report.findings);
}

/// 150 ns of 5.7 us from 32 MiB on, under malloc: less than what a changepoint of latencies is told from.
fn slight(s: &fathom_probe::load::Stressor) -> u64 {
    if s.kind == Stress::Malloc && s.bytes >= 32 << 20 { 150 } else { 0 }
}

#[test]
fn a_sweep_finds_where_the_load_begins_to_fault_and_what_latencies_do_there() {
    let typed = [("sweep", ""), ("modes", "free"), ("like-stress", "")];
    let report = measure(&mut Paper::new(slight), run(300_000, &typed));
    let words: Vec<&str> = report.of(&metrics::CHANGEPOINT_STATISTIC).filter_map(|f| f.word()).collect();
    assert_eq!(words, ["faults"]);
    let place = row(&report, "changepoint.1.bytes").expect("a row");
    let (low, high) = (place.low.expect("an end"), place.high.expect("an end"));
    assert!(low < f64::from(32 << 20) && high >= f64::from(32 << 20) && high < 1.15 * low, "{place:?}");
    // One of two workers: a thousand rounds a second with ten faults each.
    let near = |name: &str, value: f64| (number(&report, name) - value).abs() <= value / 100.0;
    assert!(near("changepoint.1.before", 0.0) && near("changepoint.1.after", 10_000.0));
    assert!(row(&report, "changepoint.1.effect").is_none());
    let p50 = row(&report, "changepoint.1.across.p50").expect("a row");
    let truth = 150.0 / 5693.0;
    assert!(p50.low.expect("an end") <= truth && truth <= p50.high.expect("an end"), "{p50:?}");
    // With explicit mapping every size faults, and there is nothing to be found.
    let report = measure(&mut Paper::new(slight), sweep(300_000));
    assert!(!report.findings.iter().any(|f| f.name().starts_with("changepoint.")), "{:?}", report.findings);
    assert!(number(&report, "sweep.vm.free.4096.1048576.faults") > 9_000.0);
}

#[test]
fn two_hangs_share_no_row() {
    let typed = [("sweep", ""), ("modes", "hold2,hold4"), ("bytes", "1M,2M")];
    let report = measure(&mut Paper::new(|_| 0), run(60_000, &typed));
    let mut names: Vec<String> =
        report.findings.iter().map(|f| f.name()).filter(|n| n.starts_with("sweep.")).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), count > 8), (count, true), "{names:?}");
    assert!(row(&report, "sweep.vm.hold2.4096.1048576.p50").is_some(), "{names:?}");
    assert!(row(&report, "sweep.vm.hold4.4096.1048576.p50").is_some(), "{names:?}");
}

#[test]
fn of_a_long_period_there_are_few_activations_and_no_panic() {
    for (period, at_least) in [("60ms", 100), ("250ms", 100)] {
        for swept in [false, true] {
            let typed = [("period", period), ("conditions", "unloaded")];
            let of_sweep = [("sweep", ""), ("modes", "free"), ("bytes", "1M")];
            let typed = [&typed[..], if swept { &of_sweep } else { &[] }].concat();
            let (_, record) = session(&mut Paper::new(|_| 0), run(7_200_000, &typed));
            let series = |r: &&fathom_experiment::record::TrialRun| r.done.is_some() && r.trial.round > 1;
            let wakes = record.trials.iter().filter(series).filter(|r| r.trial.loads == 1);
            let all: Vec<u64> = wakes.map(|r| r.trial.samples).collect();
            assert!(!all.is_empty() && all.iter().all(|n| *n >= at_least), "{period}: {all:?}");
        }
    }
}

#[test]
fn a_record_that_asks_for_the_impossible_is_refused_and_a_plan_goes_on_without_it() {
    for (key, wrong, allowed) in [
        ("bytes", "0", "from 4K to 1024G"),
        ("strides", "0", "from 1 to 4K"),
        ("strides", "1048576", "from 1 to 4K"),
        ("period", "\"18446744073709551615ms\"", "from 10us to 250ms"),
        ("period", "\"10s\"", "from 10us to 250ms"),
    ] {
        let text = format!(
            "run experiment=\"wakeup\" subject=\"paper\" seed=1 budget_ms=10000 sweep=\"yes\" {key}={wrong}"
        );
        let run = Run::of_line(&Line::parse(&text).expect("a line")).expect("a run");
        let (_, record) = session(&mut Paper::new(|_| 0), run);
        let why = fathom_experiment::check(&record).map(|e| e.name).expect_err(wrong);
        assert!(why.contains(key) && why.contains(allowed), "{why}");
    }
}

#[test]
fn a_record_that_was_cut_off_is_gone_on_with() {
    let (whole, _) = session(&mut Paper::new(kink), sweep(100_000));
    // Somewhere in the middle of a trial's lines.
    let cut: Vec<String> = whole[..whole.len() / 2].to_vec();
    let trials = Record::parse(&cut.join("\n")).expect("a record").trials.len();
    let run = Run { experiment: wakeup::NAME.into(), subject: "paper".into(), seed: 1, ..sweep(100_000) };
    let session = Session::resumed(wakeup::plan, run, cut);
    let (transcript, record) = InProcess::new(session).run(&mut Paper::new(kink));
    assert_eq!(record.problems, Vec::<String>::new());
    assert!(record.trials.len() > trials, "nothing was added");
    assert_eq!(record.losses.restarts, 0, "the new probe was asked to greet");
    let again = Record::parse(&transcript.join("\n")).expect("a record");
    assert_eq!(wakeup::read(&again), wakeup::read(&record));
    let done =
        |record: &Record| record.trials.iter().filter(|r| r.done.is_some() && r.trial.loads == 1).count();
    let (_, uncut) = self::session(&mut Paper::new(kink), sweep(100_000));
    // What is lost is the rest of the round that was cut, of nine sizes at most.
    assert!(done(&record) + 9 >= done(&uncut), "{} against {}", done(&record), done(&uncut));
}

/// The record and the report of a described machine.
fn described(name: &str, typed: &[(&str, &str)]) -> (Record, Report) {
    let description = catalog::load(name).expect("committed").expect("sound");
    let (_, record) = session(&mut Model::new(&description, 1), run(12_000, typed));
    assert_eq!(record.problems, Vec::<String>::new());
    let report = wakeup::read(&record);
    (record, report)
}

/// Does a report refuse this, and say that it was not run?
fn refused(report: &Report, what: &str) -> bool {
    let of = |r: &&fathom_analysis::findings::Refused| r.what == what;
    report
        .refusals
        .iter()
        .find(of)
        .is_some_and(|r| r.reason.contains("do not support this load") && !r.remedy.is_empty())
}

/// The rows of what no load explains, from what ran without one.
fn concludes_nothing_of_loads(report: &Report) {
    for prefix in ["effect.", "interaction.", "explained.", "pressure.", "stall.", "sweep.", "changepoint."] {
        assert!(!report.findings.iter().any(|f| f.name().starts_with(prefix)), "{prefix}");
    }
}

#[test]
fn a_described_machine_says_what_an_absent_level_costs() {
    let of = |name: &str| described(name, &[]).1;
    let (on, off) = (of("am5728"), of("am5728-l2-off"));
    let p50 = |report: &Report, what: &str| number(report, &format!("wakeup.{what}.p50"));
    assert!(p50(&on, "user.unloaded") > 0.0);
    // What was flushed comes from memory with and without it; what was evicted, and the path itself, do not.
    assert!(p50(&on, "work.flushed") > p50(&on, "work.warm"));
    assert!(p50(&off, "user.unloaded") > p50(&on, "user.unloaded"));
}

#[test]
fn every_condition_that_is_asked_of_a_described_machine_is_measured_or_refused_by_its_name() {
    let all: Vec<&str> = NAMED.iter().map(|condition| condition.token).collect();
    let typed = [("conditions", all.join(",")), ("load", "cpu*2;vm*2:64M copy*1".to_owned())];
    let (record, report) = described("am5728", &typed.each_ref().map(|(name, text)| (*name, text.as_str())));
    let mut named = 0;
    for condition in &all {
        let measured = row(&report, &format!("wakeup.user.{condition}.p50")).is_some();
        let refused = refused(&report, &format!("condition {condition}"));
        assert!(measured != refused, "{condition}: measured {measured}, refused {refused}");
        let carried_out = ["unloaded", "warm", "flushed", "evicted"].contains(condition);
        assert_eq!(measured, carried_out, "{condition}");
        named += 1;
    }
    assert_eq!(named, NAMED.len());
    assert!(refused(&report, "condition load-1 (cpu*2)"), "{:?}", report.refusals);
    assert!(refused(&report, "condition load-2 (vm*2:64M copy*1)"), "{:?}", report.refusals);
    concludes_nothing_of_loads(&report);
    // Nothing at all ran beside the task.
    assert!(
        record
            .trials
            .iter()
            .all(|run| run.trial.beside.streams.is_empty() && run.trial.beside.load.is_none())
    );
}

#[test]
fn what_a_described_machine_measures_by_default_has_its_loads_refused_too() {
    let (_, report) = described("am5728", &[]);
    for condition in
        ["stress-mix", "stress-mix-vm", "read", "write", "copy", "chase", "pages", "fault", "unmap"]
    {
        assert!(refused(&report, &format!("condition {condition}")), "{condition}: {:?}", report.refusals);
        assert!(row(&report, &format!("wakeup.user.{condition}.p50")).is_none(), "{condition}");
    }
    assert!(refused(&report, "the factors' effects"), "{:?}", report.refusals);
    concludes_nothing_of_loads(&report);
}

#[test]
fn a_sweep_on_a_described_machine_is_refused_curve_by_curve() {
    let (record, report) = described("am5728", &[("sweep", ""), ("bytes", "64K,1M")]);
    for curve in ["vm.free.4096", "vm.keep.4096", "vm.hold2.4096"] {
        assert!(refused(&report, &format!("sweep {curve}")), "{curve}: {:?}", report.refusals);
    }
    concludes_nothing_of_loads(&report);
    assert!(
        record
            .trials
            .iter()
            .all(|run| run.trial.beside.streams.is_empty() && run.trial.beside.load.is_none())
    );
}
