//! Co-running streams: chases on other CPUs while CPU 0 measures.

use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::machine::batch::chase::UNROLL;
use fathom_probe::machine::{Refusal, Stream};
use fathom_units::divisor::gcd;

use super::{Agent, Model};
use crate::arena::Cursor;
use crate::hierarchy::{Hierarchy, Path};
use crate::rng::{Rng, Use};

/// A co-running chase.
#[derive(Clone, Debug)]
pub(super) struct Running {
    agent: usize,
    cursor: Cursor,
    loads: u64,
}

/// Laps of a stream that are tested in each sleep for one that leaves the state unchanged.
const MAX_TESTED_LAPS: u32 = 3;

/// The state that a stream's loads depend on, and their counters, before a lap.
struct Before {
    agent: Agent,
    hierarchy: Hierarchy,
    accesses: u64,
    reads: u64,
}

impl Model {
    /// Starts co-running streams in place of those that run. An empty list stops them.
    pub(crate) fn start(&mut self, streams: &[Stream]) -> Result<(), Refusal> {
        let cpus = self.description.core.cpus;
        let page = self.arena.streams.page;
        let line =
            self.hierarchy.private_nearest(Path::Data).map_or(64, |l| 1 << self.hierarchy.line_shift(l));
        let mut at = self.arena.streams.start;
        let end = at + self.arena.streams.bytes;
        let mut running: Vec<Running> = Vec::new();
        for stream in streams {
            if stream.cpu == 0 || stream.cpu >= cpus {
                let remedy = match cpus {
                    1 => "this machine has one CPU, which measures".to_string(),
                    _ => format!("co-running CPUs are 1 to {}", cpus - 1),
                };
                return Err(Refusal::new(format!("no stream can run on CPU {}", stream.cpu), remedy));
            }
            if running.iter().any(|r| self.agents[r.agent].cpu == stream.cpu) {
                return Err(Refusal::new(
                    format!("two streams on CPU {}", stream.cpu),
                    "use one stream per CPU",
                ));
            }
            let bytes = stream.bytes.max(line).checked_next_multiple_of(page).filter(|b| *b <= end - at);
            let Some(bytes) = bytes else {
                let reason =
                    format!("a stream over {} bytes does not fit in the described memory", stream.bytes);
                return Err(Refusal::new(reason, format!("{} bytes are left for it", end - at)));
            };
            let cells = stream.bytes.max(line) / line;
            let seed = Rng::new(self.seed, Use::Stream, u64::from(stream.cpu)).next();
            let chain = Chain::new(at, cells, line, Layout::Packed, Order::Random, seed);
            let agent = self.agent_of(stream.cpu);
            running.push(Running {
                agent,
                cursor: Cursor { offset: chain.at(0), position: 0, chain },
                loads: 0,
            });
            at += bytes;
        }
        let clock = self.clock();
        for stream in &running {
            self.agents[stream.agent].clock = clock;
        }
        self.streams = running;
        self.co_running = !self.streams.is_empty() || self.load.is_some() || self.has_neighbours();
        Ok(())
    }

    /// Runs neighbours, co-running streams and workers until none is behind CPU 0. The agent with the smallest clock runs next; of equal ones
    /// the first named.
    #[inline(always)]
    pub(crate) fn catch_up(&mut self) {
        if self.co_running {
            self.run_beside();
        }
    }

    #[inline(never)]
    fn run_beside(&mut self) {
        self.run_neighbours();
        self.run_streams();
        self.run_workers();
    }

    fn run_streams(&mut self) {
        loop {
            let clock = |s: &Running| self.agents[s.agent].clock;
            let slowest = self.streams.iter().enumerate().min_by_key(|(_, s)| clock(s));
            let Some((index, _)) = slowest.filter(|(_, s)| clock(s) < self.clock()) else { return };
            self.move_stream(index);
        }
    }

    /// Makes one load of a stream.
    #[inline(always)]
    fn move_stream(&mut self, index: usize) {
        let Running { agent, cursor, .. } = &self.streams[index];
        let (agent, offset) = (*agent, cursor.offset);
        let begun = self.agents[agent].clock;
        self.load::<true>(agent, offset);
        let stream = &mut self.streams[index];
        stream.cursor.advance();
        stream.loads += 1;
        if stream.loads.is_multiple_of(UNROLL) {
            self.agents[agent].clock += self.ops.0 + self.ops.1;
        }
        self.take_some_time(agent, begun);
    }

    /// Lets an access that takes no time by the description take the smallest one, or its CPU would never catch up.
    #[inline(always)]
    pub(super) fn take_some_time(&mut self, agent: usize, begun: u64) {
        let clock = &mut self.agents[agent].clock;
        *clock = (*clock).max(begun + 1);
    }

    /// Catches up after a sleep of CPU 0 in which a stream may run many laps (see [`catch_up`](Model::catch_up)). Once
    /// a lap leaves the state unchanged, further laps are counted and not run.
    pub(super) fn catch_up_after_sleep(&mut self) {
        // With several streams, laps influence each other.
        if let [stream] = &self.streams[..] {
            let cells = stream.cursor.chain.cells();
            // After this number of loads the stream is at the same cell and at the same position in the unrolled loop.
            let lap = cells.checked_mul(UNROLL).map_or(u64::MAX, |loads| loads / gcd(cells, UNROLL));
            let agent = stream.agent;
            self.skip_laps(agent, lap);
        }
        self.catch_up();
    }

    fn skip_laps(&mut self, agent: usize, lap: u64) {
        let nearest =
            self.hierarchy.nearest(Path::Data).map_or(1, |level| self.hierarchy.latency(level).max(1));
        for _ in 0..MAX_TESTED_LAPS {
            let left = self.clock().saturating_sub(self.agents[agent].clock);
            // Saving the state costs more than it saves if only a few laps can follow.
            if left / nearest / 4 < lap {
                return;
            }
            let before = Before {
                agent: self.agents[agent].clone(),
                hierarchy: self.hierarchy.clone(),
                accesses: self.accesses,
                reads: self.memory.reads,
            };
            for _ in 0..lap {
                if self.agents[agent].clock >= self.clock() {
                    return;
                }
                self.move_stream(0);
            }
            let took = self.agents[agent].clock - before.agent.clock;
            if took > 0 && self.state_equals(agent, &before) {
                let left = self.clock().saturating_sub(self.agents[agent].clock);
                return self.repeat_lap(agent, &before, left / took);
            }
        }
    }

    /// Returns whether a stream's next lap would be the same. A load that memory serves has changed its rows and its
    /// random stream.
    fn state_equals(&self, agent: usize, before: &Before) -> bool {
        let own = &self.agents[agent];
        self.memory.reads == before.reads
            && (own.last_line, own.repeat_cost) == (before.agent.last_line, before.agent.repeat_cost)
            && own.runs == before.agent.runs
            && own.tlbs.state_equals(&before.agent.tlbs)
            && self.hierarchy.state_equals(&before.hierarchy)
    }

    /// Adds the counts and the time since `before` another `times` times.
    fn repeat_lap(&mut self, agent: usize, before: &Before, times: u64) {
        let own = &mut self.agents[agent];
        own.clock += (own.clock - before.agent.clock) * times;
        own.tlbs.repeat_counts(&before.agent.tlbs, times);
        self.hierarchy.repeat_counts(&before.hierarchy, times);
        self.accesses += (self.accesses - before.accesses) * times;
    }
}

#[cfg(test)]
mod tests;
