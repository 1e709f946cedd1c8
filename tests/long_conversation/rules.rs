//! What must hold of every request to the model beside the rules of [`turn_rules`]: the schema, that the model's own answers are in it
//! unchanged, and that each prompt is in it once and in order. Reads the bodies of the requests and the scripts in them; nothing here uses
//! the crate under test.

use crate::schema;
use crate::support::fake::Recorded;
use crate::support::script::{self, Answer, Item};
use crate::support::turn_rules;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A placeholder that the API accepts in place of a signature that it has not given.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Texts that the program adds as the model's, so that roles alternate.
const BY_PROGRAM: [&str; 2] =
    ["I was interrupted before I could go on from these results.", "I have it in mind and go on from there."];

/// The model's view of a conversation, request by request.
#[derive(Default)]
pub struct Review {
    /// Texts of the model, whole and as far as they were when the stream could have been stopped.
    texts: HashSet<String>,
    /// Calls of the model with their signatures.
    calls: HashMap<String, Option<String>>,
    /// The signatures that came after a text in a part of their own, by that text.
    seals: HashMap<String, String>,
    /// Prompts that have reached the model.
    pub reached: BTreeSet<usize>,
}

impl Review {
    /// Panics if the request breaks a rule. `hidden` are the prompts that only the request that failed for them may contain.
    pub fn check(&mut self, request: &Recorded, hidden: &[usize]) {
        let body = &request.body;
        turn_rules::check(body);
        let checked = schema::check(body, &schema::REQUEST)
            .and_then(|()| thinking(request))
            .and_then(|()| declared(body))
            .and_then(|()| self.unchanged(body))
            .and_then(|()| self.prompts(body, hidden));
        if let Err(why) = checked {
            panic!("{why}\n{body:#}");
        }
        if request.verb() == "streamGenerateContent" {
            self.note_answer(body);
        }
    }

    /// Every part with the role `model` is as the model sent it, with its signature.
    fn unchanged(&self, body: &Value) -> Result<(), String> {
        for turn in list(&body["contents"]).iter().filter(|turn| turn["role"] == "model") {
            let mut seal = None;
            for part in list(&turn["parts"]) {
                let signature = part["thoughtSignature"].as_str();
                let sealed = seal.take();
                let known = match (part["text"].as_str(), part.get("functionCall")) {
                    (None, Some(call)) => self.calls.get(&call.to_string()).is_some_and(|given| match given {
                        None => signature.is_none_or(|signature| signature == NO_SIGNATURE),
                        given => signature == given.as_deref(),
                    }),
                    (Some(""), None) => sealed.is_some(),
                    (Some(text), None) => {
                        seal = self.seals.get(text).map(String::as_str);
                        signature.is_none() && (self.texts.contains(text) || BY_PROGRAM.contains(&text))
                    }
                    _ => false,
                };
                if !known || sealed.is_some_and(|seal| signature != Some(seal)) {
                    return Err(format!("the model did not say {part}"));
                }
            }
            if let Some(seal) = seal {
                return Err(format!("the signature {seal} is missing"));
            }
        }
        Ok(())
    }

    /// From the first prompt in the request on, it contains every prompt once, in order.
    fn prompts(&mut self, body: &Value, hidden: &[usize]) -> Result<(), String> {
        let mut found = vec![];
        for part in list(&body["contents"]).iter().flat_map(|turn| list(&turn["parts"])) {
            found.extend(numbers(part["text"].as_str().unwrap_or_default(), "Request "));
        }
        let (Some(first), Some(last)) = (found.first(), found.last()) else {
            return Err("there is no prompt".into());
        };
        let expected: Vec<usize> = (*first..=*last).filter(|n| n == last || !hidden.contains(n)).collect();
        if found != expected {
            return Err(format!("the prompts are {found:?}, but should be {expected:?}"));
        }
        self.reached.extend(found);
        Ok(())
    }

    /// Remembers the answer of the fake model to this request.
    fn note_answer(&mut self, body: &Value) {
        let items = match script::answer_to(body).1 {
            Answer::Items(items) | Answer::Error { then: items, .. } => items,
            Answer::Refuse { .. } | Answer::Hang => vec![],
        };
        let mut text_so_far = String::new();
        for item in items {
            match item {
                Item::Text(text) => text_so_far.push_str(&text),
                Item::Finish(_) => text_so_far.push_str("Partial."),
                Item::Seal { signature } => _ = self.seals.insert(text_so_far.clone(), signature),
                Item::Calls(calls) => {
                    let key = |call: &script::Call| call.part()["functionCall"].to_string();
                    self.calls.extend(calls.into_iter().map(|call| (key(&call), call.signature)));
                }
                _ => {}
            }
            self.texts.insert(text_so_far.clone());
        }
    }
}

/// Models before Gemini 3 take a thinking budget, later ones a thinking level; the API refuses the other member.
fn thinking(request: &Recorded) -> Result<(), String> {
    let path = request.head.target();
    let unknown = if path.contains("/gemini-2.5-") { "thinkingLevel" } else { "thinkingBudget" };
    match request.body["generationConfig"]["thinkingConfig"].get(unknown) {
        Some(_) => Err(format!("{path} with {unknown}")),
        None => Ok(()),
    }
}

/// Each function that is called is declared. A request without tools, such as one for a summary, may still have calls.
fn declared(body: &Value) -> Result<(), String> {
    let tools = list(&body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    let names: Vec<&Value> = tools.map(|function| &function["name"]).collect();
    let parts = list(&body["contents"]).iter().flat_map(|turn| list(&turn["parts"]));
    let mut called = parts.filter_map(|part| part["functionCall"].get("name"));
    match called.find(|name| !names.is_empty() && !names.contains(name)) {
        Some(name) => Err(format!("{name} is called but not declared")),
        None => Ok(()),
    }
}

/// The numbers of three digits that follow this word.
pub fn numbers(text: &str, word: &str) -> Vec<usize> {
    text.split(word).skip(1).filter_map(|rest| rest.get(..3)?.parse().ok()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
