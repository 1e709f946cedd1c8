//! The client side of MCP without I/O: messages, sessions, names and schemas of tools, results, settings. Uses no sockets, processes, files
//! or clock. Supports protocol version 2025-11-25 and older versions with a handshake ([`session::VERSIONS`]).
//!
//! # From settings to servers
//!
//! | when the shell | it calls |
//! |---|---|
//! | has read `mcpServers.<name>` of a settings file or an extension | [`config::Definition::read`]: expands variables by the rules of the layer |
//! | finds the same server name in settings and in an extension | [`config::Definition::over`] |
//! | needs the server | [`config::Definition::server`]: `Err` becomes the state [`state::State::Blocked`], `Ok(None)` means no server; then `notices` |
//! | has read `mcp.allowed` and `mcp.excluded`, the enablement file and the command-line flag | [`config::gate::Gate`] |
//! | gets servers from a client | [`config::client::servers`] |
//! | starts a program | [`config::is_inherited`] for its environment; if the command contains a blank and is not a file, it shows a message instead |
//! | shows or logs text of a server, its standard error, or an error of its transport | [`config::Server::redactor`] |
//! | notices that a server has ended | [`state::Starts::wait_ms`]: when to start it again, if at all |
//! | compares what a server of a workspace starts with what it started before | [`config::Server::config_hash`] |
//!
//! # Logins
//!
//! [`transport::oauth`] has the URLs of the metadata for a login, checks the metadata, builds the requests, and finds the stored login for a
//! server.
//!
//! # A connection
//!
//! A [`session::Session`] is used by one thread at a time: `handle(input, now_ms)` returns the effects in order. Any monotonic clock can be
//! used. After every `handle`, [`session::Session::due_ms`] returns when `Tick` is needed.
//!
//! | when the shell | it gives the session |
//! |---|---|
//! | can send | `Input::Start` |
//! | has read bytes of standard output | [`transport::lines::Lines::feed`], per line [`transport::message::read`]: each message as `Message { on: None }`, otherwise `Junk`; `TooLong` ends the connection: `Lost("line too long")` |
//! | has read bytes of an event stream | [`transport::http::EventStream::feed`]: each message as `Message { on }`, `on` being the request of the POST, None for the GET stream and the older transport |
//! | has a body of JSON | [`transport::http::read_body`], the same with `on` |
//! | gets no response to a message (timeout of the connection, `Next::Failed`, `StreamEnd::Lost`) | `Failed` if the message was a request, otherwise nothing |
//! | gets `Next::SessionLost` | [`transport::http::Endpoint::clear_session`], then `SessionLost` with the request; nothing if the message was not a request |
//! | notices the end of the connection or of the program | `Lost` with the reason and the end of standard error |
//! | calls a tool; gets a prompt or a resource, or sends a ping | `Call`; `Query`; each with a key that the shell chooses |
//! | cancels a call | `Cancel` |
//! | has the answer to a question of the server | `Replied`, with `Reply::Cancel` if nobody can be asked |
//! | notices that the directories of the workspace have changed | `Roots` |
//! | reached `due_ms` | `Tick` |
//!
//! | on the effect | the shell |
//! |---|---|
//! | `Send` | writes the text and a line end, or makes a POST; [`session::Sent`] tells whether a response is expected |
//! | `Initialized` | over HTTP: [`transport::http::Endpoint::set_version`] with `info().version`, then opens the GET stream ([`transport::http::Next::NoStream`]: the server has none; [`transport::http::reopen_ms`]) |
//! | `Ready` | sets the state to [`state::State::Connected`] |
//! | `Changed` | declares the tools again: [`declared::declare`] |
//! | `Progress` | shows it as live output, at most every `live_ms` |
//! | `Ended` | ends the call: reads a result with [`content::read`], truncates it and marks it as untrusted; stops reading the response |
//! | `Answered` | reads the result with [`content::read_prompt`] or [`content::read_resource`] |
//! | `Question` | asks the user: [`form::Elicitation::inquired`], which also checks the answers; the values are never stored |
//! | `Withdrawn` | withdraws the question |
//! | `Log`, `Notice` | applies the redactor, then writes to the server's log, or shows the notice |
//! | `End` | closes the connection and sets the state to [`state::State::Failed`] with this reason; all pending calls and queries have failed already |
//!
//! The next session gets the catalog of the ended one in [`session::Setup`], so that the tools stay declared.
//!
//! # Streamable HTTP and the older transport
//!
//! For each `Send`: `Endpoint::fields(Request::Post(kind))`, the POST without following redirections, then
//! [`transport::http::Endpoint::interpret`] with the status, the header fields and (unless the status is 2xx) up to
//! [`ERROR_BODY_BYTES`](crate::limits::mcp::ERROR_BODY_BYTES) of the body. For the response to `initialize` also
//! [`transport::http::Endpoint::set_session`]. When an event stream ends, [`transport::http::EventStream::after`] returns whether to
//! resume it with `Request::Stream { last_id }`; the response is fed to the same [`transport::http::EventStream`] after `resume`. If there is a
//! session, `Request::Delete` is sent before the connection is closed.
//!
//! The older transport ([`config::Network::Sse`], also after `Next::TrySse` with a new session): GET the URL, [`transport::http::EventStream::legacy`];
//! the first event is `Event::Endpoint`: that URL replaces [`transport::http::Endpoint::url`], then `Input::Start`.
//!
//! # Tools
//!
//! [`declared::declare`] converts the tools of all connected servers into declarations for the model, with the origin that rules and approvals
//! match. A prompt is the command [`prompt::command`] with [`prompt::arguments`]. `@server:uri` is a [`resources::mention`]. A URI may be read
//! if [`resources::is_offered`] or if an earlier result linked to it.

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
