//! The one list of what findings are called, in which unit, and of every token in a name.
//!
//! Whatever is printed for people ([`schema_text`]) or for tools ([`schema_json`]) comes from it.

use serde_json::{Value, json};

/// The `format` of the document that `--json` prints.
pub const FORMAT: &str = "fathom.findings";

/// The `version` of that document. It grows only when an old reader would misread a new document;
/// a name more is not such a change.
pub const VERSION: u64 = 1;

/// One name that a finding may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// Dotted path; a part in capitals is a placeholder, explained by the [`TokenKind`] of that kind.
    pub pattern: &'static str,
    /// The units that the value may have; an empty one for a text or a pure number.
    pub units: &'static [&'static str],
    /// The kind of token that the value is; `None` where the value is a number.
    pub value: Option<&'static str>,
    /// What it says, in one line.
    pub about: &'static str,
    /// The `version` of the document that first had it.
    pub since: u64,
}

/// One kind of token, and every token of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenKind {
    /// The word in capitals that stands for it.
    pub kind: &'static str,
    /// Every token of the kind; empty where it is any whole number from 1.
    pub values: &'static [&'static str],
    /// What it says, in one line.
    pub about: &'static str,
}

/// A warning's stable token and what it says in one line. The list is kept where warnings are made,
/// in a crate that does not know this one; so it is handed in, as plain text.
pub type WarningKind = (&'static str, &'static str);

const fn number(pattern: &'static str, units: &'static [&'static str], about: &'static str) -> NamePattern {
    NamePattern { pattern, units, value: None, about, since: 1 }
}

const fn word(pattern: &'static str, kind: &'static str, about: &'static str) -> NamePattern {
    NamePattern { pattern, units: &[""], value: Some(kind), about, since: 1 }
}

/// What a measurement says of a claim; the interval and its unit are the measurement's.
const fn verdict(pattern: &'static str, units: &'static [&'static str], about: &'static str) -> NamePattern {
    NamePattern { units, ..word(pattern, "VERDICT", about) }
}

const NAMES: &[NamePattern] = &[
    word("disturbed", "DISTURBED", "did other work disturb the measurement; the causes are in the notes"),
    number("bias.timer", &["ticks", "cycles"], "what reading the clock adds to a timed interval"),
    number("bias.walk", &["ns"], "translation in a load of the staircase's largest steps; base pages only"),
    number(
        "bias.sample",
        &["cycles", "ns"],
        "what timing adds to a sample of single loads; taken off the peaks, not off the histograms",
    ),
    number("clock.core_hz", &["Hz"], "core clock while measuring, from a chain of dependent instructions"),
    number("clock.tick_hz", &["Hz"], "rate of the counter that was read"),
    number(
        "latency.BYTES.time",
        &["ns"],
        "load-to-use time at a working set of BYTES, in an order that no prefetch foresees",
    ),
    number("latency.BYTES.cycles", &["cycles"], "the same in core cycles"),
    number(
        "latency.BYTES.peak",
        &["cycles", "ns"],
        "median of the largest group of single loads, a load, less the bias",
    ),
    number(
        "latency.BYTES.order.ORDER.time",
        &["ns"],
        "ladder of orders: load-to-use time at a working set of BYTES in this order",
    ),
    number("latency.BYTES.order.ORDER.peak", &["cycles", "ns"], "the main peak of its single loads"),
    number(
        "latency.BYTES.page.PAGE.time",
        &["ns"],
        "ladder of pages: the same in random order and pages of this kind; null where they were refused",
    ),
    number("latency.BYTES.page.PAGE.peak", &["cycles", "ns"], "the main peak of its single loads"),
    number("latency.BYTES.placement.N.time", &["ns"], "ladder of placements: the same at the Nth place"),
    word("latency.BYTES.tlb", "TLB", "do the loads of random order walk"),
    number(
        "stride.BYTES.STEP.OP.time_per_access",
        &["ns"],
        "time of one of many independent accesses, STEP bytes apart, round a working set of BYTES",
    ),
    number(
        "stride.BYTES.STEP.OP.time_per_line",
        &["ns"],
        "the same for all accesses to a line; the notes say how long a line is taken to be",
    ),
    number("stride.BYTES.STEP.OP.ratio", &[""], "time an access over that at the smallest step"),
    number(
        "stride.BYTES.STEP.OP.unfaulted.time_per_access",
        &["ns"],
        "the same where each page is touched for the first time while it is timed",
    ),
    number(
        "stride.BYTES.STEP.OP.unfaulted.faults_per_page",
        &[""],
        "page faults a page that was touched, as the kernel counted them",
    ),
    number(
        "stride.BYTES.STEP.OP.unfaulted.added_per_page",
        &["ns"],
        "what the accesses to a page take more than in memory that is there",
    ),
    number(
        "stride.BYTES.line",
        &["bytes"],
        "step from which on a read takes no longer; null where prefetch or overlap hides it, as the notes say",
    ),
    word(
        "stride.BYTES.answer",
        "ANSWER",
        "what answers dependent loads round a working set of BYTES; the sentence is in the notes",
    ),
    number(
        "stride.ratio",
        &[""],
        "a lap of the largest working set at the smallest step over one at 64 bytes, as study S3 has it",
    ),
    number("tier.N.latency", &["ns"], "load-to-use time of the Nth tier, counted from the core"),
    number("tier.N.latency_cycles", &["cycles"], "the same in core cycles"),
    number("tier.N.capacity", &["bytes"], "largest working set before the rise; the last tier has none"),
    number("line", &["bytes"], "line of the nearest level: so far apart two addresses fall into two sets"),
    number(
        "tier.N.line",
        &["bytes"],
        "the same of a farther level, or how far a load of it spares the next one",
    ),
    number("tier.N.ways", &[""], "ways of the level behind the Nth tier, from who conflicts with whom"),
    number("tier.N.sets", &[""], "its sets"),
    word("tier.N.policies", "POLICIES", "replacement policies that what left its sets does not reject"),
    number(
        "evicted.N.N.share",
        &[""],
        "share of the laps in which the Nth tier's line loaded N loads ago was gone",
    ),
    number("pair.N.BYTES.time", &["ns"], "beyond the Nth tier: a load BYTES after another of the same pair"),
    number("pair.N.reach", &["bytes"], "how far a load brings its neighbours along, where beyond its line"),
    number(
        "conflict.N.misses_per_round",
        &[""],
        "of N reads 4 KiB apart, round and round, those that miss the nearest level",
    ),
    number("conflict.N.time_per_round", &["ns"], "time of such a round of independent reads"),
    number("conflict.N.base.misses_per_round", &[""], "the same in base pages"),
    number("conflict.N.base.time_per_round", &["ns"], "the same in base pages"),
    number(
        "conflict.N.expected.POLICY",
        &[""],
        "misses a round of N lines, one more than ways, under a policy",
    ),
    word(
        "tier.N.colour.help",
        "HELP",
        "can page colours spread conflicts in the Nth tier; why, or what it would take, is in the notes",
    ),
    number(
        "tier.N.colour.K.PAGES.misses_per_round",
        &[""],
        "misses of the Nth tier in a round of one load in each of PAGES different pages of K colours",
    ),
    number("tier.N.colour.K.PAGES.time_per_round", &["ns"], "time of that round"),
    number(
        "tier.N.colour.shared.PAGES.misses_per_round",
        &[""],
        "the same of PAGES pages that share one frame, as untouched memory shares the kernel's page of zeros",
    ),
    number("tier.N.colour.shared.PAGES.time_per_round", &["ns"], "time of that round"),
    number("tlb.N.entries", &[""], "pages that the Nth TLB reaches"),
    number(
        "tlb.N.penalty",
        &["ns"],
        "what a load pays more when the Nth TLB misses and the next one answers",
    ),
    number("tlb.N.ways", &[""], "its ways, from pages that conflict"),
    number("tlb.N.sets", &[""], "its sets; one where it is fully associative"),
    number("tlb.huge.N.entries", &[""], "huge pages that the Nth TLB for them reaches; notes: their size"),
    number("tlb.huge.N.penalty", &["ns"], "what a load pays more when it misses and the next one answers"),
    number("tlb.huge.pages", &[""], "huge pages up to which no rise was seen; only where none was"),
    number("walk.latency", &["ns"], "what a page walk adds to a load"),
    number("walk.share", &[""], "part of the time of a random far load that is translation, 0 to 1"),
    number("pages.N.extra", &["ns"], "what a load pays more on N pages than on as many lines packed"),
    number("prefetch.ORDER.time", &["ns"], "time a load when a large working set is read in this order"),
    number("prefetch.worth", &[""], "time in random order over that in ascending order"),
    number(
        "prefetch.reach.WAY",
        &[""],
        "longest stride, in lines, up to which all are clearly faster than a random order inside pages",
    ),
    number(
        "prefetch.temporal",
        &[""],
        "time in an order that never comes again over that in a random one that does",
    ),
    number(
        "claim.SOURCE.level.N.size",
        &["bytes"],
        "size of the Nth level, as SOURCE says; notes: what it holds",
    ),
    number("claim.SOURCE.level.N.line", &["bytes"], "its line, as SOURCE says"),
    number("claim.SOURCE.level.N.ways", &[""], "its ways, as SOURCE says"),
    number("claim.SOURCE.level.N.sets", &[""], "its sets, as SOURCE says"),
    word(
        "verdict.level.N.size",
        "VERDICT",
        "is the claimed size what was measured; the sentence is in the notes",
    ),
    verdict("verdict.level.N.line", &[""], "is the claimed line what was measured"),
    verdict("verdict.level.N.ways", &[""], "are the claimed ways what was measured"),
    verdict("verdict.level.N.sets", &[""], "are the claimed sets what was measured"),
    verdict("against.core.clock", &["Hz"], "report --against: is the described core clock what was measured"),
    verdict("against.tiers", &[""], "are there as many tiers as the description has levels"),
    verdict("against.level.N.size", &["bytes"], "is the described size; the interval is the measured one"),
    verdict("against.level.N.latency", &["cycles", "ns"], "is the described latency"),
    verdict("against.level.N.line", &["bytes"], "is the described line, where one was measured"),
    verdict("against.level.N.ways", &[""], "are the described ways, where they were measured"),
    verdict("against.level.N.sets", &[""], "are the described sets, where they were measured"),
    verdict("against.level.N.replacement", &[""], "is the described policy among those that fit"),
    verdict("against.memory.latency", &["cycles", "ns"], "is the described latency of memory"),
    verdict("against.tlbs", &[""], "are there as many TLBs as described and to be seen"),
    verdict("against.tlb.N.entries", &[""], "are the described entries of the Nth TLB"),
    verdict("against.tlb.N.penalty", &["cycles", "ns"], "is what its miss costs, of the last one the walk"),
    verdict("against.tlb.N.ways", &[""], "are its described ways, where they were measured"),
    number("expected.core.clock", &["Hz"], "report --against: the described core clock"),
    number("expected.tiers", &[""], "levels that the description has before memory"),
    number("expected.level.N.size", &["bytes"], "where the Nth level as described should end"),
    number("expected.level.N.latency", &["cycles", "ns"], "a load's time from it as described"),
    number("expected.level.N.line", &["bytes"], "its described line"),
    number("expected.level.N.ways", &[""], "its described ways"),
    number("expected.level.N.sets", &[""], "its described sets"),
    word("expected.level.N.replacement", "POLICY", "its described replacement policy"),
    number("expected.memory.latency", &["cycles", "ns"], "a load's time from memory as described"),
    number("expected.tlbs", &[""], "TLBs that a survey of the description should see"),
    number("expected.tlb.N.entries", &[""], "entries of the Nth TLB as described"),
    number("expected.tlb.N.penalty", &["cycles", "ns"], "what its miss should cost as described"),
    number("expected.tlb.N.ways", &[""], "its described ways"),
];

const TOKENS: &[TokenKind] = &[
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
        kind: "ORDER",
        values: &[
            "sequential",
            "window",
            "random",
            "reversed",
            "forward2",
            "forward3",
            "forward4",
            "forward5",
            "forward6",
            "forward7",
            "forward8",
            "backward2",
            "backward3",
            "backward4",
            "backward5",
            "backward6",
            "backward7",
            "backward8",
            "repermuted",
        ],
        about: "order in which a chain visits its lines: ascending, random inside windows, random, descending, \
                every Nth line up or down in passes side by side, random and another one each time",
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
        values: &["", "bytes", "ns", "cycles", "ticks", "Hz"],
        about: "unit of a value and of its interval; empty for a text or a pure number",
    },
];

/// Every name that a finding may have, in display order.
#[must_use]
pub fn names() -> &'static [NamePattern] {
    NAMES
}

/// Every kind of token. Warnings are a kind too, whose list is kept where warnings are made.
#[must_use]
pub fn tokens() -> &'static [TokenKind] {
    TOKENS
}

/// The tokens of one kind; none for a kind that is a whole number or does not exist.
#[must_use]
pub fn values(kind: &str) -> &'static [&'static str] {
    TOKENS.iter().find(|k| k.kind == kind).map_or(&[], |k| k.values)
}

/// Is `part` of a pattern a placeholder (in capitals) rather than a word?
fn is_placeholder(part: &str) -> bool {
    part.bytes().all(|b| b.is_ascii_uppercase())
}

/// A whole number from 1, written as [`u64`] prints it.
fn is_whole(part: &str) -> bool {
    part.parse::<u64>().is_ok_and(|n| n >= 1 && n.to_string() == part)
}

fn part_matches(pattern: &str, part: &str) -> bool {
    if !is_placeholder(pattern) {
        return pattern == part;
    }
    match values(pattern) {
        [] => is_whole(part),
        tokens => tokens.contains(&part),
    }
}

/// The pattern that `name` follows, if one does.
#[must_use]
pub fn matches(name: &str) -> Option<&'static NamePattern> {
    NAMES.iter().find(|n| {
        let (mut patterns, mut parts) = (n.pattern.split('.'), name.split('.'));
        loop {
            match (patterns.next(), parts.next()) {
                (None, None) => return true,
                (Some(pattern), Some(part)) if part_matches(pattern, part) => {}
                _ => return false,
            }
        }
    })
}

/// The list for people, within 100 columns: names with unit and meaning, then the tokens.
#[must_use]
pub fn schema_text(warnings: &[WarningKind]) -> String {
    let mut out = format!("format {FORMAT}, version {VERSION}\n\nNames of findings\n");
    for n in NAMES {
        let kind = match n.value {
            Some(kind) => kind.to_string(),
            None if n.units == [""] => "number".to_string(),
            None => n.units.join(" or "),
        };
        out += &entry(n.pattern, &format!("[{kind}] {}", n.about));
    }
    out += "\nTokens\n";
    for k in TOKENS {
        let list: Vec<&str> = k.values.iter().map(|v| if v.is_empty() { "(none)" } else { v }).collect();
        let text =
            if list.is_empty() { k.about.to_string() } else { format!("{}: {}", k.about, list.join(", ")) };
        out += &entry(k.kind, &text);
    }
    out += "\nOther documents\n";
    for (format, about) in DOCUMENTS {
        out += &entry(format, about);
    }
    if !warnings.is_empty() {
        out += "\nWarnings\n";
        for (token, about) in warnings {
            out += &entry(token, about);
        }
    }
    out
}

/// What else is printed for scripts, all of version 1.
const DOCUMENTS: [(&str, &str); 3] = [
    (
        crate::json::COMPARISON,
        "`fathom compare --json`; its JSON Schema: `fathom schema --json --of comparison`",
    ),
    (
        crate::json::EXAMINATION,
        "`fathom doctor --json`: subject, and rows of what, state, found, cost and line",
    ),
    ("fathom.share", "`fathom share --as yaml`: an anonymous summary"),
];

/// Columns that [`schema_text`] keeps within.
const TEXT_WIDTH: usize = 100;

/// A name and its explanation beside it, wrapped under itself.
fn entry(name: &str, text: &str) -> String {
    let head = format!("  {name:<26} ");
    let under = " ".repeat(29);
    let options = textwrap::Options::new(TEXT_WIDTH)
        .initial_indent(&head)
        .subsequent_indent(&under)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

/// A regular expression (ECMA 262, as JSON Schema wants) for one pattern.
fn regex(pattern: &str) -> String {
    let parts: Vec<String> = pattern
        .split('.')
        .map(|part| match (is_placeholder(part), values(part)) {
            (false, _) => part.to_string(),
            (true, []) => "[1-9][0-9]*".to_string(),
            (true, tokens) => format!("({})", tokens.join("|")),
        })
        .collect();
    format!("^{}$", parts.join("\\."))
}

/// A regular expression for one or more policies.
fn policies() -> String {
    let (none, one) = (values("POLICIES").join("|"), values("POLICY").join("|"));
    format!("^({none}|({one})(,({one}))*)$")
}

/// A closed object: every property required, none other allowed.
pub(crate) fn closed(about: &str, properties: Value) -> Value {
    let keys: Vec<&str> =
        properties.as_object().map_or(Vec::new(), |o| o.keys().map(String::as_str).collect());
    json!({
        "description": about,
        "type": "object",
        "required": keys,
        "additionalProperties": false,
        "properties": properties,
    })
}

fn finding_schema() -> Value {
    let mut row = closed(
        "One finding: a flat row.",
        json!({
            "name": {"description": "Dotted path, stable.", "type": "string"},
            "value": {
                "description": "A number in `unit`, or a text; null where no finite number came out (see the notes).",
                "type": ["number", "string", "null"],
            },
            "unit": {"enum": values("UNIT")},
            "low": {"description": "Lower end of the 95 % interval, in `unit`.", "type": ["number", "null"]},
            "high": {"description": "Upper end of the 95 % interval, in `unit`.", "type": ["number", "null"]},
            "count": {"description": "Samples that the value rests on.", "type": "integer", "minimum": 0},
            "trials": {
                "description": "Ids in the record of the trials that they came from.",
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
            },
            "notes": {
                "description": "Bias notes, conditions, causes; a sentence each.",
                "type": "array",
                "items": {"type": "string"},
            },
        }),
    );
    row["anyOf"] = NAMES
        .iter()
        .map(|n| {
            let value = match n.value {
                Some("POLICIES") => json!({"type": "string", "pattern": policies()}),
                Some(kind) => json!({"enum": values(kind)}),
                None => json!({"type": ["number", "null"]}),
            };
            json!({
                "title": n.pattern,
                "description": format!("{}; since version {}", n.about, n.since),
                "properties": {"name": {"pattern": regex(n.pattern)}, "unit": {"enum": n.units}, "value": value},
            })
        })
        .collect();
    row
}

fn histogram_schema() -> Value {
    closed(
        "A histogram of raw samples.",
        json!({
            "name": {"type": "string"},
            "bytes": {"description": "Working set, bytes.", "type": "integer", "minimum": 0},
            "unit": {"enum": values("UNIT")},
            "loads_per_sample": {"description": "Loads that one sample timed.", "type": "integer", "minimum": 0},
            "counts": {
                "description": "[value, count], ascending in value.",
                "type": "array",
                "items": {
                    "type": "array",
                    "prefixItems": [{"type": ["number", "null"]}, {"type": "integer", "minimum": 0}],
                    "items": false,
                    "minItems": 2,
                },
            },
        }),
    )
}

/// The JSON Schema (draft 2020-12) of the document that `--json` prints, indented.
///
/// `warnings` is the list of warnings that this build may give; an empty one allows any token.
#[must_use]
pub fn schema_json(warnings: &[WarningKind]) -> String {
    let token = if warnings.is_empty() {
        json!({"type": "string"})
    } else {
        json!({"enum": warnings.iter().map(|w| w.0).collect::<Vec<_>>()})
    };
    let subject = closed(
        "What was measured.",
        json!({
            "name": {"description": "The subject's name as the user typed it.", "type": "string"},
            "worth": {"description": "How far its clock may be believed.", "enum": values("WORTH")},
            "facts": {"type": "object", "additionalProperties": {"type": "string"}},
        }),
    );
    let refusal = closed(
        "A reasoned \"not here\", with the remedy.",
        json!({"what": {"type": "string"}, "reason": {"type": "string"}, "remedy": {"type": "string"}}),
    );
    let warning = closed(
        "What to know before trusting the findings.",
        json!({"token": token, "text": {"type": "string"}, "remedy": {"type": "string"}}),
    );
    let mut document = closed(
        "Everything that one experiment says.",
        json!({
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "experiment": {"type": "string"},
            "subject": subject,
            "seed": {"description": "The plan's seed, 64 bits.", "type": "integer", "minimum": 0},
            "elapsed_s": {"description": "Wall time that the measurement took, seconds.", "type": ["number", "null"]},
            "findings": {"type": "array", "items": finding_schema()},
            "histograms": {"type": "array", "items": histogram_schema()},
            "refusals": {"type": "array", "items": refusal},
            "warnings": {"type": "array", "items": warning},
        }),
    );
    let mut schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": FORMAT});
    if let (Some(head), Some(rest)) = (schema.as_object_mut(), document.as_object_mut()) {
        head.append(rest);
    }
    format!("{schema:#}\n")
}

#[cfg(test)]
mod tests;
