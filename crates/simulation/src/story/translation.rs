//! Why TLBs miss: the reasons of caches, with pages in place of lines.
//!
//! A TLB sees the translations that no nearer one has, so that each of them has its own fully associative LRU TLB beside it. A use of
//! the page that was translated last reaches none, and changes none: it is the newest one in the nearest already.

use fathom_model::{Description, Loss, Translation};

use super::pairs::{End, Pairs};
use super::shadow::{Lost, Shadow};
use crate::counts::{PairCounts, REASONS};

/// The TLBs of all CPUs.
#[derive(Debug)]
pub(super) struct Translations {
    entries: Vec<usize>,
    /// By agent and TLB.
    shadows: Vec<Shadow>,
    reasons: Vec<[u64; REASONS]>,
    pairs: Pairs,
}

impl Translations {
    pub fn new(description: &Description) -> Translations {
        let page = description.memory.pages.first().map_or(12, |bytes| bytes.trailing_zeros());
        Translations {
            entries: description.tlbs.iter().map(|tlb| tlb.entries as usize).collect(),
            shadows: Vec::new(),
            reasons: vec![[0; REASONS]; description.tlbs.len()],
            pairs: Pairs::new(page),
        }
    }

    /// Adds the TLBs of an agent, which follows those that are known.
    pub fn add_agent(&mut self) {
        self.shadows.extend(self.entries.iter().map(|&entries| Shadow::new(entries)));
    }

    /// Forgets what was translated: TLBs are empty.
    pub fn forget(&mut self) {
        let entries = self.entries.iter().cycle();
        self.shadows.iter_mut().zip(entries).for_each(|(of, &entries)| *of = Shadow::new(entries));
    }

    /// Notes what an access of an agent has done to its TLBs.
    pub fn note(&mut self, agent: usize, events: &[Translation], own: End) {
        let first = agent * self.entries.len();
        for event in events {
            match *event {
                Translation::LookedUp { tlb, entry, set, hit } => {
                    let before = self.shadows[first + tlb].touch(entry.into(), true);
                    if hit {
                        continue;
                    }
                    let reason = super::reason(&before, true, 0);
                    self.reasons[tlb][reason as usize] += 1;
                    if let Some(lost) = before.lost.filter(|_| reason.has_pair()) {
                        self.pairs.add(tlb, reason, set, own, lost.by);
                    }
                }
                Translation::Lost { tlb, entry } => {
                    let lost = Lost { how: Loss::Replaced, by: own, stored: 0 };
                    self.shadows[first + tlb].lose(entry.into(), lost);
                }
            }
        }
    }

    /// Returns the misses of each TLB by reason.
    pub fn reasons(&self) -> Vec<[u64; REASONS]> {
        self.reasons.clone()
    }

    /// Returns pairs of pages, the most misses first.
    pub fn pairs(&self) -> Vec<PairCounts> {
        self.pairs.counts()
    }
}
