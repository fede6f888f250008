//! A record of the user's program: opened before it runs, filled while it does, judged and printed at the end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use fathom_experiment::record::{End, Record, Run};
use fathom_report::ReportKind;
use fathom_report::html::Entry;

use super::{Input, Runner, runner};
use crate::child::left;
use crate::cli::{Output, RecordOptions};
use crate::failure::{Exit, Failure, print_message};
use crate::html_file::Target;
use crate::measure::{self, stop::Stop};
use crate::output::{Out, all_told, one_form, shell, short};
use crate::record_writer::{RecordWriter, Requested};
use crate::records;

/// What is asked.
pub struct Asked<'a> {
    /// The kind of the report; its name is the experiment's.
    pub kind: &'static ReportKind,
    /// The program, and what becomes of its record.
    pub program: &'a ProgramOptions,
    /// The verb's own options, as typed.
    pub options: String,
    /// Whether the program runs once only.
    pub once: bool,
    /// The process that is observed, if it runs already: there is no command.
    pub process: Option<u32>,
}

/// Returns options as typed, those that have a value.
pub fn typed(options: impl Iterator<Item = (&'static str, Option<String>)>) -> String {
    let typed = options.filter_map(|(option, value)| Some(format!("{option} {}", value?)));
    typed.collect::<Vec<_>>().join(" ")
}

/// Options of every verb that runs a program on this machine.
#[derive(Clone, Debug, Args)]
pub struct ProgramOptions {
    /// The record.
    #[command(flatten)]
    pub output: RecordOptions,
    /// The report.
    #[command(flatten)]
    pub out: Output,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

impl Asked<'_> {
    /// Returns the program's name.
    pub fn name(&self) -> String {
        if let Some(process) = self.process {
            let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
            return short(name.as_deref().map_or("?", str::trim_end));
        }
        let path = Path::new(&self.program.command[0]);
        short(&path.file_name().unwrap_or(&self.program.command[0]).to_string_lossy())
    }

    fn head(&self) -> Run {
        let command: Vec<String> =
            self.program.command.iter().map(|word| shell(&word.to_string_lossy())).collect();
        let mut typed = vec![format!("fathom {}", self.kind.name), self.options.clone()];
        if !command.is_empty() {
            typed.push(format!("-- {}", command.join(" ")));
        }
        typed.retain(|part| !part.is_empty());
        Run {
            experiment: self.kind.name.to_owned(),
            subject: self.name(),
            build: crate::build_id::id(),
            command: short(&typed.join(" ")),
            ..Run::default()
        }
    }

    /// Returns the file of the program.
    ///
    /// # Errors
    /// There is none; with the remedy.
    pub fn file(&self) -> Result<PathBuf, Failure> {
        runner::find(&self.program.command[0])
    }

    /// Opens the record, has it filled by `work`, which runs the program, and reports it. `work` returns whether the program always
    /// ended with status 0. What it has added before a failure is reported too.
    pub fn record(
        &self,
        out: &Out,
        work: impl FnOnce(&mut Filling, &Runner) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        let begun = self.begin(out)?;
        runner::find(&self.program.command[0])?;
        let input = Input::take(self.once)?;
        let divert = begun.on_stdout;
        self.fill(begun, |filling, stop| {
            left::adopt();
            let stop = stop.clone();
            work(filling, &Runner { command: &self.program.command, divert, input, stop })
        })
    }

    /// The same of a process that runs already.
    pub fn observe(
        &self,
        out: &Out,
        work: impl FnOnce(&mut Filling, &Stop) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        self.fill(self.begin(out)?, work)
    }

    /// Checks where everything is to go.
    fn begin(&self, out: &Out) -> Result<Begun<'_>, Failure> {
        let form = &self.program.out;
        one_form(form.json, form.html.as_deref())?;
        let on_stdout = form.json || form.html.as_deref().is_some_and(|f| f.as_os_str() == "-");
        let out = if on_stdout { out.clone() } else { out.on_stderr() };
        let requested = self.program.output.requested(None);
        let page = Target::open(form.html.as_deref(), self.program.output.record.as_deref())?;
        requested.check()?;
        Ok(Begun { out, on_stdout, page, requested })
    }

    fn fill(
        &self,
        begun: Begun<'_>,
        work: impl FnOnce(&mut Filling, &Stop) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        let Begun { out, mut page, requested, .. } = begun;
        let stop = Stop::listen()?;
        let head = self.head();
        let name = head.subject.clone();
        let lines = [Record::first_line(), head.line().render()];
        let stopped = || stop.signal().is_some();
        let writer = RecordWriter::open(requested, self.kind.name, &name, &lines, &stopped)?;
        if let Some(page) = &mut page {
            page.exclude_files(writer.files()).inspect_err(|_| writer.remove_copy())?;
        }
        let (record, writer) = measure::begin_record(head, writer, stop.clone())?;
        let mut filling = Filling { record, writer, filled: false };
        let done = filling.fill(&stop, work);
        let Filling { record, writer, filled } = filling;
        if done.is_err() && !filled {
            writer.remove_copy();
            return done;
        }
        let report = records::judged(&record)?;
        let kept = writer.path().map(|path| path.display().to_string());
        let lost = writer.close();
        let next = kept.map(|file| format!("fathom report {}", shell(&file)));
        let exit = out.report(&report, self.kind, &self.program.out, next.as_deref());
        let exit = exit.and_then(|exit| Ok(exit.max(done?)));
        let entry = Entry { name: &name, report: &report, kind: self.kind };
        let page = page.map_or(Ok(()), |page| page.write(&[entry], &[], &out));
        let exit = all_told(exit, [page, lost.map_or(Ok(()), Err)]);
        stop.signal().map_or(exit, |signal| Ok(Exit::Signal(signal)))
    }
}

/// Where everything goes, checked.
struct Begun<'a> {
    out: Out,
    /// Whether stdout has the report.
    on_stdout: bool,
    page: Option<Target>,
    requested: Requested<'a>,
}

/// A record that is written while the program runs.
pub struct Filling {
    /// What it has so far: the facts of the machine.
    pub record: Record,
    writer: RecordWriter,
    /// Whether there is a result.
    filled: bool,
}

impl Filling {
    /// Adds a line.
    pub fn add(&mut self, line: &str) -> Result<(), Failure> {
        self.writer.line(line);
        self.record.push(line).map_err(|e| Failure::new(e, ""))
    }

    /// Adds the lines of a result. Whatever ends this process then, they are on the disk.
    pub fn add_result(&mut self, lines: impl IntoIterator<Item = String>) -> Result<(), Failure> {
        lines.into_iter().try_for_each(|line| self.add(&line))?;
        self.writer.sync();
        self.filled = true;
        Ok(())
    }

    fn fill(
        &mut self,
        stop: &Stop,
        work: impl FnOnce(&mut Filling, &Stop) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        let begin = Instant::now();
        let done = work(self, stop);
        let status = match (&done, stop.signal()) {
            (Err(_), _) => "failed",
            (Ok(_), Some(_)) => "interrupted",
            (Ok(_), None) => "complete",
        };
        let elapsed_ms = begin.elapsed().as_millis() as u64;
        self.add(&End { status: status.to_owned(), elapsed_ms }.line().render())?;
        if matches!(done, Ok(Exit::Failed)) {
            print_message(&"the program did not end with status 0: the report tells how");
        }
        done
    }
}
