//! Real tables, and constructed ones for what no dump at hand shows.

use fathom_analysis::claims::environment::environment;
use fathom_analysis::claims::{FactValue, Facts, decode, disagreements};

use crate::{bytes, facts, ints, lines, one, tlb_lines};

const NOTHING: [&str; 0] = [];

#[test]
fn this_kind_of_server_claims_the_same_through_cpuid_and_sysfs() {
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
    // The hypervisor emptied leaf 18H.
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
fn the_level_3_of_a_phenom_is_counted_in_half_mebibytes() {
    let phenom = include_str!("fixtures/phenom-ii-x4-940.facts");
    let decoded = decode(&facts(phenom));
    assert_eq!(
        lines(&decoded)[2..],
        ["cpuid 2 unified 524288 = 64 x 16 x 512, by ?", "cpuid 3 unified 6291456 = 64 x 48 x 2048, by ?"]
    );
    assert_eq!(decoded.complaints, NOTHING);
    // Constructed: associativity 5 is six ways, 9 refers to a leaf that is not there, 7 is reserved.
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
    // Leaf 18H lies above its highest leaf and is an echo: nothing may come of it.
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
fn without_leaf_4_the_descriptors_of_conroe_say_the_same() {
    let mut text = include_str!("fixtures/core-2-conroe.facts").to_owned();
    text = text.lines().filter(|line| !line.starts_with("cpuid.4.")).collect::<Vec<_>>().join("\n");
    let decoded = decode(&facts(&text));
    // 49H is level 2 on this family and model, and level 3 on the Xeon MP that shares the byte.
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
fn leaves_above_the_highest_are_echoes() {
    // Constructed: a Gemini Lake whose highest leaf is 17H. Its leaf 18H is then no leaf.
    let text = include_str!("fixtures/celeron-gemini-lake.facts");
    let decoded = decode(&facts(&text.replace("00000018 756e6547", "00000017 756e6547")));
    assert_eq!(tlb_lines(&decoded), NOTHING);
    assert_eq!(
        decoded.complaints,
        ["cpuid.2.0: refers to leaf 18H for the TLBs, but leaf 18H describes none"]
    );
}

#[test]
fn a_line_in_two_partitions_is_twice_as_long() {
    // Constructed: the level 2 of a Conroe with 64-byte parts of 128-byte lines, of half the sets.
    let text = include_str!("fixtures/core-2-conroe.facts")
        .replace("04004143 03c0003f 00000fff", "04004143 03c0103f 000007ff");
    assert!(
        lines(&decode(&facts(&text))).contains(&"cpuid 2 unified 4194304 = 128 x 16 x 2048, by 2".to_owned())
    );
}

#[test]
fn two_descriptors_name_a_second_array() {
    // Constructed: 63H and C3H, as on Skylake, in a Northwood's frame.
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

#[test]
fn cortex_a72_in_the_32_bit_layout() {
    // Register values of the Cortex-A57 and A72 as QEMU 9 has them after Arm's manuals (2 MiB of level 2).
    let decoded = decode(&ints(&[
        ("arm.ctr_el0", 0x8444_c004),
        ("arm.clidr_el1", 0x0a20_0023),
        ("arm.ccidx", 0),
        ("arm.ccsidr_el1.1.data", 0x701f_e00a),
        ("arm.ccsidr_el1.1.instructions", 0x201f_e012),
        ("arm.ccsidr_el1.2.data", 0x70ff_e07a),
        ("arm.midr_el1", 0x410f_d083),
    ]));
    assert_eq!(
        lines(&decoded),
        [
            "ctr 1 data ? = 64 x ? x ?, by ?",
            "ctr 1 instructions ? = 64 x ? x ?, by ?",
            "ccsidr 1 data 32768 = 64 x 2 x 256, by ?",
            "ccsidr 1 instructions 49152 = 64 x 3 x 256, by ?",
            "ccsidr 2 unified 2097152 = 64 x 16 x 2048, by ?",
        ]
    );
    assert_eq!(decoded.complaints, NOTHING);
    assert_eq!(disagreements(&decoded.claims), NOTHING);
}

#[test]
fn cortex_a53_and_a15_in_the_32_bit_layout() {
    // Values of the Cortex-A53 (1 MiB) and the Cortex-A15 (4 MiB) as QEMU has them after Arm's manuals.
    let a53 = decode(&ints(&[
        ("arm.clidr_el1", 0x0a20_0023),
        ("arm.ccsidr_el1.1.data", 0x700f_e01a),
        ("arm.ccsidr_el1.1.instructions", 0x201f_e00a),
        ("arm.ccsidr_el1.2.data", 0x707f_e07a),
    ]));
    assert_eq!(
        lines(&a53),
        [
            "ccsidr 1 data 32768 = 64 x 4 x 128, by ?",
            "ccsidr 1 instructions 32768 = 64 x 2 x 256, by ?",
            "ccsidr 2 unified 1048576 = 64 x 16 x 1024, by ?",
        ]
    );
    let a15 = decode(&ints(&[("arm.clidr_el1", 0x0a20_0023), ("arm.ccsidr_el1.2.data", 0x711f_e07a)]));
    // Published as one of 4 MiB, which would be 4096 sets; its value says 2304, and so does the claim.
    assert_eq!(lines(&a15), ["ccsidr 2 unified 2359296 = 64 x 16 x 2304, by ?"]);
}

#[test]
fn the_64_bit_layout_of_ccsidr() {
    // Constructed from DDI 0487: 64 KiB, 4 ways, 256 sets of 64 bytes; and 3 ways x 1536 sets.
    let decoded = decode(&ints(&[
        ("arm.clidr_el1", 0x23),
        ("arm.ccidx", 1),
        ("arm.ccsidr_el1.1.data", 255 << 32 | 3 << 3 | 2),
        ("arm.ccsidr_el1.1.instructions", 255 << 32 | 3 << 3 | 2),
        ("arm.ccsidr_el1.2.data", 1535 << 32 | 2 << 3 | 2),
    ]));
    assert_eq!(
        lines(&decoded),
        [
            "ccsidr 1 data 65536 = 64 x 4 x 256, by ?",
            "ccsidr 1 instructions 65536 = 64 x 4 x 256, by ?",
            "ccsidr 2 unified 294912 = 64 x 3 x 1536, by ?",
        ]
    );
    // The same value without arm.ccidx cannot be a 32-bit one.
    let decoded = decode(&ints(&[("arm.clidr_el1", 0x2), ("arm.ccsidr_el1.1.data", 255 << 32 | 3 << 3 | 2)]));
    assert_eq!(decoded.claims, []);
    assert_eq!(
        decoded.complaints,
        ["arm.ccsidr_el1.1.data: has bits above 31 in the 32-bit layout: is arm.ccidx missing?"]
    );
}

#[test]
fn the_widest_fields_of_ccsidr() {
    // Constructed: every bit of the fields set, in both layouts; neighbouring bits clear.
    let narrow = decode(&ints(&[("arm.clidr_el1", 2), ("arm.ccsidr_el1.1.data", 0x0fff_ffff)]));
    assert_eq!(lines(&narrow), ["ccsidr 1 data 68719476736 = 2048 x 1024 x 32768, by ?"]);
    let wide = 0xff_ffff << 32 | 0xff_ffff;
    let wide = decode(&ints(&[("arm.clidr_el1", 2), ("arm.ccidx", 1), ("arm.ccsidr_el1.1.data", wide)]));
    assert_eq!(lines(&wide), ["ccsidr 1 data 72057594037927936 = 2048 x 2097152 x 16777216, by ?"]);
}

#[test]
fn a_hypervisor_that_hides_the_geometry_makes_no_claim() {
    // Constructed: what Linux's KVM answers its guests since 6.3.
    let decoded = decode(&ints(&[("arm.clidr_el1", 0x2), ("arm.ccsidr_el1.1.data", 2)]));
    assert_eq!(decoded.claims, []);
    assert_eq!(
        decoded.complaints,
        ["arm.ccsidr_el1.1.data: describes one set of one way: a hypervisor hides the geometry"]
    );
}

#[test]
fn clidr_and_ccsidr_must_fit_each_other() {
    let decoded = decode(&ints(&[
        ("arm.clidr_el1", 0x3),
        ("arm.ccsidr_el1.1.data", 0x700f_e01a),
        ("arm.ccsidr_el1.2.data", 0x707f_e07a),
    ]));
    assert_eq!(lines(&decoded), ["ccsidr 1 data 32768 = 64 x 4 x 128, by ?"]);
    assert_eq!(decoded.complaints, ["arm.clidr_el1: has no level 2, yet CCSIDR was read for it"]);
}

#[test]
fn the_cache_type_register_of_arm1176() {
    // 1D152152H: the example of the ARM1176JZF-S manual, table 3-8, and what the BCM2835 answers.
    let decoded = decode(&ints(&[("arm.ctr", 0x1d15_2152)]));
    assert_eq!(
        lines(&decoded),
        ["ctr 1 data 16384 = 32 x 4 x 128, by ?", "ctr 1 instructions 16384 = 32 x 4 x 128, by ?"]
    );
    // 1D112112H: an ARM926 with 8 + 8 KiB (the SC6531E, as a public diagnostic program notes it).
    let decoded = decode(&ints(&[("arm.ctr", 0x1d11_2112)]));
    assert_eq!(
        lines(&decoded),
        ["ctr 1 data 8192 = 32 x 4 x 64, by ?", "ctr 1 instructions 8192 = 32 x 4 x 64, by ?"]
    );
    // Constructed: M = 1 with associativity 0 on the data side is no cache; M = 1 elsewhere is 1.5 times.
    let decoded = decode(&ints(&[("arm.ctr", 0x1d00_4000 | 0x156)]));
    assert_eq!(lines(&decoded), ["ctr 1 instructions 24576 = 32 x 6 x 128, by ?"]);
}

#[test]
fn bcm2837_devicetree() {
    let decoded =
        decode(&one("devicetree.blob", FactValue::Bytes(include_bytes!("fixtures/bcm2837.dtb").to_vec())));
    assert_eq!(
        lines(&decoded),
        [
            "devicetree 1 data 32768 = 64 x 4 x 128, by 1",
            "devicetree 1 instructions 32768 = 64 x 2 x 256, by 1",
            "devicetree 2 unified 524288 = 64 x 16 x 512, by 4",
        ]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

#[test]
fn lx2160a_devicetree_follows_the_boot_cpu() {
    let decoded =
        decode(&one("devicetree.blob", FactValue::Bytes(include_bytes!("fixtures/lx2160a.dtb").to_vec())));
    assert_eq!(
        lines(&decoded),
        [
            "devicetree 1 data 32768 = 64 x 4 x 128, by 1",
            "devicetree 1 instructions 49152 = 64 x 4 x 192, by 1",
            "devicetree 2 unified 1048576 = 64 x 16 x 1024, by 2",
        ]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

fn pptt(fixture: &str) -> Facts {
    one("acpi.pptt", FactValue::Bytes(bytes(fixture)))
}

#[test]
fn the_pptt_of_a_graviton_contradicts_itself() {
    let decoded = decode(&pptt(include_str!("fixtures/graviton-a1-metal.pptt.hex")));
    assert_eq!(
        lines(&decoded),
        [
            "pptt 1 data 32768 = 64 x 2 x 128, by 1",
            "pptt 1 instructions 49152 = 64 x 3 x 128, by 1",
            "pptt 2 unified 2097152 = 64 x 16 x 2048, by 4",
        ]
    );
    assert_eq!(
        decoded.complaints,
        [
            "acpi.pptt: the cache at 0xe4: inconsistent: size 49152 is not line 64 x ways 3 x sets 128 = 24576",
            "acpi.pptt: the cache at 0x264: inconsistent: size 32768 is not line 64 x ways 2 x sets 128 = 16384",
        ]
    );
    // Held against what the manual of its Cortex-A72 and so CCSIDR say.
    let mut claims = decoded.claims;
    claims.extend(
        decode(&ints(&[
            ("arm.clidr_el1", 0x0a20_0023),
            ("arm.ccsidr_el1.1.data", 0x701f_e00a),
            ("arm.ccsidr_el1.1.instructions", 0x201f_e012),
            ("arm.ccsidr_el1.2.data", 0x70ff_e07a),
        ]))
        .claims,
    );
    assert_eq!(
        disagreements(&claims),
        [
            "The sources disagree about the sets of level 1 (data): ccsidr says 256, pptt says 128.",
            "The sources disagree about the sets of level 1 (instructions): ccsidr says 256, pptt says 128.",
        ]
    );
}

#[test]
fn a_pptt_that_declares_nothing_valid_claims_nothing() {
    let decoded = decode(&pptt(include_str!("fixtures/qualcomm-8850.pptt.hex")));
    assert_eq!(decoded.claims, []);
    assert_eq!(
        decoded.complaints,
        [
            "acpi.pptt: its checksum is off by 0xda",
            "acpi.pptt: the cache at 0x5a: declares none of size, sets, associativity and line valid",
            "acpi.pptt: the cache at 0x72: declares none of size, sets, associativity and line valid",
            "acpi.pptt: the cache at 0x42: declares none of size, sets, associativity and line valid",
        ]
    );
}

#[test]
fn revision_3_of_the_pptt_chains_levels() {
    let decoded = decode(&pptt(include_str!("fixtures/rd-v3-cfg1.pptt.hex")));
    assert_eq!(
        lines(&decoded),
        [
            "pptt 1 data 65536 = 64 x 4 x 256, by 1",
            "pptt 1 instructions 65536 = 64 x 4 x 256, by 1",
            "pptt 2 unified 1048576 = 64 x 8 x 2048, by 1",
        ]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

#[test]
fn a_listed_next_level_is_not_taken_for_level_1() {
    let decoded = decode(&pptt(include_str!("fixtures/qemu-proposal.pptt.hex")));
    assert_eq!(
        lines(&decoded),
        [
            "pptt 1 data 65536 = 64 x 4 x 256, by 1",
            "pptt 1 instructions 65536 = 64 x 4 x 256, by 1",
            "pptt 2 unified 2097152 = 64 x 8 x 4096, by 1",
            "pptt 3 unified 4194304 = 64 x 8 x 8192, by 1",
        ]
    );
    assert_eq!(decoded.complaints, NOTHING);
}

/// Sets the word at `at` and mends the checksum.
fn patched(fixture: &str, at: usize, value: u32) -> Facts {
    patched_bytes(bytes(fixture), at, value)
}

fn patched_bytes(mut table: Vec<u8>, at: usize, value: u32) -> Facts {
    table[at..at + 4].copy_from_slice(&value.to_le_bytes());
    table[9] = 0;
    table[9] = table.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
    one("acpi.pptt", FactValue::Bytes(table))
}

#[test]
fn circles_and_dangling_offsets_in_the_pptt_are_told() {
    let fixture = include_str!("fixtures/qemu-proposal.pptt.hex");
    let parent = decode(&patched(fixture, 0x58, 0x50));
    assert_eq!(
        parent.complaints,
        ["acpi.pptt: the processor at 0xb0 has over 16 ancestors, or is its own ancestor"]
    );
    assert_eq!(parent.claims.len(), 4, "{:?}", lines(&parent));
    let dangling = decode(&patched(fixture, 0x88, 0x69));
    assert_eq!(dangling.complaints, ["acpi.pptt: the next level 0x69 of the cache at 0x80 is not a cache"],);
    // Level 2 leads back to level 1.
    let circle = decode(&patched(fixture, 0x70, 0x80));
    assert_eq!(circle.complaints, ["acpi.pptt: the next levels of the cache at 0x98 form a cycle"]);
    // Each level 1 cache leads to the other, and level 2 to itself: there is no head.
    let mut table = bytes(fixture);
    table[0x70] = 0x68;
    let Some(FactValue::Bytes(table)) = patched_bytes(table, 0x88, 0x98).get("acpi.pptt").cloned() else {
        panic!("bytes");
    };
    let circle = decode(&patched_bytes(table, 0xa0, 0x80));
    assert_eq!(
        circle.complaints,
        ["acpi.pptt: the next levels of the cache at 0x68 form a cycle"],
        "{:?}",
        lines(&circle)
    );
}

#[test]
fn a_description_numbers_its_levels_by_side() {
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
fn a_level_is_beyond_the_farther_of_its_sides() {
    // Constructed: two data levels before a unified one, and no instruction cache at all.
    let holds = ["data", "data", "unified"];
    let facts = (1..)
        .zip(holds)
        .map(|(n, holds)| (format!("described.level.{n}.holds"), FactValue::Text(holds.to_owned())));
    let levels: Vec<u8> = decode(&facts.collect()).claims.iter().map(|claim| claim.level).collect();
    assert_eq!(levels, [1, 2, 3]);
}

#[test]
fn fully_associative_caches_are_told_as_such() {
    // Constructed: Linux leaves their ways at 0; the ways follow from size and line.
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
    // The cache type register tells the smallest line anywhere, which a longer one elsewhere may exceed.
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
