//! Tests of the tables.

extern crate std;

use std::collections::BTreeSet;

use super::*;

#[test]
fn processors_find_their_tables() {
    // MIDR of a Raspberry Pi 1 (r0p7), a BeagleBone (r3p2), an AM57xx (r2p2), a Raspberry Pi 3 and 4.
    let midrs = [
        (0x410f_b767, "arm1176"),
        (0x413f_c082, "cortex-a8"),
        (0x412f_c0f2, "cortex-a15"),
        (0x410f_d034, "cortex-a53"),
        (0x410f_d083, "cortex-a72"),
    ];
    for (midr, name) in midrs {
        assert_eq!(table_of(Identity::Midr(midr)).map(|table| table.name), Some(name), "{midr:#x}");
    }
    let x86 = |vendor, family| table_of(Identity::X86 { vendor, family }).map(|table| table.name);
    assert_eq!(x86("GenuineIntel", 6), Some("intel"));
    assert_eq!(x86("AuthenticAMD", 0x19), Some("amd-zen"));
    assert_eq!(x86("AuthenticAMD", 0x15), None, "Bulldozer has other events");
    // QEMU's processor "max" is none of ARM's.
    assert_eq!(table_of(Identity::Midr(0x000f_0510)), None);
}

#[test]
fn no_processor_has_two_tables() {
    for (n, one) in TABLES.iter().enumerate() {
        for other in &TABLES[n + 1..] {
            let shared = one.processors.iter().find(|processor| other.processors.contains(processor));
            assert_eq!(shared, None, "{} and {}", one.name, other.name);
        }
    }
}

#[test]
fn every_table_has_cycles_and_each_quantity_is_used() {
    let mut used = BTreeSet::new();
    for table in TABLES {
        let of = |quantity| table.events.iter().any(|event| event.of == Some(quantity));
        assert!(of(Quantity::Cycles) && of(Quantity::Instructions), "{}", table.name);
        used.extend(table.events.iter().filter_map(|event| event.of));
    }
    let unused: std::vec::Vec<_> = Quantity::ALL.iter().filter(|quantity| !used.contains(quantity)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn common_events_of_the_architecture_keep_their_code_and_name() {
    let a53 = table("cortex-a53").expect("a table");
    let refill = a53.events.iter().find(|event| event.code == 0x03).expect("L1D_CACHE_REFILL");
    assert_eq!((refill.name, refill.of), ("L1D_CACHE_REFILL", Some(Quantity::RefillL1D)));
    // The ARM1176 has a numbering of its own: 3 is not a refill of the data cache there.
    let arm1176 = table("arm1176").expect("a table");
    let third = arm1176.events.iter().find(|event| event.code == 0x03).expect("ITLB_MISS");
    assert_eq!(third.of, Some(Quantity::RefillTlbInstruction));
    assert!(arm1176.events.len() >= 20, "{}", arm1176.events.len());
}

#[test]
fn a_simulation_has_cycles_and_instructions_of_each_processor_and_each_reason_is_used() {
    let mut reasons = BTreeSet::new();
    for table in TABLES {
        let of = |of| table.events.iter().find(|event| event.of == Some(of)).map(|event| event.simulated);
        assert_eq!(of(Quantity::Cycles), Some(Ok(&[Term::Cycles][..])), "{}", table.name);
        // The Cortex-A9 counts instructions that it renames, those of discarded paths included.
        let instructions = of(Quantity::Instructions).expect("above");
        let renamed = (table.name == "cortex-a9").then_some(Unsimulated::Speculation);
        assert_eq!(instructions, renamed.map_or(Ok(&[Term::Instructions][..]), Err), "{}", table.name);
        reasons.extend(table.events.iter().filter_map(|event| event.simulated.err()));
        for event in table.events {
            // Times and numbers do not add up.
            let times = event.simulated.unwrap_or_default().iter().filter(|term| term.is_time()).count();
            assert!(
                times == 0 || Ok(times) == event.simulated.map(<[Term]>::len),
                "{} {}",
                table.name,
                event.name
            );
        }
    }
    let unused: std::vec::Vec<_> = Unsimulated::ALL.iter().filter(|why| !reasons.contains(why)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

/// The caveats of the ARM1176: a sequential run counts one access a line, and a store that misses counts each time.
#[test]
fn terms_are_those_of_the_processors_rules() {
    let terms = |name: &str, code: u16| {
        let event = table(name)?.events.iter().find(|event| event.code == code)?;
        event.simulated.ok()
    };
    use Access::{Load, Store};
    assert_eq!(terms("arm1176", 0x09), Some(&[Term::LineChanges][..]));
    assert_eq!(terms("cortex-a53", 0x04), Some(&[Term::Accesses(Load), Term::Accesses(Store)][..]));
    assert_eq!(
        terms("arm1176", 0x0b),
        Some(&[Term::Missed(Cache::L1D, Load), Term::Missed(Cache::L1D, Store)][..])
    );
    assert_eq!(
        terms("cortex-a53", 0x03),
        Some(&[Term::Missed(Cache::L1D, Load), Term::FilledByStores(Cache::L1D)][..])
    );
    for wrong in
        ["", "cycle", "access", "access.walk", "reach.L4.load", "fill.L1D.load", "wait.tlb", "cycles.x.y.z"]
    {
        assert_eq!(Term::from_token(wrong), None, "{wrong}");
    }
}
