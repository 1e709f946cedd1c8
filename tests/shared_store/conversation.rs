//! A client that has a conversation of several turns, in each of which it approves a command, while every connection may lead to another
//! instance, break, or be refused. It notes what it was shown and what was acknowledged.

use super::client::{End, Next, content, follow, number, without_waiting};
use crate::support::client::{Client, Event, envelope};
use crate::support::message::{
    approval, asked_of, call_of, call_status_of, fresh, prompt, prompt_in, state_of, task_of,
};
use crate::support::random::Random;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// What a client may expect of its servers.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// Whether it begins a further turn when one has ended. The first turn it begins in any case.
    pub goes_on: &'a (dyn Fn() -> bool + Sync),
    /// How long it waits at most before a further turn.
    pub longest_pause: Duration,
    /// How long a stream may be silent before the client asks again: longer than a command runs.
    pub silence: Duration,
    /// How long the conversation may take before it counts as stuck.
    pub patience: Duration,
}

/// What a client knows about its task in the end.
pub struct Conversation {
    pub task: String,
    /// Numbers and contents of all events that it was shown, in the order of their arrival.
    pub shown: Vec<(u64, Value)>,
    /// Texts of prompts that were acknowledged.
    pub prompts: Vec<String>,
    /// Calls whose approval was acknowledged.
    pub approvals: Vec<String>,
    /// Words that commands of this task write, one for each prompt that was sent.
    pub words: Vec<String>,
    /// Connections that ended too early, and requests that were refused.
    pub troubles: usize,
    /// What the last of these was.
    last_trouble: String,
    /// Whether the last event that was shown ends a turn or asks a question, and nothing was acknowledged since.
    is_at_rest: bool,
}

/// Has a conversation by the URL and gives what the client knows. `name` is the beginning of its words.
pub fn converse(url: &str, name: &str, terms: Terms<'_>, chance: &mut Random) -> Conversation {
    let deadline = Instant::now() + terms.patience;
    let mut client = Conversation::begin(url, name, chance, deadline);
    // The call that waits for an answer, as the events so far have it.
    let mut open: Option<String> = None;
    loop {
        assert!(
            Instant::now() < deadline,
            "the conversation of {name} is stuck: {} with {} prompts, {open:?} is open, last shown: {:?}, last trouble: {}",
            client.task,
            client.prompts.len(),
            client.shown.last(),
            client.last_trouble
        );
        // Whoever follows a task at rest waits for the next turn, so that a look is enough.
        let silence = if client.is_at_rest { Duration::from_millis(300) } else { terms.silence };
        let end = client.follow(url, silence, &mut open);
        if !client.is_at_rest {
            client.note_trouble(format!("{end:?}"));
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
    /// Makes a task. A task whose id got lost stays behind with an open question.
    fn begin(url: &str, name: &str, chance: &mut Random, deadline: Instant) -> Conversation {
        let mut client = Conversation {
            task: String::new(),
            shown: vec![],
            prompts: vec![],
            approvals: vec![],
            words: vec![],
            troubles: 0,
            is_at_rest: false,
            last_trouble: String::new(),
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

    /// Reads the events behind those that were shown until the stream ends. `open` becomes the call that asks at its end, if one does.
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

    /// Sends a prompt with a word of its own. Most commands are fast, some take a while.
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

    /// Sends a message by a connection of its own. Gives the task of the answer if the message was acknowledged. If not, it was refused,
    /// or nobody knows: what is shown next tells whether it was accepted.
    fn send(&mut self, url: &str, params: Value) -> Option<String> {
        let body = envelope(fresh(), "message/send", without_waiting(params)).to_string();
        let json = [("Content-Type", "application/json")];
        let response = Client::new(url).try_request("POST", "/", &json, body.as_bytes());
        let reply = response.map_or_else(|error| json!(error.to_string()), |response| response.json());
        if reply["result"].is_object() {
            return Some(task_of(&reply["result"]).expect("a task").to_owned());
        }
        self.note_trouble(format!("a message was answered with {reply}"));
        None
    }

    fn note_trouble(&mut self, trouble: String) {
        self.troubles += 1;
        self.last_trouble = trouble;
    }
}
