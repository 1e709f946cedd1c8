//! The entries of the audit, and what waits for them.

use super::*;
use crate::a2a::{Dialect, Switches};
use crate::core::connections::connection::Peer;
use crate::core::connections::identity::Identity;
use crate::core::test_core::{TestCore, core_harness, say};
use crate::core::{Input, Setup};
use crate::limits::Limits;
use crate::limits::audit::AUDIT_COUNT_MS;
use crate::task::audit::chain::{ReadEntry, Verifier};
use crate::task::audit::entries::Prompts;
use crate::task::log::event::{End, Protocol};
use crate::task::log::record::Record;
use crate::task::log::server::NamedServer;
use crate::task::machine::decide::{Decision, Effect, Gate};
use crate::task::message::Source;
use serde_json::Value;

fn audited() -> TestCore {
    audited_with(|_| {})
}

fn audited_with(change: impl FnOnce(&mut Setup)) -> TestCore {
    let mut test = TestCore::new();
    let texts = Texts { redact: Box::new(|text| text.replace("s3cret", "[redacted]")), prompts: Prompts::Hashed };
    let audit = AuditSetup { chain: "i-1".into(), head: Head::default(), texts, began: What::default() };
    let mut setup = core_harness::setup(Limits::default(), Switches::default(), test.now);
    change(&mut setup);
    test.core = Core::new(Setup { audit: Some(audit), ..setup });
    test
}

fn entries(test: &TestCore) -> Vec<ReadEntry> {
    let mut verifier = Verifier::from_start();
    let bytes = test.store.audit();
    bytes.split_inclusive(|byte| *byte == b'\n').map(|line| verifier.take(line.trim_ascii_end()).unwrap()).collect()
}

fn kinds(test: &TestCore) -> Vec<String> {
    entries(test).into_iter().map(|entry| entry.kind).collect()
}

fn journal(test: &TestCore, task: &TaskId) -> Vec<Record> {
    let bytes = test.store.bytes(task);
    bytes.split_inclusive(|byte| *byte == b'\n').map(|line| Record::read(line.trim_ascii_end()).unwrap()).collect()
}

/// The model calls a tool; the call is asked about, approved and started.
fn run_a_call(test: &mut TestCore, task: &TaskId, args: Value) -> Seq {
    let event = |event: Value| serde_json::from_value(event).expect("an event");
    let question = json!({"exec": {"title": "t", "command": "ls", "programs": ["ls"], "dir": "/w"}});
    let request = json!({"call": {"id": "c", "name": "run_shell_command", "args": args}});
    let by = Source::new("ann", "test");
    let events = vec![
        event(json!({"answered": {"answer": {"parts": [request]}}})),
        event(json!({"call_planned": {"call": "c", "plan": {"title": "ls", "question": question}}})),
        event(json!({"call_asked": {"call": "c"}})),
        event(json!({"call_answered": {"call": "c", "choice": "proceed_once", "by": by}})),
        event(json!({"call_ready": {"call": "c"}})),
        event(json!({"call_started": {"call": "c"}})),
    ];
    let job = Seq(test.state(task).seq.0 + events.len() as u64);
    let effects = vec![Effect::Start { job, gate: Gate::Synced }];
    test.jobs.clear();
    test.core.commit(task, Decision { events, effects }, test.now);
    job
}

#[test]
fn who_owns_a_task_in_a_shared_store_is_in_the_audit() {
    let mut test = audited_with(|setup| core_harness::share(setup, "a"));
    test.flushes = true;
    let task = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    test.holds_loads = true;
    test.core.commit(&task, Decision { events: vec![Event::Resumed], effects: Vec::new() }, test.now);
    test.turns();
    for request in std::mem::take(&mut test.loads) {
        test.core.input(request.failed(StoreError::locked("another instance")), test.now);
    }
    test.holds_loads = false;
    test.turns();
    test.say(&task);
    // Only its owner has the connections to servers of the client.
    test.core.tasks.update(&task, |loaded| {
        let created = &mut Arc::make_mut(&mut loaded.state).created;
        let server = NamedServer { name: "s".into(), url: "https://s.example/".into() };
        Arc::make_mut(created).servers.push(server);
    });
    test.core.input(Input::ShutDown, test.now);
    test.later(test.limits.shutdown_ms);
    let kinds = kinds(&test);
    assert_eq!(
        kinds,
        ["began", "created", "prompted", "fenced", "claimed", "prompted", "released", "ended"],
        "{:?}",
        entries(&test)
    );
    let claimed = &entries(&test)[4];
    assert_eq!((&claimed.what["instance"], &claimed.what["epoch"]), (&json!("a"), &json!(1)));
    assert_eq!(claimed.who.subject.as_deref(), Some("operator"), "whose prompt it is claimed for");
    let last = journal(&test, &task).pop().map(|record| record.event);
    assert_eq!(last, Some(Event::Released));
}

#[test]
fn what_happens_in_a_task_is_in_the_audit_in_its_order() {
    let mut test = audited();
    test.flushes = true;
    let task = test.begin(Dialect::RPC_03, None);
    run_a_call(&mut test, &task, json!({"z": 1, "command": "echo s3cret", "s3cret": []}));
    test.turns();
    test.cancel(&task);
    test.turns();
    assert_eq!(
        kinds(&test),
        ["began", "created", "prompted", "asked", "answered", "ran", "result", "canceled"],
        "{:?}",
        entries(&test)
    );
    let entries = entries(&test);
    assert!(entries[1..].iter().all(|entry| entry.task.as_deref() == Some(task.as_str())));
    let prompted = &entries[2];
    assert_eq!(prompted.who.subject.as_deref(), Some("operator"));
    assert_eq!((prompted.who.via.as_str(), &prompted.what["bytes"]), ("test", &json!(2)));
    assert!(prompted.what.get("text").is_none(), "{}", prompted.what);
    let ran = &entries[5];
    assert_eq!(ran.what["args"], json!({"[redacted]": [], "command": "echo [redacted]", "z": 1}));
    assert_eq!((ran.who.via.as_str(), &ran.what["tool"]), ("agent", &json!("run_shell_command")));
    assert_eq!(entries[6].what["outcome"], "cancelled");
    // Each entry names its event, and the head is in the journal right before the end.
    let journal = journal(&test, &task);
    for entry in &entries[1..] {
        let record = &journal[entry.seq.expect("a number") as usize - 1];
        let name = json!(record.event).as_object().and_then(|event| event.keys().next().cloned()).unwrap_or_default();
        let expected = match entry.kind.as_str() {
            "asked" => "call_asked",
            "answered" => "call_answered",
            "ran" => "call_started",
            "result" => "call_ended",
            "canceled" => "closed",
            other => other,
        };
        assert_eq!(name, expected);
    }
    let last = entries.last().expect("entries");
    let before = journal.iter().rev().nth(1).expect("events");
    let head = Event::Audited { chain: "i-1".into(), n: last.n, hash: last.hash.clone() };
    assert!(journal.iter().any(|record| record.event == head), "{before:?}");
    assert!(matches!(journal.last().map(|record| &record.event), Some(Event::Closed { .. })));
}

#[test]
fn long_arguments_are_named_by_their_hash() {
    let mut test = audited();
    let task = test.begin(Dialect::RPC_03, None);
    // `{"c":"…"}` with as many bytes as are kept, and one more.
    for (bytes, inline) in [(16 * 1024, true), (16 * 1024 + 1, false)] {
        let args = json!({ "c": "x".repeat(bytes - r#"{"c":""}"#.len()) });
        run_a_call(&mut test, &task, args.clone());
        test.turns();
        let entries = entries(&test);
        let ran = entries.iter().rev().find(|entry| entry.kind == "ran").expect("an entry");
        assert_eq!(ran.what.get("args"), inline.then_some(&args));
        let hash = crate::task::log::blob::sha256(args.to_string().as_bytes());
        assert_eq!(ran.what["args_sha256"], json!(hash));
        test.core.commit(&task, Decision { events: vec![ended()], effects: Vec::new() }, test.now);
    }
}

fn ended() -> Event {
    let ending = json!({"cancelled": {"reason": "r"}});
    serde_json::from_value(json!({"call_ended": {"call": "c", "ending": ending}})).expect("an event")
}

#[test]
fn a_tool_starts_when_the_audit_is_flushed() {
    let mut test = audited();
    let task = test.begin(Dialect::RPC_03, None);
    let job = run_a_call(&mut test, &task, json!({}));
    test.turns();
    assert_eq!(kinds(&test).last().map(String::as_str), Some("ran"), "it is written");
    // The journal is flushed, the audit is not.
    let upto = test.state(&task).seq;
    test.core.input(Input::Synced { task: task.clone(), upto, result: Ok(()) }, test.now);
    test.turns();
    assert!(test.jobs.is_empty(), "{:?}", test.jobs);
    let last = entries(&test).last().expect("entries").n;
    test.core.input(Input::AuditSynced { upto: last - 1, result: Ok(()) }, test.now);
    test.turns();
    assert!(test.jobs.is_empty(), "not all of it is flushed");
    test.core.input(Input::AuditSynced { upto: last, result: Ok(()) }, test.now);
    test.turns();
    assert_eq!(test.jobs.iter().map(|job| job.at).collect::<Vec<_>>(), [job]);
}

#[test]
fn while_the_audit_cannot_be_written_nothing_starts_and_everything_can_be_read() {
    let mut test = audited();
    test.flushes = true;
    let task = test.begin(Dialect::RPC_03, None);
    let before = test.store.bytes(&task);
    test.store.fail_audit(u32::MAX);
    run_a_call(&mut test, &task, json!({}));
    test.turns();
    assert!(test.jobs.is_empty(), "{:?}", test.jobs);
    assert_eq!(test.store.bytes(&task), before, "what the audit does not have is in no journal");
    assert!(test.core.audit_problem().is_some_and(|problem| problem.starts_with("The audit cannot be written")));
    // Changes are refused, and everything can be read.
    let answer = test.ask(Dialect::RPC_03, Call::Say(say("more", Protocol::V03)));
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("audit")), "{answer}");
    let health = test.ask(Dialect::RPC_03, Call::Health);
    assert!(health.to_string().contains("The audit cannot be written"), "{health}");
    let listed = test.ask(Dialect::REST_10, Call::Briefs);
    assert!(listed.to_string().contains(task.as_str()), "{listed}");
    // When the audit can be written again, work continues.
    test.store.fail_audit(0);
    test.later(test.limits.store_retry_ms);
    test.later(test.limits.store_retry_ms);
    assert_eq!(test.core.audit_problem(), None);
    assert_eq!(test.jobs.len(), 1);
    assert_eq!(kinds(&test).last().map(String::as_str), Some("ran"));
    assert_ne!(test.store.bytes(&task), before);
}

#[test]
fn a_new_task_whose_audit_entry_cannot_be_written_is_refused() {
    let mut test = audited();
    test.turns();
    test.store.fail_audit(1);
    let answer = test.ask(Dialect::RPC_03, Call::Say(say("go", Protocol::V03)));
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("audit")), "{answer}");
    assert_eq!(test.core.tasks.len(), 0);
    test.later(test.limits.store_retry_ms);
    test.begin(Dialect::RPC_03, None);
}

#[test]
fn a_failed_flush_is_final() {
    let mut test = audited();
    test.flushes = true;
    test.store.fail_audit_syncs(1);
    let task = test.begin(Dialect::RPC_03, None);
    run_a_call(&mut test, &task, json!({}));
    test.turns();
    assert!(test.jobs.is_empty());
    test.later(60_000);
    assert!(test.jobs.is_empty());
    assert!(test.core.audit_problem().is_some_and(|problem| problem.contains("restart the server")));
    assert_eq!(test.store.audit_syncs(), 0);
}

#[test]
fn every_end_of_a_turn_names_the_head_in_the_same_write() {
    let mut test = audited();
    let task = test.begin(Dialect::RPC_03, None);
    for _ in 0..2 {
        test.end_turn();
        let journal = journal(&test, &task);
        let head = entries(&test).pop().expect("entries");
        let [.., audited, ended] = journal.as_slice() else {
            panic!("{journal:?}");
        };
        assert_eq!(audited.event, Event::Audited { chain: "i-1".into(), n: head.n, hash: head.hash });
        assert!(matches!(ended.event, Event::TurnEnded { end: End::Done, .. }));
        test.say(&task);
    }
}

#[test]
fn the_end_of_the_server_is_the_last_entry_and_its_head_is_logged() {
    let mut test = audited();
    test.begin(Dialect::RPC_03, None);
    test.core.input(Input::ShutDown, test.now);
    test.now.mono_ms += test.limits.shutdown_ms;
    test.core.turn(&mut test.store, &mut test.outside, test.now);
    let last = entries(&test).pop().expect("entries");
    assert_eq!(last.kind, "ended");
    let said = test.outside.take_outs().into_iter().filter_map(|out| match out {
        Out::Log { text, .. } => Some(text),
        _ => None,
    });
    assert!(said.into_iter().any(|text| text.contains(&last.hash)));
}

#[test]
fn refused_peers_are_counted_per_minute() {
    let mut test = audited();
    test.turns();
    for _ in 0..3 {
        let conn = test.core.opened(Peer::MaybeTool, test.now);
        let body = r#"{"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "hi"}]}}"#;
        let request = format!(
            "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        test.core.input(Input::Received { conn, bytes: request.as_bytes() }, test.now);
        test.core.input(Input::Identified { conn, identity: Identity::Tool }, test.now);
        test.turns();
    }
    let refused = |test: &TestCore| {
        let entries = entries(test).into_iter().filter(|entry| entry.kind == "child_refused");
        entries.map(|entry| entry.what["count"].as_u64().expect("a count")).collect::<Vec<u64>>()
    };
    assert_eq!(refused(&test), [1]);
    test.later(AUDIT_COUNT_MS);
    assert_eq!(refused(&test), [1, 2]);
    assert_eq!(entries(&test)[1].what["reason"], "tool");
}

#[test]
fn refusals_are_only_counted_while_the_audit_cannot_be_written() {
    let mut test = audited();
    test.store.fail_audit(u32::MAX);
    test.turns();
    for n in 0..10 {
        test.core.audit_refusal(Kind::Denied, &format!("10.0.0.{n}"), "credential", test.now);
        test.core.audit_refusal(Kind::Denied, &format!("10.0.0.{n}"), "credential", test.now);
    }
    test.later(AUDIT_COUNT_MS);
    assert_eq!(kinds(&test), [""; 0]);
    test.store.fail_audit(0);
    test.later(test.limits.store_retry_ms);
    test.later(AUDIT_COUNT_MS);
    let counts: Vec<u64> = entries(&test)[1..].iter().filter_map(|entry| entry.what["count"].as_u64()).collect();
    assert_eq!(counts, [2; 10]);
}

#[test]
fn a_task_is_deleted_after_its_audit_entry_was_written() {
    let mut test = audited();
    let task = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    test.store.fail_audit(1);
    let answer = test.ask(Dialect::NATIVE, Call::Delete { task: task.clone() });
    assert_eq!(answer["ok"]["taskId"], json!(task), "{answer}");
    assert!(!test.store.bytes(&task).is_empty());
    test.later(test.limits.store_retry_ms);
    assert!(test.store.bytes(&task).is_empty());
    let last = entries(&test).pop().expect("entries");
    assert_eq!((last.kind.as_str(), last.task.as_deref()), ("deleted", Some(task.as_str())));
    assert_eq!(last.who.via, "test");
}

/// Another task may continue it, of which this instance knows nothing.
#[test]
fn a_deletion_that_a_shared_store_refuses_is_retried_after_hours_and_audited_when_done() {
    let mut test = audited_with(|setup| core_harness::share(setup, "a"));
    test.flushes = true;
    let task = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    test.cancel(&task);
    let brief = test.core.tasks.known.get(&task).expect("it is known").clone();
    let kept_ms = test.limits.times.retention_ms.expect("tasks are not kept for ever");
    let deleted = |test: &TestCore| kinds(test).iter().filter(|kind| *kind == "deleted").count();
    test.core.tasks.known.read_clocks(test.now);
    test.now.mono_ms += kept_ms + 1_000;
    test.now.unix_ms += kept_ms + 1_000;
    // What `remove` does, except that the store refuses.
    test.core.tasks.unload(&task);
    test.core.tasks.forget(&task, test.now.unix_ms);
    test.core.audit_deleting(&task, test.now);
    let result = Err(StoreError::new("task u continues it"));
    test.core.input(Input::Removed { task: task.clone(), brief, result }, test.now);
    test.turns();
    for _ in 0..10 {
        test.later(test.limits.expiry_retry_ms);
    }
    assert_eq!((test.store.bytes(&task).is_empty(), deleted(&test)), (false, 0));
    test.later(crate::limits::store::REMOVAL_RETRY_MS);
    test.turns();
    assert_eq!((test.store.bytes(&task).is_empty(), deleted(&test)), (true, 1));
}

/// The answer comes when the store has done it.
#[test]
fn a_client_that_deletes_a_task_of_a_shared_store_is_in_the_audit_once() {
    let mut test = audited_with(|setup| core_harness::share(setup, "a"));
    test.flushes = true;
    let task = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    let answer = test.ask(Dialect::NATIVE, Call::Delete { task: task.clone() });
    assert_eq!(answer["ok"]["taskId"], json!(task), "{answer}");
    test.turns();
    let deleted: Vec<ReadEntry> = entries(&test).into_iter().filter(|entry| entry.kind == "deleted").collect();
    assert_eq!((deleted.len(), deleted[0].who.via.as_str()), (1, "test"));
}

#[test]
fn a_rule_is_saved_after_its_audit_entry_was_written() {
    let mut test = audited();
    let task = test.begin(Dialect::RPC_03, None);
    let rule: Rule = serde_json::from_value(json!({"toolName": "glob", "decision": "allow"})).expect("a rule");
    let event = Event::Nudged { text: "n".into() };
    let effects = vec![Effect::Save { rule: Box::new(rule) }];
    test.store.fail_audit(1);
    test.core.commit(&task, Decision { events: vec![event], effects }, test.now);
    let saves = |test: &mut TestCore| {
        test.core.turn(&mut test.store, &mut test.outside, test.now);
        test.outside.take_outs().into_iter().filter(|out| matches!(out, Out::SaveRule { .. })).count()
    };
    assert_eq!(saves(&mut test), 0);
    test.now.mono_ms += test.limits.store_retry_ms;
    assert_eq!(saves(&mut test), 1);
    let last = entries(&test).pop().expect("entries");
    assert_eq!((last.kind.as_str(), &last.what["rule"]["toolName"]), ("saved", &json!("glob")));
}

#[test]
fn refused_calls_are_audited_with_who_made_them() {
    use crate::task::access::{Principal, Right};
    let principal = |subject: &str, rights: &[Right]| {
        let rights = rights.iter().copied().collect();
        Arc::new(Principal { subject: subject.into(), credential: Some(subject.into()), rights, ..Principal::nobody() })
    };
    let mut test = audited();
    test.principal = principal("bob", &[Right::View, Right::Prompt]);
    let task = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    test.principal = principal("ann", &[Right::View]);
    let get = |task: TaskId| Call::Get { task, history: None };
    test.ask(Dialect::RPC_03, Call::Cancel { task: task.clone() });
    test.ask(Dialect::RPC_03, get(task.clone()));
    test.ask(Dialect::RPC_03, get("none".into()));
    let denied: Vec<_> = entries(&test).into_iter().filter(|entry| entry.kind == "denied").collect();
    assert_eq!(denied.len(), 1, "counted per address, credential and minute: {denied:?}");
    assert_eq!(denied[0].who.credential.as_deref(), Some("ann"));
    assert_eq!(denied[0].what["reason"], "right");
    test.later(AUDIT_COUNT_MS);
    let denied: Vec<_> = entries(&test).into_iter().filter(|entry| entry.kind == "denied").collect();
    assert_eq!(
        (denied.len(), &denied[1].what["reason"], &denied[1].what["count"]),
        (2, &json!("ownership"), &json!(1))
    );
}

#[test]
fn changes_of_credentials_former_secrets_tickets_and_exports_are_audited() {
    use crate::task::access::credentials::CredentialsFile;
    use crate::task::access::token::Hash;
    use crate::task::call::TicketRequest;
    let mut test = audited();
    let credential = |id: &str, rights: &[&str]| {
        let sha256 = Hash::of(id).to_string();
        json!({"id": id, "subject": id, "rights": rights, "sha256": sha256})
    };
    let mut read = |credentials: &[Value]| {
        let text = json!({"v": 1, "credentials": credentials}).to_string();
        let file = CredentialsFile::read(text.as_bytes()).expect("a file");
        test.core.input(Input::Credentials(Some(Ok(file))), test.now);
        test.turns();
        entries(&test).into_iter().filter(|entry| entry.kind == "credentials").map(|entry| entry.what).next_back()
    };
    let [ann, bob] = ["ann", "bob"].map(|id| credential(id, &["view"]));
    assert_eq!(read(&[ann.clone(), bob]), Some(json!({"came": ["ann", "bob"]})));
    let changed = credential("ann", &["view", "prompt"]);
    let eve = credential("eve", &["view"]);
    assert_eq!(
        read(&[changed.clone(), eve.clone()]),
        Some(json!({"came": ["eve"], "changed": ["ann"], "went": ["bob"]}))
    );
    let before = entries(&test).len();
    let text = json!({"v": 1, "credentials": [changed, eve]}).to_string();
    let same = CredentialsFile::read(text.as_bytes()).expect("a file");
    test.core.input(Input::Credentials(Some(Ok(same))), test.now);
    test.turns();
    assert_eq!(entries(&test).len(), before, "nothing has changed");
    let task = test.begin(Dialect::RPC_03, None);
    test.ask(Dialect::NATIVE, Call::Export { task: task.clone() });
    let wish = TicketRequest { rights: None, task: Some(task.clone()), origin: Some("https://a.example".into()) };
    let ticket = test.ask(Dialect::GEMINI, Call::Ticket(wish))["ticket"].take();
    let all = entries(&test);
    let of_kind = |kind: &str| all.iter().find(|entry| entry.kind == kind).unwrap_or_else(|| panic!("{kind}"));
    assert_eq!(of_kind("exported").task.as_deref(), Some(task.as_str()));
    let issued = of_kind("ticket");
    assert_eq!(issued.what["origin"], "https://a.example");
    assert_eq!(issued.who.subject.as_deref(), Some("operator"));
    let bytes = test.store.audit();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains(ticket.as_str().expect("a ticket")), "the ticket is not in it");
}
