//! Sessions that request only facts.

use std::time::Instant;

use fathom_experiment::record::{Record, Run};
use fathom_experiment::session::Session;

use super::stop::Stop;
use super::{Exchange, Outcome, arguments, find, patience};
use crate::child::Probe;
use crate::cli::cpus::Cpus;
use crate::cli::experiments::RunOptions;
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::record_writer::RecordWriter;
use crate::subjects::Subject;

/// Maximum time without a line from the probe, ms.
const PATIENCE_MS: u64 = 60_000;

/// Requests only the facts of a subject, those of the start and those of the end. No record is kept.
pub fn facts(on: Option<&str>, cpu: Option<u32>) -> Result<(Subject, Record), Failure> {
    let options = RunOptions {
        on: on.map(str::to_owned),
        cpu: cpu.map(Cpus::One),
        patience: PATIENCE_MS,
        ..RunOptions::default()
    };
    facts_of(find(&options)?, &options)
}

/// The same for a subject that is known.
pub(super) fn facts_of(subject: Subject, options: &RunOptions) -> Result<(Subject, Record), Failure> {
    let run = Run { experiment: "doctor".into(), subject: subject.name.clone(), ..Run::default() };
    let exchange = exchange(subject, options, run, RecordWriter::default(), Stop::listen()?)?;
    Ok((exchange.subject, exchange.session.record))
}

/// Writes the facts of this host to a record of which `writer` has the head. What is done here then follows them.
pub fn begin_record(run: Run, writer: RecordWriter, stop: Stop) -> Result<(Record, RecordWriter), Failure> {
    let options = RunOptions { patience: PATIENCE_MS, ..RunOptions::default() };
    let subject = find(&options).inspect_err(|_| writer.remove_copy())?;
    let exchange = exchange(subject, &options, run, writer, stop)?;
    Ok((exchange.session.record, exchange.writer))
}

fn exchange(
    subject: Subject,
    options: &RunOptions,
    run: Run,
    writer: RecordWriter,
    stop: Stop,
) -> Result<Exchange, Failure> {
    let patience = patience(options);
    let probe = Probe::start(&subject, &arguments(&subject, options, 1));
    let probe = probe.inspect_err(|_| writer.remove_copy())?;
    let session = Session::new(|_, _, _| Vec::new(), run);
    let progress = Progress::new(true, Instant::now(), None);
    let mut exchange =
        Exchange { writer, ..Exchange::new(session, probe, subject, stop, progress, patience) };
    let failure = match exchange.run() {
        Outcome::Complete => return Ok(exchange),
        Outcome::Failed(failure) => failure,
        Outcome::Stopped(signal) => Failure { exit: Exit::Signal(signal), ..Failure::new("interrupted", "") },
    };
    exchange.writer.remove_copy();
    Err(failure)
}
