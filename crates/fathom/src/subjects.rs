//! Subjects: byte streams with a probe at the other end. A subject is data, not a type per kind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fathom_model::{Description, catalog};
use serde::Deserialize;

use crate::failure::Failure;

/// A subject: its name and the command whose stdin and stdout are the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The name as the user typed it.
    pub name: String,
    /// Program and arguments; the program `fathom` is this very executable.
    pub command: Vec<String>,
    /// Is it this host, served by a child?
    pub host: bool,
    /// Is it a described machine?
    pub modelled: bool,
    /// One line for the list.
    pub about: String,
}

/// The user's own subjects: `[NAME]` with `command = ["ssh", "pi", "fathom", "serve", "host"]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    command: Vec<String>,
    #[serde(default)]
    about: String,
}

/// The user's configuration directory for Fathom.
pub fn config_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|h| h.join(".config"))).map(|d| d.join("fathom"))
}

fn host() -> Subject {
    Subject {
        name: "host".into(),
        command: ["fathom", "serve", "host"].map(String::from).to_vec(),
        host: true,
        modelled: false,
        about: "this machine, measured in a child process".into(),
    }
}

fn model(name: &str, about: String) -> Subject {
    Subject {
        name: name.into(),
        command: ["fathom", "serve", "model", name].map(String::from).to_vec(),
        host: false,
        modelled: true,
        about,
    }
}

/// The subjects of the user's `subjects.toml`.
fn own() -> Result<Vec<Subject>, Failure> {
    let Some(file) = config_dir().map(|d| d.join("subjects.toml")) else { return Ok(Vec::new()) };
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Failure::usage(format!("{}: {e}", file.display()), "")),
    };
    parse_own(&file, &text)
}

fn parse_own(file: &Path, text: &str) -> Result<Vec<Subject>, Failure> {
    let table: BTreeMap<String, Own> = toml::from_str(text).map_err(|e| {
        let example = "a subject is [NAME] with command = [\"ssh\", \"pi\", \"fathom\", \"serve\", \"host\"]";
        Failure::usage(format!("{}: {}", file.display(), e.to_string().trim_end()), example)
    })?;
    table
        .into_iter()
        .map(|(name, own)| {
            if own.command.is_empty() {
                let what = format!("{}: subject '{name}' has an empty command", file.display());
                return Err(Failure::usage(what, "give the program and its arguments"));
            }
            let about = if own.about.is_empty() { own.command.join(" ") } else { own.about };
            Ok(Subject { name, command: own.command, host: false, modelled: false, about })
        })
        .collect()
}

/// Everything that can be measured from here.
pub fn all() -> Result<Vec<Subject>, Failure> {
    let mut list = vec![host()];
    list.extend(own()?);
    list.extend(catalog::names().map(|name| {
        let about = match catalog::load(name) {
            Some(Ok(d)) => format!("model of: {}", d.about),
            _ => "model".to_owned(),
        };
        model(name, about)
    }));
    Ok(list)
}

/// The subject that `--on` names; this host without it.
pub fn find(on: Option<&str>) -> Result<Subject, Failure> {
    let Some(name) = on else { return Ok(host()) };
    if name == "host" {
        return Ok(host());
    }
    if let Some(own) = own()?.into_iter().find(|s| s.name == name) {
        return Ok(own);
    }
    description(name).map(|d| model(name, d.about))
}

/// The description that a name or a file stands for: an embedded machine, a `.toml` file, or one in the
/// user's `machines` directory.
pub fn description(name: &str) -> Result<Description, Failure> {
    if name.ends_with(".toml") || name.contains('/') {
        return from_file(Path::new(name));
    }
    if let Some(found) = catalog::load(name) {
        return found.map_err(|e| Failure::usage(e.to_string(), ""));
    }
    if let Some(file) = config_dir().map(|d| d.join("machines").join(format!("{name}.toml")))
        && file.exists()
    {
        return from_file(&file);
    }
    let remedy = match catalog::nearest_name(name) {
        Some(near) => format!("did you mean '{near}'? `fathom subjects` lists them all"),
        None => "`fathom subjects` lists them all; a description's file works too: ./NAME.toml".to_owned(),
    };
    Err(Failure::usage(format!("no subject or machine is called '{name}'"), remedy))
}

fn from_file(file: &Path) -> Result<Description, Failure> {
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|e| Failure::usage(format!("{shown}: {e}"), "give the path of a machine description"))?;
    Description::parse(&shown, &text).map_err(|e| Failure::usage(e.to_string(), ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_subjects_are_read_and_wrong_ones_name_file_and_line() {
        let file = Path::new("subjects.toml");
        let good = parse_own(file, "[pi]\ncommand = [\"ssh\", \"pi\"]\n").unwrap();
        assert_eq!(good[0].command, ["ssh", "pi"]);
        let bad = parse_own(file, "[pi]\ncomand = [\"ssh\"]\n").unwrap_err();
        assert!(
            bad.what.contains("subjects.toml") && bad.what.contains("line 2") && bad.what.contains("comand"),
            "{bad}"
        );
        assert!(parse_own(file, "[pi]\ncommand = []\n").unwrap_err().what.contains("'pi'"));
    }

    #[test]
    fn a_wrong_name_gets_a_suggestion() {
        let e = find(Some("bcm2385")).unwrap_err();
        assert_eq!(e.status, crate::failure::USAGE);
        assert!(e.remedy.contains("bcm28"), "{}", e.remedy);
    }
}
