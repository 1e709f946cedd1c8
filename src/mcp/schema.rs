//! Schemas of tools, made fit for the model API. One schema that the API does not accept makes it refuse the whole request, and servers
//! write every draft of JSON Schema. So references are put in place, constraints that the API does not know become words, and the rest
//! is dropped. The original is kept elsewhere, for people and for the fingerprint of the tool.
//!
//! A schema is read by keyword, and the members of `properties` are names: parameters may be called `type` or `$ref`.

use crate::limits::mcp::{
    CONSTRAINT_CHARS, PROPERTY_TEXT_BYTES, SCHEMA_BYTES, SCHEMA_DEPTH, SCHEMA_LEVELS, SCHEMA_NODES,
};
use crate::mcp::text::clean;
use crate::wire::uri;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A schema that the API accepts, and what was lost, in sentences.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    pub schema: Value,
    pub notices: Vec<String>,
}

/// Makes the schema of a tool's arguments fit. An error says why the tool cannot be declared.
pub fn fit(original: &Value) -> Result<Fitted, String> {
    let mut fitter = Fitter { root: original, nodes: 0, notices: Vec::new() };
    let mut schema = fitter.schema(original, &Trail::default());
    as_arguments(&mut schema);
    let size = Value::Object(schema.clone()).to_string().len();
    if size > SCHEMA_BYTES {
        return Err(format!("its schema has {size} bytes, and at most {SCHEMA_BYTES} can be declared"));
    }
    Ok(Fitted { schema: Value::Object(schema), notices: fitter.notices })
}

/// The root is always an object. Alternatives of it become one object with the parameters of all.
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

/// The references that lead to a schema.
#[derive(Clone, Default)]
struct Trail<'a> {
    pointers: Vec<&'a str>,
    depth: usize,
    level: usize,
}

/// A schema with its references followed and its `allOf` merged.
#[derive(Default)]
struct Merged<'a> {
    keys: BTreeMap<&'a str, &'a Value>,
    properties: BTreeMap<&'a str, &'a Value>,
    required: Vec<&'a str>,
    nullable: bool,
    /// A reference that cannot be followed any further, by its name.
    nested: Option<&'a str>,
    trail: Trail<'a>,
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

    /// Adds another one under the keys that are there, or over them.
    fn add(&mut self, other: Merged<'a>) {
        self.keys.extend(other.keys);
        self.properties.extend(other.properties);
        self.required.extend(other.required);
        self.nullable |= other.nullable;
        self.nested = self.nested.or(other.nested);
        self.trail.depth = self.trail.depth.max(other.trail.depth);
        self.trail.pointers.extend(other.trail.pointers);
    }
}

struct Fitter<'a> {
    root: &'a Value,
    nodes: usize,
    notices: Vec<String>,
}

const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
const FORMATS: [&str; 8] = ["date-time", "date", "time", "enum", "float", "double", "int32", "int64"];
/// Kept as they are, if they are numbers.
const NUMBERS: [&str; 6] = ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];
/// Constraints that the API does not know. They become words.
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
    fn schema(&mut self, value: &'a Value, trail: &Trail<'a>) -> Map<String, Value> {
        let mut merged = self.merge(value, trail);
        if trail.level >= SCHEMA_LEVELS || self.nodes > SCHEMA_NODES {
            merged.nested = merged.nested.or(Some("schema"));
        }
        merged.trail.level = trail.level + 1;
        let mut words = Vec::new();
        let mut out = match merged.nested {
            Some(name) => {
                words.push(format!("nested {name}"));
                object(json!({"type": "object"}))
            }
            None => self.keywords(&merged, &mut words),
        };
        describe(&merged, &words, &mut out);
        out
    }

    /// Follows references and merges `allOf`, and an alternative that is the only one beside null.
    fn merge(&mut self, value: &'a Value, trail: &Trail<'a>) -> Merged<'a> {
        let mut merged = Merged { trail: trail.clone(), ..Merged::default() };
        self.nodes += 1;
        let Some(members) = value.as_object().filter(|_| self.nodes <= SCHEMA_NODES) else {
            return merged;
        };
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            self.follow(reference, &mut merged);
        }
        let branches: Vec<Merged<'a>> = match members.get("allOf").and_then(Value::as_array) {
            Some(branches) => branches.iter().map(|branch| self.merge(branch, &merged.trail)).collect(),
            None => Vec::new(),
        };
        let most = if branches.iter().all(Merged::is_object) { branches.len() } else { 1 };
        branches.into_iter().take(most).for_each(|branch| merged.add(branch));
        for alternatives in ["anyOf", "oneOf"].map(|key| members.get(key).and_then(Value::as_array)) {
            let Some(alternatives) = alternatives else { continue };
            let mut rest = alternatives.iter().filter(|branch| !is_null(branch));
            merged.nullable |= alternatives.iter().any(is_null);
            if let (Some(only), None) = (rest.next(), rest.next()) {
                let only = self.merge(only, &merged.trail);
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
        let trail = &mut merged.trail;
        if trail.pointers.contains(&pointer) || trail.depth >= SCHEMA_DEPTH {
            merged.nested = Some(name);
            return;
        }
        let target = uri::decoded(pointer).and_then(|pointer| self.root.pointer(&pointer));
        match target {
            Some(target) => {
                trail.pointers.push(pointer);
                trail.depth += 1;
                let trail = trail.clone();
                merged.add(self.merge(target, &trail));
            }
            None => self.notices.push(format!("the reference {} leads nowhere", clean(reference, 80))),
        }
    }

    /// The keywords of a schema but for its texts.
    fn keywords(&mut self, merged: &Merged<'a>, words: &mut Vec<String>) -> Map<String, Value> {
        let (types, nullable) = types(merged);
        let mut out = match types[..] {
            [] => self.of_type(merged, None, words),
            [kind] => self.of_type(merged, Some(kind), words),
            _ => {
                let branches =
                    types.iter().map(|kind| Value::Object(self.of_type(merged, Some(kind), &mut Vec::new())));
                object(json!({"anyOf": branches.collect::<Vec<_>>()}))
            }
        };
        if nullable {
            out.insert("nullable".into(), true.into());
        }
        self.alternatives(merged, &mut out, words);
        for key in CONSTRAINTS {
            if let Some(value) = merged.keys.get(key).filter(|value| **value != &Value::Bool(false)) {
                words.push(short(&format!("{key}: {value}")));
            }
        }
        out
    }

    fn alternatives(&mut self, merged: &Merged<'a>, out: &mut Map<String, Value>, words: &mut Vec<String>) {
        let Some(branches) = merged.list("anyOf").or(merged.list("oneOf")) else {
            return;
        };
        let branches: Vec<&Value> = branches.iter().filter(|branch| !is_null(branch)).collect();
        if branches.len() < 2 {
            return;
        }
        const SHAPES: [&str; 8] = ["type", "$ref", "properties", "enum", "const", "items", "anyOf", "allOf"];
        if !branches.iter().any(|branch| SHAPES.iter().any(|key| branch.get(key).is_some())) {
            words.push(short(&format!("one of: {}", json!(branches))));
            return;
        }
        let fitted = branches.into_iter().map(|branch| Value::Object(self.schema(branch, &merged.trail)));
        let fitted: Vec<Value> = fitted.collect();
        // What all alternatives are is said by each of them.
        for key in ["type", "properties", "required", "items"] {
            if !merged.is_object() {
                out.remove(key);
            }
        }
        out.insert("anyOf".into(), fitted.into());
    }

    fn of_type(&mut self, merged: &Merged<'a>, kind: Option<&str>, words: &mut Vec<String>) -> Map<String, Value> {
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
        bound(merged, kind, "minimum", "exclusiveMinimum", &mut out, words);
        bound(merged, kind, "maximum", "exclusiveMaximum", &mut out, words);
        for key in NUMBERS {
            out.extend(merged.keys.get(key).filter(|n| n.is_u64()).map(|n| (key.to_owned(), (*n).clone())));
        }
        match merged.text("format") {
            Some(format) if FORMATS.contains(&format) => drop(out.insert("format".into(), format.into())),
            Some(format) => words.push(short(&format!("format: {format}"))),
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
            let fitted: Vec<Value> = tuple.iter().map(|item| self.schema(item, &merged.trail).into()).collect();
            out.insert("prefixItems".into(), fitted.into());
        }
        match merged.keys.get("items").filter(|items| items.is_object()) {
            Some(items) => drop(out.insert("items".into(), self.schema(items, &merged.trail).into())),
            None if !out.contains_key("prefixItems") => drop(out.insert("items".into(), json!({"type": "string"}))),
            None => {}
        }
    }

    fn members(&mut self, merged: &Merged<'a>, out: &mut Map<String, Value>) {
        let fitted = merged
            .properties
            .iter()
            .map(|(name, schema)| ((*name).to_owned(), Value::Object(self.schema(schema, &merged.trail))));
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
                out.insert("additionalProperties".into(), self.schema(schema, &merged.trail).into());
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

/// A bound of a number. One that excludes its own value becomes one that does not, for integers the next, otherwise with words.
fn bound(
    merged: &Merged<'_>,
    kind: Option<&str>,
    key: &str,
    exclusive: &str,
    out: &mut Map<String, Value>,
    words: &mut Vec<String>,
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
            words.push(format!("{} {excluded}", if step > 0 { "more than" } else { "less than" }));
            Some(excluded)
        }
        (None, inclusive) => inclusive,
    };
    out.extend(found.map(|value| (key.to_owned(), value)));
}

fn short(text: &str) -> String {
    let mut text: String = text.chars().take(CONSTRAINT_CHARS + 1).collect();
    if text.chars().count() > CONSTRAINT_CHARS {
        text.pop();
        text.pop();
        text.push('…');
    }
    text
}

/// Adds title, default and description; constraints that became words are added to the description.
fn describe(merged: &Merged<'_>, words: &[String], out: &mut Map<String, Value>) {
    if let Some(title) = merged.text("title") {
        out.insert("title".into(), clean(title, PROPERTY_TEXT_BYTES).into());
    }
    if let Some(default) = merged.keys.get("default").filter(|default| !default.is_null()) {
        out.insert("default".into(), (*default).clone());
    }
    let mut text = clean(merged.text("description").unwrap_or_default(), PROPERTY_TEXT_BYTES);
    if !words.is_empty() {
        let space = if text.is_empty() { "" } else { " " };
        text.push_str(&format!("{space}({})", clean(&words.join("; "), PROPERTY_TEXT_BYTES)));
    }
    if !text.is_empty() {
        out.insert("description".into(), text.into());
    }
}

#[cfg(test)]
mod tests;
