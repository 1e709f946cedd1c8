//! Checks values against the parts of JSON schema that tool declarations use: `required`, `properties`, `type`, `enum`, `minimum`,
//! `items`. The messages are for the model.

use serde_json::Value;

/// Checks `value` against `schema`. `at` is the path of the value in messages.
pub fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(kind) = schema.get("type").and_then(Value::as_str) {
        let fits = match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "number" => value.is_number(),
            "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
            _ => true,
        };
        if !fits {
            return Err(format!("{at} must be {kind}"));
        }
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        return Err(format!("{at} must be one of {}", Value::from(choices.clone())));
    }
    if let (Some(least), Some(number)) = (schema.get("minimum").and_then(Value::as_f64), value.as_f64())
        && number < least
    {
        return Err(format!("{at} must be at least {least}"));
    }
    if let Some(members) = value.as_object() {
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                return Err(format!("{at} must have required property '{name}'"));
            }
        }
        for (name, part) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Some(member) = members.get(name) {
                check(part, member, &format!("{at}/{name}"))?;
            }
        }
    }
    if let (Some(items), Some(each)) = (value.as_array(), schema.get("items")) {
        for (i, item) in items.iter().enumerate() {
            check(each, item, &format!("{at}/{i}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn says_what_is_missing_and_where() {
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string"}, "line": {"type": "integer", "minimum": 1},
            "mode": {"enum": ["a", "b"]}, "tags": {"type": "array", "items": {"type": "string"}}}});
        let check = |value| check(&schema, &value, "params");
        assert_eq!(check(json!({"path": "x", "line": 2, "mode": "a", "tags": ["t"], "more": 1})), Ok(()));
        assert_eq!(check(json!({})), Err("params must have required property 'path'".into()));
        assert_eq!(check(json!({"path": 1})), Err("params/path must be string".into()));
        assert_eq!(check(json!({"path": "x", "line": 0})), Err("params/line must be at least 1".into()));
        assert_eq!(check(json!({"path": "x", "line": 1.5})), Err("params/line must be integer".into()));
        assert_eq!(check(json!({"path": "x", "mode": "c"})), Err("params/mode must be one of [\"a\",\"b\"]".into()));
        assert_eq!(check(json!({"path": "x", "tags": [1]})), Err("params/tags/0 must be string".into()));
        assert_eq!(check(json!([])), Err("params must be object".into()));
    }
}
