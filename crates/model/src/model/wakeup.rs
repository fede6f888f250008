//! Wake-ups: the described way from a timer to its task, line by line, while co-running streams continue.
//!
//! CPU 0 goes to sleep, which touches lines too, and sleeps until the time that it asks for. Nothing runs on it
//! meanwhile, so that its private caches change only where a shared level that includes them evicts. Then each stage
//! of the way back touches its lines, code through the levels for
//! instructions and data through those for data, and its instructions pass between them in equal parts. Every line
//! waits for the one before, as in a chain: no miss is hidden behind another, nor behind instructions. Where the lines
//! lie follows from the seed, as it follows from how a kernel was linked and from what it allocated at its start.

use fathom_probe::chain::Bijection;
use fathom_probe::machine::Wakes;
use fathom_probe::machine::{ActivationTrace, Places, Refusal, Wake, WakeReturn};

use super::Model;
use crate::description::Stage;
use crate::hierarchy::Path;
use crate::rng::{Rng, Use};
use crate::time::Scale;
use crate::translate::Page;

/// Code lies in runs of so many bytes: four lines of 64, where 2.9 lay together on a path that was traced
/// (`machines/am5728.toml`).
const RUN: u64 = 256;

/// A line of a stage.
#[derive(Clone, Copy, Debug)]
struct Touch {
    path: Path,
    address: u64,
    page: Page,
}

/// One stage: its lines in order, and what passes beside them in units.
#[derive(Clone, Debug)]
struct StageWork {
    touches: Vec<Touch>,
    instructions: u64,
}

/// A task that waits for its timer.
#[derive(Clone, Debug)]
pub(super) struct Sleeper {
    stages: Vec<StageWork>,
    /// Are the places of each activation wanted?
    traced: bool,
    places: Vec<Places>,
}

/// A part of the kernel that hands out its lines: in blocks that lie anywhere, in order within each.
struct Scattered {
    path: Path,
    start: u64,
    line: u64,
    block: u64,
    blocks: Bijection,
    taken: u64,
}

impl Scattered {
    /// Lines that nobody has yet, as many as `bytes` bytes fill.
    fn take(&mut self, bytes: u64) -> Vec<(Path, u64)> {
        let (first, a_block) = (self.taken, self.block / self.line);
        self.taken += bytes.div_ceil(self.block);
        let at =
            |n: u64| self.start + self.blocks.at(first + n / a_block) * self.block + n % a_block * self.line;
        (0..bytes.div_ceil(self.line)).map(|n| (self.path, at(n))).collect()
    }
}

/// Two lists as one, the second's entries spread evenly behind the first's.
fn spread<T: Copy>(among: &[T], these: &[T]) -> Vec<T> {
    let mut all = Vec::with_capacity(among.len() + these.len());
    let mut given = 0;
    for (n, entry) in among.iter().enumerate() {
        all.push(*entry);
        let due = (n + 1) * these.len() / among.len();
        all.extend(&these[given..due]);
        given = due;
    }
    all
}

impl Model {
    /// The part of the kernel, `bytes` long, that is reached by a path.
    fn part(&self, path: Path, bytes: u64) -> Scattered {
        let line = self.hierarchy.nearest(path).map_or(64, |level| 1 << self.hierarchy.line_shift(level));
        let (number, block) = match path {
            Path::Code => (0, RUN.max(line)),
            Path::Data => (1, line),
        };
        let blocks = Bijection::new(bytes / block, Rng::new(self.seed, Use::Path, number).next());
        Scattered { path, start: number * bytes, line, block, blocks, taken: 0 }
    }

    /// The described path, laid out.
    fn sleeper(&self, traced: bool) -> Result<Sleeper, Refusal> {
        let wakeup = self.description.wakeup.as_ref().ok_or_else(undescribed)?;
        let instruction = Scale::new(&self.description).units(wakeup.instruction);
        let (mut code, mut data) =
            (self.part(Path::Code, wakeup.within), self.part(Path::Data, wakeup.within));
        let kernel = self.paging.kernel(2 * wakeup.within);
        let touch = |&(path, at): &(Path, u64)| Touch {
            path,
            address: kernel + at,
            page: self.paging.kernel_page(at),
        };
        let common = data.take(wakeup.common);
        let walked = |stage: &Stage| {
            let mut own = data.take(stage.data);
            own.extend(&common);
            let touches = spread(&code.take(stage.code), &own);
            StageWork {
                touches: touches.iter().map(touch).collect(),
                instructions: stage.instructions * instruction,
            }
        };
        Ok(Sleeper { stages: wakeup.stages.iter().map(walked).collect(), traced, places: Vec::new() })
    }

    /// The time of CPU 0 in ns, rounded down.
    fn ns(&self) -> u64 {
        u64::try_from(u128::from(self.clock()) * 1_000_000_000 / self.timer.units_hz).unwrap_or(u64::MAX)
    }

    /// Lets CPU 0 sleep until `at_ns`; where that is past it does not.
    fn sleep_until(&mut self, at_ns: u64) {
        let units = (u128::from(at_ns) * self.timer.units_hz).div_ceil(1_000_000_000);
        let clock = &mut self.agents[0].clock;
        *clock = (*clock).max(u64::try_from(units).unwrap_or(u64::MAX));
        self.catch_up_after_sleep();
    }

    /// One stage of CPU 0's wake-up.
    fn walk_stage(&mut self, stage: &StageWork) {
        let (lines, mut passed) = (stage.touches.len() as u64, 0);
        for (n, touch) in stage.touches.iter().enumerate() {
            self.catch_up();
            self.accesses += 1;
            if self.paging.costs {
                self.translate_page(0, touch.page, None);
            }
            let purges = self.hierarchy.purges;
            let level = self.hierarchy.read(0, touch.path, 0, touch.address);
            if self.hierarchy.purges != purges {
                self.forget_lines();
            }
            self.pay(0, level, touch.address);
            let due = stage.instructions * (n as u64 + 1) / lines;
            self.advance(due - passed);
            passed = due;
        }
        self.forget_lines();
    }
}

/// Why there are no wake-ups.
fn undescribed() -> Refusal {
    Refusal::new(
        "the description does not say what lies between a timer and its task",
        "describe it as [wakeup], or measure wake-ups on Linux: `--on host`",
    )
}

/// Times are those of CPU 0. There is no scheduler: whatever priority is asked for, nothing else is runnable.
impl Wake for Model {
    fn wake_begin(&mut self, wakes: &Wakes, _: u64) -> Result<u64, Refusal> {
        self.sleeper = Some(self.sleeper(wakes.traced)?);
        Ok(self.ns())
    }

    fn wake_at(&mut self, at_ns: u64) -> Result<WakeReturn, Refusal> {
        let mut sleeper = self.sleeper.take().ok_or_else(undescribed)?;
        let mut reached = [0; 5];
        for (number, (stage, reached)) in sleeper.stages.iter().zip(&mut reached).enumerate() {
            if number == 1 {
                self.sleep_until(at_ns);
            }
            self.walk_stage(stage);
            *reached = self.ns();
        }
        let [_, irq, wake, switch, _] = reached;
        if sleeper.traced {
            let (irq_ns, wake_ns, switch_ns) = (Some(irq), Some(wake), Some(switch));
            sleeper.places.push(Places { expires_ns: at_ns, irq_ns, wake_ns, switch_ns });
        }
        self.sleeper = Some(sleeper);
        Ok(WakeReturn { now_ns: self.wake_now(), ..WakeReturn::default() })
    }

    /// As with the other clock, the reading is taken first and then passes what it takes.
    fn wake_now(&mut self) -> u64 {
        let now = self.ns();
        self.advance(self.timer.overhead);
        now
    }

    fn wake_end(&mut self) -> Result<ActivationTrace, Refusal> {
        let places = self.sleeper.take().map(|sleeper| sleeper.places).unwrap_or_default();
        Ok(ActivationTrace { places, ..ActivationTrace::default() })
    }
}
