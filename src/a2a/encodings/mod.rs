//! A2A values, and how each protocol version spells them in JSON.

pub mod object;
pub mod proto;
pub mod v03;
pub mod value;

use crate::a2a::dialect::Writer;
use crate::base::id::ContextId;
use crate::task::log::event::Created;
use crate::task::message::Message;
use proto::Edition;
use value::{Finality, Frame, Task};

impl Writer {
    /// One event of a stream.
    pub fn frame(self, created: &Created, frame: &Frame<'_>, finality: Finality) -> Vec<u8> {
        match self {
            Writer::V03 => v03::frame(created, frame, finality),
            Writer::Proto03 => proto::frame(Edition::V03, created, frame, finality),
            Writer::V10 => proto::frame(Edition::V10, created, frame, finality),
        }
    }

    pub fn task(self, task: &Task<'_>) -> Vec<u8> {
        match self {
            Writer::V03 => v03::task(task),
            Writer::Proto03 => proto::task(Edition::V03, task),
            Writer::V10 => proto::task(Edition::V10, task),
        }
    }

    /// A message that belongs to no task.
    pub fn message(self, message: &Message, context: &ContextId) -> Vec<u8> {
        match self {
            Writer::V03 => v03::message(message, context),
            Writer::Proto03 => proto::message(Edition::V03, message, context),
            Writer::V10 => proto::message(Edition::V10, message, context),
        }
    }
}
