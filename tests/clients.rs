//! The clients of a running server that print lines: what they print and how they end, from outside.

#[path = "headless/program.rs"]
#[allow(dead_code, reason = "this test runs other command lines")]
mod program;
mod support;

use program::{Ended, Program, finish, stop_at};
use regex_lite::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use support::eventually;
use support::golden::compare;

/// A running server, and the clients that a test starts.
struct Served {
    program: Program,
    server: Child,
    url: String,
}

fn serve(program: &Program, port: &str, more: &[&str]) -> Command {
    let with = program.command(&[&["--a2a-port", port], more].concat());
    let mut command = Command::new(with.get_program());
    // The verb comes first.
    command.arg("serve").args(with.get_args()).env_clear().stdin(Stdio::null()).stderr(Stdio::piped());
    command.envs(with.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

impl Served {
    fn start() -> Served {
        Served::with(Program::new(), &[])
    }

    fn with(program: Program, args: &[&str]) -> Served {
        let mut child = serve(&program, "0", args).spawn().expect("the program");
        let mut lines = BufReader::new(child.stderr.take().expect("its errors")).lines();
        let url = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned));
        let url = url.expect("a URL");
        std::thread::spawn(move || lines.for_each(drop));
        Served { program, server: child, url }
    }

    fn client(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
        command
            .args(args)
            .arg("--state-dir")
            .arg(self.program.dir.folder("state"))
            .env_clear()
            .env("HOME", self.program.dir.path())
            .env("USER", "ann")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        finish(self.client(args).spawn().expect("the program"))
    }

    /// The commands with their output and exit statuses, as in a terminal.
    fn transcript(&self, commands: &[&[&str]]) -> String {
        let mut text = String::new();
        for args in commands {
            let Ended { status, out, err } = self.run(args);
            let status = status.expect("an exit status");
            writeln!(text, "$ gemini-a2a {}\n{out}{err}[{status}]\n", args.join(" ")).expect("text");
        }
        self.masked(&text)
    }

    /// The text with ids, times and paths masked.
    fn masked(&self, text: &str) -> String {
        let replacements = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "TASK"),
            (r"(?m)^[0-9a-f]{8}(  \S+ +)\d+s", "TASK${1}0s"),
            (r"([a-z_]+__)[a-z_]+_[0-9]+_[0-9]+_[0-9]+", "${1}CALL"),
            (r#"("at":)\d+"#, "${1}0"),
            (r"ann@[A-Za-z0-9._-]+", "ann@HOST"),
        ];
        let text = text.replace(&self.program.workspace().display().to_string(), "DIR");
        let text = text.replace(self.url.trim_start_matches("http://").trim_end_matches('/'), "SERVER");
        replacements.iter().fold(text, |text, (pattern, with)| {
            Regex::new(pattern).expect("an expression").replace_all(&text, *with).into_owned()
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_prompt_is_sent_and_its_answer_awaited() {
    let served = Served::start();
    let seen = served.transcript(&[
        &["tasks"],
        &["watch"],
        &["send", "--wait", "TEXT", "One."],
        &["send", "--wait", "--json", "TEXT Two\tand \u{1b}[1mthree."],
        &["send", "--wait", "ERR403 9"],
        &["tasks"],
        &["watch", "--until", "idle"],
        &["watch", "--until", "idle", "--after", "1000"],
        &["send", "--task", "none", "x"],
        &["tasks", "show", "none"],
    ]);
    compare("clients/send.txt", &seen);
}

#[test]
fn a_question_is_answered_once() {
    let served = Served::start();
    let seen = served.transcript(&[
        &["approve"],
        &["approve", "--list", "--json"],
        &["send", "--wait", "WRITE a.txt one ;; TEXT Written."],
        &["approve", "--option", "wat"],
        &["approve", "--edited", "none.txt"],
        &["approve", "--answer", "x"],
        &["approve", "--list"],
        &["approve"],
        &["watch", "--until", "idle"],
    ]);
    compare("clients/approve.txt", &seen);
    assert_eq!(std::fs::read_to_string(served.program.workspace().join("a.txt")).expect("a file"), "one");
}

/// Prompts that are sent without waiting, and answers with "always".
#[test]
fn a_watch_ends_at_a_question_and_an_answer_may_hold_for_later_calls() {
    let program = Program::new();
    let settings = json!({ "security": { "enablePermanentToolApproval": true } });
    std::fs::write(program.dir.folder(".gemini").join("settings.json"), settings.to_string()).expect("settings");
    let served = Served::with(program, &["--trust-workspace"]);
    let mut seen = served.transcript(&[
        &["send", "WRITE a.txt one ;; TEXT Written."],
        &["watch", "--until", "question"],
        &["approve", "--option", "always"],
        &["watch", "--until", "idle"],
        &["send", "--wait", "SHELL touch made ;; TEXT Made."],
        &["approve", "--option", "save"],
        &["watch", "--until", "idle"],
    ]);
    let listed: Value = serde_json::from_str(&served.run(&["tasks", "--json"]).out).expect("JSON");
    let task = listed[0]["id"].as_str().or(listed[0]["taskId"].as_str()).expect("an id").to_owned();
    seen.push_str(&served.transcript(&[&["tasks", "show", &task]]));
    compare("clients/longer.txt", &seen);
}

#[test]
fn one_of_several_questions_is_answered_by_id_and_a_late_answer_names_the_first() {
    let served = Served::start();
    let ended = served.run(&["send", "--wait", "WRITE a.txt one ++ WRITE b.txt two ;; TEXT Done."]);
    assert_eq!(ended.status, Some(7), "{}", ended.err);
    let several = served.run(&["approve"]);
    assert_eq!(several.status, Some(2));
    assert!(several.err.contains("2 questions wait; name one with --call ID"), "{}", several.err);
    let list = served.run(&["approve", "--list", "--json"]);
    let list: Value = serde_json::from_str(&list.out).expect("JSON");
    let calls: Vec<&str> = (0..2).map(|at| list[at]["callId"].as_str().expect("an id")).collect();
    let file = served.program.dir.folder("edited").join("mine.txt");
    std::fs::write(&file, "mine").expect("a file");
    let edited = served.run(&["approve", "--call", calls[0], "--edited", file.to_str().expect("text")]);
    assert_eq!(edited.status, Some(0), "{}", edited.err);
    let refused = served.run(&["approve", "--call", calls[1], "--option", "no"]);
    assert_eq!(refused.status, Some(0), "{}", refused.err);
    let late = served.run(&["approve", "--call", calls[0]]);
    assert_eq!((late.status, late.err.as_str()), (Some(5), "gemini-a2a: it was answered already, by you\n"));
    assert_eq!(served.run(&["watch", "--until", "idle"]).status, Some(0));
    let written = |name: &str| std::fs::read_to_string(served.program.workspace().join(name)).ok();
    assert_eq!((written("a.txt").as_deref(), written("b.txt")), (Some("mine"), None));
}

/// The exported records are those that `watch` prints, and a deleted task cannot be read.
#[test]
fn tasks_are_exported_and_deleted() {
    let served = Served::start();
    let sent = served.run(&["send", "--new", "--wait", "--json", "TEXT Hello."]);
    let sent: Value = serde_json::from_str(&sent.out).expect("JSON");
    let task = sent["taskId"].as_str().expect("an id");
    let exported = served.run(&["tasks", "export", &task[..6]]);
    let watched = served.run(&["watch", "--task", task, "--json", "--until", "idle"]);
    assert_eq!((exported.status, &exported.out), (Some(0), &watched.out));
    let seqs: Vec<u64> = exported.lines().iter().map(|line| line["seq"].as_u64().expect("a number")).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let shown: Value = serde_json::from_str(&served.run(&["tasks", "show", "--json", task]).out).expect("JSON");
    assert_eq!(shown["id"], task);
    let words = served.run(&["tasks", "show", task]).out;
    assert!(words.starts_with(&format!("Task {task}, input-required, in ")), "{words}");
    assert!(words.ends_with("You: TEXT Hello.\nAgent: Hello.\n"), "{words}");
    let deleted = served.run(&["tasks", "delete", task]);
    assert_eq!((deleted.status, deleted.out), (Some(0), format!("{task}\n")), "{}", deleted.err);
    assert_eq!(served.run(&["tasks", "show", task]).status, Some(4));
    assert_eq!(served.run(&["tasks", "--all", "--json"]).out, "[]\n");
}

#[test]
fn each_end_without_an_answer_has_its_own_exit_status() {
    let served = Served::start();
    let late = served.run(&["send", "--wait=50ms", "HOLD"]);
    assert_eq!(late.status, Some(124), "{}", late.err);
    assert!(late.err.contains("gemini-a2a watch --task "), "{}", late.err);
    for signal in [Signal::INT, Signal::TERM] {
        let watch = served.client(&["watch"]).spawn().expect("the program");
        let ended = stop_at(watch, "You: HOLD", signal);
        assert_eq!((ended.status, ended.err.as_str()), (Some(128 + signal.as_raw()), ""));
    }
    let mut closed = served.client(&["watch", "--json"]).spawn().expect("the program");
    drop(closed.stdout.take());
    finish(closed).expect(0, "", "");
    let nobody = served.run(&["tasks", "--url", "1"]);
    assert_eq!(nobody.status, Some(3), "{}", nobody.err);
    let elsewhere = Program::new();
    let none = elsewhere.dir.folder("state");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
    command.args(["tasks", "--state-dir"]).arg(none).env_clear().env("HOME", elsewhere.dir.path());
    let ended = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program"));
    assert_eq!(ended.status, Some(3));
    assert!(ended.err.contains("no server of yours is running"), "{}", ended.err);
}

#[test]
fn a_prompt_comes_from_standard_input() {
    let served = Served::start();
    let with = |input: &str| {
        let mut child = served.client(&["send", "--wait", "-"]).stdin(Stdio::piped()).spawn().expect("the program");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it reads");
        finish(child)
    };
    with("TEXT From a pipe.\n").expect(0, "From a pipe.\n", "");
    assert_eq!(with(" \n").status, Some(2));
}

/// The server ends and is started again; `watch` continues after the last record.
#[test]
fn a_watch_outlives_the_server() {
    let mut served = Served::start();
    served.run(&["send", "--wait", "TEXT One."]).expect(0, "One.\n", "");
    let port = served.url.trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();
    let mut watch = served.client(&["watch", "--url", &port]).spawn().expect("the program");
    let mut out = BufReader::new(watch.stdout.take().expect("its output")).lines();
    let mut next = || out.next().expect("a line").expect("text");
    assert_eq!([next(), next()], ["You: TEXT One.", "Agent: One."]);
    kill_process(Pid::from_child(&served.server), Signal::TERM).expect("our own child");
    eventually("the end of the server", || served.server.try_wait().expect("our own child"));
    served.server = serve(&served.program, &port, &[]).stderr(Stdio::null()).spawn().expect("the program");
    let sent = eventually("the server", || {
        let sent = served.run(&["send", "--wait", "TEXT Two."]);
        (sent.status == Some(0)).then_some(sent)
    });
    sent.expect(0, "Two.\n", "");
    assert_eq!([next(), next()], ["You: TEXT Two.", "Agent: Two."]);
    kill_process(Pid::from_child(&watch), Signal::TERM).expect("our own child");
    let _ = watch.wait();
}

/// The index is damaged and lacks a task; it is rebuilt while no server runs.
#[test]
fn the_index_is_rebuilt() {
    let mut served = Served::start();
    for text in ["TEXT One.", "TEXT Two."] {
        assert_eq!(served.run(&["send", "--new", "--wait", text]).status, Some(0));
    }
    let refused = served.run(&["tasks", "reindex"]);
    assert_eq!(refused.status, Some(1));
    assert!(refused.err.contains("stop it first"), "{}", refused.err);
    kill_process(Pid::from_child(&served.server), Signal::TERM).expect("our own child");
    eventually("the end of the server", || served.server.try_wait().expect("our own child"));
    let index = served.program.dir.folder("state").join("index.jsonl");
    let text = std::fs::read_to_string(&index).expect("an index");
    let first = serde_json::from_str::<Value>(text.lines().next().expect("a line")).expect("JSON");
    let lost = first["task"].as_str().expect("an id");
    let rest: Vec<&str> = text.lines().filter(|line| !line.contains(lost)).collect();
    std::fs::write(&index, rest.join("\n") + "\nnonsense").expect("the index");
    served.run(&["tasks", "reindex"]).expect(0, "2 tasks; 1 were missing, 0 were out of date\n", "");
    served.run(&["tasks", "reindex"]).expect(0, "2 tasks; 0 were missing, 0 were out of date\n", "");
}

/// What the program prints for these words, without a server.
fn printed(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gemini-a2a")).args(args).env_clear().output().expect("the program");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_verb_of_the_help_is_in_the_completions_and_the_man_page() {
    let help = printed(&["--help"]);
    let usage = help.lines().filter_map(|line| line.trim_start_matches("Usage:").trim().strip_prefix("gemini-a2a "));
    let listed = help.lines().skip_while(|line| *line != "Verbs:").skip(1).take_while(|line| !line.is_empty());
    // The description of an entry with a long name is on the next line, which is indented further.
    let listed = listed.filter(|line| !line.starts_with("   "));
    let first = |line: &str| line.split_whitespace().next().expect("a word").to_owned();
    let mut verbs: Vec<String> = usage.chain(listed).map(first).collect();
    verbs.retain(|word| !word.starts_with('[') && word != "VERB");
    for verb in ["serve", "acp", "help", "attach", "doctor", "replay"] {
        assert!(verbs.iter().any(|one| one == verb), "{verb} is not among {verbs:?}");
    }
    let (bash, zsh, fish, man) = (
        printed(&["completion", "bash"]),
        printed(&["completion", "zsh"]),
        printed(&["completion", "fish"]),
        printed(&["man"]),
    );
    for verb in &verbs {
        assert!(bash.contains(&format!("\n        {verb}) ")), "bash: {verb}");
        assert!(zsh.contains(&format!("\n        {verb}) ")), "zsh: {verb}");
        assert!(fish.contains(&format!(" -a {verb} ")), "fish: {verb}");
        assert!(man.contains(&format!("\n.SS {verb} ")), "man: {verb}");
        assert!(man.contains(&format!("\ngemini\\-a2a {verb}")), "synopsis: {verb}");
    }
}

/// The completions of the last word, by the printed script in a real shell.
fn completed(script: &str, words: &[&str]) -> Vec<String> {
    let call = "COMP_WORDS=(\"${@:2}\"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gemini_a2a; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", &format!("{script}{call}"), "bash", "_"]).args(words).output();
    let output = output.expect("a shell");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_reads_the_completions() {
    if Command::new("bash").arg("--version").output().is_err() {
        eprintln!("skipped: there is no bash here");
        return;
    }
    let script = printed(&["completion", "bash"]);
    let checked = Command::new("bash").args(["-n", "-c", &script]).output().expect("a shell");
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert_eq!(completed(&script, &["gemini-a2a", "ac"]), ["acp"]);
    assert_eq!(completed(&script, &["gemini-a2a", "attach", "--na"]), ["--name"]);
    assert_eq!(completed(&script, &["gemini-a2a", "--approval-mode", "pl"]), ["plan"]);
    let of_acp = completed(&script, &["gemini-a2a", "acp", "--"]);
    assert!(of_acp.iter().any(|flag| flag == "--a2a-port"), "{of_acp:?}");
    assert!(!of_acp.iter().any(|flag| flag == "--prompt"), "acp takes no prompt: {of_acp:?}");
}

#[test]
fn the_version_is_json_for_programs() {
    let version: Value = serde_json::from_str(&printed(&["--version", "--json"])).expect("one object");
    let features = [
        ("agents", cfg!(feature = "agents")),
        ("bucket", cfg!(feature = "bucket")),
        ("identity", cfg!(feature = "identity")),
        ("mcp", cfg!(feature = "mcp")),
        ("tui", cfg!(feature = "tui")),
        ("web-tools", cfg!(feature = "web-tools")),
        ("webhooks", cfg!(feature = "webhooks")),
    ];
    let features: Vec<&str> = features.into_iter().filter(|(_, is_built)| *is_built).map(|(name, _)| name).collect();
    assert_eq!(
        version,
        serde_json::json!({
            "name": "gemini-a2a",
            "version": env!("CARGO_PKG_VERSION"),
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "features": features,
        })
    );
    assert!(printed(&["--version"]).contains(env!("CARGO_PKG_VERSION")));
}

/// A server with credentials and their tokens: `ann` has all rights but `admin`, `eve` only `view`.
struct TokenServer {
    served: Served,
    ann: String,
    eve: String,
}

impl TokenServer {
    fn start() -> TokenServer {
        let program = Program::new();
        let add = |id: &str, rights: &str| {
            let ended = verb(&program, &["token", "add", id, "--rights", rights]);
            assert_eq!(ended.status, Some(0), "{}", ended.err);
            ended.out.trim().to_owned()
        };
        let (ann, eve) = (add("ann", "view,prompt,approve,admin"), add("eve", "view"));
        TokenServer { served: Served::with(program, &["--access", "token"]), ann, eve }
    }

    fn with_token(&self, token: &str, args: &[&str]) -> Ended {
        let ended = finish(self.served.client(args).env("GEMINI_A2A_TOKEN", token).spawn().expect("the program"));
        assert!(!ended.out.contains(token) && !ended.err.contains(token), "{}{}", ended.out, ended.err);
        ended
    }
}

fn verb(program: &Program, args: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
    command.args(args).arg("--state-dir").arg(program.dir.folder("state")).env_clear();
    command.env("HOME", program.dir.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the program"))
}

#[test]
fn every_client_sends_its_token() {
    let token_server = TokenServer::start();
    let file = token_server.served.program.dir.folder("secret").join("token");
    std::fs::write(&file, format!("{}\n", token_server.ann)).expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("our own file");
    let file = file.to_str().expect("text");
    let run = |args: &[&str]| {
        token_server.served.run(&[args, &["--url", &token_server.served.url, "--token-file", file]].concat())
    };
    let sent = run(&["send", "--new", "--wait", "--json", "WRITE a.txt one ;; TEXT Written."]);
    assert_eq!(sent.status, Some(7), "{}", sent.err);
    assert_eq!(run(&["approve"]).status, Some(0));
    let tasks: Value = serde_json::from_str(&run(&["tasks", "--json"]).out).expect("JSON");
    let task = tasks[0]["taskId"].as_str().expect("an id");
    assert_eq!(run(&["watch", "--until", "idle", "--task", task]).status, Some(0));
    for action in ["show", "export"] {
        assert_eq!(run(&["tasks", action, task]).status, Some(0), "{action}");
    }
    let found = token_server.with_token(&token_server.ann, &["tasks", "--json"]);
    assert!(found.out.contains(task), "without a URL: {}", found.err);
    assert_eq!(run(&["tasks", "delete", task]).status, Some(0));
    let attached = run(&["attach"]);
    assert!(attached.status == Some(2) && attached.err.contains("in a terminal"), "{}", attached.err);
    // Without a token the Unix socket serves the operator, who is the user.
    assert_eq!(token_server.served.run(&["tasks"]).status, Some(0));
}

#[test]
fn a_client_without_a_valid_token_or_a_right_is_told_what_to_do() {
    let token_server = TokenServer::start();
    let url = token_server.served.url.as_str();
    let wrong = format!("{}x", token_server.ann);
    for args in [&["tasks"][..], &["watch"], &["approve"], &["send", "TEXT Hello."], &["attach"]] {
        let ended = token_server.with_token(&wrong, &[args, &["--url", url]].concat());
        let what =
            "is not valid: it is unknown, revoked or expired; give its token in GEMINI_A2A_TOKEN or with --token-file";
        assert!(ended.status == Some(8) && ended.err.contains(what), "{args:?}: {:?} {}", ended.status, ended.err);
    }
    for args in [&["send", "--new", "TEXT Hello."][..], &["send", "TEXT Hello."]] {
        let ended = token_server.with_token(&token_server.eve, args);
        assert!(ended.status == Some(8) && ended.err.contains("prompt"), "{args:?}: {:?} {}", ended.status, ended.err);
    }
    assert_eq!(token_server.with_token(&token_server.eve, &["tasks"]).status, Some(0));
    let ended = token_server.served.run(&["tasks", "--token-file", "/none/such"]);
    assert!(ended.status == Some(78) && ended.err.contains("/none/such cannot be read"), "{}", ended.err);
    assert_eq!(
        token_server.served.run(&["tasks", "--token", &token_server.ann]).status,
        Some(2),
        "never as an argument"
    );
}

#[test]
fn a_revoked_token_ends_a_watch() {
    let token_server = TokenServer::start();
    let sent = token_server.with_token(&token_server.ann, &["send", "--new", "--wait", "--json", "TEXT One."]);
    let task = sent.lines()[0]["taskId"].as_str().expect("an id").to_owned();
    let mut command = token_server.served.client(&["watch", "--task", &task]);
    let mut watch = command.env("GEMINI_A2A_TOKEN", &token_server.ann).spawn().expect("the program");
    let mut out = BufReader::new(watch.stdout.take().expect("its output")).lines();
    assert_eq!(out.next().expect("a line").expect("text"), "You: TEXT One.");
    assert_eq!(verb(&token_server.served.program, &["token", "revoke", "ann"]).status, Some(0));
    let ended = finish(watch);
    assert_eq!(ended.status, Some(8), "{}", ended.err);
    assert!(ended.err.contains("credential revoked") && ended.err.contains("--token-file"), "{}", ended.err);
}
