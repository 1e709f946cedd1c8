//! Tests of the Agent Client Protocol: updates, requests to the client, requests of the client, answers.

use super::*;
use crate::a2a::sample;
use crate::a2a::{Dialect, View};
use crate::base::id::Seq;
use crate::limits::ACP_OPEN_REQUESTS;
use crate::task::call::{Call, Open};
use crate::task::log::event::{End, Event, Final};
use crate::task::log::record::Record;
use crate::task::machine::state::{CallState, Stage};
use crate::task::message::{Content, Source};
use crate::task::spec::{Display, Ending, InquiryKind, Question, Todo, TodoStatus};
use std::sync::Arc;

fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

/// The updates for an event, and the name of the capability that they need.
fn updates(state: &State, record: &Record) -> (Option<&'static str>, Vec<Value>) {
    let tools = sample::tools().offering(crate::a2a::Offers { window: |_| 1000, ..Default::default() });
    match crate::a2a::event(View::Standalone(VIEW), state, record, &tools) {
        None => (None, Vec::new()),
        Some(body) => (body.event, body.open.split(|byte| *byte == b'\n').map(value).collect()),
    }
}

fn shown(state: &State, event: Event) -> Vec<Value> {
    updates(state, &sample::record(event)).1
}

fn text(kind: &str, text: &str, id: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": id})
}

#[test]
fn an_approved_command_whole() {
    let all: Vec<Value> =
        sample::fold(sample::approved_command()).iter().flat_map(|(record, state)| updates(state, record).1).collect();
    let call = |members: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call-1"});
        update.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        update
    };
    let content = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let source = json!({"source": {"client": "ada", "via": "a2a-1.0"}});
    let mut prompt = text("user_message_chunk", "[A2A] ada: go", "m-1");
    prompt["_meta"] = source;
    assert_eq!(
        all,
        [
            prompt,
            text("agent_message_chunk", "Let me see.", "t-1-4"),
            json!({"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Shell", "kind": "execute",
                "status": "pending", "rawInput": {"command": "make"}}),
            call(json!({"title": "Running make", "content": content("```\nmake\n```")})),
            call(json!({"status": "in_progress"})),
            call(json!({"content": content("1")})),
            call(json!({"status": "completed", "content": content("1")})),
            text("agent_message_chunk", "It ", "t-1-15"),
            text("agent_message_chunk", "works.", "t-1-15"),
        ]
    );
}

#[test]
fn prompts_have_their_source_unless_it_is_an_editor() {
    let state = sample::state();
    for (via, expected) in [("acp", "hi"), ("terminal", "[terminal] hi"), ("a2a-0.3", "[A2A] ann: hi")] {
        let by = Source::new("ann", via);
        let message = Arc::new(sample::prompt("m", "hi"));
        let update = shown(&state, Event::Prompted { message, by, turn: 1, delivery: Default::default() });
        assert_eq!(update[0]["content"]["text"], expected, "{via}");
    }
}

#[test]
fn edits_are_diffs_and_todos_are_a_plan() {
    let mut state = sample::state();
    let mut call = sample::call("write_file", json!({"file_path": "a.txt"}), Some(sample::edit()));
    state.calls = vec![call.clone()];
    let planned = Event::CallPlanned { call: "call-1".into(), plan: call.plan.clone().unwrap() };
    let diff = json!([{"type": "diff", "path": "/w/a.txt", "oldText": "old\n", "newText": "newer\n"}]);
    let update = &shown(&state, planned)[0];
    assert_eq!((&update["content"], &update["locations"]), (&diff, &json!([{"path": "/w/a.txt"}])));
    let display = Display::Diff {
        file_name: "a.txt".into(),
        file_path: "/w/a.txt".into(),
        diff: sample::DIFF.into(),
        old: None,
        new: "newer\n".into(),
        added: 1,
        removed: 0,
    };
    let mut ended = |display| {
        let ending = Arc::new(Ending::Success { output: "ok".into(), display });
        call.ending = Some(ending.clone());
        state.calls = vec![call.clone()];
        shown(&state, Event::CallEnded { call: "call-1".into(), ending })
    };
    let diff = json!([{"type": "diff", "path": "/w/a.txt", "oldText": null, "newText": "newer\n"}]);
    assert_eq!(ended(display)[0]["content"], diff);
    let todo = |status| Todo { description: "x".into(), status };
    let todos = TodoStatus::ALL.into_iter().map(todo).collect();
    let updates = ended(Display::Todos { todos });
    let words: Vec<&Value> = updates[1]["entries"].as_array().unwrap().iter().map(|entry| &entry["status"]).collect();
    assert_eq!(words, ["pending", "in_progress", "completed", "pending"], "cancelled steps are left out");
    assert_eq!((&updates[0]["status"], &updates[1]["sessionUpdate"]), (&json!("completed"), &json!("plan")));
}

#[test]
fn failed_turns_and_updates_that_only_some_clients_can_show() {
    let mut state = sample::state();
    let (name, lines) = updates(&state, &sample::record(Event::Looped));
    assert_eq!((name, &lines[0]["severity"]), (Some(NOTICE), &json!("warning")));
    let (name, lines) = updates(&state, &sample::record(Event::CompactionBegan));
    assert_eq!((name, &lines[0]["status"]), (Some(COMPACTION), &json!("in_progress")));
    let done = updates(&state, &sample::record(Event::Compacted { summary: "s".into(), items: 1 })).1;
    assert_eq!((&lines[0]["compactionId"], &done[0]["status"]), (&done[0]["compactionId"], &json!("completed")));
    let form = Form::of(Dialect::ACP);
    let able = Form { capabilities: Capabilities { notices: true, ..Default::default() }, ..form.clone() };
    assert!(crate::a2a::can_show(&able, Some(NOTICE)) && !crate::a2a::can_show(&able, Some(COMPACTION)));
    assert!(!crate::a2a::can_show(&form, Some(NOTICE)) && crate::a2a::can_show(&form, None));
    state.context_tokens = 10;
    let used = Event::Answered {
        answer: Arc::new(crate::task::log::answer::Answer { usage: Some(Default::default()), ..Default::default() }),
    };
    assert_eq!(shown(&state, used), [json!({"sessionUpdate": "usage_update", "used": 10, "size": 1000})]);
}

/// The state after a turn with these events.
fn after(events: Vec<Event>) -> State {
    let begun = [vec![Event::Created(sample::state().created)], sample::begins(1), events].concat();
    sample::fold(begun).pop().unwrap().1
}

#[test]
fn stop_reasons() {
    let form = Form { id: (*b"7").into(), ..Form::of(Dialect::ACP) };
    let ended = |end| after(vec![Event::TurnEnded { turn: 1, end, by: None }]);
    let answered = |finish| {
        let answer = crate::task::log::answer::Answer { finish, ..crate::task::log::answer::Answer::new("x", []) };
        let end = Event::TurnEnded { turn: 1, end: End::Done, by: None };
        after(vec![Event::Answered { answer: Arc::new(answer) }, end])
    };
    let failed = |why: &str| ended(End::Failed(why.into()));
    for (state, expected) in [
        (ended(End::Done), json!("end_turn")),
        (ended(End::Nothing), json!("end_turn")),
        (ended(End::Refused), json!("end_turn")),
        (ended(End::Asked("Which?".into())), json!("end_turn")),
        (ended(End::Interrupted("Stopped.".into())), json!("cancelled")),
        (answered(Finish::OutputLimit), json!("max_tokens")),
        (answered(Finish::Safety), json!("refusal")),
        (failed("The API blocked the answer as unsafe (SAFETY_BLOCKED)"), json!("refusal")),
        (failed(&format!("{REQUESTS_USED_UP} 3 times")), json!("max_turn_requests")),
        (failed("It broke."), json!(-32603)),
        (ended(End::NeedsAuth("No key.".into())), json!(-32000)),
        (after(vec![Event::Closed { state: Final::Canceled, text: None }]), json!("cancelled")),
        (after(vec![]), json!("cancelled")),
    ] {
        let answer = value(&stop_reason(&form, &state).body);
        assert_eq!(answer["id"], 7);
        let found = answer["result"].get("stopReason").unwrap_or(&answer["error"]["code"]);
        assert_eq!(found, &expected, "{answer}");
    }
}

#[test]
fn the_options_of_a_session() {
    let mut state = sample::state();
    let ids = |state: &State, auto_execute| {
        let offers = crate::a2a::Offers { models: vec!["a".into()], auto_execute, ..Default::default() };
        let all = options(state, &sample::tools().offering(offers));
        let values = |at: usize| -> Vec<String> {
            let options = all[at]["options"].as_array().unwrap();
            options.iter().map(|option| option["value"].as_str().unwrap().to_owned()).collect()
        };
        (values(0), values(1))
    };
    assert_eq!(ids(&state, false).0, ["default", "plan"]);
    assert_eq!(ids(&state, true).0, ["default", "plan", "yolo"]);
    state.mode = Mode::AutoEdit;
    assert_eq!(
        ids(&state, false),
        (["default", "autoEdit", "plan"].map(String::from).to_vec(), vec!["gemini-x".into(), "a".into()])
    );
    assert_eq!(mode_of("autoEdit"), Some(Mode::AutoEdit));
    assert_eq!(mode_of("auto_edit"), None);
}

// Requests to the client.

fn asking(question: Question, id: &str) -> CallState {
    let mut call = sample::call("x", json!({}), Some(question));
    call.request.call = id.into();
    (call.stage, call.planned_at) = (Stage::Asked, Seq(4));
    call
}

fn waiting(calls: Vec<CallState>) -> State {
    State { calls, ..sample::state() }
}

#[test]
fn a_request_about_a_call_is_sent_once_and_withdrawn_when_outdated() {
    let (mut requests, form) = (OpenRequests::default(), Form::of(Dialect::ACP));
    let mut state = waiting(vec![asking(sample::edit(), "c")]);
    let asked = requests.ask(&form, &state);
    let request = value(&asked.messages[0]);
    assert_eq!((&request["id"], &request["method"]), (&json!(1), &json!("session/request_permission")));
    assert_eq!(request["params"]["toolCall"]["content"][0]["type"], "diff");
    let kinds: Vec<_> =
        request["params"]["options"].as_array().unwrap().iter().map(|o| (&o["optionId"], &o["kind"])).collect();
    let expected = [("proceed_once", "allow_once"), ("proceed_always", "allow_always"), ("cancel", "reject_once")];
    assert!(kinds.iter().zip(expected).all(|(found, (id, kind))| *found.0 == id && *found.1 == kind), "{kinds:?}");
    assert!(requests.ask(&form, &state).messages.is_empty() && requests.withdraw(&state).is_empty());
    // The plan is another one.
    state.calls[0].planned_at = Seq(8);
    assert_eq!(value(&requests.withdraw(&state)[0])["params"]["requestId"], 1);
    assert_eq!(value(&requests.ask(&form, &state).messages[0])["id"], 2);
    state.calls[0].stage = Stage::Ended;
    let withdrawn = value(&requests.withdraw(&state)[0]);
    assert_eq!((&withdrawn["method"], &withdrawn["params"]["requestId"]), (&json!("$/cancel_request"), &json!(2)));
    let late = json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}});
    assert_eq!(requests.answered(&form, &json!(2), Some(&late)), None);
}

#[test]
fn answers_of_clients() {
    let form = Form::of(Dialect::ACP);
    let shared = Form::of(Dialect::ACP_SESSION);
    let selected = |id: &str| Some(json!({"outcome": {"outcome": "selected", "optionId": id}}));
    let cancelled = Some(json!({"outcome": {"outcome": "cancelled"}}));
    for (form, result, expected) in [
        (&form, selected("proceed_always"), Some("proceed_always")),
        (&form, selected("nonsense"), Some("nonsense")),
        (&form, cancelled, None),
        (&form, Some(json!({})), None),
        (&form, Some(json!("x")), None),
        (&form, None, Some("cancel")),
        (&shared, None, None),
    ] {
        let mut requests = OpenRequests::default();
        let state = waiting(vec![asking(sample::edit(), "c")]);
        requests.ask(form, &state);
        let pick = requests.answered(form, &json!(1), result.as_ref());
        let found = pick.as_ref().map(|(task, pick)| (task.as_str(), pick.option.as_str(), pick.seen));
        assert_eq!(found, expected.map(|option| ("t-1", option, Some(Seq(4)))), "{result:?}");
        assert_eq!(
            requests.answered(form, &json!(1), selected("cancel").as_ref()),
            None,
            "only the first response counts"
        );
        assert!(requests.ask(form, &state).messages.is_empty(), "the request is not sent again");
        requests.forget(&"t-1".into());
        assert_eq!(requests.ask(form, &state).messages.len(), 1, "forgotten requests are sent again");
    }
}

#[test]
fn the_agents_own_questions() {
    let forms = Form { capabilities: Capabilities { forms: true, ..Default::default() }, ..Form::of(Dialect::ACP) };
    let one = sample::inquiry(InquiryKind::Choice, &["red", "green"]);
    let mut several = one.clone();
    several.multi_select = true;
    let questions =
        vec![one.clone(), several, sample::inquiry(InquiryKind::YesNo, &[]), sample::inquiry(InquiryKind::Text, &[])];
    let ask = |form: &Form, questions: Vec<_>| {
        let mut requests = OpenRequests::default();
        let state = waiting(vec![asking(Question::AskUser { title: String::new(), questions }, "c")]);
        (requests.ask(form, &state), requests)
    };
    let (asked, mut requests) = ask(&forms, questions.clone());
    let request = value(&asked.messages[0]);
    assert_eq!((&request["method"], &request["params"]["mode"]), (&json!("elicitation/create"), &json!("form")));
    let fields = &request["params"]["requestedSchema"]["properties"];
    let kinds: Vec<&Value> = (0..4).map(|at| &fields[at.to_string()]["type"]).collect();
    assert_eq!(kinds, ["string", "array", "boolean", "string"]);
    let content = json!({"0": "red", "1": ["red", "green"], "2": true, "3": "blue", "4": null});
    let accepted = json!({"action": "accept", "content": content});
    let (_, pick) = requests.answered(&forms, &json!(1), Some(&accepted)).unwrap();
    let answers: Vec<(String, String)> = pick.answers.unwrap().iter().map(|(a, b)| (a.clone(), b.clone())).collect();
    let expected = [("0", "red"), ("1", "red, green"), ("2", "Yes"), ("3", "blue")];
    assert_eq!(answers, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let (_, mut requests) = ask(&forms, questions.clone());
    let (_, pick) = requests.answered(&forms, &json!(1), Some(&json!({"action": "decline"}))).unwrap();
    assert_eq!((pick.option.as_str(), pick.answers), ("cancel", None));
    // Without forms, one choice is asked as a permission; more cannot be.
    let form = Form::of(Dialect::ACP);
    let (asked, mut requests) = ask(&form, vec![one]);
    assert_eq!(value(&asked.messages[0])["params"]["options"][1]["name"], "green");
    let chosen = json!({"outcome": {"outcome": "selected", "optionId": "1"}});
    let (_, pick) = requests.answered(&form, &json!(1), Some(&chosen)).unwrap();
    assert_eq!((pick.option.as_str(), &pick.answers.unwrap()["0"]), ("proceed_once", &"green".to_owned()));
    let (asked, _) = ask(&form, questions);
    assert!(asked.messages.is_empty());
    assert_eq!(asked.unaskable, ["c".into()]);
}

#[test]
fn open_requests_are_limited() {
    let (mut requests, form) = (OpenRequests::default(), Form::of(Dialect::ACP));
    let calls = (0..=ACP_OPEN_REQUESTS).map(|n| asking(sample::edit(), &n.to_string())).collect();
    let mut state = waiting(calls);
    assert_eq!(requests.ask(&form, &state).messages.len(), ACP_OPEN_REQUESTS);
    state.calls[0].stage = Stage::Ended;
    requests.withdraw(&state);
    assert_eq!(requests.ask(&form, &state).messages.len(), 1, "the last request follows when another is answered");
}

// What clients send.

fn decoded(sent: Value) -> (Result<Call, Fault>, Form) {
    match decode(&sent.to_string(), &Form::of(Dialect::ACP)) {
        Ok((call, form)) => (Ok(call), form),
        Err((fault, form)) => (Err(fault), form),
    }
}

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params})
}

#[test]
fn initialize_declares_capabilities_and_the_client_name() {
    let sent = request(
        "initialize",
        json!({"protocolVersion": 9, "clientInfo": {"name": "zed\u{7}"},
        "clientCapabilities": {"elicitation": {"form": {}}, "session": {"notices": {}, "compaction": null}}}),
    );
    for (text, words) in [
        (sent.to_string().as_str(), FirstMessage::Initialize),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}"#,
            FirstMessage::GreetingError,
        ),
        (r#"{"jsonrpc":"2.0","id":7,"error":{}}"#, FirstMessage::Other),
        ("{}", FirstMessage::Other),
        ("x", FirstMessage::Other),
    ] {
        assert_eq!(first_message(text), words, "{text}");
    }
    let (call, form) = decoded(sent);
    assert_eq!(form.capabilities, Capabilities { forms: true, notices: true, compaction: false });
    let Ok(Call::Introduce(introduction)) = call else { panic!("{call:?}") };
    assert_eq!(introduction.name.as_deref(), Some("zed"));
    assert_eq!(value(&initialized(&form, Servers::Refused).body)["result"]["protocolVersion"], 1);
}

#[test]
fn sessions_are_opened_below_an_absolute_path() {
    let new = |params| decoded(request("session/new", params)).0.map_err(|fault| fault.field.unwrap_or_default());
    assert!(matches!(new(json!({"cwd": "/w", "mcpServers": []})), Ok(Call::Open(Open::New(_)))));
    assert_eq!(new(json!({"cwd": "w", "mcpServers": []})), Err("session/new.cwd".into()));
    assert_eq!(new(json!({"mcpServers": []})), Err("session/new.cwd".into()));
    let Ok(Call::Open(Open::New(named))) = new(json!({"cwd": "/w", "mcpServers": [{"name": "x", "_meta": {}}]})) else {
        panic!("servers are checked by whoever starts them");
    };
    assert_eq!(named.settings.servers.map(|servers| servers.reveal().to_owned()), Some(r#"[{"name":"x"}]"#.into()));
    assert_eq!(new(json!({"cwd": "/w", "mcpServers": ["x"]})), Err("session/new.mcpServers".into()));
    let live = decode(
        &request("session/new", json!({"cwd": "x", "mcpServers": [{}]})).to_string(),
        &Form::of(Dialect::ACP_SESSION),
    );
    assert_eq!(live.unwrap().0, Call::Open(Open::Live));
}

#[test]
fn prompts_join_text_and_links_and_keep_files() {
    let prompt = |blocks: Value| match decoded(request("session/prompt", json!({"sessionId": "t", "prompt": blocks}))).0
    {
        Ok(Call::Say(say)) => Ok(say.said.message.parts.clone()),
        Ok(Call::Execute(execute)) => panic!("{execute:?}"),
        Ok(other) => panic!("{other:?}"),
        Err(fault) => Err(fault.field.unwrap_or_default()),
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let link = |uri: &str| json!({"type": "resource_link", "name": "x", "uri": uri});
    let embedded = |resource: Value| json!({"type": "resource", "resource": resource});
    let texts = |parts: Vec<crate::task::message::Part>| -> Vec<String> {
        let text = |part: &crate::task::message::Part| match &part.content {
            Content::Text(text) => text.as_str().to_owned(),
            _ => part.media_type.clone().unwrap_or_default(),
        };
        parts.iter().map(text).collect()
    };
    for (blocks, expected) in [
        (json!([text("look at"), link("file:///w/a%20b.rs#L3"), text("please")]), vec!["look at @/w/a\\ b.rs please"]),
        (json!([link("https://x.y/z")]), vec!["https://x.y/z "]),
        (
            json!([text("see"), embedded(json!({"uri": "file:///w/a", "text": "1"}))]),
            vec!["see /w/a ", "Content of file:///w/a:\n1"],
        ),
        (json!([text("x"), {"type": "image", "data": "aGk=", "mimeType": "image/png"}]), vec!["x", "image/png"]),
        (
            json!([embedded(json!({"uri": "file:///w/%zz%0a", "blob": "aGk="}))]),
            vec!["file:///w/%zz%0a ", "application/octet-stream"],
        ),
    ] {
        assert_eq!(prompt(blocks.clone()).map(texts), Ok(expected.into_iter().map(String::from).collect()), "{blocks}");
    }
    for (blocks, field) in [
        (json!([]), "session/prompt.prompt"),
        (json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]), "prompt[0].type"),
        (json!([text("x"), {"type": "text"}]), "prompt[1].text"),
        (json!([{"type": "resource"}]), "prompt[0].uri"),
        (json!("x"), "session/prompt.prompt"),
    ] {
        assert_eq!(prompt(blocks.clone()), Err(field.into()), "{blocks}");
    }
    let command = decoded(request("session/prompt", json!({"sessionId": "t", "prompt": [text("/help me")]}))).0;
    assert!(matches!(command, Ok(Call::Execute(execute)) if execute.otherwise.is_some()));
}

#[test]
fn messages_without_an_id_get_no_response() {
    let (call, form) = decoded(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "t"}}));
    assert_eq!(call, Ok(Call::TakeBack { task: "t".into() }));
    assert!(!crate::a2a::is_answered(&form));
    let (reply, form) = decoded(json!({"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "x"}}));
    assert_eq!(reply, Ok(Call::Reply { id: json!(3), result: None }));
    assert!(!crate::a2a::is_answered(&form));
    for (sent, code) in [
        (json!([]), -32600),
        (json!({"id": 1, "method": "x"}), -32600),
        (request("no/such", json!({})), -32601),
        (request("session/set_mode", json!({"sessionId": "t", "modeId": "x"})), -32602),
        (request("session/list", json!({"cursor": "x"})), -32602),
        (request("session/prompt", json!([])), -32602),
    ] {
        let (call, form) = decoded(sent.clone());
        assert!(crate::a2a::is_answered(&form), "{sent}");
        let error = value(&fault(&form, &call.unwrap_err()).body);
        assert_eq!(error["error"]["code"], code, "{sent}");
    }
}

#[test]
fn sessions_come_in_pages_the_live_one_first() {
    let form = Form::of(Dialect::ACP);
    let brief = |at: u64| Brief { at, turns: 1, workspace: "/w".into(), title: "x".into(), ..Brief::bare("c".into()) };
    let mut known: Vec<(TaskId, Brief)> =
        (0..ACP_PAGE as u64 + 2).map(|at| (format!("t-{at}").into(), brief(at))).collect();
    known.push(("empty".into(), Brief { turns: 0, ..brief(900) }));
    known.push(("over".into(), Brief { state: TaskState::Completed, ..brief(900) }));
    known.push(("elsewhere".into(), Brief { workspace: "/x".into(), ..brief(900) }));
    let page = |after: Option<&ListCursor>| {
        let live = TaskId::from("t-0");
        let all = known.iter().map(|(task, brief)| (task, brief));
        value(&sessions(&form, all, Some(&live), Some("/w"), after).body)["result"].clone()
    };
    let first = page(None);
    assert_eq!(first["sessions"].as_array().unwrap().len(), ACP_PAGE);
    assert_eq!(first["sessions"][0]["sessionId"], "t-0");
    assert_eq!(first["sessions"][1]["sessionId"], format!("t-{}", ACP_PAGE + 1));
    let cursor = read_cursor(first["nextCursor"].as_str().unwrap()).unwrap();
    let second = page(Some(&cursor));
    assert_eq!(second["sessions"].as_array().unwrap().len(), 2);
    assert_eq!((&second["sessions"][1]["sessionId"], &second["nextCursor"]), (&json!("t-1"), &Value::Null));
}
