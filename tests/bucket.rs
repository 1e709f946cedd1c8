//! The clients of object stores against recorded answers of emulators, against every status, and with tokens of Google.
//!
//! `bucket/gcs.jsonl` and `bucket/s3.jsonl` are exchanges with Google's storage-testbench and with moto, recorded byte for byte: a request
//! and its answer per line. A line with `differs` says where the emulator is known to differ from the service.

mod support;

#[path = "bucket/environment.rs"]
mod environment;
#[path = "bucket/gcs.rs"]
mod gcs;
#[path = "bucket/live.rs"]
mod live;
#[path = "bucket/pages.rs"]
mod pages;
#[path = "bucket/probe.rs"]
mod probe;
#[path = "bucket/s3.rs"]
mod s3;
#[path = "bucket/server.rs"]
mod server;
#[path = "bucket/signatures.rs"]
mod signatures;
#[path = "bucket/statuses.rs"]
mod statuses;
#[path = "bucket/tape.rs"]
mod tape;
#[path = "bucket/tokens.rs"]
mod tokens;
