//! A client with a conversation of several turns, in each of which it approves a command. Each connection may lead to another instance, break,
//! or be refused. The client records the events that it saw and what was acknowledged.

use super::client::{End, Next, content, follow, number, without_waiting};
use crate::support::client::{Client, Event, envelope};
use crate::support::message::{
    approval, asked_of, call_of, call_status_of, fresh, prompt, prompt_in, state_of, task_of,
};
use crate::support::random::Random;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// The parameters of a conversation.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// Whether the client begins another turn after a turn. It always begins the first one.
    pub goes_on: &'a (dyn Fn() -> bool + Sync),
    /// The longest pause before another turn.
    pub longest_pause: Duration,
    /// How long a stream may be silent before the client reconnects. Longer than a command runs.
    pub silence: Duration,
    /// How long the conversation may take before it counts as stuck.
    pub patience: Duration,
}

/// What the client has recorded about its task.
pub struct Conversation {
    pub task: String,
    /// Numbers and contents of all events that the client saw, in order.
    pub shown: Vec<(u64, Value)>,
    /// Texts of prompts that were acknowledged.
    pub prompts: Vec<String>,
    /// Calls whose approval was acknowledged.
    pub approvals: Vec<String>,
    /// Words that the commands of this task write, one per prompt.
    pub words: Vec<String>,
    /// The number of interrupted connections and refused requests.
    pub failures: usize,
    /// The last of these failures.
    last_failure: String,
    /// Whether the last event ended a turn or asked a question, and nothing was acknowledged since.
    is_at_rest: bool,
}

/// Has a conversation with the server at the URL. The words of its commands begin with `name`.
pub fn converse(url: &str, name: &str, terms: Terms<'_>, chance: &mut Random) -> Conversation {
    let deadline = Instant::now() + terms.patience;
    let mut client = Conversation::begin(url, name, chance, deadline);
    // The call that waits for an answer, according to the events so far.
    let mut open: Option<String> = None;
    loop {
        assert!(
            Instant::now() < deadline,
            "the conversation of {name} is stuck: {} with {} prompts, {open:?} is open, last shown: {:?}, last failure: {}",
            client.task,
            client.prompts.len(),
            client.shown.last(),
            client.last_failure
        );
        // A stream of a task at rest waits for the next turn, so a short look is enough.
        let silence = if client.is_at_rest { Duration::from_millis(300) } else { terms.silence };
        let end = client.follow(url, silence, &mut open);
        if !client.is_at_rest {
            client.note_failure(format!("{end:?}"));
            thread::sleep(Duration::from_millis(chance.within(10, 200)));
            continue;
        }
        let acknowledged = match open.as_deref() {
            Some(call) => client.approve(url, call),
            None if !(terms.goes_on)() => return client,
            None => {
                thread::sleep(terms.longest_pause.mul_f64(chance.within(0, 100) as f64 / 100.0));
                client.prompt(url, name, chance)
            }
        };
        if acknowledged.is_some() {
            client.is_at_rest = false;
        } else {
            thread::sleep(Duration::from_millis(chance.within(50, 250)));
        }
    }
}

impl Conversation {
    /// Creates a task. If its id is lost, another one is created, and the lost task stays with an open question.
    fn begin(url: &str, name: &str, chance: &mut Random, deadline: Instant) -> Conversation {
        let mut client = Conversation {
            task: String::new(),
            shown: vec![],
            prompts: vec![],
            approvals: vec![],
            words: vec![],
            failures: 0,
            is_at_rest: false,
            last_failure: String::new(),
        };
        while client.task.is_empty() {
            assert!(Instant::now() < deadline, "{name} gets no task");
            match client.prompt(url, name, chance) {
                Some(task) => client.task = task,
                None => thread::sleep(Duration::from_millis(chance.within(50, 250))),
            }
        }
        client
    }

    /// Reads the next events until the stream ends. Sets `open` to the call that waits for an answer then.
    fn follow(&mut self, url: &str, silence: Duration, open: &mut Option<String>) -> End {
        let after = self.shown.last().map_or(0, |shown| shown.0);
        let task = self.task.clone();
        follow(url, &task, after, silence, |event| {
            self.show(&event, open);
            Next::Continue
        })
    }

    fn show(&mut self, event: &Event, open: &mut Option<String>) {
        let last = self.shown.last().map_or(0, |shown| shown.0);
        assert!(number(event) > last, "{}: an event a second time, or too late: {event:?} after {last}", self.task);
        self.shown.push(content(event));
        let result = event.result();
        self.is_at_rest = !matches!(state_of(result), Some("working" | "submitted") | None);
        if let Some(call) = asked_of(result) {
            *open = Some(call.to_owned());
        } else if call_of(result)["request"]["callId"].as_str() == open.as_deref() && !call_status_of(result).is_empty()
        {
            *open = None;
        }
    }

    fn approve(&mut self, url: &str, call: &str) -> Option<String> {
        let task = self.send(url, approval(&self.task, call, "proceed_once"))?;
        self.approvals.push(call.to_owned());
        Some(task)
    }

    /// Sends a prompt with its own word. Most commands are fast, some take a while.
    fn prompt(&mut self, url: &str, name: &str, chance: &mut Random) -> Option<String> {
        let word = format!("{name}-{}", self.words.len());
        self.words.push(word.clone());
        let rest = if chance.percent(30) { "; sleep 1" } else { "" };
        let text = format!("SHELL echo {word} >> runs.txt{rest} ;; TEXT Finished {word}.");
        let params = if self.task.is_empty() { prompt(&text) } else { prompt_in(&self.task, &text) };
        let task = self.send(url, params)?;
        self.prompts.push(text);
        Some(task)
    }

    /// Sends a message on its own connection. Returns the task if the message was acknowledged. Otherwise it was refused, or the result is
    /// unknown: the next events show whether it was accepted.
    fn send(&mut self, url: &str, params: Value) -> Option<String> {
        let body = envelope(fresh(), "message/send", without_waiting(params)).to_string();
        let json = [("Content-Type", "application/json")];
        let response = Client::new(url).try_request("POST", "/", &json, body.as_bytes());
        let reply = response.map_or_else(|error| json!(error.to_string()), |response| response.json());
        if reply["result"].is_object() {
            return Some(task_of(&reply["result"]).expect("a task").to_owned());
        }
        self.note_failure(format!("a message was answered with {reply}"));
        None
    }

    fn note_failure(&mut self, failure: String) {
        self.failures += 1;
        self.last_failure = failure;
    }
}
