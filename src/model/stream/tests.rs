//! Tests of the decoder of answers.

use super::*;
use crate::task::log::answer::{Content, Part, Usage};

fn decoder() -> Decoder {
    Decoder::new("gemini-x", 10_000, 300_000)
}

/// The notes and the answer of a stream with these chunks.
fn read(asked: Asked, chunks: &[Value]) -> (Vec<NoteBody>, Result<Answer, ModelError>) {
    let mut decoder = decoder();
    let mut out = Vec::new();
    for chunk in chunks {
        if let Err(error) = decoder.chunk(chunk.to_string().as_bytes(), &mut out) {
            return (out, Err(error));
        }
    }
    let answer = decoder.finish(asked, &mut out);
    (out, answer)
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

fn ends(parts: Value, reason: &str) -> Value {
    json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason}]})
}

fn text(text: &str) -> NoteBody {
    NoteBody::Text(text.into())
}

fn thought_note(subject: &str, description: &str) -> NoteBody {
    NoteBody::Thought { subject: subject.into(), description: description.into() }
}

fn call(name: &str, args: Value, api_id: Option<&str>) -> Request {
    Request { call: "".into(), name: name.into(), args, api_id: api_id.map(str::to_owned) }
}

fn signed(content: Content, signature: &str) -> Part {
    Part { signature: Some(signature.into()), ..Part::new(content) }
}

/// The parts as they are sent back to the API.
fn sent_back(answer: &Answer) -> Vec<Value> {
    answer.parts.iter().map(gemini::write_part).collect()
}

#[test]
fn a_whole_answer() {
    let (notes, answer) = read(
        Asked::Prompt,
        &[
            json!({
                "candidates": [{"content": {"parts": [{"text": "**Looking around** I need the file.", "thought": true}], "role": "model"}, "index": 0}],
                "usageMetadata": {"promptTokenCount": 10, "totalTokenCount": 12, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}]},
                "modelVersion": "gemini-x-001", "responseId": "r-1",
            }),
            parts(json!([{"text": "Hé"}, {"text": "llo\n"}])),
            parts(
                json!([{"text": "world."}, {"functionCall": {"name": "glob", "args": {"pattern": "*"}}, "thoughtSignature": "c2ln"}]),
            ),
            json!({
                "candidates": [{
                    "content": {"parts": [
                        {"functionCall": {"id": "api-2", "name": "read_file", "args": {"path": "a", "n": 1.50}}},
                        {"text": "", "thoughtSignature": "dGFpbA=="},
                    ]},
                    "finishReason": "STOP",
                    "citationMetadata": {"citations": [{"uri": "https://b"}, {"uri": "https://a", "title": "A"}, {"uri": "https://b"}, {"license": "x"}]},
                }],
                "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 20, "thoughtsTokenCount": 3},
                "modelVersion": "gemini-x-001", "responseId": "r-1",
            }),
        ],
    );
    assert_eq!(
        notes,
        vec![
            NoteBody::Traced("r-1".into()),
            thought_note("Looking around", "I need the file."),
            text("Héllo\n"),
            text("world."),
            NoteBody::Cited("Citations:\n(A) https://a\nhttps://b".into()),
        ]
    );
    assert_eq!(
        answer,
        Ok(Answer {
            parts: vec![
                Part::new(Content::Text("Héllo\nworld.".into())),
                signed(Content::Call(call("glob", json!({"pattern": "*"}), None)), "c2ln"),
                Part::new(Content::Call(call("read_file", json!({"path": "a", "n": 1.5}), Some("api-2")))),
                signed(Content::Text("".into()), "dGFpbA=="),
            ],
            api: Some("gemini".into()),
            finish: Finish::Stop,
            usage: Some(Usage { prompt: 10, output: 7, total: 20, thoughts: Some(3), ..Usage::default() }),
            trace: Some("r-1".into()),
            model: Some("gemini-x-001".into()),
            said_at: None,
            verdict: None,
        })
    );
}

#[test]
fn signed_parts_are_sent_back_unchanged_and_thoughts_are_not() {
    let (notes, answer) = read(
        Asked::Prompt,
        &[
            parts(json!([{"text": "a"}, {"text": "b", "thoughtSignature": "s"}, {"text": "c"}])),
            parts(
                json!([{"text": "", "thought": true, "thoughtSignature": "t"}, {}, {"inlineData": {"mimeType": "image/png", "data": "x"}}]),
            ),
            ends(json!([{"text": "d"}]), "STOP"),
        ],
    );
    assert_eq!(notes, vec![text("abc"), text("d")]);
    assert_eq!(
        sent_back(&answer.unwrap()),
        vec![
            json!({"text": "a"}),
            json!({"text": "b", "thoughtSignature": "s"}),
            json!({"text": "c"}),
            json!({"inlineData": {"mimeType": "image/png", "data": "x"}}),
            json!({"text": "d"}),
        ]
    );
}

#[test]
fn a_call_without_name_or_arguments_gets_both() {
    let (_, answer) =
        read(Asked::Prompt, &[parts(json!([{"functionCall": {"name": " ", "id": ""}}, {"functionCall": {}}]))]);
    let answer = answer.unwrap();
    assert_eq!(sent_back(&answer)[1], json!({"functionCall": {"name": "generic_tool"}}));
    assert!(answer.calls().eq(&[call("generic_tool", json!({}), None), call("generic_tool", json!({}), None)]));
    assert_eq!(answer.finish, Finish::Unspecified);
}

#[test]
fn thoughts_have_a_subject_and_a_description() {
    let table = [
        ("**Plan** do it", thought_note("Plan", "do it")),
        ("first **Plan**\n\nthen **more**", thought_note("Plan", "first \n\nthen **more**")),
        ("no pair ** here", thought_note("", "no pair ** here")),
        ("****x", thought_note("", "x")),
    ];
    for (text, expected) in table {
        assert_eq!(parse_thought(text), expected, "{text}");
    }
}

#[test]
fn streams_that_are_no_answer_are_errors() {
    let thinks = |reason: &str| ends(json!([{"text": "hm", "thought": true}]), reason);
    let table = [
        (vec![], Some("NO_FINISH_REASON"), None),
        (vec![parts(json!([{"text": "a"}]))], Some("NO_FINISH_REASON"), None),
        (vec![ends(json!([{"text": "a"}]), "STOP")], None, None),
        (
            vec![ends(json!([{"text": "a"}]), "MALFORMED_FUNCTION_CALL")],
            Some("MALFORMED_FUNCTION_CALL"),
            Some("MALFORMED_FUNCTION_CALL"),
        ),
        (vec![ends(json!([]), "UNEXPECTED_TOOL_CALL")], Some("UNEXPECTED_TOOL_CALL"), Some("UNEXPECTED_TOOL_CALL")),
        (
            vec![ends(json!([{"text": " \u{200b}<!-- x -->\n"}]), "MAX_TOKENS")],
            Some("MAX_TOKENS_EXCEEDED"),
            Some("MAX_TOKENS_EXCEEDED"),
        ),
        (vec![thinks("SAFETY")], Some("SAFETY_BLOCKED"), Some("SAFETY_BLOCKED")),
        (vec![ends(json!([]), "RECITATION")], Some("RECITATION_BLOCKED"), Some("RECITATION_BLOCKED")),
        (vec![ends(json!([]), "OTHER")], Some("OTHER_BLOCKED"), Some("OTHER_BLOCKED")),
        (vec![ends(json!([]), "SPII")], Some("SPII"), Some("SPII")),
        (vec![thinks("STOP")], Some("THINKING_ONLY_RESPONSE"), Some("THINKING_ONLY_RESPONSE")),
        (vec![ends(json!([]), "STOP")], Some("NO_RESPONSE_TEXT"), None),
        (vec![json!({"candidates": [{"finishReason": "STOP"}]})], Some("NO_RESPONSE_TEXT"), None),
    ];
    for (chunks, after_prompt, after_results) in table {
        for (asked, expected) in [(Asked::Prompt, after_prompt), (Asked::Results, after_results)] {
            let (_, answer) = read(asked, &chunks);
            match (expected, answer) {
                (None, Ok(_)) => {}
                (Some(word), Err(error)) => {
                    assert_eq!(error.kind, ModelErrorKind::BadStream);
                    assert!(error.message.contains(&format!("({word})")), "{}", error.message);
                }
                (expected, answer) => {
                    panic!("{chunks:?} {asked:?}: {expected:?}, got {answer:?}")
                }
            }
        }
    }
}

#[test]
fn an_answer_that_was_cut_off_says_so_outside_of_its_parts() {
    let table = [
        ("MAX_TOKENS", "\n[The answer was cut off: it reached the output limit.]"),
        ("SAFETY", "\n[The answer was cut off: the API judged it unsafe.]"),
        ("SPII", "\n[The answer was cut off: the API gave SPII as the reason.]"),
    ];
    for (reason, note) in table {
        let (notes, answer) = read(Asked::Prompt, &[ends(json!([{"text": "half"}]), reason)]);
        assert_eq!(notes, vec![text("half"), text(note)]);
        let answer = answer.unwrap();
        assert_eq!((answer.finish.clone(), answer.text().as_str()), (gemini::finish(reason), "half"));
    }
}

#[test]
fn a_blocked_prompt_fails_with_its_reason() {
    let (_, answer) =
        read(Asked::Prompt, &[json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {}})]);
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Fatal);
    assert!(error.message.contains("(PROHIBITED_CONTENT)"), "{}", error.message);
}

#[test]
fn an_error_object_in_the_stream_is_an_error_and_voids_earlier_chunks() {
    let busy = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    let denied = json!({"error": {"code": 403, "message": "no"}});
    let odd = json!({"error": {"code": 7}});
    let before = parts(json!([{"text": "a"}]));
    let kind = |chunks: &[Value]| read(Asked::Prompt, chunks).1.unwrap_err().kind;
    assert_eq!(kind(std::slice::from_ref(&busy)), ModelErrorKind::Busy { after_ms: None });
    assert_eq!(kind(&[before.clone(), busy]), ModelErrorKind::BadStream);
    assert_eq!(kind(&[before, denied]), ModelErrorKind::Fatal);
    assert_eq!(kind(&[odd]), ModelErrorKind::BadStream);
}

#[test]
fn invalid_chunks_are_a_bad_stream_and_never_a_panic() {
    for json in [
        &b""[..],
        b"{",
        b"[]",
        b"nonsense",
        b"\xff",
        b"{\"candidates\":7}",
        b"{\"candidates\":[{\"content\":{\"parts\":[7]}}]}",
        b"{\"candidates\":[{\"content\":{\"parts\":[{\"text\":7}]}}]}",
    ] {
        let error = decoder().chunk(json, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::BadStream, "{json:?}");
    }
    for json in [&b"{}"[..], b"{\"candidates\":[]}", b"{\"candidates\":null,\"usageMetadata\":[1]}"] {
        assert_eq!(decoder().chunk(json, &mut Vec::new()), Ok(()), "{json:?}");
    }
}

#[test]
fn an_answer_may_be_exactly_as_long_as_the_limit() {
    let chunk = parts(json!([{"text": "a"}])).to_string();
    let mut decoder = Decoder::new("m", 2 * chunk.len(), 0);
    let mut out = Vec::new();
    assert_eq!(decoder.chunk(chunk.as_bytes(), &mut out), Ok(()));
    assert_eq!(decoder.chunk(chunk.as_bytes(), &mut out), Ok(()));
    let error = decoder.chunk(b"{}", &mut out).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Fatal);
}
