//! Decodes the request that opens a WebSocket, and the messages on it. A socket without a sub-protocol belongs to the live session: it
//! gets the session's events, among them those of its own prompts, which are only acknowledged. The sub-protocols of A2A carry
//! JSON-RPC of their version; the native one carries records and calls.

use crate::a2a::acp;
use crate::a2a::dialect::{Binding, Dialect};
use crate::a2a::form::{Decoded, Form};
use crate::a2a::native;
use crate::a2a::requests::object::Object;
use crate::a2a::requests::operation::{self, Ask, Operation, last_seen};
use crate::a2a::requests::route::{Ids, Incoming};
use crate::a2a::requests::{answer, gemini_endpoints, rpc, settings, version};
use crate::a2a::switches::Switches;
use crate::base::http::{Headers, Method, Request};
use crate::base::id::Seq;
use crate::base::json;
use crate::task::call::{Call, Follow, Join, LogPosition, Mode, Say};
use crate::task::fault::{Fault, FaultKind};
use serde_json::Value;

/// `GET` of a WebSocket's path.
pub fn join(incoming: Incoming<'_>, form: &mut Form) -> Result<Call, Fault> {
    let Incoming { request, switches, .. } = incoming;
    let dialect = match request.path.as_str() {
        "/acp" => Dialect::ACP,
        "/ws/acp" => Dialect::ACP_SESSION,
        _ => dialect_of_sub_protocol(&request.headers),
    };
    *form = Form::under(dialect, switches);
    let join = read_join(request, form, switches);
    if join.is_err() {
        // No sub-protocol has been selected, so the error is written as by the HTTP endpoint.
        *form = Form::under(Dialect::GEMINI, switches);
    }
    join.map(Call::Join)
}

/// `/acp` takes WebSockets only.
pub fn join_acp(incoming: Incoming<'_>, form: &mut Form) -> Result<Call, Fault> {
    let Incoming { request, .. } = incoming;
    if request.method == Method::Get && request.headers.get("upgrade").is_some() {
        return join(incoming, form);
    }
    let message = "This server offers ACP over WebSocket: open one here. Its streamable HTTP transport needs HTTP/2, which this server \
                   does not speak.";
    Err(Fault::new(FaultKind::MethodNotAllowed { allow: "GET".into() }, message))
}

/// The dialect of the first known sub-protocol. Unknown ones are ignored; one may carry a credential.
fn dialect_of_sub_protocol(headers: &Headers) -> &'static Dialect {
    let mut offered = headers.list("sec-websocket-protocol");
    let known = offered.find_map(|name| Dialect::ALL.into_iter().find(|dialect| dialect.sub_protocol == Some(name)));
    known.unwrap_or(Dialect::SESSION)
}

fn read_join(request: &Request, form: &mut Form, switches: &Switches) -> Result<Join, Fault> {
    form.profile = settings::profile_of(request)?;
    if form.dialect.binding == Binding::Acp {
        return Ok(Join { follow: Follow::Nothing, after: None });
    }
    if form.dialect.binding == Binding::JsonRpc {
        version::require(&request.headers, &Object::new(), switches)?;
        return Ok(Join { follow: Follow::Nothing, after: None });
    }
    let given = last_seen(request).map(|(_, given)| given);
    let after = given.map(log_position).transpose()?;
    let wrong = |why| Err(Fault::field("after", why));
    let follow = match (request.query("taskId"), &after) {
        (None | Some(""), _) => Follow::Session,
        (Some("*"), Some(_)) => {
            return wrong("is a place in one task; leave it out, or name the task.");
        }
        (Some("*"), None) => Follow::All,
        (Some("next"), None) if form.dialect.binding == Binding::Native => Follow::NextSession,
        (Some(task), Some(LogPosition { task: Some(other), .. })) if task != other.as_str() => {
            return wrong("is a place in another task than taskId; leave one of them out.");
        }
        (Some(task), _) => Follow::Task(task.into()),
    };
    Ok(Join { follow, after })
}

/// Reads `7`, or `t:7` for a position in the task `t`. A client that follows the session should name the task, because another task may
/// have become the session.
fn log_position(given: &str) -> Result<LogPosition, Fault> {
    let (task, seq) = match given.rsplit_once(':') {
        Some((task, seq)) => (Some(task.into()), seq),
        None => (None, given),
    };
    let seq = seq.parse().map(Seq).map_err(|_| {
        Fault::field(
            "after",
            "(or Last-Event-ID) must be taskId:seq or seq, as in the last event you have; leave it out to begin with the present.",
        )
    })?;
    Ok(LogPosition { task, seq })
}

/// Decodes a message on a socket into a call and the form of its answer. `connection` is the form of the request that opened the socket.
pub fn decode(text: &str, connection: &Form, switches: &Switches) -> Decoded {
    match connection.dialect.binding {
        Binding::Native => return native::decode(text),
        Binding::Acp => return acp::decode(text, connection),
        Binding::JsonRpc | Binding::Rest | Binding::Bare => {}
    }
    let mut form = connection.clone();
    if form.dialect == Dialect::SESSION {
        form.dialect = Dialect::SESSION_CALL;
    }
    let call = call(text, connection, &mut form, switches);
    form.decoded(call)
}

fn call(text: &str, connection: &Form, form: &mut Form, switches: &Switches) -> Result<Call, Fault> {
    let sent: Value = json::read(text.as_bytes()).map_err(|error| {
        let message = format!("The message cannot be read as JSON: {error}.");
        Fault::new(FaultKind::ParseError, message)
    })?;
    if let Value::Object(envelope) = &sent {
        form.id = rpc::id(envelope).unwrap_or_else(|| form.id.clone());
    }
    let mut envelope = rpc::whole(Some(sent))?;
    let live = connection.dialect == Dialect::SESSION;
    form.is_notification = !envelope.contains_key("id");
    if live && !envelope.contains_key("jsonrpc") {
        return bare_answer(envelope, form, switches);
    }
    let name = rpc::method_name(&envelope)?;
    if live && name == "turn/abort" {
        return Ok(Call::Abort { task: None });
    }
    let (operation, protocol) = rpc::method(&name, (!live).then_some(connection.dialect.protocol))
        .filter(|(_, protocol)| live || *protocol == connection.dialect.protocol)
        .ok_or_else(|| rpc::unknown(&name))?;
    let speaks = matches!(operation, Operation::Send | Operation::Stream);
    if live && !speaks {
        *form = Form {
            id: form.id.clone(),
            profile: form.profile,
            tenant: form.tenant.clone(),
            is_notification: form.is_notification,
            ..Form::under(rpc::dialect(protocol), switches)
        };
    }
    let params = rpc::params(&mut envelope, operation)?;
    let ask = Ask { operation, protocol, params: &params, ids: Ids::default(), request: None, switches };
    let mut call = operation::call(&ask, form)?;
    if let Call::Say(say) = &mut call
        && live
    {
        say.mode = Mode::Now;
    }
    Ok(call)
}

/// Reads an answer to a question without a JSON-RPC envelope. Other objects are refused, because a mistaken prompt would start a turn.
fn bare_answer(sent: Object, form: &mut Form, switches: &Switches) -> Result<Call, Fault> {
    let answers = answer::is_answer(&sent) || answer::has_answer_kind(&sent);
    match gemini_endpoints::read_say(&Value::Object(sent), form, switches) {
        Ok(say) if !say.said.answers.is_empty() => Ok(Call::Say(Say { mode: Mode::Now, ..say })),
        Err(fault) if answers => Err(fault),
        Ok(_) | Err(_) => Err(rpc::invalid(
            "Send a JSON-RPC request such as message/stream, or an answer to a question: {\"tool_call_id\": …, \"selected_option_id\": …}.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::requests::route;
    use crate::a2a::sample;
    use crate::base::http::Method;
    use crate::base::id::Seq;
    use crate::task::call::Say;
    use crate::task::log::event::Profile;
    use serde_json::json;

    fn ws(query: &[(&str, &str)], headers: &[(&str, &str)]) -> Request {
        let mut request = sample::post("/ws", "");
        request.method = Method::Get;
        request.headers = Headers::default();
        request.headers.push("Upgrade", "WebSocket");
        for (name, value) in headers {
            request.headers.push(name, value);
        }
        let pairs = query.iter();
        request.query = pairs.map(|(name, value)| ((*name).into(), (*value).into())).collect();
        request
    }

    fn joins(query: &[(&str, &str)], headers: &[(&str, &str)]) -> Result<(Join, &'static Dialect), FaultKind> {
        match route::decode(&ws(query, headers), &Switches::default()) {
            Ok((Call::Join(join), form)) => Ok((join, form.dialect)),
            Ok(other) => panic!("{other:?}"),
            Err((fault, form)) => {
                assert_eq!(form.dialect, Dialect::GEMINI);
                Err(fault.kind)
            }
        }
    }

    #[test]
    fn the_tasks_that_a_socket_subscribes_to() {
        let live = |follow, after| Ok((Join { follow, after }, Dialect::SESSION));
        let place = |task: Option<&str>, seq| {
            let task = task.map(Into::into);
            Some(LogPosition { task, seq: Seq(seq) })
        };
        let task = || Follow::Task("t".into());
        assert_eq!(joins(&[], &[]), live(Follow::Session, None));
        assert_eq!(
            joins(&[("after", "0")], &[]),
            live(Follow::Session, place(None, 0)),
            "the whole log of the session"
        );
        assert_eq!(
            joins(&[("after", "7")], &[]),
            live(Follow::Session, place(None, 7)),
            "a position in the log of the session"
        );
        assert_eq!(joins(&[("taskId", ""), ("after", "t:7")], &[]), live(Follow::Session, place(Some("t"), 7)));
        assert_eq!(joins(&[("taskId", "t")], &[("Last-Event-ID", "41")]), live(task(), place(None, 41)));
        assert_eq!(joins(&[("taskId", "t")], &[("Last-Event-ID", "t:41")]), live(task(), place(Some("t"), 41)));
        assert_eq!(joins(&[("taskId", "*")], &[]), live(Follow::All, None));
    }

    #[test]
    fn ambiguous_positions_are_refused() {
        for query in [
            &[("after", "x")][..],
            &[("after", "t:")],
            &[("after", "t:-1")],
            &[("taskId", "*"), ("after", "1")],
            &[("taskId", "*"), ("after", "t:1")],
            &[("taskId", "t"), ("after", "u:1")],
        ] {
            assert_eq!(joins(query, &[]), Err(FaultKind::InvalidParams), "{query:?}");
        }
    }

    #[test]
    fn sub_protocols() {
        let offer = |names| joins(&[("taskId", "t")], &[("Sec-WebSocket-Protocol", names)]);
        let nothing = || Join { follow: Follow::Nothing, after: None };
        let task = || Join { follow: Follow::Task("t".into()), after: None };
        for (names, expected) in [
            ("a2a.v0.3", (nothing(), Dialect::RPC_03)),
            ("bearer.x, a2a.v1.0, a2a.v0.3", (nothing(), Dialect::RPC_10)),
            ("gemini-a2a.v1", (task(), Dialect::NATIVE)),
            ("bearer.x", (task(), Dialect::SESSION)),
            ("chat", (task(), Dialect::SESSION)),
        ] {
            assert_eq!(offer(names), Ok(expected), "{names}");
        }
        let next =
            |protocol| joins(&[("taskId", "next")], &[("Sec-WebSocket-Protocol", protocol)]).map(|(join, _)| join);
        assert_eq!(next("gemini-a2a.v1"), Ok(Join { follow: Follow::NextSession, after: None }));
        assert_eq!(next("chat"), Ok(Join { follow: Follow::Task("next".into()), after: None }));
    }

    fn hear(dialect: &'static Dialect, sent: Value) -> Decoded {
        decode(&sent.to_string(), &Form::of(dialect), &Switches::default())
    }

    fn said(sent: Value) -> (Say, Form) {
        match hear(Dialect::SESSION, sent.clone()) {
            Ok((Call::Say(say), form)) => (say, form),
            other => panic!("{sent}: {other:?}"),
        }
    }

    #[test]
    fn prompts_in_a_session_are_acknowledged() {
        for method in ["message/send", "message/stream", "SendStreamingMessage"] {
            let (say, form) = said(json!({"jsonrpc": "2.0", "id": 3, "method": method,
                "params": {"message": {"content": {"text": "hi"}}}}));
            assert_eq!((say.mode, say.task), (Mode::Now, None));
            assert_eq!((form.dialect, form.is_notification), (Dialect::SESSION_CALL, false));
            assert_eq!(&*form.id, b"3");
            assert_eq!(say.create.traits.profile, Profile::Coder);
        }
        let (say, form) = said(json!({"jsonrpc": "2.0", "method": "message/stream",
            "params": {"message": {"taskId": "t", "parts": [{"text": "hi"}]}}}));
        assert_eq!((say.task, form.is_notification), (Some("t".into()), true));
    }

    #[test]
    fn bare_answers_are_accepted() {
        for sent in [
            json!({"kind": "TOOL_CALL_CONFIRMATION", "tool_call_id": "c", "selected_option_id": "cancel"}),
            json!({"tool_call_id": "c", "selected_option_id": "cancel"}),
            json!({"kind": "TOOL_CALL_CONFIRMATION", "content": {"data":
                {"tool_call_id": "c", "selected_option_id": "cancel"}}}),
        ] {
            let (say, form) = said(sent);
            assert_eq!(say.said.answers[0].option, "cancel");
            assert_eq!((say.mode, form.is_notification), (Mode::Now, true));
        }
        for (sent, member) in [
            (json!({"tool_call_id": "c", "selected_option_id": 7}), "selected_option_id"),
            (json!({"kind": "TOOL_CALL_CONFIRMATION", "tool_call_id": "c"}), "selected_option_id"),
        ] {
            let (fault, _) = hear(Dialect::SESSION, sent.clone()).unwrap_err();
            assert_eq!(fault.field.as_deref(), Some(member), "{sent}");
        }
        let (fault, form) = hear(Dialect::SESSION, json!({"text": "hi"})).unwrap_err();
        assert_eq!(fault.kind, FaultKind::InvalidRequest);
        assert_eq!(form.dialect, Dialect::SESSION_CALL);
    }

    #[test]
    fn other_methods_work_as_over_http() {
        let ask = |dialect, method: &str| {
            let sent = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": {"id": "t"}});
            match hear(dialect, sent) {
                Ok((_, form)) => Ok(form.dialect),
                Err((fault, form)) => {
                    assert_eq!(&*form.id, b"\"a\"");
                    Err(fault.kind)
                }
            }
        };
        let unknown = Err(FaultKind::MethodNotFound);
        assert_eq!(ask(Dialect::SESSION, "tasks/get"), Ok(Dialect::RPC_03));
        assert_eq!(ask(Dialect::SESSION, "GetTask"), Ok(Dialect::RPC_10));
        assert_eq!(ask(Dialect::RPC_03, "tasks/get"), Ok(Dialect::RPC_03));
        assert_eq!(ask(Dialect::RPC_03, "GetTask"), unknown);
        assert_eq!(ask(Dialect::RPC_10, "SubscribeToTask"), Ok(Dialect::RPC_10));
        assert_eq!(ask(Dialect::RPC_10, "tasks/get"), unknown);
        assert_eq!(ask(Dialect::SESSION, "no/such"), unknown);
    }

    #[test]
    fn a2a_over_sockets_is_as_strict_as_over_http() {
        let sent = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send",
            "params": {"message": {"parts": [{"text": "hi"}]}}});
        let (fault, _) = hear(Dialect::RPC_03, sent.clone()).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("message.messageId"));
        assert!(hear(Dialect::SESSION, sent).is_ok());
        let bare = json!({"tool_call_id": "c", "selected_option_id": "cancel"});
        let (fault, _) = hear(Dialect::RPC_10, bare).unwrap_err();
        assert_eq!(fault.kind, FaultKind::InvalidRequest);
    }

    #[test]
    fn a_subscription_over_a_socket_continues_after_a_position() {
        for (dialect, method) in [(Dialect::RPC_03, "tasks/resubscribe"), (Dialect::RPC_10, "SubscribeToTask")] {
            let ask = |after: Value| {
                let params = json!({"id": "t", "after": after});
                let sent = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
                let decoded = hear(dialect, sent);
                decoded.map(|(call, _)| call).map_err(|(fault, _)| fault.field)
            };
            let subscribe = |after: Option<u64>| Call::Subscribe { task: "t".into(), after: after.map(Seq) };
            assert_eq!(ask(json!(7)), Ok(subscribe(Some(7))));
            assert_eq!(ask(json!(null)), Ok(subscribe(None)));
            assert_eq!(ask(json!("x")), Err(Some("after".into())));
        }
    }

    #[test]
    fn the_native_dialect_has_its_own_calls() {
        let sent = json!({"id": 1, "call": {"get": {"task": "t"}}});
        let (call, form) = hear(Dialect::NATIVE, sent).unwrap();
        let get = Call::Get { task: "t".into(), history: None };
        assert_eq!((call, form.dialect), (get, Dialect::NATIVE));
    }

    #[test]
    fn invalid_messages_on_a_socket() {
        let session = Form::of(Dialect::SESSION);
        for (text, expected) in [
            ("", FaultKind::ParseError),
            ("{", FaultKind::ParseError),
            ("[]", FaultKind::InvalidRequest),
            ("null", FaultKind::InvalidRequest),
            ("{}", FaultKind::InvalidRequest),
            (r#"{"message":"hi"}"#, FaultKind::InvalidRequest),
            (r#"{"jsonrpc":"2.0"}"#, FaultKind::InvalidRequest),
        ] {
            let (fault, form) = decode(text, &session, &Switches::default()).unwrap_err();
            assert_eq!(fault.kind, expected, "{text}");
            assert_eq!(form.dialect, Dialect::SESSION_CALL);
        }
    }
}
