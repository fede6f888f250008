use super::*;

const MIB: u64 = 1 << 20;

fn arena() -> Arena {
    Arena::reserve(256 * MIB, 256 * MIB, 2 * MIB).expect("addresses")
}

#[test]
fn cells_are_inside_and_aligned() {
    let arena = arena();
    let end = arena.length();
    assert_eq!(arena.cell(0).map(HostCell::offset), Some(0));
    assert_eq!(arena.cell(end - 8).map(HostCell::offset), Some(end - 8));
    for bad in [1, 4, end - 4, end - 7, end, end + 8, u64::MAX, u64::MAX - 7] {
        assert_eq!(arena.cell(bad), None, "{bad}");
    }
}

#[test]
fn links_are_followed_and_released_memory_is_reused() {
    let mut arena = arena();
    let (a, b) = (arena.cell(MIB).expect("inside"), arena.cell(3 * MIB + 8).expect("inside"));
    arena.populate(MIB..4 * MIB, 4096).expect("memory");
    arena.link(a, b);
    arena.link(b, a);
    assert_eq!((arena.follow(a), arena.follow(b)), (b, a));
    arena.release(MIB..2 * MIB).expect("given back");
    assert_eq!(arena.follow(a).offset(), 0);
    assert_eq!(arena.follow(b), a, "what was not released stays");
}

#[test]
fn untouched_memory_may_be_followed() {
    let arena = arena();
    let last = arena.cell(arena.length() - 8).expect("inside");
    assert_eq!(arena.follow(last).offset(), 0);
}

#[test]
fn arenas_of_a_process_have_one_length() {
    let first = arena();
    let other = Arena::reserve(64 * MIB, 2 * MIB, 4096).expect("addresses");
    assert_eq!(first.length(), other.length());
}

#[test]
fn ranges_outside_are_errors_and_not_accesses() {
    let mut arena = arena();
    let end = arena.length();
    let reversed = Range { start: 8192, end: 4096 };
    for bad in [end..end + 4096, 0..end + 1, 4096..4096, reversed, 4..4096] {
        assert!(arena.populate(bad.clone(), 4096).is_err(), "{bad:?}");
        assert!(arena.release(bad.clone()).is_err(), "{bad:?}");
        assert!(arena.lock(bad.clone()).is_err(), "{bad:?}");
    }
}
