//! The rules of the Gemini API for the body of a request, from its public schema and documentation. The API refuses a conversation that
//! breaks one of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// The types that inline data may have, and those that it may have inside of a function response.
const MEDIA: [&str; 17] = [
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
    "application/pdf",
    "audio/wav",
    "audio/mpeg",
    "audio/aiff",
    "audio/aac",
    "audio/ogg",
    "audio/flac",
    "audio/mp4",
    "video/mp4",
    "video/mpeg",
    "video/quicktime",
    "video/webm",
];
const INSIDE: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "application/pdf"];

/// Panics with the rule that the request breaks.
pub fn check(body: &Value) {
    if let Err(why) = check_rules(body) {
        panic!("{why}\n{body:#}");
    }
}

fn check_rules(body: &Value) -> Result<(), String> {
    only_members(body, &["contents", "systemInstruction", "tools", "generationConfig"])?;
    let config = ["temperature", "topP", "topK", "thinkingConfig"];
    only_members(&body["generationConfig"], &config)?;
    rule(body["systemInstruction"]["parts"][0]["text"].is_string(), "there is a system instruction")?;
    declarations(body)?;
    rule(body.to_string().len() < 20_000_000, "a request has at most 20 MB")?;
    let turns = list(&body["contents"]);
    rule(!turns.is_empty() && turns[0]["role"] == "user", "the user begins")?;
    rule(turns.last().is_some_and(|turn| turn["role"] == "user"), "the model is to answer")?;
    rule(turns.windows(2).all(|pair| pair[0]["role"] != pair[1]["role"]), "roles alternate")?;
    for (at, turn) in turns.iter().enumerate() {
        turn_is_valid(turn).map_err(|why| format!("turn {at}: {why}"))?;
        answered(turn, turns.get(at + 1)).map_err(|why| format!("turn {at}: {why}"))?;
        let before = at.checked_sub(1).map_or(0, |before| calls(&turns[before]).count());
        rule(responses(turn).count() == before, &format!("turn {at}: responses only follow calls"))?;
    }
    signed(turns)
}

fn declarations(body: &Value) -> Result<(), String> {
    let tools = list(&body["tools"]);
    rule(tools.len() <= 1, "the functions are one tool")?;
    for tool in tools.iter().flat_map(|tools| list(&tools["functionDeclarations"])) {
        only_members(tool, &["name", "description", "parametersJsonSchema"])?;
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte));
        rule(tool["name"].as_str().is_some_and(|name| name.len() < 64 && is_name(name)), "functions have short names")?;
        rule(tool["parametersJsonSchema"]["type"] == "object", "parameters are an object")?;
    }
    Ok(())
}

fn turn_is_valid(turn: &Value) -> Result<(), String> {
    only_members(turn, &["role", "parts"])?;
    let is_model = turn["role"] == "model";
    rule(is_model || turn["role"] == "user", "the role is user or model")?;
    rule(!list(&turn["parts"]).is_empty(), "a turn has parts")?;
    for part in list(&turn["parts"]) {
        let members = part.as_object().ok_or("a part is an object")?;
        let data: Vec<&String> = members.keys().filter(|name| *name != "thoughtSignature").collect();
        let [name] = data[..] else {
            return Err(format!("a part has one content: {part}"));
        };
        let value = &part[name];
        rule(is_model || !members.contains_key("thoughtSignature"), "only the model signs")?;
        match name.as_str() {
            "text" => rule(value.is_string(), "text is a string")?,
            "functionCall" => {
                only_members(value, &["id", "name", "args"])?;
                rule(is_model && value["name"].is_string() && value["args"].is_object(), "the model calls functions")?;
            }
            "functionResponse" => {
                only_members(value, &["id", "name", "response", "parts"])?;
                rule(!is_model && value["response"].is_object(), "the user responds with an object")?;
                list(&value["parts"]).iter().try_for_each(|part| media(&part["inlineData"], &INSIDE))?;
            }
            "inlineData" => media(value, &MEDIA)?,
            "fileData" => only_members(value, &["mimeType", "fileUri"])?,
            other => return Err(format!("{other} is no content of a part")),
        }
    }
    Ok(())
}

/// All calls of a model turn are answered at the beginning of the next turn, in their order.
fn answered(turn: &Value, next: Option<&Value>) -> Result<(), String> {
    let asked: Vec<&Value> = calls(turn).collect();
    let given = next.map(|next| list(&next["parts"])).unwrap_or_default();
    for (at, call) in asked.iter().enumerate() {
        let response = given.get(at).map(|part| &part["functionResponse"]).unwrap_or(&Value::Null);
        let same = |name: &str| response[name] == call[name];
        rule(same("name") && same("id"), &format!("{} is answered by {response}", call["name"]))?;
    }
    Ok(())
}

/// After the last prompt of the user, the first call of each model turn has a signature.
fn signed(turns: &[Value]) -> Result<(), String> {
    let is_prompt = |turn: &Value| {
        turn["role"] == "user"
            && responses(turn).count() == 0
            && list(&turn["parts"]).iter().any(|part| !part["text"].is_null())
    };
    let active = turns.iter().rposition(is_prompt).unwrap_or(0);
    for turn in &turns[active..] {
        let first = list(&turn["parts"]).iter().find(|part| part["functionCall"].is_object());
        rule(first.is_none_or(|part| part["thoughtSignature"].is_string()), "the first call of a turn is signed")?;
    }
    Ok(())
}

fn media(data: &Value, types: &[&str]) -> Result<(), String> {
    only_members(data, &["mimeType", "data"])?;
    rule(
        data["mimeType"].as_str().is_some_and(|mime| types.contains(&mime)),
        &format!("{} is known", data["mimeType"]),
    )?;
    rule(data["data"].as_str().is_some_and(|data| STANDARD.decode(data).is_ok()), "data is base64")
}

fn calls(turn: &Value) -> impl Iterator<Item = &Value> {
    list(&turn["parts"]).iter().map(|part| &part["functionCall"]).filter(|call| call.is_object())
}

fn responses(turn: &Value) -> impl Iterator<Item = &Value> {
    list(&turn["parts"]).iter().map(|part| &part["functionResponse"]).filter(|response| response.is_object())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn only_members(value: &Value, names: &[&str]) -> Result<(), String> {
    let none = Map::new();
    let unknown = value.as_object().unwrap_or(&none).keys().find(|name| !names.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| Err(format!("{name} is unknown")))
}

fn rule(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("broken rule: {what}")) }
}
