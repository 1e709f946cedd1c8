//! Forms that an MCP server asks people to fill in while one of its calls runs: their fields, and the validation of answers. The values are
//! passed on to the server and never stored.

use crate::base::clock::read_rfc3339;
use crate::base::text::unsafe_char::is_unsafe;
use crate::base::text::words::words;
use crate::limits::{PATTERN_BYTES, PATTERN_CHARS};
use crate::task::spec::{Answers, Inquiry, InquiryKind, InquiryOption, Question};
use regex_lite::RegexBuilder;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// A question that an MCP server asks while one of its calls runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inquired {
    /// The number of the question within the call, counted from 1.
    pub nr: u32,
    /// The question as clients are shown it.
    pub question: Question,
    /// The fields of the form, in the order of the questions. Without fields it is a yes-or-no question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    pub server: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    pub name: String,
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub required: bool,
    /// The value of a field without an answer; null if there is none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub default: Value,
    pub kind: FieldKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    Boolean,
    Choice(Vec<FieldOption>),
    Several { options: Vec<FieldOption>, least: u64, most: u64 },
    Text { least: u64, most: u64, format: String, pattern: String },
    Number { integer: bool, least: Option<f64>, most: Option<f64> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldOption {
    pub label: String,
    pub value: Value,
}

/// The reply to the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Accept(Values),
    Decline,
    Cancel,
}

words! {
    /// The result of a question, without values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ReplyAction {
        Accept = "accept",
        Decline = "decline",
        Cancel = "cancel",
    }
}

impl Reply {
    pub fn action(&self) -> ReplyAction {
        match self {
            Reply::Accept(_) => ReplyAction::Accept,
            Reply::Decline => ReplyAction::Decline,
            Reply::Cancel => ReplyAction::Cancel,
        }
    }

    /// The names of the fields that were answered, which may be logged.
    pub fn fields(&self) -> Vec<String> {
        match self {
            Reply::Accept(values) => values.0.keys().cloned().collect(),
            Reply::Decline | Reply::Cancel => Vec::new(),
        }
    }
}

/// The values of a form. They may be secret, so `Debug` does not print them, and they cannot be serialised.
#[derive(Clone, Default, PartialEq)]
pub struct Values(pub Map<String, Value>);

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Values({:?})", self.0.keys())
    }
}

/// An answer that the form does not allow. The question stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub field: String,
    /// The end of a sentence that begins with the name of the field: "must be …".
    pub why: String,
}

impl Inquired {
    /// The reply for an acceptance with these answers, whose keys are numbers of questions or names of fields.
    pub fn accept(&self, answers: &Answers) -> Result<Reply, Wrong> {
        let is_no = || answers.get("0").is_some_and(|answer| boolean(answer) == Some(false));
        if self.fields.is_empty() && is_no() {
            return Ok(Reply::Decline);
        }
        let mut content = Map::new();
        for (number, field) in self.fields.iter().enumerate() {
            let given = answers.get(&field.name).or_else(|| answers.get(&number.to_string()));
            let wrong = |why: String| Wrong { field: field.name.clone(), why };
            match given.filter(|given| !given.trim().is_empty()) {
                Some(given) => drop(content.insert(field.name.clone(), field.value(given).map_err(wrong)?)),
                None if !field.default.is_null() => drop(content.insert(field.name.clone(), field.default.clone())),
                None if field.required => return Err(wrong("must be answered".into())),
                None => {}
            }
        }
        Ok(Reply::Accept(Values(content)))
    }

    /// Parses a text with answers: one line for each question, with `-` for no answer, or lines that begin with the name of a field and a
    /// colon.
    pub fn typed(&self, text: &str) -> Option<Answers> {
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        let named = |line: &str| {
            let (name, value) = line.split_once(':')?;
            let field = self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name.trim()))?;
            Some((field.name.clone(), value.trim().to_owned()))
        };
        let named: Option<Answers> = lines().map(named).collect();
        let Question::AskUser { questions, .. } = &self.question else { return None };
        named.filter(|answers| !answers.is_empty()).or_else(|| {
            let left_out = |line: &str| if line == "-" { String::new() } else { line.to_owned() };
            let numbered = || lines().enumerate().map(|(n, line)| (n.to_string(), left_out(line))).collect();
            (lines().count() == questions.len()).then(numbered)
        })
    }
}

impl Field {
    /// The question for the field.
    pub fn inquiry(&self) -> Inquiry {
        let (kind, options) = match &self.kind {
            FieldKind::Boolean => (InquiryKind::YesNo, &[][..]),
            FieldKind::Choice(options) | FieldKind::Several { options, .. } => (InquiryKind::Choice, &options[..]),
            FieldKind::Text { .. } | FieldKind::Number { .. } => (InquiryKind::Text, &[][..]),
        };
        let optional = if self.required { "" } else { " (optional)" };
        let question = if self.description.is_empty() { &self.title } else { &self.description };
        Inquiry {
            question: format!("{question}{optional}"),
            header: self.title.clone(),
            kind,
            options: options
                .iter()
                .map(|option| InquiryOption { label: option.label.clone(), description: String::new() })
                .collect(),
            multi_select: matches!(self.kind, FieldKind::Several { .. }),
            placeholder: (!self.default.is_null()).then(|| shown(&self.default)),
        }
    }

    /// The value for an answer. The error is the end of a sentence that begins with the name of the field.
    fn value(&self, given: &str) -> Result<Value, String> {
        match &self.kind {
            FieldKind::Boolean => boolean(given).map(Value::from).ok_or_else(|| "must be yes or no".into()),
            FieldKind::Choice(options) => chosen(options, given),
            FieldKind::Several { options, least, most } => {
                let several = match serde_json::from_str::<Vec<String>>(given) {
                    Ok(several) => several,
                    // One option may have a comma in it.
                    Err(_) if chosen(options, given).is_ok() => vec![given.to_owned()],
                    Err(_) => given.split(',').map(str::to_owned).collect(),
                };
                let values: Vec<Value> = several.iter().map(|one| chosen(options, one)).collect::<Result<_, _>>()?;
                match (*least..=*most).contains(&(values.len() as u64)) {
                    true => Ok(values.into()),
                    false => Err(bounds(*least, *most, "of the options")),
                }
            }
            FieldKind::Text { least, most, format, pattern } => {
                if !(*least..=*most).contains(&(given.chars().count() as u64)) {
                    return Err(bounds(*least, *most, "characters"));
                }
                check_format(format, given)?;
                check_pattern(pattern, given)?;
                Ok(given.into())
            }
            FieldKind::Number { integer, least, most } => {
                let given = given.trim();
                let value = match integer {
                    true => given.parse::<i64>().ok().map(Value::from).ok_or("must be a whole number")?,
                    false => serde_json::from_str(given).ok().filter(Value::is_number).ok_or("must be a number")?,
                };
                match value.as_f64().is_some_and(|number| {
                    least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most)
                }) {
                    true => Ok(value),
                    false => Err(match (least, most) {
                        (Some(least), Some(most)) => format!("must be at least {least} and at most {most}"),
                        (Some(least), None) => format!("must be at least {least}"),
                        (None, most) => format!("must be at most {}", most.unwrap_or(f64::MAX)),
                    }),
                }
            }
        }
    }
}

fn bounds(least: u64, most: u64, what: &str) -> String {
    match most {
        u64::MAX => format!("must have at least {least} {what}"),
        most => format!("must have at least {least} and at most {most} {what}"),
    }
}

/// A value as people write it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn chosen(options: &[FieldOption], given: &str) -> Result<Value, String> {
    let given = given.trim();
    let is_value = |option: &&FieldOption| shown(&option.value) == given;
    let is_label = |option: &&FieldOption| option.label.eq_ignore_ascii_case(given);
    let option = options.iter().find(is_value).or_else(|| options.iter().find(is_label));
    let labels = || options.iter().map(|option| option.label.as_str()).collect::<Vec<_>>().join(", ");
    option.map(|option| option.value.clone()).ok_or_else(|| format!("must be one of: {}", labels()))
}

fn boolean(given: &str) -> Option<bool> {
    match given.trim().to_ascii_lowercase().as_str() {
        "yes" | "y" | "true" | "1" => Some(true),
        "no" | "n" | "false" | "0" => Some(false),
        _ => None,
    }
}

fn check_format(format: &str, given: &str) -> Result<(), String> {
    let is_plain = !given.contains(char::is_whitespace);
    let fits = match format {
        "email" => is_plain && given.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()),
        "uri" => is_plain && given.split_once(':').is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()),
        "date" => read_rfc3339(&format!("{given}T00:00:00Z")).is_some(),
        "date-time" => read_rfc3339(given).is_some(),
        _ => true,
    };
    if fits { Ok(()) } else { Err(format!("must be a valid {format}")) }
}

/// Checks an answer with the pattern of its field. If the pattern cannot be compiled, the server has to check the answer.
fn check_pattern(pattern: &str, given: &str) -> Result<(), String> {
    if pattern.is_empty() || pattern.chars().count() > PATTERN_CHARS {
        return Ok(());
    }
    match RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build() {
        Ok(pattern) if !pattern.is_match(given) => {
            let shown: String = pattern.as_str().chars().filter(|c| !is_unsafe(*c)).take(200).collect();
            Err(format!("must match {shown}"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
