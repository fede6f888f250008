//! Without the driver, coloured pages are refused with a remedy. With the driver, they are tested in guests.

use super::*;
use crate::fixture;
use crate::memory::tests::open_with;
use crate::pages;

fn request(bytes: u64, attribute: Attribute) -> MapRequest {
    MapRequest { bytes, pages: Pages::Coloured, attribute, place: 1 }
}

#[test]
fn coloured_pages_without_driver_are_refused_with_remedy() {
    let (_keep, root) =
        fixture::root(&[("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n")]);
    let denied = Presence::Denied("Permission denied".into());
    for (presence, remedy) in [
        (Presence::Absent, "insmod driver/fathom.ko"),
        (denied, "usermod -aG fathom $USER"),
        (Presence::Incompatible("it has no version".into()), "rmmod fathom"),
    ] {
        let mut memory = open_with(&root, presence);
        assert_eq!(memory.coloured_page_provider(), None);
        let refusal = memory.map(&request(8192, Attribute::WriteBack)).expect_err("no driver");
        assert!(refusal.reason.starts_with("pages of chosen colours: Fathom's driver"), "{refusal:?}");
        assert!(refusal.remedy.contains(remedy), "{refusal:?}");
        // A refusal does not change existing mappings.
        let base = MapRequest { pages: Pages::Base, ..request(8192, Attribute::WriteBack) };
        assert!(memory.map(&base).is_ok());
        let driver_buffer =
            memory.map(&MapRequest { pages: Pages::Coloured, ..request(8192, Attribute::NormalNc) });
        assert!(driver_buffer.expect_err("of another attribute").remedy.contains("page=base"));
    }
    let shared = open_with(&root, Presence::Absent).map_shared(&request(8192, Attribute::WriteBack), 1);
    assert!(shared.expect_err("they have separate frames").remedy.contains("page=base"));
}

/// A host's arena has room for the driver's memory only if there is a driver: unused addresses count against address
/// space limits.
#[test]
fn coloured_pages_are_reserved_only_with_a_driver() {
    let (_keep, root) =
        fixture::root(&[("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n")]);
    let memory = open_with(&root, Presence::Absent);
    assert!(memory.coloured.area.is_empty());
    assert!(memory.arena.length() >= memory.coloured.area.end);
    assert!(
        pages::sizes(&root, rustix::param::page_size() as u64, None).expect("the kernel's").base
            <= COLOUR_SPAN
    );
}
