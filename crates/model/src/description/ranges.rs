//! Default ranges of values without a range of their own.
//!
//! They are a convention and have no source: half and double of a number. A published range goes into `ranges` of the
//! description. Words and lists have a default range only if there is an obvious opposite.

use fathom_units::compact;

use super::Time;
use super::units::{self, show_hz, show_rate};

/// Returns the ends of the default range of a value, both written as in a file; `None` if there is none. One of the
/// ends may be the value itself.
pub(super) fn default(key: &str, here: &str) -> Option<[String; 2]> {
    if let Ok(count) = here.parse::<u64>() {
        let low = if count <= 1 { count } else { count / 2 };
        return Some([low, count.saturating_mul(2).max(1)].map(|count| count.to_string()));
    }
    if here == "true" || here == "false" {
        return Some(["false", "true"].map(str::to_owned));
    }
    let text = here.strip_prefix('"')?.strip_suffix('"')?;
    let quoted = |ends: [String; 2]| Some(ends.map(|end| format!("\"{end}\"")));
    if let Ok(bytes) = units::size(text) {
        return quoted([bytes / 2, bytes.saturating_mul(2)].map(compact));
    }
    if let Ok(time) = units::time(text) {
        let times = |factor: f64| Time { cycles: time.cycles * factor, ns: time.ns * factor };
        let ends = if time == Time::ZERO { [time, Time::cycles(1.0)] } else { [0.5, 2.0].map(times) };
        return quoted(ends.map(|time| time.to_string()));
    }
    if let Ok(hz) = units::hz(text) {
        return quoted([hz / 2.0, hz * 2.0].map(show_hz));
    }
    if let Ok(rate) = units::rate(text) {
        return quoted([rate / 2.0, rate * 2.0].map(show_rate));
    }
    opposite(key, text).and_then(|other| quoted([text.to_owned(), other.to_owned()]))
}

/// Returns another word than that of the value: random replacement for any other policy and LRU for random, the other
/// write policy, and a level that is independent of the nearer ones, or includes them if it is independent.
fn opposite(key: &str, word: &str) -> Option<&'static str> {
    Some(match (key, word) {
        ("replacement", "random") => "lru",
        ("replacement", _) => "random",
        ("write", "back") => "through",
        ("write", _) => "back",
        ("inclusion", "neither") => "inclusive",
        ("inclusion", _) => "neither",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::default;

    #[test]
    fn numbers_are_halved_and_doubled_and_words_have_an_opposite() {
        for (key, here, low, high) in [
            ("clock", "\"1.5 GHz\"", "\"750 MHz\"", "\"3 GHz\""),
            ("rate", "\"24 MB/s\"", "\"12 MB/s\"", "\"48 MB/s\""),
            ("size", "\"1K\"", "\"512\"", "\"2K\""),
            ("latency", "\"21 cycles + 110 ns\"", "\"10.5 cycles + 55 ns\"", "\"42 cycles + 220 ns\""),
            ("alu", "\"0 cycles\"", "\"0 cycles\"", "\"1 cycles\""),
            ("ways", "8", "4", "16"),
            ("cpus", "1", "1", "2"),
            ("allocate", "true", "false", "true"),
            ("replacement", "\"tree-plru\"", "\"tree-plru\"", "\"random\""),
            ("inclusion", "\"neither\"", "\"neither\"", "\"inclusive\""),
        ] {
            assert_eq!(default(key, here), Some([low, high].map(str::to_owned)), "{key} {here}");
        }
        assert_eq!(default("pages", "[\"4K\"]"), None);
        assert_eq!(default("from", "\"L2\""), None);
    }
}
