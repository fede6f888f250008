use proptest::prelude::*;
use serde_json::Value;

use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_report::kind;
use fathom_report::schema::{schema_json, schema_text};

use crate::json_of;
use crate::samples::{self, golden};

#[test]
fn schema_matches_the_golden_files() {
    golden("schema.json", &schema_json(&REPORT_KINDS));
    golden("schema.txt", &schema_text(&REPORT_KINDS));
}

/// Keywords that check nothing.
const ANNOTATIONS: [&str; 3] = ["$schema", "title", "description"];

/// Returns an error if `value` does not follow `schema`. Refuses keywords that it does not know, so that none is
/// ignored.
fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Some(schema) = schema.as_object() else {
        return if schema == &Value::Bool(false) { Err(format!("{at}: not allowed")) } else { Ok(()) };
    };
    for (keyword, rule) in schema {
        let ok = match keyword.as_str() {
            k if ANNOTATIONS.contains(&k) => true,
            "type" => match rule {
                Value::Array(any) => any.iter().any(|t| is_type(t, value)),
                one => is_type(one, value),
            },
            "const" => rule == value,
            "enum" => rule.as_array().ok_or("enum")?.contains(value),
            "minimum" => value.as_f64() >= rule.as_f64(),
            "minItems" => {
                value.as_array().is_none_or(|a| a.len() as u64 >= rule.as_u64().unwrap_or(u64::MAX))
            }
            "pattern" => {
                let regex =
                    regex_lite::Regex::new(rule.as_str().ok_or("pattern")?).map_err(|e| e.to_string())?;
                value.as_str().is_none_or(|text| regex.is_match(text))
            }
            "required" => {
                let has = |k: &Value| k.as_str().is_some_and(|k| value.get(k).is_some());
                rule.as_array().ok_or("required")?.iter().all(has)
            }
            "anyOf" => rule.as_array().ok_or("anyOf")?.iter().any(|s| check(s, value, at).is_ok()),
            _ => {
                check_parts(schema, keyword, value, at)?;
                true
            }
        };
        if !ok {
            return Err(format!("{at}: {keyword} {rule} does not hold for {value}"));
        }
    }
    Ok(())
}

/// Checks a keyword about members and items.
fn check_parts(
    schema: &serde_json::Map<String, Value>,
    keyword: &str,
    value: &Value,
    at: &str,
) -> Result<(), String> {
    let rule = &schema[keyword];
    match keyword {
        "properties" => {
            for (key, rule) in rule.as_object().ok_or("properties")? {
                value.get(key).map_or(Ok(()), |v| check(rule, v, &format!("{at}.{key}")))?;
            }
        }
        "additionalProperties" => {
            let known = schema.get("properties").and_then(Value::as_object);
            for (key, v) in value.as_object().into_iter().flatten() {
                if known.is_none_or(|k| !k.contains_key(key)) {
                    check(rule, v, &format!("{at}.{key}"))?;
                }
            }
        }
        "prefixItems" => {
            let rules = rule.as_array().ok_or("prefixItems")?;
            for (rule, v) in rules.iter().zip(value.as_array().into_iter().flatten()) {
                check(rule, v, at)?;
            }
        }
        "items" => {
            let skip = schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
            for (i, v) in value.as_array().into_iter().flatten().enumerate().skip(skip) {
                check(rule, v, &format!("{at}[{i}]"))?;
            }
        }
        unknown => return Err(format!("the schema uses {unknown:?}, which this check does not know")),
    }
    Ok(())
}

fn is_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    }
}

fn follows(text: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(&schema_json(&REPORT_KINDS)).map_err(|e| e.to_string())?;
    check(&schema, &serde_json::from_str(text).map_err(|e| e.to_string())?, "document")
}

#[test]
fn hand_built_reports_follow_the_schema() {
    for report in [samples::survey(60), samples::refused(), samples::disturbed()] {
        follows(&json_of(&report)).expect("it follows");
    }
}

#[test]
fn comparisons_follow_their_own_schema() {
    let schema: Value = serde_json::from_str(&fathom_report::json::comparison_schema()).expect("JSON");
    let follows = |text: &str| check(&schema, &serde_json::from_str(text).expect("JSON"), "document");
    let (a, b) = (samples::survey(20), samples::disturbed());
    let with = |x, y| fathom_analysis::compare::compare(x, y, |_| true);
    let others = [("B".to_owned(), with(&a, &b)), ("A again".to_owned(), with(&a, &a))];
    for beyond in [None, Some(0.05)] {
        let text = fathom_report::json::comparison("survey", "A", &others, beyond);
        follows(&text).expect("it follows");
        let document: Value = serde_json::from_str(&text).expect("JSON");
        let rows = document["comparisons"][1]["rows"].as_array().expect("rows");
        assert!(rows.len() > 20, "{}", rows.len());
        for row in rows {
            // A record compared with itself: no change, no difference, and nothing beyond the limit.
            assert!(row["change"] == 0 && row["differs"] != "yes" && row["beyond"] != true, "{row}");
            assert_eq!(row["p"].is_null(), row["differs"] == "untested", "{row}");
        }
        // The other session is unusable.
        let unusable = &document["comparisons"][0];
        assert_eq!(unusable["unusable"], serde_json::json!(["b"]));
        for row in unusable["rows"].as_array().expect("rows") {
            assert!(row["p"].is_null() && row["differs"] == "disturbed" && row["low"].is_null(), "{row}");
        }
        for (from, to) in [
            ("\"differs\":\"no\"", "\"differs\":\"perhaps\""),
            ("\"version\": 1", "\"version\": 2"),
            ("\"p\":", "\"q\":"),
        ] {
            assert!(follows(&text.replacen(from, to, 1)).is_err(), "{from} -> {to}");
        }
    }
}

#[test]
fn wrong_documents_do_not_follow_the_schema() {
    let good = json_of(&samples::survey(3));
    for (from, to) in [
        ("\"unit\":\"ticks\"", "\"unit\":\"ns\""),
        ("\"value\":\"no\"", "\"value\":\"perhaps\""),
        ("\"value\":24", "\"value\":\"24\""),
        ("\"version\": 1", "\"version\": 2"),
        ("\"trust\":\"real\"", "\"trust\":\"priceless\""),
        ("\"count\":1000", "\"count\":-1"),
        ("\"trials\":[1,2,3]", "\"trials\":[1,2,0.5]"),
        ("\"seed\": 42,", ""),
        ("\"seed\": 42,", "\"seed\": 42, \"more\": 1,"),
        ("prefetch.random.time", "prefetch.sideways.time"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert!(bad != good, "{from} is in the document");
        assert!(follows(&bad).is_err(), "{from} -> {to}");
    }
}

proptest! {
    #![proptest_config(samples::config())]

    #[test]
    fn random_documents_follow_the_schema(report in samples::any_report()) {
        let result = follows(&json_of(&report));
        prop_assert!(result.is_ok(), "{:?}", result);
    }

    #[test]
    fn published_patterns_match_exactly_the_known_names(name in "(tier|latency|claim|prefetch|tlb)(\\.(0|[1-9][0-9]{0,4}|random|sysfs|level|time|latency|size)){1,4}") {
        let schema: Value = serde_json::from_str(&schema_json(&REPORT_KINDS)).expect("JSON");
        let rows = &schema["properties"]["findings"]["items"]["anyOf"];
        let any = rows.as_array().expect("patterns").iter().any(|row| {
            let pattern = row["properties"]["name"]["pattern"].as_str().expect("a pattern");
            regex_lite::Regex::new(pattern).expect("a valid one").is_match(&name)
        });
        prop_assert_eq!(any, kind::key(&REPORT_KINDS, &name).is_some());
    }
}
