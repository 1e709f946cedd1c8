//! What a client is shown of a task: of one event (the projections `coder`, `devtool` and `plain`, and the streams of the Gemini endpoints), of the
//! whole task (`snapshot`), of many tasks (`list`) and beside the events (`metadata`).

pub mod call;
pub mod coder;
pub mod devtool;
pub mod devtool_call;
pub mod execute_stream;
pub mod gemini_streams;
pub mod list;
pub mod message_stream;
pub mod metadata;
pub mod plain;
pub mod session;
pub mod snapshot;
pub mod tools;
pub mod update;
