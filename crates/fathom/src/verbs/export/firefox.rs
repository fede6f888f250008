//! The format of the Firefox Profiler ("processed profile"), by the crate of its makers.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use fathom_experiment::record::Profile as Sampled;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, SamplingInterval,
    Timestamp, WeightType,
};

use super::Sequence;

/// Colours of files, in turn.
const COLOURS: [CategoryColor; 6] = [
    CategoryColor::Blue,
    CategoryColor::Green,
    CategoryColor::Orange,
    CategoryColor::Purple,
    CategoryColor::Yellow,
    CategoryColor::Red,
];

/// Returns the JSON document: one thread whose samples are in the order of the sequences, each with its number of samples as
/// weight.
pub fn contents(profile: &Sampled, sequences: &[Sequence]) -> serde_json::Result<Vec<u8>> {
    let period_ns = match profile.rate {
        // A sample was for a number of events.
        0 => profile.wall_ns / profile.counts[0].max(1),
        rate => 1_000_000_000 / rate,
    };
    let mut to = Profile::new(&profile.program, UNIX_EPOCH.into(), SamplingInterval::from_nanos(period_ns));
    let start = Timestamp::from_nanos_since_reference(0);
    let process = to.add_process(&profile.program, 1, start);
    let thread = to.add_thread(process, 1, start, true);
    to.set_thread_name(thread, &profile.program);
    to.set_thread_samples_weight_type(thread, WeightType::Samples);
    // Names are of the record, and no symbols are to be looked up.
    to.set_symbolicated(true);
    let mut files = HashMap::new();
    let mut samples = 0u64;
    for sequence in sequences {
        let frames: Vec<FrameInfo> =
            sequence.calls.iter().map(|call| frame(&mut to, &mut files, *call)).collect();
        let stack = to.intern_stack_frames(thread, frames.into_iter());
        let time = Timestamp::from_nanos_since_reference(samples.saturating_mul(period_ns));
        let cpu = CpuDelta::from_nanos(sequence.samples.saturating_mul(period_ns));
        // Their number may be larger than a weight.
        let weight = i32::try_from(sequence.samples).unwrap_or(i32::MAX);
        to.add_sample(thread, time, stack, cpu, weight);
        samples = samples.saturating_add(sequence.samples);
    }
    serde_json::to_vec(&to)
}

/// Returns the frame of a call. Its file is its category.
fn frame<'a>(
    to: &mut Profile,
    files: &mut HashMap<&'a str, CategoryHandle>,
    (function, file): (&'a str, &'a str),
) -> FrameInfo {
    let next = files.len();
    let category = match file {
        "" => CategoryHandle::OTHER,
        _ => *files.entry(file).or_insert_with(|| to.add_category(file, COLOURS[next % COLOURS.len()])),
    };
    let name = to.intern_string(function);
    FrameInfo { frame: Frame::Label(name), category_pair: category.into(), flags: FrameFlags::empty() }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::sequences;
    use super::super::tests::planted;
    use super::*;

    /// Follows the tables as the profiler does: docs-developer/processed-profile-format.md.
    #[test]
    fn document_has_every_sample_with_its_calls() {
        let planted = planted();
        let bytes = contents(&planted, &sequences(&planted)).expect("JSON");
        let document: Value = serde_json::from_slice(&bytes).expect("JSON");
        let thread = &document["threads"][0];
        let strings = if thread["stringArray"].is_array() {
            &thread["stringArray"]
        } else {
            &document["shared"]["stringArray"]
        };
        let at = |table: &Value, index: &Value| table[index.as_u64().expect("an index") as usize].clone();
        let calls = |stack: &Value| {
            let (mut names, mut stack) = (Vec::new(), stack.clone());
            while !stack.is_null() {
                let frame = at(&thread["stackTable"]["frame"], &stack);
                let function = at(&thread["frameTable"]["func"], &frame);
                let name = at(strings, &at(&thread["funcTable"]["name"], &function));
                names.insert(0, name.as_str().expect("a name").to_owned());
                stack = at(&thread["stackTable"]["prefix"], &stack);
            }
            names.join(" ")
        };
        let samples = &thread["samples"];
        let stacks: Vec<String> = samples["stack"].as_array().expect("stacks").iter().map(calls).collect();
        assert_eq!(stacks, ["main a", "main a b", "[others]"]);
        assert_eq!(samples["weight"], serde_json::json!([4, 5, 1]));
        assert_eq!(samples["weightType"], "samples");
        assert_eq!(document["meta"]["interval"], 1.0);
        assert_eq!(document["meta"]["symbolicated"], true);
    }
}
