//! Object schemas of a JSON Schema.

use serde_json::{Value, json};

/// Returns the schema of a closed object: all properties are required, and no others are allowed.
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

/// Makes a property of a closed object optional.
pub(crate) fn optional(object: &mut Value, key: &str) {
    if let Some(required) = object["required"].as_array_mut() {
        required.retain(|name| name != key);
    }
}
