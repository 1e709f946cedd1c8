//! Failures of the model API, and other clients that intervene in a turn, through every entry point: one file per entry point in
//! `tests/golden/trouble`, with a section for each row of [`TROUBLES`], which ends with the warnings of the server's log.
//! `GOLDEN=write cargo test --test live` writes these files again, too.

use super::{
    DIALECTS, Dialect, FakeGemini, Server, Session, Setup, Socket, assert_no_differences, compare, eventually, has_text,
};
use crate::support::fake::Recording;
use serde_json::{Value, json};

struct Trouble {
    name: &'static str,
    /// Options of the server.
    args: &'static [&'static str],
    prompt: &'static str,
    during_turn: DuringTurn,
}

/// What happens during the turn, apart from the prompt and the response of the model.
#[derive(Clone, Copy)]
enum DuringTurn {
    Nothing,
    /// The API is down until the server has failed to reach it.
    ApiComesUp,
    /// Another client makes this call about the task, and then the model continues.
    OtherClientCalls(fn(&str) -> Value),
}

const fn api_trouble(name: &'static str, args: &'static [&'static str], prompt: &'static str) -> Trouble {
    Trouble { name, args, prompt, during_turn: DuringTurn::Nothing }
}

const fn other_client(name: &'static str, prompt: &'static str, call: fn(&str) -> Value) -> Trouble {
    Trouble { name, args: &[], prompt, during_turn: DuringTurn::OtherClientCalls(call) }
}

/// The text in the journal after which the model waits for the call of [`DuringTurn::OtherClientCalls`].
const TEXT_BEFORE_CALL: &str = r#"{"text":"One moment."#;

const TROUBLES: [Trouble; 10] = [
    api_trouble("the API is overloaded and recovers: retries", &[], "ERR503 2"),
    Trouble {
        name: "the API is down and comes back: a retry",
        args: &["--retry-wait", "800ms"],
        prompt: "TEXT Hello.",
        during_turn: DuringTurn::ApiComesUp,
    },
    api_trouble("the API does not know the model: a fallback", &[], "ERR404 1"),
    api_trouble("the API stays down: a failed turn", &["--max-attempts", "2"], "ERR500"),
    api_trouble("the API always breaks off: void text, a failed turn", &[], "TEXT Hel ++ GARBAGE"),
    api_trouble("the API refuses the key: a failed turn", &[], "ERR403"),
    api_trouble(
        "the API is too slow: a failed turn",
        &["--model-timeout", "100ms", "--retry-for", "1ms", "--model", "gemma-4-31b-it"],
        "HANG",
    ),
    other_client(
        "somebody stops the turn",
        "TEXT One moment. ++ HOLD ++ TEXT Never said.",
        |task| json!({ "abort": { "task": task } }),
    ),
    other_client(
        "somebody queues a prompt",
        "TEXT One moment. ++ HOLD ++ TEXT The first.",
        |task| json!({ "say": { "task": task, "message": message("TEXT The second.") } }),
    ),
    other_client(
        "somebody steers the turn",
        "TEXT One moment. ++ HOLD ++ LS . ;; TEXT As you wish.",
        |task| json!({ "say": { "task": task, "message": message("Rather be brief."), "steer": true } }),
    ),
];

/// A prompt of the other client.
fn message(text: &str) -> Value {
    json!({ "id": "m-2", "role": "user", "parts": [{ "content": { "text": text } }] })
}

#[test]
fn trouble_through_every_entry_point() {
    let mut texts = vec![String::new(); DIALECTS.len()];
    // The entry points are tested at the same time, because most of the time is spent waiting.
    std::thread::scope(|scope| {
        for (dialect, text) in DIALECTS.iter().zip(&mut texts) {
            scope.spawn(|| text.extend(TROUBLES.iter().map(|trouble| section(dialect, trouble))));
        }
    });
    assert_no_differences(DIALECTS.iter().zip(&texts).filter_map(|(dialect, text)| compare("trouble", dialect, text)));
}

/// The section of the transcript for one row, from a session on a new server.
fn section(dialect: &Dialect, trouble: &Trouble) -> String {
    let fake = FakeGemini::down(Recording::On);
    if !matches!(trouble.during_turn, DuringTurn::ApiComesUp) {
        fake.come_up();
    }
    let setup = Setup::new(&fake).env("GEMINI_API_KEY", "k-123").arg("--debug").args(["--retry-wait", "10ms"]);
    let server = setup.args(trouble.args).start();
    let transcript = std::thread::scope(|scope| {
        scope.spawn(|| intervene(trouble.during_turn, &server, &fake));
        Session::new(dialect, &server, trouble.prompt, &[]).run()
    });
    super::Client::new(&server.url()).get("/health");
    let log = eventually("the last line of the log", || {
        let output = server.output();
        output.contains("request health").then_some(output)
    });
    let warnings =
        log.lines().filter_map(|line| Some(line.split_once("] ")?.1)).filter(|line| line.starts_with("warn"));
    let warnings: Vec<String> = warnings.map(|line| format!("log: {}\n", transcript.renamed(line))).collect();
    format!("$ {}\n{}{}", trouble.name, transcript.text, warnings.concat()).replace(&fake.url(), "URL")
}

fn intervene(action: DuringTurn, server: &Server, fake: &FakeGemini) {
    let state = server.state_dir();
    match action {
        DuringTurn::Nothing => {}
        DuringTurn::ApiComesUp => {
            eventually("a request that fails", || has_text(&state, "backed_off").then_some(()));
            fake.come_up();
        }
        DuringTurn::OtherClientCalls(call) => {
            eventually("the turn", || has_text(&state, TEXT_BEFORE_CALL).then_some(()));
            eventually("the model", || (fake.held() == 1).then_some(()));
            let names = std::fs::read_dir(state.join("tasks")).expect("a directory").flatten();
            let task = names.map(|entry| entry.file_name().to_string_lossy().replace(".jsonl", "")).next();
            let task = task.expect("one task");
            let mut socket =
                Socket::open(&server.url(), &format!("/ws?taskId={task}&client=ann"), Some("gemini-a2a.v1"));
            socket.send(&json!({ "id": 1, "call": call(&task) }));
            let answer = socket.until(|frame| frame["id"] == 1);
            fake.release();
            assert!(answer.get("ok").is_some(), "{answer}");
        }
    }
}
