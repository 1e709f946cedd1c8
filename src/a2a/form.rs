//! How one request wants to be answered: everything the core must remember of a dialect while it works on the request, and
//! the wrapper around each result. The same body goes to clients with different request ids; only the wrapper differs, so it
//! is kept apart from the body.

use crate::a2a::requests::route;
use crate::a2a::switches::{RestStatus, Switches};
use crate::base::Shared;
use crate::base::id::Tenant;
use crate::task::log::event::{Created, Profile, Protocol};
use crate::task::machine::state::TaskState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub envelope: Envelope,
    /// The JSON-RPC id as JSON, in the type the client gave it; `null` if there is none.
    pub id: Shared,
    /// A failure before the first event goes out as one SSE frame: kits that asked for a stream refuse a JSON body.
    pub stream_errors: bool,
    /// The profile the request asks for; None leaves it to the task.
    pub profile: Option<Profile>,
    /// The profile of those who ask for none, on tasks of another version.
    pub default_profile: Profile,
    pub media: Media,
    pub outputs: Outputs,
    pub shows: Shows,
    /// The partition the request is about.
    pub tenant: Tenant,
    /// Response headers that name the extensions in use: one per spelling of the header that the client used.
    pub echo: Vec<(&'static str, String)>,
    pub rest_status: RestStatus,
    /// How the answer to a creation is written.
    pub birth_note: BirthNote,
    /// Nothing but an error is answered: the request came over a socket and has no id.
    pub silent: bool,
}

/// The frame around results and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// JSON-RPC of A2A 0.3, and of 1.0.
    Rpc03,
    Rpc10,
    /// REST of A2A 0.3 with the names of its protobuf definition, and with those of its JSON one.
    Rest03Proto,
    Rest03Json,
    Rest10,
    /// The bare JSON of the reference server's own endpoints.
    Gemini,
    /// The stream of `POST /message/stream`.
    Kebab,
    /// The stream of `POST /tasks/{id}/execute`.
    Snake,
    /// The stream of `POST /tasks/{id}/messages/stream` and the broadcast of `/ws`.
    Session,
    /// JSON-RPC over `/ws` by clients that get the broadcast: what they say is acknowledged, and seen there.
    Socket,
    /// Our own dialect: records of the journal.
    Own,
}

/// Whose language a request is in. An envelope is one way to speak it; what does not depend on the way is decided by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tongue {
    A2a(Protocol),
    /// Of the reference server and the documents around it, beside JSON-RPC.
    Gemini,
    /// Of those who share the live session.
    Session,
    Own,
}

/// The Content-Type of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    A2aJson,
}

/// What the answer to something said is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// The task that came of it.
    Task,
    /// What the command left for programs.
    Result,
    /// That the command was started, and where to watch it.
    Receipt,
}

/// What a client is told of the task it had made without a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BirthNote {
    /// The bare id.
    Id,
    /// The id and the state.
    State,
}

/// What a client can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    Any,
    /// Data parts become text, where the profile leaves that open.
    Text,
}

impl Form {
    pub fn of(envelope: Envelope) -> Form {
        Form {
            envelope,
            id: Shared::from(*b"null"),
            stream_errors: false,
            profile: None,
            default_profile: match envelope.protocol() {
                Protocol::V03 => Profile::Coder,
                Protocol::V10 => Profile::Plain,
            },
            media: Media::Json,
            outputs: Outputs::Any,
            shows: Shows::Task,
            tenant: Tenant::default(),
            echo: Vec::new(),
            rest_status: RestStatus::V101,
            birth_note: BirthNote::Id,
            silent: false,
        }
    }

    /// The form of an envelope where the operator has a say.
    pub fn under(envelope: Envelope, switches: &Switches) -> Form {
        let form = Form::of(envelope);
        Form {
            rest_status: switches.rest_status,
            default_profile: match envelope.tongue() {
                Tongue::A2a(Protocol::V03) => switches.default_profile_03,
                Tongue::A2a(Protocol::V10) | Tongue::Gemini | Tongue::Session | Tongue::Own => form.default_profile,
            },
            ..form
        }
    }

    /// The form for a request at this path whose body nobody has read (yet, or because it is too large).
    pub fn at(path: &str) -> Form {
        Form::of(route::envelope_at(path))
    }

    /// The dialect's name for others, e.g. beside a prompt somebody else sent.
    pub fn via(&self) -> &'static str {
        match self.envelope.tongue() {
            Tongue::A2a(Protocol::V03) => "a2a-0.3",
            Tongue::A2a(Protocol::V10) => "a2a-1.0",
            Tongue::Gemini => "gemini",
            Tongue::Session => "session",
            Tongue::Own => "gemini-a2a",
        }
    }
}

impl Envelope {
    pub fn tongue(self) -> Tongue {
        match self {
            Envelope::Rpc03 | Envelope::Rest03Proto | Envelope::Rest03Json => Tongue::A2a(Protocol::V03),
            Envelope::Rpc10 | Envelope::Rest10 => Tongue::A2a(Protocol::V10),
            Envelope::Gemini | Envelope::Kebab | Envelope::Snake => Tongue::Gemini,
            Envelope::Session | Envelope::Socket => Tongue::Session,
            Envelope::Own => Tongue::Own,
        }
    }

    /// How A2A values are spelled in it, where it has any.
    pub fn writer(self) -> Writer {
        match self.tongue() {
            Tongue::A2a(Protocol::V10) => Writer::V10,
            Tongue::A2a(Protocol::V03) if self == Envelope::Rest03Proto => Writer::Proto03,
            Tongue::A2a(Protocol::V03) | Tongue::Gemini | Tongue::Session | Tongue::Own => Writer::V03,
        }
    }

    /// The version whose rules its requests follow.
    pub fn protocol(self) -> Protocol {
        match self.tongue() {
            Tongue::A2a(protocol) => protocol,
            Tongue::Gemini | Tongue::Session | Tongue::Own => Protocol::V03,
        }
    }
}

/// What a body depends on: the key of the body cache. Requests that differ only in their id share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum View {
    A2a(Writer, Projection),
    Kebab,
    Snake,
    Session,
    /// The record as it is in the journal.
    Own,
}

/// How A2A values are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Writer {
    V03,
    /// 0.3 with the names of its protobuf definition.
    Proto03,
    V10,
}

impl Writer {
    /// The version it writes.
    pub fn protocol(self) -> Protocol {
        match self {
            Writer::V03 | Writer::Proto03 => Protocol::V03,
            Writer::V10 => Protocol::V10,
        }
    }
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Projection {
    Coder,
    Devtool,
    Plain,
    /// Plain, for clients that show text only.
    PlainText,
}

/// What every view is called by people.
pub const DIALECTS: [(&str, View); 11] = [
    ("a2a-0.3", View::A2a(Writer::V03, Projection::Coder)),
    ("a2a-0.3-devtool", View::A2a(Writer::V03, Projection::Devtool)),
    ("a2a-0.3-plain", View::A2a(Writer::V03, Projection::Plain)),
    ("a2a-0.3-rest", View::A2a(Writer::Proto03, Projection::Coder)),
    ("a2a-1.0", View::A2a(Writer::V10, Projection::Plain)),
    ("a2a-1.0-devtool", View::A2a(Writer::V10, Projection::Devtool)),
    ("a2a-1.0-coder", View::A2a(Writer::V10, Projection::Coder)),
    ("kebab", View::Kebab),
    ("snake", View::Snake),
    ("session", View::Session),
    ("own", View::Own),
];

/// The view of a request on a task: what the request asks for, else what the task was created with if that was under the same
/// version, else the default of the version.
pub fn view(form: &Form, task: Option<&Created>) -> View {
    view_of(form, task.map(|created| (created.protocol, created.profile)))
}

/// The same, of a task that is known by what it was created with.
pub fn view_of(form: &Form, born: Option<(Protocol, Profile)>) -> View {
    let writer = match form.envelope {
        Envelope::Kebab => return View::Kebab,
        Envelope::Snake => return View::Snake,
        Envelope::Session => return View::Session,
        Envelope::Own => return View::Own,
        Envelope::Rpc03
        | Envelope::Rpc10
        | Envelope::Rest03Proto
        | Envelope::Rest03Json
        | Envelope::Rest10
        | Envelope::Gemini
        | Envelope::Socket => form.envelope.writer(),
    };
    let born = born.filter(|(protocol, _)| *protocol == form.envelope.protocol());
    let profile = form.profile.or(born.map(|(_, profile)| profile));
    let projection = match (profile.unwrap_or(form.default_profile), form.outputs) {
        (Profile::Coder, _) => Projection::Coder,
        (Profile::Devtool, _) => Projection::Devtool,
        (Profile::Plain, Outputs::Any) => Projection::Plain,
        (Profile::Plain, Outputs::Text) => Projection::PlainText,
    };
    View::A2a(writer, projection)
}

impl View {
    /// What a state is shown as.
    pub fn state(self, state: TaskState, idle: bool) -> TaskState {
        match state {
            TaskState::InputRequired if idle && self.idle_is_completed() => TaskState::Completed,
            state => state,
        }
    }

    /// Whether a task that waits for the next prompt is shown as completed.
    pub fn idle_is_completed(self) -> bool {
        match self {
            View::A2a(_, Projection::Devtool) | View::Kebab | View::Snake => true,
            View::A2a(_, Projection::Coder | Projection::Plain | Projection::PlainText) | View::Session | View::Own => {
                false
            }
        }
    }

    /// Whether its clients may know nothing of tool calls, so that their words are looked at for an answer.
    pub fn answers_in_words(self) -> bool {
        match self {
            View::A2a(_, Projection::Plain | Projection::PlainText) => true,
            View::A2a(_, Projection::Coder | Projection::Devtool)
            | View::Kebab
            | View::Snake
            | View::Session
            | View::Own => false,
        }
    }

    /// Whether it is the profile of the reference server's own clients.
    pub fn is_coder(self) -> bool {
        matches!(self, View::A2a(_, Projection::Coder))
    }

    /// Whether its readers take a member that is there but empty for a mistake.
    pub fn omits_empty(self) -> bool {
        match self {
            View::A2a(Writer::Proto03 | Writer::V10, _) => true,
            View::A2a(Writer::V03, _) | View::Kebab | View::Snake | View::Session | View::Own => false,
        }
    }
}

/// The name under which a socket agrees to speak a dialect; None for the one that needs no name.
pub fn sub_protocol(form: &Form) -> Option<&'static str> {
    match form.envelope {
        Envelope::Rpc03 => Some("a2a.v0.3"),
        Envelope::Rpc10 => Some("a2a.v1.0"),
        Envelope::Own => Some("gemini-a2a.v1"),
        Envelope::Rest03Proto
        | Envelope::Rest03Json
        | Envelope::Rest10
        | Envelope::Gemini
        | Envelope::Kebab
        | Envelope::Snake
        | Envelope::Session
        | Envelope::Socket => None,
    }
}

/// Whether words of this dialect that name no task are meant for the live session.
pub fn joins_session(form: &Form) -> bool {
    match form.envelope.tongue() {
        Tongue::Session | Tongue::Own => true,
        Tongue::A2a(_) | Tongue::Gemini => false,
    }
}

/// Whether an answer of this dialect that names no task is meant for the one that asks about its call. In A2A itself a task has to
/// be named.
pub fn finds_questions(form: &Form) -> bool {
    match form.envelope.tongue() {
        Tongue::Gemini | Tongue::Session | Tongue::Own => true,
        Tongue::A2a(_) => false,
    }
}

/// Whether a reader of this dialect who names no position is shown the log from its first event: then it can fold it.
pub fn begins_at_the_start(form: &Form) -> bool {
    form.envelope == Envelope::Own
}

/// How a stream of a request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// With the whole task.
    Snapshot,
    /// With the whole task if the request made it, else with the next event.
    SnapshotIfBorn,
    /// With what comes of it: who said something need not be told so.
    Outcome,
    NextEvent,
}

/// What a stream of a request ends with, beside the end of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Whatever leaves the next word to the user: the end of the turn, questions, a missing credential.
    WithTurn,
    /// The same, but a missing credential does not end it.
    WithTurnButAuth,
    /// The end of the turn; questions do not end it.
    WithTurnButQuestions,
    /// A turn's end that is shown as the task's.
    WhenShownOver,
    /// Nothing.
    WithTask,
    /// Nothing at all: it goes on as long as the client does.
    Never,
}

/// The stream that answers a prompt.
pub fn prompt_stream(form: &Form) -> (Begins, Ends) {
    match form.envelope {
        Envelope::Rpc10 | Envelope::Rest10 => (Begins::Snapshot, Ends::WithTurnButAuth),
        Envelope::Rpc03 | Envelope::Rest03Proto | Envelope::Rest03Json | Envelope::Gemini => {
            (Begins::SnapshotIfBorn, Ends::WithTurn)
        }
        Envelope::Kebab => (Begins::NextEvent, Ends::WithTurn),
        Envelope::Session => (Begins::Outcome, Ends::WithTurn),
        Envelope::Snake => (Begins::NextEvent, Ends::WithTurnButQuestions),
        Envelope::Socket | Envelope::Own => (Begins::NextEvent, Ends::Never),
    }
}

/// The stream of one who watches.
pub fn watch_stream(form: &Form, view: View) -> (Begins, Ends) {
    match form.envelope.tongue() {
        Tongue::A2a(Protocol::V10) if view.idle_is_completed() => (Begins::Snapshot, Ends::WhenShownOver),
        Tongue::A2a(Protocol::V10) => (Begins::Snapshot, Ends::WithTask),
        Tongue::A2a(Protocol::V03) | Tongue::Gemini => (Begins::Snapshot, Ends::WithTurn),
        Tongue::Session => (Begins::NextEvent, Ends::Never),
        Tongue::Own => (Begins::NextEvent, Ends::WithTask),
    }
}

/// What is put around results.
pub enum Wrapper {
    /// The envelope of JSON-RPC, around events too.
    Rpc,
    /// An envelope of our own around results; events belong to nobody's request.
    Own,
    None,
}

impl Envelope {
    pub fn wrapper(self) -> Wrapper {
        match self {
            Envelope::Rpc03 | Envelope::Rpc10 | Envelope::Socket => Wrapper::Rpc,
            Envelope::Own => Wrapper::Own,
            Envelope::Rest03Proto
            | Envelope::Rest03Json
            | Envelope::Rest10
            | Envelope::Gemini
            | Envelope::Kebab
            | Envelope::Snake
            | Envelope::Session => Wrapper::None,
        }
    }
}

/// What stands before each body of a stream.
pub fn frame_prefix(form: &Form) -> Vec<u8> {
    match form.envelope.wrapper() {
        Wrapper::Rpc => prefix(form),
        Wrapper::Own | Wrapper::None => Vec::new(),
    }
}

/// What stands behind it.
pub fn frame_suffix(form: &Form) -> &'static [u8] {
    match form.envelope.wrapper() {
        Wrapper::Rpc => suffix(form),
        Wrapper::Own | Wrapper::None => b"",
    }
}

/// What stands before a single result.
pub fn prefix(form: &Form) -> Vec<u8> {
    match form.envelope.wrapper() {
        Wrapper::Rpc => [br#"{"jsonrpc":"2.0","id":"#, &*form.id, br#","result":"#].concat(),
        Wrapper::Own => [br#"{"id":"#, &*form.id, br#","ok":"#].concat(),
        Wrapper::None => Vec::new(),
    }
}

/// What stands behind it.
pub fn suffix(form: &Form) -> &'static [u8] {
    match form.envelope.wrapper() {
        Wrapper::Rpc | Wrapper::Own => b"}",
        Wrapper::None => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_wrapped_with_the_id_in_its_own_type() {
        let mut form = Form::at("/");
        for id in ["null", "7", r#""a\"b""#] {
            form.id = Shared::from(id.as_bytes());
            let whole = [prefix(&form), b"[]".to_vec(), suffix(&form).to_vec()].concat();
            assert_eq!(String::from_utf8(whole).unwrap(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":[]}}"#));
        }
        let bare = Form::at("/tasks");
        assert_eq!((prefix(&bare), suffix(&bare)), (Vec::new(), &b""[..]));
    }

    #[test]
    fn requests_share_a_view_whatever_their_id() {
        let mut other = Form::at("/");
        other.id = Shared::from(*b"7");
        assert_eq!(view(&Form::at("/"), None), view(&other, None));
        other.profile = Some(Profile::Plain);
        assert_ne!(view(&Form::at("/"), None), view(&other, None));
    }
}
