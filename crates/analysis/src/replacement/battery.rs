//! The programs that distinguish the policies.
//!
//! A program flushes the set with new blocks, fills it with as many blocks as it has ways, touches some of them, adds
//! one or more, and times one. Timing each position in turn gives the distribution of evictions. A touch distinguishes
//! LRU from FIFO; the positions that it protects distinguish trees and bits. Many additions distinguish policies that
//! keep used lines (SRRIP, QLRU) from those that only order them. A flush of twice the ways brings most policies to one
//! state. One block more shifts policies that count misses (NRU): some programs are steady with one flush length,
//! others with the other.

use super::{Access, Block, Program};

/// Evictors for the nearer levels, which must evict a block before it can reach the level under test again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evictors {
    /// Ways of the nearer level; if there are several levels, the largest number.
    pub ways: usize,
    /// Whether its replacement may be random. Then the evictors number three times its ways, else twice.
    pub random: bool,
}

impl Evictors {
    /// Returns the number of evictor blocks of one eviction. A program that evicts more often than a line has words
    /// uses further blocks; [`Program::blocks`] counts them.
    #[must_use]
    pub fn blocks(self) -> usize {
        self.ways * if self.random { 3 } else { 2 }
    }
}

/// Largest number of timed loads in a program with several.
const MAX_TIMED_LOADS: usize = 8;

/// Returns the programs for a set of `ways` ways, in which a block may be visited `visits` times per lap (its line's
/// bytes / 8; at least 2). The first programs calibrate: timed loads that hit, then timed loads that miss, under every
/// policy. `evictors` is for levels beyond the first. At most 60 programs, over at most four times the ways in blocks
/// (24 with few ways).
#[must_use]
pub fn programs(ways: usize, visits: usize, evictors: Option<Evictors>) -> Vec<Program> {
    let ways = ways.max(1);
    let mut battery = Battery { ways, visits: visits.max(2), evictors, programs: Vec::new() };
    battery.calibration();
    battery.probes();
    // The second to last use, after one miss: only random replacement evicts it, and rarely.
    battery.in_turn(|n| n + 1);
    battery.cycle(ways + 1);
    battery.cycle(2 * ways);
    battery.programs
}

/// Returns the programs for timed laps: the same programs without timed loads, and cycles of lines that all hit in the
/// level under test and in the nearer one, from which the cost of an access is fitted. The calibration programs are
/// used too: with four times as many lines as ways, all loads of a lap miss.
#[must_use]
pub fn programs_per_lap(ways: usize, visits: usize, evictors: Option<Evictors>) -> Vec<Program> {
    let ways = ways.max(1);
    let mut battery = Battery { ways, visits: visits.max(2), evictors, programs: Vec::new() };
    // Fewer lines than ways, so a line of other software may stay. (With one way there are no fewer.)
    for lines in [(ways / 2).max(1), (3 * ways / 4).max(1)] {
        battery.cycle(lines);
    }
    battery.evictors = None;
    battery.cycle(1);
    for timed in programs(ways, visits, evictors) {
        battery.push(timed);
    }
    let mut whole: Vec<Program> = Vec::new();
    for mut program in battery.programs {
        program.accesses.iter_mut().for_each(|a| a.timed = false);
        if !whole.contains(&program) {
            whole.push(program);
        }
    }
    whole
}

struct Battery {
    ways: usize,
    visits: usize,
    evictors: Option<Evictors>,
    programs: Vec<Program>,
}

impl Battery {
    fn calibration(&mut self) {
        let all = 3 * self.ways;
        // The most recent block is not evicted yet, neither in turn nor after many misses. (It is not certain that as
        // many blocks as ways all stay: a tree's bits may avoid a line of other software forever.)
        self.in_turn(|n| n);
        self.program(&[Part::Visit((0..all).collect()), Part::Query(vec![all - 1])]);
        // With four times as many lines as ways, even random replacement keeps only 2 % for a lap.
        self.cycle(4 * self.ways);
    }

    fn probes(&mut self) {
        let (w, h) = (self.ways, self.ways / 2);
        let first_half: Vec<usize> = (0..h).collect();
        let second_half: Vec<usize> = (h..w).collect();
        let every_second: Vec<usize> = (1..w).step_by(2).collect();
        let backwards: Vec<usize> = (0..w).rev().collect();
        let before = |n: usize| w.saturating_sub(n);
        let around = [0, 1, h.saturating_sub(1), h, h + 1, before(2), before(1)];
        let coarse = [0, h, before(1)];
        let aged = [0, h.saturating_sub(1), h, before(1), w, w + h];
        let two = 2 * w;
        self.probe(two, &[], 1, &around);
        self.probe(two, &[0], 1, &around);
        self.probe(two, &[1], 2, &[2, 3]);
        self.probe(two, &first_half, before(1).max(1), &aged);
        self.probe(two, &first_half, w, &[0, w, w + h]);
        self.probe(two, &backwards, 1, &coarse);
        self.probe(two + 1, &every_second, 2, &[0, 1, h, before(1)]);
        self.probe(two + 1, &second_half, 1, &coarse);
        self.probe(two + 1, &[0], before(1).max(1), &coarse);
        self.probe(w, &[], h.max(1), &[0, 1, before(1)]);
        self.probe(w, &[h], 1, &[0, 1]);
        self.probe(w, &[before(1)], 1, &[0, 1]);
        self.probe(w, &every_second, 1, &[0]);
        self.probe(w, &every_second, h.max(1), &[before(2), before(1)]);
    }

    /// Adds programs that flush, fill, touch, add, and time one of `queries` each. These are positions in the filled
    /// blocks and, beyond the ways, in the added ones.
    fn probe(&mut self, flush: usize, touches: &[usize], add: usize, queries: &[usize]) {
        let resident = self.ways + add;
        for query in queries.iter().filter(|a| **a < resident) {
            self.program(&[
                Part::Visit((0..flush + self.ways).collect()),
                Part::Touch(touches.iter().map(|t| flush + t).collect()),
                Part::Visit((flush + self.ways..flush + self.ways + add).collect()),
                Part::Query(vec![flush + query]),
            ]);
        }
    }

    /// Visits blocks in turn; each is timed after block number `until(n)` was visited.
    fn in_turn(&mut self, until: fn(usize) -> usize) {
        let mut accesses = Vec::new();
        let mut next = 0;
        for turn in 0..(self.ways + 1).max(MAX_TIMED_LOADS) {
            let timed = next;
            while next <= until(timed) {
                accesses.push(access(next, false));
                next += 1;
            }
            if turn < MAX_TIMED_LOADS {
                accesses.extend(self.evict(turn));
                accesses.push(access(timed, true));
            }
        }
        self.push(Program { accesses });
    }

    /// Visits `lines` lines cyclically; some of the loads are timed.
    fn cycle(&mut self, lines: usize) {
        let each = lines.div_ceil(MAX_TIMED_LOADS);
        let mut accesses: Vec<Access> = self.evict(0).collect();
        accesses.extend((0..lines).map(|n| access(n, n % each == 0)));
        self.push(Program { accesses });
    }

    fn program(&mut self, parts: &[Part]) {
        let mut accesses = Vec::new();
        let mut evicts = 0..;
        for part in parts {
            let (Part::Visit(blocks) | Part::Touch(blocks) | Part::Query(blocks)) = part;
            if !blocks.is_empty() && !matches!(part, Part::Visit(_)) {
                accesses.extend(self.evict(evicts.next().unwrap_or(0)));
            }
            accesses.extend(blocks.iter().map(|b| access(*b, matches!(part, Part::Query(_)))));
        }
        self.push(Program { accesses });
    }

    /// Adds a program once, if no block has more visits than a line has words.
    fn push(&mut self, program: Program) {
        if program.visits() <= self.visits && !self.programs.contains(&program) {
            self.programs.push(program);
        }
    }

    /// Returns the accesses that evict the nearer levels before the `nth` part of a lap that needs it. Evictor blocks
    /// too have words for only `visits` visits.
    fn evict(&self, nth: usize) -> impl Iterator<Item = Access> + use<> {
        let blocks = self.evictors.map_or(0, Evictors::blocks);
        let first = nth / self.visits * blocks;
        (first..first + blocks).map(|n| Access { block: Block::Evictors(n as u16), timed: false })
    }
}

/// Blocks of a program, by purpose. If there is a nearer level, it is evicted before touches and queries; all blocks of
/// one part differ, so one eviction suffices.
enum Part {
    Visit(Vec<usize>),
    Touch(Vec<usize>),
    Query(Vec<usize>),
}

fn access(number: usize, timed: bool) -> Access {
    Access { block: Block::Tested(number as u16), timed }
}
