//! Parts, token counts and finish reasons in the spelling of the Gemini API. They are here and not in `model` because journals of
//! version 1 contain them, and some dialects show token counts in this form.

use crate::task::log::answer::{Content, Finish, Media, MediaContent, Part, Request, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The name of this API in [`crate::task::log::answer::Answer::api`].
pub const API: &str = "gemini";

/// Our form of a part; `request` is its call, if it is one. What our form does not say is kept as it came.
pub fn read_part(sent: Map<String, Value>, request: Option<Request>) -> Part {
    let is_thought = sent.get("thought") == Some(&Value::Bool(true));
    let content = match (request, sent.get("text")) {
        (Some(request), _) => Content::Call(request),
        (None, Some(Value::String(text))) if is_thought => Content::Thought(text.clone()),
        (None, Some(Value::String(text))) => Content::Text(text.clone()),
        (None, Some(_) | None) => match sent.get("inlineData").and_then(media) {
            Some(media) => Content::Media(media),
            None => return Part::new(Content::Opaque(sent.into())),
        },
    };
    let signature = sent.get("thoughtSignature").and_then(Value::as_str).map(str::to_owned);
    let part = Part { signature, ..Part::new(content) };
    let mut sent = Value::Object(sent);
    if write_part(&part) == sent {
        return part;
    }
    if let Content::Media(_) = part.content
        && let Some(inline) = sent["inlineData"].as_object_mut()
    {
        inline.remove("data");
    }
    Part { raw: Some(sent), ..part }
}

/// The part as the API sent it, or would have. Media that cannot be read any more is a text.
pub fn write_part(part: &Part) -> Value {
    let mut json = match (&part.content, &part.raw) {
        (Content::Media(Media { mime, content: MediaContent::Stored(blob) }), _) => {
            json!({"text": format!("[Media of {} bytes ({mime}) that cannot be read any more.]", blob.bytes)})
        }
        (Content::Media(Media { content: MediaContent::Inline { data }, .. }), Some(raw)) => {
            let mut raw = raw.clone();
            raw["inlineData"]["data"] = data.as_str().into();
            return raw;
        }
        (_, Some(raw)) => return raw.clone(),
        (Content::Text(text), None) => json!({ "text": text }),
        (Content::Thought(text), None) => json!({ "text": text, "thought": true }),
        (Content::Call(Request { name, args, api_id: None, .. }), None) => {
            json!({"functionCall": {"name": name, "args": args}})
        }
        (Content::Call(Request { name, args, api_id: Some(id), .. }), None) => {
            json!({"functionCall": {"id": id, "name": name, "args": args}})
        }
        (Content::Media(Media { mime, content: MediaContent::Inline { data } }), None) => {
            json!({"inlineData": {"mimeType": mime, "data": data}})
        }
        (Content::Opaque(json), None) => return json.clone(),
    };
    if let Some(signature) = &part.signature {
        json["thoughtSignature"] = signature.as_str().into();
    }
    json
}

fn media(inline: &Value) -> Option<Media> {
    let text = |name: &str| Some(inline.get(name)?.as_str()?.to_owned());
    Some(Media { mime: text("mimeType")?, content: MediaContent::Inline { data: text("data")? } })
}

pub fn finish(word: &str) -> Finish {
    match word {
        "STOP" => Finish::Stop,
        "MAX_TOKENS" => Finish::OutputLimit,
        "SAFETY" => Finish::Safety,
        "RECITATION" => Finish::Recitation,
        "FINISH_REASON_UNSPECIFIED" => Finish::Unspecified,
        word => Finish::Other(word.to_owned()),
    }
}

/// Token counts.
#[derive(Serialize, Deserialize)]
pub struct UsageMetadata(#[serde(with = "Counts")] pub Usage);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage")]
struct Counts {
    #[serde(rename = "promptTokenCount", default)]
    prompt: u64,
    #[serde(rename = "candidatesTokenCount", default)]
    output: u64,
    #[serde(rename = "totalTokenCount", default)]
    total: u64,
    #[serde(rename = "cachedContentTokenCount", skip_serializing_if = "Option::is_none")]
    cached: Option<u64>,
    #[serde(rename = "thoughtsTokenCount", skip_serializing_if = "Option::is_none")]
    thoughts: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount", skip_serializing_if = "Option::is_none")]
    tools: Option<u64>,
}
