//! Tests of URLs, header fields and bodies of requests.

use super::*;
use crate::task::machine::state::Item;
use crate::task::message::{Message, Part, Role};
use crate::task::spec::Kind;
use serde_json::json;
use std::sync::Arc;

fn endpoint() -> Endpoint {
    Endpoint::new(Secret::new("k3y"))
}

pub(in crate::model) fn think(model: &str) -> Think {
    Think {
        directories: Arc::default(),
        workspace: "/w".into(),
        model: model.into(),
        mode: Default::default(),
        tools: None,
        forbidden: Vec::new(),
        declared: None,
        skills: Default::default(),
        servers: Default::default(),
        compact_at: None,
        compress: false,
        given: 0,
        history: Vec::new(),
        prompt: Message::new("m", Role::User, Vec::new()).into(),
        turn: 1,
        round: 0,
        attempt: 1,
        hooks_pending: false,
        reprompts: 0,
        blob_room: 0,
    }
}

#[test]
fn models_have_short_names_and_an_address() {
    let table = [
        ("pro", "models/gemini-3.1-pro-preview"),
        ("auto", "models/gemini-3.1-pro-preview"),
        ("gemini-3-pro-preview", "models/gemini-3.1-pro-preview"),
        ("flash", "models/gemini-3.5-flash"),
        ("flash-lite", "models/gemini-3.1-flash-lite"),
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("tunedModels/mine", "tunedModels/mine"),
    ];
    for (model, path) in table {
        assert_eq!(
            endpoint().url(model),
            Ok(format!("https://generativelanguage.googleapis.com/v1beta/{path}:streamGenerateContent?alt=sse"))
        );
    }
    let mine = Endpoint { base_url: "http://127.0.0.1:9/gate/".into(), api_version: "v1".into(), ..endpoint() };
    assert_eq!(mine.url("m").as_deref(), Ok("http://127.0.0.1:9/gate/v1/models/m:streamGenerateContent?alt=sse"));
}

#[test]
fn vertex_has_a_host_per_location_and_its_own_credentials() {
    let at = |location: &str| Service::Vertex { project: "p-1".into(), location: location.into() };
    let table = [
        (
            Service::VertexExpress,
            Auth::Key,
            "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-2.5-pro",
            ("x-goog-api-key", "k3y"),
        ),
        (
            at("global"),
            Auth::Bearer,
            "https://aiplatform.googleapis.com/v1beta1/projects/p-1/locations/global/publishers/google/models/gemini-2.5-pro",
            ("authorization", "Bearer k3y"),
        ),
        (
            at("eu"),
            Auth::Bearer,
            "https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p-1/locations/eu/publishers/google/models/gemini-2.5-pro",
            ("authorization", "Bearer k3y"),
        ),
        (
            at("europe-west4"),
            Auth::Bearer,
            "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/p-1/locations/europe-west4/publishers/google/models/gemini-2.5-pro",
            ("authorization", "Bearer k3y"),
        ),
    ];
    for (service, auth, address, (name, value)) in table {
        let endpoint = Endpoint::of(service, Secret::new("k3y"), auth);
        for model in ["auto-gemini-2.5", "models/gemini-2.5-pro"] {
            assert_eq!(endpoint.url(model), Ok(format!("{address}:streamGenerateContent?alt=sse")));
        }
        let shown: Vec<(String, String)> = endpoint
            .headers("m")
            .into_iter()
            .filter(|(name, _)| name == "x-goog-api-key" || name == "authorization")
            .map(|(name, value)| (name, value.reveal().to_owned()))
            .collect();
        assert_eq!(shown, [(name.to_owned(), value.to_owned())]);
    }
}

#[test]
fn a_name_that_could_change_the_address_is_refused() {
    for model in ["", "a..b", "a?b", "a&b", "a b", "a#b", "a%2e", "a\n", "/a", "a/", "a//b", "ä", "a:b"] {
        assert!(endpoint().url(model).is_err(), "{model:?}");
        assert!(body(&think(model), &[], &RequestContext::default(), 0).is_err(), "{model:?}");
    }
}

#[test]
fn the_key_goes_into_its_header_and_nowhere_else() {
    let mut endpoint = endpoint();
    endpoint.auth = Auth::KeyAndBearer;
    endpoint.extra = header_list("X-Team: a, b, User-Agent: me/1, X-Empty:");
    let sent: Vec<(String, String)> =
        endpoint.headers("m").into_iter().map(|(name, value)| (name, value.reveal().to_owned())).collect();
    let expect = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
        ("x-goog-api-client", concat!("gemini-a2a/", env!("CARGO_PKG_VERSION"))),
        ("x-goog-api-key", "k3y"),
        ("authorization", "Bearer k3y"),
        ("X-Team", "a, b"),
        ("User-Agent", "me/1"),
        ("X-Empty", ""),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(sent, expect);
    assert!(!format!("{endpoint:?} {:?}", endpoint.headers("m")).contains("k3y"));
    assert_eq!(endpoint.key.hide_in("the key k3y is bad"), "the key … is bad");
    assert_eq!(Secret::default().hide_in("same"), "same");
}

#[test]
fn the_whole_body_of_a_request() {
    let tool = ToolSpec::new("glob", "FindFiles", Kind::Search, "Finds files.", json!({"type": "object"}));
    let other = ToolSpec { name: "replace".into(), ..tool.clone() };
    let think = Think { tools: Some(vec!["glob".into(), "unknown".into()]), ..think("pro") };
    let bytes = body(&think, &[other, tool], &RequestContext::default(), 1_772_357_400_125).unwrap();
    let mut value: Value = serde_json::from_slice(&bytes).unwrap();
    let introduction = value["contents"].take();
    assert!(introduction[0]["parts"][0]["text"].as_str().unwrap().contains("Today is 2026-03-01."));
    let instruction = system::instruction(&InstructionInputs {
        mode: think.mode,
        family: Family::Gemini3,
        repository: Default::default(),
        memory: "",
        notes: &Default::default(),
        skills: "",
    });
    assert_eq!(
        value,
        json!({
            "contents": null,
            "systemInstruction": {"role": "user", "parts": [{"text": instruction}]},
            "tools": [{"functionDeclarations": [
                {"name": "glob", "description": "Finds files.", "parametersJsonSchema": {"type": "object"}},
            ]}],
            "generationConfig": {
                "temperature": 1, "topP": 0.95, "topK": 64,
                "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "HIGH"},
            },
        })
    );
}

#[test]
fn memory_files_are_part_of_the_instruction_and_of_the_first_turn() {
    let mut context = RequestContext::default();
    context.memory.system = "Use tabs.".into();
    context.memory.project = "Run make.".into();
    context.tree = "src/\n".into();
    let bytes = body(&think("pro"), &[], &context, 0).unwrap();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    let text = |value: &Value| value["parts"][0]["text"].as_str().unwrap().to_owned();
    let system = text(&value["systemInstruction"]);
    assert!(system.contains("Use tabs."));
    let introduction = text(&value["contents"][0]);
    assert!(introduction.contains("src/\n") && introduction.contains("Run make."));
}

#[test]
fn each_family_gets_its_own_thinking_fields() {
    let level = json!({"includeThoughts": true, "thinkingLevel": "HIGH"});
    let budget = json!({"includeThoughts": true, "thinkingBudget": 8192});
    let table = [
        ("auto", level.clone()),
        ("flash", level.clone()),
        ("gemini-3-flash-preview", level.clone()),
        ("models/gemini-3.1-pro-preview", level.clone()),
        ("gemma-4-31b-it", level),
        ("gemini-2.5-pro", budget.clone()),
        ("auto-gemini-2.5", budget),
        ("gemini-2.0-flash", Value::Null),
        ("gemini-30", Value::Null),
        ("mine", Value::Null),
    ];
    for (model, expected) in table {
        let bytes = body(&think(model), &[], &RequestContext::default(), 0).unwrap();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["generationConfig"]["thinkingConfig"], expected, "{model}");
        assert_eq!(value.get("tools"), None);
    }
}

#[test]
fn a_request_that_exceeds_the_context_window_is_refused() {
    let said = |chars: usize| {
        let message = Message::new("m", Role::User, vec![Part::text("x".repeat(chars))]);
        Arc::new(Item::Said(Arc::new(message)))
    };
    let sent = |history: Vec<Arc<Item>>, compact_at| {
        let think = Think { history, compact_at, ..think("gemma-4-31b-it") };
        body(&think, &[], &RequestContext::default(), 0).map(drop).map_err(|error| error.kind)
    };
    let window = 4 * 256_000;
    let (fits, half) = (window - 40_000, window / 2);
    assert_eq!(sent(vec![said(fits)], Some(1)), Ok(()), "there is nothing to summarise");
    assert_eq!(sent(vec![said(window)], Some(1)), Err(ModelErrorKind::Fatal));
    assert_eq!(sent(vec![said(half), said(half)], Some(u64::MAX)), Err(ModelErrorKind::TooLong));
    assert_eq!(sent(vec![said(half), said(100)], Some(u64::MAX)), Ok(()));
    assert_eq!(sent(vec![said(half), said(100)], Some(100_000)), Err(ModelErrorKind::TooLong));
    assert_eq!(sent(vec![said(half), said(100)], None), Ok(()));
    let summary = Arc::new(Item::Summary("s".into()));
    assert_eq!(sent(vec![summary, said(half)], Some(100_000)), Ok(()), "it is summarised already");
    let think = Think { history: vec![said(window)], ..think("gemma-4-31b-it") };
    let error = body(&think, &[], &RequestContext::default(), 0).unwrap_err();
    assert!(error.message.contains("gemma-4-31b-it") && error.message.contains("reads 256000"), "{}", error.message);
}
