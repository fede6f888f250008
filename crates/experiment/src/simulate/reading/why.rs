//! Findings about the reasons of misses.

use fathom_analysis::findings::{Finding, Item, Metric, Report};
use fathom_analysis::metrics::simulate as metrics;

use crate::record::{Reasons, Simulated, SimulatedObject, SimulatedPair};

/// Returns misses by the names of their reasons.
pub(super) fn named(reasons: &Reasons) -> Item {
    let all = metrics::REASON_NAMES.into_iter().zip(reasons);
    Item::Numbers(all.map(|(name, &count)| (name.to_owned(), count as f64)).collect())
}

/// Adds objects and pairs.
pub(super) fn why(simulated: &Simulated, report: &mut Report) {
    if simulated.granule > 0 {
        report.findings.push(crate::reading::number(&metrics::GRANULE, simulated.granule as f64, "bytes"));
    }
    let objects = simulated.objects.iter().zip(1u64..);
    report.findings.extend(objects.map(|(object, rank)| of_object(object, rank, simulated)));
    let levels: Vec<&str> = simulated.levels.iter().map(|level| level.name.as_str()).collect();
    let tlbs: Vec<&str> = simulated.tlbs.iter().map(|tlb| tlb.name.as_str()).collect();
    for (metric, pairs, names) in [
        (&metrics::PAIR_MISSES, &simulated.pairs, levels),
        (&metrics::PAGE_PAIR_MISSES, &simulated.page_pairs, tlbs),
    ] {
        let ranked = pairs.iter().zip(1u64..);
        report.findings.extend(ranked.map(|(pair, rank)| of_pair(metric, pair, rank, &names)));
    }
}

fn of_object(object: &SimulatedObject, rank: u64, simulated: &Simulated) -> Finding {
    let units = super::cycles(object.units);
    let mut finding = Finding::number(metrics::OBJECT_CYCLES.at([rank.into()]), units);
    let detail = &mut finding.detail;
    detail.set(metrics::OBJECT, Item::Token(object.name.clone()));
    if !object.file.is_empty() {
        detail.set(metrics::FILE, Item::Token(object.file.clone()));
    }
    let names = simulated.levels.iter().map(|level| level.name.clone());
    let misses = names.zip(object.misses.iter().map(|&misses| misses as f64));
    detail.set(metrics::MISSES, Item::Numbers(misses.collect()));
    detail.set(metrics::WALKS, Item::Number(object.walks as f64));
    super::overlap::set_overlapped(detail, object.overlapped);
    detail.set(metrics::REASONS, named(&object.reasons));
    super::sharing::add(detail, object.sharing);
    let fields = [metrics::BLOCKS, metrics::BLOCK_BYTES, metrics::PEAK_BYTES, metrics::BLOCK_ACCESSES];
    for (field, number) in fields.into_iter().zip(object.heap.into_iter().flatten()) {
        detail.set(field, Item::Number(number as f64));
    }
    finding
}

fn of_pair(metric: &'static Metric, pair: &SimulatedPair, rank: u64, names: &[&str]) -> Finding {
    let mut finding = Finding::number(metric.at([rank.into()]), pair.count as f64);
    let detail = &mut finding.detail;
    detail.set(metrics::REASON, Item::Token(metrics::REASON_NAMES[pair.reason as usize].to_owned()));
    detail.set(metrics::NAME, Item::Token(names[pair.level as usize].to_owned()));
    detail.set(metrics::SET, Item::Number(pair.set as f64));
    let ends = [
        (&pair.end, [metrics::OBJECT, metrics::FUNCTION, metrics::SOURCE], [metrics::OFFSET, metrics::CPU]),
        (
            &pair.by,
            [metrics::BY_OBJECT, metrics::BY_FUNCTION, metrics::BY_SOURCE],
            [metrics::BY_OFFSET, metrics::BY_CPU],
        ),
    ];
    for (end, texts, numbers) in ends {
        for (field, text) in texts.into_iter().zip([&end.object, &end.function, &end.source]) {
            if !text.is_empty() {
                detail.set(field, Item::Token(text.clone()));
            }
        }
        for (field, number) in numbers.into_iter().zip([end.offset, end.cpu]) {
            detail.set(field, Item::Number(number as f64));
        }
    }
    finding
}
