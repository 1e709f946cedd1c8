//! Responses from a file and into one.

use crate::program::{Ended, Program, finish};
use serde_json::{Value, json};

fn chunk(text: &str) -> Value {
    json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] } }] })
}

fn last(text: &str) -> Value {
    json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] }, "finishReason": "STOP" }],
            "usageMetadata": { "promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7 } })
}

fn stream(chunks: &[Value]) -> Value {
    json!({ "method": "generateContentStream", "response": chunks })
}

impl Program {
    /// A run without a key whose responses are in a file.
    fn fake(&self, flag: &str, lines: &[Value], args: &[&str]) -> Ended {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.dir.path().join("responses.jsonl"), text).expect("a file");
        let child = self.without_model(&[&[flag, "responses.jsonl"], args].concat()).spawn();
        finish(child.expect("the program"))
    }
}

#[test]
fn recorded_responses_answer_in_their_order_and_need_no_key() {
    let program = Program::new();
    let lines = [stream(&[chunk("Hel"), last("lo.")])];
    program.fake("--fake-responses", &lines, &["-p", "hi"]).expect(0, "Hello.\n", "");
    let usage = program.fake("--fake-responses", &lines, &["-o", "json", "-p", "hi"]);
    let object: Value = serde_json::from_str(&usage.out).expect("one JSON object");
    assert_eq!(object["stats"]["models"]["gemini-3.1-pro-preview"]["tokens"]["total"], 7);
    let none = program.fake("--fake-responses", &[], &["-p", "hi"]);
    assert_eq!((none.status, none.out.as_str()), (Some(1), ""));
    assert!(none.err.contains("used up") && none.err.contains("generateContentStream"), "{}", none.err);
    let other = [json!({ "method": "countTokens", "response": {} }), lines[0].clone()];
    let wrong = program.fake("--fake-responses", &other, &["-p", "hi"]);
    assert_eq!((wrong.status, wrong.out.as_str()), (Some(1), ""));
    assert!(wrong.err.contains("is for countTokens, and generateContentStream was asked for"), "{}", wrong.err);
    program.fake("--fake-responses-non-strict", &other, &["-p", "hi"]).expect(0, "Hello.\n", "");
    let bad = program.fake("--fake-responses", &[lines[0].clone(), json!({ "method": "x" })], &["-p", "hi"]);
    assert_eq!(bad.status, Some(52));
    assert!(bad.err.contains("responses.jsonl, line 2"), "{}", bad.err);
}

#[test]
fn a_recorded_session_is_repeated() {
    let program = Program::new();
    let yolo = ["--trust-workspace", "-y", "-o", "stream-json"];
    let prompt = "TEXT Writing. ++ WRITE a.txt one ;; SIGNED read_file {\"file_path\":\"a.txt\"} ;; TEXT Done.";
    let recorded = program.run(&[&yolo[..], &["--record-responses", "rec.jsonl", "-p", prompt]].concat());
    assert_eq!(recorded.status, Some(0), "{}", recorded.out);
    let asked = program.fake.turns().len();
    let lines = std::fs::read_to_string(program.dir.path().join("rec.jsonl")).expect("the record");
    assert_eq!((asked, lines.lines().count()), (3, 3));
    std::fs::remove_file(program.workspace().join("a.txt")).expect("what it wrote");
    let child = program.without_model(&[&yolo[..], &["--fake-responses", "rec.jsonl", "-p", prompt]].concat()).spawn();
    let repeated = finish(child.expect("the program"));
    assert_eq!(program.fake.turns().len(), asked, "no model is asked");
    let facts = |ended: &Ended| -> Vec<Value> {
        let mut lines = ended.lines();
        for line in &mut lines {
            for volatile in ["timestamp", "session_id", "tool_id"] {
                line.as_object_mut().expect("an object").remove(volatile);
            }
            line["stats"]["duration_ms"].take();
        }
        lines
    };
    assert_eq!(facts(&repeated), facts(&recorded));
    assert!(program.workspace().join("a.txt").exists());
}

#[test]
fn only_a_model_is_recorded() {
    let program = Program::new();
    let child = program.without_model(&["--record-responses", "rec.jsonl", "-p", "hi"]).spawn();
    let ended = finish(child.expect("the program"));
    assert_eq!(ended.status, Some(52));
    assert!(ended.err.contains("--record-responses needs a model"), "{}", ended.err);
}
