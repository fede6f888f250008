//! Machines that differ from the described one in a value, or by a level that is left out.

use std::collections::BTreeMap;

use super::classes::{self, ValueKey};
use super::other_values::Alternatives;
use super::show::{self, Quoted};
use super::{Classes, Description, Holds, WalkFrom, nearest};

/// The table of levels, and the key whose value 0 leaves a level out.
const LEVEL: &str = "level";
const SIZE: &str = "size";

impl Description {
    /// Returns the description with another value, without its alternatives. The path is a table and a key, such as
    /// `memory.latency`; levels and TLBs are named, in any case: `L2.size`. The value is written as in a file, without quotes.
    /// A level of size 0 is left out; walks that begin at it begin at the next one, or in memory.
    ///
    /// # Errors
    /// No such value, or no possible machine; with what is possible.
    pub fn varied(&self, path: &str, value: &str) -> Result<Description, String> {
        let key = self.value_at(path)?;
        let value = value.trim();
        if (key.table, key.key) == (LEVEL, SIZE) && value.parse() == Ok(0u64) {
            return self.without_level(key.index);
        }
        let here = show::literal(self, key).unwrap_or_default();
        let literal = match here.as_bytes().first() {
            Some(b'"') => Quoted(value).to_string(),
            Some(b'[') => return Err(format!("{path} is a list, which cannot be varied")),
            _ if value == "true" || value == "false" || value.parse::<u64>().is_ok() => value.to_owned(),
            _ => return Err(format!("{path}={value}: write a value like {here}")),
        };
        let mut other = self
            .with(&BTreeMap::from([(key, literal)]))
            .map_err(|e| impossible(&format!("{path}={value}"), &e.message, &e.help))?;
        other.alternatives = Alternatives::default();
        Ok(other)
    }

    /// Returns the value that a path names.
    fn value_at(&self, path: &str) -> Result<ValueKey, String> {
        let (table, key) = path.rsplit_once('.').unwrap_or((path, ""));
        let is_named = |name: &str| name.eq_ignore_ascii_case(table);
        let level = self.levels.iter().position(|level| is_named(&level.name)).map(|n| (LEVEL, n));
        let tlb = || self.tlbs.iter().position(|tlb| is_named(&tlb.name)).map(|n| ("tlb", n));
        let plain = |of: &ValueKey| !matches!(of.table, LEVEL | "tlb" | "neighbour");
        let all: Vec<ValueKey> = self.values().into_iter().map(|(key, _)| key).collect();
        let named = level
            .or_else(tlb)
            .or_else(|| all.iter().find(|of| plain(of) && of.table == table).map(|of| (of.table, of.index)));
        let Some((table, index)) = named else {
            let levels = self.levels.iter().map(|level| level.name.as_str());
            let names: Vec<&str> = levels.chain(self.tlbs.iter().map(|tlb| tlb.name.as_str())).collect();
            let rest = "core, walk and memory";
            let near = nearest(table, names.iter().copied()).map(|near| format!("; did you mean '{near}'?"));
            return Err(format!(
                "'{path}': {} has no '{table}', but {}, {rest}{}",
                self.name,
                names.join(", "),
                near.unwrap_or_default()
            ));
        };
        let of_table: Vec<&ValueKey> =
            all.iter().filter(|of| (of.table, of.index) == (table, index)).collect();
        of_table.iter().find(|of| of.key.eq_ignore_ascii_case(key)).map(|of| **of).ok_or_else(|| {
            let keys: Vec<&str> = of_table.iter().map(|of| of.key).collect();
            format!("'{path}': there is no value '{key}', but {}", keys.join(", "))
        })
    }

    /// Returns the description without a level.
    fn without_level(&self, index: usize) -> Result<Description, String> {
        let mut other = self.clone();
        other.alternatives = Alternatives::default();
        let gone = other.levels.remove(index);
        if let Some(walk) = &mut other.walk
            && walk.from == WalkFrom::Level(gone.name.clone())
        {
            let next = other.levels[index..].iter().find(|level| level.holds != Holds::Instructions);
            walk.from = next.map_or(WalkFrom::Memory, |level| WalkFrom::Level(level.name.clone()));
        }
        other.classes = Classes::default();
        for (key, class) in self.values() {
            let index = match key.table {
                LEVEL if key.index == index => continue,
                LEVEL if key.index > index => key.index - 1,
                _ => key.index,
            };
            if let Some(class) = class.filter(|_| classes::is_value(key.key)) {
                other.classes.set(ValueKey { index, ..key }, class);
            }
        }
        let text = show::text_with(&other, &BTreeMap::new());
        let name = &gone.name;
        Description::parse(&self.name, &text)
            .map_err(|e| impossible(&format!("without {name}"), &e.message, &e.help))
    }
}

fn impossible(what: &str, why: &str, remedy: &str) -> String {
    let remedy = if remedy.is_empty() { String::new() } else { format!(" ({remedy})") };
    format!("{what} is no possible machine: {why}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    fn machine(name: &str) -> Description {
        catalog::load(name).expect("embedded").expect("valid")
    }

    #[test]
    fn values_are_named_by_table_or_by_name_in_any_case() {
        let pi = machine("bcm2837");
        assert_eq!(pi.varied("l2.size", "1M").unwrap().levels[2].size, 1 << 20);
        assert_eq!(pi.varied("L1D.ways", "8").unwrap().levels[0].ways, 8);
        assert_eq!(pi.varied("main-TLB.entries", "1024").unwrap().tlbs[1].entries, 1024);
        assert!(!pi.varied("L2.allocate", "false").unwrap().levels[2].allocate);
        let slow = pi.varied("memory.latency", "200 ns").unwrap();
        assert!((slow.memory.latency.in_ns(1e9) - 200.0).abs() < 1e-9);
        assert_eq!(pi.varied("L1D.replacement", "lru").unwrap().levels[0].replacement.word(), "lru");
    }

    #[test]
    fn level_of_size_zero_is_left_out() {
        let pi = machine("bcm2837");
        let without = pi.varied("L2.size", "0").unwrap();
        assert_eq!(without.levels.iter().map(|level| &*level.name).collect::<Vec<_>>(), ["L1D", "L1I"]);
        assert_eq!(without.walk.as_ref().unwrap().from, WalkFrom::Memory);
        let values = |d: &Description| d.values().len();
        assert_eq!(values(&pi) - values(&without), 10, "the values of a level");
        // Where another level follows, walks begin there, and the classes move with their levels.
        let server = machine("zen3");
        let (at, from) = match &server.walk.as_ref().unwrap().from {
            WalkFrom::Level(name) => {
                (server.levels.iter().position(|level| level.name == *name).unwrap(), name.clone())
            }
            other => panic!("zen3 walks through a level, not {other:?}"),
        };
        let without = server.varied(&format!("{from}.size"), "0").unwrap();
        let next = server.levels[at + 1..].iter().find(|level| level.holds != Holds::Instructions).unwrap();
        assert_eq!(without.walk.unwrap().from, WalkFrom::Level(next.name.clone()));
        let class = |d: &Description, index| d.classes.of(ValueKey { table: LEVEL, index, key: "latency" });
        let other = server.varied(&format!("{from}.size"), "0").unwrap();
        assert_eq!(class(&other, other.levels.len() - 1), class(&server, server.levels.len() - 1));
    }

    #[test]
    fn what_cannot_be_varied_says_what_can() {
        let pi = machine("bcm2837");
        for (path, value, words) in [
            ("L3.size", "1M", "has no 'L3', but L1D, L1I, L2"),
            ("L2.sise", "1M", "no value 'sise', but size, line, ways"),
            ("L2", "1M", "no value '', but size, line, ways"),
            ("L2.size", "1000", "is no possible machine"),
            ("L2.ways", "many", "write a value like 16"),
            ("memory.pages", "4K", "is a list"),
        ] {
            let why = pi.varied(path, value).unwrap_err();
            assert!(why.contains(words), "{path}={value}: {why}");
        }
    }
}
