//! Output of results, and their exit status.

use std::io::IsTerminal as _;
use std::path::Path;

use fathom_analysis::findings::{Report, WarningKind};
use fathom_report::text::{visible, visible_styled};
use fathom_report::{ReportKind, Style, json, terminal};

use crate::cli::{Colour, Output};
use crate::failure::{Exit, Failure, print_message};

/// Characters of a text in a record, at most: two of them fit into a line in any encoding.
const MAX_CHARACTERS: usize = 400;

/// Output of results, with the style of text.
#[derive(Clone, Debug)]
pub struct Out {
    style: Style,
    colour: Colour,
    /// Whether text goes to stderr.
    stderr: bool,
}

impl Out {
    /// Determines the style from the terminal and the environment.
    pub fn new(colour: Colour) -> Out {
        Out::on(colour, false)
    }

    /// The same on stderr: stdout is another program's.
    pub fn on_stderr(&self) -> Out {
        Out::on(self.colour, true)
    }

    fn on(requested: Colour, stderr: bool) -> Out {
        let terminal = if stderr { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let dumb = is_dumb();
        let colour = is_coloured(requested, terminal);
        // Eighty columns for pipes and for terminals of unknown width. Unicode if the locale uses UTF.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|n| std::env::var(n).ok().filter(|v| !v.is_empty()));
        let size = match stderr {
            true => terminal_size::terminal_size_of(std::io::stderr()),
            false => terminal_size::terminal_size_of(std::io::stdout()),
        };
        let width = size.map_or(80, |(width, _)| width.0.into());
        let unicode = !dumb && locale.is_some_and(|l| l.to_ascii_lowercase().contains("utf"));
        Out { style: Style { colour, unicode, width, studies: false }, colour: requested, stderr }
    }

    /// The same, with comparisons with the published studies if `studies`.
    #[must_use]
    pub fn with_studies(&self, studies: bool) -> Out {
        Out { style: Style { studies, ..self.style }, ..self.clone() }
    }

    /// Returns the style of text.
    pub fn style(&self) -> &Style {
        &self.style
    }

    /// Prints text. Nothing in it acts on a terminal but styles, whatever file or machine it came from. A closed pipe is
    /// not an error.
    pub fn text(&self, text: &str) -> Result<Exit, Failure> {
        let text = if self.style.colour { visible_styled(text) } else { visible(text) };
        let (name, mut to): (_, Box<dyn std::io::Write>) = match self.stderr {
            true => ("stderr", Box::new(std::io::stderr().lock())),
            false => ("stdout", Box::new(std::io::stdout().lock())),
        };
        match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::new(format!("cannot write to {name}: {e}"), "is the disk full?"))
            }
            _ => Ok(Exit::Done),
        }
    }

    /// Prints a report and returns its exit status.
    pub fn report(
        &self,
        report: &Report,
        kind: &ReportKind,
        form: &Output,
        next: Option<&str>,
    ) -> Result<Exit, Failure> {
        if form.json {
            self.text(&json(report, kind))?;
        } else if form.html.as_deref().is_none_or(|file| file.as_os_str() != "-") {
            self.text(&terminal(report, kind, &self.style, next))?;
        }
        Ok(status(report))
    }
}

/// Returns the exit status of a report: 5 if nothing was measured in a complete session, 3 for low confidence by a warning.
pub fn status(report: &Report) -> Exit {
    // Refused findings may have a row without a number.
    let measured = report.findings.iter().any(|f| f.key.metric.timed && f.finite().is_some());
    let warned = |kinds: &[WarningKind]| report.warnings.iter().any(|w| kinds.contains(&w.kind));
    if !measured {
        // An interrupted session, or transfers with wrong data, are not a refusal.
        let cut = warned(&[WarningKind::Interrupted, WarningKind::WrongData]);
        return if cut { Exit::LowConfidence } else { Exit::Refused };
    }
    if report.warnings.iter().any(|w| w.kind.lowers_confidence()) { Exit::LowConfidence } else { Exit::Done }
}

/// Returns whether the terminal has neither styles nor other characters than ASCII.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|t| t == "dumb")
}

/// Returns whether text is styled, where `auto` depends on whether it goes to a terminal, and on the environment.
pub fn is_coloured(colour: Colour, terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    // CLICOLOR_FORCE=0 has no effect (bixense.com/clicolors).
    let force = std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| !v.is_empty() && v != "0");
    match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if set("NO_COLOR") => false,
        Colour::Auto if force => true,
        Colour::Auto => terminal && !is_dumb(),
    }
}

/// Returns the exit status of a verb that writes several things. Every failure is told: all but the last are printed.
pub fn all_told(
    exit: Result<Exit, Failure>,
    others: impl IntoIterator<Item = Result<(), Failure>>,
) -> Result<Exit, Failure> {
    others.into_iter().fold(exit, |exit, other| match (exit, other) {
        (Err(one), Err(other)) => {
            print_message(&one);
            Err(other)
        }
        (exit, other) => other.and(exit),
    })
}

/// Checks that only one output format goes to stdout.
pub fn one_form(json: bool, html: Option<&Path>) -> Result<(), Failure> {
    if json && html.is_some_and(|f| f.as_os_str() == "-") {
        return Err(Failure::usage("--json and --html - both use stdout", "name a file for --html"));
    }
    Ok(())
}

/// Formats names and descriptions in two columns.
pub fn columns<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let rows: Vec<(&str, &str)> = rows.collect();
    let width = rows.iter().map(|r| r.0.len()).max().unwrap_or(0);
    rows.iter().map(|(name, about)| format!("{name:width$}  {about}\n")).collect()
}

/// Shortens a text so that it fits into a line of a record.
pub fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Quotes a word for a shell.
pub fn shell(word: &str) -> String {
    if word.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+:".contains(&b)) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
