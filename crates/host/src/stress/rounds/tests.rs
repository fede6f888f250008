use super::*;

#[test]
fn the_cycle_visits_every_line_once() {
    for count in [1, 2, 3, 64, 1000] {
        let mut block = cycle(count * 64).expect("memory");
        let words = block.words();
        let mut at = 0;
        let mut seen = std::collections::HashSet::new();
        while seen.insert(at) {
            at = words[at] as usize;
        }
        // The mapping is whole pages; the cycle is of the requested bytes, rounded up to lines.
        assert_eq!((seen.len(), at), (count, 0), "{count} lines");
        assert!(seen.iter().all(|at| at % WORDS == 0));
    }
}

#[test]
fn a_block_is_marked_read_back_and_given_back() {
    let page = rustix::param::page_size();
    let mut block = Block::map(3 * page).expect("memory");
    block.base_pages();
    for stride in [1, 7, 64, page, 3 * page] {
        assert!(!block.marked(0..3 * page, stride), "fresh memory holds zeros");
        block.mark(0..3 * page, stride);
        assert!(block.marked(0..3 * page, stride));
        block.give_back(page..3 * page);
        assert!(block.marked(0..page, stride));
        assert!(!block.marked(page..3 * page, stride.min(page)));
        block.give_back(0..3 * page);
    }
    assert!(Block::map(usize::MAX).is_err());
}
