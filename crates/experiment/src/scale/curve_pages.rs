//! Pages and window of the latency curve.
//!
//! The curve is measured in huge pages, if they are available, so that translation is no part of it. All lines of a
//! window are visited before the next window begins. Two properties of a machine decide whether that holds:
//!
//! - A host may map a guest's huge pages as base pages ("splintered" pages), and a TLB may hold huge pages in pieces.
//!   A window then has many translations and must fit in the first TLB: it has 64 KiB, 16 pages of 4 KiB, or, on a
//!   described machine, 4 pages unless the pairs show that the first TLB holds 16.
//! - The first TLB may hold no huge pages at all. Every load in a huge page then misses in it, and loads in base pages
//!   are faster. The curve is measured in base pages there.

use fathom_analysis::interval::median;
use fathom_probe::machine::Pages;
use fathom_probe::pattern::{OrderKind, PatternKind, Trial};

use super::{At, PAIR_STRIDE, STRIDE, Scale, WINDOW_PAGES, has_one_line_per_page, spaced_widely_from};
use crate::record::Record;

/// Window of the latency curve if its pages allow it, bytes. On an EPYC (Genoa) guest with splintered huge pages,
/// dependent loads of the 1 MiB L2 in random order take 14.0 to 17.5 cycles in windows of megabytes (misses of the
/// first TLB, 72 entries), 14.0 to 14.15 in windows of 64 KiB, and 9.4 in windows of 16 KiB, which are prefetched.
const WINDOW_BYTES: u64 = 64 << 10;

/// Largest number of pages of a pair that fits in every first-level TLB with room for the stack and the loop.
const FEW_PAGES: u64 = 8;
/// Smallest number of pairs on few pages that can show slower huge pages.
const MIN_PAIRS: usize = 4;
/// Relative difference beyond which a load in huge pages is slower than one in base pages. Misses of a first TLB cost
/// 5 cycles or more, on loads of 3 to 5 cycles; noise and the clock's resolution are below.
const MIN_DIFFERENCE: f64 = 0.1;
/// Relative rise on twice as many pages as a window has, up to which a window of base pages fits in the first TLB.
const MAX_RISE: f64 = 0.1;

/// Smallest budget with which packed halves of pairs need not be points of the curve: three quarters of the default one.
const MIN_BUDGET_MS: u64 = 7_500;

/// Loads that hit in the nearest cache, in huge pages and in base pages, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlowerHuge {
    pub(crate) huge: f64,
    pub(crate) base: f64,
}

/// Sets the pages and the window of the latency curve. A record that has points of the curve keeps their pages and
/// window; before the first point, the TLB pairs decide.
pub(super) fn choose(record: &Record, scale: &mut Scale) {
    // Packed halves of the pairs before a curve with twice the spacing have that spacing.
    let begun = if scale.stride > STRIDE { spaced_widely_from(record).unwrap_or(0) } else { 0 };
    let begun = |trial: &&Trial| trial.round >= begun;
    let chases = || record.of(PatternKind::Chase).map(|run| &run.trial).filter(begun);
    let recorded = chases().find(|trial| is_point(scale, trial));
    let page = recorded.map(|trial| trial.memory.page);
    if scale.huge.is_some() && page != Some(Pages::Huge) {
        let pairs = pairs(record, scale);
        if !pairs.is_empty() && (page.is_some() || most_are_slower(&pairs)) {
            let typical = |of: &dyn Fn(&SlowerHuge) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>());
            scale.slower_huge = typical(&|pair| pair.huge)
                .zip(typical(&|pair| pair.base))
                .map(|(huge, base)| SlowerHuge { huge, base });
            scale.huge = None;
        }
    }
    scale.window = recorded.map_or_else(|| first_window(record, scale), |trial| trial.pattern.walk().window);
}

/// Returns whether a trial is a point of any latency curve. Access orders and packed halves of the TLB pairs have
/// windows of one base page.
fn is_point(scale: &Scale, trial: &Trial) -> bool {
    let walk = trial.pattern.walk();
    walk.order == OrderKind::Window
        && walk.window > scale.base
        && trial.memory.stride == scale.stride
        && trial.beside.streams.is_empty()
}

/// Returns the window of a curve without points.
fn first_window(record: &Record, scale: &Scale) -> u64 {
    // Huge pages may be translated in pieces, which only a test after the first points tells. Until pairs tell what the first TLB holds, its
    // packed halves have few pages, too; on hardware prefetchers find few lines, and with a small budget the halves are points of the curve.
    let pages = (WINDOW_BYTES / scale.base).max(WINDOW_PAGES);
    let budget = record.run.as_ref().map_or(0, |run| run.budget_ms);
    let is_known = record.is_modelled() && budget >= MIN_BUDGET_MS && pages > WINDOW_PAGES;
    if scale.huge.is_some() && !is_known {
        return WINDOW_BYTES;
    }
    let times = |stride: u64| {
        let spread = spread(record, scale, stride);
        let time = |pages: u64| spread.iter().find(|at| at.bytes == pages * stride).map(At::time);
        time(4).zip(time(2 * pages))
    };
    match pair_strides(scale).into_iter().find_map(times) {
        Some((few, many)) if many <= few * (1.0 + MAX_RISE) => pages * scale.base,
        _ => WINDOW_PAGES * scale.base,
    }
}

/// Bytes between the lines of the pairs that may tell about pages: those of the curve, and those before it began again because lines are
/// long. Then the lines of a few pages are still in the nearest level.
fn pair_strides(scale: &Scale) -> [u64; 2] {
    [scale.pair_stride(), PAIR_STRIDE]
}

/// Returns all measurements of one line in each base page with this spacing.
fn spread(record: &Record, scale: &Scale, stride: u64) -> Vec<At> {
    scale.gather(record, PatternKind::Pages, |t| {
        has_one_line_per_page(t) && t.memory.stride == stride && t.memory.page == scale.base_pages()
    })
}

/// Returns the times of few lines packed in huge pages, and spread over base pages; none if there are too few.
fn pairs(record: &Record, scale: &Scale) -> Vec<SlowerHuge> {
    let pairs = pair_strides(scale).into_iter().map(|stride| pairs_spaced(record, scale, stride));
    pairs.into_iter().find(|pairs| pairs.len() >= MIN_PAIRS).unwrap_or_default()
}

/// Returns the same with this spacing, however few.
fn pairs_spaced(record: &Record, scale: &Scale, stride: u64) -> Vec<SlowerHuge> {
    let packed = scale.gather(record, PatternKind::Chase, |t| {
        t.memory.stride == stride && t.memory.page == Pages::Huge && t.memory.bytes <= FEW_PAGES * stride
    });
    let huge = |base: &At| packed.iter().find(|huge| huge.bytes == base.bytes).map(At::time);
    spread(record, scale, stride)
        .iter()
        .filter_map(|base| Some(SlowerHuge { huge: huge(base)?, base: base.time() }))
        .collect()
}

/// Returns whether loads in huge pages are slower in three of four pairs.
fn most_are_slower(pairs: &[SlowerHuge]) -> bool {
    let slower = pairs.iter().filter(|pair| pair.huge > pair.base * (1.0 + MIN_DIFFERENCE)).count();
    4 * slower >= 3 * pairs.len()
}
