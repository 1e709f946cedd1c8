//! Requests to the client: for permission, and for answers to the agent's own questions. There is one request for each call that waits
//! for an answer. A request is withdrawn when its call no longer waits, because another client has answered it or the turn was
//! stopped. A client that reconnects gets the open requests again.

use crate::a2a::acp::updates::planned;
use crate::a2a::dialect::Unaddressed;
use crate::a2a::encodings::object::object;
use crate::a2a::form::Form;
use crate::a2a::views::call::Call;
use crate::base::id::{CallId, Seq, TaskId};
use crate::base::json;
use crate::limits::ACP_OPEN_REQUESTS;
use crate::task::machine::job::Pick;
use crate::task::machine::state::{CallState, State};
use crate::task::spec::{Answers, Choice, Inquiry, InquiryKind, Question};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The requests of one connection.
#[derive(Debug, Default)]
pub struct OpenRequests {
    last_id: u64,
    all: Vec<Request>,
}

/// A request about a call. It is kept until the call no longer waits, even when the client has answered it.
#[derive(Debug)]
struct Request {
    id: u64,
    task: TaskId,
    call: CallId,
    /// The event of the plan that the client was shown.
    planned_at: Seq,
    /// The number of the question that the tool's server asked while the call ran; 0: none yet.
    question: u32,
    /// The client has not answered.
    is_open: bool,
    kind: RequestKind,
}

#[derive(Debug)]
enum RequestKind {
    /// The client chooses one of the options of a question about a call.
    Permission,
    /// The client chooses one of these answers to the agent's only question.
    Choice(Vec<String>),
    /// A form with a field for each question of the agent.
    Form,
}

/// The new requests about the calls of a task.
#[derive(Debug, Default)]
pub struct Requests {
    pub messages: Vec<Vec<u8>>,
    /// Calls that this client cannot be asked about.
    pub unaskable: Vec<CallId>,
}

impl OpenRequests {
    /// Withdraws the requests about calls of the task that no longer wait, and returns the messages that tell the client so.
    pub fn withdraw(&mut self, state: &State) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        self.all.retain(|request| {
            let waits = request.task != state.created.task || state.asked().any(|call| request.is_about(state, call));
            if !waits && request.is_open {
                messages.push(withdrawn(request.id));
            }
            waits
        });
        messages
    }

    /// Creates requests about the waiting calls that have none. At the limit, a call waits until another request has been removed.
    pub fn ask(&mut self, form: &Form, state: &State) -> Requests {
        let mut requests = Requests::default();
        let task = &state.created.task;
        for call in state.asked() {
            let is_asked = self.all.iter().any(|request| request.is_about(state, call));
            if is_asked || self.all.len() >= ACP_OPEN_REQUESTS {
                continue;
            }
            let (Some(shown), Some(asked)) = (Call::current(call), call.question()) else {
                continue;
            };
            let session = form.session.as_ref().unwrap_or(task);
            let Some((method, params, kind)) = question(form, session, shown, asked) else {
                requests.unaskable.push(call.id().clone());
                continue;
            };
            self.last_id += 1;
            let id = self.last_id;
            requests.messages.push(object(|o| {
                o.member("jsonrpc", "2.0").member("id", &id).member("method", method);
                o.name("params").extend_from_slice(&params);
            }));
            let (planned_at, question) = (call.planned_at, question_number(call));
            self.all.push(Request {
                id,
                task: task.clone(),
                call: call.id().clone(),
                planned_at,
                question,
                is_open: true,
                kind,
            });
        }
        requests
    }

    /// Removes the requests of a task: the client no longer follows it, or follows it from the beginning again.
    pub fn forget(&mut self, task: &TaskId) {
        self.all.retain(|request| request.task != *task);
    }

    /// Takes the client's answer to a request; it has no result if the client reports an error. None: the answer decides nothing, or
    /// the request is not open.
    pub fn answered(&mut self, form: &Form, id: &Value, result: Option<&Value>) -> Option<(TaskId, Pick)> {
        let request = self.all.iter_mut().find(|request| request.is_open && id.as_u64() == Some(request.id))?;
        request.is_open = false;
        if result.is_none() && form.dialect.unaddressed == Unaddressed::Session {
            // Another client of the session may be able to answer.
            return None;
        }
        let (option, answers) = request.kind.read(result)?;
        let (call, seen) = (request.call.clone(), Some(request.planned_at));
        Some((request.task.clone(), Pick { call, option, edited: None, answers: answers.map(Arc::new), seen }))
    }
}

impl Request {
    /// Whether the request is about this call of the task, as it is planned now.
    fn is_about(&self, state: &State, call: &CallState) -> bool {
        let is_same = self.task == state.created.task && self.call == *call.id();
        is_same && self.planned_at == call.planned_at && self.question == question_number(call)
    }
}

/// The number of the question of the tool's server that a call waits for; 0: none.
fn question_number(call: &CallState) -> u32 {
    call.inquiry.as_ref().map_or(0, |inquired| inquired.nr)
}

impl RequestKind {
    /// The option that a result selects, and the answers to the agent's questions.
    fn read(&self, result: Option<&Value>) -> Option<(String, Option<Answers>)> {
        let cancel = || Some((Choice::Cancel.word().to_owned(), None));
        let proceed = |answers| Some((Choice::ProceedOnce.word().to_owned(), Some(answers)));
        let Some(result) = result else {
            return cancel();
        };
        let option = || {
            let outcome = result.get("outcome").filter(|outcome| outcome["outcome"] == "selected")?;
            outcome["optionId"].as_str()
        };
        match self {
            RequestKind::Permission => Some((option()?.to_owned(), None)),
            RequestKind::Choice(labels) => {
                let label = option()?.parse().ok().and_then(|at: usize| labels.get(at));
                label.map_or_else(cancel, |label| proceed(Answers::from([("0".to_owned(), label.clone())])))
            }
            RequestKind::Form if result["action"] == "accept" => {
                let content = result["content"].as_object().cloned().unwrap_or_default();
                proceed(content.into_iter().filter_map(|(number, value)| Some((number, form_text(&value)?))).collect())
            }
            RequestKind::Form => cancel(),
        }
    }
}

/// The value of a form field as text.
fn form_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Bool(yes) => Some(if *yes { "Yes" } else { "No" }.to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(several) => Some(several.iter().filter_map(form_text).collect::<Vec<_>>().join(", ")),
        Value::Null | Value::Object(_) => None,
    }
}

fn withdrawn(id: u64) -> Vec<u8> {
    json::bytes(&json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id } }))
}

/// The method and the parameters of the request about a call. None: the client has no way to answer it.
fn question(
    form: &Form,
    session: &TaskId,
    call: Call<'_>,
    question: &Question,
) -> Option<(&'static str, Vec<u8>, RequestKind)> {
    let permission = |options: Vec<Value>, kind| {
        let params = object(|o| {
            o.member("sessionId", session).object("toolCall", |o| {
                o.member("toolCallId", call.call.id()).member("status", "pending");
                planned(o, call);
                o.member("rawInput", &call.call.request.args);
            });
            o.member("options", &options);
        });
        Some(("session/request_permission", params, kind))
    };
    let Question::AskUser { title, questions } = question else {
        let option = |choice: &Choice| option(choice.word(), choice.name(), option_kind(*choice));
        return permission(call.call.options().iter().map(option).collect(), RequestKind::Permission);
    };
    match questions.as_slice() {
        _ if form.capabilities.forms => {
            let message = if title.is_empty() { "The agent asks you something." } else { title };
            let params = json!({ "sessionId": session, "toolCallId": call.call.id(), "mode": "form", "message": message,
                "requestedSchema": schema(call.call, questions) });
            Some(("elicitation/create", json::bytes(&params), RequestKind::Form))
        }
        [Inquiry { kind: InquiryKind::Choice | InquiryKind::YesNo, multi_select: false, .. }] => {
            let labels = labels(&questions[0]);
            let numbered = labels.iter().enumerate().map(|(at, label)| option(&at.to_string(), label, "allow_once"));
            let all = numbered.chain([option(Choice::Cancel.word(), "Do not answer", "reject_once")]).collect();
            permission(all, RequestKind::Choice(labels))
        }
        _ => None,
    }
}

fn option(id: &str, name: &str, kind: &str) -> Value {
    json!({ "optionId": id, "name": name, "kind": kind })
}

fn option_kind(choice: Choice) -> &'static str {
    match choice {
        Choice::ProceedOnce => "allow_once",
        Choice::ProceedAlways
        | Choice::ProceedAlwaysTool
        | Choice::ProceedAlwaysServer
        | Choice::ProceedAlwaysAndSave => "allow_always",
        Choice::Cancel => "reject_once",
    }
}

fn labels(asked: &Inquiry) -> Vec<String> {
    match asked.kind {
        InquiryKind::Choice => asked.options.iter().map(|option| option.label.clone()).collect(),
        InquiryKind::YesNo => vec!["Yes".into(), "No".into()],
        InquiryKind::Text => Vec::new(),
    }
}

/// A form with a field for each question, by its number.
fn schema(call: &CallState, questions: &[Inquiry]) -> Value {
    let field = |asked: &Inquiry| {
        let choices: Vec<Value> = asked
            .options
            .iter()
            .map(|option| match option.description.is_empty() {
                true => json!({ "const": option.label, "title": option.label }),
                false => json!({ "const": option.label, "title": format!("{}: {}", option.label, option.description) }),
            })
            .collect();
        let mut field = match (asked.kind, asked.multi_select) {
            (InquiryKind::Choice, false) => json!({ "type": "string", "oneOf": choices }),
            (InquiryKind::Choice, true) => json!({ "type": "array", "items": { "anyOf": choices } }),
            (InquiryKind::YesNo, _) => json!({ "type": "boolean" }),
            (InquiryKind::Text, _) => json!({ "type": "string" }),
        };
        field["title"] = json!(asked.header);
        field["description"] = json!(asked.question);
        field
    };
    let fields: Map<String, Value> =
        questions.iter().enumerate().map(|(at, asked)| (at.to_string(), field(asked))).collect();
    // The server of an MCP tool marks the required fields of its question; the agent's own questions are all required.
    let is_required = |at: usize| {
        let inquired = call.inquiry.as_ref();
        inquired.and_then(|inquired| inquired.fields.get(at)).is_none_or(|field| field.required)
    };
    let required: Vec<String> = (0..questions.len()).filter(|at| is_required(*at)).map(|at| at.to_string()).collect();
    json!({ "type": "object", "properties": fields, "required": required })
}
