//! A profile of samples.

use fathom_experiment::record::{Profile, Record};

use super::{Amount, Exported, Sequence, callers, with_others};
use crate::failure::Failure;

/// Returns what is exported of a profile. `file` is the record's.
pub fn exported<'a>(record: &'a Record, profile: &'a Profile, file: &str) -> Result<Exported<'a>, Failure> {
    let [samples, ..] = profile.counts;
    if samples == 0 {
        return Err(Failure::usage(
            format!("{file}: the profile has no samples"),
            "let the program work longer, or sample more often: --rate",
        ));
    }
    let command = record.run.as_ref().map_or("", |run| run.command.as_str());
    Ok(of_profile(profile, command))
}

fn of_profile<'a>(profile: &'a Profile, command: &'a str) -> Exported<'a> {
    let amount = |name: &str, unit| Amount { name: name.to_owned(), unit };
    let events = match profile.event.as_str() {
        "cycles" => amount("cycles", "count"),
        _ => amount("cpu", "nanoseconds"),
    };
    let [samples, ..] = profile.counts;
    let step_ns = match profile.rate {
        // A sample was for a number of events.
        0 => profile.wall_ns / samples.max(1),
        rate => 1_000_000_000 / rate,
    };
    Exported {
        program: &profile.program,
        command,
        amounts: vec![amount("samples", "count"), events.clone()],
        shown: 0,
        sequences: with_others(sequences(profile), &[samples, profile.weight]),
        period: (events, profile.weight / samples.max(1)),
        duration_ns: profile.wall_ns,
        step_ns,
    }
}

/// Returns the sequences of calls that have samples.
fn sequences(profile: &Profile) -> Vec<Sequence<'_>> {
    if profile.calls.is_empty() {
        let alone = profile.functions.iter().map(|place| Sequence {
            calls: vec![(&place.function, &place.file)],
            values: vec![place.samples, place.weight],
        });
        return alone.collect();
    }
    let call =
        |at: usize| profile.calls.get(at).map(|of| (of.function.as_str(), of.file.as_str(), of.caller));
    let sampled = profile.calls.iter().enumerate().filter(|(_, call)| call.samples > 0);
    let with_callers =
        sampled.map(|(at, of)| Sequence { calls: callers(at, call), values: vec![of.samples, of.weight] });
    with_callers.collect()
}

#[cfg(test)]
pub mod tests {
    use fathom_experiment::record::{ProfileCall, ProfilePlace};

    use super::*;

    /// 10 samples: 4 of `a` in `main`, 5 of `b` in `a`, and one that no call has.
    pub fn planted() -> Profile {
        let call = |caller: u64, function: &str, samples: u64| ProfileCall {
            caller,
            function: function.to_owned(),
            file: "program".to_owned(),
            samples,
            weight: samples * 1000,
        };
        let place = |function: &str, samples: u64| ProfilePlace {
            function: function.to_owned(),
            file: "program".to_owned(),
            samples,
            weight: samples * 1000,
            ..ProfilePlace::default()
        };
        Profile {
            program: "program".to_owned(),
            event: "cpu-clock".to_owned(),
            rate: 1000,
            counts: [10, 0, 0],
            weight: 10_000,
            wall_ns: 11_000,
            calls: vec![call(0, "main", 0), call(1, "a", 4), call(2, "b", 5)],
            functions: vec![place("b", 5), place("a", 4)],
            ..Profile::default()
        }
    }

    /// Returns what is exported of it.
    pub fn of(profile: &Profile) -> Exported<'_> {
        of_profile(profile, "fathom profile")
    }

    fn names(sequence: &Sequence) -> Vec<String> {
        sequence.calls.iter().map(|(function, _)| (*function).to_owned()).collect()
    }

    #[test]
    fn sequences_have_all_samples() {
        let planted = planted();
        let all = of(&planted).sequences;
        let shown: Vec<(String, u64, u64)> =
            all.iter().map(|s| (names(s).join(" "), s.values[0], s.values[1])).collect();
        let expected = [("main a", 4, 4000), ("main a b", 5, 5000), ("[others]", 1, 1000)];
        assert_eq!(shown, expected.map(|(calls, samples, weight)| (calls.to_owned(), samples, weight)));
    }

    #[test]
    fn functions_stand_for_calls_that_are_not_known() {
        let planted = Profile { calls: Vec::new(), ..planted() };
        let all = of(&planted).sequences;
        let shown: Vec<(String, u64)> = all.iter().map(|s| (names(s).join(" "), s.values[0])).collect();
        assert_eq!(shown, [("b".to_owned(), 5), ("a".to_owned(), 4), ("[others]".to_owned(), 1)]);
    }

    /// A record that claims more than there are ends too.
    #[test]
    fn hostile_calls_end() {
        let mut hostile = planted();
        hostile.calls[0].caller = 3;
        hostile.calls[1].caller = u64::MAX;
        hostile.calls[2].samples = u64::MAX;
        hostile.calls[1].samples = u64::MAX;
        assert!(of(&hostile).sequences.iter().all(|s| s.calls.len() <= 3));
    }
}
