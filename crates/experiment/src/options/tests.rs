use fathom_probe::wire::Line;

use super::*;
use crate::record::{Record, Run};
use crate::{EXPERIMENTS, check, conflict, dma, experiment, latency, option_differences, stride, wakeup};

/// Returns a record of an experiment whose `run` line has these pairs.
fn record(experiment: &str, pairs: &str) -> Record {
    let lines = [
        Record::first_line(),
        format!("run experiment=\"{experiment}\" subject=\"x\" seed=1 budget_ms=1000 {pairs}"),
    ];
    Record::parse(&lines.join("\n")).expect("a record")
}

#[test]
fn every_option_has_name_help_and_valid_default() {
    for experiment in EXPERIMENTS {
        let mut keys: Vec<String> = experiment.options.iter().map(|option| option.key()).collect();
        // Keys that every `run` line has.
        keys.extend(["experiment", "subject", "seed", "budget_ms", "build", "command"].map(str::to_owned));
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count, "{}: {keys:?}", experiment.name);
        for option in experiment.options {
            let words = option.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
            assert!(words && !option.help.is_empty() && !option.help.ends_with('.'), "{}", option.name);
            assert!(!option.default.ends_with('.'), "{}", option.name);
            let switch = matches!(option.values, Values::Switch);
            assert_eq!(option.value.is_empty(), switch, "{}", option.name);
            let needed = |name| experiment.options.iter().any(|other| other.name == name);
            assert!(option.requires.is_none_or(needed), "{}", option.name);
        }
    }
}

#[test]
fn default_texts_equal_the_default_values() {
    let default = |option: &Opt| option.give(&option.default.split(',').collect::<Vec<_>>()).expect("values");
    assert_eq!(default(&latency::options::BYTES), Given::Numbers(latency::SIZES.to_vec()));
    assert_eq!(default(&stride::options::STRIDES), Given::Numbers(stride::STRIDES.to_vec()));
    assert_eq!(default(&dma::options::POLLUTION_SET), Given::Numbers(vec![dma::POLLUTION_SET]));
    assert_eq!(default(&wakeup::options::PRIORITY), Given::Numbers(vec![wakeup::PRIORITY]));
    let period = format!("{}us", wakeup::PERIOD_NS / 1000);
    assert_eq!(default(&wakeup::options::PERIOD), Given::Text(period));
    let cacheability = (&crate::cacheability::options::BYTES, &crate::cacheability::options::ROUNDS);
    assert_eq!(default(cacheability.0), Given::Numbers(crate::cacheability::SIZES.to_vec()));
    assert_eq!(default(cacheability.1), Given::Numbers(vec![crate::cacheability::ROUNDS]));
}

#[test]
fn typed_options_round_trip_through_the_record() {
    for (name, typed, line, command) in [
        ("survey", &[("replacement", "")][..], "replacement=\"yes\"", " --replacement"),
        (
            "stride",
            &[("bytes", "8K,1M"), ("op", "rmw"), ("first-touch", "")],
            "bytes=8192,1048576 op=\"rmw\" first_touch=\"yes\"",
            " --bytes 8192,1048576 --op rmw --first-touch",
        ),
        (
            "cacheability",
            &[("attributes", "nc,uc"), ("rounds", "7"), ("substitute", "flush")],
            "attributes=\"normal-nc,device\" rounds=7 substitute=\"flush\"",
            " --attributes normal-nc,device --rounds 7 --substitute flush",
        ),
        (
            "dma",
            &[("strategy", "zero-copy,coherent"), ("link", "18.67Mbit"), ("pollution-set", "0")],
            "strategy=\"zero-copy,coherent\" link=\"18670000bit\" pollution_set=0",
            " --strategy zero-copy,coherent --link 18670000bit --pollution-set 0",
        ),
        (
            "wakeup",
            &[("load", "cpu*2 vm:64M"), ("period", "0.1ms"), ("no-trace", "")],
            "load=\"cpu*2 vm*1:64M\" period=\"100us\" no_trace=\"yes\"",
            " --load 'cpu*2 vm*1:64M' --period 100us --no-trace",
        ),
    ] {
        let experiment = experiment(name).expect("an experiment");
        let option = |name: &str| experiment.options.iter().find(|o| o.name == name).expect("an option");
        let asked = typed.iter().fold(Asked::default(), |asked, (name, text)| {
            let option = option(name);
            match option.many {
                _ if text.is_empty() => asked.switched_on(option),
                Many::Repeated(_) => asked.with(option, &[text]).expect("a value"),
                _ => asked.with(option, &text.split(',').collect::<Vec<_>>()).expect("values"),
            }
        });
        let run = Run { experiment: name.into(), asked: asked.clone(), ..Run::default() };
        let text = run.line().render();
        assert!(text.ends_with(line), "{text}");
        assert_eq!(Run::of_line(&Line::parse(&text).expect("a line")), Ok(run));
        assert_eq!(asked.command(experiment.options), command);
        assert_eq!(asked.check(experiment.options), Ok(()));
    }
}

#[test]
fn wrong_option_in_record_is_refused_with_line_and_range() {
    for (experiment, pairs, words) in [
        ("conflict", "colours=0", &["line 2", "colours: 0 must be from 1 to 1024"][..]),
        ("conflict", "colours=1,1025", &["colours: 1025 must be from 1 to 1024"]),
        ("conflict", "colours=18446744073709551615", &["from 1 to 1024"]),
        ("conflict", "colours=\"red\"", &["colours: 'red' is not a number"]),
        ("conflict", "bytes=4096", &["line 2: run of conflict: unknown key bytes", "colours"]),
        ("stride", "op=\"copy_to\"", &["op: 'copy_to' is not one of: read", "rmw"]),
        ("stride", "op=7", &["op: '7' is not one of: read"]),
        ("stride", "strides=48", &["strides: 48 must be a power of two"]),
        ("stride", "prefetch=1", &["prefetch: '1' is not yes"]),
        ("stride", "op=\"\"", &["op: it has no value"]),
        ("dma", "link=18670000", &["link: unknown unit ''", "bit or B"]),
        ("wakeup", "load=\"cpu*2; io x\"", &["load: 'x' is not a stressor"]),
        ("wakeup", "period=\"1m\"", &["period: unknown unit 'm'"]),
        ("wakeup", "priority=5,6", &["priority: has 2 values; at most 1 may be given"]),
        ("gather", "", &["line 2: experiment 'gather' is not one of: survey latency", "wakeup"]),
    ] {
        let record = record(experiment, pairs);
        let why = check(&record).map(|experiment| experiment.name).expect_err(pairs);
        assert!(words.iter().all(|words| why.contains(words)), "{pairs}: {why}");
        assert_eq!(crate::read(&record).expect_err(pairs), why);
    }
    let many = format!("colours={}", vec!["1"; 65].join(","));
    assert!(check(&record("conflict", &many)).expect_err("65 of them").contains("at most 64 may be given"));
}

#[test]
fn plan_ignores_invalid_option_values() {
    let record = record("conflict", "colours=0");
    assert!(!record.asked().has(&conflict::options::COLOURS));
    assert_eq!(record.asked().numbers(&conflict::options::COLOURS), Vec::<u64>::new());
}

#[test]
fn record_without_experiment_is_read_as_survey_with_warning() {
    let mut record = Record::parse(&Record::first_line()).expect("a record");
    record.push(&Line::new("probe").int("wire", 1u64).token("trust", "real").seal(1)).expect("a line");
    let report = crate::read(&record).expect("a report");
    assert_eq!(report.experiment, "survey");
    assert!(report.warnings.iter().any(|w| w.text.contains("the 'run' line is missing")), "{report:?}");
}

#[test]
fn explicit_default_value_is_not_a_difference() {
    let differ = |pairs: [&str; 2]| {
        let [a, b] = pairs.map(|pairs| record("cacheability", pairs));
        option_differences(&a, &b)
    };
    assert_eq!(differ(["", "rounds=20000"]), Vec::<String>::new());
    assert_eq!(differ(["", "rounds=7"]), ["--rounds: 20000 against 7"]);
    assert_eq!(
        differ(["page_walks=\"yes\"", "op=\"rmw\""]),
        ["--op: all six against rmw", "--page-walks: yes against not given"]
    );
}

#[test]
fn sizes_are_binary_and_errors_say_how() {
    assert_eq!(size("8K"), Ok(8192));
    assert_eq!(size("8KiB"), Ok(8192));
    assert_eq!(size("512"), Ok(512));
    assert_eq!(size("2g"), Ok(2 << 30));
    for bad in ["", "K", "8KB", "-1", "1.5M", "99999999999G"] {
        assert!(size(bad).unwrap_err().contains("8K"), "{bad}");
    }
}
