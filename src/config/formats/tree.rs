//! The content of a settings file as a tree with line numbers.
//!
//! JSON and YAML both become this tree, so settings are read by one piece of code, and an invalid value can be reported by file, line
//! and key. A message never contains a value: settings may contain passwords.

use crate::base::variables;
use serde_json::Number;

/// A value and its line; for a member of a map, the line of its key.
#[derive(Clone, PartialEq)]
pub struct Node {
    pub line: usize,
    pub value: Value,
}

#[derive(Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file; of a repeated name the last value is used.
    Map(Vec<(String, Node)>),
}

/// A message about a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub line: usize,
    pub text: String,
}

impl Notice {
    pub fn new(line: usize, text: impl Into<String>) -> Notice {
        Notice { line, text: text.into() }
    }
}

impl Node {
    pub fn new(line: usize, value: Value) -> Node {
        Node { line, value }
    }

    pub fn get(&self, name: &str) -> Option<&Node> {
        let Value::Map(members) = &self.value else {
            return None;
        };
        let member = members.iter().rev().find(|(known, _)| known == name);
        member.map(|(_, node)| node)
    }

    /// The node at a path such as `model.name`. Null counts as absent.
    pub fn at(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, name| node.get(name).filter(|next| next.value != Value::Null))
    }

    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn texts(&self) -> Option<Vec<String>> {
        match &self.value {
            Value::List(items) => items.iter().map(|i| i.text().map(str::to_owned)).collect(),
            _ => None,
        }
    }

    /// The value without line numbers.
    pub fn json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(bool) => (*bool).into(),
            Value::Number(number) => number.clone().into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Node::json).collect(),
            Value::Map(members) => members.iter().map(|(name, node)| (name.clone(), node.json())).collect(),
        }
    }

    /// Replaces variables in all texts.
    pub fn expand(&mut self, env: &dyn Fn(&str) -> Option<String>) {
        match &mut self.value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::Text(text) => *text = expand(text, env),
            Value::List(items) => items.iter_mut().for_each(|item| item.expand(env)),
            Value::Map(members) => members.iter_mut().for_each(|(_, node)| node.expand(env)),
        }
    }
}

/// Replaces `$NAME`, `${NAME}` and `${NAME:-default}`. A variable that is not set stays as it is written.
pub fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> String {
    variables::replace(text, &mut |variable| variable.value(env).unwrap_or_else(|| variable.written.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_unknown_ones_stay() {
        let env = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "_b2" => Some("$A".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, expected) in [
            ("$A", "1"),
            ("x$A-${A}y", "x1-1y"),
            ("$A$A", "11"),
            ("$_b2", "$A"),
            ("${A:-2}", "1"),
            ("${NONE:-2}", "2"),
            ("${NONE:-}", ""),
            ("${EMPTY:-2}", "2"),
            ("${EMPTY}.", "."),
            ("$NONE ${NONE}", "$NONE ${NONE}"),
            ("^ls$", "^ls$"),
            ("$5 ${5} ${ ${", "$5 ${5} ${ ${"),
            ("${A", "${A"),
            ("ä$Aö", "ä1ö"),
            ("$$A", "$1"),
        ] {
            assert_eq!(expand(text, &env), expected, "{text}");
        }
    }

    #[test]
    fn a_path_is_followed_through_maps_only() {
        let text = |line, text: &str| Node::new(line, Value::Text(text.into()));
        let inner = Value::Map(vec![("b".into(), text(2, "x")), ("b".into(), text(3, "y"))]);
        let members = vec![("a".into(), Node::new(1, inner)), ("n".into(), Node::new(4, Value::Null))];
        let root = Node::new(1, Value::Map(members));
        let found = |path| root.at(path).and_then(Node::text);
        assert_eq!(found("a.b"), Some("y"));
        for absent in ["a.c", "n", "n.x", "a.b.c"] {
            assert_eq!(found(absent), None, "{absent}");
        }
        assert_eq!(root.json(), serde_json::json!({"a": {"b": "y"}, "n": null}));
    }
}
