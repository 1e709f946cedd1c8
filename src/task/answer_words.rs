//! Answers to questions as plain text, for clients that know nothing of tool calls and send what the user typed. Only if one call
//! waits and nothing else runs, so that it is certain which call the text answers. Text that is not clearly an answer is a prompt.

use crate::base::id::CallId;
use crate::task::machine::job::{Pick, Said};
use crate::task::machine::state::State;
use crate::task::message::{Content, Message};
use crate::task::spec::{Answers, Choice, Inquiry, Question};
use std::sync::Arc;

/// Turns a prompt into an answer if its text answers the one open question.
pub fn heard(state: &State, said: Said) -> Said {
    let mut parts = said.message.parts.iter();
    let words_only = parts.all(|part| matches!(part.content, Content::Text(_)));
    let answer = (said.answers.is_empty() && words_only).then(|| typed_answer(state, &said.message.text())).flatten();
    match answer {
        None => said,
        Some(pick) => {
            let message = Message { parts: Vec::new(), ..Message::clone(&said.message) };
            Said { message: Arc::new(message), answers: vec![pick], ..said }
        }
    }
}

/// The answer that `text` is to the one open question: the word of an option; `yes` or `no` to a call that needs approval; to
/// questions of the agent any text, one line for each question if there are several.
fn typed_answer(state: &State, text: &str) -> Option<Pick> {
    if !state.waits_for_answers() {
        return None;
    }
    let mut open = state.asked();
    let (call, None) = (open.next()?, open.next()) else {
        return None;
    };
    let text = text.trim();
    let word = text.trim_end_matches(['.', '!']).to_lowercase();
    let named = Choice::from_word(&word).filter(|choice| call.options().contains(choice));
    if let Some(choice) = named {
        return Some(pick(call.id(), choice, None));
    }
    match &call.plan.as_ref()?.question {
        Question::Edit { .. } | Question::Exec { .. } | Question::Info { .. } => {
            let choice = match word.as_str() {
                "yes" => Choice::ProceedOnce,
                "no" => Choice::Cancel,
                _ => return None,
            };
            Some(pick(call.id(), choice, None))
        }
        Question::AskUser { questions, .. } => {
            let answers = replies(questions, text)?;
            Some(pick(call.id(), Choice::ProceedOnce, Some(answers)))
        }
    }
}

fn pick(call: &CallId, choice: Choice, answers: Option<Answers>) -> Pick {
    Pick { call: call.clone(), option: choice.word().to_owned(), edited: None, answers: answers.map(Arc::new) }
}

fn replies(questions: &[Inquiry], text: &str) -> Option<Answers> {
    let lines: Vec<&str> = match questions {
        [_] => vec![text],
        _ => text.lines().map(str::trim).collect(),
    };
    let answered = lines.len() == questions.len() && lines.iter().all(|line| !line.is_empty());
    let numbered = lines.iter().enumerate();
    answered.then(|| numbered.map(|(n, line)| (n.to_string(), (*line).to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::answer::{Answer, Request};
    use crate::task::log::event::{Created, Event, Lifecycle, Profile, Protocol};
    use crate::task::log::record::Record;
    use crate::task::message::{Part, Role};
    use crate::task::policy::Mode;
    use crate::task::spec::{ApprovalScope, InquiryKind, Plan};
    use serde_json::json;

    fn record(seq: u64, event: Event) -> Record {
        Record { seq: crate::base::id::Seq(seq), at: seq, event }
    }

    /// A task that waits for answers to these questions.
    fn waiting(questions: &[Question]) -> State {
        let created = Arc::new(Created {
            task: "t".into(),
            context: "c".into(),
            tenant: Default::default(),
            command: None,
            parent: None,
            lifecycle: Lifecycle::OneShot,
            protocol: Protocol::V10,
            profile: Profile::Plain,
            workspace: "/w".into(),
            trusted: false,
            model: "m".into(),
            mode: Mode::Default,
            auto_execute: false,
            tools: None,
        });
        let mut state = State::new(created.clone(), &record(1, Event::Created(created)));
        let ids = ["a", "b"].into_iter().map(CallId::from);
        let asked: Vec<(CallId, Question)> = ids.zip(questions.iter().cloned()).collect();
        let calls = asked.iter().map(|(call, _)| Request {
            call: call.clone(),
            name: "x".into(),
            args: json!({}),
            api_id: None,
        });
        let answer = Answer::new("", calls);
        state.status.state = crate::task::machine::state::TaskState::Working;
        let answer = Arc::new(answer);
        state.apply(&record(2, Event::Answered { answer }));
        for (call, question) in asked {
            let plan = Arc::new(Plan { title: "It".into(), question, base: None });
            let keeping = ApprovalScope::Session;
            let planned = call.clone();
            state.apply(&record(3, Event::CallPlanned { call: planned, plan }));
            state.apply(&record(4, Event::CallAsked { call, keeping }));
        }
        state
    }

    fn permission() -> Question {
        Question::Info { title: "Fetch".into(), prompt: "Fetch it?".into(), urls: vec![] }
    }

    fn questions(count: usize) -> Question {
        let one = Inquiry {
            question: "Which?".into(),
            header: "Which".into(),
            kind: InquiryKind::YesNo,
            options: vec![],
            multi_select: false,
            placeholder: None,
        };
        Question::AskUser { title: "Questions".into(), questions: vec![one; count] }
    }

    #[test]
    fn yes_and_no_answer_an_approval() {
        let state = waiting(&[permission()]);
        for (text, option) in [
            ("yes", Some("proceed_once")),
            (" Yes.\n", Some("proceed_once")),
            ("no", Some("cancel")),
            ("NO!", Some("cancel")),
            ("proceed_once", Some("proceed_once")),
            ("proceed_always", Some("proceed_always")),
            ("cancel", Some("cancel")),
            // Not on offer here.
            ("proceed_always_and_save", None),
            ("yes, but later", None),
            ("", None),
            ("not", None),
        ] {
            let expected =
                option.map(|option| Pick { call: "a".into(), option: option.into(), edited: None, answers: None });
            assert_eq!(typed_answer(&state, text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_answers_is_no_prompt_any_more() {
        let state = waiting(&[permission()]);
        let message = |parts: &[Part]| Message::new("m", Role::User, parts.to_vec());
        let said = |parts: &[Part], answers: &[Pick]| Said::new(Arc::new(message(parts)), answers.to_vec());
        let cancel = pick(&"a".into(), Choice::Cancel, None);
        assert_eq!(heard(&state, said(&[Part::text("no")], &[])), said(&[], std::slice::from_ref(&cancel)));
        for other in [
            said(&[Part::text("wait")], &[]),
            said(&[Part::text("no"), Part::data(json!({}))], &[]),
            said(&[Part::text("yes")], &[cancel]),
        ] {
            assert_eq!(heard(&state, other.clone()), other);
        }
    }

    #[test]
    fn text_is_a_prompt_unless_exactly_one_call_waits() {
        assert_eq!(typed_answer(&waiting(&[permission(), permission()]), "yes"), None);
        assert_eq!(typed_answer(&waiting(&[]), "yes"), None);
        let mut state = waiting(&[permission(), permission()]);
        state.apply(&record(5, Event::CallReady { call: "b".into(), confinement: Default::default() }));
        assert_eq!(typed_answer(&state, "yes"), None, "the other one runs");
    }

    #[test]
    fn any_text_answers_a_question_of_the_agent() {
        let said = |count, text: &str| {
            let pick = typed_answer(&waiting(&[questions(count)]), text)?;
            let answers = pick.answers.as_deref().cloned().unwrap_or_default();
            let answers: Vec<String> = answers.into_values().collect();
            Some((pick.option, answers))
        };
        let answer = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            Some(("proceed_once".to_owned(), lines))
        };
        assert_eq!(said(1, "no"), answer(&["no"]));
        assert_eq!(said(1, "this\nand that "), answer(&["this\nand that"]));
        assert_eq!(said(1, "cancel"), Some(("cancel".into(), vec![])));
        assert_eq!(said(1, "  "), None);
        assert_eq!(said(2, "yes\nno"), answer(&["yes", "no"]));
        assert_eq!(said(2, "yes"), None);
        assert_eq!(said(2, "yes\n\nno"), None);
    }

    #[test]
    fn words_that_answer_are_no_prompt() {
        let state = waiting(&[permission()]);
        let said = |parts: Vec<Part>| Said::new(Arc::new(Message::new("m", Role::User, parts)), vec![]);
        let answer = heard(&state, said(vec![Part::text("yes")]));
        assert_eq!(answer.message.parts, vec![]);
        assert_eq!(answer.answers.len(), 1);
        for prompt in [said(vec![Part::text("yes, but why?")]), said(vec![Part::text("yes"), Part::data(json!({}))])] {
            assert_eq!(heard(&state, prompt.clone()), prompt);
        }
    }
}
