//! Every token that a name or a value may have.

use super::TokenKind;

/// The kinds, in display order.
pub(super) const TOKENS: &[TokenKind] = &[
    TokenKind { kind: "N", values: &[], about: "a whole number from 1" },
    TokenKind { kind: "BYTES", values: &[], about: "a whole number of bytes from 1" },
    TokenKind { kind: "STEP", values: &[], about: "a whole number of bytes from an access to the next" },
    TokenKind { kind: "K", values: &[], about: "a number of page colours" },
    TokenKind { kind: "PAGES", values: &[], about: "a number of pages, and of loads in a round" },
    TokenKind { kind: "HELP", values: &["yes", "no"], about: "value of `tier.N.colour.help`" },
    TokenKind {
        kind: "OP",
        values: &["read", "write", "rmw"],
        about: "what is done to each cell: loaded, stored to, or loaded, changed and stored",
    },
    TokenKind {
        kind: "OPERATION",
        values: &["read", "write", "rmw", "set", "copy_to", "copy_from"],
        about: "as OP; or set by 16 bytes a store, copied to from write-back memory, copied from to it",
    },
    TokenKind {
        kind: "ATTRIBUTE",
        values: &["write-back", "write-through", "normal-nc", "device", "flush"],
        about: "how memory was mapped; `flush` is write-back memory whose lines are flushed after each access",
    },
    TokenKind {
        kind: "MEMORY",
        values: fathom_analysis::attribute::TOKENS,
        about: "value of `cacheability.ATTRIBUTE.translated_as`: normal memory by its policies (`mixed`: unlike ones), \
                or device memory that may gather (G), reorder (R), be acknowledged early (E), or may not (n)",
    },
    TokenKind {
        kind: "BEHAVIOUR",
        values: &["cached", "written-through", "gathered", "non-cacheable", "device"],
        about: "loads and stores end in a cache; loads alone; neither, and neighbouring stores go together; neither; \
                neither, and stores are waited for",
    },
    TokenKind {
        kind: "BYTE",
        // As rows of a table: one a high half.
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
    },
    TokenKind {
        kind: "STRATEGY",
        values: &["streaming-copy", "uncached-copy", "zero-copy", "persistent-copy", "coherent"],
        about: "how data get between a CPU's packet and a device: through a cached buffer that is mapped each time, through \
                one that is not cached, mapping the packet itself, through a cached buffer that stays mapped and is \
                synchronised, or with the packet in the device's memory",
    },
    TokenKind { kind: "DIRECTION", values: &["to-device", "from-device"], about: "which way data go" },
    TokenKind {
        kind: "ENGINE",
        values: &["none", "edu", "dmaengine", "described"],
        about: "what moves them: nothing, QEMU's edu device, a channel of the kernel's dmaengine, a description's device",
    },
    TokenKind {
        kind: "TABLES",
        values: &["write-back", "normal-nc"],
        about: "memory type in which page-table walks fetch descriptors (TCR_EL1.IRGN0, ORGN0)",
    },
    TokenKind { kind: "SWITCH", values: &["on", "off"], about: "may hardware fetch ahead" },
    TokenKind {
        kind: "ALIAS",
        values: &["seen", "unseen"],
        about: "both mappings see each other's stores, or some were lost",
    },
    TokenKind {
        kind: "ORDER",
        // From the kindest to prefetchers to the hardest.
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
        about: "order in which a chain visits its lines: ascending, every Nth line up in passes side by side, \
                descending, every Nth line down, random inside windows, random, random and another one each time",
    },
    TokenKind {
        kind: "ANSWER",
        values: &["nearest", "level", "between", "memory"],
        about: "the nearest level; a farther one; partly one of two; nothing before the slowest tier, memory",
    },
    TokenKind { kind: "WAY", values: &["forward", "backward"], about: "to higher or to lower addresses" },
    TokenKind {
        kind: "PAGE",
        values: &["base", "huge"],
        about: "pages that the memory is mapped in: the smallest, or the largest that is handed out",
    },
    TokenKind {
        kind: "SOURCE",
        values: &["sysfs", "cpuid", "ctr", "ccsidr", "devicetree", "pptt", "description"],
        about: "who claims: the kernel, ID instructions and registers, firmware tables, a model's description",
    },
    TokenKind {
        kind: "VERDICT",
        values: &["agrees", "disagrees", "undecided"],
        about: "what a measurement says of a claim",
    },
    TokenKind {
        kind: "POLICY",
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
    },
    TokenKind {
        kind: "POLICIES",
        values: &["none"],
        about: "none of those known, or POLICY separated by commas",
    },
    TokenKind { kind: "TLB", values: &["hit", "miss"], about: "does a TLB answer" },
    TokenKind {
        kind: "PLACE",
        values: &["irq", "wake", "kernel", "user", "work"],
        about: "where a wake-up is looked at: the timer's interrupt, the task made runnable, the CPU switched to it, \
                the task awake, its work done",
    },
    TokenKind {
        kind: "CONDITION",
        // The last are loads of the user's own: as many as one may ask for.
        #[rustfmt::skip]
        values: &[
            "none", "study", "study-vm", "study-vm-confined", "cpu", "io", "disk", "vm", "malloc", "read", "write", "copy", "chase", "pages",
            "fault", "unmap", "warm", "flushed", "evicted",
            "load-1", "load-2", "load-3", "load-4", "load-5", "load-6", "load-7", "load-8", "load-9", "load-10",
            "load-11", "load-12", "load-13", "load-14", "load-15", "load-16", "load-17", "load-18",
            "timerlat",
            "imported-1", "imported-2", "imported-3", "imported-4", "imported-5", "imported-6", "imported-7", "imported-8",
            "imported-9", "imported-10", "imported-11", "imported-12", "imported-13", "imported-14", "imported-15", "imported-16",
            "imported-17", "imported-18", "imported-19", "imported-20", "imported-21", "imported-22", "imported-23", "imported-24",
            "imported-25", "imported-26", "imported-27", "imported-28", "imported-29", "imported-30", "imported-31", "imported-32",
            "imported-33", "imported-34", "imported-35", "imported-36", "imported-37", "imported-38", "imported-39", "imported-40",
            "imported-41", "imported-42", "imported-43", "imported-44", "imported-45", "imported-46", "imported-47", "imported-48",
            "imported-49", "imported-50", "imported-51", "imported-52", "imported-53", "imported-54", "imported-55", "imported-56",
            "imported-57", "imported-58", "imported-59", "imported-60", "imported-61", "imported-62", "imported-63", "imported-64",
        ],
        about: "what runs beside the task, or in which state its caches are; load-N is the Nth --load; timerlat is the \
                kernel's tracer with nothing beside; imported-N is the Nth series of another tool",
    },
    TokenKind {
        kind: "PERCENTILE",
        values: &["p50", "p90", "p99", "p999", "p9999", "p99999"],
        about: "50 to 99.999 % of the activations are no later",
    },
    TokenKind {
        kind: "RATE",
        values: &["passes", "lines", "faults", "bytes"],
        about: "rounds of its workers, lines touched, page faults, bytes moved",
    },
    TokenKind { kind: "RESOURCE", values: &["cpu", "memory", "io"], about: "what tasks wait for" },
    TokenKind {
        kind: "STAGE",
        values: &["before-irq", "irq-to-wakeup", "wakeup-to-switch", "switch-to-user", "wakeup-to-user"],
        about: "part of a wake-up: before the timer's interrupt, in it, until the CPU was the task's, until it ran; the last two in one where the switch was not seen",
    },
    TokenKind {
        kind: "CAUSE",
        values: &["tick", "quota", "throttle", "fair-server", "unknown"],
        about: "what has the period: the timer tick, a CPU quota, the real-time throttle, the fair server; or nothing known",
    },
    TokenKind {
        kind: "FACTOR",
        values: &["copy", "chase", "pages", "fault", "unmap"],
        about: "pure factor of the design: bandwidth, footprint in caches, page walks, page faults, TLB shoot-downs",
    },
    TokenKind {
        kind: "STRESS",
        values: &[
            "cpu", "io", "disk", "vm", "malloc", "read", "write", "copy", "chase", "pages", "fault", "unmap",
        ],
        about: "what a worker of the load does",
    },
    TokenKind {
        kind: "MODE",
        values: &["free", "keep", "hangN"],
        about: "what becomes of a worker's block: freed each round, kept, held for N seconds",
    },
    TokenKind { kind: "BREAK", values: &["step", "ramp"], about: "value of `inflection.N.kind`" },
    TokenKind {
        kind: "STATISTIC",
        values: &["tail", "p90", "p50", "faults"],
        about: "value of `inflection.N.statistic`: p99.9, or p99 where series are short; 90 and 50 % are no later; page faults of one worker in a second",
    },
    TokenKind {
        kind: "CURVE",
        values: &[],
        about: "value of `inflection.N.curve`: STRESS.MODE.STEP, as in the names of its cells",
    },
    TokenKind { kind: "DISTURBED", values: &["yes", "no"], about: "value of `disturbed`" },
    TokenKind {
        kind: "WORTH",
        values: &["real", "virtual", "emulated", "modelled", "unknown"],
        about: "how far the subject's clock may be believed; of what another tool measured that is unknown",
    },
    TokenKind {
        kind: "UNIT",
        values: &[
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
        ],
        about: "unit of a value and of its interval; empty for a text or a pure number; people see an `address` in hexadecimal",
    },
];
