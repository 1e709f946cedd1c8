//! `send`: sends a prompt, and with `--wait` prints its answer.

use super::ClientError;
use super::connection::{Connection, ConnectionEvent, error};
use super::output::Output;
use super::tasks::resolve;
use crate::args::clients::Wait;
use crate::base::id::TaskId;
use crate::limits::STDIN_BYTES;
use crate::shell::event_loop::sys;
use crate::shell::headless::escape_filter::EscapeFilter;
use crate::task::log::event::{End, Event, Final};
use crate::task::log::record::Record;
use crate::ui::client::ServerCall;
use crate::ui::scene::Scene;
use serde_json::json;
use std::io::{self, Read};

/// The task that gets the prompt.
pub enum Recipient<'a> {
    Task(&'a str),
    NewTask,
    Session,
}

pub fn run(
    connection: &mut Connection,
    output: Output,
    to: Recipient<'_>,
    words: &[String],
    wait: Wait,
) -> Result<(), ClientError> {
    let text = text(words)?;
    let task = match to {
        Recipient::Task(name) => Some(resolve(connection, name)?),
        Recipient::NewTask => connection.call(ServerCall::Create)?.as_str().map(TaskId::from),
        Recipient::Session => None,
    };
    let key = sys::entropy().uuid();
    let reply = connection.call(ServerCall::Say { task, text, key: key.clone(), steer: false })?;
    let task = TaskId::from(reply["taskId"].as_str().unwrap_or_default());
    let Wait::ForAnswer(time) = wait else {
        return output.either(task.as_str(), &json!({ "taskId": task }));
    };
    let until = time.map(|ms| connection.now() + ms);
    match answer(connection, &task, key, until) {
        Ok(text) if output.json => output.line(&json!({ "taskId": task, "text": text }).to_string()),
        Ok(text) => output.line(EscapeFilter::default().take(&text).trim_end()),
        Err(error) => {
            if let (true, Some(why)) = (output.json, error.status().1) {
                output.line(&json!({ "taskId": task, "error": why }).to_string())?;
            }
            Err(error)
        }
    }
}

/// The text of the prompt: the words, or standard input if there is only a dash.
fn text(words: &[String]) -> Result<String, ClientError> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let mut bytes = Vec::new();
    io::stdin().take(STDIN_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > STDIN_BYTES {
        let most = STDIN_BYTES / 1024 / 1024;
        return Err(ClientError::Usage(format!("standard input is longer than {most} MiB")));
    }
    let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
    match text.is_empty() {
        true => Err(ClientError::Usage("standard input is empty; there is nothing to send".into())),
        false => Ok(text),
    }
}

/// The turn that began with a prompt.
struct OwnTurn {
    key: String,
    scene: Scene,
    /// The number of the turn; None before the record of the prompt has come.
    number: Option<u32>,
    /// The text of the model's last answer.
    text: String,
}

fn answer(connection: &mut Connection, task: &TaskId, key: String, until: Option<u64>) -> Result<String, ClientError> {
    let mut turn = OwnTurn { key, scene: Scene::default(), number: None, text: String::new() };
    connection.reconnect_when_lost();
    connection.send(ServerCall::Watch { task: task.clone(), after: None });
    loop {
        match connection.next(until)? {
            ConnectionEvent::Reply(ServerCall::Watch { .. }, Err(failure)) => return Err(error(failure)),
            ConnectionEvent::Record(of, Some(record), _) if of == *task => {
                if let Some(outcome) = turn.take(&record) {
                    return outcome;
                }
            }
            ConnectionEvent::TimeOver => {
                let why = format!("no answer yet; the task goes on: gemini-a2a watch --task {task}");
                return Err(ClientError::TimeOver(why));
            }
            ConnectionEvent::Reply(..) | ConnectionEvent::Record(..) => {}
        }
        if connection.has_caught_up() && turn.number.is_some() && !turn.scene.asked.is_empty() {
            let why = format!("a question waits; answer it with gemini-a2a approve --task {task}");
            return Err(ClientError::QuestionWaits(why));
        }
    }
}

impl OwnTurn {
    /// Takes a record; returns how the turn ended.
    fn take(&mut self, record: &Record) -> Option<Result<String, ClientError>> {
        self.scene.fold(record);
        match &record.event {
            Event::Prompted { turn, delivery, .. } if delivery.key.as_deref() == Some(&self.key) => {
                self.number = Some(*turn);
            }
            Event::Answered { answer } if self.number == Some(self.scene.turn) => {
                let text = answer.text();
                if !text.trim().is_empty() {
                    self.text = text;
                }
            }
            Event::TurnEnded { turn, end, .. } if self.number == Some(*turn) => return Some(self.ended(end)),
            Event::Dropped { turn, by } if self.number == Some(*turn) => {
                return Some(Err(ClientError::TurnFailed(format!("{} took the prompt back", by.client))));
            }
            Event::Closed { state, text } if self.number.is_some() => {
                let text = text.clone().unwrap_or_default();
                return Some(self.ended(&match state {
                    Final::Completed if text.is_empty() => End::Done,
                    Final::Completed => End::Asked(text),
                    Final::Canceled => End::Interrupted(text),
                    Final::Failed | Final::Rejected => End::Failed(text),
                }));
            }
            _ => {}
        }
        None
    }

    fn ended(&mut self, end: &End) -> Result<String, ClientError> {
        match end {
            End::Done | End::Nothing | End::Refused => Ok(std::mem::take(&mut self.text)),
            End::Asked(text) => Ok(text.clone()),
            End::NeedsAuth(why) | End::Failed(why) | End::Interrupted(why) => Err(ClientError::TurnFailed(why.clone())),
        }
    }
}
