//! The reading: what each transfer costs in parts, who is cheapest where, and what others lose by it.

use fathom_analysis::crossover::lowest;
use fathom_analysis::findings::{Finding, Refused, Report, Warning};
use fathom_analysis::interval::Interval;
use fathom_probe::machine::{Attribute, Worth};
use fathom_probe::transfer::{Channel, Direction, Engine, Strategy};
use fathom_probe::wire::PatternKind;

use super::asked::Asked;
use super::cells::{self, Cell, Key, Loss, Part, way};
use super::crossings::changes;
use super::plan::refused;
use super::{NAME, Wanted, Way, study};
use crate::common::scale::{Scale, believable};
use crate::disturbance;
use crate::reading::{begun, clocks, disturbed_row, measured, number, refuse_all, size, text};
use crate::record::{Record, TrialRun};

/// Reads a record. Everything that is shown follows from the record alone.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = begun(record, NAME);
    let wanted = Wanted::of(record);
    if believable(record) {
        times(record, &wanted, &mut report);
    } else {
        refuse_all(record, "every time of a transfer", &mut report);
    }
    for &way in &wanted.ways {
        ways(record, way, &mut report);
    }
    wrong_data(record, &mut report);
    report
}

/// What needs a clock.
fn times(record: &Record, wanted: &Wanted, report: &mut Report) {
    let scale = Scale::of(record);
    let mut cells = cells::all(record);
    let place = |key: &Key| (wanted.ways.iter().position(|way| *way == key.way), key.bytes);
    cells.sort_by_key(|cell| place(&cell.key));
    let repeats: Vec<Vec<f64>> = cells.iter().map(Cell::repeats).collect();
    disturbed_row(&disturbance::judge(record, &scale.cycle_ticks, &repeats), report);
    clocks(record, &scale, report);
    let link = link(record, &cells, report);
    let modelled = record.worth == Some(Worth::Modelled);
    for cell in &cells {
        rows(cell, link, modelled, report);
    }
    winners(&cells, &wanted.sizes, report);
    crossovers(&cells, report);
    let mut losses = cells::losses(record, &scale);
    losses.sort_by_key(|loss| place(&loss.key));
    pollution(&losses, report);
    let asked = record.run.as_ref().map(|run| run.dma.clone()).unwrap_or_default();
    if asked.mistake.is_none() {
        study::rows(&cells, link.filter(|_| asked.link_bits > 0), report);
    }
    no_throughput(&cells, report);
    missing(record, wanted, (&cells, &losses), report);
    otherwise(&asked, report);
}

/// The name of a cell's finding.
pub(super) fn name(key: Key, what: &str) -> String {
    let (strategy, direction) = key.way;
    format!("{NAME}.{}.{}.{}.{what}", strategy.token(), direction.token(), key.bytes)
}

/// Bits a second at which a CPU's load is told: what was asked for, or what the engine reached at its largest transfer.
fn link(record: &Record, cells: &[Cell], report: &mut Report) -> Option<f64> {
    let asked = record.run.as_ref().map_or(0, |run| run.dma.link_bits);
    let engine = |cell: &&Cell| cell.is_timed_engine();
    let reached = cells.iter().filter(engine).max_by_key(|cell| cell.key.bytes).and_then(|cell| {
        let own = |row: &fathom_probe::transfer::Transferred, ns: f64| {
            row.engine.saturating_sub(row.setup) as f64 * ns
        };
        let ns = cell.of(own)?.value;
        (ns > 0.0).then(|| (cell.key.bytes as f64 * 8.0 * 1e9 / ns, cell))
    });
    let (bits, mut row) = match (asked, reached) {
        (0, None) => return None,
        (0, Some((bits, cell))) => {
            let mut row = number(format!("{NAME}.link"), bits / 1e6, "Mbit/s");
            row.notes.push(format!(
                "what the engine reached over {}, its start and interrupt aside; --link says another",
                size(cell.key.bytes as f64)
            ));
            (row.count, row.trials) = (cell.count() as u64, cell.ids.clone());
            (bits, row)
        }
        (asked, _) => {
            let mut row = number(format!("{NAME}.link"), asked as f64 / 1e6, "Mbit/s");
            row.notes.push("as it was asked for".into());
            (asked as f64, row)
        }
    };
    row.notes.push("the rate at which a CPU's load is told".into());
    report.findings.push(row);
    Some(bits)
}

/// The rows of a cell.
fn rows(cell: &Cell, link: Option<f64>, modelled: bool, report: &mut Report) {
    let (count, ids) = (cell.count(), &cell.ids);
    let moves = cell.channel.engine != Engine::Nothing;
    let mut push = |what: &str, i: Option<Interval>, unit: &'static str, notes: &[String]| {
        let Some(i) = i else { return };
        let mut row = measured(name(cell.key, what), i, unit, count, ids);
        row.notes.extend_from_slice(notes);
        report.findings.push(row);
    };
    push("cpu", cell.part(Part::Cpu), "ns", &cpu_notes(cell, modelled));
    for part in [Part::Use, Part::Copy, Part::Map, Part::Unmap] {
        push(part.word(), cell.part(part), "ns", &[]);
    }
    if moves {
        let apart = cell.part(Part::Setup).filter(|i| i.value > 0.0);
        push(Part::Setup.word(), apart, "ns", &[]);
        if cell.is_timed_engine() {
            push(Part::Engine.word(), cell.part(Part::Engine), "ns", &[]);
        }
        let rate = cell.throughput().map(|i| i.scaled(1e-6));
        push("throughput", rate, "MB/s", &["one transfer after the other".to_owned()]);
    }
    if let Some(bits) = link {
        let ns = cell.key.bytes as f64 * 8.0 * 1e9 / bits;
        let load = cell.part(Part::Cpu).map(|i| i.scaled(100.0 / ns));
        let more = load.is_some_and(|i| i.value > 100.0);
        let notes = if more { vec!["the link has to wait for the CPU".to_owned()] } else { Vec::new() };
        push("utilisation", load, "%", &notes);
    }
}

/// What a cell's CPU time has and has not in it.
fn cpu_notes(cell: &Cell, modelled: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !modelled {
        notes.push("a reading of the clock is in each of its parts, as in bias.timer: not subtracted".into());
    }
    let Channel { engine, stand_in, coherent, .. } = cell.channel;
    if stand_in {
        notes.push(
            "a stand-in: each line was flushed from user space where the kernel would maintain it".into(),
        );
    } else if engine == Engine::Nothing {
        notes.push(
            "nothing was moved: what a device leaves in memory was not read, so a copy from it ran warm"
                .into(),
        );
    } else if cell.part(Part::Setup).is_none_or(|i| i.value <= 0.0) {
        notes.push("without the engine's start and its interrupt, which are part of its own time".into());
    }
    if coherent && cell.key.way.0.maintains() {
        notes.push("caches see the device: no line is maintained".into());
    }
    notes
}

/// Cells in one direction, by size.
fn sizes(cells: &[Cell], direction: Direction) -> Vec<(u64, Vec<&Cell>)> {
    let of = |cell: &&Cell| cell.key.way.1 == direction;
    let mut all: Vec<&Cell> = cells.iter().filter(of).collect();
    all.sort_by_key(|cell| cell.key.bytes);
    all.chunk_by(|a, b| a.key.bytes == b.key.bytes).map(|of| (of[0].key.bytes, of.to_vec())).collect()
}

/// Who takes the least CPU time at each size at which all are measured, where there are two at least.
fn winners(cells: &[Cell], asked: &[u64], report: &mut Report) {
    for &direction in Direction::ALL {
        let sizes = sizes(cells, direction);
        let most = sizes.iter().map(|(_, of)| of.len()).max().unwrap_or(0);
        let whole = |(bytes, of): &(u64, Vec<&Cell>)| asked.contains(bytes) && of.len() == most;
        for (bytes, of) in sizes.into_iter().filter(whole) {
            let known: Vec<(&Cell, Interval)> =
                of.into_iter().filter_map(|cell| Some((cell, cell.part(Part::Cpu)?))).collect();
            let values: Vec<Interval> = known.iter().map(|known| known.1).collect();
            let Some(first) = lowest(&values).filter(|_| values.len() > 1) else { continue };
            let token = |i: usize| known[i].0.key.way.0.token();
            let mut row = text(format!("{NAME}.winner.{}.{bytes}", direction.token()), token(first.first));
            row.count = known.iter().map(|(cell, _)| cell.count() as u64).sum();
            row.trials = known.iter().flat_map(|(cell, _)| cell.ids.clone()).collect();
            row.notes.push(format!("the least CPU time of {}", values.len()));
            if !first.ties.is_empty() {
                let ties: Vec<&str> = first.ties.iter().map(|&i| token(i)).collect();
                row.notes.push(format!("not surely ahead of {}", ties.join(", ")));
            }
            report.findings.push(row);
        }
    }
}

/// Where two strategies change places.
fn crossovers(cells: &[Cell], report: &mut Report) {
    for change in changes(cells) {
        let of = |cell: &&Cell| {
            let (strategy, direction) = cell.key.way;
            direction == change.direction && (strategy == change.below || strategy == change.beyond)
        };
        let both: Vec<&Cell> = cells.iter().filter(of).collect();
        let name = format!(
            "{NAME}.crossover.{}.{}.{}",
            change.direction.token(),
            change.below.token(),
            change.beyond.token()
        );
        let at = Interval { value: change.at.value, low: change.at.low as f64, high: change.at.high as f64 };
        let count = both.iter().map(|cell| cell.count()).sum();
        let ids: Vec<u64> = both.iter().flat_map(|cell| cell.ids.clone()).collect();
        let mut row = measured(name, at, "bytes", count, &ids);
        row.notes.push(format!(
            "{} takes less CPU time below it, {} beyond",
            change.below.token(),
            change.beyond.token()
        ));
        report.findings.push(row);
    }
}

/// Share of a walk that a loss has to be, to be one: of many comparisons some are sure by chance.
const MATTERS: f64 = 0.01;

/// What a victim lost: by a transfer each way, and by one of each direction.
fn pollution(losses: &[Loss], report: &mut Report) {
    for loss in losses {
        let (strategy, direction) = loss.key.way;
        let name = format!("pollution.{}.{}.{}", strategy.token(), direction.token(), loss.key.bytes);
        let mut row = measured(name, loss.lost, "ns", loss.count, &loss.ids);
        row.notes.push(format!(
            "a walk through {} took {:.0} ns before a transfer, and so much longer after it",
            size(loss.victim as f64),
            loss.before.value
        ));
        let apart = loss.lost.low > 0.0 || loss.lost.high < 0.0;
        if !apart || loss.lost.value.abs() < MATTERS * loss.before.value {
            row.notes.push("not surely a loss".into());
        }
        report.findings.push(row);
    }
    for loss in losses.iter().filter(|loss| loss.key.way.1 == Direction::ToDevice) {
        let back = (loss.key.way.0, Direction::FromDevice);
        let back = losses.iter().find(|l| l.key == Key { way: back, ..loss.key });
        let Some(back) = back else { continue };
        let sum = Interval {
            value: loss.lost.value + back.lost.value,
            low: loss.lost.low + back.lost.low,
            high: loss.lost.high + back.lost.high,
        };
        let name = format!("pollution.{}.{}", loss.key.way.0.token(), loss.key.bytes);
        let ids = [loss.ids.as_slice(), &back.ids].concat();
        let mut row = measured(name, sum, "ns", loss.count + back.count, &ids);
        row.notes.push("a transfer to the device and one from it".into());
        report.findings.push(row);
    }
}

/// What moved the data of one strategy in one direction, and whether they arrived. No clock is needed for it.
fn ways(record: &Record, way_of: Way, report: &mut Report) {
    let of = |r: &&TrialRun| way(&r.trial) == way_of && r.trial.pattern == PatternKind::Transfer;
    let runs: Vec<&TrialRun> = record.trials.iter().filter(of).filter(|r| r.done.is_some()).collect();
    let Some(channel) = runs.iter().find_map(|r| r.transfers.channel) else { return };
    let ids: Vec<u64> = runs.iter().map(|r| r.trial.id).collect();
    let name = |what: &str| format!("{NAME}.{}.{}.{what}", way_of.0.token(), way_of.1.token());
    let mut push = |row: Finding| report.findings.push(Finding { trials: ids.clone(), ..row });
    if let Some(attribute) = channel.attribute {
        let mut row = text(name("attribute"), attribute.token());
        row.notes.push("of the device's memory, as the tables have it".into());
        if way_of.0 == Strategy::UncachedCopy && attribute == Attribute::WriteBack {
            row.notes.push("it was asked for as normal-nc".into());
        }
        push(Finding { count: runs.len() as u64, ..row });
    }
    let mut row = text(name("engine"), channel.engine.token());
    row.notes.push(match channel.coherent {
        true => "caches see what the device does".to_owned(),
        false => channel.maintenance.map_or_else(
            || "it reads and writes memory behind the caches".to_owned(),
            |policy| format!("behind the caches; buffers are maintained as {}", policy.token()),
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
        moved = moved.saturating_add(rows.saturating_mul(run.trial.bytes));
        wrong = wrong.saturating_add(run.transfers.wrong_bytes);
    }
    let row = number(name("wrong"), wrong as f64, "bytes");
    let notes = vec![format!("of {moved} that were compared at the far end")];
    push(Finding { count: transfers, notes, ..row });
}

/// What arrived otherwise than it was sent.
fn wrong_data(record: &Record, report: &mut Report) {
    let wrong: usize = record.trials.iter().map(|r| r.transfers.wrong).sum();
    if wrong == 0 {
        return;
    }
    let all: usize = record.trials.iter().map(|r| r.transfers.rows.len()).sum::<usize>() + wrong;
    let asked = record.run.as_ref().and_then(|run| run.dma.mistake);
    report.warnings.push(Warning {
        token: "wrong-data",
        text: format!(
            "of {all} transfers {wrong} brought other data to the far end than were sent: old lines were read, or new \
             ones lost"
        ),
        remedy: match asked {
            Some(mistake) => format!("leave --mistake {} out", mistake.token()),
            None => "the maintenance of these buffers is wrong: their times are left out".into(),
        },
    });
}

/// Engines whose time is nobody's.
fn no_throughput(cells: &[Cell], report: &mut Report) {
    if cells.iter().any(|cell| cell.channel.engine == Engine::Edu) {
        report.refusals.push(Refused {
            what: "throughput through edu".into(),
            reason:
                "QEMU's edu device waits 100 ms before it moves up to 2048 bytes: it shows that they arrive"
                    .into(),
            remedy: "measure it on a machine with a dmaengine channel".into(),
        });
    }
}

/// Cells that were asked for, not refused, and not measured.
fn missing(record: &Record, wanted: &Wanted, (cells, losses): (&[Cell], &[Loss]), report: &mut Report) {
    let keys = wanted
        .ways
        .iter()
        .filter(|way| !refused(record, **way))
        .flat_map(|&way| wanted.sizes.iter().map(move |&bytes| Key { way, bytes }));
    let told = |key: &Key| {
        let of = |r: &&TrialRun| way(&r.trial) == key.way && r.trial.bytes == key.bytes;
        record.trials.iter().filter(of).any(|r| r.refusal.is_some() || r.transfers.wrong > 0)
    };
    let lost: Vec<Key> = keys.filter(|key| cells.iter().all(|cell| cell.key != *key) && !told(key)).collect();
    let granted = wanted.ways.iter().filter(|way| !refused(record, **way)).count();
    let victims = (granted * wanted.polluting().count()).saturating_sub(losses.len());
    if victims > 0 {
        report.warnings.push(Warning {
            token: "short-budget",
            text: format!(
                "of {victims} cells it was not measured, within the budget or the memory, what a victim lost"
            ),
            remedy: "give it a larger --budget, or a smaller --victim, or none: --victim 0".into(),
        });
    }
    if let Some(first) = lost.first() {
        let (strategy, direction) = first.way;
        report.warnings.push(Warning {
            token: "short-budget",
            text: format!(
                "not measured within the budget or the memory: {} of {} {}{}",
                size(first.bytes as f64),
                strategy.token(),
                direction.token(),
                if lost.len() > 1 { format!(" and {} more", lost.len() - 1) } else { String::new() }
            ),
            remedy: "give it a larger --budget, or ask for fewer --bytes or --strategy".into(),
        });
    }
}

/// What was asked to be otherwise than it is described.
fn otherwise(asked: &Asked, report: &mut Report) {
    let mistake = asked.mistake.map(|mistake| format!("a driver that makes the mistake {}", mistake.token()));
    let policy = asked.maintenance.map(|policy| format!("a kernel that maintains as {}", policy.token()));
    for what in [mistake, policy].into_iter().flatten() {
        report.warnings.push(Warning {
            token: "otherwise",
            text: format!("it was asked for {what}: the figures are not those of the machine as described"),
            remedy: String::new(),
        });
    }
}
