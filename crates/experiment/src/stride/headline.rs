//! Headline of `fathom stride`: the cost of a long stride in the largest working set.

use fathom_analysis::findings::{Axis, Finding, Report};
use fathom_analysis::metrics::stride::{STRIDE_LINE, STRIDE_TIME_PER_ACCESS};
use fathom_report::Headline;
use fathom_units::exact;

use crate::headline::{self as shared, figure, none};

pub(crate) fn headline(report: &Report) -> Headline {
    let at = |f: &Finding, axis| f.key.number(axis).unwrap_or(0);
    let all: Vec<&Finding> =
        report.of(&STRIDE_TIME_PER_ACCESS).filter(|f| f.finite().is_some_and(|time| time > 0.0)).collect();
    let Some(size) = all.iter().map(|f| at(f, Axis::Size)).max() else { return none(report) };
    // Reads if measured, else the first measured operation.
    let read = all.iter().any(|f| f.key.word(Axis::Operation).as_deref() == Some("read"));
    let operation = match read {
        true => Some("read".to_owned()),
        false => all.first().and_then(|f| f.key.word(Axis::Operation)),
    };
    let mut row: Vec<&Finding> = all
        .into_iter()
        .filter(|f| at(f, Axis::Size) == size && f.key.word(Axis::Operation) == operation)
        .collect();
    row.sort_by_key(|f| at(f, Axis::Stride));
    let (Some(near), Some(far)) = (row.first(), row.last()) else { return none(report) };
    let ratio = far.finite().unwrap_or(f64::NAN) / near.finite().unwrap_or(f64::NAN);
    let stride = |f: &Finding| exact(at(f, Axis::Stride));
    let operation = operation.unwrap_or_default();
    let answer = if at(near, Axis::Stride) == at(far, Axis::Stride) {
        format!("in {} a {operation} every {} takes {}", exact(size), stride(near), figure(near))
    } else {
        format!(
            "in {} a {operation} takes {} at a stride of {} and {} at {}: {ratio:.1} times as long",
            exact(size),
            figure(near),
            stride(near),
            figure(far),
            stride(far)
        )
    };
    let line = report.of(&STRIDE_LINE).find_map(Finding::finite);
    let action = line.map(|line| {
        let line = fathom_units::size(line);
        format!(
            "place data that is used together within one line of {line}; a longer stride costs the same per access"
        )
    });
    shared::headline(report, &answer, &[*near, *far], &action.unwrap_or_default())
}
