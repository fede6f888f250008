//! Headline of `fathom dma`: a recommendation for each direction and range of sizes.

use std::collections::BTreeMap;

use fathom_analysis::findings::{Axis, Finding, Report, tokens};
use fathom_analysis::metrics::dma::{DMA_CPU, DMA_CROSSOVER, DMA_WINNER, DMA_WRONG_BYTES, TIES};
use fathom_report::Headline;
use fathom_units::size;

use crate::headline::{self as shared, figure, largest, none};

/// A packet, bytes: two strategies are compared at the measured size nearest to it.
const PACKET: u64 = 1536;

/// A range of sizes with one recommended strategy.
struct Range {
    strategy: String,
    /// The smallest and the largest measured size, bytes.
    sizes: [u64; 2],
}

pub(crate) fn headline(report: &Report) -> Headline {
    let mut quoted = Vec::new();
    let mut answers = Vec::new();
    let mut strategies = Vec::new();
    for direction in tokens::DIRECTION.values {
        let ranges = ranges(report, direction);
        if ranges.is_empty() {
            continue;
        }
        strategies.extend(ranges.iter().map(|range| range.strategy.clone()));
        answers.push(recommendation(report, direction, &ranges, &mut quoted));
    }
    if answers.is_empty() {
        return none(report);
    }
    strategies.sort_unstable();
    strategies.dedup();
    let wrong = largest(report.of(&DMA_WRONG_BYTES)).filter(|f| f.finite().is_some_and(|bytes| bytes > 0.0));
    let action = match (wrong, strategies.as_slice()) {
        (Some(f), _) => format!(
            "do not use {}: {} were delivered wrong",
            f.key.word(Axis::Strategy).unwrap_or_default(),
            figure(f)
        ),
        (None, [only]) => format!("use {only} for every size and direction"),
        _ => "choose by the size of the transfer, as above".to_owned(),
    };
    shared::headline(report, &answers.join("; "), &quoted, &action)
}

/// Returns the ranges of sizes with one winner, ascending. A size at which the current winner ties with the best one
/// belongs to the range.
fn ranges(report: &Report, direction: &str) -> Vec<Range> {
    let winners =
        report.of(&DMA_WINNER).filter(|f| f.key.word(Axis::Direction).as_deref() == Some(direction));
    let by_size: BTreeMap<u64, &Finding> =
        winners.filter_map(|f| Some((f.key.number(Axis::Size)?, f))).collect();
    let mut ranges: Vec<Range> = Vec::new();
    for (bytes, winner) in by_size {
        let Some(strategy) = winner.word() else { continue };
        let ties = winner.detail.words(TIES);
        match ranges.last_mut() {
            Some(range) if range.strategy == strategy || ties.contains(&range.strategy) => {
                range.sizes[1] = bytes;
            }
            _ => ranges.push(Range { strategy: strategy.to_owned(), sizes: [bytes; 2] }),
        }
    }
    ranges
}

/// `to the device: uncached-copy below 330 B, zero-copy above (12 % between them at 1.5 KiB)`.
fn recommendation<'a>(
    report: &'a Report,
    direction: &str,
    ranges: &[Range],
    quoted: &mut Vec<&'a Finding>,
) -> String {
    let prefix = match direction {
        "to-device" => "to the device",
        _ => "from the device",
    };
    let mut parts = Vec::new();
    for (nth, range) in ranges.iter().enumerate() {
        let until = ranges.get(nth + 1).map(|next| boundary(report, direction, range, next));
        parts.push(match until {
            Some(until) => format!("{} {until}", range.strategy),
            None if nth == 0 => format!("{} at every size", range.strategy),
            None => format!("{} above", range.strategy),
        });
    }
    let mut text = format!("{prefix}: {}", parts.join(", "));
    let rival = match ranges {
        [first, .., last] => Some((first.strategy.as_str(), last.strategy.as_str())),
        _ => None,
    };
    if let Some((percent, bytes, both)) = rival.and_then(|rival| between(report, direction, rival)) {
        text += &format!(" ({percent:.0} % between them at {})", size(bytes as f64));
        quoted.extend(both);
    }
    text
}

/// Formats the end of the first of two strategies' range: the crossover if it was found, else the last measured size.
fn boundary(report: &Report, direction: &str, range: &Range, next: &Range) -> String {
    let is = |f: &Finding, axis, word: &str| f.key.word(axis).as_deref() == Some(word);
    let crossing = report.of(&DMA_CROSSOVER).find(|f| {
        is(f, Axis::Direction, direction)
            && is(f, Axis::Strategy, &range.strategy)
            && is(f, Axis::Versus, &next.strategy)
    });
    match crossing.filter(|f| f.finite().is_some()) {
        Some(f) => format!("below {}", figure(f)),
        None => format!("up to {}", size(range.sizes[1] as f64)),
    }
}

/// Returns by how many percent of the faster one two strategies differ, at the measured size nearest to a packet.
fn between<'a>(
    report: &'a Report,
    direction: &str,
    rival: (&str, &str),
) -> Option<(f64, u64, [&'a Finding; 2])> {
    let of = |strategy: &str| -> BTreeMap<u64, &'a Finding> {
        let all = report.of(&DMA_CPU).filter(|f| {
            f.key.word(Axis::Direction).as_deref() == Some(direction)
                && f.key.word(Axis::Strategy).as_deref() == Some(strategy)
        });
        all.filter_map(|f| f.finite().and(Some((f.key.number(Axis::Size)?, f)))).collect()
    };
    let (one, other) = (of(rival.0), of(rival.1));
    let nearest =
        one.keys().filter(|bytes| other.contains_key(bytes)).min_by_key(|bytes| bytes.abs_diff(PACKET))?;
    let (a, b) = (one[nearest], other[nearest]);
    let (x, y) = (a.finite()?, b.finite()?);
    let fastest = x.min(y);
    (fastest > 0.0).then(|| (100.0 * (x - y).abs() / fastest, *nearest, [a, b]))
}
