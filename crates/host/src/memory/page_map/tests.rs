use fathom_probe::machine::{Attribute, MapRequest, Pages};

use super::*;
use crate::driver::Presence;
use crate::fixture;
use crate::memory::tests::open_with;

const MIB: u64 = 1 << 20;

#[test]
fn each_colour_gives_its_first_pages() {
    let frames: Vec<Option<u64>> = [4, 1, 5, 3, 6, 0, 9].map(Some).to_vec();
    assert_eq!(by_colour(&frames, 2, 2), Some(vec![vec![0, 4], vec![1, 2]]));
    assert_eq!(by_colour(&frames, 2, 4), None, "three pages have an even frame");
    assert_eq!(by_colour(&[Some(0), None], 2, 1), None, "a page that is not present");
}

/// Returns the page map of a fixture: this entry for every page.
fn map_of(entry: u64) -> (tempfile::TempDir, Root) {
    let (directory, root) =
        fixture::root(&[("/proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\n")]);
    let here = std::ptr::from_ref(&entry).addr() as u64;
    fixture::write(directory.path(), "/proc/self/pagemap", b"");
    let path = directory.path().join("proc/self/pagemap");
    let file = std::fs::File::create(path).expect("a file");
    let page = rustix::param::page_size() as u64;
    // A sparse file: the stack is at the end of the address space.
    for at in here / page - 64..here / page + 64 {
        std::os::unix::fs::FileExt::write_all_at(&file, &entry.to_ne_bytes(), at * 8).expect("written");
    }
    (directory, root)
}

#[test]
fn hidden_frames_give_no_coloured_pages() {
    let present = 1 << 63;
    assert_eq!(max_bytes(&map_of(present).1), 0);
    assert_eq!(max_bytes(&fixture::root(&[]).1), 0, "no page map");
    assert_eq!(max_bytes(&map_of(present | 5).1), MAX_BYTES);
}

/// Returns this machine's files, if its page map tells frames.
fn with_frames() -> Option<Root> {
    let root = Root::system();
    if let Some(emulator) = fathom_skip::emulator() {
        fathom_skip::skipped!(
            Unchecked,
            "coloured pages by the page map: it has the addresses of {}",
            emulator.display()
        );
        return None;
    }
    if max_bytes(&root) < 8 * MIB {
        fathom_skip::skipped!(
            Unchecked,
            "coloured pages by the page map: it does not tell frames to this user"
        );
        return None;
    }
    Some(root)
}

#[test]
fn pages_are_at_their_places_in_physical_memory() {
    let Some(root) = with_frames() else { return };
    let mut memory = open_with(&root, Presence::Absent);
    assert!(memory.coloured_page_provider().is_some_and(|(name, bytes)| name == NAME && bytes >= 8 * MIB));
    let request = |bytes: u64, place: u64| MapRequest {
        bytes,
        place,
        pages: Pages::Coloured,
        attribute: Attribute::WriteBack,
    };
    let (page, base) = (rustix::param::page_size() as u64, memory.arena.address());
    for (bytes, place) in [(3 * MIB, 1), (5 * MIB + 1, 2), (MIB, 3)] {
        let mapping = memory.map(&request(bytes, place)).expect("coloured pages");
        assert_eq!((mapping.bytes, mapping.page_bytes), (bytes.next_multiple_of(page), page));
        let at = base + mapping.base;
        let frames = pages::frames(&root, &(at..at + mapping.bytes), page).expect("frames");
        for (n, frame) in frames.iter().enumerate() {
            assert_eq!(frame.expect("present") * page % COLOUR_SPAN, n as u64 * page % COLOUR_SPAN);
        }
        let cell = memory.cell(mapping.base + bytes / 2 / 8 * 8).expect("mapped");
        assert_eq!(memory.arena.follow(cell).offset(), 0, "new memory is zero");
    }
    let refusal = memory.map(&request(1 << 40, 1)).expect_err("too much");
    assert!(refusal.reason.contains("at most"), "{refusal:?}");
}

#[test]
fn moved_page_is_noticed() {
    let Some(root) = with_frames() else { return };
    let mut memory = open_with(&root, Presence::Absent);
    let request =
        MapRequest { bytes: MIB, place: 1, pages: Pages::Coloured, attribute: Attribute::WriteBack };
    let mapping = memory.map(&request).expect("coloured pages");
    // Another page in its place, which is not present.
    let page = rustix::param::page_size() as u64;
    memory.arena.map_anonymous(mapping.base..mapping.base + page);
    let range = mapping.base..mapping.base + mapping.bytes;
    assert!(memory.verify_colours(&range).is_err());
    let again = memory.map(&request).expect("all are mapped once more");
    assert!(memory.verify_colours(&(again.base..again.base + again.bytes)).is_ok());
}
