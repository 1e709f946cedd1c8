//! How one request wants to be answered: its dialect, and what the request itself says about the answer. The core keeps it while it
//! works on the request. The same body goes to clients with different request ids; what is around it is kept apart from the body.

use crate::a2a::dialect::{Begins, Binding, Dialect, Ends, Outputs, PromptAnswer, View};
use crate::a2a::requests::route;
use crate::a2a::switches::{RestStatus, Switches};
use crate::base::Shared;
use crate::base::id::Tenant;
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
            default_profile: dialect.default_profile,
            is_a2a_json: false,
            outputs: Outputs::Any,
            prompt_answer: dialect.prompt_answer,
            tenant: Tenant::default(),
            echo: Vec::new(),
            rest_status: RestStatus::V101,
            created_answer: CreatedAnswer::Id,
            silent: false,
        }
    }

    /// The form of a dialect under the operator's switches.
    pub fn under(dialect: &'static Dialect, switches: &Switches) -> Form {
        let mut form = Form { rest_status: switches.rest_status, ..Form::of(dialect) };
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

/// The view of a request on a task: what the request asks for, else what the task was created with if that was under the same
/// version, else the default of the version.
pub fn view(form: &Form, task: Option<&Created>) -> View {
    view_of(form, task.map(|created| (created.protocol, created.profile)))
}

/// The same, given the version and the profile that the task was created with.
pub fn view_of(form: &Form, created: Option<(Protocol, Profile)>) -> View {
    if let Some(view) = form.dialect.view {
        return view;
    }
    let created = created.filter(|(protocol, _)| *protocol == form.dialect.protocol);
    let profile = form.profile.or(created.map(|(_, profile)| profile));
    View::A2a(form.dialect.writer, profile.unwrap_or(form.default_profile), form.outputs)
}

/// The stream of a subscription.
pub fn watch_stream(form: &Form, view: View) -> (Begins, Ends) {
    match form.dialect.watch_stream {
        (begins, Ends::WithTask) if view.idle_is_completed() => (begins, Ends::WhenShownOver),
        usual => usual,
    }
}

/// What is before each body of a stream: in the native dialect events belong to no call.
pub fn frame_prefix(form: &Form) -> Vec<u8> {
    match form.dialect.binding {
        Binding::JsonRpc | Binding::Rest | Binding::Bare => prefix(form),
        Binding::Native => Vec::new(),
    }
}

/// What is before a single result.
pub fn prefix(form: &Form) -> Vec<u8> {
    match form.dialect.binding {
        Binding::JsonRpc => [br#"{"jsonrpc":"2.0","id":"#, &*form.id, br#","result":"#].concat(),
        Binding::Native => [br#"{"id":"#, &*form.id, br#","ok":"#].concat(),
        Binding::Rest | Binding::Bare => Vec::new(),
    }
}

/// What is behind a body with this prefix.
pub fn suffix(prefix: &[u8]) -> &'static [u8] {
    if prefix.is_empty() { b"" } else { b"}" }
}

/// A single result with what is around it.
pub fn enclosed(form: &Form, result: &[u8]) -> Vec<u8> {
    let prefix = prefix(form);
    [&prefix, result, suffix(&prefix)].concat()
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
        other.profile = Some(Profile::Plain);
        assert_ne!(view(&Form::at("/"), None), view(&other, None));
    }
}
