//! `fathom explain`: explains the name of a finding or the token of a warning.

use clap::Args;
use fathom_analysis::findings::{Axis, Better, Key, Kind, Metric, WarningKind};
use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_report::kind;
use fathom_report::page::{Page, TextRole};

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::output::Out;

/// Smallest similarity, from 0 to 1, of a suggested name.
const MIN_SIMILARITY: f64 = 0.6;

/// Largest number of suggestions.
const MAX_SUGGESTIONS: usize = 3;

/// Options of the explanation.
#[derive(Debug, Args)]
struct Explain {
    /// A name of a finding, with its coordinates or as `fathom schema` lists it, or a warning's.
    name: String,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Explain>(
        "explain",
        "Explains a finding's name or a warning: meaning, unit, bounds, and the verbs that report it",
        "Examples:
  fathom explain tier.1.latency
  fathom explain 'dma.{strategy}.{direction}.{size}.cpu'
  fathom explain budget-exhausted",
        run,
    )
}

/// Explains a name: of a finding, with its coordinates or as `fathom schema` lists it, or of a warning.
fn run(options: &Explain, context: &Context) -> Result<Exit, Failure> {
    let (name, out) = (options.name.as_str(), &context.out);
    let metrics = kind::metrics(&REPORT_KINDS);
    let key = kind::key(&REPORT_KINDS, name);
    if let Some(metric) = metrics.iter().copied().find(|metric| metric.pattern == name) {
        return out.text(&explained(metric, None, out));
    }
    if let Some(key) = key {
        return out.text(&explained(key.metric, Some(&key), out));
    }
    if let Some(kind) = WarningKind::from_token(name) {
        let mut page = Page::new(*out.style());
        page.text(TextRole::Bold, kind.token(), "", "  ");
        page.text(
            TextRole::Plain,
            &format!(
                "a warning{}: {}",
                if kind.lowers_confidence() { " (exit status 3)" } else { "" },
                kind.about()
            ),
            "  ",
            "  ",
        );
        return out.text(&page.finish());
    }
    let near = nearest(name, &metrics);
    let remedy = match near.as_slice() {
        [] => "`fathom schema` lists every name".to_owned(),
        near => format!("{}? `fathom schema` lists every name", near.join(", or ")),
    };
    Err(Failure::usage(format!("no finding or warning is called {name:?}"), remedy))
}

/// Returns all declarations of a metric, and of the coordinates of a key.
fn explained(metric: &'static Metric, key: Option<&Key>, out: &Out) -> String {
    let mut page = Page::new(*out.style());
    let title = key.map_or_else(|| metric.pattern.to_owned(), Key::name);
    page.text(TextRole::Bold, &title, "", "  ");
    page.text(TextRole::Plain, metric.about, "  ", "  ");
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, text: String| rows.push((name.to_owned(), text));
    if key.is_some() && metric.axes().next().is_some() {
        row("metric", metric.pattern.to_owned());
    }
    row("value", value(metric));
    if matches!(metric.kind, Kind::Number | Kind::Histogram) {
        row("bounds", bounds(metric));
        row("better", better(metric.better).to_owned());
    }
    let given: Vec<&str> = REPORT_KINDS
        .iter()
        .filter(|kind| kind.metrics().any(|own| own == metric))
        .map(|kind| kind.name)
        .collect();
    row("reported by", given.iter().map(|verb| format!("`fathom {verb}`")).collect::<Vec<_>>().join(", "));
    for axis in metric.axes() {
        let here = key.and_then(|key| key.word(axis)).map(|word| format!("{word}: ")).unwrap_or_default();
        row(axis.name(), format!("{here}{}", axis.about()));
    }
    for field in metric.detail {
        row(&format!("detail.{}", field.name), field.about.to_owned());
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let under = " ".repeat(width + 4);
    for (name, text) in &rows {
        page.text(TextRole::Plain, text, &format!("  {name:width$}  "), &under);
    }
    page.finish()
}

/// Describes the kind of a value, with its units.
fn value(metric: &Metric) -> String {
    let units = metric.units.join(" or ");
    match metric.kind {
        Kind::Number if units.is_empty() => "a number without unit".to_owned(),
        Kind::Number if units == "address" => "an address".to_owned(),
        Kind::Number if units == "hex" => "a register value, in hexadecimal".to_owned(),
        Kind::Number => format!("a number in {units}"),
        Kind::Token(words) => format!("one of {}: {}", words.values.join(", "), words.about),
        Kind::Tokens(words) => format!("none, or some of {}: {}", words.values.join(", "), words.about),
        Kind::Text => "a text".to_owned(),
        Kind::Histogram => format!("a distribution in {units}"),
    }
}

/// Describes the physical bounds.
fn bounds(metric: &Metric) -> String {
    let (low, high) = (metric.bounds.low, metric.bounds.high);
    match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{low} to {high}"),
        (true, false) => format!("at least {low}"),
        (false, true) => format!("at most {high}"),
        (false, false) => "any number".to_owned(),
    }
}

fn better(better: Better) -> &'static str {
    match better {
        Better::Less => "less",
        Better::More => "more",
        Better::Neither => "neither",
    }
}

/// Returns similar names, the most similar first.
fn nearest(name: &str, metrics: &[&'static Metric]) -> Vec<String> {
    let names = metrics.iter().map(|metric| filled(metric, name));
    let tokens = WarningKind::ALL.iter().map(|kind| kind.token().to_owned());
    let mut near: Vec<(f64, String)> = names
        .chain(tokens)
        .map(|known| (strsim::normalized_damerau_levenshtein(name, &known), known))
        .filter(|(like, _)| *like >= MIN_SIMILARITY)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.truncate(MAX_SUGGESTIONS);
    near.into_iter().map(|(_, known)| known).collect()
}

/// Returns a metric's pattern with valid coordinates replaced by the parts of `name`.
fn filled(metric: &Metric, name: &str) -> String {
    let mut parts = name.split('.');
    let filled = metric.parts().map(|part| {
        let given = parts.next().unwrap_or_default();
        match part {
            Ok(word) => word.to_owned(),
            Err(axis) if is_coordinate(axis, given) => given.to_owned(),
            Err(axis) => format!("{{{}}}", axis.name()),
        }
    });
    filled.collect::<Vec<_>>().join(".")
}

fn is_coordinate(axis: Axis, part: &str) -> bool {
    axis.tokens().map_or_else(|| part.parse::<u64>().is_ok_and(|n| n > 0), |words| words.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_names_get_suggestions() {
        let metrics = kind::metrics(&REPORT_KINDS);
        let first = |name: &str| nearest(name, &metrics).into_iter().next();
        for (wrong, meant) in [
            ("tier.1.latncy", "tier.1.latency"),
            ("tier.x.latency", "tier.{tier}.latency"),
            ("walk.latnecy", "walk.latency"),
            ("dma.zero-copy.to-device.64.cpus", "dma.zero-copy.to-device.64.cpu"),
            ("budget-exhuasted", "budget-exhausted"),
        ] {
            assert_eq!(first(wrong).as_deref(), Some(meant));
        }
        assert_eq!(first("something else altogether"), None);
        assert!(nearest("tier.1.latency_cycle", &metrics).len() <= MAX_SUGGESTIONS);
    }
}
