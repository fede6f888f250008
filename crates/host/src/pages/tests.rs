use super::*;
use crate::fixture;

const PMD: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

#[test]
fn base_and_huge_page_sizes_are_read() {
    for (real, pmd) in [(4096, 2 << 20), (16 << 10, 32 << 20), (64 << 10, 512 << 20)] {
        let (_keep, root) = fixture::root(&[(PMD, &format!("{pmd}\n"))]);
        let found = sizes(&root, real, None).expect("the kernel's own");
        assert_eq!(found, PageSizes { base: real, huge: Some(pmd), injected: false });
    }
    let (_keep, root) = fixture::root(&[]);
    assert_eq!(sizes(&root, 4096, None).expect("no huge pages").huge, None);
}

#[test]
fn injected_pages_are_multiples() {
    let (_keep, root) = fixture::root(&[(PMD, "2097152\n")]);
    let found = sizes(&root, 4096, Some(64 << 10)).expect("a multiple");
    assert_eq!(found, PageSizes { base: 64 << 10, huge: Some(2 << 20), injected: true });
    for bad in [0, 1, 2048, 4097, 12 << 10, 2 << 20, u64::MAX] {
        let why = sizes(&root, 4096, Some(bad)).expect_err("not a page size");
        assert!(why.contains(&bad.to_string()), "{why}");
    }
    assert!(sizes(&root, 16 << 10, Some(4096)).is_err(), "finer than the kernel's");
}

#[test]
fn selected_word_is_in_brackets() {
    assert_eq!(selected("always [madvise] never"), Some("madvise"));
    assert_eq!(selected("always madvise [never]"), Some("never"));
    assert_eq!(selected("broken ["), None);
    assert_eq!(selected(""), None);
}

#[test]
fn huge_pages_are_summed_inside_the_range() {
    let smaps = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0 
Size:               4096 kB
AnonHugePages:      4096 kB
VmFlags: rd wr mr mw me ac dd hg
7f0000400000-7f0000800000 rw-p 00000000 00:00 0 
AnonHugePages:      2048 kB
7f0000800000-7f0000c00000 rw-p 00000000 00:00 0 
AnonHugePages:      8192 kB
55d0c000-55d0e000 r--p 00000000 fe:00 123 /usr/bin/a-b c
AnonHugePages:      16384 kB
";
    let (_keep, root) = fixture::root(&[("/proc/self/smaps", smaps)]);
    assert_eq!(huge_backed(&root, 0x7f00_0000_0000..0x7f00_0080_0000), Some(6 << 20));
    assert_eq!(huge_backed(&root, 0..0x1000), Some(0));
    let (_keep, root) = fixture::root(&[]);
    assert_eq!(huge_backed(&root, 0..u64::MAX), None);
}

#[test]
fn shared_pages_are_recognised_by_the_page_map() {
    const PRESENT: u64 = 1 << 63;
    const OWN: u64 = 1 << 56;
    assert_eq!(shared(&[PRESENT | 7; 3]), Ok("one frame (pagemap)"));
    assert!(shared(&[PRESENT; 3]).expect("hidden frames").contains("hidden"));
    for (words, why) in [
        ([PRESENT | 7, PRESENT | 8], "more than one frame"),
        ([PRESENT | OWN, PRESENT], "1 of 2 pages that are only read have separate frames"),
        ([PRESENT | 7, 0], "1 of 2 pages that were read are not present"),
    ] {
        let reported = shared(&words).expect_err(why);
        assert!(reported.contains(why), "{reported}");
    }
}

#[test]
fn page_map_is_read_at_the_offset_of_the_pages() {
    let (_keep, root) = fixture::root(&[("/proc/self/pagemap", "aaaaaaaabbbbbbbbccccccccdddddddd")]);
    let word = |letter: u8| u64::from_ne_bytes([letter; 8]);
    assert_eq!(page_map(&root, &(4096..3 * 4096), 4096), Some(vec![word(b'b'), word(b'c')]));
    assert_eq!(page_map(&root, &(3 * 4096..5 * 4096), 4096), None);
    assert_eq!(page_map(&fixture::root(&[]).1, &(0..4096), 4096), None);
}
