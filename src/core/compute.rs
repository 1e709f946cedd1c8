//! Computations that can run in a worker: decoding a long request and storing the files in it, and encoding a long task. They would block
//! the loop for milliseconds, so above a limit they leave the core as [`Out::Compute`], a worker carries them out, and the result comes back
//! as [`Input::Computed`]. Below the limit the same functions run at once.
//!
//! While a worker decodes a request, nothing more is read from its connection, so requests stay in order. A task is encoded as it was when
//! the client asked for it: the state is shared with the worker, and the task's next event is applied to a copy. The answer waits for the
//! disk like every other one, and a stream that begins with a snapshot continues with the event behind it.

use crate::a2a::{self, Decoded, Form, OtherTools, View};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::http::{Request, Response};
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::readers::subscription::{FirstBody, Kind, Reply};
use crate::core::requests::Caller;
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::{Core, Input, Out};
use crate::limits::{CALL_BYTES, FAULT_CHARS, Limits};
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::blob::Blobs;
use crate::task::machine::state::State;
use std::fmt;
use std::sync::Arc;

/// Work for a worker.
pub struct Computation {
    recipient: Recipient,
    work: Work,
}

/// The work of a computation. It may store content.
type Work = Box<dyn FnOnce(&dyn Blobs) -> Computed + Send>;

/// The recipient of a result.
#[derive(Clone, Debug)]
pub enum Recipient {
    /// A connection whose request is being answered. `bytes` are counted as its memory until the result arrives; an error is encoded in
    /// this form.
    Connection { conn: Key, form: Form, bytes: usize },
    /// A subscription whose answer or first frame is encoded.
    Subscription(Key),
}

/// What was computed.
#[derive(Debug)]
pub enum Computed {
    /// A decoded HTTP request, and the request without its body.
    Request(Box<(Request, Decoded)>),
    /// A message on a WebSocket.
    Message(Box<Decoded>),
    Answer(Response),
    /// The first frame of a stream.
    Frame(Shared),
}

impl Computation {
    /// Does the work.
    pub fn run(self, blobs: &dyn Blobs) -> Input<'static> {
        Input::Computed { recipient: self.recipient, result: Ok((self.work)(blobs)) }
    }

    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }
}

impl fmt::Debug for Computation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Computation for {:?}", self.recipient)
    }
}

/// How much of a task is encoded. It determines the memory that is reserved for the result.
#[derive(Clone, Copy)]
pub(super) enum Extent {
    Whole,
    /// Only some of its messages.
    Part,
}

impl Extent {
    /// For an answer with this many of the newest messages, or with all.
    pub fn of(history: Option<usize>) -> Extent {
        if history.is_some() { Extent::Part } else { Extent::Whole }
    }
}

impl Core {
    /// Decodes a request.
    pub(super) fn decode(&mut self, conn: Key, request: Request, now: Now) {
        let bytes = request.body.len();
        if bytes <= self.settings.limits.inline_body_bytes {
            let decoded = a2a::decode(&request, &self.settings.switches);
            return self.decoded(conn, &request, decoded, now);
        }
        let form = self.form_at(conn, &request.path);
        let Some(bytes) = self.memory_for_request(conn, bytes) else {
            return self.refuse(conn, &form, &no_memory(), now);
        };
        let (switches, limits) = (self.settings.switches.clone(), self.settings.limits.clone());
        self.compute(conn, form, bytes, move |blobs| {
            let decoded = a2a::decode(&request, &switches);
            let decoded = within_limits(decoded, request.body.len(), blobs, &limits);
            Computed::Request(Box::new((Request { body: Vec::new(), ..request }, decoded)))
        });
    }

    /// Decodes a message on a WebSocket.
    pub(super) fn decode_message(&mut self, conn: Key, text: String, now: Now) {
        if !self.first_message(conn, &text) {
            return;
        }
        let Some(socket) = self.connections.get_mut(conn).and_then(|conn| conn.socket_mut()) else {
            return;
        };
        let bytes = text.len();
        if bytes <= self.settings.limits.inline_body_bytes {
            let decoded = a2a::decode_message(&text, &socket.caller.form, &self.settings.switches);
            return self.message_decoded(conn, decoded, now);
        }
        let form = socket.caller.form.clone();
        let Some(bytes) = self.memory_for_request(conn, bytes) else {
            return self.refuse(conn, &form, &no_memory(), now);
        };
        if let Some(socket) = self.connections.get_mut(conn).and_then(|conn| conn.socket_mut()) {
            socket.decoding = true;
        }
        let (joined, switches) = (form.clone(), self.settings.switches.clone());
        let limits = self.settings.limits.clone();
        self.compute(conn, form, bytes, move |blobs| {
            let decoded = a2a::decode_message(&text, &joined, &switches);
            Computed::Message(Box::new(within_limits(decoded, text.len(), blobs, &limits)))
        });
    }

    /// The memory that a long request of a connection takes; None if there is not enough.
    fn memory_for_request(&mut self, conn: Key, request_bytes: usize) -> Option<usize> {
        let reserved = self.settings.limits.reserved(request_bytes);
        // What was reserved while the request was read is free again.
        self.connections.count_memory(conn, &self.settings.limits);
        (self.settings.limits.memory.is_none() || self.has_memory(reserved, None)).then_some(reserved)
    }

    /// Answers with what `encode` returns; `bytes` is the length of the logs of the tasks that it encodes.
    pub(super) fn answer_encoded(
        &mut self,
        conn: Key,
        form: Form,
        (bytes, extent): (usize, Extent),
        encode: impl FnOnce(&Form) -> Response + Send + 'static,
        now: Now,
    ) {
        if bytes <= self.settings.limits.inline_log_bytes {
            self.answer(conn, &encode(&form), now);
            return self.read_on(conn, now);
        }
        let answered = form.clone();
        let reserved = self.reserved(bytes, extent);
        self.compute(conn, form, reserved, move |_| Computed::Answer(encode(&answered)));
    }

    /// Has a worker compute something for a connection.
    fn compute(
        &mut self,
        key: Key,
        form: Form,
        bytes: usize,
        work: impl FnOnce(&dyn Blobs) -> Computed + Send + 'static,
    ) {
        self.connections.begin_call(key);
        if let Some(conn) = self.connections.get_mut(key) {
            conn.worker_bytes += bytes;
        }
        let recipient = Recipient::Connection { conn: key, form, bytes };
        self.out.push(Out::Compute(Computation { recipient, work: Box::new(work) }));
        self.after_io(key);
    }

    /// Encodes the answer or the first frame of a subscription; `state` is its task when the client asked for it.
    pub(super) fn encode(
        &mut self,
        key: Key,
        state: &Arc<State>,
        extent: Extent,
        encode: impl FnOnce(&Form, View, &State) -> Computed + Send + 'static,
    ) {
        let Some(sub) = self.readers.get(key) else {
            return;
        };
        let view = sub.view;
        let bytes = self.tasks.get(&sub.task).map_or(0, LoadedTask::len_bytes);
        if bytes <= self.settings.limits.inline_log_bytes {
            let computed = encode(&sub.form, view, state);
            return self.encoded(key, computed);
        }
        let (form, state) = (sub.form.clone(), state.clone());
        let work = Box::new(move |_: &dyn Blobs| encode(&form, view, &state));
        let recipient = Recipient::Subscription(key);
        self.out.push(Out::Compute(Computation { recipient, work }));
        self.count_encoded(key, self.reserved(bytes, extent));
    }

    /// Answers with the metadata of a task. The declarations of tools of MCP servers are stored content, which a worker reads.
    pub(super) fn answer_metadata(&mut self, caller: &Caller, task: &TaskId) {
        let (state, tools) = (self.tasks[task].state.clone(), self.tools.shown.clone());
        let Some(set) = state.tools.clone().filter(|set| !set.others.is_empty()) else {
            self.answer_after(caller, task, a2a::metadata(&state, &tools, &OtherTools::default()));
            return;
        };
        let Some(key) = self.reply_after(caller, task, Reply::Encoding) else {
            return;
        };
        let bytes = usize::try_from(set.declarations.bytes).unwrap_or(usize::MAX);
        let work =
            move |blobs: &dyn Blobs| Computed::Answer(a2a::metadata(&state, &tools, &OtherTools::read(&set, blobs)));
        self.out.push(Out::Compute(Computation { recipient: Recipient::Subscription(key), work: Box::new(work) }));
        self.count_encoded(key, self.reserved(bytes, Extent::Part));
    }

    /// How much memory is reserved for the encoding of a task with a log of this length.
    fn reserved(&self, bytes: usize, extent: Extent) -> usize {
        let limits = &self.settings.limits;
        limits.encoded(match extent {
            Extent::Whole => bytes,
            Extent::Part => limits.inline_log_bytes.min(bytes),
        })
    }

    /// The result of [`Out::Compute`].
    pub(super) fn computed(&mut self, recipient: Recipient, result: Result<Computed, String>, now: Now) {
        let failed = |why: String| Fault::new(FaultKind::Overloaded { retry_after_s: 1 }, why);
        match (recipient, result) {
            (Recipient::Subscription(key), Ok(computed)) => self.encoded(key, computed),
            (Recipient::Subscription(key), Err(why)) => self.fail_subscription(key, &failed(why), now),
            (Recipient::Connection { conn: key, form, bytes }, result) => {
                let Some(conn) = self.connections.get_mut(key) else {
                    return;
                };
                conn.worker_bytes -= bytes;
                if let Some(socket) = conn.socket_mut() {
                    socket.decoding = false;
                }
                self.connections.end_call(key);
                match result {
                    Ok(Computed::Request(both)) => {
                        let (request, decoded) = *both;
                        self.decoded(key, &request, decoded, now);
                    }
                    Ok(Computed::Message(decoded)) => self.message_decoded(key, *decoded, now),
                    Ok(Computed::Answer(response)) => self.answer(key, &response, now),
                    Ok(Computed::Frame(_)) => unreachable!("frames are for subscriptions"),
                    Err(why) => self.refuse(key, &form, &failed(why), now),
                }
                self.read_on(key, now);
            }
        }
    }

    /// An answer or a first frame is ready; it is sent when what it shows is on disk.
    fn encoded(&mut self, key: Key, computed: Computed) {
        let Some(sub) = self.readers.get_mut(key) else {
            return;
        };
        let bytes = match (computed, &mut sub.kind, &mut sub.first) {
            (Computed::Answer(response), Kind::Ready { reply, .. }, _) => {
                let bytes = response.body.len();
                *reply = Reply::Answer(response);
                bytes
            }
            (Computed::Frame(frame), Kind::Stream, Some(first)) => {
                let bytes = frame.len();
                first.body = FirstBody::Frame(frame);
                bytes
            }
            (other, ..) => unreachable!("{other:?} was not asked for"),
        };
        self.count_encoded(key, bytes);
        self.readers.pump_later(&[key]);
    }

    /// Counts the bytes that are encoded or reserved for a subscription as memory of its connection.
    pub(super) fn count_encoded(&mut self, key: Key, bytes: usize) {
        if let Some(sub) = self.readers.get_mut(key)
            && let Some(conn) = self.connections.get_mut(sub.conn)
        {
            conn.encoded_bytes = conn.encoded_bytes - sub.encoded_bytes + bytes;
            sub.encoded_bytes = bytes;
            let conn = sub.conn;
            self.after_io(conn);
        }
    }
}

/// Stores the long texts and files of a request's message, so that the loop need not handle them. A request whose other members are too long
/// becomes an error.
fn within_limits(decoded: Decoded, request_bytes: usize, blobs: &dyn Blobs, limits: &Limits) -> Decoded {
    let (mut call, mut form) = match decoded {
        Ok(decoded) => decoded,
        Err((fault, form)) => return Err((fault.cut(FAULT_CHARS), form)),
    };
    let bytes = call.bytes_beside_content().map_or(request_bytes, |bytes| form.id.len() + bytes);
    if bytes > CALL_BYTES {
        if form.id.len() > CALL_BYTES {
            form.id = Shared::from(*b"null");
        }
        let message = format!(
            "The request has {bytes} bytes beside the texts and files of its message; {CALL_BYTES} are allowed. Texts and files may \
             be longer than that; data, metadata and edited contents may not."
        );
        return Err((Fault::new(FaultKind::TooLarge, message), form));
    }
    if let Call::Say(say) = &mut call
        && !Arc::make_mut(&mut say.said.message).store(blobs, limits)
    {
        let message = "A long text or file of the message cannot be stored. Look at /health, and send it again later.";
        return Err((Fault::new(FaultKind::Storage, message), form));
    }
    Ok((call, form))
}

/// The error for a long request for which there is no memory.
fn no_memory() -> Fault {
    let message = "Too much is under way; send it again in a moment.";
    Fault::new(FaultKind::Overloaded { retry_after_s: 1 }, message)
}

#[cfg(test)]
mod tests;
