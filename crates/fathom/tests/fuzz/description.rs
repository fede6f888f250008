//! TOML: descriptions of machines, and the user's subjects.

use fathom_model::{Description, Model};

use crate::{scripted, user_defined};

/// Maximum number of lines and TLB entries of a model that is run; larger models take too long to create.
const MAX_LINES: u64 = 1 << 14;

/// Checks both readers of TOML with any bytes.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Description::parse("fuzz.toml", &text) {
        Ok(description) => sound(&description),
        Err(e) => {
            assert!(!e.message.is_empty() && &*e.file == "fuzz.toml");
            assert!(e.line >= 1 && e.column >= 1 && e.line <= text.matches('\n').count() + 1, "{e:?}");
            reported(&e.to_string());
        }
    }
    match user_defined::parse("fuzz.toml", &text, |name| name == "host") {
        Ok(list) => {
            for subject in &list {
                assert!(subject.name != "host" && subject.command.first().is_some_and(|c| !c.is_empty()));
            }
        }
        Err(wrong) => assert!(wrong.what.starts_with("fuzz.toml: ") && !wrong.remedy.is_empty()),
    }
}

/// Asserts that a message has no control characters and is short.
fn reported(message: &str) {
    let obeyed = message.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t');
    assert!(obeyed.is_none(), "{obeyed:?} in {message:?}");
    assert!(message.len() < 4096, "{} bytes are printed", message.len());
}

/// Asserts that a description is equal when written and read again, and that its model runs.
fn sound(description: &Description) {
    let shown = description.to_toml();
    let again = Description::parse("fuzz.toml", &shown).unwrap_or_else(|e| panic!("{e}\nof\n{shown}"));
    assert_eq!(&again, description);
    assert_eq!(again.to_toml(), shown);
    let lines: u64 = description.levels.iter().map(|l| l.size / l.line).sum();
    let entries: u64 = description.tlbs.iter().map(|t| u64::from(t.entries)).sum();
    if lines + entries > MAX_LINES {
        return;
    }
    let requests = [
        "facts",
        "trial id=1 bytes=1000 loads=7 samples=2 warm=3",
        "trial id=2 pattern=pages bytes=640 loads=7 samples=2 warm=3 page=huge",
    ];
    let answers = scripted::answers(&mut Model::new(description, 1), requests.map(str::to_owned).to_vec());
    let ended = |a: &&String| a.starts_with("done ") || a.starts_with("refusal ");
    assert_eq!(answers.iter().filter(ended).count(), 2, "{answers:?}");
}
