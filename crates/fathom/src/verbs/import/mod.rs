//! `fathom import`: makes a record from the results of other tools.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use fathom_analysis::import::{self, ToolResult};
use fathom_experiment::record::{End, Imported, MAX_SERIES, Record, Run};
use fathom_experiment::{profile, wakeup};
use fathom_report::html::Entry;

use super::{Context, Verb, one_stdin};
use crate::cli::{Output, RecordOptions};
use crate::failure::{Exit, Failure};
use crate::html_file::{Target, same};
use crate::output::{all_told, one_form, shell};
use crate::record_writer::RecordWriter;
use crate::records;

mod perf_data;
mod samples;
mod traced;

/// Largest result, bytes: a histogram of a second in ns has some 12 MB.
const MAX_RESULT_BYTES: u64 = 64 << 20;

/// Options of the import.
#[derive(Debug, Args)]
struct Import {
    /// Output of cyclictest (--json, -h, -H, T: lines) or Xenomai's latency (-h, -s, -g); one may be `-`, stdin. Or one file of
    /// perf record.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Event whose samples are read from a file of perf, if several were sampled.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Prints the samples of a file of perf as lines of a record for the process with this number: run by this verb itself.
    #[arg(long, hide = true, value_name = "PID")]
    lines_for: Option<u32>,
    #[command(flatten)]
    output: RecordOptions,
    #[command(flatten)]
    out: Output,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Import>(
        "import",
        "Makes a record from results of cyclictest, Xenomai's latency or perf record, and reports it",
        "Examples:
  fathom import hist.txt                           cyclictest -q -h 400 > hist.txt
  fathom import user.txt kernel.txt irq.txt -o xenomai.fathom
  fathom import run.json --json | jq .findings
  fathom import perf.data --html profile.html      perf record --call-graph dwarf ./program
  fathom compare before.fathom after.fathom        records of two imports

Activations are reported like those of `wakeup`, samples like those of `profile`.

A histogram has no order of activations, so periodic causes and delayed stages cannot be determined. \
         It does not identify the clock either, so the clock trust is unknown. Exit status: as of the survey",
        run,
    )
}

/// Reads the files, makes a record, and judges it.
fn run(options: &Import, context: &Context) -> Result<Exit, Failure> {
    let out = &context.out.with_studies(options.out.study);
    one_form(options.out.json, options.out.html.as_deref())?;
    one_stdin(&options.files)?;
    if let Some(parent) = options.lines_for {
        return perf_data::print_lines(&options.files[0], options.event.as_deref(), parent);
    }
    let others = options.output.record.as_deref().into_iter().chain(super::read(&options.files));
    let mut page = Target::open(options.out.html.as_deref(), others)?;
    if let Some(file) =
        options.files.iter().find(|file| options.output.record.as_deref().is_some_and(|r| same(r, file)))
    {
        return Err(Failure::usage(
            format!("--record {}: refusing to overwrite an input file", file.display()),
            "name another file",
        ));
    }
    // All files are read before the record is written, so that an error leaves nothing.
    let (experiment, tool, lines) = match contents(options)? {
        Ok(contents) => contents,
        Err(exit) => return Ok(exit),
    };
    let (kept, lost) = keep(options, (experiment, &tool), &lines, page.as_mut())?;
    // The report is made from the record, like that of any other.
    let record = Record::parse(&lines.join("\n")).map_err(|e| Failure::new(e, ""))?;
    let report = records::judged(&record)?;
    let next = kept.map(|path| format!("fathom report {}", shell(&path)));
    let kind = crate::records::kind(&report.subject, &report)?;
    let status = out.report(&report, kind, &options.out, next.as_deref());
    let entry = Entry { name: &report.subject, report: &report, kind };
    let page = page.map_or(Ok(()), |page| page.write(&[entry], &[], out));
    all_told(status, [page, lost.map_or(Ok(()), Err)])
}

/// An experiment, the tool that the results are of, and the lines of their record; or the exit status of what has told why there are
/// none.
type Contents = Result<(&'static str, String, Vec<String>), Exit>;

/// Reads the files.
fn contents(options: &Import) -> Result<Contents, Failure> {
    if let Some(file) = options.files.iter().find(|file| perf_data::is_one(file)) {
        if options.files.len() > 1 {
            return Err(Failure::usage(
                format!("{}: a file of perf is imported alone", file.display()),
                "import one file at a time",
            ));
        }
        let lines = perf_data::lines(file, options.event.as_deref(), &command(options))?;
        return Ok(lines.map(|lines| (profile::NAME, "perf".to_owned(), lines)));
    }
    if options.event.is_some() {
        return Err(Failure::usage(
            "--event is for a file of perf record",
            "name one, or leave the option out",
        ));
    }
    let read = options.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let series: Vec<Imported> = read.iter().flat_map(|(name, result)| Imported::of(result, name)).collect();
    if series.len() > MAX_SERIES {
        return Err(Failure::usage(
            format!("the files have {} series; a record takes at most {MAX_SERIES}", series.len()),
            "import fewer files at a time, or fewer threads",
        ));
    }
    let tool = read.first().map(|(_, result)| result.tool.to_string()).unwrap_or_default();
    Ok(Ok((wakeup::NAME, tool, lines(options, &read, &series))))
}

/// Returns the command, as typed.
fn command(options: &Import) -> String {
    let files = options.files.iter().map(|file| format!(" {}", shell(&file.display().to_string())));
    let event = options.event.as_ref().map(|event| format!(" --event {}", shell(event))).unwrap_or_default();
    format!("fathom import{}{event}", files.collect::<String>())
}

/// Returns the result in a file, or on stdin for `-`, and the file's name without its directories.
fn read(file: &Path) -> Result<(String, ToolResult), Failure> {
    let shown = file.display();
    let stdin = file.as_os_str() == "-";
    let mut bytes = Vec::new();
    let from: std::io::Result<Box<dyn Read>> = if stdin {
        Ok(Box::new(std::io::stdin()))
    } else {
        std::fs::File::open(file).map(|f| Box::new(f) as _)
    };
    from.and_then(|from| from.take(MAX_RESULT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|e| Failure::usage(format!("{shown}: {e}"), "name a tool's result, or - for stdin"))?;
    if bytes.len() as u64 > MAX_RESULT_BYTES {
        let what = format!("{shown}: longer than {} MiB, the limit of a result", MAX_RESULT_BYTES >> 20);
        return Err(Failure::usage(what, "name a file written by cyclictest or latency"));
    }
    let result = import::read(&String::from_utf8_lossy(&bytes))
        .map_err(|e| Failure::usage(format!("{shown}: line {}: {}", e.line, e.what), e.help))?;
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    Ok((if stdin { "stdin".to_owned() } else { name }, result))
}

/// Returns the record's lines.
fn lines(options: &Import, read: &[(String, ToolResult)], series: &[Imported]) -> Vec<String> {
    let subjects: Vec<String> = read.iter().map(|(name, result)| format!("{} {name}", result.tool)).collect();
    let run = Run {
        experiment: wakeup::NAME.to_owned(),
        subject: short(&subjects.join(", ")),
        build: crate::build_id::id(),
        command: short(&command(options)),
        ..Run::default()
    };
    let series = series.iter().zip(1..).flat_map(|(series, number)| series.lines(number));
    let end = End { status: "complete".to_owned(), elapsed_ms: 0 };
    let all = [run.line()].into_iter().chain(series).chain([end.line()]);
    [Record::first_line()].into_iter().chain(all.map(|line| line.render())).collect()
}

/// Shortens a text so that two of them fit into a line in any encoding.
fn short(text: &str) -> String {
    const MAX_CHARACTERS: usize = 400;
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Writes the record. Returns the file to name, and the failure of the requested file, if any.
fn keep(
    options: &Import,
    (experiment, tool): (&str, &str),
    lines: &[String],
    page: Option<&mut Target>,
) -> Result<(Option<String>, Option<Failure>), Failure> {
    let mut writer =
        RecordWriter::open(options.output.requested(None), experiment, tool, &lines[..1], &|| false)?;
    if let Some(page) = page {
        page.exclude_files(writer.files()).inspect_err(|_| writer.remove_copy())?;
    }
    lines[1..].iter().for_each(|line| writer.line(line));
    let path = writer.path().map(|path| path.display().to_string());
    Ok((path, writer.close()))
}
