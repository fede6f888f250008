//! Facts that were sentences and are now tokens, with reason and remedy as separate facts.

use fathom_probe::wire::{Line, Value};
use fathom_units::facts::{self, CeilingSource, Grant, UNLIMITED};

/// Returns the facts (name and text) that replace a fact whose text was a sentence.
fn split(name: &str, text: &str) -> Option<Vec<(String, String)>> {
    let granted = |value: &str| Some((Grant::Granted, value.to_owned()));
    let partial = |value: &str| Some((Grant::Partial, value.to_owned()));
    let given = match (name, text) {
        (facts::PRIVILEGE_PARENT, "killed when the parent ends") => granted(text),
        (facts::PRIVILEGE_OOM, _) if text.starts_with("first to be killed") => granted("oom_score_adj 1000"),
        (facts::PRIVILEGE_NICE, "-20") => granted(text),
        (facts::PRIVILEGE_MEMLOCK, _) if text.starts_with("without limit") => granted(UNLIMITED),
        (facts::PRIVILEGE_MEMLOCK, _) if text.parse::<u64>().is_ok() => partial(text),
        (facts::PRIVILEGE_AFFINITY, _) => text.strip_prefix("pinned to ").and_then(granted),
        (facts::PRIVILEGE_FIFO, _) => {
            let priority =
                text.strip_prefix("priority ").and_then(|rest| rest.strip_suffix(" during trials"));
            priority.and_then(granted)
        }
        (facts::PRIVILEGE_PRIORITIES, "without limit") => granted(UNLIMITED),
        (facts::PRIVILEGE_PRIORITIES, _) => {
            let limit = text.strip_prefix("up to ").and_then(|rest| rest.strip_suffix(" by the limit"));
            limit.and_then(partial)
        }
        (facts::PRIVILEGE_COUNTERS, _) if !is_token(text) && !text.starts_with("none") => granted(text),
        _ => None,
    };
    if let Some((grant, value)) = given {
        return Some(vec![(name.to_owned(), grant.token().to_owned()), (facts::value(name), value)]);
    }
    refused(name, text).or_else(|| memory(name, text))
}

fn is_token(text: &str) -> bool {
    Grant::from_token(text).is_some()
}

/// Returns the facts of a refused privilege: token, reason and remedy.
fn refused(name: &str, text: &str) -> Option<Vec<(String, String)>> {
    let (grant, reason, remedy) = match name {
        facts::PRIVILEGE_FIFO if text == "not asked for" => (Grant::NotRequested, "", ""),
        facts::PRIVILEGE_FIFO => (Grant::Refused, text.split_once(": ")?.0, text.split_once(": ")?.1),
        facts::PRIVILEGE_COUNTERS => {
            let why = text.strip_prefix("none: ")?;
            let (reason, remedy) = why.split_once("; ").unwrap_or((why, ""));
            let grant = if reason.contains("not permitted") { Grant::Refused } else { Grant::Absent };
            (grant, reason, remedy)
        }
        _ => return None,
    };
    let all =
        [(name.to_owned(), grant.token()), (facts::reason(name), reason), (facts::remedy(name), remedy)];
    Some(all.into_iter().filter(|(_, t)| !t.is_empty()).map(|(n, t)| (n, t.to_owned())).collect())
}

/// Returns the facts about memory locks and memory limits.
fn memory(name: &str, text: &str) -> Option<Vec<(String, String)>> {
    if name.ends_with(".locked") {
        let (reason, remedy) = text.strip_prefix("no (")?.split_once("): ")?;
        let reason = format!("the kernel refuses it ({reason})");
        return Some(vec![
            (name.to_owned(), "no".to_owned()),
            (facts::reason(name), reason),
            (facts::remedy(name), remedy.to_owned()),
        ]);
    }
    let prefix = name.strip_suffix(".ceiling.limit")?;
    let source = match text {
        _ if text.contains("control group") => CeilingSource::ControlGroup,
        _ if text.contains("MemAvailable") => CeilingSource::System,
        _ if text.contains("cannot be read") => CeilingSource::Unknown,
        _ => CeilingSource::Process,
    };
    let named = (format!("{prefix}.ceiling.source"), source.token().to_owned());
    Some(vec![(name.to_owned(), text.to_owned()), named])
}

/// Returns the lines that replace a line: the line itself, or one line per new fact.
pub fn lines(line: Line) -> Vec<Line> {
    let of = |key: &str| line.pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value);
    let (Some(Value::Text(name)), Some(Value::Text(text))) = (of("name"), of("text")) else {
        return vec![line];
    };
    let whole = line.word == "fact" && of("of").is_none();
    let Some(all) = whole.then(|| split(name, text)).flatten() else { return vec![line] };
    let fact = |(name, text): (String, String)| Line {
        pairs: vec![("name".to_owned(), Value::Text(name)), ("text".to_owned(), Value::Text(text))],
        word: line.word.clone(),
        seq: line.seq,
    };
    all.into_iter().map(fact).collect()
}
