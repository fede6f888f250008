//! Readings that are kept: a session reads the same curves again in each round of the trials that follow them, up to hundreds of times.

use std::cell::RefCell;
use std::collections::VecDeque;

/// Results kept. A round reads curves in base pages and in huge pages, of a latency and of translation, and the latter without each pair that may
/// conflict: more than eight on some machines.
const KEPT: usize = 32;

/// The last results of a pure function, by all that they depend on.
pub(super) struct Memo<K, V>(RefCell<VecDeque<(K, V)>>);

impl<K: PartialEq, V: Clone> Memo<K, V> {
    pub(super) const fn new() -> Memo<K, V> {
        Memo(RefCell::new(VecDeque::new()))
    }

    /// Returns the result for this key: the one that is kept, or a computed one, which is kept in place of the oldest.
    pub(super) fn get(&self, key: K, compute: impl FnOnce(&K) -> V) -> V {
        if let Some((_, known)) = self.0.borrow().iter().find(|(of, _)| *of == key) {
            return known.clone();
        }
        // Not borrowed meanwhile: it may use the same memo.
        let value = compute(&key);
        let mut kept = self.0.borrow_mut();
        kept.truncate(KEPT - 1);
        kept.push_front((key, value.clone()));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_results_are_computed_once() {
        let memo = Memo::new();
        let computed = RefCell::new(Vec::new());
        let get = |key: usize| {
            memo.get(key, |key| {
                computed.borrow_mut().push(*key);
                10 * key
            })
        };
        assert_eq!((get(0), get(1), get(0), get(1)), (0, 10, 0, 10));
        assert_eq!(*computed.borrow(), [0, 1]);
        assert_eq!((2..=KEPT).map(get).sum::<usize>(), 10 * (2..=KEPT).sum::<usize>());
        assert_eq!((get(1), get(0)), (10, 0));
        assert_eq!(computed.borrow().last(), Some(&0), "the oldest is gone");
        assert_eq!(computed.borrow().len(), KEPT + 2);
    }
}
