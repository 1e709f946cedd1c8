//! The public schema of a `GenerateContentRequest` of the Gemini API (v1beta), as a table of the members that a request for a
//! conversation may have. It does not check the order of turns, and uses no types of this project.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::Value;

/// The type of a value.
pub enum Type {
    Text,
    Flag,
    Integer,
    Number,
    /// `bytes`: base64 of either alphabet.
    Bytes,
    /// `Struct`: an object with any members.
    Struct,
    /// A JSON Schema with the keywords that the API knows.
    JsonSchema,
    OneOf(&'static [&'static str]),
    Listed(&'static Type),
    Object {
        required: &'static [&'static str],
        members: &'static [(&'static str, Type)],
    },
}

use Type::*;

pub const REQUEST: Type = Object {
    required: &["contents"],
    members: &[
        ("model", Text),
        ("contents", Listed(&CONTENT)),
        ("systemInstruction", CONTENT),
        ("tools", Listed(&TOOL)),
        ("toolConfig", Struct),
        ("safetySettings", Listed(&Struct)),
        ("generationConfig", GENERATION),
        ("cachedContent", Text),
    ],
};

const CONTENT: Type =
    Object { required: &["parts"], members: &[("role", OneOf(&["user", "model"])), ("parts", Listed(&PART))] };

const PART: Type = Object {
    required: &[],
    members: &[
        ("text", Text),
        ("inlineData", BLOB),
        ("functionCall", FUNCTION_CALL),
        ("functionResponse", FUNCTION_RESPONSE),
        ("fileData", Object { required: &["fileUri"], members: &[("mimeType", Text), ("fileUri", Text)] }),
        ("executableCode", Struct),
        ("codeExecutionResult", Struct),
        ("thought", Flag),
        ("thoughtSignature", Bytes),
        ("videoMetadata", Struct),
    ],
};

const BLOB: Type = Object { required: &["mimeType", "data"], members: &[("mimeType", Text), ("data", Bytes)] };

const FUNCTION_CALL: Type = Object { required: &["name"], members: &[("id", Text), ("name", Text), ("args", Struct)] };

const FUNCTION_RESPONSE: Type = Object {
    required: &["name", "response"],
    members: &[
        ("id", Text),
        ("name", Text),
        ("response", Struct),
        ("parts", Listed(&Object { required: &["inlineData"], members: &[("inlineData", BLOB)] })),
        ("willContinue", Flag),
        ("scheduling", OneOf(&["SILENT", "WHEN_IDLE", "INTERRUPT"])),
    ],
};

const TOOL: Type = Object {
    required: &[],
    members: &[
        ("functionDeclarations", Listed(&DECLARATION)),
        ("googleSearch", Struct),
        ("codeExecution", Struct),
        ("urlContext", Struct),
    ],
};

const DECLARATION: Type = Object {
    required: &["name", "description"],
    members: &[
        ("name", Text),
        ("description", Text),
        ("behavior", OneOf(&["BLOCKING", "NON_BLOCKING"])),
        ("parametersJsonSchema", JsonSchema),
        ("responseJsonSchema", JsonSchema),
    ],
};

const GENERATION: Type = Object {
    required: &[],
    members: &[
        ("stopSequences", Listed(&Text)),
        ("responseMimeType", Text),
        ("responseJsonSchema", JsonSchema),
        ("candidateCount", Integer),
        ("maxOutputTokens", Integer),
        ("temperature", Number),
        ("topP", Number),
        ("topK", Integer),
        ("seed", Integer),
        ("presencePenalty", Number),
        ("frequencyPenalty", Number),
        ("thinkingConfig", THINKING),
        ("mediaResolution", OneOf(&["MEDIA_RESOLUTION_LOW", "MEDIA_RESOLUTION_MEDIUM", "MEDIA_RESOLUTION_HIGH"])),
    ],
};

const THINKING: Type = Object {
    required: &[],
    members: &[
        ("includeThoughts", Flag),
        ("thinkingBudget", Integer),
        ("thinkingLevel", OneOf(&["MINIMAL", "LOW", "MEDIUM", "HIGH"])),
    ],
};

const KEYWORDS: [&str; 21] = [
    "$id",
    "$defs",
    "$ref",
    "$anchor",
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "oneOf",
    "properties",
    "additionalProperties",
    "required",
    "propertyOrdering",
];

/// The first violation, with its place in the request.
pub fn check(value: &Value, of: &Type) -> Result<(), String> {
    let fits = match of {
        Text => value.is_string(),
        Flag => value.is_boolean(),
        Integer => value.is_i64(),
        Number => value.is_number(),
        Bytes => value.as_str().is_some_and(|text| STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).is_ok()),
        Struct => value.is_object(),
        JsonSchema => return json_schema(value),
        OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Listed(of) => {
            let list = value.as_array().ok_or("is not a list")?;
            let mut items = list.iter().enumerate();
            return items.try_for_each(|(at, item)| check(item, of).map_err(|why| format!("[{at}] {why}")));
        }
        Object { required, members } => {
            let object = value.as_object().ok_or("is not an object")?;
            if let Some(name) = required.iter().find(|name| !object.contains_key(**name)) {
                return Err(format!("has no {name}"));
            }
            return object.iter().try_for_each(|(name, value)| {
                let member = members.iter().find(|(known, _)| known == name);
                let checked = member.map_or(Err("is not in the schema".into()), |(_, of)| check(value, of));
                checked.map_err(|why| format!("{name} {why}"))
            });
        }
    };
    if fits { Ok(()) } else { Err(format!("has a wrong value: {value}")) }
}

fn json_schema(schema: &Value) -> Result<(), String> {
    schema.as_object().ok_or("is not a schema")?.iter().try_for_each(|(name, value)| {
        let checked = match (name.as_str(), value) {
            ("properties" | "$defs", Value::Object(named)) => named.values().try_for_each(json_schema),
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(all)) => all.iter().try_for_each(json_schema),
            ("additionalProperties", Value::Bool(_)) => Ok(()),
            ("items" | "additionalProperties", schema) => json_schema(schema),
            (name, _) if KEYWORDS.contains(&name) => Ok(()),
            _ => Err("is no keyword that the API knows".into()),
        };
        checked.map_err(|why| format!("{name} {why}"))
    })
}
