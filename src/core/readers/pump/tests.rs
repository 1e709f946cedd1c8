//! Readers: shared bodies, pages for readers that are behind, and stored texts.

use super::*;
use crate::a2a::{Body, Switches, View};
use crate::core::connections::connection::Peer;
use crate::core::disk::page::Position;
use crate::core::disk::store::{Archive, Openness, Store};
use crate::core::test_core::ask_about_a_long_edit;
use crate::core::test_core::core_harness::failing_store::FailingStore;
use crate::core::test_core::core_harness::{self, Outside};
use crate::limits::Limits;
use crate::task::log::blob::Blobs;
use crate::task::log::blob::MemoryBlobs;
use crate::task::machine::job::{Note, NoteBody};
use std::collections::{HashMap, HashSet};

const NOW: Now = Now { mono_ms: 1_000_000, unix_ms: 1_767_268_800_000 };
const UPGRADE: &[u8] = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const PROMPT: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": {
    "kind": "message", "role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "go"}]}}}"#;

fn turn(core: &mut Core, store: &mut FailingStore) -> Vec<Out> {
    let mut outside = Outside::default();
    core.turn(store, &mut outside, NOW);
    core.check();
    outside.outs
}

/// The output that waits for a connection, by address and length. The peer then accepts all of it.
fn take(core: &mut Core, key: Key) -> Vec<(*const u8, usize)> {
    let slices = core.slices(key);
    let taken: Vec<_> = slices.iter().map(|s| (s.as_ptr(), s.len())).collect();
    let n = taken.iter().map(|(_, len)| len).sum();
    core.sent(key, n, NOW);
    taken
}

#[test]
fn an_event_is_encoded_once_for_a_thousand_sockets() {
    let mut core = Core::new(core_harness::setup(Limits::default(), Switches::default(), NOW));
    let mut store = FailingStore::default();
    let sockets: Vec<Key> = (0..1000)
        .map(|_| {
            let key = core.opened(Peer::SameUser, NOW);
            core.received(key, UPGRADE, NOW);
            core.greet(key);
            key
        })
        .collect();
    core.decode_message(sockets[0], PROMPT.to_owned(), NOW);
    let started = turn(&mut core, &mut store).into_iter().find_map(|out| {
        let Out::Start(job) = out else { return None };
        Some(job.id)
    });
    let job = started.expect("a prompt sets the model to work");
    for key in &sockets {
        take(&mut core, *key);
    }
    // Long enough not to be copied together with its neighbours, and no chant, which would end the turn.
    let text: String = (0..2000).map(|n| format!("{n} ")).collect();
    let body = NoteBody::Text(text.clone());
    core.note(Note { job, body }, NOW);
    turn(&mut core, &mut store);
    let mut bodies = HashSet::new();
    for key in &sockets {
        let taken = take(&mut core, *key);
        let [(_, head), body] = taken[..] else {
            panic!("a head and a body, not {taken:?}");
        };
        assert!(head < 16 && body.1 > text.len());
        bodies.insert(body);
    }
    assert_eq!(bodies.len(), 1, "all of them were given the same memory");
}

/// Takes the output that waits for a connection.
fn drain(core: &mut Core, key: Key) -> Vec<u8> {
    let slices = core.slices(key);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    core.sent(key, bytes.len(), NOW);
    bytes
}

/// A task that has said a lot and that nobody watches any more.
fn long_task(core: &mut Core, store: &mut FailingStore) -> TaskId {
    let key = core.opened(Peer::SameUser, NOW);
    core.received(key, UPGRADE, NOW);
    core.decode_message(key, PROMPT.to_owned(), NOW);
    let started = turn(core, store).into_iter().find_map(|out| {
        let Out::Start(job) = out else { return None };
        Some(job.id)
    });
    let job = started.expect("a prompt sets the model to work");
    for n in 0..100 {
        let text: String = (0..20).map(|m| format!("{n}.{m} ")).collect();
        let (job, body) = (job.clone(), NoteBody::Text(text));
        core.note(Note { job, body }, NOW);
    }
    core.close_conn(key, crate::core::Close::Orderly);
    turn(core, store);
    job.task
}

#[test]
fn pages_are_read_for_a_few_readers_and_stalled_ones_lose_theirs() {
    let limits = Limits { pages: 2, page_bytes: 1_000, tx_bytes: 2_000, ..Limits::default() };
    let mut core = Core::new(core_harness::setup(limits.clone(), Switches::default(), NOW));
    let mut store = FailingStore::default();
    let task = long_task(&mut core, &mut store);
    let written = core.tasks[&task].shown();
    let target = format!("GET /v1/tasks/{task}:subscribe?after=0&profile=coder HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let late: Vec<Key> = (0..20)
        .map(|_| {
            let key = core.opened(Peer::SameUser, NOW);
            core.received(key, target.as_bytes(), NOW);
            key
        })
        .collect();
    let (slow, quick) = late.split_at(10);
    let mut seen: HashMap<Key, Vec<u8>> = HashMap::new();
    let mut reads = 0;
    // First half of the clients read, and then all.
    for takers in [quick, &late[..]] {
        let is_behind = |core: &Core, key: &Key| {
            let sub = core.connections.get(*key).expect("it stays").subs[0];
            core.readers.get(sub).expect("it goes on").cursor < written
        };
        while takers.iter().any(|key| is_behind(&core, key)) {
            for out in turn(&mut core, &mut store) {
                let Out::Store(request @ StoreRequest::Page { .. }) = out else {
                    continue;
                };
                reads += 1;
                assert!(reads < 10_000, "somebody never gets there");
                core.input(request.run(&*store.archive()), NOW);
            }
            for key in takers {
                let bytes = drain(&mut core, *key);
                seen.entry(*key).or_default().extend(bytes);
            }
        }
        let left = slow.iter().all(|key| is_behind(&core, key));
        assert_eq!(left, takers.len() == quick.len(), "nobody waits for the slow");
    }
    let whole = &seen[&late[0]];
    assert!(whole.len() > 20_000 && whole.ends_with(b"\r\n"));
    // The ids of their requests differ.
    let body = |bytes: &[u8]| memchr::memmem::find(bytes, b"\r\n\r\n").map(|end| bytes[end..].to_vec());
    assert!(late.iter().all(|key| body(&seen[key]) == body(whole)));
}

#[test]
fn a_reader_that_is_behind_keeps_no_conversation_in_memory() {
    let mut core = Core::new(core_harness::setup(Limits::default(), Switches::default(), NOW));
    let mut store = FailingStore::default();
    let task = long_task(&mut core, &mut store);
    let mut request = PageRequest {
        task: task.clone(),
        sub: core.opened(Peer::SameUser, NOW),
        from: Position::default(),
        after: Seq(0),
        view: View::Standalone(a2a::native::VIEW),
        tools: core.tools.shown.clone(),
        most: 1_000,
    };
    let mut kept = 0;
    while request.from.offset < store.bytes(&task).len() as u64 {
        let page = request.read(&store).expect("a page");
        let sizes = page.frames.iter().rev().skip(1).map(|frame| frame.body.as_ref().map_or(0, Body::size));
        assert!(sizes.sum::<usize>() < request.most, "no more is encoded than asked for, but for one event");
        request.from = page.next;
        let state = request.from.state.as_ref().expect("it was created");
        kept = kept.max(state.utterance.text.len() + 1_000 * state.history.len());
    }
    let whole = core.tasks[&task].state.utterance.text.len();
    assert!(kept < 2_000 && whole > 10_000, "{kept} of {whole}");
    store.append(&task, b"no line of ours\n", Openness::Open).expect("it is written");
    let damage = request.read(&store).expect("a page").damage;
    assert!(damage.is_some_and(|why| why.contains("damaged")));
}

/// What a client sees that reads the task from its beginning.
fn read_late(core: &mut Core, store: &mut FailingStore, task: &TaskId) -> String {
    let target = format!("GET /v1/tasks/{task}:subscribe?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let key = core.opened(Peer::SameUser, NOW);
    core.received(key, target.as_bytes(), NOW);
    let mut seen = Vec::new();
    for _ in 0..200 {
        for out in turn(core, store) {
            if let Out::Store(request @ StoreRequest::Page(_)) = out {
                core.input(request.run(&*store.archive()), NOW);
            }
        }
        seen.extend(drain(core, key));
    }
    String::from_utf8(seen).expect("UTF-8")
}

#[test]
fn a_reader_that_is_behind_gets_stored_texts_or_a_notice_if_they_are_lost() {
    for (kept, expected) in [(true, "new new new"), (false, "It cannot be read: ")] {
        let mut core = Core::new(core_harness::setup(Limits::default(), Switches::default(), NOW));
        let mut store = FailingStore::default();
        let task = long_task(&mut core, &mut store);
        let elsewhere = MemoryBlobs::default();
        let blobs: Arc<dyn Blobs> = if kept { store.blobs() } else { Arc::new(elsewhere) };
        ask_about_a_long_edit(&mut core, &task, &*blobs, NOW);
        turn(&mut core, &mut store);
        let seen = read_late(&mut core, &mut store, &task);
        for shown in [expected, "INPUT_REQUIRED"] {
            assert!(seen.contains(shown), "{shown}");
        }
    }
}

#[test]
fn the_stream_of_a_reader_that_is_behind_ends_if_stored_texts_cannot_be_read_now() {
    let mut core = Core::new(core_harness::setup(Limits::default(), Switches::default(), NOW));
    let mut store = FailingStore::default();
    let task = long_task(&mut core, &mut store);
    ask_about_a_long_edit(&mut core, &task, &*store.blobs(), NOW);
    turn(&mut core, &mut store);
    store.fail_reads(1);
    let seen = read_late(&mut core, &mut store, &task);
    assert!(seen.ends_with("0\r\n\r\n") && seen.contains("try again"), "{seen}");
    assert!(!seen.contains("belongs here"), "{seen}");
    let seen = read_late(&mut core, &mut store, &task);
    assert!(seen.contains("new new new"));
}
