//! Why the command ends, and with which status.

use std::fmt;

/// Everything done.
pub const DONE: u8 = 0;
/// It failed.
pub const FAILED: u8 = 1;
/// The command line or a file that it names is wrong.
pub const USAGE: u8 = 2;
/// Done below the quality bar: disturbed, or less certain than promised.
pub const BELOW_THE_BAR: u8 = 3;
/// A comparison found a difference beyond what was allowed, or a check a claim that is contradicted.
pub const DIFFERS: u8 = 4;
/// Nothing could be measured: everything was refused.
pub const REFUSED: u8 = 5;

/// A failure with its exit status and what can be done about it.
#[derive(Debug)]
pub struct Failure {
    /// Exit status.
    pub status: u8,
    /// What went wrong: one sentence that names the file, line or flag.
    pub what: String,
    /// What to do about it; may be empty.
    pub remedy: String,
}

impl Failure {
    /// A failure of the work itself.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { status: FAILED, what: what.into(), remedy: remedy.into() }
    }

    /// A wrong command line or input file.
    pub fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { status: USAGE, ..Failure::new(what, remedy) }
    }
}

/// Tells the user something on stderr, in one line that begins with the program's name. Nobody may be
/// listening there any more; that is no reason to end.
pub fn tell(what: &impl fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "fathom: {}", plain(&what.to_string()));
}

/// Text that no terminal obeys: what is told may quote a subject, a file or its name.
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
