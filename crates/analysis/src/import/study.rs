//! What study S3 printed, as numbers: for a report that sets them beside its own, marked as another machine's.

use super::Place;

/// Whose numbers these are.
pub const MACHINE: &str =
    "TI AM5728 (Cortex-A15) with Xenomai, a period of 100 us, the real-time CPU isolated (isolcpus=1)";
/// Mark of the rows of [`DISPUTED`].
pub const WHY_DISPUTED: &str = "the option that was switched drives an outer L2 controller, and a Cortex-A15's L2 is \
     inside its cluster: another build, perhaps not another cache";

/// What else ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Load {
    /// Nothing that the study names.
    Unnamed,
    /// `stress -c 16 -i 4`.
    CpuIo,
    /// `stress -c 16 -i 4 -d 2 --hdd-bytes 256M`: no memory pressure, in the study's words.
    CpuIoDisk,
    /// The same and `--vm 2 --vm-bytes 128M`.
    CpuIoDiskVm,
}

impl Load {
    /// The arguments of `stress`; empty for none.
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

/// A column of the study's table: wake-up latency in us. Negative values come of a timer that is programmed early.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// What else ran.
    pub load: Load,
    /// Where it was timed.
    pub place: Place,
    /// Least.
    pub min_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Largest.
    pub max_us: f64,
    /// Standard deviation, where the study gives it.
    pub stddev_us: Option<f64>,
}

/// A column of a table: user, kernel and IRQ under two loads.
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
    /// Was the option on that the study took for the L2's switch?
    pub l2_on: bool,
    /// What was found.
    pub column: Column,
}

/// Study S3, "L2 on" and "L2 off": ten minutes in the user task. See [`WHY_DISPUTED`].
pub const DISPUTED: [Disputed; 4] = [
    Disputed { l2_on: true, column: column(Load::Unnamed, Place::User, [-0.879, 1.261, 8.510], None) },
    Disputed { l2_on: false, column: column(Load::Unnamed, Place::User, [2.363, 4.174, 13.161], None) },
    Disputed { l2_on: true, column: column(Load::CpuIo, Place::User, [0.916, 4.134, 10.463], None) },
    Disputed { l2_on: false, column: column(Load::CpuIo, Place::User, [1.174, 4.002, 11.414], None) },
];
