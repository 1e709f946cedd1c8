//! The audit, with the real binary: what is recorded and when, how changes to its files are found, and what happens when it cannot be
//! written.

mod support;

use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::log::record::Record;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::client::Client;
use support::eventually;
use support::fake::FakeGemini;
use support::message::{approval, prompt};
use support::server::{Server, Setup};

struct Fixture {
    server: Server,
    _fake: FakeGemini,
}

impl Fixture {
    fn new(flags: &[&str]) -> Fixture {
        let fake = FakeGemini::start();
        Fixture { server: Setup::new(&fake).args(flags).start(), _fake: fake }
    }

    fn client(&self) -> Client {
        Client::new(&self.server.url())
    }

    /// Creates a task whose turn asks about one call. Returns the ids of the task and the call.
    fn ask(&self, script: &str) -> (String, String) {
        let asked = self.client().call("message/send", prompt(script));
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
        (text(&asked["id"]), text(&asked["status"]["message"]["parts"][0]["data"]["request"]["callId"]))
    }

    /// The same, and approves the call. Returns the id of the task.
    fn run(&self, script: &str) -> String {
        let (task, call) = self.ask(script);
        self.client().call("message/send", approval(&task, &call, "proceed_once"));
        task
    }

    fn file(&self) -> PathBuf {
        let mut files = self.files();
        assert_eq!(files.len(), 1, "one part of one chain: {files:?}");
        files.remove(0)
    }

    /// The files of all chains.
    fn files(&self) -> Vec<PathBuf> {
        let dir = std::fs::read_dir(self.server.state_dir().join("audit")).expect("a directory");
        dir.map(|entry| entry.expect("an entry").path()).collect()
    }

    /// The bytes of all chains.
    fn all_bytes(&self) -> Vec<u8> {
        self.files().iter().flat_map(|file| std::fs::read(file).expect("an audit")).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.file()).expect("an audit")
    }

    fn entries(&self) -> Vec<Value> {
        entries(&self.bytes())
    }

    fn kinds(&self, task: &str) -> Vec<String> {
        let of_task = self.entries().into_iter().filter(|entry| entry["task"] == task);
        of_task.map(|entry| entry["kind"].as_str().expect("a kind").to_owned()).collect()
    }

    fn audit(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
        command.arg("audit").args(words).arg("--state-dir").arg(self.server.state_dir()).env_clear();
        command.output().expect("the program runs")
    }

    /// Runs a verb of `audit` that must succeed. Returns its output.
    fn audit_ok(&self, words: &[&str]) -> String {
        let output = self.audit(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a verb of `audit` that must fail. Returns its errors.
    fn audit_error(&self, words: &[&str]) -> String {
        let output = self.audit(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    fn terminate(&mut self) {
        let kill = Command::new("kill").args(["-TERM", &self.server.pid().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        assert!(self.server.ended().success());
    }

    fn journal(&self, task: &str) -> Vec<Record> {
        let bytes = std::fs::read(self.server.state_dir().join(format!("tasks/{task}.jsonl"))).expect("a journal");
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| Record::read(line.trim_ascii_end()).expect("a record")).collect()
    }
}

fn entries(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| serde_json::from_slice(line).expect("an entry")).collect()
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777
}

#[test]
fn nothing_is_audited_unless_the_operator_wants_it() {
    let fixture = Fixture::new(&[]);
    fixture.run("SHELL echo ran > ran.txt");
    assert!(!fixture.server.state_dir().join("audit").exists());
    assert!(fixture.audit_error(&["verify"]).contains("start with --audit"));
}

#[test]
fn a_turn_is_recorded_with_who_did_what() {
    let mut fixture = Fixture::new(&["--audit"]);
    // The API key is `fake`, which is a secret.
    let task = fixture.run("SHELL echo fake > ran.txt");
    assert_eq!(fixture.kinds(&task), ["created", "prompted", "asked", "answered", "ran", "result"]);
    let entries = fixture.entries();
    let of = |kind: &str| entries.iter().find(|entry| entry["kind"] == kind).expect("an entry");
    assert_eq!((&of("began")["n"], &of("began")["prev"]), (&json!(1), &json!("0".repeat(64))));
    let answered = of("answered");
    assert_eq!(answered["what"]["choice"], "proceed_once");
    assert_eq!(answered["what"]["args"]["command"], "echo [redacted] > ran.txt");
    assert_eq!(answered["who"]["subject"], "operator");
    assert_eq!(of("created")["what"]["workspace"], json!(fixture.server.workspace().canonicalize().unwrap()));
    assert_eq!(of("prompted")["what"]["bytes"], json!("SHELL echo fake > ran.txt".len()));
    let text = String::from_utf8(fixture.bytes()).expect("text");
    assert!(!text.contains("fake"), "the audit has neither the secret nor the prompt");
    assert_eq!((mode(&fixture.file()), mode(&fixture.server.state_dir().join("audit"))), (0o600, 0o700));
    // The server's log contains the hash of the last line.
    fixture.terminate();
    let last = fixture.entries().pop().expect("an entry");
    assert_eq!(last["kind"], "ended");
    let hash = last["hash"].as_str().expect("a hash").to_owned();
    assert!(fixture.server.output().contains(&hash));
    let shown = fixture.audit_ok(&["verify", "--tasks"]);
    let chain = fixture.file().file_stem().expect("a name").to_string_lossy().into_owned();
    assert_eq!(shown, format!("chain {chain} lines {} head {hash}\n", last["n"]));
}

#[test]
fn prompts_are_recorded_if_the_operator_wants_them() {
    let fixture = Fixture::new(&["--audit-prompts"]);
    fixture.client().call("message/send", prompt("TEXT yes"));
    let entries = fixture.entries();
    let prompted = entries.iter().find(|entry| entry["kind"] == "prompted").expect("a prompt");
    assert_eq!(prompted["what"]["text"], "TEXT yes");
}

#[test]
fn entries_are_shown_by_task_kind_subject_and_time() {
    let fixture = Fixture::new(&["--audit"]);
    let (one, two) = (fixture.run("SHELL echo one > one.txt"), fixture.run("SHELL echo two > two.txt"));
    let count = |words: &[&str]| fixture.audit_ok(&[&["show"], words].concat()).lines().count();
    assert_eq!(count(&[]), fixture.entries().len());
    assert_eq!(count(&["--task", &one]), 6);
    assert_eq!(count(&["--kind", "ran"]), 2);
    assert_eq!(count(&["--task", &two, "--kind", "ran"]), 1);
    assert_eq!(count(&["--subject", "operator", "--kind", "answered"]), 2);
    assert_eq!(count(&["--subject", "nobody"]), 0);
    assert_eq!(count(&["--since", "1h"]), fixture.entries().len());
    assert_eq!(count(&["--since", "2999-01-01T00:00:00Z"]), 0);
    let json = fixture.audit_ok(&["show", "--task", &one, "--kind", "ran", "--json"]);
    let entry: Value = serde_json::from_str(&json).expect("one entry");
    assert_eq!(entry["what"]["args"]["command"], "echo one > one.txt");
    let text = fixture.audit_ok(&["show", "--task", &one, "--kind", "ran"]);
    assert!(text.contains(&format!(" ran via agent task {one}:")), "{text}");
}

/// Checklist 31.
#[test]
fn a_changed_byte_is_found_in_its_line_and_a_torn_line_is_cut() {
    let mut fixture = Fixture::new(&["--audit"]);
    fixture.run("SHELL echo ran > ran.txt");
    fixture.server.kill9();
    let (file, bytes) = (fixture.file(), fixture.bytes());
    fixture.audit_ok(&["verify", "--tasks"]);
    // One byte of each line, at a different column each time, and the first and the last byte of the file.
    let starts = (0..bytes.len()).filter(|at| *at == 0 || bytes[at - 1] == b'\n');
    let positions: Vec<usize> = starts.enumerate().map(|(line, start)| start + 23 * line).collect();
    for at in positions.into_iter().chain([0, bytes.len() - 1]) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        std::fs::write(&file, &changed).expect("our own file");
        let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let errors = fixture.audit_error(&["verify"]);
        assert!(errors.contains(&format!("{}, line {line}: ", file.display())), "byte {at}: {errors}");
    }
    // An incomplete last line, as of a server that was killed while writing.
    let torn = &bytes[..100];
    std::fs::write(&file, [&bytes, torn].concat()).expect("our own file");
    assert!(fixture.audit_error(&["verify"]).contains("it is not complete"));
    fixture.server.restart();
    let began = |fixture: &Fixture| fixture.entries().into_iter().filter(|entry| entry["kind"] == "began").nth(1);
    let began = eventually("the new server's first entry", || began(&fixture));
    assert_eq!(began["what"]["torn_bytes"], json!(torn.len()));
    fixture.audit_ok(&["verify", "--tasks"]);
}

/// Checklist 32.
#[test]
fn a_removed_last_line_is_found_by_the_journals() {
    let mut fixture = Fixture::new(&["--audit"]);
    let task = fixture.run("SHELL echo ran > ran.txt");
    // The event with the audit's hash is next to the end of the turn, and no dialect shows it.
    let journal = fixture.journal(&task);
    let at = journal.iter().position(|record| matches!(record.event, Event::TurnEnded { .. })).expect("an end");
    let Event::Audited { n, hash, .. } = &journal[at - 1].event else {
        panic!("{:?}", journal[at - 1]);
    };
    let last = fixture.entries().pop().expect("an entry");
    assert_eq!((json!(n), json!(hash)), (last["n"].clone(), last["hash"].clone()));
    let events: Vec<_> = fixture.client().resume("tasks/resubscribe", json!({ "id": task }), "0").collect();
    assert!(events.iter().all(|event| !event.result().to_string().contains(hash.as_str())));
    let replayed = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"))
        .arg("replay")
        .arg(fixture.server.state_dir().join(format!("tasks/{task}.jsonl")))
        .args(["--as", "own"])
        .output()
        .expect("the program runs");
    assert!(replayed.status.success(), "{replayed:?}");
    assert!(!String::from_utf8_lossy(&replayed.stdout).contains(hash.as_str()));

    fixture.server.kill9();
    let (file, bytes) = (fixture.file(), fixture.bytes());
    let end = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines") + 1;
    std::fs::write(&file, &bytes[..end]).expect("our own file");
    fixture.audit_ok(&["verify"]);
    let errors = fixture.audit_error(&["verify", "--tasks"]);
    assert!(errors.contains(&format!("entry {n} is missing")) && errors.contains(&task), "{errors}");
    // The same if the last line was replaced by another one with a valid hash.
    let mut forged = bytes[..end].to_vec();
    let line = String::from_utf8(bytes[end..].to_vec()).expect("text").replace("\"success\"", "\"failure\"");
    let (hashed, _) = line.split_once(",\"hash\":").expect("a hash");
    let hash = gemini_a2a::task::log::blob::sha256(hashed.as_bytes());
    forged.extend(format!("{hashed},\"hash\":\"{hash}\"}}\n").bytes());
    std::fs::write(&file, &forged).expect("our own file");
    fixture.audit_ok(&["verify"]);
    let errors = fixture.audit_error(&["verify", "--tasks"]);
    assert!(errors.contains(&format!("entry {n} is not the one that")), "{errors}");
    // The same if the whole chain is missing.
    std::fs::rename(&file, file.with_file_name("elsewhere.jsonl")).expect("our own file");
    assert!(fixture.audit_error(&["verify", "--tasks"]).contains("has no file"));
}

/// Checklist 33. A limit on the length of files makes the audit unwritable, because an earlier run has made it long. Journals are shorter.
#[test]
fn while_the_audit_cannot_be_written_no_tool_starts_and_reading_goes_on() {
    const LIMIT: usize = 160 * 1024;
    let fake = FakeGemini::start();
    let first = Setup::new(&fake).arg("--audit-prompts").start();
    let filler = "x".repeat(LIMIT);
    Client::new(&first.url()).call("message/send", prompt(&format!("TEXT old\n{filler}")));
    let fixture = Fixture { server: first, _fake: fake };
    let state = fixture.server.state_dir();
    let length = fixture.bytes().len();
    let Fixture { server: mut first, _fake: fake } = fixture;
    first.kill9();
    // Enough space for the entries of the task below up to its question, but not for the answer.
    let room = length + 2_600;
    let script = format!(
        "trap '' XFSZ; ulimit -S -f unlimited; exec prlimit --fsize={room}: {} serve \"$@\"",
        env!("CARGO_BIN_EXE_gemini-a2a")
    );
    if !Command::new("prlimit").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no prlimit");
        return;
    }
    let setup = Setup::of(Path::new("sh")).args(["-c", &script, "sh"]).model(&fake);
    let fixture = Fixture { server: setup.arg("--audit").state_dir(&state).start(), _fake: fake };
    let (task, call) = fixture.ask("SHELL echo ran > ran.txt");
    let answer = fixture.client().rpc("message/send", approval(&task, &call, "proceed_once"));
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("audit")), "{answer}");
    // New prompts are refused; tasks can be read.
    let refused = fixture.client().rpc("message/send", prompt("TEXT more"));
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("audit")), "{refused}");
    let health = fixture.client().get("/health").json();
    assert_eq!(health["status"], "degraded", "{health}");
    assert!(health["problem"].as_str().is_some_and(|text| text.contains("The audit cannot be written")), "{health}");
    let kinds = fixture.kinds(&task);
    assert_eq!(kinds, ["created", "prompted", "asked"]);
    assert!(!fixture.server.workspace().join("ran.txt").exists(), "the tool has not started");
    assert_eq!(fixture.client().get("/.well-known/agent-card.json").status(), 200);
    fixture.audit_ok(&["verify", "--tasks"]);
    // When the limit is raised, the answer that was given takes effect.
    let pid = fixture.server.pid().to_string();
    let raised = Command::new("prlimit").args(["--fsize=unlimited:", "--pid", &pid]).status();
    assert!(raised.expect("prlimit runs").success());
    eventually("the tool runs", || fixture.server.workspace().join("ran.txt").exists().then_some(()));
    eventually("its result is recorded", || {
        (fixture.kinds(&task) == ["created", "prompted", "asked", "answered", "ran", "result"]).then_some(())
    });
    fixture.audit_ok(&["verify", "--tasks"]);
}

/// Checklist 34: the command itself reads the audit.
#[test]
fn the_answer_and_the_start_are_written_before_the_command_does_anything() {
    let fixture = Fixture::new(&["--audit"]);
    let file = fixture.file();
    let task = fixture.run(&format!("SHELL cp {} seen.jsonl", file.display()));
    let seen = entries(&std::fs::read(fixture.server.workspace().join("seen.jsonl")).expect("it ran"));
    let kinds: Vec<&str> =
        seen.iter().filter(|entry| entry["task"] == task).filter_map(|entry| entry["kind"].as_str()).collect();
    assert_eq!(kinds, ["created", "prompted", "asked", "answered", "ran"]);
}

#[test]
fn nothing_that_ran_is_missing_after_servers_were_killed_at_any_time() {
    let mut fixture = Fixture::new(&["--audit", "--approval-mode", "yolo", "--trust-workspace"]);
    for round in 0..6 {
        let url = fixture.server.url();
        let asking = std::thread::spawn(move || {
            for n in 0.. {
                let script = format!("SHELL echo {round}-{n} >> ran.txt");
                let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": prompt(&script) });
                let fields = [("Content-Type", "application/json")];
                let sent = Client::new(&url).try_request("POST", "/", &fields, body.to_string().as_bytes());
                if sent.is_err() {
                    return;
                }
            }
        });
        let before = fixture.all_bytes().len();
        eventually("some entries", || (fixture.all_bytes().len() > before + 3_000 + 700 * round).then_some(()));
        fixture.server.kill9();
        asking.join().expect("a client");
        fixture.audit_ok(&["verify", "--tasks"]);
        fixture.server.restart();
    }
    fixture.audit_ok(&["verify", "--tasks"]);
    // A process that the killed server was starting may hold its lock for a moment: then the next server begins another chain.
    let all = || entries(&fixture.all_bytes());
    let began = || all().iter().filter(|entry| entry["kind"] == "began").count();
    eventually("the first entry of the last server", || (began() == 7).then_some(()));
    // Every command that ran has its entries.
    let ran = std::fs::read_to_string(fixture.server.workspace().join("ran.txt")).expect("commands ran");
    let recorded = all().into_iter().filter(|entry| entry["kind"] == "ran");
    let recorded: Vec<Value> = recorded.map(|entry| entry["what"]["args"]["command"].clone()).collect();
    for word in ran.lines() {
        let command = json!(format!("echo {word} >> ran.txt"));
        assert!(recorded.contains(&command), "{command} in {recorded:?}");
    }
}

#[test]
fn a_tool_that_prompts_the_agent_is_refused_and_recorded() {
    let fixture = Fixture::new(&["--audit"]);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": prompt("TEXT hello") });
    std::fs::write(fixture.server.workspace().join("body.json"), body.to_string()).expect("a file");
    let json = "-H Content-Type:application/json";
    let script = format!("SHELL curl -s {json} -d @body.json {}/ > answer.json", fixture.server.url());
    let task = fixture.run(&script);
    assert_eq!(fixture.kinds(&task).last().map(String::as_str), Some("result"));
    let refused: Vec<Value> = fixture.entries().into_iter().filter(|entry| entry["kind"] == "child_refused").collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["what"], json!({ "reason": "tool", "count": 1 }));
    let tasks = fixture.entries().into_iter().filter(|entry| entry["kind"] == "created").count();
    assert_eq!(tasks, 1, "there is only the task of the client");
}

/// After the audit file was moved away, SIGHUP makes the server continue the chain in a new file.
#[test]
fn a_hangup_opens_the_audit_again_and_the_chain_goes_on() {
    let fixture = Fixture::new(&["--audit"]);
    fixture.client().call("message/send", prompt("TEXT one"));
    let file = fixture.file();
    let moved = file.with_extension("moved.jsonl");
    std::fs::rename(&file, &moved).expect("it is ours");
    let kill = Command::new("kill").args(["-HUP", &fixture.server.pid().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    eventually("a new file", || file.exists().then_some(()));
    fixture.client().call("message/send", prompt("TEXT two"));
    let read = |path: &Path| entries(&std::fs::read(path).expect("an audit"));
    let begun = eventually("an entry in the new file", || read(&file).first().cloned());
    let last = read(&moved).last().cloned().expect("an entry");
    assert_eq!(begun["prev"], last["hash"], "the chain continues in the new file");
    assert_eq!(begun["n"].as_u64(), last["n"].as_u64().map(|n| n + 1));
    let both = [moved.to_str().expect("a name"), file.to_str().expect("a name")];
    assert!(fixture.audit_ok(&["verify", both[0], both[1]]).contains("head"));
}
