//! Tables of CPUID.

use fathom_analysis::claims::environment::environment;
use fathom_analysis::claims::{decode, disagreements};

use crate::{NOTHING, facts, lines, tlb_lines};

#[test]
fn cpuid_and_sysfs_of_a_xeon_guest_agree() {
    let facts = facts(include_str!("fixtures/xeon-kvm-guest.facts"));
    assert_eq!(
        environment(&facts).evidence(),
        Some("CPUID says that a hypervisor is present, and names KVM.")
    );
    let decoded = decode(&facts);
    assert_eq!(
        lines(&decoded),
        [
            "sysfs 1 data 49152 = 64 x 12 x 64, by 1",
            "sysfs 1 instructions 32768 = 64 x 8 x 64, by 1",
            "sysfs 2 unified 2097152 = 64 x 16 x 2048, by 1",
            "sysfs 3 unified 110100480 = 64 x 15 x 114688, by 2",
            "cpuid 1 data 49152 = 64 x 12 x 64, by 1",
            "cpuid 1 instructions 32768 = 64 x 8 x 64, by 1",
            "cpuid 2 unified 2097152 = 64 x 16 x 2048, by 1",
            "cpuid 3 unified 110100480 = 64 x 15 x 114688, by 2",
        ]
    );
    assert_eq!(tlb_lines(&decoded), NOTHING);
    // The hypervisor cleared leaf 18H.
    assert_eq!(
        decoded.complaints,
        ["cpuid.2.0: refers to leaf 18H for the TLBs, but leaf 18H describes none"]
    );
    assert_eq!(disagreements(&decoded.claims), NOTHING);
}

#[test]
fn zen_2_is_described_by_leaf_8000_001d() {
    let decoded = decode(&facts(include_str!("fixtures/ryzen-5-3600.facts")));
    assert_eq!(
        lines(&decoded),
        [
            "cpuid 1 data 32768 = 64 x 8 x 64, by 2",
            "cpuid 1 instructions 32768 = 64 x 8 x 64, by 2",
            "cpuid 2 unified 524288 = 64 x 8 x 1024, by 2",
            "cpuid 3 unified 16777216 = 64 x 16 x 16384, by 6",
        ]
    );
    assert_eq!(
        tlb_lines(&decoded),
        [
            "cpuid 1 data 4K: 64, full",
            "cpuid 1 data 2048K: 64, full",
            "cpuid 1 data 1048576K: 64, full",
            "cpuid 1 instructions 4K: 64, full",
            "cpuid 1 instructions 2048K: 64, full",
            "cpuid 1 instructions 1048576K: 64, full",
            "cpuid 2 data 4K: 2048, 8 ways",
            "cpuid 2 data 2048K: 2048, 4 ways",
            "cpuid 2 instructions 4K: 1024, 8 ways",
            "cpuid 2 instructions 2048K: 1024, 8 ways",
        ]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

#[test]
fn k10_is_described_by_the_legacy_leaves() {
    let decoded = decode(&facts(include_str!("fixtures/athlon-ii-x2-245.facts")));
    assert_eq!(
        lines(&decoded),
        [
            "cpuid 1 data 65536 = 64 x 2 x 512, by ?",
            "cpuid 1 instructions 65536 = 64 x 2 x 512, by ?",
            "cpuid 2 unified 1048576 = 64 x 16 x 1024, by ?",
        ]
    );
    assert_eq!(
        tlb_lines(&decoded),
        [
            "cpuid 1 data 4K: 48, full",
            "cpuid 1 data 2048K: 48, full",
            "cpuid 1 data 1048576K: 48, full",
            "cpuid 1 instructions 4K: 32, full",
            "cpuid 1 instructions 2048K: 16, full",
            "cpuid 2 data 4K: 512, 4 ways",
            "cpuid 2 data 2048K: 128, 2 ways",
            "cpuid 2 data 1048576K: 16, 8 ways",
            "cpuid 2 instructions 4K: 512, 4 ways",
        ]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

#[test]
fn level_3_of_a_phenom_is_in_units_of_512_kib() {
    let phenom = include_str!("fixtures/phenom-ii-x4-940.facts");
    let decoded = decode(&facts(phenom));
    assert_eq!(
        lines(&decoded)[2..],
        ["cpuid 2 unified 524288 = 64 x 16 x 512, by ?", "cpuid 3 unified 6291456 = 64 x 48 x 2048, by ?"]
    );
    assert_eq!(decoded.complaints, NOTHING);
    // Constructed: associativity 5 is six ways, 9 refers to a missing leaf, 7 is reserved.
    let with = |level_3: &str| decode(&facts(&phenom.replace("0030B140", level_3)));
    assert_eq!(lines(&with("00305140"))[3], "cpuid 3 unified 6291456 = 64 x 6 x 16384, by ?");
    assert_eq!(lines(&with("00309140"))[3], "cpuid 3 unified 6291456 = 64 x ? x ?, by ?");
    assert_eq!(with("00307140").complaints, ["cpuid.80000006.0: associativity 7 of level 3 is reserved"]);
}

#[test]
fn northwood_is_described_by_descriptors_alone() {
    let decoded = decode(&facts(include_str!("fixtures/pentium-4-northwood.facts")));
    // Its level 1 instruction cache is a trace cache, which has no size in bytes.
    assert_eq!(
        lines(&decoded),
        ["cpuid 1 data 8192 = 64 x 4 x 32, by ?", "cpuid 2 unified 524288 = 64 x 8 x 1024, by ?"]
    );
    assert_eq!(
        tlb_lines(&decoded),
        ["cpuid 1 data 4K+4096K: 64, ?", "cpuid 1 instructions 4K+2048K+4096K: 128, ?"]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

#[test]
fn conroe_takes_caches_from_leaf_4_and_tlbs_from_leaf_2() {
    let decoded = decode(&facts(include_str!("fixtures/core-2-conroe.facts")));
    assert_eq!(
        lines(&decoded),
        [
            "cpuid 1 data 32768 = 64 x 8 x 64, by 1",
            "cpuid 1 instructions 32768 = 64 x 8 x 64, by 1",
            "cpuid 2 unified 4194304 = 64 x 16 x 4096, by 2",
        ]
    );
    // Leaf 18H is above its highest leaf and repeats another leaf: it must not be decoded.
    assert_eq!(
        tlb_lines(&decoded),
        [
            "cpuid 1 data 4K: 16, 4 ways",
            "cpuid 1 data 4096K: 16, 4 ways",
            "cpuid 1 instructions 4K: 128, 4 ways",
            "cpuid 1 instructions 2048K: 8, 4 ways",
            "cpuid 2 data 4K: 256, 4 ways",
            "cpuid 2 data 4096K: 32, 4 ways",
        ]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

#[test]
fn descriptors_of_conroe_agree_with_leaf_4() {
    let mut text = include_str!("fixtures/core-2-conroe.facts").to_owned();
    text = text.lines().filter(|line| !line.starts_with("cpuid.4.")).collect::<Vec<_>>().join("\n");
    let decoded = decode(&facts(&text));
    // 49H is level 2 on this family and model, and level 3 on the Xeon MP with the same descriptor.
    assert_eq!(
        lines(&decoded),
        [
            "cpuid 1 data 32768 = 64 x 8 x 64, by ?",
            "cpuid 1 instructions 32768 = 64 x 8 x 64, by ?",
            "cpuid 2 unified 4194304 = 64 x 16 x 4096, by ?",
        ]
    );
    let xeon_mp = text.replace("000006f6", "00000f64");
    assert!(
        lines(&decode(&facts(&xeon_mp)))
            .contains(&"cpuid 3 unified 4194304 = 64 x 16 x 4096, by ?".to_owned())
    );
}

#[test]
fn gemini_lake_describes_its_tlbs_in_leaf_18() {
    let decoded = decode(&facts(include_str!("fixtures/celeron-gemini-lake.facts")));
    assert_eq!(
        lines(&decoded),
        [
            "cpuid 1 data 24576 = 64 x 6 x 64, by 1",
            "cpuid 1 instructions 32768 = 64 x 8 x 64, by 1",
            "cpuid 2 unified 4194304 = 64 x 16 x 4096, by 8",
        ]
    );
    assert_eq!(
        tlb_lines(&decoded),
        [
            "cpuid 1 data 4K: 32, full",
            "cpuid 2 unified 4K: 512, 4 ways",
            "cpuid 2 unified 2048K+4096K: 32, 4 ways",
        ]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

#[test]
fn leaves_above_the_highest_are_ignored() {
    // Constructed: a Gemini Lake whose highest leaf is 17H, so that its leaf 18H is invalid.
    let text = include_str!("fixtures/celeron-gemini-lake.facts");
    let decoded = decode(&facts(&text.replace("00000018 756e6547", "00000017 756e6547")));
    assert_eq!(tlb_lines(&decoded), NOTHING);
    assert_eq!(
        decoded.complaints,
        ["cpuid.2.0: refers to leaf 18H for the TLBs, but leaf 18H describes none"]
    );
}

#[test]
fn line_of_two_partitions_is_twice_as_long() {
    // Constructed: the level 2 of a Conroe with 128-byte lines of two 64-byte partitions and half the sets.
    let text = include_str!("fixtures/core-2-conroe.facts")
        .replace("04004143 03c0003f 00000fff", "04004143 03c0103f 000007ff");
    assert!(
        lines(&decode(&facts(&text))).contains(&"cpuid 2 unified 4194304 = 128 x 16 x 2048, by 2".to_owned())
    );
}

#[test]
fn descriptors_63h_and_c3h_have_a_second_array() {
    // Constructed: 63H and C3H, as on Skylake, in a Northwood's leaf.
    let text = include_str!("fixtures/pentium-4-northwood.facts").replace("007B7040", "0000C363");
    assert_eq!(
        tlb_lines(&decode(&facts(&text))),
        [
            "cpuid 1 data 4K+4096K: 64, ?",
            "cpuid 1 data 2048K+4096K: 32, 4 ways",
            "cpuid 1 data 1048576K: 4, 4 ways",
            "cpuid 1 instructions 4K+2048K+4096K: 128, ?",
            "cpuid 2 unified 4K+2048K: 1536, 6 ways",
            "cpuid 2 unified 1048576K: 16, 4 ways",
        ]
    );
}
