//! Images and other files by `read_file`, by `@` and in messages: in requests to the model API, in the journal, and in events.

use crate::drive::{Fixture, task_in};
use crate::support::message::{call_of, call_status_of, prompt, prompt_in, text_of};
use crate::support::turn_rules;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gemini_a2a::limits::INLINE_PROMPT_BYTES;
use serde_json::{Value, json};
use std::fs;

/// The content of a file that begins like a PNG.
fn picture(bytes: usize) -> Vec<u8> {
    let mut picture = b"\x89PNG\r\n\x1a\n\0".to_vec();
    picture.resize(bytes, 7);
    picture
}

fn inline(bytes: &[u8]) -> Value {
    json!({ "inlineData": { "mimeType": "image/png", "data": STANDARD.encode(bytes) } })
}

/// The parts of a turn of the last model request, counted from the end.
fn sent(fixture: &Fixture, from_end: usize) -> Value {
    let turns = fixture.fake.turns();
    turns.iter().for_each(|turn| turn_rules::check(&turn.body));
    let contents = turns.last().expect("a request").body["contents"].as_array().expect("a list").clone();
    contents[contents.len() - 1 - from_end]["parts"].clone()
}

fn journal(fixture: &Fixture, task: &str) -> String {
    fs::read_to_string(fixture.server.state_dir().join(format!("tasks/{task}.jsonl"))).expect("a journal")
}

/// A message with text and a picture.
fn with_picture(text: &str, bytes: &[u8]) -> Value {
    let mut params = prompt(text);
    let file = json!({ "bytes": STANDARD.encode(bytes), "name": "shot.png", "mimeType": "image/png" });
    let parts = params["message"]["parts"].as_array_mut().expect("parts");
    parts.push(json!({ "kind": "file", "file": file }));
    params
}

#[test]
fn a_picture_that_is_read_reaches_the_model_and_is_stored_by_its_hash() {
    let mut fixture = Fixture::new();
    let long = picture(200_000);
    fs::write(fixture.server.workspace().join("shot.png"), &long).expect("it is ours");
    let events = fixture.say("READ shot.png ;; TEXT I see.");
    let ended = events.iter().find(|event| call_status_of(event.result()) == "success").expect("it was read");
    assert_eq!(call_of(ended.result())["response"]["resultDisplay"], "Read shot.png (image/png, 200000 bytes)");
    let response = &sent(&fixture, 0)[0]["functionResponse"];
    assert_eq!(response["response"]["output"], "shot.png (image/png, 200000 bytes) is shown beside this result.");
    assert_eq!(response["parts"], json!([inline(&long)]));
    let task = task_in(&events);
    assert!(!journal(&fixture, &task).contains("iVBORw"), "the journal has its hash only");
    // The picture is read from the stored file for every later request, also after a crash.
    fixture.server.restart();
    let _ = fixture.client().stream("message/stream", prompt_in(&task, "TEXT Still.")).count();
    assert_eq!(sent(&fixture, 2)[0]["functionResponse"]["parts"], json!([inline(&long)]));
}

#[test]
fn a_picture_in_a_message_is_stored_by_its_hash_and_shown_as_it_was_sent() {
    let mut fixture = Fixture::new();
    let long = picture(300_000);
    let events: Vec<_> = fixture.client().stream("message/stream", with_picture("TEXT Nice.", &long)).collect();
    let task = task_in(&events);
    assert_eq!(sent(&fixture, 0)[2], inline(&long));
    assert!(!journal(&fixture, &task).contains("iVBORw"));
    let shown = |fixture: &Fixture| fixture.task(&task)["history"][0]["parts"][1]["file"].clone();
    let file = json!({ "bytes": STANDARD.encode(&long), "name": "shot.png", "mimeType": "image/png" });
    assert_eq!(shown(&fixture), file);
    fixture.server.restart();
    assert_eq!(shown(&fixture), file, "the stored content is read with the task");
    let _ = fixture.client().stream("message/stream", prompt_in(&task, "TEXT Still.")).count();
    assert_eq!(sent(&fixture, 2)[2], inline(&long));
}

#[test]
fn a_long_prompt_is_stored_by_its_hash_and_shown_as_it_was_sent() {
    let mut fixture = Fixture::new();
    let of_length = |bytes: usize| format!("{}\nTEXT Nice.", "x".repeat(bytes - "\nTEXT Nice.".len()));
    let at_limit = task_in(&fixture.say(&of_length(INLINE_PROMPT_BYTES)));
    assert!(journal(&fixture, &at_limit).len() > INLINE_PROMPT_BYTES, "a text up to the limit is in the journal");
    let long = of_length(INLINE_PROMPT_BYTES + 1);
    let task = task_in(&fixture.say(&long));
    let journal = journal(&fixture, &task);
    assert!(
        journal.len() < INLINE_PROMPT_BYTES && journal.contains(r#""text":{"sha256":""#),
        "the journal has its hash"
    );
    let is_sent =
        |fixture: &Fixture, from_end: usize| sent(fixture, from_end).to_string().contains(&long[..long.len() - 12]);
    assert!(is_sent(&fixture, 0));
    let shown = |fixture: &Fixture| fixture.task(&task)["history"][0]["parts"][0]["text"] == *long;
    assert!(shown(&fixture));
    fixture.server.restart();
    assert!(shown(&fixture), "the stored content is read with the task");
    let _ = fixture.client().stream("message/stream", prompt_in(&task, "TEXT Still.")).count();
    assert!(is_sent(&fixture, 2));
}

#[test]
fn a_picture_that_a_prompt_names_is_attached() {
    let fixture = Fixture::new();
    let small = picture(100);
    fs::write(fixture.server.workspace().join("shot.png"), &small).expect("it is ours");
    fixture.say("What is in @shot.png?\nTEXT A picture.");
    let parts = sent(&fixture, 0);
    assert_eq!(parts[3], inline(&small), "{parts}");
    assert!(parts[2]["text"].as_str().expect("text").contains("[image/png, attached as file 1]"), "{parts}");
}

/// The API refuses a request with a file that it cannot read. The next prompt does not repeat it.
#[test]
fn a_picture_that_the_api_refuses_does_not_spoil_the_conversation() {
    let fixture = Fixture::new();
    fs::write(fixture.server.workspace().join("shot.png"), picture(100)).expect("it is ours");
    let events = fixture.say("READ shot.png ;; ERR400");
    let task = task_in(&events);
    assert!(!text_of(events.last().expect("an end").result()).is_empty());
    let refused = fixture.client().stream("message/stream", with_picture("ERR400", &picture(100))).collect::<Vec<_>>();
    for task in [task, task_in(&refused), task_in(&fixture.say("Look at @shot.png\nERR400"))] {
        let _ = fixture.client().stream("message/stream", prompt_in(&task, "TEXT Better.")).count();
        sent(&fixture, 0);
        assert!(!fixture.fake.turns().last().expect("a request").body.to_string().contains("inlineData"));
    }
}

#[test]
fn a_file_that_cannot_be_shown_is_refused_with_advice() {
    let fixture = Fixture::with(|setup| setup);
    let mut params = with_picture("TEXT x", b"GIF89a");
    params["message"]["parts"][1]["file"]["mimeType"] = "image/gif".into();
    let answer = fixture.client().rpc("message/send", params);
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("image/gif") && message.contains("PNG, JPEG"), "{message}");
    let card = fixture.client().get("/.well-known/agent-card.json").json();
    for modes in [&card["defaultInputModes"], &card["skills"][0]["inputModes"]] {
        let modes: Vec<&str> = modes.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        assert!(["text/plain", "image/png", "application/pdf", "audio/wav"].iter().all(|mode| modes.contains(mode)));
        for mode in modes {
            let mut params = with_picture("TEXT x", b"x");
            params["message"]["parts"][1]["file"]["mimeType"] = mode.into();
            let answer = fixture.client().rpc("message/send", params);
            assert!(answer["error"].is_null(), "{mode}: {answer}");
        }
    }
}
