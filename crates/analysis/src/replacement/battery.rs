//! The programs that are worth running: few, and between them they tell the policies apart.
//!
//! A probe flushes the set with fresh blocks, fills it with as many blocks as it has ways, touches some of them,
//! adds one or more, and asks one: asked position by position, that is the distribution of what was evicted. A touch
//! tells LRU from FIFO, and which other position is spared by it tells trees and bits; many additions tell the
//! policies that keep what was used (SRRIP, QLRU) from those that only order it. A flush of twice the ways brings
//! most policies to one state; one block more shifts what counts the misses (NRU), which is steady with the one
//! where it is not with the other.

use super::{Access, Block, Program};

/// The nearer levels, which have to forget a block before it can reach the level under test again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evictors {
    /// Ways of the nearer level; of several, of the one with the most.
    pub ways: usize,
    /// May its replacement be random? Then a wash is three times its ways long, else twice.
    pub random: bool,
}

impl Evictors {
    /// Wash blocks of one wash. A program that washes more often than a line has words for takes others for the rest;
    /// [`Program::blocks`] counts them.
    #[must_use]
    pub fn blocks(self) -> usize {
        self.ways * if self.random { 3 } else { 2 }
    }
}

/// Asks of a program that has several, at most.
const ASKS: usize = 8;

/// The battery for a set of `ways` ways, in which a block may be visited `visits` times a lap (its line's bytes / 8;
/// at least 2). The first programs calibrate: asks that hit, then asks that miss, under every policy. `evictors`: for
/// levels beyond the first. At most 60 programs, over at most four times the ways in blocks (24 with few ways).
#[must_use]
pub fn programs(ways: usize, visits: usize, evictors: Option<Evictors>) -> Vec<Program> {
    let ways = ways.max(1);
    let mut battery = Battery { ways, visits: visits.max(2), evictors, programs: Vec::new() };
    battery.calibration();
    battery.probes();
    // The last use but one, after one miss: nothing but random replacement evicts it, and that rarely.
    battery.in_turn(|n| n + 1);
    battery.cycle(ways + 1);
    battery.cycle(2 * ways);
    battery.programs
}

/// The battery where laps are timed as a whole: the same programs, none of them asked, and cycles of lines that all
/// hit, in the level under test and in the nearer one, because what an access costs is found with them. The programs
/// that calibrate asks serve as ever: all of a lap miss where four times as many lines as ways go round.
#[must_use]
pub fn programs_per_lap(ways: usize, visits: usize, evictors: Option<Evictors>) -> Vec<Program> {
    let ways = ways.max(1);
    let mut battery = Battery { ways, visits: visits.max(2), evictors, programs: Vec::new() };
    // Fewer than ways, so that somebody else's line may stay. (Of one way there are no fewer.)
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
        // What came last is not evicted yet: of several in turn, and after many that missed. (That as many blocks as
        // there are ways all stay is not sure: a tree's bits may go round a line of somebody else's forever.)
        self.in_turn(|n| n);
        self.program(&[Part::Visit((0..all).collect()), Part::Query(vec![all - 1])]);
        // Of four times the ways even random replacement keeps only 2 % for a lap.
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

    /// Programs that flush, fill, touch, add and ask one of `queries` each: positions in what is filled, and from the
    /// ways on, in what is added.
    fn probe(&mut self, flush: usize, touches: &[usize], add: usize, queries: &[usize]) {
        let there = self.ways + add;
        for query in queries.iter().filter(|a| **a < there) {
            self.program(&[
                Part::Visit((0..flush + self.ways).collect()),
                Part::Touch(touches.iter().map(|t| flush + t).collect()),
                Part::Visit((flush + self.ways..flush + self.ways + add).collect()),
                Part::Query(vec![flush + query]),
            ]);
        }
    }

    /// Blocks in turn, each asked after the block that `until` names of its number has been visited.
    fn in_turn(&mut self, until: fn(usize) -> usize) {
        let mut accesses = Vec::new();
        let mut next = 0;
        for turn in 0..(self.ways + 1).max(ASKS) {
            let timed = next;
            while next <= until(timed) {
                accesses.push(access(next, false));
                next += 1;
            }
            if turn < ASKS {
                accesses.extend(self.washed(turn));
                accesses.push(access(timed, true));
            }
        }
        self.push(Program { accesses });
    }

    /// So many lines cyclically, some of them asked.
    fn cycle(&mut self, lines: usize) {
        let each = lines.div_ceil(ASKS);
        let mut accesses: Vec<Access> = self.washed(0).collect();
        accesses.extend((0..lines).map(|n| access(n, n % each == 0)));
        self.push(Program { accesses });
    }

    fn program(&mut self, parts: &[Part]) {
        let mut accesses = Vec::new();
        let mut evicts = 0..;
        for part in parts {
            let (Part::Visit(blocks) | Part::Touch(blocks) | Part::Query(blocks)) = part;
            if !blocks.is_empty() && !matches!(part, Part::Visit(_)) {
                accesses.extend(self.washed(evicts.next().unwrap_or(0)));
            }
            accesses.extend(blocks.iter().map(|b| access(*b, matches!(part, Part::Query(_)))));
        }
        self.push(Program { accesses });
    }

    /// Keeps what a line has words for, once.
    fn push(&mut self, program: Program) {
        if program.visits() <= self.visits && !self.programs.contains(&program) {
            self.programs.push(program);
        }
    }

    /// The wash before the `nth` part of a lap that needs one: wash blocks too have words for so many visits only.
    fn washed(&self, nth: usize) -> impl Iterator<Item = Access> + use<> {
        let blocks = self.evictors.map_or(0, Evictors::blocks);
        let first = nth / self.visits * blocks;
        (first..first + blocks).map(|n| Access { block: Block::Evictors(n as u16), timed: false })
    }
}

/// Blocks of a program, by what they are there for. Touches and asks come after a wash, where there is a nearer
/// level; all blocks of one part differ, so one wash does for them.
enum Part {
    Visit(Vec<usize>),
    Touch(Vec<usize>),
    Query(Vec<usize>),
}

fn access(number: usize, timed: bool) -> Access {
    Access { block: Block::Tested(number as u16), timed }
}
