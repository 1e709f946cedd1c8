//! The formats `json` and `stream-json`, whole: an answer, tools, and each kind of failure.

use crate::program::{Ended, Program, finish, stop_at};
use crate::support::eventually;
use crate::support::golden::compare;
use regex_lite::Regex;
use rustix::process::Signal;
use serde_json::Value;
use std::fmt::Write;

const LOOP: &str = "LS . ;; LS . ;; LS . ;; LS . ;; LS . ;; LS . ;; LS . ;; LS . ;; LS . ;; LS . ;; LS . ;; LS .";

/// A run by its name, the arguments behind the format, and whether a signal ends it.
const CASES: [(&str, &[&str], bool); 8] = [
    ("ok", &["-p", "THINK Idea | None. ++ TEXT Hello,  ++ TEXT \u{1b}[1mworld."], false),
    ("tools", &["--trust-workspace", "-y", "-p", "WRITE a.txt one ;; SHELL echo two ;; TEXT Done."], false),
    ("tool error", &["-p", "READ none.txt ++ WRITE a.txt x ;; TEXT Neither."], false),
    ("auth", &["-p", "ERR403 9"], false),
    ("retry", &["-p", "ERR503 1 ++ TEXT At last."], false),
    ("limit", &["-p", "LS . ;; LS . ;; TEXT never"], false),
    ("loop", &["-p", LOOP], false),
    ("cancel", &["-p", "TEXT begun ++ HOLD"], true),
];

fn run(format: &str, (name, args, is_stopped): (&str, &[&str], bool)) -> Ended {
    let program = Program::new();
    std::fs::write(program.workspace().join("file.txt"), "").expect("a file");
    if name == "limit" {
        let settings = program.dir.folder(".gemini").join("settings.json");
        std::fs::write(settings, r#"{"model": {"maxSessionTurns": 2}}"#).expect("settings");
    }
    let child = program.command(&[&["-o", format], args].concat()).spawn().expect("the program");
    if is_stopped {
        eventually("the hold", || (program.fake.held() == 1).then_some(()));
    }
    let mut ended = match (is_stopped, format) {
        (false, _) => finish(child),
        (true, "stream-json") => stop_at(child, "begun\",\"delta\"", Signal::INT),
        (true, _) => stop_at(child, "", Signal::INT),
    };
    let dir = program.workspace().display().to_string();
    (ended.out, ended.err) = (ended.out.replace(&dir, "DIR"), ended.err.replace(&dir, "DIR"));
    ended
}

/// What differs from run to run is replaced: ids, times, durations, and token counts, which the fake model derives from the length of
/// its requests.
fn steady(text: &str) -> String {
    let replacements = [
        (r#"("timestamp": ?)"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z""#, r#"$1"TIME""#),
        (r#"("session_id": ?)"[0-9a-f-]{36}""#, r#"$1"SESSION""#),
        (r#"("tool_id": ?"[a-z_]+)__[^"]+""#, r#"${1}__ID""#),
        (r#"("(?:duration_ms|durationMs|totalDurationMs|totalLatencyMs)": ?)\d+"#, "${1}0"),
        (r#"("(?:total_tokens|input_tokens|input|prompt|total)": ?)[1-9]\d*"#, "${1}1000"),
    ];
    replacements.iter().fold(text.to_owned(), |text, (pattern, with)| {
        Regex::new(pattern).expect("an expression").replace_all(&text, *with).into_owned()
    })
}

/// Both streams of every case, after `check` has read them.
fn all(format: &str, check: impl Fn(&Ended)) -> String {
    let mut text = String::new();
    for case in CASES {
        let ended = run(format, case);
        check(&ended);
        let Ended { status, out, err } = &ended;
        let status = status.expect("an exit status");
        write!(text, "=== {}: exit {status}\n{}--- standard error\n{}", case.0, steady(out), steady(err))
            .expect("text");
    }
    text
}

#[test]
fn json_is_one_object_on_one_of_the_streams() {
    let text = all("json", |ended| {
        let (object, empty) = if ended.status == Some(0) { (&ended.out, &ended.err) } else { (&ended.err, &ended.out) };
        assert_eq!(empty, "");
        let object: Value = serde_json::from_str(object).expect("one JSON object");
        assert_eq!(object["error"]["code"].as_i64().unwrap_or(0), i64::from(ended.status.expect("a status")));
    });
    compare("headless/json.txt", &text);
}

#[test]
fn stream_json_ends_with_one_result() {
    let text = all("stream-json", |ended| {
        let lines = ended.lines();
        let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
        assert_eq!((types[0], *types.last().expect("a line")), ("init", "result"));
        assert_eq!(types.iter().filter(|word| **word == "result").count(), 1);
        assert_eq!(lines.last().expect("a line")["status"] == "success", ended.status == Some(0));
        assert_eq!(ended.err, "");
    });
    compare("headless/stream-json.txt", &text);
}

/// A failure before there is a session has no beginning, but it has an end.
#[test]
fn a_wrong_configuration_is_reported_in_the_format() {
    let program = Program::new();
    let json = program.run(&["-o", "json", "-p", "x", "--workspace", "/no/such/dir"]);
    assert_eq!((json.status, json.out.as_str()), (Some(52), ""));
    let error: Value = serde_json::from_str(&json.err).expect("one JSON object");
    assert_eq!(error["error"]["type"], "FatalConfigError");
    let stream = program.run(&["-o", "stream-json", "-p", "", "--debug"]);
    assert_eq!((stream.status, stream.err.as_str()), (Some(42), ""));
    let lines = stream.lines();
    assert_eq!(
        (lines.len(), &lines[0]["type"], &lines[0]["error"]["type"]),
        (1, &"result".into(), &"FatalInputError".into())
    );
}
