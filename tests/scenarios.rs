//! Scenarios recorded from the reference server and repeated against this server: a client of the reference server must get
//! the same events in the same order. Each test is named after its recorded scenario.
//!
//! The expectation is what the reference server sends, unless that is a defect or contradicts one of our own rules. Each
//! such difference is marked (`-` only the reference server sends the line, `+` only this server does) and has its reason
//! beside it. Where the recording client waited for a time, the tests here wait for a condition.

#[path = "scenarios/approvals.rs"]
mod approvals;
#[path = "scenarios/calls.rs"]
mod calls;
#[path = "scenarios/cancel.rs"]
mod cancel;
#[path = "scenarios/model_errors.rs"]
mod model_errors;
#[path = "scenarios/reading.rs"]
mod reading;
#[path = "scenarios/request_errors.rs"]
mod request_errors;
#[path = "scenarios/scenario.rs"]
mod scenario;
#[path = "scenarios/shapes.rs"]
mod shapes;
mod support;
#[path = "scenarios/tasks.rs"]
mod tasks;

/// A task is created and its turn begins.
const CREATED: &str = "
    task submitted
    status working state-change";
/// The model answers with text and the turn ends.
const TEXT: &str = "
    status working text-content
    status input-required state-change final";
/// The user is asked about the first call and the stream ends.
const ASKED: &str = "
    status working tool-call-update 1 scheduled
    status working tool-call-confirmation 1 awaiting_approval
    status input-required state-change final";
/// The first call was approved and starts.
const STARTED: &str = "
    status input-required tool-call-confirmation 1 awaiting_approval
    status input-required tool-call-update 1 scheduled
    status input-required tool-call-update 1 executing";
/// The first call has succeeded and its result is sent to the model.
const SUCCEEDED: &str = "
    status input-required tool-call-update 1 success
    status working state-change";
/// The first call cannot be run; the model gets the error and the user is not asked.
const REFUSED: &str = "
    status working tool-call-update 1 error
    status working state-change";
