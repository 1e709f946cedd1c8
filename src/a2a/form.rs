//! How one request wants to be answered: everything the core must remember of a dialect while it works on the request, and
//! the wrapper around each result. The same body goes to clients with different request ids; only the wrapper differs, so it
//! is kept apart from the body.

use crate::base::Shared;
use crate::task::event::{Created, Profile, Protocol};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub envelope: Envelope,
    /// The JSON-RPC id as JSON, in the type the client gave it; `null` if there is none.
    pub id: Shared,
    /// A failure before the first event goes out as one SSE frame: kits that asked for a stream refuse a JSON body.
    pub stream_errors: bool,
    /// The profile the request asks for; None leaves it to the task.
    pub profile: Option<Profile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// A2A 0.3 over JSON-RPC.
    Rpc03,
    /// The bare JSON of the reference server's own endpoints.
    Gemini,
}

impl Form {
    /// The form for a request at this path whose body nobody has read (yet, or because it is too large).
    pub fn at(path: &str) -> Form {
        Form {
            envelope: match path {
                "/" => Envelope::Rpc03,
                _ => Envelope::Gemini,
            },
            id: Shared::from(*b"null"),
            stream_errors: false,
            profile: None,
        }
    }

    /// The dialect's name for others, e.g. beside a prompt somebody else sent.
    pub fn via(&self) -> &'static str {
        match self.envelope {
            Envelope::Rpc03 => "a2a-0.3",
            Envelope::Gemini => "gemini",
        }
    }
}

/// What a body depends on: the key of the body cache. Requests that differ only in their id share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View {
    pub(super) writer: Writer,
    pub(super) projection: Projection,
}

/// How A2A values are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Writer {
    V03,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Projection {
    Coder,
}

/// The view of a request on a task: what the request asks for, else what the task was created with, else the default of the
/// version. The card offers the coder profile only, and an offer nobody made is not taken up: all get coder.
pub fn view(form: &Form, task: Option<&Created>) -> View {
    let (writer, protocol) = match form.envelope {
        Envelope::Rpc03 | Envelope::Gemini => (Writer::V03, Protocol::V03),
    };
    let born = task.filter(|created| created.protocol == protocol);
    let profile = form.profile.or(born.map(|created| created.profile));
    let projection = match profile.unwrap_or(Profile::Coder) {
        Profile::Coder | Profile::Devtool | Profile::Plain => Projection::Coder,
    };
    View { writer, projection }
}

/// What stands before each body of a stream, and before a single result.
pub fn prefix(form: &Form) -> Vec<u8> {
    match form.envelope {
        Envelope::Rpc03 => [br#"{"jsonrpc":"2.0","id":"#, &*form.id, br#","result":"#].concat(),
        Envelope::Gemini => Vec::new(),
    }
}

/// What stands behind it.
pub fn suffix(form: &Form) -> &'static [u8] {
    match form.envelope {
        Envelope::Rpc03 => b"}",
        Envelope::Gemini => b"",
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
            assert_eq!(
                String::from_utf8(whole).unwrap(),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":[]}}"#)
            );
        }
        let bare = Form::at("/tasks");
        assert_eq!((prefix(&bare), suffix(&bare)), (Vec::new(), &b""[..]));
    }

    #[test]
    fn requests_share_a_view_whatever_their_id_and_wish() {
        let mut other = Form::at("/");
        other.id = Shared::from(*b"7");
        other.profile = Some(Profile::Plain);
        assert_eq!(view(&Form::at("/"), None), view(&other, None));
    }
}
