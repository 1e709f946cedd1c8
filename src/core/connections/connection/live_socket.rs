//! A connection that became a WebSocket, or that a terminal or an editor has to this process.

use crate::a2a::acp::OpenRequests;
use crate::a2a::{Binding, Dialect, Form};
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::connections::connection::codec::Codec;
use crate::core::requests::Caller;
use crate::task::call::Follow;
use crate::wire::ws;

/// The state of a socket.
pub struct Socket {
    pub(super) codec: Codec,
    /// The client that opened it, with the dialect that it speaks.
    pub caller: Caller,
    pub follow: Follow,
    /// The task it follows, if it follows one: messages that name no task go there.
    pub task: Option<TaskId>,
    /// A worker decodes a message. The next message is read afterwards.
    pub decoding: bool,
    /// Nothing is sent before its first message, which may choose the dialect.
    pub greeting_pending: bool,
    /// Its client has agreed on no sub-protocol and sent no message yet.
    pub is_undecided: bool,
    /// The requests that were sent to an editor. None until the editor has sent `initialize`.
    pub requests: Option<OpenRequests>,
    /// When the peer last sent anything, in monotonic milliseconds.
    pub(super) last_received: u64,
}

impl Socket {
    pub(super) fn new(codec: Codec, caller: Caller, follow: Follow, task: Option<TaskId>, now: Now) -> Socket {
        let last_received = now.mono_ms;
        let dialect = caller.form.dialect;
        let mut socket = Socket {
            codec,
            caller,
            follow,
            task,
            decoding: false,
            greeting_pending: false,
            is_undecided: false,
            requests: None,
            last_received,
        };
        socket.speak(dialect);
        socket
    }

    /// Sets the dialect of the client.
    pub fn speak(&mut self, dialect: &'static Dialect) {
        if self.caller.form.dialect != dialect {
            self.caller.form = Form::of(dialect);
            self.caller.by.via = dialect.via.to_owned();
        }
        if let (Codec::WebSocket(codec), Binding::Acp) = (&mut self.codec, dialect.binding) {
            codec.set_binary(ws::Binary::Ignored);
        }
    }

    /// Whether its client, an editor, has sent `initialize`.
    pub fn is_introduced(&self) -> bool {
        self.requests.is_some()
    }

    /// The name of the way by which the calls of its client come: a dialect, or the terminal of this process.
    pub fn via(&self, form: &Form) -> String {
        match self.codec {
            Codec::WebSocket(_) => form.dialect.via.to_owned(),
            Codec::Lines(_) => self.caller.by.via.clone(),
        }
    }
}
