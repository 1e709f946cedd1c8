//! Paths that try to leave the workspace: nothing outside is read or changed.

#[path = "support/tool_fixture.rs"]
mod tool_fixture;

use gemini_a2a::task::machine::job::RunEnd;
use gemini_a2a::task::spec::Ending;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use tool_fixture::ToolFixture;

const SECRET: &str = "canary-8263";

impl ToolFixture {
    /// `base/ws-evil`, `base/secret` and `base/outside` are not the workspace.
    fn new() -> ToolFixture {
        ToolFixture::with(
            "confine",
            &["ws/d", "ws/deep/er", "ws-evil", "outside/d"],
            &[
                ("secret", SECRET),
                ("ws-evil/f", SECRET),
                ("outside/f", SECRET),
                ("outside/d/f", SECRET),
                ("ws/f", "inside"),
                ("ws/d/f", "inside"),
            ],
        )
    }

    fn call(&self, name: &str, args: Value) -> Ending {
        let end = self.run(name, args, |run, ctx| self.toolbox.run(run, ctx, &mut |_| {}));
        match end {
            RunEnd::Ended(ending) => ending,
            // Without a base version a write is stale only after a race, which counts as a refusal.
            RunEnd::Stale => Ending::cancelled("stale"),
        }
    }

    fn read(&self, path: &str) -> Ending {
        self.call("read_file", json!({ "file_path": path }))
    }

    fn write(&self, path: &str) -> Ending {
        self.call("write_file", json!({"file_path": path, "content": "written"}))
    }

    /// Everything that is not in the workspace: names and contents.
    fn outside(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![self.base.clone()];
        while let Some(dir) = waiting.pop() {
            for entry in fs::read_dir(dir).expect("ours").flatten() {
                let path = entry.path();
                if path == self.ws() {
                    continue;
                }
                let kind = entry.file_type().expect("ours");
                if kind.is_dir() {
                    waiting.push(path.clone());
                }
                let content =
                    if kind.is_file() { fs::read_to_string(&path).expect("ours") } else { format!("{kind:?}") };
                found.insert(path, content);
            }
        }
        found
    }
}

fn kind(ending: &Ending) -> &'static str {
    match ending {
        Ending::Success { .. } => "success",
        Ending::Error { error } => error.kind.word(),
        Ending::Cancelled { .. } => "cancelled",
    }
}

/// Makes links of all kinds that lead out of the workspace.
fn make_escaping_links(fixture: &ToolFixture) {
    let outside = fixture.base.join("outside");
    fixture.link("../outside", "rel");
    fixture.link(&outside, "abs");
    fixture.link("../secret", "leaf");
    fixture.link(fixture.base.join("secret"), "abs_leaf");
    fixture.link("../outside/new", "dangling");
    fixture.link(outside.join("new"), "abs_dangling");
    fixture.link("../outside/no/such/dir", "dangling_deep");
    fixture.link("rel", "link_to_link");
    fixture.link("link_to_link", "link_to_link_to_link");
    fixture.link("..", "up");
    fixture.link("d/../..", "roundabout");
    fixture.link("/", "root");
    fixture.link("/proc/self/root", "magic_root");
    fixture.link("/proc/self/cwd", "magic_cwd");
    fixture.link(format!("{}/../outside", fixture.ws().display()), "through_ws");
    fixture.link(format!("{}/./../secret", fixture.ws().display()), "through_dot");
    fixture.link("../ws-evil", "sibling");
    fixture.link("../../outside", "d/rel");
    fixture.link("../../../outside/f", "deep/er/leaf");
    fixture.link("loop_b", "loop_a");
    fixture.link("loop_a", "loop_b");
    fixture.link("self/x", "self");
    symlink(&outside, fixture.base.join("ws/d/abs")).expect("ours");
}

const OUTSIDE: &str = "path_not_in_workspace";
const INVALID: &str = "invalid_tool_params";
const MISSING: &str = "file_not_found";

/// Paths that must not lead out of the workspace, and the kind of error that each gets.
const HOSTILE_PATHS: &[(&str, &str)] = &[
    ("..", OUTSIDE),
    ("../", OUTSIDE),
    ("../secret", OUTSIDE),
    ("../outside/f", OUTSIDE),
    ("../ws-evil/f", OUTSIDE),
    ("d/../../secret", OUTSIDE),
    ("d/../d/../../secret", OUTSIDE),
    ("./../secret", OUTSIDE),
    (".//..//secret", OUTSIDE),
    ("../ws/../secret", OUTSIDE),
    ("deep/er/../../../secret", OUTSIDE),
    ("/etc/passwd", OUTSIDE),
    ("//etc/passwd", OUTSIDE),
    ("/", OUTSIDE),
    ("/proc/self/environ", OUTSIDE),
    ("/proc/self/root/etc/passwd", OUTSIDE),
    ("/dev/stdin", OUTSIDE),
    ("rel/f", OUTSIDE),
    ("rel/d/f", OUTSIDE),
    ("rel/new/file", OUTSIDE),
    ("abs/f", OUTSIDE),
    ("leaf", OUTSIDE),
    ("abs_leaf", OUTSIDE),
    ("dangling", OUTSIDE),
    ("abs_dangling", OUTSIDE),
    ("dangling_deep", OUTSIDE),
    ("dangling_deep/x", OUTSIDE),
    ("link_to_link/f", OUTSIDE),
    ("link_to_link_to_link/f", OUTSIDE),
    ("up/secret", OUTSIDE),
    ("up/ws-evil/f", OUTSIDE),
    ("roundabout/secret", OUTSIDE),
    ("root/etc/passwd", OUTSIDE),
    ("magic_root/etc/passwd", OUTSIDE),
    ("magic_cwd/Cargo.toml", OUTSIDE),
    ("through_ws/f", OUTSIDE),
    ("through_dot", OUTSIDE),
    ("sibling/f", OUTSIDE),
    ("d/rel/f", OUTSIDE),
    ("d/abs/f", OUTSIDE),
    ("d/abs/../f", OUTSIDE),
    ("deep/er/leaf", OUTSIDE),
    ("@../secret", OUTSIDE),
    ("@/etc/passwd", OUTSIDE),
    ("@rel/f", OUTSIDE),
    ("file:///etc/passwd", OUTSIDE),
    ("file://localhost/etc/passwd", OUTSIDE),
    ("file://elsewhere/etc/passwd", INVALID),
    ("loop_a", MISSING),
    ("loop_a/f", MISSING),
    ("self", MISSING),
    ("f/../../secret", MISSING),
    ("nowhere/../../secret", MISSING),
    ("d\0/../../secret", INVALID),
    ("f\0.txt", INVALID),
    ("a\nb", INVALID),
    ("a\rb", INVALID),
    ("a\tb", INVALID),
    ("", INVALID),
    ("   ", INVALID),
];

#[test]
fn hostile_paths_are_refused_or_stay_in_the_workspace() {
    let fixture = ToolFixture::new();
    make_escaping_links(&fixture);
    let base = fixture.base.to_str().expect("plain").to_string();
    let tricks: Vec<(String, &str)> = HOSTILE_PATHS
        .iter()
        .map(|(path, expected)| (path.to_string(), *expected))
        .chain([
            ("x/".repeat(3000), INVALID),
            ("n".repeat(256), INVALID),
            (format!("{base}/secret"), OUTSIDE),
            (format!("{base}/ws/../secret"), OUTSIDE),
            (format!("{base}/ws-evil/f"), OUTSIDE),
            (format!("{base}/ws/rel/f"), OUTSIDE),
            (format!("{base}/outside/../ws-evil/f"), OUTSIDE),
            (format!("file://{base}/ws/..%2fsecret"), OUTSIDE),
            (format!("file://{base}/ws/%2e%2e/secret"), OUTSIDE),
            (format!("file://{base}/ws/f%00"), INVALID),
        ])
        .collect();
    assert!(tricks.len() >= 40);

    let before = fixture.outside();
    for (path, expected) in &tricks {
        let read = fixture.read(path);
        assert_eq!(kind(&read), *expected, "reading {path:?}: {read:?}");
        let written = fixture.write(path);
        assert_eq!(kind(&written), *expected, "writing {path:?}: {written:?}");
        assert!(!format!("{read:?}{written:?}").contains(SECRET), "{path:?}");
        assert_eq!(fixture.outside(), before, "{path:?}");
        if *expected == OUTSIDE {
            let ws = fixture.ws().display().to_string();
            assert!(format!("{read:?}").contains(&ws), "it names the workspace: {read:?}");
        }
    }
}

/// Names with a special meaning to shells and URLs are plain file names here.
#[test]
fn unusual_names_are_files_of_the_workspace() {
    let fixture = ToolFixture::new();
    let before = fixture.outside();
    for path in [
        "...",
        "..secret",
        "d..",
        "..\\secret",
        "C:\\secret",
        "%2e%2e/secret",
        "..%2fsecret",
        "~/secret",
        "$HOME/secret",
        "`id`",
        "-rf",
        "app/[...slug]/page.tsx",
        "\u{2025}/secret",
        "\u{ff0e}\u{ff0e}/secret",
        "ws/../f2",
        "f:stream",
        " f",
    ] {
        let ending = fixture.write(path);
        let refused = match path {
            "ws/../f2" => "file_not_found",
            // Nobody means a directory of that name, unless there is one.
            "~/secret" => "path_not_in_workspace",
            _ => "",
        };
        if !refused.is_empty() {
            assert_eq!(kind(&ending), refused);
            continue;
        }
        assert_eq!(kind(&ending), "success", "{path}: {ending:?}");
        let there = fs::read_to_string(fixture.ws().join(path)).expect(path);
        assert_eq!(there, "written");
    }
    assert_eq!(fixture.outside(), before);
}

/// One thread keeps swapping a directory for a link that leads out, and a file for such a link.
#[test]
fn swapping_links_during_resolution_does_not_escape() {
    const TRIES: usize = 100_000;
    let fixture = ToolFixture::new();
    let ws = fixture.ws();
    fixture.link("../outside/d", "trap");
    fixture.link("../secret", "trap_leaf");
    fs::write(ws.join("leaf"), "inside").expect("ours");
    let before = fixture.outside();
    let over = AtomicBool::new(false);
    let (mut inside, mut refused, mut leaks) = (0, 0, Vec::new());
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
            let path = ["d/f", "leaf", "d/../d/f"][n % 3];
            // Writing waits for the disk each time, so most tries read.
            let ending = match n % 500 {
                0 => fixture.write(path),
                1 => fixture.write(&format!("d/new-{n}/f")),
                _ => fixture.read(path),
            };
            if format!("{ending:?}").contains(SECRET) {
                leaks.push((n, ending.clone()));
            }
            match ending {
                Ending::Success { .. } => inside += 1,
                Ending::Error { .. } | Ending::Cancelled { .. } => refused += 1,
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(leaks, []);
    assert_eq!(fixture.outside(), before);
    assert!(inside > 0 && refused > 0, "{inside} inside, {refused} refused: no race took place");
}
