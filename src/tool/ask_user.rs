//! `ask_user`: asks the user questions. The approval request contains the questions, and the approval contains the answers; running the
//! call only passes them to the model.

use crate::limits::{USER_OPTIONS, USER_QUESTIONS};
use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{Answers, CallError, Inquiry, InquiryKind, Kind, Plan, Question, ToolSpec};
use crate::tool::{Ctx, Tool, invalid, object, text_end};
use serde::Deserialize;
use serde_json::{Value, json};

pub struct AskUser;

impl Tool for AskUser {
    fn spec(&self) -> ToolSpec {
        let choice = object(
            &["label", "description"],
            json!({
                "label": {"type": "string"},
                "description": {"type": "string", "description": "What it means to choose it."},
            }),
        );
        let question = object(
            &["question", "header"],
            json!({
                "question": {"type": "string", "description": "The question, as a sentence."},
                "header": {"type": "string", "description": "A word or two for it, e.g. \"Database\"."},
                "type": {"type": "string", "enum": ["choice", "text", "yesno"], "description": "How it is answered; choice if not given."},
                "options": {"type": "array", "items": choice, "description": "For a choice: two to four of them. The user may also answer with own words."},
                "multiSelect": {"type": "boolean", "description": "For a choice: several may be chosen."},
                "placeholder": {"type": "string", "description": "A hint where text is entered."},
            }),
        );
        ToolSpec::new(
            "ask_user",
            "AskUser",
            Kind::Communicate,
            "Asks the user up to four questions and waits for the answers. For decisions that are theirs: preferences, \
             missing requirements, a choice between ways to go. Not to ask for permission.",
            object(
                &["questions"],
                json!({"questions": {"type": "array", "items": question, "description": "One to four questions."}}),
            ),
        )
    }

    fn prepare(&self, args: &Value, _ctx: &Ctx) -> Result<Plan, CallError> {
        let questions = questions(args)?;
        let headers: Vec<&str> = questions.iter().map(|asked| asked.header.as_str()).collect();
        Ok(Plan {
            title: format!("Asking the user: {}", headers.join(", ")),
            question: Question::AskUser { title: "Questions".into(), questions },
            base: None,
        })
    }

    fn run(&self, run: &Run, _: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let questions = questions(&run.args)?;
        let none = Answers::new();
        let answers = run.answers.as_deref().unwrap_or(&none);
        let answered = |(n, asked): (usize, &Inquiry)| {
            answers.get(&n.to_string()).map(|answer| format!("{}: {answer}", asked.header))
        };
        let lines: Vec<String> = questions.iter().enumerate().filter_map(answered).collect();
        let text = if lines.is_empty() { "The user sent no answers.".to_owned() } else { lines.join("\n") };
        Ok(text_end(json!({ "answers": answers }).to_string(), text))
    }
}

fn questions(args: &Value) -> Result<Vec<Inquiry>, CallError> {
    let questions = Vec::<Inquiry>::deserialize(&args["questions"]).map_err(|error| invalid(error.to_string()))?;
    if questions.is_empty() || questions.len() > USER_QUESTIONS {
        return Err(invalid(format!("there must be 1 to {USER_QUESTIONS} questions, not {}", questions.len())));
    }
    questions.into_iter().enumerate().map(|(n, asked)| checked(n, asked)).collect()
}

/// Checks a question and removes fields that its kind does not have.
fn checked(n: usize, mut asked: Inquiry) -> Result<Inquiry, CallError> {
    let wrong = |what: &str| Err(invalid(format!("question {}: {what}", n + 1)));
    if asked.question.trim().is_empty() || asked.header.trim().is_empty() {
        return wrong("question and header must not be empty");
    }
    if asked.kind != InquiryKind::Choice {
        asked.options.clear();
        asked.multi_select = false;
    } else if !USER_OPTIONS.contains(&asked.options.len()) {
        return wrong("a choice needs 2 to 4 options");
    }
    if asked.options.iter().any(|option| option.label.trim().is_empty()) {
        return wrong("every option needs a label");
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::task::spec::{Display, Ending, InquiryOption};
    use crate::tool::tests::{Scratch, ran, run_of, with_ctx};

    fn plan(questions: Value) -> Result<Plan, CallError> {
        with_ctx(&Scratch::new(), &Limits::default(), |ctx| {
            let args = json!({ "questions": questions });
            AskUser.spec().validate(&args).map_err(invalid)?;
            AskUser.prepare(&args, ctx)
        })
    }

    fn option(label: &str) -> Value {
        json!({"label": label, "description": "d"})
    }

    #[test]
    fn questions_are_passed_on_unchanged() {
        let asked = json!([
            {"question": "Which?", "header": "Tool", "options": [option("a"), option("b")], "multiSelect": true},
            {"question": "Name?", "header": "Name", "type": "text", "placeholder": "x", "options": [option("no")]},
            {"question": "Sure?", "header": "Go", "type": "yesno", "multiSelect": true}]);
        let choice = |label: &str| InquiryOption { label: label.into(), description: "d".into() };
        let inquiry = |question: &str, header: &str, kind| Inquiry {
            question: question.into(),
            header: header.into(),
            kind,
            options: vec![],
            multi_select: false,
            placeholder: None,
        };
        assert_eq!(
            plan(asked),
            Ok(Plan {
                title: "Asking the user: Tool, Name, Go".into(),
                question: Question::AskUser {
                    title: "Questions".into(),
                    questions: vec![
                        Inquiry {
                            options: vec![choice("a"), choice("b")],
                            multi_select: true,
                            ..inquiry("Which?", "Tool", InquiryKind::Choice)
                        },
                        Inquiry { placeholder: Some("x".into()), ..inquiry("Name?", "Name", InquiryKind::Text) },
                        inquiry("Sure?", "Go", InquiryKind::YesNo),
                    ],
                },
                base: None,
            })
        );
    }

    #[test]
    fn invalid_questions_are_refused() {
        let yesno = json!({"question": "?", "header": "h", "type": "yesno"});
        let choice = |options: Vec<Value>| json!({"question": "?", "header": "h", "options": options});
        let wrong = [
            json!([]),
            json!([yesno, yesno, yesno, yesno, yesno]),
            json!([{"question": " ", "header": "h", "type": "text"}]),
            json!([{"question": "?", "header": "h", "type": "essay"}]),
            json!([choice(vec![])]),
            json!([choice(vec![option("a")])]),
            json!([choice(vec![option("a"); 5])]),
            json!([choice(vec![option("a"), option(" ")])]),
        ];
        for questions in wrong {
            assert!(plan(questions.clone()).is_err(), "{questions}");
        }
        assert!(plan(json!([yesno, yesno, yesno, yesno])).is_ok());
        for options in [2, 4] {
            assert!(plan(json!([choice(vec![option("a"); options])])).is_ok(), "{options}");
        }
    }

    #[test]
    fn answers_go_to_the_model_and_are_shown() {
        let scratch = Scratch::new();
        let args = json!({"questions": [
            {"question": "Which?", "header": "Tool", "type": "text"},
            {"question": "Why?", "header": "Reason", "type": "text"}]});
        let end = |answers: &[(&str, &str)]| {
            let answers: Answers = answers.iter().map(|(n, text)| (n.to_string(), text.to_string())).collect();
            let run = Run { answers: Some(answers.into()), ..run_of(&scratch, "ask_user", args.clone()) };
            with_ctx(&scratch, &Limits::default(), |ctx| ran(AskUser, &run, ctx))
        };
        let success = |output: &str, text: &str| {
            RunEnd::Ended(Ending::Success { output: output.into(), display: Display::Text { text: text.into() } })
        };
        assert_eq!(
            end(&[("0", "git \"2\""), ("1", "so")]),
            success(r#"{"answers":{"0":"git \"2\"","1":"so"}}"#, "Tool: git \"2\"\nReason: so")
        );
        assert_eq!(end(&[]), success(r#"{"answers":{}}"#, "The user sent no answers."));
    }
}
