//! Tests of the native dialect.

use super::*;
use crate::a2a::views::list::token;
use crate::a2a::{fault_frame, sample};
use crate::task::call::ListCursor;
use crate::task::log::event::Event;
use std::sync::Arc;

fn decoded(frame: Value) -> Result<Call, Fault> {
    match decode(&frame.to_string()) {
        Ok((call, _)) => Ok(call),
        Err((fault, _)) => Err(fault),
    }
}

fn one(call: Value) -> Result<Call, Fault> {
    decoded(json!({"id": 1, "call": call}))
}

#[test]
fn an_event_is_sent_as_it_is_in_the_journal() {
    let event = Event::Text { text: "hé".into() };
    let shown = record(&sample::state(), &sample::record(event));
    assert_eq!(
        String::from_utf8(shown).expect("text"),
        format!(r#"{{"task":"t-1","seq":9,"at":{},"event":{{"text":{{"text":"hé"}}}}}}"#, sample::AT)
    );
}

#[test]
fn prompts_and_answers() {
    let Ok(Call::Say(say)) = one(json!({"say": {"text": "go", "context": "c-1", "settings": {"model": "m"}}})) else {
        panic!("a prompt");
    };
    assert_eq!(say.said.message.parts, [Part::text("go")]);
    assert_eq!((say.mode, say.task, say.create.context), (Mode::Now, None, Some("c-1".into())));
    assert_eq!(say.create.settings.model.as_deref(), Some("m"));

    let message = sample::prompt("m-1", "hi");
    let Ok(Call::Say(say)) = one(json!({"say": {"task": "t-1", "message": message}})) else {
        panic!("a prompt");
    };
    assert_eq!((say.said.message.as_ref(), say.task), (&message, Some("t-1".into())));

    let message = json!({"id": "m", "role": "user", "parts": [
        {"content": {"data": {"tool_call_id": "call-1", "selected_option_id": "cancel"}}}]});
    let Ok(Call::Say(say)) = one(json!({"say": {"task": "t-1", "message": message}})) else {
        panic!("an answer");
    };
    assert_eq!(say.said.answers[0].option, "cancel");

    let answer = json!({"task": "t-1", "call": "call-1", "option": "proceed_once", "edited": "x", "answers": {"0": "y"}, "seen": 7});
    let Ok(Call::Say(say)) = one(json!({ "answer": answer })) else {
        panic!("an answer");
    };
    assert!(!say.said.message.has_prompt(), "an answer is no prompt");
    assert_eq!(
        say.said.answers,
        [Pick {
            call: "call-1".into(),
            option: "proceed_once".into(),
            edited: Some("x".into()),
            answers: Some(Arc::new([("0".to_owned(), "y".to_owned())].into())),
            seen: Some(Seq(7)),
        }]
    );
}

#[test]
fn prompts_with_a_key_and_steering_prompts() {
    let delivery = |members: Value| {
        let mut say = json!({"text": "go"});
        say.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        one(json!({ "say": say })).map(|call| match call {
            Call::Say(say) => say.said.delivery,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(delivery(json!({})), Ok(Delivery::default()));
    let both = Delivery { key: Some("k-1".into()), steer: true, compress: false };
    assert_eq!(delivery(json!({"id": "k-1", "steer": true})), Ok(both));
    for wrong in [json!({"id": ""}), json!({"id": "x".repeat(129)}), json!({"id": 7}), json!({"steer": "yes"})] {
        assert!(delivery(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn messages_without_an_id_get_different_ones() {
    let id = |frame: Value| match decoded(frame) {
        Ok(Call::Say(say)) => say.said.message.id.clone(),
        other => panic!("{other:?}"),
    };
    let say = json!({"say": {"text": "again"}});
    let first = id(json!({"id": 1, "call": say}));
    assert_ne!(first, id(json!({"id": 2, "call": say})));
    assert_eq!(first, id(json!({"id": 1, "call": say})));
}

#[test]
fn every_other_call() {
    let task = || TaskId::from("t-1");
    for (sent, expected) in [
        (json!({"cancel": {"task": "t-1"}}), Call::Cancel { task: task() }),
        (json!({"abort": {"task": "t-1"}}), Call::Abort { task: Some(task()) }),
        (json!({"drop": {"task": "t-1", "turn": 3}}), Call::Drop { task: task(), turn: 3 }),
        (json!({"permissions": {"task": "t-1"}}), Call::Permissions { task: task(), revoke: vec![] }),
        (json!({"get": {"task": "t-1", "history": 0}}), Call::Get { task: task(), history: Some(0) }),
        (json!({"watch": {"task": "t-1", "after": 7}}), Call::Subscribe { task: task(), after: Some(Seq(7)) }),
        (
            json!({"blob": {"task": "t-1", "sha256": "ab", "from": 7}}),
            Call::Blob { task: "t-1".into(), sha256: "ab".into(), from: 7 },
        ),
        (json!({"session": {}}), Call::Session),
        (json!({"about": {}}), Call::About),
        (json!({"briefs": {}}), Call::Briefs),
        (json!({"delete": {"task": "t-1"}}), Call::Delete { task: task() }),
        (json!({"clients": {}}), Call::Clients),
        (json!({"commands": {}}), Call::Commands),
        (
            json!({"tune": {"task": "t-1", "mode": "plan"}}),
            Call::Tune { task: task(), mode: Some(policy::Mode::Plan), model: None },
        ),
        (json!({"shell": {"task": "t-1", "command": "make"}}), Call::Shell { task: task(), command: "make".into() }),
        (
            json!({"files": {"task": "t-1", "query": "lx", "limit": 5}}),
            Call::Files { task: task(), query: "lx".into(), limit: Some(5) },
        ),
        (json!({"list": {}}), Call::List(List::default())),
        (
            json!({"list": {"state": "input-required", "after": "", "size": 3}}),
            Call::List(List { state: Some(TaskState::InputRequired), size: 3, ..List::default() }),
        ),
        (
            json!({"create": {}}),
            Call::Create(Create { context: None, settings: Settings::default(), traits: TaskTraits::SESSION }),
        ),
    ] {
        assert_eq!(one(sent.clone()), Ok(expected), "{sent}");
    }
}

#[test]
fn faults_of_invalid_frames() {
    use FaultKind::*;
    for (frame, kind, words) in [
        ("{", ParseError, "cannot be read as JSON"),
        ("[]", InvalidRequest, "A frame is"),
        (r#"{"id":[],"call":{"session":{}}}"#, InvalidRequest, "id must be"),
        (r#"{"id":1}"#, InvalidRequest, "A frame is"),
        (r#"{"id":1,"call":{"shout":{}}}"#, InvalidParams, "call must be one of these: say, answer"),
        (r#"{"id":1,"call":{"cancel":{}}}"#, InvalidParams, "cancel.task is required"),
        (r#"{"id":1,"call":{"cancel":{"task":"t"},"session":{}}}"#, InvalidParams, "an object of one call"),
        (r#"{"id":1,"call":{"answer":{"task":"t","call":"c","option":7}}}"#, InvalidParams, "answer.option is wrong"),
        (r#"{"id":1,"call":{"answer":{"task":"t","call":"c"}}}"#, InvalidParams, "answer.option is required"),
        (
            r#"{"id":1,"call":{"say":{"message":{"id":"m","role":"user","parts":[
                {"content":{"data":{"callId":"c","outcome":7}}}]}}}}"#,
            InvalidParams,
            "say.message.parts[0].content.data.outcome must be a string",
        ),
        (
            r#"{"id":1,"call":{"create":{"settings":{"auto_execute":1}}}}"#,
            InvalidParams,
            "create.settings.auto_execute is wrong",
        ),
        (r#"{"id":1,"call":{"say":{}}}"#, InvalidParams, "either text or a message"),
        (r#"{"id":1,"call":{"say":{"message":{"id":"m","role":"user","parts":[]}}}}"#, InvalidParams, "parts is empty"),
        (
            r#"{"id":1,"call":{"say":{"message":{"id":"m","role":"user","parts":[
                {"content":{"bytes":{"sha256":"00","bytes":7}}}]}}}}"#,
            InvalidParams,
            "must contain texts and files whole",
        ),
        (r#"{"id":1,"call":{"say":{"text":"x","context":""}}}"#, InvalidParams, "printable"),
        (r#"{"id":1,"call":{"list":{"state":"odd"}}}"#, InvalidParams, "submitted, working"),
    ] {
        let (fault, _) = decode(frame).expect_err(frame);
        assert_eq!(fault.kind, kind, "{frame}");
        assert!(fault.message.contains(words), "{frame}: {}", fault.message);
    }
}

#[test]
fn the_token_of_a_page_continues_its_list() {
    let list = List { state: Some(TaskState::InputRequired), ..List::default() };
    let mark = ListCursor { at: 5, task: "t-1".into() };
    let ask = |state: &str, after: &str| {
        let call = json!({"list": {"state": state, "after": after}});
        let decoded = decode(&json!({"id": 1, "call": call}).to_string());
        decoded.map(|(call, _)| call).map_err(|(fault, _)| fault.kind)
    };
    let after = token(&mark, &list);
    let next_page = Call::List(List { after: Some(mark), ..list });
    assert_eq!(ask("input-required", &after), Ok(next_page));
    assert_eq!(ask("working", &after), Err(FaultKind::InvalidParams));
    assert_eq!(ask("input-required", "x"), Err(FaultKind::InvalidParams));
}

#[test]
fn responses_have_the_id_of_their_call() {
    let (_, form) = decode(r#"{"id":"a\"1","call":{"session":{}}}"#).expect("a call");
    let whole = enclosed(&form, b"[]");
    assert_eq!(String::from_utf8(whole).expect("text"), r#"{"id":"a\"1","ok":[]}"#);
    let (fault, form) = decode(r#"{"id":7,"call":{}}"#).expect_err("no call");
    let frame: Value = serde_json::from_slice(&fault_frame(&form, &fault)).expect("JSON");
    assert_eq!(frame, json!({"id": 7, "error": {"reason": "INVALID_PARAMS", "message": fault.message}}));
}
