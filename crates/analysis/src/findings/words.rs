//! Lists of words: what an axis or the value of a metric may say.

/// A closed list of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// What the list is called in the schema.
    pub name: &'static str,
    /// Every word, in display order. An N at a word's end stands for a whole number from 1.
    pub values: &'static [&'static str],
    /// What it says, in one line.
    pub about: &'static str,
}

/// A whole number from 1, written as [`u64`] prints it.
pub(super) fn whole(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n: &u64| *n >= 1 && n.to_string() == text)
}

/// What comes before the number of a word that ends with one.
#[must_use]
pub fn numbered(word: &str) -> Option<&str> {
    word.strip_suffix('N').filter(|stem| !stem.is_empty())
}

impl Words {
    /// The place of a word in the list, and its number (0 where it has none).
    #[must_use]
    pub fn find(&self, text: &str) -> Option<(usize, u64)> {
        self.values.iter().enumerate().find_map(|(place, word)| match numbered(word) {
            None => (*word == text).then_some((place, 0)),
            Some(stem) => Some((place, whole(text.strip_prefix(stem)?)?)),
        })
    }

    /// The inverse of [`Words::find`].
    #[must_use]
    pub fn write(&self, place: usize, number: u64) -> String {
        let word = self.values.get(place).copied().unwrap_or_default();
        numbered(word).map_or_else(|| word.to_owned(), |stem| format!("{stem}{number}"))
    }

    /// Is `text` in the list?
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.find(text).is_some()
    }
}

/// Value of `tier.N.colour.help`.
pub static HELP: Words =
    Words { name: "help", values: &["yes", "no"], about: "value of `tier.N.colour.help`" };

/// As OP; or set by 16 bytes a store, copied to from write-back memory, copied from to it.
pub static OPERATION: Words = Words {
    name: "operation",
    values: &["read", "write", "rmw", "set", "copy_to", "copy_from"],
    about: "as OP; or set by 16 bytes a store, copied to from write-back memory, copied from to it",
};

/// How memory was mapped; `flush` is write-back memory whose lines are flushed after each access.
pub static ATTRIBUTE: Words = Words {
    name: "attribute",
    values: &["write-back", "write-through", "normal-nc", "device", "flush"],
    about: "how memory was mapped; `flush` is write-back memory whose lines are flushed after each access",
};

/// Value of `cacheability.ATTRIBUTE.translated_as`: normal memory by its policies (`mixed`: unlike ones), or device memory that may gather (G), reorder (R), be acknowledged early (E), or may not (n).
pub static MEMORY: Words = Words {
    name: "memory",
    values: crate::attribute::TOKENS,
    about: "value of `cacheability.ATTRIBUTE.translated_as`: normal memory by its policies (`mixed`: unlike ones), or device memory that may gather (G), reorder (R), be acknowledged early (E), or may not (n)",
};

/// Loads and stores end in a cache; loads alone; neither, and neighbouring stores go together; neither; neither, and stores are waited for.
pub static BEHAVIOUR: Words = Words {
    name: "behaviour",
    values: &["cached", "written-through", "gathered", "non-cacheable", "device"],
    about: "loads and stores end in a cache; loads alone; neither, and neighbouring stores go together; neither; neither, and stores are waited for",
};

/// A byte of MAIR_EL1, in hexadecimal.
pub static BYTE: Words = Words {
    name: "byte",
    #[rustfmt::skip]
    values: &[
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
        ],
    about: "a byte of MAIR_EL1, in hexadecimal",
};

/// How data get between a CPU's packet and a device: through a cached buffer that is mapped each time, through one that is not cached, mapping the packet itself, through a cached buffer that stays mapped and is synchronised, or with the packet in the device's memory.
pub static STRATEGY: Words = Words {
    name: "strategy",
    values: &["streaming-copy", "uncached-copy", "zero-copy", "persistent-copy", "coherent"],
    about: "how data get between a CPU's packet and a device: through a cached buffer that is mapped each time, through one that is not cached, mapping the packet itself, through a cached buffer that stays mapped and is synchronised, or with the packet in the device's memory",
};

/// Which way data go.
pub static DIRECTION: Words =
    Words { name: "direction", values: &["to-device", "from-device"], about: "which way data go" };

/// What moves them: nothing, QEMU's edu device, a channel of the kernel's dmaengine, a description's device.
pub static ENGINE: Words = Words {
    name: "engine",
    values: &["none", "edu", "dmaengine", "described"],
    about: "what moves them: nothing, QEMU's edu device, a channel of the kernel's dmaengine, a description's device",
};

/// When buffers are maintained: when they are mapped; then, and again what came in when they are unmapped; cleaned when they are mapped, and what came in invalidated when they are unmapped; every line of every cache both times.
pub static MAINTENANCE: Words = Words {
    name: "maintenance",
    values: &["map", "map-and-unmap", "clean-and-unmap", "whole-cache"],
    about: "when buffers are maintained: when they are mapped; then, and again what came in when they are unmapped; cleaned when they are mapped, and what came in invalidated when they are unmapped; every line of every cache both times",
};

/// Memory type in which page-table walks fetch descriptors (TCR_EL1.IRGN0, ORGN0).
pub static TABLES: Words = Words {
    name: "tables",
    values: &["write-back", "normal-nc"],
    about: "memory type in which page-table walks fetch descriptors (TCR_EL1.IRGN0, ORGN0)",
};

/// May hardware fetch ahead.
pub static SWITCH: Words =
    Words { name: "switch", values: &["on", "off"], about: "may hardware fetch ahead" };

/// Both mappings see each other's stores, or some were lost.
pub static ALIAS: Words = Words {
    name: "alias",
    values: &["seen", "unseen"],
    about: "both mappings see each other's stores, or some were lost",
};

/// Order in which a chain visits its lines: ascending, every Nth line up in passes side by side, descending, every Nth line down, random inside windows, random, random and another one each time.
pub static ORDER: Words = Words {
    name: "order",
    values: &[
        "sequential",
        "forward2",
        "forward3",
        "forward4",
        "forward5",
        "forward6",
        "forward7",
        "forward8",
        "reversed",
        "backward2",
        "backward3",
        "backward4",
        "backward5",
        "backward6",
        "backward7",
        "backward8",
        "window",
        "random",
        "repermuted",
    ],
    about: "order in which a chain visits its lines: ascending, every Nth line up in passes side by side, descending, every Nth line down, random inside windows, random, random and another one each time",
};

/// The nearest level; a farther one; partly one of two; nothing before the slowest tier, memory.
pub static SERVED_BY: Words = Words {
    name: "answer",
    values: &["nearest", "level", "between", "memory"],
    about: "the nearest level; a farther one; partly one of two; nothing before the slowest tier, memory",
};

/// To higher or to lower addresses.
pub static TOWARDS: Words =
    Words { name: "way", values: &["forward", "backward"], about: "to higher or to lower addresses" };

/// Pages that the memory is mapped in: the smallest, or the largest that is handed out.
pub static PAGE: Words = Words {
    name: "page",
    values: &["base", "huge"],
    about: "pages that the memory is mapped in: the smallest, or the largest that is handed out",
};

/// Who claims: the kernel, ID instructions and registers, firmware tables, a model's description.
pub static SOURCE: Words = Words {
    name: "source",
    values: &["sysfs", "cpuid", "ctr", "ccsidr", "devicetree", "pptt", "description"],
    about: "who claims: the kernel, ID instructions and registers, firmware tables, a model's description",
};

/// What a measurement says of a claim.
pub static VERDICT: Words = Words {
    name: "verdict",
    values: &["agrees", "disagrees", "undecided"],
    about: "what a measurement says of a claim",
};

/// Replacement policy, by the words of descriptions.
pub static POLICY: Words = Words {
    name: "policy",
    values: &[
        "lru",
        "fifo",
        "random",
        "tree-plru",
        "nru",
        "bit-plru",
        "nru-random",
        "not-mru-random",
        "srrip",
        "qlru-h00-m1-r2-u1",
    ],
    about: "replacement policy, by the words of descriptions",
};

/// None of those known, or POLICY separated by commas.
pub static POLICIES: Words = Words {
    name: "policies",
    values: &["none"],
    about: "none of those known, or POLICY separated by commas",
};

/// Does a TLB answer.
pub static TLB: Words = Words { name: "tlb", values: &["hit", "miss"], about: "does a TLB answer" };

/// Where a wake-up is looked at: the timer's interrupt, the task made runnable, the CPU switched to it, the task awake, its work done.
pub static PLACE: Words = Words {
    name: "place",
    values: &["irq", "wake", "kernel", "user", "work"],
    about: "where a wake-up is looked at: the timer's interrupt, the task made runnable, the CPU switched to it, the task awake, its work done",
};

/// What runs beside the task, or in which state its caches are; load-N is the Nth --load; timerlat is the kernel's tracer with nothing beside; imported-N is the Nth series of another tool.
pub static CONDITION: Words = Words {
    name: "condition",
    #[rustfmt::skip]
    values: &[
            "none", "study", "study-vm", "study-vm-confined", "cpu", "io", "disk", "vm", "malloc", "read", "write", "copy", "chase", "pages",
            "fault", "unmap", "warm", "flushed", "evicted",
            "load-N",
"timerlat",
            "imported-N",
],
    about: "what runs beside the task, or in which state its caches are; load-N is the Nth --load; timerlat is the kernel's tracer with nothing beside; imported-N is the Nth series of another tool",
};

/// 50 to 99.999 % of the activations are no later.
pub static PERCENTILE: Words = Words {
    name: "percentile",
    values: &["p50", "p90", "p99", "p999", "p9999", "p99999"],
    about: "50 to 99.999 % of the activations are no later",
};

/// Rounds of its workers, lines touched, page faults, bytes moved.
pub static RATE: Words = Words {
    name: "rate",
    values: &["passes", "lines", "faults", "bytes"],
    about: "rounds of its workers, lines touched, page faults, bytes moved",
};

/// What tasks wait for.
pub static RESOURCE: Words =
    Words { name: "resource", values: &["cpu", "memory", "io"], about: "what tasks wait for" };

/// Part of a wake-up: before the timer's interrupt, in it, until the CPU was the task's, until it ran; the last two in one where the switch was not seen.
pub static STAGE: Words = Words {
    name: "stage",
    values: &["before-irq", "irq-to-wakeup", "wakeup-to-switch", "switch-to-user", "wakeup-to-user"],
    about: "part of a wake-up: before the timer's interrupt, in it, until the CPU was the task's, until it ran; the last two in one where the switch was not seen",
};

/// What has the period: the timer tick, a CPU quota, the real-time throttle, the fair server; or nothing known.
pub static CAUSE: Words = Words {
    name: "cause",
    values: &["tick", "quota", "throttle", "fair-server", "unknown"],
    about: "what has the period: the timer tick, a CPU quota, the real-time throttle, the fair server; or nothing known",
};

/// Pure factor of the design: bandwidth, footprint in caches, page walks, page faults, TLB shoot-downs.
pub static FACTOR: Words = Words {
    name: "factor",
    values: &["copy", "chase", "pages", "fault", "unmap"],
    about: "pure factor of the design: bandwidth, footprint in caches, page walks, page faults, TLB shoot-downs",
};

/// What a worker of the load does.
pub static STRESS: Words = Words {
    name: "stress",
    values: &[
        "cpu", "io", "disk", "vm", "malloc", "read", "write", "copy", "chase", "pages", "fault", "unmap",
    ],
    about: "what a worker of the load does",
};

/// What becomes of a worker's block: freed each round, kept, held for N seconds.
pub static MODE: Words = Words {
    name: "mode",
    values: &["free", "keep", "hangN"],
    about: "what becomes of a worker's block: freed each round, kept, held for N seconds",
};

/// Value of `inflection.N.kind`.
pub static BREAK: Words =
    Words { name: "break", values: &["step", "ramp"], about: "value of `inflection.N.kind`" };

/// Value of `inflection.N.statistic`: p99.9, or p99 where series are short; 90 and 50 % are no later; page faults of one worker in a second.
pub static STATISTIC: Words = Words {
    name: "statistic",
    values: &["tail", "p90", "p50", "faults"],
    about: "value of `inflection.N.statistic`: p99.9, or p99 where series are short; 90 and 50 % are no later; page faults of one worker in a second",
};

/// Value of `disturbed`.
pub static DISTURBED: Words =
    Words { name: "disturbed", values: &["yes", "no"], about: "value of `disturbed`" };

/// How far the subject's clock may be believed; of what another tool measured that is unknown.
pub static TRUST: Words = Words {
    name: "trust",
    values: &["real", "virtual", "emulated", "modelled", "unknown"],
    about: "how far the subject's clock may be believed; of what another tool measured that is unknown",
};

/// Every unit that a value may have; empty for a word or a pure number. People see an `address` in hexadecimal.
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
    "%",
    "samples",
    "activations",
    "address",
];

/// Unit of a value and of its interval; empty for a text or a pure number; people see an `address` in hexadecimal.
pub static UNIT: Words = Words {
    name: "unit",
    values: UNITS,
    about: "unit of a value and of its interval; empty for a text or a pure number; people see an `address` in hexadecimal",
};

/// What a level holds.
pub static SIDE: Words =
    Words { name: "side", values: &["data", "instructions", "unified"], about: "what a level holds" };
