//! A coding agent and an agent server (A2A). The source is divided into layers, lowest first. Each may use only the layers in the
//! third column, and all but `args` and `manual` also [`limits`]; `scripts/layers` checks this.
//!
//! | layer | content | may use |
//! |---|---|---|
//! | [`base`] | ids, time, buffers, HTTP messages as values | – |
//! | [`wire`] | HTTP/1.1 reader and writer, SSE, WebSocket, URIs | base |
//! | [`task`] | events, `decide`/`apply`, approvals, calls and faults without a dialect | base |
//! | [`mcp`] | the client side of MCP: sessions, tool names, schemas, results, server settings | base wire task |
//! | [`a2a`] | dialects: requests into calls, events into bodies, the card, the one error table | base task |
//! | [`model`] | Gemini requests and streams, history rules, scripted agents | base task |
//! | [`tool`] | the tools: schema, `prepare`, `run` (on worker threads) | base task mcp |
//! | `bucket` | tasks in a bucket of an object store, shared by several instances | base task |
//! | [`ui`] | what people see: the state of the screen, folded from a task's records | base task |
//! | [`config`] | the table of options, settings files, trust | base task a2a model |
//! | [`args`] | the command line | base a2a config |
//! | [`manual`] | the pages that `gemini-a2a help` prints | config |
//! | [`core`] | connections, routes, tasks, subscriptions, timers | base wire task mcp a2a model |
//! | [`shell`] | mio, threads, files, sockets, signals, children | everything |
//!
//! The features `agents`, `bucket`, `identity`, `mcp`, `tui`, `web-tools` and `webhooks` are whole subsystems and on by default. Where a
//! build without such a feature needs a module all the same, a file `none.rs` with the same interface takes its place; it is chosen where the
//! module is declared.
//!
//! All layers but `tool` and `shell` are pure: no sockets, files, threads, clocks or random numbers. Read `shell/event_loop/server.rs`
//! for the event loop, then `task/machine/decide.rs` for what the agent does, then `core/mod.rs`, which connects the two.

#![forbid(unsafe_code)]

// The tests of the core share their harness with those in `tests`, which use the crate by its name.
#[cfg(test)]
extern crate self as gemini_a2a;

pub mod args;
pub mod config;
pub mod limits;
pub mod manual;

pub mod base;
pub mod wire;

pub mod task;

pub mod a2a;
#[cfg(feature = "bucket")]
pub mod bucket;
pub mod mcp;
pub mod model;
pub mod tool;
pub mod ui;

pub mod core;
pub mod shell;

pub use shell::start::embed;
