//! Answers to questions as plain text, for clients that do not know tool calls and send what the user typed. A text can answer a call only
//! while nothing else of its task runs, because only then has the user been asked. A text that is not clearly an answer is a prompt.

use crate::base::id::CallId;
use crate::task::machine::job::{Pick, Said};
use crate::task::machine::state::{CallState, Phase, State};
use crate::task::message::{Content, Message, Part};
use crate::task::spec::{Answers, Choice, Inquiry, InquiryKind, Question};
use std::sync::Arc;

/// What a message means to tasks that may have asked something.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning<'a> {
    Prompt,
    /// It answers a question of this task; the value is what the task is given.
    Answer(&'a State, Said),
    /// It is an answer, but several questions are open, so it is not clear to which one.
    Unclear,
}

/// What a message means if it may be for any of these tasks.
pub fn meaning<'a>(tasks: &[&'a State], said: &Said) -> Meaning<'a> {
    let is_text = |part: &Part| matches!(part.content, Content::Text(_));
    if !said.answers.is_empty() || !said.message.parts.iter().all(is_text) {
        return Meaning::Prompt;
    }
    let text = said.message.text();
    let text = text.trim();
    let waiting = tasks.iter().filter(|state| state.waits_for_answers());
    let open: Vec<(&State, &CallState)> = waiting.flat_map(|state| state.asked().map(|call| (*state, call))).collect();
    let asking: Vec<&State> =
        tasks.iter().copied().filter(|state| state.phase == Phase::Idle && state.questioned).collect();
    let answer = |state, pick| {
        let message = Arc::new(Message { parts: Vec::new(), ..Message::clone(&said.message) });
        Meaning::Answer(state, Said { message, answers: vec![pick], ..said.clone() })
    };
    let named = open.iter().find_map(|(state, call)| {
        let rest = text.strip_prefix(call.id().as_str())?.strip_prefix([' ', ':', '\n'])?;
        Some((*state, typed_answer(call, rest.trim())?))
    });
    match (open.as_slice(), asking.as_slice(), named) {
        (_, _, Some((state, pick))) => answer(state, pick),
        ([(state, call)], [], None) => match typed_answer(call, text) {
            Some(pick) => answer(state, pick),
            None => Meaning::Prompt,
        },
        ([], [state], None) => Meaning::Answer(state, said.clone()),
        (open, _, None) if open.iter().any(|(_, call)| choice(call, text).is_some()) => Meaning::Unclear,
        (_, _, None) => Meaning::Prompt,
    }
}

/// Parses a text as the answer to a call: the name of an option, or for questions of the agent any text, one line per question.
fn typed_answer(call: &CallState, text: &str) -> Option<Pick> {
    if let Some(choice) = choice(call, text) {
        return Some(pick(call.id(), choice, None));
    }
    if let Some(inquired) = &call.inquiry {
        return inquired.typed(text).map(|answers| pick(call.id(), Choice::ProceedOnce, Some(answers)));
    }
    match &call.plan.as_ref()?.question {
        Question::Edit { .. } | Question::Exec { .. } | Question::Mcp { .. } | Question::Info { .. } => None,
        Question::AskUser { questions, .. } => {
            let answers = replies(questions, text)?;
            Some(pick(call.id(), Choice::ProceedOnce, Some(answers)))
        }
    }
}

/// The offered option that the text names: by its word, and if the call needs approval also by its name, by its number, or by `yes` or
/// `no`.
fn choice(call: &CallState, text: &str) -> Option<Choice> {
    let word = text.trim_end_matches(['.', '!']).to_lowercase();
    let options = call.options();
    let named = Choice::from_word(&word).filter(|choice| options.contains(choice));
    if named.is_some() || call.question()?.asks_the_user() {
        return named;
    }
    let is_named = |choice: &&Choice| choice.name().eq_ignore_ascii_case(&word);
    match word.as_str() {
        "yes" => Some(Choice::ProceedOnce),
        "no" => Some(Choice::Cancel),
        word => match word.parse::<usize>() {
            Ok(number) => options.get(number.checked_sub(1)?).copied(),
            Err(_) => options.iter().find(is_named).copied(),
        },
    }
}

fn pick(call: &CallId, choice: Choice, answers: Option<Answers>) -> Pick {
    Pick {
        call: call.clone(),
        option: choice.word().to_owned(),
        edited: None,
        answers: answers.map(Arc::new),
        seen: None,
    }
}

fn replies(questions: &[Inquiry], text: &str) -> Option<Answers> {
    let lines: Vec<&str> = match questions {
        [_] => vec![text],
        _ => text.lines().map(str::trim).collect(),
    };
    let answered = lines.len() == questions.len() && lines.iter().all(|line| !line.is_empty());
    let numbered = lines.iter().zip(questions).enumerate();
    answered.then(|| numbered.map(|(n, (line, asked))| (n.to_string(), reply(asked, line).to_owned())).collect())
}

/// The answer in a line. The number of an option is replaced by the option's label.
fn reply<'a>(asked: &'a Inquiry, line: &'a str) -> &'a str {
    let number = line.parse::<usize>().ok().filter(|_| asked.kind == InquiryKind::Choice);
    let chosen = number.and_then(|number| asked.options.get(number.checked_sub(1)?));
    chosen.map_or(line, |option| &option.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::answer::{Answer, Request};
    use crate::task::log::event::{Created, End, Event, Lifecycle};
    use crate::task::log::record::Record;
    use crate::task::log::test_created::created;
    use crate::task::message::Role;
    use crate::task::spec::{ApprovalScope, InquiryOption, Plan};
    use serde_json::json;

    fn record(seq: u64, event: Event) -> Record {
        Record { seq: crate::base::id::Seq(seq), at: seq, event }
    }

    /// A task that waits for answers to these questions.
    fn waiting(questions: &[Question]) -> State {
        let created = Arc::new(Created { lifecycle: Lifecycle::OneShot, ..created("t") });
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

    fn inquiry() -> Inquiry {
        Inquiry {
            question: "Which?".into(),
            header: "Which".into(),
            kind: InquiryKind::YesNo,
            options: vec![],
            multi_select: false,
            placeholder: None,
        }
    }

    fn questions(count: usize) -> Question {
        Question::AskUser { title: "Questions".into(), questions: vec![inquiry(); count] }
    }

    fn says(text: &str) -> Said {
        Said::new(Arc::new(Message::new("m", Role::User, vec![Part::text(text)])), vec![])
    }

    /// The answer that a text is to the only question of a task.
    fn answer_to(state: &State, text: &str) -> Option<Pick> {
        match meaning(&[state], &says(text)) {
            Meaning::Answer(_, said) => {
                assert_eq!(said.message.parts, [], "an answer is not a prompt too");
                said.answers.first().cloned()
            }
            Meaning::Prompt | Meaning::Unclear => None,
        }
    }

    #[test]
    fn words_that_answer_an_approval() {
        let state = waiting(&[permission()]);
        for (text, option) in [
            ("yes", Some("proceed_once")),
            (" Yes.\n", Some("proceed_once")),
            ("no", Some("cancel")),
            ("NO!", Some("cancel")),
            ("proceed_once", Some("proceed_once")),
            ("proceed_always", Some("proceed_always")),
            ("cancel", Some("cancel")),
            ("allow once", Some("proceed_once")),
            ("Always Allow", Some("proceed_always")),
            ("reject", Some("cancel")),
            ("1", Some("proceed_once")),
            ("2", Some("proceed_always")),
            ("3.", Some("cancel")),
            ("a yes", Some("proceed_once")),
            ("a: 3", Some("cancel")),
            ("0", None),
            ("4", None),
            ("-1", None),
            // Not on offer here.
            ("proceed_always_and_save", None),
            ("always allow and save", None),
            ("yes, but later", None),
            ("", None),
            ("not", None),
            ("ayes", None),
            ("b yes", None),
        ] {
            let expected = option.map(|option| Pick {
                call: "a".into(),
                option: option.into(),
                edited: None,
                answers: None,
                seen: None,
            });
            assert_eq!(answer_to(&state, text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_text_alone_is_examined() {
        let state = waiting(&[permission()]);
        let parts = vec![Part::text("yes"), Part::data(json!({}))];
        let data = Said::new(Arc::new(Message::new("m", Role::User, parts)), vec![]);
        let answered = Said { answers: vec![pick(&"a".into(), Choice::Cancel, None)], ..says("yes") };
        for said in [data, answered] {
            assert_eq!(meaning(&[&state], &said), Meaning::Prompt);
        }
    }

    #[test]
    fn with_several_questions_an_answer_names_its_call() {
        let both = waiting(&[permission(), questions(1)]);
        assert_eq!(meaning(&[&both], &says("yes")), Meaning::Unclear);
        assert_eq!(meaning(&[&both], &says("cancel")), Meaning::Unclear);
        assert_eq!(meaning(&[&both], &says("something else")), Meaning::Prompt);
        assert_eq!(answer_to(&both, "a yes"), Some(pick(&"a".into(), Choice::ProceedOnce, None)));
        let words = answer_to(&both, "b: any words").and_then(|pick| pick.answers);
        assert_eq!(words.as_deref().and_then(|words| words.get("0")).map(String::as_str), Some("any words"));
        assert_eq!(meaning(&[&waiting(&[])], &says("yes")), Meaning::Prompt);
        let mut state = waiting(&[permission(), permission()]);
        state.apply(&record(5, Event::CallReady { call: "b".into(), confinement: Default::default() }));
        assert_eq!(meaning(&[&state], &says("yes")), Meaning::Prompt, "the other one runs");
    }

    #[test]
    fn the_one_question_among_several_tasks_is_answered() {
        let (idle, asks) = (waiting(&[]), waiting(&[permission()]));
        assert!(matches!(meaning(&[&idle, &asks], &says("yes")), Meaning::Answer(task, _) if task == &asks));
        assert_eq!(meaning(&[&asks, &asks], &says("yes")), Meaning::Unclear);
        // A turn that ended with a question takes any text.
        let mut questioned = waiting(&[]);
        questioned.apply(&record(5, Event::TurnEnded { turn: 1, end: End::Asked("Which?".into()), by: None }));
        let said = says("any words");
        assert_eq!(meaning(&[&idle, &questioned], &said), Meaning::Answer(&questioned, said.clone()));
        assert_eq!(meaning(&[&asks, &questioned], &said), Meaning::Prompt);
        assert_eq!(meaning(&[&questioned, &questioned], &said), Meaning::Prompt);
    }

    #[test]
    fn any_text_answers_a_question_of_the_agent() {
        let said = |question: Question, text: &str| {
            let pick = answer_to(&waiting(&[question]), text)?;
            let answers = pick.answers.as_deref().cloned().unwrap_or_default();
            let answers: Vec<String> = answers.into_values().collect();
            Some((pick.option, answers))
        };
        let answer = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            Some(("proceed_once".to_owned(), lines))
        };
        assert_eq!(said(questions(1), "no"), answer(&["no"]));
        assert_eq!(said(questions(1), "this\nand that "), answer(&["this\nand that"]));
        assert_eq!(said(questions(1), "cancel"), Some(("cancel".into(), vec![])));
        assert_eq!(said(questions(1), "  "), None);
        assert_eq!(said(questions(2), "yes\nno"), answer(&["yes", "no"]));
        assert_eq!(said(questions(2), "yes"), None);
        assert_eq!(said(questions(2), "yes\n\nno"), None);
        let choice = |words| {
            let label = |label: &str| InquiryOption { label: label.into(), description: String::new() };
            let asked = Inquiry { kind: InquiryKind::Choice, options: vec![label("C"), label("Rust")], ..inquiry() };
            said(Question::AskUser { title: "Questions".into(), questions: vec![asked] }, words)
        };
        assert_eq!((choice("2"), choice("3"), choice("Rust")), (answer(&["Rust"]), answer(&["3"]), answer(&["Rust"])));
    }
}
