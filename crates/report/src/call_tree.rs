//! Trees of calls: a flame graph, and the largest calls in characters.

use fathom_analysis::findings::{Axis, Field, Finding, Metric};

use crate::chart::{Chart, Kind, Scale, Series};
use crate::finding_index::FindingIndex;
use crate::number;
use crate::page::{Page, Pieces, TextRole};

/// Calls that are shown in characters.
const SHOWN: usize = 30;

/// Calls that are findings: shares of a whole, each with all that is called from there.
#[derive(Clone, Copy, Debug)]
pub struct CallTree {
    /// Name of the figure, which no other one of the page has.
    pub figure: &'static str,
    /// The metric, whose only coordinate is the number of the call. Callers have smaller ones.
    pub metric: &'static Metric,
    /// Number of the caller; 0 if there is none.
    pub caller: Field,
    /// Name of the function.
    pub function: Field,
    /// Its file.
    pub file: Field,
    /// What the shares are of: `samples`.
    pub whole: &'static str,
    /// Title of the figure's axis.
    pub axis: &'static str,
}

impl CallTree {
    /// Shows the calls, if there are any. Returns whether there are.
    pub fn show(&self, page: &mut Page, index: &mut FindingIndex) -> bool {
        let all = index.along(self.metric, Axis::Call);
        if all.is_empty() {
            return false;
        }
        page.heading(&format!("Calls, by share of the {}", self.whole));
        let caption = format!(
            "A bar is a function as it was called by the one below; its width is the share of the {} in it and in what it calls. Colours \
             tell files apart. A click shows a call and what it calls.",
            self.whole
        );
        let name = format!("{{detail.{}}}", self.function.name);
        let chart =
            Chart::new(self.figure, Kind::Flame, Scale::values(self.axis), Scale::values(""), &caption)
                .with(Series::of(self.metric, &name))
                .label(&format!("{{detail.{}}}", self.file.name))
                .tree(Axis::Call, self.caller);
        page.picture(chart, Vec::new());
        page.listing(self.largest(&all));
        if all.len() > SHOWN {
            let rest = format!("and {} more (--json has {})", all.len() - SHOWN, all.len());
            page.text(TextRole::Dim, &rest, "", "  ");
        }
        true
    }

    /// Returns the largest calls, callers before callees, indented where a function calls several of them.
    fn largest(&self, all: &[(u64, &Finding)]) -> Vec<Pieces> {
        let share = |f: &Finding| f.finite().unwrap_or(0.0);
        let mut kept = all.to_vec();
        // A caller has at least the share of what it calls.
        kept.sort_by(|a, b| share(b.1).total_cmp(&share(a.1)).then(a.0.cmp(&b.0)));
        kept.truncate(SHOWN);
        // Number of the caller, which comes before; 0 if it is not among them.
        let caller = |call: u64, f: &Finding| {
            let number = f.detail.number(self.caller).unwrap_or(0.0);
            kept.iter()
                .map(|(other, _)| *other)
                .find(|other| *other < call && *other as f64 == number)
                .unwrap_or(0)
        };
        let called = |by: u64| kept.iter().filter(move |(call, f)| caller(*call, f) == by);
        let mut lines = Vec::new();
        // Calls that are still to be written, with their indentation; the next one last.
        let mut left: Vec<(u64, &Finding, usize)> = called(0).rev().map(|(call, f)| (*call, *f, 0)).collect();
        while let Some((call, f, indent)) = left.pop() {
            let word = |field| f.detail.word(field).unwrap_or_default();
            let [value, _] = number::cells(Some(f));
            lines.push(vec![
                (TextRole::Plain, format!("{value:>7}  {:indent$}{}", "", word(self.function))),
                (TextRole::Dim, format!("  {}", word(self.file))),
            ]);
            let inside = indent + if called(call).count() > 1 { 2 } else { 0 };
            left.extend(called(call).rev().map(|(call, f)| (*call, *f, inside)));
        }
        lines
    }
}
