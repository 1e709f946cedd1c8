//! The corpus: good requests of every dialect, and what is wrong with what is made of them. `tests/corpus/requests` holds the
//! good ones, with a word for the kind of each member, and the special cases; from a word follows in which ways its member can
//! be wrong, and what is still right.

use crate::verdict::{Family, Fault};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One dialect's file.
#[derive(Deserialize)]
pub struct Dialect {
    pub family: Family,
    pub bases: Vec<Base>,
    #[serde(default)]
    pub refused: Vec<Special>,
    #[serde(default)]
    pub accepted: Vec<Special>,
}

/// A request that is accepted as it stands.
#[derive(Clone, Deserialize)]
pub struct Base {
    pub name: String,
    /// Method and target; nothing for messages on sockets.
    #[serde(default)]
    pub send: String,
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    #[serde(default)]
    pub headers: Vec<String>,
    pub body: Option<Value>,
    /// The task it is about, for `{task}` in it, and whose context `{context}` is.
    #[serde(default)]
    pub task: String,
    #[serde(default)]
    pub does: Does,
    /// Where its members are, `?` in front for those of the query, and of what kind each is.
    #[serde(default)]
    pub members: BTreeMap<String, String>,
    /// Errors come as an event when the method is known.
    #[serde(default)]
    pub framed: bool,
}

/// What it does to its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Does {
    #[default]
    Nothing,
    Says,
    Reads,
    Cancels,
    Watches,
}

/// A request that no rule makes.
#[derive(Clone, Deserialize)]
pub struct Special {
    pub name: String,
    #[serde(default)]
    pub send: String,
    #[serde(default)]
    pub headers: Vec<String>,
    pub body: Option<Value>,
    /// Instead of a body: text that need not be JSON.
    pub raw: Option<String>,
    pub fault: Option<Fault>,
    /// When it is another's than the file's.
    pub family: Option<Family>,
    #[serde(default)]
    pub id: Value,
}

/// A request that was made, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Made {
    pub name: String,
    pub send: String,
    pub headers: Vec<String>,
    pub body: Option<Vec<u8>>,
    pub expected: Expected,
}

#[derive(Clone, Debug)]
pub enum Expected {
    Success,
    Refusal {
        family: Family,
        fault: Fault,
        id: Value,
        /// The member that must be named.
        member: Option<String>,
        framed: bool,
    },
}

pub fn read(text: &str) -> Dialect {
    serde_json::from_str(text).expect("a dialect's file")
}

impl Dialect {
    /// Everything that is made of its bases, and its special cases.
    pub fn made(&self, over: Carrier) -> Vec<Made> {
        let mut made = Vec::new();
        for base in &self.bases {
            let maker = Maker {
                family: self.family,
                base,
                over,
            };
            maker.members(&mut made);
            maker.states(&mut made);
            maker.bodies(&mut made);
            maker.envelopes(&mut made);
            maker.heads(&mut made);
        }
        // Special cases over HTTP are about HTTP.
        let specials = self.refused.iter().chain(&self.accepted);
        if over == Carrier::Http || self.bases.iter().all(|base| base.send.is_empty()) {
            made.extend(specials.map(|special| self.special(special)));
        }
        made
    }

    fn special(&self, special: &Special) -> Made {
        let raw = special.raw.clone();
        let body = raw.or_else(|| special.body.as_ref().map(Value::to_string));
        Made {
            name: special.name.clone(),
            send: special.send.clone(),
            headers: special.headers.clone(),
            body: body.map(String::into_bytes),
            expected: match special.fault {
                None => Expected::Success,
                Some(fault) => Expected::Refusal {
                    family: special.family.unwrap_or(self.family),
                    fault,
                    id: special.id.clone(),
                    member: None,
                    framed: false,
                },
            },
        }
    }
}

/// What requests come over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Http,
    Socket,
}

/// Makes requests of one base.
struct Maker<'a> {
    family: Family,
    base: &'a Base,
    over: Carrier,
}

impl Maker<'_> {
    fn made(&self, what: &str, base: &Base, expected: Expected) -> Made {
        let mut send = base.send.clone();
        for (i, (name, value)) in base.query.iter().enumerate() {
            send += if i == 0 { "?" } else { "&" };
            send += &format!("{name}={value}");
        }
        let about = |text: String| {
            let text = text.replace("{task}", &base.task);
            text.replace("{context}", &format!("{}_context", base.task))
        };
        let body = base.body.as_ref().map(|body| about(body.to_string()));
        Made {
            name: format!("{}: {what}", base.name),
            send: about(send),
            headers: base.headers.clone(),
            body: body.map(String::into_bytes),
            expected,
        }
    }

    fn refusal(&self, fault: Fault) -> Expected {
        let id = self.base.body.as_ref().map(|body| body["id"].clone());
        let id = match self.family {
            Family::Rpc03 | Family::Rpc10 | Family::Own => id.unwrap_or_default(),
            Family::Rest03 | Family::Rest10 | Family::Gemini => Value::Null,
        };
        Expected::Refusal {
            family: self.family,
            fault,
            id,
            member: None,
            framed: self.base.framed && self.over == Carrier::Http,
        }
    }

    /// Refused before anything of the request was understood.
    fn early(&self, family: Family, fault: Fault) -> Expected {
        Expected::Refusal {
            family,
            fault,
            id: Value::Null,
            member: None,
            framed: false,
        }
    }

    /// Each member in every way that its kind can be wrong or is still right.
    fn members(&self, made: &mut Vec<Made>) {
        made.push(self.made("as it is", self.base, Expected::Success));
        for (path, kind) in &self.base.members {
            for way in ways(kind) {
                let mut base = self.base.clone();
                match path.strip_prefix('?') {
                    Some(name) => match &way.value {
                        None => drop(base.query.remove(name)),
                        Some(value) => {
                            let text = value.as_str().expect("a query is text");
                            base.query.insert(name.to_owned(), text.to_owned());
                        }
                    },
                    None => edit(base.body.as_mut().expect("a body"), path, &way.value),
                }
                let shown = way.value.as_ref().map_or("gone".into(), Value::to_string);
                let shown: String = shown.chars().take(60).collect();
                let expected = match way.fault {
                    None => Expected::Success,
                    Some(fault) => {
                        let mut refusal = self.refusal(fault);
                        if let Expected::Refusal { member, .. } = &mut refusal {
                            let name = path.rsplit(['.', '?']).next().unwrap_or(path);
                            *member = way.named.then(|| name.to_owned());
                        }
                        refusal
                    }
                };
                made.push(self.made(&format!("{path} {shown}"), &base, expected));
            }
        }
    }

    /// Other tasks: nobody's, somebody else's, ones that are over; and a context of another.
    fn states(&self, made: &mut Vec<Made>) {
        if self.base.task.is_empty() {
            return;
        }
        let new = matches!(self.family, Family::Rpc10 | Family::Rest10);
        let late = |task: &str| match (self.base.does, task) {
            (Does::Says, _) => Some(Fault::Over),
            (Does::Cancels, "$canceled") if new => None,
            (Does::Cancels, _) => Some(Fault::NotCancelable),
            (Does::Watches, _) if new => Some(Fault::Unsupported),
            (Does::Watches | Does::Reads | Does::Nothing, _) => None,
        };
        for (task, fault) in [
            ("t-nobody", Some(Fault::NoTask)),
            ("$foreign", Some(Fault::NoTask)),
            ("%24idle", Some(Fault::NoTask)),
            ("$canceled", late("$canceled")),
            ("$completed", late("$completed")),
        ] {
            let base = Base {
                task: task.into(),
                ..self.base.clone()
            };
            let expected = fault.map_or(Expected::Success, |fault| self.refusal(fault));
            made.push(self.made(&format!("the task {task}"), &base, expected));
        }
        let Some(body) = &self.base.body else {
            return;
        };
        let text = body.to_string();
        if text.contains("{context}") {
            let text = text.replace("{context}", "$other_context");
            let base = Base {
                body: Some(serde_json::from_str(&text).expect("JSON")),
                ..self.base.clone()
            };
            // There the task decides, because clients make contexts up.
            let tolerated = self.family == Family::Rest03;
            let expected = match tolerated {
                true => Expected::Success,
                false => self.refusal(Fault::Params),
            };
            made.push(self.made("the context of another", &base, expected));
        }
    }

    /// Bodies that are no request, whatever they were meant to be.
    fn bodies(&self, made: &mut Vec<Made>) {
        let Some(body) = &self.base.body else {
            return;
        };
        let text = body.to_string();
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let parse = |what: &str, body: Vec<u8>| Made {
            body: Some(body),
            ..self.made(what, self.base, self.early(self.family(), Fault::Parse))
        };
        made.push(parse("cut off", text.as_bytes()[..text.len() - 1].to_vec()));
        made.push(parse("twice", format!("{text} {text}").into_bytes()));
        made.push(parse("no JSON", b"go on".to_vec()));
        made.push(parse("nested deeply", deep.into_bytes()));
        made.push(parse("half a character", br#"{"x":"\ud800"}"#.to_vec()));
        made.push(parse("a number without end", br#"{"x":1e999}"#.to_vec()));
        if self.over == Carrier::Http {
            made.push(parse("no UTF-8", b"{\"x\":\"\xff\xfe\"}".to_vec()));
        }
        let fault = match self.family {
            Family::Rpc03 | Family::Rpc10 | Family::Own => Fault::Invalid,
            Family::Rest03 | Family::Rest10 | Family::Gemini => Fault::Params,
        };
        for wrong in [json!([body]), json!(7), json!([])] {
            let base = Base {
                body: Some(wrong.clone()),
                ..self.base.clone()
            };
            let shown: String = wrong.to_string().chars().take(20).collect();
            let expected = self.early(self.family(), fault);
            made.push(self.made(&format!("{shown} for a body"), &base, expected));
        }
        let mut base = self.base.clone();
        let surprise = json!({"deep": [{"x": 1}, null, "\u{0}"]});
        edit(
            base.body.as_mut().expect("a body"),
            "surprise",
            &Some(surprise),
        );
        made.push(self.made("a member that nobody knows", &base, Expected::Success));
    }

    /// What JSON-RPC and our own dialect have around a request.
    fn envelopes(&self, made: &mut Vec<Made>) {
        let ways: Vec<(&str, Option<Value>, Option<Fault>, bool)> = match self.family {
            Family::Rpc03 | Family::Rpc10 => {
                let stands_alone = !self.base.members.contains_key("params");
                let without = (!stands_alone).then_some(Fault::Params);
                vec![
                    ("jsonrpc", None, Some(Fault::Invalid), true),
                    ("jsonrpc", Some(json!("1.0")), Some(Fault::Invalid), true),
                    ("jsonrpc", Some(json!(2.0)), Some(Fault::Invalid), true),
                    ("jsonrpc", Some(json!(null)), Some(Fault::Invalid), true),
                    ("method", None, Some(Fault::Invalid), true),
                    ("method", Some(json!(null)), Some(Fault::Invalid), true),
                    ("method", Some(json!(7)), Some(Fault::Invalid), true),
                    ("method", Some(json!([])), Some(Fault::Invalid), true),
                    ("method", Some(json!("")), Some(Fault::Method), true),
                    (
                        "method",
                        Some(json!("tasks/list")),
                        Some(Fault::Method),
                        true,
                    ),
                    (
                        "method",
                        Some(json!("Tasks/Get")),
                        Some(Fault::Method),
                        true,
                    ),
                    (
                        "method",
                        Some(json!("get\u{0}task")),
                        Some(Fault::Method),
                        true,
                    ),
                    ("id", Some(json!(1.5)), Some(Fault::Invalid), false),
                    ("id", Some(json!(true)), Some(Fault::Invalid), false),
                    ("id", Some(json!([1])), Some(Fault::Invalid), false),
                    ("id", Some(json!({})), Some(Fault::Invalid), false),
                    ("params", Some(json!({"": 1})), Some(Fault::Params), true),
                    ("params", Some(json!([])), Some(Fault::Params), true),
                    ("params", Some(json!("x")), Some(Fault::Params), true),
                    ("params", Some(json!(7)), Some(Fault::Params), true),
                    ("params", Some(json!(null)), without, true),
                    ("params", None, without, true),
                ]
            }
            Family::Own => vec![
                ("id", Some(json!([])), Some(Fault::Invalid), false),
                ("id", Some(json!(true)), Some(Fault::Invalid), false),
                ("id", Some(json!({})), Some(Fault::Invalid), false),
                ("call", None, Some(Fault::Invalid), true),
                ("call", Some(json!(null)), Some(Fault::Params), true),
                ("call", Some(json!(7)), Some(Fault::Params), true),
                ("call", Some(json!([])), Some(Fault::Params), true),
                ("call", Some(json!({})), Some(Fault::Params), true),
                ("call", Some(json!("dance")), Some(Fault::Params), true),
                (
                    "call",
                    Some(json!({"dance": {}})),
                    Some(Fault::Params),
                    true,
                ),
                (
                    "call",
                    Some(json!({"session": {}, "get": {}})),
                    Some(Fault::Params),
                    true,
                ),
                ("call", Some(json!({"get": []})), Some(Fault::Params), true),
            ],
            Family::Rest03 | Family::Rest10 | Family::Gemini => return,
        };
        for (member, value, fault, echoed) in ways {
            let mut base = self.base.clone();
            edit(base.body.as_mut().expect("a body"), member, &value);
            let expected = match fault {
                None => Expected::Success,
                Some(fault) => {
                    let id = match echoed {
                        true => self.base.body.as_ref().map(|body| body["id"].clone()),
                        false => None,
                    };
                    Expected::Refusal {
                        // Without a version in the head, the method says which it is.
                        family: match (fault, member) {
                            (Fault::Invalid | Fault::Method, _) => self.family(),
                            _ => self.family,
                        },
                        fault,
                        id: id.unwrap_or_default(),
                        member: None,
                        framed: member == "params"
                            && self.base.framed
                            && self.over == Carrier::Http,
                    }
                }
            };
            let shown = value.map_or("gone".into(), |value| value.to_string());
            made.push(self.made(&format!("{member} {shown}"), &base, expected));
        }
    }

    /// The family that a request is answered in before its method is known.
    fn family(&self) -> Family {
        match (self.family, self.over) {
            (Family::Rpc10, Carrier::Http) => Family::Rpc03,
            (family, _) => family,
        }
    }

    /// What can be wrong before the body: method, type, version.
    fn heads(&self, made: &mut Vec<Made>) {
        if self.over == Carrier::Socket {
            return;
        }
        let (_, target) = self.base.send.split_once(' ').expect("a method");
        for method in ["PUT", "PATCH", "OPTIONS"] {
            let base = Base {
                send: format!("{method} {target}"),
                ..self.base.clone()
            };
            let family = self.family();
            // Two paths were the task server's first.
            let gemini = family == Family::Rest10 && matches!(target, "/tasks" | "/tasks/{task}");
            let family = if gemini { Family::Gemini } else { family };
            let expected = self.early(family, Fault::NotAllowed);
            made.push(self.made(method, &base, expected));
        }
        let with = |header: &str| {
            let mut base = self.base.clone();
            let (name, _) = header.split_once(':').expect("a header");
            base.headers.retain(|known| !known.starts_with(name));
            base.headers.push(header.into());
            base
        };
        if self.base.body.is_some() {
            for media in [
                "text/plain",
                "application/x-www-form-urlencoded",
                "nonsense",
            ] {
                let base = with(&format!("Content-Type: {media}"));
                let mut expected = self.refusal(Fault::ContentType);
                if let Expected::Refusal { framed, family, .. } = &mut expected {
                    (*framed, *family) = (false, self.family());
                }
                made.push(self.made(media, &base, expected));
            }
        }
        for version in ["9.9", "0.2", "1.1", "zero"] {
            let mut expected = self.refusal(Fault::Version);
            if let Expected::Refusal { family, framed, .. } = &mut expected {
                *framed = false;
                *family = match self.family {
                    Family::Rpc03 | Family::Rpc10 => Family::Rpc10,
                    Family::Rest03 | Family::Rest10 => Family::Rest10,
                    Family::Gemini | Family::Own => return,
                };
            }
            let base = with(&format!("A2A-Version: {version}"));
            made.push(self.made(&format!("version {version}"), &base, expected));
        }
        let both = self.base.name.starts_with("command");
        let (version, family) = match self.family {
            Family::Rpc03 if !both => ("1.0", Family::Rpc10),
            Family::Rpc10 if !both => ("0.3", Family::Rpc03),
            _ => return,
        };
        let base = with(&format!("A2A-Version: {version}"));
        let mut expected = self.refusal(Fault::Method);
        if let Expected::Refusal {
            family: of, framed, ..
        } = &mut expected
        {
            *of = family;
            let streams = base
                .headers
                .iter()
                .any(|header| header.contains("event-stream"));
            *framed = streams && family == Family::Rpc03;
        }
        made.push(self.made("the other version", &base, expected));
    }
}

/// One way for a member to be: what is there instead, what is wrong with it, and whether the refusal has to name the member.
struct Way {
    value: Option<Value>,
    fault: Option<Fault>,
    named: bool,
}

/// In which ways a member of this kind can be wrong, and is right. A kind with `!` behind it must be there.
fn ways(kind: &str) -> Vec<Way> {
    let (kind, required) = match kind.strip_suffix('!') {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let mut ways = Vec::new();
    let mut add = |fault: Option<Fault>, named: bool, values: &[Value]| {
        ways.extend(values.iter().map(|value| Way {
            value: Some(value.clone()),
            fault,
            named,
        }));
    };
    let long = "x".repeat(129);
    let huge = "x".repeat(4097);
    let unprintable = json!("a\nb");
    let params = Some(Fault::Params);
    let absent = required.then_some(Fault::Params);
    let wrong_text = [json!(7), json!(true), json!([]), json!({}), json!(["x"])];
    match kind {
        "text" => {
            add(absent, true, &[json!(""), json!(null)]);
            add(params, true, &wrong_text);
        }
        "name" => {
            add(absent, true, &[json!(""), json!(null)]);
            add(params, true, &wrong_text);
            add(params, true, &[json!(long), unprintable, json!("a\u{0}")]);
        }
        "object" => {
            add(absent, true, &[json!(null)]);
            add(
                params,
                true,
                &[json!("x"), json!(7), json!(true), json!([]), json!([{}])],
            );
        }
        "texts" => {
            add(absent, true, &[json!(null)]);
            let wrong = [
                json!("x"),
                json!(7),
                json!({}),
                json!([7]),
                json!([null]),
                json!(["a", []]),
            ];
            add(params, true, &wrong);
            add(None, true, &[json!([])]);
        }
        "count" | "size" => {
            add(absent, true, &[json!(null)]);
            let wrong = [
                json!(-1),
                json!(1.5),
                json!("3"),
                json!(true),
                json!([]),
                json!({}),
            ];
            add(params, true, &wrong);
            add(
                params,
                true,
                &[json!(1e20), json!(-9_223_372_036_854_775_808_i64)],
            );
            if kind == "size" {
                add(params, true, &[json!(0), json!(101), json!(u64::MAX)]);
                add(None, true, &[json!(1), json!(100)]);
            } else {
                add(None, true, &[json!(0), json!(u64::MAX)]);
            }
        }
        "flag" => {
            add(absent, true, &[json!(null)]);
            let wrong = [
                json!("true"),
                json!(1),
                json!(0),
                json!([]),
                json!({}),
                json!(""),
            ];
            add(params, true, &wrong);
            add(None, true, &[json!(true), json!(false)]);
        }
        "role" => {
            let wrong = [
                json!(null),
                json!(""),
                json!("robot"),
                json!(7),
                json!(true),
                json!([]),
                json!({}),
            ];
            add(params, true, &wrong);
            add(None, true, &[json!("user"), json!("ROLE_USER"), json!(1)]);
        }
        "parts" => parts(&mut add),
        "state" => {
            add(
                params,
                true,
                &[
                    json!("nonsense"),
                    json!(99),
                    json!(true),
                    json!([]),
                    json!({}),
                ],
            );
            add(
                None,
                true,
                &[
                    json!(null),
                    json!(""),
                    json!("TASK_STATE_UNSPECIFIED"),
                    json!("working"),
                    json!(2),
                ],
            );
        }
        "time" => {
            add(
                params,
                true,
                &[
                    json!("yesterday"),
                    json!(7),
                    json!("2026-13-01T00:00:00Z"),
                    json!([]),
                ],
            );
            add(None, true, &[json!(null), json!("")]);
        }
        "token" => {
            let wrong = [
                json!("zzz"),
                json!("$other_token"),
                json!(7),
                json!([]),
                json!("\u{0}"),
            ];
            add(params, true, &wrong);
            add(None, true, &[json!(null), json!("")]);
        }
        "no-token" => add(params, true, &[json!("zzz"), json!("$token"), json!(7)]),
        "tenant" => {
            add(
                params,
                true,
                &[json!(7), json!([]), json!(true), json!(long), unprintable],
            );
            add(None, true, &[json!(null), json!("")]);
        }
        "url" => urls(&mut add),
        "word" => {
            add(
                params,
                true,
                &[
                    json!(7),
                    json!([]),
                    json!("a b"),
                    json!("a/b"),
                    json!("ü"),
                    json!(huge),
                ],
            );
            add(None, true, &[json!(null), json!("")]);
        }
        "header" => {
            let wrong = [
                json!(7),
                json!([]),
                json!("a\r\nX-Evil: 1"),
                json!("ü"),
                json!("\u{0}"),
                json!(huge),
            ];
            add(params, true, &wrong);
            add(None, true, &[json!(null), json!("")]);
        }
        "said" => {
            let wrong = [
                json!(null),
                json!(""),
                json!(7),
                json!(true),
                json!([]),
                json!({}),
                json!([7]),
            ];
            add(params, false, &wrong);
        }
        "command" => {
            let wrong = [json!(null), json!(7), json!([]), json!({}), json!(true)];
            add(params, true, &wrong);
            add(
                Some(Fault::NoPath),
                false,
                &[json!("nonsense"), json!(""), json!("\u{0}")],
            );
        }
        "args" => {
            add(
                params,
                true,
                &[json!("x"), json!(7), json!(true), json!({})],
            );
            add(
                None,
                true,
                &[
                    json!(null),
                    json!(""),
                    json!(0),
                    json!(false),
                    json!([1, null]),
                ],
            );
        }
        // Our own dialect is read as it is written: an empty text is a text.
        "strict" => {
            add(absent, false, &[json!(null)]);
            add(params, false, &wrong_text);
        }
        "strict-object" => {
            add(absent, false, &[json!(null)]);
            add(params, false, &[json!("x"), json!(7), json!(true)]);
        }
        "strict-struct" => {
            let wrong = [json!(null), json!("x"), json!(7), json!(true), json!([])];
            add(params, false, &wrong);
        }
        "strict-count" => {
            let wrong = [
                json!(-1),
                json!(1.5),
                json!("3"),
                json!(true),
                json!([]),
                json!(1e20),
            ];
            add(params, false, &wrong);
        }
        "strict-flag" => add(params, false, &[json!("true"), json!(1), json!([])]),
        "?count" | "?size" => {
            add(
                params,
                true,
                &[
                    json!("-1"),
                    json!("1.5"),
                    json!("x"),
                    json!("99999999999999999999"),
                ],
            );
            if kind == "?size" {
                add(params, true, &[json!("0"), json!("101")]);
                add(None, true, &[json!(""), json!("1"), json!("100")]);
            } else {
                add(None, true, &[json!(""), json!("0")]);
            }
        }
        "?flag" => {
            add(params, true, &[json!("yes"), json!("1")]);
            add(None, true, &[json!(""), json!("true"), json!("false")]);
        }
        "?state" => {
            add(
                params,
                true,
                &[json!("nonsense"), json!("TASK_STATE_TIRED")],
            );
            add(
                None,
                true,
                &[json!(""), json!("working"), json!("TASK_STATE_WORKING")],
            );
        }
        "?time" => {
            add(params, true, &[json!("yesterday"), json!("7")]);
            add(None, true, &[json!("")]);
        }
        "?token" => {
            add(
                params,
                true,
                &[json!("zzz"), json!("$other_token"), json!("%20")],
            );
            add(None, true, &[json!("")]);
        }
        "?no-token" => add(params, true, &[json!("zzz"), json!("$token")]),
        "?name" => {
            add(params, true, &[json!(long)]);
            add(None, true, &[json!("")]);
        }
        "?after" => {
            add(
                params,
                false,
                &[
                    json!("-1"),
                    json!("x"),
                    json!("1.5"),
                    json!("99999999999999999999"),
                ],
            );
        }
        "?profile" => add(params, true, &[json!("nonsense"), json!("")]),
        other => panic!("nobody knows the kind {other}"),
    }
    let gone = match kind {
        "parts" | "role" | "url" | "said" | "command" => Some(Fault::Params),
        _ => absent,
    };
    let named = !kind.starts_with("strict") && kind != "said";
    ways.push(Way {
        value: None,
        fault: gone,
        named,
    });
    ways
}

fn parts(add: &mut impl FnMut(Option<Fault>, bool, &[Value])) {
    let params = Some(Fault::Params);
    let wrong = [
        json!(null),
        json!([]),
        json!("x"),
        json!(7),
        json!(true),
        json!([7]),
        json!(["x"]),
        json!([null]),
        json!([[]]),
    ];
    add(params, true, &wrong);
    for part in [
        json!({}),
        json!({"text": 7}),
        json!({"text": null}),
        json!({"text": "a", "url": "https://x.test/"}),
        json!({"text": "a", "data": {}}),
        json!({"raw": "AA==", "url": "https://x.test/"}),
        json!({"raw": "***"}),
        json!({"raw": 7}),
        json!({"url": ["https://x.test/"]}),
        json!({"kind": "text"}),
        json!({"kind": "file"}),
        json!({"kind": "file", "file": {}}),
        json!({"kind": "file", "file": "a.png"}),
        json!({"kind": "file", "file": {"bytes": "A"}}),
        json!({"kind": "file", "file": {"bytes": "AA==", "uri": "https://x.test/"}}),
        json!({"kind": "file", "file": {"uri": 7}}),
        json!({"kind": "data"}),
        json!({"kind": "video"}),
        json!({"text": "a", "metadata": 7}),
        json!({"text": "a", "mediaType": 7}),
        json!({"url": "https://x.test/", "filename": []}),
    ] {
        add(
            params,
            true,
            &[json!([part]), json!([{"text": "before"}, part])],
        );
    }
    let media = |media: &str| json!([{"text": "a", "mediaType": media}]);
    let unfit = [
        media("application/zip"),
        media("font/woff"),
        media("nonsense"),
    ];
    add(Some(Fault::ContentType), false, &unfit);
    let right = [
        json!([{"text": "a", "surprise": 1}]),
        json!([{"text": "a", "metadata": null}]),
        json!([{"text": "\u{0}"}]),
        json!([{"type": "text", "text": "a"}]),
        json!([{"kind": "text", "text": "a", "data": {}}]),
        json!([{"kind": "file", "file": {"bytes": "AA==", "mimeType": "image/png", "name": "a"}}]),
        json!([{"file": {"fileWithUri": "https://x.test/", "mime_type": "image/png"}}]),
        json!([{"raw": "-_8", "mediaType": "image/png"}]),
        json!([{"url": "https://x.test/", "filename": "a"}]),
        json!([{"data": {"x": [1]}}]),
        media("text/x-rust"),
        media("application/problem+json"),
    ];
    add(None, true, &right);
}

fn urls(add: &mut impl FnMut(Option<Fault>, bool, &[Value])) {
    let params = Some(Fault::Params);
    add(
        params,
        true,
        &[json!(null), json!(""), json!(7), json!([]), json!({})],
    );
    for url in [
        "nonsense",
        "ftp://client.example/",
        "http://client.example/",
        "https://",
        "https:///a2a",
        "//client.example/",
        "https://user@client.example/",
        "https://client.example/#here",
        "https://client.example:22/",
        "https://client.example:80/",
        "https://client.example:port/",
        "https://client.example:99999/",
        "https://client.example/\r\nX: 1",
        "https://clïent.example/",
        "https://localhost/",
        "https://a.localhost/",
        "https://db.internal/",
        "https://printer.local/",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f.0.0.1/",
        "https://0177.0.0.1/",
        "https://0.0.0.0/",
        "https://10.0.0.1/",
        "https://172.16.0.1/",
        "https://192.168.0.1/",
        "https://100.64.0.1/",
        "https://169.254.169.254/",
        "https://198.18.0.1/",
        "https://192.0.2.1/",
        "https://224.0.0.1/",
        "https://255.255.255.255/",
        "https://[::1]/",
        "https://[::]/",
        "https://[fe80::1]/",
        "https://[fc00::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/",
        "https://[nonsense]/",
    ] {
        add(params, true, &[json!(url)]);
    }
    let long = format!("https://client.example/{}", "x".repeat(2048));
    add(params, true, &[json!(long)]);
    add(
        None,
        true,
        &[
            json!("https://client.example:8443/x?y=1"),
            json!("HTTPS://Client.Example./"),
        ],
    );
}

/// Puts a value at a place in JSON, or takes what is there away.
pub fn edit(body: &mut Value, path: &str, value: &Option<Value>) {
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut place = body;
    for step in above.split('.').filter(|step| !step.is_empty()) {
        place = match step.parse::<usize>() {
            Ok(i) => &mut place[i],
            Err(_) => &mut place[step],
        };
    }
    let members = place.as_object_mut();
    let members = members.unwrap_or_else(|| panic!("{path} is in no object"));
    match value {
        Some(value) => drop(members.insert(name.to_owned(), value.clone())),
        None => drop(members.remove(name)),
    }
}
