//! Lists of tokens: the values that a coordinate along an axis, or a metric, may have.

/// A closed list of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Name of the list in the schema.
    pub name: &'static str,
    /// Every token, in display order. An N at the end of a token is a whole number from 1.
    pub values: &'static [&'static str],
    /// Meaning of the list, in one line.
    pub about: &'static str,
}

/// A whole number from 1, written as [`u64`] prints it.
pub(super) fn whole(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n: &u64| *n >= 1 && n.to_string() == text)
}

/// The part of a token before its number; `None` if it ends with no number.
#[must_use]
pub fn numbered(word: &str) -> Option<&str> {
    word.strip_suffix('N').filter(|stem| !stem.is_empty())
}

impl Tokens {
    /// Returns the position of a token in the list, and its number (0 if it has none).
    #[must_use]
    pub fn find(&self, text: &str) -> Option<(usize, u64)> {
        self.values.iter().enumerate().find_map(|(place, word)| match numbered(word) {
            None => (*word == text).then_some((place, 0)),
            Some(stem) => Some((place, whole(text.strip_prefix(stem)?)?)),
        })
    }

    /// The inverse of [`Tokens::find`].
    #[must_use]
    pub fn write(&self, place: usize, number: u64) -> String {
        let word = self.values.get(place).copied().unwrap_or_default();
        numbered(word).map_or_else(|| word.to_owned(), |stem| format!("{stem}{number}"))
    }

    /// Returns whether `text` is in the list.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.find(text).is_some()
    }
}

/// Declares lists of tokens as statics: `IDENTIFIER "name" values, "meaning";`
macro_rules! token_lists {
    ($($id:ident $name:literal $values:expr, $about:literal;)*) => {
        $(
            #[doc = $about]
            pub static $id: Tokens = Tokens { name: $name, values: $values, about: $about };
        )*
    };
}

/// The 256 bytes, in hexadecimal.
#[rustfmt::skip]
const BYTES: &[&str] = &[
    "00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "0a", "0b", "0c", "0d", "0e", "0f",
    "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "1a", "1b", "1c", "1d", "1e", "1f",
    "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "2a", "2b", "2c", "2d", "2e", "2f",
    "30", "31", "32", "33", "34", "35", "36", "37", "38", "39", "3a", "3b", "3c", "3d", "3e", "3f",
    "40", "41", "42", "43", "44", "45", "46", "47", "48", "49", "4a", "4b", "4c", "4d", "4e", "4f",
    "50", "51", "52", "53", "54", "55", "56", "57", "58", "59", "5a", "5b", "5c", "5d", "5e", "5f",
    "60", "61", "62", "63", "64", "65", "66", "67", "68", "69", "6a", "6b", "6c", "6d", "6e", "6f",
    "70", "71", "72", "73", "74", "75", "76", "77", "78", "79", "7a", "7b", "7c", "7d", "7e", "7f",
    "80", "81", "82", "83", "84", "85", "86", "87", "88", "89", "8a", "8b", "8c", "8d", "8e", "8f",
    "90", "91", "92", "93", "94", "95", "96", "97", "98", "99", "9a", "9b", "9c", "9d", "9e", "9f",
    "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "aa", "ab", "ac", "ad", "ae", "af",
    "b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9", "ba", "bb", "bc", "bd", "be", "bf",
    "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "ca", "cb", "cc", "cd", "ce", "cf",
    "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "da", "db", "dc", "dd", "de", "df",
    "e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9", "ea", "eb", "ec", "ed", "ee", "ef",
    "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "fa", "fb", "fc", "fd", "fe", "ff",
];

token_lists! {
    READ_BY "read_by" &["read", "instructions", "driver", "some-by-instructions"],
        "how marks read the counters: by read(2), by instructions of the processor, by instructions that Fathom's driver grants, or on some threads by instructions";
    USEFUL "useful" &["yes", "no"],
        "whether page colours can spread the conflicts of a tier";
    OPERATION "operation" &["read", "write", "rmw", "set", "copy_to", "copy_from"],
        "operation on each element: load, store, read-modify-write, 16-byte store, copy from write-back memory to it, copy from it to write-back memory";
    ATTRIBUTE "attribute" &["write-back", "write-through", "normal-nc", "device", "flush"],
        "memory attribute of a mapping; `flush` is write-back memory whose lines are flushed after each access";
    MEMORY "memory" crate::attribute::TOKENS,
        "memory type in a byte of MAIR_EL1: normal memory by its cache policies (`mixed`: different inner and outer policies), or device memory by gathering (G), reordering (R) and early write acknowledgement (E), each allowed or not (n)";
    BEHAVIOUR "behaviour" &["cached", "written-through", "gathered", "non-cacheable", "device"],
        "behaviour by access times: loads and stores are cached; only loads are cached; nothing is cached and neighbouring stores merge; nothing is cached; nothing is cached and each store is waited for";
    BYTE "byte" BYTES,
        "a byte of MAIR_EL1, in hexadecimal";
    STRATEGY "strategy" &["streaming-copy", "uncached-copy", "zero-copy", "persistent-copy", "coherent"],
        "path of data between a packet and a device: copied through a cached buffer that is mapped for each transfer; copied through an uncached buffer; the packet itself mapped; copied through a cached buffer that stays mapped and is synchronised; the packet in the device's memory";
    DIRECTION "direction" &["to-device", "from-device"],
        "direction of a transfer";
    ENGINE "engine" &["none", "edu", "dmaengine", "described"],
        "DMA engine: none, QEMU's edu device, a channel of the kernel's dmaengine, the device of a description";
    MAINTENANCE "maintenance" &["map", "map-and-unmap", "clean-and-unmap", "whole-cache"],
        "cache maintenance of a buffer: at map; at map, and again at unmap if the device wrote it; cleaned at map and invalidated at unmap if the device wrote it; every line of every cache at map and unmap";
    TABLES "tables" &["write-back", "normal-nc"],
        "memory type with which page-table walks fetch descriptors (TCR_EL1.IRGN0, ORGN0)";
    SWITCH "switch" &["on", "off"],
        "hardware prefetchers enabled or disabled";
    ALIAS "alias" &["seen", "unseen"],
        "both mappings see each other's stores, or some stores were lost";
    ORDER "order" &[
        "sequential", "forward2", "forward3", "forward4", "forward5", "forward6", "forward7", "forward8",
        "reversed", "backward2", "backward3", "backward4", "backward5", "backward6", "backward7", "backward8",
        "window", "random", "repermuted",
    ],
        "order in which a chain visits its lines: ascending, ascending by N lines in N interleaved passes, descending, descending by N lines, random within windows of pages, random, random with a new permutation for each lap";
    SERVED_BY "served_by" &["nearest", "level", "between", "memory"],
        "what serves the loads: the nearest level, a farther level, partly one of two levels, memory";
    TOWARDS "towards" &["forward", "backward"],
        "towards higher or lower addresses";
    PAGE "page" &["base", "huge"],
        "page size of a mapping: the smallest, or the largest that is available";
    SOURCE "source" &["sysfs", "cpuid", "ctr", "ccsidr", "devicetree", "pptt", "description"],
        "source of a claim: the kernel, ID instructions and registers, firmware tables, the description of a modelled machine";
    VERDICT "verdict" &["agrees", "disagrees", "undecided"],
        "result of checking a claim against the measurement";
    POLICY "policy" &[
        "lru", "fifo", "random", "tree-plru", "nru", "bit-plru", "nru-random", "not-mru-random", "srrip",
        "qlru-h00-m1-r2-u1",
    ],
        "replacement policy, by its name in machine descriptions";
    POLICIES "policies" &["none"],
        "replacement policies separated by commas, or none of those known";
    TLB "tlb" &["hit", "miss"],
        "whether the translation hits a TLB";
    PLACE "place" &["irq", "wake", "switch", "kernel", "user", "work"],
        "point of a wake-up that is timed: the timer's interrupt handler, the task made runnable, the CPU switched to the task, a task inside the kernel running, the task running in user space, the task's work done";
    CONDITION "condition" &[
        "unloaded", "stress-mix", "stress-mix-vm", "stress-mix-vm-confined", "cpu", "io", "disk", "vm", "malloc",
        "read", "write", "copy", "chase", "pages", "fault", "unmap", "warm", "flushed", "evicted", "load-N",
        "timerlat", "imported-N",
    ],
        "co-running load, or state of the caches; load-N is the Nth --load; timerlat is the kernel's tracer without load; imported-N is the Nth series of another tool";
    PERCENTILE "percentile" &["p50", "p90", "p99", "p999", "p9999", "p99999"],
        "percentile of the activations: 50 to 99.999 %";
    RATE "rate" &["passes", "lines", "faults", "bytes"],
        "quantity that a co-running load counts: passes of its workers, cache lines touched, page faults, bytes moved";
    RESOURCE "resource" &["cpu", "memory", "io"],
        "resource that tasks wait for";
    STAGE "stage" &["before-irq", "irq-to-wakeup", "wakeup-to-switch", "switch-to-user", "wakeup-to-user"],
        "part of a wake-up; the last is the sum of the two before it, if the switch was not traced";
    CAUSE "cause" &["tick", "quota", "throttle", "fair-server", "unknown"],
        "mechanism with the period of late activations: the timer tick, a CPU quota, real-time throttling, the fair server, none known";
    FACTOR "factor" &["copy", "chase", "pages", "fault", "unmap"],
        "factor of the randomised design: bandwidth, cache footprint, page walks, page faults, TLB shootdowns";
    STRESS "stress" &[
        "cpu", "io", "disk", "vm", "malloc", "read", "write", "copy", "chase", "pages", "fault", "unmap",
    ],
        "activity of a load's worker";
    MODE "mode" &["free", "keep", "holdN"],
        "treatment of a worker's block after each pass: freed, kept, held for N seconds and then freed";
    CHANGE_KIND "change_kind" &["step", "ramp"],
        "shape of a change: between two sizes, or over several";
    STATISTIC "statistic" &["tail", "p90", "p50", "faults"],
        "statistic of a curve: p99.9 (p99 if series are short), p90, p50, page faults of a worker per second";
    DISTURBED "disturbed" &["yes", "no"],
        "whether something disturbed the measurement";
    DISTURBANCE "disturbance" &["ok", "noisy", "unusable"],
        "what disturbance did to the findings: nothing; findings from disturbed trials are doubtful, the others hold; all are doubtful";
    TRUST "trust" &["real", "virtual", "emulated", "modelled", "unknown"],
        "how far the subject's clock can be trusted; unknown for imported results";
    EVENT "event" &[
        "cycles", "instructions", "L1-dcache-loads", "L1-dcache-load-misses", "LLC-loads", "LLC-load-misses",
        "dTLB-load-misses", "stalled-cycles-backend", "L1-icache-load-misses", "iTLB-load-misses",
        "stalled-cycles-frontend", "branches", "branch-misses", "task-clock", "page-faults", "context-switches",
    ],
        "event that the processor or, the last three, the kernel counts, by its name in perf-list(1); the processor determines what exactly its own are";
    UNIT "unit" UNITS,
        "unit of a value and of its interval; empty for a token or a pure number; an `address` is shown in hexadecimal";
    SIDE "side" &["data", "instructions", "unified"],
        "contents of a cache level";
}

/// Every unit that a value may have; empty for a token or a pure number. An `address` is shown in hexadecimal.
pub const UNITS: &[&str] = &[
    "",
    "bytes",
    "ns",
    "us",
    "ms",
    "cycles",
    "ticks",
    "MB/s",
    "Mbit/s",
    "instructions",
    "Hz",
    "1/s",
    "1/load",
    "%",
    "samples",
    "activations",
    "address",
    "hex",
];
