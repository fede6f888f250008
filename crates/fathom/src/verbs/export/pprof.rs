//! The format of pprof: proto/profile.proto of github.com/google/pprof, version of 2024; not compressed, which its readers accept.

use std::collections::HashMap;

use prost::Message;

use super::{Amount, Exported};

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
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
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

    fn value_type(&mut self, amount: &Amount) -> ValueType {
        ValueType { kind: self.string(&amount.name), unit: self.string(amount.unit) }
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
pub fn contents(exported: &Exported) -> Vec<u8> {
    build(exported).encode_to_vec()
}

fn build(exported: &Exported) -> Profile {
    let mut builder = Builder::default();
    // The first string is empty.
    builder.string("");
    let types: Vec<ValueType> = exported.amounts.iter().map(|amount| builder.value_type(amount)).collect();
    builder.profile.default_sample_type = types[exported.shown].kind;
    builder.profile.sample_type = types;
    let (by, period) = &exported.period;
    builder.profile.period_type = Some(builder.value_type(by));
    builder.profile.period = signed(*period);
    builder.profile.duration_nanos = signed(exported.duration_ns);
    let comment = builder.string(exported.command);
    builder.profile.comment = vec![comment];
    // The first file is shown as the program: that in which most begin.
    let main = exported.sequences.iter().max_by_key(|sequence| sequence.values[exported.shown]);
    builder.mapping(main.and_then(|most| most.calls.first()).map_or("", |(_, file)| file));
    for sequence in &exported.sequences {
        let location_id = sequence.calls.iter().rev().map(|call| builder.location(*call)).collect();
        let value = sequence.values.iter().map(|value| signed(*value)).collect();
        builder.profile.sample.push(Sample { location_id, value });
    }
    builder.profile
}

#[cfg(test)]
mod tests {
    use super::super::sampled::tests::{of, planted};
    use super::*;

    #[test]
    fn message_has_every_sample_by_the_last_call_first() {
        let planted = planted();
        let bytes = contents(&of(&planted));
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
        assert_eq!(text(read.default_sample_type), "samples");
        assert_eq!(
            (read.period, read.duration_nanos, text(read.comment[0])),
            (1000, 11_000, "fathom profile")
        );
        assert_eq!(read.mapping.iter().map(|of| text(of.filename)).collect::<Vec<_>>(), ["program"]);
        assert_eq!(read.location.iter().map(|of| of.mapping_id).collect::<Vec<_>>(), [1, 1, 1, 0]);
    }
}
