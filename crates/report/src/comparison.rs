//! Comparison of two reports as text.

use fathom_analysis::compare::{Comparison, Row, Verdict};
use fathom_analysis::findings::Key;

use crate::number;
use crate::page::{Block, INTERVAL, Page, TextRole, left, measured, right};
use crate::style::Style;
use crate::text;

/// Formats a comparison under the names of the two records. `beyond` is the share above which a difference affects the
/// exit status.
#[must_use]
pub fn comparison(c: &Comparison, names: [&str; 2], beyond: Option<f64>, style: &Style) -> String {
    let style = Style { width: style.width.clamp(Style::MIN_COLUMNS, Style::MAX_COLUMNS), ..*style };
    write(c, names, beyond, style).finish()
}

/// Returns the comparison as blocks, for other output formats.
pub(crate) fn blocks(c: &Comparison, names: [&str; 2], beyond: Option<f64>) -> Vec<Block> {
    write(c, names, beyond, Style::default()).blocks()
}

fn write(c: &Comparison, names: [&str; 2], beyond: Option<f64>, style: Style) -> Page {
    let clean = |t: &str| text::clean(t, style.unicode);
    let mut page = Page::new(style);
    page.text(TextRole::Bold, &format!("A: {}", clean(names[0])), "", "   ");
    page.text(TextRole::Bold, &format!("B: {}", clean(names[1])), "", "   ");
    if c.plans.is_empty() {
        page.line(TextRole::Dim, "Same options and settings.");
    } else {
        page.text(
            TextRole::Bad,
            "Options or settings differ; the differences below may be due to that alone:",
            "",
            "  ",
        );
        for plan in &c.plans {
            page.text(TextRole::Warn, &clean(plan), "- ", "  ");
        }
    }
    for (heading, prefix, of) in families(&c.rows) {
        page.heading(&heading);
        let rows: Vec<Vec<String>> = of
            .iter()
            .map(|r| {
                let name = r.key.name();
                row(r, beyond, &clean(name.strip_prefix(&prefix).unwrap_or(&name)))
            })
            .collect();
        let columns =
            [left("finding"), right("A"), right("B"), measured("change %"), INTERVAL, left("differs")];
        page.table(&columns, &rows, &[("exceeds", TextRole::Bad), (" yes", TextRole::Warn)]);
    }
    for (key, a, b) in &c.words {
        page.text(
            TextRole::Warn,
            &format!("{}: {} in A, {} in B", clean(&key.name()), clean(a), clean(b)),
            "",
            "  ",
        );
    }
    for (which, only) in ["A", "B"].iter().zip(&c.only) {
        if !only.is_empty() {
            page.text(
                TextRole::Plain,
                &format!(
                    "only in {which}: {}",
                    clean(&only.iter().map(Key::name).collect::<Vec<_>>().join(", "))
                ),
                "",
                "  ",
            );
        }
    }
    summary(&mut page, c, beyond);
    page
}

/// Smallest number of rows with a common name prefix that get a separate table, with the prefix in its heading.
const MIN_FAMILY_ROWS: usize = 12;

/// Groups the rows into tables: heading, common prefix of the names (omitted in the rows), rows.
fn families(rows: &[Row]) -> Vec<(String, String, Vec<&Row>)> {
    let family = |row: &Row| row.key.metric.pattern.split('.').next().unwrap_or_default();
    let mut large: Vec<&str> = Vec::new();
    for row in rows {
        let of = family(row);
        if !large.contains(&of) && rows.iter().filter(|row| family(row) == of).count() >= MIN_FAMILY_ROWS {
            large.push(of);
        }
    }
    let others: Vec<&Row> = rows.iter().filter(|row| !large.contains(&family(row))).collect();
    let heading = "Change from A to B";
    let mut tables = vec![(heading.to_owned(), String::new(), others)];
    tables.extend(large.iter().map(|of| {
        let rows = rows.iter().filter(|row| family(row) == *of).collect();
        (format!("{heading}: {of}."), format!("{of}."), rows)
    }));
    tables.retain(|(_, _, rows)| !rows.is_empty());
    tables
}

fn row(r: &Row, beyond: Option<f64>, name: &str) -> Vec<String> {
    let cell = |i: fathom_analysis::interval::Interval| match r.unit {
        "bytes" => number::size(i.value, None, None).value,
        _ => number::shown(i.value, None, None).value,
    };
    let far = r.verdict == Verdict::Differs
        && beyond.is_some_and(|share| r.change.low > share || r.change.high < -share);
    let verdict = match r.verdict {
        Verdict::Differs if far => "exceeds",
        other => other.token(),
    };
    // Two decimals of a percent only for narrow intervals, none for wide ones.
    let [value, low, high] = [r.change.value, r.change.low, r.change.high].map(|v| 100.0 * v);
    let digits = match high - low {
        width if width < 0.2 => 2,
        width if width < 100.0 => 1,
        _ => 0,
    };
    // A value that rounds to zero has no sign.
    let unsigned =
        |t: String| if t.bytes().any(|b| (b'1'..=b'9').contains(&b)) { t } else { t.replace('-', "") };
    let of_nothing = !value.is_finite();
    let shown = |v: f64| {
        if of_nothing {
            "-".into()
        } else if v.abs() < 1e5 {
            unsigned(format!("{v:.digits$}"))
        } else {
            format!("{v:.1e}")
        }
    };
    let interval = match r.verdict {
        Verdict::Untested | Verdict::Disturbed | Verdict::Unmatched => String::new(),
        _ if of_nothing => String::new(),
        _ => format!("({}..{})", shown(low), shown(high)),
    };
    let unit = if r.unit == "bytes" || name.ends_with(r.unit) { "" } else { r.unit };
    let [a, b] = r.values.map(cell);
    vec![
        name.to_string(),
        format!("{a} {unit}").trim_end().to_string(),
        b,
        shown(value),
        interval,
        verdict.to_string(),
    ]
}

fn summary(page: &mut Page, c: &Comparison, beyond: Option<f64>) {
    let of = |verdict: Verdict| c.rows.iter().filter(|r| r.verdict == verdict).count();
    let (differ, same) = (of(Verdict::Differs), of(Verdict::Same));
    page.line(TextRole::Plain, "");
    let unusable: Vec<&str> =
        ["A", "B"].into_iter().zip(c.unusable).filter_map(|(name, is)| is.then_some(name)).collect();
    if !unusable.is_empty() {
        let which = unusable.join(" and ");
        let are = if unusable.len() == 1 { "is" } else { "are" };
        page.text(
            TextRole::Bad,
            &format!("Not judged: {which} {are} unusable because of disturbance."),
            "",
            "  ",
        );
        return;
    }
    let mut text = match (differ, same) {
        (0, 0) => "No finding could be tested.".to_string(),
        (0, n) => {
            format!("None of {n} findings differs significantly; the intervals bound undetected differences.")
        }
        (d, n) => format!("{d} of {} findings differ (family-wise error 5 %, Holm).", d + n),
    };
    match of(Verdict::Disturbed) {
        0 => {}
        1 => text += " 1 finding is not judged: its trials were disturbed.",
        n => text += &format!(" {n} findings are not judged: their trials were disturbed."),
    }
    match of(Verdict::Unmatched) {
        0 => {}
        n => {
            text += &format!(
                " {n} are not judged (unmatched): the records have different numbers of tiers or of TLBs, or TLBs that may be none, or other \
                 regions, so a number may name different ones."
            );
        }
    }
    if let Some(share) = beyond {
        let far = c.beyond(share).count();
        text += &format!(
            " Change exceeds --fail-if {} with its whole interval: {far}.",
            format_args!("{} %", number::shown(100.0 * share, None, None).value)
        );
    }
    page.text(TextRole::Bold, &text, "", "  ");
}
