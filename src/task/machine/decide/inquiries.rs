//! Decisions about questions that MCP servers ask while a call runs. A call has at most one open question. The first valid answer is sent
//! to the job; the log records only which fields were answered.

use super::*;
use crate::task::message::{Content, Message};

/// An answer that fits the open question of a call.
pub(in crate::task) struct Replied<'a> {
    call: &'a CallState,
    inquired: &'a Inquired,
    reply: Reply,
}

impl Deciding<'_> {
    pub(in crate::task) fn inquired(&mut self, call: &CallState, inquired: Inquired) {
        match call.stage {
            Stage::Running { .. } if self.rules.policy.is_interactive() => {
                self.push(Event::CallInquired { call: call.id().clone(), inquired: Arc::new(inquired) });
            }
            // Nobody can be asked, or a question is already open.
            Stage::Running { job } | Stage::Inquired { job } => {
                self.effect(Effect::Reply { job, nr: inquired.nr, reply: Reply::Cancel });
            }
            Stage::Named
            | Stage::Planned
            | Stage::Asked
            | Stage::Answered
            | Stage::Ready
            | Stage::Replanning { .. }
            | Stage::Ended => {}
        }
    }

    /// Closes the call's open question, because the answer is not needed any more. With `nr`, only the question with this number.
    pub(in crate::task) fn withdrawn(&mut self, call: &CallState, nr: Option<u32>) {
        if let Some(inquired) = call.inquiry.as_ref().filter(|open| nr.is_none_or(|nr| nr == open.nr)) {
            let by = Source::new(inquired.server.clone(), "mcp");
            self.push(replied(call, inquired, &Reply::Cancel, by));
        }
    }

    pub(in crate::task) fn reply(&mut self, call: &CallState, inquired: &Inquired, reply: Reply, by: Source) {
        self.push(replied(call, inquired, &reply, by));
        if let Stage::Inquired { job } = call.stage {
            self.effect(Effect::Reply { job, nr: inquired.nr, reply });
        }
    }

    pub(in crate::task) fn reply_all(&mut self, replies: Vec<Replied<'_>>, by: &Source) {
        for Replied { call, inquired, reply } in replies {
            self.reply(call, inquired, reply, by.clone());
        }
    }
}

fn replied(call: &CallState, inquired: &Inquired, reply: &Reply, by: Source) -> Event {
    let (call, action, fields) = (call.id().clone(), reply.action(), reply.fields());
    Event::CallReplied { call, nr: inquired.nr, action, fields, by }
}

/// The answers to open questions of servers. An invalid one makes the whole message invalid.
pub(in crate::task) fn valid_replies<'a>(state: &'a State, picks: &[Pick]) -> Result<Vec<Replied<'a>>, Refusal> {
    let mut valid: Vec<Replied<'a>> = Vec::new();
    for pick in picks {
        let open = state.call(&pick.call).and_then(|call| Some((call, call.inquiry.as_deref()?)));
        let Some((call, inquired)) = open.filter(|(call, _)| !valid.iter().any(|one| one.call.id() == call.id()))
        else {
            continue;
        };
        if pick.seen.is_some_and(|seen| seen != call.planned_at) {
            return Err(Refusal::PlannedAgain(pick.call.clone()));
        }
        let reply = match Choice::from_word(&pick.option).filter(|choice| call.options().contains(choice)) {
            Some(Choice::Cancel) => Reply::Decline,
            Some(_) => {
                let none = Default::default();
                inquired.accept(pick.answers.as_deref().unwrap_or(&none)).map_err(Refusal::WrongAnswer)?
            }
            None => {
                let offered = call.options().iter().map(|choice| choice.word()).collect();
                return Err(Refusal::UnknownOption { call: pick.call.clone(), offered });
            }
        };
        valid.push(Replied { call, inquired, reply });
    }
    Ok(valid)
}

/// The message without metadata and data parts, which may contain the values of answers.
pub(in crate::task) fn without_answers(message: &Message) -> Arc<Message> {
    let mut message = Message { metadata: None, ..message.clone() };
    message.parts.retain(|part| !matches!(part.content, Content::Data(_)));
    Arc::new(message)
}
