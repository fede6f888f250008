//! A simulated machine whose wake-ups are drawn from known distributions.

use fathom_probe::load::{Load, LoadStats, Stalls, Stress};
use fathom_probe::machine::{
    ActivationRow, ActivationTrace, ClockTrust, Control, Counters, Disturb, Dma, Event, Fact, FactValue,
    Fresh, LoadReport, Machine, Maintain, MapRequest, Mapping, Places, Refusal, Ticks, Translate, Wake,
    WakeReturn, Wakes, Watch,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Reasons of its refusals, which reports repeat.
pub const NO_TRACEPOINTS: &str = "no tracepoints here";
pub const NO_PARTITIONS: &str = "nothing here can be partitioned";
pub const NO_TIMERLAT: &str = "no timerlat on paper";

/// Latency in ns that one stressor adds to a wake-up.
pub type Adds = fn(&fathom_probe::load::Stressor) -> u64;

/// A simulated machine: memory, a clock that its functions advance, and random wake-ups.
pub struct Paper {
    memory: Vec<u64>,
    now: u64,
    random: Xoshiro256PlusPlus,
    adds: Adds,
    load: Load,
    /// Whether its caches can be partitioned.
    pub parts: bool,
    confined: bool,
    pressed_at: u64,
    places: Vec<Places>,
    traced: bool,
    /// Latency in ns that tracing adds.
    pub tracing: u64,
    /// Whether there is no tracer.
    pub blind: bool,
    /// Whether every priority is denied.
    pub denied: bool,
    /// Period in ns with which a wake-up is 300 us late; 0 for never.
    pub cadence: u64,
    /// Whether the kernel has a tracer of its own wake-ups.
    pub kernels: bool,
    /// How many times that tracer was requested.
    pub timed: usize,
}

impl Paper {
    pub fn new(adds: Adds) -> Paper {
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
            return Err(Refusal::new(NO_PARTITIONS, "another machine"));
        }
        (self.load, self.confined, self.pressed_at) = (load.clone(), confined, self.now);
        Ok(())
    }

    fn stop_load(&mut self) -> LoadReport {
        let ns = self.now - self.pressed_at;
        // Every worker completes a thousand passes per second, with ten faults each if it allocates.
        let row = |(i, s): (usize, &fathom_probe::load::Stressor)| {
            let passes = s.workers * ns / 1_000_000;
            // glibc maps blocks from 32 MiB on in each pass, and keeps smaller ones.
            let mapped = s.kind == Stress::Malloc && s.bytes >= 32 << 20;
            let faulting = mapped || matches!(s.kind, Stress::Vm | Stress::Fault);
            let faults = if faulting { 10 * passes } else { 0 };
            let (lines, bytes) = (20 * passes, 64 * passes);
            LoadStats { stressor: i as u64, ns, passes, lines, faults, bytes, shared: None }
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
            return Err(Refusal::new(NO_TRACEPOINTS, "run as root"));
        }
        self.traced = wakes.traced;
        Ok(self.now)
    }

    /// 5 us, an exponential tail of 1 us, the cost of the load, and a periodic delay.
    fn wake_at(&mut self, at_ns: u64) -> Result<WakeReturn, Refusal> {
        assert!(at_ns >= self.now, "asked to sleep until a time that is past");
        // A load acts through the caches, so a confined one costs a quarter.
        let kept = if self.confined { 4 } else { 1 };
        let added = self.load.stressors.iter().map(self.adds).sum::<u64>() / kept;
        let tail = -1000.0 * (1.0 - self.unit()).ln();
        let traced = if self.traced { self.tracing } else { 0 };
        let periodic = self.cadence > 0 && at_ns % self.cadence < 1_000_000;
        let late = 5000 + tail as u64 + added + traced + if periodic { 300_000 } else { 0 };
        let place = |part: u64| Some(at_ns + late * part / 8);
        if self.traced {
            // The added latency occurs before the interrupt.
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

    /// 3 us and the same tail; the interrupt after a quarter of that.
    fn timerlat(&mut self, wakes: &Wakes, activations: u64) -> Result<(Vec<ActivationRow>, u64), Refusal> {
        self.timed += 1;
        if !self.kernels {
            return Err(Refusal::new(NO_TIMERLAT, "take another kernel"));
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
