//! Misses whose reasons are known by arithmetic.

use fathom_model::Access;

use crate::protocol::Machine;
use crate::{LineCounts, MachineCounts, Machines, REASONS, Reason, StoryCounts};

/// Two CPUs with 1 KiB in 8 sets of 2 lines of 64 bytes each, before 8 KiB that they share; no translation.
pub(super) const TWO: &str = r#"
format = 1
about = "two CPUs"
[core]
clock = "1 GHz"
cpus = 2
alu = "1 cycle"
branch = "0 cycles"
[timer]
clock = "1 GHz"
overhead = "0 cycles"
jitter = "0 cycles"
resolution = 1
[[level]]
name = "L1"
holds = "unified"
size = "1K"
line = "64"
ways = 2
latency = "1 cycle"
replacement = "lru"
write = "back"
allocate = true
inclusion = "neither"
shared = false
[[level]]
name = "L2"
holds = "unified"
size = "8K"
line = "64"
ways = 4
latency = "10 cycles"
replacement = "lru"
write = "back"
allocate = true
inclusion = "inclusive"
shared = true
[memory]
size = "1G"
pages = ["4K"]
latency = "100 ns"
"#;

pub(super) const BASE: u64 = 0x4000_0000;

fn machines(text: &str) -> Machines {
    let machine = Machine { name: "two".to_owned(), text: text.to_owned() };
    Machines::new(&[machine], 1, 1, true).expect("valid")
}

fn counts(of: Machines) -> MachineCounts {
    of.finish().pop().expect("a machine")
}

fn story(counts: &MachineCounts) -> &StoryCounts {
    counts.story.as_ref().expect("asked for")
}

/// Returns the misses of a level by reason, without those that are 0.
fn reasons(of: &[u64; REASONS]) -> Vec<(Reason, u64)> {
    Reason::ALL.into_iter().zip(*of).filter(|(_, count)| *count > 0).collect()
}

fn loads(offsets: impl IntoIterator<Item = u64>) -> Vec<Access> {
    offsets.into_iter().map(|offset| Access::load(BASE + offset, 8).at(offset % 7)).collect()
}

#[test]
fn lines_of_one_set_conflict_and_each_pair_is_counted() {
    let mut all = machines(TWO);
    // Three lines in one set of two ways, in turn, use 3 of 16 lines.
    let offsets = (0..300).map(|n| 512 * (n % 3));
    all.run(0, loads(offsets));
    let counts = counts(all);
    assert_eq!(reasons(&story(&counts).levels[0].unwrap()), [(Reason::Cold, 3), (Reason::Conflict, 297)]);
    assert_eq!(reasons(&story(&counts).levels[1].unwrap()), [(Reason::Cold, 3)]);
    // LRU evicts the line that is needed next, when the one before it in the turn is loaded.
    let pairs: Vec<_> = story(&counts).pairs.iter().map(|p| (p.address, p.by.unwrap().0, p.count)).collect();
    let pair = |line: u64, by: u64| (BASE + 512 * line, BASE + 512 * by, 99);
    assert_eq!(pairs, [pair(0, 2), pair(1, 0), pair(2, 1)]);
    assert!(story(&counts).pairs.iter().all(|p| (p.level, p.set, p.cpu) == (0, 0, 0)));
    let first = &story(&counts).lines[0];
    assert_eq!((first.address, first.misses.clone(), first.reasons[2]), (BASE, vec![100, 1], 99));
    // A miss that L2 serves takes 9 cycles more than a hit, one of memory 99 + 1 of the level.
    assert_eq!(first.units, (99 * 9 + 99) * fathom_model::UNITS_PER_CYCLE);
}

#[test]
fn what_no_cache_of_the_size_would_keep_is_capacity() {
    let mut all = machines(TWO);
    // 17 lines in turn are one more than L1 has.
    all.run(0, loads((0..1700).map(|n| 64 * (n % 17))));
    let counts = counts(all);
    // Sets 1 to 7 have two lines each, and keep them: LRU of all lines would miss always, the sets do not.
    assert_eq!(reasons(&story(&counts).levels[0].unwrap()), [(Reason::Cold, 17), (Reason::Capacity, 297)]);
}

#[test]
fn stores_of_another_cpu_share_or_share_falsely() {
    for (offset, reason) in [(0, Reason::Shared), (8, Reason::FalselyShared)] {
        let mut all = machines(TWO);
        for _ in 0..50 {
            all.run(0, vec![Access::load(BASE, 8).at(1)]);
            all.run(1, vec![Access::store(BASE + offset, 8).at(2)]);
        }
        let counts = counts(all);
        // The first accesses of the two are cold, and CPU 1 keeps its line: loads do not invalidate.
        let cold = (Reason::Cold, 2);
        assert_eq!(reasons(&story(&counts).levels[0].unwrap()), [cold, (reason, 49)]);
        let pair = &story(&counts).pairs[0];
        assert_eq!((pair.address, pair.place, pair.cpu), (BASE, 1, 0));
        assert_eq!((pair.by, pair.by_cpu, pair.count), (Some((BASE + offset, 2)), 1, 49));
        assert_eq!(
            story(&counts).places,
            [(1, [1, 0, 0, 0, 0, 0].with(reason, 49)), (2, [1, 0, 0, 0, 0, 0])]
        );
    }
}

trait With {
    fn with(self, reason: Reason, count: u64) -> Self;
}

impl With for [u64; REASONS] {
    fn with(mut self, reason: Reason, count: u64) -> Self {
        self[reason as usize] = count;
        self
    }
}

#[test]
fn later_stores_to_the_bytes_share_the_line_too() {
    let mut all = machines(TWO);
    all.run(0, vec![Access::load(BASE, 8)]);
    // The first store takes the line away; the second one, a hit, writes what CPU 0 loads.
    all.run(1, vec![Access::store(BASE + 32, 8), Access::store(BASE + 4, 4)]);
    all.run(0, vec![Access::load(BASE, 8)]);
    assert_eq!(reasons(&story(&counts(all)).levels[0].unwrap()), [(Reason::Cold, 2), (Reason::Shared, 1)]);
}

#[test]
fn lines_that_an_inclusive_level_takes_are_conflicts_of_the_nearer_one() {
    let mut all = machines(TWO);
    // CPU 1 loads four lines of the set of L2 (32 sets) in which CPU 0's line is: L2 evicts that one.
    all.run(0, loads([0]));
    all.run(1, loads([2048, 4096, 6144, 8192]));
    all.run(0, loads([0]));
    let counts = counts(all);
    assert_eq!(reasons(&story(&counts).levels[0].unwrap()), [(Reason::Cold, 5), (Reason::Conflict, 1)]);
    let pair = &story(&counts).pairs[0];
    assert_eq!((pair.by.unwrap().0, pair.by_cpu, pair.level), (BASE + 8192, 1, 0));
}

#[test]
fn stores_without_allocation_have_a_reason_of_their_own() {
    let mut all = machines(&TWO.replacen("allocate = true", "allocate = false", 1));
    all.run(0, (0..64).map(|n| Access::store(BASE + 8 * n, 8)).collect());
    let counts = counts(all);
    assert_eq!(reasons(&story(&counts).levels[0].unwrap()), [(Reason::Unallocated, 64)]);
}

/// A TLB of 8 entries in 4 sets before one of 16 entries in one set: `TWO` with them, and with free walks.
fn with_tlbs() -> String {
    let tlb = |name: &str, entries: u32, ways: u32| {
        format!(
            "[[tlb]]\nname = \"{name}\"\nentries = {entries}\nways = {ways}\npages = [\"4K\"]\nlatency = \"0 cycles\"\n\
             replacement = \"lru\"\n"
        )
    };
    let walk = "[walk]\nfetches = 0\nfrom = \"none\"\nlatency = \"0 ns\"\n";
    TWO.replace("[memory]", &format!("{}{}{walk}[memory]", tlb("near", 8, 2), tlb("far", 16, 16)))
}

#[test]
fn pages_of_one_set_conflict_and_more_pages_than_entries_do_not() {
    // Three pages in one set of two ways; 17 pages in turn; the second TLB has one set.
    let apart =
        |pages: u64, step: u64| (0..100 * pages).map(move |n| 4096 * step * (n % pages) + 64 * (n % 3));
    for (pages, step, near, far) in [
        (3, 4, vec![(Reason::Cold, 3), (Reason::Conflict, 297)], vec![(Reason::Cold, 3)]),
        (
            17,
            1,
            vec![(Reason::Cold, 17), (Reason::Capacity, 1683)],
            vec![(Reason::Cold, 17), (Reason::Capacity, 1683)],
        ),
    ] {
        let mut all = machines(&with_tlbs());
        all.run(0, loads(apart(pages, step)));
        let counts = counts(all);
        let told: Vec<_> = story(&counts).tlbs.iter().map(reasons).collect();
        assert_eq!(told, [near, far], "{pages} pages");
        for (tlb, reasons) in counts.tlbs.iter().zip(&story(&counts).tlbs) {
            assert_eq!(tlb.misses, reasons.iter().sum::<u64>(), "{pages} pages: {}", tlb.name);
        }
        let pairs: Vec<_> = story(&counts)
            .page_pairs
            .iter()
            .map(|p| (p.address / 4096, p.by.unwrap().0 / 4096, p.count))
            .collect();
        let page = |n: u64| BASE / 4096 + step * n;
        let expected = [(0, 2), (1, 0), (2, 1)].map(|(own, by)| (page(own), page(by), 99));
        assert_eq!(pairs, if pages == 3 { expected.to_vec() } else { vec![] });
        assert!(
            story(&counts).page_pairs.iter().all(|p| (p.level, p.set) == (0, 0)),
            "{:?}",
            story(&counts).page_pairs
        );
    }
}

fn random(accesses: u64, seed: u64) -> Vec<(u32, Vec<Access>)> {
    let mut state = seed;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let access = |draw: &mut dyn FnMut(u64) -> u64| {
        let at = BASE + if draw(3) == 0 { draw(1 << 20) } else { draw(1 << 14) };
        match draw(6) {
            0 => Access::fetch(at & !3, 4),
            1 | 2 => Access::store(at, 1 << draw(5)),
            _ => Access::load(at, 1 << draw(5)),
        }
        .at(draw(20))
    };
    (0..accesses / 100).map(|_| (draw(3) as u32, (0..100).map(|_| access(&mut draw)).collect())).collect()
}

/// On every machine of the catalogue: counts are those without reasons, and reasons add up.
#[test]
fn reasons_add_up_and_change_no_count() {
    for name in fathom_model::catalog::names() {
        let text = fathom_model::catalog::text(name).expect("embedded").to_owned();
        let machine = [Machine { name: name.to_owned(), text }];
        let [mut plain, mut told] =
            [false, true].map(|why| Machines::new(&machine, 5, 1, why).expect("valid"));
        for (thread, batch) in random(30_000, 11) {
            plain.run(thread, batch.clone());
            told.run(thread, batch);
        }
        let (plain, told) = (counts(plain), counts(told));
        assert_eq!(MachineCounts { story: None, ..told.clone() }, plain, "{name}");
        let story = story(&told);
        for (level, reasons) in told.levels.iter().zip(&story.levels) {
            let sum = reasons.map(|of| of.iter().sum::<u64>());
            assert!(sum.is_none_or(|sum| sum == level.misses()), "{name} {}: {reasons:?}", level.name);
        }
        for (tlb, reasons) in told.tlbs.iter().zip(&story.tlbs) {
            assert_eq!(tlb.misses, reasons.iter().sum::<u64>(), "{name} {}: {reasons:?}", tlb.name);
        }
        let sum = |of: &dyn Fn(&LineCounts) -> u64| story.lines.iter().map(of).sum::<u64>();
        let all = told.sharing.unwrap_or_default();
        assert_eq!(sum(&|line| line.sharing.invalidated), all.invalidated, "{name}");
        assert_eq!(sum(&|line| line.sharing.upgrades), all.upgrades, "{name}");
        assert!(
            sum(&|line| line.sharing.transfers) <= all.transfers,
            "{name}: fetches are of no line of data"
        );
        for (number, level) in told.levels.iter().enumerate().filter(|(_, l)| l.holds != "instructions") {
            let data: u64 = (0..2).map(|kind| level.accesses[kind] - level.hits[kind]).sum();
            assert_eq!(sum(&|line| line.misses[number]), data, "{name} {}", level.name);
        }
    }
}
