//! The lines about sensitivity.

use fathom_analysis::findings::{Outcome, Varied};
use fathom_analysis::sensitivity::{Effect, Sensitivity};
use fathom_units::facts::{Study, ValueClass};

use super::super::{Record, sensitivity_lines};

#[test]
fn sensitivity_reads_back() {
    let varied = |value: &str, class, low: Option<&str>| Varied {
        value: value.into(),
        class,
        ends: [low.map(str::to_owned), Some("2 \"x\" cycles".into())],
    };
    let effect = |varied, range, words: &[&str], missing| Effect {
        varied,
        finding: "dma.study.saved".into(),
        outcome: Outcome { range, words: words.iter().map(|w| (*w).to_owned()).collect(), missing },
    };
    let all = Sensitivity {
        ahead: true,
        varied: vec![
            varied("core.clock", ValueClass::Study(Study::S3), None),
            varied("level[2].latency", ValueClass::Assumed, Some("1 cycles")),
        ],
        effects: vec![
            effect(0, Some((-1.0 / 3.0, 1e300)), &[], false),
            effect(1, Some((0.1, 0.2)), &[], true),
            effect(1, None, &["zero-copy", "coherent"], false),
        ],
    };
    let lines: Vec<String> = sensitivity_lines(&all).iter().map(|line| line.render()).collect();
    let record = |lines: &[String]| {
        Record::parse(&[&[Record::first_line()], lines].concat().join("\n")).expect("a record")
    };
    let again = record(&lines);
    assert_eq!((again.sensitivity.as_ref(), again.problems.len()), (Some(&all), 0), "{:?}", again.problems);
    // A later list replaces an earlier one.
    let twice = record(&[&lines[..], &lines[..]].concat());
    assert_eq!(twice.sensitivity, Some(all));
    let wrong = |line: &str| record(&[lines[0].clone(), line.to_owned()]).problems.join("");
    for (line, why) in [
        ("depends finding=\"x\" low=\"1\" high=\"2\"", "before"),
        ("varied value=\"x\" class=\"guessed\"", "not a class"),
        ("sensitivity from=nowhere", "not session or ahead"),
    ] {
        assert!(wrong(line).contains(why), "{line}: {}", wrong(line));
    }
    let nan = "depends finding=\"x\" low=\"NaN\" high=\"2\"".to_owned();
    let problems = record(&[lines[0].clone(), lines[1].clone(), nan]).problems.join("");
    assert!(problems.contains("not a number"), "{problems}");
    assert!(record(&lines[1..]).problems[0].contains("before"));
}
