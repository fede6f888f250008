//! Objects of a JSON Schema.

use serde_json::{Value, json};

/// A closed object: every property required, none other allowed.
pub(crate) fn closed(about: &str, properties: Value) -> Value {
    let keys: Vec<&str> =
        properties.as_object().map_or(Vec::new(), |o| o.keys().map(String::as_str).collect());
    json!({
        "description": about,
        "type": "object",
        "required": keys,
        "additionalProperties": false,
        "properties": properties,
    })
}
