//! What goes wrong with a turn or comes between, through every entry point: one file per entry point in `tests/golden/trouble`, with a
//! section for each row of [`TROUBLES`], which ends with the warnings of the server's log. They are written anew as those of the story.

use super::{DIALECTS, Dialect, FakeGemini, Server, Setup, Socket, Story, compare, eventually, none_differs, says};
use crate::support::fake::Recording;
use serde_json::{Value, json};

struct Trouble {
    name: &'static str,
    /// Options of the server.
    args: &'static [&'static str],
    prompt: &'static str,
    meanwhile: Meanwhile,
}

/// What happens while the turn is under way.
#[derive(Clone, Copy)]
enum Meanwhile {
    Nothing,
    /// The API is down until the server has failed to reach it.
    ComesUp,
    /// Another client makes this call about the task, and the model goes on.
    Calls(fn(&str) -> Value),
}

const fn alone(name: &'static str, args: &'static [&'static str], prompt: &'static str) -> Trouble {
    Trouble { name, args, prompt, meanwhile: Meanwhile::Nothing }
}

const fn called(name: &'static str, prompt: &'static str, call: fn(&str) -> Value) -> Trouble {
    Trouble { name, args: &[], prompt, meanwhile: Meanwhile::Calls(call) }
}

/// In the journal: the text after which the model of [`Meanwhile::Calls`] waits.
const SAID: &str = r#"{"text":"One moment."#;

const TROUBLES: [Trouble; 10] = [
    alone("the API is overloaded and recovers: retries", &[], "ERR503 2"),
    Trouble {
        name: "the API is down and comes back: a retry",
        args: &["--retry-wait", "800ms"],
        prompt: "TEXT Hello.",
        meanwhile: Meanwhile::ComesUp,
    },
    alone("the API does not know the model: a fallback", &[], "ERR404 1"),
    alone("the API stays down: a failed turn", &["--max-attempts", "2"], "ERR500"),
    alone("the API always breaks off: void text, a failed turn", &[], "TEXT Hel ++ GARBAGE"),
    alone("the API refuses the key: a failed turn", &[], "ERR403"),
    alone(
        "the API is too slow: a failed turn",
        &["--model-timeout", "100ms", "--retry-for", "1ms", "--model", "gemma-4-31b-it"],
        "HANG",
    ),
    called(
        "somebody stops the turn",
        "TEXT One moment. ++ HOLD ++ TEXT Never said.",
        |task| json!({ "abort": { "task": task } }),
    ),
    called(
        "somebody queues a prompt",
        "TEXT One moment. ++ HOLD ++ TEXT The first.",
        |task| json!({ "say": { "task": task, "message": message("TEXT The second.") } }),
    ),
    called(
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
    // The sections of several entry points are made at the same time: most of them wait.
    std::thread::scope(|scope| {
        for (dialect, text) in DIALECTS.iter().zip(&mut texts) {
            scope.spawn(|| text.extend(TROUBLES.iter().map(|trouble| live(dialect, trouble))));
        }
    });
    none_differs(DIALECTS.iter().zip(&texts).filter_map(|(dialect, text)| compare("trouble", dialect, text)));
}

fn live(dialect: &Dialect, trouble: &Trouble) -> String {
    let fake = FakeGemini::down(Recording::On);
    if !matches!(trouble.meanwhile, Meanwhile::ComesUp) {
        fake.come_up();
    }
    let setup = Setup::new(&fake).env("GEMINI_API_KEY", "k-123").arg("--debug").args(["--retry-wait", "10ms"]);
    let server = setup.args(trouble.args).start();
    let told = std::thread::scope(|scope| {
        scope.spawn(|| meanwhile(trouble.meanwhile, &server, &fake));
        Story::new(dialect, &server, trouble.prompt, &[]).told()
    });
    super::Client::new(&server.url()).get("/health");
    let log = eventually("the last line of the log", || {
        let output = server.output();
        output.contains("request health").then_some(output)
    });
    let warnings =
        log.lines().filter_map(|line| Some(line.split_once("] ")?.1)).filter(|line| line.starts_with("warn"));
    let warnings: Vec<String> = warnings.map(|line| format!("log: {}\n", told.renamed(line))).collect();
    format!("$ {}\n{}{}", trouble.name, told.text, warnings.concat()).replace(&fake.url(), "URL")
}

fn meanwhile(what: Meanwhile, server: &Server, fake: &FakeGemini) {
    let state = server.state_dir();
    match what {
        Meanwhile::Nothing => {}
        Meanwhile::ComesUp => {
            eventually("a request that fails", || says(&state, "backed_off").then_some(()));
            fake.come_up();
        }
        Meanwhile::Calls(call) => {
            eventually("the turn", || says(&state, SAID).then_some(()));
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
