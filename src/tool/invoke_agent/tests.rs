//! Tests of `invoke_agent`.

use super::*;
use crate::limits::Limits;
use crate::tool::Toolbox;
use crate::tool::files::path::Workspace;
use crate::tool::tests::{Scratch, run_of, with_ctx};

/// One agent, `a`, which always gives the same answer.
struct One {
    text: Result<&'static str, &'static str>,
    waits_for: WaitsFor,
    /// The context and the depth of each call.
    called: Mutex<Vec<(Option<String>, u8)>>,
}

fn one(text: Result<&'static str, &'static str>, waits_for: WaitsFor) -> One {
    One { text, waits_for, called: Mutex::default() }
}

fn thread(fingerprint: &str, context: &str) -> AgentThread {
    AgentThread { agent: "a".into(), fingerprint: fingerprint.into(), context: Some(context.into()), task: None }
}

fn callee(name: &str, description: &str) -> Callee {
    Callee {
        name: name.into(),
        display_name: "The A".into(),
        description: description.into(),
        origin: "https://a.example".into(),
        fingerprint: "f".into(),
    }
}

impl Agents for One {
    fn agents(&self, _: &Path) -> AgentList {
        AgentList { agents: vec![callee("a", "Knows a.")], messages: vec![] }
    }

    fn call(&self, call: &AgentCall<'_>, _: &Cancel, out: &mut dyn FnMut(String)) -> AgentAnswer {
        let context = call.thread.and_then(|thread| thread.context.clone());
        lock(&self.called).push((context, call.depth));
        out("half".into());
        let text = self.text.map(str::to_owned).map_err(str::to_owned);
        AgentAnswer { thread: Some(thread("f", "new")), text, waits_for: self.waits_for }
    }
}

/// Runs a call. Returns its end and the conversations that it has changed.
fn ran(agents: &One, base: &str, known: Vec<AgentThread>, depth: u8) -> (RunEnd, Vec<AgentThread>) {
    let scratch = Scratch::new();
    let threads = AgentThreads::new(Arc::new(known), depth);
    let limits = Limits { result_chars: 200, ..Limits::default() };
    let end = with_ctx(&scratch, &limits, |ctx| {
        let workspace = Workspace::open(scratch.path()).expect("it opens");
        let ctx = Ctx { workspace, others: Vec::new(), agents, threads: Some(&threads), ..*ctx };
        let base = Some(Base { sha256: Some(base.into()), change: None });
        let run = Run { base, ..run_of(&scratch, INVOKE, json!({"agent_name": "a", "prompt": "p"})) };
        Toolbox::built_in().run(&run, &ctx, &mut |live| assert_eq!(live, "half"))
    });
    (end, threads.take_changed())
}

/// The texts of a call's result for the model and for people.
fn texts(agents: &One) -> (String, String) {
    match ran(agents, "f", vec![], 0).0 {
        RunEnd::Ended(Ending::Success { output, display: crate::task::spec::Display::Text { text } }) => {
            (output.as_str().to_owned(), text.as_str().to_owned())
        }
        RunEnd::Ended(Ending::Error { error }) => (error.message, String::new()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_question_names_the_agent_its_origin_and_the_prompt() {
    let (scratch, agents) = (Scratch::new(), one(Ok("x"), WaitsFor::Nothing));
    with_ctx(&scratch, &Limits::default(), |ctx| {
        let workspace = Workspace::open(scratch.path()).expect("it opens");
        let ctx = Ctx { workspace, others: Vec::new(), agents: &agents, ..*ctx };
        let plan = InvokeAgent.prepare(&json!({"agent_name": "a", "prompt": "Do it."}), &ctx).expect("it is there");
        let question = Question::Info {
            title: "Call the agent a?".into(),
            prompt: "The A at https://a.example is sent:\n\nDo it.".into(),
            urls: vec!["https://a.example".into()],
        };
        assert_eq!((plan.question, plan.base.and_then(|base| base.sha256)), (question, Some("f".into())));
        let unknown = InvokeAgent.prepare(&json!({"agent_name": "b", "prompt": "x"}), &ctx).expect_err("unknown");
        assert_eq!(unknown, ErrorKind::InvalidToolParams.error("There is no agent \"b\". There are: a."));
    });
}

#[test]
fn an_answer_is_marked_as_untrusted_and_states_what_the_agent_waits_for() {
    let marked = |text: &str| format!("<untrusted_context>\n{text}\n</untrusted_context>");
    assert_eq!(texts(&one(Ok("Hi."), WaitsFor::Nothing)), (marked("Hi."), "Hi.".into()));
    let (model, people) = texts(&one(Ok("Which?"), WaitsFor::Answer));
    assert!(model.starts_with(&marked("Which?")) && model.contains("The agent a waits for an answer."), "{model}");
    assert!(people.starts_with("Which?\n\nThe agent a waits"), "{people}");
    assert!(texts(&one(Ok("Log in."), WaitsFor::Authorisation)).0.contains("needs to be authorised"));
    assert_eq!(texts(&one(Ok(""), WaitsFor::Nothing)).0, "The agent a is done and said nothing.");
    let failed = format!("The call of the agent a failed:\n{}", marked("No disk."));
    assert_eq!(texts(&one(Err("No disk."), WaitsFor::Nothing)).0, failed);
}

#[test]
fn a_conversation_continues_only_with_the_same_definition() {
    let agents = one(Ok("x"), WaitsFor::Nothing);
    let (_, left) = ran(&agents, "f", vec![thread("f", "old")], 1);
    assert_eq!(left, [thread("f", "new")]);
    ran(&agents, "f", vec![thread("other", "old")], AGENT_DEPTH - 1);
    let called = [(Some("old".to_owned()), 2), (None, AGENT_DEPTH)];
    assert_eq!(*lock(&agents.called), called);
    let (end, left) = ran(&agents, "f", vec![], AGENT_DEPTH);
    assert!(format!("{end:?}").contains("came through 3 agents already"), "{end:?}");
    assert!(left.is_empty());
    assert_eq!(ran(&agents, "changed", vec![], 0).0, RunEnd::Stale);
    assert_eq!(*lock(&agents.called), called, "it was not called");
}

#[test]
fn the_list_of_agents_is_limited_but_has_all_names() {
    let agents: Vec<Callee> = (0..3).map(|n| callee(&format!("a{n}"), &"d ".repeat(AGENT_LIST_BYTES / 5))).collect();
    let spec = spec(&agents);
    assert!(spec.description.len() <= AGENT_LIST_BYTES, "{}", spec.description.len());
    assert!(spec.description.contains("- a1: d d") && !spec.description.contains("- a2"));
    assert_eq!(spec.parameters["properties"]["agent_name"]["enum"], json!(["a0", "a1", "a2"]));
}
