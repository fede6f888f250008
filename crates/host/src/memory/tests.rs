use fathom_probe::machine::Attribute;

use super::*;
use crate::fixture;

const MIB: u64 = 1 << 20;
const PMD: (&str, &str) = ("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n");

fn open(root: &Root) -> Memory {
    open_with(root, Presence::Absent)
}

pub(super) fn open_with(root: &Root, driver: Presence) -> Memory {
    let sizes = pages::sizes(root, rustix::param::page_size() as u64, None).expect("the kernel's own");
    Memory::open(root.clone(), sizes, Some(64 * MIB), driver).expect("addresses")
}

fn request(bytes: u64, pages: Pages) -> MapRequest {
    MapRequest { bytes, pages, attribute: Attribute::WriteBack, place: 1 }
}

fn meminfo(available: u64) -> String {
    format!("MemTotal: 1048576 kB\nMemAvailable: {} kB\n", available >> 10)
}

#[test]
fn memory_limit_is_read_again_before_each_mapping() {
    let (directory, root) = fixture::root(&[("/proc/meminfo", &meminfo(64 * MIB))]);
    let mut memory = open(&root);
    memory.map(&request(8 * MIB, Pages::Base)).expect("8 of 32 MiB");
    let taken = memory.populated();
    assert!(taken >= 8 * MIB);
    // Another process takes all remaining memory.
    fixture::write(directory.path(), "/proc/meminfo", meminfo(0).as_bytes());
    let refusal = memory.map(&request(16 * MIB, Pages::Base)).expect_err("no more room");
    assert!(refusal.reason.contains("MemAvailable"), "{refusal:?}");
    assert!(refusal.reason.contains(&format!("{} bytes are available", taken / 2)), "{refusal:?}");
    assert!(memory.map(&request(8 * MIB, Pages::Base)).is_ok(), "populated memory is used again");
}

#[test]
fn limit_of_a_control_group_is_named() {
    let (_keep, root) = fixture::root(&[
        ("/proc/meminfo", &meminfo(512 * MIB)),
        ("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/box\n"),
        ("/sys/fs/cgroup/box/memory.max", "4194304\n"),
        ("/sys/fs/cgroup/box/memory.current", "0\n"),
    ]);
    let mut memory = open(&root);
    assert!(memory.map(&request(MIB, Pages::Base)).is_ok());
    let refusal = memory.map(&request(3 * MIB, Pages::Base)).expect_err("more than half of the group's");
    assert!(refusal.reason.contains("own control group (memory.max"), "{refusal:?}");
    assert!(!refusal.reason.contains("box"), "a refusal is recorded, and a path names its owner");
}

#[test]
fn huge_page_that_is_larger_than_the_memory_is_named() {
    let large = ("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "134217728\n");
    let (_keep, root) = fixture::root(&[("/proc/meminfo", &meminfo(512 * MIB)), large]);
    let refusal = open(&root).map(&request(8, Pages::Huge)).expect_err("64 MiB are the limit");
    assert!(refusal.reason.contains("8 bytes were requested in a page of 131072 KiB"), "{refusal:?}");
    assert!(!refusal.remedy.contains("request less"), "{refusal:?}");
}

#[test]
fn unverified_huge_pages_are_refused_and_released() {
    // The kernel may provide huge pages here, but the smaps of the fixture reports none.
    let (_keep, root) =
        fixture::root(&[("/proc/meminfo", &meminfo(512 * MIB)), PMD, ("/proc/self/smaps", "")]);
    let mut memory = open(&root);
    let refusal = memory.map(&request(2 * MIB, Pages::Huge)).expect_err("not verified");
    assert!(refusal.reason.contains("0 of 2048 KiB"), "{refusal:?}");
    assert!(refusal.remedy.contains("transparent_hugepage/enabled"), "{refusal:?}");
    assert_eq!(memory.populated(), 0);
    assert!(memory.cell(memory.half()).is_none(), "nothing is mapped by a refused request");
}

#[test]
fn disabled_or_unknown_huge_pages_are_refused() {
    let off = ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    let (_keep, root) = fixture::root(&[("/proc/meminfo", &meminfo(512 * MIB)), PMD, off]);
    let refusal = open(&root).map(&request(MIB, Pages::Huge)).expect_err("switched off");
    assert!(refusal.reason.contains("never"), "{refusal:?}");
    let (_keep, root) = fixture::root(&[("/proc/meminfo", &meminfo(512 * MIB))]);
    let refusal = open(&root).map(&request(MIB, Pages::Huge)).expect_err("no such pages");
    assert!(refusal.reason.contains("no transparent huge pages"), "{refusal:?}");
    let (_keep, root) = fixture::root(&[("/proc/meminfo", &meminfo(512 * MIB)), PMD]);
    let refusal = open(&root).map(&request(MIB, Pages::Huge)).expect_err("no smaps");
    assert!(refusal.reason.contains("verified"), "{refusal:?}");
}

#[test]
fn huge_pages_in_the_base_half_are_refused() {
    let (directory, root) = fixture::root(&[("/proc/meminfo", &meminfo(512 * MIB))]);
    let mut memory = open(&root);
    let base = memory.arena.address();
    let smaps = format!("{base:x}-{:x} rw-p 00000000 00:00 0\nAnonHugePages:      2048 kB\n", base + 2 * MIB);
    fixture::write(directory.path(), "/proc/self/smaps", smaps.as_bytes());
    let refusal = memory.map(&request(MIB, Pages::Base)).expect_err("a huge page among them");
    assert!(refusal.reason.contains("2048 KiB of huge pages"), "{refusal:?}");
    assert_eq!(memory.populated(), 0);
}
