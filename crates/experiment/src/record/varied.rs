//! Lines about the sensitivity of a session's findings to the values of the machine's description: the harness's own
//! lines `sensitivity`, `varied` and `depends`.
//!
//! `sensitivity` begins a list and drops an earlier one. Each `varied` names a value and the ends of its range; the
//! `depends` lines after it name the findings that change.

use fathom_analysis::findings::{Outcome, Varied};
use fathom_analysis::sensitivity::{Effect, Sensitivity};
use fathom_probe::wire::{Line, WireError};
use fathom_units::facts::ValueClass;

use super::Record;

/// Lines of one record, at most. A session of this version has a few hundred.
const MAX_LINES: usize = 10_000;

/// Returns the lines of a sensitivity.
#[must_use]
pub fn sensitivity_lines(sensitivity: &Sensitivity) -> Vec<Line> {
    let from = if sensitivity.ahead { "ahead" } else { "session" };
    let mut lines = vec![Line::new("sensitivity").token("from", from)];
    for (at, varied) in sensitivity.varied.iter().enumerate() {
        let mut line = Line::new("varied").text("value", &varied.value).text("class", &varied.class.token());
        for (key, end) in ["low", "high"].into_iter().zip(&varied.ends) {
            line = end.iter().fold(line, |line, end| line.text(key, end));
        }
        lines.push(line);
        lines.extend(sensitivity.effects.iter().filter(|effect| effect.varied == at).map(depends));
    }
    lines
}

/// Returns the line of a finding that changes. Numbers are texts that read back as the same number.
fn depends(Effect { finding, outcome, .. }: &Effect) -> Line {
    let mut line = Line::new("depends").text("finding", finding);
    if let Some((low, high)) = outcome.range {
        line = line.text("low", &low.to_string()).text("high", &high.to_string());
    }
    if !outcome.words.is_empty() {
        line = line.text("words", &outcome.words.join(" "));
    }
    if outcome.missing { line.int("missing", 1) } else { line }
}

impl Record {
    /// Adds one of the three lines.
    pub(super) fn take_sensitivity(&mut self, line: &Line) -> Result<(), WireError> {
        let mut f = line.fields();
        let early = || WireError::new(format!("'{}' before the line that it belongs to", line.word));
        match line.word.as_str() {
            "sensitivity" => {
                let from = f.token("from")?.unwrap_or_default();
                if !matches!(from, "session" | "ahead") {
                    return Err(WireError::new(format!("sensitivity: from={from} is not session or ahead")));
                }
                let ahead = from == "ahead";
                f.finish()?;
                self.sensitivity = Some(Sensitivity { ahead, ..Sensitivity::default() });
            }
            "varied" => {
                let value = f.text("value")?.unwrap_or_default().to_owned();
                let token = f.text("class")?.unwrap_or_default();
                let unknown = || WireError::new(format!("varied: class={token} is not a class"));
                let class = ValueClass::from_token(token).ok_or_else(unknown)?;
                let ends = [f.text("low")?, f.text("high")?].map(|end| end.map(str::to_owned));
                f.finish()?;
                let all = self.sensitivity.as_mut().ok_or_else(early)?;
                all.varied.push(Varied { value, class, ends });
            }
            _ => {
                let finding = f.text("finding")?.unwrap_or_default().to_owned();
                let (low, high) = (number(f.text("low")?)?, number(f.text("high")?)?);
                let words = f.text("words")?.unwrap_or_default();
                let words = words.split_whitespace().map(str::to_owned).collect();
                let missing = f.int("missing")? == Some(1);
                f.finish()?;
                let all = self.sensitivity.as_mut().ok_or_else(early)?;
                let varied = all.varied.len().checked_sub(1).ok_or_else(early)?;
                let outcome = Outcome { range: low.zip(high), words, missing };
                all.effects.push(Effect { varied, finding, outcome });
            }
        }
        self.held += line.render().len() as u64;
        let lines = self.sensitivity.as_ref().map_or(0, |all| all.varied.len() + all.effects.len());
        if lines > MAX_LINES {
            self.exceeds(&format!("more than {MAX_LINES} lines of sensitivity"));
        }
        Ok(())
    }
}

/// Reads a number, which must be finite.
fn number(text: Option<&str>) -> Result<Option<f64>, WireError> {
    let read = |text: &str| {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| WireError::new(format!("depends: {text:?} is not a number")))
    };
    text.map(read).transpose()
}
