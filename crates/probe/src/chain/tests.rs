//! Tests of orders and chains against their definitions.

use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn bijection_and_inverse_cancel(n in 1u64..5000, seed: u64) {
        let p = Bijection::new(n, seed);
        let mut seen = vec![false; n as usize];
        for i in 0..n {
            let x = p.at(i);
            prop_assert!(x < n);
            prop_assert!(!core::mem::replace(&mut seen[x as usize], true));
            prop_assert_eq!(p.index(x), i);
        }
    }

    #[test]
    fn chains_are_one_cycle_with_a_known_end(
        cells in 1u64..3000,
        order in prop_oneof![
            Just(Order::Random),
            Just(Order::Once),
            Just(Order::Sequential),
            (64u64..8192).prop_map(Order::Window),
            (-12i8..12).prop_map(Order::Strided),
            (1u64..20).prop_map(Order::Groups),
            (1u64..40, any::<bool>()).prop_map(|(per, both)| Order::Passes { per, both }),
        ],
        layout in prop_oneof![
            Just(Layout::Packed),
            Just(Layout::OnePerPage { page: 4096 }),
            (1u64..9, 65u64..900).prop_map(|(group, words)| Layout::Grouped { group, period: 8 * words }),
        ],
        seed: u64,
    ) {
        let chain = Chain::new(8192, cells, 64, layout, order, seed);
        let mut seen = vec![false; chain.cells() as usize];
        for i in 0..chain.cells() {
            let j = chain.cell_at(i);
            prop_assert_eq!(chain.position_of(j), i);
            prop_assert_eq!(chain.number_at(chain.place(j)), Some(j));
            prop_assert!(chain.place(j) + 8 <= chain.base + chain.extent());
            prop_assert!(!core::mem::replace(&mut seen[j as usize], true));
        }
        prop_assert_eq!(chain.at(chain.cells()), chain.at(0));
    }

    #[test]
    fn windows_are_finished_before_they_are_left(windows in 2u64..40, seed: u64) {
        let chain = Chain::new(0, windows * 64, 64, Layout::Packed, Order::Window(4096), seed);
        for w in 0..2 * windows {
            let first = chain.at(w * 32) / 4096;
            for i in 0..32 {
                prop_assert_eq!(chain.at(w * 32 + i) / 4096, first);
            }
        }
    }

    #[test]
    fn strides_are_constant_within_a_pass(cells in 2u64..3000, by in 1i8..12, descending: bool) {
        let n = if descending { -by } else { by };
        let chain = Chain::new(0, cells, 64, Layout::Packed, Order::Strided(n), 0);
        let jump = |i: u64| chain.cell_at(i + 1) as i64 - chain.cell_at(i) as i64;
        let odd = (0..cells - 1).filter(|i| jump(*i) != i64::from(n)).count() as u64;
        prop_assert_eq!(odd, u64::from(by as u8).min(cells) - 1);
        prop_assert_eq!(chain.cell_at(0), if descending { cells - 1 } else { 0 });
    }

    #[test]
    fn groups_are_finished_ascending_before_they_are_left(groups in 1u64..40, per in 1u64..9, seed: u64) {
        let layout = Layout::Grouped { group: per, period: 1024 };
        let chain = Chain::new(0, groups * per, 64, layout, Order::Groups(per), seed);
        for i in 0..groups * per {
            prop_assert_eq!(chain.at(i), chain.at(i - i % per) / 1024 * 1024 + i % per * 64);
        }
    }

    #[test]
    fn passes_visit_the_same_cells_of_every_page_in_the_same_order(pages in 1u64..40, half in 1u64..9, seed: u64) {
        let per = 2 * half;
        let chain = |both| {
            let layout = Layout::OnePerPage { page: 4096 };
            Chain::new(0, pages * per, 64, layout, Order::Passes { per, both }, seed)
        };
        let (single, both) = (chain(false), chain(true));
        let (page, line) = (|of: &Chain, i| of.cell_at(i) / per, |of: &Chain, i| of.cell_at(i) % per);
        for i in 0..pages * per {
            let (pair, nth) = (i / (2 * pages), i % (2 * pages));
            prop_assert_eq!(page(&single, i), page(&single, i % pages));
            prop_assert_eq!(line(&single, i), pair + nth / pages * half);
            prop_assert_eq!(page(&both, i), page(&single, nth / 2));
            prop_assert_eq!(line(&both, i), pair + nth % 2 * half);
        }
    }

    #[test]
    fn neighbours_are_half_a_lap_apart(cells in 4u64..3000, windowed: bool, seed: u64) {
        let order = if windowed { Order::Window(4096) } else { Order::Random };
        let chain = Chain::new(0, cells, 64, Layout::Packed, order, seed);
        for k in 0..cells / 2 {
            prop_assert_eq!(chain.position_of(2 * k) + cells / 2, chain.position_of(2 * k + 1));
        }
    }
}

/// Sattolo's algorithm: the reference for a random cycle.
fn sattolo(n: usize, mut seed: u64) -> Vec<usize> {
    let mut next: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        seed = mix(seed);
        next.swap(i, (seed % i as u64) as usize);
    }
    next
}

/// Returns the mean absolute distance of successive cells, relative to the cell count: 1/3 for a random cycle.
fn mean_jump(next: impl Fn(usize) -> usize, n: usize) -> f64 {
    (0..n).map(|i| next(i).abs_diff(i) as f64).sum::<f64>() / n as f64 / n as f64
}

#[test]
fn random_chain_jumps_as_far_as_a_random_cycle() {
    let n = 10_000;
    for seed in 0..5 {
        let reference = sattolo(n, seed);
        let chain = Chain::new(0, n as u64, 64, Layout::Packed, Order::Random, seed);
        let ours = |j: usize| chain.cell_at(chain.position_of(j as u64) + 1) as usize;
        let (a, b) = (mean_jump(|i| reference[i], n), mean_jump(ours, n));
        // The standard error of the mean of |U - V| over 10,000 is 0.0024; the limit is five of them.
        assert!((a - 1.0 / 3.0).abs() < 0.012, "Sattolo {a}");
        assert!((b - 1.0 / 3.0).abs() < 0.012, "chain {b}");
        // The next line, which a prefetcher would fetch, must be as rare as in a random cycle (1 in n).
        let neighbours = (0..n).filter(|&j| ours(j) == j + 1).count();
        assert!(neighbours < 10, "{neighbours} successors are neighbours");
    }
}

/// Returns the number of cells of a page chain in each of `sets` sets of 64-byte lines.
fn cells_per_set(page: u64, step: u64, cells: u64, sets: u64) -> Vec<u64> {
    let chain = Chain::new(0, cells, step, Layout::OnePerPage { page }, Order::Random, 1);
    let mut fill = vec![0u64; sets as usize];
    for j in 0..chain.cells() {
        fill[((chain.place(j) / 64) % sets) as usize] += 1;
    }
    fill
}

#[test]
fn one_cell_a_page_fills_any_power_of_two_sets_evenly() {
    for (page, sets_bits) in [(4096u64, 6u32), (4096, 8), (4096, 11), (16384, 7), (65536, 10)] {
        let sets = 1u64 << sets_bits;
        for cells in [4 * sets.max(page / 64), 5 * sets / 2] {
            let fill = cells_per_set(page, 64, cells, sets);
            assert!(fill.iter().all(|&f| f <= cells.div_ceil(sets)), "page {page}, {sets} sets: {fill:?}");
        }
    }
}

#[test]
fn one_cell_a_page_overfills_no_set_below_capacity() {
    // The numbers of sets are not powers of two, and the index is a modulo without a hash. No layout with one line per
    // page fills all of these sets evenly. But well below the capacity no set may have more lines than the 16 ways of
    // such caches.
    for sets in [1056u64, 1344, 1536, 2112, 704, 3 * 1024, 11 * 1024] {
        for cells in [128, 266, 512, 1024] {
            let most = cells_per_set(4096, 128, cells, sets).into_iter().max();
            assert!(most <= Some(12), "{cells} pages, {sets} sets: {most:?}");
        }
    }
}
