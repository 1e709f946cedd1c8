//! Which right every call needs, and that nothing happens without it.

use crate::a2a::{Dialect, Form};
use crate::base::id::TaskId;
use crate::core::Caller;
use crate::core::access::tests::{Server, bearer, credential, message, post};
use crate::core::disk::Parked;
use crate::core::test_core::{TestCore, say};
use crate::task::access::{Principal, Right, Rights, needed};
use crate::task::call::{
    Call, Create, Execute, Follow, Introduction, Join, KnownSession, List, Mode, Open, Push, Say, Settings, TaskTraits,
    TicketRequest,
};
use crate::task::definitions::slash::{Args, Typed};
use crate::task::log::event::{Event, Protocol};
use crate::task::machine::job::{Pick, Said};
use crate::task::machine::state::TaskState;
use crate::task::message::{Message, Part, Role, Source};
use crate::task::policy;
use crate::task::push::Wish;
use crate::task::spec::Choice;
use serde_json::{Value, json};
use std::sync::Arc;

pub fn principal(subject: &str, rights: &[Right]) -> Arc<Principal> {
    let rights = rights.iter().copied().collect();
    Arc::new(Principal { subject: subject.into(), credential: Some(subject.into()), rights, ..Principal::nobody() })
}

fn create() -> Create {
    Create { context: None, settings: Settings::default(), traits: TaskTraits::SESSION }
}

fn execute(line: &str, about: Option<TaskId>) -> Call {
    let typed = Typed { phrase: line.into(), args: Args::InPhrase };
    Call::Execute(Execute { typed, about, create: create(), mode: Mode::Now, otherwise: None })
}

fn known(task: &TaskId) -> KnownSession {
    KnownSession { task: task.clone(), servers: None, directories: Vec::new() }
}

/// An answer to a question, perhaps with words beside it.
pub fn answer(task: Option<&TaskId>, call: &str, choice: Choice, words: Option<&str>) -> Say {
    let pick = Pick { call: call.into(), option: choice.word().to_owned(), edited: None, answers: None, seen: None };
    let data = Part::data(json!({ "call": call, "option": choice.word() }));
    let parts = std::iter::once(data).chain(words.map(Part::text)).collect();
    let said = Said::new(Message::new("a", Role::User, parts).into(), vec![pick]);
    Say { said, task: task.cloned(), ..say("", Protocol::V03) }
}

fn wish() -> Wish {
    Wish { id: None, url: "https://hook.example/".into(), token: None, schemes: Vec::new(), credentials: None }
}

fn known_with_directories(task: &TaskId) -> KnownSession {
    KnownSession { directories: vec!["/w/x".into()], ..known(task) }
}

/// Every call, with the right that it needs.
fn calls(task: &TaskId) -> Vec<(Call, Option<Right>)> {
    use Right::{Admin, Approve, Prompt, View};
    let task = || task.clone();
    let prompt = || Say { task: Some(task()), ..say("more", Protocol::V03) };
    let auto = Create { settings: Settings { auto_execute: Some(true), ..Settings::default() }, ..create() };
    let join = |follow| Call::Join(Join { follow, after: None });
    vec![
        (Call::Say(prompt()), Some(Prompt)),
        (Call::Say(answer(Some(&task()), "c", Choice::ProceedOnce, None)), Some(Approve)),
        (Call::Create(create()), Some(Prompt)),
        (Call::Create(auto), Some(Approve)),
        (Call::Commands, Some(View)),
        (execute("/help", None), Some(Prompt)),
        (execute("/init", None), Some(Approve)),
        (Call::Renew { task: None }, Some(Prompt)),
        (Call::Get { task: task(), history: None }, Some(View)),
        (Call::List(List::default()), Some(View)),
        (Call::Cancel { task: task() }, Some(Prompt)),
        (Call::Abort { task: Some(task()) }, Some(Prompt)),
        (Call::Drop { task: task(), turn: 2 }, Some(Prompt)),
        (Call::Tune { task: task(), mode: Some(policy::Mode::Plan), model: None }, Some(Approve)),
        (Call::Shell { task: task(), command: "ls".into() }, Some(Approve)),
        (Call::Permissions { task: task(), revoke: Vec::new() }, Some(View)),
        (Call::Subscribe { task: task(), after: None }, Some(View)),
        (Call::Unsubscribe { task: task() }, Some(View)),
        (Call::Blob { task: task(), sha256: "0".repeat(64), from: 0 }, Some(View)),
        (Call::Metadata { task: task() }, Some(View)),
        (Call::AllMetadata, Some(View)),
        (Call::Push { task: task(), ask: Push::Set(wish()) }, Some(Prompt)),
        (Call::Push { task: task(), ask: Push::List }, Some(Prompt)),
        (Call::About, Some(View)),
        (Call::Briefs, Some(View)),
        (Call::Export { task: task() }, Some(Prompt)),
        (Call::Delete { task: task() }, Some(Admin)),
        (Call::Clients, Some(View)),
        (Call::Files { task: task(), query: "x".into(), limit: None }, Some(View)),
        (Call::Introduce(Introduction { name: None }), Some(View)),
        (Call::Open(Open::New(create())), Some(Prompt)),
        (Call::Open(Open::Live), Some(Prompt)),
        (Call::Open(Open::Load(known(&task()))), Some(View)),
        (Call::Open(Open::Resume(known(&task()))), Some(View)),
        (Call::Open(Open::Resume(known_with_directories(&task()))), Some(Prompt)),
        (Call::Sessions { workspace: None, after: None }, Some(View)),
        (Call::TakeBack { task: task() }, Some(Prompt)),
        (Call::Leave { task: task() }, Some(Prompt)),
        (Call::Reply { id: Value::Null, result: None }, Some(View)),
        (Call::Recall { id: Value::Null }, Some(View)),
        (Call::Ticket(TicketRequest { rights: None, task: None, origin: None }), Some(View)),
        (Call::Health, None),
        (Call::Live, None),
        (Call::Ready, None),
        (Call::Metrics, Some(Admin)),
        (Call::ExtendedCard, Some(View)),
        (join(Follow::Task(task())), Some(View)),
        (join(Follow::All), Some(View)),
        // There is no session, and a client without the right to prompt cannot begin one.
        (Call::Session, Some(Prompt)),
        (join(Follow::Session), Some(View)),
    ]
}

/// A new call has to be added above.
fn number(call: &Call) -> usize {
    match call {
        Call::Say(_) => 0,
        Call::Create(_) => 1,
        Call::Commands => 2,
        Call::Execute(_) => 3,
        Call::Session => 4,
        Call::Renew { .. } => 5,
        Call::Get { .. } => 6,
        Call::List(_) => 7,
        Call::Cancel { .. } => 8,
        Call::Abort { .. } => 9,
        Call::Drop { .. } => 10,
        Call::Tune { .. } => 11,
        Call::Shell { .. } => 12,
        Call::Permissions { .. } => 13,
        Call::Subscribe { .. } => 14,
        Call::Unsubscribe { .. } => 15,
        Call::Blob { .. } => 16,
        Call::Metadata { .. } => 17,
        Call::AllMetadata => 18,
        Call::Push { .. } => 19,
        Call::About => 20,
        Call::Briefs => 21,
        Call::Delete { .. } => 22,
        Call::Clients => 23,
        Call::Files { .. } => 24,
        Call::Introduce(_) => 25,
        Call::Open(_) => 26,
        Call::Sessions { .. } => 27,
        Call::TakeBack { .. } => 28,
        Call::Leave { .. } => 29,
        Call::Reply { .. } => 30,
        Call::Health => 31,
        Call::Live => 32,
        Call::Ready => 33,
        Call::Metrics => 34,
        Call::ExtendedCard => 35,
        Call::Join(_) => 36,
        // It is answered before a principal is looked at.
        Call::Card => 41,
        Call::Export { .. } => 38,
        Call::Ticket(_) => 37,
        Call::Recall { .. } => 39,
    }
}

/// The server, with a task of ann's whose turn has ended.
fn with_task() -> (TestCore, TaskId) {
    let mut test = TestCore::changed(Default::default(), Default::default(), |setup| setup.shares_session = false);
    test.principal = principal("ann", &Right::ALL);
    let task = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    (test, task)
}

#[test]
fn every_call_is_refused_without_its_right_and_changes_nothing() {
    let (_, task) = with_task();
    let mut seen: Vec<usize> = calls(&task).iter().map(|(call, _)| number(call)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (0..40).collect::<Vec<usize>>(), "a call is in no row");
    for at in 0..calls(&task).len() {
        for right in Right::ALL.into_iter().map(Some).chain([None]) {
            let (mut test, task) = with_task();
            let (call, wanted) = calls(&task).swap_remove(at);
            let auto = matches!(&call, Call::Create(create) if create.settings.auto_execute.is_some());
            // A new task or a command needs the right to prompt beside the other one.
            let both = auto || matches!(call, Call::Execute(_));
            let mut rights: Vec<Right> = right.into_iter().collect();
            rights.extend((both && wanted == Some(Right::Approve)).then_some(Right::Prompt));
            // A client that opens the session also views it.
            let opens = matches!(call, Call::Session | Call::Open(Open::Live));
            rights.extend(opens.then_some(Right::View));
            test.principal = principal("ann", &rights);
            let before = (test.state(&task).seq, test.core.tasks.known.iter().count());
            // Conversations are opened over sockets.
            let said = if let Call::Open(_) = call {
                over_socket(&mut test, call.clone())
            } else {
                let conn = test.begin_ask(Dialect::NATIVE, call.clone());
                test.turns();
                test.take(conn)
            };
            let is_refused = said.contains("PERMISSION_DENIED") || said.contains("This needs the right");
            let set: Rights = rights.iter().copied().collect();
            let may = wanted.is_none_or(|wanted| set.has(wanted));
            assert_eq!(is_refused, !may, "{call:?} with {right:?}: {said}");
            if is_refused {
                let after = (test.state(&task).seq, test.core.tasks.known.iter().count());
                assert_eq!(before, after, "{call:?} with {right:?} changed something");
                assert_eq!(test.core.tasks.live_session(&"ann".into()), None, "{call:?}");
            }
            if may && needed(&call).missing(set).is_some() {
                panic!("the table of the tests says less than that of the server: {call:?}");
            }
        }
    }
}

#[test]
fn every_command_is_refused_without_its_right() {
    let (test, _) = with_task();
    let all: Vec<(String, Right)> = test
        .core
        .settings
        .commands
        .all()
        .into_iter()
        .filter(|(_, spec)| spec.subs.is_empty())
        .map(|(path, spec)| (format!("/{} x", path.join(" ")), spec.right))
        .collect();
    assert!(all.len() > 15);
    for (line, wanted) in all {
        for right in Right::ALL {
            let (mut test, _) = with_task();
            test.principal = principal("ann", &[Right::Prompt, right]);
            let rights = test.principal.rights;
            let tasks = test.core.tasks.known.iter().count();
            let conn = test.begin_ask(Dialect::NATIVE, execute(&line, None));
            test.turns();
            let said = test.take(conn);
            assert_eq!(said.contains("PERMISSION_DENIED"), !rights.has(wanted), "{line} with {right:?}: {said}");
            if !rights.has(wanted) {
                assert_eq!(test.core.tasks.known.iter().count(), tasks, "{line}");
            }
        }
    }
}

#[test]
fn words_beside_an_answer_need_both_rights() {
    let (mut test, task) = with_task();
    test.say(&task);
    test.ask_to_run(&task, "c-1");
    let before = test.state(&task).seq;
    for rights in [[Right::Prompt, Right::View], [Right::Approve, Right::View]] {
        test.principal = principal("ann", &rights);
        for dialect in [Dialect::RPC_03, Dialect::RPC_10, Dialect::REST_10, Dialect::NATIVE, Dialect::GEMINI] {
            let say = answer(Some(&task), "c-1", Choice::ProceedOnce, Some("and go on"));
            let conn = test.begin_ask(dialect, Call::Say(say));
            test.turns();
            let said = test.take(conn);
            assert!(said.starts_with("HTTP/1.1 403"), "{}: {said}", dialect.name);
        }
    }
    assert_eq!(test.state(&task).seq, before, "refused whole");
    test.principal = principal("ann", &[Right::Prompt, Right::Approve]);
    let said = test.ask(Dialect::NATIVE, Call::Say(answer(Some(&task), "c-1", Choice::ProceedOnce, Some("go on"))));
    assert_eq!(said["ok"]["accepted"], true, "{said}");
}

#[test]
fn a_rule_is_saved_by_admins_only_and_the_question_stays() {
    let (mut test, task) = with_task();
    test.say(&task);
    test.ask_to_run(&task, "c-1");
    test.principal = principal("ann", &[Right::View, Right::Prompt, Right::Approve]);
    for dialect in [Dialect::RPC_03, Dialect::RPC_10, Dialect::REST_10, Dialect::NATIVE, Dialect::GEMINI, Dialect::ACP]
    {
        let say = answer(Some(&task), "c-1", Choice::ProceedAlwaysAndSave, None);
        let conn = test.begin_ask(dialect, Call::Say(say));
        test.turns();
        let said = test.take(conn);
        assert!(said.starts_with("HTTP/1.1 403") && said.contains("admin"), "{}: {said}", dialect.name);
        assert_eq!(test.state(&task).status.state, TaskState::InputRequired, "{}", dialect.name);
    }
    let said = test.ask(Dialect::NATIVE, Call::Say(answer(Some(&task), "c-1", Choice::ProceedOnce, None)));
    assert_eq!(said["ok"]["accepted"], true, "{said}");
}

#[test]
fn a_command_asks_nothing_only_if_its_client_may_approve() {
    for (rights, granted) in [(&["prompt"][..], false), (&["prompt", "approve"], true)] {
        let mut server = Server::changed(&[credential("laptop", "ann", rights)], |setup| {
            setup.approval.grant.auto_execute = true;
            setup.commands.add_custom("user", "explain", "Explains.");
        });
        let key = server.connect();
        server.send(key, &post("/executeCommand", &bearer("laptop"), &json!({"command": "explain", "args": []})));
        let said = server.take(key);
        let created = server.test.core.tasks.values().find(|loaded| loaded.state.created.command.is_some());
        let created = created.unwrap_or_else(|| panic!("a task: {said}"));
        assert_eq!(created.state.created.auto_execute, granted);
    }
}

/// Sends a call over a socket of its own.
fn over_socket(test: &mut TestCore, call: Call) -> String {
    let asks = std::mem::replace(&mut test.principal, Arc::new(Principal::operator()));
    let conn = test.begin_ask(Dialect::ACP, Call::Join(Join { follow: Follow::Nothing, after: None }));
    test.principal = asks;
    test.turns();
    test.take(conn);
    let socket = test.core.connections.get_mut(conn).and_then(|conn| conn.socket_mut()).expect("a socket");
    socket.requests.get_or_insert_default();
    let by = Source::new("ann", "test");
    let caller = Caller { conn, form: Form::of(Dialect::ACP), by, principal: test.principal.clone() };
    test.core.dispatch(Parked::new(caller, call), test.now);
    test.turns();
    test.take(conn)
}

#[test]
fn a_client_that_may_only_view_opens_a_conversation_without_changing_it() {
    let (mut test, task) = with_task();
    let set = KnownSession { directories: vec!["/w/x".into()], ..known(&task) };
    over_socket(&mut test, Call::Open(Open::Load(set)));
    assert_eq!(*test.state(&task).directories, ["/w/x"]);
    let before = test.state(&task).seq;
    test.principal = principal("ann", &[Right::View]);
    assert!(over_socket(&mut test, Call::Open(Open::Load(known(&task)))).contains("result"), "it is opened");
    assert_eq!((test.state(&task).seq, test.state(&task).directories.len()), (before, 1), "and not changed");
}

/// Also in a task that was begun with another credential, or is shared.
#[test]
fn prompts_are_for_workspaces_within_the_roots() {
    for roots in [vec!["/w"], vec!["/elsewhere"]] {
        let (mut test, task) = with_task();
        let workspace = test.core.tasks.known.get(&task).expect("it is known").workspace.clone();
        let mut ann = Principal::clone(&principal("ann", &Right::ALL));
        let is_within = roots == ["/w"];
        ann.roots = if is_within { Arc::new([workspace]) } else { Arc::new(["/elsewhere".into()]) };
        test.principal = Arc::new(ann);
        let before = test.state(&task).seq;
        let prompt = Say { task: Some(task.clone()), ..say("hi", Protocol::V03) };
        for call in [Call::Say(prompt), execute("/stats", Some(task.clone()))] {
            let conn = test.begin_ask(Dialect::NATIVE, call);
            test.turns();
            let said = test.take(conn);
            assert_eq!(said.contains("may not use the workspace"), !is_within, "{said}");
        }
        assert_eq!(test.state(&task).seq > before, is_within);
        let conn = test.begin_ask(Dialect::NATIVE, Call::Get { task: task.clone(), history: None });
        test.turns();
        assert!(!test.take(conn).contains("may not use"), "it may be looked at");
    }
}

#[test]
fn directories_are_within_the_roots() {
    let (mut test, task) = with_task();
    let mut ann = Principal::clone(&test.principal);
    ann.roots = Arc::new(["/w".into()]);
    ann.rights = [Right::View, Right::Prompt].into_iter().collect();
    test.principal = Arc::new(ann);
    let open = |directory: &str| {
        Call::Open(Open::Resume(KnownSession { directories: vec![directory.into()], ..known(&task) }))
    };
    let before = test.state(&task).seq;
    assert!(over_socket(&mut test, open("/etc")).contains("/etc"), "it is refused");
    assert_eq!(test.state(&task).seq, before);
    over_socket(&mut test, open("/w/lib"));
    assert_eq!(*test.state(&task).directories, ["/w/lib"]);
}

#[test]
fn records_name_no_credential_and_no_subject() {
    let mut server = Server::new(&[credential("laptop", "ann", &["view", "prompt", "approve"])]);
    server.ask(&post("/message:send", &bearer("laptop"), &message("hi")));
    server.test.end_turn();
    let state = server.test.core.tasks.values().next().expect("a task").state.clone();
    assert_eq!(state.created.owner.as_str(), "ann");
    let by =
        Source { credential: Some("laptop".into()), subject: Some("ann".into()), ..Source::new("curl", "rest-1.0") };
    for event in [
        Event::Created(state.created.clone()),
        Event::Dropped { turn: 1, by: by.clone() },
        Event::ShellBegan { command: "ls".into(), by: by.clone() },
        Event::Revoked { rules: Vec::new(), by: by.clone() },
        Event::Tuned { mode: None, model: None, directories: None, by },
    ] {
        let shown = serde_json::to_string(&*event.without_names()).expect("JSON");
        assert!(!shown.contains("laptop") && !shown.contains("ann"), "{shown}");
        assert!(!shown.contains("\"by\"") || shown.contains("curl"), "{shown}");
    }
    // The journal has them.
    let bytes = server.test.store.bytes(&state.created.task);
    let journal = String::from_utf8_lossy(&bytes);
    assert!(journal.contains("\"credential\":\"laptop\"") && journal.contains("\"owner\":\"ann\""), "{journal}");
}
