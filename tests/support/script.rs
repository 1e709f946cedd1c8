//! The language of the scripts for the fake model. A script is in the prompt, so that a test contains the answers of the model.
//!
//! The newest user text with a line that begins with a directive is the script. ` ;; ` separates answers: the next one is
//! due when tool results have come back. ` ++ ` joins the items of one answer. After the last answer the model says `Done.`
//!
//! | directive | answer |
//! |---|---|
//! | `STREAM n [delay_us [bytes]]` | n chunks of text, each stamped with the time it was written |
//! | `TEXT words` | one chunk of text |
//! | `THINK subject \| description` | a thought |
//! | `WRITE path [content]`, `REPLACE path old new`, `READ path`, `LS path`, `SHELL command` | that tool call |
//! | `CALL name {json}` | any tool call |
//! | `SIGNED name {json}` | a tool call with a thought signature |
//! | `KEYED id name {json}` | a tool call with this id, and a thought signature of its own |
//! | `SEAL word` | no text, and a thought signature of its own, as newer models end their answers |
//! | `PARALLEL` | a `write_file` and a `run_shell_command` call in one chunk |
//! | `CITE uri` | text with a citation |
//! | `ERRnnn [times]` | an HTTP error, the first `times` attempts only; the items behind it come afterwards |
//! | `REFUSES name` | status 400 as long as this tool is declared, which the error names; with `?` before the name it names none |
//! | `HANG` | no answer until the caller gives up |
//! | `HOLD` | no further item until the test releases the model |
//! | `CUT n` | n chunks, then the connection breaks |
//! | `BREAK` | the connection breaks, at the first attempt only |
//! | `GARBAGE` | an event that is not JSON |
//! | `EMPTY` | a stream without candidates |
//! | `FINISH reason` | text that ends for this reason |

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Stream { count: u64, delay_us: u64, bytes: usize },
    Text(String),
    Think { subject: String, description: String },
    Calls(Vec<Call>),
    Cite(String),
    Hold,
    Cut(u64),
    Break,
    Seal { signature: String },
    Garbage,
    Empty,
    Finish(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub id: Option<String>,
    pub name: String,
    pub args: Value,
    pub signature: Option<String>,
}

impl Call {
    /// The part of an answer that makes the call.
    pub fn part(&self) -> Value {
        let mut part = json!({ "functionCall": { "name": self.name, "args": self.args } });
        if let Some(id) = &self.id {
            part["functionCall"]["id"] = json!(id);
        }
        if let Some(signature) = &self.signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Items(Vec<Item>),
    Error {
        code: u16,
        times: u64,
        /// The answer after that many errors.
        then: Vec<Item>,
    },
    /// An error while this tool is declared.
    Refuse {
        tool: String,
        then: Vec<Item>,
    },
    Hang,
}

/// The script of a model request, and the answer of the script to this request.
pub fn answer_to(request: &Value) -> (String, Answer) {
    let (line, number) = newest(request);
    let answer = line.split(" ;; ").nth(number).map_or_else(done, answer);
    (line, answer)
}

fn done() -> Answer {
    Answer::Items(vec![Item::Text("Done.".into())])
}

/// The newest scripted line, and how many rounds of tool results came after it.
fn newest(request: &Value) -> (String, usize) {
    let mut rounds = 0;
    let contents = request["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    for content in contents.iter().rev().filter(|c| c["role"] != "model") {
        let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        rounds += usize::from(parts.iter().any(|part| part["functionResponse"].is_object()));
        let texts = parts.iter().rev().filter_map(|part| part["text"].as_str());
        if let Some(line) = texts.flat_map(str::lines).find(|line| is_script(line.trim())) {
            return (line.trim().to_string(), rounds);
        }
    }
    (String::new(), rounds)
}

fn is_script(line: &str) -> bool {
    let word = line.split(' ').next().unwrap_or("");
    let error = word.strip_prefix("ERR").is_some_and(|code| code.parse::<u16>().is_ok());
    error
        || matches!(word, "STREAM" | "TEXT" | "THINK" | "WRITE" | "REPLACE" | "READ" | "LS" | "SHELL" | "CALL")
        || matches!(word, "SIGNED" | "PARALLEL" | "CITE" | "HANG" | "HOLD" | "CUT" | "GARBAGE" | "EMPTY" | "FINISH")
        || matches!(word, "KEYED" | "SEAL" | "BREAK" | "REFUSES")
}

fn answer(text: &str) -> Answer {
    let text = text.trim();
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    if word == "HANG" {
        return Answer::Hang;
    }
    if word == "REFUSES" {
        let (tool, then) = rest.split_once(" ++ ").unwrap_or((rest, "TEXT Done."));
        return Answer::Refuse { tool: tool.into(), then: items(then) };
    }
    if let Some(code) = word.strip_prefix("ERR").and_then(|code| code.parse().ok()) {
        let times = rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(u64::MAX);
        let then = rest.split_once(" ++ ").map_or("TEXT Done.", |(_, then)| then);
        return Answer::Error { code, times, then: items(then) };
    }
    Answer::Items(items(text))
}

fn items(text: &str) -> Vec<Item> {
    text.split(" ++ ").map(|part| item(part.trim())).collect()
}

/// A thought signature that differs for each word.
fn signature(word: &str) -> String {
    STANDARD.encode(format!("signature of {word}"))
}

fn item(text: &str) -> Item {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let words: Vec<&str> = rest.split(' ').collect();
    let word_at = |n: usize| words.get(n).copied().unwrap_or("");
    let number_at = |n: usize, default: u64| word_at(n).parse().unwrap_or(default);
    match word {
        "STREAM" => {
            Item::Stream { count: number_at(0, 1), delay_us: number_at(1, 0), bytes: number_at(2, 40) as usize }
        }
        "THINK" => {
            let (subject, description) = rest.split_once('|').unwrap_or((rest, "weighing it"));
            Item::Think { subject: subject.trim().into(), description: description.trim().into() }
        }
        "WRITE" => {
            let (path, content) = rest.split_once(' ').unwrap_or((rest, "hello from the model\n"));
            call("write_file", json!({ "file_path": path, "content": content }))
        }
        "REPLACE" => call(
            "replace",
            json!({
                "file_path": word_at(0), "instruction": "Change the text as asked.",
                "old_string": word_at(1), "new_string": word_at(2),
            }),
        ),
        "READ" => call("read_file", json!({ "file_path": rest })),
        "LS" => call("list_directory", json!({ "dir_path": rest })),
        "SHELL" => call("run_shell_command", shell(rest)),
        "CALL" => Item::Calls(vec![any_call(rest)]),
        "SIGNED" => {
            Item::Calls(vec![Call { signature: Some("c2lnbmVkIGJ5IHRoZSBtb2RlbA==".into()), ..any_call(rest) }])
        }
        "KEYED" => {
            let (id, call) = rest.split_once(' ').unwrap_or((rest, ""));
            Item::Calls(vec![Call { id: Some(id.into()), signature: Some(signature(id)), ..any_call(call) }])
        }
        "SEAL" => Item::Seal { signature: signature(rest) },
        "BREAK" => Item::Break,
        "PARALLEL" => {
            let file = json!({ "file_path": "parallel.txt", "content": "one\n" });
            Item::Calls(vec![plain("write_file", file), plain("run_shell_command", shell("mkdir -p made; echo two"))])
        }
        "CITE" => Item::Cite(rest.into()),
        "HOLD" => Item::Hold,
        "CUT" => Item::Cut(number_at(0, 1)),
        "GARBAGE" => Item::Garbage,
        "EMPTY" => Item::Empty,
        "FINISH" => Item::Finish(rest.into()),
        "TEXT" => Item::Text(rest.into()),
        _ => Item::Text(format!("The fake model does not know {word:?}.")),
    }
}

fn shell(command: &str) -> Value {
    json!({ "command": command, "description": "Run a command" })
}

fn plain(name: &str, args: Value) -> Call {
    Call { id: None, name: name.into(), args, signature: None }
}

fn call(name: &str, args: Value) -> Item {
    Item::Calls(vec![plain(name, args)])
}

/// Arguments that are not JSON become a string, so that tests can make malformed calls.
fn any_call(text: &str) -> Call {
    let (name, args) = text.split_once(' ').unwrap_or((text, "{}"));
    plain(name, serde_json::from_str(args).unwrap_or_else(|_| json!(args)))
}
