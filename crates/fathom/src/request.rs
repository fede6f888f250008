//! What an experiment is asked: from the options of its verb, and as they would be typed again.

use std::path::Path;

use fathom_experiment::record::{self, Run};
use fathom_experiment::session::Plan;
use fathom_experiment::{cacheability, conflict, dma, latency, stride, survey, wakeup};

use crate::cli::{Dma, Output, RunOptions, Substitute, Verb, Wakeup};

/// An experiment that is asked for: what is to be measured, by which plan, how, and in which form it leaves.
pub struct Request<'a> {
    pub run: Run,
    pub plan: Plan,
    pub options: &'a RunOptions,
    pub form: &'a Output,
    /// The record that is gone on with.
    pub resume: Option<&'a Path>,
}

/// What a verb asks, where it is one that measures.
pub fn of(verb: &Verb) -> Option<Request<'_>> {
    let (name, plan, options, form, run): (&str, Plan, _, _, _) = match verb {
        Verb::Survey(o) => {
            (survey::NAME, survey::plan, &o.run, &o.out, Run { replacement: o.replacement, ..Run::default() })
        }
        Verb::Latency(o) => {
            let run = Run { bytes: o.bytes.clone(), ladders: o.ladder.clone(), ..Run::default() };
            (latency::NAME, latency::plan, &o.run, &o.out, run)
        }
        Verb::Stride(o) => {
            let run = Run {
                bytes: o.bytes.clone(),
                strides: o.strides.clone(),
                operations: o.op.clone(),
                first_touch: o.first_touch,
                prefetch: o.prefetch,
                ..Run::default()
            };
            (stride::NAME, stride::plan, &o.run, &o.out, run)
        }
        Verb::Conflict(o) => {
            let run = Run { colours: o.colours.clone(), ..Run::default() };
            (conflict::NAME, conflict::plan, &o.run, &o.out, run)
        }
        Verb::Cacheability(o) => {
            let run = Run {
                bytes: o.bytes.clone(),
                operations: o.op.clone(),
                attributes: o.attributes.clone(),
                rounds: o.rounds.unwrap_or(0),
                flush: o.substitute == Some(Substitute::Flush),
                every_mair: o.every_mair,
                walks: o.walks,
                ..Run::default()
            };
            (cacheability::NAME, cacheability::plan, &o.run, &o.out, run)
        }
        Verb::Dma(o) => (dma::NAME, dma::plan, &o.run, &o.out, of_transfers(o)),
        Verb::Wakeup(o) => (wakeup::NAME, wakeup::plan, &o.run, &o.out, of_wakeup(o)),
        _ => return None,
    };
    let resume = match verb {
        Verb::Wakeup(o) => o.resume.as_deref(),
        _ => None,
    };
    Some(Request { run: Run { experiment: name.into(), ..run }, plan, options, form, resume })
}

fn of_transfers(o: &Dma) -> Run {
    let dma = dma::options::Options {
        strategies: o.strategy.clone(),
        directions: o.direction.clone(),
        link_bits: o.link.unwrap_or(0),
        engine: o.engine,
        maintenance: o.maintenance,
        mistake: o.mistake,
        victim: o.victim,
    };
    let flush = o.substitute == Some(Substitute::Flush);
    Run { bytes: o.bytes.clone(), flush, dma, ..Run::default() }
}

fn of_wakeup(o: &Wakeup) -> Run {
    let wakeup = wakeup::options::Options {
        conditions: o.conditions.clone(),
        loads: o.load.clone(),
        like_stress: o.like_stress,
        sweep: o.sweep,
        modes: o.modes.clone(),
        every_ns: o.period.unwrap_or(0),
        priority: o.priority,
        untraced: o.no_trace,
    };
    Run { bytes: o.bytes.clone(), strides: o.strides.clone(), wakeup, ..Run::default() }
}

/// The options that say what to measure, as they would be typed.
pub fn words(requested: &Run) -> String {
    let list = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let options = [
        ("bytes", list(&requested.bytes)),
        ("strides", list(&requested.strides)),
        ("op", record::words(&requested.operations)),
        ("ladder", record::ladder_words(&requested.ladders)),
        ("colours", list(&requested.colours)),
        ("attributes", record::attribute_words(&requested.attributes)),
        ("rounds", if requested.rounds > 0 { requested.rounds.to_string() } else { String::new() }),
        ("substitute", if requested.flush { "flush".to_owned() } else { String::new() }),
    ];
    let flags = [
        ("first-touch", requested.first_touch),
        ("prefetch", requested.prefetch),
        ("replacement", requested.replacement),
        ("every-mair", requested.every_mair),
        ("walks", requested.walks),
    ];
    let given = options.iter().filter(|(_, value)| !value.is_empty());
    let given = given.map(|(option, value)| format!(" --{option} {value}"));
    given
        .chain(flags.iter().filter(|(_, on)| *on).map(|(flag, _)| format!(" --{flag}")))
        .chain([requested.dma.words(), requested.wakeup.words()])
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use fathom_probe::load::Stress;
    use fathom_probe::machine::dma::{Direction, Engine, Maintenance, Strategy};

    use super::*;
    use crate::cli::Cli;

    /// The schema knows no experiment, and the experiment no schema: here both can be seen.
    #[test]
    fn the_schema_lists_every_condition_factor_stressor_and_way_to_a_device() {
        use fathom_analysis::findings::words;
        use fathom_experiment::record::MOST_SERIES;
        use fathom_experiment::wakeup::conditions::{FACTORS, LOADS, NAMED};

        let named = NAMED.iter().map(|condition| condition.token.to_owned());
        let others = ["load-N", "timerlat", "imported-N"].map(str::to_owned);
        let all: Vec<String> = named.chain(others).collect();
        assert_eq!(words::CONDITION.values, all);
        for (stem, most) in [("load", LOADS as u64), ("imported", MOST_SERIES as u64)] {
            assert!(words::CONDITION.contains(&format!("{stem}-{most}")));
        }
        assert_eq!(words::STRATEGY.values, Strategy::ALL.iter().map(|s| s.token()).collect::<Vec<_>>());
        assert_eq!(words::DIRECTION.values, Direction::ALL.iter().map(|d| d.token()).collect::<Vec<_>>());
        let policies: Vec<&str> = Maintenance::ALL.iter().map(|m| m.token()).collect();
        assert_eq!(words::MAINTENANCE.values, policies);
        assert_eq!(words::ENGINE.values, Engine::ALL.iter().map(|e| e.token()).collect::<Vec<_>>());
        assert_eq!(words::FACTOR.values, FACTORS.map(|factor| factor.token()));
        assert_eq!(words::STRESS.values, Stress::ALL.iter().map(|stress| stress.token()).collect::<Vec<_>>());
    }

    /// A record's command line asks for what the record was asked for, whatever that was.
    #[test]
    fn what_was_asked_is_asked_again_by_its_own_words() {
        for line in [
            "survey --replacement",
            "latency --bytes 8192,1048576 --ladder order,prefetch",
            "stride --bytes 8192 --strides 8,64 --op read,rmw --first-touch --prefetch",
            "conflict --colours 1,4",
            "cacheability --bytes 320,2560 --op rmw,copy_to --attributes nc,device --rounds 7 --substitute flush \
             --every-mair --walks",
            "dma --strategy streaming-copy,coherent --direction from-device --bytes 64,1536 --link 18.67Mbit \
             --engine none --maintenance whole-cache --mistake no-unmap --victim 0 --substitute flush",
            "wakeup --conditions none,study-vm --like-stress --period 100us --priority 0 --no-trace",
            "wakeup --sweep --bytes 1048576,2097152 --strides 64,4096 --modes free,hang2",
        ] {
            let requested = |line: &str| {
                let cli = Cli::try_parse_from(["fathom"].into_iter().chain(line.split_whitespace()));
                of(&cli.expect("a command line").verb.expect("a verb")).expect("an experiment").run
            };
            let run = requested(line);
            let again = requested(&format!("{}{}", run.experiment, words(&run)));
            assert_eq!(again, run, "{line}");
            // Nothing that was asked is what is asked without it.
            let nothing = Run { experiment: run.experiment.clone(), ..Run::default() };
            assert_ne!(run, nothing, "{line}");
        }
    }
}
