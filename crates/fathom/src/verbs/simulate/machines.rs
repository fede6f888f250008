//! The described machines that a program is simulated on.

use fathom_analysis::findings::Report;
use fathom_model::Description;
use fathom_units::facts;

use crate::failure::{Failure, print_message};
use crate::verbs::describe::drafted;
use crate::{records, subjects};

/// Machines of one run, at most. Each has its caches in memory, and answers every access.
const MAX_MACHINES: usize = 256;

/// A machine with the name under which it is reported.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Name.
    pub name: String,
    /// Name of the described machine of which it is a variant, or its own.
    pub base: String,
    /// The varied values, as `l2.size=1M, L1D.ways=2`; empty for a machine as it is described.
    pub varied: String,
    /// Description.
    pub description: Description,
}

impl Machine {
    fn described(name: &str, description: Description) -> Machine {
        Machine { name: name.to_owned(), base: name.to_owned(), varied: String::new(), description }
    }
}

/// Returns the named machines; without names that of this host, drafted from the newest survey that is kept.
///
/// # Errors
/// An unknown name, or no survey of this host.
pub fn named(names: &[String]) -> Result<Vec<Machine>, Failure> {
    if names.is_empty() {
        return Ok(vec![this_host()?]);
    }
    let mut all: Vec<Machine> = Vec::new();
    for name in names {
        if all.iter().any(|machine| machine.name == *name) {
            return Err(Failure::usage(format!("--on names '{name}' twice"), "name each machine once"));
        }
        all.push(Machine::described(name, subjects::description(name)?));
    }
    few(all.len())?;
    Ok(all)
}

/// Checks the number of machines.
///
/// # Errors
/// Too many.
pub fn few(count: usize) -> Result<(), Failure> {
    if count > MAX_MACHINES {
        let what = format!("{count} machines: at most {MAX_MACHINES} are simulated in one run");
        return Err(Failure::usage(what, "name fewer, or run it several times"));
    }
    Ok(())
}

/// Returns the machine that describes this host.
fn this_host() -> Result<Machine, Failure> {
    for (path, record) in records::surveys_of_host() {
        let shown = path.display();
        let cores = record.text(facts::CPU_TYPE).map_or(String::new(), |name| format!(" ({name} cores)"));
        let name = format!("this host{cores}, drafted from {shown}");
        let report: Report = records::judged(&record)?;
        let Ok(text) = drafted(&report, "") else { continue };
        let description = Description::parse(subjects::HOST, &text)
            .map_err(|e| Failure::new(e.to_string(), "name a machine: --on NAME"))?;
        print_message(&format!("simulated on {name} (`fathom describe`)"));
        return Ok(Machine::described(subjects::HOST, description));
    }
    Err(Failure::usage(
        "no machine is named, and no survey of this host is kept from which one could be drafted",
        "name one of `fathom machines` (--on bcm2837), or make one of this host: fathom survey",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_named_once() {
        let names = |list: &[&str]| named(&list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["zen3", "bcm2835"]).unwrap().len(), 2);
        assert!(names(&["zen3", "zen3"]).unwrap_err().what.contains("twice"));
        assert!(names(&["bcm2387"]).unwrap_err().remedy.contains("did you mean"));
        assert!(few(MAX_MACHINES + 1).unwrap_err().what.contains("257 machines"));
    }
}
