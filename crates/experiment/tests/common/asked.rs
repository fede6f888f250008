//! Options of an experiment, parsed from text.

use fathom_experiment::options::{Asked, Many, Opt};

/// Parses options, given by name and values. Values of a list are separated by commas, repeated values by `;`; a switch
/// has no value.
pub fn asked(options: &[&Opt], typed: &[(&str, &str)]) -> Asked {
    typed.iter().fold(Asked::default(), |asked, (name, text)| {
        let option = options.iter().find(|o| o.name == *name).unwrap_or_else(|| panic!("no --{name}"));
        let between = if matches!(option.many, Many::Repeated(_)) { ';' } else { ',' };
        if option.value.is_empty() {
            return asked.switched_on(option);
        }
        let values: Vec<&str> = text.split(between).filter(|value| !value.is_empty()).collect();
        asked.with(option, &values).unwrap_or_else(|e| panic!("{e}"))
    })
}
