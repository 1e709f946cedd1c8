//! Tests that restore real files after edits by tools, people and programs.

use super::*;
use crate::base::id::Seq;
use crate::base::test_random::Random;
use crate::task::log::blob::MemoryBlobs;
use crate::task::log::event::{Created, Delivery, End, Event, Profile, Protocol};
use crate::task::log::record::Record;
use crate::task::log::restored::{Conversation, Restored};
use crate::task::log::test_created::created;
use crate::task::message::{Message, Part, Role, Source};
use crate::task::restore::Timeline;
use crate::task::spec::Kind;
use crate::tool::files::changes::FileChanges;
use crate::tool::files::replace::Replace;
use crate::tool::files::write_file::WriteFile;
use crate::tool::tests::{Scratch, ran, run_of, with_ctx};
use crate::tool::{Ctx, Tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const FILES: [&str; 6] = ["a", "b", "dir/c", "dir/deep/d", "other/e", "other/f"];

/// Content and mode of each file; None for directories.
type Tree = BTreeMap<String, Option<(Vec<u8>, u32)>>;

fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut dirs = vec![root.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("below").to_str().expect("plain").to_owned();
            let data = fs::symlink_metadata(&path).expect("it is there");
            if data.is_dir() {
                dirs.push(path);
                found.insert(name, None);
            } else {
                found.insert(name, look(&path));
            }
        }
    }
    found
}

fn look(path: &Path) -> Option<(Vec<u8>, u32)> {
    let data = fs::symlink_metadata(path).ok()?;
    Some((fs::read(path).unwrap_or_default(), data.permissions().mode() & 0o7777))
}

/// A workspace with the log of a task that works in it.
struct Harness {
    scratch: Scratch,
    blobs: Arc<MemoryBlobs>,
    log: Vec<Record>,
    limits: Limits,
}

impl Harness {
    fn new() -> Harness {
        let scratch = Scratch::in_memory();
        let created = Created {
            protocol: Protocol::V03,
            profile: Profile::Coder,
            workspace: scratch.path().display().to_string(),
            trusted: true,
            ..created("t")
        };
        let mut harness = Harness { scratch, blobs: Arc::default(), log: Vec::new(), limits: Limits::default() };
        harness.record(Event::Created(Arc::new(created)));
        harness
    }

    fn record(&mut self, event: Event) -> Seq {
        let seq = Seq(self.log.len() as u64 + 1);
        self.log.push(Record { seq, at: seq.0 * 1000, event });
        seq
    }

    /// Begins a turn, after the end of the one before it. Returns the sequence number of its first event.
    fn turn(&mut self, number: u32) -> Seq {
        if number > 1 {
            self.record(Event::TurnEnded { turn: number - 1, end: End::Done, by: None });
        }
        let message = Arc::new(Message::new("m", Role::User, vec![Part::text("go")]));
        let (by, delivery) = (Source::clock(), Delivery::default());
        self.record(Event::Prompted { message, by, turn: number, delivery });
        self.record(Event::TurnBegan { turn: number })
    }

    /// Writes a file with a tool. Returns whether the file was written.
    fn write(&mut self, path: &str, content: &str) -> bool {
        self.write_with(path, content, self.blobs.clone())
    }

    /// Changes a file with `replace` if the number is odd and the file has text, otherwise with `write_file`.
    fn change(&mut self, path: &str, content: &str, number: usize) -> bool {
        let before = fs::read_to_string(self.scratch.path().join(path)).unwrap_or_default();
        match number % 2 == 1 && !before.is_empty() && before != content {
            true => self.replace(path, &before, content),
            false => self.write(path, content),
        }
    }

    fn replace(&mut self, path: &str, before: &str, content: &str) -> bool {
        let args = json!({ "file_path": path, "old_string": before, "new_string": content });
        self.run(Replace, "replace", args, self.blobs.clone())
    }

    fn write_with(&mut self, path: &str, content: &str, blobs: Arc<dyn Blobs>) -> bool {
        self.run(WriteFile, "write_file", json!({ "file_path": path, "content": content }), blobs)
    }

    fn run(&mut self, tool: impl Tool + 'static, name: &str, args: Value, blobs: Arc<dyn Blobs>) -> bool {
        let changes = FileChanges::new(blobs, u64::MAX);
        with_ctx(&self.scratch, &self.limits, |ctx| {
            let workspace = Workspace::open(self.scratch.path()).expect("it opens");
            let ctx = Ctx { workspace, others: Vec::new(), changes: &changes, ..*ctx };
            let run = run_of(&self.scratch, name, args);
            ran(tool, &run, &ctx)
        });
        let made = changes.take();
        let has_written = !made.is_empty();
        for change in made {
            self.record(Event::FileChanged(Arc::new(change)));
        }
        has_written
    }

    /// Restores the files to the time before an event, and records that. None: the restore was refused.
    fn go_back(&mut self, to: Seq, conflicts: Conflicts) -> Option<Vec<RestoredFile>> {
        let blobs = self.blobs.clone();
        self.go_back_with(to, conflicts, &*blobs).ok()
    }

    fn go_back_with(&mut self, to: Seq, how: Conflicts, blobs: &dyn Blobs) -> Result<Vec<RestoredFile>, String> {
        let plans = self.timeline(|timeline| timeline.plan(to));
        let restorer = Restorer {
            workspaces: vec![Workspace::open(self.scratch.path()).expect("it opens")],
            blobs,
            limits: &self.limits,
            room: Cell::new(u64::MAX),
        };
        let (copied, left) = restorer.prepare(&plans, how);
        if !left.is_empty() && how != Conflicts::Skip {
            return Err(left[0].why.clone());
        }
        let files = restorer.carry_out(copied).map_err(|broken| {
            assert_eq!(broken.changed, []);
            broken.why
        })?;
        let (call, conversation, items, by) = (None, Conversation::Kept, 0, Source::clock());
        let restored = Restored { to, call, files: files.clone(), conversation, items, by };
        self.record(Event::Restored(Arc::new(restored)));
        Ok(files)
    }

    fn timeline<T>(&self, f: impl FnOnce(&Timeline) -> T) -> T {
        let kind = |_: &str| Some(Kind::Edit);
        let mut timeline = Timeline::new("t".into(), &kind);
        self.log.iter().for_each(|record| timeline.add(record));
        f(&timeline)
    }

    fn tree(&self) -> Tree {
        tree(self.scratch.path())
    }
}

/// A store in which one read fails: the one after `remaining` others.
struct OneReadFails {
    blobs: Arc<MemoryBlobs>,
    remaining: AtomicU32,
}

impl Blobs for OneReadFails {
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        self.blobs.put(bytes)
    }

    fn read(&self, sha256: &str, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        match self.remaining.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(io::Error::other("the test lets this read fail")),
            _ => self.blobs.read(sha256, from, max),
        }
    }
}

/// A store in which the process dies after `remaining` operations, before the next operation or after it.
struct Dying {
    blobs: Arc<MemoryBlobs>,
    remaining: AtomicU32,
    after: bool,
}

impl Dying {
    fn done<T>(&self, operation: impl FnOnce() -> T) -> T {
        let is_last = self.remaining.fetch_sub(1, Ordering::Relaxed) == 0;
        if is_last && !self.after {
            std::panic::panic_any(Died);
        }
        let result = operation();
        if is_last {
            std::panic::panic_any(Died);
        }
        result
    }
}

struct Died;

impl Blobs for Dying {
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        self.done(|| self.blobs.put(bytes))
    }

    fn read(&self, sha256: &str, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        self.done(|| self.blobs.read(sha256, from, max))
    }
}

/// Whether the work ended before the process died. What it has written to the disk stays.
fn survives(work: impl FnOnce()) -> bool {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(()) => true,
        Err(why) if why.is::<Died>() => false,
        Err(why) => std::panic::resume_unwind(why),
    }
}

/// Changes a file as somebody other than the agent would: writes it, deletes it or changes its mode.
fn change_by_hand(root: &Path, path: &str, random: &mut Random) {
    let path = root.join(path);
    match random.below(4) {
        0 | 1 => {
            let _ = fs::create_dir_all(path.parent().expect("below the workspace"));
            let _ = fs::write(&path, format!("by hand {}", random.below(3)));
        }
        2 => drop(fs::remove_file(&path)),
        _ => drop(fs::set_permissions(&path, fs::Permissions::from_mode([0o644, 0o755, 0o600][random.below(3)]))),
    }
}

/// The expected content of a file after a restore to the time of the first of `trees`: the content before the agent changed the file for
/// the first time since, or the current content if the agent has not changed the file or has left it as it was.
fn expected(trees: &[(Option<&str>, Tree)], path: &str) -> Option<(Vec<u8>, u32)> {
    let file = |at: usize| trees[at].1.get(path).cloned().flatten();
    let is_written = |(written, _): &(Option<&str>, Tree)| *written == Some(path);
    let (first, last) = (trees[1..].iter().position(is_written), trees[1..].iter().rposition(is_written));
    match (first, last) {
        (Some(first), Some(last)) if file(first) != file(last + 1) => file(first),
        _ => file(trees.len() - 1),
    }
}

/// Makes 50 edits by tools, some of them by others if `with_others`, and restores the files to a point in the middle.
fn run(seed: u64, with_others: bool) -> Option<()> {
    let mut random = Random::new(seed);
    let mut harness = Harness::new();
    let root = harness.scratch.path().to_path_buf();
    for file in FILES.into_iter().filter(|_| random.below(2) == 0).collect::<Vec<_>>() {
        harness.scratch.put(file, format!("{file}\r\n"));
        let mode = [0o644, 0o640, 0o755][random.below(3)];
        fs::set_permissions(root.join(file), fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let mut points = Vec::new();
    // For each edit: the file that a tool has written, and all files after it.
    let mut trees: Vec<(Option<&str>, Tree)> = vec![(None, harness.tree())];
    for edit in 0..50 {
        if edit % 5 == 0 {
            points.push((harness.turn(edit / 5 + 1), trees.len() - 1));
            trees.last_mut().expect("the first one").1 = harness.tree();
        }
        let file = FILES[random.below(FILES.len())];
        let by_tool = !with_others || random.below(5) > 0;
        let written = match by_tool {
            true => harness.change(file, &format!("text {}", random.below(4)), random.below(2)),
            false => {
                change_by_hand(&root, file, &mut random);
                false
            }
        };
        // Nothing else has changed but directories.
        let mut files = trees[trees.len() - 1].1.clone();
        match look(&root.join(file)) {
            Some(now) => files.insert(file.into(), Some(now)),
            None => files.remove(file),
        };
        trees.push((written.then_some(file), files));
    }
    // Later points are preferred, because it is more likely that nobody else has changed anything since.
    let (to, from) = points[points.len() - 1 - random.below(points.len()).min(random.below(points.len()))];
    let (since, now) = (&trees[from..], harness.tree());
    let done = harness.go_back(to, Conflicts::Refuse);
    let after = harness.tree();
    let Some(_) = done else {
        assert_eq!(after, now, "seed {seed}: it was refused, so nothing is touched");
        assert!(with_others, "seed {seed}: nobody else changed anything");
        return None;
    };
    for file in FILES {
        let is = after.get(file).cloned().flatten();
        assert_eq!(is, expected(since, file), "seed {seed}: {file}");
    }
    if !with_others {
        assert_eq!(after, since[0].1, "seed {seed}: directories too");
    }
    let undo = harness.log.last().expect("a restore").seq;
    harness.go_back(undo, Conflicts::Refuse).expect("it can be taken back");
    assert_eq!(without_directories(harness.tree()), without_directories(now), "seed {seed}");
    if !with_others {
        go_back_further(&mut harness, &mut random, to, points[0].0);
        assert_eq!(harness.tree(), trees[0].1, "seed {seed}");
    }
    Some(())
}

/// Restores again, makes further edits, and restores the files to the beginning: earlier restores do not matter.
fn go_back_further(harness: &mut Harness, random: &mut Random, to: Seq, beginning: Seq) {
    harness.go_back(to, Conflicts::Refuse).expect("nobody else changed anything");
    harness.turn(11);
    for n in 0..5 {
        harness.change(FILES[random.below(FILES.len())], &format!("later {n}"), n);
    }
    harness.go_back(beginning, Conflicts::Refuse).expect("nobody else changed anything");
}

fn without_directories(mut tree: Tree) -> Tree {
    tree.retain(|_, file| file.is_some());
    tree
}

#[test]
fn fifty_edits_by_tools_are_undone() {
    (0..500).for_each(|seed| run(seed, false).expect("nobody else changed anything"));
}

#[test]
fn fifty_edits_by_tools_and_others_are_undone_or_nothing_is_changed() {
    let undone = (500..1000).filter(|seed| run(*seed, true).is_some()).count();
    assert!((50..450).contains(&undone), "{undone} runs were undone, the others refused");
}

#[test]
fn a_failed_restore_undoes_its_changes() {
    let mut harness = Harness::new();
    harness.scratch.put("a", "one");
    let to = harness.turn(1);
    for file in ["a", "dir/c", "b"] {
        assert!(harness.write(file, "two"));
    }
    fs::remove_file(harness.scratch.path().join("a")).expect("removed");
    harness.write("a", "three");
    harness.go_back(to, Conflicts::Overwrite).expect("it is forced");
    let undo = harness.log.last().expect("a restore").seq;
    let now = harness.tree();
    // Redo creates two files again; the content of the last one cannot be read when it is its turn.
    for reads in 3..6 {
        let failing = OneReadFails { blobs: harness.blobs.clone(), remaining: AtomicU32::new(reads) };
        let why = harness.go_back_with(undo, Conflicts::Refuse, &failing).expect_err("a read fails");
        assert_eq!(harness.tree(), now, "after {reads} reads: {why}");
    }
}

#[test]
fn links_directories_and_pipes_are_not_restored() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 5] = [
        ("is reached through a link now", |root| {
            fs::rename(root.join("dir"), root.join("moved")).expect("moved");
            std::os::unix::fs::symlink("moved", root.join("dir")).expect("a link");
        }),
        ("is reached through a link now", |root| {
            fs::rename(root.join("dir/c"), root.join("x")).expect("moved");
            std::os::unix::fs::symlink("../x", root.join("dir/c")).expect("a link");
        }),
        ("is a directory now", |root| {
            fs::remove_file(root.join("dir/c")).expect("removed");
            fs::create_dir(root.join("dir/c")).expect("a directory");
        }),
        ("cannot be reached any more", |root| {
            fs::remove_dir_all(root.join("dir")).expect("removed");
            fs::write(root.join("dir"), "a file").expect("written");
        }),
        ("cannot be read or is too large", |root| {
            fs::remove_file(root.join("dir/c")).expect("removed");
            let made = std::process::Command::new("mkfifo").arg(root.join("dir/c")).status();
            assert!(made.expect("mkfifo").success());
        }),
    ];
    for (why, change) in changes {
        let mut harness = Harness::new();
        harness.scratch.put("dir/c", "one");
        let to = harness.turn(1);
        assert!(harness.write("dir/c", "two") && harness.write("a", "new"));
        change(harness.scratch.path());
        let names = |harness: &Harness| {
            let mut names: Vec<_> =
                fs::read_dir(harness.scratch.path()).expect("read").map(|e| e.unwrap().path()).collect();
            names.sort();
            names
        };
        let now = names(&harness);
        let blobs = harness.blobs.clone();
        for how in [Conflicts::Refuse, Conflicts::Overwrite] {
            let refused = harness.go_back_with(to, how, &*blobs);
            assert_eq!(refused.expect_err("it is not the file"), why);
        }
        assert_eq!(names(&harness), now);
        assert_eq!(fs::read_to_string(harness.scratch.path().join("a")).expect("read"), "new", "all or nothing");
    }
}

/// An edit stores the old content, renames the new file, and is recorded. After whichever step the process dies, the file is complete, and
/// if it is the new one, the old content is stored.
#[test]
fn check_88_a_process_that_dies_during_an_edit_loses_nothing() {
    let mut survived = 0;
    for (step, after) in (0..6).flat_map(|step| [(step, false), (step, true)]) {
        let mut harness = Harness::new();
        harness.scratch.put("a", "old");
        harness.turn(1);
        let dying = Arc::new(Dying { blobs: harness.blobs.clone(), remaining: AtomicU32::new(step), after });
        let is_done = survives(|| assert!(harness.write_with("a", "new", dying)));
        survived += u32::from(is_done);
        let now = fs::read_to_string(harness.scratch.path().join("a")).expect("it is there");
        assert!(now == "old" || now == "new", "step {step}, {after}: {now}");
        assert!(now == "old" || harness.blobs.read(&sha256(b"old"), 0, 9).is_ok(), "step {step}, {after}");
        assert!(is_done || now == "old", "step {step}, {after}: content is stored before the rename");
        let others = harness.tree();
        assert_eq!(others.keys().collect::<Vec<_>>(), ["a"], "step {step}, {after}: no other file is left");
    }
    assert!((1..11).contains(&survived), "{survived} of 12 came to their end");
}

/// A restore copies what it overwrites, renames file after file, and is recorded. After whichever step the process dies, every file has its
/// old or its new version, and the same restore can be made again.
#[test]
fn check_88_a_restore_can_be_repeated_after_the_process_has_died() {
    let files = ["a", "b", "dir/c"];
    let mut mixed = 0;
    for (step, after) in (0..16).flat_map(|step| [(step, false), (step, true)]) {
        let mut harness = Harness::new();
        harness.scratch.put("a", "old a");
        harness.scratch.put("b", "old b");
        let before = harness.tree();
        let to = harness.turn(1);
        for file in files {
            assert!(harness.write(file, "new"));
        }
        let recorded = harness.log.len();
        let dying = Dying { blobs: harness.blobs.clone(), remaining: AtomicU32::new(step), after };
        survives(|| drop(harness.go_back_with(to, Conflicts::Refuse, &dying)));
        harness.log.truncate(recorded);
        let now = harness.tree();
        let is_new =
            files.map(|file| now.get(file).is_some_and(|file| file.as_ref().is_some_and(|(bytes, _)| bytes == b"new")));
        for (file, is_new) in files.into_iter().zip(is_new) {
            let as_before = now.get(file) == before.get(file);
            assert!(is_new || as_before, "step {step}, {after}: {file} is {:?}", now.get(file));
        }
        mixed += u32::from(is_new.contains(&true) && is_new.contains(&false));
        assert!(
            harness.blobs.read(&sha256(b"old a"), 0, 9).is_ok() && harness.blobs.read(&sha256(b"old b"), 0, 9).is_ok()
        );
        harness
            .go_back(to, Conflicts::Refuse)
            .unwrap_or_else(|| panic!("step {step}, {after}: it cannot be made again"));
        assert_eq!(without_directories(harness.tree()), without_directories(before), "step {step}, {after}");
    }
    assert!(mixed >= 2, "{mixed} times some files were put back and some were not");
}
