//! Shared by all readings: warnings, constructors of findings, checks of the session and its clocks, refusals.

use fathom_analysis::claims::{FactValue, decode};
use fathom_analysis::facts::is_background;
use fathom_analysis::findings::{Finding, Key, Refused, Report, Value, Warning, WarningKind};
use fathom_analysis::interval::{Interval, median_interval};
use fathom_analysis::metrics::common::{self, DisturbanceState};
use fathom_probe::machine::ClockTrust;
use fathom_probe::pattern::PatternKind;
use fathom_units::facts;

use crate::claims;
use crate::disturbance::Disturbance;
use crate::environment;
use crate::record::{Record, TrialRun};
use crate::scale::Scale;
use crate::trial_name::trial_name;

/// Creates a finding without an interval.
pub(crate) fn number(key: impl Into<Key>, value: f64, unit: &'static str) -> Finding {
    Finding::number(key, value).in_unit(unit)
}

/// Creates a finding with a word as its value.
pub(crate) fn text(key: impl Into<Key>, value: &str) -> Finding {
    Finding { value: Value::Text(value.to_owned()), ..number(key, 0.0, "") }
}

pub(crate) fn measured(
    key: impl Into<Key>,
    i: Interval,
    unit: &'static str,
    count: usize,
    trials: &[u64],
) -> Finding {
    let mut finding = number(key, i.value, unit);
    (finding.low, finding.high) = (Some(i.low), Some(i.high));
    finding.count = count as u64;
    finding.trials = trials.to_vec();
    finding
}

/// Facts of the CPU on which the probe runs. In a record of a program they are not the program's.
pub(crate) const OF_THE_PROBE: [&str; 3] = [facts::CPU_PINNED, facts::CPU_TYPE, facts::CPU_TYPE_CPUS];

/// Events that an emulator invents: it has no cycles and no pipeline.
pub(crate) const INVENTED: [&str; 3] = ["cycles", "stalled-cycles-backend", "stalled-cycles-frontend"];

/// Refuses what an emulator's time tells.
pub(crate) fn refuse_times(record: &Record, what: &str, remedy: &str, report: &mut Report) {
    let evidence = record.text(facts::TRUST_EVIDENCE).unwrap_or("as the probe reports");
    report.refusals.push(Refused {
        what: what.to_owned(),
        reason: format!("this is an emulator ({evidence}): its time is not that of the emulated machine"),
        remedy: remedy.to_owned(),
    });
}

/// Starts the report of a record, with everything that does not depend on the experiment.
pub(crate) fn new_report(record: &Record, experiment: &str) -> Report {
    let run = record.run.clone().unwrap_or_default();
    let mut report = Report {
        experiment: experiment.to_owned(),
        subject: run.subject,
        trust: record.trust.map_or(undeclared_trust(record), ClockTrust::token).to_owned(),
        facts: shown_facts(record),
        seed: run.seed,
        elapsed_s: record.end.as_ref().map_or(0.0, |e| e.elapsed_ms as f64 / 1000.0),
        ..Report::default()
    };
    session(record, &mut report);
    report.warnings.extend(environment::judge(record));
    report
}

/// Returns the clock trust if no probe declared one. The data of another tool may be from hardware, a guest or an
/// emulator. Without such data nothing can be trusted.
fn undeclared_trust(record: &Record) -> &'static str {
    let imported =
        !record.imported.is_empty() || record.profile.as_ref().is_some_and(|profile| profile.imported);
    if imported { "unknown" } else { "emulated" }
}

/// Returns the facts for the report's head, followed by the environment facts for scripts.
fn shown_facts(record: &Record) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for name in [
        facts::MACHINE_NAME,
        facts::CPU_MODEL,
        facts::BOARD_MODEL,
        facts::CLOCK_NAME,
        facts::TRUST_EVIDENCE,
        facts::PAGE_COLOURED,
        facts::CPU_TYPE,
        facts::CPU_TYPE_CPUS,
    ] {
        if let Some(value) = record.text(name) {
            facts.push((name.to_owned(), value.to_owned()));
        }
    }
    for name in [facts::PAGE_BASE, facts::PAGE_HUGE, facts::CPU_PINNED, facts::DESCRIBED_NEIGHBOURS] {
        if let Some(value) = record.int(name) {
            facts.push((name.to_owned(), value.to_string()));
        }
    }
    if let Some(run) = &record.run {
        for (name, value) in [
            ("command", run.command.clone()),
            ("budget_ms", run.budget_ms.to_string()),
            ("build", run.build.clone()),
        ] {
            facts.push((format!("run.{name}"), value));
        }
    }
    for (name, value) in record.facts.under("").filter(|(name, _)| is_background(name)) {
        let value = match value {
            FactValue::Int(number) => number.to_string(),
            FactValue::Text(text) => text.clone(),
            FactValue::Bytes(_) => continue,
        };
        facts.push((name.to_owned(), value));
    }
    facts
}

/// Adds the warnings and refusals of the session itself.
fn session(record: &Record, report: &mut Report) {
    let mut warn = |kind, text: String, remedy: &str| report.warnings.push(Warning::new(kind, text, remedy));
    if record.end.as_ref().is_none_or(|e| e.status != "complete") {
        let status = record.end.as_ref().map_or("cut off", |e| e.status.as_str());
        warn(
            WarningKind::Interrupted,
            format!("the session was {status} before its plan ended"),
            "run it again",
        );
    }
    let unverified: usize = record.trials.iter().map(|r| r.unverified).sum();
    if unverified > 0 {
        warn(
            WarningKind::Unverified,
            format!("{unverified} samples did not end at the expected address; they are left out"),
            "this is a bug of the probe or a fault of the machine: please report it with the record",
        );
    }
    // A record that ends before its second line has nothing to read.
    if record.run.is_none() && (record.trust.is_some() || !record.trials.is_empty()) {
        warn(
            WarningKind::DamagedRecord,
            "the 'run' line is missing, so the experiment is unknown; the record is read as a survey".into(),
            "check its second line, which begins with run",
        );
    }
    if !record.problems.is_empty() {
        warn(
            WarningKind::DamagedRecord,
            format!(
                "{} of the record could not be read; first: {}",
                match record.problems.len() {
                    1 => "1 line".to_owned(),
                    n => format!("{n} lines"),
                },
                record.problems[0]
            ),
            "the findings are based on the other lines",
        );
    }
    line_losses(record, report);
    contradictions(record, report);
    for fault in &record.faults {
        report.refusals.push(Refused { what: "a line".into(), reason: fault.clone(), remedy: String::new() });
    }
    refused_trials(record, report);
}

/// Adds the trials that the probe refused, one refusal per reason.
fn refused_trials(record: &Record, report: &mut Report) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for run in &record.trials {
        if let Some((reason, remedy)) = &run.refusal
            && !seen.contains(&(reason, remedy))
        {
            seen.push((reason, remedy));
            report.refusals.push(Refused {
                what: trial_name(&run.trial),
                reason: reason.clone(),
                remedy: remedy.clone(),
            });
        }
    }
}

/// Refuses the times of trials whose longer run took less time than the shorter one.
fn contradictions(record: &Record, report: &mut Report) {
    const SHOWN: usize = 4;
    let tick_ns = Scale::of(record).tick_ns;
    let of = |run: &TrialRun| {
        let ns = run.contradicted? * tick_ns;
        Some(format!("{}, {ns:.1} ns per operation", trial_name(&run.trial)))
    };
    let all: Vec<String> = record.trials.iter().filter_map(of).collect();
    let more = match all.len() {
        0 => return,
        n if n > SHOWN => format!(" and {} more", n - SHOWN),
        _ => String::new(),
    };
    report.refusals.push(Refused {
        what: format!("the time of {}{more}", all[..all.len().min(SHOWN)].join("; ")),
        reason: "2n operations took less time than n, which is impossible: other work slowed the shorter run"
            .into(),
        remedy: "run it again on a quieter machine, or give it a larger --budget".into(),
    });
}

/// Warns of lines lost between harness and probe. No finding depends on them.
fn line_losses(record: &Record, report: &mut Report) {
    let losses = &record.losses;
    let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{n} times") };
    let mut reported = Vec::new();
    if losses.restarts > 0 {
        reported.push(format!("the probe was started again {}", times(losses.restarts)));
    }
    if losses.again > 0 {
        reported.push(format!("trials with lost lines were repeated {}", times(losses.again)));
    }
    if !losses.lost.is_empty() {
        reported.push(format!(
            "{} given up",
            match losses.lost.len() {
                1 => "1 trial was".to_owned(),
                n => format!("{n} trials were"),
            }
        ));
    }
    if !reported.is_empty() {
        report.warnings.push(Warning {
            kind: WarningKind::LossyLine,
            text: reported.join("; "),
            remedy: "check cable, ground and baud rate; the findings are based on complete trials".into(),
        });
    }
    for lost in &losses.lost {
        report.refusals.push(Refused {
            what: lost.what.clone(),
            reason: format!("every attempt lost lines; last reason: {}", lost.reason),
            remedy: "use a better cable or a lower baud rate".into(),
        });
    }
}

/// Adds the verdicts on disturbance of the session. Those on single findings follow when all of them are known
/// ([`crate::disturbance::mark`]).
pub(crate) fn disturbance_rows(disturbance: &Disturbance, report: &mut Report) {
    let mut row = text(&common::DISTURBED, if disturbance.disturbed { "yes" } else { "no" });
    row.count = disturbance.trials;
    row.notes.clone_from(&disturbance.causes);
    report.findings.push(row);
    state_row(disturbance, report);
}

/// Adds the verdict on disturbance of the session, without `disturbed`, which wake-ups do not have.
pub(crate) fn state_row(disturbance: &Disturbance, report: &mut Report) {
    let mut row = text(&common::DISTURBANCE_STATE, disturbance.state.token());
    row.count = disturbance.judged;
    row.notes = disturbance.causes.iter().chain(&disturbance.environment).cloned().collect();
    report.findings.push(row);
    let kind = match disturbance.state {
        DisturbanceState::Unusable => WarningKind::Disturbed,
        // The environment has its own warnings.
        DisturbanceState::Noisy if disturbance.disturbed => WarningKind::Noisy,
        _ => return,
    };
    report.warnings.push(Warning::new(kind, disturbance.causes.join("; "), disturbance.remedy.clone()));
}

pub(crate) fn clocks(record: &Record, scale: &Scale, report: &mut Report) {
    let back_to_back: Vec<f64> = record
        .of(PatternKind::Clock)
        .flat_map(|r| r.samples.iter().map(|s| s.ticks2 as f64 / r.trial.loads as f64).collect::<Vec<_>>())
        .collect();
    if let Some(i) = median_interval(&back_to_back) {
        let mut row = measured(&common::BIAS_TIMER, i, "ticks", back_to_back.len(), &[]);
        row.notes.push("in every timed interval; cancels between n and 2n loads".into());
        report.findings.push(row);
    }
    let mut tick = number(&common::CLOCK_TICK_HZ, 1e9 / scale.tick_ns, "Hz");
    tick.count = 1;
    tick.notes.push("as stated or calibrated by the probe; its uncertainty is the fact clock.hz.ppm".into());
    report.findings.push(tick);
    let hz: Vec<f64> = scale.cycle_ticks.iter().map(|c| 1e9 / (c.2 * scale.tick_ns)).collect();
    if let Some(i) = median_interval(&hz) {
        let mut trials: Vec<u64> = scale.cycle_ticks.iter().map(|c| c.1).collect();
        trials.dedup();
        let mut row = measured(&common::CLOCK_CORE_HZ, i, "Hz", hz.len(), &trials);
        row.notes.push(
            "calibrated with a chain of dependent single-cycle operations at the start and end of every round".into(),
        );
        report.findings.push(row);
    }
}

/// Refuses `what`: the times of this clock may not be shown. Claims need no clock, and work is verified without
/// one: plans schedule the same trials on an emulator as on hardware for this reason.
pub(crate) fn refuse_all(record: &Record, what: &str, report: &mut Report) {
    let done = record.trials.iter().filter(|r| r.done.is_some());
    let left = |r: &TrialRun| (r.samples.len() + r.transfers.rows.len()) as u64;
    let (trials, samples) = done.fold((0, 0), |(trials, all), r| (trials + 1, all + left(r)));
    let mut row = number(&common::SAMPLES_VERIFIED, samples as f64, "samples");
    row.count = trials;
    row.notes.push(format!(
        "of {} in {trials} trials: each ended at the expected address, independently of its time",
        samples + record.trials.iter().map(|r| r.unverified as u64).sum::<u64>()
    ));
    report.findings.push(row);
    let evidence = record.text(facts::TRUST_EVIDENCE).unwrap_or("as the subject reports");
    report.refusals.push(Refused {
        what: what.into(),
        reason: format!(
            "the probe runs on an emulator ({evidence}): it would measure the emulator on its host, not the \
             emulated machine"
        ),
        remedy: "run it on the real machine, or describe the machine and use --on".into(),
    });
    report.findings.extend(claims::rows(&decode(&record.facts)));
}
