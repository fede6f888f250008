//! Names of the facts that a probe reports and other code reads, and the tokens of their states.
//!
//! Each name is defined here once; code that reports or reads the fact uses the constant. Facts that are only stored
//! and shown (a register, a file of the kernel) are named where they are reported.

use alloc::format;
use alloc::string::{String, ToString as _};

/// Evidence for the trust in the clock.
pub const TRUST_EVIDENCE: &str = "trust.evidence";
/// Name of a described machine.
pub const MACHINE_NAME: &str = "machine.name";
/// Text of a described machine's description, in the format of its file.
pub const DESCRIBED_FILE: &str = "described.file";
/// Digest of that text, in hexadecimal.
pub const DESCRIBED_DIGEST: &str = "described.digest";
/// Number of values in the description of a described machine. [`described_values`] are those of each class.
pub const DESCRIBED_VALUES: &str = "described.values";
/// Number of those whose class the description does not give.
pub const DESCRIBED_VALUES_UNCLASSIFIED: &str = "described.values.unclassified";
/// Instructions that a described machine has in flight at the same time. Absent if that is not described.
pub const DESCRIBED_WINDOW: &str = "described.window";
/// Number of neighbours that a described machine has: other users of it, which take parts of it in bursts. Absent if
/// there are none. With one, measured values are not exact for the description.
pub const DESCRIBED_NEIGHBOURS: &str = "described.neighbours";

/// Name of the clock that times samples. [`MONOTONIC_RAW`] is the only one that is a system call.
pub const CLOCK_NAME: &str = "clock.name";
/// Clock used if no other is available: `clock_gettime(CLOCK_MONOTONIC_RAW)`.
pub const MONOTONIC_RAW: &str = "monotonic-raw";
/// Reason for the choice of this clock.
pub const CLOCK_CHOICE: &str = "clock.choice";
/// Clock ticks per second.
pub const CLOCK_HZ: &str = "clock.hz";
/// Uncertainty of [`CLOCK_HZ`], parts per million.
pub const CLOCK_HZ_PPM: &str = "clock.hz.ppm";
/// Ticks between two consecutive readings.
pub const CLOCK_OVERHEAD_TICKS: &str = "clock.overhead.ticks";
/// Resolution of the clock: greatest common divisor of its readings, ticks.
pub const CLOCK_RESOLUTION_TICKS: &str = "clock.resolution.ticks";

/// CPU to which the measuring thread is pinned.
pub const CPU_PINNED: &str = "cpu.pinned";
/// Type of that CPU where there are several: `big`, `mid`, `little` (`fathom_host::CoreType`).
pub const CPU_TYPE: &str = "cpu.type";
/// The CPUs of that type on which the probe may run: numbers, separated by commas.
pub const CPU_TYPE_CPUS: &str = "cpu.type.cpus";
/// Whether its lock, which keeps other measurements from it, is `held`, or why there is none.
pub const CPU_LOCK: &str = "cpu.lock";
/// Time that was waited for the end of another measurement on it, ms.
pub const CPU_LOCK_WAITED_MS: &str = "cpu.lock.waited.ms";
/// Base page size, bytes.
pub const PAGE_BASE: &str = "page.base";
/// Size of a huge page, bytes, if huge pages exist.
pub const PAGE_HUGE: &str = "page.huge";
/// Source of pages of chosen colours.
pub const PAGE_COLOURED: &str = "page.coloured";
/// How the frames of base pages are known to lie, as a token of [`PageFrames`]; absent if they are not known.
pub const PAGE_FRAMES: &str = "page.frames";

/// Whether memory is locked: `yes` or `no`. Reason and remedy are facts below this name ([`reason`], [`remedy`]).
pub const MEMORY_LOCKED: &str = "memory.locked";
/// Largest amount of memory that a session maps, bytes.
pub const MEMORY_CEILING_BYTES: &str = "memory.ceiling.bytes";
/// Source of [`MEMORY_CEILING_BYTES`], as text.
pub const MEMORY_CEILING_LIMIT: &str = "memory.ceiling.limit";
/// Source of it, as a token of [`CeilingSource`].
pub const MEMORY_CEILING_SOURCE: &str = "memory.ceiling.source";
/// Bytes that a described machine can map in base pages.
pub const MEMORY_MAPPABLE_BASE_BYTES: &str = "memory.mappable.base.bytes";
/// Bytes that it can map in huge pages.
pub const MEMORY_MAPPABLE_HUGE_BYTES: &str = "memory.mappable.huge.bytes";
/// Largest mapping in coloured pages, bytes.
pub const MEMORY_MAPPABLE_COLOURED_BYTES: &str = "memory.mappable.coloured.bytes";

/// State of the driver, as text.
pub const DRIVER_STATE: &str = "driver.state";
/// Version of the driver's interface; absent if the driver cannot be used.
pub const DRIVER_VERSION: &str = "driver.version";
/// Remedy that makes the driver usable, as text.
pub const DRIVER_REMEDY: &str = "driver.remedy";
/// Features of the driver.
pub const DRIVER_FEATURES: &str = "driver.features";
/// Memory attributes that the driver provides.
pub const DRIVER_ATTRIBUTES: &str = "driver.attributes";
/// DMA engines of the driver.
pub const DRIVER_ENGINES: &str = "driver.engines";

/// Runtime of real-time tasks per period, ns (`sched_rt_runtime_us`).
pub const THROTTLE_RUNTIME_NS: &str = "throttle.runtime.ns";
/// Period, ns (`sched_rt_period_us`).
pub const THROTTLE_PERIOD_NS: &str = "throttle.period.ns";

/// Whether the process is pinned to its CPU. This is one of the privileges: the value is a token of [`Grant`], and
/// [`value`], [`reason`] and [`remedy`] are facts below its name.
pub const PRIVILEGE_AFFINITY: &str = "privilege.affinity";
/// Whether the process is killed when its parent ends.
pub const PRIVILEGE_PARENT: &str = "privilege.parent";
/// Whether the process is the first to be killed when memory runs out.
pub const PRIVILEGE_OOM: &str = "privilege.oom";
/// Amount of memory that may be locked: the value is a number of bytes or [`UNLIMITED`].
pub const PRIVILEGE_MEMLOCK: &str = "privilege.memlock";
/// Ordinary priority: the value is the nice level.
pub const PRIVILEGE_NICE: &str = "privilege.nice";
/// Real-time priority during trials: the value is the priority.
pub const PRIVILEGE_FIFO: &str = "privilege.fifo";
/// Hardware event counters: the value is a list of names, separated by commas.
pub const PRIVILEGE_COUNTERS: &str = "privilege.counters";
/// Highest real-time priority available to tasks: the value is a priority or [`UNLIMITED`].
pub const PRIVILEGE_PRIORITIES: &str = "privilege.priorities";
/// Value of a limit that is not set.
pub const UNLIMITED: &str = "unlimited";

/// Fathom's version and commit on the probe's side.
pub const BUILD: &str = "env.build";
/// `uname -m`.
pub const MACHINE: &str = "env.machine";
/// Release of the kernel.
pub const KERNEL_RELEASE: &str = "env.kernel.release";
/// Command line of the kernel.
pub const KERNEL_COMMAND_LINE: &str = "env.cmdline";
/// Model of the board, from the device tree.
pub const BOARD_MODEL: &str = "env.board.model";
/// Model of the CPU, from `/proc/cpuinfo`.
pub const CPU_MODEL: &str = "env.cpu.model";
/// Revision of the CPU's microcode.
pub const CPU_MICROCODE: &str = "env.cpu.microcode";
/// CPUs that share the core with the pinned one.
pub const CPU_SIBLINGS: &str = "env.cpu.siblings";
/// `cpu MHz` of `/proc/cpuinfo`.
pub const CPUINFO_MHZ: &str = "env.cpuinfo.mhz";
/// CPUs on which the process may run.
pub const AFFINITY: &str = "env.affinity";
/// Online CPUs.
pub const CPUS_ONLINE: &str = "env.cpus.online";
/// CPUs isolated from the scheduler (`isolcpus`).
pub const CPUS_ISOLATED: &str = "env.cpus.isolated";
/// State of simultaneous multithreading.
pub const SMT: &str = "env.smt";
/// Transparent huge pages, as printed by the kernel.
pub const THP_ENABLED: &str = "env.thp.enabled";
/// Online NUMA nodes.
pub const NUMA_NODES: &str = "env.numa.nodes";
/// Automatic NUMA balancing.
pub const NUMA_BALANCING: &str = "env.numa.balancing";
/// `kernel.perf_event_paranoid`.
pub const PERF_EVENT_PARANOID: &str = "env.perf_event_paranoid";
/// Clock source of the kernel.
pub const CLOCKSOURCE: &str = "env.clocksource";
/// Kind of container.
pub const CONTAINER: &str = "env.container";
/// CPU vulnerabilities with their mitigations.
pub const MITIGATIONS: &str = "env.mitigations";
/// `kernel.perf_user_access` (AArch64): whether user space may read the cycle counter.
pub const PERF_USER_ACCESS: &str = "env.perf_user_access";
/// 1 if turbo is disabled (`intel_pstate`).
pub const FREQ_NO_TURBO: &str = "env.freq.no_turbo";
/// 1 if boost is enabled (`cpufreq`).
pub const FREQ_BOOST: &str = "env.freq.boost";
/// Frequency governor.
pub const FREQ_GOVERNOR: &str = "env.freq.governor";
/// Frequency driver.
pub const FREQ_DRIVER: &str = "env.freq.driver";
/// Lowest frequency, kHz.
pub const FREQ_MIN_KHZ: &str = "env.freq.min.khz";
/// Highest frequency, kHz.
pub const FREQ_MAX_KHZ: &str = "env.freq.max.khz";
/// Core clock of a described machine, Hz.
pub const CORE_HZ: &str = "core.hz";
/// Current frequency, kHz.
pub const FREQ_CUR_KHZ: &str = "env.freq.cur.khz";
/// Load averages.
pub const LOADAVG: &str = "env.loadavg";
/// Other CPUs on which a Fathom measures.
pub const MEASURED_CPUS: &str = "env.cpus.measured";
/// Flags of the Raspberry Pi's firmware, hexadecimal.
pub const GET_THROTTLED: &str = "env.get_throttled";
/// Prefix of the pressure-stall figures of `cpu`, `memory` and `io`, as printed by the kernel.
pub const PRESSURE: &str = "env.pressure";
/// Prefix of the facts of control groups, numbered from 0, the nearest one.
pub const CGROUP: &str = "env.cgroup";
/// Suffix of the name of a control group's CPU quota below [`CGROUP`].
pub const CGROUP_CPU_MAX: &str = "cpu.max";
/// Prefix of the names of temperatures.
pub const THERMAL_ZONE: &str = "env.thermal_zone";

/// Prefix of the names of environment facts.
pub const ENV: &str = "env";
/// Prefix of the names of environment facts that are read again at the end of a session, instead of [`ENV`].
pub const ENV_AFTER: &str = "env.after";

/// Returns the name of an environment fact at the end of a session: `env.loadavg` becomes `env.after.loadavg`. Other
/// names are returned unchanged.
#[must_use]
pub fn after(name: &str) -> String {
    name.strip_prefix("env.").map_or_else(|| name.to_string(), |rest| format!("{ENV_AFTER}.{rest}"))
}

/// Returns the name of the fact with the granted value of a privilege: a level, a limit, a list.
#[must_use]
pub fn value(name: &str) -> String {
    format!("{name}.value")
}

/// Returns the name of the fact with the reason why a state is not the best one.
#[must_use]
pub fn reason(name: &str) -> String {
    format!("{name}.reason")
}

/// Returns the name of the fact with the remedy, as text.
#[must_use]
pub fn remedy(name: &str) -> String {
    format!("{name}.remedy")
}

/// Returns the name of the fact with the number of a description's values of a class. Without values of a study there is
/// no fact of it.
#[must_use]
pub fn described_values(class: ValueClass) -> String {
    format!("{DESCRIBED_VALUES}.{}", class.token())
}

/// Defines a field-less enum with its tokens.
macro_rules! states {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $token:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// Every state, in the order of definition.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Returns the token, which is the fact's value.
            #[must_use]
            pub fn token(self) -> &'static str {
                match self { $($name::$variant => $token),+ }
            }

            /// Returns the state with this token.
            #[must_use]
            pub fn from_token(token: &str) -> Option<$name> {
                match token { $($token => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

states! {
    /// Result of requesting a privilege from the kernel.
    Grant {
        /// The whole request was granted.
        Granted = "granted",
        /// A part of the request was granted.
        Partial = "partial",
        /// The kernel refused the request.
        Refused = "refused",
        /// The machine does not have it.
        Absent = "absent",
        /// Excluded by another feature of Fathom, which is preferred.
        Excluded = "excluded",
        /// Not requested.
        NotRequested = "not-requested",
    }
}

states! {
    /// How the frames of base pages lie, as far as the machine tells.
    PageFrames {
        /// Each follows that of the page before.
        Contiguous = "contiguous",
        /// At random.
        Scattered = "scattered",
    }
}

states! {
    /// Limit of the memory that a session maps.
    CeilingSource {
        /// Memory available in the system.
        System = "system",
        /// Limit of a control group.
        ControlGroup = "control-group",
        /// Limit of the process: its reserved addresses, or its resource limit.
        Process = "process",
        /// The limit cannot be read.
        Unknown = "unknown",
    }
}

states! {
    /// A published study that Fathom repeats, by its number in `docs/method`.
    Study {
        /// Cached and uncached accesses to the same memory.
        S0 = "S0",
        /// Conflicts in a cache set.
        S1 = "S1",
        /// Buffers for DMA.
        S2 = "S2",
        /// Wake-up latency under load.
        S3 = "S3",
        /// Access times by pointer chasing.
        S4 = "S4",
    }
}

/// Where a value of a machine's description comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueClass {
    /// A manual, a data sheet, or a statement of the machine about itself.
    Manual,
    /// Somebody's measurement of such a machine.
    Measured,
    /// This study, with which the machine is compared.
    Study(Study),
    /// Assumed.
    Assumed,
}

impl ValueClass {
    /// Every class, in the order in which a description lists them.
    pub const ALL: &'static [ValueClass] = &[
        ValueClass::Manual,
        ValueClass::Measured,
        ValueClass::Study(Study::S0),
        ValueClass::Study(Study::S1),
        ValueClass::Study(Study::S2),
        ValueClass::Study(Study::S3),
        ValueClass::Study(Study::S4),
        ValueClass::Assumed,
    ];

    /// Returns the word for the class in a description. All studies have one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ValueClass::Manual => "manual",
            ValueClass::Measured => "measured",
            ValueClass::Study(_) => "study",
            ValueClass::Assumed => "assumed",
        }
    }

    /// Returns the study, if the value is from one.
    #[must_use]
    pub fn study(self) -> Option<Study> {
        match self {
            ValueClass::Study(study) => Some(study),
            _ => None,
        }
    }

    /// Returns the token: the word, and the name of the study (`study.S3`).
    #[must_use]
    pub fn token(self) -> String {
        match self {
            ValueClass::Study(study) => format!("{}.{}", self.word(), study.token()),
            _ => self.word().to_string(),
        }
    }

    /// Returns the class with this token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<ValueClass> {
        ValueClass::ALL.iter().copied().find(|class| class.token() == token)
    }
}
