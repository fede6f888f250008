//! Published numbers of study S3, for comparison in a report; marked as from another machine.

use super::Place;

/// Machine of the study.
pub const MACHINE: &str =
    "TI AM5728 (Cortex-A15) with Xenomai, a period of 100 us, the real-time CPU isolated (isolcpus=1)";
/// Reason why the rows of [`DISPUTED`] are marked as disputed.
pub const WHY_DISPUTED: &str = "the option that was switched drives an outer L2 controller, and a Cortex-A15's L2 is \
     inside its cluster: another build, perhaps not another cache";

/// Load of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Load {
    /// No load named by the study.
    Unnamed,
    /// `stress -c 16 -i 4`.
    CpuIo,
    /// `stress -c 16 -i 4 -d 2 --hdd-bytes 256M`: "no memory pressure" in the study.
    CpuIoDisk,
    /// `CpuIoDisk` plus `--vm 2 --vm-bytes 128M`.
    CpuIoDiskVm,
}

impl Load {
    /// Returns the arguments of `stress`; empty without load.
    #[must_use]
    pub fn arguments(self) -> &'static str {
        match self {
            Load::Unnamed => "",
            Load::CpuIo => "-c 16 -i 4",
            Load::CpuIoDisk => "-c 16 -i 4 -d 2 --hdd-bytes 256M",
            Load::CpuIoDiskVm => "-c 16 -i 4 -d 2 --hdd-bytes 256M --vm 2 --vm-bytes 128M",
        }
    }
}

/// A column of the study's table: wake-up latency in us. Values are negative if the timer was programmed early.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Load during the measurement.
    pub load: Load,
    /// Place where it was timed.
    pub place: Place,
    /// Minimum.
    pub min_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Maximum.
    pub max_us: f64,
    /// Standard deviation, if the study gives it.
    pub stddev_us: Option<f64>,
}

/// Creates a column.
const fn column(load: Load, place: Place, [min, mean, max]: [f64; 3], stddev_us: Option<f64>) -> Column {
    Column { load, place, min_us: min, mean_us: mean, max_us: max, stddev_us }
}

/// Study S3, "no memory pressure" and "with --vm 2 x 128M".
pub const PLACES: [Column; 6] = [
    column(Load::CpuIoDisk, Place::User, [0.621, 3.072, 16.133], None),
    column(Load::CpuIoDisk, Place::Kernel, [-0.795, 0.970, 12.966], None),
    column(Load::CpuIoDisk, Place::Irq, [-1.623, -0.017, 7.736], None),
    column(Load::CpuIoDiskVm, Place::User, [0.915, 3.451, 30.918], Some(0.626)),
    column(Load::CpuIoDiskVm, Place::Kernel, [-1.276, 0.637, 25.303], Some(0.668)),
    column(Load::CpuIoDiskVm, Place::Irq, [-1.132, 0.530, 8.240], Some(0.345)),
];

/// A column of the study's comparison of two builds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disputed {
    /// Whether the option was on that the study considered the switch of the L2.
    pub l2_on: bool,
    /// Published values.
    pub column: Column,
}

/// Study S3, "L2 on" and "L2 off": ten minutes in the user task. See [`WHY_DISPUTED`].
pub const DISPUTED: [Disputed; 4] = [
    Disputed { l2_on: true, column: column(Load::Unnamed, Place::User, [-0.879, 1.261, 8.510], None) },
    Disputed { l2_on: false, column: column(Load::Unnamed, Place::User, [2.363, 4.174, 13.161], None) },
    Disputed { l2_on: true, column: column(Load::CpuIo, Place::User, [0.916, 4.134, 10.463], None) },
    Disputed { l2_on: false, column: column(Load::CpuIo, Place::User, [1.174, 4.002, 11.414], None) },
];
