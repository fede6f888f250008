//! Command lines of experiments, from their declared options, and the options of every session.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use fathom_experiment::options::{Asked, Many, Opt, Values, Word};
use fathom_experiment::{DefaultBudget, Experiment};

use super::Output;
use super::cpus::{Cpus, cpus};
use super::parse::{budget, wait};
use crate::failure::Failure;
use crate::record_writer::{Held, Requested};

/// Name of the option for the record to resume.
const RESUME: &str = "resume";

/// Adds the options of an experiment, and those of every session.
pub fn arguments(experiment: &'static Experiment, command: Command) -> Command {
    let command = command.args(experiment.options.iter().map(|option| argument(option)));
    let command = if experiment.resumes { command.arg(resume_argument(experiment)) } else { command };
    Output::augment_args(RunOptions::augment_args(command))
        .mut_arg("budget", |arg| arg.help(budget_help(experiment.default_budget)))
}

/// Returns the argument of an option.
fn argument(option: &'static Opt) -> Arg {
    let arg = Arg::new(option.name).long(option.name).help(option.help());
    let arg = option.requires.into_iter().fold(arg, Arg::requires);
    let arg = match (option.values, option.many) {
        (Values::Switch, _) => return arg.action(ArgAction::SetTrue),
        (_, Many::One) => arg.action(ArgAction::Set),
        (_, Many::List(_)) => arg.action(ArgAction::Append).value_delimiter(','),
        (_, Many::Repeated(_)) => arg.action(ArgAction::Append),
    };
    let arg = arg.value_name(option.value);
    let Values::Word(words) = option.values else {
        return arg.value_parser(|text: &str| option.values.read(text));
    };
    let possible = |word: &Word| {
        let value = PossibleValue::new(word.token).aliases(word.aliases.iter().copied());
        if word.help.is_empty() { value } else { value.help(word.help) }
    };
    let known = PossibleValuesParser::new(words().iter().map(possible));
    arg.value_parser(known.try_map(|word| option.values.read(&word)))
}

/// Returns the argument for resuming a record, which has its options.
fn resume_argument(experiment: &'static Experiment) -> Arg {
    Arg::new(RESUME)
        .long(RESUME)
        .value_name("RECORD")
        .value_parser(clap::value_parser!(PathBuf))
        .conflicts_with_all(experiment.options.iter().map(|option| option.name))
        .help(
            "Resume this interrupted record of a sweep or a run, with its options. The file itself is continued, unless --record names another one",
        )
}

/// Returns the help text of `--budget` for an experiment.
fn budget_help(default: DefaultBudget) -> String {
    let seconds = |ms: u64| format!("{}s", ms / 1000);
    let DefaultBudget { hardware_ms, modelled_ms } = default;
    let shown = if hardware_ms == modelled_ms {
        seconds(hardware_ms)
    } else {
        format!("{} on hardware, {} on a described machine", seconds(hardware_ms), seconds(modelled_ms))
    };
    format!(
        "Time to spend, e.g. 3s, 500ms, 2m. On a described machine it is converted to simulated accesses. Default: {shown}"
    )
}

/// Returns the selected options of an experiment.
pub fn selected(experiment: &Experiment, matches: &ArgMatches) -> Result<Asked, Failure> {
    experiment.options.iter().try_fold(Asked::default(), |asked, option| {
        if matches!(option.values, Values::Switch) {
            return Ok(if matches.get_flag(option.name) { asked.switched_on(option) } else { asked });
        }
        let values: Vec<&String> = matches.get_many(option.name).into_iter().flatten().collect();
        asked.with(option, &values).map_err(|why| Failure::usage(why, "reduce the request"))
    })
}

/// Returns the record to resume, if any.
pub fn resume<'a>(experiment: &Experiment, matches: &'a ArgMatches) -> Option<&'a Path> {
    let file = experiment.resumes.then(|| matches.get_one::<PathBuf>(RESUME));
    file.flatten().map(PathBuf::as_path)
}

/// Options of every session.
#[derive(Debug, Default, Args)]
pub struct RunOptions {
    /// What to measure: a subject of `fathom subjects`, a machine of `fathom machines`, or the file of a
    /// description. Default: this host.
    #[arg(long, value_name = "SUBJECT")]
    pub on: Option<String>,
    /// Time to spend. The help text is the experiment's.
    #[arg(long, value_parser = budget, value_name = "TIME")]
    pub budget: Option<u64>,
    /// Seed of orders and placements. Default: 1 on a described machine, else from the clock.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Repeat the session with each value of the machine's description that is assumed or from a study at both ends of
    /// its range, one at a time, and show for each finding the value on which it depends most. Only for described
    /// machines.
    #[arg(long)]
    pub sensitivity: bool,
    #[command(flatten)]
    pub output: RecordOptions,
    /// CPU to measure on, or types of cores (big, mid, little), each with a report of its own. Default: every type; of each
    /// an isolated CPU, else the last allowed.
    #[arg(long, value_parser = cpus, value_name = "N|TYPES")]
    pub cpu: Option<Cpus>,
    /// Time to wait for the end of another measurement on that CPU. Default: 30s
    #[arg(long, value_parser = wait, value_name = "TIME")]
    pub wait: Option<u64>,
    /// Maximum time without a line from the probe. A trial takes less than a second on hardware; the largest ones of a
    /// model compute for some ten seconds in an unoptimised build.
    #[arg(long, hide = true, default_value = "60s", value_parser = budget, value_name = "TIME")]
    pub patience: u64,
}

/// Options of every verb that makes a record.
#[derive(Clone, Debug, Default, Args)]
pub struct RecordOptions {
    /// Keep the record in this new file too (it is always kept in the user's data directory).
    #[arg(long, short = 'o', value_name = "FILE", value_parser = RecordFile)]
    pub record: Option<PathBuf>,
    /// Replace the file of `--record` if it exists.
    #[arg(long, requires = "record")]
    pub force: bool,
}

impl RecordOptions {
    /// Returns the file to write. `resumed` is that of the record to resume, with its lock.
    pub fn requested<'a>(&'a self, resumed: Option<(&'a Path, Option<Held>)>) -> Requested<'a> {
        match (&self.record, resumed) {
            (Some(file), _) if self.force => Requested::Replaced(file),
            (Some(file), _) => Requested::New(file),
            (None, Some((file, held))) => Requested::Resumed(file, held),
            (None, None) => Requested::Copy,
        }
    }
}

/// Parses the file of a record. Any file name is accepted except `-`, because stdout has the report.
#[derive(Clone, Debug)]
pub struct RecordFile;

impl TypedValueParser for RecordFile {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<PathBuf, clap::Error> {
        let file = clap::builder::PathBufValueParser::new().parse_ref(command, arg, value)?;
        if file.as_os_str() == "-" {
            let what = "--record -: stdout has the report; name a file (./- for one of that name)\n";
            return Err(command.clone().error(clap::error::ErrorKind::ValueValidation, what));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use fathom_experiment::{EXPERIMENTS, experiment};
    use fathom_probe::load::Stress;
    use fathom_probe::machine::dma::{Direction, Engine, Maintenance, Strategy};

    use super::*;

    /// The schema and the experiments do not depend on each other, so their lists are compared here.
    #[test]
    fn schema_lists_conditions_factors_stressors_and_routes() {
        use fathom_analysis::findings::tokens;
        use fathom_experiment::record::MAX_SERIES;
        use fathom_experiment::wakeup::conditions::{FACTORS, LOADS, NAMED};

        let named = NAMED.iter().map(|condition| condition.token.to_owned());
        let others = ["load-N", "timerlat", "imported-N"].map(str::to_owned);
        let all: Vec<String> = named.chain(others).collect();
        assert_eq!(tokens::CONDITION.values, all);
        for (stem, max) in [("load", LOADS as u64), ("imported", MAX_SERIES as u64)] {
            assert!(tokens::CONDITION.contains(&format!("{stem}-{max}")));
        }
        assert_eq!(tokens::STRATEGY.values, Strategy::ALL.iter().map(|s| s.token()).collect::<Vec<_>>());
        assert_eq!(tokens::DIRECTION.values, Direction::ALL.iter().map(|d| d.token()).collect::<Vec<_>>());
        let policies: Vec<&str> = Maintenance::ALL.iter().map(|m| m.token()).collect();
        assert_eq!(tokens::MAINTENANCE.values, policies);
        assert_eq!(tokens::ENGINE.values, Engine::ALL.iter().map(|e| e.token()).collect::<Vec<_>>());
        assert_eq!(tokens::FACTOR.values, FACTORS.map(|factor| factor.token()));
        assert_eq!(
            tokens::STRESS.values,
            Stress::ALL.iter().map(|stress| stress.token()).collect::<Vec<_>>()
        );
    }

    /// Returns an experiment with the options of a command line.
    fn requested(line: &[&str]) -> (&'static Experiment, Asked) {
        let experiment = experiment(line[0]).expect("an experiment");
        let command = arguments(experiment, Command::new(experiment.name));
        let matches = command.try_get_matches_from(line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        (experiment, selected(experiment, &matches).expect("options"))
    }

    /// The command line of a record selects the record's options.
    #[test]
    fn reproduce_command_round_trips_options() {
        let mut tried = Vec::new();
        for line in [
            "survey --replacement",
            "latency --bytes 8192,1048576 --ladder order,prefetch",
            "stride --bytes 8192 --strides 8,64 --op read,rmw --first-touch --prefetch",
            "conflict --colours 1,4",
            "cacheability --bytes 320,2560 --op rmw,copy_to --attributes nc,device --rounds 7 --substitute flush \
             --all-mair --page-walks",
            "dma --strategy streaming-copy,coherent --direction from-device --bytes 64,1536 --link 18.67Mbit \
             --engine none --maintenance whole-cache --driver-bug no-unmap --pollution-set 0 --substitute flush",
            "wakeup --conditions unloaded,stress-mix-vm --load cpu*2 --load vm:64M --like-stress --period 100us --priority 0 \
             --no-trace",
            "wakeup --sweep --bytes 1048576,2097152 --strides 64,4096 --modes free,hold2",
        ] {
            let (experiment, asked) = requested(&line.split_whitespace().collect::<Vec<_>>());
            // Split as a shell would. Only loads are quoted here, and none of them has a blank.
            let again = format!("{}{}", experiment.name, asked.command(experiment.options)).replace('\'', "");
            let (_, again) = requested(&again.split_whitespace().collect::<Vec<_>>());
            assert_eq!(again, asked, "{line}");
            assert_eq!(asked.check(experiment.options), Ok(()), "{line}");
            tried.extend(
                experiment.options.iter().filter(|o| asked.has(o)).map(|o| (experiment.name, o.name)),
            );
        }
        for experiment in EXPERIMENTS {
            for option in experiment.options {
                assert!(
                    tried.contains(&(experiment.name, option.name)),
                    "{} --{}",
                    experiment.name,
                    option.name
                );
            }
        }
    }
}
