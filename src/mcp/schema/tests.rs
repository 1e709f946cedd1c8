use super::*;
use crate::base::test_random::Random;

/// The converted schema of a parameter `p`.
fn parameter(schema: Value) -> Value {
    whole(json!({"type": "object", "properties": {"p": schema}}))["properties"]["p"].take()
}

fn whole(schema: Value) -> Value {
    fit(&schema).expect("it is short").schema
}

#[test]
fn the_root_is_an_object() {
    let empty = json!({"type": "object", "properties": {}});
    for root in
        [json!(null), json!([]), json!(true), json!({}), json!({"type": "string"}), json!({"type": ["object", "null"]})]
    {
        assert_eq!(whole(root.clone()), empty, "{root}");
    }
    let alternatives = json!({"anyOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "string"}}},
    ]});
    let both = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    assert_eq!(whole(alternatives), both);
}

#[test]
fn check_33_references_are_resolved_in_place_and_recursion_ends() {
    let schema = json!({
        "type": "object",
        "$defs": {
            "node": {"type": "object", "properties": {"name": {"$ref": "#/definitions/My%20Name"}, "next": {"$ref": "#/$defs/node"}}},
        },
        "definitions": {"My Name": {"type": "string", "description": "plain"}},
        "properties": {
            "tree": {"$ref": "#/$defs/node", "description": "the tree"},
            "self": {"$ref": "#"},
            "far": {"$ref": "https://example.org/x.json", "description": "d"},
            "none": {"$ref": "#/$defs/none"},
        },
    });
    let fitted = fit(&schema).expect("it is short");
    assert_eq!(
        fitted.schema["properties"]["tree"],
        json!({"type": "object", "description": "the tree", "properties": {
            "name": {"type": "string", "description": "plain"},
            "next": {"type": "object", "description": "(nested node)"},
        }})
    );
    assert_eq!(fitted.schema["properties"]["far"], json!({"description": "d"}));
    assert_eq!(fitted.schema["properties"]["none"], json!({}));
    assert_eq!(fitted.schema["properties"]["self"]["properties"]["self"]["description"], "(nested object)");
    let text = fitted.schema.to_string();
    assert!(!text.contains("$ref") && !text.contains("$defs") && !text.contains("definitions"), "{text}");
    assert!(fitted.notices.iter().any(|notice| notice.contains("leads out")), "{:?}", fitted.notices);
    assert!(fitted.notices.iter().any(|notice| notice.contains("leads nowhere")), "{:?}", fitted.notices);
}

#[test]
fn the_depth_of_references_is_limited() {
    let mut defs: Map<String, Value> = (0..20)
        .map(|n| (format!("d{n}"), json!({"properties": {"p": {"$ref": format!("#/$defs/d{}", n + 1)}}})))
        .collect();
    defs.insert("d20".into(), json!({"type": "string"}));
    let fitted = whole(json!({"$defs": defs, "properties": {"p": {"$ref": "#/$defs/d0"}}}));
    let (mut depth, mut at) = (0, &fitted);
    while at.get("properties").is_some() {
        (depth, at) = (depth + 1, &at["properties"]["p"]);
    }
    assert_eq!((depth, &at["description"]), (SCHEMA_DEPTH + 1, &json!("(nested d8)")));
    // Each level refers to the next one twice, so that there would be a million schemas.
    let defs: Map<String, Value> = (0..20)
        .map(|n| {
            (
                format!("d{n}"),
                json!({"allOf": vec![json!({"$ref": format!("#/$defs/d{}", n + 1)}); 9], "properties": {
            "a": {"$ref": format!("#/$defs/d{}", n + 1)}, "b": {"$ref": format!("#/$defs/d{}", n + 1)}}}),
            )
        })
        .collect();
    assert!(fit(&json!({"$defs": defs, "$ref": "#/$defs/d0"})).is_ok());
    let mut deep = json!({"type": "string"});
    for _ in 0..90 {
        deep = json!({"type": "array", "items": deep});
    }
    assert_eq!(parameter(deep).to_string().matches("items").count(), SCHEMA_LEVELS - 1);
}

#[test]
fn check_34_parameters_named_like_keywords_survive() {
    let text = json!({"type": "string", "description": "d"});
    let names = ["type", "title", "properties", "$ref", "description", "enum", "required", "$defs"];
    let properties: Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), text.clone())).collect();
    let schema =
        json!({"type": "object", "properties": properties, "required": ["type", "properties", "gone", "type"]});
    let expected = json!({"type": "object", "properties": properties, "required": ["type", "properties"]});
    assert_eq!(whole(schema), expected);
}

#[test]
fn types_and_alternatives() {
    for (given, expected) in [
        (json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true})),
        (json!({"type": ["string", "integer"]}), json!({"anyOf": [{"type": "string"}, {"type": "integer"}]})),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null}),
            json!({"type": "integer", "nullable": true}),
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "boolean"}, {"type": "null"}], "description": "d"}),
            json!({"anyOf": [{"type": "string"}, {"type": "boolean"}], "nullable": true, "description": "d"}),
        ),
        (
            json!({"allOf": [{"type": "string", "title": "t"}], "description": "d"}),
            json!({"type": "string", "title": "t", "description": "d"}),
        ),
        (
            json!({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}),
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}),
        ),
        (json!({"allOf": [{"type": "string"}, {"minLength": 3}]}), json!({"type": "string"})),
        (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}})),
        (json!({"type": "array", "items": true}), json!({"type": "array", "items": {"type": "string"}})),
        (json!({"items": [{"type": "number"}, {}]}), json!({"type": "array", "prefixItems": [{"type": "number"}, {}]})),
        (json!({"type": "object", "additionalProperties": true}), json!({"type": "object"})),
        (
            json!({"type": "object", "additionalProperties": false}),
            json!({"type": "object", "additionalProperties": false}),
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string", "examples": ["x"]}}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ),
        (json!(true), json!({})),
        (json!({"type": "file"}), json!({})),
    ] {
        assert_eq!(parameter(given.clone()), expected, "{given}");
    }
}

#[test]
fn check_35_exclusive_bounds_and_other_constraints() {
    for (given, expected) in [
        (json!({"type": "integer", "exclusiveMinimum": 0}), json!({"type": "integer", "minimum": 1})),
        (json!({"type": "integer", "exclusiveMaximum": 9}), json!({"type": "integer", "maximum": 8})),
        (json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}), json!({"type": "integer", "minimum": 1})),
        (json!({"type": "integer", "minimum": 0, "exclusiveMinimum": false}), json!({"type": "integer", "minimum": 0})),
        (
            json!({"type": "number", "exclusiveMinimum": 0.5}),
            json!({"type": "number", "minimum": 0.5, "description": "(more than 0.5)"}),
        ),
        (json!({"const": "x"}), json!({"type": "string", "enum": ["x"]})),
        (json!({"type": "integer", "enum": [1, "2", 3]}), json!({"type": "integer", "enum": [1, 3]})),
        (json!({"enum": ["a", null, 5]}), json!({"type": "string", "enum": ["a"], "nullable": true})),
        (json!({"type": "boolean", "enum": [true]}), json!({"type": "boolean"})),
        (json!({"type": "string", "format": "date"}), json!({"type": "string", "format": "date"})),
        (
            json!({"type": "string", "format": "uri", "description": "d"}),
            json!({"type": "string", "description": "d (format: uri)"}),
        ),
        (
            json!({"type": "string", "minLength": 1, "pattern": "^a", "default": "a", "$schema": "s", "x-a": 1, "examples": ["b"]}),
            json!({"type": "string", "minLength": 1, "pattern": "^a", "default": "a"}),
        ),
        (json!({"type": "integer", "multipleOf": 5}), json!({"type": "integer", "description": "(multipleOf: 5)"})),
    ] {
        assert_eq!(parameter(given.clone()), expected, "{given}");
    }
    let long = parameter(json!({"not": {"enum": vec!["word"; 50]}}));
    let words = long["description"].as_str().expect("words").chars().count();
    assert_eq!(words, CONSTRAINT_CHARS + 2, "{long}");
}

#[test]
fn descriptions_are_clean_and_limited() {
    let text = "x".repeat(PROPERTY_TEXT_BYTES);
    let described = |text: &str| parameter(json!({"description": text}))["description"].as_str().map(str::to_owned);
    assert_eq!(described(&text), Some(text.clone()));
    assert_eq!(described(&format!("{text}y")).map(|text| text.len()), Some(PROPERTY_TEXT_BYTES));
    assert_eq!(described("a\u{202e}b\u{200b}c").as_deref(), Some("abc"));
}

#[test]
fn the_size_of_a_schema_is_limited() {
    let with = |bytes: usize| fit(&json!({"properties": {"p": {"default": "x".repeat(bytes)}}}));
    let rest = Value::Object(object(with(0).expect("short").schema)).to_string().len();
    assert!(with(SCHEMA_BYTES - rest).is_ok());
    assert!(with(SCHEMA_BYTES - rest + 1).is_err_and(|why| why.contains("65537 bytes")));
}

/// A random schema whose references point to `#`, to a definition or to nothing.
fn random_schema(random: &mut Random, depth: usize) -> Value {
    let part = |random: &mut Random| if depth == 0 { json!({}) } else { random_schema(random, depth - 1) };
    match random.below(11) {
        0 => {
            json!({"$ref": (["#", "#/$defs/a", "#/$defs/b", "#/$defs/c", "#/properties/x", "#none", "x.json"][random.below(7)])})
        }
        1 => json!({"type": (["string", "null", "array", "object"][..1 + random.below(4)])}),
        2 => json!({"type": "array", "items": part(random)}),
        3 => json!({"type": "array", "items": [part(random), part(random)]}),
        4 => json!({"anyOf": [part(random), part(random), {"type": "null"}]}),
        5 => json!({"allOf": [part(random), part(random)], "description": "d"}),
        6 => json!({"oneOf": [part(random)], "enum": ["a", 1, null]}),
        7 => json!({"type": "object", "additionalProperties": part(random), "not": part(random)}),
        8 => json!({"$ref": "#/$defs/b", "properties": {"y": part(random)}, "required": ["y", "z"]}),
        9 => json!({"const": random.below(2), "exclusiveMinimum": 3}),
        _ => json!({"type": "object", "properties": {"x": part(random), "y": part(random)}}),
    }
}

/// Checks that a schema has only keywords that the API supports. Returns the number of schemas in it.
fn assert_known(schema: &Value, seed: u64) -> usize {
    const KNOWN: &str = "type format title description enum items prefixItems minItems maxItems minimum maximum anyOf properties \
                         additionalProperties required propertyOrdering nullable default pattern minLength maxLength \
                         minProperties maxProperties";
    let mut count = 1;
    for (key, value) in schema.as_object().into_iter().flatten() {
        assert!(KNOWN.split_whitespace().any(|known| known == key), "seed {seed}: {key}");
        let parts: Vec<&Value> = match key.as_str() {
            "properties" => value.as_object().into_iter().flatten().map(|(_, value)| value).collect(),
            "items" | "additionalProperties" => vec![value],
            "anyOf" | "prefixItems" => value.as_array().into_iter().flatten().collect(),
            _ => Vec::new(),
        };
        count += parts.into_iter().map(|part| assert_known(part, seed)).sum::<usize>();
    }
    count
}

#[test]
fn any_schema_becomes_a_finite_one_of_known_keywords() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let mut schema = random_schema(&mut random, 4);
        let defs =
            json!({"a": random_schema(&mut random, 3), "b": random_schema(&mut random, 3), "c": {"$ref": "#/$defs/a"}});
        if let Some(members) = schema.as_object_mut() {
            members.insert("$defs".into(), defs);
        }
        if let Ok(fitted) = fit(&schema) {
            assert_eq!(fitted.schema["type"], "object", "seed {seed}");
            // The schemas of the last level are converted before they are counted.
            assert!(assert_known(&fitted.schema, seed) <= 4 * SCHEMA_NODES, "seed {seed}");
        }
    }
}
