//! Converts the results of tools, prompts and resources for the model and for people. Returns the whole text; the caller limits its length
//! and marks it as untrusted before the model gets it.

use crate::base::text::size;
use crate::limits::mcp::{MEDIA_BYTES, RESULT_MEDIA, RESULT_MEDIA_BYTES};
use crate::mcp::text::clean_line;
use crate::task::log::media::Media;
use crate::task::media_type;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    pub is_error: bool,
    /// For the model.
    pub text: String,
    /// For people.
    pub shown: String,
    /// For the model, beside the text.
    pub media: Vec<Media>,
    /// URIs of resource links in the result. The task may read them.
    pub links: Vec<String>,
    /// Whether the result has structured content.
    pub is_structured: bool,
}

const NO_OUTPUT: &str = "(no output)";

/// Converts the result of a call.
pub fn read(result: &Value) -> Content {
    let mut writer = Writer::default();
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    blocks.iter().for_each(|block| writer.block(block));
    let structured = result.get("structuredContent").or(result.get("toolResult")).filter(|value| !value.is_null());
    if let Some(structured) = structured {
        let text_of = |block: &Value| serde_json::from_str::<Value>(block.get("text")?.as_str()?).ok();
        if !blocks.iter().filter_map(text_of).any(|text| text == *structured) {
            writer.add_for_all(structured.to_string());
        }
    }
    let is_error = result.get("isError").is_some_and(|error| *error == true || *error == "true");
    Content { is_error, is_structured: structured.is_some(), ..writer.content() }
}

/// Converts the result of `resources/read`.
pub fn read_resource(result: &Value) -> Content {
    let mut writer = Writer::default();
    let parts = result.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    parts.iter().for_each(|part| writer.resource(part, Audience::ALL));
    writer.content()
}

/// Converts the messages of a prompt, one after the other.
pub fn read_prompt(result: &Value) -> Content {
    let mut writer = Writer::default();
    for message in result.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default() {
        let content = message.get("content").unwrap_or(&Value::Null);
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        let assistant = message.get("role").is_some_and(|role| role == "assistant");
        writer.prefix = if assistant { "assistant: " } else { "" };
        blocks.iter().for_each(|block| writer.block(block));
    }
    writer.content()
}

/// The audience of a block.
#[derive(Clone, Copy)]
struct Audience {
    model: bool,
    people: bool,
}

impl Audience {
    const ALL: Audience = Audience { model: true, people: true };

    fn of(block: &Value) -> Audience {
        let named = block.get("annotations").and_then(|annotations| annotations.get("audience")?.as_array());
        match named.filter(|named| !named.is_empty()) {
            Some(named) => Audience {
                model: named.iter().any(|one| one == "assistant"),
                people: named.iter().any(|one| one == "user"),
            },
            None => Audience::ALL,
        }
    }
}

#[derive(Default)]
struct Writer {
    text: Vec<String>,
    shown: Vec<String>,
    media: Vec<Media>,
    media_bytes: usize,
    links: Vec<String>,
    prefix: &'static str,
}

impl Writer {
    fn add(&mut self, text: String, audience: Audience) {
        let text = format!("{}{text}", self.prefix);
        if audience.people {
            self.shown.push(text.clone());
        }
        if audience.model {
            self.text.push(text);
        }
    }

    fn add_for_all(&mut self, text: String) {
        self.add(text, Audience::ALL);
    }

    fn block(&mut self, block: &Value) {
        let audience = Audience::of(block);
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => self.add(text("text").to_owned(), audience),
            "image" => self.media(text("mimeType"), text("data"), audience),
            "audio" => {
                let size = STANDARD.decode(text("data")).map_or(0, |bytes| bytes.len());
                self.add(note(text("mimeType"), size, "the model cannot hear it"), audience);
            }
            "resource" => self.resource(block.get("resource").unwrap_or(&Value::Null), audience),
            "resource_link" => self.link(block, audience),
            other => self.add(format!("[content of the unknown type \"{}\"]", clean_line(other, 80)), audience),
        }
    }

    fn resource(&mut self, resource: &Value, audience: Audience) {
        let text = |name: &str| resource.get(name).and_then(Value::as_str);
        let uri = clean_line(text("uri").unwrap_or_default(), 2_000);
        match (text("text"), text("blob")) {
            (Some(text), _) if uri.is_empty() => self.add(text.to_owned(), audience),
            (Some(text), _) => self.add(format!("{uri}\n{text}"), audience),
            (None, Some(blob)) => {
                self.add(uri, audience);
                self.media(text("mimeType").unwrap_or_default(), blob, audience);
            }
            (None, None) => self.add(format!("{uri} [empty resource]"), audience),
        }
    }

    fn link(&mut self, block: &Value, audience: Audience) {
        let text = |name: &str| block.get(name).and_then(Value::as_str).map(|text| clean_line(text, 2_000));
        let uri = text("uri").unwrap_or_default();
        let name = text("title").or_else(|| text("name")).unwrap_or_default();
        let size = block.get("size").and_then(Value::as_u64).map(spell);
        let facts: Vec<String> = text("mimeType").into_iter().chain(size).collect();
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        self.add(format!("Resource: {name} {uri}{facts}"), audience);
        self.links.push(uri);
    }

    /// Adds media that the model can read to `media`, and a note for other media.
    fn media(&mut self, mime: &str, data: &str, audience: Audience) {
        let Ok(bytes) = STANDARD.decode(data.trim()) else {
            return self.add(note(mime, data.len() * 3 / 4, "it is not valid base64"), audience);
        };
        // The type is determined from the bytes, because the API refuses media whose declared type is wrong.
        let kind = media_type::of(&bytes).filter(|kind| kind.starts_with("image/") || *kind == "application/pdf");
        let why = match kind {
            None => "the model cannot read this type",
            Some(_) if bytes.len() > MEDIA_BYTES => "it is too large",
            Some(_) if self.media.len() == RESULT_MEDIA => "there are too many",
            Some(_) if self.media_bytes + bytes.len() > RESULT_MEDIA_BYTES => "all of them are too large",
            Some(kind) => {
                self.add(format!("[{kind}, {}]", spell(bytes.len() as u64)), audience);
                if audience.model {
                    self.media_bytes += bytes.len();
                    self.media.push(Media::new(kind, &bytes));
                }
                return;
            }
        };
        self.add(note(mime, bytes.len(), why), audience);
    }

    fn content(self) -> Content {
        let joined = |lines: Vec<String>| if lines.is_empty() { NO_OUTPUT.to_owned() } else { lines.join("\n") };
        Content {
            text: joined(self.text),
            shown: joined(self.shown),
            media: self.media,
            links: self.links,
            ..Content::default()
        }
    }
}

/// The note for media that the model does not get.
fn note(mime: &str, bytes: usize, why: &str) -> String {
    format!("[{}, {}: not shown to the model, {why}]", clean_line(mime, 80), spell(bytes as u64))
}

fn spell(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} bytes") } else { size::spell(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn png(bytes: usize) -> Value {
        let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
        image.resize(bytes, 0);
        json!({"type": "image", "mimeType": "image/png", "data": STANDARD.encode(image)})
    }

    #[test]
    fn check_42_the_text_of_an_error_is_exactly_that_of_the_server() {
        for is_error in [json!(true), json!("true")] {
            let content = read(&json!({"content": [text("disk\nfull")], "isError": is_error}));
            assert_eq!((content.is_error, content.text.as_str()), (true, "disk\nfull"));
        }
        assert!(!read(&json!({"content": [], "isError": "false"})).is_error);
    }

    #[test]
    fn check_43_an_image_is_media_and_not_text() {
        let content = read(&json!({"content": [text("see"), png(12_288)]}));
        assert_eq!(
            (content.text.as_str(), content.shown.as_str()),
            ("see\n[image/png, 12 KiB]", "see\n[image/png, 12 KiB]")
        );
        assert_eq!((content.media.len(), content.media[0].mime.as_str()), (1, "image/png"));
        let mislabelled = json!({"type": "image", "mimeType": "image/jpeg", "data": png(20)["data"]});
        assert_eq!(read(&json!({"content": [mislabelled]})).media[0].mime, "image/png");
        for (block, why) in [
            (json!({"type": "image", "mimeType": "image/bmp", "data": "Qk0="}), "cannot read"),
            (json!({"type": "image", "mimeType": "image/png", "data": "?"}), "base64"),
            (json!({"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}), "cannot hear"),
        ] {
            let content = read(&json!({"content": [block]}));
            assert!(content.media.is_empty() && content.text.contains(why), "{}", content.text);
        }
    }

    #[test]
    fn media_are_limited_in_number_and_size() {
        let count = |blocks: Vec<Value>| read(&json!({ "content": blocks })).media.len();
        assert_eq!(count(vec![png(20); RESULT_MEDIA]), RESULT_MEDIA);
        assert_eq!(count(vec![png(20); RESULT_MEDIA + 1]), RESULT_MEDIA);
        assert_eq!(count(vec![png(MEDIA_BYTES), png(MEDIA_BYTES + 1)]), 1);
        let rest = RESULT_MEDIA_BYTES - 2 * MEDIA_BYTES;
        assert_eq!(count(vec![png(MEDIA_BYTES), png(MEDIA_BYTES), png(rest + 1), png(rest)]), 3);
    }

    #[test]
    fn check_44_structured_content_that_is_the_text_is_sent_once() {
        let same = json!({"content": [text("{\"b\": 2, \"a\": [1]}")], "structuredContent": {"a": [1], "b": 2}});
        assert_eq!(read(&same).text, "{\"b\": 2, \"a\": [1]}");
        let other = read(&json!({"content": [text("two")], "structuredContent": {"a": 2}}));
        assert_eq!(other.text, "two\n{\"a\":2}");
        assert!(other.is_structured);
    }

    #[test]
    fn check_45_a_result_without_structured_content_is_a_success() {
        let content = read(&json!({"content": [text("x")]}));
        assert_eq!((content.is_error, content.is_structured, content.text.as_str()), (false, false, "x"));
        for nothing in
            [json!({}), json!({"content": []}), json!(null), json!({"content": 5, "structuredContent": null})]
        {
            assert_eq!(read(&nothing).text, NO_OUTPUT, "{nothing}");
        }
    }

    #[test]
    fn check_46_blocks_for_people_are_not_sent_to_the_model() {
        let block =
            |text: &str, audience: Value| json!({"type": "text", "text": text, "annotations": {"audience": audience}});
        let image = {
            let mut image = png(20);
            image["annotations"] = json!({"audience": ["user"]});
            image
        };
        let content = read(
            &json!({"content": [block("p", json!(["user"])), block("m", json!(["assistant"])), block("b", json!(["user", "assistant"])), block("e", json!([])), image]}),
        );
        assert_eq!(content.text, "m\nb\ne");
        assert_eq!(content.shown, "p\nb\ne\n[image/png, 20 bytes]");
        assert!(content.media.is_empty());
    }

    #[test]
    fn check_47_resources_and_links() {
        let content = read(&json!({"content": [
            {"type": "resource_link", "uri": "file:///a.md", "name": "a", "title": "The A", "mimeType": "text/markdown", "size": 2048},
            {"type": "resource_link", "uri": "x:y", "name": "b"},
            {"type": "resource", "resource": {"uri": "file:///c", "text": "C"}},
            {"type": "resource", "resource": {"uri": "file:///d", "mimeType": "image/png", "blob": png(20)["data"]}},
            {"type": "resource", "resource": {"uri": "file:///e", "mimeType": "x/y", "blob": "AAAA"}},
            {"type": "hologram"},
        ]}));
        assert_eq!(
            content.text,
            "Resource: The A file:///a.md (text/markdown, 2 KiB)\nResource: b x:y\nfile:///c\nC\nfile:///d\n[image/png, 20 bytes]\nfile:///e\n[x/y, 3 bytes: not shown to the model, the model cannot read this type]\n[content of the unknown type \"hologram\"]"
        );
        assert_eq!(content.links, ["file:///a.md", "x:y"]);
        assert_eq!(content.media.len(), 1);
        let read = read_resource(&json!({"contents": [{"uri": "a:b", "text": "T"}, {"uri": "a:c"}]}));
        assert_eq!(read.text, "a:b\nT\na:c [empty resource]");
    }

    #[test]
    fn check_48_long_texts_are_whole() {
        let long = "x".repeat(200_000);
        assert_eq!(read(&json!({"content": [text(&long)]})).text, long);
    }

    #[test]
    fn check_68_all_messages_of_a_prompt_are_used() {
        let messages = json!({"messages": [
            {"role": "user", "content": text("one")},
            {"role": "assistant", "content": text("two")},
            {"role": "user", "content": [text("three"), png(20)]},
        ]});
        let content = read_prompt(&messages);
        assert_eq!(content.text, "one\nassistant: two\nthree\n[image/png, 20 bytes]");
        assert_eq!(content.media.len(), 1);
    }
}
