//! Why the command ends, and with which status.

use std::fmt;
use std::process::ExitCode;

/// How this program ends, from good to bad. It is never the status of a child: what a child's status means for ours, its
/// verb says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Everything done.
    Done,
    /// It failed.
    Failed,
    /// The command line or a file that it names is wrong.
    Usage,
    /// Done below the quality bar: disturbed, or less certain than promised.
    LowConfidence,
    /// A comparison found a difference beyond what was allowed, or a check a claim that is contradicted.
    Differs,
    /// Nothing could be measured: everything was refused.
    Refused,
    /// A signal of this number asked for the end.
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
            // As shells say it.
            Exit::Signal(signal) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        })
    }
}

/// A failure with its exit status and what can be done about it.
#[derive(Debug)]
pub struct Failure {
    /// How the program ends for it.
    pub exit: Exit,
    /// What went wrong: one sentence that names the file, line or flag.
    pub what: String,
    /// What to do about it; may be empty.
    pub remedy: String,
}

impl Failure {
    /// A failure of the work itself.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, what: what.into(), remedy: remedy.into() }
    }

    /// A wrong command line or input file.
    pub fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, ..Failure::new(what, remedy) }
    }
}

/// Tells the user something on stderr, in one line that begins with the program's name. Nobody may be
/// listening there any more; that is no reason to end.
pub fn tell(what: &impl fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "fathom: {}", plain(&what.to_string()));
}

/// Text that no terminal obeys: what is reported may quote a subject, a file or its name.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' && c != '\t' { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "\n  try: {}", self.remedy) }
    }
}
