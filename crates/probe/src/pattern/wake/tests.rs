//! Tests of the series on a machine with an exact clock.

use alloc::string::ToString as _;

use super::*;
use crate::load::Load;
use crate::machine::{
    self, ClockTrust, Control, Counters, Disturb, Dma, Fact, Fresh, LoadReport, Maintain, MapRequest,
    Mapping, Ticks, Translate, WakeReturn, Watch,
};
use crate::pattern::{self, CoRunning};

/// Plain memory, and a clock that advances by the cost of each operation.
struct Timed {
    memory: Vec<u64>,
    now: u64,
    /// Lateness of each wake-up, ns, used cyclically.
    late: Vec<u64>,
    wakes: usize,
    /// Time of one load.
    load_ns: u64,
    /// Whether the chase is skipped.
    idle: bool,
    ended: bool,
    places: Vec<Places>,
    load_stats: Vec<Load>,
    flushed: u64,
    /// Rows of the kernel's tracer; empty if there is none.
    kernels: Vec<ActivationRow>,
}

impl Timed {
    fn new(late: &[u64]) -> Timed {
        Timed {
            memory: vec![0; 1 << 15],
            now: 5_000,
            late: late.to_vec(),
            wakes: 0,
            load_ns: 1,
            idle: false,
            ended: false,
            places: Vec::new(),
            load_stats: Vec::new(),
            flushed: 0,
            kernels: Vec::new(),
        }
    }
}

impl Counters for Timed {}
impl Fresh for Timed {}
impl Dma for Timed {}
impl Translate for Timed {}
impl Control for Timed {}

impl Maintain for Timed {
    fn clean_invalidate(&mut self, _: u64, bytes: u64) -> Result<(), Refusal> {
        self.flushed += bytes;
        Ok(())
    }
}

impl Disturb for Timed {
    fn start_load(&mut self, load: &Load, _: bool) -> Result<(), Refusal> {
        self.load_stats.push(load.clone());
        Ok(())
    }
    fn stop_load(&mut self) -> LoadReport {
        LoadReport { load_stats: vec![crate::load::LoadStats::default()], stalls: None }
    }
}

impl machine::Wake for Timed {
    fn wake_begin(&mut self, _: &Wakes, _: u64) -> Result<u64, Refusal> {
        Ok(self.now)
    }
    fn wake_at(&mut self, at_ns: u64) -> Result<WakeReturn, Refusal> {
        assert!(at_ns > self.now, "a sleep until a time in the past was requested");
        let late = self.late[self.wakes % self.late.len()];
        self.wakes += 1;
        let place = |part| Some(at_ns + late * part / 4);
        self.places.push(Places {
            expires_ns: at_ns,
            irq_ns: place(1),
            wake_ns: place(2),
            switch_ns: place(3),
        });
        self.now = at_ns + late;
        Ok(WakeReturn { now_ns: self.now, cpu: 1, involuntary: self.wakes as u64 / 3 })
    }
    fn wake_now(&mut self) -> u64 {
        self.now
    }
    fn wake_end(&mut self) -> Result<ActivationTrace, Refusal> {
        self.ended = true;
        Ok(ActivationTrace { places: core::mem::take(&mut self.places), lost: 0 })
    }
    fn timerlat(&mut self, _: &Wakes, activations: u64) -> Result<(Vec<ActivationRow>, u64), Refusal> {
        if self.kernels.is_empty() {
            struct Without;
            impl machine::Wake for Without {}
            return Without.timerlat(&Wakes::default(), activations);
        }
        Ok((self.kernels.clone(), 5))
    }
    fn wake_around(&mut self, from_ns: u64, to_ns: u64, _: usize) -> Vec<Event> {
        vec![Event { at_ns: (from_ns + to_ns) / 2, what: "switch a -> b".to_string() }]
    }
}

impl Machine for Timed {
    type Cell = usize;

    fn trust(&self) -> ClockTrust {
        ClockTrust::Modelled
    }
    fn facts(&mut self, _: &mut dyn FnMut(Fact)) {}
    fn map(&mut self, _: &MapRequest) -> Result<Mapping, Refusal> {
        Ok(Mapping { base: 0, bytes: 1 << 18, page_bytes: 4096 })
    }
    fn cell(&self, offset: u64) -> Option<usize> {
        (offset.is_multiple_of(8) && offset / 8 < self.memory.len() as u64).then_some(offset as usize / 8)
    }
    fn offset(&self, cell: usize) -> u64 {
        cell as u64 * 8
    }
    fn watch(&mut self) -> Watch {
        Watch::default()
    }
    fn link(&mut self, at: usize, to: usize) {
        self.memory[at] = to as u64;
    }
    fn follow(&mut self, at: usize) -> usize {
        self.now += self.load_ns;
        if self.idle { at } else { self.memory[at] as usize }
    }
    fn now(&mut self) -> Ticks {
        Ticks(self.now)
    }
    fn alu(&mut self, _: u64) {}
}

fn requested() -> Trial {
    waiting(Wakes { every_ns: 100_000, ..Wakes::default() })
}

fn waiting(wakes: Wakes) -> Trial {
    Trial { memory: Memory::of(640, 64), loads: 7, samples: 40, warm: 3, ..Trial::of(Wake::of(wakes)) }
}

/// Returns the indices of the activations that fail verification, for a trial with this wall time.
fn unverified(trial: &Trial, list: &[ActivationRow], wall_ns: u64) -> Vec<usize> {
    let done = Done { watch: Watch { wall_ns, ..Watch::default() }, ..Done::default() };
    trial.unverified(
        &Rows::Wakes(ActivationRows { list: list.to_vec(), ..ActivationRows::default() }, Vec::new()),
        &done,
    )
}

/// Returns the events near activations.
fn around_of(rows: &Rows) -> &[NearbyEvent] {
    let Rows::Wakes(_, around) = rows else { panic!("{rows:?}") };
    around
}

/// Runs the trial. Returns its result and its wall time.
fn run(machine: &mut Timed, trial: &Trial) -> (TrialOutput, u64) {
    let begun = machine.now;
    let result = pattern::run(machine, trial).expect("woken");
    assert!(machine.ended);
    (result, machine.now - begun)
}

#[test]
fn wake_ups_of_the_kernel_tracer_are_refused_or_reported_unchanged() {
    let trial = waiting(Wakes { every_ns: 100_000, timerlat: true, ..Wakes::default() });
    let refusal = pattern::run(&mut Timed::new(&[40]), &trial).expect_err("no such tracer");
    assert!(refusal.remedy.contains("CONFIG_TIMERLAT_TRACER"), "{refusal:?}");
    let mut machine = Timed::new(&[40]);
    let late = |i: u64| ActivationRow {
        missed: 9,
        user_ns: 70 + i,
        work_ns: 70 + i,
        irq_ns: Some(i),
        ..ActivationRow::default()
    };
    machine.kernels = (0..50).map(late).collect();
    let rows = pattern::run(&mut machine, &trial).expect("woken").rows;
    let Rows::Wakes(activations, _) = rows else { panic!("{rows:?}") };
    assert_eq!(
        (machine.wakes, activations.lost, activations.list.len()),
        (0, 5, 40),
        "the loop must not wait itself"
    );
    assert_eq!(
        (activations.list[0].user_ns, activations.list[0].missed, activations.list[1].missed),
        (73, 0, 9)
    );
    // They walk no chain. The order of their places and the elapsed time verify them.
    let wall = (3 + 39 * 10) * 100_000;
    assert!(unverified(&trial, &activations.list, wall).is_empty());
    assert_eq!(unverified(&trial, &activations.list, wall - 1).len(), 40);
    let mut swapped = activations.list;
    swapped[3].irq_ns = Some(1000);
    assert_eq!(unverified(&trial, &swapped, wall), [3]);
}

#[test]
fn activations_have_their_places_and_a_verified_walk() {
    let mut machine = Timed::new(&[40, 80, 400]);
    let (result, wall) = run(&mut machine, &requested());
    assert_eq!(result.rows.activations().len(), 40);
    assert_eq!(machine.wakes, 43, "three warm-up activations are not counted");
    for (i, woke) in result.rows.activations().iter().enumerate() {
        let late = [40, 80, 400][i % 3];
        assert_eq!((woke.user_ns, woke.work_ns, woke.cpu), (late, late + 7, 1));
        let places = [Some(late / 4), Some(late / 2), Some(late * 3 / 4)];
        assert_eq!([woke.irq_ns, woke.wake_ns, woke.switch_ns], places);
        assert_eq!((woke.missed, woke.skipped), (0, 0));
    }
    assert_eq!(result.rows.activations().iter().map(|w| w.involuntary).sum::<u64>(), (43 / 3) - 1);
    assert!(unverified(&requested(), result.rows.activations(), wall).is_empty());
    let worst: Vec<u64> = around_of(&result.rows).iter().map(|a| a.nth).collect();
    assert!(
        worst.iter().all(|nth| nth % 3 == 2) && worst.contains(&2),
        "events must belong to the most delayed activations: {worst:?}"
    );
    assert!(
        around_of(&result.rows).iter().all(|a| a.at_ns == 200),
        "each event is at half of 400 ns after the expiry"
    );
}

#[test]
fn place_after_the_wake_up_is_not_joined() {
    let mut rows = [ActivationRow { user_ns: 100, ..ActivationRow::default() }];
    let places = Places { expires_ns: 50, irq_ns: Some(60), wake_ns: Some(70), switch_ns: Some(151) };
    join(&mut rows, 50, 1000, &ActivationTrace { places: vec![places], lost: 0 });
    assert_eq!((rows[0].irq_ns, rows[0].wake_ns, rows[0].switch_ns), (Some(10), Some(20), None));
}

#[test]
fn late_task_misses_periods_and_keeps_the_grid() {
    // 250 us late: two periods of 100 us are missed.
    let mut machine = Timed::new(&[40, 250_040, 40]);
    let trial = Trial { warm: 0, ..requested() };
    let (result, wall) = run(&mut machine, &trial);
    for (i, woke) in result.rows.activations().iter().enumerate() {
        assert_eq!(woke.missed, if i % 3 == 2 { 2 } else { 0 }, "{i}");
        assert_eq!(woke.user_ns, [40, 250_040, 40][i % 3], "lateness is relative to the grid");
    }
    assert!(unverified(&trial, result.rows.activations(), wall).is_empty());
}

#[test]
fn preparation_skips_periods_without_latency() {
    let mut machine = Timed::new(&[40]);
    machine.load_ns = 100;
    let trial = waiting(Wakes { every_ns: 100_000, evict: 128 << 10, flushed: true, ..Wakes::default() });
    let (result, wall) = run(&mut machine, &trial);
    // 2048 lines at 100 ns, and the walk before the sweep.
    assert!(
        result.rows.activations().iter().skip(1).all(|w| (w.skipped, w.missed, w.user_ns) == (2, 0, 40)),
        "{result:?}"
    );
    assert_eq!(machine.flushed, 43 * 640);
    assert!(unverified(&trial, result.rows.activations(), wall).is_empty());
}

#[test]
fn activation_without_walk_or_sleep_is_unverified() {
    let mut machine = Timed::new(&[40]);
    machine.idle = true;
    let (result, wall) = run(&mut machine, &requested());
    assert!(unverified(&requested(), result.rows.activations(), wall).len() > 30);
    let (result, wall) = run(&mut Timed::new(&[40]), &requested());
    assert_eq!(
        unverified(&requested(), result.rows.activations(), wall / 2).len(),
        40,
        "the series took half of its periods"
    );
    let mut swapped = result.rows.activations().to_vec();
    (swapped[3].irq_ns, swapped[3].wake_ns) = (swapped[3].wake_ns, swapped[3].irq_ns);
    assert_eq!(unverified(&requested(), &swapped, wall), [3], "the wake-up is before the interrupt");
}

#[test]
fn stressors_run_during_wake_ups_and_report_counts() {
    let mut machine = Timed::new(&[40]);
    let load = Load::parse("cpu*2 vm:64M").expect("a load");
    let (result, _) = run(
        &mut machine,
        &Trial { beside: CoRunning { load: load.clone(), ..CoRunning::default() }, ..requested() },
    );
    assert_eq!((machine.load_stats, result.load_report.load_stats.len()), (vec![load], 1));
}
