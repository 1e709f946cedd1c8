//! A2A values that are independent of the protocol version: a projection makes them of an event or a state, and a writer encodes them as
//! JSON. So there is one projection per profile and one writer per version instead of one encoder per combination.
//!
//! A frame borrows from the event that it shows. Content that is the same in every version (metadata, data parts) is stored as JSON bytes.

use crate::base::id::Seq;
use crate::task::log::event::Created;
use crate::task::machine::state::TaskState;
use crate::task::message::{Artifact, Message};
use std::borrow::Cow;

/// One event of a stream.
#[derive(Debug)]
pub enum Frame<'a> {
    Status(StatusUpdate<'a>),
    Artifact(ArtifactUpdate<'a>),
}

#[derive(Debug)]
pub struct StatusUpdate<'a> {
    pub state: TaskState,
    /// Unix milliseconds.
    pub at: u64,
    pub message: Option<AgentMessage<'a>>,
    /// A JSON object.
    pub metadata: Vec<u8>,
    /// The metadata if the stream ends with this frame. None: no stream ends with it.
    pub closing: Option<Vec<u8>>,
}

impl StatusUpdate<'_> {
    pub fn metadata(&self, finality: Finality) -> &[u8] {
        match (finality, &self.closing) {
            (Finality::Closing, Some(closing)) => closing,
            (Finality::Closing, None) | (Finality::Open, _) => &self.metadata,
        }
    }
}

/// The agent's message in a status update.
#[derive(Debug)]
pub struct AgentMessage<'a> {
    /// Its id is `<task>-<since>`.
    pub since: Seq,
    pub piece: Piece<'a>,
    /// The parts after the first, which has a field of its own because nearly every message has one part and then needs no allocation.
    pub more: Vec<Piece<'a>>,
    /// The extension whose objects it carries.
    pub extension: Option<&'static str>,
    /// A JSON object.
    pub metadata: Option<Vec<u8>>,
}

impl<'a> AgentMessage<'a> {
    pub fn new(since: Seq, piece: Piece<'a>) -> AgentMessage<'a> {
        AgentMessage { since, piece, more: Vec::new(), extension: None, metadata: None }
    }

    /// A message of these pieces. None: there are no pieces.
    pub fn of(since: Seq, pieces: impl IntoIterator<Item = Piece<'a>>) -> Option<AgentMessage<'a>> {
        let mut pieces = pieces.into_iter();
        let first = pieces.next()?;
        Some(AgentMessage { more: pieces.collect(), ..AgentMessage::new(since, first) })
    }

    pub fn carrying(mut self, extension: &'static str) -> AgentMessage<'a> {
        self.extension = Some(extension);
        self
    }

    pub fn id(&self, created: &Created) -> String {
        format!("{}-{}", created.task, self.since)
    }

    /// Its parts, in order; there is at least one.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece<'a>> {
        std::iter::once(&self.piece).chain(&self.more)
    }
}

#[derive(Debug)]
pub enum Piece<'a> {
    Text(Cow<'a, str>),
    /// A JSON object.
    Data(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct ArtifactUpdate<'a> {
    pub artifact: Cow<'a, Artifact>,
    pub append: bool,
    pub last: bool,
}

/// Whether a stream continues after a frame or ends with it. 0.3 says so in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finality {
    Open,
    Closing,
}

/// A task as a whole.
#[derive(Debug)]
pub struct Task<'a> {
    pub created: &'a Created,
    pub state: TaskState,
    /// Unix milliseconds.
    pub at: u64,
    pub message: Option<Message>,
    /// None: no history was requested.
    pub history: Option<Vec<Cow<'a, Message>>>,
    /// None: no artifacts were requested.
    pub artifacts: Option<Vec<Cow<'a, Artifact>>>,
    /// Whether the metadata has the members in which the reference server stores its state.
    pub persisted: bool,
    /// Why the last turn failed, for views whose task state does not show that.
    pub error: Option<&'a str>,
}
