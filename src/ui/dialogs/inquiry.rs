//! Questions of the agent or of an MCP server to the user, asked one after the other: one choice, several, yes or no, or free text.

use crate::base::id::CallId;
use crate::limits::ui::TITLE_ROWS;
use crate::task::form::Inquired;
use crate::task::spec::{Answers, Inquiry, InquiryKind, Question};
use crate::ui::dialogs::dialog::DialogOutcome;
use crate::ui::format::style::Role;
use crate::ui::format::wrap::{Line, Span, paragraph};
use crate::ui::input::complete::mark;
use crate::ui::input::edit::{Draft, Rows};
use std::sync::Arc;

/// The dialog for a list of questions.
pub struct InquiryDialog {
    pub call: CallId,
    title: String,
    /// The MCP server's inquiry; None if the agent asks.
    server: Option<Arc<Inquired>>,
    pub(in crate::ui) inquiries: Vec<Inquiry>,
    step: usize,
    pub(in crate::ui) marked: Vec<usize>,
    /// An answer in the user's own words, while it is written.
    pub(in crate::ui) draft: Option<Draft>,
    answers: Answers,
}

impl InquiryDialog {
    pub(in crate::ui) fn current(&self) -> &Inquiry {
        &self.inquiries[self.step.min(self.inquiries.len() - 1)]
    }

    /// None if there is no question.
    pub fn new(call: CallId, question: &Question, server: Option<Arc<Inquired>>) -> Option<InquiryDialog> {
        let Question::AskUser { title, questions } = question else { return None };
        let (title, inquiries) = (title.clone(), questions.clone());
        let mut inquiry_dialog = InquiryDialog {
            call,
            title,
            server,
            inquiries,
            step: 0,
            marked: vec![],
            draft: None,
            answers: Answers::new(),
        };
        inquiry_dialog.inquiries.first()?;
        inquiry_dialog.begin_question();
        Some(inquiry_dialog)
    }

    /// The number of the server's inquiry.
    pub fn inquiry_number(&self) -> Option<u32> {
        self.server.as_ref().map(|server| server.nr)
    }

    /// Whether a question of a server may be left without an answer.
    pub(in crate::ui) fn is_optional(&self) -> bool {
        let field = self.server.as_ref().and_then(|server| server.fields.get(self.step));
        field.is_some_and(|field| !field.required || !field.default.is_null())
    }

    /// Prepares the present question. For a question in free text, the draft opens at once.
    fn begin_question(&mut self) {
        self.marked.clear();
        self.draft = (self.current().kind == InquiryKind::Text).then(Draft::default);
    }

    /// The labels of the choices, each with a description, which may be empty.
    pub(in crate::ui) fn options(&self) -> Vec<(String, String)> {
        let inquiry = self.current();
        let option = |label: &str| (label.to_owned(), String::new());
        let mut options = match inquiry.kind {
            InquiryKind::Text => return Vec::new(),
            InquiryKind::YesNo => vec![option("Yes"), option("No")],
            InquiryKind::Choice => {
                let options = inquiry.options.iter().map(|option| (option.label.clone(), option.description.clone()));
                options.collect()
            }
        };
        options.extend(self.last_option().map(option));
        options
    }

    /// The label of the last entry, which stands for another answer or none.
    fn last_option(&self) -> Option<&'static str> {
        match (&self.server, self.current().kind) {
            (None, InquiryKind::Choice) => Some("Something else…"),
            (Some(_), InquiryKind::Choice | InquiryKind::YesNo) if self.is_optional() => Some("No answer"),
            (None | Some(_), InquiryKind::Text | InquiryKind::YesNo | InquiryKind::Choice) => None,
        }
    }

    /// Whether the last choice means no.
    pub(in crate::ui) fn ends_with_no(&self) -> bool {
        self.current().kind == InquiryKind::YesNo && self.last_option().is_none()
    }

    pub(in crate::ui) fn choose(&mut self, at: usize) -> DialogOutcome {
        let options = self.options();
        match (&self.server, self.last_option().filter(|_| at + 1 == options.len())) {
            (None, Some(_)) => {
                self.draft = Some(Draft::default());
                return DialogOutcome::Changed;
            }
            (Some(_), Some(_)) => return self.answer(String::new()),
            (None | Some(_), None) => {}
        }
        let mut chosen = if self.marked.is_empty() { vec![at] } else { self.marked.clone() };
        chosen.sort_unstable();
        let labels: Vec<&str> =
            chosen.iter().filter_map(|at| options.get(*at)).map(|(label, _)| label.as_str()).collect();
        self.answer(labels.join(", "))
    }

    pub(in crate::ui) fn answer(&mut self, text: String) -> DialogOutcome {
        self.answers.insert(self.step.to_string(), text);
        self.step += 1;
        if self.step == self.inquiries.len() {
            return DialogOutcome::Answered(std::mem::take(&mut self.answers));
        }
        self.begin_question();
        DialogOutcome::Changed
    }

    pub(in crate::ui) fn rows(
        &self,
        selected: usize,
        columns: usize,
        helps: bool,
        cursor: &mut Option<(usize, usize)>,
    ) -> Vec<Line> {
        let inquiry = self.current();
        let steps = match self.inquiries.len() {
            1 => String::new(),
            steps => format!("   {} of {steps}", self.step + 1),
        };
        let (max_width, next) = (columns.min(88), Span::new(Role::Text, "  "));
        let mut lines = Vec::new();
        if self.server.is_some() {
            let rows = |line| paragraph(&next, &next, &[Span::new(Role::Text, line)], max_width);
            lines.extend(self.title.lines().flat_map(rows).take(TITLE_ROWS));
        }
        let mut asked = inquiry.question.lines();
        let spans = [Span::new(Role::Strong, asked.next().unwrap_or_default()), Span::new(Role::Muted, &steps)];
        lines.extend(paragraph(&Span::new(Role::Accent, "? "), &next, &spans, max_width));
        lines.extend(asked.flat_map(|line| paragraph(&next, &next, &[Span::new(Role::Warn, line)], max_width)));
        if let Some(draft) = &self.draft {
            let Rows { rows, row, column } = draft.rows(columns.saturating_sub(4).max(1));
            *cursor = Some((lines.len() + row, 4 + column));
            let placeholder = inquiry.placeholder.as_deref().unwrap_or_default();
            for (at, text) in rows.iter().enumerate() {
                let line = Line::new(Role::Accent, if at == 0 { "  › " } else { "    " });
                lines.push(if draft.is_empty() { line.add(Role::Muted, placeholder) } else { line.text(&text.text) });
            }
            return lines;
        }
        for (at, (label, help)) in self.options().into_iter().enumerate() {
            let box_ = match (inquiry.multi_select && at < inquiry.options.len(), self.marked.contains(&at)) {
                (false, _) => "",
                (true, true) => "[x] ",
                (true, false) => "[ ] ",
            };
            lines.push(mark(at, selected).text(&format!("{}  {box_}{label}", at + 1)));
            if helps && !help.is_empty() {
                lines.push(Line::new(Role::Text, "       ").add(Role::Muted, &help));
            }
        }
        lines
    }

    /// The present question with all descriptions, however long it is.
    pub(in crate::ui) fn whole(&self) -> Vec<Line> {
        self.rows(usize::MAX, usize::MAX, true, &mut None)
    }

    pub(in crate::ui) fn hint(&self) -> &'static str {
        match (&self.draft, self.current().multi_select) {
            (Some(_), _) => "Enter answers · ctrl-j newline · Esc = no answer",
            (None, true) => "number or ↑↓ and Enter · space marks several · Esc = no answer",
            (None, false) => "number or ↑↓ and Enter · Esc = no answer",
        }
    }
}
