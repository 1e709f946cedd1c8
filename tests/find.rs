//! The search tools against attempts to lead them out of the workspace: by paths, by links, and by links that replace directories
//! during the search.

#[path = "support/tool_fixture.rs"]
mod tool_fixture;

use gemini_a2a::task::machine::job::RunEnd;
use gemini_a2a::task::spec::{Ending, ErrorKind};
use gemini_a2a::tool::Ctx;
use gemini_a2a::tool::files::attachments::attached;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use tool_fixture::ToolFixture;

/// Part of the names and contents of all files outside of the workspace.
const SECRET: &str = "canary-5147";

impl ToolFixture {
    /// `base/outside` is not the workspace.
    fn new() -> ToolFixture {
        ToolFixture::with(
            "find",
            &["ws/d/deep", "outside/deep"],
            &[
                ("ws/d/f", "inside"),
                ("ws/d/deep/f", "inside"),
                ("ws/leaf", "inside"),
                (&format!("outside/{SECRET}"), SECRET),
                (&format!("outside/deep/{SECRET}"), SECRET),
                ("outside/f", SECRET),
            ],
        )
    }

    /// Runs a tool; the name `@path` attaches a file as a prompt does.
    fn call(&self, name: &str, args: Value) -> Ending {
        let end = self.run(name, args, |run, ctx| match name {
            "@path" => RunEnd::Ended(attach(&run.args, ctx)),
            _ => self.toolbox.run(run, ctx, &mut |_| {}),
        });
        match end {
            RunEnd::Ended(ending) => ending,
            RunEnd::Stale => panic!("a search has nothing that could be stale"),
        }
    }

    /// A call of each tool with this path.
    fn calls(path: &str) -> [(&'static str, Value); 4] {
        [
            ("list_directory", json!({"dir_path": path})),
            ("glob", json!({"pattern": "**/*", "dir_path": path})),
            ("grep_search", json!({"pattern": "c[a]nary|inside", "dir_path": path, "no_ignore": true})),
            // A full stop at the end of a word belongs to the sentence, so "." needs the slash.
            ("@path", json!({"prompt": format!("look at @{path}/")})),
        ]
    }
}

/// The attachment of a prompt as the result of a call: an error if the path cannot be used.
fn attach(args: &Value, ctx: &Ctx<'_>) -> Ending {
    let prompt = args["prompt"].as_str().expect("a text");
    match attached(prompt, ctx) {
        Some(found) => Ending::text(found.text, ""),
        None => Ending::Error { error: ErrorKind::FileNotFound.error("nothing is attached") },
    }
}

#[test]
fn no_path_or_link_leaves_the_workspace() {
    let fixture = ToolFixture::new();
    fixture.link("../outside", "out");
    fixture.link(fixture.base.join("outside"), "absolute");
    fixture.link("d/../../outside", "winding");
    fixture.link("out", "twice");
    fixture.link("/proc/self/cwd/..", "proc");
    let outside = fixture.base.join("outside");
    let paths = [
        "..",
        "../outside",
        "d/../../outside",
        "out",
        "out/deep",
        "absolute",
        "winding/deep",
        "twice",
        "proc",
        "/",
        "/etc",
        "/proc/self/root",
        "~",
        "file:///etc",
        outside.to_str().expect("a plain name"),
    ];
    for path in paths {
        for (tool, args) in ToolFixture::calls(path) {
            let ending = fixture.call(tool, args);
            let text = format!("{ending:?}");
            assert!(!text.contains(SECRET), "{tool} {path}: {text}");
            assert!(matches!(ending, Ending::Error { .. }), "{tool} {path}: {text}");
        }
    }
    // A search from the workspace's root lists links and does not follow them.
    for (tool, args) in ToolFixture::calls(".") {
        let ending = fixture.call(tool, args);
        assert!(matches!(ending, Ending::Success { .. }), "{tool}: {ending:?}");
        assert!(!format!("{ending:?}").contains(SECRET), "{tool}: {ending:?}");
    }
    for pattern in ["out/**", "absolute/*", "**/canary*", "d/../../outside/*", "{d,out}/**"] {
        let text = format!("{:?}", fixture.call("glob", json!({"pattern": pattern})));
        assert!(!text.contains(SECRET), "{pattern}: {text}");
    }
}

/// One thread keeps swapping a directory for a link that leads out, and a file for such a link.
#[test]
fn swapping_links_during_a_search_does_not_escape() {
    const TRIES: usize = 4_000;
    let fixture = ToolFixture::new();
    let ws = fixture.ws();
    fixture.link("../outside", "trap");
    fixture.link("../outside/f", "trap_leaf");
    let over = AtomicBool::new(false);
    let (mut whole, mut gone, mut leaks) = (0, 0, Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for (a, b) in [("d", "trap"), ("leaf", "trap_leaf")] {
                    let (a, b) = (ws.join(a), ws.join(b));
                    let _ = renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE);
                }
            }
        });
        for n in 0..TRIES {
            let path = [".", "d", "d/deep"][n / 4 % 3];
            let (tool, args) = ToolFixture::calls(path)[n % 4].clone();
            let ending = fixture.call(tool, args);
            if format!("{ending:?}").contains(SECRET) {
                leaks.push((n, tool, ending.clone()));
            }
            match ending {
                Ending::Success { .. } => whole += 1,
                Ending::Error { .. } | Ending::Cancelled { .. } => gone += 1,
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(leaks, []);
    assert!(whole > 0 && gone > 0, "{whole} answered, {gone} refused: no race took place");
}
