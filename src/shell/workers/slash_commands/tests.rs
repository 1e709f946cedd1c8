//! Tests of slash commands, with a home and a workspace of their own.

use super::*;
use crate::base::level::Level;
use crate::config::paths::Paths;
use crate::config::trust::{OperatorTrust, Trust};
use crate::limits::Limits;
use crate::shell::event_loop::log::{Log, Redacted};
use crate::shell::start::workspace_settings::SettingsReader;
use crate::task::definitions::slash::{Args, Facts, McpCounts, Typed, Unrunnable};
use crate::task::log::answer::Usage;
use crate::tool::tests::Scratch;
use serde_json::json;
use std::sync::Arc;

/// A home `home` and a workspace `w`, which is trusted.
pub(super) struct Harness {
    pub(super) scratch: Scratch,
    pub(super) prompt_context: PromptContext,
    commands: Commands,
}

impl Harness {
    pub(super) fn new() -> Harness {
        let scratch = Scratch::new();
        let workspace = scratch.path().join("w");
        std::fs::create_dir(&workspace).expect("a directory");
        let root = scratch.path().to_str().expect("plain").to_owned();
        let env = Arc::new(move |name: &str| match name {
            "HOME" => Some(format!("{root}/home")),
            _ if name.starts_with("GEMINI_CLI_SYSTEM") => Some(format!("{root}/none")),
            _ => None,
        });
        let word = OperatorTrust { decision: Some(Trust::Trusted), workspace };
        let limits = Limits::default();
        let null = std::fs::File::create("/dev/null").expect("the null device");
        let log = Log::on(null, Level::Warn, Redacted::default());
        Harness {
            prompt_context: PromptContext::new(
                SettingsReader::new(Paths::new(env.as_ref()), env, word, limits.clone()),
                log,
                limits,
                Vec::new(),
            ),
            scratch,
            commands: Commands::built_in(),
        }
    }

    fn path(&self, name: &str) -> String {
        let path = self.scratch.path().join(name);
        path.to_str().expect("plain").to_owned()
    }

    pub(super) fn run(&self, phrase: &str, args: &[&str]) -> Result<Commanded, String> {
        let typed =
            Typed { phrase: phrase.into(), args: Args::Words(args.iter().map(|arg| arg.to_string()).collect()) };
        let invoked = self.commands.registry().invoke(&typed);
        let (invocation, _) = invoked.unwrap_or_else(|why| panic!("{why:?}"));
        let command = Command {
            workspace: self.path("w").into(),
            trusted: true,
            invocation,
            tenant: Default::default(),
            facts: Arc::new(Facts {
                mcp: McpCounts { connected: 1, failed: 2, processes: 3 },
                uptime_ms: 3_723_500,
                active: 1,
                known: 4,
                tokens: Usage { prompt: 10, output: 2, total: 12, ..Usage::default() },
                model: "m".into(),
                tools: vec![
                    ("glob".into(), "Finds files. By patterns.".into()),
                    ("web_fetch".into(), "Reads pages.\nMany.".into()),
                ],
            }),
        };
        self.commands.run(&command, &self.prompt_context, &|| Err("no workspace".into()))
    }

    /// The text of a command whose data for programs is the same text.
    #[track_caller]
    fn says(&self, phrase: &str) -> String {
        match self.run(phrase, &[]) {
            Ok(Commanded::Done { text, data }) if data == json!(text) => text,
            other => panic!("{other:?}"),
        }
    }
}

fn done(text: &str, data: Value) -> Result<Commanded, String> {
    Ok(Commanded::Done { text: text.into(), data })
}

#[test]
fn memory_from_nothing_to_something() {
    let harness = Harness::new();
    assert_eq!(harness.says("memory"), "Memory is currently empty.");
    assert_eq!(harness.says("memory list"), "No GEMINI.md files in use.");
    assert_eq!(harness.says("memory refresh"), "Memory was read again; there is nothing in it.");
    let own = harness.path("home/.gemini/GEMINI.md");
    assert_eq!(
        harness.run("memory add", &["be", "brief"]),
        done(&format!("Remembered in {own}: be brief"), json!({"file": own, "added": "be brief"}))
    );
    let project = harness.scratch.put("w/GEMINI.md", "Use tabs.");
    let project = project.to_str().expect("plain");
    let mine = format!(
        "--- Context from: {own} ---\n## Gemini Added Memories\n- be brief\n--- End of context from: {own} ---"
    );
    let theirs = format!("--- Context from: {project} ---\nUse tabs.\n--- End of context from: {project} ---");
    assert_eq!(harness.says("memory show"), format!("Remembered from 2 files:\n\n{mine}\n\n{theirs}"));
    assert_eq!(
        harness.run("memory list", &[]),
        done(&format!("Remembered from 2 files:\n{own}\n{project}"), json!({"files": [own, project]}))
    );
    let chars = mine.chars().count() + theirs.chars().count();
    assert_eq!(harness.says("memory refresh"), format!("Memory was read again: {chars} characters from 2 files."));
}

#[test]
fn memory_goes_to_the_file_that_is_read() {
    let harness = Harness::new();
    let own = harness.path("home/.gemini/AGENTS.md");
    for (names, file) in [
        (r#"["AGENTS.md", "GEMINI.md"]"#, own.as_str()),
        (r#""../escape.md""#, &harness.path("home/.gemini/GEMINI.md")),
    ] {
        let settings = format!(r#"{{"context": {{"fileName": {names}}}}}"#);
        harness.scratch.put("w/.gemini/settings.json", settings);
        let added = json!({"file": file, "added": "x"});
        let text = format!("Remembered in {file}: x");
        assert_eq!(harness.run("memory add", &["x"]), done(&text, added));
    }
    assert_eq!(
        harness.run("memory add", &[" - "]),
        Err("There is nothing to remember; say it behind /memory add.".into())
    );
}

#[test]
fn init_makes_a_file_once_and_asks_the_model_to_fill_it() {
    let harness = Harness::new();
    match harness.run("init", &[]) {
        Ok(Commanded::Ask { prompt }) => assert!(prompt.contains("to GEMINI.md."), "{prompt}"),
        other => panic!("{other:?}"),
    }
    let file = harness.path("w/GEMINI.md");
    assert_eq!(std::fs::read(&file).expect("it was made"), b"");
    assert_eq!(harness.says("init"), "A GEMINI.md file already exists in this directory. No changes were made.");
    std::fs::remove_file(&file).expect("the file");
    std::os::unix::fs::symlink("../none", &file).expect("a link");
    assert!(harness.says("init").contains("already exists"));
    std::fs::remove_file(&file).expect("the link");
    std::fs::remove_dir_all(harness.path("w")).expect("the workspace");
    let error = harness.run("init", &[]).expect_err("there is no workspace");
    assert!(error.starts_with(&format!("{file} cannot be made: ")), "{error}");
}

#[test]
fn installed_extensions_are_listed() {
    let harness = Harness::new();
    assert_eq!(harness.run("list-extensions", &[]), done("No extensions installed.", json!({"extensions": []})));
    harness.scratch.put("home/.gemini/extensions/e/gemini-extension.json", r#"{"name": "e", "version": "1.0"}"#);
    assert_eq!(
        harness.run("extensions", &[]),
        done("e 1.0", json!({"extensions": [{"name": "e", "version": "1.0", "enabled": true}]}))
    );
}

#[test]
fn tools_and_stats_of_the_server() {
    let harness = Harness::new();
    assert_eq!(
        harness.run("tools", &[]),
        done(
            "glob       Finds files.\nweb_fetch  Reads pages.",
            json!({"tools": [
                {"name": "glob", "description": "Finds files. By patterns."},
                {"name": "web_fetch", "description": "Reads pages.\nMany."}]})
        )
    );
    assert_eq!(
        harness.run("stats", &[]),
        done(
            "uptime       1 h 2 min 3 s\ntasks        1 active of 4\nmodel        m\n\
             MCP servers  1 connected, 2 failed, 3 processes\ntokens       10 read, 2 written, 12 in all",
            json!({"uptime": 3723.5, "activeTasks": 1, "totalTasks": 4, "model": "m",
                "mcp": {"connected": 1, "failed": 2, "processes": 3},
                "usage": {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}})
        )
    );
}

#[test]
fn help_lists_the_commands() {
    let Ok(Commanded::Done { text, data }) = Harness::new().run("help", &[]) else {
        panic!("help helps");
    };
    let first = "/memory show                          Shows what is remembered, and from where.";
    assert_eq!(text.lines().next(), Some(first));
    assert!(text.contains("\n/memory add <text>  "), "{text}");
    let names = data["commands"].as_array().expect("a list").iter();
    let names: Vec<&str> = names.filter_map(|command| command["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "memory show",
            "memory refresh",
            "memory list",
            "memory add",
            "init",
            "extensions list",
            "extensions enable",
            "extensions disable",
            "skills list",
            "skills enable",
            "skills disable",
            "skills reload",
            "hooks list",
            "hooks allow",
            "tools",
            "compress",
            "stop",
            "restore",
            "restore list",
            "undo",
            "redo",
            "diff",
            "permissions list",
            "permissions revoke",
            "stats",
            "help"
        ]
    );
}

#[test]
fn added_commands_run_like_built_in_ones() {
    let mut harness = Harness::new();
    let echo: fn(&Asked) -> _ = |asked| text_result(asked.command.invocation.line());
    let spec = Spec { subs: vec![Spec::new("loud", "")], ..Spec::new("echo", "") };
    let taken = harness.commands.register(Spec::new("tools", ""), Box::new(echo));
    assert_eq!(taken, Err(Taken("tools".into())));
    harness.commands.register(spec, Box::new(echo)).expect("it is new");
    assert_eq!(harness.says("echo"), "/echo");
    assert_eq!(harness.says("echo loud"), "/echo loud");
    assert_eq!(harness.run("echo", &["a", "b"]), done("/echo a b", json!("/echo a b")));
}

#[test]
fn unknown_commands_of_a_task_are_errors() {
    let mut harness = Harness::new();
    harness.commands.functions.clear();
    assert_eq!(harness.run("help", &[]), Err("There is no command help; /help lists those there are.".into()));
    let typed = Typed { phrase: "gone".into(), args: Args::Line(String::new()) };
    let unknown = Unrunnable::Unknown { phrase: "gone".into() };
    assert_eq!(harness.commands.registry().invoke(&typed), Err(unknown));
}
