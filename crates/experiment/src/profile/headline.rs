//! Headline of `fathom profile`: where the program executes most.

use fathom_analysis::findings::{Finding, Report};
use fathom_analysis::metrics::profile as metrics;
use fathom_report::Headline;

use crate::headline::{headline as of_report, none};

pub(crate) fn headline(report: &Report) -> Headline {
    let Some(worst) = report.of(&metrics::FUNCTION_SHARE).next() else { return none(report) };
    let percent = |f: &Finding| format!("{:.0} %", 100.0 * f.finite().unwrap_or(0.0));
    let word = |f: &Finding, field| f.detail.word(field).unwrap_or("?").to_owned();
    let place = |f: &Finding| [word(f, metrics::FUNCTION), word(f, metrics::FILE)];
    let [function, _] = place(worst);
    let samples = report.find(&metrics::SAMPLE_COUNT);
    let event = samples.and_then(|f| f.detail.word(metrics::EVENT)).unwrap_or(super::CPU_CLOCK);
    let by_instructions = samples.is_some_and(|f| f.detail.flag(metrics::INSTRUCTION_CLOCK));
    let of = match super::plain(event) {
        event if by_instructions && super::is_of_time(event) => "instructions",
        super::CPU_CLOCK | super::TASK_CLOCK => "time",
        other => other,
    };
    let place_of_all =
        if samples.is_some_and(|f| f.detail.flag(metrics::KERNEL)) { "" } else { " in user space" };
    let mut answer = format!("{} of the {of}{place_of_all} is in {function}", percent(worst));
    let mut quoted = vec![worst];
    let line = report.of(&metrics::LINE_SHARE).find(|f| place(f) == place(worst));
    if let Some(line) = line {
        answer += &format!(", {} in its line {}", percent(line), word(line, metrics::SOURCE));
        quoted.push(line);
    }
    of_report(report, &answer, &quoted, "")
}
