//! Converts schemas of tools for the model API. The API refuses the whole request if it does not accept one schema, and servers use every
//! draft of JSON Schema. Therefore references are resolved in place, constraints that the API does not support become notes in the
//! description, and the rest is dropped. The original schema is kept elsewhere, for people and for the fingerprint of the tool.
//!
//! Keywords are read from schema objects only. The members of `properties` are names, so parameters may be called `type` or `$ref`.

use crate::limits::mcp::{
    CONSTRAINT_CHARS, PROPERTY_TEXT_BYTES, SCHEMA_BYTES, SCHEMA_DEPTH, SCHEMA_LEVELS, SCHEMA_NODES,
};
use crate::mcp::text::clean;
use crate::wire::uri;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A schema that the API accepts, and notices about what was lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    pub schema: Value,
    pub notices: Vec<String>,
}

/// Converts the schema of a tool's arguments. The error is why the tool cannot be declared.
pub fn fit(original: &Value) -> Result<Fitted, String> {
    let mut fitter = Fitter { root: original, nodes: 0, notices: Vec::new() };
    let mut schema = fitter.schema(original, &ReferencePath::default());
    as_arguments(&mut schema);
    let size = Value::Object(schema.clone()).to_string().len();
    if size > SCHEMA_BYTES {
        return Err(format!("its schema has {size} bytes, and at most {SCHEMA_BYTES} can be declared"));
    }
    Ok(Fitted { schema: Value::Object(schema), notices: fitter.notices })
}

/// Makes the root an object. If the root has alternatives, the object has the parameters of all of them.
fn as_arguments(schema: &mut Map<String, Value>) {
    let branches = schema.remove("anyOf");
    schema.remove("nullable");
    schema.insert("type".into(), "object".into());
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    for branch in branches.as_ref().and_then(Value::as_array).into_iter().flatten() {
        for (name, property) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Some(properties) = properties.as_object_mut() {
                properties.entry(name).or_insert_with(|| property.clone());
            }
        }
    }
}

/// The references that were followed to reach a schema.
#[derive(Clone, Default)]
struct ReferencePath<'a> {
    pointers: Vec<&'a str>,
    depth: usize,
    level: usize,
}

/// A schema whose references are resolved and whose `allOf` is merged.
#[derive(Default)]
struct Merged<'a> {
    keys: BTreeMap<&'a str, &'a Value>,
    properties: BTreeMap<&'a str, &'a Value>,
    required: Vec<&'a str>,
    nullable: bool,
    /// The name of a reference that is not followed, because it is recursive or too deep.
    nested: Option<&'a str>,
    path: ReferencePath<'a>,
}

impl<'a> Merged<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.keys.get(key)?.as_str()
    }

    fn list(&self, key: &str) -> Option<&'a [Value]> {
        self.keys.get(key)?.as_array().map(Vec::as_slice)
    }

    fn is_object(&self) -> bool {
        self.text("type") == Some("object") || !self.properties.is_empty()
    }

    /// Adds the keywords of another schema. They replace present ones.
    fn add(&mut self, other: Merged<'a>) {
        self.keys.extend(other.keys);
        self.properties.extend(other.properties);
        self.required.extend(other.required);
        self.nullable |= other.nullable;
        self.nested = self.nested.or(other.nested);
        self.path.depth = self.path.depth.max(other.path.depth);
        self.path.pointers.extend(other.path.pointers);
    }
}

struct Fitter<'a> {
    root: &'a Value,
    nodes: usize,
    notices: Vec<String>,
}

const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
const FORMATS: [&str; 8] = ["date-time", "date", "time", "enum", "float", "double", "int32", "int64"];
/// Keywords that are copied if their values are numbers.
const NUMBERS: [&str; 6] = ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];
/// Constraints that the API does not support. They become notes in the description.
const CONSTRAINTS: [&str; 11] = [
    "not",
    "if",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "multipleOf",
    "uniqueItems",
    "contains",
    "propertyNames",
    "patternProperties",
    "contentEncoding",
];

impl<'a> Fitter<'a> {
    fn schema(&mut self, value: &'a Value, path: &ReferencePath<'a>) -> Map<String, Value> {
        let mut merged = self.merge(value, path);
        if path.level >= SCHEMA_LEVELS || self.nodes > SCHEMA_NODES {
            merged.nested = merged.nested.or(Some("schema"));
        }
        merged.path.level = path.level + 1;
        let mut notes = Vec::new();
        let mut out = match merged.nested {
            Some(name) => {
                notes.push(format!("nested {name}"));
                object(json!({"type": "object"}))
            }
            None => self.keywords(&merged, &mut notes),
        };
        describe(&merged, &notes, &mut out);
        out
    }

    /// Resolves references and merges `allOf`. Also merges the only alternative of a schema that may otherwise be null.
    fn merge(&mut self, value: &'a Value, path: &ReferencePath<'a>) -> Merged<'a> {
        let mut merged = Merged { path: path.clone(), ..Merged::default() };
        self.nodes += 1;
        let Some(members) = value.as_object().filter(|_| self.nodes <= SCHEMA_NODES) else {
            return merged;
        };
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            self.follow(reference, &mut merged);
        }
        let branches: Vec<Merged<'a>> = match members.get("allOf").and_then(Value::as_array) {
            Some(branches) => branches.iter().map(|branch| self.merge(branch, &merged.path)).collect(),
            None => Vec::new(),
        };
        let most = if branches.iter().all(Merged::is_object) { branches.len() } else { 1 };
        branches.into_iter().take(most).for_each(|branch| merged.add(branch));
        for alternatives in ["anyOf", "oneOf"].map(|key| members.get(key).and_then(Value::as_array)) {
            let Some(alternatives) = alternatives else { continue };
            let mut rest = alternatives.iter().filter(|branch| !is_null(branch));
            merged.nullable |= alternatives.iter().any(is_null);
            if let (Some(only), None) = (rest.next(), rest.next()) {
                let only = self.merge(only, &merged.path);
                merged.add(only);
            }
        }
        let own =
            members.iter().filter(|(key, _)| !matches!(key.as_str(), "$ref" | "allOf" | "properties" | "required"));
        merged.keys.extend(own.map(|(key, value)| (key.as_str(), value)));
        let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
        merged.properties.extend(properties.map(|(name, value)| (name.as_str(), value)));
        let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
        merged.required.extend(required.filter_map(Value::as_str));
        merged
    }

    fn follow(&mut self, reference: &'a str, merged: &mut Merged<'a>) {
        let name = reference.rsplit(['/', '#']).next().filter(|name| !name.is_empty()).unwrap_or("object");
        let Some(pointer) = reference.strip_prefix('#') else {
            self.notices
                .push(format!("the reference {} leads out of the schema and was not followed", clean(reference, 80)));
            return;
        };
        let path = &mut merged.path;
        if path.pointers.contains(&pointer) || path.depth >= SCHEMA_DEPTH {
            merged.nested = Some(name);
            return;
        }
        let target = uri::decoded(pointer).and_then(|pointer| self.root.pointer(&pointer));
        match target {
            Some(target) => {
                path.pointers.push(pointer);
                path.depth += 1;
                let path = path.clone();
                merged.add(self.merge(target, &path));
            }
            None => self.notices.push(format!("the reference {} leads nowhere", clean(reference, 80))),
        }
    }

    /// Converts the keywords of a schema, except its texts.
    fn keywords(&mut self, merged: &Merged<'a>, notes: &mut Vec<String>) -> Map<String, Value> {
        let (types, nullable) = types(merged);
        let mut out = match types[..] {
            [] => self.of_type(merged, None, notes),
            [kind] => self.of_type(merged, Some(kind), notes),
            _ => {
                let branches =
                    types.iter().map(|kind| Value::Object(self.of_type(merged, Some(kind), &mut Vec::new())));
                object(json!({"anyOf": branches.collect::<Vec<_>>()}))
            }
        };
        if nullable {
            out.insert("nullable".into(), true.into());
        }
        self.alternatives(merged, &mut out, notes);
        for key in CONSTRAINTS {
            if let Some(value) = merged.keys.get(key).filter(|value| **value != &Value::Bool(false)) {
                notes.push(truncated(&format!("{key}: {value}")));
            }
        }
        out
    }

    fn alternatives(&mut self, merged: &Merged<'a>, out: &mut Map<String, Value>, notes: &mut Vec<String>) {
        let Some(branches) = merged.list("anyOf").or(merged.list("oneOf")) else {
            return;
        };
        let branches: Vec<&Value> = branches.iter().filter(|branch| !is_null(branch)).collect();
        if branches.len() < 2 {
            return;
        }
        const SHAPES: [&str; 8] = ["type", "$ref", "properties", "enum", "const", "items", "anyOf", "allOf"];
        if !branches.iter().any(|branch| SHAPES.iter().any(|key| branch.get(key).is_some())) {
            notes.push(truncated(&format!("one of: {}", json!(branches))));
            return;
        }
        let fitted = branches.into_iter().map(|branch| Value::Object(self.schema(branch, &merged.path)));
        let fitted: Vec<Value> = fitted.collect();
        // The alternatives repeat these keywords.
        for key in ["type", "properties", "required", "items"] {
            if !merged.is_object() {
                out.remove(key);
            }
        }
        out.insert("anyOf".into(), fitted.into());
    }

    fn of_type(&mut self, merged: &Merged<'a>, kind: Option<&str>, notes: &mut Vec<String>) -> Map<String, Value> {
        let mut out = Map::new();
        let values = enumerated(merged, kind);
        let inferred = match values.first() {
            Some(Value::String(_)) => Some("string"),
            Some(_) => Some("number"),
            None if merged.is_object() => Some("object"),
            None if merged.keys.contains_key("items") => Some("array"),
            None => None,
        };
        let kind = kind.or(inferred);
        out.extend(kind.map(|kind| ("type".to_owned(), kind.into())));
        if !values.is_empty() {
            out.insert("enum".into(), values.into());
        }
        insert_bound(merged, kind, "minimum", "exclusiveMinimum", &mut out, notes);
        insert_bound(merged, kind, "maximum", "exclusiveMaximum", &mut out, notes);
        for key in NUMBERS {
            out.extend(merged.keys.get(key).filter(|n| n.is_u64()).map(|n| (key.to_owned(), (*n).clone())));
        }
        match merged.text("format") {
            Some(format) if FORMATS.contains(&format) => drop(out.insert("format".into(), format.into())),
            Some(format) => notes.push(truncated(&format!("format: {format}"))),
            None => {}
        }
        out.extend(merged.text("pattern").map(|pattern| ("pattern".to_owned(), pattern.into())));
        match kind {
            Some("array") => self.items(merged, &mut out),
            Some("object") => self.members(merged, &mut out),
            Some(_) | None => {}
        }
        out
    }

    fn items(&mut self, merged: &Merged<'a>, out: &mut Map<String, Value>) {
        let tuple = merged.list("prefixItems").or(merged.list("items"));
        if let Some(tuple) = tuple.filter(|tuple| !tuple.is_empty()) {
            let fitted: Vec<Value> = tuple.iter().map(|item| self.schema(item, &merged.path).into()).collect();
            out.insert("prefixItems".into(), fitted.into());
        }
        match merged.keys.get("items").filter(|items| items.is_object()) {
            Some(items) => drop(out.insert("items".into(), self.schema(items, &merged.path).into())),
            None if !out.contains_key("prefixItems") => drop(out.insert("items".into(), json!({"type": "string"}))),
            None => {}
        }
    }

    fn members(&mut self, merged: &Merged<'a>, out: &mut Map<String, Value>) {
        let fitted = merged
            .properties
            .iter()
            .map(|(name, schema)| ((*name).to_owned(), Value::Object(self.schema(schema, &merged.path))));
        let properties: Map<String, Value> = fitted.collect();
        let mut required: Vec<&str> = Vec::new();
        for name in merged.required.iter().copied() {
            if properties.contains_key(name) && !required.contains(&name) {
                required.push(name);
            }
        }
        if !required.is_empty() {
            out.insert("required".into(), required.into());
        }
        let order = merged.list("propertyOrdering").unwrap_or_default();
        let order: Vec<&str> =
            order.iter().filter_map(Value::as_str).filter(|name| properties.contains_key(*name)).collect();
        if !order.is_empty() {
            out.insert("propertyOrdering".into(), order.into());
        }
        if !properties.is_empty() {
            out.insert("properties".into(), properties.into());
        }
        match merged.keys.get("additionalProperties") {
            Some(Value::Bool(false)) => drop(out.insert("additionalProperties".into(), false.into())),
            Some(schema @ Value::Object(_)) => {
                out.insert("additionalProperties".into(), self.schema(schema, &merged.path).into());
            }
            Some(_) | None => {}
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn is_null(schema: &Value) -> bool {
    let only_null = |values: &Value| values.as_array().is_some_and(|values| matches!(values[..], [Value::Null]));
    schema.get("type").is_some_and(|kind| kind == "null" || only_null(kind))
        || schema.get("const") == Some(&Value::Null)
        || schema.get("enum").is_some_and(only_null)
}

/// The types that a value may have, without null, and whether it may be null.
fn types<'a>(merged: &Merged<'a>) -> (Vec<&'a str>, bool) {
    let named: Vec<&str> = match merged.keys.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(kind)) => vec![kind],
        _ => Vec::new(),
    };
    let null = Value::Null;
    let has_null = merged.list("enum").is_some_and(|values| values.contains(&null))
        || merged.keys.get("nullable") == Some(&&Value::Bool(true));
    let nullable = merged.nullable || named.contains(&"null") || has_null;
    (named.into_iter().filter(|kind| TYPES.contains(kind)).collect(), nullable)
}

/// The values of `enum` and `const` that the API accepts for the type.
fn enumerated(merged: &Merged<'_>, kind: Option<&str>) -> Vec<Value> {
    let values = match merged.keys.get("const") {
        Some(value) => std::slice::from_ref(*value),
        None => merged.list("enum").unwrap_or_default(),
    };
    let strings = match kind {
        Some("string") => true,
        Some("number" | "integer") => false,
        None => values.iter().any(Value::is_string),
        Some(_) => return Vec::new(),
    };
    values.iter().filter(|value| if strings { value.is_string() } else { value.is_number() }).cloned().collect()
}

/// Inserts a bound of a number. The API supports only inclusive bounds. An exclusive bound of an integer becomes the next integer; for other
/// numbers a note is added.
fn insert_bound(
    merged: &Merged<'_>,
    kind: Option<&str>,
    key: &str,
    exclusive: &str,
    out: &mut Map<String, Value>,
    notes: &mut Vec<String>,
) {
    let number = |value: Option<&&Value>| value.filter(|value| value.is_number()).map(|value| (*value).clone());
    let inclusive = number(merged.keys.get(key));
    let excluded = match merged.keys.get(exclusive) {
        Some(Value::Bool(true)) => inclusive.clone(),
        other => number(other),
    };
    let step = if key == "minimum" { 1 } else { -1 };
    let found = match (excluded, inclusive) {
        (Some(excluded), _) if kind == Some("integer") => match excluded.as_i64() {
            Some(n) => Some(n.saturating_add(step).into()),
            None => Some(excluded),
        },
        (Some(excluded), _) => {
            notes.push(format!("{} {excluded}", if step > 0 { "more than" } else { "less than" }));
            Some(excluded)
        }
        (None, inclusive) => inclusive,
    };
    out.extend(found.map(|value| (key.to_owned(), value)));
}

fn truncated(text: &str) -> String {
    let mut text: String = text.chars().take(CONSTRAINT_CHARS + 1).collect();
    if text.chars().count() > CONSTRAINT_CHARS {
        text.pop();
        text.pop();
        text.push('…');
    }
    text
}

/// Adds title, default and description; constraints that became notes are added to the description.
fn describe(merged: &Merged<'_>, notes: &[String], out: &mut Map<String, Value>) {
    if let Some(title) = merged.text("title") {
        out.insert("title".into(), clean(title, PROPERTY_TEXT_BYTES).into());
    }
    if let Some(default) = merged.keys.get("default").filter(|default| !default.is_null()) {
        out.insert("default".into(), (*default).clone());
    }
    let mut text = clean(merged.text("description").unwrap_or_default(), PROPERTY_TEXT_BYTES);
    if !notes.is_empty() {
        let space = if text.is_empty() { "" } else { " " };
        text.push_str(&format!("{space}({})", clean(&notes.join("; "), PROPERTY_TEXT_BYTES)));
    }
    if !text.is_empty() {
        out.insert("description".into(), text.into());
    }
}

#[cfg(test)]
mod tests;
