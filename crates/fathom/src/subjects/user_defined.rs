//! The user's `subjects.toml`: text in, subjects or what is wrong with it out. It knows no file and nothing
//! else of the command, so that the fuzz targets can include it as it is.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One subject of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSubject {
    /// Its name.
    pub name: String,
    /// Program and arguments, at least the program.
    pub command: Vec<String>,
    /// One line for the list.
    pub about: String,
}

/// What is wrong with the file.
#[derive(Debug)]
pub struct ConfigError {
    /// File and line, and what is wrong there.
    pub what: String,
    /// What to write instead.
    pub remedy: &'static str,
}

/// `[NAME]` with `command = ["ssh", "pi", "fathom", "serve", "host"]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: Vec<String>,
    #[serde(default)]
    about: String,
}

/// Reads the text of the file that is shown as `file`.
pub fn parse(file: &str, text: &str) -> Result<Vec<UserSubject>, ConfigError> {
    let table: BTreeMap<String, Entry> = toml::from_str(text).map_err(|e| ConfigError {
        what: format!("{file}: {}", e.to_string().trim_end()),
        remedy: "a subject is [NAME] with command = [\"ssh\", \"pi\", \"fathom\", \"serve\", \"host\"]",
    })?;
    table.into_iter().map(|(name, entry)| subject(file, name, entry)).collect()
}

fn subject(file: &str, name: String, entry: Entry) -> Result<UserSubject, ConfigError> {
    if name == "host" {
        let what = format!("{file}: 'host' is this machine, and no other subject");
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
