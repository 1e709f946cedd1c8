//! The errors of each family of dialects: codes, statuses and format. This table is written from the protocols and does not use the table
//! of the server, so that a mistake in either is found.

use crate::http::Head;
use serde::Deserialize;
use serde_json::{Value, json};

/// A family of dialects with the same format of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    Rpc03,
    Rpc10,
    Rest03,
    Rest10,
    /// `{"error": text}`.
    Gemini,
    /// The native dialect.
    #[serde(rename = "own")]
    Native,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    Parse,
    Invalid,
    Method,
    Params,
    NoTask,
    NotCancelable,
    Over,
    Unsupported,
    ContentType,
    NoCard,
    Version,
    NotPending,
    UnknownOption,
    /// There is no such path.
    NoPath,
    /// The path does not have this method.
    NotAllowed,
    NoUpgrade,
    TooLarge,
    Forbidden,
}

/// Code, name in 0.3, class, reason; HTTP status of JSON-RPC, of REST, of the Gemini endpoints.
type Row = (i64, &'static str, &'static str, &'static str, u16, u16, u16);

impl Fault {
    fn row(self, family: Family) -> Row {
        const ARGUMENT: &str = "INVALID_ARGUMENT";
        const STATE: &str = "FAILED_PRECONDITION";
        const REQUEST: &str = "INVALID_REQUEST";
        const INVALID: &str = "InvalidRequestError";
        const PARAMS: &str = "InvalidParamsError";
        const OPERATION: &str = "UNSUPPORTED_OPERATION";
        const UNSUPPORTED: &str = "UnsupportedOperationError";
        const DENIED: &str = "PERMISSION_DENIED";
        const CONTENT_TYPE: (&str, &str) = ("ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED");
        const CARD: (&str, &str) =
            ("AuthenticatedExtendedCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED");
        let new = matches!(family, Family::Rpc10 | Family::Rest10);
        match self {
            Fault::Parse => (-32700, "JSONParseError", ARGUMENT, REQUEST, 200, 400, 400),
            Fault::Invalid => (-32600, INVALID, ARGUMENT, REQUEST, 200, 400, 400),
            Fault::Method => (-32601, "MethodNotFoundError", "NOT_FOUND", "METHOD_NOT_FOUND", 200, 404, 404),
            Fault::NoPath => (-32601, "MethodNotFoundError", "NOT_FOUND", "METHOD_NOT_FOUND", 404, 404, 404),
            Fault::Params => (-32602, PARAMS, ARGUMENT, "INVALID_PARAMS", 200, 400, 400),
            Fault::NoTask => (-32001, "TaskNotFoundError", "NOT_FOUND", "TASK_NOT_FOUND", 200, 404, 404),
            Fault::NotCancelable => (-32002, "TaskNotCancelableError", STATE, "TASK_NOT_CANCELABLE", 200, 400, 409),
            Fault::Over if new => (-32004, UNSUPPORTED, STATE, OPERATION, 200, 400, 409),
            Fault::Over => (-32600, INVALID, ARGUMENT, OPERATION, 200, 400, 409),
            Fault::Unsupported => (-32004, UNSUPPORTED, STATE, OPERATION, 200, 400, 400),
            Fault::ContentType => (-32005, CONTENT_TYPE.0, ARGUMENT, CONTENT_TYPE.1, 200, 400, 400),
            Fault::NoCard => (-32007, CARD.0, STATE, CARD.1, 200, 400, 400),
            Fault::Version => (-32009, "VersionNotSupportedError", STATE, "VERSION_NOT_SUPPORTED", 200, 400, 400),
            Fault::NotPending => (-32602, PARAMS, ARGUMENT, "TOOL_CALL_NOT_PENDING", 200, 400, 409),
            Fault::UnknownOption => (-32602, PARAMS, ARGUMENT, "UNKNOWN_OPTION", 200, 400, 400),
            Fault::NotAllowed => (-32600, INVALID, ARGUMENT, REQUEST, 405, 405, 405),
            Fault::NoUpgrade => (-32600, INVALID, ARGUMENT, REQUEST, 426, 426, 426),
            Fault::TooLarge => (-32600, INVALID, ARGUMENT, REQUEST, 413, 413, 413),
            Fault::Forbidden => (-32000, "PermissionDeniedError", DENIED, DENIED, 403, 403, 403),
        }
    }

    /// The HTTP status of the response.
    pub fn status(self, family: Family) -> u16 {
        let (.., rpc, rest, gemini) = self.row(family);
        match family {
            Family::Rpc03 | Family::Rpc10 => rpc,
            Family::Rest03 | Family::Rest10 => rest,
            Family::Gemini => gemini,
            Family::Native => panic!("this dialect has no HTTP"),
        }
    }

    /// The header field that the response must have.
    pub fn header(self) -> Option<&'static str> {
        (self == Fault::NotAllowed).then_some("allow")
    }
}

/// Checks the body of an error: it has exactly the expected members, with the expected values. Returns the message and the details, which
/// may name the invalid member.
pub fn check(family: Family, fault: Fault, id: &Value, body: &[u8]) -> Result<String, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| format!("no JSON: {error}"))?;
    let (code, name, class, reason, ..) = fault.row(family);
    let mut rest = body.clone();
    let mut text = String::new();
    let mut take = |pointer: &str| {
        let found = rest.pointer_mut(pointer).map(Value::take);
        text += &found.as_ref().map(Value::to_string).unwrap_or_default();
        found
    };
    let message = match family {
        Family::Rpc03 | Family::Rpc10 | Family::Native => take("/error/message"),
        Family::Rest03 => take("/message"),
        Family::Rest10 => take("/error/message"),
        Family::Gemini => take("/error"),
    };
    if message.as_ref().and_then(Value::as_str).is_none_or(|text| text.is_empty()) {
        return Err(format!("there is no message in {body}"));
    }
    // Only the reason in the details is checked; the rest depends on the fault.
    let details = match family {
        Family::Rpc03 => take("/error/data"),
        Family::Rest03 => take("/data"),
        Family::Rpc10 => take("/error/data"),
        Family::Rest10 => take("/error/details"),
        Family::Gemini | Family::Native => None,
    };
    let found = match (family, &details) {
        (Family::Rpc03 | Family::Rest03, Some(details)) => details["reason"].clone(),
        (Family::Rpc10 | Family::Rest10, Some(details)) => {
            check_details(details)?;
            details[0]["reason"].clone()
        }
        _ => json!(reason),
    };
    if found != reason {
        return Err(format!("the reason is {found}, not {reason}: {body}"));
    }
    let status = fault.row(family).5;
    let expected = match family {
        Family::Rpc03 | Family::Rpc10 => json!({"jsonrpc": "2.0", "id": id,
            "error": {"code": code, "message": null, "data": null}}),
        Family::Rest03 => {
            json!({"code": code, "type": name, "error": name, "message": null, "data": null})
        }
        Family::Rest10 => {
            json!({"error": {"code": status, "status": class, "message": null, "details": null}})
        }
        Family::Gemini => json!({ "error": null }),
        Family::Native => json!({"id": id, "error": {"reason": reason, "message": null}}),
    };
    match rest == expected {
        true => Ok(text),
        false => Err(format!("{rest} instead of {expected}")),
    }
}

/// Checks the details of 1.0: the first has the reason, and a second may name the invalid member.
fn check_details(details: &Value) -> Result<(), String> {
    let kinds: Vec<&str> =
        details.as_array().into_iter().flatten().filter_map(|detail| detail["@type"].as_str()).collect();
    let info = "type.googleapis.com/google.rpc.ErrorInfo";
    let bad_request = "type.googleapis.com/google.rpc.BadRequest";
    let domain = &details[0]["domain"];
    match kinds.as_slice() {
        [first] if *first == info && domain == "a2a-protocol.org" => Ok(()),
        [first, second] if (*first, *second) == (info, bad_request) && domain == "a2a-protocol.org" => {
            let violation = &details[1]["fieldViolations"][0];
            let complete = violation["field"].is_string() && violation["description"].is_string();
            complete.then_some(()).ok_or(format!("no field in {details}"))
        }
        _ => Err(format!("details of another kind: {details}")),
    }
}

/// Whether a response has the format of the family.
pub fn is_of(family: Family, head: &Head, body: &[u8]) -> bool {
    if matches!(head.status(), 204 | 304) {
        return body.is_empty();
    }
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return false;
    };
    let succeeded = head.status() < 300;
    match family {
        Family::Rpc03 | Family::Rpc10 => is_rpc(&body),
        Family::Rest03 | Family::Rest10 if succeeded => true,
        Family::Rest03 => body["code"].is_i64() && body["type"] == body["error"],
        Family::Rest10 => body["error"]["code"] == head.status() && body["error"]["status"].is_string(),
        Family::Gemini => succeeded || body["error"].is_string(),
        Family::Native => false,
    }
}

/// Whether a body is a JSON-RPC response with a result or an error.
pub fn is_rpc(body: &Value) -> bool {
    let either = body.get("result").is_some() != body["error"]["code"].is_i64();
    body["jsonrpc"] == "2.0" && body.get("id").is_some() && either
}
