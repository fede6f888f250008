use super::*;
use crate::fixture;

#[test]
fn caches_of_the_pinned_cpu_and_of_cpu_0_are_reported_once() {
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
    assert_eq!(value("devicetree.blob"), None, "a tree that cannot be parsed is not reported");
    assert!(!all.iter().any(|f| f.name.contains("uevent")));
    assert_eq!(facts(&root, 0).iter().filter(|f| f.name.starts_with("sysfs.")).count(), 1, "reported once");
}
