//! Folded stacks: `main;work;inner 750`, a line for each sequence of calls.

use super::{Exported, Sequence};

/// Returns the lines.
pub fn contents(exported: &Exported) -> Vec<u8> {
    lines(&exported.sequences, exported.shown)
}

fn lines(sequences: &[Sequence], shown: usize) -> Vec<u8> {
    // A semicolon separates calls, and a blank the number.
    let clean = |name: &str| name.replace(';', ",").replace(char::is_whitespace, "_");
    let line = |sequence: &Sequence| {
        let calls: Vec<String> = sequence.calls.iter().map(|(function, _)| clean(function)).collect();
        format!("{} {}\n", calls.join(";"), sequence.values[shown])
    };
    sequences.iter().filter(|sequence| sequence.values[shown] > 0).map(line).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_separators_stay_one_call() {
        let calls = vec![("main", "p"), ("f(a; b)\nc", "p")];
        let lines = lines(&[Sequence { calls, values: vec![7, 0] }], 0);
        assert_eq!(String::from_utf8(lines).expect("text"), "main;f(a,_b)_c 7\n");
    }
}
