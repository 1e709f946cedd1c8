//! The native dialect, `gemini-a2a.v1`: records of the journal out, calls in. It is used over WebSocket only, one JSON object per text
//! frame, by clients that fold events themselves: an attached terminal, a console.
//!
//! The server sends the events of every task that is watched, exactly as they were recorded, with the task they belong to:
//!
//! ```json
//! {"task":"t-1","seq":7,"at":1767225600123,"event":{"text":{"text":"Hello"}}}
//! ```
//!
//! `at` is in Unix milliseconds. Folding them from the first on gives the task; after a lost connection `watch` continues behind
//! the last `seq` that was seen. The client sends calls, each with an id of its choice, a number or a string:
//!
//! | call | members | answer |
//! |---|---|---|
//! | `say` | `text` or `message`; `task`, `context`, `settings`: `{workspace, model, auto_execute, tools}`; `id`, `steer` | `{taskId, accepted}` |
//! | `answer` | `task`, `call`, `option`; `edited`: the file as the user wants it; `answers` to questions, by number | the same |
//! | `create` | `context`, `settings` | the task's id |
//! | `abort` | `task` | `{taskId, accepted}` |
//! | `drop` | `task`, `turn`: that of a queued prompt | the same |
//! | `cancel` | `task` | the task |
//! | `get` | `task`; `history`: how many of the newest messages | the task |
//! | `list` | `context`, `state`, `since`, `size`, `after`: the `nextPageToken` of the page before, `history`, `artifacts` | a page of tasks |
//! | `watch` | `task`; `after`: the last event seen, else all are sent | `{taskId, after}`, then the events behind that, until it is over |
//! | `blob` | `task`, `sha256`; `from`: a byte | `{sha256, from, len, data}`: some of the bytes in base64, and how many there are |
//! | `session` | | the id of the live session |
//!
//! ```json
//! {"id":1,"call":{"say":{"task":"t-1","text":"go on"}}}
//! {"id":1,"ok":{"taskId":"t-1","accepted":true}}
//! {"id":1,"error":{"reason":"TASK_NOT_FOUND","message":"Task not found: t-1"}}
//! ```
//!
//! A message is one of the journal: `{"id","role","parts":[{"content":{"text":"…"}}]}`. Tasks in answers are those of A2A 0.3.
//! Members may be added to any object; clients ignore those they do not know.

use crate::a2a::dialect::{Dialect, Standalone};
use crate::a2a::encodings::object::object;
use crate::a2a::form::{Decoded, Form, enclosed};
use crate::a2a::requests::answer;
use crate::a2a::requests::message::{check_key, check_parts};
use crate::a2a::requests::object::{Object, wrong};
use crate::a2a::views::list::read_token;
use crate::a2a::words::Idle;
use crate::a2a::{Body, result};
use crate::base::crc::crc32;
use crate::base::http::Response;
use crate::base::id::{ContextId, Seq, TaskId};
use crate::base::json;
use crate::task::call::{Call, Create, List, Mode, Say, Settings, TaskTraits};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Delivery;
use crate::task::log::record::Record;
use crate::task::machine::job::{Pick, Said};
use crate::task::machine::state::{State, TaskState};
use crate::task::message::{Message, Part, Role};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub const VIEW: &Standalone = &Standalone {
    name: "gemini-a2a.v1",
    event: |state, event| Some(Body::bare(record(state, event))),
    present: |_| None,
    snapshot: None,
    idle: Idle::InputRequired,
};

/// An event with its task.
pub fn record(state: &State, record: &Record) -> Vec<u8> {
    object(|o| {
        o.member("task", &state.created.task).member("seq", &record.seq).member("at", &record.at);
        o.member("event", &record.event.without_secrets());
    })
}

/// The answer to `watch`: the events behind `after` come next. That is 0 if the client named a position that the log does not have.
pub fn watching(form: &Form, task: &TaskId, after: Seq) -> Vec<u8> {
    enclosed(form, json::bytes(&json!({ "taskId": task, "after": after })))
}

/// A piece of stored content.
pub fn blob(form: &Form, sha256: &str, from: u64, bytes: &[u8], len: u64) -> Response {
    let data = STANDARD.encode(bytes);
    result(form, json::bytes(&json!({ "sha256": sha256, "from": from, "len": len, "data": data })))
}

/// What a text frame of a client asks for.
pub fn decode(text: &str) -> Decoded {
    let mut form = Form::of(Dialect::NATIVE);
    let call = asked(text, &mut form).and_then(|asked| call(asked, text));
    form.decoded(call)
}

/// The frame that says that a call failed.
pub fn error(form: &Form, reason: &str, message: &str) -> Vec<u8> {
    object(|o| {
        o.name("id").extend_from_slice(&form.id);
        o.object("error", |o| _ = o.member("message", message).member("reason", reason));
    })
}

/// A notice of the server about a task, which is no record of it.
pub fn problem(task: &TaskId, message: &str) -> Vec<u8> {
    json::bytes(&json!({ "problem": { "task": task, "message": message } }))
}

const CALLS: &str = "say, answer, abort, drop, create, cancel, get, list, watch or session";

/// A call as it was sent. Its members are taken out one by one, so that an error can name the member.
struct Asked {
    name: String,
    members: Object,
}

impl Asked {
    /// An optional member.
    fn wish<T: DeserializeOwned>(&mut self, member: &str) -> Result<Option<T>, Fault> {
        let value = self.members.remove(member).filter(|value| !value.is_null());
        value
            .map(|value| {
                serde_json::from_value(value).map_err(|error| wrong(&self.name, member, &format!("is wrong: {error}.")))
            })
            .transpose()
    }

    /// A required member.
    fn need<T: DeserializeOwned>(&mut self, member: &str) -> Result<T, Fault> {
        self.wish(member)?.ok_or_else(|| wrong(&self.name, member, "is required."))
    }

    fn context(&mut self) -> Result<Option<ContextId>, Fault> {
        let id: Option<ContextId> = self.wish("context")?;
        check_key(id.as_ref().map(ContextId::as_str), &self.name, "context")?;
        Ok(id)
    }

    /// A task created here is a conversation, and other clients see it as one of the reference server.
    fn create(&mut self) -> Result<Create, Fault> {
        let context = self.context()?;
        let mut wishes =
            Asked { name: format!("{}.settings", self.name), members: self.wish("settings")?.unwrap_or_default() };
        let settings = Settings {
            workspace: wishes.wish("workspace")?,
            model: wishes.wish("model")?,
            auto_execute: wishes.wish("auto_execute")?,
            tools: wishes.wish("tools")?,
        };
        Ok(Create { context, settings, traits: TaskTraits::SESSION })
    }

    fn said(&mut self, own_message: impl Fn(Part) -> Message) -> Result<Said, Fault> {
        if let Some(Value::Array(parts)) = self.members.get("message").and_then(|message| message.get("parts")) {
            check_parts(parts, &self.name, "message.parts")?;
        }
        let key: Option<String> = self.wish("id")?;
        check_key(key.as_deref(), &self.name, "id")?;
        let delivery = Delivery { key, steer: self.wish("steer")?.unwrap_or_default() };
        let message = match (self.wish::<String>("text")?, self.wish::<Message>("message")?) {
            (Some(text), None) => own_message(Part::text(text)),
            (None, Some(message)) if !message.parts.is_empty() => message,
            (None, Some(_)) => return Err(wrong(&self.name, "message.parts", "is empty.")),
            (Some(_), Some(_)) | (None, None) => {
                return Err(Fault::params("say needs either text or a message."));
            }
        };
        Ok(Said {
            answers: answer::picks(&message, |i| format!("say.message.parts[{i}].content"))?,
            message: message.into(),
            delivery,
        })
    }

    fn pick(&mut self) -> Result<Pick, Fault> {
        Ok(Pick {
            call: self.need("call")?,
            option: self.need("option")?,
            edited: self.wish("edited")?,
            answers: self.wish("answers")?,
        })
    }

    fn list(&mut self) -> Result<List, Fault> {
        let mut list = List {
            context: self.wish("context")?,
            state: self.wish("state")?.map(state).transpose()?,
            since: self.wish("since")?,
            size: self.wish("size")?.unwrap_or_default(),
            after: None,
            history: self.wish("history")?.unwrap_or_default(),
            artifacts: self.wish("artifacts")?.unwrap_or_default(),
        };
        // The token behind the last page is empty; a client that sends it starts again, as in A2A.
        let token: Option<String> = self.wish("after")?;
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            let what = "must be the nextPageToken of a page of the same list.";
            let mark = read_token(&token, &list);
            list.after = Some(mark.ok_or_else(|| wrong(&self.name, "after", what))?);
        }
        Ok(list)
    }
}

/// The form gets the id of the call as soon as it is known, so that errors carry it.
fn asked(text: &str, form: &mut Form) -> Result<Asked, Fault> {
    let invalid = |message: &str| Fault::new(FaultKind::InvalidRequest, message);
    let mut sent: Value = json::read(text.as_bytes())
        .map_err(|error| Fault::new(FaultKind::ParseError, format!("The frame cannot be read as JSON: {error}.")))?;
    match sent.get("id") {
        None | Some(Value::Null) => {}
        Some(id @ (Value::String(_) | Value::Number(_))) => form.id = json::bytes(id).into(),
        Some(_) => return Err(invalid("id must be a number or a string.")),
    }
    let call = sent.get_mut("call").map(Value::take);
    let call =
        call.ok_or_else(|| invalid("A frame is {\"id\":…,\"call\":{\"say\":{…}}}, or another call in its place."))?;
    let one = match call {
        Value::Object(call) if call.len() == 1 => call.into_iter().next(),
        _ => None,
    };
    match one {
        Some((name, Value::Object(members))) => Ok(Asked { name, members }),
        Some((name, _)) => Err(wrong("call", &name, "must be an object.")),
        None => Err(Fault::field("call", &format!("must be an object of one call: {CALLS}."))),
    }
}

/// `frame` is the whole frame: messages without an id get one derived from it.
fn call(mut asked: Asked, frame: &str) -> Result<Call, Fault> {
    let own_message = |part: Part| Message::new(format!("own-{:08x}", crc32(frame.as_bytes())), Role::User, vec![part]);
    Ok(match asked.name.as_str() {
        "say" => {
            let create = asked.create()?;
            Call::Say(Say::new(asked.said(own_message)?, asked.wish("task")?, create, Mode::Now))
        }
        "answer" => {
            let pick = asked.pick()?;
            let part = Part::data(json!({ "call": pick.call, "option": pick.option }));
            let said = Said::new(own_message(part).into(), vec![pick]);
            let create = Create { context: None, settings: Settings::default(), traits: TaskTraits::SESSION };
            Call::Say(Say::new(said, Some(asked.need("task")?), create, Mode::Now))
        }
        "create" => Call::Create(asked.create()?),
        "abort" => Call::Abort { task: Some(asked.need("task")?) },
        "drop" => Call::Drop { task: asked.need("task")?, turn: asked.need("turn")? },
        "cancel" => Call::Cancel { task: asked.need("task")? },
        "get" => Call::Get { task: asked.need("task")?, history: asked.wish("history")? },
        "list" => Call::List(asked.list()?),
        "watch" => Call::Subscribe { task: asked.need("task")?, after: asked.wish("after")? },
        "blob" => Call::Blob {
            task: asked.need("task")?,
            sha256: asked.need("sha256")?,
            from: asked.wish("from")?.unwrap_or_default(),
        },
        "session" => Call::Session,
        _ => {
            return Err(Fault::field("call", &format!("must be one of these: {CALLS}.")));
        }
    })
}

fn state(word: String) -> Result<TaskState, Fault> {
    let found = TaskState::from_word(&word);
    found.ok_or_else(|| {
        let all: Vec<&str> = TaskState::ALL.into_iter().map(TaskState::word).collect();
        Fault::field("list.state", &format!("must be one of {}.", all.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::views::list::token;
    use crate::a2a::{fault_frame, sample};
    use crate::task::call::Mark;
    use crate::task::log::event::Event;
    use std::sync::Arc;

    fn decoded(frame: Value) -> Result<Call, Fault> {
        match decode(&frame.to_string()) {
            Ok((call, _)) => Ok(call),
            Err((fault, _)) => Err(fault),
        }
    }

    fn one(call: Value) -> Result<Call, Fault> {
        decoded(json!({"id": 1, "call": call}))
    }

    #[test]
    fn a_record_goes_out_as_it_is_in_the_journal() {
        let event = Event::Text { text: "hé".into() };
        let shown = record(&sample::state(), &sample::record(event));
        assert_eq!(
            String::from_utf8(shown).expect("text"),
            format!(r#"{{"task":"t-1","seq":9,"at":{},"event":{{"text":{{"text":"hé"}}}}}}"#, sample::AT)
        );
    }

    #[test]
    fn prompts_and_answers() {
        let Ok(Call::Say(say)) = one(json!({"say": {"text": "go", "context": "c-1", "settings": {"model": "m"}}}))
        else {
            panic!("a prompt");
        };
        assert_eq!(say.said.message.parts, [Part::text("go")]);
        assert_eq!((say.mode, say.task, say.create.context), (Mode::Now, None, Some("c-1".into())));
        assert_eq!(say.create.settings.model.as_deref(), Some("m"));

        let message = sample::prompt("m-1", "hi");
        let Ok(Call::Say(say)) = one(json!({"say": {"task": "t-1", "message": message}})) else {
            panic!("a prompt");
        };
        assert_eq!((say.said.message.as_ref(), say.task), (&message, Some("t-1".into())));

        let message = json!({"id": "m", "role": "user", "parts": [
            {"content": {"data": {"tool_call_id": "call-1", "selected_option_id": "cancel"}}}]});
        let Ok(Call::Say(say)) = one(json!({"say": {"task": "t-1", "message": message}})) else {
            panic!("an answer");
        };
        assert_eq!(say.said.answers[0].option, "cancel");

        let answer =
            json!({"task": "t-1", "call": "call-1", "option": "proceed_once", "edited": "x", "answers": {"0": "y"}});
        let Ok(Call::Say(say)) = one(json!({ "answer": answer })) else {
            panic!("an answer");
        };
        assert!(!say.said.message.speaks(), "an answer is no prompt");
        assert_eq!(
            say.said.answers,
            [Pick {
                call: "call-1".into(),
                option: "proceed_once".into(),
                edited: Some("x".into()),
                answers: Some(Arc::new([("0".to_owned(), "y".to_owned())].into())),
            }]
        );
    }

    #[test]
    fn prompts_with_a_key_and_steering_prompts() {
        let delivery = |members: Value| {
            let mut say = json!({"text": "go"});
            say.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
            one(json!({ "say": say })).map(|call| match call {
                Call::Say(say) => say.said.delivery,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(delivery(json!({})), Ok(Delivery::default()));
        let both = Delivery { key: Some("k-1".into()), steer: true };
        assert_eq!(delivery(json!({"id": "k-1", "steer": true})), Ok(both));
        for wrong in [json!({"id": ""}), json!({"id": "x".repeat(129)}), json!({"id": 7}), json!({"steer": "yes"})] {
            assert!(delivery(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn messages_without_an_id_get_different_ones() {
        let id = |frame: Value| match decoded(frame) {
            Ok(Call::Say(say)) => say.said.message.id.clone(),
            other => panic!("{other:?}"),
        };
        let say = json!({"say": {"text": "again"}});
        let first = id(json!({"id": 1, "call": say}));
        assert_ne!(first, id(json!({"id": 2, "call": say})));
        assert_eq!(first, id(json!({"id": 1, "call": say})));
    }

    #[test]
    fn every_other_call() {
        let task = || TaskId::from("t-1");
        for (sent, expected) in [
            (json!({"cancel": {"task": "t-1"}}), Call::Cancel { task: task() }),
            (json!({"abort": {"task": "t-1"}}), Call::Abort { task: Some(task()) }),
            (json!({"drop": {"task": "t-1", "turn": 3}}), Call::Drop { task: task(), turn: 3 }),
            (json!({"get": {"task": "t-1", "history": 0}}), Call::Get { task: task(), history: Some(0) }),
            (json!({"watch": {"task": "t-1", "after": 7}}), Call::Subscribe { task: task(), after: Some(Seq(7)) }),
            (
                json!({"blob": {"task": "t-1", "sha256": "ab", "from": 7}}),
                Call::Blob { task: "t-1".into(), sha256: "ab".into(), from: 7 },
            ),
            (json!({"session": {}}), Call::Session),
            (json!({"list": {}}), Call::List(List::default())),
            (
                json!({"list": {"state": "input-required", "after": "", "size": 3}}),
                Call::List(List { state: Some(TaskState::InputRequired), size: 3, ..List::default() }),
            ),
            (
                json!({"create": {}}),
                Call::Create(Create { context: None, settings: Settings::default(), traits: TaskTraits::SESSION }),
            ),
        ] {
            assert_eq!(one(sent.clone()), Ok(expected), "{sent}");
        }
    }

    #[test]
    fn faults_of_invalid_frames() {
        use FaultKind::*;
        for (frame, kind, words) in [
            ("{", ParseError, "cannot be read as JSON"),
            ("[]", InvalidRequest, "A frame is"),
            (r#"{"id":[],"call":{"session":{}}}"#, InvalidRequest, "id must be"),
            (r#"{"id":1}"#, InvalidRequest, "A frame is"),
            (r#"{"id":1,"call":{"shout":{}}}"#, InvalidParams, "call must be one of these: say, answer"),
            (r#"{"id":1,"call":{"cancel":{}}}"#, InvalidParams, "cancel.task is required"),
            (r#"{"id":1,"call":{"cancel":{"task":"t"},"session":{}}}"#, InvalidParams, "an object of one call"),
            (
                r#"{"id":1,"call":{"answer":{"task":"t","call":"c","option":7}}}"#,
                InvalidParams,
                "answer.option is wrong",
            ),
            (r#"{"id":1,"call":{"answer":{"task":"t","call":"c"}}}"#, InvalidParams, "answer.option is required"),
            (
                r#"{"id":1,"call":{"say":{"message":{"id":"m","role":"user","parts":[
                    {"content":{"data":{"callId":"c","outcome":7}}}]}}}}"#,
                InvalidParams,
                "say.message.parts[0].content.data.outcome must be a string",
            ),
            (
                r#"{"id":1,"call":{"create":{"settings":{"auto_execute":1}}}}"#,
                InvalidParams,
                "create.settings.auto_execute is wrong",
            ),
            (r#"{"id":1,"call":{"say":{}}}"#, InvalidParams, "either text or a message"),
            (
                r#"{"id":1,"call":{"say":{"message":{"id":"m","role":"user","parts":[]}}}}"#,
                InvalidParams,
                "parts is empty",
            ),
            (r#"{"id":1,"call":{"say":{"text":"x","context":""}}}"#, InvalidParams, "printable"),
            (r#"{"id":1,"call":{"list":{"state":"odd"}}}"#, InvalidParams, "submitted, working"),
        ] {
            let (fault, _) = decode(frame).expect_err(frame);
            assert_eq!(fault.kind, kind, "{frame}");
            assert!(fault.message.contains(words), "{frame}: {}", fault.message);
        }
    }

    #[test]
    fn the_token_of_a_page_continues_its_list() {
        let list = List { state: Some(TaskState::InputRequired), ..List::default() };
        let mark = Mark { at: 5, task: "t-1".into() };
        let ask = |state: &str, after: &str| {
            let call = json!({"list": {"state": state, "after": after}});
            let decoded = decode(&json!({"id": 1, "call": call}).to_string());
            decoded.map(|(call, _)| call).map_err(|(fault, _)| fault.kind)
        };
        let after = token(&mark, &list);
        let behind = Call::List(List { after: Some(mark), ..list });
        assert_eq!(ask("input-required", &after), Ok(behind));
        assert_eq!(ask("working", &after), Err(FaultKind::InvalidParams));
        assert_eq!(ask("input-required", "x"), Err(FaultKind::InvalidParams));
    }

    #[test]
    fn answers_carry_the_id_of_their_call() {
        let (_, form) = decode(r#"{"id":"a\"1","call":{"session":{}}}"#).expect("a call");
        let whole = enclosed(&form, b"[]");
        assert_eq!(String::from_utf8(whole).expect("text"), r#"{"id":"a\"1","ok":[]}"#);
        let (fault, form) = decode(r#"{"id":7,"call":{}}"#).expect_err("no call");
        let frame: Value = serde_json::from_slice(&fault_frame(&form, &fault)).expect("JSON");
        assert_eq!(frame, json!({"id": 7, "error": {"reason": "INVALID_PARAMS", "message": fault.message}}));
    }
}
