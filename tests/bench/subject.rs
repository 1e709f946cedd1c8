//! The processes of a measurement: the measured server, ours or the reference server, and the fake model.
//!
//! Both servers are started in the same way, with an empty home directory, their own workspace and no other environment. Their ports are
//! below the ephemeral range, because a connection attempt to a free ephemeral port can connect to itself.

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

    /// The same in a directory that may contain a state, with further arguments.
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
            // A plain connection is cheaper than a client, so the port is tried first.
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
    // Different runs begin at different ports, because ports of the last run may still be in use.
    let begin = (std::process::id() as u16).wrapping_mul(17) % COUNT;
    (0..COUNT)
        .map(|n| FIRST + (begin + n) % COUNT)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| io::Error::other("no free port below the ephemeral range"))
}

pub const FAKE_MODEL_VERB: &str = "run-fake-model";

/// The fake model in a process of its own. It ends when its standard input is closed, so also when the benchmark is killed.
pub struct Model {
    child: Child,
    pub url: String,
}

impl Model {
    pub fn start() -> io::Result<Model> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(FAKE_MODEL_VERB)
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
        // The process ends by itself; waiting reaps it.
        let _ = self.child.wait();
    }
}

/// The main function of the fake model's process.
pub fn run_fake_model() {
    let fake = FakeGemini::with(Recording::Off);
    println!("{}", fake.url());
    // Nothing is sent: this returns when the benchmark has ended.
    let _ = io::stdin().read_to_end(&mut vec![]);
}
