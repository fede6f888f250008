use super::*;

fn leaf(eax: u32, ebx: u32) -> Leaf {
    Leaf { eax, ebx, ecx: 3, edx: 4 }
}

fn names(facts: &[Fact]) -> Vec<&str> {
    facts.iter().map(|f| f.name.as_str()).collect()
}

#[test]
fn only_leaves_that_exist_are_read() {
    // A processor with basic leaves up to 4, no hypervisor, no extended leaf.
    let old = facts(|number, sub| match (number, sub) {
        (0, _) => leaf(4, 0x756e_6547),
        (1, _) => Leaf { ecx: 0, ..leaf(1, 0) },
        (4, 0..=2) => leaf(0x21, 0),
        (4, _) => leaf(0, 0),
        (0x8000_0000.., _) => leaf(0, 0),
        _ => leaf(number, sub),
    });
    let expected =
        ["cpuid.0.0", "cpuid.1.0", "cpuid.2.0", "cpuid.4.0", "cpuid.4.1", "cpuid.4.2", "cpuid.4.3"];
    assert_eq!(names(&old), expected);
    let value = vec![4, 0, 0, 0, b'G', b'e', b'n', b'u', 3, 0, 0, 0, 4, 0, 0, 0];
    assert_eq!(old[0].value, FactValue::Bytes(value), "eax, ebx, ecx, edx, little endian");
}

#[test]
fn hypervisor_and_extended_leaves_are_read_up_to_a_limit() {
    let all = facts(|number, sub| {
        match (number, sub) {
            (0, _) => leaf(0x18, 0),
            (1, _) => Leaf { ecx: 1 << 31, ..leaf(0, 0) },
            (0x18, 0) => leaf(2, 0),
            (0x8000_0000, _) => leaf(0x8000_001e, 0),
            // A list of subleaves without an end.
            (0x8000_001d, _) => leaf(1, 0),
            _ => leaf(0, 0),
        }
    });
    let names = names(&all);
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
