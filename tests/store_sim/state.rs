//! The fold of a simulated task's log. Its lines are words instead of JSON: the protocol does not read them.

use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::bucket::replica::{Applied, InstanceId, Phase, Status};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Asked,
    Approved,
    Started,
    Ended,
}

/// The outcome of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Effect,
    Void,
}

#[derive(Default)]
pub struct State {
    pub seq: Seq,
    pub context: Option<String>,
    pub parent: Option<TaskId>,
    pub owner: Option<InstanceId>,
    pub epoch: u64,
    pub turn: Option<u64>,
    pub turns: u64,
    pub heard: u64,
    pub is_released: bool,
    pub is_closed: bool,
    pub is_deleted: bool,
    /// A delivery to a webhook is due.
    pub is_due: bool,
    pub calls: BTreeMap<u64, Call>,
    pub requests: BTreeMap<u64, Outcome>,
    pub prompts: BTreeSet<u64>,
}

impl State {
    pub fn status(&self) -> Status {
        Status {
            phase: self.phase(),
            owner: self.owner.clone(),
            epoch: self.epoch,
            released: self.is_released,
            heard: self.heard,
            due: self.is_due,
        }
    }

    pub fn phase(&self) -> Phase {
        if self.is_deleted {
            return Phase::Deleted;
        }
        if self.turn.is_none() {
            return if self.is_closed { Phase::Closed } else { Phase::Rest };
        }
        let mut open = self.calls.values().filter(|call| **call != Call::Ended).peekable();
        match open.peek().is_some() && open.all(|call| *call == Call::Asked) {
            true => Phase::Paused,
            false => Phase::Working,
        }
    }

    pub fn calls_that_are(&self, state: Call) -> Vec<u64> {
        self.calls.iter().filter(|(_, call)| **call == state).map(|(id, _)| *id).collect()
    }

    /// Applies lines. The error says which invariant they violate.
    pub fn apply(&mut self, lines: &str) -> Result<Applied, String> {
        let mut applied = Applied::Other;
        for line in lines.lines() {
            self.seq = self.seq.next();
            if self.is_deleted {
                return Err("an event after deleted".to_owned());
            }
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == "prompted" {
                applied = Applied::BeganWork;
            }
            self.apply_line(&words)?;
        }
        Ok(applied)
    }

    fn apply_line(&mut self, words: &[&str]) -> Result<(), String> {
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "created" => {
                self.context = Some(words[1].to_owned());
                self.parent = (words[2] != "-").then(|| TaskId::from(words[2]));
            }
            "owned" => {
                let is_again = self.owner == Some(InstanceId::from(words[1])) && self.epoch == number(2);
                if number(2) != self.epoch + 1 && !is_again {
                    return Err(format!("epoch {} after {}", words[2], self.epoch));
                }
                (self.owner, self.epoch) = (Some(InstanceId::from(words[1])), number(2));
                self.is_released = false;
            }
            "released" => self.is_released = true,
            "prompted" => self.prompted(number(1))?,
            "text" => {}
            "asked" => _ = self.calls.insert(number(1), Call::Asked),
            "auto" => _ = self.calls.insert(number(1), Call::Approved),
            "answered" => {
                let state = if words[2] == "yes" { Call::Approved } else { Call::Ended };
                if self.calls.insert(number(1), state) != Some(Call::Asked) {
                    return Err("an answer to no question".to_owned());
                }
                self.took_effect(number(3))?;
            }
            "started" => {
                let before = self.calls.insert(number(1), Call::Started);
                if before != Some(Call::Approved) {
                    return Err(format!("a call started that was {before:?}"));
                }
            }
            "ended" => _ = self.calls.insert(number(1), Call::Ended),
            "turn_ended" | "interrupted" => self.end_turn(words[2] == "due"),
            "canceled" => {
                self.end_turn(false);
                self.is_closed = true;
                self.took_effect(number(2))?;
            }
            "delivered" => self.is_due = false,
            "heard" => self.heard(number(1), number(2), words[3])?,
            "deleted" => self.is_deleted = true,
            other => return Err(format!("the line {other} is unknown")),
        }
        Ok(())
    }

    fn prompted(&mut self, prompt: u64) -> Result<(), String> {
        if !self.prompts.insert(prompt) {
            return Err(format!("prompt {prompt} is there twice"));
        }
        if self.turn.is_some() {
            return Err("a turn in a turn".to_owned());
        }
        self.turns += 1;
        self.turn = Some(self.turns);
        self.calls.clear();
        Ok(())
    }

    fn end_turn(&mut self, is_due: bool) {
        self.turn = None;
        self.calls.clear();
        self.is_due = is_due;
    }

    fn heard(&mut self, n: u64, request: u64, outcome: &str) -> Result<(), String> {
        if n != self.heard + 1 {
            return Err("heard out of order".to_owned());
        }
        self.heard = n;
        if self.requests.contains_key(&request) {
            return Err("one request was heard twice".to_owned());
        }
        if outcome == "void" {
            self.requests.insert(request, Outcome::Void);
        }
        Ok(())
    }

    fn took_effect(&mut self, request: u64) -> Result<(), String> {
        match self.requests.insert(request, Outcome::Effect) {
            None => Ok(()),
            Some(_) => Err("one request took effect twice".to_owned()),
        }
    }
}
