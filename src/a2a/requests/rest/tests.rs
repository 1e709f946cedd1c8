//! Tests of the REST binding: paths, versions, parameters.

use super::*;
use crate::a2a::requests::route;
use crate::a2a::sample;
use crate::base::id::Seq;
use crate::task::call::Push;
use crate::task::call::{List, Mode, Say};
use crate::task::log::event::{Lifecycle, Profile};
use crate::task::push::Wish;
use serde_json::json;

fn get(target: &str) -> Request {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Request { method: Method::Get, query: pairs.map(|(n, v)| (n.into(), v.into())).collect(), ..sample::post(path, "") }
}

fn head(request: Request) -> Request {
    Request { method: Method::Head, ..request }
}

fn with(mut request: Request, name: &str, value: &str) -> Request {
    request.headers.push(name, value);
    request
}

fn decode(request: &Request) -> Result<(Call, Form), (Fault, Form)> {
    route::decode(request, &Switches::default())
}

fn asked(request: &Request) -> (Call, &'static Dialect) {
    let (call, form) = decode(request).unwrap_or_else(|failed| panic!("{failed:?}"));
    (call, form.dialect)
}

fn refused(request: &Request) -> (FaultKind, &'static Dialect) {
    let (fault, form) = decode(request).unwrap_err();
    (fault.kind, form.dialect)
}

fn said(request: &Request) -> (Say, Form) {
    match decode(request) {
        Ok((Call::Say(say), form)) => (say, form),
        other => panic!("{other:?}"),
    }
}

/// Base paths, with the dialect and the tenant that they stand for.
const BASES: [(&str, &Dialect, &str); 3] =
    [("/v1", Dialect::REST_03_PROTO, ""), ("", Dialect::REST_10, ""), ("/acme", Dialect::REST_10, "acme")];

/// The request under a base path, with the version header that its dialect needs.
fn under(base: &str, dialect: &Dialect, mut request: Request) -> Request {
    request.path = format!("{base}{}", request.path);
    if dialect == Dialect::REST_10 { with(request, "A2A-Version", "1.0") } else { request }
}

const CONFIG: &str = "/tasks/t-1/pushNotificationConfigs/c";

#[test]
fn requests_for_tasks_and_messages_under_every_base_path() {
    let cancel = Call::Cancel { task: "t-1".into() };
    let watch = Call::Subscribe { task: "t-1".into(), after: None };
    let show = Call::Get { task: "t-1".into(), history: Some(3) };
    for (base, dialect, tenant) in BASES {
        let post = |path: &str, body: &str| under(base, dialect, sample::post(path, body));
        let get = |target: &str| under(base, dialect, get(target));
        for (request, call) in [
            (get("/tasks/t-1?historyLength=3"), &show),
            (get("/tasks/t-1?history_length=3"), &show),
            (post("/tasks/t-1:cancel", ""), &cancel),
            (post("/tasks/t-1:cancel", "{}"), &cancel),
            (get("/tasks/t-1:subscribe"), &watch),
            (post("/tasks/t-1:subscribe", ""), &watch),
        ] {
            let (found, form) = decode(&request).unwrap();
            assert_eq!((&found, form.dialect), (call, dialect), "{}", request.path);
            assert_eq!(form.tenant.as_str(), tenant);
        }
        assert!(matches!(asked(&get("/tasks")).0, Call::List(_)));
        let message = r#"{"message":{"messageId":"m","role":"ROLE_USER","content":[{"text":"hi"}]}}"#;
        for (path, mode) in [("/message:send", Mode::Wait), ("/message:stream", Mode::Stream)] {
            let (say, form) = said(&post(path, message));
            assert_eq!((say.mode, form.dialect), (mode, dialect));
            assert_eq!(form.tenant.as_str(), tenant);
        }
    }
}

#[test]
#[cfg_attr(not(feature = "webhooks"), ignore = "this build has no webhooks")]
fn webhooks_under_every_base() {
    let set = r#"{"parent":"tasks/other","config":{"id":"c","url":"https://x.test/"}}"#;
    let wish = Wish {
        id: Some("c".into()),
        url: "https://x.test/".into(),
        token: None,
        schemes: Vec::new(),
        credentials: None,
    };
    for (base, dialect, _) in BASES {
        let post = |path: &str, body: &str| under(base, dialect, sample::post(path, body));
        let get = |target: &str| under(base, dialect, get(target));
        let mut delete = post(CONFIG, "");
        delete.method = Method::Delete;
        for (request, ask) in [
            (get(CONFIG), Push::Get(Some("c".into()))),
            (head(get(CONFIG)), Push::Get(Some("c".into()))),
            (delete, Push::Delete("c".into())),
            (get("/tasks/t-1/pushNotificationConfigs"), Push::List),
            (post("/tasks/t-1/pushNotificationConfigs", set), Push::Set(wish.clone())),
        ] {
            assert_eq!(asked(&request).0, Call::Push { task: "t-1".into(), ask });
        }
    }
}

#[test]
fn head_is_get_and_other_methods_are_refused_under_every_base() {
    for (base, dialect, _) in BASES {
        let post = |path: &str, body: &str| under(base, dialect, sample::post(path, body));
        let get = |target: &str| under(base, dialect, get(target));
        for target in ["/tasks?contextId=c", "/tasks/t-1?historyLength=3"] {
            let request = get(target);
            assert_eq!(asked(&head(request.clone())).0, asked(&request).0, "{target}");
        }
        for (request, allow) in [
            (get("/message:send"), "POST"),
            (get("/tasks/t-1:cancel"), "POST"),
            (post(CONFIG, ""), "GET, HEAD, DELETE"),
            (head(get("/tasks/t-1:subscribe")), "GET, POST"),
        ] {
            let allow = allow.into();
            assert_eq!(refused(&request), (FaultKind::MethodNotAllowed { allow }, dialect));
        }
    }
}

#[test]
fn extended_cards_of_either_version() {
    let on = Switches { extended_card: true, ..Switches::default() };
    for (path, dialect, off) in [
        ("/v1/card", Dialect::REST_03_PROTO, FaultKind::ExtendedCardNotConfigured),
        (OLD_CARD, Dialect::REST_03_PROTO, FaultKind::ExtendedCardNotConfigured),
        ("/extendedAgentCard", Dialect::REST_10, FaultKind::Unsupported),
        ("/acme/extendedAgentCard", Dialect::REST_10, FaultKind::Unsupported),
    ] {
        assert_eq!(refused(&get(path)), (off, dialect), "{path}");
        let (call, _) = route::decode(&get(path), &on).unwrap();
        assert_eq!(call, Call::ExtendedCard);
    }
    let nowhere = FaultKind::NotFound;
    assert_eq!(refused(&get("/card")), (nowhere.clone(), Dialect::GEMINI));
    assert_eq!(refused(&get("/v1/extendedAgentCard")), (nowhere, Dialect::REST_03_PROTO));
}

#[test]
fn a_version_that_does_not_fit_the_path_is_refused() {
    let named = |version: &str, target: &str| with(get(target), "A2A-Version", version);
    let is_get = |call: Call| matches!(call, Call::Get { .. });
    let (call, dialect) = asked(&named("1.0", "/v1/tasks/t"));
    assert!(is_get(call) && dialect == Dialect::REST_10);
    let (call, dialect) = asked(&named("0.3.0", "/v1/tasks/t"));
    assert!(is_get(call) && dialect == Dialect::REST_03_PROTO);
    let wrong = (FaultKind::VersionNotSupported, Dialect::REST_10);
    for (version, target) in [
        ("0.3", "/tasks/t:subscribe"),
        ("0.3", "/acme/tasks/t"),
        ("0.3", "/tasks?pageSize=3"),
        ("2.0", "/tasks/t"),
        ("2.0", "/tasks/t:subscribe"),
        ("0.2", "/v1/tasks/t"),
    ] {
        assert_eq!(refused(&named(version, target)), wrong, "{version} {target}");
    }
    let strict = Switches { strict_version: true, ..Switches::default() };
    let (fault, _) = route::decode(&get("/tasks/t:subscribe"), &strict).unwrap_err();
    assert_eq!(fault.kind, FaultKind::VersionNotSupported);
    let request = named("1.0", "/tasks/t:subscribe");
    assert!(route::decode(&request, &strict).is_ok());
    assert!(route::decode(&get("/v1/tasks/t"), &strict).is_ok());
}

#[test]
fn tasks_without_a_version_get_the_short_list() {
    let dialect = |target: &str| asked(&get(target)).1;
    for target in ["/tasks", "/tasks?contextId=c", "/tasks?status=working", "/tasks/t"] {
        assert_eq!(dialect(target), Dialect::GEMINI, "{target}");
    }
    for target in [
        "/tasks?pageSize=3",
        "/tasks?pageToken=",
        "/tasks?statusTimestampAfter=2026-03-01T09:30:00Z",
        "/tasks?includeArtifacts=true",
        "/tasks?status=TASK_STATE_WORKING",
        "/tasks?A2A-Version=1.0",
        "/tasks/t?a2a-version=1.0",
    ] {
        assert_eq!(dialect(target), Dialect::REST_10, "{target}");
    }
}

#[test]
fn lists_by_query() {
    let target = "/tasks?contextId=c&status=TASK_STATE_INPUT_REQUIRED&pageSize=7&historyLength=2&includeArtifacts=true";
    let (call, _) = asked(&get(target));
    assert_eq!(
        call,
        Call::List(List {
            context: Some("c".into()),
            state: Some(crate::task::machine::state::TaskState::InputRequired),
            size: 7,
            history: 2,
            artifacts: true,
            ..List::default()
        })
    );
    let all = Call::List(List::default());
    assert_eq!(asked(&get("/v1/tasks")), (all, Dialect::REST_03_PROTO));
    for target in ["/tasks?pageSize=0", "/tasks?pageSize=x", "/tasks?includeArtifacts=2"] {
        let wrong = (FaultKind::InvalidParams, Dialect::REST_10);
        assert_eq!(refused(&get(target)), wrong, "{target}");
    }
}

#[test]
fn the_answer_uses_the_names_of_the_request() {
    let dialect = |target: &str, message: Value| {
        let body = json!({ "message": message }).to_string();
        let mut request = get(target);
        request.method = Method::Post;
        request.body = body.into();
        said(&request).1.dialect
    };
    let proto = json!({"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]});
    let json = json!({"kind": "message", "messageId": "m", "role": "user",
        "parts": [{"kind": "text", "text": "hi"}]});
    let send = "/v1/message:send";
    assert_eq!(dialect(send, proto.clone()), Dialect::REST_03_PROTO);
    assert_eq!(dialect(send, json.clone()), Dialect::REST_03_JSON);
    assert_eq!(dialect("/v1/message:send?form=ts", proto), Dialect::REST_03_JSON);
    assert_eq!(dialect("/v1/message:send?form=proto", json), Dialect::REST_03_PROTO);
    assert_eq!(asked(&get("/v1/tasks/t?form=ts")).1, Dialect::REST_03_JSON);
    assert_eq!(asked(&get("/v1/tasks/t")).1, Dialect::REST_03_PROTO);
}

#[test]
fn messages_of_0_3_over_rest() {
    let say = |body: Value| said(&sample::post("/v1/message:send", &body.to_string())).0;
    let message = json!({"message_id": "m", "context_id": "made up", "task_id": "t", "role": "ROLE_USER",
        "content": [{"text": "hi"}]});
    for name in ["message", "request", "msg"] {
        let say = say(json!({ name: message }));
        assert_eq!(say.task, Some("t".into()));
        assert_eq!(say.create.context, None, "the task decides");
        assert_eq!(say.create.traits.lifecycle, Lifecycle::OneShot);
    }
    let mut alone = message.clone();
    alone["task_id"] = json!("");
    let alone = say(json!({ "message": alone }));
    assert_eq!(alone.create.context, Some("made up".into()));
    for (configuration, mode) in [
        (json!(null), Mode::Wait),
        (json!({}), Mode::Now),
        (json!({"historyLength": 2}), Mode::Now),
        (json!({"blocking": true}), Mode::Wait),
        (json!({"blocking": false}), Mode::Now),
    ] {
        let body = json!({"message": message, "configuration": configuration});
        assert_eq!(say(body).mode, mode, "{configuration}");
    }
}

#[test]
fn messages_of_1_0_over_rest() {
    let body = json!({"message": {"messageId": "m", "taskId": "t", "contextId": "c", "role": "ROLE_USER",
        "parts": [{"text": "hi"}]}, "configuration": {}});
    let (say, _) = said(&sample::post("/message:send", &body.to_string()));
    assert_eq!((say.mode, say.create.context), (Mode::Wait, Some("c".into())));
    assert_eq!(say.create.traits.profile, Profile::Plain);
    assert_eq!(say.create.traits.lifecycle, Lifecycle::OneShot);
}

#[test]
fn the_media_type_of_1_0_is_used_on_request() {
    let is_a2a_json = |request: Request| decode(&request).unwrap().1.is_a2a_json;
    let ask = || with(get("/tasks/t"), "A2A-Version", "1.0");
    assert!(!is_a2a_json(ask()));
    let accept = "application/json;q=0.5, Application/A2A+JSON; q=1";
    assert!(is_a2a_json(with(ask(), "Accept", accept)));
    let spoken = with(ask(), "Content-Type", "application/a2a+json");
    assert!(is_a2a_json(spoken));
    let old = with(get("/v1/tasks/t"), "Accept", "application/a2a+json");
    assert!(!is_a2a_json(old));
}

#[test]
fn bodies_without_a_message() {
    for path in ["/v1/message:send", "/message:send"] {
        for (body, expected) in [
            ("", FaultKind::InvalidParams),
            ("null", FaultKind::InvalidParams),
            ("{}", FaultKind::InvalidParams),
            ("[]", FaultKind::InvalidParams),
            ("{", FaultKind::ParseError),
            (r#"{"message":[]}"#, FaultKind::InvalidParams),
        ] {
            assert_eq!(refused(&sample::post(path, body)).0, expected, "{body}");
        }
        let mut other = sample::post(path, "{}");
        other.headers = Headers::default();
        let other = with(other, "Content-Type", "text/plain");
        assert_eq!(refused(&other).0, FaultKind::ContentTypeNotSupported);
    }
}

#[test]
fn streams_continue_after_a_position() {
    let request = with(get("/v1/tasks/t:subscribe"), "Last-Event-ID", "41");
    let (call, _) = asked(&request);
    let expected = Call::Subscribe { task: "t".into(), after: Some(Seq(41)) };
    assert_eq!(call, expected);
}

#[test]
fn reserved_and_invalid_tenants() {
    for path in ["/tasks/tasks/t", "/health/tasks", "/ws/tasks/t", "/a/b/tasks/t", "/acme"] {
        assert_eq!(refused(&get(path)).0, FaultKind::NotFound, "{path}");
    }
    let long = format!("/{}/tasks/t", "x".repeat(129));
    assert_eq!(refused(&get(&long)).0, FaultKind::NotFound);
}
