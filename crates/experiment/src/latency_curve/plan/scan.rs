//! The first rounds: the coarse scan of the curve and the TLB pairs.

use fathom_probe::pattern::{Clock, Trial};

use super::{ALL_BEYOND_CLAIM, MORE_PAIRS_BUDGET, Planner, coarse_top};
use crate::scale::STRIDE;

/// Smallest working set of the latency curve: four lines. No L1 data cache of interest is below 1 KiB.
pub(super) const MIN_BYTES: u64 = 256;
/// Largest working set of the fine part of the coarse scan (three points per octave).
const FINE_TOP: u64 = 2 << 20;

/// Returns ascending sizes in an order of which every beginning covers the whole range: each fourth, the second of
/// each four, the others.
fn spread_first(sizes: &[u64]) -> impl Iterator<Item = u64> + '_ {
    let part = |from: usize, by: usize| sizes.iter().skip(from).step_by(by).copied();
    part(0, 4).chain(part(2, 4)).chain(part(1, 2))
}

impl Planner<'_> {
    pub(super) fn calibrate(&mut self) {
        self.trial(Trial { loads: 200, samples: 200, warm: 0, ..Trial::of(Clock) });
        self.line_pairs_of_a_model();
    }

    /// Returns `per` points per octave from `from` up to and including `to`.
    pub(super) fn octaves(from: u64, to: u64, per: f64) -> impl Iterator<Item = u64> {
        let steps = ((to as f64 / from as f64).log2() * per + 1e-9).floor() as i64;
        (0..=steps).map(move |i| (from as f64 * (i as f64 / per).exp2()) as u64 / STRIDE * STRIDE)
    }

    /// Schedules the test for long lines where it comes first: it decides whether the curve begins again, and a model's memory costs nothing. A host
    /// fills it before each trial, so there the test comes last in a round.
    fn line_pairs_of_a_model(&mut self) {
        if self.modelled() {
            self.line_pairs();
        }
    }

    /// Schedules the TLB pairs on up to a thousand pages. They come before the latency curve, because they decide its
    /// pages and its window.
    pub(super) fn scan_pairs(&mut self) {
        self.line_pairs_of_a_model();
        self.first_pairs();
        self.line_pairs();
    }

    /// Schedules those TLB pairs on up to a thousand pages that the record lacks.
    fn first_pairs(&mut self) {
        let measured: Vec<u64> = self.scale.spread(self.record).iter().map(|at| at.bytes).collect();
        let mut last = 0;
        for n in Self::octaves(2 * STRIDE, self.max_pages().min(1024) * STRIDE, 2.0).map(|b| b / STRIDE) {
            if n > last && !measured.contains(&(n * self.scale.pair_stride())) {
                self.pair(n);
            }
            last = n;
        }
    }

    pub(super) fn coarse_scan(&mut self) {
        self.line_pairs_of_a_model();
        let top = self.top().min(FINE_TOP);
        let sizes: Vec<u64> = Self::octaves(MIN_BYTES, top, 3.0).collect();
        for bytes in spread_first(&sizes) {
            self.step(bytes);
        }
        self.pack_pairs();
        self.line_pairs();
    }

    /// Schedules the packed halves that the pairs lack: those in base pages, if the curve is not measured in huge pages
    /// after all.
    fn pack_pairs(&mut self) {
        let packed: Vec<u64> = self.scale.packed(self.record).iter().map(|at| at.bytes).collect();
        let lone = self.scale.spread(self.record).into_iter().map(|at| at.bytes);
        for bytes in lone.filter(|bytes| !packed.contains(bytes)).collect::<Vec<_>>() {
            self.packed(bytes / self.scale.pair_stride());
        }
    }

    /// Returns whether none of the large working sets was measured.
    pub(super) fn has_no_large_sizes(&self) -> bool {
        self.latency_curve.last().is_none_or(|at| at.bytes <= FINE_TOP)
    }

    /// Schedules the large working sets, the largest first: without it nothing shows where the last tier ends.
    pub(super) fn scan_large_sizes(&mut self) {
        self.line_pairs_of_a_model();
        let top = coarse_top(self.record, &self.scale);
        let mut sizes: Vec<u64> = Self::octaves(FINE_TOP, top.min(32 << 20), 2.0).skip(1).collect();
        sizes.extend(Self::octaves(32 << 20, top, 1.0).skip(1));
        if let Some(top) = sizes.pop() {
            self.step(top);
        }
        self.scan_beyond_claims();
        // With a coarse clock they may have been too much for their round; with a small budget ends of caches come first.
        if self.budget.total >= MORE_PAIRS_BUDGET {
            self.first_pairs();
            self.pack_pairs();
        }
        if self.max_pages() > 1024 {
            for n in Self::octaves(1024 * STRIDE, self.max_pages() * STRIDE, 2.0).skip(1) {
                self.pair(n / STRIDE);
            }
        }
        for bytes in spread_first(&sizes) {
            self.step(bytes);
        }
        self.line_pairs();
    }

    /// Schedules working sets of a described machine beyond its claimed caches, if those of the scan may all fit in one.
    fn scan_beyond_claims(&mut self) {
        let modelled = self.modelled() && self.scale.is_survey;
        let Some(claimed) = self.unscanned_claim().filter(|_| modelled) else { return };
        let (stride, limit) = (self.scale.stride, self.top());
        for part in ALL_BEYOND_CLAIM {
            let bytes = (part * claimed as f64) as u64 / stride * stride;
            if bytes <= limit {
                self.step_with(bytes, stride);
            }
        }
    }

    /// Returns whether the pairs were measured with the present spacing. They come first in a scan.
    pub(super) fn is_scanned(&self) -> bool {
        !self.scale.spread(self.record).is_empty()
    }

    /// Schedules what a curve with twice the spacing still lacks: its round may have had room for the pairs only.
    pub(super) fn finish_scan(&mut self) {
        if self.scale.stride == STRIDE || !self.has_no_large_sizes() {
            return;
        }
        if self.latency_curve.is_empty() {
            self.coarse_scan();
        }
        self.scan_large_sizes();
    }

    /// Schedules the pairs and the whole curve in one round.
    pub(super) fn scan_all(&mut self) {
        self.scan_pairs();
        self.coarse_scan();
        self.scan_large_sizes();
    }
}
