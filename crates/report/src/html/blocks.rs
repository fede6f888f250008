//! The terminal's sections as HTML.

use super::escaped;
use crate::page::{Block, Chart, Ink, Pieces, Table};

fn class(ink: Ink) -> &'static str {
    match ink {
        Ink::Plain | Ink::Tier(_) | Ink::Heat(_) => "",
        Ink::Bold => "bold",
        Ink::Dim => "note",
        Ink::Good => "good",
        Ink::Bad => "bad",
        Ink::Warn => "warn",
    }
}

/// The blocks as markup; `report` is the number of the report that figures draw from, `level` that of headings.
pub fn body(blocks: &[Block], report: usize, level: u8) -> String {
    let mut out = String::new();
    // What a table or a figure is about: the text before it.
    let mut about = String::new();
    for block in blocks {
        match block {
            Block::Heading(text) => {
                about.clone_from(text);
                out += &format!("<h{level}>{}</h{level}>\n", escaped(text));
            }
            Block::Text { ink, text, .. } => out += &paragraph(*ink, text),
            Block::Line(pieces) => {
                let text: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
                let ink = pieces.first().map_or(Ink::Plain, |(ink, _)| *ink);
                if !text.trim().is_empty() {
                    out += &paragraph(ink, &text);
                }
            }
            Block::Table(table) => out += &self::table(table, &about),
            Block::Picture { chart, lines } => out += &figure(chart, lines, report, &about),
        }
    }
    out
}

fn paragraph(ink: Ink, text: &str) -> String {
    format!("<p class=\"{}\">{}</p>\n", class(ink), escaped(text))
}

fn table(table: &Table, about: &str) -> String {
    let columns: Vec<(&str, bool, usize)> = table.columns().collect();
    let number = |is: bool| if is { " class=\"num\"" } else { "" };
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>\n<thead><tr>",
        escaped(about)
    );
    for (head, is_number, _) in &columns {
        out += &format!("<th scope=\"col\"{}>{}</th>", number(*is_number), escaped(head));
    }
    out += "</tr></thead>\n<tbody>\n";
    for (ink, row) in table.rows() {
        out += "<tr>";
        for (_, is_number, c) in &columns {
            out += &match bar(&row[*c]) {
                Some(length) => format!(
                    "<td><span class=\"bar\" style=\"width:{:.2}rem\"></span></td>",
                    length as f64 * REM_A_BLOCK
                ),
                None if ink == Ink::Plain => {
                    format!("<td{}>{}</td>", number(*is_number), escaped(&row[*c]))
                }
                None => {
                    let ink = class(ink);
                    let right = if *is_number { "num " } else { "" };
                    format!("<td class=\"{right}{ink}\">{}</td>", escaped(&row[*c]))
                }
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

/// Width of one block of a bar, in the page's unit of type.
const REM_A_BLOCK: f64 = 0.5;

/// Is the cell a bar of full blocks? Then its length.
fn bar(cell: &str) -> Option<usize> {
    let length = cell.chars().count();
    (length > 0 && cell.chars().all(|c| c == '\u{2588}')).then_some(length)
}

fn figure(chart: &Chart, lines: &[Pieces], report: usize, about: &str) -> String {
    let (kind, name) = match chart {
        Chart::Staircase => ("staircase", String::new()),
        Chart::Pages => ("pages", String::new()),
        Chart::Histogram(name) => ("histogram", name.clone()),
        Chart::Stride(operation) => ("stride", operation.clone()),
        Chart::Attributes(operation) => ("attributes", operation.clone()),
        Chart::Transfers(direction) => ("transfers", direction.clone()),
        Chart::TransferParts(name) => ("transferparts", name.clone()),
        Chart::Pollution(direction) => ("pollution", direction.clone()),
        Chart::Heat(operation) => ("heat", operation.clone()),
        Chart::Rounds(what) => ("rounds", (*what).to_owned()),
        Chart::Evicted(tier) => ("evicted", tier.to_string()),
        Chart::Pairs => ("pairs", String::new()),
        Chart::Wakeups(place) => ("wakeups", place.clone()),
        Chart::Stages => ("stages", String::new()),
        Chart::Effects(what) => ("effects", (*what).to_owned()),
        Chart::Sweep(name) => ("sweep", name.clone()),
        Chart::SweepHeat(name) => ("sweepheat", name.clone()),
        Chart::Colours(tier, what) => ("colours", format!("{tier}.{what}")),
    };
    let text: String =
        lines.iter().flat_map(|line| line.iter().map(|(_, t)| t.as_str()).chain(["\n"])).collect();
    let drawn = if lines.is_empty() {
        String::new()
    } else {
        format!("<pre aria-hidden=\"true\">{}</pre>", escaped(&text))
    };
    format!(
        "<figure class=\"chart\" data-chart=\"{kind}\" data-report=\"{report}\" data-name=\"{}\" tabindex=\"0\" \
         aria-label=\"{}\">{drawn}<figcaption></figcaption></figure>\n",
        escaped(&name),
        escaped(about)
    )
}
