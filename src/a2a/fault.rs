//! The one error table: what each fault is called and which numbers it has in every family of answers. Whoever finds a fault
//! names it and says what to do next; nobody else knows a code.
//!
//! JSON-RPC errors are HTTP 200, because kits look into the body and some refuse anything else. The exceptions are what
//! proxies and clients must see in the head: no credential, no permission, wrong method, too large, come back later.

use crate::a2a::form::{Envelope, Form};
use crate::a2a::own;
use crate::base::http::Response;
use crate::base::json;
use crate::task::fault::{Fault, FaultKind};
use serde::Serialize;
use serde_json::json;

/// The whole answer to a request that failed.
pub fn fault(form: &Form, fault: &Fault) -> Response {
    let row = row(&fault.kind);
    let response = match form.envelope {
        Envelope::Rpc03 | Envelope::Rpc10 | Envelope::Socket | Envelope::Own => {
            Response::json(row.rpc_status, fault_frame(form, fault))
        }
        Envelope::Rest03Proto
        | Envelope::Rest03Json
        | Envelope::Rest10
        | Envelope::Gemini
        | Envelope::Kebab
        | Envelope::Snake
        | Envelope::Session => {
            let error = match &fault.kind {
                // These words exactly: clients of the reference server compare them.
                FaultKind::TaskNotFound(_) => "Task not found",
                _ => &fault.message,
            };
            Response::json(row.status, json::bytes(&json!({ "error": error })))
        }
    };
    match row.header {
        Some((name, value)) => response.with(name, value),
        None => response,
    }
}

/// The error as the payload of an SSE frame.
pub fn fault_frame(form: &Form, fault: &Fault) -> Vec<u8> {
    let row = row(&fault.kind);
    if form.envelope == Envelope::Own {
        return own::error(form, row.reason, &fault.message);
    }
    let mut out = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    out.extend_from_slice(&form.id);
    out.extend_from_slice(br#","error":"#);
    let error = RpcError {
        code: row.code,
        message: &fault.message,
        data: Data {
            reason: row.reason,
            task_id: row.task,
            call_id: row.call,
        },
    };
    json::write(&mut out, &error);
    out.push(b'}');
    out
}

/// Whether a failure before the first event is sent as a frame of the stream the client asked for, not as a plain answer.
pub fn in_stream(form: &Form, fault: &Fault) -> bool {
    form.stream_errors && row(&fault.kind).rpc_status == 200
}

#[derive(Serialize)]
struct RpcError<'a> {
    code: i32,
    message: &'a str,
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
}

struct Row<'a> {
    code: i32,
    /// HTTP status around a JSON-RPC error.
    rpc_status: u16,
    /// HTTP status everywhere else.
    status: u16,
    reason: &'static str,
    header: Option<(&'static str, String)>,
    task: Option<&'a str>,
    call: Option<&'a str>,
}

fn row(kind: &FaultKind) -> Row<'_> {
    use FaultKind::*;
    let plain = |code, rpc_status, status, reason| Row {
        code,
        rpc_status,
        status,
        reason,
        header: None,
        task: None,
        call: None,
    };
    match kind {
        ParseError => plain(-32700, 200, 400, "INVALID_REQUEST"),
        InvalidRequest => plain(-32600, 200, 400, "INVALID_REQUEST"),
        MethodNotFound => plain(-32601, 200, 404, "METHOD_NOT_FOUND"),
        InvalidParams => plain(-32602, 200, 400, "INVALID_PARAMS"),
        Internal => plain(-32603, 200, 500, "INTERNAL_ERROR"),
        TaskNotFound(task) => Row {
            task: Some(task.as_str()),
            ..plain(-32001, 200, 404, "TASK_NOT_FOUND")
        },
        TaskNotCancelable(task) => Row {
            task: Some(task.as_str()),
            ..plain(-32002, 200, 409, "TASK_NOT_CANCELABLE")
        },
        // 0.3 has no code of its own for it; its kits expect "invalid request".
        TaskIsOver(task) => Row {
            task: Some(task.as_str()),
            ..plain(-32600, 200, 409, "UNSUPPORTED_OPERATION")
        },
        PushNotSupported => plain(-32003, 200, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        Unsupported => plain(-32004, 200, 400, "UNSUPPORTED_OPERATION"),
        ContentTypeNotSupported => plain(-32005, 200, 400, "CONTENT_TYPE_NOT_SUPPORTED"),
        ExtendedCardNotConfigured => plain(-32007, 200, 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
        VersionNotSupported => plain(-32009, 200, 400, "VERSION_NOT_SUPPORTED"),
        Unauthenticated => Row {
            header: Some(("WWW-Authenticate", "Bearer".into())),
            ..plain(-32000, 401, 401, "UNAUTHENTICATED")
        },
        Forbidden => plain(-32000, 403, 403, "PERMISSION_DENIED"),
        NotPending(call) => Row {
            call: Some(call.as_str()),
            ..plain(-32602, 200, 409, "TOOL_CALL_NOT_PENDING")
        },
        UnknownOption(call) => Row {
            call: Some(call.as_str()),
            ..plain(-32602, 200, 400, "UNKNOWN_OPTION")
        },
        NotFound => plain(-32601, 404, 404, "METHOD_NOT_FOUND"),
        MethodNotAllowed { allow } => Row {
            header: Some(("Allow", (*allow).into())),
            ..plain(-32600, 405, 405, "INVALID_REQUEST")
        },
        TooLarge => plain(-32600, 413, 413, "INVALID_REQUEST"),
        Overloaded { retry_after_s } => Row {
            header: Some(("Retry-After", retry_after_s.to_string())),
            ..plain(-32603, 503, 503, "OVERLOADED")
        },
        Storage => plain(-32603, 200, 500, "INTERNAL_ERROR"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Shared;
    use serde_json::Value;

    fn every_kind() -> Vec<(FaultKind, i64, u16, u16)> {
        use FaultKind::*;
        vec![
            (ParseError, -32700, 200, 400),
            (InvalidRequest, -32600, 200, 400),
            (MethodNotFound, -32601, 200, 404),
            (InvalidParams, -32602, 200, 400),
            (Internal, -32603, 200, 500),
            (TaskNotFound("t".into()), -32001, 200, 404),
            (TaskNotCancelable("t".into()), -32002, 200, 409),
            (TaskIsOver("t".into()), -32600, 200, 409),
            (PushNotSupported, -32003, 200, 400),
            (Unsupported, -32004, 200, 400),
            (ContentTypeNotSupported, -32005, 200, 400),
            (ExtendedCardNotConfigured, -32007, 200, 400),
            (VersionNotSupported, -32009, 200, 400),
            (Unauthenticated, -32000, 401, 401),
            (Forbidden, -32000, 403, 403),
            (NotPending("c".into()), -32602, 200, 409),
            (UnknownOption("c".into()), -32602, 200, 400),
            (NotFound, -32601, 404, 404),
            (MethodNotAllowed { allow: "POST" }, -32600, 405, 405),
            (TooLarge, -32600, 413, 413),
            (Overloaded { retry_after_s: 3 }, -32603, 503, 503),
            (Storage, -32603, 200, 500),
        ]
    }

    fn value(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn codes_and_statuses_of_both_families() {
        let mut rpc = Form::at("/");
        rpc.id = Shared::from(*b"\"x\"");
        let gemini = Form::at("/tasks");
        for (kind, code, rpc_status, status) in every_kind() {
            let failed = Fault::new(kind.clone(), "why");
            let answer = fault(&rpc, &failed);
            let body = value(&answer.body);
            assert_eq!(answer.status, rpc_status, "{kind:?}");
            assert_eq!(body["error"]["code"], code, "{kind:?}");
            assert_eq!(body["error"]["message"], "why");
            assert_eq!(body["id"], "x");
            let answer = fault(&gemini, &failed);
            assert_eq!(answer.status, status, "{kind:?}");
            let words = match kind {
                FaultKind::TaskNotFound(_) => "Task not found",
                _ => "why",
            };
            assert_eq!(value(&answer.body), json!({ "error": words }));
        }
    }

    #[test]
    fn what_was_meant_is_in_the_data() {
        let form = Form::at("/");
        let frame = |kind| value(&fault_frame(&form, &Fault::new(kind, "m")));
        assert_eq!(
            frame(FaultKind::TaskNotFound("t-1".into())),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "m",
                "data": {"reason": "TASK_NOT_FOUND", "taskId": "t-1"}}})
        );
        assert_eq!(
            frame(FaultKind::NotPending("c-1".into()))["error"]["data"],
            json!({"reason": "TOOL_CALL_NOT_PENDING", "callId": "c-1"})
        );
    }

    #[test]
    fn heads_say_what_to_do() {
        let header = |kind| {
            let answer = fault(&Form::at("/"), &Fault::new(kind, "m"));
            answer.headers[1].clone()
        };
        assert_eq!(
            header(FaultKind::MethodNotAllowed { allow: "GET, HEAD" }),
            ("Allow", "GET, HEAD".into())
        );
        assert_eq!(
            header(FaultKind::Overloaded { retry_after_s: 5 }),
            ("Retry-After", "5".into())
        );
        assert_eq!(
            header(FaultKind::Unauthenticated),
            ("WWW-Authenticate", "Bearer".into())
        );
    }

    #[test]
    fn only_what_needs_no_head_goes_into_the_stream() {
        let mut form = Form::at("/");
        let lost = Fault::no_task(&"t".into());
        assert!(!in_stream(&form, &lost));
        form.stream_errors = true;
        assert!(in_stream(&form, &lost));
        assert!(!in_stream(
            &form,
            &Fault::new(FaultKind::Unauthenticated, "m")
        ));
    }
}
