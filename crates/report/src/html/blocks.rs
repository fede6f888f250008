//! Renders blocks of the page as HTML.

use super::escaped;
use crate::chart::Chart;
use crate::page::{Block, Pieces, Table, TextRole, Tile};

fn class(role: TextRole) -> &'static str {
    match role {
        TextRole::Plain | TextRole::Tier(_) | TextRole::Heat(_) => "",
        TextRole::Bold => "bold",
        TextRole::Dim => "note",
        TextRole::Good => "good",
        TextRole::Bad => "bad",
        TextRole::Warn => "warn",
    }
}

/// The reports from which figures draw.
#[derive(Clone, Copy, Debug)]
pub enum From {
    /// The one of this number.
    One(usize),
    /// All of the page.
    All,
}

/// Renders blocks as markup. `report` is that from which figures draw, `level` the one of headings.
pub fn body(blocks: &[Block], report: From, level: u8) -> String {
    let mut out = String::new();
    // Preceding heading, used as the label of a table or a figure.
    let mut about = String::new();
    let mut charts = 0;
    for block in blocks {
        match block {
            Block::Heading(text) => {
                about.clone_from(text);
                out += &format!("<h{level}>{}</h{level}>\n", escaped(text));
            }
            Block::Text { role, text, .. } => out += &paragraph(*role, text),
            Block::Line(pieces) => {
                let text: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
                let role = pieces.first().map_or(TextRole::Plain, |(role, _)| *role);
                if !text.trim().is_empty() {
                    out += &paragraph(role, &text);
                }
            }
            Block::Listing(lines) => out += &listing(lines, &about),
            Block::Table(table) => out += &self::table(table, &about),
            Block::Tiles(tiles) => out += &self::tiles(tiles),
            Block::Picture { chart, lines } => {
                out += &figure(chart, lines, report, charts, &about);
                charts += 1;
            }
        }
    }
    out
}

fn paragraph(role: TextRole, text: &str) -> String {
    format!("<p class=\"{}\">{}</p>\n", class(role), escaped(text))
}

fn listing(lines: &[Pieces], about: &str) -> String {
    let piece = |(role, text): &(TextRole, String)| {
        format!("<span class=\"{}\">{}</span>", class(*role), escaped(text))
    };
    let line = |pieces: &Pieces| pieces.iter().map(piece).collect::<String>() + "\n";
    let lines: String = lines.iter().map(line).collect();
    let about = escaped(about);
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{about}\"><pre>{lines}</pre></div>\n"
    )
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
    for (role, row) in table.rows() {
        out += "<tr>";
        for (_, is_number, c) in &columns {
            out += &match bar(&row[*c]) {
                Some(length) => format!(
                    "<td><span class=\"bar\" style=\"width:{:.2}rem\"></span></td>",
                    length as f64 * REM_PER_BLOCK
                ),
                None if role == TextRole::Plain => {
                    format!("<td{}>{}</td>", number(*is_number), escaped(&row[*c]))
                }
                None => {
                    let role = class(role);
                    let right = if *is_number { "num " } else { "" };
                    format!("<td class=\"{right}{role}\">{}</td>", escaped(&row[*c]))
                }
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

fn tiles(tiles: &[Tile]) -> String {
    let tile = |tile: &Tile| {
        let [name, value, under, more] =
            [&tile.name, &tile.value, &tile.under, &tile.more].map(|text| escaped(text));
        format!("<li><span>{name}</span><b>{value}</b><span>{under}</span><span>{more}</span></li>")
    };
    format!("<ul class=\"tiles\">{}</ul>\n", tiles.iter().map(tile).collect::<String>())
}

/// Width of one block of a bar, in rem.
const REM_PER_BLOCK: f64 = 0.5;

/// Returns the length of a cell that consists only of full blocks.
fn bar(cell: &str) -> Option<usize> {
    let length = cell.chars().count();
    (length > 0 && cell.chars().all(|c| c == '\u{2588}')).then_some(length)
}

/// Renders the figure of a chart; the page's script finds the chart by the numbers of report and chart.
fn figure(chart: &Chart, lines: &[Pieces], report: From, nth: usize, about: &str) -> String {
    let report = match report {
        From::One(number) => number.to_string(),
        From::All => "all".to_owned(),
    };
    let text: String =
        lines.iter().flat_map(|line| line.iter().map(|(_, t)| t.as_str()).chain(["\n"])).collect();
    let drawn = if lines.is_empty() {
        String::new()
    } else {
        format!("<pre aria-hidden=\"true\">{}</pre>", escaped(&text))
    };
    format!(
        "<figure class=\"chart\" data-chart=\"{}\" data-report=\"{report}\" data-nth=\"{nth}\" tabindex=\"0\" \
         aria-label=\"{}\">{drawn}<figcaption></figcaption></figure>\n",
        escaped(chart.name()),
        escaped(about)
    )
}
