//! Co-running streams: chases on other CPUs that move while CPU 0 measures.

use fathom_probe::chain::{Chain, Layout, Order};
use fathom_probe::machine::{Refusal, Stream};
use fathom_probe::patterns::chase::UNROLL;

use super::Model;
use crate::arena::Cursor;
use crate::hierarchy::Path;
use crate::rng::{Rng, Use};

/// A co-running chase.
#[derive(Clone, Debug)]
pub(super) struct Running {
    agent: usize,
    cursor: Cursor,
    loads: u64,
}

impl Model {
    /// Starts co-running streams in place of those that run; none stops them.
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
                return Err(Refusal::new(format!("two streams on CPU {}", stream.cpu), "one stream a CPU"));
            }
            let bytes = stream.bytes.max(line).checked_next_multiple_of(page).filter(|b| *b <= end - at);
            let Some(bytes) = bytes else {
                let reason =
                    format!("a stream over {} bytes does not fit the described memory", stream.bytes);
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
        Ok(())
    }

    /// Lets co-running streams move until none is behind CPU 0: the agent with the smallest clock
    /// moves next, and of equal ones the one that was named first.
    #[inline(always)]
    pub(crate) fn catch_up(&mut self) {
        if !self.streams.is_empty() {
            self.run_streams();
        }
    }

    fn run_streams(&mut self) {
        loop {
            let clock = |s: &Running| self.agents[s.agent].clock;
            let slowest = self.streams.iter().enumerate().min_by_key(|(_, s)| clock(s));
            let Some((index, stream)) = slowest.filter(|(_, s)| clock(s) < self.clock()) else { return };
            let agent = stream.agent;
            let offset = stream.cursor.offset;
            self.load::<true>(agent, offset);
            let stream = &mut self.streams[index];
            stream.cursor.advance();
            stream.loads += 1;
            if stream.loads.is_multiple_of(UNROLL) {
                self.agents[agent].clock += self.ops.0 + self.ops.1;
            }
        }
    }
}
