//! The form of the answer to one request: its dialect, and what the request itself says about the answer. The core keeps the form while
//! it works on the request. Clients with different request ids get the same body; the prefix and the suffix around it are separate.

use crate::a2a::acp::{self, Capabilities};
use crate::a2a::dialect::{Begins, Binding, Dialect, Ends, Outputs, PromptAnswer, View};
use crate::a2a::requests::route;
use crate::a2a::switches::{PlainStream, RestStatus, Switches};
use crate::a2a::words::Idle;
use crate::base::Shared;
use crate::base::id::{TaskId, Tenant};
use crate::task::call::Call;
use crate::task::fault::Fault;
use crate::task::log::event::{Created, Profile, Protocol};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub dialect: &'static Dialect,
    /// The JSON-RPC id as JSON, in the type the client gave it; `null` if there is none.
    pub id: Shared,
    /// Whether a failure before the first event is sent as an SSE frame: 0.3 clients that asked for a stream refuse a JSON body.
    pub stream_errors: bool,
    /// The profile that the request names. None: it depends on the task.
    pub profile: Option<Profile>,
    /// The profile whose member names are used in a message that has only answers to questions.
    pub answer_profile: Option<Profile>,
    /// The profile of requests that name none, on tasks of another version.
    pub default_profile: Profile,
    /// Whether the Content-Type of the answer is `application/a2a+json`.
    pub is_a2a_json: bool,
    pub outputs: Outputs,
    pub prompt_answer: PromptAnswer,
    /// The tenant whose tasks the request is about.
    pub tenant: Tenant,
    /// Response headers that name the extensions in use: one per spelling of the header that the client used.
    pub echo: Vec<(&'static str, String)>,
    pub rest_status: RestStatus,
    pub created_answer: CreatedAnswer,
    /// Whether the request is a message on a socket without an id: it gets no answer unless it fails.
    pub is_notification: bool,
    /// The session that the events of a task are shown in, if it is another task: the one in which its slash command was typed.
    pub session: Option<TaskId>,
    /// The request id that the client chose. Errors repeat it.
    pub request: Option<Box<str>>,
    /// The capabilities of a client of the Agent Client Protocol.
    pub capabilities: Capabilities,
}

/// The answer to a request that creates a task without a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreatedAnswer {
    /// The bare id.
    Id,
    /// The id and the state.
    State,
}

impl Form {
    pub fn of(dialect: &'static Dialect) -> Form {
        Form {
            dialect,
            id: Shared::from(*b"null"),
            stream_errors: false,
            profile: None,
            answer_profile: None,
            default_profile: dialect.default_profile,
            is_a2a_json: false,
            outputs: Outputs::TEXT,
            prompt_answer: dialect.prompt_answer,
            tenant: Tenant::default(),
            echo: Vec::new(),
            rest_status: RestStatus::V101,
            created_answer: CreatedAnswer::Id,
            is_notification: false,
            session: None,
            request: None,
            capabilities: Capabilities::default(),
        }
    }

    /// The form of a dialect under the operator's switches.
    pub fn under(dialect: &'static Dialect, switches: &Switches) -> Form {
        let mut form = Form { rest_status: switches.rest_status, ..Form::of(dialect) };
        form.outputs.pieces = switches.plain_stream == PlainStream::Pieces;
        if dialect.has_profile_switch {
            form.default_profile = switches.default_profile_03;
        }
        form
    }

    /// The call, or the fault, of a request with this form.
    pub fn decoded(self, call: Result<Call, Fault>) -> Decoded {
        match call {
            Ok(call) => Ok((call, self)),
            Err(fault) => Err((fault, self)),
        }
    }

    /// The form for a request at this path whose body has not been read.
    pub fn at(path: &str) -> Form {
        Form::of(route::dialect_at(path))
    }
}

/// A request as a call or a fault, with the form of the answer.
pub type Decoded = Result<(Call, Form), (Fault, Form)>;

/// The view of a request on a task.
pub fn view(form: &Form, task: Option<&Created>) -> View {
    view_of(form, task.and_then(Created::made))
}

/// The same, given the version and the profile that the task was created with.
pub fn view_of(form: &Form, made: Option<(Protocol, Profile)>) -> View {
    let profile = profile(form, made);
    let outputs = if profile == Profile::Plain { form.outputs } else { Outputs::TEXT };
    form.dialect.view.unwrap_or(View::A2a(form.dialect.writer, profile, outputs))
}

/// The profile of a request on a task, the first that applies: the one that the request names; the one whose names its answers use,
/// except on a plain task, whose clients are shown the names of another profile with every question and may use them; the one that
/// the task was created with under the same version; the default of the version.
pub fn profile(form: &Form, made: Option<(Protocol, Profile)>) -> Profile {
    let is_plain = made.is_some_and(|(_, profile)| profile == Profile::Plain);
    let of_answer = form.answer_profile.filter(|_| !is_plain);
    let of_task = made.filter(|(protocol, _)| *protocol == form.dialect.protocol).map(|(_, profile)| profile);
    form.profile.or(of_answer).or(of_task).unwrap_or(form.default_profile)
}

/// The stream of a subscription to a task.
pub fn watch_stream(form: &Form, view: View, task: &Created) -> (Begins, Ends) {
    match form.dialect.watch_stream {
        (begins, Ends::WithTask) if view.idle(task.profile) == Idle::Outcome => (begins, Ends::WhenShownOver),
        usual => usual,
    }
}

/// The bytes before each body of a stream. Events have no call id in the native dialect, and the id of a session in ACP.
pub fn frame_prefix(form: &Form, task: &TaskId) -> Vec<u8> {
    match form.dialect.binding {
        Binding::JsonRpc | Binding::Rest | Binding::Bare => prefix(form),
        Binding::Native => Vec::new(),
        Binding::Acp => acp::update_prefix(form.session.as_ref().unwrap_or(task)),
    }
}

/// The bytes after each body of a stream.
pub fn frame_suffix(form: &Form, prefix: &[u8]) -> &'static [u8] {
    if form.dialect.binding == Binding::Acp { acp::UPDATE_SUFFIX } else { suffix(prefix) }
}

/// Whether the client can show a body with this event name. Only the Agent Client Protocol has bodies that need a capability.
pub fn can_show(form: &Form, name: Option<&str>) -> bool {
    match name {
        Some(acp::NOTICE) => form.capabilities.notices,
        Some(acp::COMPACTION) => form.capabilities.compaction,
        Some(_) | None => true,
    }
}

/// The bytes before a single result.
pub fn prefix(form: &Form) -> Vec<u8> {
    match form.dialect.binding {
        Binding::JsonRpc | Binding::Acp => [br#"{"jsonrpc":"2.0","id":"#, &*form.id, br#","result":"#].concat(),
        Binding::Native => [br#"{"id":"#, &*form.id, br#","ok":"#].concat(),
        Binding::Rest | Binding::Bare => Vec::new(),
    }
}

/// The bytes after a body with this prefix.
pub fn suffix(prefix: &[u8]) -> &'static [u8] {
    if prefix.is_empty() { b"" } else { b"}" }
}

/// A single result with its prefix and suffix. They are inserted into the buffer of the result, which may be long.
pub fn enclosed(form: &Form, result: impl Into<Vec<u8>>) -> Vec<u8> {
    let (prefix, mut whole) = (prefix(form), result.into());
    whole.extend_from_slice(suffix(&prefix));
    whole.splice(..0, prefix);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_wrapped_with_the_id_in_its_own_type() {
        let mut form = Form::at("/");
        for id in ["null", "7", r#""a\"b""#] {
            form.id = Shared::from(id.as_bytes());
            let whole = enclosed(&form, b"[]");
            assert_eq!(String::from_utf8(whole).unwrap(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":[]}}"#));
        }
        let bare = Form::at("/tasks");
        assert_eq!(enclosed(&bare, b"[]"), b"[]");
    }

    #[test]
    fn requests_share_a_view_whatever_their_id() {
        let mut other = Form::at("/");
        other.id = Shared::from(*b"7");
        assert_eq!(view(&Form::at("/"), None), view(&other, None));
        other.profile = Some(Profile::Coder);
        assert_ne!(view(&Form::at("/"), None), view(&other, None));
    }

    #[test]
    fn the_profile_of_a_request_on_a_task() {
        use Profile::{Coder, Devtool, Plain};
        use Protocol::{V03, V10};
        let [silent, named, answers] = [(None, None), (Some(Devtool), None), (None, Some(Coder))]
            .map(|(profile, answer_profile)| Form { profile, answer_profile, ..Form::at("/") });
        for (form, made, expected) in [
            (&silent, None, Plain),
            (&silent, Some((V03, Coder)), Coder),
            (&silent, Some((V10, Coder)), Plain),
            (&named, Some((V03, Coder)), Devtool),
            (&answers, None, Coder),
            (&answers, Some((V03, Devtool)), Coder),
            // Plain clients may answer with the names that they are shown.
            (&answers, Some((V03, Plain)), Plain),
            (&answers, Some((V10, Plain)), Plain),
        ] {
            assert_eq!(profile(form, made), expected, "{form:?} {made:?}");
        }
        // All clients share the live session.
        let mut session = crate::a2a::sample::state().created.as_ref().clone();
        assert_eq!(session.made(), Some((V03, Coder)));
        session.context = session.task.as_str().into();
        assert_eq!(session.made(), None);
    }
}
