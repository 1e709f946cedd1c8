//! `watch`: prints what happens in a task, as text or as records in JSON.

use super::connection::{Connection, ConnectionEvent, error};
use super::output::Output;
use super::tasks::resolve;
use super::{ClientError, tasks};
use crate::args::clients::Until;
use crate::base::id::{Seq, TaskId};
use crate::limits::ui::PROSE_COLUMNS;
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::ui::Thoughts;
use crate::ui::client::ServerCall;
use crate::ui::output::block::{Viewer, subject, tool_name};
use crate::ui::output::linear::Linear;
use crate::ui::output::transcript::Transcript;
use crate::ui::scene::{Phase, Scene};

/// Turns records into lines of text, as linear mode does.
pub struct LinearText {
    pub transcript: Transcript,
    linear: Linear,
}

impl LinearText {
    pub fn new(viewer: &Viewer) -> LinearText {
        LinearText { transcript: Transcript::new(viewer.clone(), Thoughts::Subject), linear: Linear::default() }
    }

    /// The lines that a record adds.
    pub fn take(&mut self, record: &Record) -> String {
        self.transcript.apply(record, PROSE_COLUMNS);
        self.transcript.viewer.workspace.clone_from(&self.transcript.scene.workspace);
        // These lines are for painted screens.
        self.transcript.print_queue.take();
        self.linear.apply(record, &self.transcript, 0);
        let mut text = String::from_utf8_lossy(&self.linear.take()).into_owned();
        if let Event::CallAsked { call, .. } = &record.event
            && let Some(call) = self.transcript.scene.calls.get(call)
        {
            let what = format!("{} {}", tool_name(call), subject(call, &self.transcript.viewer));
            text.push_str(&format!("Question: {}.\n", what.trim_end()));
        }
        text
    }
}

pub fn run(
    connection: &mut Connection,
    output: Output,
    viewer: &Viewer,
    task_name: Option<&str>,
    after: Option<Seq>,
    until: &[Until],
) -> Result<(), ClientError> {
    let mut task = match task_name {
        Some(name) => resolve(connection, name)?,
        None => default_task(connection)?,
    };
    let mut words = LinearText::new(viewer);
    connection.reconnect_when_lost();
    if task_name.is_none() {
        connection.follow_new_sessions();
    }
    // All records are needed to know the state of the task, also those that are not printed.
    connection.send(ServerCall::Watch { task: task.clone(), after: None });
    loop {
        match connection.next(None)? {
            ConnectionEvent::Reply(ServerCall::Watch { .. }, Err(failure)) => return Err(error(failure)),
            ConnectionEvent::Record(of, record, frame) => {
                if of != task {
                    if task_name.is_some() {
                        continue;
                    }
                    // Another session has begun.
                    (task, words) = (of, LinearText::new(viewer));
                }
                let is_wanted = |seq: Seq| after.is_none_or(|after| seq > after);
                let text = record.as_ref().map(|record| (words.take(record), is_wanted(record.seq)));
                match (output.json, text) {
                    (true, Some((_, true)) | None) => output.line(&frame)?,
                    (false, Some((text, true))) => output.text(&text)?,
                    (true, Some((_, false))) | (false, Some((_, false)) | None) => {}
                }
            }
            ConnectionEvent::Reply(..) | ConnectionEvent::TimeOver => {}
        }
        if connection.has_caught_up() && is_reached(&words.transcript.scene, until) {
            return Ok(());
        }
    }
}

fn is_reached(scene: &Scene, until: &[Until]) -> bool {
    let is_there = |until: &Until| match until {
        Until::End => false,
        Until::Idle => scene.phase == Phase::Idle && scene.queue.is_empty(),
        Until::Question => !scene.asked.is_empty(),
    };
    scene.phase == Phase::Closed || until.iter().any(is_there)
}

/// The live session, or the newest task of a server without one.
fn default_task(connection: &mut Connection) -> Result<TaskId, ClientError> {
    if let Some(session) = connection.about()?.session {
        return Ok(session);
    }
    let newest = tasks::briefs(connection)?.into_iter().max_by_key(|brief| brief.at);
    let none = || ClientError::NoSuchTask("there is no task yet; gemini-a2a send TEXT begins one".into());
    newest.map(|brief| brief.task).ok_or_else(none)
}
