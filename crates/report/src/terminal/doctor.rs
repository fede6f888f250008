//! What an examination found, for people.

use fathom_analysis::examination::{Row, State};

use super::Style;
use crate::page::{Ink, Page};
use crate::text;

/// The rows as text under `title`, `closing` below them, and the next command to type. A line to type stands alone, so that it can be
/// pasted; where it must be cut, it is cut with backslashes.
#[must_use]
pub fn examination(title: &str, rows: &[Row], closing: &str, next: &str, style: &Style) -> String {
    let style = Style { width: style.width.clamp(Style::NARROWEST, Style::WIDEST), ..*style };
    let clean = |t: &str| text::clean(t, style.unicode);
    let mut page = Page::new(style);
    page.text(Ink::Bold, &clean(title), "", "  ");
    let names = rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    for row in rows {
        let (ink, word) = match row.state {
            State::Good => (Ink::Good, "good"),
            State::Note => (Ink::Plain, "note"),
            State::Costs => (Ink::Warn, "COSTS"),
            State::Prevents => (Ink::Bad, "PREVENTS"),
        };
        let head = format!("{:names$}  {word:5}  ", row.what);
        let under = " ".repeat(names + 9);
        page.text(ink, &clean(&row.found), &head, &under);
        if !row.cost.is_empty() {
            page.text(Ink::Dim, &clean(&row.cost), &under, &under);
        }
        if !row.line.is_empty() {
            type_it(&mut page, &clean(&row.line));
        }
    }
    page.line(Ink::Plain, "");
    page.text(Ink::Plain, &clean(closing), "", "  ");
    super::next_command(&mut page, &clean(next));
    page.finish()
}

fn type_it(page: &mut Page, line: &str) {
    let indent = "    ";
    let lines = text::command(line, page.style().width - indent.len());
    match lines.as_slice() {
        [only] => page.pieces(&[(Ink::Plain, indent.to_owned()), (Ink::Bold, only.clone())]),
        _ => text::command(line, page.style().width).iter().for_each(|line| page.line(Ink::Bold, line)),
    }
}
