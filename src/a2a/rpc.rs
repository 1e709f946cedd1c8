//! A2A 0.3 over JSON-RPC: `POST /` into a [`Call`]. The checks run in a fixed order, and whatever is known of the request when
//! one fails (its id, whether it asked for a stream) is in the form its answer takes.

use crate::a2a::answer;
use crate::a2a::form::Form;
use crate::a2a::input::{self, Received};
use crate::a2a::object::{Object, body, check_type, count, member, object, text};
use crate::a2a::settings;
use crate::a2a::switches::Switches;
use crate::base::Shared;
use crate::base::http::Request;
use crate::base::id::{Seq, TaskId};
use crate::base::json;
use crate::task::call::{Birth, Call, Mode, Say};
use crate::task::event::{Lifecycle, Profile, Protocol};
use crate::task::fault::{Fault, FaultKind};
use crate::task::job::Said;
use serde_json::Value;
use std::sync::Arc;

pub fn decode(request: &Request, switches: &Switches) -> Result<(Call, Form), (Fault, Form)> {
    let mut form = Form {
        default_profile: switches.default_profile_03,
        ..Form::at("/")
    };
    match call(request, &mut form) {
        Ok(call) => Ok((call, form)),
        Err(fault) => Err((fault, form)),
    }
}

/// One message on a socket.
pub fn socket(
    text: &str,
    joined: &Form,
    switches: &Switches,
) -> Result<(Call, Form), (Fault, Form)> {
    let _ = (text, switches);
    let fault = Fault::new(FaultKind::Unsupported, "Nothing can be asked here yet.");
    Err((fault, joined.clone()))
}

#[derive(Clone, Copy)]
enum Method {
    Send,
    Stream,
    Get,
    Cancel,
    Resubscribe,
    Push,
    ExtendedCard,
}

const METHODS: [(&str, Method); 11] = [
    ("message/send", Method::Send),
    ("message/stream", Method::Stream),
    ("tasks/get", Method::Get),
    ("tasks/cancel", Method::Cancel),
    ("tasks/resubscribe", Method::Resubscribe),
    ("tasks/pushNotificationConfig/set", Method::Push),
    ("tasks/pushNotificationConfig/get", Method::Push),
    ("tasks/pushNotificationConfig/list", Method::Push),
    ("tasks/pushNotificationConfig/delete", Method::Push),
    ("agent/getAuthenticatedExtendedCard", Method::ExtendedCard),
    ("agent/authenticatedExtendedCard", Method::ExtendedCard),
];

impl Method {
    fn streams(self) -> bool {
        match self {
            Method::Stream | Method::Resubscribe => true,
            Method::Send | Method::Get | Method::Cancel | Method::Push | Method::ExtendedCard => {
                false
            }
        }
    }
}

fn call(request: &Request, form: &mut Form) -> Result<Call, Fault> {
    let body = body(request);
    if let Ok(Some(Value::Object(envelope))) = &body
        && let Some(id) = id(envelope)
    {
        form.id = id;
    }
    check_type(request)?;
    let envelope = match body? {
        Some(Value::Object(envelope)) => envelope,
        Some(Value::Array(_)) => {
            return Err(invalid(
                "Batch requests are not supported; send one request per POST.",
            ));
        }
        Some(_) => return Err(invalid("A JSON-RPC request is an object.")),
        None => return Err(invalid("The body is empty; POST a JSON-RPC request.")),
    };
    let name = envelope_method(&envelope)?;
    let method = METHODS.iter().find(|(known, _)| *known == name);
    let method = method.map(|(_, method)| *method);
    form.stream_errors = method.is_some_and(Method::streams) && accepts_stream(request);
    check_version(request)?;
    let Some(method) = method else {
        return Err(Fault::new(
            FaultKind::MethodNotFound,
            format!(
                "Method not found: {name}. This server speaks A2A 0.3: message/send, message/stream, tasks/get, \
                 tasks/cancel, tasks/resubscribe."
            ),
        ));
    };
    form.profile = settings::profile_of(request)?;
    match method {
        Method::Send => say(params(&envelope)?, Delivery::Single, form),
        Method::Stream => say(params(&envelope)?, Delivery::Stream, form),
        Method::Get => {
            let params = params(&envelope)?;
            Ok(Call::Get {
                task: task_id(params)?,
                history: history(params, "params")?,
            })
        }
        Method::Cancel => Ok(Call::Cancel {
            task: task_id(params(&envelope)?)?,
        }),
        Method::Resubscribe => Ok(Call::Subscribe {
            task: task_id(params(&envelope)?)?,
            after: position(request)?,
        }),
        Method::Push => Err(no_push()),
        Method::ExtendedCard => Err(Fault::new(
            FaultKind::ExtendedCardNotConfigured,
            "There is no extended card; the public one at /.well-known/agent-card.json says everything.",
        )),
    }
}

fn invalid(message: &str) -> Fault {
    Fault::new(FaultKind::InvalidRequest, message)
}

fn no_push() -> Fault {
    Fault::new(
        FaultKind::PushNotSupported,
        "Push notifications are not supported; watch the task with message/stream or tasks/resubscribe.",
    )
}

/// The id as it must come back. None for one that JSON-RPC does not allow.
fn id(envelope: &Object) -> Option<Shared> {
    match envelope.get("id") {
        None => Some(Shared::from(*b"null")),
        Some(id @ (Value::Null | Value::String(_))) => Some(json::bytes(id).into()),
        Some(id @ Value::Number(number)) if number.is_i64() || number.is_u64() => {
            Some(json::bytes(id).into())
        }
        Some(_) => None,
    }
}

fn envelope_method(envelope: &Object) -> Result<&str, Fault> {
    if envelope.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("The request needs \"jsonrpc\": \"2.0\"."));
    }
    let Some(method) = envelope.get("method").and_then(Value::as_str) else {
        return Err(invalid("The request needs a method, as a string."));
    };
    if id(envelope).is_none() {
        return Err(invalid("The id must be a string, a whole number or null."));
    }
    Ok(method)
}

fn accepts_stream(request: &Request) -> bool {
    let mut accepted = request.headers.all("accept").flat_map(|l| l.split(','));
    accepted.any(|media| {
        let media = media.split(';').next().unwrap_or_default().trim();
        media.eq_ignore_ascii_case("text/event-stream")
    })
}

/// `A2A-Version` as a header or a query parameter; the patch number does not matter, and no value means 0.3.
fn check_version(request: &Request) -> Result<(), Fault> {
    let in_query = || {
        let mut query = request.query.iter();
        query
            .find(|(name, _)| name.eq_ignore_ascii_case("a2a-version"))
            .map(|(_, value)| value.as_str())
    };
    let wanted = request.headers.get("a2a-version").or_else(in_query);
    let wanted = wanted.unwrap_or_default().trim();
    let mut numbers = wanted.splitn(3, '.');
    if wanted.is_empty() || (numbers.next(), numbers.next()) == (Some("0"), Some("3")) {
        return Ok(());
    }
    Err(Fault::new(
        FaultKind::VersionNotSupported,
        format!("A2A version {wanted} is not supported here; this server speaks 0.3."),
    ))
}

fn params(envelope: &Object) -> Result<&Object, Fault> {
    match envelope.get("params") {
        Some(Value::Object(params)) if params.contains_key("") => {
            Err(Fault::params("params has a member without a name."))
        }
        Some(Value::Object(params)) => Ok(params),
        Some(_) => Err(Fault::params("params must be an object.")),
        None => Err(Fault::params("params is required.")),
    }
}

fn task_id(params: &Object) -> Result<TaskId, Fault> {
    let id = text(params, &["id"], "params")?;
    id.map(TaskId::from)
        .ok_or_else(|| Fault::params("params.id is required."))
}

fn history(params: &Object, at: &str) -> Result<Option<usize>, Fault> {
    count(params, &["historyLength", "history_length"], at)
}

/// Where a stream goes on. Only a number of ours can be a position: with anything else the client would miss events and
/// never know.
fn position(request: &Request) -> Result<Option<Seq>, Fault> {
    let header = request.headers.get("last-event-id");
    let given = header
        .filter(|value| !value.is_empty())
        .or_else(|| request.query("after"));
    given
        .map(|value| {
            value.parse().map(Seq).map_err(|_| {
                Fault::params(
                    "Last-Event-ID (or after) must be the number of an event; leave it out to start with a snapshot.",
                )
            })
        })
        .transpose()
}

#[derive(Clone, Copy)]
enum Delivery {
    Single,
    Stream,
}

fn say(params: &Object, delivery: Delivery, form: &mut Form) -> Result<Call, Fault> {
    let sent = object(params, &["message"], "params")?;
    let sent = sent.ok_or_else(|| Fault::params("params.message is required."))?;
    let Received {
        message,
        task,
        context,
    } = input::message(sent)?;
    let metadata = object(params, &["metadata"], "params")?;
    let none = Object::new();
    let configuration = object(params, &["configuration"], "params")?.unwrap_or(&none);
    if member(configuration, &["pushNotificationConfig"]).is_some() {
        return Err(no_push());
    }
    form.profile = form
        .profile
        .or_else(|| settings::profile_spoken(&message, metadata));
    Ok(Call::Say(Say {
        settings: settings::of_message(&message, metadata)?,
        said: Said {
            answers: answer::picks(&message),
            message: Arc::new(message),
        },
        task,
        context,
        push: None,
        mode: match (delivery, blocking(configuration)?) {
            (Delivery::Stream, _) => Mode::Stream,
            (Delivery::Single, true) => Mode::Wait,
            (Delivery::Single, false) => Mode::Now,
        },
        history: history(configuration, "params.configuration")?,
        birth: Birth {
            lifecycle: Lifecycle::Conversational,
            protocol: Protocol::V03,
            profile: form.profile.unwrap_or(Profile::Coder),
        },
    }))
}

fn blocking(configuration: &Object) -> Result<bool, Fault> {
    match member(configuration, &["blocking"]) {
        None => Ok(true),
        Some((_, Value::Bool(blocking))) => Ok(*blocking),
        Some(_) => Err(Fault::params(
            "params.configuration.blocking must be true or false.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::task::call::Settings;
    use crate::task::job::Pick;
    use serde_json::json;

    fn decode(request: &Request) -> Result<(Call, Form), (Fault, Form)> {
        super::decode(request, &Switches::default())
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
            (
                format!(r#"[{{"jsonrpc":"2.0","id":1,{get}}}]"#),
                InvalidRequest,
                "null",
            ),
            (r#""text""#.into(), InvalidRequest, "null"),
            ("null".into(), InvalidRequest, "null"),
            (" \n".into(), InvalidRequest, "null"),
            (
                format!(r#"{{"jsonrpc":"1.0","id":1,{get}}}"#),
                InvalidRequest,
                "1",
            ),
            (format!(r#"{{"id":"a",{get}}}"#), InvalidRequest, r#""a""#),
            (r#"{"jsonrpc":"2.0","id":1}"#.into(), InvalidRequest, "1"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":5}"#.into(),
                InvalidRequest,
                "1",
            ),
            (
                format!(r#"{{"jsonrpc":"2.0","id":{{"a":1}},{get}}}"#),
                InvalidRequest,
                "null",
            ),
            (
                format!(r#"{{"jsonrpc":"2.0","id":1.5,{get}}}"#),
                InvalidRequest,
                "null",
            ),
            (
                format!(r#"{{"jsonrpc":"2.0","id":true,{get}}}"#),
                InvalidRequest,
                "null",
            ),
            (
                r#"{"jsonrpc":"2.0","id":-1,"method":"no/such"}"#.into(),
                MethodNotFound,
                "-1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#.into(),
                InvalidParams,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":["x"]}"#.into(),
                InvalidParams,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"":1,"id":"x"}}"#.into(),
                InvalidParams,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{}}"#.into(),
                InvalidParams,
                "1",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":3}}"#.into(),
                InvalidParams,
                "1",
            ),
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
            let body =
                format!(r#"{{"jsonrpc":"2.0",{id}"method":"tasks/get","params":{{"id":"x"}}}}"#);
            let (call, form) = decode(&sample::post("/", &body)).unwrap();
            assert_eq!(
                call,
                Call::Get {
                    task: "x".into(),
                    history: None
                }
            );
            assert_eq!(id_of(&form), expected);
        }
    }

    #[test]
    fn every_method_of_0_3_and_none_of_other_versions() {
        let id = json!({"id": "t"});
        let task = || TaskId::from("t");
        let call = |method| decode(&rpc(method, id.clone())).unwrap().0;
        assert_eq!(
            call("tasks/get"),
            Call::Get {
                task: task(),
                history: None
            }
        );
        assert_eq!(call("tasks/cancel"), Call::Cancel { task: task() });
        assert_eq!(
            call("tasks/resubscribe"),
            Call::Subscribe {
                task: task(),
                after: None
            }
        );
        for what in ["set", "get", "list", "delete"] {
            let method = format!("tasks/pushNotificationConfig/{what}");
            assert_eq!(kind(&rpc(&method, id.clone())), FaultKind::PushNotSupported);
        }
        for method in [
            "agent/getAuthenticatedExtendedCard",
            "agent/authenticatedExtendedCard",
        ] {
            let without = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
            assert_eq!(
                kind(&sample::post("/", &without)),
                FaultKind::ExtendedCardNotConfigured
            );
        }
        for method in ["tasks/list", "SendMessage", "GetTask", "ListTasks", ""] {
            assert_eq!(kind(&rpc(method, id.clone())), FaultKind::MethodNotFound);
        }
    }

    #[test]
    fn versions() {
        let ask = |header: Option<&str>, query: Option<&str>| {
            let mut request = rpc("tasks/get", json!({"id": "x"}));
            if let Some(version) = header {
                request.headers.push("A2A-Version", version);
            }
            if let Some(version) = query {
                request.query.push(("a2a-version".into(), version.into()));
            }
            decode(&request).map(|_| ()).map_err(|(fault, form)| {
                assert_eq!(id_of(&form), "7");
                fault.kind
            })
        };
        let refused = Err(FaultKind::VersionNotSupported);
        for good in ["", "0.3", "0.3.0", "0.3.7"] {
            assert_eq!(ask(Some(good), None), Ok(()), "{good}");
            assert_eq!(ask(None, Some(good)), Ok(()), "{good}");
        }
        for bad in ["1.0", "1", "0.2", "0.30", "0", "v0.3", "0.3, 1.0"] {
            assert_eq!(ask(Some(bad), None), refused, "{bad}");
        }
        assert_eq!(ask(None, Some("1.0")), refused);
        assert_eq!(ask(Some("0.3"), Some("1.0")), Ok(()));
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
        for good in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/a2a+json",
        ] {
            assert_eq!(ask(Some(good), None), Ok(()), "{good}");
        }
        for bad in ["text/plain", "application/x-www-form-urlencoded", "json"] {
            assert_eq!(ask(Some(bad), None), refused, "{bad}");
        }
        assert_eq!(ask(None, None), Ok(()));
        assert_eq!(ask(None, Some(("origin", "http://x.test"))), refused);
        assert_eq!(ask(None, Some(("sec-fetch-site", "none"))), refused);
    }

    #[test]
    fn a_first_message_whole() {
        let mut sent = message();
        sent["metadata"] = json!({"coderAgent": {"kind": "agent-settings", "workspacePath": "/w"}});
        let request = rpc("message/stream", json!({"message": sent}));
        let (call, form) = decode(&request).unwrap();
        let mut expected = sample::prompt("m-1", "hi");
        expected.metadata = sent["metadata"].as_object().cloned();
        assert_eq!(
            call,
            Call::Say(Say {
                said: Said {
                    message: Arc::new(expected),
                    answers: vec![]
                },
                task: None,
                context: None,
                settings: Settings {
                    workspace: Some("/w".into()),
                    ..Settings::default()
                },
                push: None,
                mode: Mode::Stream,
                history: None,
                birth: Birth {
                    lifecycle: Lifecycle::Conversational,
                    protocol: Protocol::V03,
                    profile: Profile::Coder
                },
            })
        );
        assert_eq!(form.profile, Some(Profile::Coder));
    }

    fn said(params: Value) -> Say {
        match decode(&rpc("message/send", params)).unwrap().0 {
            Call::Say(say) => say,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_stays_in_the_message_and_goes_beside_it() {
        let mut sent = message();
        sent["taskId"] = json!("t");
        sent["contextId"] = json!("not its context");
        sent["parts"] =
            json!([{"kind": "data", "data": {"callId": "c", "outcome": "proceed_once"}}]);
        let say = said(json!({ "message": sent }));
        assert_eq!(
            say.said.answers,
            [Pick {
                call: "c".into(),
                option: "proceed_once".into(),
                edited: None,
                answers: None
            }]
        );
        assert_eq!(say.said.message.parts.len(), 1);
        assert_eq!(
            (say.task, say.context),
            (Some("t".into()), Some("not its context".into()))
        );
    }

    #[test]
    fn configurations() {
        let with =
            |configuration: Value| json!({"message": message(), "configuration": configuration});
        for (configuration, mode, history) in [
            (json!(null), Mode::Wait, None),
            (json!({}), Mode::Wait, None),
            (
                json!({"blocking": true, "historyLength": 0}),
                Mode::Wait,
                Some(0),
            ),
            (
                json!({"blocking": false, "history_length": 3}),
                Mode::Now,
                Some(3),
            ),
            (
                json!({"acceptedOutputModes": ["text"], "pushNotificationConfig": null}),
                Mode::Wait,
                None,
            ),
        ] {
            let say = said(with(configuration.clone()));
            assert_eq!((say.mode, say.history), (mode, history), "{configuration}");
        }
        for (configuration, expected) in [
            (json!({"blocking": "yes"}), FaultKind::InvalidParams),
            (json!({"historyLength": -1}), FaultKind::InvalidParams),
            (json!({"historyLength": 1.5}), FaultKind::InvalidParams),
            (json!([]), FaultKind::InvalidParams),
            (
                json!({"pushNotificationConfig": {"url": "http://x.test"}}),
                FaultKind::PushNotSupported,
            ),
        ] {
            let request = rpc("message/send", with(configuration.clone()));
            assert_eq!(kind(&request), expected, "{configuration}");
        }
        let negative = rpc("tasks/get", json!({"id": "t", "historyLength": -1}));
        assert_eq!(kind(&negative), FaultKind::InvalidParams);
    }

    #[test]
    fn messages_that_are_not_there() {
        for params in [
            json!({}),
            json!({"message": null}),
            json!({"message": "hi"}),
        ] {
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
                Err((fault, _)) => Err(fault.kind),
            }
        };
        assert_eq!(ask(None, None), Ok(None));
        assert_eq!(ask(Some("41"), None), Ok(Some(41)));
        assert_eq!(ask(None, Some("0")), Ok(Some(0)));
        assert_eq!(ask(Some("41"), Some("7")), Ok(Some(41)));
        assert_eq!(ask(Some(""), Some("7")), Ok(Some(7)));
        assert_eq!(ask(Some("x-41"), None), Err(FaultKind::InvalidParams));
        assert_eq!(ask(None, Some("-1")), Err(FaultKind::InvalidParams));
    }

    #[test]
    fn stream_errors_are_for_streams_that_were_asked_for() {
        for (method, accept, expected) in [
            (
                "message/stream",
                Some("text/event-stream, application/json"),
                true,
            ),
            (
                "tasks/resubscribe",
                Some("application/json, Text/Event-Stream;q=0.9"),
                true,
            ),
            ("message/stream", Some("application/json"), false),
            ("message/stream", None, false),
            ("message/send", Some("text/event-stream"), false),
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
}
