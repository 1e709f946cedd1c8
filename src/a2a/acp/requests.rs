//! What a client sends: requests, notifications, and answers to our own requests.

use crate::a2a::acp::{Capabilities, MODE, MODEL, mode_of, read_cursor};
use crate::a2a::dialect::{PromptAnswer, Unaddressed};
use crate::a2a::form::{Decoded, Form};
use crate::a2a::native::Asked;
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

/// What the first message on a socket says about its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstWords {
    /// It speaks this protocol.
    Initialize,
    /// Nothing: it only complains about the greeting, as a client of this protocol does that is greeted in another dialect.
    Complaint,
    /// It speaks something else.
    Other,
}

pub fn first_words(text: &str) -> FirstWords {
    let sent: Value = json::read(text.as_bytes()).unwrap_or_default();
    if sent["method"] == "initialize" && sent["params"]["protocolVersion"].is_u64() {
        FirstWords::Initialize
    } else if sent["error"].is_object() && sent["id"].is_null() {
        FirstWords::Complaint
    } else {
        FirstWords::Other
    }
}

/// What a message asks for. `joined` is the form of the connection.
pub fn decode(text: &str, joined: &Form) -> Decoded {
    let mut form = joined.clone();
    let call = heard(text, &mut form);
    form.decoded(call)
}

fn heard(text: &str, form: &mut Form) -> Result<Call, Fault> {
    let sent: Value = json::read(text.as_bytes())
        .map_err(|error| Fault::new(FaultKind::ParseError, format!("The message cannot be read as JSON: {error}.")))?;
    if let Value::Object(envelope) = &sent {
        form.id = rpc::id(envelope).unwrap_or_else(|| form.id.clone());
    }
    let mut envelope = rpc::whole(Some(sent))?;
    if !envelope.contains_key("method") && (envelope.contains_key("result") || envelope.contains_key("error")) {
        form.silent = true;
        let id = envelope.remove("id").unwrap_or_default();
        return Ok(Call::Reply { id, result: envelope.remove("result") });
    }
    form.silent = !envelope.contains_key("id");
    let name = rpc::method_name(&envelope)?;
    let members = match envelope.remove("params") {
        Some(Value::Object(members)) => members,
        None | Some(Value::Null) => Object::new(),
        Some(_) => return Err(Fault::field("params", "must be an object.")),
    };
    call(Asked { name, members }, text, form)
}

fn call(mut asked: Asked, text: &str, form: &mut Form) -> Result<Call, Fault> {
    Ok(match asked.name.as_str() {
        "initialize" => introduction(&mut asked, form)?,
        "session/new" => Call::Open(new_session(&mut asked, form)?),
        "session/load" => Call::Open(Open::Load(known_session(&mut asked, form)?)),
        "session/resume" => Call::Open(Open::Resume(known_session(&mut asked, form)?)),
        "session/list" => {
            let cursor: Option<String> = asked.wish("cursor")?;
            let what = "must be the nextCursor of a list.";
            let read = |cursor: String| read_cursor(&cursor).ok_or_else(|| wrong(&asked.name, "cursor", what));
            let after = cursor.map(read).transpose()?;
            Call::Sessions { workspace: asked.wish("cwd")?, after }
        }
        "session/close" => {
            form.prompt_answer = PromptAnswer::Nothing;
            Call::Leave { task: asked.need("sessionId")? }
        }
        "session/delete" => Call::Delete { task: asked.need("sessionId")? },
        "session/prompt" => prompt(&mut asked, text)?,
        "session/cancel" => Call::TakeBack { task: asked.need("sessionId")? },
        "$/cancel_request" => Call::Recall { id: asked.need("requestId")? },
        "session/set_mode" => {
            form.prompt_answer = PromptAnswer::Nothing;
            let id: String = asked.need("modeId")?;
            let mode = mode_of(&id).ok_or_else(|| wrong(&asked.name, "modeId", "is no mode of this agent."))?;
            Call::Tune { task: asked.need("sessionId")?, mode: Some(mode), model: None }
        }
        "session/set_config_option" => {
            form.prompt_answer = PromptAnswer::Options;
            let (id, value): (String, String) = (asked.need("configId")?, asked.need("value")?);
            let task = asked.need("sessionId")?;
            match id.as_str() {
                MODE => {
                    let mode =
                        mode_of(&value).ok_or_else(|| wrong(&asked.name, "value", "is no mode of this agent."))?;
                    Call::Tune { task, mode: Some(mode), model: None }
                }
                MODEL => Call::Tune { task, mode: None, model: Some(value) },
                _ => return Err(wrong(&asked.name, "configId", "must be mode or model.")),
            }
        }
        name => {
            let message = format!("Method not found: {name}. This is ACP version 1, without authentication.");
            return Err(Fault::new(FaultKind::MethodNotFound, message));
        }
    })
}

/// The form keeps what the client can do for everything that it is sent.
fn introduction(asked: &mut Asked, form: &mut Form) -> Result<Call, Fault> {
    let _: u64 = asked.need("protocolVersion")?;
    let given: Object = asked.wish("clientCapabilities")?.unwrap_or_default();
    let has = |path: [&str; 2]| given.get(path[0]).and_then(|group| group.get(path[1])).is_some_and(Value::is_object);
    form.capabilities = Capabilities {
        forms: has(["elicitation", "form"]),
        notices: has(["session", "notices"]),
        compaction: has(["session", "compaction"]),
    };
    let info: Object = asked.wish("clientInfo")?.unwrap_or_default();
    let name = info.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.map(|name| name.chars().filter(|c| !c.is_control()).take(CLIENT_NAME_CHARS).collect());
    Ok(Call::Introduce(Introduction { name }))
}

fn new_session(asked: &mut Asked, form: &Form) -> Result<Open, Fault> {
    let cwd: String = asked.need("cwd")?;
    if form.dialect.unaddressed == Unaddressed::Session {
        return Ok(Open::Live);
    }
    let servers = servers(asked, form)?;
    if !cwd.starts_with('/') {
        return Err(wrong(&asked.name, "cwd", "must be an absolute path."));
    }
    let directories = directories(asked)?;
    let settings = Settings { workspace: Some(cwd), directories, servers, ..Settings::default() };
    Ok(Open::New(Create { context: None, settings, traits: TaskTraits::SESSION }))
}

fn known_session(asked: &mut Asked, form: &Form) -> Result<KnownSession, Fault> {
    let directories = directories(asked)?;
    Ok(KnownSession { task: asked.need("sessionId")?, servers: servers(asked, form)?, directories })
}

/// The directories beside the workspace.
fn directories(asked: &mut Asked) -> Result<Vec<String>, Fault> {
    const NAME: &str = "additionalDirectories";
    let directories: Vec<String> = asked.wish(NAME)?.unwrap_or_default();
    if directories.iter().any(|dir| !dir.starts_with('/')) {
        return Err(wrong(&asked.name, NAME, "must be absolute paths."));
    }
    if directories.len() > INCLUDED_DIRECTORIES {
        return Err(wrong(&asked.name, NAME, &format!("has more than {INCLUDED_DIRECTORIES} directories.")));
    }
    Ok(directories)
}

/// The MCP servers of a session. A client that joins the live session has no say in its servers.
fn servers(asked: &mut Asked, form: &Form) -> Result<Option<Secret>, Fault> {
    let mut servers: Vec<Object> = asked.wish("mcpServers")?.unwrap_or_default();
    for server in &mut servers {
        server.remove("_meta");
    }
    let is_none = servers.is_empty() || form.dialect.unaddressed == Unaddressed::Session;
    Ok((!is_none).then(|| Secret::new(json!(servers).to_string())))
}

/// A text that begins with the name of a slash command runs it; otherwise it is for the model.
fn prompt(asked: &mut Asked, text: &str) -> Result<Call, Fault> {
    let task: TaskId = asked.need("sessionId")?;
    let blocks: Vec<Value> = asked.need("prompt")?;
    check_parts(&blocks, &asked.name, "prompt")?;
    let parts = parts(&blocks)?;
    if parts.is_empty() {
        return Err(wrong(&asked.name, "prompt", "is empty."));
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
            Some("resource_link") => mention(&mut text, &linked(&need(block, "uri")?)),
            Some("resource") => {
                let resource = &block["resource"];
                let uri = need(resource, "uri")?;
                mention(&mut text, &path_of(&uri).unwrap_or_else(|| uri.clone()));
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

/// Adds a word to a text.
fn mention(text: &mut String, word: &str) {
    if text.chars().next_back().is_some_and(|last| !last.is_whitespace()) {
        text.push(' ');
    }
    text.push_str(word);
    text.push(' ');
}

/// A link as the prompt names it: files so that those of the workspace are attached.
fn linked(uri: &str) -> String {
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

/// The path that a URI of a file names.
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
