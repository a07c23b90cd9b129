//! A value against its published schema, for tests: the few words of JSON Schema that ours use.

use serde_json::Value;

/// Panics where `value` is not what `schema` says. Every member must be known to the schema, so that nothing is published
/// that is not described.
pub(crate) fn conforms(value: &Value, schema: &Value, root: &Value, place: &str) {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return conforms(value, &root["$defs"][name], root, place);
    }
    let names = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => panic!("{place}: the schema names no type"),
    };
    let is = |name: &&str| match *name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{place}: {other} is no type"),
    };
    assert!(names.iter().any(is), "{place}: {value} is none of {names:?}");
    if let Some(list) = value.as_array() {
        list.iter().for_each(|value| conforms(value, &schema["items"], root, &format!("{place}[]")));
    }
    if let Some(map) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            assert!(map.contains_key(name), "{place}: {name} is missing");
        }
        for (name, value) in map {
            let known = schema["properties"].get(name).or(schema.get("additionalProperties"));
            let known = known.unwrap_or_else(|| panic!("{place}.{name} is not in the schema"));
            conforms(value, known, root, &format!("{place}.{name}"));
        }
    }
}
