use super::*;

#[test]
fn cpu_masks_have_words_of_32_bits() {
    assert_eq!((mask(0), mask(5), mask(31)), ("1".into(), "20".into(), "80000000".into()));
    assert_eq!((mask(32), mask(67)), ("1,00000000".into(), "8,00000000,00000000".into()));
}

#[test]
fn losses_of_all_kinds_are_added() {
    let stats = "entries: 9\noverrun: 3\ncommit overrun: 4\nbytes: 7\nnow ts: 1.5\ndropped events: 20\nread events: 8\n";
    assert_eq!(lost(stats), 27);
    assert_eq!(lost("overrun: x\n"), 0);
}
