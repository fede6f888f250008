//! Parser of the user's `subjects.toml`. It depends on nothing else of the command, so that the fuzz targets can
//! include it unchanged.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A subject of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSubject {
    /// Name.
    pub name: String,
    /// Program and arguments; at least the program.
    pub command: Vec<String>,
    /// One-line description.
    pub about: String,
}

/// Error in the file.
#[derive(Debug)]
pub struct ConfigError {
    /// File, line and description.
    pub what: String,
    /// Remedy.
    pub remedy: &'static str,
}

/// An entry: `[NAME]` with `command = ["ssh", "pi", "fathom", "serve", "host"]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: Vec<String>,
    #[serde(default)]
    about: String,
}

/// Parses the text of the file whose name is `file`.
/// `is_taken` are names of this program.
pub fn parse(
    file: &str,
    text: &str,
    is_taken: impl Fn(&str) -> bool,
) -> Result<Vec<UserSubject>, ConfigError> {
    let table: BTreeMap<String, Entry> = toml::from_str(text).map_err(|e| ConfigError {
        what: format!("{file}: {}", e.to_string().trim_end()),
        remedy: "a subject is [NAME] with command = [\"ssh\", \"pi\", \"fathom\", \"serve\", \"host\"]",
    })?;
    table.into_iter().map(|(name, entry)| subject(file, name, entry, &is_taken)).collect()
}

fn subject(
    file: &str,
    name: String,
    entry: Entry,
    is_taken: impl Fn(&str) -> bool,
) -> Result<UserSubject, ConfigError> {
    if is_taken(&name) {
        let what = format!("{file}: '{name}' is the name of a subject of this program");
        return Err(ConfigError { what, remedy: "give it another name" });
    }
    let Entry { command, about } = entry;
    if command.first().is_none_or(String::is_empty) {
        let what = format!("{file}: subject '{name}' has an empty command");
        return Err(ConfigError { what, remedy: "give the program and its arguments" });
    }
    let about = if about.is_empty() { command.join(" ") } else { about };
    Ok(UserSubject { name, command, about })
}
