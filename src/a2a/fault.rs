//! The error table: the name and the codes of each kind of fault in every dialect. The code that reports a fault gives its kind and a
//! message; only this file knows the codes.
//!
//! JSON-RPC errors have the HTTP status 200, because clients read the body and some refuse any other status. The exceptions are errors
//! that proxies and clients must see in the status: missing credential, missing permission, wrong method, too large, try again later.

use crate::a2a::acp;
use crate::a2a::dialect::Binding;
use crate::a2a::encodings::object::object;
use crate::a2a::form::Form;
use crate::a2a::native;
use crate::a2a::respond;
use crate::a2a::switches::RestStatus;
use crate::a2a::views::session;
use crate::base::http::Response;
use crate::base::id::TaskId;
use crate::base::json;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Protocol;
use serde_json::{Map, Value, json};

/// The whole answer to a request that failed.
pub fn fault(form: &Form, fault: &Fault) -> Response {
    let row = table(&fault.kind, form.dialect.protocol);
    let status = status(form, &row);
    let response = respond(form, status, fault_frame(form, fault));
    headers(&fault.kind).into_iter().fold(response, |response, (name, value)| response.with(name, value))
}

/// The error as the payload of a frame, for streams and sockets.
pub fn fault_frame(form: &Form, fault: &Fault) -> Vec<u8> {
    let row = table(&fault.kind, form.dialect.protocol);
    let message = fault.message.as_str();
    match (form.dialect.binding, form.dialect.protocol) {
        (Binding::JsonRpc, protocol) => rpc_error(&form.id, protocol, fault, &named(form, &fault.kind)),
        // Different clients read different members.
        (Binding::Rest, Protocol::V03) => json::bytes(&json!({
            "code": row.code,
            "type": row.name,
            "error": row.name,
            "message": message,
            "data": data(fault, &row, &named(form, &fault.kind)),
        })),
        // `google.rpc.Status`.
        (Binding::Rest, Protocol::V10) => json::bytes(&json!({ "error": {
            "code": status(form, &row),
            "status": row.word,
            "message": message,
            "details": details(fault, &row, &named(form, &fault.kind)),
        }})),
        (Binding::Bare, _) => {
            let error = match &fault.kind {
                // Clients of the reference server compare this text.
                FaultKind::TaskNotFound(_) => "Task not found",
                _ => message,
            };
            json::bytes(&json!({ "error": error }))
        }
        (Binding::Native, _) => native::error(form, fault, row.reason),
        (Binding::Acp, _) => object(|o| {
            o.member("jsonrpc", "2.0").name("id").extend_from_slice(&form.id);
            o.object("error", |o| {
                o.member("code", &acp::code(&fault.kind, row.code)).member("message", message);
                o.member("data", &data(fault, &row, &named(form, &fault.kind)));
            });
        }),
    }
}

/// Whether a failed request is answered. In ACP, a message without an id is not.
pub fn is_answered(form: &Form) -> bool {
    !(form.is_notification && form.dialect.binding == Binding::Acp)
}

/// A notice of the server about a task, as a frame of a socket. It is neither an event nor an answer: it has no sequence number and no
/// id of a call, and the streams of the socket continue after it.
pub fn notice(form: &Form, task: &TaskId, message: &str) -> Vec<u8> {
    let fault = Fault::new(FaultKind::Storage, message);
    match form.dialect.binding {
        Binding::JsonRpc => rpc_error(b"null", form.dialect.protocol, &fault, &[("taskId", task.as_str())]),
        Binding::Bare => session::notice(task, message),
        Binding::Native => native::problem(task, message),
        Binding::Acp => acp::notice(form, task, message),
        // Not used over sockets.
        Binding::Rest => fault_frame(form, &fault),
    }
}

/// `data` is an object in 0.3 and a list of typed details in 1.0.
fn rpc_error(id: &[u8], protocol: Protocol, fault: &Fault, about: &[(&'static str, &str)]) -> Vec<u8> {
    let row = table(&fault.kind, protocol);
    let data = match protocol {
        Protocol::V03 => data(fault, &row, about).into(),
        Protocol::V10 => details(fault, &row, about),
    };
    object(|o| {
        o.member("jsonrpc", "2.0").name("id").extend_from_slice(id);
        o.object("error", |o| _ = o.member("code", &row.code).member("data", &data).member("message", &fault.message));
    })
}

/// Whether a failure before the first event is sent as a frame of the stream the client asked for, not as a plain answer.
pub fn in_stream(form: &Form, fault: &Fault) -> bool {
    form.stream_errors && table(&fault.kind, Protocol::V03).statuses.rpc == 200
}

fn status(form: &Form, row: &Row) -> u16 {
    match (form.dialect.binding, form.dialect.protocol, form.rest_status) {
        (Binding::JsonRpc | Binding::Native | Binding::Acp, _, _) => row.statuses.rpc,
        (Binding::Rest, Protocol::V10, RestStatus::V100) => row.statuses.rest_100,
        (Binding::Rest, _, _) => row.statuses.rest,
        (Binding::Bare, _, _) => row.statuses.bare,
    }
}

/// The ids that an error names: those of its subject, and the request id if the client chose it. A request id that the server made is
/// only in a response header, so that equal requests have equal answers.
fn named<'a>(form: &'a Form, kind: &'a FaultKind) -> Vec<(&'static str, &'a str)> {
    let request = form.request.as_deref().map(|id| ("requestId", id));
    about(kind).into_iter().chain(request).collect()
}

/// The data of a fault in 0.3.
fn data(fault: &Fault, row: &Row, about: &[(&'static str, &str)]) -> Map<String, Value> {
    let field = fault.field.as_deref().map(|field| ("field", field));
    let members = [("reason", row.reason)].into_iter().chain(about.iter().copied()).chain(field);
    members.map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// The same in 1.0: a list of typed objects.
fn details(fault: &Fault, row: &Row, about: &[(&'static str, &str)]) -> Value {
    let mut info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": row.reason,
        "domain": "a2a-protocol.org",
    });
    for (name, value) in about {
        info["metadata"][*name] = json!(value);
    }
    let mut details = vec![info];
    if let Some(field) = &fault.field {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{ "field": field, "description": fault.message }],
        }));
    }
    details.into()
}

struct Row {
    code: i32,
    /// The name of the error in 0.3.
    name: &'static str,
    /// The name of the `google.rpc` code.
    word: &'static str,
    reason: &'static str,
    statuses: Statuses,
}

/// The HTTP status for each form of answer.
#[derive(Clone, Copy)]
struct Statuses {
    /// Of a JSON-RPC error.
    rpc: u16,
    /// Of an error over REST in either version.
    rest: u16,
    /// Of an error over REST as the first edition of 1.0 defined it.
    rest_100: u16,
    /// Of an error of the Gemini endpoints.
    bare: u16,
}

const fn http(status: u16) -> Statuses {
    Statuses { rpc: 200, rest: status, rest_100: status, bare: status }
}

/// The same status for every form, JSON-RPC included.
const fn every(status: u16) -> Statuses {
    Statuses { rpc: status, ..http(status) }
}

const CONFLICT: Statuses = Statuses { rest_100: 409, bare: 409, ..http(400) };

const ARGUMENT: &str = "INVALID_ARGUMENT";
const STATE: &str = "FAILED_PRECONDITION";

const INVALID: Row = entry(-32600, "InvalidRequestError", ARGUMENT, "INVALID_REQUEST", http(400));
const PARAMS: Row = entry(-32602, "InvalidParamsError", ARGUMENT, "INVALID_PARAMS", http(400));
const NOWHERE: Row = entry(-32601, "MethodNotFoundError", "NOT_FOUND", "METHOD_NOT_FOUND", http(404));
const INTERNAL: Row = entry(-32603, "InternalError", "INTERNAL", "INTERNAL_ERROR", http(500));
const CONTENT_TYPE: Row =
    entry(-32005, "ContentTypeNotSupportedError", ARGUMENT, "CONTENT_TYPE_NOT_SUPPORTED", http(400));

const fn entry(code: i32, name: &'static str, word: &'static str, reason: &'static str, statuses: Statuses) -> Row {
    Row { code, name, word, reason, statuses }
}

/// A failed precondition.
const fn state(code: i32, name: &'static str, reason: &'static str) -> Row {
    entry(code, name, STATE, reason, http(400))
}

/// The ids of the task, call or instance that a fault is about, and their names.
fn about(kind: &FaultKind) -> Vec<(&'static str, &str)> {
    use FaultKind::*;
    match kind {
        TaskNotFound(task) | TaskNotCancelable(task) | TaskIsOver(task) => vec![("taskId", task.as_str())],
        TaskHeld { task, owner, url } => {
            let owner = owner.as_deref().map(|owner| ("owner", owner));
            let url = url.as_deref().map(|url| ("url", url));
            [("taskId", task.as_str())].into_iter().chain(owner).chain(url).collect()
        }
        NotPending(call) | UnknownOption(call) | Stale(call) => vec![("callId", call.as_str())],
        _ => Vec::new(),
    }
}

/// The response headers of a fault that tell the client what to do.
fn headers(kind: &FaultKind) -> Vec<(&'static str, String)> {
    const CHALLENGE: &str = "WWW-Authenticate";
    match kind {
        FaultKind::Unauthenticated { shown, basic } => {
            let error = if *shown { ", error=\"invalid_token\"" } else { "" };
            let bearer = (CHALLENGE, format!("Bearer realm=\"gemini-a2a\"{error}"));
            let basic = basic.then(|| (CHALLENGE, "Basic realm=\"gemini-a2a\", charset=\"UTF-8\"".to_owned()));
            [bearer].into_iter().chain(basic).collect()
        }
        FaultKind::RightMissing(right) => {
            let scope = right.word();
            let error = format!("Bearer realm=\"gemini-a2a\", error=\"insufficient_scope\", scope=\"{scope}\"");
            vec![(CHALLENGE, error)]
        }
        FaultKind::MethodNotAllowed { allow } => vec![("Allow", allow.clone())],
        FaultKind::TaskHeld { .. } => vec![("Retry-After", "2".to_owned())],
        FaultKind::Overloaded { retry_after_s } => vec![("Retry-After", retry_after_s.to_string())],
        FaultKind::RateLimited { retry_after_ms } => {
            vec![("Retry-After", retry_after_ms.div_ceil(1_000).max(1).to_string())]
        }
        _ => Vec::new(),
    }
}

fn table(kind: &FaultKind, protocol: Protocol) -> Row {
    use FaultKind::*;
    match (kind, protocol) {
        (ParseError, _) => Row { code: -32700, name: "JSONParseError", ..INVALID },
        (InvalidRequest, _) => INVALID,
        (MethodNotFound, _) => NOWHERE,
        (InvalidParams, _) => PARAMS,
        (ContentNotFound, _) => Row { reason: "CONTENT_NOT_FOUND", statuses: http(404), ..PARAMS },
        (Storage, _) => INTERNAL,
        (TaskNotFound(_), _) => entry(-32001, "TaskNotFoundError", "NOT_FOUND", "TASK_NOT_FOUND", http(404)),
        (TaskNotCancelable(_), _) => {
            Row { statuses: CONFLICT, ..state(-32002, "TaskNotCancelableError", "TASK_NOT_CANCELABLE") }
        }
        // 0.3 has no code for it; its conformance tests expect "invalid request".
        (TaskIsOver(_), Protocol::V03) => Row { reason: "UNSUPPORTED_OPERATION", statuses: CONFLICT, ..INVALID },
        (TaskIsOver(_), Protocol::V10) | (Unsupported, _) => {
            state(-32004, "UnsupportedOperationError", "UNSUPPORTED_OPERATION")
        }
        (PushNotSupported, _) => state(-32003, "PushNotificationNotSupportedError", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        (ContentTypeNotSupported, _) => Row { statuses: Statuses { rest_100: 415, ..http(400) }, ..CONTENT_TYPE },
        // Browsers send a body without a Content-Type without a CORS preflight, so the HTTP status itself must be an error.
        (ContentTypeMissing, _) => Row { statuses: every(415), ..CONTENT_TYPE },
        (ExtendedCardNotConfigured, _) => {
            state(-32007, "AuthenticatedExtendedCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
        }
        (ExtensionRequired, Protocol::V03) => Row { reason: "EXTENSION_SUPPORT_REQUIRED", ..INVALID },
        (ExtensionRequired, Protocol::V10) => {
            state(-32008, "ExtensionSupportRequiredError", "EXTENSION_SUPPORT_REQUIRED")
        }
        (VersionNotSupported, _) => state(-32009, "VersionNotSupportedError", "VERSION_NOT_SUPPORTED"),
        (Unauthenticated { .. }, _) => {
            entry(-32000, "UnauthenticatedError", "UNAUTHENTICATED", "UNAUTHENTICATED", every(401))
        }
        (Forbidden | RightMissing(_), _) => {
            entry(-32000, "PermissionDeniedError", "PERMISSION_DENIED", "PERMISSION_DENIED", every(403))
        }
        (RateLimited { .. }, _) => entry(-32000, "RateLimitedError", "RESOURCE_EXHAUSTED", "RATE_LIMITED", every(429)),
        (TaskHeld { .. }, _) => entry(-32000, "TaskHeldError", "ABORTED", "TASK_HELD", every(409)),
        (Recalled, _) => entry(-32800, "RequestCancelledError", "CANCELLED", "REQUEST_CANCELLED", http(499)),
        (Stale(_), _) => Row { reason: "STALE", statuses: CONFLICT, ..PARAMS },
        (NotPending(_), _) => Row { reason: "TOOL_CALL_NOT_PENDING", statuses: CONFLICT, ..PARAMS },
        (McpServerNotAllowed, _) => Row { reason: "MCP_SERVER_NOT_ALLOWED", ..PARAMS },
        (UnknownOption(_), _) => Row { reason: "UNKNOWN_OPTION", ..PARAMS },
        (NotFound, _) => Row { statuses: every(404), ..NOWHERE },
        (MethodNotAllowed { .. }, _) => Row { statuses: every(405), ..INVALID },
        (TooLarge, _) => Row { statuses: every(413), ..INVALID },
        (Overloaded { .. }, _) => Row { word: "UNAVAILABLE", reason: "OVERLOADED", statuses: every(503), ..INTERNAL },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::dialect::Dialect;
    use crate::base::Shared;
    use crate::task::access::Right;

    /// Kind, code, and HTTP statuses: around JSON-RPC, REST, REST as 1.0.0 had it, Gemini.
    fn every_kind() -> Vec<(FaultKind, i64, [u16; 4])> {
        use FaultKind::*;
        let allow = || "POST".to_owned();
        vec![
            (ParseError, -32700, [200, 400, 400, 400]),
            (InvalidRequest, -32600, [200, 400, 400, 400]),
            (MethodNotFound, -32601, [200, 404, 404, 404]),
            (InvalidParams, -32602, [200, 400, 400, 400]),
            (ContentNotFound, -32602, [200, 404, 404, 404]),
            (TaskNotFound("t".into()), -32001, [200, 404, 404, 404]),
            (TaskNotCancelable("t".into()), -32002, [200, 400, 409, 409]),
            (PushNotSupported, -32003, [200, 400, 400, 400]),
            (Unsupported, -32004, [200, 400, 400, 400]),
            (ContentTypeNotSupported, -32005, [200, 400, 415, 400]),
            (ContentTypeMissing, -32005, [415, 415, 415, 415]),
            (ExtendedCardNotConfigured, -32007, [200, 400, 400, 400]),
            (VersionNotSupported, -32009, [200, 400, 400, 400]),
            (Unauthenticated { shown: false, basic: false }, -32000, [401, 401, 401, 401]),
            (RateLimited { retry_after_ms: 1 }, -32000, [429, 429, 429, 429]),
            (RightMissing(Right::Prompt), -32000, [403, 403, 403, 403]),
            (Forbidden, -32000, [403, 403, 403, 403]),
            (NotPending("c".into()), -32602, [200, 400, 409, 409]),
            (Stale("c".into()), -32602, [200, 400, 409, 409]),
            (TaskHeld { task: "t".into(), owner: None, url: None }, -32000, [409, 409, 409, 409]),
            (Recalled, -32800, [200, 499, 499, 499]),
            (UnknownOption("c".into()), -32602, [200, 400, 400, 400]),
            (McpServerNotAllowed, -32602, [200, 400, 400, 400]),
            (NotFound, -32601, [404, 404, 404, 404]),
            (MethodNotAllowed { allow: allow() }, -32600, [405, 405, 405, 405]),
            (TooLarge, -32600, [413, 413, 413, 413]),
            (Overloaded { retry_after_s: 3 }, -32603, [503, 503, 503, 503]),
            (Storage, -32603, [200, 500, 500, 500]),
        ]
    }

    fn value(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    fn answer(dialect: &'static Dialect, kind: &FaultKind) -> (u16, Value) {
        let form = Form { id: Shared::from(*b"\"x\""), ..Form::of(dialect) };
        let answer = fault(&form, &Fault::new(kind.clone(), "why"));
        (answer.status, value(&answer.body))
    }

    #[test]
    fn codes_and_statuses_of_every_family() {
        for (kind, code, [rpc, rest, rest_100, bare]) in every_kind() {
            for dialect in [Dialect::RPC_03, Dialect::RPC_10, Dialect::SESSION_CALL] {
                let (status, body) = answer(dialect, &kind);
                assert_eq!(status, rpc, "{kind:?}");
                assert_eq!(body["error"]["code"], code, "{kind:?}");
                assert_eq!(body["error"]["message"], "why");
                assert_eq!(body["id"], "x");
            }
            for dialect in [Dialect::REST_03_PROTO, Dialect::REST_03_JSON] {
                let (status, body) = answer(dialect, &kind);
                assert_eq!((status, &body["code"]), (rest, &json!(code)), "{kind:?}");
                assert_eq!(body["type"], body["error"]);
            }
            let (status, body) = answer(Dialect::REST_10, &kind);
            assert_eq!((status, &body["error"]["code"]), (rest, &json!(rest)), "{kind:?}");
            let older = Form { rest_status: RestStatus::V100, ..Form::of(Dialect::REST_10) };
            let older = fault(&older, &Fault::new(kind.clone(), "why"));
            assert_eq!(older.status, rest_100, "{kind:?}");
            assert_eq!(value(&older.body)["error"]["code"], rest_100);
            for dialect in [Dialect::GEMINI, Dialect::MESSAGE_STREAM, Dialect::EXECUTE_STREAM, Dialect::SESSION] {
                let words = match kind {
                    FaultKind::TaskNotFound(_) => "Task not found",
                    _ => "why",
                };
                assert_eq!(answer(dialect, &kind), (bare, json!({ "error": words })));
            }
        }
    }

    #[test]
    fn faults_that_differ_between_versions() {
        let code = |dialect, kind: &FaultKind| answer(dialect, kind).1["error"]["code"].clone();
        let over = FaultKind::TaskIsOver("t".into());
        assert_eq!(code(Dialect::RPC_03, &over), -32600);
        assert_eq!(code(Dialect::RPC_10, &over), -32004);
        assert_eq!(answer(Dialect::REST_03_PROTO, &over).1["code"], -32600);
        assert_eq!(answer(Dialect::REST_10, &over).0, 400);
        assert_eq!(answer(Dialect::EXECUTE_STREAM, &over).0, 409);
        let required = FaultKind::ExtensionRequired;
        assert_eq!(code(Dialect::RPC_03, &required), -32600);
        assert_eq!(code(Dialect::RPC_10, &required), -32008);
    }

    #[test]
    fn rpc_of_0_3_whole() {
        let form = Form::of(Dialect::RPC_03);
        let frame = |fault: Fault| value(&fault_frame(&form, &fault));
        assert_eq!(
            frame(Fault::new(FaultKind::TaskNotFound("t-1".into()), "m")),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "m",
                "data": {"reason": "TASK_NOT_FOUND", "taskId": "t-1"}}})
        );
        assert_eq!(
            frame(Fault::new(FaultKind::NotPending("c-1".into()), "m"))["error"]["data"],
            json!({"reason": "TOOL_CALL_NOT_PENDING", "callId": "c-1"})
        );
        assert_eq!(
            frame(Fault::field("message.parts", "is required."))["error"]["data"],
            json!({"reason": "INVALID_PARAMS", "field": "message.parts"})
        );
    }

    #[test]
    fn rpc_of_1_0_whole() {
        let form = Form { id: Shared::from(*b"7"), ..Form::of(Dialect::RPC_10) };
        assert_eq!(
            value(&fault_frame(&form, &Fault::field("message.parts", "is required."))),
            json!({"jsonrpc": "2.0", "id": 7, "error": {
                "code": -32602, "message": "message.parts is required.", "data": [
                    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "INVALID_PARAMS",
                        "domain": "a2a-protocol.org"},
                    {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [
                        {"field": "message.parts", "description": "message.parts is required."}]}]}})
        );
    }

    #[test]
    fn rest_of_0_3_whole() {
        let (_, body) = answer(Dialect::REST_03_PROTO, &FaultKind::TaskNotFound("t-1".into()));
        assert_eq!(
            body,
            json!({"code": -32001, "type": "TaskNotFoundError", "error": "TaskNotFoundError", "message": "why",
                "data": {"reason": "TASK_NOT_FOUND", "taskId": "t-1"}})
        );
    }

    #[test]
    fn rest_of_1_0_whole() {
        let (_, body) = answer(Dialect::REST_10, &FaultKind::TaskNotFound("t-17".into()));
        assert_eq!(
            body,
            json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "why", "details": [
                {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org", "metadata": {"taskId": "t-17"}}]}})
        );
    }

    #[test]
    fn faults_with_headers() {
        let header = |kind| {
            let answer = fault(&Form::of(Dialect::RPC_03), &Fault::new(kind, "m"));
            answer.headers[1].clone()
        };
        let allow = "GET, HEAD".to_owned();
        for (kind, name, text) in [
            (FaultKind::MethodNotAllowed { allow }, "Allow", "GET, HEAD"),
            (FaultKind::Overloaded { retry_after_s: 5 }, "Retry-After", "5"),
            (
                FaultKind::Unauthenticated { shown: false, basic: false },
                "WWW-Authenticate",
                "Bearer realm=\"gemini-a2a\"",
            ),
            (
                FaultKind::Unauthenticated { shown: true, basic: false },
                "WWW-Authenticate",
                "Bearer realm=\"gemini-a2a\", error=\"invalid_token\"",
            ),
            (
                FaultKind::RightMissing(Right::Approve),
                "WWW-Authenticate",
                "Bearer realm=\"gemini-a2a\", error=\"insufficient_scope\", scope=\"approve\"",
            ),
            (FaultKind::RateLimited { retry_after_ms: 1_001 }, "Retry-After", "2"),
        ] {
            assert_eq!(header(kind), (name, text.to_owned()));
        }
    }

    #[test]
    fn errors_have_the_requested_media_type() {
        let form =
            Form { is_a2a_json: true, echo: vec![("A2A-Extensions", "urn:x".into())], ..Form::of(Dialect::REST_10) };
        let answer = fault(&form, &Fault::no_task(&"t".into()));
        assert_eq!(
            answer.headers,
            [("Content-Type", "application/a2a+json".to_owned()), ("A2A-Extensions", "urn:x".to_owned())]
        );
    }

    #[test]
    fn only_faults_with_status_200_go_into_the_stream() {
        let mut form = Form::of(Dialect::RPC_03);
        let lost = Fault::no_task(&"t".into());
        assert!(!in_stream(&form, &lost));
        form.stream_errors = true;
        assert!(in_stream(&form, &lost));
        assert!(!in_stream(&form, &Fault::new(FaultKind::Unauthenticated { shown: false, basic: false }, "m")));
    }
}
