//! Headline of `fathom simulate`: where the time goes.

use fathom_analysis::findings::{Finding, Item, Metric, Report};
use fathom_analysis::metrics::simulate as metrics;
use fathom_report::Headline;

use crate::headline::{figure, none, sentence};

pub(crate) fn headline(report: &Report) -> Headline {
    let Some(total) = report.find(&metrics::CYCLES) else { return none(report) };
    let of = |metric: &'static Metric| report.find(metric).and_then(Finding::finite).unwrap_or(0.0);
    let all = total.finite().unwrap_or(0.0).max(1.0);
    let share = |part: f64| format!("{:.0} %", 100.0 * part / all);
    let mut parts = vec![format!("memory {}", share(of(&metrics::MEMORY_CYCLES)))];
    let translation = of(&metrics::TRANSLATION_CYCLES);
    if translation / all >= 0.005 {
        parts.push(format!("translation {}", share(translation)));
    }
    let fetch = of(&metrics::FETCH_CYCLES);
    if fetch / all >= 0.005 {
        parts.push(format!("instruction fetches {}", share(fetch)));
    }
    let what = match report.find(&metrics::INSTRUCTIONS) {
        Some(_) => format!("{:.0} instructions", of(&metrics::INSTRUCTIONS)),
        None => format!("{:.0} loads and stores", of(&metrics::LOADS) + of(&metrics::STORES)),
    };
    let least = report.find(&metrics::LEAST_CYCLES);
    let bound = least.map_or_else(String::new, |least| format!(", and at least {}", figure(least)));
    let answer = format!("{what} take {} if every access waits{bound}: {}", figure(total), parts.join(", "));
    let worst = report.of(&metrics::FUNCTION_CYCLES).next();
    let action = worst.filter(|f| f.finite().is_some_and(|cycles| cycles > 0.0)).map(|f| {
        let walks = f.detail.number(metrics::WALKS).unwrap_or(0.0);
        let first = |field| match f.detail.get(field) {
            Some(Item::Numbers(list)) => list.first().cloned(),
            _ => None,
        };
        let why = match f.detail.get(metrics::REASONS) {
            Some(Item::Numbers(list)) => list.iter().max_by(|a, b| a.1.total_cmp(&b.1)),
            _ => None,
        };
        let why = why.map_or_else(String::new, |(name, _)| format!(" (most of them {name})"));
        let misses = first(metrics::MISSES).map(|(name, n)| format!("{n:.0} misses of {name}{why}"));
        let misses = misses.map_or_else(String::new, |text| format!("{text} and "));
        let name = f.detail.word(metrics::FUNCTION).unwrap_or("?");
        format!(
            "begin with {name}: {misses}{walks:.0} walks, {} of the time",
            share(f.finite().unwrap_or(0.0))
        )
    });
    Headline {
        answer: sentence(&answer),
        confidence: match least {
            None => "Calculated from the description, without overlap of accesses; not measured on hardware.",
            Some(_) => "Calculated from the description, without overlap and with all that it allows; not measured on hardware.",
        }
        .to_owned(),
        action: action.map(|text| sentence(&text)).unwrap_or_default(),
        quoted: [Some(total), least].into_iter().flatten().map(|f| f.key.clone()).collect(),
    }
}
