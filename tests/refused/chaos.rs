//! Randomly damaged requests: flipped bytes, pieces cut out or repeated, members moved, values replaced. It is not known whether they are
//! still valid, but in every case the core keeps its invariants, and the response has the format of the dialect, or the connection is closed.

use crate::connection::Received;
use crate::corpus::TestRequest;
use crate::error_format::{Family, is_of, is_rpc};
use crate::frame::masked;
use crate::random::Random;
use crate::send::{self, EntryPoint, Outcome};
use crate::test_server::TestServer;
use serde_json::{Value, json};

/// Requests after which a new server is started, because the old one has many tasks by then.
const REQUESTS_PER_SERVER: u32 = 100;

pub struct Chaos {
    chance: Random,
    server: TestServer,
    /// Requests until a new server is started.
    remaining: u32,
    /// The valid requests that are damaged.
    originals: Vec<(EntryPoint, TestRequest)>,
}

impl Chaos {
    pub fn new(seed: u64, originals: Vec<(EntryPoint, TestRequest)>) -> Chaos {
        let (server, remaining) = (TestServer::with_workers(), REQUESTS_PER_SERVER);
        Chaos { chance: Random::new(seed), server, remaining, originals }
    }

    /// Sends a damaged request. Returns its outcome, or what is wrong with the response.
    pub fn step(&mut self) -> Result<Outcome, String> {
        if self.remaining == 0 {
            self.server = TestServer::with_workers();
            self.remaining = REQUESTS_PER_SERVER;
        }
        self.remaining -= 1;
        let (entry, request) = self.chance.pick(&self.originals).expect("some").clone();
        let (bytes, damaged) = self.damage(entry, request.clone());
        let mut connection = send::connect(&mut self.server, entry);
        let before = self.server.counts().subs;
        let mut received = self.server.exchange(&mut connection, &bytes);
        let waits = self.server.counts().subs > before;
        if received.is_empty() && !waits {
            // The server waits for the rest of the request, and there is none.
            received = self.server.finish(&mut connection);
        }
        let closed = self.server.is_closed(&connection);
        self.server.disconnect(&connection);
        let description = || {
            let bytes = String::from_utf8_lossy(&bytes);
            format!("{entry:?} {}: {} to {bytes}", request.name, send::short(&received))
        };
        match (entry, damaged) {
            (EntryPoint::Http, Damaged::Head) => outcome_of_head(&received),
            (EntryPoint::Http, Damaged::Body) => outcome_of_body(&request, &received),
            (_, _) => outcome_of_message(entry, &received),
        }
        .or(match (closed, waits) {
            _ if !received.is_empty() => None,
            (true, _) => Some(Outcome::Closed),
            (false, true) => Some(Outcome::Pending),
            // A call without an id gets a response only if it fails.
            (false, false) => entry.is_socket().then_some(Outcome::Accepted),
        })
        .ok_or_else(description)
    }

    /// The bytes of a request, damaged at random.
    fn damage(&mut self, entry: EntryPoint, mut request: TestRequest) -> (Vec<u8>, Damaged) {
        // The names are replaced first, so that the ids are damaged and not the names that stand for them.
        if let Some(Ok(text)) = request.body.as_deref().map(std::str::from_utf8) {
            request.body = Some(self.server.fill(text).into_bytes());
        }
        let head = request.body.is_none() || self.chance.percent(15);
        if head {
            let mut bytes = send::bytes(&self.server, entry, &request);
            self.damage_bytes(&mut bytes);
            return (bytes, Damaged::Head);
        }
        let body = request.body.take().unwrap_or_default();
        let body = match serde_json::from_slice::<Value>(&body) {
            Ok(mut value) if self.chance.percent(60) => {
                for _ in 0..=self.chance.below(3) {
                    self.damage_value(&mut value);
                }
                value.to_string().into_bytes()
            }
            _ => {
                let mut body = body;
                self.damage_bytes(&mut body);
                body
            }
        };
        if entry.is_socket() {
            return (masked(1, &body), Damaged::Body);
        }
        request.body = Some(body);
        (send::bytes(&self.server, entry, &request), Damaged::Body)
    }

    /// Changes bytes at one or a few positions.
    fn damage_bytes(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.chance.below(3) {
            let at = self.chance.below(bytes.len());
            let to = (at + self.chance.below(9)).min(bytes.len());
            match self.chance.below(6) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..to)),
                2 => {
                    let again = bytes[at..to].to_vec();
                    bytes.splice(at..at, again);
                }
                3 => {
                    let odd = [b'"', b'{', b'}', b'\\', b'\n', 0, 0xff, b'-', b'9', b','];
                    bytes.insert(at, odd[self.chance.below(odd.len())]);
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.chance.below(8);
                    }
                }
            }
        }
    }

    /// Changes one member or element of a value: removes it, moves it, or replaces its value.
    fn damage_value(&mut self, value: &mut Value) {
        if self.chance.percent(30) {
            *value = self.unexpected_value();
            return;
        }
        match value {
            Value::Object(members) if !members.is_empty() => {
                let names: Vec<String> = members.keys().cloned().collect();
                let name = names[self.chance.below(names.len())].clone();
                let other = names[self.chance.below(names.len())].clone();
                match self.chance.below(6) {
                    0 => drop(members.remove(&name)),
                    1 => {
                        let moved = members.remove(&name).unwrap_or_default();
                        members.insert(other, moved);
                    }
                    2 => drop(members.insert(name, self.unexpected_value())),
                    _ => self.damage_value(&mut members[&name]),
                }
            }
            Value::Array(items) if !items.is_empty() => {
                let at = self.chance.below(items.len());
                match self.chance.below(4) {
                    0 => drop(items.remove(at)),
                    1 => items.push(items[at].clone()),
                    _ => self.damage_value(&mut items[at]),
                }
            }
            other => *other = self.unexpected_value(),
        }
    }

    fn unexpected_value(&mut self) -> Value {
        match self.chance.below(16) {
            0 => json!(null),
            1 => json!(true),
            2 => json!(0),
            3 => json!(-1),
            4 => json!(1.5),
            5 => json!(u64::MAX),
            6 => json!(""),
            7 => json!([]),
            8 => json!({}),
            9 => json!([null]),
            10 => json!({"": ""}),
            11 => json!("\u{0}\u{ffff}"),
            12 => json!("x".repeat(300)),
            13 => json!("proceed_once"),
            14 => json!(self.server.fill("$waiting_call")),
            _ => json!(self.server.fill("$waiting")),
        }
    }
}

/// The part of a request that was damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Damaged {
    Head,
    Body,
}

/// The outcome of a request with a damaged head. The path may have become one of another dialect, so the response may have any error
/// format, and one request may have become several. None: a response is invalid.
fn outcome_of_head(received: &[Received]) -> Option<Outcome> {
    let mut outcome = None;
    for received in received {
        outcome = Some(match received {
            Received::Response { head, body } => {
                let families = [Family::Rpc03, Family::Rest03, Family::Rest10, Family::Gemini];
                let known = families.iter().any(|family| is_of(*family, head, body));
                // Errors of HTTP itself, and successful responses without a body, have an empty body.
                let valid = known || (body.is_empty() && head.status() < 500);
                if !valid || head.status() >= 500 && head.status() != 501 && head.status() != 505 {
                    return None;
                }
                match head.status() < 300 {
                    true => Outcome::Accepted,
                    false => Outcome::Refused,
                }
            }
            Received::Event(data) => {
                serde_json::from_str::<Value>(data).ok()?;
                Outcome::Accepted
            }
            Received::End | Received::Upgraded => Outcome::Accepted,
            Received::Text(_) | Received::Closed(_) => return None,
        });
    }
    outcome
}

/// The outcome of a request with a damaged body, whose response must have the format of its path. None: the response is invalid.
fn outcome_of_body(request: &TestRequest, received: &[Received]) -> Option<Outcome> {
    let family = family(&request.send, &request.headers);
    match received {
        [Received::Response { head, body }] if is_of(family, head, body) => match head.status() {
            200 if String::from_utf8_lossy(body).contains("\"error\":{\"code\"") => Some(Outcome::Refused),
            200..300 => Some(Outcome::Accepted),
            500.. => None,
            _ => Some(Outcome::Refused),
        },
        [Received::Event(_), ..] => {
            let valid = received.iter().all(|received| match received {
                Received::Event(data) => {
                    let data: Option<Value> = serde_json::from_str(data).ok();
                    let rpc = matches!(family, Family::Rpc03 | Family::Rpc10);
                    data.is_some_and(|data| !rpc || is_rpc(&data))
                }
                Received::End => true,
                Received::Response { .. } | Received::Upgraded | Received::Text(_) | Received::Closed(_) => false,
            });
            valid.then_some(Outcome::Accepted)
        }
        _ => None,
    }
}

/// The outcome of a damaged message on a socket. None: a message of the server is invalid.
fn outcome_of_message(entry: EntryPoint, received: &[Received]) -> Option<Outcome> {
    let mut outcome = None;
    for received in received {
        outcome = Some(match received {
            Received::Text(text) => {
                let message: Value = serde_json::from_str(text).ok()?;
                let valid = match entry {
                    EntryPoint::Http => false,
                    EntryPoint::Session => message.get("kind").is_some() || is_rpc(&message),
                    EntryPoint::Rpc03 | EntryPoint::Rpc10 => is_rpc(&message),
                    EntryPoint::Native => {
                        message.get("event").is_some()
                            || message.get("ok").is_some()
                            || message["error"]["reason"].is_string()
                    }
                };
                if !valid {
                    return None;
                }
                match message.get("error").is_some() {
                    true => Outcome::Refused,
                    false => Outcome::Accepted,
                }
            }
            Received::Closed(_) => Outcome::Closed,
            Received::Response { .. } | Received::Event(_) | Received::End | Received::Upgraded => return None,
        });
    }
    outcome
}

/// The error format of a path.
fn family(send: &str, headers: &[String]) -> Family {
    let (_, target) = send.split_once(' ').expect("a method and a target");
    let path = target.split('?').next().unwrap_or(target);
    let new = headers.iter().any(|header| header == "A2A-Version: 1.0");
    let rest = path.contains(":") || path.contains("/pushNotificationConfigs");
    match path {
        "/" => Family::Rpc03,
        _ if path.starts_with("/v1/") && !new => Family::Rest03,
        _ if new || rest => Family::Rest10,
        _ => Family::Gemini,
    }
}
