//! Reads a record of `fathom dma`: cost of each transfer in parts, cheapest strategies, crossovers, cache pollution.

use fathom_analysis::crossover::lowest;
use fathom_analysis::findings::{Basis, Finding, Item, Metric, Refused, Report, Warning, WarningKind};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::dma as metrics;
use fathom_probe::machine::Attribute;
use fathom_probe::machine::dma::{Channel, Direction, Engine, Strategy};
use fathom_probe::pattern::PatternKind;
use fathom_units::size;

use super::crossings::changes;
use super::options::Options;
use super::plan::refused;
use super::points::{self, Key, Loss, Part, Point, route};
use super::{NAME, Request, Route, pollution, study};
use crate::disturbance;
use crate::reading::{clocks, disturbance_rows, measured, new_report, number, refuse_all, text};
use crate::record::{Record, TrialRun};
use crate::scale::{Scale, clock_is_usable};

/// Reads a record. The report depends on the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    let request = Request::of(record);
    if clock_is_usable(record) {
        times(record, &request, &mut report);
    } else {
        refuse_all(record, "every time of a transfer", &mut report);
    }
    for &route in &request.routes {
        routes(record, route, &mut report);
    }
    wrong_data(record, &mut report);
    report
}

/// Adds everything that needs a clock.
fn times(record: &Record, request: &Request, report: &mut Report) {
    let scale = Scale::of(record);
    let mut points = points::all(record);
    let place = |key: &Key| (request.routes.iter().position(|route| *route == key.route), key.bytes);
    points.sort_by_key(|point| place(&point.key));
    let repeats: Vec<Vec<f64>> = points.iter().map(Point::repeats).collect();
    disturbance_rows(&disturbance::judge(record, &scale.cycle_ticks, &repeats), report);
    clocks(record, &scale, report);
    let link = link(record, &points, report);
    let modelled = record.is_modelled();
    for point in &points {
        rows(point, link, modelled, report);
    }
    winners(&points, &request.sizes, report);
    crossovers(&points, report);
    let mut losses = points::losses(record, &scale);
    losses.sort_by_key(|loss| place(&loss.key));
    pollution::rows(&losses, &unmoved(record, request), modelled, report);
    let requested = Options::of(record);
    if requested.driver_bug.is_none() {
        study::rows(&points, link.filter(|_| requested.link_bits.is_some()), report);
    }
    no_throughput(&points, report);
    missing(record, request, (&points, &losses), report);
    overridden(&requested, report);
}

/// Returns the bits per second for which CPU utilisation is reported: as requested, or as reached by the engine at its largest
/// transfer.
fn link(record: &Record, points: &[Point], report: &mut Report) -> Option<f64> {
    let requested = Options::of(record).link_bits;
    let engine = |point: &&Point| point.is_timed_engine();
    let reached = points.iter().filter(engine).max_by_key(|point| point.key.bytes).and_then(|point| {
        let transfer_time = |row: &fathom_probe::machine::dma::TransferTimes, ns: f64| {
            row.engine.saturating_sub(row.setup) as f64 * ns
        };
        let ns = point.of(transfer_time)?.value;
        (ns > 0.0).then(|| (point.key.bytes as f64 * 8.0 * 1e9 / ns, point))
    });
    let (bits, row) = match (requested, reached) {
        (None, None) => return None,
        (None, Some((bits, point))) => {
            let mut row = number(&metrics::DMA_LINK, bits / 1e6, "Mbit/s");
            row.basis = Basis::Derived;
            row.detail.set(metrics::LINK_SIZE, Item::Number(point.key.bytes as f64));
            row.notes.push(format!(
                "rate for which CPU utilisation is reported: reached by the engine over {}, without start and interrupt; \
                 set another rate with --link",
                size(point.key.bytes as f64)
            ));
            (row.count, row.trials) = (point.count() as u64, point.ids.clone());
            (bits, row)
        }
        (Some(requested), _) => {
            let mut row = number(&metrics::DMA_LINK, requested as f64 / 1e6, "Mbit/s");
            row.basis = Basis::Assumed;
            row.notes.push("rate for which CPU utilisation is reported: as requested".into());
            (requested as f64, row)
        }
    };
    report.findings.push(row);
    Some(bits)
}

/// Adds the findings of a point.
fn rows(point: &Point, link: Option<f64>, modelled: bool, report: &mut Report) {
    let (count, ids) = (point.count(), &point.ids);
    let moves = point.channel.engine != Engine::Nothing;
    let mut push = |metric: &'static Metric, i: Option<Interval>, unit: &'static str, notes: &[String]| {
        let Some(i) = i else { return };
        let mut row = measured(point.key.of(metric), i, unit, count, ids);
        if metric == &metrics::DMA_UTILISATION {
            row.basis = Basis::Derived;
        }
        row.notes.extend_from_slice(notes);
        report.findings.push(row);
    };
    push(Part::Cpu.metric(), point.part(Part::Cpu), "ns", &cpu_notes(point, modelled));
    for part in [Part::Use, Part::Copy, Part::Map, Part::Unmap] {
        push(part.metric(), point.part(part), "ns", &[]);
    }
    if moves {
        let setup = point.part(Part::Setup).filter(|i| i.value > 0.0);
        push(Part::Setup.metric(), setup, "ns", &[]);
        if point.is_timed_engine() {
            push(Part::Engine.metric(), point.part(Part::Engine), "ns", &[]);
        }
        let rate = point.throughput().map(|i| i.scaled(1e-6));
        push(&metrics::DMA_THROUGHPUT, rate, "MB/s", &["consecutive transfers".to_owned()]);
    }
    if let Some(bits) = link {
        let ns = point.key.bytes as f64 * 8.0 * 1e9 / bits;
        let load = point.part(Part::Cpu).map(|i| i.scaled(100.0 / ns));
        let exceeds = load.is_some_and(|i| i.value > 100.0);
        let notes = if exceeds { vec!["the CPU limits the link".to_owned()] } else { Vec::new() };
        push(&metrics::DMA_UTILISATION, load, "%", &notes);
    }
}

/// Returns notes on what a point's CPU time includes.
fn cpu_notes(point: &Point, modelled: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !modelled {
        notes.push("each part includes a reading of the clock (bias.timer), not subtracted".into());
    }
    let Channel { engine, substitute, coherent, .. } = point.channel;
    if substitute {
        notes.push(
            "a substitute: lines are flushed from user space instead of maintained by the kernel".into(),
        );
    } else if engine == Engine::Nothing {
        notes.push("no data were moved by a device, so a copy from its buffer runs with warm caches".into());
    } else if point.part(Part::Setup).is_none_or(|i| i.value <= 0.0) {
        notes.push("without the engine's start and interrupt, which are part of the engine's time".into());
    }
    if coherent && point.key.route.0.maintains() {
        notes.push("coherent device: no cache maintenance".into());
    }
    notes
}

/// Returns the points in one direction, by size.
fn sizes(points: &[Point], direction: Direction) -> Vec<(u64, Vec<&Point>)> {
    let of = |point: &&Point| point.key.route.1 == direction;
    let mut all: Vec<&Point> = points.iter().filter(of).collect();
    all.sort_by_key(|point| point.key.bytes);
    all.chunk_by(|a, b| a.key.bytes == b.key.bytes).map(|of| (of[0].key.bytes, of.to_vec())).collect()
}

/// Adds the strategy with the least CPU time, for each size at which all strategies (at least two) are measured.
fn winners(points: &[Point], requested: &[u64], report: &mut Report) {
    for &direction in Direction::ALL {
        let sizes = sizes(points, direction);
        let max_strategies = sizes.iter().map(|(_, of)| of.len()).max().unwrap_or(0);
        let complete =
            |(bytes, of): &(u64, Vec<&Point>)| requested.contains(bytes) && of.len() == max_strategies;
        for (bytes, of) in sizes.into_iter().filter(complete) {
            let known: Vec<(&Point, Interval)> =
                of.into_iter().filter_map(|point| Some((point, point.part(Part::Cpu)?))).collect();
            let values: Vec<Interval> = known.iter().map(|known| known.1).collect();
            let Some(first) = lowest(&values).filter(|_| values.len() > 1) else { continue };
            let token = |i: usize| known[i].0.key.route.0.token();
            let mut row =
                text(metrics::DMA_WINNER.at([direction.token().into(), bytes.into()]), token(first.first));
            row.basis = Basis::Derived;
            row.count = known.iter().map(|(point, _)| point.count() as u64).sum();
            row.trials = known.iter().flat_map(|(point, _)| point.ids.clone()).collect();
            row.notes.push(format!("least CPU time of {} strategies", values.len()));
            if !first.ties.is_empty() {
                let ties: Vec<&str> = first.ties.iter().map(|&i| token(i)).collect();
                row.notes.push(format!("not significantly faster than {}", ties.join(", ")));
                row.detail.set(metrics::TIES, Item::Tokens(ties.into_iter().map(str::to_owned).collect()));
            }
            report.findings.push(row);
        }
    }
}

/// Adds the sizes at which two strategies change.
fn crossovers(points: &[Point], report: &mut Report) {
    for change in changes(points) {
        let of = |point: &&Point| {
            let (strategy, direction) = point.key.route;
            direction == change.direction && (strategy == change.below || strategy == change.beyond)
        };
        let both: Vec<&Point> = points.iter().filter(of).collect();
        let (below, beyond) = (change.below.token(), change.beyond.token());
        let key = metrics::DMA_CROSSOVER.at([change.direction.token().into(), below.into(), beyond.into()]);
        let at = Interval { value: change.at.value, low: change.at.low as f64, high: change.at.high as f64 };
        let count = both.iter().map(|point| point.count()).sum();
        let ids: Vec<u64> = both.iter().flat_map(|point| point.ids.clone()).collect();
        let mut row = measured(key, at, "bytes", count, &ids);
        row.basis = Basis::Bounds;
        row.notes.push(format!("{below} takes less CPU time below this size, {beyond} above"));
        report.findings.push(row);
    }
}

/// Adds the engine of one strategy in one direction, and whether its data were delivered correctly. This needs no
/// clock.
fn routes(record: &Record, route_of: Route, report: &mut Report) {
    let of = |r: &&TrialRun| route(&r.trial) == route_of && r.trial.kind() == PatternKind::Transfer;
    let runs: Vec<&TrialRun> = record.trials.iter().filter(of).filter(|r| r.done.is_some()).collect();
    let Some(channel) = runs.iter().find_map(|r| r.transfers.channel) else { return };
    let ids: Vec<u64> = runs.iter().map(|r| r.trial.id).collect();
    let at = [route_of.0.token().into(), route_of.1.token().into()];
    let mut push = |row: Finding| report.findings.push(Finding { trials: ids.clone(), ..row });
    if let Some(attribute) = channel.attribute {
        let mut row = text(metrics::DMA_ATTRIBUTE.at(at), attribute.token());
        row.notes.push("of the device's memory, from the page tables".into());
        if route_of.0 == Strategy::UncachedCopy && attribute == Attribute::WriteBack {
            row.notes.push("requested as normal-nc".into());
        }
        push(Finding { count: runs.len() as u64, ..row });
    }
    let mut row = text(metrics::DMA_ENGINE.at(at), channel.engine.token());
    for (field, is) in [(metrics::SUBSTITUTE, channel.substitute), (metrics::COHERENT, channel.coherent)] {
        row.detail.set(field, Item::Flag(is));
    }
    if let Some(policy) = channel.maintenance.filter(|_| !channel.coherent) {
        row.detail.set(metrics::MAINTENANCE, Item::Token(policy.token().to_owned()));
    }
    row.notes.push(match channel.coherent {
        true => "coherent with the caches".to_owned(),
        false => channel.maintenance.map_or_else(
            || "not coherent with the caches".to_owned(),
            |policy| format!("not coherent with the caches; buffer maintenance: {}", policy.token()),
        ),
    });
    push(Finding { count: runs.len() as u64, ..row });
    if channel.engine == Engine::Nothing {
        return;
    }
    let (mut moved, mut wrong, mut transfers) = (0u64, 0u64, 0u64);
    for run in &runs {
        let rows = run.transfers.rows.len() as u64 + run.transfers.wrong as u64;
        transfers = transfers.saturating_add(rows);
        moved = moved.saturating_add(rows.saturating_mul(run.trial.memory.bytes));
        wrong = wrong.saturating_add(run.transfers.wrong_bytes);
    }
    let mut row = number(metrics::DMA_WRONG_BYTES.at(at), wrong as f64, "bytes");
    row.detail.set(metrics::COMPARED, Item::Number(moved as f64));
    let notes = vec![format!("of {moved} bytes that were checked after delivery")];
    push(Finding { count: transfers, notes, ..row });
}

/// Warns of data that were delivered wrong.
fn wrong_data(record: &Record, report: &mut Report) {
    let wrong: usize = record.trials.iter().map(|r| r.transfers.wrong).sum();
    if wrong == 0 {
        return;
    }
    let all: usize = record.trials.iter().map(|r| r.transfers.rows.len()).sum::<usize>() + wrong;
    let requested = Options::of(record).driver_bug;
    report.warnings.push(Warning {
        kind: WarningKind::WrongData,
        text: format!(
            "{wrong} of {all} transfers delivered wrong data: stale lines were read or dirty lines \
             were lost"
        ),
        remedy: match requested {
            Some(driver_bug) => format!("leave --driver-bug {} out", driver_bug.token()),
            None => "the cache maintenance of these buffers is wrong; their times are left out".into(),
        },
    });
}

/// Refuses the throughput of engines without a meaningful time.
fn no_throughput(points: &[Point], report: &mut Report) {
    if points.iter().any(|point| point.channel.engine == Engine::Edu) {
        report.refusals.push(Refused {
            what: "throughput through edu".into(),
            reason: "QEMU's edu device waits 100 ms before it moves up to 2048 bytes: it only tests delivery"
                .into(),
            remedy: "measure it on a machine with a dmaengine channel".into(),
        });
    }
}

/// Returns the requested points of cache pollution on granted routes that move no data.
fn unmoved(record: &Record, request: &Request) -> Vec<Key> {
    let routes =
        request.routes.iter().filter(|&&route| !refused(record, route) && !points::moves(record, route));
    routes.flat_map(|&route| request.polluting().map(move |bytes| Key { route, bytes })).collect()
}

/// Warns of requested points that were neither refused nor measured.
fn missing(record: &Record, request: &Request, (points, losses): (&[Point], &[Loss]), report: &mut Report) {
    let keys = request
        .routes
        .iter()
        .filter(|route| !refused(record, **route))
        .flat_map(|&route| request.sizes.iter().map(move |&bytes| Key { route, bytes }));
    let reported = |key: &Key| {
        let of = |r: &&TrialRun| route(&r.trial) == key.route && r.trial.memory.bytes == key.bytes;
        record.trials.iter().filter(of).any(|r| r.refusal.is_some() || r.transfers.wrong > 0)
    };
    let lost: Vec<Key> =
        keys.filter(|key| points.iter().all(|point| point.key != *key) && !reported(key)).collect();
    let polluting =
        request.routes.iter().filter(|&&route| !refused(record, route) && points::moves(record, route));
    let missing = (polluting.count() * request.polluting().count()).saturating_sub(losses.len());
    if missing > 0 {
        report.warnings.push(Warning {
            kind: WarningKind::BudgetExhausted,
            text: format!(
                "cache pollution was not measured at {missing} points, within the budget or the memory"
            ),
            remedy: "give it a larger --budget, or a smaller --pollution-set, or none: --pollution-set 0"
                .into(),
        });
    }
    if let Some(first) = lost.first() {
        let (strategy, direction) = first.route;
        report.warnings.push(Warning {
            kind: WarningKind::BudgetExhausted,
            text: format!(
                "not measured within the budget or the memory: {} of {} {}{}",
                size(first.bytes as f64),
                strategy.token(),
                direction.token(),
                if lost.len() > 1 { format!(" and {} more", lost.len() - 1) } else { String::new() }
            ),
            remedy: "give it a larger --budget, or fewer --bytes or --strategy".into(),
        });
    }
}

/// Warns of options that override the description.
fn overridden(requested: &Options, report: &mut Report) {
    let driver_bug = requested
        .driver_bug
        .map(|driver_bug| format!("a driver that makes the mistake {}", driver_bug.token()));
    let policy =
        requested.maintenance.map(|policy| format!("a kernel with buffer maintenance {}", policy.token()));
    for what in [driver_bug, policy].into_iter().flatten() {
        report.warnings.push(Warning {
            kind: WarningKind::Overridden,
            text: format!("an option selects {what}: the results are not those of the machine as described"),
            remedy: String::new(),
        });
    }
}
