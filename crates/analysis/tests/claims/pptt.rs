//! The PPTT of ACPI.

use fathom_analysis::claims::{FactValue, Facts, decode, disagreements};

use crate::{NOTHING, bytes, ints, lines, one};

fn pptt(fixture: &str) -> Facts {
    one("acpi.pptt", FactValue::Bytes(bytes(fixture)))
}

#[test]
fn inconsistent_pptt_of_a_graviton_gives_complaints() {
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
    // Compared with the manual of its Cortex-A72, and so with CCSIDR.
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
fn listed_next_level_is_not_level_1() {
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

/// Replaces the word at `at` and corrects the checksum.
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
fn pptt_cycles_and_invalid_offsets_give_complaints() {
    let fixture = include_str!("fixtures/qemu-proposal.pptt.hex");
    let parent = decode(&patched(fixture, 0x58, 0x50));
    assert_eq!(
        parent.complaints,
        ["acpi.pptt: the processor at 0xb0 has over 16 ancestors, or is its own ancestor"]
    );
    assert_eq!(parent.claims.len(), 4, "{:?}", lines(&parent));
    let dangling = decode(&patched(fixture, 0x88, 0x69));
    assert_eq!(dangling.complaints, ["acpi.pptt: the next level 0x69 of the cache at 0x80 is not a cache"],);
    // The next level of level 2 is level 1.
    let circle = decode(&patched(fixture, 0x70, 0x80));
    assert_eq!(circle.complaints, ["acpi.pptt: the next levels of the cache at 0x98 form a cycle"]);
    // The next level of each level 1 cache is the other, and that of level 2 is itself: there is no first level.
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
