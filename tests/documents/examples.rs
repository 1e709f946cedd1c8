//! One of the documents, as the rows of its examples. A row is an example as it is written there or, where the document has only
//! a schema or a sentence, one that follows from it; who sends it; which of its members have a value that exists only at
//! run time (an id, a path, a time, what a model says); and, where the documents contradict each other, the number of
//! that clash in our register, or of the rule that settles it, with what we do instead.
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
    pub clash: Option<String>,
    pub instead: Option<String>,
    /// What is there instead of the example's values, by JSON pointer.
    #[serde(default)]
    pub values: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Client,
    Server,
}

/// What the document has in this place.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// JSON, taken over to the letter.
    Example,
    /// A schema or a sentence, of which the row is an instance.
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

    /// What a client sends, with what only run time knows.
    pub fn sent(&self, at: &str, run_time: &[(&str, Value)]) -> Value {
        let row = self.row(at, Side::Client);
        let given: Vec<&str> = run_time.iter().map(|(pointer, _)| *pointer).collect();
        assert_eq!(row.run_time, given, "{}: {at}", self.name);
        let mut example = row.example.clone();
        for (pointer, value) in run_time {
            *place(&mut example, pointer, at) = value.clone();
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

    /// Fails unless the example is among these, with its event's name if it shows one; says where.
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
            *place(&mut example, pointer, &self.at) = value.clone();
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

fn place<'a>(example: &'a mut Value, pointer: &str, at: &str) -> &'a mut Value {
    let place = example.pointer_mut(pointer);
    place.unwrap_or_else(|| panic!("{at} has no {pointer}"))
}
