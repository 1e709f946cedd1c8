//! Parts, token counts and finish reasons in the JSON of the Gemini API. They are here and not in `model` because journals of version 1
//! contain them, and some dialects show token counts in this form.

use crate::task::log::answer::{Content, Finish, Part, Request, Usage};
use crate::task::log::media::Media;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The name of this API in [`crate::task::log::answer::Answer::api`].
pub const API: &str = "gemini";

/// Converts a part to our type; `request` is its call, if it has one. If our type cannot represent all of the part, the JSON is kept too.
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

/// Converts a part to the JSON of the API. In place of media that is not in memory there is a text.
pub fn write_part(part: &Part) -> Value {
    let mut json = match (&part.content, &part.raw) {
        (Content::Media(media), raw) => match (media.content.data(), raw) {
            (Some(data), Some(raw)) => {
                let mut raw = raw.clone();
                raw["inlineData"]["data"] = data.into();
                return raw;
            }
            (_, _) => write_media(media),
        },
        (_, Some(raw)) => return raw.clone(),
        (Content::Text(text), None) => json!({ "text": text }),
        (Content::Thought(text), None) => json!({ "text": text, "thought": true }),
        (Content::Call(Request { name, args, api_id: None, .. }), None) => {
            json!({"functionCall": {"name": name, "args": args}})
        }
        (Content::Call(Request { name, args, api_id: Some(id), .. }), None) => {
            json!({"functionCall": {"id": id, "name": name, "args": args}})
        }
        (Content::Opaque(json), None) => return json.clone(),
    };
    if let Some(signature) = &part.signature {
        json["thoughtSignature"] = signature.as_str().into();
    }
    json
}

/// Converts media to a part, or to a text if the media is not in memory.
pub fn write_media(media: &Media) -> Value {
    let Media { mime, content } = media;
    match content.data() {
        Some(data) => json!({"inlineData": {"mimeType": mime, "data": data}}),
        None => {
            let bytes = content.bytes();
            json!({"text": format!("[Media of {bytes} bytes ({mime}) that is not part of this request any more.]")})
        }
    }
}

fn media(inline: &Value) -> Option<Media> {
    let text = |name: &str| inline.get(name)?.as_str();
    Some(Media { mime: text("mimeType")?.to_owned(), content: text("data")?.into() })
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

/// Token counts in the JSON of the API.
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
