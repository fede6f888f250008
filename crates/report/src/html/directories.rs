//! A page is passed on: it does not carry the directories of the machine on which it was made.

use std::borrow::Cow;

use fathom_analysis::findings::Report;

/// Fact with the command line of the session.
const COMMAND: &str = "run.command";

/// Directory whose names say which port was used, and nothing about a user.
const DEVICES: &str = "/dev/";

/// Returns the report without the directories of its subject, and of files on its command line.
pub(super) fn without(report: &Report) -> Report {
    let mut report = report.clone();
    if let Some(name) = name_of(&report.subject) {
        report.subject = name.to_owned();
    }
    for (_, command) in report.facts.iter_mut().filter(|(name, _)| name == COMMAND) {
        *command = words(command).map(file_name).collect::<Vec<_>>().join(" ");
    }
    report
}

/// Splits a command line at the spaces outside of single quotes, in which it has the words with other characters.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |c| {
        quoted ^= c == '\'';
        c == ' ' && !quoted
    })
}

/// Returns a word without the directories of the path in it, also as the value of an option: `--on=a/b.toml`.
fn file_name(word: &str) -> Cow<'_, str> {
    let plain = word.trim_matches('\'');
    let (option, path) = match plain.split_once('=') {
        Some((option, path)) if option.starts_with('-') => (Some(option), path),
        _ => (None, plain),
    };
    let Some(name) = name_of(path) else { return word.into() };
    let quote = if word.contains('\'') { "'" } else { "" };
    option
        .map_or_else(|| format!("{quote}{name}{quote}"), |option| format!("{quote}{option}={name}{quote}"))
        .into()
}

/// Returns the last name of a path with directories. Names of subjects are no paths: serial:/dev/ttyUSB0.
fn name_of(path: &str) -> Option<&str> {
    let subject = path.split('/').next().is_some_and(|begin| begin.contains(':'));
    let (_, name) = path.rsplit_once('/')?;
    (!subject && !path.starts_with(DEVICES)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_their_directories_and_other_words_are_kept() {
        for (line, expected) in [
            ("fathom survey --on /home/me/b.toml --seed 1", "fathom survey --on b.toml --seed 1"),
            ("fathom survey --on '/home/my own/b c.toml' -q", "fathom survey --on 'b c.toml' -q"),
            ("fathom survey --on ./b.toml --load 'vm*2 cpu'", "fathom survey --on b.toml --load 'vm*2 cpu'"),
            ("fathom survey --on=~/x/b.toml", "fathom survey --on=b.toml"),
            (
                "fathom survey --on serial:/dev/ttyUSB0@115200",
                "fathom survey --on serial:/dev/ttyUSB0@115200",
            ),
            ("fathom survey --on /dev/ttyUSB0", "fathom survey --on /dev/ttyUSB0"),
            ("fathom survey --on ssh:pi", "fathom survey --on ssh:pi"),
        ] {
            let facts =
                vec![("run.command".to_owned(), line.to_owned()), ("other".into(), "/kept/as/it/is".into())];
            let report = without(&Report { facts, subject: "/home/me/b.toml".into(), ..Report::default() });
            assert_eq!(report.subject, "b.toml");
            assert_eq!(report.facts[0].1, expected);
            assert_eq!(report.facts[1].1, "/kept/as/it/is");
        }
    }
}
