//! The agent's own questions to the user, one after the other: a choice, several of them, yes or no, or an answer in words.

use crate::base::id::CallId;
use crate::task::spec::{Answers, Inquiry, InquiryKind};
use crate::ui::complete::mark;
use crate::ui::dialog::Outcome;
use crate::ui::edit::{Draft, Rows};
use crate::ui::style::Role;
use crate::ui::wrap::{Line, Span, paragraph};

/// Questions of the agent, one after the other.
pub struct Inquiring {
    pub call: CallId,
    pub(super) inquiries: Vec<Inquiry>,
    step: usize,
    pub(super) marked: Vec<usize>,
    /// An answer in the user's own words, while it is written.
    pub(super) draft: Option<Draft>,
    answers: Answers,
}

impl Inquiring {
    pub(super) fn current(&self) -> &Inquiry {
        &self.inquiries[self.step.min(self.inquiries.len() - 1)]
    }

    pub fn new(call: CallId, inquiries: Vec<Inquiry>) -> Inquiring {
        let mut inquiring =
            Inquiring { call, inquiries, step: 0, marked: vec![], draft: None, answers: Answers::new() };
        inquiring.begin();
        inquiring
    }

    /// Text is written at once.
    fn begin(&mut self) {
        self.marked.clear();
        self.draft = (self.current().kind == InquiryKind::Text).then(Draft::default);
    }

    /// What can be chosen, with what is said about it.
    pub(super) fn options(&self) -> Vec<(String, String)> {
        let inquiry = self.current();
        match inquiry.kind {
            InquiryKind::Text => Vec::new(),
            InquiryKind::YesNo => vec![("Yes".into(), String::new()), ("No".into(), String::new())],
            InquiryKind::Choice => {
                let options = inquiry.options.iter().map(|option| (option.label.clone(), option.description.clone()));
                options.chain([("Something else…".to_owned(), String::new())]).collect()
            }
        }
    }

    pub(super) fn choose(&mut self, at: usize) -> Outcome {
        let options = self.options();
        let own_words = self.current().kind == InquiryKind::Choice && at + 1 == options.len();
        if own_words {
            self.draft = Some(Draft::default());
            return Outcome::Changed;
        }
        let mut chosen = if self.marked.is_empty() { vec![at] } else { self.marked.clone() };
        chosen.sort_unstable();
        let labels: Vec<&str> =
            chosen.iter().filter_map(|at| options.get(*at)).map(|(label, _)| label.as_str()).collect();
        self.answer(labels.join(", "))
    }

    pub(super) fn answer(&mut self, text: String) -> Outcome {
        self.answers.insert(self.step.to_string(), text);
        self.step += 1;
        if self.step == self.inquiries.len() {
            return Outcome::Answered(std::mem::take(&mut self.answers));
        }
        self.begin();
        Outcome::Changed
    }

    pub(super) fn rows(&self, selected: usize, columns: usize, cursor: &mut Option<(usize, usize)>) -> Vec<Line> {
        let inquiry = self.current();
        let steps = match self.inquiries.len() {
            1 => String::new(),
            steps => format!("   {} of {steps}", self.step + 1),
        };
        let spans = [Span::new(Role::Strong, &inquiry.question), Span::new(Role::Muted, &steps)];
        let mut lines =
            paragraph(&Span::new(Role::Accent, "? "), &Span::new(Role::Text, "  "), &spans, columns.min(88));
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
            if !help.is_empty() {
                lines.push(Line::new(Role::Text, "       ").add(Role::Muted, &help));
            }
        }
        lines
    }

    pub(super) fn hint(&self) -> &'static str {
        match (&self.draft, self.current().multi_select) {
            (Some(_), _) => "Enter answers · ctrl-j newline · Esc = no answer",
            (None, true) => "number or ↑↓ and Enter · space marks several · Esc = no answer",
            (None, false) => "number or ↑↓ and Enter · Esc = no answer",
        }
    }
}
