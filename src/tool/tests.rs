//! Tests of the toolbox, and the fixtures that the tests of single tools share.

use super::*;
use crate::task::log::blob::MemoryBlobs;
use crate::tool::files::activate_skill::NoSkills;
use crate::tool::invoke_agent::NoAgents;
use crate::tool::mcp_call::NoServers;
use crate::tool::people::Nobody;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory for one test. It is removed when this value is dropped.
pub(crate) struct Scratch(pub PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch::below(&std::env::temp_dir())
    }

    /// A directory in memory, if the system has such a file system, for tests that sync many files.
    pub(crate) fn in_memory() -> Scratch {
        let memory = Some(PathBuf::from("/dev/shm")).filter(|memory| memory.is_dir());
        Scratch::below(&memory.unwrap_or_else(std::env::temp_dir))
    }

    fn below(dir: &Path) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gemini-a2a-tool-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = dir.join(name);
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Scratch(path.canonicalize().expect("it was just made"))
    }

    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("it is below the scratch directory"))
            .expect("the scratch directory is writable");
        std::fs::write(&path, bytes).expect("the scratch directory is writable");
        path
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn with_ctx<T>(scratch: &Scratch, limits: &Limits, f: impl FnOnce(&Ctx) -> T) -> T {
    in_ctx(scratch, limits, None, &Web::default(), f)
}

pub(super) fn in_ctx<T>(
    scratch: &Scratch,
    limits: &Limits,
    ask: Option<&dyn Ask>,
    web: &Web,
    f: impl FnOnce(&Ctx) -> T,
) -> T {
    let cancel = Cancel::default();
    f(&Ctx {
        workspace: Workspace::open(scratch.path()).expect("the scratch directory opens"),
        others: Vec::new(),
        cancel: &cancel,
        limits,
        children: &NoPrograms,
        task: &"t".into(),
        tenant: &Default::default(),
        named: &[],
        background: &Background::default(),
        web,
        mcp: &NoServers,
        people: &Nobody,
        skills: &NoSkills,
        agents: &NoAgents,
        threads: None,
        ask,
        changes: &FileChanges::new(Arc::new(MemoryBlobs::default()), u64::MAX),
        outputs: &KeptOutputs::default(),
    })
}

/// The context with a directory of kept outputs.
pub(super) fn in_ctx_with<T>(scratch: &Scratch, outputs: &KeptOutputs, f: impl FnOnce(&Ctx) -> T) -> T {
    with_ctx(scratch, &Limits::default(), |ctx| {
        f(&Ctx { workspace: Workspace::open(scratch.path()).expect("it opens"), others: Vec::new(), outputs, ..*ctx })
    })
}

/// Prepares and runs a call. Returns the output for the model, or the error.
pub(super) fn output_of(tool: &str, args: Value, scratch: &Scratch, ctx: &Ctx) -> Result<String, String> {
    let toolbox = Toolbox::without_commands();
    let plans = toolbox.prepare(&[request(tool, args.clone())], ctx);
    if let [Err(error)] = &plans[..] {
        return Err(error.message.clone());
    }
    match toolbox.run(&run_of(scratch, tool, args), ctx, &mut |_| {}) {
        RunEnd::Ended(Ending::Success { output, .. }) => Ok(output.to_string()),
        other => Err(format!("{other:?}")),
    }
}

pub(crate) fn failed(error: CallError) -> RunEnd {
    RunEnd::Ended(Ending::Error { error })
}

/// Runs a call of one tool.
pub(crate) fn ran(tool: impl Tool + 'static, run: &Run, ctx: &Ctx) -> RunEnd {
    tool.run(run, ctx, &mut |_| {}).unwrap_or_else(failed)
}

pub(crate) fn run_of(scratch: &Scratch, name: &str, args: Value) -> Run {
    Run {
        workspace: scratch.path().to_str().expect("a plain name").into(),
        call: "c1".into(),
        name: name.into(),
        args,
        base: None,
        after_earlier_edits: None,
        edited: None,
        answers: None,
        confinement: Default::default(),
        blob_room: u64::MAX,
    }
}

fn request(name: &str, args: Value) -> Request {
    Request { call: "c1".into(), name: name.into(), args, api_id: None }
}

#[test]
fn unknown_tools_and_invalid_arguments_have_different_errors() {
    let scratch = Scratch::new();
    let toolbox = Toolbox::new(vec![
        Box::new(files::read_file::ReadFile),
        Box::new(files::write_file::WriteFile),
        Box::new(commands::run_shell_command::Shell),
    ]);
    let results = with_ctx(&scratch, &Limits::default(), |ctx| {
        toolbox.prepare(
            &[
                request("read_fil", json!({})),
                request("read_file", json!({"file_path": 1})),
                request("read_file", json!({})),
                request("read_file", json!({"file_path": "a.txt"})),
            ],
            ctx,
        )
    });
    assert_eq!(
        results[0],
        Err(ErrorKind::ToolNotRegistered.error(
            "There is no tool named \"read_fil\". Did you mean one of: \"read_file\", \"write_file\", \
             \"run_shell_command\"?"
        ))
    );
    assert_eq!(results[1], Err(invalid("params/file_path must be string")));
    assert_eq!(results[2], Err(invalid("params must have required property 'file_path'")));
    assert!(results[3].is_ok());
}

#[test]
fn a_former_name_still_works_and_is_not_declared() {
    let scratch = Scratch::new();
    let toolbox = Toolbox::built_in();
    let args = json!({"pattern": "x"});
    let plans = with_ctx(&scratch, &Limits::default(), |ctx| {
        let names = ["search_file_content", "grep_search"];
        toolbox.prepare(&names.map(|name| request(name, args.clone())), ctx)
    });
    assert!(plans[0].is_ok());
    assert_eq!(plans[0], plans[1]);
    let specs = toolbox.specs();
    assert!(specs.iter().all(|spec| spec.name != "search_file_content"));
}

#[test]
fn calls_work_in_further_directories_by_absolute_paths() {
    let (here, there) = (Scratch::new(), Scratch::new());
    here.put("a.txt", "needle here");
    there.put("lib/b.txt", "needle there");
    there.put("lib/.geminiignore", "hidden\n");
    there.put("lib/hidden", "needle");
    there.put("secret", "needle");
    let lib = there.path().join("lib");
    let toolbox = Toolbox::built_in();
    let run = |name: &str, args: Value| {
        with_ctx(&here, &Limits::default(), |ctx| {
            let further = Workspace::further(&lib).expect("it opens");
            let ctx = Ctx { others: vec![further], ..ctx.inside(&ctx.workspace).expect("it opens") };
            match toolbox.run(&run_of(&here, name, args), &ctx, &mut |_| {}) {
                RunEnd::Ended(Ending::Success { output, .. }) => Ok(output.to_string()),
                RunEnd::Ended(Ending::Error { error }) => Err(error.kind),
                other => panic!("{other:?}"),
            }
        })
    };
    let path = |name: &str| format!("{}/{name}", there.path().display());
    assert_eq!(run("read_file", json!({"file_path": path("lib/b.txt")})).as_deref(), Ok("needle there"));
    assert_eq!(run("read_file", json!({"file_path": path("lib/hidden")})), Err(ErrorKind::InvalidToolParams));
    for outside in [path("secret"), path("lib/../secret")] {
        let error = Err(ErrorKind::PathNotInWorkspace);
        assert_eq!(run("read_file", json!({ "file_path": outside })), error);
    }
    let listed = run("list_directory", json!({"dir_path": path("lib")})).expect("a list");
    assert!(listed.contains("b.txt (12 bytes)"), "{listed}");
    assert!(run("write_file", json!({"file_path": path("lib/new/c"), "content": "x"})).is_ok());
    assert_eq!(std::fs::read_to_string(lib.join("new/c")).expect("written"), "x");
    // Without a directory a search goes through all of them, and names files so that they can be read.
    let found = run("grep_search", json!({"pattern": "needle"})).expect("matches");
    let files: Vec<&str> = found.lines().filter_map(|line| line.strip_prefix("File: ")).collect();
    assert_eq!(files, ["a.txt", &path("lib/b.txt")]);
    let only = run("grep_search", json!({"pattern": "needle", "dir_path": path("lib")})).expect("matches");
    assert!(only.contains("needle there") && !only.contains("needle here"), "{only}");
    let found = run("glob", json!({"pattern": "**/*.txt"})).expect("files");
    assert!(found.contains("/a.txt") && found.contains(&path("lib/b.txt")), "{found}");
}

#[test]
fn a_cancelled_call_does_nothing() {
    let scratch = Scratch::new();
    let limits = Limits::default();
    let cancel = Cancel::default();
    cancel.set();
    let ctx = Ctx {
        workspace: Workspace::open(scratch.path()).expect("it opens"),
        others: Vec::new(),
        cancel: &cancel,
        limits: &limits,
        children: &NoPrograms,
        task: &"t".into(),
        tenant: &Default::default(),
        named: &[],
        changes: &FileChanges::new(Arc::new(MemoryBlobs::default()), u64::MAX),
        background: &Background::default(),
        web: &Web::default(),
        mcp: &NoServers,
        people: &Nobody,
        skills: &NoSkills,
        agents: &NoAgents,
        threads: None,
        ask: None,
        outputs: &KeptOutputs::default(),
    };
    let run = run_of(&scratch, "write_file", json!({"file_path": "a", "content": "x"}));
    let end = Toolbox::built_in().run(&run, &ctx, &mut |_| {});
    assert_eq!(end, cancelled_before_start());
    assert!(!scratch.path().join("a").exists());
}

#[test]
fn numbers_may_be_written_as_floats() {
    let args = json!({"a": 3, "b": 3.0, "c": 3.5, "d": "3", "e": 1e300});
    let numbers: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|name| number_arg(&args, name)).into();
    assert_eq!(numbers, [Some(3), Some(3), None, None, Some(usize::MAX), None]);
}
