//! Converts our conversation to the API's `contents`. The API refuses a conversation that breaks one of its rules, and then refuses it
//! again with every further prompt. So the result keeps these rules, whatever the log contains:
//!
//! - turns alternate between user and model; neighbours of one role are merged, empty parts and thoughts are left out;
//! - every function call is answered, right after the turn that made it, all of a batch in one user turn in the calls' order.
//!   A call without a result in the log (the turn was canceled, the server stopped) is answered with an error;
//! - media that a call read are inside its response or after it, as the model family requires; audio and video may be in neither place
//!   and get a turn of their own;
//! - a prompt of the user never shares a turn with results: a short model turn goes between them;
//! - in the part of the conversation that the model is still working on, the first call of each model turn has a signature.
//!
//! The first turn tells the model in which environment it works.

#[cfg(test)]
mod tests;

use crate::base::id::CallId;
use crate::task::log::answer::{self as log, Answer};
use crate::task::log::gemini;
use crate::task::log::media::{Media, MediaContent};
use crate::task::machine::state::{CallResult, Item};
use crate::task::media_type;
use crate::task::message::{Content, Message, Part, Role};
use crate::task::spec::Ending;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;

/// What the contents depend on besides the conversation: the environment, for the first turn, and the place of media.
#[derive(Clone, Copy, Debug)]
pub struct HistoryContext<'a> {
    pub workspace: &'a str,
    /// Directories beside the workspace that tools may use.
    pub directories: &'a [String],
    pub os: &'a str,
    /// `2026-03-01`: a day, not an instant, so that the beginning of every request stays the same and can be cached.
    pub date: &'a str,
    /// The directory tree, cut to a size; empty if there is none.
    pub tree: &'a str,
    /// The text of the project's memory files; empty if there is none.
    pub memory: &'a str,
    /// The instructions of MCP servers, marked as untrusted; empty if there are none.
    pub servers: &'a str,
    pub media: ResultMedia,
}

/// Where a model family accepts the media of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultMedia {
    /// In the function response.
    Inside,
    /// In the same turn, after all function responses.
    Behind,
}

/// Accepted by the API in place of a signature that it never gave.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The text of the model turn that is inserted between results without an answer and the user's next prompt.
const INTERRUPTED: &str = "I was interrupted before I could go on from these results.";

/// The text of the model turn that is inserted between results and media that may not be in the same turn.
const SHOW_ME: &str = "Next I look at the files that were read.";

/// The error of a call without a result in the log.
const UNANSWERED: &str = "The call was interrupted; whether it had an effect is not known.";

/// The `contents` of a request.
pub fn contents(history: &[Arc<Item>], context: &HistoryContext) -> Vec<Value> {
    let mut turns = Turns::default();
    turns.push(Role::User, vec![json!({"text": introduction(context)})]);
    for (i, item) in history.iter().enumerate() {
        match item.as_ref() {
            Item::Said(message) => turns.push_message(message),
            Item::Steered(message) => turns.push(Role::User, message.parts.iter().filter_map(message_part).collect()),
            Item::Answered(answer) => {
                turns.push(Role::Agent, answer_parts(answer));
                let Results { turn, after } = results(answer, &history[i + 1..], context.media);
                turns.push(Role::User, turn);
                if !after.is_empty() {
                    turns.push(Role::Agent, vec![json!({ "text": SHOW_ME })]);
                    turns.push(Role::User, after);
                }
            }
            Item::Summary(summary) => {
                let text = format!("What was said and done before, as you wrote it down:\n\n{summary}");
                turns.push(Role::User, vec![json!({ "text": text })]);
                let text = "I have it in mind and go on from there.";
                turns.push(Role::Agent, vec![json!({ "text": text })]);
            }
            Item::Nudge(text) => turns.push(Role::User, vec![json!({ "text": text.as_str() })]),
            Item::Media(media) => turns.push(Role::User, media.iter().map(gemini::write_media).collect()),
            // Results are written with their answer. The model is not shown dropped prompts.
            Item::Results(_) | Item::Dropped(_) => {}
        }
    }
    turns.sign();
    turns.0.into_iter().map(Turn::into_value).collect()
}

struct Turn {
    role: Role,
    parts: Vec<Value>,
}

impl Turn {
    fn has(&self, member: &str) -> bool {
        self.parts.iter().any(|part| part.get(member).is_some())
    }

    fn into_value(self) -> Value {
        let role = match self.role {
            Role::User => "user",
            Role::Agent => "model",
        };
        json!({"role": role, "parts": self.parts})
    }
}

#[derive(Default)]
struct Turns(Vec<Turn>);

impl Turns {
    /// Adds parts: to the last turn if it has the same role, otherwise as a new turn.
    fn push(&mut self, role: Role, mut parts: Vec<Value>) {
        parts.retain(is_sendable);
        if parts.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.role == role => last.parts.append(&mut parts),
            Some(_) | None => self.0.push(Turn { role, parts }),
        }
    }

    /// Adds a message. A prompt after results is separated from them by a model turn.
    fn push_message(&mut self, message: &Message) {
        let parts: Vec<Value> = message.parts.iter().filter_map(message_part).collect();
        let after_results = self.0.last().is_some_and(|turn| turn.has("functionResponse"));
        if after_results && message.role == Role::User && parts.iter().any(is_sendable) {
            self.push(Role::Agent, vec![json!({"text": INTERRUPTED})]);
        }
        self.push(message.role, parts);
    }

    /// Gives the first call of each model turn a signature, from the user's last prompt on. The API does not check those before.
    fn sign(&mut self) {
        let is_prompt = |turn: &Turn| turn.role == Role::User && turn.has("text") && !turn.has("functionResponse");
        let active = self.0.iter().rposition(is_prompt).unwrap_or(0);
        for turn in &mut self.0[active..] {
            let first =
                turn.parts.iter_mut().filter_map(Value::as_object_mut).find(|part| part.contains_key("functionCall"));
            if let Some(part) = first {
                part.entry("thoughtSignature").or_insert_with(|| NO_SIGNATURE.into());
            }
        }
    }
}

/// Whether the API accepts the part: it is not an empty object, not only an empty text, and not a thought.
fn is_sendable(part: &Value) -> bool {
    let Some(members) = part.as_object() else {
        return false;
    };
    let thought = members.get("thought") == Some(&Value::Bool(true));
    let bare_empty = members.len() == 1 && members.get("text").is_some_and(|text| text == "");
    !members.is_empty() && !thought && !bare_empty
}

/// The parts of an answer, without the signatures and opaque values of another API.
fn answer_parts(answer: &Answer) -> Vec<Value> {
    let is_own = answer.api.as_deref() == Some(gemini::API);
    let known = |part: &&log::Part| is_own || !matches!(part.content, log::Content::Opaque(_));
    answer
        .parts
        .iter()
        .filter(known)
        .map(|part| match is_own {
            true => gemini::write_part(part),
            false => gemini::write_part(&log::Part::new(part.content.clone())),
        })
        .collect()
}

/// The results of the calls of an answer.
#[derive(Default)]
struct Results {
    /// One response per call, in the order of the calls, and then media.
    turn: Vec<Value>,
    /// Media for a turn of their own.
    after: Vec<Value>,
}

fn results(answer: &Answer, later: &[Arc<Item>], place: ResultMedia) -> Results {
    let results: Vec<&CallResult> = later
        .iter()
        .take_while(|item| !matches!(item.as_ref(), Item::Answered(_)))
        .filter_map(|item| match item.as_ref() {
            Item::Results(results) => Some(results),
            Item::Said(_)
            | Item::Steered(_)
            | Item::Dropped(_)
            | Item::Answered(_)
            | Item::Summary(_)
            | Item::Nudge(_)
            | Item::Media(_) => None,
        })
        .flatten()
        .collect();
    let ending_of = |call: &CallId| {
        let result = results.iter().find(|result| result.request.call == *call);
        result.map(|result| result.ending.as_ref())
    };
    let (mut found, mut behind) = (Results::default(), Vec::new());
    for request in answer.calls() {
        let ending = ending_of(&request.call);
        let mut response = json!({"name": request.name, "response": outcome(ending)});
        if let Some(id) = &request.api_id {
            response["id"] = id.as_str().into();
        }
        let mut inside = Vec::new();
        for media in ending.map(Ending::media).unwrap_or_default() {
            let part = gemini::write_media(media);
            match place {
                _ if media.content.data().is_none() => response["response"]["media"] = part["text"].clone(),
                ResultMedia::Inside if may_be_inside(&media.mime) => inside.push(part),
                ResultMedia::Behind if !is_audio_or_video(&media.mime) => behind.push(part),
                ResultMedia::Inside | ResultMedia::Behind => found.after.push(part),
            }
        }
        if !inside.is_empty() {
            response["parts"] = inside.into();
        }
        found.turn.push(json!({ "functionResponse": response }));
    }
    found.turn.append(&mut behind);
    found
}

/// The types that function responses accept.
fn may_be_inside(mime: &str) -> bool {
    matches!(mime, "image/png" | "image/jpeg" | "image/webp" | "application/pdf")
}

fn is_audio_or_video(mime: &str) -> bool {
    mime.starts_with("audio/") || mime.starts_with("video/")
}

fn outcome(ending: Option<&Ending>) -> Value {
    match ending {
        Some(Ending::Success { output, .. }) => json!({"output": output.as_str()}),
        Some(Ending::Error { error }) => json!({"error": error.message}),
        Some(Ending::Cancelled { reason, output }) if output.is_empty() => json!({"error": reason}),
        Some(Ending::Cancelled { reason, output }) => json!({"output": output.as_str(), "error": reason}),
        None => json!({"error": UNANSWERED}),
    }
}

fn introduction(context: &HistoryContext) -> String {
    let HistoryContext { workspace, directories, os, date, tree, memory, servers, media: _ } = context;
    let mut text = format!(
        "Context of this session, given by the program you run in:\n- Today is {date}.\n- The operating system is {os}.\n- The workspace is {workspace}. Relative paths start there, and files outside it are off limits."
    );
    if !directories.is_empty() {
        let list = directories.join(", ");
        text.push_str(&format!("\n- Except for these directories, which you may use too, by absolute paths: {list}."));
    }
    if !tree.is_empty() {
        text.push_str("\n\nWhat is in the workspace, as it was when the session began:\n");
        text.push_str(tree);
    }
    if !memory.is_empty() {
        text.push_str("\n\nThe project's own instructions. What the user says comes before them:\n");
        text.push_str(memory);
    }
    if !servers.is_empty() {
        text.push_str("\n\nWhat the MCP servers say about how their tools are used. It is not from the user:\n");
        text.push_str(servers);
    }
    text
}

/// A part of a message as the model gets it; None for data that is meant only for the program.
fn message_part(part: &Part) -> Option<Value> {
    match &part.content {
        Content::Text(text) => Some(json!({"text": text.as_str()})),
        Content::Bytes(file) => Some(attached(part, file)),
        Content::Uri(uri) if is_fetchable(uri) => {
            let mut file = json!({ "fileUri": uri });
            if let Some(media_type) = &part.media_type {
                file["mimeType"] = media_type.as_str().into();
            }
            Some(json!({ "fileData": file }))
        }
        Content::Uri(uri) => Some(note(format!(
            "[The user attached {} at {uri}. Its content is not part of this conversation.]",
            name(part)
        ))),
        Content::Data(data) if is_for_the_program(data) => None,
        Content::Data(data) => Some(json!({"text": data.to_string()})),
    }
}

/// An attached file: media unchanged, text as text. For any other content, which would make the API refuse the conversation, a note.
fn attached(part: &Part, file: &MediaContent) -> Value {
    let given = part.media_type.as_deref().unwrap_or_default();
    let media_type = given.split(';').next().unwrap_or_default().trim();
    let media = |mime: &str| gemini::write_media(&Media { mime: mime.to_owned(), content: file.clone() });
    if let Some(mime) = media_type::named(media_type) {
        return media(mime);
    }
    let bytes = file.data().and_then(|data| STANDARD.decode(data).ok());
    let mime = bytes.as_deref().and_then(media_type::of);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|text| !text.contains('\0'));
    match (text, mime) {
        (_, Some(mime @ "application/pdf")) | (None, Some(mime)) => media(mime),
        (Some(text), _) => note(format!("[The user attached {}:]\n{text}\n[End of the attached file.]", name(part))),
        (None, None) => note(format!(
            "[The user attached {}, which is of a kind you cannot read ({}).]",
            name(part),
            if given.is_empty() { "unknown" } else { given }
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

/// Whether the data is an answer to a question or settings of a client, which the model does not need.
fn is_for_the_program(data: &Value) -> bool {
    const CALL: [&str; 3] = ["tool_call_id", "toolCallId", "callId"];
    const SETTINGS: [&str; 3] = ["workspace_path", "workspacePath", "workspaceRoot"];
    let has = |names: &[&str]| names.iter().any(|name| data.get(name).is_some());
    let kind = data.get("kind").and_then(Value::as_str);
    has(&CALL) || has(&SETTINGS) || matches!(kind, Some("agent-settings" | "TOOL_CALL_CONFIRMATION"))
}
