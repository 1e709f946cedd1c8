//! The examples of one document as rows. A row has an example copied from the document or, where the document has only a schema or a
//! sentence, one that follows from it; who sends it; which members get their value at run time (an id, a path, a time, the text of a
//! model); and, where the documents contradict each other, the number of the contradiction or of the rule that decides, with what the
//! server does instead.
//!
//! A client's example is sent with those members filled in and no others. A server's example fits what was received if each of
//! its members is there: with the same value, or at run time with a value of the same type. More members may be there.
//! Elements of an array are looked for in their order; there may be others between them. Every row has to be used.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::cell::RefCell;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub at: String,
    pub from: Side,
    pub of: Origin,
    /// The name of the server-sent event, where the document shows it.
    pub event: Option<String>,
    pub example: Value,
    /// JSON pointers.
    pub run_time: Vec<String>,
    pub contradiction: Option<String>,
    pub instead: Option<String>,
    /// The values that the server sends instead of the example's, by JSON pointer.
    #[serde(default)]
    pub values: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Client,
    Server,
}

/// Whether the document has the example or only implies it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// JSON, copied literally.
    Example,
    /// A schema or a sentence from which the row follows.
    Schema,
}

pub struct Examples {
    name: &'static str,
    pub rows: Vec<Row>,
    used: RefCell<Vec<String>>,
}

impl Examples {
    pub fn open(name: &'static str, text: &str) -> Examples {
        let rows = serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        Examples { name, rows, used: RefCell::default() }
    }

    /// The example that a client sends, with its run-time values.
    pub fn sent(&self, at: &str, run_time: &[(&str, Value)]) -> Value {
        let row = self.row(at, Side::Client);
        let given: Vec<&str> = run_time.iter().map(|(pointer, _)| *pointer).collect();
        assert_eq!(row.run_time, given, "{}: {at}", self.name);
        let mut example = row.example.clone();
        for (pointer, value) in run_time {
            *value_at(&mut example, pointer, at) = value.clone();
        }
        example
    }

    /// Fails unless this is what the example shows.
    pub fn received(&self, at: &str, actual: &Value) {
        let row = self.row(at, Side::Server);
        if let Err(why) = row.fits(actual) {
            panic!("{}: {at}: {why}\nin {actual:#}", self.name);
        }
    }

    /// Fails unless the example is among these values, with its event name if it has one. Returns the position.
    pub fn among<'a>(&self, at: &str, all: impl IntoIterator<Item = (Option<&'a str>, &'a Value)>) -> usize {
        let row = self.row(at, Side::Server);
        let all: Vec<(Option<&str>, &Value)> = all.into_iter().collect();
        let named = |name: Option<&str>| row.event.is_none() || row.event.as_deref() == name;
        all.iter()
            .position(|(name, value)| named(*name) && row.fits(value).is_ok())
            .unwrap_or_else(|| panic!("{}: {at}: not among {all:#?}", self.name))
    }

    /// Fails if an example was not used.
    pub fn close(self) {
        let used = self.used.into_inner();
        let unused = self.rows.iter().filter(|row| !used.contains(&row.at));
        let unused: Vec<&str> = unused.map(|row| row.at.as_str()).collect();
        assert!(unused.is_empty(), "{}: unused: {unused:?}", self.name);
    }

    fn row(&self, at: &str, from: Side) -> &Row {
        let row = self.rows.iter().find(|row| row.at == at);
        let row = row.unwrap_or_else(|| panic!("{} has no {at}", self.name));
        assert_eq!(row.from, from, "{}: {at}", self.name);
        self.used.borrow_mut().push(at.to_owned());
        row
    }
}

impl Row {
    fn fits(&self, actual: &Value) -> Result<(), String> {
        let mut example = self.example.clone();
        for (pointer, value) in &self.values {
            *value_at(&mut example, pointer, &self.at) = value.clone();
        }
        self.compare("", &example, actual)
    }

    fn compare(&self, at: &str, example: &Value, actual: &Value) -> Result<(), String> {
        if self.run_time.iter().any(|pointer| pointer == at) {
            let alike = std::mem::discriminant(example) == std::mem::discriminant(actual);
            let empty = actual.as_str() == Some("");
            return match alike && !empty {
                true => Ok(()),
                false => Err(format!("{at} is {actual}")),
            };
        }
        match (example, actual) {
            (Value::Object(members), Value::Object(found)) => members.iter().try_for_each(|(name, member)| {
                let at = format!("{at}/{name}");
                let found = found.get(name).ok_or_else(|| format!("{at} is missing"))?;
                self.compare(&at, member, found)
            }),
            (Value::Array(elements), Value::Array(found)) => {
                let mut rest = found.iter();
                elements.iter().enumerate().try_for_each(|(n, element)| {
                    let at = format!("{at}/{n}");
                    rest.find(|one| self.compare(&at, element, one).is_ok())
                        .map(|_| ())
                        .ok_or_else(|| format!("nothing fits {at}"))
                })
            }
            _ if example == actual => Ok(()),
            _ => Err(format!("{at} is {actual}")),
        }
    }
}

fn value_at<'a>(example: &'a mut Value, pointer: &str, at: &str) -> &'a mut Value {
    let value = example.pointer_mut(pointer);
    value.unwrap_or_else(|| panic!("{at} has no {pointer}"))
}
