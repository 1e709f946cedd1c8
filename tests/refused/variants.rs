//! In which ways a member can be wrong, and in which it is still right, by its kind: `kinds.json` of the corpus.

use crate::verdict::Fault;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What is known of a kind of members.
#[derive(Deserialize)]
struct Kind {
    /// Values that stand for nothing: wrong where the member must be there, else right.
    #[serde(default)]
    absent: Vec<Value>,
    #[serde(default)]
    wrong: Vec<Value>,
    #[serde(default)]
    right: Vec<Value>,
    /// Values that are wrong in another way than being no such member.
    #[serde(default)]
    faults: BTreeMap<Fault, Vec<Value>>,
    /// What is wrong without the member, wherever it is.
    gone: Option<Fault>,
    /// The refusal need not name the member.
    #[serde(default)]
    unnamed: bool,
}

/// One way for a member to be.
pub struct Way {
    /// What is there instead; None: nothing.
    pub value: Option<Value>,
    pub fault: Option<Fault>,
    /// The refusal has to name the member.
    pub named: bool,
}

/// All ways for a member of this kind. A kind with `!` behind it must be there.
pub fn ways(kind: &str) -> Vec<Way> {
    let (name, absent) = match kind.strip_suffix('!') {
        Some(name) => (name, Some(Fault::Params)),
        None => (kind, None),
    };
    let kind = find(name);
    let mut ways = vec![Way { value: None, fault: kind.gone.or(absent), named: !kind.unnamed }];
    let mut add = |fault: Option<Fault>, named: bool, values: Vec<Value>| {
        ways.extend(values.into_iter().map(|value| Way { value: Some(value), fault, named }));
    };
    add(absent, !kind.unnamed, kind.absent);
    add(Some(Fault::Params), !kind.unnamed, kind.wrong);
    add(None, false, kind.right);
    for (fault, values) in kind.faults {
        add(Some(fault), false, values);
    }
    ways
}

fn find(name: &str) -> Kind {
    let mut text = include_str!("../corpus/requests/kinds.json").to_owned();
    // Some limits are long.
    for n in [129, 2048, 4097] {
        text = text.replace(&format!("{{x*{n}}}"), &"x".repeat(n));
    }
    let mut kinds: BTreeMap<String, Kind> = serde_json::from_str(&text).expect("a table of kinds");
    let kind = kinds.remove(name);
    kind.unwrap_or_else(|| panic!("nobody knows the kind {name}"))
}
