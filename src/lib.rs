//! The house, from the ground up. Each layer may use the ones named behind it and nothing else; `scripts/layers` checks it.
//!
//! | layer | what lives there | may use |
//! |---|---|---|
//! | [`base`] | slots, ids, time, bytes, HTTP messages as values | – |
//! | [`wire`] | HTTP/1.1 reader and writer, SSE, WebSocket, URIs | base |
//! | [`task`] | events, `decide`/`apply`, approvals, calls and faults without a dialect | base |
//! | [`a2a`] | dialects: requests into calls, events into bodies, the card, the one error table | base task |
//! | [`model`] | Gemini requests and streams, history rules, scripted agents | base task |
//! | [`tool`] | one file per tool: schema, `prepare`, `run` (on worker threads) | base task |
//! | [`core`] | connections, routes, tasks, subscriptions, timers | base wire task a2a model |
//! | [`manual`] | the pages that `gemini-a2a help` prints | – |
//! | [`shell`] | mio, threads, files, sockets, signals, children | everything |
//!
//! The features `web-tools` and `webhooks` are whole subsystems and on by default. A module that belongs to one has a counterpart
//! `none.rs` with the same interface, chosen where the module is declared; beside that, only `a2a::WEBHOOKS` tells builds apart.
//!
//! Everything but `tool` and `shell` is pure: no sockets, files, threads, clocks or randomness. Read `shell/event_loop/server.rs` for the
//! turn of the loop, then `task/machine/decide.rs` for what the agent does, then `core/mod.rs` for how the two meet.

#![forbid(unsafe_code)]

pub mod args;
pub mod config;
pub mod limits;
pub mod manual;

pub mod base;
pub mod wire;

pub mod task;

pub mod a2a;
pub mod model;
pub mod tool;

pub mod core;
pub mod shell;
