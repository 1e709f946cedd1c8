//! What clients can be told of an event, the same for every dialect: an [`Update`] is made of the event and the state right after it. A
//! view decides whether and how it shows an update. No view but the native one, which sends the recorded events, reads events itself.

use crate::a2a::encodings::object::object;
use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Piece};
use crate::a2a::views::call::Call;
use crate::a2a::words::{CallStatus, Idle};
use crate::base::id::Seq;
use crate::base::level::Level;
use crate::task::log::answer::Answer;
use crate::task::log::event::{Event, calls, delayed, detours, errands, hooks};
use crate::task::log::record::Record;
use crate::task::machine::state::{Phase, State, TaskState};
use crate::task::message::{Message, Source};
use crate::task::policy::{Mode, Rule};
use std::borrow::Cow;

pub struct Update<'a> {
    /// Right after the event.
    pub state: &'a State,
    pub seq: Seq,
    /// Unix milliseconds.
    pub at: u64,
    pub change: Change<'a>,
}

pub enum Change<'a> {
    Created,
    Prompted {
        message: &'a Message,
        by: &'a Source,
    },
    /// A turn begins or continues.
    Working,
    /// The results of the calls go to the model.
    ResultsSent,
    /// Every unfinished call waits for an answer.
    Paused,
    /// The turn or the task has ended, or was interrupted.
    Stopped,
    /// The next piece of the message that began with event `since`.
    Text {
        text: &'a str,
        since: Seq,
    },
    Thought {
        subject: &'a str,
        description: &'a str,
    },
    Citation(&'a str),
    /// The text since the last answer is withdrawn and will be generated again. The value is a sentence that says so.
    Retracted(String),
    /// The model's answer is complete.
    Answered(&'a Answer),
    Call {
        call: Call<'a>,
        step: Step<'a>,
    },
    Artifact(ArtifactUpdate<'a>),
    /// A sentence about something that delays or changes the turn.
    Notice {
        level: Level,
        text: Cow<'a, str>,
        topic: Topic<'a>,
    },
}

/// What a notice is about, for views that show some notices differently.
#[derive(Clone, Copy)]
pub enum Topic<'a> {
    /// The model could not be asked, or not yet. Every view shows such notices.
    Trouble,
    /// A client chose these settings for the requests that follow.
    Settings {
        mode: Option<Mode>,
        model: Option<&'a str>,
    },
    Compaction(Compaction),
    Other,
}

/// What happened to the compaction of a conversation.
#[derive(Clone, Copy)]
pub enum Compaction {
    Began,
    Completed,
    Failed,
}

/// What happened to a tool call.
#[derive(Clone, Copy)]
pub enum Step<'a> {
    Planned,
    Asked,
    Answered,
    /// The call may run without a question, because a rule allows it.
    AllowedByRule,
    /// The call may run, because a client allowed it.
    AllowedByAnswer,
    Started,
    /// The call has printed output.
    Printed {
        text: &'a str,
        /// Whether views that show whole calls send an update: they do so only for some pieces of output.
        due: bool,
    },
    Ended,
}

impl<'a> Update<'a> {
    /// None: no client is told of the event.
    pub fn of(state: &'a State, record: &'a Record) -> Option<Update<'a>> {
        let change = Change::of(state, record)?;
        Some(Update { state, seq: record.seq, at: record.at, change })
    }
}

impl<'a> Change<'a> {
    fn of(state: &'a State, record: &'a Record) -> Option<Change<'a>> {
        Some(match &record.event {
            Event::Created(_) => Change::Created,
            Event::Prompted { message, by, .. } => Change::Prompted { message, by },
            Event::Steered { .. } => Change::info("A prompt was given to the agent in the middle of its turn."),
            Event::Dropped { by, .. } => Change::info(format!("{} took a queued prompt back.", by.client)),
            Event::Tuned { mode, model, directories, by } => {
                let (mode, model) = (*mode, model.as_deref());
                let text = tuned(mode, model, directories.as_deref(), by);
                Change::notice(Level::Info, text, Topic::Settings { mode, model })
            }
            Event::ShellBegan { command, by } => Change::info(format!("{} runs: {command}", by.client)),
            Event::ShellEnded { text } => Change::info(format!("The command ended. {text}")),
            Event::TurnBegan { .. } | Event::Resumed => Change::Working,
            Event::ResultsSent => Change::ResultsSent,
            Event::Paused => Change::Paused,
            Event::TurnEnded { .. } | Event::Interrupted { .. } | Event::Closed { .. } => Change::Stopped,
            Event::Text { text } if text.is_empty() => return None,
            Event::Text { text } => Change::Text { text, since: state.utterance.since.unwrap_or(record.seq) },
            Event::Thought { subject, description } if subject.is_empty() && description.is_empty() => return None,
            Event::Thought { subject, description } => Change::Thought { subject, description },
            Event::Cited { text } if text.trim().is_empty() => return None,
            Event::Cited { text } => Change::Citation(text),
            Event::Retracted { reason } => {
                Change::Retracted(format!("What the agent was saying is void, it will be said again: {reason}"))
            }
            Event::Answered { answer } => Change::Answered(answer),
            calls!() => return Change::of_call(state, record),
            Event::Produced { artifact, append, last } => {
                Change::Artifact(ArtifactUpdate { artifact: Cow::Borrowed(artifact), append: *append, last: *last })
            }
            detours!() => return Change::of_detour(state, record),
            Event::ShellOutput { .. } | errands!() | hooks!() => return None,
        })
    }

    /// The same for an event that delays or changes a turn, or restores files.
    fn of_detour(state: &'a State, record: &'a Record) -> Option<Change<'a>> {
        Some(match &record.event {
            Event::BackedOff { delay_ms, reason, .. } => {
                Change::notice(Level::Warn, asked_again(*delay_ms, reason), Topic::Trouble)
            }
            Event::Retried => Change::info("The model is asked again."),
            Event::FellBack { model, reason } => {
                let text = format!("From now on {model} answers, because the model before it cannot be had: {reason}");
                Change::notice(Level::Warn, text, Topic::Trouble)
            }
            Event::CompactionBegan => {
                let text = "The conversation has grown long; its older part is being summarised.";
                Change::notice(Level::Info, text, Topic::Compaction(Compaction::Began))
            }
            Event::Compacted { .. } => {
                let text = "A summary took the place of the older part of the conversation.";
                Change::notice(Level::Info, text, Topic::Compaction(Compaction::Completed))
            }
            Event::CompactionFailed { reason } => {
                let text = format!("The conversation could not be summarised and stays as it is: {reason}");
                Change::notice(Level::Warn, text, Topic::Compaction(Compaction::Failed))
            }
            Event::Looped => Change::warn("The agent repeats its calls; they are not run."),
            Event::Nudged { .. } => Change::warn("The agent repeated itself and was told to go on in another way."),
            Event::HookRan(report) if report.text.is_empty() => return None,
            Event::HookRan(report) => Change::warn(report.text.as_str()),
            Event::Reprompted { .. } => Change::warn("A hook lets the agent go on."),
            Event::Declined { text } => Change::warn(text.as_str()),
            Event::Delayed { place } => Change::notice(Level::Info, delayed(*place), Topic::Trouble),
            Event::Revoked { rules, by } => Change::info(revoked(rules, by)),
            // The status of a task that is over cannot change, so it cannot have the notice.
            Event::Restored(_) if state.is_over() => return None,
            Event::Restored(restored) => Change::info(restored.described()),
            // `detours!` matches no other events.
            _ => return None,
        })
    }

    /// The same for a step of a call.
    fn of_call(state: &'a State, record: &'a Record) -> Option<Change<'a>> {
        let call = |id, step, status| Some(Change::Call { call: Call { call: state.call(id)?, status }, step });
        Some(match &record.event {
            Event::CallPlanned { call: id, .. } => call(id, Step::Planned, CallStatus::Scheduled)?,
            Event::CallAsked { call: id, .. } => call(id, Step::Asked, CallStatus::AwaitingApproval)?,
            Event::CallAnswered { call: id, .. } => call(id, Step::Answered, CallStatus::Scheduled)?,
            Event::CallReady { call: id, .. } => match state.call(id)?.choice {
                Some(_) => call(id, Step::AllowedByAnswer, CallStatus::Scheduled)?,
                None => call(id, Step::AllowedByRule, CallStatus::Scheduled)?,
            },
            Event::CallStarted { call: id } => call(id, Step::Started, CallStatus::Executing)?,
            Event::CallOutput { call: id, text } => {
                let due = state.call(id)?.live.as_ref().is_some_and(|live| live.shown == record.seq);
                let status = match state.call(id)?.inquiry {
                    Some(_) => CallStatus::AwaitingApproval,
                    None => CallStatus::Executing,
                };
                call(id, Step::Printed { text, due }, status)?
            }
            Event::CallInquired { call: id, .. } => call(id, Step::Asked, CallStatus::AwaitingApproval)?,
            Event::CallReplied { call: id, .. } => call(id, Step::Started, CallStatus::Executing)?,
            Event::CallEnded { call: id, ending } => call(id, Step::Ended, CallStatus::of(ending))?,
            Event::CallStale { call: id } => {
                let name = &state.call(id)?.request.name;
                Change::warn(format!("The file changed before {name} could write it; the change is looked at again."))
            }
            // `calls!` matches no other events.
            _ => return None,
        })
    }

    fn info(text: impl Into<Cow<'a, str>>) -> Change<'a> {
        Change::notice(Level::Info, text, Topic::Other)
    }

    fn warn(text: impl Into<Cow<'a, str>>) -> Change<'a> {
        Change::notice(Level::Warn, text, Topic::Other)
    }

    fn notice(level: Level, text: impl Into<Cow<'a, str>>, topic: Topic<'a>) -> Change<'a> {
        Change::Notice { level, text: text.into(), topic }
    }
}

/// A sentence that says who revoked which permissions.
fn revoked(rules: &[Rule], by: &Source) -> String {
    let rules: Vec<String> = rules.iter().map(Rule::described).collect();
    format!("{} took permissions back: {}.", by.client, rules.join("; "))
}

/// A sentence that says who chose which settings for the requests that follow.
fn tuned(mode: Option<Mode>, model: Option<&str>, directories: Option<&[String]>, by: &Source) -> String {
    let mode = mode.map(|mode| format!("the approval mode {}", mode.word()));
    let model = model.map(|model| format!("the model {model}"));
    let directories = directories.map(|directories| match directories {
        [] => "no directory beside the workspace".to_owned(),
        all => format!("these directories beside the workspace: {}", all.join(", ")),
    });
    let chosen: Vec<String> = [mode, model, directories].into_iter().flatten().collect();
    format!("{} chose {}.", by.client, chosen.join(" and "))
}

fn asked_again(delay_ms: u64, reason: &str) -> String {
    format!("The model is asked again in {} s: {reason}", delay_ms.div_ceil(1000))
}

/// Why the task or its last turn failed.
pub fn failure(state: &State) -> Option<&str> {
    match state.status.state {
        TaskState::Failed => state.status.text.as_deref(),
        TaskState::Completed | TaskState::Canceled | TaskState::Rejected => None,
        TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => {
            state.turn.error.as_deref()
        }
    }
}

/// The state of a task in views that show a task as completed or failed when it waits for the next prompt.
pub fn shown_outcome(state: &State) -> TaskState {
    Idle::Outcome.show(state.status.state, state.outcome())
}

/// A thought as a data part.
pub fn thought<'a>(subject: &str, description: &str) -> Piece<'a> {
    Piece::Data(object(|o| _ = o.member("description", description).member("subject", subject)))
}

/// The agent's message about the current status: its text, or the reason for the wait, followed by the parts `more`.
pub fn status_message<'a>(state: &'a State, more: impl IntoIterator<Item = Piece<'a>>) -> Option<AgentMessage<'a>> {
    let text = if let Phase::Backoff { delay_ms, reason, .. } = &state.phase {
        Some(asked_again(*delay_ms, reason).into())
    } else {
        state.status.text.as_deref().map(Cow::Borrowed)
    };
    let text = text.map(Piece::Text);
    AgentMessage::of(state.status.seq, text.into_iter().chain(more))
}
