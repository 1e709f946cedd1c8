//! The corpus: good requests of every dialect, and what is wrong with what is made of them. `tests/corpus/requests` holds the
//! good ones, with a word for the kind of each member, and the special cases; from a word follows in which ways its member can
//! be wrong, and what is still right.

use crate::verdict::{Family, Fault};
use crate::ways::ways;
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
            let maker = Maker { family: self.family, base, over };
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
        Expected::Refusal { family, fault, id: Value::Null, member: None, framed: false }
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
            let base = Base { task: task.into(), ..self.base.clone() };
            let expected = fault.map_or(Expected::Success, |fault| self.refusal(fault));
            made.push(self.made(&format!("the task {task}"), &base, expected));
        }
        let Some(body) = &self.base.body else {
            return;
        };
        let text = body.to_string();
        if text.contains("{context}") {
            let text = text.replace("{context}", "$other_context");
            let base = Base { body: Some(serde_json::from_str(&text).expect("JSON")), ..self.base.clone() };
            // There the task decides, because clients make contexts up.
            let tolerated = self.family == Family::Rest03;
            let mut expected = match tolerated {
                true => Expected::Success,
                false => self.refusal(Fault::Params),
            };
            if let Expected::Refusal { member, .. } = &mut expected {
                *member = Some("context".into());
            }
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
            let base = Base { body: Some(wrong.clone()), ..self.base.clone() };
            let shown: String = wrong.to_string().chars().take(20).collect();
            let expected = self.early(self.family(), fault);
            made.push(self.made(&format!("{shown} for a body"), &base, expected));
        }
        let mut base = self.base.clone();
        let surprise = json!({"deep": [{"x": 1}, null, "\u{0}"]});
        edit(base.body.as_mut().expect("a body"), "surprise", &Some(surprise));
        made.push(self.made("a member that nobody knows", &base, Expected::Success));
    }

    /// What JSON-RPC and our own dialect have around a request.
    fn envelopes(&self, made: &mut Vec<Made>) {
        let params = match self.base.members.contains_key("params") {
            true => "rpc-params",
            false => "rpc-no-params",
        };
        let members = match self.family {
            Family::Rpc03 | Family::Rpc10 => {
                vec![("jsonrpc", "jsonrpc"), ("method", "method"), ("id", "rpc-id"), ("params", params)]
            }
            Family::Own => vec![("id", "own-id"), ("call", "own-call")],
            Family::Rest03 | Family::Rest10 | Family::Gemini => return,
        };
        for (member, kind) in members {
            for way in ways(kind) {
                // Over a socket a request without an id that succeeds is answered with nothing.
                if member == "id" && way.value.is_none() {
                    continue;
                }
                let mut base = self.base.clone();
                edit(base.body.as_mut().expect("a body"), member, &way.value);
                let expected = way.fault.map(|fault| self.outer(member, fault));
                let shown = way.value.map_or("gone".into(), |value| value.to_string());
                let expected = expected.unwrap_or(Expected::Success);
                made.push(self.made(&format!("{member} {shown}"), &base, expected));
            }
        }
    }

    /// The refusal of a request with a wrong member around it.
    fn outer(&self, member: &str, fault: Fault) -> Expected {
        let id = self.base.body.as_ref().map(|body| body["id"].clone());
        Expected::Refusal {
            // Without a version in the head, the method says which it is.
            family: match fault {
                Fault::Invalid | Fault::Method => self.family(),
                _ => self.family,
            },
            fault,
            // An id of no such type is none.
            id: id.filter(|_| member != "id").unwrap_or_default(),
            member: None,
            framed: member == "params" && self.base.framed && self.over == Carrier::Http,
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
            let base = Base { send: format!("{method} {target}"), ..self.base.clone() };
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
            for media in ["text/plain", "application/x-www-form-urlencoded", "nonsense"] {
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
        if let Expected::Refusal { family: of, framed, .. } = &mut expected {
            *of = family;
            let streams = base.headers.iter().any(|header| header.contains("event-stream"));
            *framed = streams && family == Family::Rpc03;
        }
        made.push(self.made("the other version", &base, expected));
    }
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
