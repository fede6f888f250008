//! The plan of `fathom dma`: a pilot trial of each strategy; rounds over all sizes of the granted strategies, with and
//! without a pollution set; then sizes near the crossovers.

use fathom_probe::machine::Controls;
use fathom_probe::machine::dma::Transfers;
use fathom_probe::pattern::{Memory, PatternKind, Transfer, Trial};

use super::crossings::changes;
use super::options::Options;
use super::points::{self, PILOT_ROUND};
use super::{Request, Route};
use crate::budget::Budget;
use crate::cost::Cost;
use crate::record::{Record, TrialRun};
use crate::round;

/// Rounds that measure every point, after the pilot round, on a model and on hardware: six medians give a 95 %
/// interval.
const ROUNDS: [u64; 2] = [6, 6];
/// Rounds that then locate the crossovers: each halves the range of sizes.
const REFINING_ROUNDS: u64 = 4;
/// Timed transfers per trial, on a model and on hardware; those of pollution trials; and untimed ones before them.
/// Pollution is a difference of two walks, which varies under random replacement.
const SAMPLES: [u64; 2] = [1, 9];
const POLLUTION_SAMPLES: u64 = 5;
const WARM_UP: u64 = 1;
/// A crossover is located if the larger size is at most this multiple of the smaller, or at most this many bytes
/// larger: the most common line.
const CROSSOVER_RATIO: f64 = 1.1;
const LINE: u64 = 64;

/// Returns the next round; empty at the end. The request is that of the record's options.
#[must_use]
pub fn plan(record: &Record, seed: u64, budget_ms: u64) -> Vec<Trial> {
    let number = record.round() + 1;
    let budget = Budget::of(record, budget_ms);
    let request = Request::of(record);
    let hardware = usize::from(!budget.modelled);
    let samples = SAMPLES[hardware];
    let rounds = ROUNDS[hardware];
    let trials = match number {
        PILOT_ROUND => pilot(record, &request),
        n if n <= PILOT_ROUND + rounds => all(record, &request, samples),
        n if n <= PILOT_ROUND + rounds + REFINING_ROUNDS => refine(record, &request, samples, rounds),
        _ => return Vec::new(),
    };
    let chunk_ns = chunk_ns(record);
    let cost = Cost { modelled: budget.modelled, latency_curve: &[] };
    let price = |trial: &Trial| cost.of_transfers(trial, chunk_ns);
    round::assemble_at_cost(record, &budget, trials, (rank, price), (seed, 0xd3a0))
}

/// Returns the longest time of an engine's own transfer in the pilot round, ns.
fn chunk_ns(record: &Record) -> f64 {
    let piloted = record.of(PatternKind::Transfer).filter(|r| r.trial.round == PILOT_ROUND);
    let of_run = |r: &TrialRun| {
        let channel = r.transfers.channel.filter(|channel| channel.hz > 0)?;
        let ticks = r.transfers.rows.iter().map(|row| row.engine).max()?;
        Some(ticks as f64 * 1e9 / channel.hz as f64 / channel.chunks.max(1) as f64)
    };
    piloted.filter_map(of_run).fold(0.0, f64::max)
}

/// Returns the order in which trials are dropped from the budget: pollution trials first, then the largest sizes, by
/// cost.
fn rank(trial: &Trial) -> u8 {
    u8::from(trial.is::<Transfer>(|t| t.transfers.pollution_set > 0))
}

/// Returns one small trial per strategy, which is granted or refused with a reason.
fn pilot(record: &Record, request: &Request) -> Vec<Trial> {
    let bytes = request.sizes.first().copied().unwrap_or(LINE);
    let mut all: Vec<Trial> = request.routes.iter().map(|&route| trial(record, route, bytes, 2)).collect();
    all.push(round::clock());
    all
}

/// Returns whether this route was refused in the pilot round.
pub(super) fn refused(record: &Record, route: Route) -> bool {
    let of = |t: &Trial| t.kind() == PatternKind::Transfer && points::route(t) == route;
    record.trials.iter().any(|r| r.trial.round == PILOT_ROUND && of(&r.trial) && r.refusal.is_some())
}

fn granted<'a>(record: &'a Record, request: &'a Request) -> impl Iterator<Item = Route> + 'a {
    request.routes.iter().copied().filter(|&route| !refused(record, route))
}

fn all(record: &Record, request: &Request, samples: u64) -> Vec<Trial> {
    let mut all = Vec::new();
    for route in granted(record, request) {
        all.extend(request.sizes.iter().map(|&bytes| trial(record, route, bytes, samples)));
        let polluting = request.polluting().filter(|_| points::moves(record, route));
        all.extend(polluting.map(|bytes| {
            let trial = trial(record, route, bytes, samples);
            let mut transfer: Transfer = trial.or_default();
            transfer.transfers.pollution_set = request.pollution_set / 64 * 64;
            Trial { pattern: transfer.into(), samples: POLLUTION_SAMPLES, ..trial }
        }));
    }
    all
}

/// Returns trials at a size between those where two strategies change, for both of them, as many as for other sizes.
fn refine(record: &Record, request: &Request, samples: u64, rounds: u64) -> Vec<Trial> {
    // Explicit sizes are not refined.
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
        // If the middle was inconclusive: the middles next to it.
        let mid = middle(low, high);
        let Some(bytes) = [mid, middle(low, mid), middle(mid, high)].into_iter().find(|&b| !known(b)) else {
            continue;
        };
        for route in routes {
            let one = trial(record, route, bytes, samples);
            if !all.contains(&one) && request.routes.contains(&route) {
                all.extend(std::iter::repeat_n(one, rounds as usize));
            }
        }
    }
    all
}

/// Returns the geometric mean of two sizes, in whole lines.
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
        driver_bug: requested.driver_bug,
        pollution_set: 0,
    };
    Trial {
        memory: Memory::of(bytes, 8),
        controls: Controls { flush: requested.flush, ..Controls::default() },
        samples,
        warm: WARM_UP,
        ..Trial::of(Transfer { transfers })
    }
}
