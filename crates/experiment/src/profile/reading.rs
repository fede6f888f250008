//! Findings of a sampled program.

use fathom_analysis::findings::{Finding, Item, Metric, Refused, Report, Warning, WarningKind};
use fathom_analysis::interval::Interval;
use fathom_analysis::metrics::{common, profile as metrics};
use fathom_probe::machine::ClockTrust;

use super::{CPU_CLOCK, CYCLES, NAME, is_of_time, plain};
use crate::calls::{LEAST_CALL, with_callees};
use crate::reading::{OF_THE_PROBE, measured, new_report, refuse_times};
use crate::record::{
    Profile, ProfileLatency, ProfileLevel, ProfileObject, ProfilePlace, ProfilePmu, ProfileWalks, Record,
};

/// Samples below which shares say little: the interval of a half is then from 0.4 to 0.6.
const FEW: u64 = 100;
/// Share of the time in user space that samples must stand for, if it is of this many periods. The kernel accounts that time by
/// its own timer, too; and the rate of other events than the clock follows their frequency only after a while.
const MOST: f64 = 0.8;
const MOST_OF_OTHERS: f64 = 0.5;
const SOME_PERIODS: f64 = 20.0;
/// Share of samples with all their callers below which calls say little.
const MOST_KNOWN: f64 = 0.8;
/// Share of that time which processes without a sample may have had, at most a period each.
const UNSEEN: f64 = 0.05;

/// Reads the report of a record.
#[must_use]
pub fn read(record: &Record) -> Report {
    let mut report = new_report(record, NAME);
    report.facts.retain(|(name, _)| !OF_THE_PROBE.contains(&name.as_str()));
    let Some(profile) = &record.profile else {
        report.refusals.push(Refused {
            what: "the program".to_owned(),
            reason: "the record has no lines `profile`".to_owned(),
            remedy: "sample it again".to_owned(),
        });
        return report;
    };
    report.facts.push(("sampled".to_owned(), how(profile)));
    let emulated = record.trust == Some(ClockTrust::Emulated);
    if emulated {
        let by_instructions = record.instruction_ns().is_some();
        let is_refused = is_of_time(&profile.event) && !by_instructions;
        let what = if is_refused { "times and shares of them" } else { "times" };
        let remedy =
            "run it on the real machine, or on a described one: fathom profile --simulated -- PROGRAM";
        refuse_times(record, what, remedy, &mut report);
        if is_refused {
            return report;
        }
    }
    if profile.counts[0] == 0 {
        without_samples(profile, &mut report);
        doubts(profile, &mut report);
        return report;
    }
    if !emulated {
        times(profile, &mut report);
    }
    samples(record, profile, &mut report);
    for (metric, places) in [
        (&metrics::FUNCTION_SHARE, &profile.functions),
        (&metrics::TOTAL_SHARE, &profile.totals),
        (&metrics::LINE_SHARE, &profile.lines),
        (&metrics::INSTRUCTION_SHARE, &profile.instructions),
    ] {
        let rows =
            places.iter().zip(1u64..).filter_map(|(place, rank)| of_place(metric, place, rank, profile));
        report.findings.extend(rows);
    }
    calls(profile, &mut report);
    let levels = profile.levels.iter().zip(1u64..);
    report.findings.extend(levels.filter_map(|(level, rank)| of_level(level, rank, profile)));
    report.findings.extend(profile.walks.as_ref().and_then(|walks| of_walks(walks, profile)));
    let objects = profile.objects.iter().zip(1u64..);
    report.findings.extend(objects.filter_map(|(object, rank)| of_object(object, rank, profile)));
    doubts(profile, &mut report);
    report
}

/// Adds the calls with their callees, without those that are too rare to be seen in a figure.
fn calls(profile: &Profile, report: &mut Report) {
    let callers: Vec<u64> = profile.calls.iter().map(|call| call.caller).collect();
    let samples = with_callees(&callers, profile.calls.iter().map(|call| call.samples));
    let weights = with_callees(&callers, profile.calls.iter().map(|call| call.weight));
    for (at, call) in profile.calls.iter().enumerate() {
        if (weights[at] as f64) < LEAST_CALL * profile.weight as f64 {
            continue;
        }
        let place = ProfilePlace {
            function: call.function.clone(),
            file: call.file.clone(),
            samples: samples[at],
            weight: weights[at],
            ..ProfilePlace::default()
        };
        if let Some(mut finding) = of_place(&metrics::CALL_SHARE, &place, at as u64 + 1, profile) {
            finding.detail.set(metrics::CALLER, Item::Number(call.caller as f64));
            report.findings.push(finding);
        }
    }
    if let Some(known) = profile.whole.filter(|known| *known <= profile.counts[0]) {
        let share = interval(known as f64 / profile.counts[0] as f64, profile.counts[0]);
        let metric = &metrics::WHOLE_SHARE;
        report.findings.push(measured(metric, share, "", profile.counts[0] as usize, &[]));
    }
}

/// Returns what made samples, as a comparison has to know it.
fn how(profile: &Profile) -> String {
    let pace = match profile.period {
        Some(events) => format!("each {events}"),
        None => format!("{} a second", profile.rate),
    };
    let process = if profile.process.is_some() { ", of a running process" } else { "" };
    if profile.imported { profile.event.clone() } else { format!("{}, {pace}{process}", profile.event) }
}

fn without_samples(profile: &Profile, report: &mut Report) {
    let processes = profile.processes[0];
    let user_ms = profile.cpu_us[0] as f64 / 1e3;
    let mut reason = match profile.has_cpu_time() {
        true => format!("it has no sample: {processes} processes used {user_ms:.1} ms in user space"),
        false => "it has no sample: it may not have used a CPU".to_owned(),
    };
    if let Some(counted) = profile.counted {
        reason += &format!(" and had {counted} {}", profile.event);
    }
    if let Some(ns) = period_ns(profile) {
        reason += &format!(", and one is taken every {:.2} ms of each", ns / 1e6);
    }
    report.refusals.push(Refused {
        what: "the program's functions".to_owned(),
        reason,
        remedy: "let it work longer, or sample more often: --rate, --period".to_owned(),
    });
}

fn times(profile: &Profile, report: &mut Report) {
    report.findings.push(Finding::number(&metrics::WALL, profile.wall_ns as f64 / 1e6));
    if profile.has_cpu_time() {
        let [user, system] = profile.cpu_us.map(|us| us as f64 / 1e3);
        report.findings.push(Finding::number(&metrics::USER, user));
        report.findings.push(Finding::number(&metrics::SYSTEM, system));
    }
}

fn samples(record: &Record, profile: &Profile, report: &mut Report) {
    let [samples, lost, _] = profile.counts;
    let mut all = Finding::number(&metrics::SAMPLE_COUNT, samples as f64);
    all.detail.set(metrics::EVENT, Item::Token(profile.event.clone()));
    if profile.with_kernel {
        all.detail.set(metrics::KERNEL, Item::Flag(true));
    }
    if record.instruction_ns().is_some() {
        all.detail.set(metrics::INSTRUCTION_CLOCK, Item::Flag(true));
    }
    report.findings.push(all);
    report.findings.extend(profile.counted.map(|counted| Finding::number(&metrics::COUNTED, counted as f64)));
    report.findings.push(Finding::number(&metrics::LOST, lost as f64));
    let pmus = profile.pmus.iter().zip(1u64..).filter(|(pmu, _)| pmu.refused.is_empty());
    report.findings.extend(pmus.map(|(pmu, number)| of_pmu(pmu, number)));
}

fn of_pmu(pmu: &ProfilePmu, number: u64) -> Finding {
    let mut finding = Finding::number(metrics::PMU_SAMPLES.at([number.into()]), pmu.samples as f64);
    finding.detail.set(metrics::PMU, Item::Token(pmu.name.clone()));
    finding.detail.set(metrics::CPUS, Item::Token(pmu.cpus.clone()));
    if let Some(counted) = pmu.counted {
        finding.detail.set(metrics::PMU_COUNTED, Item::Number(counted as f64));
    }
    finding
}

/// Returns the row of a function, line or instruction; `None` without samples, or if a record claims more than there are.
fn of_place(metric: &'static Metric, place: &ProfilePlace, rank: u64, profile: &Profile) -> Option<Finding> {
    let mut finding = share(metric, rank, [place.samples, place.weight], profile)?;
    let detail = &mut finding.detail;
    if !place.source.is_empty() {
        detail.set(metrics::SOURCE, Item::Token(place.source.clone()));
    }
    detail.set(metrics::FUNCTION, Item::Token(place.function.clone()));
    if !place.file.is_empty() {
        detail.set(metrics::FILE, Item::Token(place.file.clone()));
    }
    if let Some(of) = place.instruction {
        detail.set(common::ADDRESS, Item::Token(format!("{:#x}", of.address)));
        detail.set(common::INSTRUCTION_OFFSET, Item::Number(of.offset as f64));
    }
    Some(finding)
}

/// Returns the row of an object of data; `None` as above.
fn of_object(object: &ProfileObject, rank: u64, profile: &Profile) -> Option<Finding> {
    let counts = [object.samples, object.weight];
    let mut finding = share(&metrics::OBJECT_SHARE, rank, counts, profile)?;
    finding.detail.set(metrics::OBJECT, Item::Token(object.object.clone()));
    if !object.file.is_empty() {
        finding.detail.set(metrics::FILE, Item::Token(object.file.clone()));
    }
    latency(object.latency, &mut finding);
    Some(finding)
}

/// Returns the row of a place where data were; `None` as above.
fn of_level(level: &ProfileLevel, rank: u64, profile: &Profile) -> Option<Finding> {
    let mut finding = share(&metrics::LEVEL_SHARE, rank, [level.samples, level.weight], profile)?;
    finding.detail.set(metrics::LEVEL, Item::Token(level.level.token().to_owned()));
    if let Some(number) = level.number {
        finding.detail.set(metrics::LEVEL_NUMBER, Item::Number(number as f64));
    }
    latency(level.latency, &mut finding);
    Some(finding)
}

/// Returns the row of walks; `None` if no sample tells of them, or if a record claims more than there are.
fn of_walks(walks: &ProfileWalks, profile: &Profile) -> Option<Finding> {
    let [told, weight] = walks.told;
    if told == 0 || told > profile.counts[0] || walks.samples > told || walks.weight > weight || weight == 0 {
        return None;
    }
    let share = interval(walks.weight as f64 / weight as f64, told.min(profile.effective.max(1)));
    let mut finding = measured(&metrics::WALK_SHARE, share, "", walks.samples as usize, &[]);
    finding.detail.set(metrics::SAMPLES, Item::Number(walks.samples as f64));
    latency(walks.latency, &mut finding);
    Some(finding)
}

fn latency(of: Option<ProfileLatency>, finding: &mut Finding) {
    if let Some(ProfileLatency { median, p90, .. }) = of {
        finding.detail.set(metrics::LATENCY, Item::Number(median as f64));
        finding.detail.set(metrics::LATENCY_P90, Item::Number(p90 as f64));
    }
}

/// Returns the share of so many samples with this weight; `None` without samples, or if a record claims more than there are.
fn share(
    metric: &'static Metric,
    rank: u64,
    [samples, weight]: [u64; 2],
    profile: &Profile,
) -> Option<Finding> {
    let all = profile.counts[0];
    if samples == 0 || samples > all || weight > profile.weight || profile.weight == 0 {
        return None;
    }
    let share = weight as f64 / profile.weight as f64;
    let interval = interval(share, profile.effective.clamp(1, all));
    let mut finding = measured(metric.at([rank.into()]), interval, "", samples as usize, &[]);
    finding.detail.set(metrics::SAMPLES, Item::Number(samples as f64));
    Some(finding)
}

/// Returns a share of so many samples with its 95 % interval: Wilson's, which holds for small shares too (E. B. Wilson, 1927,
/// J. Am. Stat. Assoc. 22, 209). Samples are taken as independent; those of a short loop in step with the timer are not.
fn interval(share: f64, samples: u64) -> Interval {
    const Z: f64 = 1.96;
    let n = samples as f64;
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Interval { value: share, low: (middle - half).clamp(0.0, share), high: (middle + half).clamp(share, 1.0) }
}

/// Adds what limits the results.
fn doubts(profile: &Profile, report: &mut Report) {
    for file in &profile.changed {
        report.refusals.push(Refused {
            what: format!("names in {file}"),
            reason: "the file that has this name is not the one that ran: replaced, removed, or in another mount namespace"
                .to_owned(),
            remedy: "replace no program while it is sampled; run fathom in the container".to_owned(),
        });
    }
    for pmu in profile.pmus.iter().filter(|pmu| !pmu.refused.is_empty()) {
        report.refusals.push(Refused {
            what: format!("samples on CPUs {} ({})", pmu.cpus, pmu.name),
            reason: format!("this PMU does not have {}: {}", profile.event, pmu.refused),
            remedy: "sample an event that all have: --event cycles; or keep the program on the other CPUs: taskset".to_owned(),
        });
    }
    let [instead, remedy] = &profile.instead;
    if !instead.is_empty() {
        report.refusals.push(Refused {
            what: format!("samples by cycles ({} instead)", profile.event),
            reason: instead.clone(),
            remedy: remedy.clone(),
        });
    }
    let mut warn = |kind, text: String, remedy: &str| report.warnings.push(Warning::new(kind, text, remedy));
    if !profile.ended.is_empty() {
        let text = format!("the program did not end with status 0: {}", profile.ended);
        warn(
            WarningKind::ProgramFailed,
            text,
            "if that is unexpected, run the program without fathom to see why",
        );
    }
    let [samples, ..] = profile.counts;
    if samples > 0 && profile.effective < FEW {
        let text = format!(
            "{samples} samples: shares are known to some {:.0} %",
            100.0 * half_width(profile.effective)
        );
        warn(
            WarningKind::FewSamples,
            text,
            "let the program work longer, or sample more often: --rate, --period",
        );
    }
    report.warnings.extend(missing(profile));
    report.warnings.extend(gaps(profile));
    report.warnings.extend(unknown_callers(profile));
    if profile.left {
        report.warnings.push(Warning::new(
            WarningKind::ProcessesLeft,
            "the program left processes that were still running: their samples until its end are in the shares, their CPU time is not",
            "make the program wait for what it starts",
        ));
    }
}

/// Tells how many samples have callers that are not known.
fn unknown_callers(profile: &Profile) -> Option<Warning> {
    let samples = profile.counts[0];
    let known = profile.whole?;
    if known as f64 >= MOST_KNOWN * samples as f64 {
        return None;
    }
    let text = format!(
        "of {} of {samples} samples not all callers are known: their code has no tables (.eh_frame), was made by the program, or has \
         more on its stack than a sample has",
        samples.saturating_sub(known)
    );
    Some(Warning::new(
        WarningKind::CallersUnknown,
        text,
        "compile with -fasynchronous-unwind-tables; of programs that make code, with their option for frame pointers",
    ))
}

/// Tells what has no samples.
fn missing(profile: &Profile) -> Option<Warning> {
    let [_, lost, throttled] = profile.counts;
    if lost > 0 || throttled > 0 {
        let stand = period_ns(profile).filter(|_| profile.has_cpu_time());
        let stand = stand.map(|ns| format!("; {}", stand_for(profile, ns))).unwrap_or_default();
        let text = format!(
            "{lost} records were lost or may have been, samples or names, and the kernel stopped sampling {throttled} times{stand}"
        );
        return Some(Warning::new(
            WarningKind::SamplesLost,
            text,
            "sample less often: --rate 100, or a larger --period",
        ));
    }
    if profile.imported {
        return None;
    }
    let (text, remedy) = match lost_events(profile) {
        Some(text) => (text, "sample by another event: --event cpu-clock; end other users of the counters"),
        None => (unsampled_time(profile)?, "sample more often: --rate 10000; sample such programs as root"),
    };
    Some(Warning::new(WarningKind::SamplesLost, text, remedy))
}

/// Tells what a trace of samples does not have.
fn gaps(profile: &Profile) -> Option<Warning> {
    let [cut, collided, unreadable] = profile.gaps;
    if profile.gaps == [0; 3] {
        return None;
    }
    let text = format!(
        "of the trace that the processor wrote {cut} parts were cut short, as there was no room; in {collided} parts samples collided and \
         were dropped; {unreadable} records could not be read"
    );
    Some(Warning::new(
        WarningKind::SamplesLost,
        text,
        "sample less often: a larger --period (perf record -c), or only slow accesses: --least-latency (min_latency)",
    ))
}

/// Tells if samples stand for few of the events that were counted.
fn lost_events(profile: &Profile) -> Option<String> {
    let counted = profile.counted? as f64;
    let weight = profile.weight as f64;
    let period = weight / profile.counts[0].max(1) as f64;
    (weight < MOST * counted && counted > SOME_PERIODS * period).then(|| {
        format!(
            "samples stand for {:.0} % of the {counted} {} that were counted: overflows of the counter were lost, as under emulators, or              processes were shorter than the period of a sample",
            100.0 * weight / counted,
            profile.event
        )
    })
}

/// Tells what part of the CPU time has no samples.
fn unsampled_time(profile: &Profile) -> Option<String> {
    if !profile.has_cpu_time() {
        return None;
    }
    let user_ns = profile.cpu_us[0] as f64 * 1e3;
    let period_ns = period_ns(profile)?;
    let sampled_ns = profile.counts[0] as f64 * period_ns;
    let least = if profile.event == CPU_CLOCK { MOST } else { MOST_OF_OTHERS };
    let stand = stand_for(profile, period_ns);
    let [processes, unsampled] = profile.processes;
    let unseen_ns = unsampled as f64 * period_ns;
    if user_ns >= SOME_PERIODS * period_ns && sampled_ns < least * user_ns {
        Some(format!(
            "{stand}: the kernel lets no programs be sampled that have more rights than their user or may not be read, and short \
             processes have few samples or none"
        ))
    } else if unseen_ns > UNSEEN * user_ns && unsampled > 1 {
        Some(format!(
            "{unsampled} of {processes} processes have no sample: they were shorter than the {:.2} ms between samples, and are not in \
             the shares; {stand}",
            period_ns / 1e6
        ))
    } else {
        None
    }
}

/// Returns for how much of the CPU time the samples stand.
fn stand_for(profile: &Profile, period_ns: f64) -> String {
    format!(
        "samples stand for {:.0} ms of {:.0} ms in user space",
        profile.counts[0] as f64 * period_ns / 1e6,
        profile.cpu_us[0] as f64 / 1e3
    )
}

/// Returns the CPU time from one sample to the next that was asked for, ns, if it is known.
fn period_ns(profile: &Profile) -> Option<f64> {
    match (plain(&profile.event), profile.period) {
        (CPU_CLOCK, Some(ns)) => Some(ns as f64),
        (CPU_CLOCK | CYCLES, None) => Some(1e9 / profile.rate.max(1) as f64),
        _ => None,
    }
}

/// Returns half the width of the interval of a half.
fn half_width(samples: u64) -> f64 {
    let i = interval(0.5, samples.max(1));
    (i.high - i.low) / 2.0
}

#[cfg(test)]
mod tests;
