//! A connection that became a WebSocket, or that a terminal or an editor has to this process.

use crate::a2a::acp::OpenRequests;
use crate::a2a::{Binding, Dialect, Form};
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::connections::connection::codec::Codec;
use crate::core::requests::Caller;
use crate::task::call::Follow;
use crate::wire::ws;

/// What a socket is and follows.
pub struct Socket {
    pub(super) codec: Codec,
    /// Who joined, with the dialect that was chosen then.
    pub caller: Caller,
    pub follow: Follow,
    /// The task it follows, if it follows one: messages that name no task go there.
    pub task: Option<TaskId>,
    /// A message is being decoded. The next one is read afterwards.
    pub decoding: bool,
    /// It is not greeted before its first message.
    pub greeting_pending: bool,
    /// Its client has agreed on no dialect and sent nothing.
    pub is_undecided: bool,
    /// What an editor was asked, since it has said who it is.
    pub requests: Option<OpenRequests>,
    /// When the peer last sent anything.
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

    /// From now on its client speaks this dialect.
    pub fn speak(&mut self, dialect: &'static Dialect) {
        if self.caller.form.dialect != dialect {
            self.caller.form = Form::of(dialect);
            self.caller.by.via = dialect.via.to_owned();
        }
        if let (Codec::WebSocket(codec), Binding::Acp) = (&mut self.codec, dialect.binding) {
            codec.set_binary(ws::Binary::Ignored);
        }
    }

    /// Whether its client has said who it is, in the dialect in which clients do.
    pub fn is_introduced(&self) -> bool {
        self.requests.is_some()
    }

    /// How the calls of its client come, by a dialect or from the terminal of this process.
    pub fn via(&self, form: &Form) -> String {
        match self.codec {
            Codec::WebSocket(_) => form.dialect.via.to_owned(),
            Codec::Lines(_) => self.caller.by.via.clone(),
        }
    }
}
