//! The variants of a member, valid and invalid, by its kind: `kinds.json` of the corpus.

use crate::error_format::Fault;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A kind of members, as in the file.
#[derive(Deserialize)]
struct Kind {
    /// Values that count as no value: invalid if the member is required, otherwise valid.
    #[serde(default)]
    absent: Vec<Value>,
    #[serde(default)]
    wrong: Vec<Value>,
    #[serde(default)]
    right: Vec<Value>,
    /// Values that are refused with another fault than invalid parameters.
    #[serde(default)]
    faults: BTreeMap<Fault, Vec<Value>>,
    /// The fault of a request without the member.
    gone: Option<Fault>,
    /// The refusal need not name the member.
    #[serde(default)]
    unnamed: bool,
}

/// One variant of a member.
pub struct Variant {
    /// The value of the member. None: the member is removed.
    pub value: Option<Value>,
    /// The fault with which the request is refused. None: it is accepted.
    pub fault: Option<Fault>,
    /// The error must name the member.
    pub named: bool,
}

/// All variants for a member of this kind. `!` after the kind means that the member is required.
pub fn variants(kind: &str) -> Vec<Variant> {
    let (name, absent) = match kind.strip_suffix('!') {
        Some(name) => (name, Some(Fault::Params)),
        None => (kind, None),
    };
    let kind = find(name);
    let mut variants = vec![Variant { value: None, fault: kind.gone.or(absent), named: !kind.unnamed }];
    let mut add = |fault: Option<Fault>, named: bool, values: Vec<Value>| {
        variants.extend(values.into_iter().map(|value| Variant { value: Some(value), fault, named }));
    };
    add(absent, !kind.unnamed, kind.absent);
    add(Some(Fault::Params), !kind.unnamed, kind.wrong);
    add(None, false, kind.right);
    for (fault, values) in kind.faults {
        add(Some(fault), false, values);
    }
    variants
}

fn find(name: &str) -> Kind {
    let mut text = include_str!("../corpus/requests/kinds.json").to_owned();
    // `{x*129}` stands for a text of 129 characters.
    for n in [129, 2048, 4097] {
        text = text.replace(&format!("{{x*{n}}}"), &"x".repeat(n));
    }
    let mut kinds: BTreeMap<String, Kind> = serde_json::from_str(&text).expect("a table of kinds");
    let kind = kinds.remove(name);
    kind.unwrap_or_else(|| panic!("unknown kind {name}"))
}
