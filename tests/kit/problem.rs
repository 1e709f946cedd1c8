//! Errors of each binding: the table of codes, statuses and reasons, and the whole form of each family of errors.

use crate::binding::{Binding, Frame, Version};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    ParseError,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    TaskNotFound,
    TaskNotCancelable,
    /// A message to a task that has ended: 0.3 has no code of its own for this error.
    TaskIsOver,
    PushNotSupported,
    Unsupported,
    ContentType,
    NoExtendedCard,
    ExtensionRequired,
    Version,
}

/// The error response to a request.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub http: u16,
    pub media: String,
    /// The JSON-RPC error object, or the whole body of a REST answer.
    pub error: Value,
}

struct Row {
    code: i64,
    http: u16,
    /// The name of the error in REST 0.3.
    name: &'static str,
    status: &'static str,
    reason: &'static str,
}

impl Fault {
    fn row(self, version: Version) -> Row {
        let row = |code, http, name, status, reason| Row { code, http, name, status, reason };
        let precondition = "FAILED_PRECONDITION";
        let argument = "INVALID_ARGUMENT";
        match (self, version) {
            (Fault::ParseError, _) => row(-32700, 400, "JSONParseError", argument, "INVALID_REQUEST"),
            (Fault::InvalidRequest, _) | (Fault::TaskIsOver, Version::V03) => {
                row(-32600, 400, "InvalidRequestError", argument, "INVALID_REQUEST")
            }
            (Fault::MethodNotFound, _) => row(-32601, 404, "MethodNotFoundError", "NOT_FOUND", "METHOD_NOT_FOUND"),
            (Fault::InvalidParams, _) => row(-32602, 400, "InvalidParamsError", argument, "INVALID_PARAMS"),
            (Fault::TaskNotFound, _) => row(-32001, 404, "TaskNotFoundError", "NOT_FOUND", "TASK_NOT_FOUND"),
            (Fault::TaskNotCancelable, _) => {
                row(-32002, 400, "TaskNotCancelableError", precondition, "TASK_NOT_CANCELABLE")
            }
            (Fault::PushNotSupported, _) => {
                row(-32003, 400, "PushNotificationNotSupportedError", precondition, "PUSH_NOTIFICATION_NOT_SUPPORTED")
            }
            (Fault::Unsupported, _) | (Fault::TaskIsOver, Version::V10) => {
                row(-32004, 400, "UnsupportedOperationError", precondition, "UNSUPPORTED_OPERATION")
            }
            (Fault::ContentType, _) => {
                row(-32005, 400, "ContentTypeNotSupportedError", argument, "CONTENT_TYPE_NOT_SUPPORTED")
            }
            (Fault::NoExtendedCard, Version::V03) => row(
                -32007,
                400,
                "AuthenticatedExtendedCardNotConfiguredError",
                precondition,
                "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            ),
            (Fault::NoExtendedCard, Version::V10) => Fault::Unsupported.row(version),
            (Fault::ExtensionRequired, Version::V10) => {
                row(-32008, 400, "ExtensionSupportRequiredError", precondition, "EXTENSION_SUPPORT_REQUIRED")
            }
            (Fault::ExtensionRequired, Version::V03) => Fault::InvalidRequest.row(version),
            (Fault::Version, _) => row(-32009, 400, "VersionNotSupportedError", precondition, "VERSION_NOT_SUPPORTED"),
        }
    }

    /// Whether the protocol defines a reason for the error, which its details then name.
    fn is_of_a2a(self) -> bool {
        !matches!(self, Fault::ParseError | Fault::InvalidRequest | Fault::MethodNotFound | Fault::InvalidParams)
    }
}

impl Refusal {
    pub fn code(&self) -> i64 {
        let code = match self.error.get("error") {
            Some(Value::Object(status)) => status["code"].as_i64(),
            _ => self.error["code"].as_i64(),
        };
        code.unwrap_or_else(|| panic!("no code in {}", self.error))
    }

    pub fn message(&self) -> &str {
        let error = match self.error.get("error") {
            Some(status @ Value::Object(_)) => status,
            _ => &self.error,
        };
        let message = error["message"].as_str();
        message.unwrap_or_else(|| panic!("no message in {}", self.error))
    }

    /// Compares the error with the table, and checks all members that the binding prescribes.
    pub fn check(&self, binding: Binding, fault: Fault) {
        let row = fault.row(binding.version());
        assert!(!self.message().is_empty(), "{binding:?}: {self:?}");
        match (binding.frame(), binding.version()) {
            (Frame::Rpc, version) => {
                assert_eq!(self.code(), row.code, "{binding:?}: {self:?}");
                assert_eq!(self.http, 200, "{binding:?}: {self:?}");
                assert_eq!(self.media, "application/json", "{binding:?}: {self:?}");
                members(&self.error, &["code", "message", "data"]);
                match version {
                    Version::V03 => {}
                    Version::V10 if fault.is_of_a2a() => info(&self.error["data"], row.reason),
                    Version::V10 => details(&self.error["data"]),
                }
            }
            (Frame::Rest, Version::V03) => {
                assert_eq!(self.http, row.http, "{binding:?}: {self:?}");
                assert_eq!(self.media, "application/json", "{binding:?}: {self:?}");
                assert_eq!(self.error["code"], json!(row.code), "{self:?}");
                assert_eq!(self.error["type"], row.name, "{self:?}");
                assert_eq!(self.error["error"], row.name, "{self:?}");
            }
            (Frame::Rest, Version::V10) => {
                assert_eq!(self.http, row.http, "{binding:?}: {self:?}");
                assert_eq!(self.media, "application/json", "{binding:?}: {self:?}");
                members(&self.error, &["error"]);
                let status = &self.error["error"];
                members(status, &["code", "status", "message", "details"]);
                assert_eq!(status["code"], json!(row.http), "{self:?}");
                assert_eq!(status["status"], row.status, "{self:?}");
                info(&status["details"], row.reason);
            }
        }
        let message = self.message().to_lowercase();
        for word in words(fault) {
            assert!(message.contains(word), "{binding:?}: {word:?} is not in {message:?}");
        }
    }
}

/// The words that kits look for in the text of an error.
fn words(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::TaskNotFound => &["not found"],
        Fault::PushNotSupported => &["push", "notification", "not", "supported"],
        Fault::ContentType => &["content", "type", "not", "supported"],
        _ => &[],
    }
}

fn info(details: &Value, reason: &str) {
    self::details(details);
    let list = details.as_array();
    let found = list.into_iter().flatten().find(|entry| entry["@type"] == "type.googleapis.com/google.rpc.ErrorInfo");
    let found = found.unwrap_or_else(|| panic!("no ErrorInfo in {details}"));
    assert_eq!(found["reason"], reason, "{details}");
    assert_eq!(found["domain"], "a2a-protocol.org", "{details}");
    let metadata = found.get("metadata").and_then(Value::as_object);
    assert!(
        metadata.is_none_or(|metadata| metadata.values().all(Value::is_string)),
        "metadata holds strings: {details}"
    );
}

/// Checks that details, if there are any, are a list of objects with their type.
fn details(details: &Value) {
    if details.is_null() {
        return;
    }
    let list = details.as_array();
    let list = list.unwrap_or_else(|| panic!("details are a list: {details}"));
    assert!(list.iter().all(|entry| entry["@type"].is_string()), "{details}");
}

fn members(value: &Value, known: &[&str]) {
    let object = value.as_object().unwrap_or_else(|| panic!("{value}"));
    for name in object.keys() {
        assert!(known.contains(&name.as_str()), "{name:?} in {value}");
    }
}
