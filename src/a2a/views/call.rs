//! What dialects show of a tool call, each under its own member names: the question while the call waits for an answer, the output while
//! it runs, the result when it has ended, and the change to a file that it proposes or has made.

use crate::a2a::words::{CallStatus, Offer};
use crate::task::command_line::visible;
use crate::task::log::long_text::LongText;
use crate::task::machine::state::{CallState, Stage};
use crate::task::spec::{Choice, Display, Ending, Inquiry, InquiryKind, Question};
use std::borrow::Cow;

/// A call, and the status that clients are shown.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub call: &'a CallState,
    pub status: CallStatus,
}

/// A change to a file.
#[derive(Clone, Copy)]
pub struct FileChange<'a> {
    pub name: &'a str,
    pub path: &'a str,
    pub diff: &'a str,
    /// None: the file is new.
    pub old: Option<&'a str>,
    pub new: &'a str,
}

impl<'a> Call<'a> {
    /// The call with its current status. None: the call has not been shown to clients.
    pub fn current(call: &'a CallState) -> Option<Call<'a>> {
        let status = match call.stage {
            Stage::Named | Stage::Planned => return None,
            Stage::Asked | Stage::Inquired { .. } => CallStatus::AwaitingApproval,
            Stage::Answered | Stage::Ready | Stage::Replanning { .. } => CallStatus::Scheduled,
            Stage::Running { .. } => CallStatus::Executing,
            Stage::Ended => call.ending.as_deref().map(CallStatus::of)?,
        };
        Some(Call { call, status })
    }

    /// The description of what the call does, when it has been planned.
    pub fn title(&self) -> Option<&'a str> {
        self.call.plan.as_ref().map(|plan| plan.title.as_str())
    }

    /// The title, otherwise the name of the tool.
    pub fn label(&self) -> &'a str {
        self.title().unwrap_or(&self.call.request.name)
    }

    /// The question of the plan, whether the call waits for an answer or not.
    pub fn planned_question(&self) -> Option<&'a Question> {
        self.call.plan.as_ref().map(|plan| &plan.question)
    }

    /// The question that the call waits for an answer to.
    pub fn question(&self) -> Option<&'a Question> {
        self.call.question().filter(|_| self.status == CallStatus::AwaitingApproval)
    }

    /// Questions to the user as text: one per line, with the choices. The title comes first if an MCP server asks the questions.
    pub fn listed(&self, title: &str, questions: &[Inquiry]) -> String {
        let title = self.call.inquiry.as_ref().map(|_| title.to_owned());
        title.into_iter().chain(questions.iter().map(inquiry_line)).collect::<Vec<_>>().join("\n")
    }

    /// The options of the question.
    pub fn offers(&self) -> Vec<Offer> {
        let asks = self.call.question().is_some_and(Question::asks_the_user);
        let offer = |choice: &Choice| if asks { Offer::reply(*choice) } else { Offer::permission(*choice) };
        self.call.options().iter().map(offer).collect()
    }

    /// The end of the output while the call runs.
    pub fn live(&self) -> Option<&'a str> {
        let live = self.call.live.as_ref().filter(|_| self.status == CallStatus::Executing);
        live.map(|live| live.tail.as_str())
    }

    pub fn ending(&self) -> Option<&'a Ending> {
        self.call.ending.as_deref()
    }

    /// The result as text: the text for people, otherwise the one for the model. The output of a cancelled call counts as a result.
    pub fn result(&self) -> Option<Cow<'a, str>> {
        match self.ending()? {
            Ending::Success { output, display } => Some(match display {
                Display::Text { text } if text.is_empty() => output.as_str().into(),
                Display::Text { text } | Display::Media { text, .. } => text.as_str().into(),
                Display::Summary { .. } => output.as_str().into(),
                Display::Diff { diff, .. } => diff.as_str().into(),
                Display::Todos { todos } => {
                    let lines = todos.iter().map(|todo| format!("[{}] {}", todo.status.word(), todo.description));
                    lines.collect::<Vec<_>>().join("\n").into()
                }
            }),
            Ending::Error { .. } => None,
            Ending::Cancelled { output, .. } => {
                Some(output.as_str().into()).filter(|output: &Cow<str>| !output.is_empty())
            }
        }
    }

    /// Why the call failed or was cancelled.
    pub fn failure(&self) -> Option<&'a str> {
        match self.ending()? {
            Ending::Success { .. } => None,
            Ending::Error { error } => Some(&error.message),
            Ending::Cancelled { reason, .. } => Some(reason),
        }
    }
}

impl<'a> FileChange<'a> {
    fn new(name: &'a str, path: &'a str, diff: &'a LongText, old: &'a Option<LongText>, new: &'a LongText) -> Self {
        let old = old.as_ref().map(LongText::as_str);
        FileChange { name, path, diff: diff.as_str(), old, new: new.as_str() }
    }

    /// The change that a question asks about, if any.
    pub fn asked(question: &'a Question) -> Option<FileChange<'a>> {
        match question {
            Question::Edit { title: _, file_name, file_path, diff, old, new } => {
                Some(FileChange::new(file_name, file_path, diff, old, new))
            }
            Question::Exec { .. } | Question::Mcp { .. } | Question::Info { .. } | Question::AskUser { .. } => None,
        }
    }

    /// The change that a call made, if its result is shown as one.
    pub fn made(display: &'a Display) -> Option<FileChange<'a>> {
        match display {
            Display::Diff { file_name, file_path, diff, old, new, added: _, removed: _ } => {
                Some(FileChange::new(file_name, file_path, diff, old, new))
            }
            Display::Text { .. } | Display::Summary { .. } | Display::Todos { .. } | Display::Media { .. } => None,
        }
    }
}

/// A question about a call of an MCP tool as text: the tool, the arguments and the warnings.
pub fn mcp_call(question: &Question) -> Option<String> {
    let Question::Mcp { server, tool, args, warnings, .. } = question else { return None };
    let args = serde_json::to_string_pretty(args).unwrap_or_default();
    let call = format!("Call {} of the MCP server {server}?\n{}", visible(tool), visible(&args));
    Some(std::iter::once(&call).chain(warnings).map(String::as_str).collect::<Vec<_>>().join("\n"))
}

/// A prompt and its URLs as text, one per line.
pub fn prompt_and_urls(prompt: &str, urls: &[String]) -> String {
    std::iter::once(prompt).chain(urls.iter().map(String::as_str)).collect::<Vec<_>>().join("\n")
}

fn inquiry_line(asked: &Inquiry) -> String {
    let choices: Vec<&str> = match asked.kind {
        InquiryKind::Choice => asked.options.iter().map(|option| option.label.as_str()).collect(),
        InquiryKind::YesNo => vec!["yes", "no"],
        InquiryKind::Text => Vec::new(),
    };
    match choices.is_empty() {
        true => asked.question.clone(),
        false => format!("{} ({})", asked.question, choices.join(" / ")),
    }
}
