//! Answers to questions about tool calls that must not count, in each of the five spellings, wherever a dialect has a place for
//! them: to a call that does not exist, that was answered already, that waits in another task, in somebody else's, or with an
//! option that is not on offer. And objects that are meant as answers but cannot be read as such: taken for prompts they would
//! set the agent to work.

use crate::corpus::{Expected, Made};
use crate::send::Door;
use crate::verdict::{Family, Fault};
use serde_json::{Value, json};

/// How an answer is spelled. The last one has no word for the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    Devtool,
    DevtoolCamel,
    Coder,
    Session,
    Kebab,
}

impl Spelling {
    const ALL: [Spelling; 5] =
        [Spelling::Devtool, Spelling::DevtoolCamel, Spelling::Coder, Spelling::Session, Spelling::Kebab];

    /// The members that name the call and the decision.
    fn members(self) -> (&'static str, &'static str) {
        match self {
            Spelling::Devtool | Spelling::Session => ("tool_call_id", "selected_option_id"),
            Spelling::DevtoolCamel => ("toolCallId", "selectedOptionId"),
            Spelling::Coder => ("callId", "outcome"),
            Spelling::Kebab => ("toolCallId", "approved"),
        }
    }

    /// An answer of which one member is of another type, and that member.
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
            Spelling::Devtool | Spelling::Session => {
                wrong.push(("file_details", json!("forged")));
                wrong.push((decision, json!(true)));
                wrong.push((decision, json!(null)));
            }
            Spelling::DevtoolCamel => wrong.push(("fileDetails", json!(["forged"]))),
            Spelling::Coder => wrong.push(("newContent", json!({"text": "forged"}))),
            Spelling::Kebab => wrong.push((decision, json!("yes"))),
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
            Spelling::Devtool => json!({"tool_call_id": call, "selected_option_id": option}),
            Spelling::DevtoolCamel => json!({"toolCallId": call, "selectedOptionId": option}),
            Spelling::Coder => json!({"callId": call, "outcome": option, "newContent": "forged"}),
            Spelling::Session => json!({"kind": "TOOL_CALL_CONFIRMATION", "tool_call_id": call,
                "selected_option_id": option}),
            Spelling::Kebab => {
                json!({"kind": "tool-call-confirmation", "toolCallId": call, "approved": option != "cancel"})
            }
        }
    }
}

/// Where an answer is put.
#[derive(Clone, Copy, Debug)]
enum AnswerPath {
    Rpc03,
    Rpc03Metadata,
    Rpc10,
    Rest03,
    Rest03Kind,
    Rest10,
    Kebab,
    Snake,
    SessionSse,
    SocketSession,
    SocketBare,
    SocketRpc03,
    SocketRpc10,
    SocketOwn,
    SocketOwnAnswer,
}

impl AnswerPath {
    const ALL: [AnswerPath; 15] = [
        AnswerPath::Rpc03,
        AnswerPath::Rpc03Metadata,
        AnswerPath::Rpc10,
        AnswerPath::Rest03,
        AnswerPath::Rest03Kind,
        AnswerPath::Rest10,
        AnswerPath::Kebab,
        AnswerPath::Snake,
        AnswerPath::SessionSse,
        AnswerPath::SocketSession,
        AnswerPath::SocketBare,
        AnswerPath::SocketRpc03,
        AnswerPath::SocketRpc10,
        AnswerPath::SocketOwn,
        AnswerPath::SocketOwnAnswer,
    ];

    fn door(self) -> Door {
        match self {
            AnswerPath::SocketSession | AnswerPath::SocketBare => Door::Session,
            AnswerPath::SocketRpc03 => Door::Rpc03,
            AnswerPath::SocketRpc10 => Door::Rpc10,
            AnswerPath::SocketOwn | AnswerPath::SocketOwnAnswer => Door::Own,
            _ => Door::Http,
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
            AnswerPath::Kebab | AnswerPath::Snake | AnswerPath::SessionSse => Family::Gemini,
            AnswerPath::SocketOwn | AnswerPath::SocketOwnAnswer => Family::Own,
        }
    }

    /// Method, target, headers and body that say `answer` to `task`.
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
            AnswerPath::Kebab => post("/message/stream", json!({"taskId": task, "userMessage": answer})),
            AnswerPath::Snake => post(&format!("/tasks/{task}/execute"), json!({"confirmation": answer})),
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
            AnswerPath::SocketOwn => {
                let message = json!({"id": "m", "role": "user", "parts": [{"content": {"data": answer}}]});
                let say = json!({"task": task, "message": message});
                post("/", json!({"id": "q", "call": {"say": say}}))
            }
            AnswerPath::SocketOwnAnswer => {
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

/// What is forged: the task it goes to, the call it is about, the option it takes, and what is wrong with that.
const FORGERIES: [(&str, &str, &str, &str, Fault); 9] = [
    ("to nobody's call", "$waiting", "nonsense", "proceed_once", Fault::NotPending),
    ("to a call without a name", "$waiting", "", "proceed_once", Fault::NotPending),
    ("to one answered already", "$working", "$working_call", "proceed_once", Fault::NotPending),
    ("to a call of another task", "$waiting", "$other_call", "proceed_once", Fault::NotPending),
    ("to a stranger's call", "$waiting", "$foreign_call", "proceed_once", Fault::NotPending),
    ("to a stranger's task", "$foreign", "$foreign_call", "proceed_once", Fault::NoTask),
    ("to one that asks nothing", "$idle", "$waiting_call", "cancel", Fault::NotPending),
    ("to one that is over", "$canceled", "$waiting_call", "proceed_once", Fault::Over),
    ("with an unknown option", "$waiting", "$waiting_call", "proceed_twice", Fault::UnknownOption),
];

pub fn requests() -> Vec<(Door, Made)> {
    let mut made = Vec::new();
    for place in AnswerPath::ALL {
        for spelling in Spelling::ALL {
            // That call of our own dialect has one spelling.
            if matches!(place, AnswerPath::SocketOwnAnswer) && spelling != Spelling::Devtool {
                continue;
            }
            for (name, task, call, option, fault) in FORGERIES {
                // It cannot name an option, so it cannot name a wrong one.
                if fault == Fault::UnknownOption && spelling == Spelling::Kebab {
                    continue;
                }
                let decision = match place {
                    AnswerPath::SocketOwnAnswer => "option",
                    _ => spelling.members().1,
                };
                let member = (fault == Fault::UnknownOption).then_some(decision);
                made.push(place.made(
                    format!("an answer {name}, {spelling:?} in {place:?}"),
                    task,
                    spelling.write(call, option),
                    place.refusal(fault, member),
                ));
            }
            for (answer, member) in spelling.malformed() {
                // There the members have other names; tests/corpus/requests/own.json has them.
                if matches!(place, AnswerPath::SocketOwnAnswer) {
                    continue;
                }
                made.push(place.made(
                    format!("an answer that is none, {answer} in {place:?}"),
                    "$waiting",
                    answer,
                    place.refusal(Fault::Params, Some(member)),
                ));
            }
            made.push(place.made(
                format!("an honest answer, {spelling:?} in {place:?}"),
                "$waiting",
                spelling.write("$waiting_call", "proceed_once"),
                Expected::Success,
            ));
        }
    }
    made
}

impl AnswerPath {
    fn made(self, name: String, task: &str, answer: Value, expected: Expected) -> (Door, Made) {
        let (send, headers, body) = self.write(task, answer);
        let made = Made { name, send, headers, body: Some(body.to_string().into_bytes()), expected };
        (self.door(), made)
    }

    fn refusal(self, fault: Fault, member: Option<&str>) -> Expected {
        let id = match self.family() {
            Family::Rpc03 | Family::Rpc10 | Family::Own => json!("q"),
            Family::Rest03 | Family::Rest10 | Family::Gemini => Value::Null,
        };
        Expected::Refusal { family: self.family(), fault, id, member: member.map(str::to_owned), framed: false }
    }
}
