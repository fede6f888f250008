//! One machine with its counts.

use fathom_model::description::Holds;
use fathom_model::{Access, Description, Detail, Kind, Model, Outcome, Overlap, UNITS_PER_CYCLE};
use fathom_probe::machine::Refusal;

use crate::counters::Counters;
use crate::counts::{LevelCounts, MachineCounts, OverlapCounts, PlaceCounts, RegionCounts, TlbCounts};
use crate::heap::Owner;
use crate::origin::{call_of, place_of};
use crate::regions::{Costs, Mark, Region, Regions, Sums};
use crate::snapshot::{ByCpu, Snapshot, SnapshotCounts};
use crate::story::Story;

/// A machine that answers accesses.
#[derive(Debug)]
pub(crate) struct Simulator {
    name: String,
    model: Model,
    cpus: u32,
    /// Why it has stopped.
    refused: Option<String>,
    /// Lines of the nearest levels by kind, log2 of bytes.
    shifts: [u32; 3],
    served: Served,
    regions: Regions,
    by_cpu: ByCpu,
    /// Why accesses miss, if that is asked for.
    story: Option<Box<Story>>,
}

/// All accesses, and what the nearest level or the nearest TLB did not serve.
#[derive(Debug)]
struct Served {
    /// Levels, and memory after them.
    levels: usize,
    /// The nearest level by kind; `levels` if there is none.
    nearest: [usize; 3],
    /// Costs of hits by kind, and the part that translation has in each.
    hit: [u64; 3],
    translation: u64,
    /// Without walks, which the model counts.
    sums: Sums,
    places: Numbered,
    /// Of calls, if they are told.
    calls: Numbered,
    /// All accesses by kind of each call.
    call_accesses: Vec<[u64; 3]>,
    /// Accesses under way, if it is described how many there may be.
    overlap: Option<Overlap>,
    counters: Counters,
}

/// Counts by number of a place or of a call.
#[derive(Debug)]
struct Numbered {
    /// Levels, and memory after them.
    levels: usize,
    /// By number: accesses told by level for data, the same for fetches, walks, units, and what remains of these if
    /// accesses overlap: of data, and of fetches.
    counts: Vec<u64>,
}

impl Numbered {
    fn new(levels: usize) -> Numbered {
        Numbered { levels, counts: Vec::new() }
    }

    /// Numbers kept for each.
    fn width(&self) -> usize {
        2 * (self.levels + 1) + 4
    }

    #[inline]
    fn add(&mut self, number: usize, kind: Kind, outcome: Outcome, [beyond, overlapped]: [u64; 2]) {
        let width = self.width();
        let at = number * width;
        if self.counts.len() < at + width {
            self.counts.resize((at + width).next_multiple_of(1024 * width), 0);
        }
        let of = &mut self.counts[at..at + width];
        let (begin, end) = if kind == Kind::Fetch { (self.levels + 1, 1) } else { (0, 2) };
        of[begin + outcome.level.unwrap_or(self.levels)] += 1;
        of[width - 4] += u64::from(outcome.walked);
        of[width - 3] += beyond;
        of[width - end] += overlapped;
    }

    /// Returns the counts of those that have any.
    fn counted(&self) -> Vec<PlaceCounts> {
        let (width, levels) = (self.width(), self.levels);
        let all = self.counts.chunks_exact(width).enumerate();
        let missed = |told: &[u64]| (0..levels).map(|level| told[level + 1..].iter().sum()).collect();
        all.filter(|(_, of)| of.iter().any(|&count| count > 0))
            .map(|(place, of)| PlaceCounts {
                place: place as u64,
                misses: missed(&of[..=levels]),
                fetch_misses: missed(&of[levels + 1..2 * (levels + 1)]),
                walks: of[width - 4],
                units: of[width - 3],
                overlap: OverlapCounts { data_units: of[width - 2], fetch_units: of[width - 1] },
            })
            .collect()
    }
}

impl Served {
    /// Counts an access of a CPU by kind, by its lines of 2^`shift` bytes.
    #[inline]
    fn made(&mut self, cpu: u32, access: &Access, shift: u32) {
        let (kind, bytes) = (access.kind as usize, u64::from(access.bytes.max(1)));
        let lines = (((access.address & ((1 << shift) - 1)) + bytes - 1) >> shift) + 1;
        self.sums.accesses[kind] += lines;
        if access.kind != Kind::Fetch {
            self.counters.made(cpu, access.address >> shift, lines);
        }
        let call = call_of(access.pc);
        if call > 0 {
            if self.call_accesses.len() <= call {
                self.call_accesses.resize((call + 1).next_multiple_of(1024), [0; 3]);
            }
            self.call_accesses[call][kind] += lines;
        }
    }

    /// Counts an access that is no hit of the nearest level and TLB. Returns its time beyond one: if it waits for the access before, and if
    /// it overlaps (0 if that is not described).
    #[inline]
    fn note(&mut self, cpu: u32, access: &Access, outcome: Outcome) -> [u64; 2] {
        let (kind, level) = (access.kind as usize, outcome.level.unwrap_or(self.levels));
        let sums = &mut self.sums;
        sums.told[level][kind] += 1;
        sums.translation_units += outcome.translation.saturating_sub(self.translation);
        let rest = outcome.cost.saturating_sub(outcome.translation);
        if access.kind == Kind::Fetch {
            sums.fetch_units += rest.saturating_sub(self.hit[kind] - self.translation);
        } else {
            sums.units[level] += rest;
        }
        self.counters.note(access.kind, outcome, [self.hit[kind] - self.translation, self.translation]);
        let beyond = outcome.cost.saturating_sub(self.hit[kind]);
        let overlapped = match &mut self.overlap {
            Some(overlap) if access.kind != Kind::Fetch => {
                overlap.add(cpu, (level != self.nearest[kind]).then_some(access.address), beyond)
            }
            Some(_) => beyond,
            None => 0,
        };
        sums.overlap_units[usize::from(access.kind == Kind::Fetch)] += overlapped;
        let times = [beyond, overlapped];
        self.places.add(place_of(access.pc), access.kind, outcome, times);
        let call = call_of(access.pc);
        if call > 0 {
            self.calls.add(call, access.kind, outcome, times);
        }
        times
    }
}

/// Moves on to an access, by the instructions since the one before.
#[inline]
fn pass(overlap: Option<&mut Overlap>, cpu: u32, access: &Access) {
    if let Some(overlap) = overlap {
        overlap.pass(cpu, access.instructions.into());
    }
}

impl Simulator {
    /// `why` asks for the reasons of misses too.
    pub fn new(name: &str, description: &Description, seed: u64, why: bool) -> Simulator {
        let mut model = Model::new(description, seed);
        if why {
            model.keep_events();
        }
        Simulator::of(name, description, model, why)
    }

    /// Creates the machine of a guest, whose accesses have the numbers of their physical pages.
    pub fn of_guest(
        name: &str,
        description: &Description,
        seed: u64,
        why: bool,
    ) -> Result<Simulator, Refusal> {
        let mut model = Model::of_guest(description, seed)?;
        if why {
            model.keep_events();
        }
        Ok(Simulator::of(name, description, model, why))
    }

    fn of(name: &str, description: &Description, model: Model, why: bool) -> Simulator {
        let levels = description.levels.len();
        let nearest =
            |other: Holds| description.levels.iter().position(|level| level.holds != other).unwrap_or(levels);
        let (data, code) = (nearest(Holds::Instructions), nearest(Holds::Data));
        let shift = |level: usize| description.levels.get(level).map_or(3, |l| l.line.trailing_zeros());
        let hit = model.hit_costs();
        let translation = model.translation_hit_cost();
        let hits = [0, 1].map(|kind: usize| hit[kind].saturating_sub(translation));
        let costs = Costs { hits, operation: operation_units(description) };
        Simulator {
            name: name.to_owned(),
            cpus: description.core.cpus,
            refused: None,
            shifts: [shift(data), shift(data), shift(code)],
            regions: Regions::new(levels + 1, costs),
            by_cpu: ByCpu::default(),
            served: Served {
                levels,
                nearest: [data, data, code],
                hit,
                translation,
                sums: Sums::new(levels + 1),
                places: Numbered::new(levels),
                calls: Numbered::new(levels),
                call_accesses: Vec::new(),
                counters: Counters::new(description.core.cpus),
                overlap: Overlap::of(description, description.core.cpus),
            },
            story: why.then(|| Box::new(Story::new(description))),
            model,
        }
    }

    /// Makes the accesses of thread `thread`. `owners` are the blocks of the heap that they are in, or empty if there are none.
    pub fn run(&mut self, thread: u32, batch: &[Access], owners: &[Owner]) {
        if self.refused.is_some() {
            return;
        }
        let before = self.before(thread);
        self.make(thread, batch, owners);
        self.add_since(thread, before);
    }

    /// Returns what has been added up, if what a thread makes is added elsewhere, too.
    fn before(&self, thread: u32) -> Option<Sums> {
        (self.regions.has(thread) || self.by_cpu.is_asked_for()).then(|| self.sums())
    }

    /// Adds what a thread has made since.
    fn add_since(&mut self, thread: u32, before: Option<Sums>) {
        let Some(before) = before else { return };
        let now = self.sums();
        self.by_cpu.add(thread % self.cpus, &before, &now);
        if self.regions.has(thread) {
            self.regions.add(thread, &before, &now);
        }
    }

    /// Counts by CPU from now on.
    pub fn keep_cpus(&mut self) {
        self.by_cpu.begin(self.cpus, self.served.levels + 1);
    }

    /// Returns what has been counted so far, of a CPU and of all.
    pub fn snapshot(&self, cpu: u32) -> Snapshot {
        let counts = |sums: &Sums| {
            let (levels, memory, memory_units) = self.levels(sums);
            SnapshotCounts::of(sums, &levels, memory, memory_units)
        };
        Snapshot {
            of_cpu: counts(&self.by_cpu.of(cpu % self.cpus, self.served.levels + 1)),
            of_all: counts(&self.sums()),
            operation_units: operation_units(self.model.description()),
        }
    }

    /// Takes a mark of a thread.
    pub fn mark(&mut self, thread: u32, mark: Mark) {
        if self.refused.is_none() {
            self.regions.mark(thread, mark);
        }
    }

    /// Returns what has been added up.
    fn sums(&self) -> Sums {
        Sums { walks: self.model.totals().walks, ..self.served.sums.clone() }
    }

    fn make(&mut self, thread: u32, batch: &[Access], owners: &[Owner]) {
        let cpu = thread % self.cpus;
        for access in batch {
            self.served.made(cpu, access, self.shifts[access.kind as usize]);
        }
        let served = &mut self.served;
        let made = match &mut self.story {
            None => {
                let mut passed = 0;
                let made = self.model.accesses(cpu, Detail::Full, batch, |index, outcome| {
                    while passed <= index {
                        pass(served.overlap.as_mut(), cpu, &batch[passed]);
                        passed += 1;
                    }
                    let _ = served.note(cpu, &batch[index], outcome);
                });
                batch[passed..].iter().for_each(|access| pass(served.overlap.as_mut(), cpu, access));
                made
            }
            Some(story) => {
                if self.model.prepare_traced(batch.len()) {
                    story.begin_pages();
                }
                batch.iter().enumerate().try_for_each(|(index, access)| {
                    let shift = self.shifts[access.kind as usize];
                    let owner = owners.get(index).copied().unwrap_or(Owner::NONE);
                    one_by_one(&mut self.model, story, served, cpu, (access, owner), shift)
                })
            }
        };
        if let Err(refusal) = made {
            self.refused = Some(format!("{}: {}", refusal.reason, refusal.remedy));
        }
    }

    /// Counts loads and stores of a thread that repeat the access before, of the last batch: the nearest level serves them.
    pub fn add_hits(&mut self, thread: u32, repeated: [u64; 2]) {
        if self.refused.is_some() || repeated == [0; 2] {
            return;
        }
        let before = self.before(thread);
        (0..2).for_each(|kind| self.served.sums.accesses[kind] += repeated[kind]);
        self.add_since(thread, before);
    }

    /// Returns log2 of the line within which a repetition changes nothing, if there is one.
    pub fn idle_repeats(&self) -> Option<u32> {
        // A repeated store may be to other bytes of the line, which matters to what CPUs share.
        if self.story.is_some() { None } else { self.model.idle_repeats() }
    }

    /// Returns whether it matters how many instructions are between accesses.
    pub fn has_window(&self) -> bool {
        self.model.description().core.window.is_some()
    }

    /// Returns what has been counted so far.
    pub fn counts(&self) -> MachineCounts {
        let description = self.model.description();
        let (totals, sums) = (self.model.totals(), self.sums());
        let (mut levels, memory, memory_units) = self.levels(&sums);
        let several = totals.cpus > 1;
        for ((level, of), described) in levels.iter_mut().zip(&totals.levels).zip(&description.levels) {
            (level.fills, level.writebacks) = (of.refills, of.writebacks);
            level.sharing = (several && !described.shared).then(|| of.sharing.into());
        }
        let mut reach: u64 = sums.accesses.iter().sum();
        let tlbs = description.tlbs.iter().zip(&totals.tlbs).map(|(tlb, &misses)| TlbCounts {
            name: tlb.name.clone(),
            accesses: std::mem::replace(&mut reach, misses),
            misses,
        });
        let tlbs: Vec<TlbCounts> = tlbs.collect();
        MachineCounts {
            name: self.name.clone(),
            refused: self.refused.clone(),
            accesses: sums.accesses,
            levels,
            tlbs,
            walks: totals.walks,
            counters: self.served.counters.counts(),
            memory,
            memory_reads: totals.memory_reads,
            memory_writes: totals.memory_writes,
            memory_units,
            translation_units: sums.translation_units,
            fetch_units: sums.fetch_units,
            operation_units: operation_units(description),
            clock_hz: description.core.clock_hz.round() as u64,
            outstanding: description.core.outstanding,
            window: description.core.window,
            overlap: self.overlap_of(&sums),
            places: self.served.places.counted(),
            calls: self.served.calls.counted(),
            call_accesses: self.served.call_accesses.clone(),
            hit_units: [0, 1]
                .map(|kind: usize| self.served.hit[kind].saturating_sub(self.served.translation)),
            regions: self.regions.counts().iter().map(|(number, of)| self.region(*number, of)).collect(),
            sharing: several.then(|| totals.sharing.into()),
            story: self.story.as_ref().map(|story| story.counts()),
        }
    }

    /// Returns what levels and memory have served, and the time in which memory served data accesses. Write-backs are not
    /// among it.
    fn levels(&self, sums: &Sums) -> (Vec<LevelCounts>, [u64; 3], u64) {
        let served = &self.served;
        // Hits of the nearest level and TLB are not told one by one.
        let (mut hits, mut units) = (sums.told.clone(), sums.units.clone());
        for kind in 0..3 {
            let told: u64 = sums.told.iter().map(|of| of[kind]).sum();
            let rest = sums.accesses[kind].saturating_sub(told);
            hits[served.nearest[kind]][kind] += rest;
            if kind != Kind::Fetch as usize {
                units[served.nearest[kind]] += rest * (served.hit[kind] - served.translation);
            }
        }
        let mut left = sums.accesses;
        let levels = self.model.description().levels.iter().enumerate().map(|(index, level)| {
            let passes = |kind: usize| match level.holds {
                Holds::Data => kind != Kind::Fetch as usize,
                Holds::Instructions => kind == Kind::Fetch as usize,
                Holds::Unified => true,
            };
            let accesses: [u64; 3] = std::array::from_fn(|kind| if passes(kind) { left[kind] } else { 0 });
            let hits = hits[index];
            left = std::array::from_fn(|kind| left[kind] - hits[kind]);
            LevelCounts {
                name: level.name.clone(),
                holds: level.holds.word().to_owned(),
                accesses,
                hits,
                fills: 0,
                writebacks: 0,
                sharing: None,
                units: units[index],
            }
        });
        (levels.collect(), hits[served.levels], units[served.levels])
    }

    /// Returns the time if accesses overlap.
    fn overlap_of(&self, sums: &Sums) -> Option<OverlapCounts> {
        let [data_units, fetch_units] = sums.overlap_units;
        self.served.overlap.as_ref().map(|_| OverlapCounts { data_units, fetch_units })
    }

    /// Returns the counts of a region.
    fn region(&self, number: u32, of: &Region) -> RegionCounts {
        let (levels, memory, memory_units) = self.levels(&of.sums);
        let time: u64 = levels.iter().map(|level| level.units).sum();
        RegionCounts {
            region: number,
            entered: of.entered,
            unmatched: of.unmatched,
            instructions: of.instructions,
            accesses: of.sums.accesses,
            reached: levels.iter().map(|level| level.accesses.iter().sum()).collect(),
            misses: levels.iter().map(LevelCounts::misses).collect(),
            walks: of.sums.walks,
            memory: memory.iter().sum(),
            units: time + memory_units + of.sums.translation_units + of.sums.fetch_units,
            entries: of.entries(),
            overlap: self.overlap_of(&of.sums),
        }
    }
}

/// Returns the time of one operation.
fn operation_units(description: &Description) -> u64 {
    let cycles = description.core.alu.in_cycles(description.core.clock_hz);
    (cycles * UNITS_PER_CYCLE as f64).round() as u64
}

/// Makes an access, divided at the lines of its nearest level, and notes why it misses.
fn one_by_one(
    model: &mut Model,
    story: &mut Story,
    served: &mut Served,
    cpu: u32,
    (access, owner): (&Access, Owner),
    shift: u32,
) -> Result<(), Refusal> {
    let (mut at, mut left) = (access.address, u64::from(access.bytes.max(1)));
    pass(served.overlap.as_mut(), cpu, access);
    while left > 0 {
        let here = left.min((1 << shift) - (at & ((1 << shift) - 1)));
        let piece = Access { address: at, bytes: here as u16, ..*access };
        let traced = model.traced(cpu, &piece)?;
        // A hit of both takes no more than one.
        let times = if traced.nearest { [0; 2] } else { served.note(cpu, access, traced.outcome) };
        story.note(model, cpu, (&piece, owner), &traced, times);
        (at, left) = (at.wrapping_add(here), left - here);
    }
    Ok(())
}
