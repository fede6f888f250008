//! The images for 32-bit ARM. QEMU does not report attributes in translations by short descriptors, so that the tests show
//! only that each is accepted and that its accesses work.

use fathom_analysis::claims::{Claim, Holds, Source};
use fathom_probe::wire::{Line, Value};

use super::{
    Accepted, Start, assert_attributes, assert_counts, assert_session, assert_study, assert_watchdogs,
    claims, fact,
};

/// A Raspberry Pi Zero: ARM1176.
const PI0: Start = Start {
    name: "raspi0",
    image: "armv6",
    arguments: &["-M", "raspi0"],
    placed: None,
    boot_el: 1,
    arena: 0x0400_0000,
};
/// Versatile Express: Cortex-A15.
const VEXPRESS: Start = Start {
    name: "vexpress-a15",
    image: "armv7",
    arguments: &[
        "-M",
        "vexpress-a15",
        "-m",
        "512M",
        "-audiodev",
        "none,id=none",
        "-global",
        "pl041.audiodev=none",
    ],
    placed: None,
    boot_el: 1,
    arena: 0x9000_0000,
};
const STARTS: [Start; 6] = [
    PI0,
    Start { name: "raspi1ap", arguments: &["-M", "raspi1ap"], ..PI0 },
    VEXPRESS,
    Start {
        name: "virt, Cortex-A15",
        arguments: &["-M", "virt,highmem=off", "-cpu", "cortex-a15", "-m", "512M"],
        arena: 0x5000_0000,
        ..VEXPRESS
    },
    Start {
        name: "virt, Cortex-A7",
        arguments: &["-M", "virt", "-cpu", "cortex-a7", "-m", "512M"],
        arena: 0x5000_0000,
        ..VEXPRESS
    },
    // Cortex-A7, entered in HYP mode.
    Start { name: "raspi2b", arguments: &["-M", "raspi2b"], arena: 0x0800_0000, ..VEXPRESS },
];

/// Asserts that the core's cache registers are decoded to claims: of ARM1176 by its cache type register alone.
fn assert_facts(start: &Start, facts: &[Line]) {
    let decoded = claims(facts);
    let name = start.name;
    let first = |source| {
        let data = |claim: &&Claim| claim.level == 1 && claim.holds == Holds::Data;
        decoded.claims.iter().filter(data).find(|claim| claim.source == source)
    };
    let line = if start.image == "armv6" { 32 } else { 64 };
    assert_eq!(first(Source::Ctr).and_then(|claim| claim.line), Some(line), "{name}: {decoded:?}");
    assert_eq!(first(Source::Ccsidr).is_some(), start.image == "armv7", "{name}: {decoded:?}");
    let Value::Text(core) = fact(facts, "env.cpu.model") else { panic!("{facts:?}") };
    assert!(core.starts_with(if start.image == "armv6" { "ARM1176" } else { "Cortex-A" }), "{name}: {core}");
}

#[test]
fn probe_starts_on_each_board_and_survives_faults() {
    for start in &STARTS {
        let faults: [(&str, &[&str]); 2] = [
            ("data abort: translation fault, level 1", &["DFSR=", "DFAR=", "PC="]),
            ("undefined instruction", &["PC="]),
        ];
        let Some(facts) = assert_session(start, faults) else { continue };
        assert_facts(start, &facts);
    }
}

/// The bytes of MAIR that short descriptors can express.
const ACCEPTED: Accepted = Accepted {
    mairs: &[0x00, 0x04, 0x44, 0x4f, 0xae, 0xee, 0xff],
    tables: &["normal-nc", "write-through", "write-back"],
    refused: &["mair=12", "mair=119", "mair=165"],
    reported: false,
};

#[test]
fn every_access_works_in_every_memory_type_on_raspi0() {
    // The table walks of ARM1176 never read its caches.
    let refused = &["mair=12", "mair=119", "mair=165", "pattern=pages tables=normal-nc"];
    assert_attributes(&PI0, &Accepted { tables: &[], refused, ..ACCEPTED });
}

#[test]
fn every_access_works_in_every_memory_type_on_vexpress_a15() {
    assert_attributes(&VEXPRESS, &ACCEPTED);
}

#[test]
fn endless_run_is_ended_by_the_watchdog() {
    assert_watchdogs(&STARTS);
}

/// A cell of 8 bytes is loaded and stored by one instruction each, as on AArch64; a modification flips bits of its lower half.
#[test]
fn instruction_counts_are_exact_and_repeatable() {
    assert_counts(&VEXPRESS);
}

/// Study S0's program, which the image runs by itself.
#[test]
fn study_runs_once_if_no_request_arrives() {
    [&PI0, &VEXPRESS].into_iter().for_each(|start| assert_study(start, false));
}
