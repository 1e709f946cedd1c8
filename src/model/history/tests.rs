//! Tests of conversations in the form of the API.

use super::*;
use crate::task::log::answer::Request;
use crate::task::spec::{Display, ErrorKind};

const CONTEXT: HistoryContext = HistoryContext {
    workspace: "/w",
    directories: &[],
    os: "linux",
    date: "2026-03-01",
    tree: "",
    memory: "",
    servers: "",
    media: ResultMedia::Inside,
};

fn said(parts: Vec<Part>) -> Arc<Item> {
    by(Role::User, parts)
}

fn by(role: Role, parts: Vec<Part>) -> Arc<Item> {
    let message = Message::new("m", role, parts);
    Arc::new(Item::Said(Arc::new(message)))
}

fn text(text: &str) -> Arc<Item> {
    said(vec![Part::text(text)])
}

fn request(call: &str, name: &str, api_id: Option<&str>) -> Request {
    Request { call: call.into(), name: name.into(), args: json!({}), api_id: api_id.map(str::to_owned) }
}

fn answered(parts: Value, calls: Vec<Request>) -> Arc<Item> {
    let mut calls = calls.into_iter();
    let parts = parts.as_array().unwrap().iter().map(|part| {
        let call = part.get("functionCall").and_then(|_| calls.next());
        gemini::read_part(part.as_object().unwrap().clone(), call)
    });
    let answer = Answer { parts: parts.collect(), api: Some(gemini::API.into()), ..Answer::default() };
    Arc::new(Item::Answered(Arc::new(answer)))
}

fn results(results: Vec<(Request, Ending)>) -> Arc<Item> {
    let results = results.into_iter().map(|(request, ending)| CallResult { request, ending: Arc::new(ending) });
    Arc::new(Item::Results(results.collect()))
}

fn success(output: &str) -> Ending {
    Ending::Success { output: output.into(), display: Display::Text { text: "".into() } }
}

/// Without the introduction, which starts every conversation.
fn after_introduction(history: &[Arc<Item>]) -> Value {
    let mut turns = contents(history, &CONTEXT);
    let first = turns[0]["parts"].as_array_mut().unwrap();
    assert_eq!(first.remove(0), json!({"text": introduction(&CONTEXT)}));
    if first.is_empty() {
        turns.remove(0);
    }
    turns.into()
}

fn call(name: &str) -> Value {
    json!({"functionCall": {"name": name, "args": {}}})
}

fn signed(name: &str, signature: &str) -> Value {
    json!({"functionCall": {"name": name, "args": {}}, "thoughtSignature": signature})
}

#[test]
fn the_first_turn_tells_where_the_model_is() {
    assert_eq!(
        contents(&[text("hi")], &CONTEXT),
        vec![json!({"role": "user", "parts": [
            {"text": "Context of this session, given by the program you run in:\n- Today is 2026-03-01.\n- The operating system is linux.\n- The workspace is /w. Relative paths start there, and files outside it are off limits."},
            {"text": "hi"},
        ]})]
    );
}

#[test]
fn neighbours_of_one_role_are_merged_and_empty_parts_left_out() {
    let history = [
        text("a"),
        text(""),
        text("b"),
        answered(json!([{"text": "c"}, {}, {"text": ""}, {"text": "t", "thought": true}]), vec![]),
        answered(json!([{"text": "", "thoughtSignature": "s"}]), vec![]),
        answered(json!([{"text": ""}]), vec![]),
        by(Role::Agent, vec![Part::text("d")]),
        text("e"),
    ];
    assert_eq!(
        after_introduction(&history),
        json!([
            {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
            {"role": "model", "parts": [{"text": "c"}, {"text": "", "thoughtSignature": "s"}, {"text": "d"}]},
            {"role": "user", "parts": [{"text": "e"}]},
        ])
    );
}

#[test]
fn a_batch_is_answered_in_one_turn_in_the_order_of_its_calls() {
    let (a, b, c, d) = (
        request("1", "read_file", Some("api-1")),
        request("2", "glob", None),
        request("3", "shell", None),
        request("4", "shell", None),
    );
    let error = Ending::Error { error: ErrorKind::FileNotFound.error("no such file") };
    let cancelled = |output: &str| Ending::Cancelled { reason: "refused".into(), output: output.into() };
    let history = [
        text("go"),
        answered(
            json!([signed("read_file", "s1"), call("glob"), call("shell"), call("shell")]),
            vec![a.clone(), b.clone(), c.clone(), d.clone()],
        ),
        results(vec![(d, cancelled("half")), (c, cancelled("")), (b, error), (a, success("text"))]),
    ];
    assert_eq!(
        after_introduction(&history),
        json!([
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [signed("read_file", "s1"), call("glob"), call("shell"), call("shell")]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "api-1", "name": "read_file", "response": {"output": "text"}}},
                {"functionResponse": {"name": "glob", "response": {"error": "no such file"}}},
                {"functionResponse": {"name": "shell", "response": {"error": "refused"}}},
                {"functionResponse": {"name": "shell", "response": {"output": "half", "error": "refused"}}},
            ]},
        ])
    );
}

#[test]
fn unanswered_calls_get_an_error_and_the_next_prompt_a_turn_of_its_own() {
    let (a, b) = (request("1", "read_file", None), request("2", "glob", None));
    let history = [
        text("go"),
        answered(json!([signed("read_file", "s"), call("glob")]), vec![a.clone(), b]),
        results(vec![(a, success("x"))]),
        said(vec![Part::data(json!({"callId": "1", "outcome": "cancel"}))]),
        text("something else"),
    ];
    assert_eq!(
        after_introduction(&history),
        json!([
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [signed("read_file", "s"), call("glob")]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "read_file", "response": {"output": "x"}}},
                {"functionResponse": {"name": "glob", "response": {"error": UNANSWERED}}},
            ]},
            {"role": "model", "parts": [{"text": INTERRUPTED}]},
            {"role": "user", "parts": [{"text": "something else"}]},
        ])
    );
}

#[test]
fn a_prompt_between_a_call_and_its_result_comes_after_the_result() {
    let a = request("1", "glob", None);
    let history = [
        text("go"),
        answered(json!([signed("glob", "s")]), vec![a.clone()]),
        text("and hurry"),
        results(vec![(a, success("x"))]),
    ];
    let turns = after_introduction(&history);
    assert_eq!(turns[2]["parts"][0]["functionResponse"]["response"], json!({"output": "x"}));
    assert_eq!(turns[4], json!({"role": "user", "parts": [{"text": "and hurry"}]}));
}

#[test]
fn a_steering_prompt_is_sent_in_the_turn_of_the_results() {
    let a = request("1", "glob", None);
    let message = Message::new("m", Role::User, vec![Part::text("rather that")]);
    let history = [
        text("go"),
        answered(json!([signed("glob", "s")]), vec![a.clone()]),
        results(vec![(a, success("x"))]),
        Arc::new(Item::Steered(Arc::new(message))),
    ];
    let turns = after_introduction(&history);
    let last = &turns.as_array().expect("turns")[2..];
    assert_eq!(last.len(), 1);
    assert_eq!(last[0]["parts"][0]["functionResponse"]["response"], json!({"output": "x"}));
    assert_eq!(last[0]["parts"][1], json!({"text": "rather that"}));
}

#[test]
fn results_without_their_call_are_left_out() {
    let history = [results(vec![(request("1", "glob", None), success("x"))]), text("go")];
    assert_eq!(after_introduction(&history), json!([{"role": "user", "parts": [{"text": "go"}]}]));
}

#[test]
fn the_first_call_of_each_turn_in_the_active_loop_is_signed_and_no_other() {
    let round = |id: &str, parts: Value, names: &[&str]| {
        let calls: Vec<Request> =
            names.iter().enumerate().map(|(i, name)| request(&format!("{id}{i}"), name, None)).collect();
        let endings = calls.iter().map(|c| (c.clone(), success("x"))).collect();
        [answered(parts, calls), results(endings)]
    };
    let mut history = vec![text("first")];
    history.extend(round("a", json!([call("old")]), &["old"]));
    history.push(answered(json!([{"text": "done"}]), vec![]));
    history.push(text("second"));
    history.extend(round("b", json!([{"text": "hm"}, call("p"), call("q")]), &["p", "q"]));
    history.extend(round("c", json!([signed("r", "own")]), &["r"]));
    history.extend(round("d", json!([call("s")]), &["s"]));
    let turns = after_introduction(&history);
    let models: Vec<&Value> =
        turns.as_array().unwrap().iter().filter(|turn| turn["role"] == "model").map(|turn| &turn["parts"]).collect();
    assert_eq!(
        json!(models),
        json!([
            [call("old")],
            [{"text": "done"}],
            [{"text": "hm"}, signed("p", NO_SIGNATURE), call("q")],
            [signed("r", "own")],
            [signed("s", NO_SIGNATURE)],
        ])
    );
}

#[test]
fn parts_of_messages_as_the_model_gets_them() {
    let file = |content: Content, filename: Option<&str>, media_type: Option<&str>| Part {
        content,
        filename: filename.map(str::to_owned),
        media_type: media_type.map(str::to_owned),
        metadata: None,
    };
    let bytes = |data: &str| Content::Bytes(data.into());
    let store = "https://generativelanguage.googleapis.com/v1beta/files/abc";
    let table = [
        (
            file(bytes("iVBO"), Some("a.png"), Some("image/png")),
            Some(json!({"inlineData": {"mimeType": "image/png", "data": "iVBO"}})),
        ),
        (
            file(bytes("JVBE"), None, Some("application/pdf")),
            Some(json!({"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}})),
        ),
        (
            file(bytes("/9j/"), None, Some("IMAGE/JPG; q=1")),
            Some(json!({"inlineData": {"mimeType": "image/jpeg", "data": "/9j/"}})),
        ),
        // Without a declared type, the type is detected from the bytes.
        (
            file(bytes("iVBORw=="), None, None),
            Some(json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}})),
        ),
        (
            file(bytes("aGk="), Some("a.rs"), None),
            Some(json!({"text": "[The user attached the file a.rs:]\nhi\n[End of the attached file.]"})),
        ),
        (
            file(bytes("AAH/"), Some("a.bin"), Some("application/zip")),
            Some(
                json!({"text": "[The user attached the file a.bin, which is of a kind you cannot read (application/zip).]"}),
            ),
        ),
        (
            file(bytes("not base64"), None, None),
            Some(json!({"text": "[The user attached a file, which is of a kind you cannot read (unknown).]"})),
        ),
        (
            file(Content::Uri(store.into()), None, Some("image/png")),
            Some(json!({"fileData": {"mimeType": "image/png", "fileUri": store}})),
        ),
        (
            file(Content::Uri("https://youtu.be/x".into()), None, None),
            Some(json!({"fileData": {"fileUri": "https://youtu.be/x"}})),
        ),
        (
            file(Content::Uri("http://10.0.0.1/a.txt".into()), Some("a.txt"), None),
            Some(
                json!({"text": "[The user attached the file a.txt at http://10.0.0.1/a.txt. Its content is not part of this conversation.]"}),
            ),
        ),
    ];
    for (part, expected) in table {
        assert_eq!(message_part(&part), expected, "{part:?}");
    }
}

#[test]
fn data_is_text_for_the_model_unless_it_is_for_the_server() {
    let table = [
        (Part::data(json!({"line": 7})), Some(json!({"text": "{\"line\":7}"}))),
        (Part::data(json!([1, 2])), Some(json!({"text": "[1,2]"}))),
        (Part::data(json!({"kind": "agent-settings"})), None),
        (Part::data(json!({"workspacePath": "/w"})), None),
        (Part::data(json!({"tool_call_id": "1", "selected_option_id": "cancel"})), None),
        (Part::data(json!({"toolCallId": "1", "approved": true})), None),
        (Part::data(json!({"callId": "1", "outcome": "proceed_once"})), None),
    ];
    for (part, expected) in table {
        assert_eq!(message_part(&part), expected, "{part:?}");
    }
}

/// A conversation in which one call read a picture, one a recording, and one nothing.
fn with_media(media: ResultMedia) -> Value {
    let read = |mime: &str| Ending::Success {
        output: format!("a {mime}").into(),
        display: Display::Media { text: "".into(), media: vec![Media::new(mime, b"hi")] },
    };
    let requests = ["a", "b", "c"].map(|name| request(name, name, None));
    let endings = [read("image/png"), read("audio/wav"), success("text")];
    let history = [
        text("look"),
        answered(json!([call("a"), call("b"), call("c")]), requests.to_vec()),
        results(requests.into_iter().zip(endings).collect()),
        Arc::new(Item::Steered(Arc::new(Message::new("m", Role::User, vec![Part::text("quick")])))),
    ];
    let mut turns = contents(&history, &HistoryContext { media, ..CONTEXT });
    turns.drain(..2);
    turns.into()
}

#[test]
fn media_of_results_is_where_the_model_family_wants_it() {
    let response =
        |name: &str, output: &str| json!({"functionResponse": {"name": name, "response": {"output": output}}});
    let data = |mime: &str| json!({"inlineData": {"mimeType": mime, "data": "aGk="}});
    let (audio, plain) = (response("b", "a audio/wav"), response("c", "text"));
    let after = [
        json!({"role": "model", "parts": [{"text": SHOW_ME}]}),
        json!({"role": "user", "parts": [data("audio/wav"), {"text": "quick"}]}),
    ];
    let mut picture = response("a", "a image/png");
    let behind = json!([picture, audio, plain, data("image/png")]);
    assert_eq!(with_media(ResultMedia::Behind), json!([{"role": "user", "parts": behind}, after[0], after[1]]));
    picture["functionResponse"]["parts"] = json!([data("image/png")]);
    let inside = json!([picture, audio, plain]);
    assert_eq!(with_media(ResultMedia::Inside), json!([{"role": "user", "parts": inside}, after[0], after[1]]));
}

#[test]
fn media_that_is_not_in_memory_is_replaced_by_a_note() {
    let stored: MediaContent = serde_json::from_value(json!({"sha256": "00", "bytes": 70_000})).unwrap();
    let media = Media { mime: "image/png".into(), content: stored.clone() };
    let note = "[Media of 70000 bytes (image/png) that is not part of this request any more.]";
    let display = Display::Media { text: "".into(), media: vec![media.clone()] };
    let read = request("a", "a", None);
    let part = Part { media_type: Some("image/png".into()), ..Part::of(Content::Bytes(stored)) };
    let history = [
        said(vec![part]),
        Arc::new(Item::Media(vec![media])),
        answered(json!([signed("a", "s")]), vec![read.clone()]),
        results(vec![(read, Ending::Success { output: "x".into(), display })]),
    ];
    assert_eq!(
        after_introduction(&history),
        json!([
            {"role": "user", "parts": [{"text": note}, {"text": note}]},
            {"role": "model", "parts": [signed("a", "s")]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "a", "response": {"output": "x", "media": note}}}
            ]},
        ])
    );
}
