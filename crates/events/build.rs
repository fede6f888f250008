//! Checks `events/*.toml` and turns them into constants. A wrong file fails the build with its name and the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use serde::Deserialize;

#[allow(dead_code)]
#[path = "src/quantity.rs"]
mod quantity;

#[allow(dead_code)]
#[path = "src/simulated.rs"]
mod simulated;

use quantity::Quantity;
use simulated::{Term, Unsimulated};

/// The file of events that several tables list.
const SHARED: &str = "arm";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shared {
    event: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    title: String,
    source: String,
    counters: u8,
    bits: u8,
    cycle_counter: bool,
    processors: Vec<Processor>,
    #[serde(default)]
    common: Vec<u16>,
    #[serde(default)]
    event: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Processor {
    Arm {
        implementer: u8,
        part: u16,
    },
    X86 {
        vendor: String,
        #[serde(default)]
        families: Vec<u16>,
    },
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    code: u16,
    name: String,
    of: Option<String>,
    counts: String,
    caveat: Option<String>,
    /// Its terms in a simulation.
    simulated: Option<Vec<String>>,
    /// Why it has none there.
    unsimulated: Option<String>,
}

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo names the manifest's folder");
    let folder = Path::new(&here).join("../../events");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_string))
        .collect();
    names.sort();
    let read = |name: &str| {
        let path = folder.join(format!("{name}.toml"));
        println!("cargo:rerun-if-changed={}", path.display());
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let shared: Shared =
        toml::from_str(&read(SHARED)).unwrap_or_else(|e| panic!("events/{SHARED}.toml: {e}"));
    let shared: BTreeMap<u16, Event> = shared.event.into_iter().map(|event| (event.code, event)).collect();
    let tables: Vec<String> = names
        .iter()
        .filter(|name| *name != SHARED)
        .map(|name| {
            let table = toml::from_str(&read(name)).unwrap_or_else(|e| panic!("events/{name}.toml: {e}"));
            constant(name, table, &shared)
        })
        .collect();
    let text = format!(
        "/// All tables, by name.\n#[allow(unused_imports)]\npub static TABLES: &[Table] = &[\n{}];\n",
        tables.concat()
    );
    let out = env::var("OUT_DIR").expect("cargo names the output folder");
    fs::write(Path::new(&out).join("tables.rs"), text).expect("the output folder can be written");
}

/// Returns a table as Rust.
fn constant(name: &str, table: Table, shared: &BTreeMap<u16, Event>) -> String {
    let common = table.common.iter().map(|code| {
        shared
            .get(code)
            .cloned()
            .unwrap_or_else(|| panic!("events/{name}.toml: {SHARED}.toml has no event {code:#x}"))
    });
    let mut events: Vec<Event> = common.chain(table.event).collect();
    events.sort_by_key(|event| event.code);
    let (mut codes, mut mnemonics) = (BTreeSet::new(), BTreeSet::new());
    for event in &events {
        assert!(codes.insert(event.code), "events/{name}.toml: two events {:#x}", event.code);
        assert!(mnemonics.insert(&event.name), "events/{name}.toml: two events {}", event.name);
        for sentence in [Some(&event.counts), event.caveat.as_ref()].into_iter().flatten() {
            assert!(sentence.ends_with('.'), "events/{name}.toml, {}: no sentence: {sentence:?}", event.name);
        }
    }
    let processors: String = table.processors.iter().map(processor).collect();
    let events: String = events.iter().map(|event| constant_event(name, event)).collect();
    format!(
        "    Table {{ name: {name:?}, title: {:?}, source: {:?}, counters: {}, bits: {}, cycle_counter: {}, \
         processors: &[{processors}], events: &[\n{events}    ] }},\n",
        table.title, table.source, table.counters, table.bits, table.cycle_counter,
    )
}

fn processor(processor: &Processor) -> String {
    match processor {
        Processor::Arm { implementer, part } => {
            format!("Processor::Arm {{ implementer: {implementer:#x}, part: {part:#x} }}, ")
        }
        Processor::X86 { vendor, families } => {
            format!("Processor::X86 {{ vendor: {vendor:?}, families: &{families:?} }}, ")
        }
    }
}

fn constant_event(file: &str, event: &Event) -> String {
    let Event { code, name, of, counts, caveat, .. } = event;
    let of = of.as_ref().map(|token| {
        Quantity::from_token(token)
            .unwrap_or_else(|| panic!("events/{file}.toml, {name}: unknown quantity {token:?}"))
    });
    let of = of.map_or("None".to_owned(), |quantity| format!("Some(Quantity::{quantity:?})"));
    let simulated = in_a_simulation(file, event);
    format!(
        "        Event {{ code: {code:#x}, name: {name:?}, of: {of}, counts: {counts:?}, caveat: {caveat:?}, \
         simulated: {simulated} }},\n"
    )
}

/// Returns what an event is in a simulation, as Rust.
fn in_a_simulation(file: &str, event: &Event) -> String {
    let name = &event.name;
    match (&event.simulated, &event.unsimulated) {
        (Some(tokens), None) => {
            let term = |token: &String| {
                Term::from_token(token)
                    .unwrap_or_else(|| panic!("events/{file}.toml, {name}: unknown term {token:?}"))
            };
            assert!(!tokens.is_empty(), "events/{file}.toml, {name}: `simulated` is empty");
            let terms: Vec<Term> = tokens.iter().map(term).collect();
            format!("Ok({{ use Access::*; use Cache::*; use Term::*; &{terms:?} }})")
        }
        (None, Some(token)) => {
            let reason = Unsimulated::from_token(token)
                .unwrap_or_else(|| panic!("events/{file}.toml, {name}: unknown reason {token:?}"));
            format!("Err(Unsimulated::{reason:?})")
        }
        _ => panic!("events/{file}.toml, {name}: either `simulated` or `unsimulated`"),
    }
}
