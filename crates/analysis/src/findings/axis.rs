//! The axes of findings: the coordinates that identify a finding within its metric.

use super::tokens::{self, Tokens};

/// Declares the axes once: variant, name in patterns and in JSON, tokens (none: whole numbers from 1), meaning.
macro_rules! axes {
    ($($variant:ident $name:literal $tokens:expr, $about:literal;)*) => {
        /// An axis: the quantity or the thing that a coordinate of a finding numbers or names.
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

            /// The tokens that a coordinate may be; `None` for a whole number from 1.
            #[must_use]
            pub fn tokens(self) -> Option<&'static Tokens> {
                match self { $(Axis::$variant => $tokens,)* }
            }

            /// Its meaning, in one line.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(Axis::$variant => $about,)* }
            }
        }
    };
}

axes! {
    Tier "tier" None, "tier of the latency curve, counted from the core; the last one is memory";
    Level "level" None, "cache level that a source claims, counted from the core";
    Tlb "tlb" None, "TLB, counted from the core";
    Size "size" None, "working set, block or transfer, bytes";
    Stride "stride" None, "distance from one access to the next, bytes";
    Distance "distance" None, "distance between the two addresses of a pair, bytes";
    LoadsAgo "loads_ago" None, "number of loads since the line was loaded";
    Lines "lines" None, "number of lines that are read cyclically";
    Pages "pages" None, "number of pages";
    Chains "chains" None, "number of chains that are walked side by side";
    Colours "colours" None, "number of page colours";
    Placement "placement" None, "number of the physical placement";
    Rank "rank" None, "rank by size or latency, the largest first";
    Region "region" None, "number of a region that the program marks, in the order of their names";
    Entry "entry" None, "event of a described processor, by its position in the table of its events";
    Call "call" None, "number of a call in the tree of calls: callers before callees";
    Pmu "pmu" None, "number of a PMU of CPUs, where CPUs of several types have a PMU each";
    Index "index" None, "number of the change-point, in order of size";
    Elapsed "elapsed" None, "time from the begin of counting to the end of a slice, ms";
    Order "order" Some(&tokens::ORDER), "order in which a chain visits its lines";
    Page "page" Some(&tokens::PAGE), "page size of the mapping";
    Prefetch "prefetch" Some(&tokens::SWITCH), "hardware prefetchers on or off";
    Towards "towards" Some(&tokens::TOWARDS), "towards higher or lower addresses";
    Operation "operation" Some(&tokens::OPERATION), "operation on each element";
    Attribute "attribute" Some(&tokens::ATTRIBUTE), "memory attribute of a mapping";
    Mair "mair" Some(&tokens::BYTE), "byte of MAIR_EL1, in hexadecimal";
    Tables "tables" Some(&tokens::TABLES), "memory type with which page-table walks fetch descriptors";
    Strategy "strategy" Some(&tokens::STRATEGY), "path of data between a packet and a device";
    Versus "versus" Some(&tokens::STRATEGY), "the strategy that is compared with the first";
    Direction "direction" Some(&tokens::DIRECTION), "direction of a transfer";
    Source "source" Some(&tokens::SOURCE), "source of a claim";
    Side "side" Some(&tokens::SIDE), "contents of a cache level";
    Policy "policy" Some(&tokens::POLICY), "replacement policy";
    Place "place" Some(&tokens::PLACE), "point of a wake-up that is timed";
    Condition "condition" Some(&tokens::CONDITION), "co-running load, or state of the caches";
    Quantile "quantile" Some(&tokens::PERCENTILE), "quantile of the activations";
    Rate "rate" Some(&tokens::RATE), "quantity that a co-running load counts";
    Resource "resource" Some(&tokens::RESOURCE), "resource that tasks wait for";
    Stage "stage" Some(&tokens::STAGE), "part of a wake-up";
    Cause "cause" Some(&tokens::CAUSE), "mechanism with the period of late activations";
    Factor "factor" Some(&tokens::FACTOR), "factor of the randomised design";
    With "with" Some(&tokens::FACTOR), "the factor that interacts with the first";
    Stressor "stressor" Some(&tokens::STRESS), "activity of a load's worker";
    Mode "mode" Some(&tokens::MODE), "treatment of a worker's block after each pass";
    Event "event" Some(&tokens::EVENT), "event that the processor or the kernel counts, by its name in perf-list(1)";
    Statistic "statistic" Some(&tokens::STATISTIC), "statistic of a curve of the sweep";
}

impl Axis {
    /// The axis of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Axis> {
        Axis::ALL.iter().copied().find(|axis| axis.name() == name)
    }
}
