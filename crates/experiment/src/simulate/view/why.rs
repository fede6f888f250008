//! Why accesses missed: by level, by object, and the pairs.

use fathom_analysis::findings::{Axis, Field, Finding, Item, Metric};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{Page, TextRole, left, right};

use super::{SHOWN, cell, count, misses, name, rest};

/// What the columns mean, and what helps.
const MEANING: &str = "cold: the line was never there. capacity: a fully associative LRU cache of this size would have missed, too \
                       (smaller working set, blocking). conflict: it would have hit (other distances between rows or arrays, \
                       padding). shared: another CPU had stored it. falsely shared: another CPU had stored other bytes of the \
                       line (a line for each CPU). unallocated: stores, where stores allocate no line.";

/// Shows the reasons by TLB.
pub(super) fn translation(page: &mut Page, index: &mut FindingIndex) {
    let rows = index.rows(metrics::TLB_REASONS, &[Axis::Tlb]);
    if rows.is_empty() {
        return;
    }
    page.heading("Why translations missed");
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut line = vec![row.number(Axis::Tlb).to_string(), name(row.findings().next())];
            line.extend(row.of.map(cell));
            line
        })
        .collect();
    let columns = [right("TLB"), left("name").key(), right("cold"), right("capacity"), right("conflict")];
    page.table(&columns, &lines, &[]);
}

/// Shows the reasons by level.
pub(super) fn levels(page: &mut Page, index: &mut FindingIndex) {
    let rows = index.rows(metrics::LEVEL_REASONS, &[Axis::Level]);
    if rows.is_empty() {
        return;
    }
    page.heading("Why accesses missed");
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut line = vec![row.number(Axis::Level).to_string(), name(row.findings().next())];
            line.extend(row.of.map(cell));
            line
        })
        .collect();
    let columns = [
        right("level"),
        left("name").key(),
        right("cold"),
        right("capacity"),
        right("conflict"),
        right("shared"),
        right("falsely shared"),
        right("unallocated"),
    ];
    page.table(&columns, &lines, &[]);
    page.text(TextRole::Dim, MEANING, "", "  ");
}

/// Returns the reason of most misses of the nearest level, with its share.
pub(super) fn main_reason(f: &Finding) -> String {
    let Some(Item::Numbers(list)) = f.detail.get(metrics::REASONS) else { return String::new() };
    let all: f64 = list.iter().map(|(_, count)| count).sum();
    let most = list.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, count)| *count > 0.0);
    most.map_or_else(String::new, |(name, count)| format!("{name} {:.0} %", 100.0 * count / all))
}

/// Shows the objects.
pub(super) fn objects(page: &mut Page, index: &mut FindingIndex) {
    let all = index.along(&metrics::OBJECT_CYCLES, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading("Data, by time beyond hits");
    let word = |f: &Finding, field| f.detail.word(field).unwrap_or_default().to_owned();
    let overlap = all.iter().any(|(_, f)| f.detail.get(metrics::OVERLAPPED).is_some());
    let has_blocks = all.iter().any(|(_, f)| f.detail.get(metrics::BLOCKS).is_some());
    let row = |f: &Finding| {
        let mut row = vec![
            cell(Some(f)),
            word(f, metrics::OBJECT),
            misses(f),
            main_reason(f),
            count(f, metrics::WALKS),
            word(f, metrics::FILE),
        ];
        if overlap {
            row.insert(1, count(f, metrics::OVERLAPPED));
        }
        if has_blocks {
            let at = row.len() - 4;
            row.splice(at..at, [metrics::BLOCKS, metrics::BLOCK_BYTES].map(|field| count(f, field)));
        }
        row
    };
    let rows: Vec<Vec<String>> = all.iter().take(SHOWN).map(|(_, f)| row(f)).collect();
    let mut columns = vec![
        right("cycles"),
        left("object").key(),
        left("misses"),
        left("why"),
        right("walks"),
        left("file"),
    ];
    if overlap {
        columns.insert(1, right("least"));
    }
    if has_blocks {
        let at = columns.len() - 4;
        columns.splice(at..at, [right("blocks"), right("bytes")]);
    }
    page.table(&columns, &rows, &[]);
    rest(page, all.len());
    if let Some(granule) = index.one(&metrics::GRANULE) {
        let text = format!(
            "Counted by {} bytes: what is smaller is counted with the object whose bytes there missed first.",
            cell(Some(granule))
        );
        page.text(TextRole::Dim, &text, "", "  ");
    }
}

/// Shows the pairs, of lines and of pages.
pub(super) fn pairs(page: &mut Page, index: &mut FindingIndex) {
    table_of_pairs(page, index, &metrics::PAIR_MISSES, "Lines that were taken, and by what", "level, set");
    table_of_pairs(page, index, &metrics::PAGE_PAIR_MISSES, "Pages that were taken, and by what", "TLB, set");
}

fn table_of_pairs(
    page: &mut Page,
    index: &mut FindingIndex,
    metric: &'static Metric,
    heading: &str,
    place: &'static str,
) {
    let all = index.along(metric, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading(heading);
    let row = |f: &Finding| {
        let reason = f.detail.word(metrics::REASON).unwrap_or_default();
        let level = f.detail.word(metrics::NAME).unwrap_or_default();
        let own = [metrics::OBJECT, metrics::SOURCE, metrics::FUNCTION];
        let by = [metrics::BY_OBJECT, metrics::BY_SOURCE, metrics::BY_FUNCTION];
        vec![
            cell(Some(f)),
            reason.to_owned(),
            format!("{level} {}", count(f, metrics::SET)),
            accessed(f, own, [metrics::OFFSET, metrics::CPU]),
            accessed(f, by, [metrics::BY_OFFSET, metrics::BY_CPU]),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().take(SHOWN).map(|(_, f)| row(f)).collect();
    let columns = [right("misses"), left("why"), left(place), left("missed").key(), left("taken by").key()];
    page.table(&columns, &rows, &[]);
    rest(page, all.len());
}

/// Returns an object with an offset in it, and who accessed it: the line of the source, or else the function, and the CPU.
fn accessed(f: &Finding, [object, source, function]: [Field; 3], [offset, cpu]: [Field; 2]) -> String {
    let object = f.detail.word(object).unwrap_or_default();
    let place = number::place(object, f.detail.number(offset).unwrap_or(0.0));
    let name = f.detail.word(source).or_else(|| f.detail.word(function));
    let cpu = match f.detail.number(cpu).unwrap_or(0.0) as u64 {
        0 => None,
        cpu => Some(format!("CPU {cpu}")),
    };
    let by: Vec<&str> = name.into_iter().chain(cpu.as_deref()).collect();
    if by.is_empty() { place } else { format!("{place} ({})", by.join(", ")) }
}
