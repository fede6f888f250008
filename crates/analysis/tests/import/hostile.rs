//! Any file gives a consistent result or an error with a line of that file, and never a panic.

use fathom_analysis::import::read;
use proptest::prelude::*;

const FIXTURES: [&str; 11] = [
    include_str!("fixtures/cyclictest-histogram.json"),
    include_str!("fixtures/cyclictest-histogram.txt"),
    include_str!("fixtures/cyclictest-live.txt"),
    include_str!("fixtures/cyclictest-nanoseconds.json"),
    include_str!("fixtures/cyclictest-plain.json"),
    include_str!("fixtures/cyclictest-plain.txt"),
    include_str!("fixtures/cyclictest-sums.txt"),
    include_str!("fixtures/xenomai-2.gnuplot"),
    include_str!("fixtures/xenomai-3.gnuplot"),
    include_str!("fixtures/xenomai-fine.txt"),
    include_str!("fixtures/xenomai-places.txt"),
];

/// Replacements for numbers and words: extremes, an empty word, words of other formats.
const WORDS: [&str; 24] = [
    "",
    "-1",
    "0",
    "1",
    "1e308",
    "-1e308",
    "NaN",
    "inf",
    "18446744073709551615",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999999",
    "0.0000001",
    "|",
    "\n",
    "# Histogram",
    "T: 0 ( 1) P:80 I:1000 C:1 Min:1 Act:1 Avg:1 Max:1",
    "RTS|1|2|3|4|5|99999999999:00:00/",
    "HSD|    avg|   0 -  1 |        1",
    "\u{1b}[3A",
    "{",
    "1e308,",
    "-1,",
    "\u{20ac}",
];

fn check(text: &str) -> Result<(), TestCaseError> {
    match read(text) {
        Ok(result) => {
            prop_assert!(!result.series.is_empty());
            for series in &result.series {
                prop_assert!(series.bucket_ns > 0);
                prop_assert!(series.counts.windows(2).all(|two| two[0].0 < two[1].0), "{:?}", series.counts);
                prop_assert!(series.counts.iter().all(|bar| bar.1 > 0));
                let seen: u64 = series.counts.iter().map(|bar| bar.1).sum();
                if seen > 0 {
                    prop_assert_eq!(seen + series.overflow, series.cycles);
                }
                prop_assert!(series.mean_ns.is_none_or(f64::is_finite), "{:?}", series.mean_ns);
                prop_assert!(
                    series.stddev_ns.is_none_or(|s| s.is_finite() && s >= 0.0),
                    "{:?}",
                    series.stddev_ns
                );
            }
        }
        Err(error) => {
            prop_assert!((1..=text.lines().count().max(1)).contains(&error.line), "{error}");
            prop_assert!(!error.what.is_empty() && !error.help.is_empty());
        }
    }
    Ok(())
}

/// Replaces the `nth` word by `word`.
fn replaced(text: &str, nth: usize, word: &str) -> String {
    let starts: Vec<usize> = text
        .char_indices()
        .filter(|&(at, c)| !c.is_whitespace() && !text[..at].ends_with(|c: char| !c.is_whitespace()))
        .map(|(at, _)| at)
        .collect();
    let Some(&start) = starts.get(nth % starts.len().max(1)) else { return word.to_owned() };
    let end = text[start..].find(char::is_whitespace).map_or(text.len(), |length| start + length);
    format!("{}{word}{}", &text[..start], &text[end..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_text_does_not_panic(text in any::<String>()) {
        check(&text)?;
    }

    #[test]
    fn random_lines_of_fixtures_do_not_panic(
        lines in prop::collection::vec(
            prop::sample::select(FIXTURES.iter().flat_map(|text| text.lines()).collect::<Vec<_>>()), 0..40),
    ) {
        check(&lines.join("\n"))?;
    }

    #[test]
    fn damaged_fixtures_do_not_panic(
        fixture in prop::sample::select(FIXTURES.to_vec()),
        damage in prop::collection::vec((any::<usize>(), prop::sample::select(WORDS.to_vec())), 1..6),
        cut in prop::option::of(0.0f64..1.0),
    ) {
        let mut text = fixture.to_owned();
        for (nth, word) in damage {
            text = replaced(&text, nth, word);
        }
        if let Some(cut) = cut {
            let keep = (text.chars().count() as f64 * cut) as usize;
            text = text.chars().take(keep).collect();
        }
        check(&text)?;
    }
}
