//! Placement of lines: hashed indices, scattered frames, and pages that share a frame.

use fathom_model::description::{Frames, Holds, Index, Replacement, Time, WalkFrom};
use fathom_model::{Description, Kind, Model, catalog};
use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::machine::{Attribute, Counters, Machine, MapRequest, Pages};

fn request(bytes: u64) -> MapRequest {
    MapRequest { bytes, pages: Pages::Base, attribute: Attribute::WriteBack, place: 1 }
}

/// Returns a machine with TLBs and walks that bypass the caches, and one level of `ways` ways of `pages` base pages
/// each.
fn coloured(pages: u64, ways: u32) -> Description {
    let mut d = catalog::load("bcm2837").expect("embedded").expect("sound");
    (d.timer.jitter, d.memory.spread) = (Time::ZERO, Time::ZERO);
    let mut level = d.levels[0].clone();
    (level.name, level.holds, level.replacement) = ("L1".into(), Holds::Data, Replacement::Lru);
    (level.ways, level.size) = (ways, 4096 * pages * u64::from(ways));
    d.levels = vec![level];
    let walk = d.walk.as_mut().expect("a walk");
    (walk.from, walk.fetches) = (WalkFrom::Memory, 1);
    d
}

fn count(model: &mut Model, name: &str) -> u64 {
    model.counters().unwrap().into_iter().find(|c| c.name == name).expect("a counter").value
}

/// Returns the refills of L1 and of the first TLB in the second of two rounds over the first words of `pages` pages.
fn round(model: &mut Model, base: u64, pages: u64) -> (u64, u64) {
    let words: Vec<u64> = (0..pages).map(|page| base + page * 4096).collect();
    model.loads(&words).unwrap();
    let before = (count(model, "refill.L1"), count(model, "refill.tlb.1"));
    model.loads(&words).unwrap();
    (count(model, "refill.L1") - before.0, count(model, "refill.tlb.1") - before.1)
}

#[test]
fn scattered_frames_have_random_colours_and_no_overlap() {
    let mut d = coloured(4, 4);
    // Contiguous: 64 pages of 4 colours, 16 lines for 4 ways in each of 4 sets.
    let base = |model: &mut Model| model.map(&request(64 * 4096)).unwrap().base;
    let mut model = Model::new(&d, 1);
    let start = base(&mut model);
    assert_eq!(round(&mut model, start, 64).0, 64);
    assert_eq!(round(&mut Model::new(&d, 2), start, 16).0, 0);
    d.memory.frames = Frames::Scattered;
    // 16 pages fit in 4 sets of 4 ways only if each colour occurs four times, which is rare: 16! / 4!^4 of 4^16 draws,
    // one
    // in 68. All of them miss if no colour has one to four pages: 5, 5 and 6, or 8 and 8, or fewer colours, one in 150.
    let misses: Vec<u64> = (0..100).map(|seed| round(&mut Model::new(&d, seed), start, 16).0).collect();
    let count_of = |misses_of: u64| misses.iter().filter(|&&m| m == misses_of).count();
    assert!(count_of(0) <= 8 && count_of(16) <= 5, "{misses:?}");
    // A way of one page has only one colour, so frames have no effect.
    let mut one = coloured(1, 4);
    one.memory.frames = Frames::Scattered;
    for (pages, misses) in [(4, 0), (5, 5)] {
        assert_eq!(round(&mut Model::new(&one, 1), start, pages).0, misses);
    }
    // Every line of the mapping is separate: no line is filled twice, and none is found without a fill.
    let mut roomy = coloured(512, 16);
    roomy.memory.frames = Frames::Scattered;
    let mut model = Model::new(&roomy, 1);
    let line = roomy.levels[0].line;
    let words: Vec<u64> = (0..64 * 4096 / line).map(|n| start + n * line).collect();
    model.loads(&words).unwrap();
    assert_eq!(count(&mut model, "refill.L1"), words.len() as u64);
    model.loads(&words).unwrap();
    assert_eq!(count(&mut model, "refill.L1"), words.len() as u64);
}

#[test]
fn huge_pages_are_contiguous_despite_scattered_frames() {
    let mut d = coloured(4, 4);
    d.memory.frames = Frames::Scattered;
    let mut model = Model::new(&d, 1);
    let base = model.map(&MapRequest { pages: Pages::Huge, ..request(1 << 20) }).unwrap().base;
    assert_eq!(round(&mut model, base, 16).0, 0);
    assert_eq!(round(&mut model, base, 20).0, 20);
}

/// Beside huge pages and without them.
#[test]
fn coloured_pages_are_contiguous_despite_scattered_frames() {
    for pages in [vec![4096], vec![4096, 2 << 20]] {
        let mut d = coloured(4, 4);
        (d.memory.frames, d.memory.pages) = (Frames::Scattered, pages.clone());
        let request = MapRequest { pages: Pages::Coloured, ..request(1 << 20) };
        let mut model = Model::new(&d, 1);
        let mapping = model.map(&request).unwrap();
        assert_eq!(mapping.page_bytes, 4096);
        assert_eq!(round(&mut model, mapping.base, 16).0, 0);
        assert_eq!(round(&mut model, mapping.base, 20).0, 20);
        d.memory.page_map = false;
        assert!(Model::new(&d, 1).map(&request).unwrap_err().remedy.contains("page_map"), "{pages:?}");
    }
}

#[test]
fn pages_in_one_frame_share_lines_but_not_translations() {
    for frames in Frames::ALL {
        let mut d = coloured(4, 4);
        d.memory.frames = *frames;
        // The TLB has one entry, so each page is translated again.
        d.tlbs.truncate(1);
        (d.tlbs[0].entries, d.tlbs[0].ways) = (1, 1);
        let mut model = Model::new(&d, 1);
        let base = model.map(&request(64 * 4096)).unwrap().base;
        let words: Vec<u64> = (0..64).map(|page| base + page * 4096).collect();
        model.alias(base, 64, 1).unwrap();
        model.loads(&words).unwrap();
        let seen = ["refill.L1", "refill.tlb.1", "walks"].map(|name| count(&mut model, name));
        assert_eq!(seen, [1, 64, 64], "{frames:?}");
        // Sixteen frames: as many lines.
        model.alias(base, 64, 16).unwrap();
        model.loads(&words).unwrap();
        model.loads(&words).unwrap();
        let colours = count(&mut model, "refill.L1") - 1;
        assert!(colours == 16 || *frames == Frames::Scattered && (16..128).contains(&colours), "{colours}");
        // Another mapping removes the sharing.
        model.map(&request(4096)).unwrap();
        let before = count(&mut model, "refill.L1");
        model.loads(&words).unwrap();
        assert_eq!(count(&mut model, "refill.L1") - before, 64, "{frames:?}");
    }
}

#[test]
fn store_through_one_page_is_read_through_another() {
    let mut model = Model::new(&coloured(4, 4), 1);
    let base = model.map(&request(8 * 4096)).unwrap().base;
    model.alias(base, 8, 2).unwrap();
    model.access(0, base + 8, Kind::Store).unwrap();
    assert_eq!(model.access(0, base + 2 * 4096 + 16, Kind::Load).unwrap().level, Some(0));
    assert_eq!(model.access(0, base + 3 * 4096 + 16, Kind::Load).unwrap().level, None);
    assert!(!model.memory_is_current(base + 6 * 4096, 8).unwrap());
    assert!(model.memory_is_current(base + 7 * 4096, 4096).unwrap());
    model.written_behind(base + 4 * 4096, 8).unwrap();
    assert!(model.access(0, base, Kind::Load).unwrap().stale);
}

#[test]
fn alias_of_unmapped_memory_is_refused() {
    let mut model = Model::new(&coloured(4, 4), 1);
    let base = model.map(&request(8 * 4096)).unwrap().base;
    let bad = [
        (base, 9, 1),
        (base + 8, 1, 1),
        (base, 8, 0),
        (base, 8, 9),
        (base, u64::MAX, 1),
        (base - 4096, 2, 1),
    ];
    for (start, pages, frames) in bad {
        assert!(
            !model.alias(start, pages, frames).unwrap_err().remedy.is_empty(),
            "{start} {pages} {frames}"
        );
    }
    assert!(model.alias(base + 4096, 7, 7).is_ok());
}

#[test]
fn lines_a_way_apart_conflict_by_bits_and_not_by_hash() {
    let mut d = coloured(4, 4);
    let base = Model::new(&d, 1).map(&MapRequest { pages: Pages::Huge, ..request(1 << 20) }).unwrap().base;
    let apart = |d: &Description, step: u64, lines: u64| {
        let mut model = Model::new(d, 1);
        let words: Vec<u64> = (0..lines).map(|n| base + n * step).collect();
        model.loads(&words).unwrap();
        model.loads(&words).unwrap();
        count(&mut model, "refill.L1")
    };
    for step in [4 * 4096, 8 * 4096, 64 * 4096] {
        assert_eq!(apart(&d, step, 5), 10, "{step}");
    }
    d.levels[0].index = Index::Hashed;
    for step in [64, 4096, 4 * 4096, 8 * 4096, 64 * 4096] {
        assert_eq!(apart(&d, step, 256), 256, "{step}");
    }
    // Even so, it cannot hold one line more than its capacity.
    let lines = d.levels[0].size / d.levels[0].line;
    assert!(
        apart(&d, d.levels[0].line, lines) == lines && apart(&d, d.levels[0].line, lines + 1) > lines + 1
    );
}

/// Shared pages are one line, and the earlier contents are gone.
#[test]
fn shared_pages_are_one_line_and_blank() {
    let mut model = Model::new(&coloured(1, 4), 1);
    let map = model.map(&request(32 * 4096)).unwrap();
    let first = model.cell(map.base).unwrap();
    let chain = Chain::new(map.base, 32, 4096, Layout::Packed, Order::Random, 1);
    model.initialise(&chain).unwrap();
    let second = model.cell(map.base + 4096).unwrap();
    model.link(second, second);
    assert_eq!(round(&mut model, map.base, 32).0, 32);
    assert_eq!(model.map_shared(&request(32 * 4096), 1).unwrap(), map);
    for page in 0..32 {
        let cell = model.cell(map.base + page * 4096).unwrap();
        assert_eq!(model.follow(cell), first);
    }
    assert_eq!(round(&mut model, map.base, 32).0, 0);
    // The next request gives every page its own frame again.
    assert_eq!(model.map(&request(32 * 4096)).unwrap(), map);
    assert_eq!(round(&mut model, map.base, 32).0, 32);
    assert!(model.map_shared(&request(4096), 2).unwrap_err().reason.contains("cannot be in 2 frames"));
}
