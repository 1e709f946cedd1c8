//! Tasks of other subjects look to a client as if they did not exist.

use super::rights::{answer, principal};
use super::{Server, bearer, credential, get, message, post};
use crate::a2a::{Dialect, Route};
use crate::base::id::TaskId;
use crate::core::disk::store::{Archive, Openness, Store};
use crate::core::test_core::{TestCore, say};
use crate::task::access::{Principal, Right};
use crate::task::call::{
    Call, Create, Execute, Follow, Join, KnownSession, Mode, Open, Push, Say, Settings, TaskTraits, TicketRequest,
};
use crate::task::definitions::slash::{Args, Typed};
use crate::task::log::brief::Brief;
use crate::task::log::event::{Event, Protocol};
use crate::task::log::record::Record;
use crate::task::policy;
use crate::task::push::Wish;
use crate::task::spec::Choice;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

const ALL: [Right; 3] = [Right::View, Right::Prompt, Right::Approve];

/// A server without a shared session, with a task of bob's whose question `c-1` is open. From now on ann asks.
fn with_foreign_task() -> (TestCore, TaskId) {
    let mut test = TestCore::changed(Default::default(), Default::default(), |setup| setup.shares_session = false);
    test.principal = principal("bob", &ALL);
    let task = test.begin(Dialect::RPC_03, None);
    test.ask_to_run(&task, "c-1");
    test.principal = principal("ann", &ALL);
    (test, task)
}

/// An id of the same length that no task has.
fn unknown(task: &TaskId) -> TaskId {
    let text = task.as_str();
    let last = if text.ends_with('0') { "1" } else { "0" };
    format!("{}{last}", &text[..text.len() - 1]).as_str().into()
}

/// Every call that names a task.
fn calls(task: &TaskId) -> Vec<Call> {
    let task = || task.clone();
    let known = || KnownSession { task: task(), servers: None, directories: Vec::new() };
    let create = || Create { context: None, settings: Settings::default(), traits: TaskTraits::SESSION };
    let execute = |line: &str, about| {
        let typed = Typed { phrase: line.into(), args: Args::InPhrase };
        Call::Execute(Execute { typed, about, create: create(), mode: Mode::Wait, otherwise: None })
    };
    let prompt = |mode| Call::Say(Say { task: Some(task()), mode, ..say("more", Protocol::V03) });
    let wish = Wish { id: None, url: "https://h.example/".into(), token: None, schemes: vec![], credentials: None };
    vec![
        prompt(Mode::Now),
        prompt(Mode::Wait),
        prompt(Mode::Stream),
        Call::Say(answer(Some(&task()), "c-1", Choice::ProceedOnce, None)),
        Call::Say(answer(Some(&task()), "c-1", Choice::Cancel, Some("no"))),
        Call::Renew { task: Some(task()) },
        Call::Get { task: task(), history: None },
        Call::Cancel { task: task() },
        Call::Abort { task: Some(task()) },
        Call::Drop { task: task(), turn: 2 },
        Call::Tune { task: task(), mode: Some(policy::Mode::Plan), model: None },
        Call::Shell { task: task(), command: "ls".into() },
        Call::Permissions { task: task(), revoke: Vec::new() },
        Call::Subscribe { task: task(), after: None },
        Call::Unsubscribe { task: task() },
        Call::Blob { task: task(), sha256: "0".repeat(64), from: 0 },
        Call::Metadata { task: task() },
        Call::Push { task: task(), ask: Push::Set(wish) },
        Call::Push { task: task(), ask: Push::List },
        Call::Push { task: task(), ask: Push::Get(None) },
        Call::Push { task: task(), ask: Push::Delete("c".into()) },
        Call::Delete { task: task() },
        Call::Export { task: task() },
        Call::Files { task: task(), query: "x".into(), limit: None },
        Call::Open(Open::Load(known())),
        Call::Open(Open::Resume(known())),
        Call::TakeBack { task: task() },
        Call::Ticket(TicketRequest { rights: None, task: Some(task()), origin: None }),
        Call::Leave { task: task() },
        Call::Join(Join { follow: Follow::Task(task()), after: None }),
        execute("/help", Some(task())),
        execute(&format!("/stop {}", task()), None),
        execute("/stop", Some(task())),
        execute(&format!("/restore {}", task()), None),
        execute(&format!("/restore {}-3", task()), None),
        execute(&format!("/undo 1 {}", task()), None),
        execute(&format!("/permissions list {}", task()), None),
        execute("/permissions list", Some(task())),
    ]
}

/// The answer of a new server to a call about bob's task, or to the same call about a task that does not exist. Ids that the server generates
/// are the same in both cases.
fn said(dialect: &'static Dialect, at: usize, is_there: bool) -> String {
    let (mut test, task) = with_foreign_task();
    let named = if is_there { task.clone() } else { unknown(&task) };
    let before = test.state(&task).seq;
    let call = calls(&named).swap_remove(at);
    let conn = test.begin_ask(dialect, call);
    test.turns();
    let said = test.take(conn);
    assert_eq!(test.state(&task).seq, before, "{}: {at}", dialect.name);
    said.replace(named.as_str(), "ID")
}

#[test]
fn every_call_about_a_task_of_another_is_answered_as_if_there_were_none() {
    let (_, task) = with_foreign_task();
    for dialect in Dialect::ALL {
        for (at, call) in calls(&task).iter().enumerate() {
            assert_eq!(said(dialect, at, true), said(dialect, at, false), "{} {call:?}", dialect.name);
        }
    }
}

#[test]
fn a_call_id_of_another_is_not_found() {
    for dialect in Dialect::ALL {
        let ask = |call: &str| {
            let (mut test, task) = with_foreign_task();
            let before = test.state(&task).seq;
            let conn = test.begin_ask(dialect, Call::Say(answer(None, call, Choice::ProceedOnce, None)));
            test.turns();
            assert_eq!(test.state(&task).seq, before, "{}", dialect.name);
            test.take(conn).replace(call, "CALL")
        };
        assert_eq!(ask("c-1"), ask("c-2"), "{}", dialect.name);
    }
}

#[test]
fn every_path_with_a_task_of_another_is_answered_as_if_there_were_none() {
    let open = || {
        let credentials = ["ann", "bob"].map(|name| credential(name, name, &["view", "prompt", "approve"]));
        let mut server = Server::new(&credentials);
        let answer = server.ask(&post("/message:send", &bearer("bob"), &message("hi"))).json();
        let task = TaskId::from(answer["task"]["id"].as_str().expect("an id"));
        (server, task)
    };
    let paths: Vec<String> = Route::all()
        .map(|route| format!("{}{}", route.base, route.pattern))
        .filter(|path| path.contains("{task}"))
        .collect();
    assert!(paths.len() > 10, "{paths:?}");
    let body = json!({"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "x"}]},
        "url": "https://h.example/", "prompt": "x"});
    for path in paths {
        for method in ["GET", "HEAD", "POST", "DELETE", "PUT"] {
            let ask = |is_there: bool| {
                let (mut server, task) = open();
                let named = if is_there { task.clone() } else { unknown(&task) };
                let path = path.replace("{task}", named.as_str()).replace("{config}", "c").replace("{tenant}", "acme");
                let request = post(&path, &bearer("ann"), &body).replacen("POST", method, 1);
                let key = server.connect();
                server.send(key, &request);
                server.take(key).replace(named.as_str(), "ID")
            };
            assert_eq!(ask(true), ask(false), "{method} {path}");
        }
    }
}

/// The journal of a task as that of another one.
fn copy_of(journal: &[u8], task: &TaskId) -> Vec<u8> {
    let mut copy = Vec::new();
    for line in journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut record = Record::read(line).expect("a record");
        if let Event::Created(created) = &mut record.event {
            Arc::make_mut(created).task = task.clone();
        }
        record.write(&mut copy);
    }
    copy
}

#[test]
fn lists_and_counts_have_only_what_is_visible() {
    let credentials = ["ann", "bob"].map(|name| credential(name, name, &["view", "prompt"]));
    let mut server = Server::new(&credentials);
    let mut texts = Vec::new();
    for name in ["ann", "bob"] {
        let answer = server.ask(&post("/message:send", &bearer(name), &message("hi"))).json();
        server.test.end_turn();
        let task = TaskId::from(answer["task"]["id"].as_str().expect("an id"));
        texts.push((task.to_string(), server.test.store.bytes(&task)));
    }
    let known = server.test.store.known().into_iter();
    let briefs: HashMap<String, Brief> = known.map(|known| (known.task.to_string(), known.brief)).collect();
    // Ten thousand copies in the store, those of the two in turn.
    for n in 0..9_998_u32 {
        let (id, text) = &texts[(n % 2) as usize];
        let copy = format!("{}-{n:08}", &id[..id.len() - 9]);
        let brief = briefs[id].clone();
        let copied: TaskId = copy.as_str().into();
        let store = &mut server.test.store;
        store.create(&copied, &brief).expect("memory takes it");
        store.append(&copied, &copy_of(text, &copied), Openness::Settled).expect("memory takes it");
    }
    server.test.is_large = true;
    server.restart(&credentials);
    server.test.core.settings.limits.list_briefs = 100;
    for name in ["ann", "bob"] {
        let headers = format!("A2A-Version: 1.0\r\n{}", bearer(name));
        let mut seen = BTreeSet::new();
        let mut token = String::new();
        loop {
            let page = server.ask(&get(&format!("/tasks?pageSize=100&pageToken={token}"), &headers)).json();
            assert_eq!(page["totalSize"], 5_000, "{name}");
            for task in page["tasks"].as_array().expect("tasks") {
                assert!(seen.insert(task["id"].as_str().expect("an id").to_owned()), "twice");
            }
            token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen.len(), 5_000);
        let gemini = server.ask(&get("/tasks", &bearer(name)));
        assert_eq!(gemini.json()["totalSize"], 5_000);
    }
}

#[test]
fn the_list_of_clients_has_only_those_that_the_viewer_may_see() {
    let (mut test, task) = with_foreign_task();
    let join = Call::Join(Join { follow: Follow::Task(task.clone()), after: None });
    test.principal = principal("bob", &ALL);
    let socket = test.begin_ask(Dialect::NATIVE, join);
    test.turns();
    let conn = test.core.connections.get_mut(socket).expect("a connection");
    let mut by = crate::task::message::Source::new("bob's", "own");
    (by.credential, by.subject) = (Some("bob".into()), Some("bob".into()));
    conn.client = Some(crate::core::connections::connection::Client { by, since: 1 });
    let mut names = |principal: Arc<Principal>| -> Value {
        test.principal = principal;
        test.ask(Dialect::NATIVE, Call::Clients)["ok"]["clients"].take()
    };
    assert_eq!(names(principal("ann", &ALL)), json!([]));
    for seeing in [principal("bob", &ALL), principal("root", &[Right::Admin])] {
        let lines = names(seeing);
        assert_eq!((&lines[0]["client"], &lines[0]["task"]), (&json!("bob's"), &json!(task)), "{lines}");
    }
}

/// A client may keep a connection for requests with several credentials.
#[test]
fn a_reused_connection_belongs_to_the_last_credential() {
    let credentials =
        [credential("laptop", "ann", &["view", "prompt"]), credential("phone", "bob", &["view", "prompt"])];
    let mut server = Server::new(&credentials);
    let key = server.connect();
    for (id, subject) in [("laptop", "ann"), ("phone", "bob"), ("phone", "bob")] {
        server.send(key, &get("/tasks", &bearer(id)));
        assert!(server.take(key).starts_with("HTTP/1.1 200"));
        let client = server.test.core.connections.get(key).and_then(|conn| conn.client.as_ref()).expect("a client");
        assert_eq!(
            (client.by.credential.as_deref(), client.by.subject.as_ref().map(|subject| subject.as_str())),
            (Some(id), Some(subject))
        );
    }
}

#[test]
fn a_shared_session_is_not_exchanged_for_a_task_that_others_do_not_see() {
    let mut test = TestCore::new();
    test.principal = principal("bob", &ALL);
    let own = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    let session = test.ask(Dialect::NATIVE, Call::Session)["ok"].clone();
    let renew = Call::Renew { task: Some(own.clone()) };
    assert_eq!(test.ask(Dialect::NATIVE, renew.clone())["error"]["reason"], "PERMISSION_DENIED");
    test.principal = principal("ann", &ALL);
    assert_eq!(test.ask(Dialect::NATIVE, Call::Session)["ok"], session);
    let join = Call::Join(Join { follow: Follow::Session, after: None });
    let socket = test.begin_ask(Dialect::NATIVE, join);
    test.turns();
    test.take(socket);
    // An admin may. The others stay where they are, and have a session of their own from then on.
    test.principal = principal("root", &[Right::Admin]);
    test.ask(Dialect::NATIVE, renew);
    test.principal = principal("bob", &ALL);
    test.say(&own);
    assert!(!test.take(socket).contains(own.as_str()), "ann is not shown bob's task");
    test.principal = principal("ann", &ALL);
    let anns = test.ask(Dialect::NATIVE, Call::Session)["ok"].clone();
    assert!(anns != session && anns != json!(own), "{anns}");
}

#[test]
fn the_webhooks_of_a_shared_task_are_its_owners() {
    let mut test = TestCore::changed(Default::default(), Default::default(), |setup| setup.switches.push = true);
    test.principal = principal("bob", &ALL);
    let session = test.ask(Dialect::NATIVE, Call::Session)["ok"]["id"].clone();
    let session =
        session.as_str().map(TaskId::from).or_else(|| test.core.tasks.known.iter().next().map(|(id, _)| id.clone()));
    let session = session.expect("a session");
    test.principal = principal("ann", &ALL);
    let list = Call::Push { task: session.clone(), ask: Push::List };
    let conn = test.begin_ask(Dialect::RPC_03, list.clone());
    test.turns();
    assert!(test.take(conn).starts_with("HTTP/1.1 403"));
    test.principal = Arc::new(Principal::operator());
    let conn = test.begin_ask(Dialect::RPC_03, list);
    test.turns();
    assert!(test.take(conn).starts_with("HTTP/1.1 200"));
}
