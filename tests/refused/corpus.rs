//! The corpus: valid requests of every dialect, and the requests with expected results that are derived from them. `tests/corpus/requests`
//! has the valid requests, with a word for the kind of each member, and special cases; the kind determines the valid and invalid variants
//! of the member.

use crate::error_format::{Family, Fault};
use crate::variants::variants;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The file of one dialect.
#[derive(Deserialize)]
pub struct Dialect {
    pub family: Family,
    pub bases: Vec<Base>,
    #[serde(default)]
    pub refused: Vec<Special>,
    #[serde(default)]
    pub accepted: Vec<Special>,
}

/// A valid request, from which others are derived.
#[derive(Clone, Deserialize)]
pub struct Base {
    pub name: String,
    /// Method and target; empty for messages on sockets.
    #[serde(default)]
    pub send: String,
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    #[serde(default)]
    pub headers: Vec<String>,
    pub body: Option<Value>,
    /// The task that replaces `{task}` in the request, and whose context replaces `{context}`.
    #[serde(default)]
    pub task: String,
    #[serde(default, rename = "does")]
    pub operation: Operation,
    /// The path of each member, with a leading `?` for members of the query, and its kind.
    #[serde(default)]
    pub members: BTreeMap<String, String>,
    /// Errors are sent as an event of a stream if the method is known.
    #[serde(default)]
    pub framed: bool,
}

/// What the request does with its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    #[default]
    Nothing,
    #[serde(rename = "says")]
    SendsMessage,
    Reads,
    Cancels,
    #[serde(rename = "watches")]
    Subscribes,
}

/// A special case: a request that is not derived from another.
#[derive(Clone, Deserialize)]
pub struct Special {
    pub name: String,
    #[serde(default)]
    pub send: String,
    #[serde(default)]
    pub headers: Vec<String>,
    pub body: Option<Value>,
    /// A body that need not be JSON, in place of `body`.
    pub raw: Option<String>,
    pub fault: Option<Fault>,
    /// The format of the error, if it is not that of the file.
    pub family: Option<Family>,
    #[serde(default)]
    pub id: Value,
}

/// A request and its expected result.
#[derive(Clone, Debug)]
pub struct TestRequest {
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
        /// The member that the error must name.
        member: Option<String>,
        framed: bool,
    },
}

pub fn read(text: &str) -> Dialect {
    serde_json::from_str(text).expect("a dialect's file")
}

impl Dialect {
    /// All requests that are derived from the valid ones, and the special cases.
    pub fn requests(&self, carrier: Carrier) -> Vec<TestRequest> {
        let mut requests = Vec::new();
        for base in &self.bases {
            let maker = RequestMaker { family: self.family, base, carrier };
            maker.members(&mut requests);
            maker.states(&mut requests);
            maker.bodies(&mut requests);
            maker.envelopes(&mut requests);
            maker.heads(&mut requests);
        }
        // The special cases of a dialect over HTTP test HTTP itself.
        let specials = self.refused.iter().chain(&self.accepted);
        if carrier == Carrier::Http || self.bases.iter().all(|base| base.send.is_empty()) {
            requests.extend(specials.map(|special| self.special(special)));
        }
        requests
    }

    fn special(&self, special: &Special) -> TestRequest {
        let raw = special.raw.clone();
        let body = raw.or_else(|| special.body.as_ref().map(Value::to_string));
        TestRequest {
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

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Http,
    Socket,
}

/// Derives requests from a valid one.
struct RequestMaker<'a> {
    family: Family,
    base: &'a Base,
    carrier: Carrier,
}

impl RequestMaker<'_> {
    fn request(&self, what: &str, base: &Base, expected: Expected) -> TestRequest {
        let mut send = base.send.clone();
        for (i, (name, value)) in base.query.iter().enumerate() {
            send += if i == 0 { "?" } else { "&" };
            send += &format!("{name}={value}");
        }
        let fill = |text: String| {
            let text = text.replace("{task}", &base.task);
            text.replace("{context}", &format!("{}_context", base.task))
        };
        let body = base.body.as_ref().map(|body| fill(body.to_string()));
        TestRequest {
            name: format!("{}: {what}", base.name),
            send: fill(send),
            headers: base.headers.clone(),
            body: body.map(String::into_bytes),
            expected,
        }
    }

    fn refusal(&self, fault: Fault) -> Expected {
        let id = self.base.body.as_ref().map(|body| body["id"].clone());
        let id = match self.family {
            Family::Rpc03 | Family::Rpc10 | Family::Native => id.unwrap_or_default(),
            Family::Rest03 | Family::Rest10 | Family::Gemini => Value::Null,
        };
        Expected::Refusal {
            family: self.family,
            fault,
            id,
            member: None,
            framed: self.base.framed && self.carrier == Carrier::Http,
        }
    }

    /// The refusal of a request of which the server has not read the id.
    fn refusal_without_id(&self, family: Family, fault: Fault) -> Expected {
        Expected::Refusal { family, fault, id: Value::Null, member: None, framed: false }
    }

    /// The request itself, and each member in all variants of its kind.
    fn members(&self, requests: &mut Vec<TestRequest>) {
        requests.push(self.request("as it is", self.base, Expected::Success));
        for (path, kind) in &self.base.members {
            for variant in variants(kind) {
                let mut base = self.base.clone();
                match path.strip_prefix('?') {
                    Some(name) => match &variant.value {
                        None => drop(base.query.remove(name)),
                        Some(value) => {
                            let text = value.as_str().expect("a query is text");
                            base.query.insert(name.to_owned(), text.to_owned());
                        }
                    },
                    None => edit(base.body.as_mut().expect("a body"), path, &variant.value),
                }
                let value = variant.value.as_ref().map_or("gone".into(), Value::to_string);
                let value: String = value.chars().take(60).collect();
                let expected = match variant.fault {
                    None => Expected::Success,
                    Some(fault) => {
                        let mut refusal = self.refusal(fault);
                        if let Expected::Refusal { member, .. } = &mut refusal {
                            let name = path.rsplit(['.', '?']).next().unwrap_or(path);
                            *member = variant.named.then(|| name.to_owned());
                        }
                        refusal
                    }
                };
                requests.push(self.request(&format!("{path} {value}"), &base, expected));
            }
        }
    }

    /// The request with other tasks: an unknown one, one of another client, tasks that have ended; and with the context of another task.
    fn states(&self, requests: &mut Vec<TestRequest>) {
        if self.base.task.is_empty() {
            return;
        }
        let new = matches!(self.family, Family::Rpc10 | Family::Rest10);
        let late = |task: &str| match (self.base.operation, task) {
            (Operation::SendsMessage, _) => Some(Fault::Over),
            (Operation::Cancels, "$canceled") if new => None,
            (Operation::Cancels, _) => Some(Fault::NotCancelable),
            (Operation::Subscribes, _) if new => Some(Fault::Unsupported),
            (Operation::Subscribes | Operation::Reads | Operation::Nothing, _) => None,
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
            requests.push(self.request(&format!("the task {task}"), &base, expected));
        }
        let Some(body) = &self.base.body else {
            return;
        };
        let text = body.to_string();
        if text.contains("{context}") {
            let text = text.replace("{context}", "$other_context");
            let base = Base { body: Some(serde_json::from_str(&text).expect("JSON")), ..self.base.clone() };
            // REST 0.3 ignores the context, because its clients send one that they have made up.
            let tolerated = self.family == Family::Rest03;
            let mut expected = match tolerated {
                true => Expected::Success,
                false => self.refusal(Fault::Params),
            };
            if let Expected::Refusal { member, .. } = &mut expected {
                *member = Some("context".into());
            }
            requests.push(self.request("the context of another", &base, expected));
        }
    }

    /// Bodies that are not a JSON object or not JSON, and one with an unknown member, which is valid.
    fn bodies(&self, requests: &mut Vec<TestRequest>) {
        let Some(body) = &self.base.body else {
            return;
        };
        let text = body.to_string();
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let parse = |what: &str, body: Vec<u8>| TestRequest {
            body: Some(body),
            ..self.request(what, self.base, self.refusal_without_id(self.early_family(), Fault::Parse))
        };
        requests.push(parse("cut off", text.as_bytes()[..text.len() - 1].to_vec()));
        requests.push(parse("twice", format!("{text} {text}").into_bytes()));
        requests.push(parse("no JSON", b"go on".to_vec()));
        requests.push(parse("nested deeply", deep.into_bytes()));
        requests.push(parse("half a character", br#"{"x":"\ud800"}"#.to_vec()));
        requests.push(parse("a number without end", br#"{"x":1e999}"#.to_vec()));
        if self.carrier == Carrier::Http {
            requests.push(parse("no UTF-8", b"{\"x\":\"\xff\xfe\"}".to_vec()));
        }
        let fault = match self.family {
            Family::Rpc03 | Family::Rpc10 | Family::Native => Fault::Invalid,
            Family::Rest03 | Family::Rest10 | Family::Gemini => Fault::Params,
        };
        for wrong in [json!([body]), json!(7), json!([])] {
            let base = Base { body: Some(wrong.clone()), ..self.base.clone() };
            let text: String = wrong.to_string().chars().take(20).collect();
            let expected = self.refusal_without_id(self.early_family(), fault);
            requests.push(self.request(&format!("{text} for a body"), &base, expected));
        }
        let mut base = self.base.clone();
        let unknown = json!({"deep": [{"x": 1}, null, "\u{0}"]});
        edit(base.body.as_mut().expect("a body"), "surprise", &Some(unknown));
        requests.push(self.request("an unknown member", &base, Expected::Success));
    }

    /// The members of the envelope of JSON-RPC and of the native dialect, in all variants of their kinds.
    fn envelopes(&self, requests: &mut Vec<TestRequest>) {
        let params = match self.base.members.contains_key("params") {
            true => "rpc-params",
            false => "rpc-no-params",
        };
        let members = match self.family {
            Family::Rpc03 | Family::Rpc10 => {
                vec![("jsonrpc", "jsonrpc"), ("method", "method"), ("id", "rpc-id"), ("params", params)]
            }
            Family::Native => vec![("id", "own-id"), ("call", "own-call")],
            Family::Rest03 | Family::Rest10 | Family::Gemini => return,
        };
        for (member, kind) in members {
            for variant in variants(kind) {
                // Over a socket, a request without an id gets no response if it succeeds.
                if member == "id" && variant.value.is_none() {
                    continue;
                }
                let mut base = self.base.clone();
                edit(base.body.as_mut().expect("a body"), member, &variant.value);
                let expected = variant.fault.map(|fault| self.envelope_refusal(member, fault));
                let value = variant.value.map_or("gone".into(), |value| value.to_string());
                let expected = expected.unwrap_or(Expected::Success);
                requests.push(self.request(&format!("{member} {value}"), &base, expected));
            }
        }
    }

    /// The refusal of a request with an invalid member of the envelope.
    fn envelope_refusal(&self, member: &str, fault: Fault) -> Expected {
        let id = self.base.body.as_ref().map(|body| body["id"].clone());
        Expected::Refusal {
            // Without a version in the header fields, the method determines the version.
            family: match fault {
                Fault::Invalid | Fault::Method => self.early_family(),
                _ => self.family,
            },
            fault,
            // An id of an invalid type counts as no id.
            id: id.filter(|_| member != "id").unwrap_or_default(),
            member: None,
            framed: member == "params" && self.base.framed && self.carrier == Carrier::Http,
        }
    }

    /// The family of errors before the method is known.
    fn early_family(&self) -> Family {
        match (self.family, self.carrier) {
            (Family::Rpc10, Carrier::Http) => Family::Rpc03,
            (family, _) => family,
        }
    }

    /// The request with a wrong HTTP method, content type or version.
    fn heads(&self, requests: &mut Vec<TestRequest>) {
        if self.carrier == Carrier::Socket {
            return;
        }
        let (_, target) = self.base.send.split_once(' ').expect("a method");
        for method in ["PUT", "PATCH", "OPTIONS"] {
            let base = Base { send: format!("{method} {target}"), ..self.base.clone() };
            let family = self.early_family();
            // Two paths also belong to the Gemini endpoints, whose error format they have.
            let gemini = family == Family::Rest10 && matches!(target, "/tasks" | "/tasks/{task}");
            let family = if gemini { Family::Gemini } else { family };
            let expected = self.refusal_without_id(family, Fault::NotAllowed);
            requests.push(self.request(method, &base, expected));
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
                    (*framed, *family) = (false, self.early_family());
                }
                requests.push(self.request(media, &base, expected));
            }
        }
        for version in ["9.9", "0.2", "1.1", "zero"] {
            let mut expected = self.refusal(Fault::Version);
            if let Expected::Refusal { family, framed, .. } = &mut expected {
                *framed = false;
                *family = match self.family {
                    Family::Rpc03 | Family::Rpc10 => Family::Rpc10,
                    Family::Rest03 | Family::Rest10 => Family::Rest10,
                    Family::Gemini | Family::Native => return,
                };
            }
            let base = with(&format!("A2A-Version: {version}"));
            requests.push(self.request(&format!("version {version}"), &base, expected));
        }
        // Methods for commands exist in both versions.
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
        requests.push(self.request("the other version", &base, expected));
    }
}

/// Sets a member of a JSON value, or removes it.
pub fn edit(body: &mut Value, path: &str, value: &Option<Value>) {
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut parent = body;
    for step in above.split('.').filter(|step| !step.is_empty()) {
        parent = match step.parse::<usize>() {
            Ok(i) => &mut parent[i],
            Err(_) => &mut parent[step],
        };
    }
    let members = parent.as_object_mut();
    let members = members.unwrap_or_else(|| panic!("{path} is in no object"));
    match value {
        Some(value) => drop(members.insert(name.to_owned(), value.clone())),
        None => drop(members.remove(name)),
    }
}
