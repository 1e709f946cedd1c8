//! The tools of these tests, calls of them, and how calls end.

use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::spec::{Base, Display, Ending, ErrorKind, Kind, Plan, Question, ToolSpec, Verdict};
use serde_json::json;
use std::collections::HashMap;

pub const EDIT: &str = "write_file";
pub const SHELL: &str = "run_shell_command";
pub const READ: &str = "read_file";
pub const ASK: &str = "ask_user";
pub const FORBIDDEN: &str = "format_disk";

pub fn tools() -> HashMap<String, ToolSpec> {
    let tool = |name: &str, kind, by_default| {
        let spec = ToolSpec { by_default, ..ToolSpec::new(name, name, kind, "", json!({"type": "object"})) };
        (name.to_owned(), spec)
    };
    HashMap::from([
        tool(EDIT, Kind::Edit, Verdict::Ask),
        tool(SHELL, Kind::Execute, Verdict::Ask),
        tool(READ, Kind::Read, Verdict::Allow),
        tool(ASK, Kind::Communicate, Verdict::Allow),
        tool(FORBIDDEN, Kind::Other, Verdict::Deny),
    ])
}

/// A call with the id that the log gives it.
pub fn call(tool: &str, id: &str) -> Request {
    Request {
        call: format!("{tool}__{id}").into(),
        name: tool.into(),
        args: json!({"for": id}),
        api_id: Some(id.into()),
    }
}

pub fn edit() -> Request {
    call(EDIT, "e")
}

pub fn shell() -> Request {
    call(SHELL, "s")
}

pub fn read() -> Request {
    call(READ, "r")
}

/// The plan that a worker makes of a call.
pub fn plan(request: &Request) -> Plan {
    let title = request.name.clone();
    let (question, base) = match request.name.as_str() {
        EDIT => (
            Question::Edit {
                title: title.clone(),
                file_name: "a.txt".into(),
                file_path: "/w/a.txt".into(),
                diff: "-old\n+new".into(),
                old: Some("old".into()),
                new: "new".into(),
            },
            Some(Base { sha256: Some("ab12".into()), change: None }),
        ),
        SHELL => (
            Question::Exec {
                title: title.clone(),
                command: "make".into(),
                programs: vec!["make".into()],
                dir: None,
                warnings: vec![],
                needs_approval: None,
                edits: vec![],
            },
            None,
        ),
        ASK => (Question::AskUser { title: title.clone(), questions: vec![] }, None),
        _ => (Question::Info { title: title.clone(), prompt: "?".into(), urls: vec![] }, None),
    };
    Plan { title, question, base }
}

pub fn success() -> Ending {
    Ending::Success { output: "done".into(), display: Display::Text { text: "done".into() } }
}

pub fn failure(kind: ErrorKind, message: &str) -> Ending {
    Ending::Error { error: kind.error(message) }
}

pub fn refused() -> Ending {
    Ending::cancelled("The user did not allow this call.")
}

pub fn stopped() -> Ending {
    Ending::cancelled("The task was canceled.")
}
