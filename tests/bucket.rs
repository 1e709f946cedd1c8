//! Tests of the clients of object stores with recorded responses of emulators, with every status, and with tokens of Google.
//!
//! `bucket/gcs.jsonl` and `bucket/s3.jsonl` are exchanges with Google's storage-testbench and with moto, recorded byte for byte: one request
//! with its response per line. A `differs` member describes a known difference between the emulator and the service.

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
