//! Decodes what a client sends: requests, notifications, and answers to the server's requests.

use crate::a2a::acp::{Capabilities, MODE, MODEL, mode_of, read_cursor};
use crate::a2a::dialect::{PromptAnswer, Unaddressed};
use crate::a2a::form::{Decoded, Form};
use crate::a2a::native::SentCall;
use crate::a2a::requests::message::{check_media, check_parts};
use crate::a2a::requests::object::{Object, wrong};
use crate::a2a::requests::rpc;
use crate::base::crc::crc32;
use crate::base::id::TaskId;
use crate::base::json;
use crate::base::secret::Secret;
use crate::limits::{CLIENT_NAME_CHARS, COMMAND_CHARS, INCLUDED_DIRECTORIES};
use crate::task::call::{Call, Create, Execute, Introduction, KnownSession, Mode, Open, Say, Settings, TaskTraits};
use crate::task::definitions::slash::{Args, Typed};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Lifecycle;
use crate::task::machine::job::Said;
use crate::task::message::{Content, Message, Part, Role};
use serde_json::{Value, json};

/// Which protocol the first message on a socket belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstMessage {
    /// ACP.
    Initialize,
    /// Not known yet: the message is an error response to the greeting, as ACP clients send it when they are greeted in another dialect.
    GreetingError,
    /// Another protocol.
    Other,
}

pub fn first_message(text: &str) -> FirstMessage {
    let sent: Value = json::read(text.as_bytes()).unwrap_or_default();
    if sent["method"] == "initialize" && sent["params"]["protocolVersion"].is_u64() {
        FirstMessage::Initialize
    } else if sent["error"].is_object() && sent["id"].is_null() {
        FirstMessage::GreetingError
    } else {
        FirstMessage::Other
    }
}

/// Decodes a message. `connection` is the form of the connection.
pub fn decode(text: &str, connection: &Form) -> Decoded {
    let mut form = connection.clone();
    let call = read_message(text, &mut form);
    form.decoded(call)
}

fn read_message(text: &str, form: &mut Form) -> Result<Call, Fault> {
    let sent: Value = json::read(text.as_bytes())
        .map_err(|error| Fault::new(FaultKind::ParseError, format!("The message cannot be read as JSON: {error}.")))?;
    if let Value::Object(envelope) = &sent {
        form.id = rpc::id(envelope).unwrap_or_else(|| form.id.clone());
    }
    let mut envelope = rpc::whole(Some(sent))?;
    if !envelope.contains_key("method") && (envelope.contains_key("result") || envelope.contains_key("error")) {
        form.is_notification = true;
        let id = envelope.remove("id").unwrap_or_default();
        return Ok(Call::Reply { id, result: envelope.remove("result") });
    }
    form.is_notification = !envelope.contains_key("id");
    let name = rpc::method_name(&envelope)?;
    let members = match envelope.remove("params") {
        Some(Value::Object(members)) => members,
        None | Some(Value::Null) => Object::new(),
        Some(_) => return Err(Fault::field("params", "must be an object.")),
    };
    call(SentCall { name, members }, text, form)
}

fn call(mut sent: SentCall, text: &str, form: &mut Form) -> Result<Call, Fault> {
    Ok(match sent.name.as_str() {
        "initialize" => introduction(&mut sent, form)?,
        "session/new" => Call::Open(new_session(&mut sent, form)?),
        "session/load" => Call::Open(Open::Load(known_session(&mut sent, form)?)),
        "session/resume" => Call::Open(Open::Resume(known_session(&mut sent, form)?)),
        "session/list" => {
            let cursor: Option<String> = sent.optional("cursor")?;
            let what = "must be the nextCursor of a list.";
            let read = |cursor: String| read_cursor(&cursor).ok_or_else(|| wrong(&sent.name, "cursor", what));
            let after = cursor.map(read).transpose()?;
            Call::Sessions { workspace: sent.optional("cwd")?, after }
        }
        "session/close" => {
            form.prompt_answer = PromptAnswer::Nothing;
            Call::Leave { task: sent.required("sessionId")? }
        }
        "session/delete" => Call::Delete { task: sent.required("sessionId")? },
        "session/prompt" => prompt(&mut sent, text)?,
        "session/cancel" => Call::TakeBack { task: sent.required("sessionId")? },
        "$/cancel_request" => Call::Recall { id: sent.required("requestId")? },
        "session/set_mode" => {
            form.prompt_answer = PromptAnswer::Nothing;
            let id: String = sent.required("modeId")?;
            let mode = mode_of(&id).ok_or_else(|| wrong(&sent.name, "modeId", "is no mode of this agent."))?;
            Call::Tune { task: sent.required("sessionId")?, mode: Some(mode), model: None }
        }
        "session/set_config_option" => {
            form.prompt_answer = PromptAnswer::Options;
            let (id, value): (String, String) = (sent.required("configId")?, sent.required("value")?);
            let task = sent.required("sessionId")?;
            match id.as_str() {
                MODE => {
                    let mode =
                        mode_of(&value).ok_or_else(|| wrong(&sent.name, "value", "is no mode of this agent."))?;
                    Call::Tune { task, mode: Some(mode), model: None }
                }
                MODEL => Call::Tune { task, mode: None, model: Some(value) },
                _ => return Err(wrong(&sent.name, "configId", "must be mode or model.")),
            }
        }
        name => {
            let message = format!("Method not found: {name}. This is ACP version 1, without authentication.");
            return Err(Fault::new(FaultKind::MethodNotFound, message));
        }
    })
}

/// Reads `initialize`, and puts the client's capabilities into the form.
fn introduction(sent: &mut SentCall, form: &mut Form) -> Result<Call, Fault> {
    let _: u64 = sent.required("protocolVersion")?;
    let given: Object = sent.optional("clientCapabilities")?.unwrap_or_default();
    let has = |path: [&str; 2]| given.get(path[0]).and_then(|group| group.get(path[1])).is_some_and(Value::is_object);
    form.capabilities = Capabilities {
        forms: has(["elicitation", "form"]),
        notices: has(["session", "notices"]),
        compaction: has(["session", "compaction"]),
    };
    let info: Object = sent.optional("clientInfo")?.unwrap_or_default();
    let name = info.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.map(|name| name.chars().filter(|c| !c.is_control()).take(CLIENT_NAME_CHARS).collect());
    Ok(Call::Introduce(Introduction { name }))
}

fn new_session(sent: &mut SentCall, form: &Form) -> Result<Open, Fault> {
    let cwd: String = sent.required("cwd")?;
    if form.dialect.unaddressed == Unaddressed::Session {
        return Ok(Open::Live);
    }
    let servers = servers(sent, form)?;
    if !cwd.starts_with('/') {
        return Err(wrong(&sent.name, "cwd", "must be an absolute path."));
    }
    let directories = directories(sent)?;
    let settings = Settings { workspace: Some(cwd), directories, servers, ..Settings::default() };
    Ok(Open::New(Create { context: None, settings, traits: TaskTraits::SESSION }))
}

fn known_session(sent: &mut SentCall, form: &Form) -> Result<KnownSession, Fault> {
    let directories = directories(sent)?;
    Ok(KnownSession { task: sent.required("sessionId")?, servers: servers(sent, form)?, directories })
}

/// The additional directories of a session.
fn directories(sent: &mut SentCall) -> Result<Vec<String>, Fault> {
    const NAME: &str = "additionalDirectories";
    let directories: Vec<String> = sent.optional(NAME)?.unwrap_or_default();
    if directories.iter().any(|dir| !dir.starts_with('/')) {
        return Err(wrong(&sent.name, NAME, "must be absolute paths."));
    }
    if directories.len() > INCLUDED_DIRECTORIES {
        return Err(wrong(&sent.name, NAME, &format!("has more than {INCLUDED_DIRECTORIES} directories.")));
    }
    Ok(directories)
}

/// The MCP servers that a client names for a session. A client that joins the live session cannot change its servers.
fn servers(sent: &mut SentCall, form: &Form) -> Result<Option<Secret>, Fault> {
    let mut servers: Vec<Object> = sent.optional("mcpServers")?.unwrap_or_default();
    for server in &mut servers {
        server.remove("_meta");
    }
    let is_none = servers.is_empty() || form.dialect.unaddressed == Unaddressed::Session;
    Ok((!is_none).then(|| Secret::new(json!(servers).to_string())))
}

/// A text that begins with the name of a slash command runs it; otherwise it is for the model.
fn prompt(sent: &mut SentCall, text: &str) -> Result<Call, Fault> {
    let task: TaskId = sent.required("sessionId")?;
    let blocks: Vec<Value> = sent.required("prompt")?;
    check_parts(&blocks, &sent.name, "prompt")?;
    let parts = parts(&blocks)?;
    if parts.is_empty() {
        return Err(wrong(&sent.name, "prompt", "is empty."));
    }
    let is_command = |text: &str| text.starts_with('/') && text.len() <= COMMAND_CHARS;
    let command = match parts.as_slice() {
        [Part { content: Content::Text(text), .. }] if is_command(text.as_str()) => Some(text.as_str().to_owned()),
        _ => None,
    };
    let message = Message::new(format!("acp-{:08x}", crc32(text.as_bytes())), Role::User, parts);
    let create = |lifecycle| {
        let traits = TaskTraits { lifecycle, ..TaskTraits::SESSION };
        Create { context: None, settings: Settings::default(), traits }
    };
    let said = Said::new(message.into(), Vec::new());
    let say = Say::new(said, Some(task.clone()), create(Lifecycle::Conversational), Mode::Wait);
    Ok(match command {
        None => Call::Say(say),
        Some(phrase) => Call::Execute(Execute {
            typed: Typed { phrase, args: Args::InPhrase },
            about: Some(task),
            create: create(Lifecycle::OneShot),
            mode: Mode::Wait,
            otherwise: Some(Box::new(say)),
        }),
    })
}

/// The text of all blocks as one part, then images and embedded files.
fn parts(blocks: &[Value]) -> Result<Vec<Part>, Fault> {
    let (mut text, mut rest) = (String::new(), Vec::new());
    for (i, block) in blocks.iter().enumerate() {
        let at = format!("prompt[{i}]");
        let need = |value: &Value, name: &str| {
            let found = value.get(name).and_then(Value::as_str).map(str::to_owned);
            found.ok_or_else(|| wrong(&at, name, "must be a string."))
        };
        match block["type"].as_str() {
            Some("text") => text.push_str(&need(block, "text")?),
            Some("image") => {
                let image = file(need(block, "data")?, need(block, "mimeType")?);
                check_media(&image, &at)?;
                rest.push(image);
            }
            Some("resource_link") => push_word(&mut text, &link_word(&need(block, "uri")?)),
            Some("resource") => {
                let resource = &block["resource"];
                let uri = need(resource, "uri")?;
                push_word(&mut text, &path_of(&uri).unwrap_or_else(|| uri.clone()));
                match resource["blob"].as_str() {
                    Some(blob) => {
                        let media = resource["mimeType"].as_str().unwrap_or("application/octet-stream");
                        rest.push(file(blob.to_owned(), media.to_owned()));
                    }
                    None => rest.push(Part::text(format!("Content of {uri}:\n{}", need(resource, "text")?))),
                }
            }
            Some(_) | None => {
                return Err(wrong(&at, "type", "must be text, image, resource or resource_link."));
            }
        }
    }
    let text = (!text.is_empty()).then(|| Part::text(text));
    Ok(text.into_iter().chain(rest).collect())
}

fn file(data: String, media_type: String) -> Part {
    Part { media_type: Some(media_type), ..Part::of(Content::Bytes(data.into())) }
}

/// Appends a word to a text, separated by spaces.
fn push_word(text: &mut String, word: &str) {
    if text.chars().next_back().is_some_and(|last| !last.is_whitespace()) {
        text.push(' ');
    }
    text.push_str(word);
    text.push(' ');
}

/// A resource link as a word of the prompt. A file becomes `@path`, which attaches it if it is in the workspace.
fn link_word(uri: &str) -> String {
    let escaped = |path: String| {
        let mut word = String::from("@");
        for c in path.chars() {
            if c.is_whitespace() || c == '\\' {
                word.push('\\');
            }
            word.push(c);
        }
        word
    };
    path_of(uri).map_or_else(|| uri.to_owned(), escaped)
}

/// The path of a `file:` URI.
fn path_of(uri: &str) -> Option<String> {
    let path = uri.strip_prefix("file://").filter(|path| path.starts_with('/'))?;
    let path = path.split(['#', '?']).next().unwrap_or(path);
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let [first, after @ ..] = rest {
        let escape = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match escape.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok().filter(|path| !path.chars().any(char::is_control))
}
