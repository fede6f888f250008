//! What an experiment is asked: from the options of its verb, and as they would be typed again.

use std::path::Path;

use fathom_experiment::record::{self, Run};
use fathom_experiment::session::Plan;
use fathom_experiment::{cacheability, conflict, dma, latency, pressure, stride, survey};

use crate::cli::{Dma, Output, Pressure, RunOptions, StandIn, Verb};

/// An experiment that is asked for: what is to be measured, by which plan, how, and in which form it leaves.
pub struct Asked<'a> {
    pub run: Run,
    pub plan: Plan,
    pub options: &'a RunOptions,
    pub form: &'a Output,
    /// The record that is gone on with.
    pub resume: Option<&'a Path>,
}

/// What a verb asks, where it is one that measures.
pub fn of(verb: &Verb) -> Option<Asked<'_>> {
    let (name, plan, options, form, run): (&str, Plan, _, _, _) = match verb {
        Verb::Survey(o) => {
            (survey::NAME, survey::plan, &o.run, &o.out, Run { deep: o.deep, ..Run::default() })
        }
        Verb::Latency(o) => {
            let run = Run { bytes: o.bytes.clone(), ladders: o.ladder.clone(), ..Run::default() };
            (latency::NAME, latency::plan, &o.run, &o.out, run)
        }
        Verb::Stride(o) => {
            let run = Run {
                bytes: o.bytes.clone(),
                steps: o.steps.clone(),
                operations: o.op.clone(),
                unfaulted: o.unfaulted,
                prefetch: o.ladder,
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
                flush: o.stand_in == Some(StandIn::Flush),
                every_mair: o.every_mair,
                walks: o.walks,
                ..Run::default()
            };
            (cacheability::NAME, cacheability::plan, &o.run, &o.out, run)
        }
        Verb::Dma(o) => (dma::NAME, dma::plan, &o.run, &o.out, of_transfers(o)),
        Verb::Pressure(o) => (pressure::NAME, pressure::plan, &o.run, &o.out, of_pressure(o)),
        _ => return None,
    };
    let resume = match verb {
        Verb::Pressure(o) => o.resume.as_deref(),
        _ => None,
    };
    Some(Asked { run: Run { experiment: name.into(), ..run }, plan, options, form, resume })
}

fn of_transfers(o: &Dma) -> Run {
    let dma = dma::asked::Asked {
        strategies: o.strategy.clone(),
        directions: o.direction.clone(),
        link_bits: o.link.unwrap_or(0),
        engine: o.engine,
        maintenance: o.maintenance,
        mistake: o.mistake,
        victim: o.victim,
    };
    let flush = o.stand_in == Some(StandIn::Flush);
    Run { bytes: o.bytes.clone(), flush, dma, ..Run::default() }
}

fn of_pressure(o: &Pressure) -> Run {
    let pressure = pressure::asked::Asked {
        conditions: o.conditions.clone(),
        loads: o.load.clone(),
        like_stress: o.like_stress,
        sweep: o.sweep,
        keeps: o.modes.clone(),
        every_ns: o.period.unwrap_or(0),
        priority: o.priority,
        untraced: o.no_trace,
    };
    Run { bytes: o.bytes.clone(), steps: o.strides.clone(), pressure, ..Run::default() }
}

/// The options that say what to measure, as they would be typed.
pub fn words(asked: &Run) -> String {
    let list = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let options = [
        ("bytes", list(&asked.bytes)),
        (if asked.experiment == pressure::NAME { "strides" } else { "steps" }, list(&asked.steps)),
        ("op", record::words(&asked.operations)),
        ("ladder", record::ladder_words(&asked.ladders)),
        ("colours", list(&asked.colours)),
        ("attributes", record::attribute_words(&asked.attributes)),
        ("rounds", if asked.rounds > 0 { asked.rounds.to_string() } else { String::new() }),
        ("stand-in", if asked.flush { "flush".to_owned() } else { String::new() }),
    ];
    let flags = [
        ("unfaulted", asked.unfaulted),
        ("ladder", asked.prefetch),
        ("deep", asked.deep),
        ("every-mair", asked.every_mair),
        ("walks", asked.walks),
    ];
    let given = options.iter().filter(|(_, value)| !value.is_empty());
    let given = given.map(|(option, value)| format!(" --{option} {value}"));
    given
        .chain(flags.iter().filter(|(_, on)| *on).map(|(flag, _)| format!(" --{flag}")))
        .chain([asked.dma.words(), asked.pressure.words()])
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use fathom_probe::load::Stress;
    use fathom_probe::transfer::{Direction, Engine, Strategy};

    use super::*;
    use crate::cli::Cli;

    /// The schema knows no experiment, and the experiment no schema: here both can be seen.
    #[test]
    fn the_schema_lists_every_condition_factor_stressor_and_way_to_a_device() {
        use fathom_experiment::pressure::conditions::{FACTORS, LOADS, NAMED};
        use fathom_experiment::record::MOST_SERIES;
        use fathom_report::schema::values;

        let named = NAMED.iter().map(|condition| condition.token.to_owned());
        let loads = (1..=LOADS).map(|nth| format!("load-{nth}"));
        let imported = (1..=MOST_SERIES).map(|nth| format!("imported-{nth}"));
        let all: Vec<String> = named.chain(loads).chain(["timerlat".to_owned()]).chain(imported).collect();
        assert_eq!(values("CONDITION"), all);
        assert_eq!(values("STRATEGY"), Strategy::ALL.iter().map(|s| s.token()).collect::<Vec<_>>());
        assert_eq!(values("DIRECTION"), Direction::ALL.iter().map(|d| d.token()).collect::<Vec<_>>());
        assert_eq!(values("ENGINE"), Engine::ALL.iter().map(|e| e.token()).collect::<Vec<_>>());
        assert_eq!(values("FACTOR"), FACTORS.map(|factor| factor.token()));
        assert_eq!(values("STRESS"), Stress::ALL.iter().map(|stress| stress.token()).collect::<Vec<_>>());
    }

    /// A record's command line asks for what the record was asked for, whatever that was.
    #[test]
    fn what_was_asked_is_asked_again_by_its_own_words() {
        for line in [
            "survey --deep",
            "latency --bytes 8192,1048576 --ladder order,prefetch",
            "stride --bytes 8192 --steps 8,64 --op read,rmw --unfaulted --ladder",
            "conflict --colours 1,4",
            "cacheability --bytes 320,2560 --op rmw,copy_to --attributes nc,device --rounds 7 --stand-in flush \
             --every-mair --walks",
            "dma --strategy streaming-copy,coherent --direction from-device --bytes 64,1536 --link 18.67Mbit \
             --engine none --maintenance whole-cache --mistake no-unmap --victim 0 --stand-in flush",
            "pressure --conditions none,study-vm --like-stress --period 100us --priority 0 --no-trace",
            "pressure --sweep --bytes 1048576,2097152 --strides 64,4096 --modes free,hang2",
        ] {
            let asked = |line: &str| {
                let cli = Cli::try_parse_from(["fathom"].into_iter().chain(line.split_whitespace()));
                of(&cli.expect("a command line").verb.expect("a verb")).expect("an experiment").run
            };
            let run = asked(line);
            let again = asked(&format!("{}{}", run.experiment, words(&run)));
            assert_eq!(again, run, "{line}");
            // Nothing that was asked is what is asked without it.
            let nothing = Run { experiment: run.experiment.clone(), ..Run::default() };
            assert_ne!(run, nothing, "{line}");
        }
    }
}
