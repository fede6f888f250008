//! The format of the Firefox Profiler ("processed profile"), by the crate of its makers.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, SamplingInterval,
    Timestamp, WeightType,
};

use super::Exported;

/// Colours of files, in turn.
const COLOURS: [CategoryColor; 6] = [
    CategoryColor::Blue,
    CategoryColor::Green,
    CategoryColor::Orange,
    CategoryColor::Purple,
    CategoryColor::Yellow,
    CategoryColor::Red,
];

/// Returns the JSON document: one thread whose samples are in the order of the sequences, each with its number as weight. Numbers
/// that are larger than a weight may be are divided, all by the same.
pub fn contents(exported: &Exported) -> serde_json::Result<Vec<u8>> {
    let values = || exported.sequences.iter().map(|sequence| sequence.values[exported.shown]);
    let divisor = (values().max().unwrap_or(0) / i32::MAX as u64).saturating_add(1);
    let step_ns = exported.step_ns.saturating_mul(divisor);
    let mut to = Profile::new(exported.program, UNIX_EPOCH.into(), SamplingInterval::from_nanos(step_ns));
    let start = Timestamp::from_nanos_since_reference(0);
    let process = to.add_process(exported.program, 1, start);
    let thread = to.add_thread(process, 1, start, true);
    let name = match (exported.amounts[exported.shown].name.as_str(), divisor) {
        ("samples", 1) => exported.program.to_owned(),
        (what, 1) => format!("{}: {what}", exported.program),
        (what, divisor) => format!("{}: {what} / {divisor}", exported.program),
    };
    to.set_thread_name(thread, &name);
    to.set_thread_samples_weight_type(thread, WeightType::Samples);
    // Names are of the record, and no symbols are to be looked up.
    to.set_symbolicated(true);
    let mut files = HashMap::new();
    let mut before = 0u64;
    for (sequence, value) in exported.sequences.iter().zip(values()).filter(|(_, value)| *value > 0) {
        let frames: Vec<FrameInfo> =
            sequence.calls.iter().map(|call| frame(&mut to, &mut files, *call)).collect();
        let stack = to.intern_stack_frames(thread, frames.into_iter());
        let time = Timestamp::from_nanos_since_reference(before.saturating_mul(step_ns));
        let value = value / divisor;
        let cpu = CpuDelta::from_nanos(value.saturating_mul(step_ns));
        to.add_sample(thread, time, stack, cpu, i32::try_from(value).unwrap_or(i32::MAX));
        before = before.saturating_add(value);
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

    use super::super::sampled::tests::{of, planted};
    use super::*;

    /// Follows the tables as the profiler does: docs-developer/processed-profile-format.md.
    #[test]
    fn document_has_every_sample_with_its_calls() {
        let planted = planted();
        let bytes = contents(&of(&planted)).expect("JSON");
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
