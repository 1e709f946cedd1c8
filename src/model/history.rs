//! Our conversation as the API's `contents`. The API refuses a conversation that breaks one of its rules, and a refused one
//! stays refused with every further prompt, so the rules are kept here, whatever the log holds:
//!
//! - turns alternate between user and model; neighbours of one role are merged, empty parts and thoughts are left out;
//! - every function call is answered, right after the turn that made it, all of a batch in one user turn in the calls' order.
//!   A call without a result in the log (the turn was canceled, the server stopped) is answered with an error;
//! - new words of the user never share a turn with results: a short model turn goes between them;
//! - in the part of the conversation that the model is still working on, the first call of each model turn has a signature.
//!
//! The first turn tells the model where it is. Like everything here it depends on the arguments alone.

use crate::base::id::CallId;
use crate::task::log::answer::{self as log, Answer};
use crate::task::log::gemini;
use crate::task::machine::state::{CallResult, Item};
use crate::task::message::{Content, Message, Part, Role};
use crate::task::spec::Ending;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Where and when the conversation takes place.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    pub workspace: &'a str,
    pub os: &'a str,
    /// `2026-03-01`: a day, not an instant, so that the beginning of every request stays the same and can be cached.
    pub date: &'a str,
    /// The directory tree, cut to a size; empty when there is none to show.
    pub tree: &'a str,
    /// What the project's memory files say; empty for nothing.
    pub memory: &'a str,
}

/// Accepted by the API in place of a signature that it never gave.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Said for the model between results it never commented on and the user's next words.
const INTERRUPTED: &str = "I was interrupted before I could go on from these results.";

/// Error of a call that was never run to its end.
const UNANSWERED: &str = "The call was interrupted; whether it had an effect is not known.";

/// The `contents` of a request.
pub fn contents(history: &[Arc<Item>], scene: &Scene) -> Vec<Value> {
    let mut turns = Turns::default();
    turns.push(Speaker::User, vec![json!({"text": introduction(scene)})]);
    for (i, item) in history.iter().enumerate() {
        match item.as_ref() {
            Item::Said(message) => turns.say(message),
            Item::Answered(answer) => {
                turns.push(Speaker::Model, said(answer));
                turns.push(Speaker::User, responses(answer, &history[i + 1..]));
            }
            Item::Summary(summary) => {
                let text = format!("What was said and done before, as you wrote it down:\n\n{summary}");
                turns.push(Speaker::User, vec![json!({ "text": text })]);
                let text = "I have it in mind and go on from there.";
                turns.push(Speaker::Model, vec![json!({ "text": text })]);
            }
            Item::Nudge(text) => turns.push(Speaker::User, vec![json!({ "text": text })]),
            // Results are written with the answer they belong to; a dropped prompt is not for the model.
            Item::Results(_) | Item::Dropped(_) => {}
        }
    }
    turns.sign();
    turns.0.into_iter().map(Turn::into_value).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    User,
    Model,
}

struct Turn {
    speaker: Speaker,
    parts: Vec<Value>,
}

impl Turn {
    fn has(&self, member: &str) -> bool {
        self.parts.iter().any(|part| part.get(member).is_some())
    }

    fn into_value(self) -> Value {
        let role = match self.speaker {
            Speaker::User => "user",
            Speaker::Model => "model",
        };
        json!({"role": role, "parts": self.parts})
    }
}

#[derive(Default)]
struct Turns(Vec<Turn>);

impl Turns {
    fn push(&mut self, speaker: Speaker, mut parts: Vec<Value>) {
        parts.retain(says_something);
        if parts.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.speaker == speaker => last.parts.append(&mut parts),
            Some(_) | None => self.0.push(Turn { speaker, parts }),
        }
    }

    fn say(&mut self, message: &Message) {
        let parts: Vec<Value> = message.parts.iter().filter_map(spoken).collect();
        let speaker = match message.role {
            Role::User => Speaker::User,
            Role::Agent => Speaker::Model,
        };
        let after_results = self.0.last().is_some_and(|turn| turn.has("functionResponse"));
        if after_results && speaker == Speaker::User && parts.iter().any(says_something) {
            self.push(Speaker::Model, vec![json!({"text": INTERRUPTED})]);
        }
        self.push(speaker, parts);
    }

    /// Gives the first call of each model turn a signature, from the user's last words on. Before them nobody looks.
    fn sign(&mut self) {
        let words = |turn: &Turn| turn.speaker == Speaker::User && turn.has("text") && !turn.has("functionResponse");
        let active = self.0.iter().rposition(words).unwrap_or(0);
        for turn in &mut self.0[active..] {
            let first =
                turn.parts.iter_mut().filter_map(Value::as_object_mut).find(|part| part.contains_key("functionCall"));
            if let Some(part) = first {
                part.entry("thoughtSignature").or_insert_with(|| NO_SIGNATURE.into());
            }
        }
    }
}

/// Not an empty object, not a bare empty text, not a thought.
fn says_something(part: &Value) -> bool {
    let Some(members) = part.as_object() else {
        return false;
    };
    let thought = members.get("thought") == Some(&Value::Bool(true));
    let bare_empty = members.len() == 1 && members.get("text").is_some_and(|text| text == "");
    !members.is_empty() && !thought && !bare_empty
}

/// The parts of an answer. Another API's signatures and opaque values mean nothing to this one.
fn said(answer: &Answer) -> Vec<Value> {
    let own = answer.api.as_deref() == Some(gemini::API);
    let known = |part: &&log::Part| own || !matches!(part.content, log::Content::Opaque(_));
    answer
        .parts
        .iter()
        .filter(known)
        .map(|part| match own {
            true => gemini::write_part(part),
            false => gemini::write_part(&log::Part::new(part.content.clone())),
        })
        .collect()
}

/// One response per call of the answer, in the order of its calls.
fn responses(answer: &Answer, later: &[Arc<Item>]) -> Vec<Value> {
    let results: Vec<&CallResult> = later
        .iter()
        .take_while(|item| !matches!(item.as_ref(), Item::Answered(_)))
        .filter_map(|item| match item.as_ref() {
            Item::Results(results) => Some(results),
            Item::Said(_) | Item::Dropped(_) | Item::Answered(_) | Item::Summary(_) | Item::Nudge(_) => None,
        })
        .flatten()
        .collect();
    let ending_of = |call: &CallId| {
        let result = results.iter().find(|result| result.request.call == *call);
        result.map(|result| result.ending.as_ref())
    };
    answer
        .calls()
        .map(|request| {
            let mut response = Map::new();
            if let Some(id) = &request.api_id {
                response.insert("id".into(), id.as_str().into());
            }
            response.insert("name".into(), request.name.as_str().into());
            response.insert("response".into(), outcome(ending_of(&request.call)));
            json!({"functionResponse": response})
        })
        .collect()
}

fn outcome(ending: Option<&Ending>) -> Value {
    match ending {
        Some(Ending::Success { output, .. }) => json!({"output": output}),
        Some(Ending::Error { error }) => json!({"error": error.message}),
        Some(Ending::Cancelled { reason, output }) if output.is_empty() => json!({"error": reason}),
        Some(Ending::Cancelled { reason, output }) => json!({"output": output, "error": reason}),
        None => json!({"error": UNANSWERED}),
    }
}

fn introduction(scene: &Scene) -> String {
    let Scene { workspace, os, date, tree, memory } = scene;
    let mut text = format!(
        "Context of this session, given by the program you run in:\n- Today is {date}.\n- The operating system is {os}.\n- The workspace is {workspace}. Relative paths start there, and files outside it are off limits."
    );
    if !tree.is_empty() {
        text.push_str("\n\nWhat is in the workspace, as it was when the session began:\n");
        text.push_str(tree);
    }
    if !memory.is_empty() {
        text.push_str("\n\nThe project's own instructions. What the user says comes before them:\n");
        text.push_str(memory);
    }
    text
}

/// A part of a message as the model gets it; None for what is meant for the program alone.
fn spoken(part: &Part) -> Option<Value> {
    match &part.content {
        Content::Text(text) => Some(json!({"text": text})),
        Content::Bytes(data) => Some(attached(part, data)),
        Content::Uri(uri) if is_fetchable(uri) => {
            let mut file = Map::new();
            if let Some(media_type) = &part.media_type {
                file.insert("mimeType".into(), media_type.as_str().into());
            }
            file.insert("fileUri".into(), uri.as_str().into());
            Some(json!({"fileData": file}))
        }
        Content::Uri(uri) => Some(note(format!(
            "[The user attached {} at {uri}. Its content is not part of this conversation.]",
            name(part)
        ))),
        Content::Data(data) if is_for_the_program(data) => None,
        Content::Data(data) => Some(json!({"text": data.to_string()})),
    }
}

/// Media goes as it is, text as text. Anything else would make the API refuse the conversation, so the model is only told.
fn attached(part: &Part, data: &str) -> Value {
    let media_type = part.media_type.as_deref().unwrap_or_default();
    let family = media_type.split('/').next().unwrap_or_default();
    if matches!(family, "image" | "audio" | "video") || media_type == "application/pdf" {
        return json!({"inlineData": {"mimeType": media_type, "data": data}});
    }
    let bytes = STANDARD.decode(data).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    match text.filter(|text| !text.contains('\0')) {
        Some(text) => note(format!("[The user attached {}:]\n{text}\n[End of the attached file.]", name(part))),
        None => note(format!(
            "[The user attached {}, which is of a kind you cannot read ({}).]",
            name(part),
            if media_type.is_empty() { "unknown" } else { media_type }
        )),
    }
}

fn note(text: String) -> Value {
    json!({"text": text})
}

fn name(part: &Part) -> String {
    match &part.filename {
        Some(name) => format!("the file {name}"),
        None => "a file".into(),
    }
}

/// Addresses that the API reads itself: its own file store, and videos.
fn is_fetchable(uri: &str) -> bool {
    const HOSTS: [&str; 4] = [
        "https://generativelanguage.googleapis.com/",
        "https://www.youtube.com/watch",
        "https://youtube.com/watch",
        "https://youtu.be/",
    ];
    HOSTS.iter().any(|host| uri.starts_with(host))
}

/// Answers to questions and settings travel as data parts too; the model has no use for either.
fn is_for_the_program(data: &Value) -> bool {
    const CALL: [&str; 3] = ["tool_call_id", "toolCallId", "callId"];
    const SETTINGS: [&str; 3] = ["workspace_path", "workspacePath", "workspaceRoot"];
    let has = |names: &[&str]| names.iter().any(|name| data.get(name).is_some());
    let kind = data.get("kind").and_then(Value::as_str);
    has(&CALL) || has(&SETTINGS) || matches!(kind, Some("agent-settings" | "TOOL_CALL_CONFIRMATION"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::answer::Request;
    use crate::task::spec::{Display, ErrorKind};

    const SCENE: Scene = Scene { workspace: "/w", os: "linux", date: "2026-03-01", tree: "", memory: "" };

    fn said(parts: Vec<Part>) -> Arc<Item> {
        by(Role::User, parts)
    }

    fn by(role: Role, parts: Vec<Part>) -> Arc<Item> {
        let message = Message::new("m", role, parts);
        Arc::new(Item::Said(Arc::new(message)))
    }

    fn text(text: &str) -> Arc<Item> {
        said(vec![Part::text(text)])
    }

    fn request(call: &str, name: &str, api_id: Option<&str>) -> Request {
        Request { call: call.into(), name: name.into(), args: json!({}), api_id: api_id.map(str::to_owned) }
    }

    fn answered(parts: Value, calls: Vec<Request>) -> Arc<Item> {
        let mut calls = calls.into_iter();
        let parts = parts.as_array().unwrap().iter().map(|part| {
            let call = part.get("functionCall").and_then(|_| calls.next());
            gemini::read_part(part.as_object().unwrap().clone(), call)
        });
        let answer = Answer { parts: parts.collect(), api: Some(gemini::API.into()), ..Answer::default() };
        Arc::new(Item::Answered(Arc::new(answer)))
    }

    fn results(results: Vec<(Request, Ending)>) -> Arc<Item> {
        let results = results.into_iter().map(|(request, ending)| CallResult { request, ending: Arc::new(ending) });
        Arc::new(Item::Results(results.collect()))
    }

    fn success(output: &str) -> Ending {
        Ending::Success { output: output.into(), display: Display::Text { text: "".into() } }
    }

    /// Without the introduction, which starts every conversation.
    fn after_introduction(history: &[Arc<Item>]) -> Value {
        let mut turns = contents(history, &SCENE);
        let first = turns[0]["parts"].as_array_mut().unwrap();
        assert_eq!(first.remove(0), json!({"text": introduction(&SCENE)}));
        if first.is_empty() {
            turns.remove(0);
        }
        turns.into()
    }

    fn call(name: &str) -> Value {
        json!({"functionCall": {"name": name, "args": {}}})
    }

    fn signed(name: &str, signature: &str) -> Value {
        json!({"functionCall": {"name": name, "args": {}}, "thoughtSignature": signature})
    }

    #[test]
    fn the_first_turn_tells_where_the_model_is() {
        assert_eq!(
            contents(&[text("hi")], &SCENE),
            vec![json!({"role": "user", "parts": [
                {"text": "Context of this session, given by the program you run in:\n- Today is 2026-03-01.\n- The operating system is linux.\n- The workspace is /w. Relative paths start there, and files outside it are off limits."},
                {"text": "hi"},
            ]})]
        );
    }

    #[test]
    fn neighbours_of_one_role_are_merged_and_empty_parts_left_out() {
        let history = [
            text("a"),
            text(""),
            text("b"),
            answered(json!([{"text": "c"}, {}, {"text": ""}, {"text": "t", "thought": true}]), vec![]),
            answered(json!([{"text": "", "thoughtSignature": "s"}]), vec![]),
            answered(json!([{"text": ""}]), vec![]),
            by(Role::Agent, vec![Part::text("d")]),
            text("e"),
        ];
        assert_eq!(
            after_introduction(&history),
            json!([
                {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
                {"role": "model", "parts": [{"text": "c"}, {"text": "", "thoughtSignature": "s"}, {"text": "d"}]},
                {"role": "user", "parts": [{"text": "e"}]},
            ])
        );
    }

    #[test]
    fn a_batch_is_answered_in_one_turn_in_the_order_of_its_calls() {
        let (a, b, c, d) = (
            request("1", "read_file", Some("api-1")),
            request("2", "glob", None),
            request("3", "shell", None),
            request("4", "shell", None),
        );
        let error = Ending::Error { error: ErrorKind::FileNotFound.error("no such file") };
        let cancelled = |output: &str| Ending::Cancelled { reason: "refused".into(), output: output.into() };
        let history = [
            text("go"),
            answered(
                json!([signed("read_file", "s1"), call("glob"), call("shell"), call("shell")]),
                vec![a.clone(), b.clone(), c.clone(), d.clone()],
            ),
            results(vec![(d, cancelled("half")), (c, cancelled("")), (b, error), (a, success("text"))]),
        ];
        assert_eq!(
            after_introduction(&history),
            json!([
                {"role": "user", "parts": [{"text": "go"}]},
                {"role": "model", "parts": [signed("read_file", "s1"), call("glob"), call("shell"), call("shell")]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "api-1", "name": "read_file", "response": {"output": "text"}}},
                    {"functionResponse": {"name": "glob", "response": {"error": "no such file"}}},
                    {"functionResponse": {"name": "shell", "response": {"error": "refused"}}},
                    {"functionResponse": {"name": "shell", "response": {"output": "half", "error": "refused"}}},
                ]},
            ])
        );
    }

    #[test]
    fn unanswered_calls_get_an_error_and_new_words_a_turn_of_their_own() {
        let (a, b) = (request("1", "read_file", None), request("2", "glob", None));
        let history = [
            text("go"),
            answered(json!([signed("read_file", "s"), call("glob")]), vec![a.clone(), b]),
            results(vec![(a, success("x"))]),
            said(vec![Part::data(json!({"callId": "1", "outcome": "cancel"}))]),
            text("something else"),
        ];
        assert_eq!(
            after_introduction(&history),
            json!([
                {"role": "user", "parts": [{"text": "go"}]},
                {"role": "model", "parts": [signed("read_file", "s"), call("glob")]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "read_file", "response": {"output": "x"}}},
                    {"functionResponse": {"name": "glob", "response": {"error": UNANSWERED}}},
                ]},
                {"role": "model", "parts": [{"text": INTERRUPTED}]},
                {"role": "user", "parts": [{"text": "something else"}]},
            ])
        );
    }

    #[test]
    fn words_between_a_call_and_its_result_come_after_the_result() {
        let a = request("1", "glob", None);
        let history = [
            text("go"),
            answered(json!([signed("glob", "s")]), vec![a.clone()]),
            text("and hurry"),
            results(vec![(a, success("x"))]),
        ];
        let turns = after_introduction(&history);
        assert_eq!(turns[2]["parts"][0]["functionResponse"]["response"], json!({"output": "x"}));
        assert_eq!(turns[4], json!({"role": "user", "parts": [{"text": "and hurry"}]}));
    }

    #[test]
    fn results_without_their_call_are_left_out() {
        let history = [results(vec![(request("1", "glob", None), success("x"))]), text("go")];
        assert_eq!(after_introduction(&history), json!([{"role": "user", "parts": [{"text": "go"}]}]));
    }

    #[test]
    fn the_first_call_of_each_turn_in_the_active_loop_is_signed_and_no_other() {
        let round = |id: &str, parts: Value, names: &[&str]| {
            let calls: Vec<Request> =
                names.iter().enumerate().map(|(i, name)| request(&format!("{id}{i}"), name, None)).collect();
            let endings = calls.iter().map(|c| (c.clone(), success("x"))).collect();
            [answered(parts, calls), results(endings)]
        };
        let mut history = vec![text("first")];
        history.extend(round("a", json!([call("old")]), &["old"]));
        history.push(answered(json!([{"text": "done"}]), vec![]));
        history.push(text("second"));
        history.extend(round("b", json!([{"text": "hm"}, call("p"), call("q")]), &["p", "q"]));
        history.extend(round("c", json!([signed("r", "own")]), &["r"]));
        history.extend(round("d", json!([call("s")]), &["s"]));
        let turns = after_introduction(&history);
        let models: Vec<&Value> = turns
            .as_array()
            .unwrap()
            .iter()
            .filter(|turn| turn["role"] == "model")
            .map(|turn| &turn["parts"])
            .collect();
        assert_eq!(
            json!(models),
            json!([
                [call("old")],
                [{"text": "done"}],
                [{"text": "hm"}, signed("p", NO_SIGNATURE), call("q")],
                [signed("r", "own")],
                [signed("s", NO_SIGNATURE)],
            ])
        );
    }

    #[test]
    fn parts_of_messages_as_the_model_gets_them() {
        let file = |content: Content, filename: Option<&str>, media_type: Option<&str>| Part {
            content,
            filename: filename.map(str::to_owned),
            media_type: media_type.map(str::to_owned),
            metadata: None,
        };
        let bytes = |data: &str| Content::Bytes(data.into());
        let store = "https://generativelanguage.googleapis.com/v1beta/files/abc";
        let table = [
            (
                file(bytes("iVBO"), Some("a.png"), Some("image/png")),
                Some(json!({"inlineData": {"mimeType": "image/png", "data": "iVBO"}})),
            ),
            (
                file(bytes("JVBE"), None, Some("application/pdf")),
                Some(json!({"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}})),
            ),
            (
                file(bytes("aGk="), Some("a.rs"), None),
                Some(json!({"text": "[The user attached the file a.rs:]\nhi\n[End of the attached file.]"})),
            ),
            (
                file(bytes("AAH/"), Some("a.bin"), Some("application/zip")),
                Some(
                    json!({"text": "[The user attached the file a.bin, which is of a kind you cannot read (application/zip).]"}),
                ),
            ),
            (
                file(bytes("not base64"), None, None),
                Some(json!({"text": "[The user attached a file, which is of a kind you cannot read (unknown).]"})),
            ),
            (
                file(Content::Uri(store.into()), None, Some("image/png")),
                Some(json!({"fileData": {"mimeType": "image/png", "fileUri": store}})),
            ),
            (
                file(Content::Uri("https://youtu.be/x".into()), None, None),
                Some(json!({"fileData": {"fileUri": "https://youtu.be/x"}})),
            ),
            (
                file(Content::Uri("http://10.0.0.1/a.txt".into()), Some("a.txt"), None),
                Some(
                    json!({"text": "[The user attached the file a.txt at http://10.0.0.1/a.txt. Its content is not part of this conversation.]"}),
                ),
            ),
            (Part::data(json!({"line": 7})), Some(json!({"text": "{\"line\":7}"}))),
            (Part::data(json!([1, 2])), Some(json!({"text": "[1,2]"}))),
            (Part::data(json!({"kind": "agent-settings"})), None),
            (Part::data(json!({"workspacePath": "/w"})), None),
            (Part::data(json!({"tool_call_id": "1", "selected_option_id": "cancel"})), None),
            (Part::data(json!({"toolCallId": "1", "approved": true})), None),
            (Part::data(json!({"callId": "1", "outcome": "proceed_once"})), None),
        ];
        for (part, expected) in table {
            assert_eq!(spoken(&part), expected, "{part:?}");
        }
    }
}
