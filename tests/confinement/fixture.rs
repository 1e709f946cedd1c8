//! A hostile workspace and its surroundings, and snapshots that show any effect of a command: on files, listening sockets, persistent
//! kernel objects and another process of the user, and processes that the command has left running.

use crate::tool_context::ToolContext;
use gemini_a2a::limits::Limits;
use gemini_a2a::shell::children::{ChildSettings, Children, sweep};
use gemini_a2a::task::policy::{CallContext, Mode, Policy, Ruling};
use gemini_a2a::task::spec::Verdict;
use gemini_a2a::tool::commands::run_shell_command::Shell;
use gemini_a2a::tool::{Launch, ReadOnly, Spawn, Tool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How a line is run.
#[derive(Clone, Copy, PartialEq)]
pub enum RunAs {
    ReadOnly,
    /// Without confinement, to see that a line has an effect at all.
    TheUser,
}

pub struct Fixture {
    /// The directory that contains all files of this fixture.
    pub root: PathBuf,
    pub workspace: PathBuf,
    /// A part of the name of every file that a line creates elsewhere.
    pub token: String,
    /// The key of System V objects that lines create.
    key: String,
    pub children: Children,
    tcp: TcpListener,
    udp: UdpSocket,
    stream: UnixListener,
    datagram: UnixDatagram,
    /// A process of the same user that nobody may touch.
    bystander: Child,
}

/// The state of a fixture at one time. Two snapshots show what has changed between them.
#[derive(PartialEq)]
pub struct Snapshot {
    files: BTreeMap<PathBuf, String>,
    others: BTreeMap<&'static str, String>,
}

impl Fixture {
    /// A fixture with the workspace of [`build`]. `probe` is a program that is in the path, outside of the workspace.
    pub fn new(probe: Option<&Path>) -> Fixture {
        Fixture::with(probe, build)
    }

    /// A fixture with another workspace, which `build` creates as `work` in the directory that it is given.
    pub fn with(probe: Option<&Path>, build: impl FnOnce(&Path)) -> Fixture {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // The `w` at the end of a token ensures that no token is the beginning of another.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let token = format!("gemini-a2a-world-{}-{number}w", std::process::id());
        let key = (std::process::id() << 10 | number | 1 << 30).to_string();
        let root = std::env::temp_dir().join(&token);
        fs::create_dir_all(&root).expect("the temporary directory is writable");
        let root = root.canonicalize().expect("it was just made");
        let workspace = root.join("work");
        build(&root);
        fs::create_dir_all(root.join("tools")).expect("writable");
        if let Some(probe) = probe {
            fs::copy(probe, root.join("tools/probe")).expect("writable");
        }
        let socket = "a socket";
        let tcp = TcpListener::bind("127.0.0.1:0").expect(socket);
        let udp = UdpSocket::bind("127.0.0.1:0").expect(socket);
        let stream = UnixListener::bind(workspace.join("stream.sock")).expect(socket);
        let datagram = UnixDatagram::bind(workspace.join("datagram.sock")).expect(socket);
        tcp.set_nonblocking(true).expect(socket);
        udp.set_nonblocking(true).expect(socket);
        stream.set_nonblocking(true).expect(socket);
        datagram.set_nonblocking(true).expect(socket);
        let bystander = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep");
        let children = children(&root, &workspace, &token);
        Fixture { root, workspace, token, key, children, tcp, udp, stream, datagram, bystander }
    }

    /// A line with its placeholders filled in: `@OUT` is a directory outside of the workspace, `@TMP` a name for a file in the system's
    /// temporary directory, `@PORT` and `@UDP` are the ports of the sockets, `@PID` is the bystander.
    pub fn fill(&self, line: &str) -> String {
        let port = |address: io::Result<std::net::SocketAddr>| address.expect("bound").port().to_string();
        line.replace("@OUT", &self.root.join("outside").display().to_string())
            .replace("@WORK", &self.workspace.display().to_string())
            .replace("@TMP", &format!("/tmp/{}-made", self.token))
            .replace("@PORT", &port(self.tcp.local_addr()))
            .replace("@UDP", &port(self.udp.local_addr()))
            .replace("@PID", &self.bystander.id().to_string())
            .replace("@TOKEN", &self.token)
            .replace("@KEY", &self.key)
    }

    /// Runs a line to its end, or ends it after some seconds. Returns its output.
    pub fn run(&self, line: &str, how: RunAs) -> String {
        let done = self.run_writing(line, how, Vec::new());
        done.unwrap_or_else(|error| panic!("{line:?} could not be started: {error}"))
    }

    /// The same for a line that may write some files. An error if it could not be started.
    pub fn run_writing(&self, line: &str, how: RunAs, writable: Vec<PathBuf>) -> io::Result<String> {
        const TIMEOUT: Duration = Duration::from_secs(5);
        let dir: OwnedFd = File::open(&self.workspace).expect("it is there").into();
        let read_only = match how {
            RunAs::ReadOnly => Some(ReadOnly { workspace: self.workspace.clone(), writable }),
            RunAs::TheUser => None,
        };
        let argv = vec!["bash".into(), "-c".into(), self.fill(line).into()];
        let child = self.children.spawn(Launch { read_only, ..Launch::command(argv, dir) })?;
        let until = Instant::now() + TIMEOUT;
        let mut printed = Vec::new();
        let mut buffer = [0; 8192];
        loop {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).expect("some seconds");
            let ready = poll(&mut [PollFd::from_borrowed_fd(child.output(), PollFlags::IN)], Some(&left));
            match ready {
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => continue,
            }
            match rustix::io::read(child.output(), &mut buffer) {
                Ok(0) => break,
                Ok(n) if printed.len() < 1 << 20 => printed.extend_from_slice(&buffer[..n]),
                Ok(_) => break,
                Err(_) => break,
            }
        }
        child.finish()?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    /// The decision of the policy when the model wants to run a line in this workspace, which is not trusted.
    pub fn decide(&self, line: &str) -> Ruling {
        let args = json!({ "command": line });
        let prepared =
            ToolContext::default().with(&self.workspace, &"t".into(), &self.children, |ctx| Shell.prepare(&args, ctx));
        let plan = match prepared {
            Ok(plan) => plan,
            Err(error) => return Ruling::new(Verdict::Deny, error.message),
        };
        let spec = Shell.spec();
        Policy::built_in().judge(&CallContext {
            tool: &spec.name,
            kind: spec.kind,
            origin: &spec.origin,
            by_default: spec.by_default,
            args: &args,
            plan: &plan,
            mode: Mode::Default,
            session: &[],
            denied: &[],
            trusted: false,
            interactive: true,
            auto_execute: false,
        })
    }

    /// A snapshot of everything that can be read quickly.
    pub fn snapshot(&self) -> Snapshot {
        let mut files = BTreeMap::new();
        record(&self.root, &mut files);
        for dir in ["/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"] {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let ours = entry.path() != self.root && entry.file_name().to_string_lossy().contains(&self.token);
                if ours {
                    files.insert(entry.path(), facts(&entry.path()));
                }
            }
        }
        let mut byte = [0; 1];
        let mut others = BTreeMap::new();
        others.insert("a TCP connection", self.tcp.accept().is_ok().to_string());
        others.insert("a UDP datagram", self.udp.recv(&mut byte).is_ok().to_string());
        others.insert("a Unix connection", self.stream.accept().is_ok().to_string());
        others.insert("a Unix datagram", self.datagram.recv(&mut byte).is_ok().to_string());
        others.insert("the bystander", self.bystander_facts());
        Snapshot { files, others }
    }

    /// A snapshot that also has what takes longer to read: objects of the kernel, and processes that were left running.
    pub fn whole_snapshot(&self) -> Snapshot {
        let Snapshot { files, mut others } = self.snapshot();
        for kind in ["shm", "sem", "msg"] {
            let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            others.insert(
                kind,
                table.lines().filter(|line| line.split_whitespace().next() == Some(&self.key)).count().to_string(),
            );
        }
        others.insert("processes left running", format!("{:?}", sweep([self.token.as_str()])));
        Snapshot { files, others }
    }

    /// Removes the System V objects that lines without confinement have created.
    pub fn remove_kernel_objects(&self) {
        for kind in ["-M", "-Q", "-S"] {
            let _ = Command::new("ipcrm").args([kind, &self.key]).output();
        }
    }

    fn bystander_facts(&self) -> String {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.bystander.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit_once(')').map_or(vec![], |(_, rest)| rest.split_whitespace().collect());
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.bystander.id())).unwrap_or_default();
        // The state (running and sleeping are the same here), the priority, the nice value and the limits of the process.
        let state = fields.first().map(|state| state.replace(['R', 'D'], "S"));
        format!("{state:?} {:?} {limits}", fields.get(15..17))
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Snapshot {
    /// A line for each difference to a later snapshot.
    pub fn changes(&self, after: &Snapshot) -> Vec<String> {
        let paths = self.files.keys().chain(after.files.keys());
        let mut changes: Vec<String> = paths
            .filter(|path| self.files.get(*path) != after.files.get(*path))
            .map(|path| format!("{}: {:?} -> {:?}", path.display(), self.files.get(path), after.files.get(path)))
            .collect();
        changes.dedup();
        for (what, before) in &self.others {
            match after.others.get(what) {
                Some(after) if before != after => changes.push(format!("{what}: {before} -> {after}")),
                Some(_) | None => {}
            }
        }
        changes
    }
}

fn children(root: &Path, workspace: &Path, token: &str) -> Children {
    let path = format!(".:{}:/usr/local/bin:/usr/bin:/bin", root.join("tools").display());
    let env = [("PATH", path), ("HOME", root.join("home").display().to_string()), ("LC_ALL", "C.UTF-8".to_owned())];
    let plan = ChildSettings {
        exe: PathBuf::from(env!("CARGO_BIN_EXE_gemini-a2a")),
        instance: token.to_owned(),
        env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        workspaces: vec![workspace.to_owned()],
        private: vec![root.join("home")],
        git: None,
    };
    Children::new(plan, &Limits::default()).expect("a thread")
}

/// Records every file below a directory, with [`facts`] that change with the file. Reading a file changes none of them.
fn record(dir: &Path, into: &mut BTreeMap<PathBuf, String>) {
    into.insert(dir.to_owned(), facts(dir));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            record(&path, into);
        } else {
            into.insert(path.clone(), facts(&path));
        }
    }
}

fn facts(path: &Path) -> String {
    // Every change of content, mode, owner, links, attributes or times also changes the time of the last change of the inode.
    fs::symlink_metadata(path).map_or_else(
        |error| error.to_string(),
        |data| {
            format!(
                "{:o} {}:{} {} {}.{}",
                data.mode(),
                data.uid(),
                data.gid(),
                data.len(),
                data.ctime(),
                data.ctime_nsec()
            )
        },
    )
}

fn build(root: &Path) {
    let workspace = root.join("work");
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("it is below the root")).expect("writable");
        fs::write(&path, text).expect("writable");
        path
    };
    for (path, text) in [
        ("home/.ssh/id_ed25519", "canary-home-key\n"),
        ("home/.bashrc", "# canary-home-rc\n"),
        ("outside/secret.txt", "canary-outside\n"),
        ("outside/dir/deep.txt", "canary-deep\n"),
        ("work/a.txt", "one\ntwo\nthree\ntwo\n"),
        ("work/b.txt", "two\nthree\n"),
        ("work/with space.txt", "blank\n"),
        ("work/-rf", "a name like an option\n"),
        ("work/--help", "another\n"),
        ("work/data.json", "{\"a\": [1, 2, {\"b\": null}]}\n"),
        ("work/src/main.rs", "fn main() {\n    println!(\"hello\");\n}\n"),
        ("work/src/lib.rs", "pub fn foo() -> u32 {\n    42\n}\n"),
        ("work/docs/guide.md", "# Guide\n\nfoo bar\n"),
        ("work/empty", ""),
    ] {
        put(path, text);
    }
    // Programs in the workspace with names that lines use, and a script: each creates a file when it runs.
    for name in ["ls", "cat", "git", "rg", "head", "sort", "bash", "evil.sh", "bin/ls", "bin/git"] {
        let mark = root.join("outside").join(format!("ran-{}", name.replace('/', "-")));
        let program = put(&format!("work/{name}"), &format!("#!/bin/sh\necho ran > {}\n", mark.display()));
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    for (link, target) in [
        ("out", "../outside"),
        ("secret", "../outside/secret.txt"),
        ("key", "../home/.ssh/id_ed25519"),
        ("etc", "/etc"),
        ("dangling", "../outside/not-there"),
        ("loop", "loop"),
        ("up", ".."),
    ] {
        symlink(target, workspace.join(link)).expect("a link");
    }
    repository(root, &workspace);
}

/// A git repository whose files make git run programs wherever git allows that.
fn repository(root: &Path, workspace: &Path) {
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", "-C"])
            .arg(workspace)
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git");
        assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "a.txt", "src", "docs", "data.json"]);
    git(&["commit", "-q", "-m", "first"]);
    fs::write(workspace.join("b.txt"), "two\nthree\nfour\n").expect("writable");
    git(&["add", "b.txt"]);
    git(&["commit", "-q", "-m", "second"]);
    fs::write(workspace.join("a.txt"), "one\ntwo\nthree\ntwo\nfive\n").expect("writable");
    fs::write(workspace.join(".gitattributes"), "*.txt diff=evil filter=evil\n").expect("writable");
    let mark = root.join("outside/ran-hook");
    for hook in ["post-checkout", "pre-commit", "post-index-change", "fsmonitor-watchman", "reference-transaction"] {
        let path = workspace.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().expect("hooks")).expect("writable");
        fs::write(&path, format!("#!/bin/sh\necho ran > {}\n", mark.display())).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
}
