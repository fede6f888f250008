//! Folded stacks: `main;work;inner 750`, a line for each sequence of calls.

use super::Sequence;

/// Returns the lines.
pub fn contents(sequences: &[Sequence]) -> Vec<u8> {
    // A semicolon separates calls, and a blank the number.
    let clean = |name: &str| name.replace(';', ",").replace(char::is_whitespace, "_");
    let line = |sequence: &Sequence| {
        let calls: Vec<String> = sequence.calls.iter().map(|(function, _)| clean(function)).collect();
        format!("{} {}\n", calls.join(";"), sequence.samples)
    };
    sequences.iter().map(line).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_separators_stay_one_call() {
        let calls = vec![("main", "p"), ("f(a; b)\nc", "p")];
        let lines = contents(&[Sequence { calls, samples: 7, weight: 0 }]);
        assert_eq!(String::from_utf8(lines).expect("text"), "main;f(a,_b)_c 7\n");
    }
}
