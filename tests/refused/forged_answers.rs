//! Answers to questions about tool calls that must be refused, in each of the five formats, at every path that accepts answers: to a call
//! that does not exist, that was already answered, or that waits in another task or in a task of another client, and with an unknown
//! option. Also objects that look like answers but are invalid: as prompts they would start a turn.

use crate::corpus::{Expected, TestRequest};
use crate::error_format::{Family, Fault};
use crate::send::EntryPoint;
use serde_json::{Value, json};

/// The format of an answer. The last one cannot name an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerFormat {
    Devtool,
    DevtoolCamel,
    Coder,
    Session,
    MessageStream,
}

impl AnswerFormat {
    const ALL: [AnswerFormat; 5] = [
        AnswerFormat::Devtool,
        AnswerFormat::DevtoolCamel,
        AnswerFormat::Coder,
        AnswerFormat::Session,
        AnswerFormat::MessageStream,
    ];

    /// The members that name the call and the decision.
    fn members(self) -> (&'static str, &'static str) {
        match self {
            AnswerFormat::Devtool | AnswerFormat::Session => ("tool_call_id", "selected_option_id"),
            AnswerFormat::DevtoolCamel => ("toolCallId", "selectedOptionId"),
            AnswerFormat::Coder => ("callId", "outcome"),
            AnswerFormat::MessageStream => ("toolCallId", "approved"),
        }
    }

    /// Answers with one member of a wrong type, and the name of that member.
    fn malformed(self) -> Vec<(Value, &'static str)> {
        let (call, decision) = self.members();
        let mut wrong = vec![
            (decision, json!(7)),
            (decision, json!(["proceed_once"])),
            (decision, json!({"id": "proceed_once"})),
            (call, json!(7)),
            (call, json!(["$waiting_call"])),
        ];
        match self {
            AnswerFormat::Devtool | AnswerFormat::Session => {
                wrong.push(("file_details", json!("forged")));
                wrong.push((decision, json!(true)));
                wrong.push((decision, json!(null)));
            }
            AnswerFormat::DevtoolCamel => wrong.push(("fileDetails", json!(["forged"]))),
            AnswerFormat::Coder => wrong.push(("newContent", json!({"text": "forged"}))),
            AnswerFormat::MessageStream => wrong.push((decision, json!("yes"))),
        }
        let make = |(member, value): (&'static str, Value)| {
            let mut answer = self.write("$waiting_call", "proceed_once");
            answer[member] = value;
            (answer, member)
        };
        wrong.into_iter().map(make).collect()
    }

    fn write(self, call: &str, option: &str) -> Value {
        match self {
            AnswerFormat::Devtool => json!({"tool_call_id": call, "selected_option_id": option}),
            AnswerFormat::DevtoolCamel => json!({"toolCallId": call, "selectedOptionId": option}),
            AnswerFormat::Coder => json!({"callId": call, "outcome": option, "newContent": "forged"}),
            AnswerFormat::Session => json!({"kind": "TOOL_CALL_CONFIRMATION", "tool_call_id": call,
                "selected_option_id": option}),
            AnswerFormat::MessageStream => {
                json!({"kind": "tool-call-confirmation", "toolCallId": call, "approved": option != "cancel"})
            }
        }
    }
}

/// The requests that may contain an answer.
#[derive(Clone, Copy, Debug)]
enum AnswerPath {
    Rpc03,
    Rpc03Metadata,
    Rpc10,
    Rest03,
    Rest03Kind,
    Rest10,
    MessageStream,
    ExecuteStream,
    SessionSse,
    SocketSession,
    SocketBare,
    SocketRpc03,
    SocketRpc10,
    SocketNative,
    SocketNativeAnswer,
}

impl AnswerPath {
    const ALL: [AnswerPath; 15] = [
        AnswerPath::Rpc03,
        AnswerPath::Rpc03Metadata,
        AnswerPath::Rpc10,
        AnswerPath::Rest03,
        AnswerPath::Rest03Kind,
        AnswerPath::Rest10,
        AnswerPath::MessageStream,
        AnswerPath::ExecuteStream,
        AnswerPath::SessionSse,
        AnswerPath::SocketSession,
        AnswerPath::SocketBare,
        AnswerPath::SocketRpc03,
        AnswerPath::SocketRpc10,
        AnswerPath::SocketNative,
        AnswerPath::SocketNativeAnswer,
    ];

    fn entry(self) -> EntryPoint {
        match self {
            AnswerPath::SocketSession | AnswerPath::SocketBare => EntryPoint::Session,
            AnswerPath::SocketRpc03 => EntryPoint::Rpc03,
            AnswerPath::SocketRpc10 => EntryPoint::Rpc10,
            AnswerPath::SocketNative | AnswerPath::SocketNativeAnswer => EntryPoint::Native,
            _ => EntryPoint::Http,
        }
    }

    fn family(self) -> Family {
        match self {
            AnswerPath::Rpc03
            | AnswerPath::Rpc03Metadata
            | AnswerPath::SocketSession
            | AnswerPath::SocketBare
            | AnswerPath::SocketRpc03 => Family::Rpc03,
            AnswerPath::Rpc10 | AnswerPath::SocketRpc10 => Family::Rpc10,
            AnswerPath::Rest03 | AnswerPath::Rest03Kind => Family::Rest03,
            AnswerPath::Rest10 => Family::Rest10,
            AnswerPath::MessageStream | AnswerPath::ExecuteStream | AnswerPath::SessionSse => Family::Gemini,
            AnswerPath::SocketNative | AnswerPath::SocketNativeAnswer => Family::Native,
        }
    }

    /// The method and target, the headers and the body of a request that sends `answer` to `task`.
    fn write(self, task: &str, answer: Value) -> (String, Vec<String>, Value) {
        let old = |answer: Value| {
            json!({"role": "user", "messageId": "m", "taskId": task,
                "parts": [{"kind": "data", "data": answer}]})
        };
        let proto = |name: &str, part: Value| {
            let mut message = json!({"role": "ROLE_USER", "messageId": "m", "taskId": task});
            message[name] = json!([part]);
            message
        };
        let post = |path: &str, body: Value| (format!("POST {path}"), Vec::new(), body);
        match self {
            AnswerPath::Rpc03 => post("/", rpc("message/send", old(answer))),
            AnswerPath::Rpc03Metadata => {
                let key = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";
                let mut message = old(json!({"callId": "$other_call", "outcome": "proceed_once"}));
                message["metadata"] = json!({ key: answer });
                post("/", rpc("message/send", message))
            }
            AnswerPath::Rpc10 => post("/", rpc("SendMessage", proto("parts", json!({"data": answer})))),
            AnswerPath::Rest03 => {
                let message = proto("content", json!({"data": {"data": answer}}));
                post("/v1/message:send", json!({"message": message}))
            }
            AnswerPath::Rest03Kind => post("/v1/message:send", json!({"message": old(answer)})),
            AnswerPath::Rest10 => {
                let message = proto("parts", json!({"data": answer}));
                ("POST /message:send".into(), vec!["A2A-Version: 1.0".to_owned()], json!({"message": message}))
            }
            AnswerPath::MessageStream => post("/message/stream", json!({"taskId": task, "userMessage": answer})),
            AnswerPath::ExecuteStream => post(&format!("/tasks/{task}/execute"), json!({"confirmation": answer})),
            AnswerPath::SessionSse => {
                let body = json!({"message": {"content": {"data": answer}}});
                post(&format!("/tasks/{task}/messages/stream"), body)
            }
            AnswerPath::SocketSession => {
                let message = json!({"taskId": task, "content": {"data": answer}});
                post("/", rpc("message/stream", message))
            }
            AnswerPath::SocketBare => {
                let mut answer = answer;
                answer["taskId"] = json!(task);
                answer["id"] = json!("q");
                post("/", answer)
            }
            AnswerPath::SocketRpc03 => post("/", rpc("message/send", old(answer))),
            AnswerPath::SocketRpc10 => post("/", rpc("SendMessage", proto("parts", json!({"data": answer})))),
            AnswerPath::SocketNative => {
                let message = json!({"id": "m", "role": "user", "parts": [{"content": {"data": answer}}]});
                let say = json!({"task": task, "message": message});
                post("/", json!({"id": "q", "call": {"say": say}}))
            }
            AnswerPath::SocketNativeAnswer => {
                let answer = json!({"task": task, "call": answer["tool_call_id"],
                    "option": answer["selected_option_id"]});
                post("/", json!({"id": "q", "call": {"answer": answer}}))
            }
        }
    }
}

/// A JSON-RPC request of this method with a message.
fn rpc(method: &str, message: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "q", "method": method, "params":
        {"message": message, "configuration": {"blocking": false, "returnImmediately": true}}})
}

/// The forged answers: a description, the task, the call, the option, and the fault.
const FORGERIES: [(&str, &str, &str, &str, Fault); 9] = [
    ("to an unknown call", "$waiting", "nonsense", "proceed_once", Fault::NotPending),
    ("to a call without an id", "$waiting", "", "proceed_once", Fault::NotPending),
    ("to a call that was already answered", "$working", "$working_call", "proceed_once", Fault::NotPending),
    ("to a call of another task", "$waiting", "$other_call", "proceed_once", Fault::NotPending),
    ("to a call of another client", "$waiting", "$foreign_call", "proceed_once", Fault::NotPending),
    ("to a task of another client", "$foreign", "$foreign_call", "proceed_once", Fault::NoTask),
    ("to a task without an open question", "$idle", "$waiting_call", "cancel", Fault::NotPending),
    ("to a task that has ended", "$canceled", "$waiting_call", "proceed_once", Fault::Over),
    ("with an unknown option", "$waiting", "$waiting_call", "proceed_twice", Fault::UnknownOption),
];

pub fn requests() -> Vec<(EntryPoint, TestRequest)> {
    let mut requests = Vec::new();
    for path in AnswerPath::ALL {
        for format in AnswerFormat::ALL {
            // The call `answer` of the native dialect has only one format.
            if matches!(path, AnswerPath::SocketNativeAnswer) && format != AnswerFormat::Devtool {
                continue;
            }
            for (name, task, call, option, fault) in FORGERIES {
                // This format cannot name an option, so it cannot name an unknown one.
                if fault == Fault::UnknownOption && format == AnswerFormat::MessageStream {
                    continue;
                }
                let decision = match path {
                    AnswerPath::SocketNativeAnswer => "option",
                    _ => format.members().1,
                };
                let member = (fault == Fault::UnknownOption).then_some(decision);
                requests.push(path.request(
                    format!("an answer {name}, {format:?} in {path:?}"),
                    task,
                    format.write(call, option),
                    path.refusal(fault, member),
                ));
            }
            for (answer, member) in format.malformed() {
                // This call has other members; tests/corpus/requests/own.json tests them.
                if matches!(path, AnswerPath::SocketNativeAnswer) {
                    continue;
                }
                requests.push(path.request(
                    format!("an invalid answer, {answer} in {path:?}"),
                    "$waiting",
                    answer,
                    path.refusal(Fault::Params, Some(member)),
                ));
            }
            requests.push(path.request(
                format!("a valid answer, {format:?} in {path:?}"),
                "$waiting",
                format.write("$waiting_call", "proceed_once"),
                Expected::Success,
            ));
        }
    }
    requests
}

impl AnswerPath {
    fn request(self, name: String, task: &str, answer: Value, expected: Expected) -> (EntryPoint, TestRequest) {
        let (send, headers, body) = self.write(task, answer);
        let request = TestRequest { name, send, headers, body: Some(body.to_string().into_bytes()), expected };
        (self.entry(), request)
    }

    fn refusal(self, fault: Fault, member: Option<&str>) -> Expected {
        let id = match self.family() {
            Family::Rpc03 | Family::Rpc10 | Family::Native => json!("q"),
            Family::Rest03 | Family::Rest10 | Family::Gemini => Value::Null,
        };
        Expected::Refusal { family: self.family(), fault, id, member: member.map(str::to_owned), framed: false }
    }
}
