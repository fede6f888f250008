//! Exit status and errors of the command.

use std::fmt;
use std::process::ExitCode;

use fathom_report::text::{visible, visible_styled};

/// Exit status of this program, from good to bad. It is never the status of a child: the verb decides how a child's
/// status affects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Everything done.
    Done,
    /// Failure.
    Failed,
    /// The command line or a file that it names is wrong.
    Usage,
    /// Done, but with low confidence: the report has a warning that lowers it, such as `disturbed`.
    LowConfidence,
    /// A comparison found a difference beyond the limit, or a check found a contradicted claim.
    Differs,
    /// Nothing could be measured: everything was refused.
    Refused,
    /// Ended by a signal with this number.
    Signal(i32),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::LowConfidence => 3,
            Exit::Differs => 4,
            Exit::Refused => 5,
            // As in shells.
            Exit::Signal(signal) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        })
    }
}

/// A failure with its exit status and remedy.
#[derive(Debug)]
pub struct Failure {
    /// Exit status.
    pub exit: Exit,
    /// Description: one sentence that names the file, line or flag.
    pub what: String,
    /// Remedy; may be empty.
    pub remedy: String,
}

impl Failure {
    /// Creates a failure of the work itself.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, what: what.into(), remedy: remedy.into() }
    }

    /// Creates a failure caused by the command line or an input file.
    pub fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, ..Failure::new(what, remedy) }
    }
}

/// Prints a message on stderr, after the program's name. Errors are ignored, because stderr may be closed.
pub fn print_message(what: &impl fmt::Display) {
    print(&format!("fathom: {}\n", visible(&what.to_string())));
}

/// Prints text that this program has styled, and in which nothing but styles acts on a terminal.
pub fn print_styled(text: &str) {
    print(&visible_styled(text));
}

fn print(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "\n  remedy: {}", self.remedy) }
    }
}
