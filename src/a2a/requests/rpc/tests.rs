//! Tests of the JSON-RPC binding: the envelope, methods, versions, parameters.

mod webhooks;

use super::*;
use crate::a2a::requests::route;
use crate::a2a::sample;
use crate::a2a::switches::Switches;
use crate::a2a::switches::WEBHOOKS;
use crate::a2a::words::EXT;
use crate::base::http::Request;
use crate::base::id::TaskId;
use crate::task::call::{Create, List, Mode, Push, Say, Settings, TaskTraits};
use crate::task::log::event::{Lifecycle, Profile};
use crate::task::machine::job::{Pick, Said};
use crate::task::push::Wish;
use serde_json::json;
use std::sync::Arc;

fn decode(request: &Request) -> Result<(Call, Form), (Fault, Form)> {
    route::decode(request, &Switches::default())
}

fn rpc(method: &str, params: Value) -> Request {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    sample::post("/", &body.to_string())
}

fn message() -> Value {
    json!({"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "hi"}]})
}

fn kind(request: &Request) -> FaultKind {
    decode(request).unwrap_err().0.kind
}

fn id_of(form: &Form) -> &str {
    std::str::from_utf8(&form.id).unwrap()
}

#[test]
fn every_row_of_the_envelope_checks() {
    use FaultKind::*;
    let get = r#""method":"tasks/get","params":{"id":"x"}"#;
    for (body, kind, id) in [
        (r#"{"jsonrpc":"2.0","#.into(), ParseError, "null"),
        ("[]".into(), InvalidRequest, "null"),
        (format!(r#"[{{"jsonrpc":"2.0","id":1,{get}}}]"#), InvalidRequest, "null"),
        (r#""text""#.into(), InvalidRequest, "null"),
        ("null".into(), InvalidRequest, "null"),
        (" \n".into(), InvalidRequest, "null"),
        (format!(r#"{{"jsonrpc":"1.0","id":1,{get}}}"#), InvalidRequest, "1"),
        (format!(r#"{{"id":"a",{get}}}"#), InvalidRequest, r#""a""#),
        (r#"{"jsonrpc":"2.0","id":1}"#.into(), InvalidRequest, "1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#.into(), InvalidRequest, "1"),
        (format!(r#"{{"jsonrpc":"2.0","id":{{"a":1}},{get}}}"#), InvalidRequest, "null"),
        (format!(r#"{{"jsonrpc":"2.0","id":1.5,{get}}}"#), InvalidRequest, "null"),
        (format!(r#"{{"jsonrpc":"2.0","id":true,{get}}}"#), InvalidRequest, "null"),
        (r#"{"jsonrpc":"2.0","id":-1,"method":"no/such"}"#.into(), MethodNotFound, "-1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#.into(), InvalidParams, "1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":["x"]}"#.into(), InvalidParams, "1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"":1,"id":"x"}}"#.into(), InvalidParams, "1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{}}"#.into(), InvalidParams, "1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":3}}"#.into(), InvalidParams, "1"),
    ] {
        let body: String = body;
        let (fault, form) = decode(&sample::post("/", &body)).unwrap_err();
        assert_eq!(fault.kind, kind, "{body}");
        assert_eq!(id_of(&form), id, "{body}");
    }
}

#[test]
fn ids_keep_their_type_and_may_be_missing() {
    for (id, expected) in [
        (r#""id":7,"#, "7"),
        (r#""id":"7","#, r#""7""#),
        (r#""id":null,"#, "null"),
        (r#""id":18446744073709551615,"#, "18446744073709551615"),
        ("", "null"),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0",{id}"method":"tasks/get","params":{{"id":"x"}}}}"#);
        let (call, form) = decode(&sample::post("/", &body)).unwrap();
        assert_eq!(call, Call::Get { task: "x".into(), history: None });
        assert_eq!(id_of(&form), expected);
    }
}

#[test]
fn every_method_of_both_versions() {
    let task = || TaskId::from("t");
    let get = Call::Get { task: task(), history: None };
    let watch = Call::Subscribe { task: task(), after: None };
    let cancel = Call::Cancel { task: task() };
    for (old, new, expected) in [
        ("tasks/get", "GetTask", get),
        ("tasks/cancel", "CancelTask", cancel),
        ("tasks/resubscribe", "SubscribeToTask", watch),
    ] {
        let params = json!({"id": "t", "metadata": {}, "stranger": 1});
        let (call, form) = decode(&rpc(old, params.clone())).unwrap();
        assert_eq!((call, form.dialect), (expected.clone(), Dialect::RPC_03));
        let (call, form) = decode(&rpc(new, params)).unwrap();
        assert_eq!((call, form.dialect), (expected, Dialect::RPC_10));
    }
    for (old, new) in [("message/send", "SendMessage"), ("message/stream", "SendStreamingMessage")] {
        for method in [old, new] {
            let call = decode(&rpc(method, json!({"message": message()})));
            assert!(matches!(call, Ok((Call::Say(_), _))), "{method}");
        }
    }
    for method in ["tasks/list", "message/Send", "sendMessage", ""] {
        assert_eq!(kind(&rpc(method, json!({}))), FaultKind::MethodNotFound);
    }
}

#[test]
fn commands_are_of_every_version() {
    for (version, dialect) in [("", Dialect::RPC_03), ("0.3", Dialect::RPC_03), ("1.0", Dialect::RPC_10)] {
        let mut request = bare("commands/get");
        request.headers.push("A2A-Version", version);
        let (call, form) = decode(&request).unwrap();
        assert_eq!((call, form.dialect), (Call::Commands, dialect));
    }
}

fn bare(method: &str) -> Request {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method});
    sample::post("/", &body.to_string())
}

#[test]
fn lists_and_cards_stand_alone() {
    let fifty = List { size: 50, ..List::default() };
    assert_eq!(decode(&bare("ListTasks")).unwrap().0, Call::List(fifty));
    let cards = [
        ("agent/getAuthenticatedExtendedCard", FaultKind::ExtendedCardNotConfigured),
        ("agent/authenticatedExtendedCard", FaultKind::ExtendedCardNotConfigured),
        ("GetExtendedAgentCard", FaultKind::Unsupported),
    ];
    let on = Switches { extended_card: true, ..Switches::default() };
    for (method, refused) in cards {
        assert_eq!(kind(&bare(method)), refused, "{method}");
        let (call, _) = route::decode(&bare(method), &on).unwrap();
        assert_eq!(call, Call::ExtendedCard);
    }
    assert_eq!(kind(&rpc("ListTasks", json!([]))), FaultKind::InvalidParams);
    assert_eq!(kind(&bare("GetTask")), FaultKind::InvalidParams);
}

#[test]
fn a_version_that_does_not_fit_the_method_is_refused() {
    let ask = |version: &str, method: &str| {
        let mut request = rpc(method, json!({"id": "x"}));
        request.headers.push("A2A-Version", version);
        let (outcome, form) = match decode(&request) {
            Ok((_, form)) => (Ok(()), form),
            Err((fault, form)) => (Err(fault.kind), form),
        };
        assert_eq!(id_of(&form), "7");
        (outcome, form.dialect)
    };
    assert_eq!(ask("", "tasks/get"), (Ok(()), Dialect::RPC_03));
    assert_eq!(ask("0.3.0", "tasks/get"), (Ok(()), Dialect::RPC_03));
    assert_eq!(ask("1.0", "GetTask"), (Ok(()), Dialect::RPC_10));
    let unknown = Err(FaultKind::MethodNotFound);
    assert_eq!(ask("1.0", "tasks/get"), (unknown.clone(), Dialect::RPC_10));
    assert_eq!(ask("0.3", "GetTask"), (unknown.clone(), Dialect::RPC_03));
    assert_eq!(ask("1", "no/such"), (unknown, Dialect::RPC_10));
    for method in ["tasks/get", "GetTask", "no/such"] {
        let refused = (Err(FaultKind::VersionNotSupported), Dialect::RPC_10);
        assert_eq!(ask("0.2", method), refused, "{method}");
    }
}

#[test]
fn strict_version_requires_the_header() {
    let strict = Switches { strict_version: true, ..Switches::default() };
    let mut request = rpc("GetTask", json!({"id": "x"}));
    let (fault, form) = route::decode(&request, &strict).unwrap_err();
    assert_eq!((fault.kind, form.dialect), (FaultKind::VersionNotSupported, Dialect::RPC_10));
    request.headers.push("A2A-Version", "1.0");
    assert!(route::decode(&request, &strict).is_ok());
    let old = rpc("tasks/get", json!({"id": "x"}));
    assert!(route::decode(&old, &strict).is_ok());
}

#[test]
fn operators_may_switch_streams_off() {
    let off = Switches { streaming: false, ..Switches::default() };
    for (method, params) in [
        ("message/stream", json!({"message": message()})),
        ("SendStreamingMessage", json!({"message": message()})),
        ("tasks/resubscribe", json!({"id": "t"})),
        ("SubscribeToTask", json!({"id": "t"})),
    ] {
        let (fault, _) = route::decode(&rpc(method, params), &off).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Unsupported, "{method}");
    }
}

#[test]
fn new_tasks_by_version_and_profile() {
    let traits_of = |method: &str, metadata: Value, switches: &Switches| {
        let mut sent = message();
        sent["metadata"] = metadata;
        match route::decode(&rpc(method, json!({ "message": sent })), switches) {
            Ok((Call::Say(say), _)) => say.create.traits,
            other => panic!("{other:?}"),
        }
    };
    let usual = Switches::default();
    let other = Switches {
        plain_lifecycle: Lifecycle::Conversational,
        default_profile_03: Profile::Devtool,
        ..Switches::default()
    };
    let traits = |protocol, profile, lifecycle| TaskTraits { lifecycle, protocol, profile };
    use Lifecycle::{Conversational, OneShot};
    use Profile::{Coder, Devtool, Plain};
    use Protocol::{V03, V10};
    for (method, metadata, switches, expected) in [
        ("message/send", json!(null), &usual, traits(V03, Plain, OneShot)),
        ("message/send", json!({"coderAgent": {}}), &usual, traits(V03, Coder, Conversational)),
        ("message/send", json!({EXT: {}}), &usual, traits(V03, Devtool, Conversational)),
        ("message/send", json!(null), &other, traits(V03, Devtool, Conversational)),
        ("SendMessage", json!(null), &usual, traits(V10, Plain, OneShot)),
        ("SendMessage", json!(null), &other, traits(V10, Plain, Conversational)),
        ("SendMessage", json!({EXT: {}}), &usual, traits(V10, Devtool, Conversational)),
        ("SendMessage", json!({"coderAgent": {}}), &usual, traits(V10, Coder, Conversational)),
    ] {
        assert_eq!(traits_of(method, metadata.clone(), switches), expected, "{method} {metadata}");
    }
}

#[test]
fn tenants_are_of_1_0() {
    let tenant = |method: &str, tenant: Value| {
        let form = decode(&rpc(method, json!({"id": "t", "tenant": tenant})));
        form.map(|(_, form)| form.tenant.as_str().to_owned()).map_err(|(fault, _)| fault.field)
    };
    assert_eq!(tenant("GetTask", json!("acme")), Ok("acme".into()));
    assert_eq!(tenant("GetTask", json!("")), Ok("".into()));
    assert_eq!(tenant("tasks/get", json!("acme")), Ok("".into()));
    for wrong in [json!(7), json!("a\nb"), json!("x".repeat(129))] {
        assert_eq!(tenant("GetTask", wrong), Err(Some("tenant".into())));
    }
}

#[test]
fn extensions_are_required_and_confirmed() {
    let switches = Switches { required_extensions: vec!["urn:must".into()], ..Switches::default() };
    let mut request = rpc("SendMessage", json!({"message": message()}));
    let (fault, _) = route::decode(&request, &switches).unwrap_err();
    assert_eq!(fault.kind, FaultKind::ExtensionRequired);
    request.headers.push("A2A-Extensions", &format!("urn:must,{EXT}"));
    let (_, form) = route::decode(&request, &switches).unwrap();
    assert_eq!(form.profile, Some(Profile::Devtool));
    assert_eq!(form.echo, [("A2A-Extensions", format!("{EXT}, urn:must"))]);
}

#[test]
fn content_types() {
    let ask = |media: Option<&str>, more: Option<(&str, &str)>| {
        let mut request = rpc("tasks/get", json!({"id": "x"}));
        request.headers = Default::default();
        for (name, value) in media.map(|m| ("content-type", m)).into_iter().chain(more) {
            request.headers.push(name, value);
        }
        decode(&request).map(|_| ()).map_err(|(fault, form)| {
            assert_eq!(id_of(&form), "7");
            fault.kind
        })
    };
    let refused = Err(FaultKind::ContentTypeNotSupported);
    for good in ["application/json", "Application/JSON; charset=utf-8", "application/a2a+json"] {
        assert_eq!(ask(Some(good), None), Ok(()), "{good}");
    }
    for bad in ["text/plain", "application/x-www-form-urlencoded", "json"] {
        assert_eq!(ask(Some(bad), None), refused, "{bad}");
    }
    assert_eq!(ask(None, None), Ok(()));
    let missing = Err(FaultKind::ContentTypeMissing);
    assert_eq!(ask(None, Some(("origin", "http://x.test"))), missing);
    assert_eq!(ask(None, Some(("sec-fetch-site", "none"))), missing);
}

#[test]
fn the_first_message_in_full() {
    let mut sent = message();
    sent["metadata"] = json!({"coderAgent": {"kind": "agent-settings", "workspacePath": "/w"}});
    let request = rpc("message/stream", json!({"message": sent}));
    let (call, form) = decode(&request).unwrap();
    let mut expected = sample::prompt("m-1", "hi");
    expected.metadata = sent["metadata"].as_object().cloned();
    assert_eq!(
        call,
        Call::Say(Say {
            said: Said::new(Arc::new(expected), vec![]),
            task: None,
            create: Create {
                context: None,
                settings: Settings { workspace: Some("/w".into()), ..Settings::default() },
                traits: TaskTraits::SESSION,
            },
            push: None,
            mode: Mode::Stream,
            history: None,
        })
    );
    assert_eq!(form.profile, Some(Profile::Coder));
}

fn said(method: &str, params: Value) -> (Say, Form) {
    match decode(&rpc(method, params)).unwrap() {
        (Call::Say(say), form) => (say, form),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_stays_in_the_message_and_goes_beside_it() {
    let mut sent = message();
    sent["taskId"] = json!("t");
    sent["contextId"] = json!("not its context");
    sent["parts"] = json!([{"kind": "data", "data": {"callId": "c", "outcome": "proceed_once"}}]);
    let (say, _) = said("message/send", json!({ "message": sent }));
    assert_eq!(
        say.said.answers,
        [Pick { call: "c".into(), option: "proceed_once".into(), edited: None, answers: None, seen: None }]
    );
    assert_eq!(say.said.message.parts.len(), 1);
    assert_eq!((say.task, say.create.context), (Some("t".into()), Some("not its context".into())));
}

#[test]
fn configurations() {
    let with = |configuration: Value| json!({"message": message(), "configuration": configuration});
    for (method, configuration, mode, history, data) in [
        ("message/send", json!(null), Mode::Wait, None, false),
        ("message/send", json!({}), Mode::Wait, None, false),
        ("message/send", json!({"blocking": true, "historyLength": 0}), Mode::Wait, Some(0), false),
        (
            "message/send",
            json!({"blocking": false, "history_length": 3, "returnImmediately": false}),
            Mode::Now,
            Some(3),
            false,
        ),
        (
            "message/send",
            json!({"acceptedOutputModes": ["text"], "pushNotificationConfig": null}),
            Mode::Wait,
            None,
            false,
        ),
        ("message/stream", json!({"blocking": false}), Mode::Stream, None, false),
        ("SendMessage", json!({"blocking": false}), Mode::Wait, None, false),
        (
            "SendMessage",
            json!({"returnImmediately": true, "acceptedOutputModes": ["text/plain", "image/png"]}),
            Mode::Now,
            None,
            false,
        ),
        (
            "SendMessage",
            json!({"return_immediately": true, "accepted_output_modes": ["text/*", "*/*"]}),
            Mode::Now,
            None,
            false,
        ),
        ("SendMessage", json!({"acceptedOutputModes": ["Application/JSON; charset=utf-8"]}), Mode::Wait, None, true),
        ("SendStreamingMessage", json!({"historyLength": 2}), Mode::Stream, Some(2), false),
    ] {
        let (say, form) = said(method, with(configuration.clone()));
        assert_eq!((say.mode, say.history, form.outputs.data), (mode, history, data), "{method} {configuration}");
    }
}

#[test]
fn invalid_configurations_are_refused() {
    let with = |configuration: Value| json!({"message": message(), "configuration": configuration});
    for (configuration, expected) in [
        (json!({"blocking": "yes"}), FaultKind::InvalidParams),
        (json!({"historyLength": -1}), FaultKind::InvalidParams),
        (json!({"historyLength": 1.5}), FaultKind::InvalidParams),
        (json!([]), FaultKind::InvalidParams),
        (
            json!({"pushNotificationConfig": {"url": "http://x.test"}}),
            if WEBHOOKS { FaultKind::InvalidParams } else { FaultKind::PushNotSupported },
        ),
    ] {
        let request = rpc("message/send", with(configuration.clone()));
        assert_eq!(kind(&request), expected, "{configuration}");
    }
    for configuration in
        [json!({"returnImmediately": 1}), json!({"acceptedOutputModes": "text"}), json!({"historyLength": -1})]
    {
        let request = rpc("SendMessage", with(configuration.clone()));
        assert_eq!(kind(&request), FaultKind::InvalidParams, "{configuration}");
    }
    let inline = json!({"taskPushNotificationConfig": {"url": "http://x.test"}});
    let request = rpc("SendMessage", with(inline));
    let (fault, _) = decode(&request).unwrap_err();
    assert_eq!(fault.field.as_deref(), WEBHOOKS.then_some("url"));
    for method in ["tasks/get", "GetTask"] {
        let negative = rpc(method, json!({"id": "t", "historyLength": -1}));
        let (fault, _) = decode(&negative).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("historyLength"));
    }
}

#[test]
fn missing_messages() {
    for params in [json!({}), json!({"message": null}), json!({"message": "hi"})] {
        assert_eq!(kind(&rpc("message/send", params)), FaultKind::InvalidParams);
    }
}

#[test]
fn positions() {
    let ask = |header: Option<&str>, query: Option<&str>| {
        let mut request = rpc("tasks/resubscribe", json!({"id": "t"}));
        if let Some(value) = header {
            request.headers.push("Last-Event-ID", value);
        }
        if let Some(value) = query {
            request.query.push(("after".into(), value.into()));
        }
        match decode(&request) {
            Ok((Call::Subscribe { after, .. }, _)) => Ok(after.map(|seq| seq.0)),
            Ok((other, _)) => panic!("{other:?}"),
            Err((fault, _)) => Err((fault.kind, fault.field.expect("a name"))),
        }
    };
    let wrong = |name: &str| Err((FaultKind::InvalidParams, name.to_owned()));
    assert_eq!(ask(None, None), Ok(None));
    assert_eq!(ask(Some("41"), None), Ok(Some(41)));
    assert_eq!(ask(None, Some("0")), Ok(Some(0)));
    assert_eq!(ask(Some("41"), Some("7")), Ok(Some(41)));
    assert_eq!(ask(Some(""), Some("7")), Ok(Some(7)));
    assert_eq!(ask(Some("x-41"), None), wrong("Last-Event-ID"));
    assert_eq!(ask(None, Some("-1")), wrong("after"));
}

#[test]
fn stream_errors_are_for_streams_that_were_asked_for() {
    for (method, accept, expected) in [
        ("message/stream", Some("text/event-stream, application/json"), true),
        ("tasks/resubscribe", Some("application/json, Text/Event-Stream;q=0.9"), true),
        ("message/stream", Some("application/json"), false),
        ("message/stream", None, false),
        ("message/send", Some("text/event-stream"), false),
        ("SendStreamingMessage", Some("text/event-stream"), false),
    ] {
        let mut request = rpc(method, json!({}));
        if let Some(accept) = accept {
            request.headers.push("Accept", accept);
        }
        let (fault, form) = decode(&request).unwrap_err();
        assert_eq!(fault.kind, FaultKind::InvalidParams);
        assert_eq!(form.stream_errors, expected, "{method} {accept:?}");
    }
}
