//! The plan: a look at each strategy; then every size of those that were granted, some rounds, with and without a
//! victim; then sizes between those where two change places.

use fathom_probe::machine::Controls;
use fathom_probe::machine::dma::Transfers;
use fathom_probe::pattern::{Memory, PatternKind, Transfer, Trial};

use super::crossings::changes;
use super::options::Options;
use super::points::{self, PILOT_ROUND};
use super::{Route, Wanted};
use crate::budget::Budget;
use crate::cost::Cost;
use crate::record::{Record, TrialRun};
use crate::round;

/// Rounds in which every cell is measured, after the look, on a model and on hardware: of six medians an interval is one
/// of 95 %.
const ROUNDS: [u64; 2] = [6, 6];
/// Rounds that then look for where strategies change places: each halves the sizes between.
const REFINING: u64 = 4;
/// Transfers of a trial that count, on a model and on hardware, and those before them that do not. A victim's loss is a
/// difference of two walks, which random replacement alone makes other each time.
const SAMPLES: [u64; 2] = [1, 9];
const OF_VICTIM: u64 = 5;
const WARM: u64 = 1;
/// Sizes between which a change lies are near enough where the larger is at most so many times the smaller, or so many
/// bytes more: the commonest line.
const CROSSOVER_RATIO: f64 = 1.1;
const LINE: u64 = 64;

/// The next round; empty at the end. A record says itself what was asked.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let number = record.round() + 1;
    let budget = Budget::of(record, budget_ms);
    let wanted = Wanted::of(record);
    let hardware = usize::from(!budget.modelled);
    let samples = SAMPLES[hardware];
    let rounds = ROUNDS[hardware];
    let trials = match number {
        PILOT_ROUND => look(record, &wanted),
        n if n <= PILOT_ROUND + rounds => all(record, &wanted, samples),
        n if n <= PILOT_ROUND + rounds + REFINING => between(record, &wanted, samples, rounds),
        _ => return Vec::new(),
    };
    let chunk_ns = chunk_ns(record);
    let cost = Cost { modelled: budget.modelled, latency_curve: &[] };
    let price = |trial: &Trial| cost.of_transfers(trial, chunk_ns);
    round::assemble_at_cost(record, &budget, trials, (rank, price), (seed, 0xd3a0))
}

/// The longest that an engine took for one of its own transfers in the look, ns.
fn chunk_ns(record: &Record) -> f64 {
    let looked = record.of(PatternKind::Transfer).filter(|r| r.trial.round == PILOT_ROUND);
    let of_run = |r: &TrialRun| {
        let channel = r.transfers.channel.filter(|channel| channel.hz > 0)?;
        let ticks = r.transfers.rows.iter().map(|row| row.engine).max()?;
        Some(ticks as f64 * 1e9 / channel.hz as f64 / channel.chunks.max(1) as f64)
    };
    looked.filter_map(of_run).fold(0.0, f64::max)
}

/// What the budget loses first are victims, then what is large: those are sorted by their cost.
fn rank(trial: &Trial) -> u8 {
    u8::from(trial.is::<Transfer>(|t| t.transfers.victim > 0))
}

/// One small trial of each strategy, which is granted or refused with its reason.
fn look(record: &Record, wanted: &Wanted) -> Vec<Trial> {
    let bytes = wanted.sizes.first().copied().unwrap_or(LINE);
    let mut all: Vec<Trial> = wanted.routes.iter().map(|&route| trial(record, route, bytes, 2)).collect();
    all.push(round::clock());
    all
}

/// Was this refused, when it was looked at?
pub(super) fn refused(record: &Record, route: Route) -> bool {
    let of = |t: &Trial| t.kind() == PatternKind::Transfer && points::route(t) == route;
    record.trials.iter().any(|r| r.trial.round == PILOT_ROUND && of(&r.trial) && r.refusal.is_some())
}

fn granted<'a>(record: &'a Record, wanted: &'a Wanted) -> impl Iterator<Item = Route> + 'a {
    wanted.routes.iter().copied().filter(|&route| !refused(record, route))
}

fn all(record: &Record, wanted: &Wanted, samples: u64) -> Vec<Trial> {
    let mut all = Vec::new();
    for route in granted(record, wanted) {
        all.extend(wanted.sizes.iter().map(|&bytes| trial(record, route, bytes, samples)));
        all.extend(wanted.polluting().map(|bytes| {
            let trial = trial(record, route, bytes, samples);
            let mut transfer: Transfer = trial.or_default();
            transfer.transfers.victim = wanted.victim / 64 * 64;
            Trial { pattern: transfer.into(), samples: OF_VICTIM, ..trial }
        }));
    }
    all
}

/// A size between those where two strategies change places, for both of them, as often as any other.
fn between(record: &Record, wanted: &Wanted, samples: u64, rounds: u64) -> Vec<Trial> {
    // Who asks for sizes wants those.
    if !Options::of(record).bytes.is_empty() {
        return Vec::new();
    }
    let points = points::all(record);
    let mut all: Vec<Trial> = Vec::new();
    for change in changes(&points) {
        let (low, high) = (change.at.low, change.at.high);
        if high as f64 <= CROSSOVER_RATIO * low as f64 || high - low <= LINE {
            continue;
        }
        let routes = [change.below, change.beyond].map(|strategy| (strategy, change.direction));
        let known = |bytes: u64| {
            routes
                .iter()
                .all(|&route| points.iter().any(|point| (point.key.route, point.key.bytes) == (route, bytes)))
        };
        // Where the middle could not be told, the middles beside it.
        let mid = middle(low, high);
        let Some(bytes) = [mid, middle(low, mid), middle(mid, high)].into_iter().find(|&b| !known(b)) else {
            continue;
        };
        for route in routes {
            let one = trial(record, route, bytes, samples);
            if !all.contains(&one) && wanted.routes.contains(&route) {
                all.extend(std::iter::repeat_n(one, rounds as usize));
            }
        }
    }
    all
}

/// A size between two by the same factor, in whole lines.
fn middle(low: u64, high: u64) -> u64 {
    let middle = ((low as f64 * high as f64).sqrt() / LINE as f64).round() as u64 * LINE;
    middle.clamp(low, high)
}

fn trial(record: &Record, (strategy, direction): Route, bytes: u64, samples: u64) -> Trial {
    let requested = Options::of(record);
    let transfers = Transfers {
        strategy,
        direction,
        engine: requested.engine,
        maintenance: requested.maintenance,
        mistake: requested.mistake,
        victim: 0,
    };
    Trial {
        memory: Memory::of(bytes, 8),
        controls: Controls { flush: requested.flush, ..Controls::default() },
        samples,
        warm: WARM,
        ..Trial::of(Transfer { transfers })
    }
}
