//! The report of `fathom simulate`: levels, translation, cycles, functions, lines of the source.

use fathom_analysis::findings::{Axis, Field, Finding, Item, Metric, Report};
use fathom_analysis::metrics::{common, simulate as metrics};
use fathom_report::finding_index::FindingIndex;
use fathom_report::number;
use fathom_report::page::{Page, TextRole, left, right};
use fathom_report::rows::show_rest;

mod best;
mod calls;
mod overlap;
mod regions;
mod sharing;
mod source;
mod together;
mod why;

pub use best::{Candidate, best};
pub use together::machines;
pub(crate) use together::records;

/// Functions and lines that a report shows.
const SHOWN: usize = 20;

/// Renders the whole report.
pub(crate) fn view(report: &Report, page: &mut Page) {
    let mut index = FindingIndex::new(report);
    levels(page, &mut index);
    why::levels(page, &mut index);
    sharing::levels(page, &mut index);
    translation(page, &mut index);
    why::translation(page, &mut index);
    cycles(page, report, &mut index);
    regions::regions(page, report, &mut index);
    // A trace without its program has addresses instead of functions.
    let mut functions = report.of(&metrics::FUNCTION_CYCLES);
    let named = functions.all(|f| f.detail.word(metrics::FILE).is_some());
    let heading = if named { "Functions, by time beyond hits" } else { "Instructions, by time beyond hits" };
    hot(page, &mut index, &metrics::FUNCTION_CYCLES, heading);
    calls::calls(page, report, &mut index);
    hot(page, &mut index, &metrics::LINE_CYCLES, "Lines of the source, by time beyond hits");
    hot(page, &mut index, &metrics::INSTRUCTION_CYCLES, "Instructions, by time beyond hits");
    source::source(page, report, &mut index);
    why::objects(page, &mut index);
    sharing::objects(page, report);
    why::pairs(page, &mut index);
    show_rest(page, index, &[]);
}

fn cell(f: Option<&Finding>) -> String {
    number::cells(f)[0].clone()
}

/// Returns the name of a level or TLB in its finding.
fn name(f: Option<&Finding>) -> String {
    f.and_then(|f| f.detail.word(metrics::NAME)).unwrap_or_default().to_owned()
}

fn levels(page: &mut Page, index: &mut FindingIndex) {
    let columns = [
        &metrics::LEVEL_ACCESSES,
        &metrics::LEVEL_MISSES,
        &metrics::LEVEL_SHARE,
        &metrics::LEVEL_WRITEBACKS,
        &metrics::LEVEL_CYCLES,
    ];
    let rows = index.rows(columns, &[Axis::Level]);
    let memory = index.one(&metrics::MEMORY_ACCESSES);
    let writes = index.one(&metrics::MEMORY_WRITES);
    if rows.is_empty() && memory.is_none() && writes.is_none() {
        return;
    }
    page.heading("Levels: accesses that reached each, and those that it passed on");
    let mut lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let [accesses, misses, share, writebacks, cycles] = row.of;
            let holds = accesses.and_then(|f| f.detail.word(metrics::HOLDS)).unwrap_or_default();
            vec![
                row.number(Axis::Level).to_string(),
                name(row.findings().next()),
                holds.to_owned(),
                cell(accesses),
                cell(misses),
                cell(share),
                cell(writebacks),
                cell(cycles),
            ]
        })
        .collect();
    let dash = String::new;
    lines.push(vec![dash(), "memory".to_owned(), dash(), cell(memory), dash(), dash(), cell(writes), dash()]);
    let columns = [
        right("level"),
        left("name").key(),
        left("holds"),
        right("accesses"),
        right("misses"),
        right("share"),
        right("write-backs"),
        right("cycles"),
    ];
    page.table(&columns, &lines, &[]);
}

fn translation(page: &mut Page, index: &mut FindingIndex) {
    let rows = index.rows([&metrics::TLB_ACCESSES, &metrics::TLB_MISSES], &[Axis::Tlb]);
    let walks = index.one(&metrics::WALK_COUNT);
    if rows.is_empty() && walks.is_none() {
        return;
    }
    page.heading("Translation");
    let mut lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let [accesses, misses] = row.of;
            let number = row.number(Axis::Tlb).to_string();
            vec![number, name(row.findings().next()), cell(accesses), cell(misses)]
        })
        .collect();
    lines.push(vec![String::new(), "walks".to_owned(), cell(walks), String::new()]);
    page.table(&[right("TLB"), left("name").key(), right("accesses"), right("misses")], &lines, &[]);
}

fn cycles(page: &mut Page, report: &Report, index: &mut FindingIndex) {
    let parts: [(&str, &'static Metric); 5] = [
        ("instructions themselves", &metrics::OPERATION_CYCLES),
        ("memory", &metrics::MEMORY_CYCLES),
        ("translation", &metrics::TRANSLATION_CYCLES),
        ("instruction fetches", &metrics::FETCH_CYCLES),
        ("all", &metrics::CYCLES),
    ];
    let total = report.find(&metrics::CYCLES).and_then(Finding::finite).filter(|all| *all > 0.0);
    let row = |name: &str, f: &Finding| {
        let share = total.zip(f.finite()).map(|(all, part)| format!("{:.1} %", 100.0 * part / all));
        vec![name.to_owned(), cell(Some(f)), share.unwrap_or_default()]
    };
    let mut rows: Vec<Vec<String>> =
        parts.iter().filter_map(|(name, metric)| Some(row(name, index.one(*metric)?))).collect();
    // Levels are shown in their own table too; here they complete the sum.
    let levels = report.of(&metrics::LEVEL_CYCLES).filter(|f| f.finite().is_some_and(|cycles| cycles > 0.0));
    let levels = levels.map(|f| row(&format!("data from {}", name(Some(f))), f));
    if !rows.is_empty() {
        let at = rows.len().min(1);
        rows.splice(at..at, levels);
        page.heading("Cycles, by who answered");
        page.table(&[left("part"), right("cycles"), right("share")], &rows, &[]);
        let text = "Each data access waits for the one before, and for its result.";
        page.text(TextRole::Dim, text, "", "  ");
    }
    overlap::bounds(page, report, index);
    let counts = [
        &metrics::INSTRUCTIONS,
        &metrics::LOADS,
        &metrics::STORES,
        &metrics::FETCHES,
        &metrics::DEVICE_LOADS,
        &metrics::DEVICE_STORES,
    ];
    let names = [
        "instructions",
        "loads",
        "stores",
        "lines of instructions",
        "loads from devices",
        "stores to devices",
    ];
    let counts: Vec<Vec<String>> = counts
        .into_iter()
        .zip(names)
        .filter_map(|(metric, name)| Some(vec![name.to_owned(), cell(Some(index.one(metric)?))]))
        .collect();
    if !counts.is_empty() {
        page.heading("The program");
        page.table(&[left("what"), right("count")], &counts, &[]);
    }
}

/// Shows a table of functions, lines or instructions.
fn hot(page: &mut Page, index: &mut FindingIndex, metric: &'static Metric, heading: &str) {
    let all = index.along(metric, Axis::Rank);
    if all.is_empty() {
        return;
    }
    page.heading(heading);
    let explained = all.iter().any(|(_, f)| f.detail.get(metrics::REASONS).is_some());
    let overlap = all.iter().any(|(_, f)| f.detail.get(metrics::OVERLAPPED).is_some());
    let row = |f: &Finding| {
        let word = |field| f.detail.word(field).unwrap_or_default().to_owned();
        let mut row = vec![
            cell(Some(f)),
            word(metrics::SOURCE),
            number::place(
                f.detail.word(metrics::FUNCTION).unwrap_or_default(),
                f.detail.number(common::INSTRUCTION_OFFSET).unwrap_or(0.0),
            ),
            count(f, metrics::ACCESSES),
            misses(f),
            count(f, metrics::WALKS),
            word(metrics::FILE),
        ];
        if explained {
            row.insert(5, why::main_reason(f));
        }
        if overlap {
            row.insert(1, count(f, metrics::OVERLAPPED));
        }
        row
    };
    let rows: Vec<Vec<String>> = all.iter().take(SHOWN).map(|(_, f)| row(f)).collect();
    let mut columns = vec![
        right("cycles"),
        left("line").key(),
        left("function").key(),
        right("accesses"),
        left("misses"),
        right("walks"),
        left("file"),
    ];
    if explained {
        columns.insert(5, left("why"));
    }
    if overlap {
        columns.insert(1, right("least"));
    }
    page.table(&columns, &rows, &[]);
    rest(page, all.len());
}

/// Returns a number of a finding's details.
fn count(f: &Finding, field: Field) -> String {
    f.detail.number(field).map(shown).unwrap_or_default()
}

fn shown(value: f64) -> String {
    number::shown(value, None, None).value
}

/// Returns the misses by level that are not 0.
fn misses(f: &Finding) -> String {
    let Some(Item::Numbers(list)) = f.detail.get(metrics::MISSES) else { return String::new() };
    let some = list.iter().filter(|(_, misses)| *misses > 0.0);
    let shown = some.map(|(name, misses)| format!("{name} {}", shown(*misses)));
    shown.collect::<Vec<_>>().join(", ")
}

/// Tells how many of `all` rows are not shown.
fn rest(page: &mut Page, all: usize) {
    if all > SHOWN {
        let rest = format!("and {} more (--json has {all})", all - SHOWN);
        page.text(TextRole::Dim, &rest, "", "  ");
    }
}
