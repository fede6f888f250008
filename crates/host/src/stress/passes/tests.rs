use super::*;

#[test]
fn cycle_visits_every_line_once() {
    for count in [1, 2, 3, 64, 1000] {
        let mut block = cycle(count * 64).expect("memory");
        let words = block.words();
        let mut at = 0;
        let mut seen = std::collections::HashSet::new();
        while seen.insert(at) {
            at = words[at] as usize;
        }
        // The mapping has whole pages; the cycle covers the requested bytes, rounded up to lines.
        assert_eq!((seen.len(), at), (count, 0), "{count} lines");
        assert!(seen.iter().all(|at| at % LINE_WORDS == 0));
    }
}

#[test]
fn block_is_marked_read_back_and_released() {
    let page = rustix::param::page_size();
    let mut block = Block::map(3 * page).expect("memory");
    block.base_pages();
    for stride in [1, 7, 64, page, 3 * page] {
        assert!(!block.has_marks(0..3 * page, stride), "fresh memory holds zeros");
        block.mark(0..3 * page, stride);
        assert!(block.has_marks(0..3 * page, stride));
        block.release(page..3 * page);
        assert!(block.has_marks(0..page, stride));
        assert!(!block.has_marks(page..3 * page, stride.min(page)));
        block.release(0..3 * page);
    }
    assert!(Block::map(usize::MAX).is_err());
}
