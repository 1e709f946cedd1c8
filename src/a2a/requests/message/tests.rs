//! Tests of reading messages and their parts.

use super::*;
use serde_json::json;

fn read(value: Value) -> Result<Received, String> {
    message(value.as_object().unwrap(), Gaps::Refused).map_err(|fault| fault.message)
}

fn one_part(value: Value) -> Result<Part, String> {
    let sent = json!({"messageId": "m", "role": "user", "parts": [value]});
    read(sent).map(|received| received.message.parts[0].clone())
}

#[test]
fn all_members_of_a_message_are_kept() {
    let received = read(json!({
        "kind": "message", "messageId": "m-1", "role": "user", "taskId": "t-1", "contextId": "c-1",
        "parts": [{"kind": "text", "text": "hi", "metadata": {"a": 1}}],
        "metadata": {"b": 2}, "extensions": ["urn:x"], "referenceTaskIds": ["t-0"], "unknown": true
    }))
    .unwrap();
    let mut part = Part::text("hi");
    part.metadata = json!({"a": 1}).as_object().cloned();
    assert_eq!(
        received.message,
        Message {
            id: "m-1".into(),
            role: Role::User,
            parts: vec![part],
            metadata: json!({"b": 2}).as_object().cloned(),
            extensions: vec!["urn:x".into()],
            references: vec!["t-0".into()],
        }
    );
    assert_eq!(received.task, Some("t-1".into()));
    assert_eq!(received.context, Some("c-1".into()));
}

#[test]
fn other_formats_of_a_message() {
    let received = read(json!({
        "message_id": "m", "role": "ROLE_USER", "task_id": "", "context_id": null,
        "content": [{"text": "a"}]
    }))
    .unwrap();
    assert_eq!(received.message.parts, [Part::text("a")]);
    assert_eq!((received.task, received.context), (None, None));
}

#[test]
fn the_brief_form_needs_neither_id_nor_role() {
    let received = read(json!({"content": {"text": "hi"}})).unwrap();
    assert_eq!(received.message.parts, [Part::text("hi")]);
    assert_eq!(received.message.role, Role::User);
    assert_eq!(received.message.id, read(json!({"content": {"text": "hi"}})).unwrap().message.id);
    let data = read(json!({"content": {"data": {"x": 1}}})).unwrap();
    assert_eq!(data.message.parts, [Part::data(json!({"x": 1}))]);
}

#[test]
fn faults_name_the_missing_or_wrong_member() {
    let whole = json!({"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]});
    for (name, value, expected) in [
        ("messageId", None, "message.messageId is required."),
        ("messageId", Some(json!(1)), "message.messageId must be a string."),
        ("role", None, "message.role is required."),
        ("role", Some(json!(3)), "message.role must be user or agent; in 1.0 ROLE_USER or ROLE_AGENT."),
        ("role", Some(json!("system")), "message.role must be user or agent; in 1.0 ROLE_USER or ROLE_AGENT."),
        ("parts", None, "message.parts is required."),
        ("parts", Some(json!([])), "message.parts is required."),
        ("parts", Some(json!("x")), "message.parts must be a list."),
        ("parts", Some(json!(["x"])), "message.parts[0] must be an object."),
        ("taskId", Some(json!(1)), "message.taskId must be a string."),
        ("metadata", Some(json!([])), "message.metadata must be an object."),
        ("extensions", Some(json!([1])), "message.extensions must be a list of strings."),
        ("contextId", Some(json!("a\nb")), "message.contextId must be 1 to 128 printable characters."),
    ] {
        let mut sent = whole.clone();
        let members = sent.as_object_mut().unwrap();
        match value {
            Some(value) => members.insert(name.into(), value),
            None => members.remove(name),
        };
        assert_eq!(read(sent).unwrap_err(), expected);
    }
}

#[test]
fn context_ids_up_to_the_limit() {
    let of = |n: usize| {
        let sent = json!({"contextId": "ü".repeat(n)});
        context(sent.as_object().unwrap(), "body").is_ok()
    };
    assert!(of(CONTEXT_ID_CHARS));
    assert!(!of(CONTEXT_ID_CHARS + 1));
}

#[test]
fn every_format_of_a_part() {
    let bytes = |filename: Option<&str>, media: Option<&str>| Part {
        filename: filename.map(Into::into),
        media_type: media.map(Into::into),
        ..Part::of(Content::Bytes("aGk=".into()))
    };
    let uri = Part::of(Content::Uri("https://x.test/a".into()));
    for (sent, expected) in [
        (json!({"kind": "text", "text": ""}), Part::text("")),
        (json!({"type": "text", "text": "a"}), Part::text("a")),
        (json!({"text": "a"}), Part::text("a")),
        (
            json!({"kind": "file", "file": {"bytes": "aGk=", "name": "a.png", "mimeType": "image/png"}}),
            bytes(Some("a.png"), Some("image/png")),
        ),
        (json!({"type": "file", "file": {"data": "aGk="}}), bytes(None, None)),
        (json!({"file": {"fileWithBytes": "aGk=", "mime_type": "image/png"}}), bytes(None, Some("image/png"))),
        (
            json!({"raw": "aGk=", "filename": "a.png", "mediaType": "image/png"}),
            bytes(Some("a.png"), Some("image/png")),
        ),
        (json!({"kind": "file", "file": {"uri": "https://x.test/a"}}), uri.clone()),
        (json!({"file": {"fileWithUri": "https://x.test/a"}}), uri.clone()),
        (json!({"file": {"file_with_uri": "https://x.test/a"}}), uri.clone()),
        (json!({"url": "https://x.test/a"}), uri),
        (json!({"kind": "data", "data": {"a": 1}}), Part::data(json!({"a": 1}))),
        (json!({"data": {}}), Part::data(json!({}))),
        (json!({"data": [1], "text": null}), Part::data(json!([1]))),
        (json!({ "data": null }), Part::data(json!(null))),
        (json!({"kind": "data", "data": {"value": 3}, "metadata": {"data_part_compat": true}}), Part::data(json!(3))),
    ] {
        assert_eq!(one_part(sent.clone()), Ok(expected), "{sent}");
    }
}

#[test]
fn nested_data_is_read_only_in_the_protobuf_form() {
    let read = |name: &str, data: Value| {
        let sent = json!({"messageId": "m", "role": "ROLE_USER", name: [{ "data": data }]});
        read(sent).unwrap().message.parts.remove(0)
    };
    let nested = json!({"data": {"a": 1}});
    assert_eq!(read("content", nested.clone()), Part::data(json!({"a": 1})));
    assert_eq!(read("parts", nested.clone()), Part::data(nested));
    let more = json!({"data": {"a": 1}, "b": 2});
    assert_eq!(read("content", more.clone()), Part::data(more));
}

#[test]
fn base64_of_both_alphabets() {
    let bytes = |sent: &str| match one_part(json!({ "raw": sent })) {
        Ok(Part { content: Content::Bytes(bytes), .. }) => Ok(bytes),
        Ok(other) => panic!("{other:?}"),
        Err(message) => Err(message),
    };
    for (sent, expected) in
        [("aGk=", "aGk="), ("aGk", "aGk="), ("-_-_", "+/+/"), ("-_8", "+/8="), ("aGl=", "aGk="), ("/x", "/w==")]
    {
        assert_eq!(bytes(sent), Ok(expected.into()), "{sent}");
    }
    for sent in ["a", "aGk===", "a k=", "aG!=", "ü"] {
        assert_eq!(bytes(sent), Err("message.parts[0] must hold its bytes in base64.".into()), "{sent}");
    }
}

#[test]
fn media_types_the_model_can_be_given() {
    let kind = |media: &str| {
        let part = json!({"raw": "aGk=", "mediaType": media});
        let sent = json!({"messageId": "m", "role": 1, "parts": [part]});
        let read = message(sent.as_object().unwrap(), Gaps::Refused);
        read.map(|_| ()).map_err(|fault| fault.kind)
    };
    for media in [
        "text/plain; charset=utf-8",
        "TEXT/X-RUST",
        "application/json",
        "application/ld+json",
        "image/png",
        "application/pdf",
        "application/octet-stream",
        "text",
    ] {
        assert_eq!(kind(media), Ok(()), "{media}");
    }
    for media in ["application/zip", "application/x-unknown", "font/woff", "zip"] {
        assert_eq!(kind(media), Err(FaultKind::ContentTypeNotSupported), "{media}");
    }
}

#[test]
fn missing_ids_and_roles_are_filled_in_for_lenient_dialects() {
    let sent = json!({"parts": [{"text": "hi"}]});
    let read = |gaps| message(sent.as_object().unwrap(), gaps);
    assert_eq!(read(Gaps::Refused).unwrap_err().field.as_deref(), Some("message.messageId"));
    let filled = read(Gaps::Filled).unwrap().message;
    assert_eq!((filled.role, filled.parts), (Role::User, vec![Part::text("hi")]));
    assert!(filled.id.as_str().starts_with("m-"));
}

#[test]
fn empty_parts_are_refused() {
    let nothing = "message.parts[0] holds nothing: send text, a file (bytes or uri) or data.";
    for (sent, expected) in [
        (json!({}), nothing),
        (json!({"kind": "video", "frames": 3}), "message.parts[0].kind must be text, file or data."),
        (json!({"type": "unheard-of", "text": "a"}), "message.parts[0].type must be text, file or data."),
        (json!({"kind": "text"}), "message.parts[0].text must be a string."),
        (json!({"kind": "data"}), "message.parts[0].data is required."),
        (json!({"text": "a", "data": {}}), "message.parts[0] must hold one of text, raw, url and data, not several."),
        (
            json!({"kind": "file", "file": {"bytes": "a", "uri": "b"}}),
            "message.parts[0].file must hold bytes or a uri, not both.",
        ),
    ] {
        assert_eq!(one_part(sent.clone()).unwrap_err(), expected, "{sent}");
    }
}

#[test]
fn a_message_has_a_limited_number_of_parts() {
    let many = |count: usize, part: Value| {
        let parts = vec![part; count];
        read(json!({"messageId": "m", "role": "user", "parts": parts}))
    };
    let text = json!({"text": "x"});
    assert_eq!(many(MESSAGE_PARTS, text.clone()).expect("as many as allowed").message.parts.len(), MESSAGE_PARTS);
    let refused = many(MESSAGE_PARTS + 1, text).expect_err("one too many");
    assert_eq!(refused, "message.parts has 1001 parts; send at most 1000, joined or in several messages.");
    // They are counted before they are looked at.
    let refused = many(MESSAGE_PARTS + 1, json!(7)).expect_err("numbers are no parts");
    assert!(refused.contains("1001 parts"), "{refused}");
}
