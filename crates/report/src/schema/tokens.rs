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
    TokenKind { kind: "ALIAS", values: &["seen"], about: "both mappings see each other's stores" },
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
    TokenKind { kind: "DISTURBED", values: &["yes", "no"], about: "value of `disturbed`" },
    TokenKind {
        kind: "WORTH",
        values: &["real", "virtual", "emulated", "modelled"],
        about: "how far the subject's clock may be believed",
    },
    TokenKind {
        kind: "UNIT",
        values: &["", "bytes", "ns", "ms", "cycles", "ticks", "Hz", "%", "samples", "address"],
        about: "unit of a value and of its interval; empty for a text or a pure number; people see an `address` in hexadecimal",
    },
];
