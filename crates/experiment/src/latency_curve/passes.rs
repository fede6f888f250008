//! Translation by passes over lines that all come from memory, where two lines of each page just fill a cache.
//!
//! There the two orders of [`two_lines`] find different lines in the cache, and the difference says little. A described machine begins each trial
//! with empty caches, so lines that were never loaded come from memory, whatever the caches hold. Passes over all pages visit other lines of each
//! page every time, so a page comes back after all others. In one order, a pass visits two lines of every page, one after the other; in the
//! other, one line. After two passes of one line the same lines were visited. The loads differ by half a translation.
//!
//! The second line of a page finds its row of memory open in one order only. How much that is, is what the passes show more than few lines of the
//! same pages that are all in a cache.

use std::collections::BTreeMap;

use fathom_analysis::tiers::Reading;
use fathom_probe::pattern::{self, Memory, OrderKind, Pattern, PatternKind, Variant, Walk};

use super::refreshes;
use super::translation::{self, Pair};
use super::two_lines::{self, LINES, OpenRows, TwoLines};
use crate::record::Record;
use crate::scale::{At, Scale};

/// Most lines of a page: all of 64 KiB.
const MOST_LINES: u64 = 512;
/// Passes of two lines over all pages before the first sample.
const WARM: u64 = 2;
/// Samples, each of a run of n loads and one of 2n.
pub(super) const SAMPLES: u64 = 2;

/// Returns the lines of each page.
fn lines(scale: &Scale) -> u64 {
    MOST_LINES.min(scale.base / scale.pair_stride())
}

/// Returns pattern and memory of so many pages, in both orders: one line of each page, and two.
pub(super) fn both(scale: &Scale, pages: u64) -> [(Pattern, Memory); 2] {
    let (stride, per_page) = (scale.pair_stride(), lines(scale));
    let memory = Memory { page: scale.base_pages(), ..Memory::of(per_page * pages * stride, stride) };
    [OrderKind::Passes, OrderKind::PassesOfPairs].map(|order| {
        let walk = Walk { order, window: scale.base };
        (pattern::Pages { walk, per_page }.into(), memory)
    })
}

/// Returns the loads of a run over so many pages, and those before the first sample: as many runs of whole passes as are wanted, if a page has
/// the lines for them; `None` if it has too few for any.
pub(super) fn loads(scale: &Scale, pages: u64, wanted: u64) -> Option<(u64, u64)> {
    let of_pass = LINES * pages;
    // One load more in each run, so that no run is a number of whole laps.
    let runs = 3 * SAMPLES;
    let most = (lines(scale) * pages).checked_sub(WARM * of_pass + runs)? / runs / of_pass;
    let passes = wanted.div_ceil(of_pass).min(most);
    (passes > 0).then_some((passes * of_pass + 1, WARM * of_pass))
}

/// Loads that average out what loads from memory differ by, and most trials for them: with a spread of 10 ns, 8192 leave 0.3 ns in a translation.
const LOADS: u64 = 8192;
const MOST_TRIALS: u64 = 4;

/// Returns how many trials of so many loads in a run to make.
pub(super) fn trials(loads: u64) -> u64 {
    LOADS.div_ceil(3 * SAMPLES * loads).min(MOST_TRIALS)
}

/// Returns the times of all numbers of pages, by their number.
pub(super) fn read(record: &Record, scale: &Scale) -> BTreeMap<u64, TwoLines> {
    let (stride, per_page) = (scale.pair_stride(), lines(scale));
    let [single, pairs] = [OrderKind::Passes, OrderKind::PassesOfPairs].map(|order| {
        scale.gather(record, PatternKind::Pages, |trial| {
            let of = pattern::Pages::of(&trial.pattern);
            of.is_some_and(|of| of.walk.order == order && of.per_page == per_page)
                && trial.memory.stride == stride
        })
    });
    let both = |apart: At| {
        let together = pairs.iter().find(|at| at.bytes == apart.bytes)?.clone();
        Some((apart.bytes / stride / per_page, TwoLines::of_passes(apart, together)))
    };
    let mut all = single.into_iter().filter_map(both).collect();
    add_refresh_error(&mut all);
    all
}

/// Adds the error of loads in step with the refreshes of memory.
fn add_refresh_error(all: &mut BTreeMap<u64, TwoLines>) {
    let Some(least) = refreshes::in_step(all.values()) else { return };
    for lines in all.values_mut() {
        lines.method = refreshes::error(lines, least);
    }
}

/// Smallest step of the curve, in loads from memory, at whose end two lines of each page lose more precision than loads from memory.
const LARGE_STEP: f64 = 0.1;
/// Ratio of lines to a cache from which on both orders find nothing in it after a lap: with random replacement, a cache of a third keeps 6 %.
const ALL_BEYOND: f64 = 3.0;
/// Ratio of a cache to lines from which on they are all in it: the largest number of lines in a set is twice the mean.
const ALL_INSIDE: f64 = 2.0;
/// Fewest pages that close all rows of memory in a pass: two ranks of 16 banks have 32 open rows of 8 KiB (a channel of DDR4, JESD79-4), and two
/// pages of 4 KiB are in one. Fewer pages find their rows open in both orders.
const ALL_ROWS: u64 = 64;
/// Numbers of pages to add if no pair shows what open rows add.
pub(super) const FOR_ROWS: [u64; 3] = [64, 96, 160];

/// The ends of the caches of a curve beside which two lines of each page may find other lines in one order than in the other.
pub(super) struct Ends<'a> {
    scale: &'a Scale,
    /// Ends, bytes, ascending.
    ends: Vec<f64>,
}

impl Ends<'_> {
    /// Returns those of a curve.
    pub(super) fn of<'a>(scale: &'a Scale, curve: &Reading) -> Ends<'a> {
        let memory = curve.tiers.last().map_or(f64::INFINITY, |tier| tier.latency.value);
        let steps = translation::steps(curve).zip(&curve.tiers);
        let is_large = |beyond: f64, here: f64| beyond - here >= LARGE_STEP * memory;
        let large = steps.filter(|((_, beyond), tier)| is_large(beyond.latency.value, tier.latency.value));
        Ends { scale, ends: large.map(|((capacity, _), _)| capacity.onset.value).collect() }
    }

    /// Returns the least and the largest part of a cache that two lines in each of these pages fill, bytes: spaced lines are in every second set, or in all
    /// of a cache whose sets are hashed or no power of two.
    fn filled(&self, pages: u64) -> (f64, f64) {
        let lines = LINES * pages;
        ((lines * self.scale.stride) as f64, (lines * self.scale.pair_stride()) as f64)
    }

    /// Returns whether two lines in each of these pages just fill a cache.
    pub(super) fn are_filled(&self, pages: u64) -> bool {
        let (least, most) = self.filled(pages);
        self.ends.iter().any(|end| ALL_INSIDE * most > *end && least < ALL_BEYOND * end)
    }

    /// Returns whether two lines in each of these pages are in a cache, and the pages more than all open rows of memory.
    pub(super) fn show_rows(&self, pages: u64) -> bool {
        self.ends.last().is_some_and(|last| ALL_INSIDE * self.filled(pages).1 <= *last) && pages >= ALL_ROWS
    }
}

/// Smallest time of conflicts of two lines in each page, in loads from memory, from which on passes tell more.
const LARGE_CONFLICT: f64 = 0.05;

/// Returns whether two lines in each page take so much longer than as many lines of the curve that some of them conflict in a cache.
pub(super) fn conflict(pair: &Pair, curve: &[At]) -> bool {
    curve.last().is_some_and(|last| conflicts(pair, curve) > LARGE_CONFLICT * last.time())
}

/// Returns the time that conflicts in a cache add to a load of two lines in each page, ns.
fn conflicts(pair: &Pair, curve: &[At]) -> f64 {
    let of = |lines: &TwoLines| {
        let hits = two_lines::interpolated(curve, lines.apart.bytes as f64 / LINES as f64);
        (lines.apart.time() - pair.extra - hits).max(0.0)
    };
    pair.two_lines.as_ref().filter(|lines| !lines.are_passes).map_or(0.0, of)
}

/// Standard error of a translation by few lines some of which conflict in a cache, as a share of the time of the conflicts: lines of 181 pages, of whose
/// 5.9 ns 4.6 were conflicts, missed 0.45 of 3.5 ns (described machine).
const CONFLICT_ERROR: f64 = 0.1;
/// Standard errors of passes against few lines, as shares of the translation, and of how much it differs from that on the next more and fewer pages: they
/// find other page tables in the caches, and other pages in a TLB that holds some of them.
const TABLES_ERROR: f64 = 0.05;
const RISE_ERROR: f64 = 0.5;

/// Returns the standard error of a pair's translation, ns, with that of conflicts in caches and of caches that the lines just fill.
fn error_of_few(pair: &Pair, curve: &[At]) -> f64 {
    let bytes = pair.apart().bytes as f64;
    let end = two_lines::end_of_cache(curve, bytes / LINES as f64 / ALL_BEYOND, ALL_INSIDE * bytes);
    pair.error().hypot(end).hypot(CONFLICT_ERROR * conflicts(pair, curve))
}

/// Replaces the pairs by these passes, less what open rows add, where that is more precise.
pub(super) fn replace(pairs: &mut [Pair], passes: &BTreeMap<u64, TwoLines>, rows: &Rows, curve: &[At]) {
    for pair in pairs {
        let passes = passes.get(&pair.pages).map(|lines| lines.less(rows.on(pair.pages)));
        if let Some(lines) = passes.filter(|lines| lines.error() < error_of_few(pair, curve)) {
            *pair = pair.with_lines(lines);
        }
    }
}

/// What open rows add to the translation that passes show: so many ns on many pages, less some in one by the number of pages.
pub(super) struct Rows {
    /// Both numbers, ns and ns times pages.
    of: [f64; 2],
    /// Their covariances: of each with itself, and of both.
    covariance: [f64; 3],
}

/// Pages of which a pass finds the rows open, with the standard deviation of what is known of it: loads on 64, 128 and 256 pages of 4 KiB found 37, 20
/// and 12 % of the rows of 16 banks open, which is 24 pages (described machine, wide generator, seed 571371); there may be 8 banks or 32.
const OPEN_PAGES: (f64, f64) = (20.0, 10.0);

impl Rows {
    /// Fits what was measured on some numbers of pages, and on many if that is known. `None` without any.
    fn fit(measured: &[(u64, OpenRows)], on_many: Option<OpenRows>) -> Option<Rows> {
        // Rows of [1, -1 / pages], value, and error.
        let per_page = |pages: u64| -1.0 / pages as f64;
        let mut all: Vec<([f64; 2], f64, f64)> =
            measured.iter().map(|(pages, rows)| ([1.0, per_page(*pages)], rows.added, rows.error)).collect();
        all.extend(on_many.map(|rows| ([1.0, 0.0], rows.added, rows.error)));
        let largest = all.iter().map(|(_, added, error)| added.abs() + error).reduce(f64::max)?;
        all.push(([-OPEN_PAGES.0, 1.0], 0.0, OPEN_PAGES.1 * largest));
        let sum = |of: &dyn Fn(&[f64; 2], f64) -> f64| -> f64 {
            all.iter().map(|(x, y, error)| of(x, *y) / error.max(MIN_ERROR).powi(2)).sum()
        };
        let (aa, bb, ab) = (sum(&|x, _| x[0] * x[0]), sum(&|x, _| x[1] * x[1]), sum(&|x, _| x[0] * x[1]));
        let (ay, by) = (sum(&|x, y| x[0] * y), sum(&|x, y| x[1] * y));
        let d = aa * bb - ab * ab;
        let covariance = [bb / d, aa / d, -ab / d];
        Some(Rows {
            of: [covariance[0] * ay + covariance[2] * by, covariance[2] * ay + covariance[1] * by],
            covariance,
        })
    }

    /// Returns what they add on so many pages.
    pub(super) fn on(&self, pages: u64) -> OpenRows {
        self.at(1.0 / pages as f64)
    }

    /// Returns what they add on many pages.
    pub(super) fn on_many(&self) -> OpenRows {
        self.at(0.0)
    }

    fn at(&self, x: f64) -> OpenRows {
        let [a, b, ab] = self.covariance;
        let error = (a + x * x * b - 2.0 * x * ab).max(0.0).sqrt();
        OpenRows { added: self.of[0] - x * self.of[1], error }
    }
}

/// Smallest error of what open rows add, ns: a step of a fine clock in thousands of loads.
const MIN_ERROR: f64 = 0.001;

/// Returns what open rows add to the translation that passes show: what they show more than few lines of the same pages that are in a cache, and
/// what the test on huge pages shows, if it counts. `None` if no number of pages has both.
pub(super) fn rows(
    pairs: &[Pair],
    passes: &BTreeMap<u64, TwoLines>,
    curve: &[At],
    tested: Option<OpenRows>,
) -> Option<Rows> {
    let beside = |i: usize| {
        let pair = &pairs[i];
        let passes = passes.get(&pair.pages)?;
        let near = &pairs[i.saturating_sub(1)..(i + 2).min(pairs.len())];
        let rise = near.iter().map(|near| (near.extra - pair.extra).abs()).fold(0.0, f64::max);
        let error = error_of_few(pair, curve).hypot(passes.error());
        let error = error.hypot(TABLES_ERROR * pair.extra).hypot(RISE_ERROR * rise);
        Some((pair.pages, OpenRows { added: passes.translation() - pair.extra, error }))
    };
    let is_beside = |i: &usize| pairs[*i].pages >= ALL_ROWS && !pairs[*i].is_in_memory(curve);
    let measured: Vec<(u64, OpenRows)> = (0..pairs.len()).filter(is_beside).filter_map(beside).collect();
    if passes.is_empty() { None } else { Rows::fit(&measured, tested) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency_curve::refreshes::EVERY;

    fn at(bytes: u64, time: f64) -> At {
        let mut at = At::default();
        (at.bytes, at.steady) = (bytes, vec![vec![time, time]]);
        at
    }

    fn lines(pages: u64, (apart, together): (f64, f64)) -> TwoLines {
        TwoLines::of_passes(at(pages * 4096, apart), at(pages * 4096, together))
    }

    #[test]
    fn no_line_is_visited_twice() {
        let scale = Scale::of(&Record::default());
        for pages in 1..2000 {
            let (loads, warm) = loads(&scale, pages, 2048).expect("32 lines of a page");
            assert!(warm + 3 * SAMPLES * loads <= super::lines(&scale) * pages, "{pages} pages");
            assert_eq!((loads - 1) % (LINES * pages), 0, "the same lines in both orders");
        }
    }

    #[test]
    fn loads_in_step_with_refreshes_have_an_error() {
        let errors = |times: &[(f64, f64)]| -> Vec<f64> {
            let mut all = (100..).zip(times).map(|(pages, times)| (pages, lines(pages, *times))).collect();
            add_refresh_error(&mut all);
            all.values().map(|lines| lines.method).collect()
        };
        // 67, 66 and 65 loads between two refreshes, and 32 loads of three reads.
        let of = |loads: f64| EVERY / loads;
        let in_step = errors(&[
            (of(67.0), of(67.0)),
            (of(66.0), of(67.0)),
            (of(65.0), of(66.0)),
            (3.0 * of(64.0), of(66.0)),
        ]);
        // Uniform over 1.74 ns, twice, in a translation twice the difference.
        assert!((in_step[0] - 1.42).abs() < 0.01, "{in_step:?}");
        assert!(in_step[3] > 2.0 * in_step[0]);
        let others = errors(&[
            (of(67.3), of(67.4)),
            (of(66.6), of(67.4)),
            (of(65.2), of(66.5)),
            (of(22.43), of(66.5)),
        ]);
        assert_eq!(others, [0.0; 4]);
    }

    #[test]
    fn rows_are_read_where_few_lines_are_certain() {
        let pair = |pages: u64, (apart, together): (f64, f64)| {
            let mut few = lines(pages, (apart, together));
            few.are_passes = false;
            let pair = Pair {
                pages,
                spread: at(128 * pages, apart),
                packed: at(128 * pages, apart),
                two_lines: None,
                extra: 0.0,
            };
            let mut pair = pair.with_lines(few);
            pair.two_lines.iter_mut().for_each(|few| few.apart.bytes = 256 * pages);
            pair
        };
        // A cache of 128 KiB; a TLB of 64 entries ends, and lines of 181 pages conflict.
        let curve: Vec<At> =
            [(1, 5.0), (128, 5.0), (200, 80.0), (4096, 80.0)].map(|(kib, time)| at(kib << 10, time)).to_vec();
        let few =
            [(32, (5.0, 5.0)), (64, (5.0, 5.0)), (90, (7.0, 6.0)), (181, (19.0, 17.5)), (256, (9.0, 7.0))];
        let pairs: Vec<Pair> = few.map(|(pages, times)| pair(pages, times)).to_vec();
        let all = |added: &[(u64, f64)]| -> BTreeMap<u64, TwoLines> {
            added.iter().map(|(pages, added)| (*pages, lines(*pages, (80.0 + added / 2.0, 80.0)))).collect()
        };
        // Open rows add 16 ns, less a quarter on 64 pages and 9 % on 181.
        let passes = all(&[(32, 0.0), (64, 12.0), (90, 15.2), (181, 18.6)]);
        let found = rows(&pairs, &passes, &curve, None).expect("64 pages");
        let on = found.on(64);
        assert!((on.added - 12.0).abs() < 0.2 && on.error < 1.1, "{on:?}");
        assert!(found.on_many().added > 14.0 && found.on_many().error > 1.2, "{:?}", found.on_many());
        assert!(rows(&pairs, &all(&[(32, 0.0)]), &curve, None).is_none(), "rows stay open");
        let tested = Some(OpenRows { added: 15.0, error: 0.1 });
        let with = rows(&pairs, &passes, &curve, tested).expect("64 pages");
        assert!((with.on_many().added - 15.0).abs() < 0.1 && (with.on(64).added - 12.0).abs() < 0.5);
        // What conflicts is replaced, and what is certain is not.
        let mut pairs = pairs;
        let of = Rows::fit(
            &[(64, OpenRows { added: 12.0, error: 0.1 })],
            Some(OpenRows { added: 16.0, error: 0.1 }),
        );
        replace(&mut pairs, &passes, &of.unwrap(), &curve);
        assert_eq!(
            pairs.iter().map(|pair| pair.two_lines.as_ref().unwrap().are_passes).collect::<Vec<_>>(),
            [false, false, false, true, false]
        );
    }
}
