use super::*;
use crate::fixture;

fn leaf(eax: u32, ebx: u32) -> Cpuid {
    Cpuid { eax, ebx, ecx: 3, edx: 4 }
}

fn names(facts: &[Fact]) -> Vec<&str> {
    facts.iter().map(|f| f.name.as_str()).collect()
}

#[test]
fn only_leaves_that_exist_are_read() {
    let none = cpuid_facts(|_, _| None);
    assert!(none.is_empty());
    // A processor with basic leaves up to 4, no hypervisor, no extended leaf.
    let old = cpuid_facts(|number, sub| {
        Some(match (number, sub) {
            (0, _) => leaf(4, 0x756e_6547),
            (1, _) => Cpuid { ecx: 0, ..leaf(1, 0) },
            (4, 0..=2) => leaf(0x21, 0),
            (4, _) => leaf(0, 0),
            (0x8000_0000.., _) => leaf(0, 0),
            _ => leaf(number, sub),
        })
    });
    let expected =
        ["cpuid.0.0", "cpuid.1.0", "cpuid.2.0", "cpuid.4.0", "cpuid.4.1", "cpuid.4.2", "cpuid.4.3"];
    assert_eq!(names(&old), expected);
    let value = vec![4, 0, 0, 0, b'G', b'e', b'n', b'u', 3, 0, 0, 0, 4, 0, 0, 0];
    assert_eq!(old[0].value, FactValue::Bytes(value), "eax, ebx, ecx, edx, little endian");
}

#[test]
fn a_guest_and_the_extended_leaves() {
    let facts = cpuid_facts(|number, sub| {
        Some(match (number, sub) {
            (0, _) => leaf(0x18, 0),
            (1, _) => Cpuid { ecx: 1 << 31, ..leaf(0, 0) },
            (0x18, 0) => leaf(2, 0),
            (0x8000_0000, _) => leaf(0x8000_001e, 0),
            // A list that never ends.
            (0x8000_001d, _) => leaf(1, 0),
            _ => leaf(0, 0),
        })
    });
    let names = names(&facts);
    for name in [
        "cpuid.40000000.0",
        "cpuid.40000001.0",
        "cpuid.18.0",
        "cpuid.18.2",
        "cpuid.15.0",
        "cpuid.80000008.0",
        "cpuid.80000019.0",
        "cpuid.8000001d.0",
        "cpuid.8000001d.1f",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    assert!(!names.contains(&"cpuid.18.3") && !names.contains(&"cpuid.8000001d.20"));
}

#[test]
fn caches_of_the_pinned_cpu_and_of_cpu_0() {
    let (_keep, root) = fixture::root(&[
        ("/sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/uevent", "\n"),
        ("/sys/devices/system/cpu/cpu3/cache/index0/size", "64K\n"),
        ("/sys/devices/system/cpu/cpu3/cache/index0/type", "Data\n"),
        ("/sys/devices/system/cpu/cpu3/cache/uevent", "\n"),
        ("/sys/firmware/acpi/tables/PPTT", "PPTT"),
        ("/sys/firmware/fdt", "no devicetree"),
    ]);
    let all = facts(&root, 3);
    let value = |name: &str| all.iter().find(|f| f.name == name).map(|f| f.value.clone());
    assert_eq!(value("sysfs.cpu3.cache.index0.size"), Some(FactValue::Text("64K".into())));
    assert_eq!(value("sysfs.cpu0.cache.index0.size"), Some(FactValue::Text("48K".into())));
    assert_eq!(value("acpi.pptt"), Some(FactValue::Bytes(b"PPTT".into())));
    assert_eq!(value("devicetree.blob"), None, "what cannot be walked is not told");
    assert!(!all.iter().any(|f| f.name.contains("uevent")));
    assert_eq!(facts(&root, 0).iter().filter(|f| f.name.starts_with("sysfs.")).count(), 1, "told once");
}
