//! Good requests that chance has bitten into: bytes flipped, pieces cut out or doubled, members moved, values swapped. Nothing is
//! known of what they should do, but whatever it is, the core keeps its promises and the answer is one of the dialect that was
//! spoken, or the connection is closed.

use crate::corpus::Made;
use crate::frame::masked;
use crate::line::Heard;
use crate::random::Random;
use crate::send::{self, Door, Sent};
use crate::test_server::TestServer;
use crate::verdict::{Family, is_of, is_rpc};
use serde_json::{Value, json};

/// Requests after which a server is used up: tasks pile up in it.
const LIFE: u32 = 100;

pub struct Chaos {
    chance: Random,
    server: TestServer,
    left: u32,
    from: Vec<(Door, Made)>,
}

impl Chaos {
    pub fn new(seed: u64, from: Vec<(Door, Made)>) -> Chaos {
        Chaos { chance: Random::new(seed), server: TestServer::at_work(), left: LIFE, from }
    }

    /// Sends one; what became of it, or what is wrong with that.
    pub fn step(&mut self) -> Result<Sent, String> {
        if self.left == 0 {
            self.server = TestServer::at_work();
            self.left = LIFE;
        }
        self.left -= 1;
        let (door, made) = self.chance.pick(&self.from).expect("some").clone();
        let (bytes, bitten) = self.bite(door, made.clone());
        let mut line = send::enter(&mut self.server, door);
        let before = self.server.census().subs;
        let mut heard = self.server.exchange(&mut line, &bytes);
        let waits = self.server.census().subs > before;
        if heard.is_empty() && !waits {
            // It waits for more of the request, and there is none.
            heard = self.server.finish(&mut line);
        }
        let closed = self.server.is_closed(&line);
        self.server.hang_up(&line);
        let shown = || {
            let bytes = String::from_utf8_lossy(&bytes);
            format!("{door:?} {}: {} to {bytes}", made.name, send::short(&heard))
        };
        match (door, bitten) {
            (Door::Http, Bitten::Head) => after_head(&heard),
            (Door::Http, Bitten::Body) => after_body(&made, &heard),
            (_, _) => after_message(door, &heard),
        }
        .or(match (closed, waits) {
            _ if !heard.is_empty() => None,
            (true, _) => Some(Sent::Closed),
            (false, true) => Some(Sent::Waits),
            // A call without an id is answered only if it fails.
            (false, false) => door.is_socket().then_some(Sent::Taken),
        })
        .ok_or_else(shown)
    }

    fn bite(&mut self, door: Door, mut made: Made) -> (Vec<u8>, Bitten) {
        // Names first: chance should bite into what is sent, not into what stands for it.
        if let Some(Ok(text)) = made.body.as_deref().map(std::str::from_utf8) {
            made.body = Some(self.server.fill(text).into_bytes());
        }
        let head = made.body.is_none() || self.chance.percent(15);
        if head {
            let mut bytes = send::bytes(&self.server, door, &made);
            self.spoil(&mut bytes);
            return (bytes, Bitten::Head);
        }
        let body = made.body.take().unwrap_or_default();
        let body = match serde_json::from_slice::<Value>(&body) {
            Ok(mut value) if self.chance.percent(60) => {
                for _ in 0..=self.chance.below(3) {
                    self.shuffle(&mut value);
                }
                value.to_string().into_bytes()
            }
            _ => {
                let mut body = body;
                self.spoil(&mut body);
                body
            }
        };
        if door.is_socket() {
            return (masked(1, &body), Bitten::Body);
        }
        made.body = Some(body);
        (send::bytes(&self.server, door, &made), Bitten::Body)
    }

    /// Bites into bytes, once or a few times.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
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

    /// Changes something in a value: takes a member away, moves it, or puts another value in its place.
    fn shuffle(&mut self, value: &mut Value) {
        if self.chance.percent(30) {
            *value = self.odd();
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
                    2 => drop(members.insert(name, self.odd())),
                    _ => self.shuffle(&mut members[&name]),
                }
            }
            Value::Array(items) if !items.is_empty() => {
                let at = self.chance.below(items.len());
                match self.chance.below(4) {
                    0 => drop(items.remove(at)),
                    1 => items.push(items[at].clone()),
                    _ => self.shuffle(&mut items[at]),
                }
            }
            other => *other = self.odd(),
        }
    }

    fn odd(&mut self) -> Value {
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

/// Where chance bit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bitten {
    Head,
    Body,
}

/// The path may be another's now: any family will do, and several requests may have come of one.
fn after_head(heard: &[Heard]) -> Option<Sent> {
    let mut sent = None;
    for heard in heard {
        sent = Some(match heard {
            Heard::Answer { head, body } => {
                let families = [Family::Rpc03, Family::Rest03, Family::Rest10, Family::Gemini];
                let known = families.iter().any(|family| is_of(*family, head, body));
                // The wire's own refusals, and answers without a body.
                let whole = known || (body.is_empty() && head.status() < 500);
                if !whole || head.status() >= 500 && head.status() != 501 && head.status() != 505 {
                    return None;
                }
                match head.status() < 300 {
                    true => Sent::Taken,
                    false => Sent::Refused,
                }
            }
            Heard::Event(data) => {
                serde_json::from_str::<Value>(data).ok()?;
                Sent::Taken
            }
            Heard::End | Heard::Upgraded => Sent::Taken,
            Heard::Text(_) | Heard::Closed(_) => return None,
        });
    }
    sent
}

fn after_body(made: &Made, heard: &[Heard]) -> Option<Sent> {
    let family = family(&made.send, &made.headers);
    match heard {
        [Heard::Answer { head, body }] if is_of(family, head, body) => match head.status() {
            200 if String::from_utf8_lossy(body).contains("\"error\":{\"code\"") => Some(Sent::Refused),
            200..300 => Some(Sent::Taken),
            500.. => None,
            _ => Some(Sent::Refused),
        },
        [Heard::Event(_), ..] => {
            let whole = heard.iter().all(|heard| match heard {
                Heard::Event(data) => {
                    let data: Option<Value> = serde_json::from_str(data).ok();
                    let rpc = matches!(family, Family::Rpc03 | Family::Rpc10);
                    data.is_some_and(|data| !rpc || is_rpc(&data))
                }
                Heard::End => true,
                Heard::Answer { .. } | Heard::Upgraded | Heard::Text(_) | Heard::Closed(_) => false,
            });
            whole.then_some(Sent::Taken)
        }
        _ => None,
    }
}

fn after_message(door: Door, heard: &[Heard]) -> Option<Sent> {
    let mut sent = None;
    for heard in heard {
        sent = Some(match heard {
            Heard::Text(text) => {
                let message: Value = serde_json::from_str(text).ok()?;
                let of_door = match door {
                    Door::Http => false,
                    Door::Session => message.get("kind").is_some() || is_rpc(&message),
                    Door::Rpc03 | Door::Rpc10 => is_rpc(&message),
                    Door::Own => {
                        message.get("event").is_some()
                            || message.get("ok").is_some()
                            || message["error"]["reason"].is_string()
                    }
                };
                if !of_door {
                    return None;
                }
                match message.get("error").is_some() {
                    true => Sent::Refused,
                    false => Sent::Taken,
                }
            }
            Heard::Closed(_) => Sent::Closed,
            Heard::Answer { .. } | Heard::Event(_) | Heard::End | Heard::Upgraded => return None,
        });
    }
    sent
}

/// The family that a path is answered in, whatever its body.
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
