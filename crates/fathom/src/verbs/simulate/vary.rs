//! Machines that differ from a described one in one or two values.

use super::machines::{Machine, few};
use crate::failure::Failure;

/// Values that are varied at once, at most: a table has two directions.
const MAX_VARIED: usize = 2;

/// A value of a description, and what it is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary {
    /// Its name, such as `l2.size`.
    path: String,
    /// Its values, as in a description; at least one.
    values: Vec<String>,
}

impl Vary {
    /// Reads `l2.size=0,256K,1M`.
    ///
    /// # Errors
    /// Another form, or a value twice.
    pub fn parse(text: &str) -> Result<Vary, String> {
        let example = "for example l2.size=0,256K,1M";
        let (path, values) = text.split_once('=').ok_or_else(|| format!("no values: {example}"))?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if path.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(format!("an empty name or value: {example}"));
        }
        if let Some(twice) = values.iter().enumerate().find(|(n, value)| values[..*n].contains(value)) {
            return Err(format!("the value {} twice", twice.1));
        }
        Ok(Vary { path: path.trim().to_owned(), values })
    }

    /// Returns the name of the value.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the number of its values.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns the option as it is typed.
    pub fn typed(&self) -> String {
        format!("{}={}", self.path, self.values.join(","))
    }
}

/// Returns each machine with each combination of values, the last one changing fastest. Each is named after its values:
/// `bcm2837,l2.size=1M`.
///
/// # Errors
/// More than two options or two for one value; a combination that is no possible machine; too many machines.
pub fn all(machines: Vec<Machine>, varied: &[Vary]) -> Result<Vec<Machine>, Failure> {
    if varied.len() > MAX_VARIED {
        return Err(Failure::usage("--vary more than twice", "vary one or two values at once"));
    }
    if let [one, other] = varied
        && one.path.eq_ignore_ascii_case(&other.path)
    {
        let what = format!("--vary {} twice", one.path);
        return Err(Failure::usage(what, "give all its values in one option"));
    }
    let count = varied.iter().try_fold(machines.len(), |all, vary| all.checked_mul(vary.values.len()));
    few(count.unwrap_or(usize::MAX))?;
    varied.iter().try_fold(machines, |machines, vary| {
        let each = machines.iter().flat_map(|machine| vary.values.iter().map(move |value| (machine, value)));
        each.map(|(machine, value)| with(machine, &vary.path, value)).collect()
    })
}

fn with(machine: &Machine, path: &str, value: &str) -> Result<Machine, Failure> {
    let wrong = |why| {
        Failure::usage(
            format!("--vary {why}"),
            format!("its values: fathom machines {}", machine.description.name),
        )
    };
    let description = machine.description.varied(path, value).map_err(wrong)?;
    let varied = match machine.varied.as_str() {
        "" => format!("{path}={value}"),
        before => format!("{before}, {path}={value}"),
    };
    let name = format!("{},{path}={value}", machine.name);
    Ok(Machine { name, base: machine.base.clone(), varied, description })
}

#[cfg(test)]
mod tests {
    use super::super::machines::named;
    use super::*;

    fn varied(options: &[&str]) -> Result<Vec<Machine>, Failure> {
        let options: Vec<Vary> = options.iter().map(|text| Vary::parse(text).unwrap()).collect();
        all(named(&["bcm2837".to_owned()]).unwrap(), &options)
    }

    #[test]
    fn combinations_are_machines_with_their_values() {
        let all = varied(&["l2.size=0,1M", "L1D.ways=2,8"]).unwrap();
        let names: Vec<&str> = all.iter().map(|machine| machine.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "bcm2837,l2.size=0,L1D.ways=2",
                "bcm2837,l2.size=0,L1D.ways=8",
                "bcm2837,l2.size=1M,L1D.ways=2",
                "bcm2837,l2.size=1M,L1D.ways=8",
            ]
        );
        assert_eq!(all[3].varied, "l2.size=1M, L1D.ways=8");
        let levels: Vec<usize> = all.iter().map(|machine| machine.description.levels.len()).collect();
        assert_eq!(levels, [2, 2, 3, 3]);
        assert_eq!(all[3].description.levels[0].ways, 8);
        assert_eq!(all[3].description.levels[2].size, 1 << 20);
    }

    #[test]
    fn impossible_options_are_refused() {
        for (text, why) in [
            ("l2.size", "no values"),
            ("=1", "empty name"),
            ("l2.size=1M,,2M", "empty name or value"),
            ("l2.size=1M,1M", "twice"),
        ] {
            assert!(Vary::parse(text).unwrap_err().contains(why), "{text}");
        }
        for (options, why) in [
            (vec!["l2.size=1000"], "is no possible machine"),
            (vec!["l3.size=1M"], "has no 'l3'"),
            (vec!["l2.size=1M", "L2.size=2M"], "twice"),
            (vec!["l2.size=1M", "L1D.ways=2", "L1I.ways=2"], "more than twice"),
        ] {
            assert!(varied(&options).unwrap_err().what.contains(why), "{options:?}");
        }
        let many: Vec<String> = (1..=300).map(|n| format!("{n} ns")).collect();
        let many = format!("memory.latency={}", many.join(","));
        assert!(varied(&[&many]).unwrap_err().what.contains("300 machines"));
    }
}
