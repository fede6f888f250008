//! Names of the facts that a probe states and something else reads, and the tokens of their states.
//!
//! A fact's name is written here once: whoever states it and whoever reads it use the constant. Facts that are only
//! stored and shown (a register, a file of the kernel) are named where they are stated.

use alloc::format;
use alloc::string::{String, ToString as _};

/// On what the trust in the clock rests.
pub const TRUST_EVIDENCE: &str = "trust.evidence";
/// Name of a described machine.
pub const MACHINE_NAME: &str = "machine.name";

/// Name of the clock that times samples; [`MONOTONIC_RAW`] is the one that is a system call.
pub const CLOCK_NAME: &str = "clock.name";
/// The clock of last resort: `clock_gettime(CLOCK_MONOTONIC_RAW)`.
pub const MONOTONIC_RAW: &str = "monotonic-raw";
/// Why it is this clock.
pub const CLOCK_CHOICE: &str = "clock.choice";
/// Its ticks in a second.
pub const CLOCK_HZ: &str = "clock.hz";
/// Uncertainty of [`CLOCK_HZ`], parts per million.
pub const CLOCK_HZ_PPM: &str = "clock.hz.ppm";
/// Ticks between two readings with nothing in between.
pub const CLOCK_OVERHEAD_TICKS: &str = "clock.overhead.ticks";
/// Smallest step of the clock, ticks.
pub const CLOCK_STEP_TICKS: &str = "clock.step.ticks";

/// The CPU that the measuring thread is pinned to.
pub const CPU_PINNED: &str = "cpu.pinned";
/// Base page size, bytes.
pub const PAGE_BASE: &str = "page.base";
/// Size of a huge page, bytes, where there are any.
pub const PAGE_HUGE: &str = "page.huge";
/// What supplies pages of chosen colours.
pub const PAGE_COLOURED: &str = "page.coloured";

/// Was memory locked? `yes` or `no`; the reason and the remedy are facts below this name ([`reason`], [`remedy`]).
pub const MEMORY_LOCKED: &str = "memory.locked";
/// Most memory that a session maps, bytes.
pub const MEMORY_CEILING_BYTES: &str = "memory.ceiling.bytes";
/// What sets [`MEMORY_CEILING_BYTES`], in words.
pub const MEMORY_CEILING_LIMIT: &str = "memory.ceiling.limit";
/// What sets it, as a token of [`CeilingSource`].
pub const MEMORY_CEILING_SOURCE: &str = "memory.ceiling.source";
/// Bytes that a described machine maps in base pages.
pub const MEMORY_MAPPABLE_BASE_BYTES: &str = "memory.mappable.base.bytes";
/// Bytes that it maps in huge pages.
pub const MEMORY_MAPPABLE_HUGE_BYTES: &str = "memory.mappable.huge.bytes";

/// The driver's state, in words.
pub const DRIVER_STATE: &str = "driver.state";
/// The version of its interface; absent where it cannot be used.
pub const DRIVER_VERSION: &str = "driver.version";
/// What makes it usable, in words.
pub const DRIVER_REMEDY: &str = "driver.remedy";
/// What it can do.
pub const DRIVER_FEATURES: &str = "driver.features";
/// The memory attributes that it supplies.
pub const DRIVER_ATTRIBUTES: &str = "driver.attributes";
/// Its DMA engines.
pub const DRIVER_ENGINES: &str = "driver.engines";

/// Runtime of real-time tasks in a period, ns (`sched_rt_runtime_us`).
pub const THROTTLE_RUNTIME_NS: &str = "throttle.runtime.ns";
/// The period, ns (`sched_rt_period_us`).
pub const THROTTLE_PERIOD_NS: &str = "throttle.period.ns";

/// Was the process pinned to its CPU? One of the privileges, whose value is a token of [`Grant`], and below whose names
/// stand [`value`], [`reason`] and [`remedy`].
pub const PRIVILEGE_AFFINITY: &str = "privilege.affinity";
/// Is the process killed when its parent ends?
pub const PRIVILEGE_PARENT: &str = "privilege.parent";
/// Is the process the first to be killed when memory runs out?
pub const PRIVILEGE_OOM: &str = "privilege.oom";
/// How much memory may be locked: its value is a number of bytes or [`UNLIMITED`].
pub const PRIVILEGE_MEMLOCK: &str = "privilege.memlock";
/// The ordinary priority: its value is the nice level.
pub const PRIVILEGE_NICE: &str = "privilege.nice";
/// Real-time priority during trials: its value is the priority.
pub const PRIVILEGE_FIFO: &str = "privilege.fifo";
/// Hardware event counters: its value are their names, with commas.
pub const PRIVILEGE_COUNTERS: &str = "privilege.counters";
/// The highest real-time priority that a task may be given: its value is a priority or [`UNLIMITED`].
pub const PRIVILEGE_PRIORITIES: &str = "privilege.priorities";
/// A limit that is none.
pub const UNLIMITED: &str = "unlimited";

/// Fathom's version and commit on the probe's side.
pub const BUILD: &str = "env.build";
/// `uname -m`.
pub const MACHINE: &str = "env.machine";
/// The kernel's release.
pub const KERNEL_RELEASE: &str = "env.kernel.release";
/// The kernel's command line.
pub const KERNEL_COMMAND_LINE: &str = "env.cmdline";
/// The board's model, from the device tree.
pub const BOARD_MODEL: &str = "env.board.model";
/// The CPU's model, from `/proc/cpuinfo`.
pub const CPU_MODEL: &str = "env.cpu.model";
/// Revision of the CPU's microcode.
pub const CPU_MICROCODE: &str = "env.cpu.microcode";
/// CPUs that share the core with the pinned one.
pub const CPU_SIBLINGS: &str = "env.cpu.siblings";
/// `cpu MHz` of `/proc/cpuinfo`.
pub const CPUINFO_MHZ: &str = "env.cpuinfo.mhz";
/// CPUs that the process may run on.
pub const AFFINITY: &str = "env.affinity";
/// CPUs that are online.
pub const CPUS_ONLINE: &str = "env.cpus.online";
/// CPUs that the scheduler leaves alone (`isolcpus`).
pub const CPUS_ISOLATED: &str = "env.cpus.isolated";
/// State of simultaneous multithreading.
pub const SMT: &str = "env.smt";
/// Transparent huge pages, as the kernel shows the choice.
pub const THP_ENABLED: &str = "env.thp.enabled";
/// NUMA nodes that are online.
pub const NUMA_NODES: &str = "env.numa.nodes";
/// Automatic NUMA balancing.
pub const NUMA_BALANCING: &str = "env.numa.balancing";
/// `kernel.perf_event_paranoid`.
pub const PERF_EVENT_PARANOID: &str = "env.perf_event_paranoid";
/// The kernel's clock source.
pub const CLOCKSOURCE: &str = "env.clocksource";
/// The kind of container.
pub const CONTAINER: &str = "env.container";
/// Which flaws of the CPU are mitigated and which are open.
pub const MITIGATIONS: &str = "env.mitigations";
/// `kernel.perf_user_access` (AArch64): may user space read the cycle counter?
pub const PERF_USER_ACCESS: &str = "env.perf_user_access";
/// 1 where turbo is forbidden (`intel_pstate`).
pub const FREQ_NO_TURBO: &str = "env.freq.no_turbo";
/// 1 where boost is permitted (`cpufreq`).
pub const FREQ_BOOST: &str = "env.freq.boost";
/// The frequency governor.
pub const FREQ_GOVERNOR: &str = "env.freq.governor";
/// The frequency driver.
pub const FREQ_DRIVER: &str = "env.freq.driver";
/// Lowest frequency, kHz.
pub const FREQ_MIN_KHZ: &str = "env.freq.min.khz";
/// Highest frequency, kHz.
pub const FREQ_MAX_KHZ: &str = "env.freq.max.khz";
/// Frequency at that moment, kHz.
pub const FREQ_CUR_KHZ: &str = "env.freq.cur.khz";
/// Load averages.
pub const LOADAVG: &str = "env.loadavg";
/// Flags of the Raspberry Pi's firmware, hexadecimal.
pub const GET_THROTTLED: &str = "env.get_throttled";
/// Beginning of the pressure-stall figures of `cpu`, `memory` and `io`, as the kernel shows them.
pub const PRESSURE: &str = "env.pressure";
/// Beginning of the facts of control groups, the nearest being 0.
pub const CGROUP: &str = "env.cgroup";
/// End of the name of a control group's CPU quota below [`CGROUP`].
pub const CGROUP_CPU_MAX: &str = "cpu.max";
/// Beginning of the names of temperatures.
pub const THERMAL_ZONE: &str = "env.thermal_zone";

/// Beginning of the names of surroundings.
pub const ENV: &str = "env";
/// Beginning of the names of surroundings that are read again at the end of a session, in place of [`ENV`].
pub const ENV_AFTER: &str = "env.after";

/// The name under which a fact of the surroundings is stated at the end of a session: `env.loadavg` is
/// `env.after.loadavg` then. Names of other facts stay as they are.
#[must_use]
pub fn after(name: &str) -> String {
    name.strip_prefix("env.").map_or_else(|| name.to_string(), |rest| format!("{ENV_AFTER}.{rest}"))
}

/// The name of what was granted of a privilege: a level, a limit, a list.
#[must_use]
pub fn value(name: &str) -> String {
    format!("{name}.value")
}

/// The name of the reason why a state is not the best one.
#[must_use]
pub fn reason(name: &str) -> String {
    format!("{name}.reason")
}

/// The name of the remedy, in words.
#[must_use]
pub fn remedy(name: &str) -> String {
    format!("{name}.remedy")
}

/// Gives a field-less enum its tokens.
macro_rules! states {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $token:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// The word that is the fact's value.
            #[must_use]
            pub fn token(self) -> &'static str {
                match self { $($name::$variant => $token),+ }
            }

            /// The state that a word stands for.
            #[must_use]
            pub fn from_token(token: &str) -> Option<$name> {
                match token { $($token => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

states! {
    /// What came of asking the kernel for a privilege.
    Grant {
        /// All of it was given.
        Granted = "granted",
        /// Less than was requested was given.
        Partial = "partial",
        /// The kernel refused.
        Refused = "refused",
        /// The machine has no such thing.
        Absent = "absent",
        /// Something of ours, which is preferred, excludes it.
        Excluded = "excluded",
        /// It was not asked for.
        NotRequested = "not-requested",
    }
}

states! {
    /// What limits the memory that a session maps.
    CeilingSource {
        /// Memory that the system has available.
        System = "system",
        /// A control group.
        ControlGroup = "control-group",
        /// Something of the process: its reserved addresses, or the limit that it was given.
        Process = "process",
        /// It cannot be read.
        Unknown = "unknown",
    }
}
