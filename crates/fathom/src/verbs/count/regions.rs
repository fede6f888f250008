//! Regions that the program marks: counted by its own marks, in runs of their own.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use fathom_experiment::record::{AskedRegions, MAX_REGIONS, ProgramRun};
use fathom_host::ProgramEvent;
use fathom_simulation::MarkedFile;

use super::run_of;
use crate::failure::Failure;
use crate::program::Runner;
use crate::program::marks::{MAX_NAME, Marks, VARIABLE};

/// What to do about a program without marks that count.
const BUILD: &str = "mark regions with include/fathom.h and build the program without FATHOM_MARKS_ONLY, or with the crate fathom-mark and its \
                     feature count";

/// Options about regions.
#[derive(Debug, Args)]
pub struct RegionOptions {
    /// Count this region too, which the program marks with FATHOM_BEGIN(NAME) and FATHOM_END(NAME); several times for several. The
    /// program also runs with each set of events counted between marks.
    #[arg(long = "region", value_name = "NAME", value_parser = name, conflicts_with_all = ["every", "process"])]
    names: Vec<String>,
    /// Count each region that the program and its libraries mark.
    #[arg(long = "regions", conflicts_with_all = ["names", "every", "process"])]
    all: bool,
}

/// Parses the name of a region.
fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > MAX_NAME || text.contains(char::is_control) {
        return Err(format!("must be the name of a region, of {MAX_NAME} bytes at most"));
    }
    Ok(text.to_owned())
}

impl RegionOptions {
    /// Returns the regions that are asked, if any are.
    ///
    /// # Errors
    /// There are too many.
    pub fn asked(&self) -> Result<Option<AskedRegions>, Failure> {
        let mut names: Vec<String> = Vec::new();
        for name in &self.names {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        if names.len() >= MAX_REGIONS {
            let most = MAX_REGIONS - 1;
            return Err(Failure::usage(format!("more than {most} regions"), "count them in several calls"));
        }
        Ok((self.all || !names.is_empty()).then_some(AskedRegions { all: self.all, names }))
    }

    /// Returns the options as typed.
    pub fn typed(&self) -> impl Iterator<Item = (&'static str, Option<String>)> {
        self.names.iter().map(|name| ("--region", Some(crate::output::shell(name))))
    }

    /// Returns whether all regions are asked.
    pub fn all(&self) -> bool {
        self.all
    }
}

/// Checks before the first run what the program's file tells. Its libraries and what it starts may have marks, too.
///
/// # Errors
/// It has no such marks; with the remedy.
pub fn check(asked: &AskedRegions, file: &Path) -> Result<(), Failure> {
    let Some(marked) = MarkedFile::of(file) else { return Ok(()) };
    let shown = file.display();
    let listed = || marked.regions.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    if marked.regions.is_empty() {
        return if marked.is_dynamic {
            Ok(())
        } else {
            Err(Failure::usage(format!("{shown} marks no regions"), BUILD))
        };
    }
    if !marked.counted {
        let what = format!("the marks of {shown} ({}) are for fathom simulate only", listed());
        return Err(Failure::usage(what, BUILD));
    }
    let missing = asked.names.iter().find(|name| !marked.is_dynamic && !marked.regions.contains(*name));
    missing.map_or(Ok(()), |name| {
        Err(Failure::usage(format!("{shown} marks no region '{name}'"), format!("it marks {}", listed())))
    })
}

/// Runs the program once with its marks counting the events of a set, given with its number, or only reading the clock.
pub fn marked_run(
    runner: &Runner,
    asked: &AskedRegions,
    set: Option<(usize, &[ProgramEvent])>,
) -> Result<ProgramRun, Failure> {
    let failed = |e: std::io::Error| {
        Failure::new(
            format!("the memory in which marks count cannot be used: {e}"),
            "it needs Linux 3.17, and a limit on the size of files (ulimit -f) of 64 MiB at least",
        )
    };
    let marks = Marks::create(set.map_or(&[][..], |(_, events)| events), asked).map_err(failed)?;
    let ended = runner.run_in(&[(VARIABLE, marks.variable())], &mut || Duration::MAX)?;
    let counted = marks.read(ended.wall).map_err(failed)?;
    let run = run_of(&ended, set.map(|(nth, _)| nth), &[]);
    Ok(ProgramRun { in_regions: true, counted_us: None, marks: Some(counted), ..run })
}

/// Checks that something has counted.
///
/// # Errors
/// No marks have; with the remedy.
pub fn check_run(run: &ProgramRun, name: &str) -> Result<(), Failure> {
    if run.marks.as_ref().is_none_or(|marks| marks.attached > 0) {
        return Ok(());
    }
    let what =
        format!("neither {name} nor a library or program that it loads or starts has marks that count");
    Err(Failure::new(what, BUILD))
}
