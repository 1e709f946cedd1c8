//! `approve`: lists the questions that wait for an answer, and answers one of them.

use super::ClientError;
use super::connection::{Connection, ConnectionEvent, error};
use super::output::Output;
use super::tasks::{briefs, resolve};
use crate::args::clients::Approve;
use crate::base::id::TaskId;
use crate::limits::CALL_BYTES;
use crate::task::log::event::Event;
use crate::task::message::Source;
use crate::task::spec::{Answers, Choice, Question};
use crate::ui::client::{ServerCall, TaskBrief};
use crate::ui::dialogs::dialog::Dialog;
use crate::ui::output::block::{Viewer, subject, tool_name};
use crate::ui::scene::{Call, Scene};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// The number of newest tasks that are searched for questions; the server loads each of them.
const TASKS_SEARCHED: usize = 100;

/// A call that waits for an answer.
struct Waiting {
    task: TaskId,
    scene: Scene,
    call: Call,
}

pub fn run(
    connection: &mut Connection,
    output: Output,
    viewer: &Viewer,
    task_name: Option<&str>,
    args: &Approve,
) -> Result<(), ClientError> {
    // A named call may have been answered already; then its task says by whom.
    let may_have = |brief: &TaskBrief| brief.waiting > 0 || args.call.is_some();
    let tasks: Vec<TaskId> = match task_name {
        Some(name) => vec![resolve(connection, name)?],
        None => briefs(connection)?.into_iter().filter(may_have).map(|brief| brief.task).take(TASKS_SEARCHED).collect(),
    };
    let mut waiting = Vec::new();
    for task in tasks {
        let scene = scene(connection, &task)?;
        if let Some(by) = args.call.as_deref().and_then(|call| answered_by(&scene, call)) {
            return Err(ClientError::AnsweredAlready(format!("it was answered already, by {}", viewer.who(by))));
        }
        let calls = scene.asked.iter().filter_map(|id| scene.calls.get(id));
        waiting.extend(calls.map(|call| Waiting { task: task.clone(), scene: scene.clone(), call: call.clone() }));
    }
    if let Some(id) = &args.call {
        waiting.retain(|waiting| waiting.call.request.call.as_str() == id);
    }
    if args.list {
        return list(output, viewer, &waiting);
    }
    match waiting.as_slice() {
        [] => Err(ClientError::NoSuchTask("no question waits".into())),
        [one] => answer(connection, output, viewer, one, args),
        [_, _, ..] => {
            list(Output::new(false), viewer, &waiting)?;
            Err(ClientError::Usage(format!("{} questions wait; name one with --call ID", waiting.len())))
        }
    }
}

fn scene(connection: &mut Connection, task: &TaskId) -> Result<Scene, ClientError> {
    let mut scene = Scene::default();
    connection.replay(task, |record, _| {
        if let Some(record) = record {
            scene.fold(record);
        }
        Ok(())
    })?;
    Ok(scene)
}

/// Who has answered a call; None if it still waits.
fn answered_by<'a>(scene: &'a Scene, call: &str) -> Option<&'a Source> {
    let id = call.into();
    if scene.asked.contains(&id) {
        return None;
    }
    scene.calls.get(&id).and_then(|call| call.by.as_ref())
}

fn offered(call: &Call) -> &'static [Choice] {
    call.plan.as_ref().map_or(&[], |plan| plan.question.options(call.keeping))
}

fn list(output: Output, viewer: &Viewer, waiting: &[Waiting]) -> Result<(), ClientError> {
    if output.json {
        let question = |waiting: &Waiting| {
            let call = &waiting.call;
            let options: Vec<&str> = offered(call).iter().map(|choice| choice.word()).collect();
            json!({ "taskId": waiting.task, "callId": call.request.call, "tool": call.request.name,
                    "subject": subject(call, viewer), "args": call.request.args, "options": options })
        };
        return output.line(&Value::from(waiting.iter().map(question).collect::<Vec<_>>()).to_string());
    }
    for waiting in waiting {
        let call = &waiting.call;
        let what = format!("{} {}", tool_name(call), subject(call, viewer));
        output.prose(&format!("{}  {}  {}", waiting.task, call.request.call, what.trim_end()))?;
    }
    Ok(())
}

fn answer(
    connection: &mut Connection,
    output: Output,
    viewer: &Viewer,
    waiting: &Waiting,
    args: &Approve,
) -> Result<(), ClientError> {
    let Waiting { task, scene, call } = waiting;
    let choice = choice(args.option.as_deref().unwrap_or("once"), offered(call))?;
    let answers = answers(call, choice, &args.answers)?;
    let edited = args.edited.as_deref().map(edited).transpose()?;
    if !output.json {
        let viewer = Viewer { workspace: scene.workspace.clone(), ..viewer.clone() };
        let dialog = Dialog::for_call(call, scene.mode, "");
        let lines = dialog.map(|dialog| dialog.whole(&viewer)).unwrap_or_default();
        lines.iter().try_for_each(|line| output.prose(line.content().trim_end()))?;
    }
    let id = call.request.call.clone();
    // Not `call`, which drops records: one of them may say that another client was first.
    connection.send(ServerCall::Answer {
        task: task.clone(),
        call: id.clone(),
        choice,
        edited,
        answers,
        seen: call.planned,
    });
    let mut is_taken = false;
    loop {
        match connection.next(None)? {
            ConnectionEvent::Reply(ServerCall::Answer { .. }, Ok(_)) => is_taken = true,
            ConnectionEvent::Reply(ServerCall::Answer { .. }, Err(failure)) => {
                return Err(refused(connection, viewer, waiting, failure));
            }
            ConnectionEvent::Record(_, Some(record), _) => {
                if let Event::CallAnswered { call, by, choice, .. } = &record.event
                    && *call == id
                {
                    let who = viewer.who(by);
                    let json_value = json!({ "taskId": task, "callId": id, "option": choice.word(), "by": by.client });
                    output.either(&format!("{who}: {}", choice.name()), &json_value)?;
                    return match is_taken || viewer.is_me(by) {
                        true => Ok(()),
                        false => Err(ClientError::AnsweredAlready(format!("{who} answered first"))),
                    };
                }
            }
            ConnectionEvent::Reply(..) | ConnectionEvent::Record(..) | ConnectionEvent::TimeOver => {}
        }
    }
}

/// Why the server refused an answer; if another client was first, its name.
fn refused(connection: &mut Connection, viewer: &Viewer, waiting: &Waiting, failure: (String, String)) -> ClientError {
    match (error(failure), scene(connection, &waiting.task)) {
        (ClientError::AnsweredAlready(_), Ok(scene)) => {
            let by = answered_by(&scene, waiting.call.request.call.as_str());
            let who = by.map_or("somebody".into(), |by| viewer.who(by));
            ClientError::AnsweredAlready(format!("it was answered already, by {who}"))
        }
        (error, _) => error,
    }
}

/// The option that a word means: `once`, `always`, `save`, `no`, or a word of the protocol.
fn choice(word: &str, offered: &[Choice]) -> Result<Choice, ClientError> {
    let always = [Choice::ProceedAlways, Choice::ProceedAlwaysTool];
    let meant = match word {
        "once" | "yes" => Some(Choice::ProceedOnce),
        "always" => always.into_iter().find(|choice| offered.contains(choice)),
        "save" => Some(Choice::ProceedAlwaysAndSave),
        "no" => Some(Choice::Cancel),
        word => Choice::from_word(word),
    };
    meant.filter(|choice| offered.contains(choice)).ok_or_else(|| {
        let words: Vec<&str> = offered.iter().map(|choice| choice.word()).collect();
        ClientError::Usage(format!("{word} is not on offer here; one of once, no, {}", words.join(", ")))
    })
}

/// The answers to the agent's questions, one for each question.
fn answers(call: &Call, choice: Choice, given: &[String]) -> Result<Option<Answers>, ClientError> {
    let questions = match call.plan.as_ref().map(|plan| &plan.question) {
        Some(Question::AskUser { questions, .. }) => questions.len(),
        _ => 0,
    };
    match (choice, questions, given.len()) {
        (_, 0, 0) | (Choice::Cancel, ..) => Ok(None),
        (_, questions, count) if questions == count => {
            Ok(Some(given.iter().enumerate().map(|(at, text)| (at.to_string(), text.clone())).collect()))
        }
        (_, 0, _) => Err(ClientError::Usage("this question takes no --answer; choose with --option".into())),
        (_, questions, count) => {
            Err(ClientError::Usage(format!("the agent asks {questions} questions; --answer was given {count} times")))
        }
    }
}

fn edited(path: &str) -> Result<Arc<str>, ClientError> {
    let wrong = |why: String| ClientError::Usage(format!("{path} cannot be used: {why}"));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    file.take(CALL_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    if bytes.len() > CALL_BYTES {
        return Err(wrong(format!("it is longer than {} MiB", CALL_BYTES / 1024 / 1024)));
    }
    String::from_utf8(bytes).map(Into::into).map_err(|_| wrong("it is not UTF-8 text".into()))
}
