//! A server inside another program. [`open`] is the one way a server is made; `gemini-a2a` itself uses it.
//!
//! ```no_run
//! use gemini_a2a::embed::{self, Plan};
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     // First of all: commands are started through this same program.
//!     if let Some(code) = embed::child_main(std::env::args_os()) {
//!         return code;
//!     }
//!     let server = embed::open(Plan { port: 0, ..Plan::at("workspace", "state") }).expect("a workspace to serve");
//!     let (url, stop) = (server.url().to_owned(), server.stop_handle());
//!     let running = std::thread::spawn(move || server.run());
//!     println!("an agent works behind {url}");
//!     stop.stop();
//!     running.join().expect("the server does not panic").expect("the event loop works");
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! [`open`] reads no settings from arguments, environment or files but those that the [`Plan`] names, and installs no signal handler
//! unless the plan asks for it. Several servers may run in one process, each with a state directory of its own or a shared one. When
//! [`Server::run`] has returned, its threads have ended and its descriptors are closed.

pub use crate::config::listen::Listen;
pub use crate::core::disk::memory_store::MemoryStore;
pub use crate::core::disk::store::Store;
pub use crate::limits::Limits;
pub use crate::shell::children::child_main;
pub use crate::shell::event_loop::log::Log;
pub use crate::shell::event_loop::server::Ended;
pub use crate::shell::event_loop::stop::StopHandle;
pub use crate::shell::journal::observed::Watch;

/// What a slash command is made from.
pub mod commands {
    pub use crate::shell::workers::slash_commands::{Asked, Commands, Function};
    pub use crate::task::definitions::slash::{Commanded, Spec};
}

/// What a model back-end is made from.
pub mod models {
    pub use crate::base::cancel::Cancel;
    pub use crate::model::backend::{ModelBackend, ModelRequest};
    pub use crate::task::log::answer::{Answer, Request};
    pub use crate::task::machine::job::{ModelError, NoteBody};
}

/// What a tool is made from.
pub mod tools {
    pub use crate::task::machine::job::{Run, RunEnd};
    pub use crate::task::spec::{CallError, Ending, ErrorKind, Kind, Plan, ToolSpec};
    pub use crate::tool::{Ctx, Tool};
}

use crate::config::Models;
use crate::config::paths::Paths;
use crate::config::settings::Settings;
use crate::config::trust::Trust;
use crate::core::disk::store::StoreError;
use crate::model::gemini::Endpoint;
use crate::model::script::Script;
use crate::shell::event_loop::server;
use crate::shell::journal::instances::{Instance, Instances};
use crate::shell::start::assemble;
use crate::shell::workers::client::responses::FakeResponses;
use commands::Commands;
use models::ModelBackend;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use tools::Tool;

/// What a server is made from. Begin with [`Plan::at`] and change what you need.
pub struct Plan {
    /// The directory that the agent works in.
    pub workspace: PathBuf,
    /// The directory for tasks and for the ids of servers. It is made if there is none.
    pub state: PathBuf,
    /// Whether clients of other processes can connect.
    pub reach: Reach,
    /// The TCP port on 127.0.0.1; 0 takes a free one, which [`Server::url`] names. Not used if `listen` is not empty.
    pub port: u16,
    /// The addresses to listen on, if not only on `port`.
    pub listen: Vec<Listen>,
    /// The directory for the Unix socket beside TCP; `run` in the state directory if none is given.
    pub sockets: Option<PathBuf>,
    pub limits: Limits,
    /// All other options, as the operator's settings have them. Their addresses, directories and limits are not used.
    pub settings: Settings,
    /// Whether the workspace's own settings and memory files count. None: the files of `paths` decide, and without them they do not.
    pub trust: Option<Trust>,
    /// The operator's files, which are read for every workspace. There are none by default.
    pub paths: Paths,
    /// The environment that commands get a part of, and that settings may refer to.
    pub environment: Vec<(OsString, OsString)>,
    pub model: Model,
    /// Certificates to trust instead of the built-in ones, in PEM.
    pub certificates: Option<Vec<u8>>,
    /// The slash commands.
    pub commands: Commands,
    /// Tools beside the built-in ones.
    pub tools: Vec<Box<dyn Tool>>,
    /// The store of tasks; files in the state directory if none is given.
    pub store: Option<Box<dyn Store>>,
    /// Called with every record of every task, after the store has it.
    pub watch: Option<Watch>,
    pub children: ChildProcesses,
    pub signals: SignalHandling,
    /// The socket of a service manager that is told when the server is ready and when it ends, as `NOTIFY_SOCKET` names it.
    pub notify: Option<PathBuf>,
    pub log: Log,
}

impl Plan {
    /// A server that answers with the built-in demo and listens on any free port.
    pub fn at(workspace: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Plan {
        Plan {
            workspace: workspace.into(),
            state: state.into(),
            reach: Reach::Machine,
            port: 0,
            listen: Vec::new(),
            sockets: None,
            limits: Limits::default(),
            settings: Settings::default(),
            trust: None,
            paths: Paths::default(),
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            model: Model::Demo,
            certificates: None,
            commands: Commands::built_in(),
            tools: Vec::new(),
            store: None,
            watch: None,
            children: ChildProcesses::ThisProgram,
            signals: SignalHandling::Untouched,
            notify: None,
            log: Log::off(),
        }
    }
}

/// Which clients can connect to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only clients in this process, by [`Server::connect`]. There is no listener.
    Process,
    /// Clients of other processes, by the addresses of the plan and a Unix socket.
    Machine,
}

/// The model back-end that answers prompts.
pub enum Model {
    /// The built-in script, which needs no key.
    Demo,
    Script(Arc<Script>),
    Gemini(Box<Gemini>),
    /// Recorded responses of the Gemini API.
    Recorded {
        models: Models,
        responses: Arc<FakeResponses>,
    },
    /// A back-end of the host, and the name that clients are shown.
    Own {
        name: String,
        backend: Arc<dyn ModelBackend>,
    },
}

/// The Gemini API, or one that understands it.
pub struct Gemini {
    pub endpoint: Endpoint,
    pub models: Models,
    /// The URL of a proxy.
    pub proxy: Option<String>,
    /// The file that responses are added to.
    pub record: Option<PathBuf>,
}

/// How commands are started. Each runs below a supervisor, which is a process of a program whose `main` calls [`child_main`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildProcesses {
    /// The supervisors are processes of the program that runs now.
    ThisProgram,
    Program(PathBuf),
    /// No commands are started: the tools that start commands are not declared.
    None,
}

/// Whether INT, TERM and HUP end the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalHandling {
    /// The server handles no signals. Clients that connect to a Unix socket while a command runs may have to connect a second time,
    /// because the server cannot know whether the process was stopped meanwhile.
    Untouched,
    /// The host handles them and stops the server. The server only handles SIGCONT, to know that the process was stopped, and SIGCHLD.
    OfTheHost,
    /// They end the server in an orderly way, and a second one ends the process at once. After the server's end they have their earlier
    /// effect again.
    EndTheServer,
    /// INT and TERM end the server; HUP opens the access log again.
    ReloadOnHangup,
}

/// Why there is no server.
#[derive(Debug)]
pub enum OpenError {
    /// A value of the plan cannot be used.
    Plan(String),
    /// The state directory cannot be used.
    State(StoreError),
    /// An address cannot be listened on.
    Listen(String),
    /// No supervisor can be started. Most likely `main` does not begin with [`child_main`].
    Children(String),
    /// The system has no thread, descriptor or memory for it.
    System(&'static str, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Plan(message) | OpenError::Listen(message) | OpenError::Children(message) => {
                f.write_str(message)
            }
            OpenError::State(error) => error.fmt(f),
            OpenError::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// A server that listens. Clients that connect wait until it runs.
pub struct Server {
    pub(super) server: server::Server,
    pub(super) instance: Instance,
    /// Locked until the server has ended.
    pub(super) instances: Instances,
    pub(super) problems: Vec<String>,
}

/// Opens and checks everything that a server needs.
pub fn open(plan: Plan) -> Result<Server, OpenError> {
    assemble::assemble(plan)
}

impl Server {
    pub fn url(&self) -> &str {
        &self.instance.url
    }

    /// The addresses it listens on: `127.0.0.1:41242`, `unix:/run/…`.
    pub fn listeners(&self) -> &[String] {
        &self.instance.listen
    }

    /// What does not work on this machine, and what that means for users: a line each.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// A connection for a client in this process, which needs no listener: messages of `gemini-a2a.v1` (`gemini-a2a help journal`), one
    /// a line. Its client is called "you".
    pub fn connect(&mut self) -> io::Result<UnixStream> {
        self.server.connect()
    }

    /// A connection for an editor in this process: messages of the Agent Client Protocol, one a line.
    pub fn connect_editor(&mut self) -> io::Result<UnixStream> {
        self.server.connect_editor()
    }

    /// Stops it, from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.server.stop_handle()
    }

    /// Serves until it is stopped, or until a signal ends it if the plan says so.
    pub fn run(self) -> io::Result<Ended> {
        let Server { server, instances, .. } = self;
        let ended = server.run();
        drop(instances);
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use crate::tool::write_todos::WriteTodos;
    use std::io::{BufRead, BufReader, Write};

    fn plan(scratch: &Scratch) -> Plan {
        Plan { children: ChildProcesses::None, ..Plan::at(scratch.path(), scratch.path().join("state")) }
    }

    #[test]
    fn errors_of_a_plan_have_kinds() {
        let scratch = Scratch::new();
        let server = open(plan(&scratch)).expect("nothing is wrong with it");
        assert!(server.url().starts_with("http://localhost:") && server.problems().is_empty());
        assert_eq!(server.listeners().len(), 2, "TCP, and a Unix socket beside it");
        let taken = server.listeners()[0].parse().expect("an address");
        let error = |change: &dyn Fn(&mut Plan)| {
            let mut plan = plan(&scratch);
            change(&mut plan);
            open(plan).err().expect("an error")
        };
        let file = scratch.put("file", "");
        assert!(matches!(error(&|plan| plan.workspace = file.clone()), OpenError::Plan(_)));
        assert!(matches!(error(&|plan| plan.tools = vec![Box::new(WriteTodos)]), OpenError::Plan(_)));
        assert!(matches!(error(&|plan| plan.certificates = Some(b"none".to_vec())), OpenError::Plan(_)));
        assert!(matches!(error(&|plan| plan.state = file.clone()), OpenError::State(_)));
        assert!(matches!(error(&|plan| plan.listen = vec![Listen::Tcp(taken)]), OpenError::Listen(_)));
        let wide = "0.0.0.0:0".parse().expect("an address");
        assert!(matches!(error(&|plan| plan.listen = vec![Listen::Tcp(wide)]), OpenError::Plan(_)));
        // The program of these tests does not begin with `child_main`.
        assert!(matches!(error(&|plan| plan.children = ChildProcesses::ThisProgram), OpenError::Children(_)));
    }

    #[test]
    fn a_client_in_the_same_process_needs_no_listener() {
        let scratch = Scratch::new();
        let mut server = open(plan(&scratch)).expect("a server");
        let stream = server.connect().expect("a connection");
        let stop = server.stop_handle();
        let running = std::thread::spawn(move || server.run());
        let mut lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
        let mut ask = |call: &str| {
            (&stream).write_all(format!("{{\"id\":1,\"call\":{call}}}\n").as_bytes()).expect("it is read");
            // Between answers there are the records of sessions that begin.
            let mut frames = lines.by_ref().map(|line| serde_json::from_str(&line.expect("text")).expect("JSON"));
            let answer: Option<serde_json::Value> = frames.find(|frame: &serde_json::Value| frame["id"] == 1);
            answer.expect("an answer")["ok"].take()
        };
        assert_eq!(ask("{\"about\":{}}")["client"], "you");
        let command = ask("{\"execute\":{\"text\":\"/help\"}}");
        assert!(command["text"].as_str().expect("the result").contains("/memory"), "{command}");
        let session = ask("{\"session\":{}}");
        let renewed = ask("{\"session\":{\"new\":true}}");
        assert_ne!(renewed, session);
        assert_eq!(ask(&format!("{{\"session\":{{\"task\":{session}}}}}")), session);
        stop.stop();
        running.join().expect("no panic").expect("the loop works");
        assert!(lines.last().is_none_or(|line| line.is_ok()), "the connection is closed");
    }

    #[test]
    fn a_stopped_server_ends_whenever_it_is_stopped() {
        let scratch = Scratch::new();
        let server = open(plan(&scratch)).expect("a server");
        let stop = server.stop_handle();
        stop.stop();
        assert_eq!(server.run().expect("the loop works"), Ended::Stopped);
        stop.clone().stop();
        let server = open(plan(&scratch)).expect("a second one in the same place");
        let stop = server.stop_handle();
        let running = std::thread::spawn(move || server.run());
        stop.stop();
        assert_eq!(running.join().expect("no panic").expect("the loop works"), Ended::Stopped);
    }
}
