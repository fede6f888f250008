//! Subjects: byte streams with a probe at the other end. All subjects have one type.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fathom_events::{Event, Quantity};
use fathom_model::description::nearest;
use fathom_model::{Description, Model, catalog};

use crate::failure::Failure;
use crate::memory_budget::MemoryBudget;
use crate::record_writer::directory;

pub mod emulated;
mod exec;
pub mod qemu;
pub mod serial;
pub mod ssh;
mod user_defined;

/// A subject: its name and the command whose stdin and stdout are the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Name as typed by the user.
    pub name: String,
    /// Program and arguments; the program `fathom` is this executable.
    pub command: Vec<String>,
    /// Whether it is this host, served by a child.
    pub host: bool,
    /// Whether it is a described machine.
    pub modelled: bool,
    /// Whether the stream may lose bytes, or the probe may be restarted. Then a silent probe is pinged.
    pub lossy: bool,
    /// Whether the stream stays open after the probe's last line, as for a board.
    pub stays_open: bool,
    /// Whether its probe gets the process id of the harness, to end together with it.
    pub needs_parent: bool,
    /// Remedy if it sends nothing.
    pub silence_remedy: &'static str,
    /// One-line description.
    pub about: String,
}

impl Subject {
    /// Creates a subject with default properties and without a command.
    fn named(name: &str, about: String) -> Subject {
        Subject {
            name: name.to_owned(),
            command: Vec::new(),
            host: false,
            modelled: false,
            lossy: false,
            stays_open: false,
            needs_parent: false,
            silence_remedy: "run the subject's command by hand and type: facts",
            about,
        }
    }
}

/// Returns the user's configuration directory for Fathom.
pub fn config_dir() -> Option<PathBuf> {
    directory("XDG_CONFIG_HOME")
        .or_else(|| directory("HOME").map(|h| h.join(".config")))
        .map(|d| d.join("fathom"))
}

/// Name of this host.
pub const HOST: &str = "host";

fn host() -> Subject {
    Subject {
        command: ["fathom", "serve", "host"].map(String::from).to_vec(),
        host: true,
        needs_parent: true,
        ..Subject::named(HOST, "this machine, measured in a child process".into())
    }
}

fn model(name: &str, about: String) -> Subject {
    Subject {
        command: ["fathom", "serve", "model", name].map(String::from).to_vec(),
        modelled: true,
        ..Subject::named(name, about)
    }
}

/// Creates the model of a description, if there is memory for it. `name` is the subject's, as typed by the user.
pub fn model_of(name: &str, description: &Description, seed: u64) -> Result<Model, Failure> {
    // 32 bits per line or entry and 64 bits per set: at most twelve bytes per line.
    let lines: u64 = description.levels.iter().map(|l| l.size / l.line).sum();
    if let Some(lack) = MemoryBudget::now().lacks(12 * lines) {
        let what = format!("cannot create a model of '{name}': {lack}");
        return Err(Failure::new(what, "describe smaller levels, or run it on a larger machine"));
    }
    let mut model = Model::new(description, seed);
    if counts_stalls(description) {
        model.count_stalls();
    }
    Ok(model)
}

/// Returns whether the counters of the described processor have an event for stalls that a model can count.
fn counts_stalls(description: &Description) -> bool {
    let table = description.core.events.as_deref().and_then(fathom_events::table);
    let is = |event: &Event| event.of == Some(Quantity::StallBackend) && event.simulated.is_ok();
    table.is_some_and(|table| table.events.iter().any(is))
}

/// Prefix of a subject's name, and the function that creates the subject from the rest.
type Kind = (&'static str, fn(&str, &str) -> Result<Subject, Failure>);
const KINDS: [Kind; 4] = [
    (qemu::PREFIX, qemu::subject),
    (emulated::PREFIX, emulated::subject),
    (serial::PREFIX, serial::subject),
    (ssh::PREFIX, ssh::subject),
];

/// Returns the forms of names that stand for many subjects, with their descriptions.
pub fn forms() -> [(&'static str, &'static str); 3] {
    [
        (emulated::FORM, "the image, executed with the timing of a described machine"),
        (serial::FORM, "a board with the image of `fathom image`, at a serial port"),
        (ssh::FORM, "another host, by ssh; fathom is copied there if necessary"),
    ]
}

/// Largest description or list of subjects, bytes; it also limits endless files such as devices.
const MAX_TEXT: u64 = 1 << 20;

/// Returns the text of a file written by a person.
fn text_of(file: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(MAX_TEXT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_TEXT {
        let what = format!("longer than {} KiB", MAX_TEXT >> 10);
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, what));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = good.iter().filter(|&&b| b == b'\n').count() + 1;
        std::io::Error::new(ErrorKind::InvalidData, format!("line {line} is not UTF-8 text"))
    })
}

/// Returns the subjects of the user's `subjects.toml`.
fn user_subjects() -> Result<Vec<Subject>, Failure> {
    let Some(file) = config_dir().map(|d| d.join("subjects.toml")) else { return Ok(Vec::new()) };
    let shown = file.display();
    let text = match only_mine(&file).and_then(|()| text_of(&file)) {
        Ok(text) => text,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            return Err(Failure::usage(
                format!("{shown}: {e}"),
                "make it readable for you and writable for nobody else, or remove it",
            ));
        }
        Err(e) => {
            let remedy = "make it a readable text file, or remove it";
            return Err(Failure::usage(format!("{shown}: {e}"), remedy));
        }
    };
    parse_user_subjects(&file, &text)
}

/// Checks that nobody else can write a file whose commands are run, nor replace it, or a directory that leads to it.
///
/// # Errors
/// `PermissionDenied` if somebody can.
fn only_mine(file: &Path) -> std::io::Result<()> {
    // Where it is named, and where links lead.
    let named = std::path::absolute(file)?;
    let real = file.canonicalize()?;
    named.ancestors().chain(real.ancestors()).try_for_each(|path| not_writable_by_others(path, path == real))
}

/// Checks the owner and the permissions of one file or directory.
fn not_writable_by_others(path: &Path, is_file: bool) -> std::io::Result<()> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    /// What is in such a directory is removed or replaced by its own owner only (inode(7)).
    const STICKY: u32 = 0o1000;
    /// In a user namespace all users outside of it, root too, appear as this one (user_namespaces(7)).
    const UNMAPPED: u32 = 65534;
    let about = std::fs::metadata(path)?;
    let (owner, mode) = (about.uid(), about.mode());
    let trusted = [rustix::process::geteuid().as_raw(), 0];
    let why = if !trusted.contains(&owner) && (is_file || owner != UNMAPPED) {
        format!("user {owner} owns {}", path.display())
    } else if mode & WRITABLE_BY_OTHERS != 0 && (is_file || mode & STICKY == 0) {
        format!("others can write {}: chmod go-w", path.display())
    } else {
        return Ok(());
    };
    Err(std::io::Error::new(ErrorKind::PermissionDenied, why))
}

fn parse_user_subjects(file: &Path, text: &str) -> Result<Vec<Subject>, Failure> {
    let user_defined_subjects = user_defined::parse(&file.display().to_string(), text, is_built_in);
    let user_defined_subjects =
        user_defined_subjects.map_err(|wrong| Failure::usage(wrong.what, wrong.remedy))?;
    let subject = |o: user_defined::UserSubject| Subject {
        command: o.command,
        // The stream of a user's command may be lossy, for instance a serial line.
        lossy: true,
        ..Subject::named(&o.name, o.about)
    };
    Ok(user_defined_subjects.into_iter().map(subject).collect())
}

/// Returns whether a name is that of a subject without any file of the user.
fn is_built_in(name: &str) -> bool {
    name == HOST || catalog::text(name).is_some() || KINDS.iter().any(|(prefix, _)| name.starts_with(prefix))
}

/// Returns all subjects that can be named.
pub fn all() -> Result<Vec<Subject>, Failure> {
    let mut list = vec![host()];
    list.extend(user_subjects()?);
    list.extend(qemu::all());
    list.extend(machines().into_iter().map(|(name, about)| model(&name, format!("model of: {about}"))));
    Ok(list)
}

/// Returns all described machines with their descriptions: the embedded ones, then the user's. For an invalid file the
/// description is the error.
pub fn machines() -> Vec<(String, String)> {
    let about = |name: &str| match description(name) {
        Ok(d) => d.about,
        Err(e) => e.what.lines().next().unwrap_or_default().to_owned(),
    };
    let user_machines = own_machines().into_iter().filter(|name| catalog::text(name).is_none());
    let names: Vec<String> = catalog::names().map(str::to_owned).chain(user_machines).collect();
    names.into_iter().map(|name| (about(&name), name)).map(|(about, name)| (name, about)).collect()
}

/// Returns the user's invalid descriptions, each with its file and the error.
pub fn broken() -> Vec<(PathBuf, String)> {
    let dir = config_dir().map(|d| d.join("machines")).unwrap_or_default();
    let files = own_machines().into_iter().map(|name| dir.join(format!("{name}.toml")));
    let wrong = |file: PathBuf| {
        from_file(&file).err().map(|e| (file, e.what.lines().next().unwrap_or_default().to_owned()))
    };
    files.filter_map(wrong).collect()
}

/// Returns the names of the user's descriptions.
fn own_machines() -> Vec<String> {
    let entries = config_dir().and_then(|d| std::fs::read_dir(d.join("machines")).ok());
    let files = entries.into_iter().flatten().flatten().map(|e| e.path());
    let mut names: Vec<String> = files
        .filter(|p| p.extension().is_some_and(|x| x == "toml"))
        .filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Returns the subject that `--on` names; this host without it.
pub fn find(on: Option<&str>) -> Result<Subject, Failure> {
    let Some(name) = on else { return Ok(host()) };
    if name == HOST {
        return Ok(host());
    }
    if let Some(subject) = user_subjects()?.into_iter().find(|s| s.name == name) {
        return Ok(subject);
    }
    if let Some((prefix, subject)) = KINDS.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return subject(name, &name[prefix.len()..]);
    }
    // A name with a colon is probably a mistyped kind, unless there is a file of that name.
    if let Some((kind, rest)) = name.split_once(':')
        && !Path::new(name).exists()
    {
        let kinds = KINDS.iter().map(|(prefix, _)| prefix.trim_end_matches(':'));
        let near =
            nearest(kind, kinds).map_or_else(String::new, |near| format!("did you mean '{near}:{rest}'? "));
        let remedy = format!("{near}`fathom subjects` lists what there is");
        return Err(Failure::usage(format!("'{kind}:' is not the beginning of a subject's name"), remedy));
    }
    description(name).map(|d| {
        // A file name must not look like a flag to the probe.
        let plain = if name.starts_with('-') { format!("./{name}") } else { name.to_owned() };
        Subject { name: name.to_owned(), ..model(&plain, d.about) }
    })
}

/// Returns the description for a name or a file: an embedded machine, a `.toml` file, or one in the user's `machines`
/// directory.
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
    let known: Vec<String> = all().unwrap_or_default().into_iter().map(|s| s.name).collect();
    let remedy = match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean '{near}'? `fathom subjects` lists them all"),
        None => "`fathom subjects` lists them all; a description's file works too: ./NAME.toml".to_owned(),
    };
    Err(Failure::usage(format!("no subject or machine is called '{name}'"), remedy))
}

fn from_file(file: &Path) -> Result<Description, Failure> {
    let shown = file.display().to_string();
    let text = text_of(file)
        .map_err(|e| Failure::usage(format!("{shown}: {e}"), "give the path of a machine description"))?;
    Description::parse(&shown, &text).map_err(|e| Failure::usage(e.to_string(), ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_subjects_are_read_and_errors_name_file_and_line() {
        let file = Path::new("subjects.toml");
        let good = parse_user_subjects(file, "[pi]\ncommand = [\"ssh\", \"pi\"]\n").unwrap();
        assert_eq!(good[0].command, ["ssh", "pi"]);
        let bad = parse_user_subjects(file, "[pi]\ncomand = [\"ssh\"]\n").unwrap_err();
        assert!(
            bad.what.contains("subjects.toml") && bad.what.contains("line 2") && bad.what.contains("comand"),
            "{bad}"
        );
        assert!(parse_user_subjects(file, "[pi]\ncommand = []\n").unwrap_err().what.contains("'pi'"));
    }

    #[test]
    fn unknown_subject_gets_a_suggestion() {
        let e = find(Some("bcm2385")).unwrap_err();
        assert_eq!(e.exit, crate::failure::Exit::Usage);
        assert!(e.remedy.contains("bcm28"), "{}", e.remedy);
    }
}
