//! What makes samples of programs.

use std::io;

use crate::core_pmus::Pmu;
use crate::memory_events::MemoryEvent;
use crate::perf::{Event, Pace};
use crate::procfs::Root;
use crate::program_counters::{PROGRAM_EVENTS, ProgramEvent};

/// The PMU of all CPUs of x86, where there is one.
const THE_PMU: &str = "cpu";

/// What makes samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledBy {
    /// The kernel's timer on the CPU, while the program has it (`cpu-clock`).
    CpuClock,
    /// Accesses to pages that the kernel has to provide (`page-faults`).
    PageFaults,
    /// An event that the processor counts.
    Counted(ProgramEvent),
    /// Accesses to memory, with their addresses. The number: loads of at least this latency, cycles, if it is given.
    Accesses(MemoryEvent, Option<u64>),
}

impl SampledBy {
    /// All of them: events of the kernel, then those that programs are counted by.
    pub fn all() -> impl Iterator<Item = SampledBy> {
        let counted = PROGRAM_EVENTS.iter().copied().map(SampledBy::Counted);
        let accesses = MemoryEvent::ALL.map(|of| SampledBy::Accesses(of, None));
        [SampledBy::CpuClock, SampledBy::PageFaults].into_iter().chain(accesses).chain(counted)
    }

    /// Events of a sample if nobody asks for a pace. Faults come in bursts, which a rate follows too slowly, and at a rate the numbers of
    /// faults in samples were five times what there were (Linux 6.18). A prime number does not keep step with what repeats.
    #[must_use]
    pub fn usual_pace(self) -> Pace {
        match self {
            SampledBy::PageFaults => Pace::Each(97),
            // Samples with an address have no period. Loads are some hundred million a second; a sample of PEBS takes some us.
            SampledBy::Accesses(MemoryEvent::Loads, _) => Pace::Each(100_003),
            SampledBy::Accesses(MemoryEvent::Operations, _) => Pace::Each(400_000),
            // A record takes no interrupt; some tens of thousands a second of a CPU fit into its trace.
            SampledBy::Accesses(MemoryEvent::Traced, _) => Pace::Each(65_536),
            _ => Pace::PerSecond(997),
        }
    }

    /// Returns what the kernel is asked for, and the samples of a second, if they are known. The clock keeps a rate by its period.
    pub(super) fn paced(self, pace: Pace) -> (Pace, Option<u64>) {
        match (pace, self) {
            (Pace::PerSecond(rate), SampledBy::CpuClock) => {
                (Pace::Each(1_000_000_000 / rate.max(1)), Some(rate))
            }
            (Pace::Each(ns), SampledBy::CpuClock) => (pace, Some(1_000_000_000 / ns.max(1))),
            (Pace::PerSecond(rate), _) => (pace, Some(rate)),
            (Pace::Each(_), _) => (pace, None),
        }
    }

    /// Returns whether samples, each of a fixed number of events, have the address of the data that was accessed: of faults the kernel
    /// knows it, of accesses the processor.
    #[must_use]
    pub fn tells_data(self) -> bool {
        self == SampledBy::PageFaults || self.tells_access()
    }

    /// Returns whether samples have the latency of an access, and where its data were.
    #[must_use]
    pub fn tells_access(self) -> bool {
        matches!(self, SampledBy::Accesses(..))
    }

    /// Returns whether the processor writes samples to a trace: without callers, and many at once.
    #[must_use]
    pub fn is_traced(self) -> bool {
        matches!(self, SampledBy::Accesses(MemoryEvent::Traced, _))
    }

    /// Returns whether the kernel's count is that of the events in user space: the clock's has the time in the kernel, too, that of IBS may
    /// have the kernel's operations, and SPE has none.
    pub(super) fn is_counted(self) -> bool {
        !matches!(
            self,
            SampledBy::CpuClock | SampledBy::Accesses(MemoryEvent::Operations | MemoryEvent::Traced, _)
        )
    }

    /// Cycles of the processor.
    #[must_use]
    pub fn cycles() -> SampledBy {
        SampledBy::Counted(PROGRAM_EVENTS[0])
    }

    /// Its name in perf-list(1).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SampledBy::CpuClock => "cpu-clock",
            SampledBy::PageFaults => "page-faults",
            SampledBy::Counted(event) => event.name,
            SampledBy::Accesses(of, _) => of.name(),
        }
    }

    /// Returns whether the processor counts it, and not the kernel.
    pub(super) fn is_of_processor(self) -> bool {
        matches!(self, SampledBy::Counted(_) | SampledBy::Accesses(..))
    }

    /// Returns how it is opened on a CPU of a PMU, which is given where there are several.
    pub(super) fn opening(self, pmu: Option<&Pmu>, cpu: u32) -> io::Result<(Event, Option<Event>)> {
        let event = match self {
            SampledBy::CpuClock => Event::CPU_CLOCK,
            SampledBy::PageFaults => Event::PAGE_FAULTS,
            SampledBy::Counted(event) => event.event,
            SampledBy::Accesses(of, least) => {
                let pmu = pmu.map_or(THE_PMU, |pmu| pmu.name.as_str());
                let opening = of.opening(&Root::system(), pmu, Some(cpu), least)?;
                return Ok((opening.event, opening.leader));
            }
        };
        Ok((event, None))
    }
}
