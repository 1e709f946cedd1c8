//! Writes requests to another agent, in either version and over either transport, and unwraps the answers.

use super::card::{Interface, Transport};
use crate::base::json;
use crate::base::percent;
use crate::task::log::event::Protocol;
use serde_json::{Value, json};

/// An operation of A2A that another agent is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Answered with a task or a message, at once if the agent can do that.
    Send(&'a Prompt<'a>),
    /// Answered with a stream of events.
    Stream(&'a Prompt<'a>),
    Get {
        task: &'a str,
    },
    Cancel {
        task: &'a str,
    },
}

/// A text prompt for an agent.
#[derive(Clone, Copy, Debug)]
pub struct Prompt<'a> {
    pub message_id: &'a str,
    pub text: &'a str,
    /// The context that the prompt continues.
    pub context: Option<&'a str>,
    /// The unfinished task that the prompt belongs to.
    pub task: Option<&'a str>,
}

/// An HTTP request to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub url: String,
    pub headers: Vec<(&'static str, &'static str)>,
    /// None: a GET.
    pub body: Option<Vec<u8>>,
}

/// The error of an agent that refused a request, for people and the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    /// The task that the request names does not exist or accepts no more messages.
    pub is_about_task: bool,
}

impl Interface {
    pub fn request(&self, operation: Operation<'_>) -> Outgoing {
        let accept = match operation {
            Operation::Stream(_) => "text/event-stream",
            Operation::Send(_) | Operation::Get { .. } | Operation::Cancel { .. } => "application/json",
        };
        let mut headers = vec![("Accept", accept)];
        if self.protocol == Protocol::V10 {
            headers.push(("A2A-Version", "1.0"));
        }
        let (url, body) = match self.transport {
            Transport::JsonRpc => (self.url.clone(), Some(self.rpc(operation))),
            Transport::Rest => self.rest(operation),
        };
        if body.is_some() {
            headers.push(("Content-Type", "application/json"));
        }
        Outgoing { url, headers, body: body.map(|body| json::bytes(&body)) }
    }

    fn rpc(&self, operation: Operation<'_>) -> Value {
        let (method, mut params) = match (operation, self.protocol) {
            (Operation::Send(prompt), Protocol::V03) => ("message/send", self.message(prompt)),
            (Operation::Send(prompt), Protocol::V10) => ("SendMessage", self.message(prompt)),
            (Operation::Stream(prompt), Protocol::V03) => ("message/stream", self.message(prompt)),
            (Operation::Stream(prompt), Protocol::V10) => ("SendStreamingMessage", self.message(prompt)),
            (Operation::Get { task }, Protocol::V03) => ("tasks/get", json!({ "id": task, "historyLength": 0 })),
            (Operation::Get { task }, Protocol::V10) => ("GetTask", json!({ "id": task, "historyLength": 0 })),
            (Operation::Cancel { task }, Protocol::V03) => ("tasks/cancel", json!({ "id": task })),
            (Operation::Cancel { task }, Protocol::V10) => ("CancelTask", json!({ "id": task })),
        };
        if let Some(tenant) = &self.tenant {
            params["tenant"] = tenant.as_str().into();
        }
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
    }

    fn rest(&self, operation: Operation<'_>) -> (String, Option<Value>) {
        let (base, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let mut base = base.trim_end_matches('/').to_owned();
        match (self.protocol, &self.tenant) {
            // Cards have the base both with and without the version.
            (Protocol::V03, _) if !base.ends_with("/v1") => base.push_str("/v1"),
            (Protocol::V10, Some(tenant)) => base = format!("{base}/{}", percent::encoded(tenant)),
            (Protocol::V03 | Protocol::V10, _) => {}
        }
        let (path, body) = match operation {
            Operation::Send(prompt) => ("/message:send".to_owned(), Some(self.message(prompt))),
            Operation::Stream(prompt) => ("/message:stream".to_owned(), Some(self.message(prompt))),
            Operation::Get { task } => (format!("/tasks/{}", percent::encoded(task)), None),
            Operation::Cancel { task } => (format!("/tasks/{}:cancel", percent::encoded(task)), Some(json!({}))),
        };
        let mark = if query.is_empty() { "" } else { "?" };
        (format!("{base}{path}{mark}{query}"), body)
    }

    /// The params with the message. Clients of 0.3 over REST use the names of its protobuf definition.
    fn message(&self, prompt: &Prompt<'_>) -> Value {
        let Prompt { message_id, text, context, task } = prompt;
        let mut message = json!({ "messageId": message_id });
        match (self.protocol, self.transport) {
            (Protocol::V03, Transport::JsonRpc) => {
                message["kind"] = "message".into();
                message["role"] = "user".into();
                message["parts"] = json!([{ "kind": "text", "text": text }]);
            }
            (Protocol::V03, Transport::Rest) => {
                message["role"] = "ROLE_USER".into();
                message["content"] = json!([{ "text": text }]);
            }
            (Protocol::V10, _) => {
                message["role"] = "ROLE_USER".into();
                message["parts"] = json!([{ "text": text }]);
            }
        }
        for (name, id) in [("contextId", context), ("taskId", task)] {
            if let Some(id) = id {
                message[name] = (*id).into();
            }
        }
        let configuration = match self.protocol {
            Protocol::V03 => json!({ "blocking": false }),
            Protocol::V10 => json!({ "returnImmediately": true }),
        };
        json!({ "message": message, "configuration": configuration })
    }

    /// Unwraps an answer or an event of a stream.
    pub fn open(&self, mut body: Value) -> Result<Value, Refusal> {
        if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
            return Err(refusal(error, None));
        }
        match self.transport {
            Transport::JsonRpc => body
                .get_mut("result")
                .map(Value::take)
                .ok_or_else(|| Refusal { message: "the agent's answer is not JSON-RPC".into(), is_about_task: false }),
            Transport::Rest => Ok(body),
        }
    }
}

/// The refusal in an HTTP answer whose status is not a success. The body may be anything.
pub fn refused(status: u16, body: &[u8]) -> Refusal {
    let body: Value = json::read(body).unwrap_or_default();
    let error = body.get("error").filter(|error| error.is_object() || body.get("message").is_none());
    refusal(error.unwrap_or(&body), Some(status))
}

/// The error codes for a task that does not exist or is over.
const TASK_CODES: [i64; 3] = [-32001, -32004, -32600];

fn refusal(error: &Value, status: Option<u16>) -> Refusal {
    let text = error.get("message").or(Some(error)).and_then(Value::as_str).map(str::trim).unwrap_or_default();
    let code = error.get("code").and_then(Value::as_i64);
    let is_about_task = code.is_some_and(|code| TASK_CODES.contains(&code)) || matches!(status, Some(404 | 409));
    let status = status.map(|status| format!("status {status}"));
    let code = code.filter(|_| status.is_none()).map(|code| format!("error {code}"));
    let what = status.or(code).unwrap_or_else(|| "an error".into());
    let message = match text {
        "" => format!("the agent answered with {what}"),
        text => format!("the agent answered with {what}: {text}"),
    };
    Refusal { message, is_about_task }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str, transport: Transport, protocol: Protocol) -> Interface {
        Interface { url: url.into(), transport, protocol, tenant: None, streams: true }
    }

    const PROMPT: Prompt<'_> = Prompt { message_id: "m", text: "hi", context: Some("c"), task: Some("t") };

    fn body(interface: &Interface, operation: Operation<'_>) -> (String, Value) {
        let outgoing = interface.request(operation);
        let body = outgoing.body.map(|body| serde_json::from_slice(&body).expect("JSON")).unwrap_or_default();
        (outgoing.url, body)
    }

    #[test]
    fn a_prompt_in_both_versions_over_both_transports() {
        let rpc = |protocol| body(&at("http://h/a2a?k=1", Transport::JsonRpc, protocol), Operation::Stream(&PROMPT));
        let (url, old) = rpc(Protocol::V03);
        assert_eq!((url.as_str(), &old["method"]), ("http://h/a2a?k=1", &json!("message/stream")));
        let message = json!({"kind": "message", "role": "user", "messageId": "m", "contextId": "c", "taskId": "t",
            "parts": [{"kind": "text", "text": "hi"}]});
        assert_eq!(old["params"], json!({"message": message, "configuration": {"blocking": false}}));
        let (_, new) = rpc(Protocol::V10);
        assert_eq!(new["method"], "SendStreamingMessage");
        let message =
            json!({"role": "ROLE_USER", "messageId": "m", "contextId": "c", "taskId": "t", "parts": [{"text": "hi"}]});
        assert_eq!(new["params"], json!({"message": message, "configuration": {"returnImmediately": true}}));
        let rest = |url: &str, protocol| body(&at(url, Transport::Rest, protocol), Operation::Send(&PROMPT));
        let (url, sent) = rest("http://h/", Protocol::V03);
        assert_eq!(url, "http://h/v1/message:send");
        assert_eq!(sent["message"]["content"], json!([{"text": "hi"}]));
        assert_eq!(rest("http://h/v1", Protocol::V03).0, "http://h/v1/message:send");
        assert_eq!(rest("http://h/x?p=1", Protocol::V10).0, "http://h/x/message:send?p=1");
        let headers = |interface: &Interface| interface.request(Operation::Stream(&PROMPT)).headers;
        assert!(headers(&at("u", Transport::Rest, Protocol::V10)).contains(&("A2A-Version", "1.0")));
        assert!(!headers(&at("u", Transport::Rest, Protocol::V03)).iter().any(|(name, _)| *name == "A2A-Version"));
    }

    #[test]
    fn requests_about_a_task() {
        let rest = at("http://h", Transport::Rest, Protocol::V10);
        assert_eq!(rest.request(Operation::Get { task: "a/b" }).url, "http://h/tasks/a%2Fb");
        assert_eq!(rest.request(Operation::Get { task: "a" }).body, None);
        assert_eq!(rest.request(Operation::Cancel { task: "a" }).url, "http://h/tasks/a:cancel");
        let tenant = Interface { tenant: Some("t x".into()), ..rest };
        assert_eq!(tenant.request(Operation::Get { task: "a" }).url, "http://h/t%20x/tasks/a");
        let rpc = Interface { transport: Transport::JsonRpc, ..tenant };
        let (_, sent) = body(&rpc, Operation::Cancel { task: "a" });
        assert_eq!((&sent["method"], &sent["params"]), (&json!("CancelTask"), &json!({"id": "a", "tenant": "t x"})));
    }

    #[test]
    fn results_and_errors_are_read_from_their_envelope() {
        let rpc = at("u", Transport::JsonRpc, Protocol::V03);
        assert_eq!(rpc.open(json!({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}})), Ok(json!({"a": 1})));
        let refused_by = |body: Value| rpc.open(body).map_err(|refusal| (refusal.message, refusal.is_about_task));
        let error = json!({"error": {"code": -32001, "message": "Task not found"}});
        let gone = Err(("the agent answered with error -32001: Task not found".into(), true));
        assert_eq!(refused_by(error), gone);
        assert_eq!(refused_by(json!([])), Err(("the agent's answer is not JSON-RPC".into(), false)));
        assert_eq!(at("u", Transport::Rest, Protocol::V10).open(json!({"task": 1})), Ok(json!({"task": 1})));
        for (status, body, message, is_about_task) in [
            (500, "<html>", "the agent answered with status 500", false),
            (404, r#"{"error":{"message":"No task"}}"#, "the agent answered with status 404: No task", true),
            (401, r#"{"error":"Unauthorized"}"#, "the agent answered with status 401: Unauthorized", false),
            (400, r#"{"code":-32602,"message":"bad"}"#, "the agent answered with status 400: bad", false),
        ] {
            assert_eq!(refused(status, body.as_bytes()), Refusal { message: message.into(), is_about_task });
        }
    }
}
