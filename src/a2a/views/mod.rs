//! What a client is shown of a task: of one event (the projections `coder`, `devtool` and `plain`, and the flat streams), of the
//! whole task (`snapshot`) and of many tasks (`list`).

pub mod call;
pub mod coder;
pub mod devtool;
pub mod devtool_call;
pub mod execute_stream;
pub mod flat;
pub mod list;
pub mod message_stream;
pub mod plain;
pub mod session;
pub mod snapshot;
pub mod tools;
pub mod update;
