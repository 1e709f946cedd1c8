//! Readiness, metrics and the access log. Nothing here decides about tasks or requests.

pub mod access_log;
pub mod exchange;
pub mod metrics;
pub mod process;
pub mod readiness;
mod requests;

use crate::base::clock::Now;
use crate::core::operation::metrics::Metrics;
use crate::core::operation::metrics::labels::Provider;
use crate::core::operation::readiness::Delays;
use crate::core::shutdown::Phase;

/// Settings for operators.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperationSettings {
    /// A number of this process that makes the ids of its requests unique.
    pub process: u64,
    /// Whether there is an access log.
    pub access_log: bool,
    /// The API that answers model requests.
    pub provider: Provider,
}

/// The state for readiness and metrics.
#[derive(Default)]
pub(in crate::core) struct Operation {
    /// The phase of the shutdown.
    pub phase: Phase,
    /// Whether jobs take too long.
    pub delays: Delays,
    /// The time of the present input or turn.
    pub now: Now,
    pub metrics: Metrics,
    /// The names of the server's own tools, sorted.
    pub tools: Vec<String>,
}
