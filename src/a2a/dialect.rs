//! The dialects as data, one row each. The fields of a row say how requests of the dialect are answered. Only the decoders of WebSocket
//! messages and of JSON-RPC, which choose a dialect, compare dialects. A new dialect is a row in `dialects!`, and a file in `views` if
//! it writes its own objects.

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
    /// The source of its prompts, as other clients are shown it.
    pub via: &'static str,
    /// The A2A version whose rules its requests follow.
    pub protocol: Protocol,
    pub binding: Binding,
    /// The profile of requests that ask for none, on tasks of another version.
    pub default_profile: Profile,
    /// Whether the operator's `default_profile_03` replaces the default profile.
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

/// The envelope of results, and the form of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// JSON-RPC 2.0; the events of streams are wrapped in responses too.
    JsonRpc,
    /// A2A over REST: results have no envelope; errors are as the A2A version defines them.
    Rest,
    /// Results have no envelope; errors are `{"error": text}`.
    Bare,
    /// `gemini-a2a.v1`: results and errors have the id of their call; events have none. A subscription begins with the first event of
    /// the log unless the client names a position.
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

/// What ends a stream before the end of the task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The end of the turn, a question, or a missing credential: whatever leaves the task waiting for the user.
    WithTurn,
    /// The same, except a missing credential.
    WithTurnButAuth,
    /// The same, except questions.
    WithTurnButQuestions,
    /// The end of a turn, which the view shows as the end of the task.
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
    /// The id of the task that runs the slash command, for the client to watch.
    CommandReceipt,
    /// Why the turn has ended.
    StopReason,
    /// An empty object.
    Nothing,
    /// The configuration options of the task with their values.
    Options,
}

/// How a task, a list of tasks and the list of commands are written.
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

/// Which task receives a message that names no task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unaddressed {
    NewTask,
    /// An answer goes to the task whose call it is about; a prompt creates a task.
    Asking,
    /// An answer goes to the task whose call it is about; a prompt goes to the live session.
    Session,
}

/// Everything that the encoding of an event depends on: the key of the body cache. Requests that differ only in their id have equal views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// A writer of A2A values, and the profile that events are projected to.
    A2a(Writer, Profile, Outputs),
    Standalone(&'static Standalone),
}

/// A view that writes its own objects instead of A2A values.
#[derive(Debug)]
pub struct Standalone {
    /// Unique. Selects the view in `gemini-a2a replay`.
    pub name: &'static str,
    /// The state is the one right after the record. None: the event is not shown.
    pub event: fn(&State, &Record, &Tools) -> Option<Body>,
    /// A closing frame of the current status. None: the dialect has none.
    pub current_status: fn(&State) -> Option<Vec<u8>>,
    /// Writes the whole task. None: the task is written as in A2A 0.3.
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

/// What a client of the plain profile asks for beyond whole texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// The calls of a question as data parts.
    pub data: bool,
    /// Answers are streamed in pieces instead of whole.
    pub pieces: bool,
}

impl Outputs {
    pub const TEXT: Outputs = Outputs { data: false, pieces: false };
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

/// Defines the constants of the dialects, and `Dialect::ALL`.
macro_rules! dialects {
    ($($(#[doc = $doc:literal])* $name:ident = $row:expr;)*) => {
        impl Dialect {
            $($(#[doc = $doc])* pub const $name: &Dialect = &$row;)*

            pub const ALL: [&Dialect; [$(stringify!($name)),*].len()] = [$(Dialect::$name),*];
        }
    };
}

dialects! {
    RPC_03 = Dialect { name: "json-rpc-0.3", binding: Binding::JsonRpc, sub_protocol: Some("a2a.v0.3"), ..A2A_03 };
    RPC_10 = Dialect { name: "json-rpc-1.0", binding: Binding::JsonRpc, sub_protocol: Some("a2a.v1.0"), ..A2A_10 };
    /// REST of 0.3 with the names of its protobuf definition.
    REST_03_PROTO = Dialect { name: "rest-0.3-proto", writer: Writer::Proto03, ..A2A_03 };
    /// REST of 0.3 with the names of its JSON schema.
    REST_03_JSON = Dialect { name: "rest-0.3-json", ..A2A_03 };
    REST_10 = Dialect { name: "rest-1.0", ..A2A_10 };
    GEMINI = GEMINI;
    MESSAGE_STREAM = Dialect {
        name: "message-stream",
        view: Some(View::Standalone(message_stream::VIEW)),
        prompt_stream: (Begins::NextEvent, Ends::WithTurn),
        prompt_path: Some("/message/stream"),
        ..GEMINI
    };
    EXECUTE_STREAM = Dialect {
        name: "execute-stream",
        view: Some(View::Standalone(execute_stream::VIEW)),
        prompt_stream: (Begins::NextEvent, Ends::WithTurnButQuestions),
        prompt_path: Some("/tasks/{task}/execute"),
        ..GEMINI
    };
    /// The live session: the broadcast of `/ws`, and the stream of a prompt over HTTP.
    SESSION = Dialect {
        name: "session",
        view: Some(View::Standalone(session::VIEW)),
        prompt_stream: (Begins::AfterPrompt, Ends::WithTurn),
        // Chromium fails a handshake in which the server selects none of the sub-protocols that the page offers.
        sub_protocol: Some("session"),
        prompt_path: Some("/tasks/{task}/messages/stream"),
        ..LIVE
    };
    /// JSON-RPC over the `/ws` of a live session: prompts are acknowledged, and their events are in the broadcast.
    SESSION_CALL = Dialect {
        name: "session-call",
        binding: Binding::JsonRpc,
        prompt_stream: (Begins::NextEvent, Ends::Never),
        ..LIVE
    };
    NATIVE = Dialect {
        name: "gemini-a2a.v1",
        via: "gemini-a2a",
        binding: Binding::Native,
        view: Some(View::Standalone(native::VIEW)),
        prompt_stream: (Begins::NextEvent, Ends::Never),
        watch_stream: (Begins::NextEvent, Ends::WithTask),
        sub_protocol: Some("gemini-a2a.v1"),
        ..LIVE
    };
    /// An editor that has sessions of its own.
    ACP = Dialect {
        name: "acp",
        via: acp::VIA,
        binding: Binding::Acp,
        view: Some(View::Standalone(acp::VIEW)),
        prompt_waits: Ends::WithTurnButQuestions,
        prompt_answer: PromptAnswer::StopReason,
        unaddressed: Unaddressed::NewTask,
        ..LIVE
    };
    /// An editor that shares the live session.
    ACP_SESSION = Dialect {
        name: "acp-session",
        unaddressed: Unaddressed::Session,
        sub_protocol: Some("acp"),
        ..*Dialect::ACP
    };
}

/// The views of A2A values, by the names that select them in `gemini-a2a replay`.
const A2A_VIEWS: [(&str, View); 7] = [
    ("a2a-0.3", View::A2a(Writer::V03, Profile::Plain, Outputs::TEXT)),
    ("a2a-0.3-devtool", View::A2a(Writer::V03, Profile::Devtool, Outputs::TEXT)),
    ("a2a-0.3-coder", View::A2a(Writer::V03, Profile::Coder, Outputs::TEXT)),
    ("a2a-0.3-rest", View::A2a(Writer::Proto03, Profile::Plain, Outputs::TEXT)),
    ("a2a-1.0", View::A2a(Writer::V10, Profile::Plain, Outputs::TEXT)),
    ("a2a-1.0-devtool", View::A2a(Writer::V10, Profile::Devtool, Outputs::TEXT)),
    ("a2a-1.0-coder", View::A2a(Writer::V10, Profile::Coder, Outputs::TEXT)),
];

/// All views, by the names that select them in `gemini-a2a replay`.
pub fn named_views() -> impl Iterator<Item = (&'static str, View)> {
    let standalone = |dialect: &Dialect| match dialect.view {
        Some(View::Standalone(view)) => Some((view.name, View::Standalone(view))),
        Some(View::A2a(..)) | None => None,
    };
    // This dialect has the view of `ACP`.
    let own = Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::ACP_SESSION).filter_map(standalone);
    A2A_VIEWS.into_iter().chain(own)
}

impl View {
    /// How the view shows an idle task that was created with the profile `made`. A task of a plain client is idle only if the operator
    /// configured such tasks to continue after a turn; it is shown as `input-required` then.
    pub fn idle(self, made: Profile) -> Idle {
        match self {
            View::A2a(_, Profile::Coder, _) => Idle::InputRequired,
            View::A2a(_, Profile::Plain, _) if made == Profile::Plain => Idle::InputRequired,
            View::A2a(_, Profile::Devtool | Profile::Plain, _) => Idle::Outcome,
            View::Standalone(view) => view.idle,
        }
    }

    /// The state of the task as the view shows it.
    pub fn state(self, state: &State) -> TaskState {
        self.idle(state.created.profile).show(state.status.state, state.outcome())
    }

    /// Whether the view shows long texts themselves. The native view shows only their hashes.
    pub fn shows_texts(self) -> bool {
        self != View::Standalone(native::VIEW)
    }

    /// Whether clients answer questions in plain text: plain clients need not know tool calls, so their texts are parsed for answers.
    pub fn answers_in_words(self) -> bool {
        matches!(self, View::A2a(_, Profile::Plain, _))
    }

    /// Whether the view projects to the profile of the reference server's own clients.
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
        let views: Vec<(&str, View)> = named_views().collect();
        for (i, (name, view)) in views.iter().enumerate() {
            assert!(views[..i].iter().all(|(earlier, other)| earlier != name && other != view), "{view:?}");
        }
    }
}
