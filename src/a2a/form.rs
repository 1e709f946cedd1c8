//! How one request wants to be answered: its dialect, and what the request itself says about the answer. The core keeps it while it
//! works on the request. The same body goes to clients with different request ids; what is around it is kept apart from the body.

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
    /// A failure before the first event goes out as one SSE frame: clients that asked for a stream refuse a JSON body.
    pub stream_errors: bool,
    /// The profile the request asks for; None leaves it to the task.
    pub profile: Option<Profile>,
    /// The profile whose names the answers of a message have that contains nothing else.
    pub answer_profile: Option<Profile>,
    /// The profile of requests that ask for none, on tasks of another version.
    pub default_profile: Profile,
    /// Whether the Content-Type of the answer is the one that 1.0 defines.
    pub is_a2a_json: bool,
    pub outputs: Outputs,
    pub prompt_answer: PromptAnswer,
    /// The partition the request is about.
    pub tenant: Tenant,
    /// Response headers that name the extensions in use: one per spelling of the header that the client used.
    pub echo: Vec<(&'static str, String)>,
    pub rest_status: RestStatus,
    pub created_answer: CreatedAnswer,
    /// Nothing but an error is answered: the request came over a socket and has no id.
    pub silent: bool,
    /// The session that a task is shown in, if it is not its own: the one in which its slash command was typed.
    pub session: Option<TaskId>,
    /// The id that the client gave to its request. Errors repeat it.
    pub request: Option<Box<str>>,
    /// What a client of the Agent Client Protocol can do.
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
            outputs: Outputs::WORDS,
            prompt_answer: dialect.prompt_answer,
            tenant: Tenant::default(),
            echo: Vec::new(),
            rest_status: RestStatus::V101,
            created_answer: CreatedAnswer::Id,
            silent: false,
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

    /// The form for a request at this path whose body was not read (yet, or because it is too large).
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
    let outputs = if profile == Profile::Plain { form.outputs } else { Outputs::WORDS };
    form.dialect.view.unwrap_or(View::A2a(form.dialect.writer, profile, outputs))
}

/// The profile of a request on a task: what the request asks for; else the one whose names an answer has, but plain clients are shown
/// such names with every question and may use them; else what the task was created with if that was under the same version; else
/// the default of the version.
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

/// What is before each body of a stream of a task: in the native dialect events belong to no call, in ACP to a session.
pub fn frame_prefix(form: &Form, task: &TaskId) -> Vec<u8> {
    match form.dialect.binding {
        Binding::JsonRpc | Binding::Rest | Binding::Bare => prefix(form),
        Binding::Native => Vec::new(),
        Binding::Acp => acp::update_prefix(form.session.as_ref().unwrap_or(task)),
    }
}

/// What is behind each body of a stream.
pub fn frame_suffix(form: &Form, prefix: &[u8]) -> &'static [u8] {
    if form.dialect.binding == Binding::Acp { acp::UPDATE_SUFFIX } else { suffix(prefix) }
}

/// Whether the client can show a body of this name. Only the Agent Client Protocol has some that not every client can.
pub fn is_for(form: &Form, name: Option<&str>) -> bool {
    match name {
        Some(acp::NOTICE) => form.capabilities.notices,
        Some(acp::COMPACTION) => form.capabilities.compaction,
        Some(_) | None => true,
    }
}

/// What is before a single result.
pub fn prefix(form: &Form) -> Vec<u8> {
    match form.dialect.binding {
        Binding::JsonRpc | Binding::Acp => [br#"{"jsonrpc":"2.0","id":"#, &*form.id, br#","result":"#].concat(),
        Binding::Native => [br#"{"id":"#, &*form.id, br#","ok":"#].concat(),
        Binding::Rest | Binding::Bare => Vec::new(),
    }
}

/// What is behind a body with this prefix.
pub fn suffix(prefix: &[u8]) -> &'static [u8] {
    if prefix.is_empty() { b"" } else { b"}" }
}

/// A single result with what is around it. It may be long and is not copied.
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
