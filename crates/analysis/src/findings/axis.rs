//! The axes along which findings lie.

use super::words::{self, Words};

/// Declares the axes once: variant, name in patterns and in JSON, words (none: whole numbers from 1), meaning.
macro_rules! axes {
    ($($variant:ident $name:literal $words:expr, $about:literal;)*) => {
        /// What a coordinate of a finding counts or names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Axis {
            $(#[doc = $about] $variant,)*
        }

        impl Axis {
            /// Every axis, in display order.
            pub const ALL: &'static [Axis] = &[$(Axis::$variant,)*];

            /// Its name in patterns (`{level}`) and in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Axis::$variant => $name,)* }
            }

            /// The words that a coordinate along it may be; `None` where it is a whole number from 1.
            #[must_use]
            pub fn words(self) -> Option<&'static Words> {
                match self { $(Axis::$variant => $words,)* }
            }

            /// What it says, in one line.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(Axis::$variant => $about,)* }
            }
        }
    };
}

axes! {
    Level "level" None, "level of the memory hierarchy, counted from the core; the last one is memory";
    Tlb "tlb" None, "TLB, counted from the core";
    Size "size" None, "working set, block or transfer, bytes";
    Stride "stride" None, "distance from one access to the next, bytes";
    Distance "distance" None, "distance between two accesses: bytes, or accesses in between";
    Lines "lines" None, "number of lines that are read round and round";
    Pages "pages" None, "number of pages";
    Colours "colours" None, "number of page colours";
    Placement "placement" None, "number of the physical placement";
    Rank "rank" None, "place in an order, the latest or largest first";
    Index "index" None, "number of the change of a curve, in order of size";
    Order "order" Some(&words::ORDER), "order in which a chain visits its lines";
    Page "page" Some(&words::PAGE), "pages that the memory is mapped in";
    Prefetch "prefetch" Some(&words::SWITCH), "hardware prefetchers on or off";
    Towards "towards" Some(&words::TOWARDS), "towards higher or lower addresses";
    Operation "operation" Some(&words::OPERATION), "what is done to each cell";
    Attribute "attribute" Some(&words::ATTRIBUTE), "memory attribute of a mapping";
    Mair "mair" Some(&words::BYTE), "byte of MAIR_EL1, in hexadecimal";
    Tables "tables" Some(&words::TABLES), "memory type in which page-table walks fetch descriptors";
    Strategy "strategy" Some(&words::STRATEGY), "how data get between a CPU's packet and a device";
    Versus "versus" Some(&words::STRATEGY), "the strategy that is compared with the first";
    Direction "direction" Some(&words::DIRECTION), "which way data go";
    Source "source" Some(&words::SOURCE), "who claims";
    Side "side" Some(&words::SIDE), "what a level holds";
    Policy "policy" Some(&words::POLICY), "replacement policy";
    Place "place" Some(&words::PLACE), "point of a wake-up that is timed";
    Condition "condition" Some(&words::CONDITION), "co-running load, or state of the caches";
    Quantile "quantile" Some(&words::PERCENTILE), "quantile of the activations";
    Rate "rate" Some(&words::RATE), "what a co-running load counts";
    Resource "resource" Some(&words::RESOURCE), "what tasks wait for";
    Stage "stage" Some(&words::STAGE), "part of a wake-up";
    Cause "cause" Some(&words::CAUSE), "what has the period of late activations";
    Factor "factor" Some(&words::FACTOR), "pure factor of the randomised design";
    With "with" Some(&words::FACTOR), "the factor that acts together with the first";
    Stressor "stressor" Some(&words::STRESS), "what a worker of the load does";
    Mode "mode" Some(&words::MODE), "what becomes of a worker's block";
    Statistic "statistic" Some(&words::STATISTIC), "statistic of a curve of the sweep";
}

impl Axis {
    /// The axis of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Axis> {
        Axis::ALL.iter().copied().find(|axis| axis.name() == name)
    }
}
