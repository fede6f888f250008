use fathom_analysis::findings::{Report, Value};

use super::stages;
use crate::samples::{self, golden};
use crate::terminal::{Style, terminal};

const ASCII: Style = Style { colour: false, unicode: false, width: 80 };

fn text(report: &Report) -> String {
    terminal(report, &Style::default(), None)
}

fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_default_run() {
    golden("pressure-unicode.txt", &text(&samples::pressure()));
    golden("pressure-ascii.txt", &terminal(&samples::pressure(), &ASCII, None));
}

#[test]
fn a_sweep() {
    golden("pressure-sweep.txt", &text(&samples::sweep()));
}
