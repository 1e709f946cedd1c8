//! A long conversation: two people and two hundred turns, with the real binary and a fake model. The seed decides the order of the turns
//! (`CONVERSATION_SEED=17 cargo test --test long_conversation`).
//!
//! Every request that reaches the model is checked against the public schema of the API and its turn rules, by code that shares
//! nothing with the code that makes the requests. At the end both people have seen the same events, and no event is lost or repeated.

#[path = "long_conversation/driver.rs"]
mod driver;
#[path = "long_conversation/people.rs"]
mod people;
#[path = "long_conversation/rules.rs"]
mod rules;
#[path = "long_conversation/schema.rs"]
mod schema;
mod support;
#[path = "long_conversation/turns.rs"]
mod turns;

use driver::Conversation;
use rules::{Review, numbers};
use serde_json::{Value, json};
use support::client::Event;
use support::message::{call_of, call_status_of, kind_of, text_of};
use turns::{TABLE, TurnKind};

/// The share of the context window at which a conversation is summarised: low enough for several summaries.
const THRESHOLD: f64 = 0.02;

/// The context window of the model.
const WINDOW: f64 = 1_048_576.0;

#[test]
fn two_people_and_two_hundred_turns() {
    let seed = std::env::var("CONVERSATION_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut conversation = Conversation::begin(seed, json!({"model": {"compressionThreshold": THRESHOLD}}));
    for kind in plan(&mut conversation) {
        kind(&mut conversation);
    }
    the_log_is_complete(&conversation);
    the_models_view_is_valid(&conversation);
    let before = bens_view(&mut conversation);
    both_saw_the_same(&conversation, &before);
    conversation.crash();
    assert_eq!(bens_view(&mut conversation), before, "after another restart");
}

/// The turns of the table in random order, and the special turns, of which there is one each, at fixed tenths of the conversation.
fn plan(conversation: &mut Conversation) -> Vec<TurnKind> {
    let mut plan: Vec<TurnKind> = TABLE.iter().flat_map(|(times, kind)| std::iter::repeat_n(*kind, *times)).collect();
    for at in (1..plan.len()).rev() {
        plan.swap(at, conversation.random.below(at + 1));
    }
    let once: [(usize, TurnKind); 6] = [
        (2, turns::crash_in_sentence),
        (3, turns::remember),
        (5, turns::crash_in_command),
        (6, turns::statistics),
        (8, turns::crash_at_question),
        (9, turns::fallback),
    ];
    let tenth = plan.len() / 10;
    for (tenths, kind) in once {
        plan.insert(tenths * tenth, kind);
    }
    plan
}

/// Ann saw every line of the journal once, each prompt is there once, and so is each answer.
fn the_log_is_complete(conversation: &Conversation) {
    let journal = conversation.server.state_dir().join(format!("tasks/{}.jsonl", conversation.task));
    let journal = std::fs::read_to_string(journal).expect("the journal");
    let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let written: Vec<(Value, Value)> = lines.map(|mut line| (line["seq"].take(), line["event"].take())).collect();
    let seen: Vec<(Value, Value)> =
        conversation.ann.records.iter().map(|record| (record["seq"].clone(), record["event"].clone())).collect();
    assert!(seen == written, "Ann saw {} records of {}", seen.len(), written.len());
    assert!(written.iter().zip(1..).all(|((seq, _), number)| *seq == number));

    let count = |name: &'static str| events(conversation, name).count();
    assert!(count("turn_ended") >= 200, "{} turns", count("turn_ended"));
    assert!(count("compacted") >= 2, "{} summaries", count("compacted"));
    assert_eq!(count("compaction_failed"), 0);
    let mut is_long = false;
    for record in &conversation.ann.records {
        let event = &record["event"];
        assert!(!is_long || event.get("answered").is_none(), "{} comes before a summary", record["seq"]);
        let tokens = event["answered"]["answer"]["usage"]["prompt"].as_f64().unwrap_or(0.0);
        is_long = (is_long || tokens > THRESHOLD * WINDOW) && event != "compaction_began";
    }
    let mut answered: Vec<String> =
        events(conversation, "call_answered").map(|answered| answered["call"].to_string()).collect();
    answered.sort_unstable();
    assert!(answered.windows(2).all(|pair| pair[0] != pair[1]), "a question was answered twice: {answered:?}");
    let prompts =
        events(conversation, "prompted").flat_map(|prompted| numbers(&prompted["message"].to_string(), "Request "));
    assert_eq!(prompts.collect::<Vec<usize>>(), (1..=conversation.number).collect::<Vec<usize>>());
    let answers =
        events(conversation, "answered").flat_map(|answered| numbers(&answered["answer"].to_string(), "Answer "));
    assert_eq!(answers.collect::<Vec<usize>>(), conversation.answered);
}

fn events<'a>(conversation: &'a Conversation, name: &'static str) -> impl Iterator<Item = &'a Value> {
    conversation.ann.records.iter().filter_map(move |record| record["event"].get(name))
}

fn the_models_view_is_valid(conversation: &Conversation) {
    let requests = conversation.fake.requests();
    let mut review = Review::default();
    for request in &requests {
        review.check(request, &conversation.hidden);
    }
    let bodies: Vec<String> = requests.iter().map(|request| request.body.to_string()).collect();
    for text in &conversation.shown {
        assert!(bodies.iter().any(|body| body.contains(text)), "the model was never shown {text:?}");
    }
    let lost: Vec<usize> = (1..=conversation.number).filter(|n| !review.reached.contains(n)).collect();
    assert!(lost.iter().all(|n| conversation.hidden.contains(n)), "{lost:?} never reached the model");
    let summaries = requests.iter().filter(|request| request.verb() == "generateContent").count();
    assert_eq!(summaries, events(conversation, "compacted").count());
}

/// Everything that Ben can read of the conversation: its events, and the task with its history.
fn bens_view(conversation: &mut Conversation) -> (Vec<Event>, Value) {
    (conversation.ben.events_after(&conversation.task, "0"), conversation.ben.task(&conversation.task))
}

fn both_saw_the_same(conversation: &Conversation, (whole, task): &(Vec<Event>, Value)) {
    let seqs = |name: &'static str, member: &'static str| {
        let records = conversation.ann.records.iter().filter(move |record| record["event"].get(name).is_some());
        records.map(move |record| (record["seq"].to_string(), record["event"][name][member].clone()))
    };
    let id = |event: &Event| event.id.clone().expect("every event has a number");
    let texts = whole.iter().filter(|event| kind_of(event.result()) == "text-content");
    let texts: Vec<(String, Value)> = texts.map(|event| (id(event), json!(text_of(event.result())))).collect();
    assert_eq!(texts, seqs("text", "text").collect::<Vec<_>>());
    let has_ended = |event: &&Event| matches!(call_status_of(event.result()), "success" | "error" | "cancelled");
    let calls = whole.iter().filter(has_ended);
    let calls: Vec<(String, Value)> =
        calls.map(|event| (id(event), call_of(event.result())["request"]["callId"].clone())).collect();
    assert_eq!(calls, seqs("call_ended", "call").collect::<Vec<_>>());

    // Each event that Ben's streams had is also in the replay of the whole task.
    for event in conversation.ben.events.iter().filter(|event| event.result()["kind"] != "task") {
        let same = whole.iter().find(|other| other.id == event.id);
        assert_eq!(same.map(comparable), Some(comparable(event)));
    }

    let history = task["history"].as_array().expect("a history");
    let numbers_in_history = |role: &str| -> Vec<usize> {
        let messages = history.iter().filter(|message| message["role"] == role);
        let word = if role == "user" { "Request " } else { "Answer " };
        messages.flat_map(|message| numbers(&message["parts"].to_string(), word)).collect()
    };
    let taken_back: Vec<&Value> = events(conversation, "dropped").map(|dropped| &dropped["turn"]).collect();
    let prompts_in_history =
        events(conversation, "prompted").filter(|prompted| !taken_back.contains(&&prompted["turn"]));
    let prompts_in_history =
        prompts_in_history.flat_map(|prompted| numbers(&prompted["message"].to_string(), "Request "));
    assert_eq!(numbers_in_history("user"), prompts_in_history.collect::<Vec<usize>>());
    assert_eq!(numbers_in_history("agent"), conversation.answered);
}

/// An event without the members that differ between two streams: the mark of a stream's last event, and the token usage.
fn comparable(event: &Event) -> Value {
    let mut result = event.result().clone();
    result.as_object_mut().map(|result| result.remove("final"));
    if let Some(metadata) = result["metadata"].as_object_mut() {
        metadata.remove("usageMetadata");
    }
    result
}
