//! Slash commands as clients see them: one registry, two forms. The reference server lists them at a path of its own, with whole
//! phrases as names; the development-tool extension lists them by a method, with names relative to their parent. Each form has its
//! own way to execute a command.
//!
//! Only the command line is read here. The registry says whether the command exists. A command runs as an ordinary task, and the answers
//! below are made from the state of that task.

use crate::a2a;
use crate::a2a::dialect::{Answers as AnswerStyle, Dialect, PromptAnswer};
use crate::a2a::encodings::object::{Object, object};
use crate::a2a::form::Form;
use crate::a2a::requests::object::{Object as Params, body, check_type, member, texts};
use crate::a2a::requests::route::Incoming;
use crate::base::http::{Request, Response};
use crate::base::id::TaskId;
use crate::base::json;
use crate::task::call::{Call, Create, Execute, Mode, Settings, TaskTraits};
use crate::task::definitions::slash::{Answers, Args, Argument, RESULT, Registry, Source, Spec, Typed, Unrunnable};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::{Lifecycle, Profile, Protocol};
use crate::task::machine::state::{CallState, State, TaskState};
use crate::task::message::Content;
use crate::task::spec::Question;
use serde_json::{Value, json};

/// The answer to a request for the commands. Clients of the reference server expect one JSON object from each command of its list, so
/// built-in commands that answer with a stream are not listed there, but can be executed. Custom ones are listed everywhere.
pub fn listed(form: &Form, registry: &Registry) -> Response {
    let style = form.dialect.answers;
    let listed = registry.commands().iter().filter(|spec| match (style, spec.answers) {
        (AnswerStyle::Gemini, Answers::Streaming) => spec.source == Source::File,
        (AnswerStyle::Gemini, Answers::Once) | (AnswerStyle::A2a, _) => true,
    });
    a2a::result(form, object(|o| _ = o.list("commands", listed, |o, spec| write_spec(o, spec, style, ""))))
}

/// `POST /executeCommand`.
pub fn execute_command(incoming: Incoming<'_>, form: &mut Form) -> Result<Call, Fault> {
    form.prompt_answer = PromptAnswer::CommandResult;
    Ok(executes(typed(incoming.request)?, Mode::Wait, Protocol::V03, Profile::Coder))
}

/// `command/execute`, in any version.
pub fn execute(params: &Params, mode: Mode, form: &mut Form) -> Result<Call, Fault> {
    let typed = typed_in(params)?;
    form.prompt_answer = PromptAnswer::CommandReceipt;
    Ok(executes(typed, mode, form.dialect.protocol, form.profile.unwrap_or(Profile::Devtool)))
}

fn executes(typed: Typed, mode: Mode, protocol: Protocol, profile: Profile) -> Call {
    let traits = TaskTraits { lifecycle: Lifecycle::OneShot, protocol, profile };
    let create = Create { context: None, settings: Settings::default(), traits };
    Call::Execute(Execute { typed, about: None, create, mode, otherwise: None })
}

/// The form for the stream of a command that was requested at a path of the reference server: frames of JSON-RPC with the task's
/// id in place of the request's.
pub fn stream(task: &TaskId) -> Form {
    Form { id: json::bytes(task).into(), ..Form::of(Dialect::RPC_03) }
}

/// The body of `POST /executeCommand`. The texts of its errors are those of the reference server, because clients compare them.
fn typed(request: &Request) -> Result<Typed, Fault> {
    check_type(request)?;
    let sent = match body(request)? {
        Some(Value::Object(sent)) => sent,
        Some(_) | None => Params::default(),
    };
    let Some(Value::String(phrase)) = sent.get("command") else {
        return Err(Fault::params("Invalid \"command\" field."));
    };
    let words = match sent.get("args") {
        Some(Value::Array(args)) => args.iter().map(word).collect(),
        Some(other) if is_true(other) => {
            return Err(Fault::params("\"args\" field must be an array."));
        }
        Some(_) | None => Vec::new(),
    };
    Ok(Typed { phrase: phrase.clone(), args: Args::Words(words) })
}

/// The parameters of `command/execute`.
fn typed_in(params: &Params) -> Result<Typed, Fault> {
    let names = ["command_path", "commandPath"];
    if member(params, &names).is_none() {
        let message = "params.command_path is missing: the command's words, e.g. [\"memory\", \"show\"].";
        return Err(Fault::params(message));
    }
    let path = texts(params, &names, "params")?;
    let args = match member(params, &["args"]) {
        None => Args::Line(String::new()),
        Some((_, Value::String(line))) => Args::Line(line.clone()),
        Some((_, Value::Array(_))) => Args::Words(texts(params, &["args"], "params")?),
        Some(_) => return Err(Fault::params("params.args must be a string.")),
    };
    Ok(Typed { phrase: path.join(" "), args })
}

/// The fault for a command line that cannot be run.
pub fn unrunnable(why: &Unrunnable) -> Fault {
    match why {
        Unrunnable::Unknown { phrase } => Fault::new(FaultKind::NotFound, format!("Command not found: {phrase}")),
        Unrunnable::Incomplete { name, argument } => {
            let Argument { name: missing, description, .. } = argument;
            Fault::params(format!("{name} needs <{missing}>: {description}"))
        }
    }
}

/// The answer to `POST /executeCommand`, when the task has stopped.
pub fn executed(state: &State) -> Response {
    let status = &state.status;
    let text = status.text.as_deref();
    let failed = |text: &str| Response::json(500, json::bytes(&json!({ "error": text })));
    match status.state {
        TaskState::Completed => {
            let name = state.created.command.as_ref().map(|command| command.name());
            Response::json(200, object(|o| _ = o.member("name", &name).member("data", &result(state))))
        }
        TaskState::Failed | TaskState::Rejected => failed(text.unwrap_or("The command failed.")),
        TaskState::Canceled => failed("The command was canceled."),
        TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => {
            let task = &state.created.task;
            let message = format!("The command is not done. It goes on as the task {task}; watch or answer it there.");
            failed(&message)
        }
    }
}

/// The result of `command/execute` for a command that runs as this task.
pub fn started(state: &State) -> Vec<u8> {
    let asked = state.asked().next();
    let question = asked.and_then(CallState::question);
    let status = match question {
        None => "STARTED",
        Some(Question::Exec { .. }) => "AWAITING_SHELL_CONFIRMATION",
        Some(Question::Edit { .. } | Question::Mcp { .. } | Question::Info { .. } | Question::AskUser { .. }) => {
            "AWAITING_ACTION_CONFIRMATION"
        }
    };
    execution(state.created.task.as_str(), status, None)
}

/// The result of `command/execute` for a command that cannot run.
pub fn not_started(message: &str) -> Vec<u8> {
    execution("", "FAILED_TO_START", Some(message))
}

fn execution(id: &str, status: &str, message: Option<&str>) -> Vec<u8> {
    object(|o| _ = o.member("execution_id", id).member("status", status).optional("message", message))
}

/// The data that the command produced. A command that starts a model turn produces none.
fn result(state: &State) -> Option<&Value> {
    let artifact = state.artifacts.iter().find(|made| made.id == RESULT)?;
    artifact.parts.iter().find_map(|part| match &part.content {
        Content::Data(data) => Some(data),
        Content::Text(_) | Content::Bytes(_) | Content::Uri(_) => None,
    })
}

/// The argument that a value means: a string itself, any other value as its JSON.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether the value is truthy in JavaScript, the reference server's language.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// A command of a list. The reference server's list has whole phrases as names: that of the parent is `above`.
fn write_spec(o: &mut Object<'_>, spec: &Spec, style: AnswerStyle, above: &str) {
    let (name, is_required, subs) = match style {
        AnswerStyle::Gemini => (format!("{above}{}", spec.name), "isRequired", "subCommands"),
        AnswerStyle::A2a => (spec.name.clone(), "is_required", "sub_commands"),
    };
    o.member("name", &name).member("description", &spec.description);
    o.list("arguments", &spec.arguments, |o, argument| {
        o.member("name", &argument.name).member("description", &argument.description);
        o.member(is_required, &argument.required);
    });
    let above = format!("{name} ");
    o.list(subs, &spec.subs, |o, sub| write_spec(o, sub, style, &above));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::task::definitions::slash::Invocation;
    use crate::task::machine::state::Stage;
    use crate::task::message::{Artifact, Part};
    use std::sync::Arc;

    fn registry() -> Registry {
        let mut registry = Registry::default();
        let add = Spec {
            arguments: vec![
                Argument { name: "text".into(), description: "What.".into(), required: true },
                Argument { name: "where".into(), description: "Where.".into(), required: false },
            ],
            ..Spec::new("add", "Adds.")
        };
        let memory = Spec::group("memory", "Memory.", vec![Spec::new("show", "Shows."), add]);
        let init = Spec { answers: Answers::Streaming, ..Spec::new("init", "Begins.") };
        for spec in [memory, init] {
            registry.register(spec).expect("names of their own");
        }
        registry
    }

    fn value(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn both_lists() {
        let listed_by = |dialect| {
            let response = listed(&Form::of(dialect), &registry());
            assert_eq!(response.status, 200);
            String::from_utf8(response.body.to_vec()).unwrap()
        };
        assert_eq!(
            listed_by(Dialect::GEMINI),
            concat!(
                r#"{"commands":[{"name":"memory","description":"Memory.","arguments":[],"subCommands":["#,
                r#"{"name":"memory show","description":"Shows.","arguments":[],"subCommands":[]},"#,
                r#"{"name":"memory add","description":"Adds.","arguments":["#,
                r#"{"name":"text","description":"What.","isRequired":true},"#,
                r#"{"name":"where","description":"Where.","isRequired":false}],"subCommands":[]}]}]}"#
            )
        );
        assert_eq!(
            listed_by(Dialect::REST_10),
            concat!(
                r#"{"commands":[{"name":"memory","description":"Memory.","arguments":[],"sub_commands":["#,
                r#"{"name":"show","description":"Shows.","arguments":[],"sub_commands":[]},"#,
                r#"{"name":"add","description":"Adds.","arguments":["#,
                r#"{"name":"text","description":"What.","is_required":true},"#,
                r#"{"name":"where","description":"Where.","is_required":false}],"sub_commands":[]}]},"#,
                r#"{"name":"init","description":"Begins.","arguments":[],"sub_commands":[]}]}"#
            )
        );
    }

    #[test]
    fn bodies_of_an_execution() {
        let read = |body: &str| {
            let read = typed(&sample::post("/executeCommand", body));
            read.map_err(|fault| (fault.kind, fault.message))
        };
        for (body, phrase, words) in [
            (r#"{"command":"memory show"}"#, "memory show", &[][..]),
            (r#"{"command":"","args":null}"#, "", &[]),
            (r#"{"command":"a","args":""}"#, "a", &[]),
            (r#"{"command":"a","args":0}"#, "a", &[]),
            (r#"{"command":"a","args":false}"#, "a", &[]),
            (r#"{"command":"a","args":["b c","",7,null,{"d":1}]}"#, "a", &["b c", "", "7", "null", r#"{"d":1}"#]),
        ] {
            let expected =
                Typed { phrase: phrase.into(), args: Args::Words(words.iter().map(|word| word.to_string()).collect()) };
            assert_eq!(read(body), Ok(expected), "{body}");
        }
        let command = "Invalid \"command\" field.";
        let args = "\"args\" field must be an array.";
        for (body, words) in [
            ("", command),
            ("{}", command),
            ("null", command),
            ("[]", command),
            (r#"{"command":7}"#, command),
            (r#"{"command":7,"args":"x"}"#, command),
            (r#"{"command":"a","args":"x"}"#, args),
            (r#"{"command":"a","args":{}}"#, args),
            (r#"{"command":"a","args":1}"#, args),
            (r#"{"command":"a","args":true}"#, args),
        ] {
            let expected = (FaultKind::InvalidParams, words.to_owned());
            assert_eq!(read(body), Err(expected), "{body}");
        }
        assert_eq!(read(r#"{"command":"#).unwrap_err().0, FaultKind::ParseError);
    }

    #[test]
    fn parameters_of_an_execution() {
        let read = |params: Value| {
            let Value::Object(params) = params else {
                panic!("{params}");
            };
            typed_in(&params).map_err(|fault| (fault.kind, fault.message))
        };
        let line = |phrase: &str, line: &str| Ok(Typed { phrase: phrase.into(), args: Args::Line(line.into()) });
        assert_eq!(read(json!({"command_path": ["memory", "show"], "args": "a b"})), line("memory show", "a b"));
        assert_eq!(read(json!({"commandPath": ["memory"]})), line("memory", ""));
        assert_eq!(read(json!({"command_path": [], "args": null})), line("", ""));
        assert_eq!(
            read(json!({"command_path": ["a"], "args": ["b c"]})),
            Ok(Typed { phrase: "a".into(), args: Args::Words(vec!["b c".into()]) })
        );
        for (params, message) in [
            (json!({}), "params.command_path is missing: the command's words, e.g. [\"memory\", \"show\"]."),
            (json!({"command_path": "memory show"}), "params.command_path must be a list of strings."),
            (json!({"command_path": [7]}), "params.command_path must be a list of strings."),
            (json!({"command_path": ["a"], "args": 7}), "params.args must be a string."),
        ] {
            let expected = Err((FaultKind::InvalidParams, message.to_owned()));
            assert_eq!(read(params.clone()), expected, "{params}");
        }
    }

    #[test]
    fn unknown_commands_get_the_reference_servers_errors() {
        let registry = registry();
        let refused = |phrase: &str| {
            let typed = Typed { phrase: phrase.into(), args: Args::Words(vec![]) };
            unrunnable(&registry.invoke(&typed).expect_err("it cannot be run"))
        };
        assert_eq!(refused("memory forget"), Fault::new(FaultKind::NotFound, "Command not found: memory forget"));
        assert_eq!(refused("memory add"), Fault::params("memory add needs <text>: What."));
    }

    /// A task of `memory show` in this state, with a result.
    fn state(status: TaskState, text: Option<&str>, data: Option<Value>) -> State {
        let mut state = sample::state();
        Arc::make_mut(&mut state.created).command =
            Some(Invocation { path: vec!["memory".into(), "show".into()], args: vec![] });
        state.status.state = status;
        state.status.text = text.map(str::to_owned);
        state.artifacts.extend(data.map(|data| Artifact {
            id: RESULT.into(),
            name: None,
            description: None,
            parts: vec![Part::data(data)],
        }));
        state
    }

    #[test]
    fn the_result_of_a_command() {
        use TaskState::*;
        let answer = |state: &State| {
            let answer = executed(state);
            (answer.status, value(&answer.body))
        };
        for data in [json!("text"), json!({"files": []}), json!(null)] {
            assert_eq!(
                answer(&state(Completed, None, Some(data.clone()))),
                (200, json!({"name": "memory show", "data": data}))
            );
        }
        assert_eq!(answer(&state(Completed, Some("said"), None)), (200, json!({"name": "memory show", "data": null})));
        for (status, text, error) in [
            (Failed, Some("no luck"), "no luck"),
            (Failed, None, "The command failed."),
            (Canceled, Some("x"), "The command was canceled."),
            (InputRequired, None, "The command is not done. It goes on as the task t-1; watch or answer it there."),
        ] {
            assert_eq!(answer(&state(status, text, Some(json!(1)))), (500, json!({ "error": error })));
        }
    }

    #[test]
    fn outcomes_of_an_execution() {
        let mut state = state(TaskState::Working, None, None);
        assert_eq!(value(&started(&state)), json!({"execution_id": "t-1", "status": "STARTED"}));
        let exec = Question::Exec {
            title: "Confirm".into(),
            command: "ls".into(),
            programs: vec!["ls".into()],
            dir: None,
            warnings: vec![],
            needs_approval: None,
            edits: vec![],
        };
        for (question, status) in
            [(exec, "AWAITING_SHELL_CONFIRMATION"), (sample::edit(), "AWAITING_ACTION_CONFIRMATION")]
        {
            let mut call = sample::call("write_file", json!({}), Some(question));
            call.stage = Stage::Asked;
            state.calls = vec![call];
            assert_eq!(value(&started(&state)), json!({"execution_id": "t-1", "status": status}));
        }
        assert_eq!(
            value(&not_started("why")),
            json!({"execution_id": "", "status": "FAILED_TO_START", "message": "why"})
        );
    }
}
