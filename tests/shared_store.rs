//! End-to-end tests of several instances of the binary that share one store: another instance reads, continues, cancels and takes over tasks
//! of an instance, while instances are killed, paused or cut off from the store.
//!
//! The store is a fake of Google Cloud Storage in the test process, and `--store-times 10` divides all times of the protocol.

mod support;

#[path = "shared_store/balancer.rs"]
mod balancer;
#[path = "shared_store/chaos.rs"]
mod chaos;
#[path = "shared_store/client.rs"]
mod client;
#[path = "shared_store/conversation.rs"]
mod conversation;
// Only the benchmarks use some functions of the modules below.
#[path = "shared_store/fake_gcs.rs"]
#[allow(dead_code)]
mod fake_gcs;
#[path = "shared_store/gcs_api.rs"]
mod gcs_api;
#[path = "shared_store/instance.rs"]
#[allow(dead_code)]
mod instance;
#[path = "shared_store/log.rs"]
mod log;
#[path = "shared_store/programs.rs"]
mod programs;
#[path = "shared_store/reading.rs"]
mod reading;
#[path = "shared_store/store.rs"]
mod store;
#[path = "shared_store/taking_over.rs"]
mod taking_over;
#[path = "shared_store/working.rs"]
mod working;
