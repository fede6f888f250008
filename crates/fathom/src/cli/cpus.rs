//! CPUs to measure on: a number, or types of cores.

use fathom_host::CoreType;

use crate::failure::Failure;

/// Value of `--cpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// A CPU by its number.
    One(u32),
    /// Types, by their names.
    Types(Vec<String>),
}

impl Cpus {
    /// Returns the CPU, if it is known by its number.
    pub fn number(&self) -> Option<u32> {
        match self {
            Cpus::One(number) => Some(*number),
            Cpus::Types(_) => None,
        }
    }
}

impl std::fmt::Display for Cpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cpus::One(number) => write!(f, "{number}"),
            Cpus::Types(names) => f.write_str(&names.join(",")),
        }
    }
}

/// Parses a number or names separated by commas.
pub(super) fn cpus(text: &str) -> Result<Cpus, String> {
    if let Ok(number) = text.parse() {
        return Ok(Cpus::One(number));
    }
    let names: Vec<&str> = text.split(',').collect();
    let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase());
    if !names.iter().all(is_name) {
        return Err("expected the number of a CPU, or types of cores as in big,little".to_owned());
    }
    Ok(Cpus::Types(names.into_iter().map(str::to_owned).collect()))
}

/// Returns the types to measure, one after the other: those that are asked for, each once, else all. Nothing if the CPU is known by
/// its number, or if all are of one type.
pub fn types<'a>(asked: Option<&Cpus>, here: &'a [CoreType]) -> Result<Vec<&'a CoreType>, Failure> {
    let names = match asked {
        Some(Cpus::One(_)) => return Ok(Vec::new()),
        None => return Ok(here.iter().collect()),
        Some(Cpus::Types(names)) => names,
    };
    if let Some(unknown) = names.iter().find(|&name| here.iter().all(|one| one.name != *name)) {
        let each: Vec<String> = here.iter().map(|one| format!("{}: {}", one.name, one.list())).collect();
        let what = match here {
            [] => "all CPUs on which this process may run are of one type".to_owned(),
            _ => format!("there are {}", each.join("; ")),
        };
        return Err(Failure::usage(
            format!("--cpu {unknown}: {what}"),
            "leave --cpu out, or give a CPU's number",
        ));
    }
    Ok(here.iter().filter(|one| names.contains(&one.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Vec<CoreType> {
        let one =
            |name: &str, cpus: &[u32]| CoreType { name: name.into(), cpus: cpus.to_vec(), cpu: cpus[0] };
        vec![one("big", &[4, 5]), one("little", &[0, 1])]
    }

    #[test]
    fn cpus_are_numbers_or_types() {
        assert_eq!(cpus("3"), Ok(Cpus::One(3)));
        assert_eq!(cpus("big,little"), Ok(Cpus::Types(vec!["big".into(), "little".into()])));
        for bad in ["", "-1", "1,2", "big,", ",big", "Big", "99999999999"] {
            assert!(cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn types_are_all_or_those_asked_for() {
        let here = here();
        let names = |asked: Option<&str>| {
            let asked = asked.map(|text| cpus(text).expect("valid"));
            let found = types(asked.as_ref(), &here)?;
            Ok::<Vec<&str>, Failure>(found.into_iter().map(|one| one.name.as_str()).collect())
        };
        assert_eq!(names(None).expect("all"), ["big", "little"]);
        assert_eq!(names(Some("little,little")).expect("one"), ["little"]);
        assert_eq!(names(Some("4")).expect("a number"), [""; 0]);
        let why = names(Some("big,mid")).expect_err("no such type");
        assert!(why.what.contains("--cpu mid") && why.what.contains("big: 4,5; little: 0,1"), "{why:?}");
        assert_eq!(types(None, &[]).expect("one type"), [&here[0]; 0]);
        assert!(types(Some(&Cpus::Types(vec!["big".into()])), &[]).is_err());
    }
}
