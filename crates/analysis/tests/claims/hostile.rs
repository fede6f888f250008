//! Hostile facts: any bytes give claims or complaints, and never a panic.

use fathom_analysis::claims::{FactValue, Facts};
use proptest::prelude::*;

use crate::sane::sane;
use crate::{bytes, facts, ints, one};

#[test]
fn facts_of_the_wrong_kind_are_named() {
    for name in ["devicetree.blob", "acpi.pptt", "cpuid.0.0"] {
        let decoded = sane(&one(name, FactValue::Int(7)));
        assert!(decoded.complaints[0].starts_with(&format!("{name}: expected bytes, found a number")));
    }
    let decoded = sane(&one("arm.ctr_el0", FactValue::Text("64".to_owned())));
    assert_eq!(decoded.complaints, ["arm.ctr_el0: expected a number, found text"]);
    let decoded = sane(&one("sysfs.cpu0.cache.index0.level", FactValue::Bytes(vec![1])));
    assert_eq!(
        decoded.complaints,
        [
            "sysfs.cpu0.cache.index0.level: expected text, found bytes",
            "sysfs.cpu0.cache.index0: has no readable level, so it is left out",
        ]
    );
    let decoded = sane(&one("cpuid.0.0", FactValue::Bytes(vec![1; 15])));
    assert!(decoded.complaints.contains(&"cpuid.0.0: expected 16 bytes, found 15".to_owned()));
}

#[test]
fn malformed_sysfs_text_is_quoted() {
    let good = include_str!("fixtures/xeon-kvm-guest.facts");
    for (from, to, words) in [
        ("index0.size t 48K", "index0.size t 48Q", "index0.size: \"48Q\" is not a size such as 48K"),
        ("index0.size t 48K", "index0.size t 99999999999999999999K", "is not a size"),
        ("index0.level t 1", "index0.level t 0", "index0.level: 0 is not a cache level"),
        (
            "index0.type t Data",
            "index0.type t Dada",
            "index0.type: expected Data, Instruction or Unified, found Dada",
        ),
        ("shared_cpu_list t 0-1", "shared_cpu_list t 1-0", "\"1-0\" is not a list of CPUs such as 0-3,8"),
        ("shared_cpu_list t 0-1", "shared_cpu_list t 0-4294967295", "is not a list of CPUs"),
        (
            "index0.number_of_sets t 64",
            "index0.number_of_sets t 63",
            "inconsistent: size 49152 is not line 64 x ways 12 x sets 63 = 48384",
        ),
    ] {
        assert!(good.contains(from));
        let decoded = sane(&facts(&good.replacen(from, to, 1)));
        assert!(decoded.complaints.iter().any(|c| c.contains(words)), "{to}: {:?}", decoded.complaints);
    }
}

#[test]
fn broken_devicetrees_are_refused_with_the_reason() {
    let good = include_bytes!("fixtures/bcm2837.dtb").to_vec();
    let complaint = |blob: Vec<u8>| {
        let decoded = sane(&one("devicetree.blob", FactValue::Bytes(blob)));
        assert_eq!(decoded.claims, []);
        decoded.complaints.join("; ")
    };
    let word = |at: usize, value: u32| {
        let mut blob = good.clone();
        blob[at..at + 4].copy_from_slice(&value.to_be_bytes());
        complaint(blob)
    };
    assert_eq!(complaint(Vec::new()), "devicetree.blob: is shorter than its header");
    assert_eq!(
        word(0, 0xedfe_0dd0),
        "devicetree.blob: begins with 0xedfe0dd0 and not with the magic 0xd00dfeed"
    );
    assert_eq!(
        complaint(good[..good.len() - 1].to_vec()),
        format!(
            "devicetree.blob: is truncated: its header gives {} bytes, it has {}",
            good.len(),
            good.len() - 1
        )
    );
    assert!(word(20, 3).contains("has version 3"));
    assert!(word(12, u32::MAX).contains("has a strings block beyond its end"));
    assert!(word(8, u32::MAX - 3).contains("inside its structure"));
    let structure = u32::from_be_bytes([good[8], good[9], good[10], good[11]]) as usize;
    assert!(word(structure, 2).contains("that was not opened"));
    assert!(word(structure, 9).contains("has no CPU under /cpus"));
    assert!(word(structure, 7).contains("unknown token 0x7"));
    // The END token instead of a closing one.
    let closing =
        (structure..good.len()).step_by(4).find(|at| good[*at..*at + 8] == [0, 0, 0, 2, 0, 0, 0, 1]);
    assert!(word(closing.expect("a closed node"), 9).contains("with 3 nodes open"));
}

/// Returns a constructed tree: the root, `/cpus`, one CPU with these properties, and `nodes` nested nodes.
fn tree(properties: &[(&str, &[u8])], nodes: usize) -> Vec<u8> {
    let (mut body, mut strings) = (Vec::new(), Vec::new());
    let begin = |body: &mut Vec<u8>, name: &str| {
        body.extend(1u32.to_be_bytes());
        body.extend(name.as_bytes());
        body.resize((body.len() + 1).next_multiple_of(4), 0);
    };
    begin(&mut body, "");
    begin(&mut body, "cpus");
    begin(&mut body, "cpu@0");
    for (name, value) in properties {
        body.extend(3u32.to_be_bytes());
        body.extend((value.len() as u32).to_be_bytes());
        body.extend((strings.len() as u32).to_be_bytes());
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
        strings.extend(name.as_bytes());
        strings.push(0);
    }
    for _ in 0..nodes {
        begin(&mut body, "deep");
    }
    for _ in 0..nodes + 3 {
        body.extend(2u32.to_be_bytes());
    }
    body.extend(9u32.to_be_bytes());
    let total = 40 + body.len() + strings.len();
    let header = [0xd00d_feed, total, 40, 40 + body.len(), 40, 17, 16, 0, strings.len(), body.len()];
    let mut blob: Vec<u8> = header.iter().flat_map(|word| (*word as u32).to_be_bytes()).collect();
    blob.extend(body);
    blob.extend(strings);
    blob
}

#[test]
fn malformed_devicetrees_give_complaints() {
    let decoded = |properties: &[(&str, &[u8])], nodes| {
        sane(&one("devicetree.blob", FactValue::Bytes(tree(properties, nodes))))
    };
    let circle = decoded(&[("phandle", &[0, 0, 0, 1]), ("next-level-cache", &[0, 0, 0, 1])], 0);
    assert_eq!(circle.complaints, ["devicetree.blob: /cpus/cpu@0: next-level-cache forms a cycle"]);
    let nowhere = decoded(&[("next-level-cache", &[0, 0, 0, 9])], 0);
    assert_eq!(nowhere.complaints, ["devicetree.blob: /cpus/cpu@0: next-level-cache names no node"]);
    let short = decoded(&[("d-cache-size", &[1, 2])], 0);
    assert_eq!(short.complaints, ["devicetree.blob: /cpus/cpu@0: d-cache-size has 2 bytes and not one cell"]);
    let level = decoded(&[("cache-level", &[0, 0, 0, 3]), ("d-cache-size", &[0, 0, 0x80, 0])], 0);
    assert_eq!(level.claims.len(), 1);
    assert_eq!(
        level.complaints,
        ["devicetree.blob: /cpus/cpu@0: cache-level is 3, yet it is reached as level 1"]
    );
    let odd = decoded(
        &[
            ("d-cache-size", &[0, 0, 0x80, 1]),
            ("d-cache-sets", &[0, 0, 0, 3]),
            ("d-cache-line-size", &[0, 0, 0, 64]),
        ],
        0,
    );
    assert_eq!(
        odd.complaints,
        ["devicetree.blob: /cpus/cpu@0: inconsistent: size 32769 is not a multiple of line x sets = 192"]
    );
    let deep = decoded(&[], 100_000);
    assert!(deep.complaints[0].contains("is deeper than 64 nodes"), "{:?}", deep.complaints);
    let tlbs = decoded(
        &[
            ("d-tlb-size", &[0, 0, 0, 32]),
            ("d-tlb-sets", &[0, 0, 0, 1]),
            ("i-tlb-size", &[0, 0, 0, 40]),
            ("i-tlb-sets", &[0, 0, 0, 10]),
        ],
        0,
    );
    assert_eq!(
        crate::tlb_lines(&tlbs),
        ["devicetree 1 data : 32, full", "devicetree 1 instructions : 40, 4 ways"]
    );
}

#[test]
fn pptt_with_a_structure_of_zero_length_ends() {
    let mut table = bytes(include_str!("fixtures/qemu-proposal.pptt.hex"));
    table[0x39] = 0;
    let decoded = sane(&one("acpi.pptt", FactValue::Bytes(table)));
    assert!(decoded.complaints.iter().any(|c| c == "acpi.pptt: the structure at 0x38 cannot have 0 bytes"));
}

#[test]
fn pptt_with_too_many_processors_has_no_sharing() {
    // Constructed: leaves without caches in the table's only cluster.
    let mut table = bytes(include_str!("fixtures/qemu-proposal.pptt.hex"));
    for id in 1..50_000u32 {
        table.extend([0, 20, 0, 0, 0x0a, 0, 0, 0, 0x50, 0, 0, 0]);
        table.extend(id.to_le_bytes());
        table.extend([0; 4]);
    }
    let length = table.len() as u32;
    table[4..8].copy_from_slice(&length.to_le_bytes());
    let decoded = sane(&one("acpi.pptt", FactValue::Bytes(table)));
    assert_eq!(decoded.claims.len(), 4);
    assert!(decoded.claims.iter().all(|claim| claim.shared_by.is_none()));
    assert!(
        decoded.complaints.iter().any(|c| c.contains("has 50000 processors")),
        "{:?}",
        decoded.complaints
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_blobs_do_not_panic(name in prop::sample::select(vec!["devicetree.blob", "acpi.pptt"]), blob in prop::collection::vec(any::<u8>(), 0..512)) {
        sane(&one(name, FactValue::Bytes(blob)));
    }

    /// Real blobs with some changed bytes pass the check of the header.
    #[test]
    fn mutated_blobs_do_not_panic(which in 0usize..4, cut in 0usize..64, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12)) {
        let (name, mut blob) = match which {
            0 => ("devicetree.blob", include_bytes!("fixtures/bcm2837.dtb").to_vec()),
            1 => ("devicetree.blob", include_bytes!("fixtures/lx2160a.dtb").to_vec()),
            2 => ("acpi.pptt", bytes(include_str!("fixtures/graviton-a1-metal.pptt.hex"))),
            _ => ("acpi.pptt", bytes(include_str!("fixtures/qemu-proposal.pptt.hex"))),
        };
        for (index, byte) in changes {
            let at = index.index(blob.len());
            blob[at] = byte;
        }
        blob.truncate(blob.len() - cut / 8);
        sane(&one(name, FactValue::Bytes(blob)));
    }

    #[test]
    fn random_cpuid_leaves_do_not_panic(vendor in 0usize..3, leaves in prop::collection::vec((0usize..9, 0u32..4, any::<[u32; 4]>()), 0..24)) {
        let numbers = [1u32, 2, 4, 0x18, 0x4000_0000, 0x8000_0005, 0x8000_0006, 0x8000_0019, 0x8000_001d];
        let zero = ["0000ffff 756E6547 6C65746E 49656E69", "0000ffff 68747541 444D4163 69746E65", "0000ffff 0 0 0"][vendor];
        let all: Facts = leaves
            .into_iter()
            .map(|(number, subleaf, registers)| {
                let bytes = registers.iter().flat_map(|register| register.to_le_bytes()).collect();
                (format!("cpuid.{:x}.{subleaf:x}", numbers[number]), FactValue::Bytes(bytes))
            })
            .chain([("cpuid.0.0".to_owned(), FactValue::Bytes(crate::registers(zero)))])
            .collect();
        sane(&all);
    }

    #[test]
    fn random_arm_registers_do_not_panic(ctr in any::<u64>(), old in any::<u32>(), clidr in any::<u64>(), ccidx in 0u64..3, sizes in prop::collection::vec((0u64..9, any::<bool>(), any::<u64>()), 0..8)) {
        let mut list = vec![("arm.ctr_el0".to_owned(), ctr), ("arm.ctr".to_owned(), u64::from(old)), ("arm.clidr_el1".to_owned(), clidr), ("arm.ccidx".to_owned(), ccidx)];
        list.extend(sizes.into_iter().map(|(level, data, value)| {
            let side = if data { "data" } else { "instructions" };
            (format!("arm.ccsidr_el1.{level}.{side}"), value)
        }));
        let list: Vec<(&str, u64)> = list.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        sane(&ints(&list));
    }

    #[test]
    fn random_sysfs_text_does_not_panic(index in 0u8..3, attribute in 0usize..7, text in "\\PC{0,24}") {
        let names = ["level", "type", "size", "ways_of_associativity", "number_of_sets", "coherency_line_size", "shared_cpu_list"];
        let name = format!("sysfs.cpu0.cache.index{index}.{}", names[attribute]);
        let good = facts(include_str!("fixtures/xeon-kvm-guest.facts"));
        let all: Facts = good
            .under("")
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .chain([(name, FactValue::Text(text))])
            .collect();
        sane(&all);
    }

    #[test]
    fn random_descriptions_do_not_panic(level in 0u64..4, key in 0usize..5, value in any::<u64>(), holds in 0usize..4) {
        let keys = ["size", "line", "ways", "sets", "shared"];
        let holds = ["data", "instructions", "unified", "tea"][holds];
        let all: Facts = [
            (format!("described.level.{level}.holds"), FactValue::Text(holds.to_owned())),
            (format!("described.level.{level}.{}", keys[key]), FactValue::Int(value)),
            (format!("described.level.{level}.{}", keys[(key + 1) % 5]), FactValue::Int(value >> 7)),
            (format!("described.level.{level}.{}", keys[(key + 2) % 5]), FactValue::Int(value & 0xff)),
            (format!("described.tlb.{level}.entries"), FactValue::Int(value)),
        ]
        .into_iter()
        .collect();
        sane(&all);
    }
}
