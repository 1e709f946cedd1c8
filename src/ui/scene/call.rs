//! A tool call in the scene.

use crate::base::id::Seq;
use crate::limits::LIVE_TAIL_BYTES;
use crate::task::form::Inquired;
use crate::task::log::answer::Request;
use crate::task::message::Source;
use crate::task::spec::{Answers, ApprovalScope, Choice, Display, Ending, Plan, Question};
use serde::Serialize;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    #[serde(flatten)]
    pub request: Request,
    pub stage: Stage,
    #[serde(flatten)]
    pub plan: Option<Arc<Plan>>,
    /// The record of the present plan, or of the server's open question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned: Option<Seq>,
    /// The open question of the MCP server that runs the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inquiry: Option<Arc<Inquired>>,
    pub keeping: ApprovalScope,
    pub asked_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Arc<Answers>>,
    /// The newest part of the output; empty if the ending contains it.
    pub output: String,
    pub output_bytes: u64,
    pub output_lines: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Arc<Ending>>,
    pub started_at: u64,
    pub ended_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Named,
    Planned,
    Asked,
    Answered,
    Ready,
    Running,
    /// The file changed under an approved edit; the call is prepared again.
    Replanning,
    Ended,
    /// The turn ended before the call did.
    Interrupted,
}

impl Call {
    pub(super) fn new(request: Request) -> Call {
        Call {
            request,
            stage: Stage::Named,
            plan: None,
            planned: None,
            inquiry: None,
            keeping: ApprovalScope::Session,
            asked_at: 0,
            choice: None,
            by: None,
            edited: None,
            answers: None,
            output: String::new(),
            output_bytes: 0,
            output_lines: 0,
            ending: None,
            started_at: 0,
            ended_at: 0,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Ended | Stage::Interrupted)
    }

    pub(super) fn answer(
        &mut self,
        choice: Choice,
        by: &Source,
        edited: &Option<Arc<str>>,
        answers: &Option<Arc<Answers>>,
    ) {
        self.stage = Stage::Answered;
        (self.choice, self.by) = (Some(choice), Some(by.clone()));
        (self.edited, self.answers) = (edited.clone(), answers.clone());
    }

    /// The open question of its MCP server, otherwise the question whether it may run.
    pub fn question(&self) -> Option<&Question> {
        let asked = self.inquiry.as_ref().map(|inquired| &inquired.question);
        asked.or(self.plan.as_ref().map(|plan| &plan.question))
    }

    pub(super) fn start(&mut self, at: u64) {
        (self.stage, self.started_at) = (Stage::Running, at);
    }

    pub(super) fn print(&mut self, text: &str) {
        self.output_bytes += text.len() as u64;
        append_output(&mut self.output, &mut self.output_lines, text);
    }

    pub(super) fn end(&mut self, ending: &Arc<Ending>, at: u64) {
        (self.stage, self.inquiry) = (Stage::Ended, None);
        self.ended_at = at;
        let shown = match ending.as_ref() {
            Ending::Success { display: Display::Text { .. }, .. } => true,
            Ending::Cancelled { output, .. } => !output.is_empty(),
            Ending::Success { .. } | Ending::Error { .. } => false,
        };
        if shown {
            self.output = String::new();
        }
        self.ending = Some(ending.clone());
    }
}

/// Adds a piece of output and counts its lines. Only the end of a long output is stored.
pub(super) fn append_output(output: &mut String, lines: &mut u64, piece: &str) {
    *lines += piece.matches('\n').count() as u64;
    output.push_str(piece);
    let cut = output.len().saturating_sub(LIVE_TAIL_BYTES);
    output.drain(..output.ceil_char_boundary(cut));
}
