//! `fathom import`: makes a record from the results of other tools.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use fathom_analysis::import::{self, ToolResult};
use fathom_experiment::record::{End, Imported, MAX_SERIES, Record, Run};
use fathom_experiment::wakeup;
use fathom_report::html::Entry;

use super::{Context, Verb, one_stdin};
use crate::cli::{Output, RecordOptions};
use crate::failure::{Exit, Failure};
use crate::html_file::{Target, same};
use crate::output::{all_told, one_form, shell};
use crate::record_writer::RecordWriter;
use crate::records;

/// Largest result, bytes: a histogram of a second in ns has some 12 MB.
const MAX_RESULT_BYTES: u64 = 64 << 20;

/// Options of the import.
#[derive(Debug, Args)]
struct Import {
    /// Output of cyclictest (--json, -h, -H, T: lines) or Xenomai's latency (-h, -s, -g); one may be `-`, stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: RecordOptions,
    #[command(flatten)]
    out: Output,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Import>(
        "import",
        "Makes a record from results of cyclictest or Xenomai's latency, and reports it like `wakeup`",
        "Examples:
  fathom import hist.txt                           cyclictest -q -h 400 > hist.txt
  fathom import user.txt kernel.txt irq.txt -o xenomai.fathom
  fathom import run.json --json | jq .findings
  fathom compare before.fathom after.fathom        records of two imports

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
    let others = options.output.record.as_deref().into_iter().chain(super::read(&options.files));
    let mut page = Target::open(options.out.html.as_deref(), others)?;
    // All files are read before the record is written, so that an error leaves nothing.
    let read = options.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let series: Vec<Imported> = read.iter().flat_map(|(name, result)| Imported::of(result, name)).collect();
    if series.len() > MAX_SERIES {
        return Err(Failure::usage(
            format!("the files have {} series; a record takes at most {MAX_SERIES}", series.len()),
            "import fewer files at a time, or fewer threads",
        ));
    }
    if let Some(file) =
        options.files.iter().find(|file| options.output.record.as_deref().is_some_and(|r| same(r, file)))
    {
        return Err(Failure::usage(
            format!("--record {}: refusing to overwrite an input file", file.display()),
            "name another file",
        ));
    }
    let lines = lines(options, &read, &series);
    let (kept, lost) = keep(options, &read, &lines, page.as_mut())?;
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
    let files = options.files.iter().map(|file| format!(" {}", shell(&file.display().to_string())));
    let run = Run {
        experiment: wakeup::NAME.to_owned(),
        subject: short(&subjects.join(", ")),
        build: crate::build_id::id(),
        command: short(&format!("fathom import{}", files.collect::<String>())),
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
    read: &[(String, ToolResult)],
    lines: &[String],
    page: Option<&mut Target>,
) -> Result<(Option<String>, Option<Failure>), Failure> {
    let tool = read.first().map_or("", |(_, result)| result.tool.as_str());
    let mut writer =
        RecordWriter::open(options.output.requested(None), wakeup::NAME, tool, &lines[..1], &|| false)?;
    if let Some(page) = page {
        page.exclude_files(writer.files()).inspect_err(|_| writer.remove_copy())?;
    }
    lines[1..].iter().for_each(|line| writer.line(line));
    let path = writer.path().map(|path| path.display().to_string());
    Ok((path, writer.close()))
}
