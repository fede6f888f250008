//! The format of pprof: proto/profile.proto of github.com/google/pprof, version of 2024; not compressed, which its readers accept.

use std::collections::HashMap;

use fathom_experiment::record::Profile as Sampled;
use prost::Message;

use super::Sequence;

/// Message `Profile`, the fields that are written.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
}

/// Message `ValueType`: numbers of strings.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

/// Message `Sample`: the last call first, and a value for each type.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

/// Message `Mapping`: a file.
#[derive(Clone, Copy, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

/// Message `Location`. One stands for a function.
#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

/// Message `Line`, without a number.
#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

/// Message `Function`.
#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// The profile, and the numbers of what it has.
#[derive(Default)]
struct Builder<'a> {
    profile: Profile,
    strings: HashMap<String, i64>,
    mappings: HashMap<&'a str, u64>,
    locations: HashMap<(&'a str, &'a str), u64>,
}

impl<'a> Builder<'a> {
    fn string(&mut self, text: &str) -> i64 {
        let next = self.profile.string_table.len() as i64;
        let number = *self.strings.entry(text.to_owned()).or_insert(next);
        if number == next {
            self.profile.string_table.push(text.to_owned());
        }
        number
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.string(kind), unit: self.string(unit) }
    }

    /// Returns the number of a file; 0 is none.
    fn mapping(&mut self, file: &'a str) -> u64 {
        if file.is_empty() {
            return 0;
        }
        if let Some(id) = self.mappings.get(file) {
            return *id;
        }
        let id = self.mappings.len() as u64 + 1;
        let filename = self.string(file);
        self.profile.mapping.push(Mapping { id, filename, has_functions: true });
        self.mappings.insert(file, id);
        id
    }

    fn location(&mut self, (function, file): (&'a str, &'a str)) -> u64 {
        if let Some(id) = self.locations.get(&(function, file)) {
            return *id;
        }
        let id = self.locations.len() as u64 + 1;
        let (name, mapping_id) = (self.string(function), self.mapping(file));
        self.profile.function.push(Function { id, name, system_name: name });
        self.profile.location.push(Location { id, mapping_id, line: vec![Line { function_id: id }] });
        self.locations.insert((function, file), id);
        id
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the bytes of the message.
pub fn contents(profile: &Sampled, sequences: &[Sequence], command: &str) -> Vec<u8> {
    build(profile, sequences, command).encode_to_vec()
}

fn build(profile: &Sampled, sequences: &[Sequence], command: &str) -> Profile {
    let mut builder = Builder::default();
    // The first string is empty.
    builder.string("");
    let samples = builder.value_type("samples", "count");
    let events = match profile.event.as_str() {
        "cycles" => builder.value_type("cycles", "count"),
        _ => builder.value_type("cpu", "nanoseconds"),
    };
    builder.profile.sample_type = vec![samples, events];
    builder.profile.period_type = Some(events);
    builder.profile.period = signed(profile.weight / profile.counts[0].max(1));
    builder.profile.duration_nanos = signed(profile.wall_ns);
    let comment = builder.string(command);
    builder.profile.comment = vec![comment];
    // The first file is shown as the program: that in which most samples begin.
    let main = sequences.iter().max_by_key(|sequence| sequence.samples).and_then(|most| most.calls.first());
    builder.mapping(main.map_or("", |(_, file)| file));
    for sequence in sequences {
        let location_id = sequence.calls.iter().rev().map(|call| builder.location(*call)).collect();
        let value = vec![signed(sequence.samples), signed(sequence.weight)];
        builder.profile.sample.push(Sample { location_id, value });
    }
    builder.profile
}

#[cfg(test)]
mod tests {
    use super::super::sequences;
    use super::super::tests::planted;
    use super::*;

    #[test]
    fn message_has_every_sample_by_the_last_call_first() {
        let planted = planted();
        let bytes = contents(&planted, &sequences(&planted), "fathom profile");
        let read = Profile::decode(&*bytes).expect("a message");
        let text = |number: i64| read.string_table[number as usize].as_str();
        assert_eq!(text(0), "");
        let function = |id: &u64| {
            let location = &read.location[*id as usize - 1];
            assert_eq!(location.id, *id);
            text(read.function[location.line[0].function_id as usize - 1].name)
        };
        let samples: Vec<(Vec<&str>, &[i64])> = read
            .sample
            .iter()
            .map(|sample| (sample.location_id.iter().map(function).collect(), sample.value.as_slice()))
            .collect();
        assert_eq!(
            samples,
            [
                (vec!["a", "main"], &[4, 4000][..]),
                (vec!["b", "a", "main"], &[5, 5000]),
                (vec!["[others]"], &[1, 1000])
            ]
        );
        let types: Vec<(&str, &str)> =
            read.sample_type.iter().map(|of| (text(of.kind), text(of.unit))).collect();
        assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
        assert_eq!(
            (read.period, read.duration_nanos, text(read.comment[0])),
            (1000, 11_000, "fathom profile")
        );
        assert_eq!(read.mapping.iter().map(|of| text(of.filename)).collect::<Vec<_>>(), ["program"]);
        assert_eq!(read.location.iter().map(|of| of.mapping_id).collect::<Vec<_>>(), [1, 1, 1, 0]);
    }
}
