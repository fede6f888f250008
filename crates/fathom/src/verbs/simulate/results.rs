//! The results of a simulation: records, reports, conditions.

use std::path::{Path, PathBuf};

use fathom_analysis::findings::Report;
use fathom_report::html::Entry;
use fathom_report::page::Page;

use super::machines::Machine;
use super::{Options, record, side_by_side};
use crate::cli::RecordOptions;
use crate::failure::{Exit, Failure, print_message};
use crate::html_file::Target;
use crate::output::{Out, shell};
use crate::record_writer::{RecordWriter, Requested};

/// Records that are named, at most.
const MAX_NAMED: usize = 4;

/// Returns the command that reports the records of several machines, or their directory if there are many.
fn next(kept: &[String]) -> String {
    match kept {
        [] => String::new(),
        few if few.len() <= MAX_NAMED => {
            let files: Vec<String> = few.iter().map(|file| shell(file)).collect();
            format!("\nNext: fathom report {}\n", files.join(" "))
        }
        [first, ..] => format!(
            "\nNext: fathom report {}, or another of the {} records beside it\n",
            shell(first),
            kept.len()
        ),
    }
}

/// The requested files of the records.
pub struct Files<'a> {
    options: &'a RecordOptions,
    /// One for each machine, if any is requested.
    files: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    pub fn of(options: &'a Options, machines: &[Machine]) -> Files<'a> {
        let several = machines.len() > 1;
        let file = |path: &PathBuf| machines.iter().map(|m| record::file(path, &m.name, several)).collect();
        Files {
            options: &options.output,
            files: options.output.record.as_ref().map(file).unwrap_or_default(),
        }
    }

    pub fn requested(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Returns the file of a machine.
    fn of_machine(&self, nth: usize) -> Requested<'_> {
        match self.files.get(nth) {
            Some(file) if self.options.force => Requested::Replaced(file),
            Some(file) => Requested::New(file),
            None => Requested::Copy,
        }
    }

    pub fn check(&self) -> Result<(), Failure> {
        for (nth, file) in self.files.iter().enumerate() {
            if self.files[..nth].contains(file) {
                let what = format!("--record {}: two machines would have the same file", file.display());
                return Err(Failure::usage(what, "simulate them one after the other"));
            }
            self.of_machine(nth).check()?;
        }
        Ok(())
    }
}

/// What is told of all machines.
pub struct Results<'a> {
    pub options: &'a Options,
    pub out: &'a Out,
    pub machines: &'a [Machine],
    /// Name, report and record of each machine.
    pub judged: Vec<(&'a str, Report, Vec<String>)>,
    pub page: Option<Target>,
    /// What each machine costs, if that is given.
    pub costs: Vec<Option<f64>>,
}

impl Results<'_> {
    fn entries(&self) -> Vec<Entry<'_>> {
        self.judged
            .iter()
            .map(|(name, report, _)| Entry { name, report, kind: self.options.kind() })
            .collect()
    }

    /// Returns what is shown of several machines.
    ///
    /// # Errors
    /// A machine has no count of `--best-of`.
    fn side_by_side(&self) -> Result<Page, Failure> {
        let reports: Vec<&Report> = self.judged.iter().map(|(_, report, _)| report).collect();
        let mut page = side_by_side::page(self.machines, &reports, *self.out.style());
        if let Some(of) = &self.options.best_of {
            side_by_side::best(self.machines, &reports, of, &self.costs, &mut page)?;
        }
        Ok(page)
    }

    /// Writes the page.
    pub fn write(&self, page: Target) -> Result<(), Failure> {
        let several = self.judged.len() > 1;
        let together = if several { self.side_by_side()?.blocks() } else { Vec::new() };
        page.write_together(&self.entries(), &[], &together, self.out)
    }

    /// Writes the records. Returns their files, and the failure of a requested one.
    pub fn keep(&mut self, files: &Files) -> (Vec<String>, Option<Failure>) {
        let (mut kept, mut lost) = (Vec::new(), None);
        for (nth, (_, report, lines)) in self.judged.iter().enumerate() {
            match RecordWriter::open(
                files.of_machine(nth),
                self.options.kind().name,
                &report.subject,
                &lines[..1],
                &|| false,
            ) {
                Ok(mut writer) => {
                    lines[1..].iter().for_each(|line| writer.line(line));
                    kept.extend(writer.path().map(|path| path.display().to_string()));
                    let page = self.page.as_mut().map_or(Ok(()), |page| page.exclude_files(writer.files()));
                    lost = writer.close().or(page.err()).or(lost);
                }
                Err(failure) => lost = Some(failure),
            }
        }
        (kept, lost)
    }

    /// Prints the report of one machine, or several side by side. Returns the worst exit status.
    pub fn tell(&self, kept: &[String]) -> Result<Exit, Failure> {
        let form = &self.options.out;
        if let [(_, report, _)] = self.judged.as_slice() {
            let next = kept.first().map(|file| format!("fathom report {}", shell(file)));
            return self.out.report(report, self.options.kind(), form, next.as_deref());
        }
        let reports: Vec<&Report> = self.judged.iter().map(|(_, report, _)| report).collect();
        if form.json {
            let all: Vec<String> =
                reports.iter().map(|report| fathom_report::json(report, self.options.kind())).collect();
            let all: Vec<&str> = all.iter().map(|text| text.trim_end()).collect();
            self.out.text(&format!("[\n{}\n]\n", all.join(",\n")))?;
        } else if form.html.as_deref().is_none_or(|file| file.as_os_str() != "-") {
            self.out.text(&self.side_by_side()?.finish())?;
            self.out.text(&next(kept))?;
        }
        Ok(reports.iter().map(|report| crate::output::status(report)).max().unwrap_or(Exit::Done))
    }

    /// Tells which conditions hold.
    pub fn limits(&self) -> Result<Exit, Failure> {
        let mut exit = Exit::Done;
        for (name, report, _) in &self.judged {
            for limit in &self.options.fail_if {
                let wrong = |why| Failure::usage(format!("--fail-if {why} ({name})"), "");
                let (value, beyond) = limit.check(report).map_err(wrong)?;
                if beyond {
                    let shown = fathom_report::number::shown(value, None, None).value;
                    let unit = if limit.quantity.text.trim_end().ends_with('%') { " %" } else { "" };
                    print_message(&format!(
                        "--fail-if '{}' holds on {name}: it is {shown}{unit}",
                        limit.quantity.text
                    ));
                    exit = Exit::Differs;
                }
            }
        }
        Ok(exit)
    }
}
