//! Claims of descriptions, numbered by level, and comparisons of claims.

use fathom_analysis::claims::{FactValue, Facts, decode, disagreements};

use crate::{NOTHING, facts, ints, lines, tlb_lines};

#[test]
fn described_levels_are_numbered_by_side() {
    let level = |n: u64, holds: &str, size: u64, ways: u64, shared: u64| {
        let key = |key: &str| format!("described.level.{n}.{key}");
        [
            (key("name"), FactValue::Text(format!("level {n}"))),
            (key("holds"), FactValue::Text(holds.to_owned())),
            (key("size"), FactValue::Int(size)),
            (key("line"), FactValue::Int(64)),
            (key("ways"), FactValue::Int(ways)),
            (key("shared"), FactValue::Int(shared)),
        ]
    };
    let facts: Facts = level(1, "data", 49152, 3, 0)
        .into_iter()
        .chain(level(2, "instructions", 32768, 8, 0))
        .chain(level(3, "unified", 3 << 20, 12, 1))
        .chain(level(10, "unified", 64 << 20, 16, 8))
        .chain([
            ("described.tlb.1.entries".to_owned(), FactValue::Int(10)),
            ("described.tlb.1.ways".to_owned(), FactValue::Int(10)),
            ("described.tlb.2.entries".to_owned(), FactValue::Int(1536)),
            ("described.tlb.2.ways".to_owned(), FactValue::Int(6)),
        ])
        .collect();
    let decoded = decode(&facts);
    assert_eq!(
        lines(&decoded),
        [
            "description 1 data 49152 = 64 x 3 x 256, by 1",
            "description 1 instructions 32768 = 64 x 8 x 64, by 1",
            "description 2 unified 3145728 = 64 x 12 x 4096, by ?",
            "description 3 unified 67108864 = 64 x 16 x 65536, by 8",
        ]
    );
    assert_eq!(
        tlb_lines(&decoded),
        ["description 1 unified : 10, full", "description 2 unified : 1536, 6 ways"]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

#[test]
fn unified_level_follows_the_longer_side() {
    // Constructed: two data levels before a unified one, and no instruction cache.
    let holds = ["data", "data", "unified"];
    let facts = (1..)
        .zip(holds)
        .map(|(n, holds)| (format!("described.level.{n}.holds"), FactValue::Text(holds.to_owned())));
    let levels: Vec<u8> = decode(&facts.collect()).claims.iter().map(|claim| claim.level).collect();
    assert_eq!(levels, [1, 2, 3]);
}

#[test]
fn fully_associative_caches_are_reported() {
    // Constructed: Linux reports 0 ways for them; the ways follow from size and line.
    let sysfs = "sysfs.cpu0.cache.index0.level t 1\nsysfs.cpu0.cache.index0.type t Data\n\
                 sysfs.cpu0.cache.index0.size t 4K\nsysfs.cpu0.cache.index0.ways_of_associativity t 0\n\
                 sysfs.cpu0.cache.index0.number_of_sets t 1\nsysfs.cpu0.cache.index0.coherency_line_size t 64\n\
                 sysfs.cpu0.cache.index0.shared_cpu_list t 0-3,8";
    let decoded = decode(&facts(sysfs));
    assert_eq!(lines(&decoded), ["sysfs 1 data 4096 = 64 x 64 (full) x 1, by 5"]);
}

#[test]
fn disagreements_are_plain_sentences() {
    let text = include_str!("fixtures/xeon-kvm-guest.facts")
        .replace("index0.size t 48K", "index0.size t 32K")
        .replace("index0.ways_of_associativity t 12", "index0.ways_of_associativity t 8")
        .replace("index3.size t 107520K", "index3.size t 1792K")
        .replace("index3.number_of_sets t 114688", "index3.number_of_sets t 1792")
        .replace("index3.ways_of_associativity t 15", "index3.ways_of_associativity t 16")
        .replace("index2.type t Unified", "index2.type t Data");
    let decoded = decode(&facts(&text));
    assert_eq!(
        disagreements(&decoded.claims),
        [
            "The sources disagree about the size of level 1 (data): sysfs says 32 KiB, cpuid says 48 KiB.",
            "The sources disagree about the ways of level 1 (data): sysfs says 8, cpuid says 12.",
            "The sources disagree about what level 2 holds: sysfs says data, cpuid says unified.",
            "The sources disagree about the size of level 3: sysfs says 1792 KiB, cpuid says 105 MiB.",
            "The sources disagree about the ways of level 3: sysfs says 16, cpuid says 15.",
            "The sources disagree about the sets of level 3: sysfs says 1792, cpuid says 114688.",
        ]
    );
    // The cache type register has the smallest line of all caches; a cache may have a longer one.
    let smallest = |data: u64, level_2: u64| {
        let decoded = decode(&ints(&[
            ("arm.ctr_el0", 0x8444_c004),
            ("arm.clidr_el1", 0x0a20_0023),
            ("arm.ccsidr_el1.1.data", data),
            ("arm.ccsidr_el1.1.instructions", 0x201f_e012),
            ("arm.ccsidr_el1.2.data", level_2),
        ]));
        disagreements(&decoded.claims)
    };
    assert_eq!(smallest(0x701f_e00a, 0x70ff_e07b), NOTHING);
    assert_eq!(
        smallest(0x701f_e00b, 0x70ff_e07b),
        ["The sources disagree about the smallest line (data): ctr says 64 B, ccsidr says 128 B."]
    );
    assert_eq!(
        smallest(0x701f_e009, 0x70ff_e07b),
        ["The sources disagree about the smallest line (data): ctr says 64 B, ccsidr says 32 B."]
    );
}
