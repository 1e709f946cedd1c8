//! `gemini-a2a doctor` finds each fault that a test sets up, says what to do, and exits with 1 if the program could not work.

#[path = "headless/program.rs"]
#[allow(dead_code, reason = "this test runs other command lines")]
mod program;
#[path = "session/pty.rs"]
#[allow(dead_code, reason = "this test types nothing")]
mod pty;
mod support;

use program::{Ended, Program, finish};
use pty::{Pty, TestDirs};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A run of `doctor`: its directories, arguments and environment.
struct Doctor {
    program: Program,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
}

impl Doctor {
    /// An environment in which `doctor` finds nothing.
    fn without_faults() -> Doctor {
        let program = Program::new();
        let args = ["doctor", "--trust-workspace", "--a2a-port", "0", "--workspace"].map(str::to_owned);
        let mut args = Vec::from(args);
        args.push(program.workspace().display().to_string());
        args.push("--state-dir".into());
        args.push(program.dir.folder("state").display().to_string());
        let env = vec![
            ("PATH", std::env::var("PATH").expect("a path")),
            ("HOME", program.dir.path().display().to_string()),
            ("EDITOR", "sh".into()),
            ("GEMINI_API_KEY", "fake".into()),
            ("GOOGLE_GEMINI_BASE_URL", program.fake.url()),
        ];
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(program.dir.folder("state"), mode).expect("our own folder");
        Doctor { program, args, env }
    }

    fn set(mut self, name: &'static str, value: &str) -> Doctor {
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value.to_owned()));
        self
    }

    fn with(mut self, args: &[&str]) -> Doctor {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    fn settings(self, text: &str) -> Doctor {
        std::fs::write(self.program.dir.folder(".gemini").join("settings.json"), text).expect("settings");
        self
    }

    fn run(&self) -> Ended {
        self.run_by(&[])
    }

    /// Runs `doctor` by another program, such as `strace`, whose words come first.
    fn run_by(&self, words: &[&str]) -> Ended {
        let program = [words, &[env!("CARGO_BIN_EXE_gemini-a2a")]].concat();
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        command.args(&self.args).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.envs(self.env.iter().cloned()).spawn().expect("the program"))
    }

    /// The output has a line with this beginning and these words, and the exit status is `status`.
    fn expect(&self, status: i32, begin: &str, words: &str) {
        self.expect_by(&[], status, begin, words);
    }

    fn expect_by(&self, program: &[&str], status: i32, begin: &str, words: &str) {
        let ended = self.run_by(program);
        assert_eq!((ended.status, ended.err.as_str()), (Some(status), ""), "{}", ended.out);
        let found = ended.out.lines().any(|line| line.starts_with(begin) && line.contains(words));
        assert!(found, "{begin} {words}:\n{}", ended.out);
    }
}

/// The URL of an API that gives every request this response.
fn api_answering(status: &'static str, date: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                let lower = line.to_ascii_lowercase();
                length =
                    lower.strip_prefix("content-length:").map_or(length, |text| text.trim().parse().expect("a number"));
                line.clear();
            }
            let _ = reader.read_exact(&mut vec![0; length]);
            let _ = write!(stream, "HTTP/1.1 {status}\r\n{date}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}");
        }
    });
    url
}

#[test]
fn nothing_is_found_in_a_healthy_environment() {
    let ended = Doctor::without_faults().run();
    assert_eq!(ended.status, Some(0), "{}", ended.out);
    // The kernel of this machine may lack what confinement needs.
    let wrong: Vec<&str> =
        ended.out.lines().filter(|line| !line.starts_with("ok ") && !line.contains("confinement")).collect();
    assert_eq!(wrong, [""; 0]);
    let lines = ended.out.lines().count();
    let json: Value = serde_json::from_str(&Doctor::without_faults().with(&["--json"]).run().out).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(lines));
    assert_eq!(json[0], serde_json::json!({"level": "ok", "check": "settings", "found": "no errors", "advice": ""}));
}

#[test]
fn keys_models_and_networks() {
    let mut keyless = Doctor::without_faults();
    keyless.env.retain(|(name, _)| !["GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"].contains(name));
    keyless.expect(0, "warn  key:", "set GEMINI_API_KEY");
    let api = |status, date| Doctor::without_faults().set("GOOGLE_GEMINI_BASE_URL", &api_answering(status, date));
    api("403 Forbidden", "").expect(1, "fail  key:", "refused the key");
    api("404 Not Found", "").expect(1, "fail  key:", "gemini-3.1-pro-preview");
    api("200 OK", "Date: Sun, 01 Mar 2020 09:30:00 GMT\r\n").expect(0, "warn  clock:", "set the clock");
    let down = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let nobody = format!("http://{down}");
    Doctor::without_faults().set("GOOGLE_GEMINI_BASE_URL", &nobody).expect(1, "fail  key:", "");
    let outside = Doctor::without_faults().set("GOOGLE_GEMINI_BASE_URL", "https://gateway.invalid");
    let outside = outside.set("HTTPS_PROXY", "http://u:pass@127.0.0.1:1");
    outside.expect(1, "ok    proxy:", "http://127.0.0.1:1");
    assert!(!outside.run().out.contains("pass@"));
    Doctor::without_faults().set("SSL_CERT_FILE", "/no/such/file").expect(1, "fail  settings:", "SSL_CERT_FILE");
    let patient = Doctor::without_faults();
    let file = patient.program.dir.folder("ca").join("empty.pem");
    std::fs::write(&file, "nothing").expect("a file");
    let patient = patient.set("SSL_CERT_FILE", &file.display().to_string());
    patient.expect(1, "fail  certificates:", "PEM");
    let outside = Doctor::without_faults().set("GOOGLE_GEMINI_BASE_URL", "https://gateway.invalid");
    outside.set("HTTPS_PROXY", "gopher://127.0.0.1:1").expect(1, "fail  proxy:", "correct the proxy variables");
}

#[test]
fn a_clock_that_was_never_set() {
    if Command::new("faketime").arg("--version").output().is_err() {
        eprintln!("skipped: there is no faketime here");
        return;
    }
    let early = ["faketime", "2001-01-01 00:00:00"];
    Doctor::without_faults().expect_by(&early, 1, "fail  clock: it says 2001-01-0", "set the clock");
}

/// Whether this user may create mount namespaces.
fn can_mount() -> bool {
    let tried = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("skipped: nothing can be mounted here");
    }
    can
}

#[test]
fn state_directories_that_cannot_be_used() {
    let patient = Doctor::without_faults();
    let state = patient.program.dir.folder("state").display().to_string();
    match rustix::process::geteuid().is_root() {
        true => {
            std::os::unix::fs::chown(&state, Some(12_345), None).expect("root may give it away");
            patient.expect(1, "fail  state:", "belongs to the user 12345");
        }
        false => {
            Doctor::without_faults().with(&["--state-dir", "/usr"]).expect(1, "fail  state:", "belongs to the user 0")
        }
    }
    let locked = Doctor::without_faults();
    let path = locked.program.dir.folder("state").join("index.jsonl");
    let file = std::fs::File::create(path).expect("a file");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    locked.expect(0, "warn  state: another process keeps ", "index.jsonl locked");
    drop(file);
    locked.expect(0, "ok    state:", "no server runs with it");
    if !can_mount() {
        return;
    }
    for (options, status, begin, words) in [
        ("size=1m,mode=700", 0, "warn  state: only ", "make room"),
        ("ro,mode=700", 1, "fail  state:", "cannot be written"),
    ] {
        let patient = Doctor::without_faults();
        let state = patient.program.dir.folder("state").display().to_string();
        let script = format!("mount -t tmpfs -o {options} none {state} && exec \"$@\"");
        patient.expect_by(&["unshare", "-rm", "sh", "-c", &script, "sh"], status, begin, words);
    }
}

/// Whether strace can change the results of system calls here.
fn can_inject() -> bool {
    let strace = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "-e", NO_LANDLOCK, "true"]).output();
    let can = strace.is_ok_and(|ended| ended.status.success());
    if !can {
        println!("skipped: strace is not installed, or may not trace here");
    }
    can
}

/// An argument of strace: the kernel lacks this system call.
const NO_LANDLOCK: &str = "inject=landlock_create_ruleset:error=ENOSYS";

#[test]
fn a_kernel_that_cannot_confine_commands() {
    if can_inject() {
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", NO_LANDLOCK];
        let words = "every command needs approval on this machine";
        Doctor::without_faults().expect_by(&strace, 0, "warn  confinement: The kernel", words);
    }
}

#[test]
fn ports_and_directories() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    Doctor::without_faults().with(&["--a2a-port", &port]).expect(1, "fail  port:", "--a2a-port");
    let patient = Doctor::without_faults();
    let state = patient.program.dir.folder("state");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o777)).expect("our own folder");
    patient.expect(1, "fail  state:", "chmod go-w");
    let file = patient.program.dir.folder("x").join("file");
    std::fs::write(&file, "").expect("a file");
    let below = file.join("state").display().to_string();
    Doctor::without_faults().with(&["--state-dir", &below]).expect(1, "fail  state:", "is not a directory");
    Doctor::without_faults().with(&["--workspace", "/no/such/dir"]).expect(1, "fail  settings:", "/no/such/dir");
}

#[test]
fn settings_and_programs() {
    Doctor::without_faults().settings("{\"model\": 7}").expect(0, "warn  settings:", "model");
    Doctor::without_faults().set("EDITOR", "no-such-editor").expect(0, "warn  editor:", "set VISUAL or EDITOR");
    let empty = Doctor::without_faults();
    let nothing = empty.program.dir.folder("nothing").display().to_string();
    empty.set("PATH", &nothing).expect(0, "warn  git:", "install git");
    let broken = Doctor::without_faults();
    let programs = programs(&broken.program.dir.folder("bin"), &[("git", "exit 3"), ("vi", "")]);
    broken.set("PATH", &programs).expect(0, "warn  git: it ends with exit status: 3", "install git");
    let mut untrusted = Doctor::without_faults();
    untrusted.args.retain(|arg| arg != "--trust-workspace");
    untrusted.expect(0, "warn  workspace:", "--trust-workspace");
}

/// A `PATH` with only these scripts.
fn programs(folder: &Path, scripts: &[(&str, &str)]) -> String {
    for (name, script) in scripts {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    }
    folder.display().to_string()
}

#[test]
fn options_of_tmux() {
    let inside = |values: &str| {
        let patient = Doctor::without_faults();
        // The fake tmux answers only questions about these options.
        let script = format!("[ \"$1$TMUX\" = display-messagesocket ] && echo {values}");
        let path = programs(&patient.program.dir.folder("bin"), &[("tmux", &script), ("git", "echo git")]);
        patient.set("PATH", &path).set("TMUX", "socket")
    };
    inside("on,1,on,on").expect(0, "ok    tmux:", "");
    inside("always,on,on,all").expect(0, "ok    tmux:", "");
    // Older versions lack some of the options.
    inside(",1,on,").expect(0, "ok    tmux:", "");
    let some = inside("off,0,external,on");
    some.expect(
        0,
        "warn  tmux: extended-keys is off (Shift-Enter), focus-events is off",
        "set-clipboard is off (/copy)",
    );
    some.expect(
        0,
        "warn  tmux:",
        "in ~/.tmux.conf: set -g extended-keys on; set -g focus-events on; set -g set-clipboard on",
    );
    assert!(!Doctor::without_faults().run().out.contains("tmux"));
}

/// Settings with one MCP server.
fn server(entry: &Value) -> String {
    json!({"mcpServers": {"one": entry}}).to_string()
}

#[test]
fn mcp_servers_are_started() {
    Doctor::without_faults().expect(0, "ok    MCP server:", "none is configured");
    let missing = server(&json!({"command": "no-such-program"}));
    Doctor::without_faults().settings(&missing).expect(1, "fail  MCP server: one:", "no-such-program");
    let ends = server(&json!({"command": "sh", "args": ["-c", "echo out of memory >&2; exit 3"]}));
    Doctor::without_faults().settings(&ends).expect(1, "fail  MCP server: one:", "mcp test one");
    let silent = server(&json!({"command": "sleep", "args": ["600"]}));
    Doctor::without_faults().settings(&silent).expect(0, "warn  MCP server: one is still starting", "mcp test one");
    let down = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let nobody = server(&json!({"httpUrl": format!("http://{down}/mcp")}));
    Doctor::without_faults().settings(&nobody).expect(1, "fail  MCP server: one:", "");
    let entry = json!({"mcpServers": {"one": {"command": "sh"}}, "mcp": {"excluded": ["one"]}});
    Doctor::without_faults().settings(&entry.to_string()).expect(0, "warn  MCP server: one:", "correct");
}

#[test]
fn an_mcp_server_that_works_is_connected() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return;
    }
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    let patient = Doctor::without_faults();
    let heard = patient.program.dir.folder("heard").join("all");
    let entry = json!({"command": "python3", "args": [script], "env": {"HEARD": heard}});
    let patient = patient.settings(&server(&entry));
    patient.expect(0, "ok    MCP server:", "one is connected");
    assert!(std::fs::read_to_string(&heard).expect("the MCP server was started").contains("initialize"));
    // Nothing is started in a folder that is not trusted.
    let mut untrusted = Doctor::without_faults();
    let heard = untrusted.program.dir.folder("heard").join("all");
    let entry = json!({"command": "python3", "args": [script], "env": {"HEARD": heard}});
    untrusted.args.retain(|arg| arg != "--trust-workspace");
    let untrusted = untrusted.settings(&server(&entry));
    untrusted.expect(0, "warn  MCP server: one:", "--trust-workspace");
    assert!(!heard.exists(), "the MCP server was started");
}

/// The lines of `doctor` in a pseudo-terminal with this `TERM`, size and answers to queries.
fn in_terminal(name: &str, size: Option<(u16, u16)>, answers: &str) -> String {
    let place = TestDirs::new();
    let words = [env!("CARGO_BIN_EXE_gemini-a2a"), "doctor", "--trust-workspace", "--a2a-port", "0"];
    let mut pty = Pty::start(&place, &[("TERM", name)], &words);
    if let Some((columns, rows)) = size {
        pty.resize(columns, rows);
    }
    let last = b"\x1b[c";
    while !answers.is_empty() && !pty.bytes.windows(last.len()).any(|bytes| bytes == last) {
        assert!(pty.read(support::PATIENCE), "it is asked: {}", pty.text());
    }
    pty.keys(answers);
    let (status, text) = pty.end();
    assert!(status.success(), "{text}");
    text.lines().find(|line| line.contains(" terminal: ")).unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn the_terminal_is_asked_what_it_can_do() {
    let all = in_terminal("xterm-256color", None, "\x1bP>|foot(1.20)\x1b\\\x1b[?0u\x1b[?2026;2$y\x1b[?62;c");
    let words = "foot(1.20) (xterm-256color), 80 × 24, 256 colours, kitty keys, synchronised output";
    assert_eq!(all, format!("ok    terminal: {words}"));
    let little = in_terminal("xterm", None, "\x1b[?6c");
    assert_eq!(little, "ok    terminal: xterm, 80 × 24, 16 colours, plain keys, no synchronised output");
    let silent = in_terminal("xterm", None, "");
    assert!(silent.starts_with("warn  terminal: xterm, 80 × 24, 16 colours, answers no questions · "), "{silent}");
    let dumb = in_terminal("dumb", None, "");
    assert!(dumb.starts_with("warn  terminal: TERM names no terminal"), "{dumb}");
    let small = in_terminal("xterm", Some((30, 8)), "\x1b[?6c");
    assert!(small.starts_with("warn  terminal: xterm, 30 × 8, ") && small.contains("larger"), "{small}");
}

#[test]
fn credentials_are_read_and_counted() {
    let with_file = |text: &str, mode: u32| {
        let patient = Doctor::without_faults().with(&["--access", "token"]);
        let file = patient.program.dir.folder("state").join("credentials.json");
        std::fs::write(&file, text).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("our own file");
        patient
    };
    let file = |not_after: &[&str]| {
        let credential = |(number, time): (usize, &&str)| {
            json!({"id": format!("c{number}"), "subject": "ann", "rights": ["view"], "sha256": "0".repeat(64),
                "not_after": time})
        };
        json!({"v": 1, "credentials": not_after.iter().enumerate().map(credential).collect::<Vec<_>>()}).to_string()
    };
    let (past, future) = ("2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z");
    Doctor::without_faults().expect(0, "ok    credentials:", "none are needed with --access local");
    with_file(&file(&[future, future]), 0o600).expect(0, "ok    credentials:", "2 in /");
    with_file(&file(&[future, past]), 0o600).expect(0, "warn  credentials:", "expired: c1");
    with_file(&file(&[past]), 0o600).expect(1, "fail  credentials:", "all have expired");
    with_file(&file(&[future]), 0o644).expect(1, "fail  credentials:", "run chmod 600");
    with_file("{", 0o600).expect(1, "fail  credentials:", "is not valid");
    with_file(&file(&[]), 0o600).expect(1, "fail  credentials:", "gemini-a2a token add");
    let variable = with_file(&file(&[]), 0o600).set("A2A_TOKEN", &"x".repeat(32));
    variable.expect(0, "ok    credentials:", "and that of A2A_TOKEN");
}
