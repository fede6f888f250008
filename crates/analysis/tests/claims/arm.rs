//! Cache registers of Arm cores, and devicetrees.

use fathom_analysis::claims::{FactValue, decode, disagreements};

use crate::{NOTHING, ints, lines, one};

#[test]
fn cortex_a72_in_the_32_bit_layout() {
    // Register values of the Cortex-A57 and A72 from QEMU 9, which follows Arm's manuals (2 MiB of level 2).
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
    // Values of the Cortex-A53 (1 MiB) and the Cortex-A15 (4 MiB) from QEMU, which follows Arm's manuals.
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
    // Published as one of 4 MiB, which would be 4096 sets; its register has 2304, and so does the claim.
    assert_eq!(lines(&a15), ["ccsidr 2 unified 2359296 = 64 x 16 x 2304, by ?"]);
}

#[test]
fn ccsidr_in_the_64_bit_layout() {
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
    // Without arm.ccidx the same value is not a valid 32-bit one.
    let decoded = decode(&ints(&[("arm.clidr_el1", 0x2), ("arm.ccsidr_el1.1.data", 255 << 32 | 3 << 3 | 2)]));
    assert_eq!(decoded.claims, []);
    assert_eq!(
        decoded.complaints,
        ["arm.ccsidr_el1.1.data: has bits above 31 in the 32-bit layout: is arm.ccidx missing?"]
    );
}

#[test]
fn ccsidr_with_maximum_fields() {
    // Constructed: every bit of the fields set, in both layouts; neighbouring bits clear.
    let narrow = decode(&ints(&[("arm.clidr_el1", 2), ("arm.ccsidr_el1.1.data", 0x0fff_ffff)]));
    assert_eq!(lines(&narrow), ["ccsidr 1 data 68719476736 = 2048 x 1024 x 32768, by ?"]);
    let wide = 0xff_ffff << 32 | 0xff_ffff;
    let wide = decode(&ints(&[("arm.clidr_el1", 2), ("arm.ccidx", 1), ("arm.ccsidr_el1.1.data", wide)]));
    assert_eq!(lines(&wide), ["ccsidr 1 data 72057594037927936 = 2048 x 2097152 x 16777216, by ?"]);
}

#[test]
fn a_hypervisor_that_hides_the_geometry_makes_no_claim() {
    // Constructed: the value that Linux's KVM gives its guests since 6.3.
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
fn cache_type_register_of_arm1176() {
    // 1D152152H: the example of the ARM1176JZF-S manual, table 3-8, and the value of the BCM2835.
    let decoded = decode(&ints(&[("arm.ctr", 0x1d15_2152)]));
    assert_eq!(
        lines(&decoded),
        ["ctr 1 data 16384 = 32 x 4 x 128, by ?", "ctr 1 instructions 16384 = 32 x 4 x 128, by ?"]
    );
    // 1D112112H: an ARM926 with 8 + 8 KiB (the SC6531E, from a public diagnostic program).
    let decoded = decode(&ints(&[("arm.ctr", 0x1d11_2112)]));
    assert_eq!(
        lines(&decoded),
        ["ctr 1 data 8192 = 32 x 4 x 64, by ?", "ctr 1 instructions 8192 = 32 x 4 x 64, by ?"]
    );
    // Constructed: M = 1 with associativity 0 on the data side means no cache; M = 1 elsewhere means 1.5 times.
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
