//! Wake-ups: the described path from a timer to its task, line by line, while co-running streams run.
//!
//! CPU 0 goes to sleep, which also touches lines, and sleeps until the requested time. Nothing runs on it in between,
//! so its private caches change only by evictions of an inclusive shared level. Then each stage of the path touches its
//! lines: code through the levels for instructions, data through those for data. Its instructions are distributed
//! evenly between the lines. Every line waits for the previous one, as in a chain: no miss overlaps another one or
//! instructions. The seed determines the placement of the lines, in place of a kernel's link order and allocations.

use fathom_probe::chain::Bijection;
use fathom_probe::machine::Wakes;
use fathom_probe::machine::{ActivationTrace, Places, Refusal, Wake, WakeReturn};

use super::Model;
use crate::description::Stage;
use crate::hierarchy::Path;
use crate::rng::{Rng, Use};
use crate::time::Scale;
use crate::translate::Page;

/// Bytes of consecutive code: four lines of 64. On a traced path 2.9 lines were consecutive on average
/// (`machines/am5728.toml`).
const CODE_RUN_BYTES: u64 = 256;

/// A line of a stage.
#[derive(Clone, Copy, Debug)]
struct Touch {
    path: Path,
    address: u64,
    page: Page,
}

/// One stage: its lines in order, and the time of its instructions in units.
#[derive(Clone, Debug)]
struct StageWork {
    touches: Vec<Touch>,
    instructions: u64,
}

/// A task that waits for its timer.
#[derive(Clone, Debug)]
pub(super) struct Sleeper {
    stages: Vec<StageWork>,
    /// Whether the places of each activation are recorded.
    traced: bool,
    places: Vec<Places>,
}

/// A part of the kernel that provides lines: blocks in scattered places, lines in order within each.
struct Scattered {
    path: Path,
    start: u64,
    line: u64,
    block: u64,
    blocks: Bijection,
    taken: u64,
}

impl Scattered {
    /// Takes unused lines for `bytes` bytes.
    fn take(&mut self, bytes: u64) -> Vec<(Path, u64)> {
        let (first, lines_per_block) = (self.taken, self.block / self.line);
        self.taken += bytes.div_ceil(self.block);
        let at = |n: u64| {
            self.start
                + self.blocks.at(first + n / lines_per_block) * self.block
                + n % lines_per_block * self.line
        };
        (0..bytes.div_ceil(self.line)).map(|n| (self.path, at(n))).collect()
    }
}

/// Merges two lists: the second's entries are spread evenly among the first's.
fn spread<T: Copy>(first: &[T], second: &[T]) -> Vec<T> {
    let mut all = Vec::with_capacity(first.len() + second.len());
    let mut taken = 0;
    for (n, entry) in first.iter().enumerate() {
        all.push(*entry);
        let due = (n + 1) * second.len() / first.len();
        all.extend(&second[taken..due]);
        taken = due;
    }
    all
}

impl Model {
    /// Returns the part of the kernel, `bytes` long, for a path.
    fn part(&self, path: Path, bytes: u64) -> Scattered {
        let line = self.hierarchy.nearest(path).map_or(64, |level| 1 << self.hierarchy.line_shift(level));
        let (number, block) = match path {
            Path::Code => (0, CODE_RUN_BYTES.max(line)),
            Path::Data => (1, line),
        };
        let blocks = Bijection::new(bytes / block, Rng::new(self.seed, Use::Path, number).next());
        Scattered { path, start: number * bytes, line, block, blocks, taken: 0 }
    }

    /// Returns the described path with the addresses of its lines.
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

    /// Returns the time of CPU 0 in ns, rounded down.
    fn ns(&self) -> u64 {
        u64::try_from(u128::from(self.clock()) * 1_000_000_000 / self.timer.units_hz).unwrap_or(u64::MAX)
    }

    /// Lets CPU 0 sleep until `at_ns`; does nothing if that time has passed.
    fn sleep_until(&mut self, at_ns: u64) {
        let units = (u128::from(at_ns) * self.timer.units_hz).div_ceil(1_000_000_000);
        let clock = &mut self.agents[0].clock;
        *clock = (*clock).max(u64::try_from(units).unwrap_or(u64::MAX));
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.idle_until(self.agents[0].clock);
        }
        self.catch_up_after_sleep();
    }

    /// Runs one stage of CPU 0's wake-up.
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
            match touch.path {
                Path::Data => self.pay_for_data(0, level, touch.address),
                Path::Code => self.pay(0, level, touch.address),
            }
            let due = stage.instructions * (n as u64 + 1) / lines;
            self.advance(due - passed);
            passed = due;
        }
        self.forget_lines();
    }
}

/// Returns the refusal of a description without a wake-up path.
fn undescribed() -> Refusal {
    Refusal::new(
        "the description has no wake-up path from a timer to its task",
        "add [wakeup] to the description, or measure wake-ups on Linux: `--on host`",
    )
}

/// Times are those of CPU 0. There is no scheduler and no other runnable task, so the priority has no effect.
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

    /// Reads the clock, then lets the overhead of the reading pass, as for the timer.
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
