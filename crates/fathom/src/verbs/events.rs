//! `fathom events`: what the counters of processors count.

use clap::Args;
use fathom_analysis::claims::{self, Facts, ProcessorIdentity};
use fathom_events::{Event, Group, Identity, TABLES, Table, Unsimulated};
use fathom_experiment::record::Record;
use fathom_model::Description;
use fathom_report::page::{Page, TextRole};
use fathom_units::facts::{DESCRIBED_FILE, PRIVILEGE_COUNTERS};
use serde_json::{Value, json};

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::{measure, output};

/// Options of the list.
#[derive(Debug, Args)]
struct Events {
    /// A processor's table, or an event or quantity to search for in all tables. Default: the list of tables.
    name: Option<String>,
    /// The table of a subject's processor (see `fathom subjects`).
    #[arg(long, value_name = "SUBJECT", conflicts_with = "name")]
    on: Option<String>,
    /// Print JSON: {format, version, tables: [{name, title, source, counters, bits, cycle_counter, events: [{code, name,
    /// of, counts, caveat, unsimulated}]}]}.
    #[arg(long)]
    json: bool,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Events>(
        "events",
        "Lists the events that counters of processors count, and what each count does not mean",
        "Examples:
  fathom events                 processors with a table
  fathom events arm1176         one of them
  fathom events refill.L1D      what counts a quantity, on each processor
  fathom events --on host       this machine's processor, and which counters it lets programs read

The tables are from the processors' manuals. A guest may have fewer counters than its processor.",
        run,
    )
}

fn run(options: &Events, context: &Context) -> Result<Exit, Failure> {
    let (tables, access) = selected(options)?;
    if options.json {
        return context.out.text(&document(&tables));
    }
    if options.name.is_none() && options.on.is_none() {
        let names = tables
            .iter()
            .map(|(table, events)| (table.name, format!("{}, {} events", table.title, events.len())));
        let names: Vec<(&str, String)> = names.collect();
        return context.out.text(&output::columns(names.iter().map(|(name, about)| (*name, about.as_str()))));
    }
    let mut page = Page::new(*context.out.style());
    for (table, events) in &tables {
        print(&mut page, table, events);
    }
    if let Some(access) = access {
        page.line(TextRole::Plain, "");
        page.text(TextRole::Plain, &access, "", "  ");
    }
    context.out.text(&page.finish())
}

/// A table, and those of its events that are asked for.
type Selection = (&'static Table, Vec<&'static Event>);

/// Returns the tables with the events that the options select, and what is known of access to the counters.
fn selected(options: &Events) -> Result<(Vec<Selection>, Option<String>), Failure> {
    let whole = |table: &'static Table| (table, table.events.iter().collect());
    if let Some(on) = &options.on {
        let (subject, record) = measure::facts(Some(on), None)?;
        if let Some(table) = described(&record) {
            let text =
                format!("No program runs there: fathom count --simulated --on {on} -- PROGRAM counts them.");
            return Ok((vec![whole(table)], Some(text)));
        }
        let table = table_of(&record.facts).ok_or_else(|| unknown_processor(&subject.name, &record.facts))?;
        return Ok((vec![whole(table)], Some(access(&record))));
    }
    let Some(name) = &options.name else { return Ok((TABLES.iter().map(whole).collect(), None)) };
    if let Some(table) = fathom_events::table(name) {
        return Ok((vec![whole(table)], None));
    }
    let named = |event: &Event| {
        event.name.eq_ignore_ascii_case(name) || event.of.is_some_and(|of| of.token() == name)
    };
    let found =
        TABLES.iter().map(|table| (table, table.events.iter().filter(|event| named(event)).collect()));
    let found: Vec<Selection> = found.filter(|(_, events): &Selection| !events.is_empty()).collect();
    if found.is_empty() {
        let tables: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        return Err(Failure::usage(
            format!("no processor, event or quantity is called {name:?}"),
            format!(
                "processors: {}; `fathom events PROCESSOR` lists events and quantities",
                tables.join(", ")
            ),
        ));
    }
    Ok((found, None))
}

/// Returns the table that the description of a machine names.
fn described(record: &Record) -> Option<&'static Table> {
    let description = Description::parse("", record.text(DESCRIBED_FILE)?).ok()?;
    fathom_events::table(&description.core.events?)
}

fn table_of(facts: &Facts) -> Option<&'static Table> {
    match claims::processor(facts)? {
        ProcessorIdentity::Midr(midr) => fathom_events::table_of(Identity::Midr(midr)),
        ProcessorIdentity::X86 { vendor, family } => {
            fathom_events::table_of(Identity::X86 { vendor: &vendor, family })
        }
    }
}

fn unknown_processor(subject: &str, facts: &Facts) -> Failure {
    let what = match claims::processor(facts) {
        Some(ProcessorIdentity::Midr(midr)) => {
            format!("no table has the processor of '{subject}' (MIDR {midr:#010x})")
        }
        Some(ProcessorIdentity::X86 { vendor, family }) => {
            format!("no table has the processor of '{subject}' ({vendor}, family {family:#x})")
        }
        None => format!("'{subject}' does not say which processor it has"),
    };
    Failure::usage(what, "name a table: `fathom events` lists them")
}

/// Describes whether programs may read counters on the machine of a record, and which of them counted.
fn access(record: &Record) -> String {
    let fact = |suffix: &str| record.text(&format!("{PRIVILEGE_COUNTERS}{suffix}"));
    match (fact(".value"), fact(".reason")) {
        (Some(names), _) => format!("Counters that a test loop advanced here: {names}."),
        (None, Some(reason)) => {
            let remedy = fact(".remedy").map(|remedy| format!("; remedy: {remedy}")).unwrap_or_default();
            format!("No counter can be read here: {reason}{remedy}.")
        }
        (None, None) => "This subject does not say whether its counters can be read.".to_owned(),
    }
}

/// Writes a table by groups, with the sentences of each event.
fn print(page: &mut Page, table: &Table, events: &[&Event]) {
    let cycles = if table.cycle_counter { " and a cycle counter" } else { "" };
    let title = format!(
        "{} ({}): {} counters of {} bits{cycles}",
        table.title, table.name, table.counters, table.bits
    );
    page.text(TextRole::Bold, &title, "", "  ");
    page.text(TextRole::Dim, table.source, "  ", "  ");
    for group in Group::ALL {
        let events: Vec<&&Event> = events.iter().filter(|event| event.group() == group).collect();
        if events.is_empty() {
            continue;
        }
        page.heading(group.heading());
        for event in events {
            let of = event.of.map(|of| format!("  {}", of.token())).unwrap_or_default();
            page.text(TextRole::Bold, &format!("{:#04x}  {}{of}", event.code, event.name), "", "      ");
            page.text(TextRole::Plain, event.counts, "      ", "      ");
            if let Some(caveat) = event.caveat {
                page.text(TextRole::Plain, caveat, "      But: ", "      ");
            }
            if let Err(why) = event.simulated {
                let text = format!("{}.", why.reason());
                page.text(TextRole::Dim, &text, "      Not in a simulation: ", "      ");
            }
        }
    }
}

fn document(tables: &[Selection]) -> String {
    let event = |event: &&Event| {
        let of = event.of.map(|of| of.token());
        let unsimulated = event.simulated.err().map(Unsimulated::reason);
        json!({
            "code": event.code, "name": event.name, "of": of, "counts": event.counts, "caveat": event.caveat,
            "unsimulated": unsimulated,
        })
    };
    let table = |(table, events): &Selection| {
        json!({
            "name": table.name, "title": table.title, "source": table.source, "counters": table.counters,
            "bits": table.bits, "cycle_counter": table.cycle_counter,
            "events": events.iter().map(event).collect::<Vec<Value>>(),
        })
    };
    let tables: Vec<Value> = tables.iter().map(table).collect();
    format!("{:#}\n", json!({"format": "fathom.events", "version": 1, "tables": tables}))
}
