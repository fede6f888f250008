//! The image for AArch64.

use fathom_analysis::claims::{Holds, Source};
use fathom_probe::wire::{Line, Value};

use super::{
    ATTRIBUTES, Accepted, Board, PARAMETERS, Start, assert_attributes, assert_counts, assert_session,
    assert_study, assert_watchdogs, claims, fact,
};

const PI3: Start = Start {
    name: "raspi3b",
    image: "aarch64",
    arguments: &["-M", "raspi3b"],
    placed: None,
    boot_el: 2,
    arena: 0x0800_0000,
};
const VIRT: Start = Start {
    name: "virt",
    image: "aarch64",
    arguments: &["-M", "virt", "-cpu", "cortex-a53", "-m", "512M"],
    placed: None,
    boot_el: 1,
    arena: 0x5000_0000,
};
const STARTS: [Start; 5] = [
    PI3,
    // The other cores are not parked.
    Start { name: "raspi3b, EL3", placed: Some((0x8_0000, 4)), boot_el: 3, ..PI3 },
    VIRT,
    Start {
        name: "virt, EL2",
        arguments: &["-M", "virt,virtualization=on", "-cpu", "cortex-a72", "-m", "512M"],
        boot_el: 2,
        ..VIRT
    },
    Start {
        name: "virt, EL3",
        arguments: &["-M", "virt,secure=on,virtualization=on", "-cpu", "cortex-a53", "-m", "512M"],
        // Not the address of `-kernel`: the image is position-independent.
        placed: Some((0x4020_0000, 1)),
        boot_el: 3,
        ..VIRT
    },
];

/// Asserts that every requested attribute is in force, and that the core's cache registers are decoded to claims.
fn assert_facts(start: &Start, facts: &[Line]) {
    for pages in ["huge", "base"] {
        for (attribute, byte) in ATTRIBUTES {
            let reported = fact(facts, &format!("attribute.{pages}.{attribute}"));
            let Value::Text(reported) = reported else { panic!("{reported:?}") };
            assert!(
                reported.ends_with(&format!("mair {byte:#04x}")),
                "{}: {attribute}: {reported}",
                start.name
            );
        }
    }
    // QEMU's firmware leaves 64 MiB of 1 GiB to the video core.
    if start.name.starts_with("raspi3b") {
        let memory = fact(facts, "metal.firmware.memory.bytes");
        assert_eq!(*memory, Value::Int((1024 - 64) << 20), "{}", start.name);
    }
    let decoded = claims(facts);
    let one = |source, level, holds| {
        decoded.claims.iter().find(|claim| (claim.source, claim.level, claim.holds) == (source, level, holds))
    };
    let name = start.name;
    let first = one(Source::Ccsidr, 1, Holds::Data).unwrap_or_else(|| panic!("{name}: {decoded:?}"));
    assert_eq!((first.size, first.line), (Some(32 << 10), Some(64)), "{name}");
    assert!(one(Source::Ccsidr, 2, Holds::Unified).is_some_and(|claim| claim.ways == Some(16)), "{name}");
    assert!(one(Source::Ctr, 1, Holds::Data).is_some_and(|claim| claim.line == Some(64)), "{name}");
}

#[test]
fn probe_starts_at_every_level_and_survives_faults() {
    let registers: &[&str] = &["ESR_EL1=", "ELR_EL1="];
    for start in &STARTS {
        let faults = [("data abort: translation fault", registers), ("undefined instruction", registers)];
        let Some(facts) = assert_session(start, faults) else { return };
        assert_facts(start, &facts);
    }
}

/// Any byte of MAIR.
const ACCEPTED: Accepted = Accepted {
    mairs: &[0x00, 0x04, 0x0c, 0x44, 0x4f, 0x77, 0xa5, 0xee, 0xff],
    tables: &["normal-nc", "write-through", "write-back"],
    refused: &[],
    reported: true,
};

#[test]
fn attributes_are_in_force_on_virt() {
    assert_attributes(&VIRT, &ACCEPTED);
}

#[test]
fn attributes_are_in_force_on_raspi3b() {
    assert_attributes(&PI3, &ACCEPTED);
}

/// A Pi 3A+ with half of its memory for the video core, and with one MiB more (`gpu_mem`).
#[test]
fn arena_overlapping_video_memory_is_refused() {
    let board = |vcram| Start { name: "raspi3ap", arguments: vcram, ..PI3 };
    let half = board(&["-M", "raspi3ap", "-global", "bcm2835-fb.vcram-size=0x10000000"]);
    let Some(mut fits) = Board::boot(&half, PARAMETERS) else { return };
    fits.greeting();
    fits.trial("trial id=1 bytes=134217728 page=huge samples=1 loads=1000");
    let more = board(&["-M", "raspi3ap", "-global", "bcm2835-fb.vcram-size=0x10100000"]);
    let Some(mut refused) = Board::boot(&more, PARAMETERS) else { return };
    let reported = refused.text();
    assert!(
        reported.starts_with("# ") && reported.contains("255 MiB") && reported.contains("gpu_mem"),
        "{reported}"
    );
}

#[test]
fn endless_run_is_ended_by_the_watchdog() {
    assert_watchdogs(&STARTS);
}

#[test]
fn instruction_counts_are_exact_and_repeatable() {
    assert_counts(&VIRT);
}

#[test]
fn study_runs_once_if_no_request_arrives() {
    [&PI3, &VIRT].into_iter().for_each(|start| assert_study(start, true));
}
