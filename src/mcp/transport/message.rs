//! Reads and writes JSON-RPC messages. Servers differ, so the reader is tolerant: it splits batches, accepts ids that come back as strings, and
//! accepts errors without an id. Independent of MCP's methods.

use crate::base::json;
use crate::limits::mcp::{ERROR_BYTES, MESSAGE_CONTAINERS};
use crate::mcp::text::clean;
use serde_json::{Map, Value, json};

/// The id of a request of this client, which is also its progress token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A request of the server. The response must contain the same id.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// A response to a request of this client. The id is `None` if it is null, missing, or not one that this client could have sent.
    Response {
        id: Option<RequestId>,
        result: Result<Value, RpcError>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Value,
}

pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
/// The error code of a call that needs the user to visit pages first.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;

impl RpcError {
    /// The text for the model and for people.
    pub fn shown(&self) -> String {
        format!("{}: {}", self.code, clean(&self.message, ERROR_BYTES))
    }

    /// Whether the error means that the server supports only newer versions, which have no handshake.
    pub fn is_too_new(&self) -> bool {
        matches!(self.code, -32022..=-32020) || self.message.contains("2026-07-28")
    }
}

/// Parses one line, event or body: a message or a batch. `None` if it is neither. Elements of a batch that are not messages are skipped.
pub fn read(bytes: &[u8]) -> Option<Vec<Message>> {
    match json::read_within(MESSAGE_CONTAINERS, bytes).ok()? {
        Value::Object(members) => Some(vec![message(members)?]),
        Value::Array(batch) => {
            let members = batch.into_iter().filter_map(|value| match value {
                Value::Object(members) => message(members),
                _ => None,
            });
            Some(members.collect())
        }
        _ => None,
    }
}

fn message(mut members: Map<String, Value>) -> Option<Message> {
    let mut take = |name: &str| members.remove(name).unwrap_or_default();
    let (id, params) = (take("id"), take("params"));
    if let Value::String(method) = take("method") {
        return Some(match id {
            Value::Null => Message::Notification { method, params },
            id => Message::Request { id, method, params },
        });
    }
    let result = match (take("error"), members.remove("result")) {
        (Value::Object(error), _) => Err(rpc_error(&error)),
        (Value::Null, Some(result)) => Ok(result),
        _ => return None,
    };
    Some(Message::Response { id: own_id(&id), result })
}

fn rpc_error(error: &Map<String, Value>) -> RpcError {
    let member = |name: &str| error.get(name).cloned().unwrap_or_default();
    RpcError {
        code: member("code").as_i64().unwrap_or(0),
        message: member("message").as_str().unwrap_or("(no message)").to_owned(),
        data: member("data"),
    }
}

/// Parses the id or the progress token of a request of this client.
pub fn own_id(id: &Value) -> Option<RequestId> {
    let number = match id {
        Value::Number(number) => {
            number.as_u64().or_else(|| number.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64))
        }
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.map(RequestId)
}

/// A request as one line.
pub fn request(id: RequestId, method: &str, params: &Value) -> String {
    match params {
        Value::Null => json!({"jsonrpc": "2.0", "id": id.0, "method": method}),
        params => json!({"jsonrpc": "2.0", "id": id.0, "method": method, "params": params}),
    }
    .to_string()
}

/// A notification as one line.
pub fn notification(method: &str, params: &Value) -> String {
    match params {
        Value::Null => json!({"jsonrpc": "2.0", "method": method}),
        params => json!({"jsonrpc": "2.0", "method": method, "params": params}),
    }
    .to_string()
}

/// The response to a request of the server as one line.
pub fn response(id: &Value, result: Result<Value, RpcError>) -> String {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": error.code, "message": error.message}})
        }
    }
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_all_kinds_are_read_and_batches_are_taken_apart() {
        let one = |text: &str| read(text.as_bytes()).map(|mut all| all.remove(0));
        let method = "ping".to_owned();
        assert_eq!(
            one(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#),
            Some(Message::Request { id: "a".into(), method: method.clone(), params: Value::Null })
        );
        assert_eq!(one(r#"{"method":"ping","id":null}"#), Some(Message::Notification { method, params: Value::Null }));
        for (id, expected) in
            [("7", Some(7)), ("7.0", Some(7)), ("\"7\"", Some(7)), ("null", None), ("\"x\"", None), ("-1", None)]
        {
            let text = format!("{{\"id\":{id},\"result\":{{}}}}");
            let expected = Message::Response { id: expected.map(RequestId), result: Ok(json!({})) };
            assert_eq!(one(&text), Some(expected), "{id}");
        }
        let batch =
            read(br#"[{"id":1,"result":null},5,{"method":"x"},{"neither":1},{"id":2,"result":1}]"#).expect("a batch");
        assert_eq!(batch.len(), 3);
        for junk in ["", "hello", "5", "\"x\"", "{\"id\":1}", "{\"method\":5}", "{", "null"] {
            assert_eq!(read(junk.as_bytes()), None, "{junk}");
        }
    }

    #[test]
    fn errors_without_an_id_of_ours_are_still_errors() {
        let text = br#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad\u0007 session"}}"#;
        let messages = read(text).expect("a message");
        let [Message::Response { id: None, result: Err(error) }] = &messages[..] else {
            panic!("no error");
        };
        assert_eq!(error.shown(), "-32600: Bad session");
        let odd = read(br#"{"id":1,"error":{}}"#).expect("a message");
        assert_eq!(
            odd,
            [Message::Response {
                id: Some(RequestId(1)),
                result: Err(RpcError { code: 0, message: "(no message)".into(), data: Value::Null })
            }]
        );
    }

    #[test]
    fn what_is_written_is_one_line_and_can_be_read() {
        let written = request(RequestId(3), "tools/call", &json!({"text": "a\nb"}));
        assert!(!written.contains('\n'));
        assert_eq!(written, r#"{"id":3,"jsonrpc":"2.0","method":"tools/call","params":{"text":"a\nb"}}"#);
        assert_eq!(notification("x", &Value::Null), r#"{"jsonrpc":"2.0","method":"x"}"#);
        let refused = RpcError { code: METHOD_NOT_FOUND, message: "no".into(), data: Value::Null };
        assert_eq!(
            response(&"a".into(), Err(refused)),
            r#"{"error":{"code":-32601,"message":"no"},"id":"a","jsonrpc":"2.0"}"#
        );
    }

    #[test]
    fn the_number_of_containers_in_a_message_is_limited() {
        let with = |lists: usize| format!("{{\"id\":1,\"result\":[{}]}}", vec!["[]"; lists].join(","));
        assert!(read(with(MESSAGE_CONTAINERS - 2).as_bytes()).is_some());
        assert_eq!(read(with(MESSAGE_CONTAINERS - 1).as_bytes()), None);
    }
}
