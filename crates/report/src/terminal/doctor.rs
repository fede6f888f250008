//! Output of `fathom doctor` for a terminal.

use fathom_analysis::examination::{Row, State};

use crate::page::{Page, TextRole};
use crate::style::Style;
use crate::text;

/// Formats the rows under `title`, then `closing` and the next command. Each command is unbroken on a separate line, so
/// that it can be pasted.
#[must_use]
pub fn examination(title: &str, rows: &[Row], closing: &str, next: &str, style: &Style) -> String {
    let style = Style { width: style.width.clamp(Style::MIN_COLUMNS, Style::MAX_COLUMNS), ..*style };
    let clean = |t: &str| text::clean(t, style.unicode);
    let mut page = Page::new(style);
    page.text(TextRole::Bold, &clean(title), "", "  ");
    let names = rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    for row in rows {
        let (role, word) = match row.state {
            State::Good => (TextRole::Good, "good"),
            State::Note => (TextRole::Plain, "note"),
            State::Costs => (TextRole::Warn, "COSTS"),
            State::Prevents => (TextRole::Bad, "PREVENTS"),
        };
        let head = format!("{:names$}  {word:5}  ", row.what);
        let under = " ".repeat(names + 9);
        page.text(role, &clean(&row.found), &head, &under);
        if !row.cost.is_empty() {
            page.text(TextRole::Dim, &clean(&row.cost), &under, &under);
        }
        if !row.command.is_empty() {
            page.pieces(&[(TextRole::Plain, "    ".to_owned()), (TextRole::Bold, clean(&row.command))]);
        }
    }
    page.line(TextRole::Plain, "");
    page.text(TextRole::Plain, &clean(closing), "", "  ");
    super::next_command(&mut page, &clean(next));
    page.finish()
}
