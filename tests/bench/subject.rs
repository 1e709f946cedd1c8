//! The processes of a measurement: the server that is measured, ours or the reference server, and the fake model.
//!
//! Both servers start the same way, with an empty home, a workspace of their own and nothing else in the environment. Their
//! ports are below the ephemeral range: a poll of a free ephemeral port can connect to itself and look like an answer.

use crate::support::TempDir;
use crate::support::client::Client;
use crate::support::fake::{FakeGemini, Recording};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub const CARD: &str = "/.well-known/agent-card.json";

pub enum Subject {
    Ours,
    /// The folder the npm release is installed in.
    Peer(PathBuf),
}

/// A server that has answered its first request.
pub struct Running {
    child: Child,
    port: u16,
    dir: TempDir,
    /// From spawning it to the first card.
    pub start: Duration,
}

impl Subject {
    pub fn name(&self) -> &'static str {
        match self {
            Subject::Ours => "ours",
            Subject::Peer(_) => "reference server",
        }
    }

    pub fn start(&self, model: &Model) -> io::Result<Running> {
        self.start_with(model, TempDir::new("bench"), &[])
    }

    /// The same in a directory that may have a state already, with further arguments.
    pub fn start_with(&self, model: &Model, dir: TempDir, args: &[&str]) -> io::Result<Running> {
        let port = free_port()?;
        let mut command = self.command(port, &dir);
        command.args(args);
        let log = File::create(dir.path().join("log"))?;
        command
            .env("GEMINI_API_KEY", "fake")
            .env("GOOGLE_GEMINI_BASE_URL", &model.url)
            .env("HOME", dir.folder("home"))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let begin = Instant::now();
        let child = command
            .spawn()
            .map_err(|error| io::Error::other(format!("{:?} cannot run: {error}", command.get_program())))?;
        let mut running = Running { child, port, dir, start: Duration::ZERO };
        running.wait_for_card(begin)?;
        running.start = begin.elapsed();
        Ok(running)
    }

    fn command(&self, port: u16, dir: &TempDir) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut command = match self {
            Subject::Ours => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
                command.arg("serve").args(["--a2a-port", &port.to_string()]);
                command.arg("--workspace").arg(dir.folder("workspace"));
                command.arg("--state-dir").arg(dir.folder("state"));
                command.env_clear();
                command
            }
            Subject::Peer(installed) => {
                let package = "node_modules/@google/gemini-cli-a2a-server/dist/a2a-server.mjs";
                let mut command = Command::new("node");
                command.arg(installed.join(package)).env_clear();
                command.env("CODER_AGENT_PORT", port.to_string());
                command.env("CODER_AGENT_WORKSPACE_PATH", dir.folder("workspace"));
                command
            }
        };
        command.env("PATH", path);
        command
    }
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address()))
    }

    pub fn workspace(&self) -> PathBuf {
        self.dir.folder("workspace")
    }

    fn wait_for_card(&mut self, begin: Instant) -> io::Result<()> {
        const LONGEST: Duration = Duration::from_secs(60);
        let mut client = self.client();
        loop {
            // A refused connection costs less than setting up a client, so the port is tried first.
            if TcpStream::connect(self.address()).is_ok()
                && client.try_request("GET", CARD, &[], b"").is_ok_and(|card| card.status() == 200)
            {
                return Ok(());
            }
            let ended = self.child.try_wait()?;
            if ended.is_some() || begin.elapsed() > LONGEST {
                return Err(io::Error::other(format!(
                    "the server did not start ({ended:?}); it said:\n{}",
                    read(&self.dir.path().join("log"))
                )));
            }
            thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a child that has been waited for, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn free_port() -> io::Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    // Different runs begin at different places, so that a port lingering from the last one is not the first choice.
    let begin = (std::process::id() as u16).wrapping_mul(17) % COUNT;
    (0..COUNT)
        .map(|n| FIRST + (begin + n) % COUNT)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| io::Error::other("no free port below the ephemeral range"))
}

pub const FAKE_VERB: &str = "be-the-model";

/// The fake model in a process of its own. It ends when we do, however we end: its standard input closes.
pub struct Model {
    child: Child,
    pub url: String,
}

impl Model {
    pub fn start() -> io::Result<Model> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(FAKE_VERB)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        BufReader::new(stdout).read_line(&mut url)?;
        Ok(Model { child, url: url.trim().to_string() })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        let authority = self.url.trim_start_matches("http://");
        authority.parse().map_err(|_| io::Error::other(format!("no address: {authority}")))
    }

    /// Lets one answer pass its `HOLD`.
    pub fn release(&self) {
        Client::new(&self.url).post("/_release", &serde_json::Value::Null);
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends by itself; waiting only reaps it.
        let _ = self.child.wait();
    }
}

/// The life of the fake model's process.
pub fn be_the_model() {
    let fake = FakeGemini::with(Recording::Off);
    println!("{}", fake.url());
    // Nothing is ever sent: this returns when the benchmark is gone.
    let _ = io::stdin().read_to_end(&mut vec![]);
}
