//! The source around the lines with the longest time, as its files have it.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use fathom_experiment::record::{Hot, MAX_SOURCE, SimulatedSource};
use fathom_simulation::protocol::Mapping;

use crate::failure::print_message;
use crate::program::symbols::{Named, SourceLine};

/// Lines with the longest time whose surroundings are taken.
const HOT_LINES: usize = 40;
/// Lines before and after each.
const AROUND: u32 = 3;
/// A tab ends at a multiple of so many columns.
const TAB: usize = 4;
/// Bytes of a file, at most.
const MAX_BYTES: u64 = 1 << 24;

const _: () = assert!(HOT_LINES * (2 * AROUND as usize + 1) <= MAX_SOURCE);

/// The files of a program's source.
pub struct Sources {
    /// Files in the program's memory.
    binaries: Vec<PathBuf>,
    /// Lines of each file that was looked for; none if it is not here.
    files: HashMap<String, Vec<String>>,
    told: bool,
}

impl Sources {
    /// Creates it for a program with these files in its memory.
    pub fn new(mappings: &[Mapping]) -> Sources {
        let mut binaries: Vec<PathBuf> =
            mappings.iter().map(|mapping| PathBuf::from(&mapping.file)).collect();
        binaries.retain(|path| path.is_absolute());
        binaries.dedup();
        Sources { binaries, files: HashMap::new(), told: false }
    }

    /// Returns the source around the lines with the longest time. `counted` has all lines of the program, by line of the source
    /// and file of the program. Files follow by their longest line, lines by number. Tells why there are none.
    pub fn around(&mut self, mut counted: Vec<(Named, Hot)>) -> Vec<SimulatedSource> {
        counted.sort_by(|(a, x), (b, y)| y.units.cmp(&x.units).then_with(|| a.source.cmp(&b.source)));
        let mut wanted: Vec<(&str, BTreeSet<u32>)> = Vec::new();
        let hot = counted.iter().filter(|(_, hot)| hot.units > 0).take(HOT_LINES);
        for (named, SourceLine { path, number }) in hot.filter_map(|(n, _)| Some((n, n.source.as_ref()?))) {
            self.read(path, &named.file);
            let lines = number.saturating_sub(AROUND).max(1)..=number.saturating_add(AROUND);
            match wanted.iter_mut().find(|(of, _)| *of == path.as_str()) {
                Some((_, all)) => all.extend(lines),
                None => wanted.push((path.as_str(), lines.collect())),
            }
        }
        let mut counts: HashMap<&SourceLine, Hot> = HashMap::new();
        for (named, hot) in &counted {
            if let Some(line) = &named.source {
                add(counts.entry(line).or_default(), hot);
            }
        }
        let mut found = Vec::new();
        for (path, numbers) in &wanted {
            let texts = self.files.get(*path).map(Vec::as_slice).unwrap_or_default();
            for number in numbers {
                let Some(text) = texts.get(*number as usize - 1) else { continue };
                let line = SourceLine { path: (*path).to_owned(), number: *number };
                found.push(of_line(&line, text, counts.get(&line)));
            }
        }
        if found.is_empty() {
            self.tell_once(wanted.first().map(|(path, _)| *path));
        }
        found
    }

    /// Reads a file, of which `binary` was built.
    fn read(&mut self, path: &str, binary: &str) {
        if self.files.contains_key(path) {
            return;
        }
        let built = self.binaries.iter().find(|of| of.file_name().is_some_and(|name| name == binary));
        let changed = |path: &Path| path.metadata().and_then(|of| of.modified()).ok();
        let mut lines = text(Path::new(path)).unwrap_or_default();
        let times = built.and_then(|built| Some((changed(built)?, changed(Path::new(path))?)));
        if !lines.is_empty() && times.is_some_and(|(built, written)| written > built) {
            print_message(&format!(
                "--source: {path} is newer than {binary}: its lines are not shown; build the program again"
            ));
            self.told = true;
            lines.clear();
        }
        self.files.insert(path.to_owned(), lines);
    }

    /// Tells why there is no source, the first time.
    fn tell_once(&mut self, path: Option<&str>) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        print_message(&match path {
            Some(path) => format!("--source: the source is not on this machine: {path}, for instance"),
            None if self.binaries.is_empty() => "--source: the trace does not tell its program".to_owned(),
            None => "--source: the program has no line tables: compile it with -g".to_owned(),
        });
    }
}

/// Adds the counts of a line in another file of the program.
fn add(sum: &mut Hot, hot: &Hot) {
    sum.executed += hot.executed;
    sum.accesses += hot.accesses;
    sum.walks += hot.walks;
    sum.units = sum.units.saturating_add(hot.units);
    if let Some(more) = hot.overlapped {
        *sum.overlapped.get_or_insert_default() += more;
    }
    sum.misses.resize(hot.misses.len(), 0);
    sum.misses.iter_mut().zip(&hot.misses).for_each(|(sum, more)| *sum += more);
}

fn of_line(line: &SourceLine, text: &str, hot: Option<&Hot>) -> SimulatedSource {
    let hot = hot.cloned().unwrap_or_default();
    SimulatedSource {
        file: line.file(),
        number: line.number.into(),
        text: text.to_owned(),
        executed: hot.executed,
        accesses: hot.accesses,
        walks: hot.walks,
        units: hot.units,
        overlapped: hot.overlapped,
        misses: hot.misses,
    }
}

/// Returns the lines of a regular file, with spaces instead of tabs.
fn text(path: &Path) -> Option<Vec<String>> {
    let about = path.metadata().ok()?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(without_tabs).collect())
}

fn without_tabs(line: &str) -> String {
    let mut out = String::new();
    for (nth, part) in line.trim_end().split('\t').enumerate() {
        if nth > 0 {
            let columns = out.chars().count();
            out.extend(std::iter::repeat_n(' ', TAB - columns % TAB));
        }
        out += part;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_the_hot_ones_follow_by_file_and_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, lines: u32| {
            let path = folder.path().join(name).display().to_string();
            let text: String = (1..=lines).map(|n| format!("\tline {n}\tend \n")).collect();
            std::fs::write(&path, text).expect("written");
            path
        };
        let (a, b) = (file("a.c", 30), file("b.c", 9));
        let counted = |path: &str, number, units| {
            let source = Some(SourceLine { path: path.to_owned(), number });
            let hot = Hot {
                executed: 5,
                units,
                overlapped: Some(units / 2),
                misses: vec![units],
                ..Hot::default()
            };
            (Named { source, ..Named::default() }, hot)
        };
        let mut sources = Sources::new(&[]);
        let found = sources.around(vec![
            counted(&a, 2, 10),
            counted(&a, 6, 11),
            counted(&a, 20, 0),
            counted(&b, 9, 12),
            counted(&b, 9, 1),
            counted("/nowhere/c.c", 1, 50),
        ]);
        let shown: Vec<_> = found.iter().map(|line| (line.file.as_str(), line.number, line.units)).collect();
        let expected_b = [(6, 0), (7, 0), (8, 0), (9, 13)].map(|(number, units)| ("b.c", number, units));
        let expected_a = (1..=9).map(|number| {
            ("a.c", number, [0, 10, 11][[2, 6].iter().position(|n| *n == number).map_or(0, |at| at + 1)])
        });
        assert_eq!(shown, expected_b.into_iter().chain(expected_a).collect::<Vec<_>>());
        assert_eq!(found[3].text, "    line 9  end");
        assert_eq!((found[3].executed, found[3].overlapped, &found[3].misses), (10, Some(6), &vec![13]));
        assert!(sources.around(Vec::new()).is_empty());
    }
}
