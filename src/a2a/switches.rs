//! The operator's settings for the dialects. They are read at the start; each is a flag with the same name.

use crate::task::log::event::{Lifecycle, Profile};

/// Whether this build can deliver to webhooks. Without the feature everything behaves as with `--push off`.
pub const WEBHOOKS: bool = cfg!(feature = "webhooks");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Whether clients may request streams of events.
    pub streaming: bool,
    /// Whether clients may set webhooks.
    pub push: bool,
    /// Which URLs webhooks may have.
    pub push_rules: PushRules,
    /// Whether there is an extended card for authenticated clients.
    pub extended_card: bool,
    /// Extensions that a client must name.
    pub required_extensions: Vec<String>,
    /// The card for requests without a version.
    pub card_default: CardDefault,
    /// Whether a request for a 1.0 operation must name the version.
    pub strict_version: bool,
    pub rest_status: RestStatus,
    /// The profile of 0.3 clients that name none.
    pub default_profile_03: Profile,
    /// Whether a finished turn ends a task that a plain client made.
    pub plain_lifecycle: Lifecycle,
    /// How plain clients get answers unless their request says otherwise.
    pub plain_stream: PlainStream,
    /// Whether first snapshots of the coder profile carry the members in which the reference server keeps its state.
    pub emit_persisted_state: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardDefault {
    /// A card with the members of both versions.
    Hybrid,
    V1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainStream {
    /// Each answer of the model is sent when it is complete.
    Whole,
    Pieces,
}

/// The edition of 1.0 that defines the HTTP statuses of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestStatus {
    V100,
    V101,
}

impl Default for Switches {
    fn default() -> Switches {
        Switches {
            streaming: true,
            push: WEBHOOKS,
            push_rules: PushRules::default(),
            extended_card: false,
            required_extensions: Vec::new(),
            card_default: CardDefault::Hybrid,
            strict_version: false,
            rest_status: RestStatus::V101,
            default_profile_03: Profile::Plain,
            plain_lifecycle: Lifecycle::OneShot,
            plain_stream: PlainStream::Whole,
            emit_persisted_state: false,
        }
    }
}

/// Which webhooks the operator allows beside those on the public internet over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushRules {
    /// Allows URLs without TLS.
    pub allow_http: bool,
    /// Hosts that need neither TLS nor a public address.
    pub allow_hosts: Vec<String>,
    /// Allows all addresses, also those of this machine. For tests.
    pub allow_private: bool,
}
