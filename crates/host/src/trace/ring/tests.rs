use super::*;
use crate::trace::format::tests::{ARM, file};

fn layout() -> PageLayout {
    PageLayout::parse(&file(ARM, "header_page").expect("there")).expect("a layout")
}

/// Returns a page that begins at `ns` and has these bytes as records.
fn page(ns: u64, commit: u64, data: &[u8]) -> Vec<u8> {
    let mut page = [ns.to_le_bytes(), commit.to_le_bytes()].concat();
    page.extend(data);
    page.resize(4096, 0);
    page
}

/// Returns the first word of a record.
fn head(kind: u32, time: u32) -> [u8; 4] {
    (kind | time << 5).to_le_bytes()
}

fn read(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, u64) {
    let (records, missed) = records(page, &layout()).expect("a page");
    (records.map(|record| (record.ns, record.data.to_vec())).collect(), missed)
}

#[test]
fn records_of_every_kind_advance_the_time() {
    let long = [vec![7; 113], vec![0; 3]].concat();
    let data = [
        &head(1, 5)[..],
        b"abcd",
        // 2^27 and 3 ns.
        &head(TIME_EXTEND, 3),
        &1u32.to_le_bytes(),
        &head(2, 0),
        b"efghijkl",
        // Discarded: two words after the first; its time is added.
        &head(PADDING, 10),
        &8u32.to_le_bytes(),
        b"----",
        // 113 bytes and the word with the length, in whole words.
        &head(0, 1),
        &117u32.to_le_bytes(),
        &long,
        // Absolute.
        &head(TIME_STAMP, 9),
        &100u32.to_le_bytes(),
        &head(1, 1),
        b"mnop",
        &head(PADDING, 0),
        b"never read",
    ]
    .concat();
    let (all, missed) = read(&page(1_000, data.len() as u64, &data));
    let second = 1_005 + (1 << 27) + 3;
    let expected = vec![
        (1_005, b"abcd".to_vec()),
        (second, b"efghijkl".to_vec()),
        (second + 11, vec![7; 113]),
        ((100 << 27) + 10, b"mnop".to_vec()),
    ];
    assert_eq!((all, missed), (expected, 0));
}

#[test]
fn absolute_time_takes_upper_bits_from_the_previous_time() {
    let data = [&head(TIME_STAMP, 1)[..], &2u32.to_le_bytes(), &head(1, 0), b"abcd"].concat();
    let low = (2 << 27) + 1;
    let at = |ns: u64| read(&page(ns, data.len() as u64, &data)).0[0].0;
    assert_eq!(at(5 << 59), (5 << 59) + low);
    // It must not go backwards: the upper bits are extended.
    assert_eq!(at((5 << 59) + low + 1), (6 << 59) + low);
}

#[test]
fn lost_events_before_a_page_are_counted() {
    let data = [&head(1, 0)[..], b"abcd", &77u64.to_le_bytes()].concat();
    assert_eq!(read(&page(0, 8, &data)).1, 0);
    assert_eq!(read(&page(0, 8 | MISSED, &data)).1, 1);
    let (all, missed) = read(&page(0, 8 | MISSED | MISSED_STORED, &data));
    assert_eq!((all.len(), missed), (1, 77));
    // No room for the number.
    assert_eq!(read(&page(0, 4080 | MISSED | MISSED_STORED, &data)).1, 1);
}

#[test]
fn records_beyond_the_page_are_ignored() {
    for kind in [0, 2, 28, PADDING, TIME_EXTEND, TIME_STAMP] {
        for behind in [&[][..], &[1, 0, 0], &u32::MAX.to_le_bytes(), &3u32.to_le_bytes()] {
            let data = [&head(kind, 1)[..], behind].concat();
            let (all, _) = read(&page(0, data.len() as u64, &data));
            assert_eq!(all, vec![], "{kind} {behind:?}");
        }
    }
    assert!(records(&[0; 15], &layout()).is_none());
    assert!(records(&[0; 4095], &layout()).is_none());
}

/// Returns the number of steps of a reader; each advances by at least a word.
fn steps(mut records: Records) -> usize {
    let mut steps = 0;
    while records.step().is_some() {
        steps += 1;
    }
    steps
}

proptest::proptest! {
    #![proptest_config(crate::cases::fixed())]

    #[test]
    fn random_pages_are_read_in_bounds(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 4096),
        kinds in proptest::collection::vec((0u32..32, 0u32..4, 0u32..20), 0..1024),
    ) {
        // Random bytes, and words that are typical first words of records.
        let mut typical: Vec<u8> =
            kinds.iter().flat_map(|&(kind, time, length)| [head(kind, time), length.to_le_bytes()].concat()).collect();
        typical.truncate(4080);
        for page in [bytes, page(0, typical.len() as u64, &typical)] {
            let (records, _) = records(&page, &layout()).expect("a page");
            proptest::prop_assert!(steps(records.clone()) <= 4080 / 4);
            let bytes: usize = records.map(|record| record.data.len() + 4).sum();
            proptest::prop_assert!(bytes <= 4080);
        }
    }
}
