//! The client side of MCP as values: messages, sessions, names and schemas of tools, results, settings. Knows no socket, process,
//! file or clock. The protocol is 2025-11-25 and older versions with a handshake ([`session::VERSIONS`]).
//!
//! # From settings to servers
//!
//! | the shell | calls |
//! |---|---|
//! | has read `mcpServers.<name>` of a settings file or an extension | [`config::Definition::read`]: expands variables by the rules of the layer |
//! | has the same name in settings and in an extension | [`config::Definition::over`] |
//! | wants the server | [`config::Definition::server`]; `Err` is the state [`state::State::Blocked`], `Ok(None)` is nothing; then `notices` |
//! | has read `mcp.allowed` and the like, the enablement file, the flag | [`config::gate::Gate`] |
//! | gets servers from a client | [`config::client::servers`] |
//! | starts a program | [`config::is_inherited`] for its environment; a command with a blank in it that is no file gets a message |
//! | shows or logs a text of a server, its standard error, an error of its transport | [`config::Server::redactor`] |
//! | saw a server end | [`state::Starts::wait_ms`]: when to start it again, if at all |
//! | compares what a workspace starts with what it started before | [`config::Server::config_hash`] |
//!
//! # Logins
//!
//! [`transport::oauth`] says where the metadata of a login is, what it must say, what is sent, and which stored login is for a server.
//!
//! # A connection
//!
//! A [`session::Session`] is driven by one thread at a time: `handle(input, now_ms)` returns the effects in order. Its clock is any that
//! does not go back. After every `handle`, [`session::Session::due_ms`] says when `Tick` is needed.
//!
//! | the shell | gives |
//! |---|---|
//! | can send | `Input::Start` |
//! | has read bytes of standard output | [`transport::lines::Lines::feed`], per line [`transport::message::read`]: each message as `Message { on: None }`, otherwise `Junk`; `TooLong` ends the connection: `Lost("line too long")` |
//! | has read bytes of an event stream | [`transport::http::Events::feed`]: each message as `Message { on }`, `on` being the request of the POST, None for the GET stream and the older transport |
//! | has a body of JSON | [`transport::http::read_body`], the same with `on` |
//! | got no answer to a request (timeout of the connection, `Next::Failed`, `After::Lost`) | `Failed`, if the message was a request; otherwise nothing |
//! | got `Next::SessionLost` | [`transport::http::Endpoint::forget`], then `SessionLost` with the request; for a message that is no request nothing |
//! | saw the connection or the program end | `Lost` with the reason and the end of standard error |
//! | has a call, a prompt, a resource or a ping for the server | `Call`, `Ask` with a number of its own |
//! | was cancelled | `Cancel` |
//! | has the answer to a question | `Replied`, with `Reply::Cancel` if nobody can be asked |
//! | sees that the directories of the workspace changed | `Roots` |
//! | reached `due_ms` | `Tick` |
//!
//! | effect | the shell |
//! |---|---|
//! | `Send` | writes the text and a line end, or makes a POST; [`session::Sent`] says whether an answer comes |
//! | `Initialized` | over HTTP: [`transport::http::Endpoint::agree`] with `info().version`, then the GET stream ([`transport::http::Next::NoStream`] is none; [`transport::http::reopen_ms`]) |
//! | `Ready` | the server is [`state::State::Connected`] |
//! | `Changed` | declares the tools again: [`declared::declare`] |
//! | `Progress` | shows it as live output, at most every `live_ms` |
//! | `Ended` | ends the call: a result goes through [`content::read`], is cut and marked as untrusted; stops reading its response |
//! | `Answered` | [`content::read_prompt`], [`content::read_resource`] |
//! | `Question` | asks people: [`form::Elicitation::inquired`], which also checks the answers; their values are never written anywhere |
//! | `Withdrawn` | takes the question back |
//! | `Log`, `Notice` | after the redactor: the server's log, people |
//! | `End` | closes the connection; the server is [`state::State::Failed`] for this reason. Everything that waited has failed already |
//!
//! The catalog of a session that ended is given to the next one in [`session::Setup`], so that its tools stay declared.
//!
//! # Streamable HTTP and the older transport
//!
//! For each `Send`: `Endpoint::fields(Request::Post(kind))`, the POST without following redirections, then
//! [`transport::http::Endpoint::judge`] with the status, the header fields and (unless the status is 2xx) up to
//! [`ERROR_BODY_BYTES`](crate::limits::mcp::ERROR_BODY_BYTES) of the body. For the response to `initialize` also
//! [`transport::http::Endpoint::open`]. An event stream that ended: [`transport::http::Events::after`] says whether to resume it with
//! `Request::Stream { last_id }`; the response is fed to the same [`transport::http::Events`] after `resume`. Before the connection is closed:
//! `Request::Delete` if there is a session.
//!
//! The older transport ([`config::Network::Sse`], also after `Next::TrySse` with a new session): GET the URL, [`transport::http::Events::older`];
//! the first event is `Event::Endpoint`: that URL replaces [`transport::http::Endpoint::url`], then `Input::Start`.
//!
//! # Tools
//!
//! [`declared::declare`] makes the tools of all connected servers ready for the model, with the origin that rules and approvals match.
//! A prompt is the command [`prompt::command`] with [`prompt::arguments`]; `@server:uri` is a
//! [`resources::mention`], and [`resources::is_offered`] or a link of an earlier result allows to read a URI.

pub mod catalog;
pub mod config;
pub mod content;
pub mod declared;
pub mod form;
pub mod names;
pub mod prompt;
pub mod resources;
pub mod roots;
pub mod schema;
pub mod session;
pub mod state;
pub mod text;
pub mod transport;
