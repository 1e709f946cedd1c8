//! The dialects as data, one row each. A row says how requests of the dialect are answered; the code reads its fields. Only
//! the decoders of WebSocket messages and of JSON-RPC, which choose a dialect, compare dialects. A new dialect is a row here, and a file in `views` if it writes objects of its own.

use crate::a2a::Body;
use crate::a2a::acp;
use crate::a2a::native;
use crate::a2a::views::tools::Tools;
use crate::a2a::views::{execute_stream, message_stream, session};
use crate::a2a::words::Idle;
use crate::task::log::event::{Profile, Protocol};
use crate::task::log::record::Record;
use crate::task::machine::state::{State, TaskState};

#[derive(Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Unique.
    pub name: &'static str,
    /// How other clients are told that a prompt came in this dialect.
    pub via: &'static str,
    /// The A2A version whose rules its requests follow.
    pub protocol: Protocol,
    pub binding: Binding,
    /// The profile of requests that ask for none, on tasks of another version.
    pub default_profile: Profile,
    /// The operator may set another default profile.
    pub has_profile_switch: bool,
    /// How A2A values are written.
    pub writer: Writer,
    /// The view of dialects that have only one; otherwise it depends on the writer, the profile and the outputs of a request.
    pub view: Option<View>,
    pub prompt_stream: (Begins, Ends),
    pub watch_stream: (Begins, Ends),
    /// What a prompt that asks for no stream waits for.
    pub prompt_waits: Ends,
    /// The answer to a prompt that asks for no stream. Slash commands have answers of their own.
    pub prompt_answer: PromptAnswer,
    pub answers: Answers,
    pub lists: Lists,
    pub unaddressed: Unaddressed,
    /// The WebSocket sub-protocol that selects it.
    pub sub_protocol: Option<&'static str>,
    /// The path that takes prompts in this dialect, beside those of A2A.
    pub prompt_path: Option<&'static str>,
}

/// What is around results and how errors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// JSON-RPC 2.0, around the events of streams too.
    JsonRpc,
    /// A2A over REST: nothing around results; errors as the version defines them.
    Rest,
    /// Nothing around results; errors are `{"error": text}`.
    Bare,
    /// `gemini-a2a.v1`: results and errors carry the id of the call; events belong to no call, and begin with the first one of the
    /// log unless the client names a position.
    Native,
    /// The Agent Client Protocol: JSON-RPC 2.0 in both directions; events are notifications, and a request without an id is never
    /// answered.
    Acp,
}

/// How a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// With the task.
    Snapshot,
    /// With the task if the request created it, otherwise with the next event.
    SnapshotIfCreated,
    /// With the event after the prompt: the client knows what it sent.
    AfterPrompt,
    NextEvent,
}

/// What a stream ends with, beside the end of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The end of the turn, a question, or a missing credential: whatever leaves the task waiting for the user.
    WithTurn,
    /// The same, except a missing credential.
    WithTurnButAuth,
    /// The same, except questions.
    WithTurnButQuestions,
    /// The end of a turn that the view shows as the end of the task.
    WhenShownOver,
    /// Nothing.
    WithTask,
    /// Nothing, not even the end of the task: the stream lasts as long as its connection.
    Never,
}

/// The answer to a prompt that asked for no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptAnswer {
    Task,
    /// `{"taskId", "accepted"}`: the client sees the rest on its socket.
    Accepted,
    /// The data that the slash command produced.
    CommandResult,
    /// That the slash command was started, and the task to watch.
    CommandReceipt,
    /// Why the turn has ended.
    StopReason,
    /// An empty object.
    Nothing,
    /// What can be chosen in the task, and what is.
    Options,
}

/// The form of answers to requests for a task, for tasks or for commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    A2a,
    /// As the reference server's own endpoints answer.
    Gemini,
}

/// How a list of whole tasks is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    Array,
    Pages,
}

/// Which task a message is for that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unaddressed {
    NewTask,
    /// An answer is for the task that asked about its call, a prompt makes a new task.
    Asking,
    /// The same, but a prompt is for the live session.
    Session,
}

/// What a body depends on: the key of the body cache. Requests that differ only in their id share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// A writer of A2A values, and the profile that events are projected to.
    A2a(Writer, Profile, Outputs),
    Standalone(&'static Standalone),
}

/// A view that writes objects of its own.
#[derive(Debug)]
pub struct Standalone {
    /// Unique.
    pub name: &'static str,
    /// The state is the one right after the record. None: the event is not shown.
    pub event: fn(&State, &Record, &Tools) -> Option<Body>,
    /// A closing frame of the present status. None: the dialect has none.
    pub present: fn(&State) -> Option<Vec<u8>>,
    /// The task as a whole; without it, as A2A 0.3 writes it.
    pub snapshot: Option<fn(&State) -> Vec<u8>>,
    pub idle: Idle,
}

/// How A2A values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    V03,
    /// 0.3 with the names of its protobuf definition.
    Proto03,
    V10,
}

/// What a client of the plain profile asks for beside words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// The calls of a question as data parts.
    pub data: bool,
    /// Answers in pieces as they come, instead of whole.
    pub pieces: bool,
}

impl Outputs {
    pub const WORDS: Outputs = Outputs { data: false, pieces: false };
}

/// What the JSON-RPC and REST bindings of a version share.
const A2A_03: Dialect = Dialect {
    name: "",
    via: "a2a-0.3",
    protocol: Protocol::V03,
    binding: Binding::Rest,
    default_profile: Profile::Plain,
    has_profile_switch: true,
    writer: Writer::V03,
    view: None,
    prompt_stream: (Begins::SnapshotIfCreated, Ends::WithTurn),
    watch_stream: (Begins::Snapshot, Ends::WithTurn),
    prompt_waits: Ends::WithTurn,
    prompt_answer: PromptAnswer::Task,
    answers: Answers::A2a,
    lists: Lists::Array,
    unaddressed: Unaddressed::NewTask,
    sub_protocol: None,
    prompt_path: None,
};

const A2A_10: Dialect = Dialect {
    via: "a2a-1.0",
    protocol: Protocol::V10,
    has_profile_switch: false,
    writer: Writer::V10,
    prompt_stream: (Begins::Snapshot, Ends::WithTurnButAuth),
    watch_stream: (Begins::Snapshot, Ends::WithTask),
    lists: Lists::Pages,
    ..A2A_03
};

/// What the endpoints of the reference server and of the documents around it share.
const GEMINI: Dialect = Dialect {
    name: "gemini",
    via: "gemini",
    binding: Binding::Bare,
    default_profile: Profile::Coder,
    has_profile_switch: false,
    answers: Answers::Gemini,
    unaddressed: Unaddressed::Asking,
    ..A2A_03
};

/// What the dialects of the live session share.
const LIVE: Dialect = Dialect {
    via: "session",
    binding: Binding::Bare,
    default_profile: Profile::Coder,
    has_profile_switch: false,
    watch_stream: (Begins::NextEvent, Ends::Never),
    prompt_answer: PromptAnswer::Accepted,
    lists: Lists::Pages,
    unaddressed: Unaddressed::Session,
    ..A2A_03
};

impl Dialect {
    pub const RPC_03: &Dialect =
        &Dialect { name: "json-rpc-0.3", binding: Binding::JsonRpc, sub_protocol: Some("a2a.v0.3"), ..A2A_03 };
    pub const RPC_10: &Dialect =
        &Dialect { name: "json-rpc-1.0", binding: Binding::JsonRpc, sub_protocol: Some("a2a.v1.0"), ..A2A_10 };
    /// REST of 0.3 with the names of its protobuf definition, and with those of its JSON schema.
    pub const REST_03_PROTO: &Dialect = &Dialect { name: "rest-0.3-proto", writer: Writer::Proto03, ..A2A_03 };
    pub const REST_03_JSON: &Dialect = &Dialect { name: "rest-0.3-json", ..A2A_03 };
    pub const REST_10: &Dialect = &Dialect { name: "rest-1.0", ..A2A_10 };
    pub const GEMINI: &Dialect = &GEMINI;
    pub const MESSAGE_STREAM: &Dialect = &Dialect {
        name: "message-stream",
        view: Some(View::Standalone(message_stream::VIEW)),
        prompt_stream: (Begins::NextEvent, Ends::WithTurn),
        prompt_path: Some("/message/stream"),
        ..GEMINI
    };
    pub const EXECUTE_STREAM: &Dialect = &Dialect {
        name: "execute-stream",
        view: Some(View::Standalone(execute_stream::VIEW)),
        prompt_stream: (Begins::NextEvent, Ends::WithTurnButQuestions),
        prompt_path: Some("/tasks/{task}/execute"),
        ..GEMINI
    };
    /// The live session: the broadcast of `/ws`, and the stream of a prompt over HTTP.
    pub const SESSION: &Dialect = &Dialect {
        name: "session",
        view: Some(View::Standalone(session::VIEW)),
        prompt_stream: (Begins::AfterPrompt, Ends::WithTurn),
        // Chromium fails a handshake that accepts none of what its page offers.
        sub_protocol: Some("session"),
        prompt_path: Some("/tasks/{task}/messages/stream"),
        ..LIVE
    };
    /// JSON-RPC over the `/ws` of a live session: prompts are accepted, and seen in the broadcast.
    pub const SESSION_CALL: &Dialect = &Dialect {
        name: "session-call",
        binding: Binding::JsonRpc,
        prompt_stream: (Begins::NextEvent, Ends::Never),
        ..LIVE
    };
    pub const NATIVE: &Dialect = &Dialect {
        name: "gemini-a2a.v1",
        via: "gemini-a2a",
        binding: Binding::Native,
        view: Some(View::Standalone(native::VIEW)),
        prompt_stream: (Begins::NextEvent, Ends::Never),
        watch_stream: (Begins::NextEvent, Ends::WithTask),
        sub_protocol: Some("gemini-a2a.v1"),
        ..LIVE
    };
    /// An editor: it has sessions of its own.
    pub const ACP: &Dialect = &Dialect {
        name: "acp",
        via: acp::VIA,
        binding: Binding::Acp,
        view: Some(View::Standalone(acp::VIEW)),
        prompt_waits: Ends::WithTurnButQuestions,
        prompt_answer: PromptAnswer::StopReason,
        unaddressed: Unaddressed::NewTask,
        ..LIVE
    };
    /// The same, for a client that shares the live session.
    pub const ACP_SESSION: &Dialect =
        &Dialect { name: "acp-session", unaddressed: Unaddressed::Session, sub_protocol: Some("acp"), ..*Dialect::ACP };

    pub const ALL: [&Dialect; 13] = [
        Dialect::RPC_03,
        Dialect::RPC_10,
        Dialect::REST_03_PROTO,
        Dialect::REST_03_JSON,
        Dialect::REST_10,
        Dialect::GEMINI,
        Dialect::MESSAGE_STREAM,
        Dialect::EXECUTE_STREAM,
        Dialect::SESSION,
        Dialect::SESSION_CALL,
        Dialect::NATIVE,
        Dialect::ACP,
        Dialect::ACP_SESSION,
    ];
}

/// The names by which people select a view, in `gemini-a2a replay`.
pub const DIALECTS: [(&str, View); 12] = [
    ("a2a-0.3", View::A2a(Writer::V03, Profile::Plain, Outputs::WORDS)),
    ("a2a-0.3-devtool", View::A2a(Writer::V03, Profile::Devtool, Outputs::WORDS)),
    ("a2a-0.3-coder", View::A2a(Writer::V03, Profile::Coder, Outputs::WORDS)),
    ("a2a-0.3-rest", View::A2a(Writer::Proto03, Profile::Plain, Outputs::WORDS)),
    ("a2a-1.0", View::A2a(Writer::V10, Profile::Plain, Outputs::WORDS)),
    ("a2a-1.0-devtool", View::A2a(Writer::V10, Profile::Devtool, Outputs::WORDS)),
    ("a2a-1.0-coder", View::A2a(Writer::V10, Profile::Coder, Outputs::WORDS)),
    ("kebab", View::Standalone(message_stream::VIEW)),
    ("snake", View::Standalone(execute_stream::VIEW)),
    ("session", View::Standalone(session::VIEW)),
    ("own", View::Standalone(native::VIEW)),
    ("acp", View::Standalone(acp::VIEW)),
];

impl View {
    /// How it shows an idle task that was made in the profile `made`. A plain client's own task is idle only if the operator wants
    /// such tasks to go on; then its state says so.
    pub fn idle(self, made: Profile) -> Idle {
        match self {
            View::A2a(_, Profile::Coder, _) => Idle::InputRequired,
            View::A2a(_, Profile::Plain, _) if made == Profile::Plain => Idle::InputRequired,
            View::A2a(_, Profile::Devtool | Profile::Plain, _) => Idle::Outcome,
            View::Standalone(view) => view.idle,
        }
    }

    /// The state that it shows of a task.
    pub fn state(self, state: &State) -> TaskState {
        self.idle(state.created.profile).show(state.status.state, state.outcome())
    }

    /// Whether it shows long texts themselves and not only their hashes.
    pub fn shows_texts(self) -> bool {
        self != View::Standalone(native::VIEW)
    }

    /// Whether its clients may know nothing of tool calls, so that a text is examined for an answer to a question.
    pub fn answers_in_words(self) -> bool {
        matches!(self, View::A2a(_, Profile::Plain, _))
    }

    /// Whether it is the profile of the reference server's own clients.
    pub fn is_coder(self) -> bool {
        matches!(self, View::A2a(_, Profile::Coder, _))
    }

    /// The writer of messages and of tasks as a whole.
    pub fn writer(self) -> Writer {
        match self {
            View::A2a(writer, ..) => writer,
            View::Standalone(_) => Writer::V03,
        }
    }
}

impl PartialEq for Standalone {
    fn eq(&self, other: &Standalone) -> bool {
        self.name == other.name
    }
}

impl Eq for Standalone {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = Dialect::ALL.iter().map(|dialect| dialect.name).collect();
        assert_eq!(names.len(), Dialect::ALL.len());
        for (i, (_, view)) in DIALECTS.iter().enumerate() {
            assert!(DIALECTS[..i].iter().all(|(_, before)| before != view), "{view:?}");
        }
    }
}
